// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The first large request of a registry: cold, after registry::warm(), and beside a later one.

#include <cstddef>
#include <cstdint>

#include <benchmark/benchmark.h>
#include <tenure/tenure.hpp>

#include "support.hpp"

namespace {

constexpr std::size_t count = 1'000'000;
constexpr std::size_t bytes = count * sizeof(bench::object) / 16 * 17;

void serve(tenure::registry& registry) {
    tenure::batch_scope request(registry);
    for (std::uint64_t i = 0; i != count; ++i) bench::use(request.make<bench::object>(i));
}

template <class F>
double seconds_of(F f) {
    auto const begin = bench::clock::now();
    f();
    return bench::seconds(bench::clock::now() - begin).count();
}

/// Times a request after `prepare()`, each in a registry of its own.
template <class Prepare>
void request(benchmark::State& state, Prepare prepare) {
    for (auto _ : state) {
        tenure::registry registry;
        prepare(registry);
        state.SetIterationTime(seconds_of([&] { serve(registry); }));
    }
    state.counters["objects"] = count;
}
void cold(benchmark::State& state) {
    request(state, [](tenure::registry&) {});
}
void after_warm(benchmark::State& state) {
    request(state, [](tenure::registry& r) { r.warm(bytes); });
}
void later(benchmark::State& state) { request(state, serve); }

/// The warming itself.
void warm(benchmark::State& state) {
    for (auto _ : state) {
        tenure::registry registry;
        state.SetIterationTime(seconds_of([&] { registry.warm(bytes); }));
    }
    state.counters["objects"] = count;
}

void often(benchmark::internal::Benchmark* b) { b->UseManualTime()->Iterations(50)->Unit(benchmark::kMillisecond); }
BENCHMARK(cold)->Name("warm/first/cold")->Apply(often);
BENCHMARK(after_warm)->Name("warm/first/after_warm")->Apply(often);
BENCHMARK(later)->Name("warm/later")->Apply(often);
BENCHMARK(warm)->Name("warm/warm")->Apply(often);

}  // namespace
