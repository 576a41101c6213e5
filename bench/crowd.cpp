// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Processes that together want more memory than there is, in a cgroup with a limit: what the kernel does to them,
// who kills one and has it begin again, and what they do with budgets.

#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <benchmark/benchmark.h>
#include <tenure/arbiter.hpp>

#include "../tests/small_cgroup.hpp"
#include "disk.hpp"
#include "support.hpp"

namespace {

constexpr std::size_t MiB  = 1 << 20;
constexpr std::size_t jobs = 12, of_one = 64 * MiB, of_all = 256 * MiB;

/// Half a second of work on one core: it takes its memory MiB by MiB, and looks at all of it each time.
void work() {
    std::unique_ptr<char[]> const all(new char[of_one]);
    for (std::size_t at = 0; at < of_one; at += MiB) {
        std::memset(all.get() + at, static_cast<int>(at / MiB), MiB);
        for (std::size_t i = 0; i <= at; i += 64) benchmark::DoNotOptimize(all[i]);
    }
}

/// Starts all jobs at once; when the last has ended, those that were killed, until each has come to its end. (If
/// they began again at once none would ever end: the kernel kills who has most.)
void crowd(benchmark::State& state, bool budgets) {
    small_cgroup const group(of_all);
    if (!group) return state.SkipWithError("no memory cgroup can be made here");
    bench::scratch_directory const where;
    std::size_t                    killed = 0;
    auto const                     start  = [&] {
        ::pid_t const pid = ::fork();
        bench::check(pid >= 0, "fork");
        if (pid != 0) return;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!group.join()) ::_exit(1);
        if (budgets) {
            // A sixteenth is for what the processes are themselves.
            tenure::machine_arbiter const arbiter({.directory = where.path(), .bytes = of_all / 16 * 15});
            tenure::memory_budget         budget{arbiter, {.job = "job"}};
            auto const                    room = budget.reserve({.kind = "job", .bytes = of_one});
            work();
        } else {
            work();
        }
        ::_exit(0);
    };
    for (auto _ : state) {
        for (std::size_t left = jobs; left > 0;) {
            for (std::size_t i = 0; i < left; ++i) start();
            std::size_t lost = 0;
            for (std::size_t i = 0; i < left; ++i) {
                int status = 0;
                bench::check(::wait(&status) > 0, "wait");
                if (WIFSIGNALED(status)) ++lost;
                else bench::check(WEXITSTATUS(status) == 0, "a job failed");
            }
            left = lost;
            killed += lost;
        }
    }
    state.counters["killed"] = benchmark::Counter(static_cast<double>(killed), benchmark::Counter::kAvgIterations);
}

}  // namespace

BENCHMARK_CAPTURE(crowd, limit, false)->Name("budget/crowd/cgroup")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(crowd, budgets, true)->Name("budget/crowd/budgets")->Unit(benchmark::kMillisecond)->UseRealTime();
