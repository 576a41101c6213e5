// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "demo/percentile.hpp"
#include "demo/progress_bar.hpp"
#include "demo/resident.hpp"
#include "figures.hpp"
#include "graph.hpp"
#include "query.hpp"

namespace package_graph {

using demo::percentile;
using demo::progress_bar;
using demo::resident_memory;

/// What to ask: by name, for the answers; the largest, for the time that one takes; and many, for how they are
/// spread.
struct workload {
    struct large_request {
        node_id       start;
        query_options how;
    };

    query_options              how;
    std::vector<node_id>       named;
    std::vector<large_request> large;
    std::vector<node_id>       stream;
};

inline constexpr std::size_t repeats_of_large = 5;

/// FNV-1a, a word at a time.
class digest {
public:
    void add(related const& r) {
        for (std::uint64_t const word : {std::uint64_t{r.package}, std::bit_cast<std::uint64_t>(r.score)}) {
            value_ = (value_ ^ word) * 0x100000001b3;
        }
    }
    std::string text() const {
        char digits[17];
        std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value_));
        return digits;
    }

private:
    std::uint64_t value_ = 0xcbf29ce484222325;
};

/// Asks, hands each result to `use`, and lets go of them. Returns the milliseconds until the answer was there.
template <class Memory, class Use>
double ask(query<Memory>& q, node_id start, Use use) {
    auto const             begin = clock::now();
    typename Memory::batch caller{{.name = "caller"}};
    auto const             best = q(caller, start);
    seconds const          took = clock::now() - begin;
    for (auto const& r : best) use(*r);
    q.totals().end(caller);
    return took.count() * 1000;
}

template <class Memory>
named_figures run_named(graph const& g, query<Memory>& q, node_id start) {
    named_figures f;
    auto const    before = q.totals().paths;
    f.start              = g.name(start);
    f.ms                 = ask(q, start, [&](related const& r) {
        f.related.push_back({g.name(r.package), r.score, {}});
        for (unsigned i = 0; i < r.steps; ++i) f.related.back().by_way_of.push_back(g.name(r.by_way_of[i]));
    });
    f.paths              = q.totals().paths - before;
    return f;
}

template <class Memory>
large_figures run_large(graph const& g, workload::large_request const& large) {
    query<Memory>       q{g, large.how};
    digest              answers;
    std::vector<double> ms;
    for (std::size_t i = 0; i < repeats_of_large; ++i) {
        ms.push_back(ask(q, large.start, [&](related const& r) { answers.add(r); }));
    }
    double const first = ms.front();
    return {g.name(large.start), large.how.replace, q.totals().paths / ms.size(), first,
            percentile(ms, 0.5), answers.text()};
}

template <class Memory>
stream_figures run_stream(graph const& g, workload const& work) {
    query<Memory>       q{g, work.how};
    digest              answers;
    std::vector<double> ms;
    progress_bar        bar{std::string{Memory::name} + ": random requests", work.stream.size()};
    auto const          begin = clock::now();
    for (node_id const start : work.stream) {
        ms.push_back(ask(q, start, [&](related const& r) { answers.add(r); }));
        bar.step();
    }
    seconds const total = clock::now() - begin;
    tally const&  t     = q.totals();
    return {ms.size(),
            t.paths,
            t.made,
            t.freed,
            total.count() * 1000,
            percentile(ms, 0.5),
            percentile(ms, 0.99),
            percentile(ms, 1),
            t.ending.count() * 1000,
            answers.text()};
}

template <class Memory>
figures run(graph const& g, workload const& work) {
    figures f;
    f.mode            = Memory::name;
    f.resident.before = resident_memory().now;
    query<Memory> q{g, work.how};
    for (node_id const start : work.named) f.named.push_back(run_named(g, q, start));
    for (auto const& large : work.large) f.large.push_back(run_large<Memory>(g, large));
    if (!work.stream.empty()) f.stream = run_stream<Memory>(g, work);
    f.resident.after = resident_memory().now;
    Memory::trim();
    f.resident.trimmed = resident_memory().now;
    f.resident.peak    = resident_memory().peak;
    return f;
}

}  // namespace package_graph
