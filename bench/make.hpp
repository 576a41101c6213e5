// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include <benchmark/benchmark.h>

#include "peer.hpp"

namespace bench {

/// Open a batch, make objects, end it.
template <peer P>
void make_end(benchmark::State& state) {
    auto const count = static_cast<std::size_t>(state.range(0));
    P          peer{{.objects = count, .bytes = count * sizeof(object)}};
    warm_then(state, [&] {
        typename P::batch batch{peer};
        make_objects(batch, count);
    });
    state.counters["objects"] = static_cast<double>(std::max<std::size_t>(count, 1));
}

inline constexpr unsigned    nested_batches = 8;
inline constexpr std::size_t nested_objects = 100;

template <peer P>
void nest(P& peer, typename P::batch& batch, unsigned levels) {
    make_objects(batch, nested_objects);
    if (levels == 1) return;
    typename P::batch inner{peer, batch};
    nest(peer, inner, levels - 1);
}

/// A batch in a batch in a batch ...: all are open at the deepest point.
template <peer P>
void nested(benchmark::State& state) {
    P peer{{.objects = nested_objects, .bytes = nested_objects * sizeof(object), .depth = nested_batches}};
    warm_then(state, [&] {
        typename P::batch outermost{peer};
        nest(peer, outermost, nested_batches);
    });
    state.counters["batches"] = nested_batches;
}

/// 300 * 300 * 300: a three-hop query's temporaries. The first round brings the memory in, the second is measured;
/// then the peer goes, and all it had: what that takes is the price of giving memory back.
template <peer P>
void huge(benchmark::State& state) {
    constexpr std::size_t count   = 27'000'000;
    constexpr std::size_t payload = count * sizeof(object);

    auto const       before = resident_bytes();
    std::optional<P> peer{std::in_place, capacity{.objects = count, .bytes = payload}};
    {
        typename P::batch warmth{*peer};
        make_objects(warmth, count);
    }
    for (auto _ : state) {
        auto const                       start = clock::now();
        std::optional<typename P::batch> batch{std::in_place, *peer};
        make_objects(*batch, count);
        auto const made     = clock::now();
        auto const resident = resident_bytes();
        auto const ending   = clock::now();
        batch.reset();
        auto const ended = clock::now();
        peer.reset();
        if constexpr (requires { P::trim(); }) P::trim();
        auto const returned = clock::now();

        state.SetIterationTime(seconds{made - start}.count());
        state.counters["end_ms"]      = seconds{ended - ending}.count() * 1e3;
        state.counters["returned_ms"] = seconds{returned - ending}.count() * 1e3;
        state.counters["memory"]      = static_cast<double>(resident - before) / static_cast<double>(payload);
    }
    state.counters["objects"] = static_cast<double>(count);
}

}  // namespace bench
