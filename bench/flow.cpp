// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What it costs that the current batch follows the flow of control, beside the same without a batch.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <benchmark/benchmark.h>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tenure/asio.hpp>
#include <tenure/tenure.hpp>

namespace {

namespace asio = boost::asio;

constexpr int resumptions = 1000;

asio::awaitable<void> resume_often() {
    for (int i = 0; i < resumptions; ++i) co_await asio::post(asio::use_awaitable);
}

template <class Executor>
void resume_on(benchmark::State& state, asio::io_context& io, Executor const& executor) {
    for (auto _ : state) {
        asio::co_spawn(executor, resume_often(), asio::detached);
        io.restart();
        io.run();
    }
    state.counters["objects"] = resumptions;
}

/// A coroutine that is resumed again and again by the context: nanoseconds are for 1,000 resumptions.
void resumption_plain(benchmark::State& state) {
    asio::io_context io{1};
    resume_on(state, io, io.get_executor());
}
BENCHMARK(resumption_plain)->Name("flow/resumption/asio")->Unit(benchmark::kMicrosecond);

void resumption_bound(benchmark::State& state) {
    asio::io_context    io{1};
    tenure::batch_owner batch(tenure::batch_options{});
    resume_on(state, io, tenure::bind_batch(io, batch));
}
BENCHMARK(resumption_bound)->Name("flow/resumption/bound")->Unit(benchmark::kMicrosecond);

/// As on the thread of the guard, where nothing is entered.
void resumption_bound_to_guard(benchmark::State& state) {
    asio::io_context    io{1};
    tenure::batch_scope batch;
    resume_on(state, io, tenure::bind_batch(io, batch));
}
BENCHMARK(resumption_bound_to_guard)->Name("flow/resumption/guard")->Unit(benchmark::kMicrosecond);

/// One call of a function, bare and with a batch of no thread.
void call_bound(benchmark::State& state) {
    tenure::batch_owner batch(tenure::batch_options{});
    std::uint64_t       n = 0;
    auto                f = tenure::bind_batch([&] { benchmark::DoNotOptimize(++n); }, batch.id());
    for (auto _ : state) f();
}
BENCHMARK(call_bound)->Name("flow/call/bound");

void call_entered(benchmark::State& state) {
    tenure::batch_owner batch(tenure::batch_options{});
    std::uint64_t       n = 0;
    for (auto _ : state) {
        tenure::entered const here = batch.enter();
        benchmark::DoNotOptimize(++n);
    }
}
BENCHMARK(call_entered)->Name("flow/call/enter");

/// Opens 100,000 batches with a timeout, then ends them; beside those without one. No deadline comes.
void arm_and_disarm(benchmark::State& state, bool timeout, bool watched) {
    constexpr std::size_t             many = 100'000;
    std::optional<tenure::supervisor> watch;
    if (watched) watch.emplace();
    tenure::batch_options options;
    if (timeout) options.timeout = std::chrono::hours(1);
    std::vector<tenure::batch_owner> all;
    all.reserve(many);
    for (auto _ : state) {
        for (std::size_t i = 0; i < many; ++i) all.emplace_back(options);
        all.clear();
    }
    state.counters["objects"] = static_cast<double>(many);
}
void no_timeout(benchmark::State& state) { arm_and_disarm(state, false, false); }
void unsupervised(benchmark::State& state) { arm_and_disarm(state, true, false); }
void supervised(benchmark::State& state) { arm_and_disarm(state, true, true); }
BENCHMARK(no_timeout)->Name("flow/batch/no_timeout")->Unit(benchmark::kMillisecond);
BENCHMARK(unsupervised)->Name("flow/batch/unsupervised")->Unit(benchmark::kMillisecond);
BENCHMARK(supervised)->Name("flow/batch/supervised")->Unit(benchmark::kMillisecond);

}  // namespace
