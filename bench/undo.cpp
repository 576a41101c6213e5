// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A batch of 1 GiB, of which one page in a hundred is changed between a checkpoint and its end, beside a copy of
// all of it. The pages are spread evenly, which is the worst; or in a row.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <tenure/tenure.hpp>

#include "disk.hpp"

namespace {

using bench::clock;
using bench::seconds;

constexpr std::size_t page = 4096, large = std::size_t{1} << 30;

struct kilobyte {
    std::uint64_t words[128];
};

struct filled_batch {
    tenure::registry            registry;
    tenure::batch_scope         batch{registry, {.name = "1 GiB"}};
    std::vector<std::uint64_t*> pages;

    filled_batch() {
        while (batch.usage().bytes < large) {
            auto* const at = batch.make<kilobyte>()->words;
            if (pages.empty() || reinterpret_cast<std::uintptr_t>(at) / page !=
                                     reinterpret_cast<std::uintptr_t>(pages.back()) / page)
                pages.push_back(at);
        }
    }

    void change(bool in_a_row) {
        std::size_t const n = pages.size() / 100;
        for (std::size_t i = 0; i < n; ++i) ++*pages[in_a_row ? pages.size() / 3 + i : i * 100 + 50];
    }
};

void checkpoints(benchmark::State& state, bool back, bool in_a_row) {
    filled_batch b;
    double       taking = 0, changing = 0, ending = 0;
    for (auto _ : state) {
        auto const start = clock::now();
        b.batch.checkpoint();
        auto const taken = clock::now();
        b.change(in_a_row);
        auto const changed = clock::now();
        if (back) b.batch.rollback();
        else b.batch.commit();
        auto const over = clock::now();
        taking += seconds(taken - start).count();
        changing += seconds(changed - taken).count();
        ending += seconds(over - changed).count();
        state.SetIterationTime(seconds(over - start).count());
    }
    auto const each = [&](double sum) {
        return benchmark::Counter(sum / static_cast<double>(state.iterations()) * 1e3);
    };
    state.counters["checkpoint_ms"]                    = each(taking);
    state.counters["changes_ms"]                       = each(changing);
    state.counters[back ? "rollback_ms" : "commit_ms"] = each(ending);
}

/// What it would cost to do it by hand, into memory that is there already.
void copy_all(benchmark::State& state) {
    filled_batch const b;
    void* const        to =
        ::mmap(nullptr, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    for (auto _ : state) {
        auto const start = clock::now();
        auto*      out   = static_cast<char*>(to);
        for (std::uint64_t const* const p : b.pages) {
            std::memcpy(out, reinterpret_cast<void const*>(reinterpret_cast<std::uintptr_t>(p) & ~(page - 1)),
                        page);
            out = out + page < static_cast<char*>(to) + large ? out + page : static_cast<char*>(to);
        }
        benchmark::ClobberMemory();
        state.SetIterationTime(seconds(clock::now() - start).count());
    }
    ::munmap(to, large);
}

[[maybe_unused]] bool const registered = [] {
    auto const add = [](char const* name, auto f) {
        benchmark::RegisterBenchmark(name, f)->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(10);
    };
    add("undo/memcpy", copy_all);
    add("undo/rollback/spread", [](benchmark::State& s) { checkpoints(s, true, false); });
    add("undo/rollback/in_a_row", [](benchmark::State& s) { checkpoints(s, true, true); });
    add("undo/commit/spread", [](benchmark::State& s) { checkpoints(s, false, false); });
    return true;
}();

}  // namespace
