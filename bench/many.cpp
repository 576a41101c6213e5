// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Calls that should cost what they touch, whatever else there is: a buffer in a batch with many stores, the end of
// one request among many, a snapshot. Records of batches are never returned, so each case has a process of its own.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>
#include <tenure/store/heap.hpp>
#include <tenure/tenure.hpp>

#include "support.hpp"

namespace {

using namespace std::chrono_literals;
using tenure::no_timeout;

/// Buffers of 64 bytes, made in turn in each of so many stores, and the end of their batch.
void buffers(benchmark::State& state) {
    constexpr std::size_t          count = 20'000;
    std::vector<tenure::any_store> stores(static_cast<std::size_t>(state.range(0)));
    for (auto& s : stores) s = std::make_shared<tenure::heap_store>();
    tenure::registry registry;
    for (auto _ : state) {
        tenure::batch_scope here{registry};
        for (std::size_t i = 0; i != count; ++i)
            bench::use(here.make_buffer<std::byte>(64, stores[i % stores.size()]).size());
    }
    state.counters["objects"] = static_cast<double>(count);
}
BENCHMARK(buffers)->Name("many/buffers")->ArgName("stores")->Arg(1)->Arg(2)->Arg(10)->Arg(1000);

/// What the registry of open_requests takes for the time.
std::atomic<std::uint64_t> now{1};

/// Requests that nobody ends meanwhile, as a server has them: detached, with a name.
struct open_requests {
    explicit open_requests(benchmark::State const& state) {
        for (auto i = state.range(0); i > 0; --i) registry.new_batch({.name = "request"});
    }

    /// Opens a request with a batch below it.
    tenure::batch_id open(std::chrono::nanoseconds timeout) {
        tenure::batch_id const request = registry.new_batch({.name = "request", .timeout = timeout});
        registry.new_batch({}, request);
        return request;
    }

    tenure::registry registry{
        {.clock = []() noexcept { return now.load(std::memory_order_relaxed); }, .on_leak = nullptr}};
};

constexpr std::size_t each = 100;

/// Times end(registry, request) for requests with a batch below each, one by one.
template <class End>
void ends(benchmark::State& state, bool timeout, End end) {
    open_requests                 many(state);
    std::vector<tenure::batch_id> requests(each);
    for (auto _ : state) {
        auto due = 0ns;
        for (auto& r : requests) r = many.open(timeout ? due += 1ns : no_timeout);
        auto const start = bench::clock::now();
        for (auto const r : requests) end(many.registry, r);
        state.SetIterationTime(bench::seconds(bench::clock::now() - start).count());
        if (many.registry.status(requests.back()) == tenure::batch_status::active) {
            state.SkipWithError("a request is still active");
            break;
        }
    }
    state.counters["objects"] = static_cast<double>(each);
}
void ended(benchmark::State& state) {
    ends(state, false, [](tenure::registry& in, tenure::batch_id r) { in.end_batch(r); });
}
void cancelled(benchmark::State& state) {
    ends(state, false, [](tenure::registry& in, tenure::batch_id r) { in.cancel(r); });
}
/// Each request expires in a call of its own.
void expired(benchmark::State& state) {
    ends(state, true, [](tenure::registry& in, tenure::batch_id) {
        now.fetch_add(1, std::memory_order_relaxed);
        in.expire_overdue();
    });
}

void open_ones(benchmark::internal::Benchmark* b) { b->ArgName("open")->Arg(1000)->Arg(100'000)->Arg(1'000'000); }
BENCHMARK(ended)->Name("many/end")->Apply(open_ones)->UseManualTime();
BENCHMARK(cancelled)->Name("many/cancel")->Apply(open_ones)->UseManualTime();
BENCHMARK(expired)->Name("many/expire")->Apply(open_ones)->UseManualTime();

void snapshot(benchmark::State& state) {
    open_requests const many(state);
    for (auto _ : state) {
        auto taken = many.registry.snapshot();
        benchmark::DoNotOptimize(taken.batches.data());
    }
}
void text(benchmark::State& state) {
    open_requests const many(state);
    auto const          taken = many.registry.snapshot();
    for (auto _ : state) {
        auto made = taken.to_text();
        benchmark::DoNotOptimize(made.data());
    }
}
void in_ms(benchmark::internal::Benchmark* b) {
    b->ArgName("open")->Arg(1000)->Arg(100'000)->Unit(benchmark::kMillisecond);
}
BENCHMARK(snapshot)->Name("many/snapshot")->Apply(in_ms);
BENCHMARK(text)->Name("many/text")->Apply(in_ms);

}  // namespace
