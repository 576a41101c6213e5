// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <tenure/tenure.hpp>

#include "support.hpp"

namespace {

/// A pin of one batch on another one's object, taken and let go.
void pin(benchmark::State& state) {
    tenure::batch_scope owner;
    auto const          h = owner.make<bench::object>(1u);
    tenure::batch_scope user;
    for (auto _ : state) {
        auto const p = tenure::pin(h);
        benchmark::DoNotOptimize(p->id);
    }
}
BENCHMARK(pin)->Name("using/pin");

/// Access through a pin.
void pinned_access(benchmark::State& state) {
    tenure::batch_scope owner;
    auto const          p = tenure::pin(owner.make<bench::object>(1u));
    for (auto _ : state) benchmark::DoNotOptimize(p->id);
}
BENCHMARK(pinned_access)->Name("using/access");

/// A borrow of what the batch has borrowed before.
void borrow_again(benchmark::State& state) {
    tenure::batch_scope owner;
    auto const          h = owner.make<bench::object>(1u);
    tenure::batch_scope user;
    for (auto _ : state) benchmark::DoNotOptimize(user.borrow(h));
}
BENCHMARK(borrow_again)->Name("using/borrow_again");

/// Opened, one borrow, ended.
void borrow_and_end(benchmark::State& state) {
    tenure::batch_scope owner;
    auto const          h = owner.make<bench::object>(1u);
    for (auto _ : state) {
        tenure::batch_scope user;
        benchmark::DoNotOptimize(user.borrow(h));
    }
}
BENCHMARK(borrow_and_end)->Name("using/borrow_and_end");

enum class shape { alone, chain, ring };

/// The ends of n batches with an object each, which nobody uses, or each of which uses the one before it.
void ends(benchmark::State& state, shape shape, bool last_first) {
    auto const                                 n = static_cast<std::size_t>(state.range(0));
    tenure::registry                           r;
    std::vector<tenure::batch_id>              batches(n);
    std::vector<tenure::handle<std::uint64_t>> objects(n);
    for (auto _ : state) {
        for (std::size_t i = 0; i != n; ++i) {
            batches[i]      = r.new_batch();
            auto const here = r.enter(batches[i]);
            objects[i]      = tenure::make<std::uint64_t>(i);
            if (shape != shape::alone && i > 0) tenure::borrow(objects[i - 1]);
        }
        if (shape == shape::ring) r.borrow(batches[0], objects[n - 1]);
        auto const start = bench::clock::now();
        for (std::size_t i = 0; i != n; ++i) r.end_batch(batches[last_first ? n - 1 - i : i]);
        state.SetIterationTime(bench::seconds{bench::clock::now() - start}.count());
        if (objects[0].alive() || objects[n - 1].alive()) state.SkipWithError("something is left");
    }
    state.counters["objects"] = static_cast<double>(n);
}
[[maybe_unused]] bool const registered = [] {
    for (int const n : {100, 10'000}) {
        auto const add = [&](char const* name, shape s, bool last_first) {
            benchmark::RegisterBenchmark(("using/ends/" + std::string(name)).c_str(), ends, s, last_first)
                ->ArgName("objects")
                ->Arg(n)
                ->UseManualTime();
        };
        add("alone", shape::alone, false);
        add("chain", shape::chain, false);
        add("chain_last_first", shape::chain, true);
        add("ring", shape::ring, false);
    }
    return true;
}();

/// n batches call one object in turn, 10 times each, and end.
void interleaved(benchmark::State& state) {
    auto const                    n = static_cast<std::size_t>(state.range(0));
    tenure::registry              r;
    std::vector<tenure::batch_id> batches(n);
    for (auto _ : state) {
        tenure::batch_id const        owner = r.new_batch();
        tenure::handle<std::uint64_t> object;
        {
            auto const here = r.enter(owner);
            object          = tenure::make<std::uint64_t>(0u);
        }
        for (auto& b : batches) b = r.new_batch();
        auto const start = bench::clock::now();
        for (int turn = 0; turn != 10; ++turn)
            for (auto const b : batches) ++*r.borrow(b, object);
        r.end_batch(owner);
        for (auto const b : batches) r.end_batch(b);
        state.SetIterationTime(bench::seconds{bench::clock::now() - start}.count());
        if (object.alive()) state.SkipWithError("something is left");
    }
    state.counters["objects"] = static_cast<double>(n * 10);
}
BENCHMARK(interleaved)->Name("using/interleaved")->ArgName("batches")->Arg(10)->Arg(1000)->UseManualTime();

}  // namespace
