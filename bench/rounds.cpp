// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A loop of rounds, each of which makes objects that none of the others needs: in one batch that is cleared after
// each round, or in a batch of its own; and what it takes to give all of a batch, or all but some, to its parent.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <vector>

#include <benchmark/benchmark.h>
#include <tenure/tenure.hpp>

#include "support.hpp"

namespace {

using bench::object;

template <class Make>
void fill(std::size_t count, Make make) {
    for (std::uint64_t i = 0; i < count; ++i) bench::use(make(i));
}

std::size_t per_round(benchmark::State& state) {
    auto const n              = static_cast<std::size_t>(state.range(0));
    state.counters["objects"] = static_cast<double>(n ? n : 1);
    return n;
}

void cleared(benchmark::State& state) {
    std::size_t const   n = per_round(state);
    tenure::batch_scope b;
    for (auto _ : state) {
        fill(n, [&](std::uint64_t i) { return b.make<object>(i); });
        b.clear();
    }
}

void opened_anew(benchmark::State& state) {
    std::size_t const n = per_round(state);
    for (auto _ : state) {
        tenure::batch_scope b;
        fill(n, [&](std::uint64_t i) { return b.make<object>(i); });
    }
}

void released(benchmark::State& state) {
    std::size_t const                   n = per_round(state);
    bench::warm_buffer                  memory(n * sizeof(object) + 64);
    std::pmr::monotonic_buffer_resource b(memory.data(), n * sizeof(object) + 64);
    for (auto _ : state) {
        fill(n, [&](std::uint64_t i) { return ::new (b.allocate(sizeof(object), alignof(object))) object(i); });
        b.release();
    }
}

/// What a batch made is given to its parent, which is cleared afterwards: only the giving is timed.
template <class T, class Made, class Give>
void giving(benchmark::State& state, Made made, Give give) {
    auto const          n = static_cast<std::uint64_t>(state.range(0));
    tenure::batch_scope parent;
    for (auto _ : state) {
        {
            tenure::batch_scope b;
            for (std::uint64_t i = 0; i < n; ++i) made(i, b.make<T>(i));
            auto const start = std::chrono::steady_clock::now();
            give(b);
            state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        }
        parent.clear();
    }
}

template <class T>
void kept_whole(benchmark::State& state) {
    giving<T>(state, [](std::uint64_t, auto h) { bench::use(h); }, [](tenure::batch_scope& b) { b.keep_all(); });
}

/// Every hundredth object stays.
void kept_but(benchmark::State& state) {
    std::vector<tenure::handle<object>> staying;
    giving<object>(
        state,
        [&](std::uint64_t i, auto h) {
            if (i == 0) staying.clear();
            if (i % 100 == 0) staying.push_back(h);
        },
        [&](tenure::batch_scope& b) { b.keep_all_but(staying); });
}

/// One with an end.
struct ending : object {
    using object::object;
    ~ending() { bench::use(this); }
};

void sizes(benchmark::internal::Benchmark* b) { b->ArgName("objects")->Arg(0)->Arg(1)->Arg(1000)->Arg(100'000); }
void gives(benchmark::internal::Benchmark* b) {
    b->UseManualTime()->Iterations(200)->ArgName("objects")->Arg(10)->Arg(1'000'000);  // the makes take far longer
}

BENCHMARK(cleared)->Name("rounds/clear")->Apply(sizes);
BENCHMARK(opened_anew)->Name("rounds/scope")->Apply(sizes);
BENCHMARK(released)->Name("rounds/pmr_warm")->Apply(sizes);
BENCHMARK(kept_whole<object>)->Name("rounds/keep_all")->Apply(gives);
BENCHMARK(kept_whole<ending>)->Name("rounds/keep_all_ends")->Apply(gives);
BENCHMARK(kept_but)->Name("rounds/keep_all_but")->Apply(gives);

}  // namespace
