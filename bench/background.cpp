// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What an end costs the thread that calls it, when a million destructors are to run: strings of 40 characters, each
// of which has memory of its own from malloc. Only the end is timed; what is put off is waited for before the next
// round.

#include <chrono>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <tenure/tenure.hpp>

#include "support.hpp"

namespace {

constexpr std::size_t      count = 1'000'000;
constexpr std::string_view text  = "forty characters are more than 15 and 23";

/// Times `end(make())`, and then does `after()`.
template <class Make, class End, class After>
void ends(benchmark::State& state, Make make, End end, After after) {
    for (auto _ : state) {
        auto       made  = make();
        auto const begin = bench::clock::now();
        end(made);
        state.SetIterationTime(bench::seconds(bench::clock::now() - begin).count());
        after();
    }
}
constexpr auto nothing = [] {};

void vector_of_strings(benchmark::State& state) {
    ends(
        state, [] { return std::make_optional<std::vector<std::string>>(count, std::string{text}); },
        [](auto& strings) { strings.reset(); }, nothing);
}

void unique_ptr(benchmark::State& state) {
    ends(
        state,
        [] {
            std::vector<std::unique_ptr<std::string>> strings;
            strings.reserve(count);
            for (std::size_t i = 0; i != count; ++i) strings.push_back(std::make_unique<std::string>(text));
            return std::make_optional(std::move(strings));
        },
        [](auto& strings) { strings.reset(); }, nothing);
}

// What one does by hand.
void vector_to_a_thread(benchmark::State& state) {
    std::thread other;
    ends(
        state, [] { return std::vector<std::string>(count, std::string{text}); },
        [&](auto& strings) {
            other = std::thread([ends_along = std::move(strings)]() mutable { std::exchange(ends_along, {}); });
        },
        [&] { other.join(); });
}

// No destructor is called, and all the characters are in the arena.
void pmr_arena(benchmark::State& state) {
    ends(
        state,
        [] {
            auto arena = std::make_unique<std::pmr::monotonic_buffer_resource>(count * 90);
            std::pmr::polymorphic_allocator<> const allocator{arena.get()};
            for (std::size_t i = 0; i != count; ++i) {
                auto const place = arena->allocate(sizeof(std::pmr::string), alignof(std::pmr::string));
                bench::use(::new (place) std::pmr::string{text, allocator});
            }
            return arena;
        },
        [](auto& arena) { arena.reset(); }, nothing);
}

void in_tenure(benchmark::State& state, tenure::reclamation how) {
    tenure::registry in{{.background_limit = std::size_t{1} << 30}};
    ends(
        state,
        [&] {
            auto batch = std::make_unique<tenure::batch_scope>(in, tenure::batch_options{.reclaim = how});
            for (std::size_t i = 0; i != count; ++i) bench::use(batch->make<std::string>(text));
            return batch;
        },
        [](auto& batch) { batch.reset(); }, [&] { in.drain(); });
}
void at_once(benchmark::State& state) { in_tenure(state, tenure::reclamation::at_once); }
void background(benchmark::State& state) { in_tenure(state, tenure::reclamation::background); }

void run(benchmark::internal::Benchmark* b) { b->UseManualTime()->Iterations(10)->Unit(benchmark::kMicrosecond); }

BENCHMARK(vector_of_strings)->Name("end_strings/vector")->Apply(run);
BENCHMARK(unique_ptr)->Name("end_strings/unique_ptr")->Apply(run);
BENCHMARK(vector_to_a_thread)->Name("end_strings/vector_to_a_thread")->Apply(run);
BENCHMARK(pmr_arena)->Name("end_strings/pmr_arena")->Apply(run);
BENCHMARK(at_once)->Name("end_strings/tenure")->Apply(run);
BENCHMARK(background)->Name("end_strings/tenure_background")->Apply(run);

}  // namespace
