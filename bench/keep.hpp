// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "peer.hpp"

namespace bench {

/// Objects of 16 to 4096 bytes, and which of them are kept; the same for all peers, and on every machine.
struct mixture {
    std::vector<std::size_t> bytes;
    std::vector<std::size_t> kept;  // indices, ascending
    std::size_t              total      = 0;
    std::size_t              kept_total = 0;
};
mixture const& one_percent_kept();

/// Make them in one batch, keep 1 % into the batch around it, end both.
template <keeps P>
    requires makes_any_size<typename P::batch>
void mixed(benchmark::State& state) {
    auto const& all = one_percent_kept();
    using name      = decltype(make_bytes(std::declval<typename P::batch&>(), 16, 0));

    P                 peer{{.objects = all.bytes.size(), .bytes = all.total, .depth = 2}};
    std::vector<name> names(all.kept.size());
    warm_then(state, [&] {
        typename P::batch outer{peer};
        typename P::batch inner{peer, outer};
        std::size_t       next = 0;
        for (std::size_t i = 0; i != all.bytes.size(); ++i) {
            auto const made = make_bytes(inner, all.bytes[i], i);
            use(made);
            if (next != names.size() && all.kept[next] == i) names[next++] = made;
        }
        for (std::size_t i = 0; i != names.size(); ++i) {
            use(keep_object(inner, outer, names[i], all.kept[i], all.bytes[all.kept[i]]));
        }
    });
    state.counters["objects"] = static_cast<double>(all.bytes.size());
}

struct keep_times {
    seconds calls{};
    seconds ends{};  // of the batch they leave and of the one they enter
};

/// One round: makes objects of 64 bytes in a batch, chooses every so-many-th, keeps those by `keep_them(inner,
/// outer, chosen)`, ends both batches.
template <keeps P, class Names, class F>
keep_times keep_round(P& peer, Names& chosen, std::size_t count, F keep_them) {
    std::optional<typename P::batch> outer{std::in_place, peer};
    std::optional<typename P::batch> inner{std::in_place, peer, *outer};
    auto const                       every = count / chosen.size();
    for (std::size_t i = 0; i != count; ++i) {
        auto const made = make_object(*inner, i);
        if (i % every == 0) chosen[i / every] = made;
    }
    auto const start = clock::now();
    keep_them(*inner, *outer, chosen);
    auto const kept = clock::now();
    inner.reset();
    outer.reset();
    return {.calls = kept - start, .ends = clock::now() - kept};
}

/// The time of the calls; beside it, what the ends take with and without them, for a cheap call may put off work.
template <keeps P, class F>
void measure_keep(benchmark::State& state, F keep_them) {
    constexpr std::size_t count = 10'000;
    auto const            every = static_cast<std::size_t>(state.range(0));
    using batch                 = typename P::batch;
    using names                 = std::vector<decltype(make_object(std::declval<batch&>(), 0))>;

    P       peer{{.objects = count, .bytes = count * sizeof(object), .depth = 2}};
    names   chosen(count / every);
    seconds ends{}, ends_without{};
    keep_round(peer, chosen, count, keep_them);
    for (auto _ : state) {
        ends_without += keep_round(peer, chosen, count, [](batch&, batch&, names&) {}).ends;
        auto const times = keep_round(peer, chosen, count, keep_them);
        ends += times.ends;
        state.SetIterationTime(times.calls.count());
    }
    state.counters["objects"]         = static_cast<double>(chosen.size());
    state.counters["ends_ns"]         = {ends.count() * 1e9, benchmark::Counter::kAvgIterations};
    state.counters["ends_without_ns"] = {ends_without.count() * 1e9, benchmark::Counter::kAvgIterations};
}

/// One call an object.
template <keeps P>
void keep(benchmark::State& state) {
    measure_keep<P>(state,
                    [every = static_cast<std::size_t>(state.range(0))](auto& inner, auto& outer, auto& chosen) {
                        for (std::size_t i = 0; i != chosen.size(); ++i) {
                            use(keep_object(inner, outer, chosen[i], i * every, sizeof(object)));
                        }
                    });
}

/// One call for all.
template <keeps P>
void keep_range(benchmark::State& state) {
    measure_keep<P>(state, [](auto& inner, auto&, auto& chosen) { inner.keep_all(chosen); });
}

}  // namespace bench
