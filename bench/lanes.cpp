// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <benchmark/benchmark.h>
#include <tenure/tenure.hpp>

#include "support.hpp"
#include "threads.hpp"

namespace {

/// One batch, opened and ended on this thread; each thread makes 100,000 objects in it through a lane.
void lanes(benchmark::State& state) {
    constexpr std::size_t objects = 100'000;
    auto const            threads = static_cast<unsigned>(state.range(0));
    bench::team           workers{threads};
    for (auto _ : state) {
        auto const start = bench::clock::now();
        {
            tenure::batch_scope batch;
            workers.run([&](unsigned) {
                auto lane = batch.lane();
                for (std::uint64_t id = 0; id != objects; ++id) bench::use(lane.make<bench::object>(id));
            });
        }
        state.SetIterationTime(bench::seconds{bench::clock::now() - start}.count());
    }
    state.counters["objects"] = static_cast<double>(threads * objects);
}
BENCHMARK(lanes)->Name("lanes/tenure")->ArgName("threads")->Arg(1)->Arg(2)->UseManualTime();

}  // namespace
