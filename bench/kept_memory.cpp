// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What keeping 1 % costs in memory: of what is retained for the batch that kept it, how much do the kept objects
// fill, and how much can that batch make new objects in before it needs more?

#include <benchmark/benchmark.h>
#include <tenure/tenure.hpp>

#include "keep.hpp"
#include "support.hpp"

namespace {

struct alignas(16) granule {
    granule() noexcept {}
    std::byte bytes[16];
};

auto make_bytes(tenure::batch_scope& batch, std::size_t bytes) {
    return batch.make<granule[]>(bytes / sizeof(granule));
}

/// `next()` gives the sizes of the new objects.
template <class F>
void kept_memory(benchmark::State& state, F next) {
    auto const& all      = bench::one_percent_kept();
    double      filled   = 0;
    double      usable   = 0;
    double      retained = 0;
    for (auto _ : state) {
        tenure::batch_scope outer;
        outer.make<bench::object>(0u);  // who keeps results has something of its own
        {
            tenure::batch_scope                          inner;
            std::vector<decltype(make_bytes(inner, 16))> made;
            for (auto const bytes : all.bytes) made.push_back(make_bytes(inner, bytes));
            for (auto const i : all.kept) inner.keep(made[i]);
        }
        auto const before = outer.usage().retained;
        retained          = static_cast<double>(before);
        filled            = static_cast<double>(all.kept_total);
        usable            = 0;
        for (;;) {
            auto const bytes = next();
            make_bytes(outer, bytes);
            if (outer.usage().retained != before) break;
            usable += static_cast<double>(bytes);
        }
    }
    state.counters["payload"]  = filled;
    state.counters["retained"] = retained;
    state.counters["utilised"] = (filled + usable) / retained;
}

void small_objects(benchmark::State& state) {
    kept_memory(state, [] { return sizeof(bench::object); });
}
void same_sizes(benchmark::State& state) {
    kept_memory(state, [i = std::size_t{0}]() mutable {
        auto const& all = bench::one_percent_kept().bytes;
        return all[i++ % all.size()];
    });
}
BENCHMARK(small_objects)->Name("kept_memory/small_objects")->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(same_sizes)->Name("kept_memory/same_sizes")->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
