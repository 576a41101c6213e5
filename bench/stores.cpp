// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Stores, each beside what one would do without it.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include <benchmark/benchmark.h>
#include <tenure/store/any_store.hpp>
#include <tenure/store/dedup.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/tenure.hpp>

#include "stores.hpp"

namespace {

using tenure::block;

struct libc_malloc {
    static constexpr char const* name = "malloc";

    static void* allocate(std::size_t bytes) { return std::malloc(bytes); }
    static void  free(void* object) { std::free(object); }
};
auto const malloc_registered = bench::register_buffers<libc_malloc>();

/// As bench::heap_buffers; all end in one call.
void heap_store(benchmark::State& state) {
    tenure::heap_store store;
    std::vector<block> all(bench::buffers);
    bench::warm_then(state, [&] {
        for (auto& each : all) {
            each = store.allocate(bench::buffer_bytes, alignof(std::max_align_t)).value();
            bench::use(::new (store.address(each).value()) std::uint64_t{1});
        }
        store.deallocate(all).value();
    });
    state.counters["objects"] = static_cast<double>(bench::buffers);
}
BENCHMARK(heap_store)->Name("stores/buffers/heap_store")->Unit(benchmark::kMillisecond);

/// The same through buffer<T>; the batch's end is one call, too.
void heap_buffers(benchmark::State& state) {
    tenure::registry registry;
    bench::warm_then(state, [&] { bench::batch_of_buffers(registry, {}); });
    state.counters["objects"] = static_cast<double>(bench::buffers);
}
BENCHMARK(heap_buffers)->Name("stores/buffers/tenure")->Unit(benchmark::kMillisecond);

constexpr std::size_t few = 64, calls = 1000;

/// The cheapest call that a store answers: eight bytes out of one of a few blocks. The compiler does not know that
/// they are eight, or else it would make two moves of the copy where it sees through the call, and not elsewhere.
template <class Store>
void read(benchmark::State& state, Store store) {
    std::array<block, few> blocks;
    for (auto& each : blocks) each = store->allocate(64, 8).value();
    std::array<std::byte, 8> out{};
    std::size_t              bytes = out.size();
    benchmark::DoNotOptimize(bytes);
    for (auto _ : state) {
        for (std::size_t i = 0; i != calls; ++i) {
            auto const ok = store->read(blocks[i % few], 8, {out.data(), bytes}).has_value();
            bench::use(std::uint64_t{ok});
            bench::use(out);
        }
    }
    state.counters["objects"] = calls;
}

template <class Store>
void usage(benchmark::State& state, Store store) {
    for (auto _ : state) {
        for (std::size_t i = 0; i != calls; ++i) bench::use(std::uint64_t{store->usage().bytes});
    }
    state.counters["objects"] = calls;
}

void read_itself(benchmark::State& state) { read(state, std::make_shared<tenure::heap_store>()); }
void read_any(benchmark::State& state) {
    tenure::any_store any{std::make_shared<tenure::heap_store>()};
    read(state, &any);
}
void usage_itself(benchmark::State& state) { usage(state, std::make_shared<tenure::heap_store>()); }
void usage_any(benchmark::State& state) {
    tenure::any_store const any{std::make_shared<tenure::heap_store>()};
    usage(state, &any);
}
BENCHMARK(read_itself)->Name("stores/read/heap_store");
BENCHMARK(read_any)->Name("stores/read/any_store");
BENCHMARK(usage_itself)->Name("stores/usage/heap_store");
BENCHMARK(usage_any)->Name("stores/usage/any_store");

/// 100 different blocks, each stored 10,000 times: how much is held for them, and what storing one takes.
void dedup(benchmark::State& state) {
    constexpr std::size_t                                           different = 100, copies = 10'000;
    std::vector<std::array<std::uint64_t, bench::buffer_bytes / 8>> contents(different);
    std::mt19937_64                                                 random{1};
    for (auto& each : contents) std::ranges::generate(each, std::ref(random));
    std::vector<block> all;
    all.reserve(different * copies);
    for (auto _ : state) {
        auto const                              heap = std::make_shared<tenure::heap_store>();
        tenure::dedup_store<tenure::heap_store> store{heap};
        for (std::size_t i = 0; i != different * copies; ++i) {
            all.push_back(store.allocate(bench::buffer_bytes, alignof(std::max_align_t)).value());
            store.write(all.back(), 0, std::as_bytes(std::span{contents[i % different]})).value();
        }
        state.counters["stored"] =
            static_cast<double>(heap->usage().bytes) / static_cast<double>(different * bench::buffer_bytes);
        store.deallocate(all).value();
        all.clear();
    }
    state.counters["objects"] = static_cast<double>(different * copies);
}
BENCHMARK(dedup)->Name("stores/dedup/dedup_store")->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
