// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include <benchmark/benchmark.h>

#include "support.hpp"

namespace bench {

/// What a peer may prepare before it is measured: how much one batch will hold, and how many are open at once.
struct capacity {
    std::size_t objects = 0;
    std::size_t bytes   = 0;
    unsigned    depth   = 1;
};

/// One way to make objects that end together. A peer holds what outlives a batch: a buffer, a root pool. Each is
/// used as its own manual advises for speed, and reuses its memory from batch to batch where it can. A member type
/// `strictly_nested` says that a batch can make nothing while another is open inside it; a static `trim()` gives
/// the system what is free once the peer itself is gone.
template <class P>
concept peer = std::constructible_from<P, capacity> && requires {
    { P::name } -> std::convertible_to<char const*>;
    // Opens, alone or inside another that ends later; the destructor ends it.
    requires std::constructible_from<typename P::batch, P&>;
    requires std::constructible_from<typename P::batch, P&, typename P::batch&>;
};

/// Makes one object; returns what the peer names it by. A batch has either a typed `make` or a raw `allocate`.
template <class Batch>
[[gnu::always_inline]] inline auto make_object(Batch& batch, std::uint64_t id) {
    if constexpr (requires { batch.make(id); }) {
        return batch.make(id);
    } else {
        return ::new (batch.allocate(sizeof(object))) object{id};
    }
}

template <class Batch>
[[gnu::always_inline]] inline void make_objects(Batch& batch, std::size_t count) {
    for (std::uint64_t id = 0; id != count; ++id) use(make_object(batch, id));
}

/// Runs a round once to bring memory in, then measures rounds. Afterwards the compiler must think that somebody
/// looks at what they left in memory.
template <class F>
void warm_then(benchmark::State& state, F round) {
    round();
    for (auto _ : state) {
        round();
        benchmark::ClobberMemory();
    }
}

template <class Batch>
concept makes_any_size = requires(Batch& b) { b.allocate(16); } || requires(Batch& b) { b.make_bytes(16, 0); };

/// As make_object, with any multiple of 16 bytes, of which the first 8 are written.
template <makes_any_size Batch>
auto make_bytes(Batch& batch, std::size_t bytes, std::uint64_t id) {
    if constexpr (requires { batch.make_bytes(bytes, id); }) {
        return batch.make_bytes(bytes, id);
    } else {
        return ::new (batch.allocate(bytes)) std::uint64_t{id};
    }
}

/// An object can outlive the batch that made it, in the batch around that.
template <class P>
concept keeps = peer<P> && !requires { typename P::strictly_nested; };

/// Lets the index-th object of `inner` outlive it, in `outer`: by the peer's own means, or else by a copy.
template <class Batch, class Name>
auto keep_object(Batch& inner, Batch& outer, Name name, std::size_t index, std::size_t bytes) {
    if constexpr (requires { inner.keep(outer, name, index); }) {
        return inner.keep(outer, name, index);
    } else {
        return std::memcpy(outer.allocate(bytes), name, bytes);
    }
}

}  // namespace bench
