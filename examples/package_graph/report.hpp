// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "demo/table.hpp"
#include "figures.hpp"

namespace package_graph {

using demo::fixed;
using demo::grouped;
using demo::mebibytes;
using demo::milliseconds;
using demo::table;

inline constexpr double budget_ms = 300;

inline std::string percent(double share) { return fixed(share * 100, 2) + " %"; }

inline void print_named(std::ostream& out, named_figures const& f) {
    out << f.start << ": " << grouped(f.paths) << " paths, " << milliseconds(f.ms) << '\n';
    table       t{"rlrl"};
    std::size_t rank = 0;
    for (auto const& r : f.related) {
        std::string way;
        for (auto const& name : r.by_way_of) way += (way.empty() ? "by way of " : ", ") + name;
        t.row({std::to_string(++rank), r.package, percent(r.score), way});
    }
    if (f.related.empty()) t.row({"", "nothing depends on it, and it depends on nothing", "", ""});
    out << t << '\n';
}

inline std::string title(large_figures const& f) { return f.start + (f.replace ? ", with replacement" : ""); }

inline void print_large(std::ostream& out, std::vector<large_figures> const& large) {
    if (large.empty()) return;
    out << "The largest requests, against a budget of " << milliseconds(budget_ms) << " each\n";
    table t{"lrrrr"};
    t.row({"", "paths", "first", "median", "of budget"});
    for (auto const& f : large) {
        t.row({title(f), grouped(f.paths), milliseconds(f.first_ms), milliseconds(f.median_ms),
               fixed(f.median_ms / budget_ms * 100, 0) + " %"});
    }
    out << t << '\n';
}

inline void print_stream(std::ostream& out, stream_figures const& f) {
    if (f.requests == 0) return;
    out << grouped(f.requests) << " random requests\n";
    table t{"ll"};
    t.row({"latency", "p50 " + milliseconds(f.p50_ms) + ", p99 " + milliseconds(f.p99_ms) + ", max " +
                          milliseconds(f.max_ms)});
    t.row({"objects", grouped(f.made) + " made, " + grouped(f.freed) + " freed"});
    t.row({"ending batches", milliseconds(f.ending_ms) + " of " + milliseconds(f.total_ms) + ", " +
                                 fixed(f.ending_ms * 1e6 / static_cast<double>(f.requests), 0) + " ns a request"});
    out << t << '\n';
}

inline void print_memory(std::ostream& out, memory_figures const& f) {
    out << "Resident memory\n";
    table t{"lr"};
    t.row({"before", mebibytes(f.before)});
    t.row({"peak", mebibytes(f.peak)});
    t.row({"final", mebibytes(f.after)});
    t.row({"final, free memory given back", mebibytes(f.trimmed)});
    out << t << '\n';
}

inline void print(std::ostream& out, figures const& f) {
    for (auto const& named : f.named) print_named(out, named);
    print_large(out, f.large);
    print_stream(out, f.stream);
    print_memory(out, f.resident);
}

/// One column a mode.
inline void print_comparison(std::ostream& out, std::vector<figures> const& modes) {
    table      t{"l" + std::string(modes.size(), 'r')};
    auto const row = [&](std::string const& what, auto cell) {
        std::vector<std::string> cells{what};
        for (auto const& f : modes) cells.push_back(cell(f));
        t.row(std::move(cells));
    };
    row("", [](auto& f) { return f.mode; });
    for (std::size_t i = 0; i < modes.front().large.size(); ++i) {
        auto const& same = modes.front().large[i];
        row(title(same) + ", first", [&](auto& f) { return milliseconds(f.large[i].first_ms); });
        row(title(same) + ", median", [&](auto& f) { return milliseconds(f.large[i].median_ms); });
    }
    if (modes.front().stream.requests > 0) {
        auto const requests = grouped(modes.front().stream.requests) + " random requests";
        row(requests, [](auto& f) { return milliseconds(f.stream.total_ms); });
        row("  p50", [](auto& f) { return milliseconds(f.stream.p50_ms); });
        row("  p99", [](auto& f) { return milliseconds(f.stream.p99_ms); });
        row("  max", [](auto& f) { return milliseconds(f.stream.max_ms); });
        row("  objects made", [](auto& f) { return grouped(f.stream.made); });
        row("  ending batches", [](auto& f) { return milliseconds(f.stream.ending_ms); });
    }
    row("resident memory, peak", [](auto& f) { return mebibytes(f.resident.peak); });
    row("  final", [](auto& f) { return mebibytes(f.resident.after); });
    row("  final, given back", [](auto& f) { return mebibytes(f.resident.trimmed); });
    out << "The same requests, each mode in a process of its own\n" << t << '\n';
}

}  // namespace package_graph
