// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <tenure/tenure.hpp>

#include "peer.hpp"

namespace bench {

inline constexpr std::size_t buffers      = 100'000;
inline constexpr std::size_t buffer_bytes = 4096;

/// 100,000 buffers of 4 KiB, one write in each, in a batch.
inline void batch_of_buffers(tenure::registry& in, tenure::any_store const& store) {
    tenure::batch_scope batch{in};
    for (std::size_t i = 0; i != buffers; ++i) {
        auto const all = batch.make_buffer<std::byte>(buffer_bytes, store).map();
        use(::new (all.data()) std::uint64_t{1});
    }
}

/// 100,000 buffers of 4 KiB are made, one write in each, and end: a heap's part of the theme.
template <class Heap>
void heap_buffers(benchmark::State& state) {
    std::vector<void*> all(buffers);
    warm_then(state, [&] {
        for (auto& each : all) {
            each = Heap::allocate(buffer_bytes);
            use(::new (each) std::uint64_t{1});
        }
        for (auto const each : all) Heap::free(each);
    });
    state.counters["objects"] = static_cast<double>(buffers);
}

template <class Heap>
bool register_buffers() {
    auto const name = std::string{"stores/buffers/"} + Heap::name;
    benchmark::RegisterBenchmark(name.c_str(), heap_buffers<Heap>)->Unit(benchmark::kMillisecond);
    return true;
}

}  // namespace bench
