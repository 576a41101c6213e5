// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What it costs to reserve room and release it while there is some, and how soon one that waits goes on, in this
// process and in another that shares the machine. The peers
// are a counter that refuses, which is what RMM's limiting adaptor is, and a semaphore, on which one can wait.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <benchmark/benchmark.h>
#include <tenure/arbiter.hpp>
#include <tenure/budget.hpp>

#include "child.hpp"
#include "disk.hpp"
#include "support.hpp"

namespace {

constexpr std::size_t GiB = std::size_t{1} << 30;

void reserved(benchmark::State& state) {
    tenure::memory_budget budget{{.capacity = GiB}};
    for (auto _ : state) {
        tenure::reservation const room = budget.reserve({.kind = "query", .bytes = 1 << 20});
        benchmark::DoNotOptimize(room.bytes());
    }
}

void reserved_of_a_share(benchmark::State& state) {
    bench::scratch_directory const where;
    tenure::machine_arbiter const  arbiter({.directory = where.path()});
    tenure::memory_budget          budget{arbiter, {.job = "bench"}};
    budget.reserve({.kind = "query", .bytes = 1 << 20}).release();
    for (auto _ : state) {
        tenure::reservation const room = budget.reserve({.kind = "query", .bytes = 1 << 20});
        benchmark::DoNotOptimize(room.bytes());
    }
}

void reserved_for_a_batch(benchmark::State& state) {
    tenure::memory_budget budget{{.capacity = GiB}};
    for (auto _ : state) {
        auto                room = budget.reserve({.kind = "query", .bytes = 1 << 20});
        tenure::batch_scope b{{.reservation = std::move(room)}};
        bench::use(b.make<bench::object>(1));
    }
}

void limited_batch(benchmark::State& state) {
    for (auto _ : state) {
        tenure::batch_scope b{{.limits = {.hard = 1 << 20}}};
        bench::use(b.make<bench::object>(1));
    }
}

void counted(benchmark::State& state) {
    std::atomic<std::size_t> in_use{0};
    for (auto _ : state) {
        if (in_use.fetch_add(1 << 20) > GiB) std::abort();
        benchmark::DoNotOptimize(in_use);
        in_use.fetch_sub(1 << 20);
    }
}

void semaphore(benchmark::State& state) {
    std::counting_semaphore<> room(1 << 20);
    for (auto _ : state) {
        room.acquire();
        benchmark::DoNotOptimize(room);
        room.release();
    }
}

/// Of so many seconds each.
void count_quantiles(benchmark::State& state, std::vector<double>& all) {
    std::ranges::sort(all);
    state.counters["p50_us"] = all[all.size() / 2] * 1e6;
    state.counters["p99_us"] = all[all.size() * 99 / 100] * 1e6;
}

/// From a release to the moment when the thread that waited for it goes on: the mean as the time, and the
/// quantiles.
void woken(benchmark::State& state) {
    using clock = std::chrono::steady_clock;
    tenure::memory_budget      budget{{.capacity = GiB}};
    std::vector<double>        all;
    std::atomic<std::uint64_t> round{0};
    std::atomic<bool>          over{false};
    std::atomic<std::int64_t>  began{0};
    std::thread                waits([&] {
        for (std::uint64_t seen = 0; !over;) {
            if (round == seen) {
                std::this_thread::yield();
                continue;
            }
            ++seen;
            auto const room = budget.reserve({.kind = "waits", .bytes = GiB / 2 + 1});
            began           = clock::now().time_since_epoch().count();
        }
    });
    for (auto _ : state) {
        std::optional<tenure::reservation> room = budget.reserve({.kind = "has", .bytes = GiB / 2 + 1});
        began                                   = 0;
        ++round;
        while (budget.figures().waiting == 0) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::microseconds(100));  // until it sleeps
        auto const released = clock::now().time_since_epoch().count();
        room.reset();
        while (began == 0) std::this_thread::yield();
        double const took = static_cast<double>(began - released) * 1e-9;
        all.push_back(took);
        state.SetIterationTime(took);
    }
    over = true;
    waits.join();
    count_quantiles(state, all);
}

