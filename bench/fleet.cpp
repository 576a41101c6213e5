// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What a memory manager's cycle costs with 1.6 million buffers in 1,000 stores, which are simulated: what it
// decides is measured, and not what copying takes. The peer walks over all buffers in every cycle, as Dask's active
// memory manager does (which does it in Python).

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <benchmark/benchmark.h>
#include <malloc.h>
#include <tenure/fleet/planner.hpp>
#include <tenure/fleet/policies.hpp>

#include "support.hpp"

namespace {

using tenure::detail::judge;
using clock = std::chrono::steady_clock;

constexpr std::uint32_t buffers = 1'600'000;
constexpr std::uint16_t stores  = 1'000;
constexpr std::size_t   bytes   = 1 << 20;

/// A group with all the policies that there are, at rest.
struct fleet {
    explicit fleet(std::size_t copies) {
        for (std::uint16_t s = 0; s < stores; ++s)
            core.state.add_store("store " + std::to_string(s), 4 * bytes * (buffers / stores));
        for (std::uint32_t b = 0; b < buffers; ++b)
            core.state.add_buffer(bytes, static_cast<std::uint16_t>(b % stores));
        planner.add(tenure::retire_store{});
        planner.add(tenure::keep_replicas(copies));
        planner.add(tenure::promote_demanded{});
        planner.add(tenure::reduce_replicas{copies});
        planner.add(tenure::relieve_full_stores{});
        planner.add(tenure::fill_new_store{});
        planner.add(tenure::rebalance{});
    }

    void cycle() {
        planner.run(core, {.most_decisions = 0}, [](std::uint32_t) {});
    }

    /// Carries out all orders, as if copying took no time.
    void carry_out() {
        auto const freed = [](std::uint32_t) {};
        for (judge::order o; !core.orders.empty(); core.orders.pop_front()) {
            o = core.orders.front();
            if (o.what == judge::order::kind::drop) core.proposals.carry_out_drop(o.replica, freed);
            else if (core.state.begin_copy(o.replica, freed) != core.state.none)
                core.state.finish_copy(o.replica, true, freed);
        }
    }
    void rest() {
        for (int i = 0; i < 15; ++i) {
            cycle();
            carry_out();
        }
    }

    tenure::detail::fleet_core core;
    tenure::detail::planner    planner;
};

void nothing_changed(benchmark::State& state) {
    fleet f(1);
    f.rest();
    for (auto _ : state) f.cycle();
}

/// Of every thousandth buffer somebody wants a second copy, then none any more.
void few_changed(benchmark::State& state) {
    fleet f(1);
    f.rest();
    std::uint32_t want = 2;
    for (auto _ : state) {
        for (std::uint32_t b = 0; b < buffers; b += 1000) f.core.state.declare(b, want);
        auto const begun = clock::now();
        f.cycle();
        state.SetIterationTime(std::chrono::duration<double>(clock::now() - begun).count());
        f.rest();
        want = 3 - want;
    }
}

/// A copy more of all buffers, while another thread asks for buffers: how long it waits at most.
void all_changed(benchmark::State& state) {
    double longest = 0, all = 0, cycles = 0;
    for (auto _ : state) {
        fleet             f(2);
        std::atomic<bool> over{false};
        double            waited = 0;
        std::thread       reader([&] {
            for (std::uint32_t b = 0; !over; b = (b + 7919) % buffers) {
                auto const begun = clock::now();
                {
                    std::scoped_lock const guard(f.core.mutex);
                    f.core.state.end_read(f.core.state.begin_read(b), [](std::uint32_t) {});
                }
                auto const came = clock::now();
                waited          = std::max(waited, std::chrono::duration<double>(came - begun).count());
                std::this_thread::sleep_for(std::chrono::microseconds(20));
            }
        });
        auto const        begun = clock::now();
        f.cycle();
        double const took = std::chrono::duration<double>(clock::now() - begun).count();
        over              = true;
        reader.join();
        state.SetIterationTime(took);
        longest = std::max(longest, waited);
        all += waited, ++cycles;
    }
    state.counters["wait_ms"]      = 1e3 * all / cycles;
    state.counters["wait_most_ms"] = 1e3 * longest;
}

void memory(benchmark::State& state) {
    double each = 0;
    for (auto _ : state) {
        std::size_t const before = mallinfo2().uordblks + mallinfo2().hblkhd;
        fleet             f(static_cast<std::size_t>(state.range(0)));
        f.rest();
        std::size_t const after = mallinfo2().uordblks + mallinfo2().hblkhd;
        each = static_cast<double>(after - before) / (buffers * static_cast<double>(state.range(0)));
        state.SetIterationTime(1e-9 * each);
    }
    state.counters["bytes_each"] = each;
}

/// All buffers and their copies are looked at, whatever has changed.
void peer_walks(benchmark::State& state) {
    struct task {
        std::vector<std::uint16_t> has;
        std::uint32_t              wanted = 1;
    };
    std::unordered_map<std::string, std::unique_ptr<task>> all;
    for (std::uint32_t b = 0; b < buffers; ++b)
        all["task-" + std::to_string(b)] = std::make_unique<task>(task{{static_cast<std::uint16_t>(b % stores)}});
    for (auto _ : state) {
        std::size_t surplus = 0;
        for (auto const& [name, t] : all)
            if (t->has.size() > t->wanted) surplus += t->has.size() - t->wanted;
        benchmark::DoNotOptimize(surplus);
    }
}

BENCHMARK(nothing_changed)->Name("fleet/nothing_changed")->Unit(benchmark::kMicrosecond);
BENCHMARK(few_changed)->Name("fleet/few_changed")->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(20);
BENCHMARK(all_changed)->Name("fleet/all_changed")->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(1);
BENCHMARK(memory)->Name("fleet/memory")->ArgName("copies")->Arg(1)->Arg(2)->Iterations(1)->UseManualTime();
BENCHMARK(peer_walks)->Name("fleet/peer_walks_over_all")->Unit(benchmark::kMillisecond);

}  // namespace