/// As woken(), but it is another process that waits, which has to be given what this one releases.
void woken_elsewhere(benchmark::State& state) {
    using clock = std::chrono::steady_clock;
    bench::scratch_directory const where;
    tenure::machine_arbiter const  arbiter({.directory = where.path(), .bytes = GiB});
    int                            begin[2], began[2];
    bench::check(::pipe(begin) == 0 && ::pipe(began) == 0, "pipe");
    auto const none = [] { return tenure::memory_use{}; };
    char       c    = 0;
    {
        bench::child const    waits([&] {
            tenure::memory_budget budget{arbiter, {.job = "waits"}, {.in_use = none}};
            while (::read(begin[0], &c, 1) == 1) {
                auto const         room = budget.reserve({.kind = "waits", .bytes = GiB / 4 * 3});
                std::int64_t const now  = clock::now().time_since_epoch().count();
                if (::write(began[1], &now, sizeof now) != sizeof now) return;
            }
        });
        tenure::memory_budget budget{arbiter, {.job = "has"}, {.in_use = none}};
        std::vector<double>   all;
        for (auto _ : state) {
            std::optional<tenure::reservation> room = budget.reserve({.kind = "has", .bytes = GiB / 4 * 3});
            bench::check(::write(begin[1], &c, 1) == 1, "write");
            std::this_thread::sleep_for(std::chrono::milliseconds(5));  // until it waits
            auto const   released = clock::now().time_since_epoch().count();
            std::int64_t at       = 0;
            room.reset();
            bench::check(::read(began[0], &at, sizeof at) == sizeof at, "read");
            double const took = static_cast<double>(at - released) * 1e-9;
            all.push_back(took);
            state.SetIterationTime(took);
        }
        count_quantiles(state, all);
    }
    for (int const fd : {begin[0], begin[1], began[0], began[1]}) ::close(fd);
}

/// From the death of a process that has three quarters of a machine to the moment when another that waits has them.
void woken_by_a_crash(benchmark::State& state) {
    using clock = std::chrono::steady_clock;
    bench::scratch_directory const where;
    tenure::machine_arbiter const  arbiter({.directory = where.path(), .bytes = GiB});
    auto const                     none = [] { return tenure::memory_use{}; };
    int                            ready[2];
    bench::check(::pipe(ready) == 0, "pipe");
    std::vector<double> all;
    for (auto _ : state) {
        char                        c = 0;
        std::optional<bench::child> dies(std::in_place, [&] {
            tenure::memory_budget budget{arbiter, {.job = "dies"}, {.in_use = none}};
            auto const            room = budget.reserve({.kind = "has", .bytes = GiB / 4 * 3});
            if (::write(ready[1], &c, 1) == 1) ::pause();
        });
        bench::check(::read(ready[0], &c, 1) == 1, "read");
        tenure::memory_budget     budget{arbiter, {.job = "waits"}, {.in_use = none}};
        std::atomic<std::int64_t> began{0};
        std::jthread const        waits([&] {
            auto const room = budget.reserve({.kind = "waits", .bytes = GiB / 4 * 3});
            began           = clock::now().time_since_epoch().count();
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(5));  // until it waits
        auto const died = clock::now().time_since_epoch().count();
        dies.reset();
        while (began == 0) std::this_thread::yield();
        double const took = static_cast<double>(began - died) * 1e-9;
        all.push_back(took);
        state.SetIterationTime(took);
    }
    count_quantiles(state, all);
    for (int const fd : ready) ::close(fd);
}

}  // namespace

BENCHMARK(counted)->Name("budget/counter");
BENCHMARK(semaphore)->Name("budget/semaphore");
BENCHMARK(reserved)->Name("budget/reserve");
BENCHMARK(reserved_of_a_share)->Name("budget/reserve/share");
BENCHMARK(limited_batch)->Name("budget/batch/limit");
BENCHMARK(reserved_for_a_batch)->Name("budget/batch/reservation");
BENCHMARK(woken)->Name("budget/wake")->UseManualTime()->Iterations(2000);
BENCHMARK(woken_elsewhere)->Name("budget/wake/elsewhere")->UseManualTime()->Iterations(500);
BENCHMARK(woken_by_a_crash)->Name("budget/wake/crash")->UseManualTime()->Iterations(200);
