// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// report DIRECTORY: reads what bench/run left there, prints two tables, and writes results.json and chart.gnuplot.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <boost/json/src.hpp>

#include "figures.hpp"
#include "results.hpp"

namespace {

using number = std::optional<double>;
using bench::format;

void print_machine(bench::results const& all) {
    auto const text = [&](char const* key) {
        auto const value = all.context().if_contains(key);
        return value && value->is_string() ? value->as_string().c_str() : "unknown";
    };
    std::printf("%s, %s, transparent huge pages: %s\n%s\n", text("cpu"), text("kernel"), text("huge_pages"),
                text("compiler"));
    std::printf("Medians. One thread: its CPU time; several, or a few milliseconds once: wall clock.\n");
}

/// How many rows miss their figure.
std::size_t print_figures(bench::results const& all) {
    std::printf("\n%-50s %12s %12s\n", "figure", "to reach", "measured");
    std::size_t missed = 0;
    for (auto const& row : bench::figures(all)) {
        auto const limit = format("%s %g %s", row.at_least ? ">=" : "<=", row.limit, row.unit.c_str());
        auto const value = row.measured ? format("%.3g %s", *row.measured, row.unit.c_str()) : "-";
        auto const how   = !row.measured ? "not measured" : row.ok() ? "ok" : "MISSED";
        std::printf("%-50s %12s %12s  %-7s %s\n", row.what.c_str(), limit.c_str(), value.c_str(), how,
                    row.from.c_str());
        missed += !row.ok();
    }
    return missed;
}

struct column {
    char const* title;
    std::string before;  // the peer's name stands between the two
    std::string after;
    char const* figure = "ns";
    double      scale  = 1;

    number of(bench::results const& all, std::string const& peer) const {
        auto const value = all.median(before + '/' + peer + after, figure);
        return value ? number{*value * scale} : value;
    }
};

/// Each cell: how many times tenure's figure, then the figure.
void print_peers(bench::results const& all) {
    static std::vector<std::vector<column>> const tables{
        {{"make+end 1,000, ns", "make_end", "/objects:1000"},
         {"one object, ns", "make_end", "/objects:1"},
         {"empty, ns", "make_end", "/objects:0"},
         {"8 nested, ns", "nested", ""},
         {"keep 10th, ns", "keep", "/every:10"},
         {"1 % kept, ms", "mixed", "", "ns", 1e-1}},  // 100,000 objects
        {{"make 27M, ns", "huge", ""},
         {"end 27M, ms", "huge", "", "end_ms"},
         {"returned, ms", "huge", "", "returned_ms"},
         {"memory, x payload", "huge", "", "memory"},
         {"strings, ms", "strings", "", "ns", 1e-6},
         {"end elsewhere, ns", "end_elsewhere", "/objects:1000/threads:2"}}};
    for (auto const& columns : tables) {
        auto peers = all.peers("make_end");
        std::ranges::sort(peers, {}, [&](auto const& peer) { return columns[0].of(all, peer).value_or(1e9); });
        std::printf("\n%-15s", "x tenure, figure");
        for (auto const& each : columns) std::printf(" %19s", each.title);
        std::printf("\n");
        for (auto const& peer : peers) {
            std::printf("%-16s", peer.c_str());
            for (auto const& each : columns) {
                auto const value = each.of(all, peer), own = each.of(all, "tenure");
                auto const cell = !value ? std::string{"-"}
                                  : own  ? format("%.2f %10.4g", *value / *own, *value)
                                         : format("- %10.4g", *value);
                std::printf(" %19s", cell.c_str());
            }
            std::printf("\n");
        }
    }
}

void print_instructions(bench::results const& all) {
    std::printf("\ninstructions an operation\n");
    for (auto const* theme : {"make", "open_end", "open_make_end", "keep", "access"}) {
        for (auto const& peer : all.peers(std::string{"instructions/"} + theme)) {
            auto const name = std::string{theme} + '/' + peer;
            std::printf("    %-30s %8.1f\n", name.c_str(), *all.median("instructions/" + name, "instructions"));
        }
    }
}

/// Each theme of stores, and in it whatever does the same.
void print_stores(bench::results const& all) {
    struct theme {
        char const* name;
        char const* title;
        double      scale;
    };
    static theme const themes[] = {
        {"buffers", "100,000 buffers of 4 KiB, made, touched and ended: ns each", 1},
        {"scratch", "the same in a scratch file, and in a file each: ns each", 1},
        {"read", "8 bytes read from a block: ns", 1},
        {"usage", "usage(): ns", 1},
        {"durable", "1,000 blocks of 64 KiB, written and brought to the disk: us each", 1e-3},
        {"dedup", "10,000 copies of 100 blocks of 4 KiB, stored and freed: ns each", 1}};
    std::printf("\nstores\n");
    for (auto const& each : themes) {
        auto const prefix = std::string{"stores/"} + each.name;
        std::printf("    %s\n", each.title);
        for (auto const& peer : all.peers(prefix)) {
            std::printf("        %-26s %12.4g\n", peer.c_str(), *all.median(prefix + '/' + peer) * each.scale);
        }
    }
}

void print_paging(bench::results const& all) {
    struct theme {
        char const* name;
        char const* title;
    };
    static theme const themes[] = {
        {"out", "1 GiB of slabs that changed, to the page file; the same bytes by pwrite: ms (the first time: ms)"},
        {"touch", "then every page read; of a private mapping of the file: ms (the first time: ms)"},
        {"model", "a model of 4 MiB out, in again and read; to a file and from it: ms"},
        {"model_changed", "the same, and each time all of it changes: ms"},
        {"model_once", "made, out, in again and ended; a file likewise: ms"}};
    std::printf("\npaging\n");
    for (auto const& each : themes) {
        auto const prefix = std::string{"paging/"} + each.name;
        std::printf("    %s\n", each.title);
        for (auto const& peer : all.peers(prefix)) {
            auto const first = all.median(prefix + '/' + peer, "first_ms");
            std::printf("        %-26s %12.4g%s\n", peer.c_str(), *all.median(prefix + '/' + peer) * 1e-6,
                        first ? format(" (%.4g)", *first).c_str() : "");
        }
    }
}

void print_includes(bench::results const& all) {
    std::printf("\nseconds of the compiler's front end\n");
    for (std::string const header : {"tenure/tenure.hpp", "memory_resource", "boost/system/result.hpp"}) {
        auto const time = all.median("include/" + header);
        std::printf("    %-30s %8.2f\n", ('<' + header + '>').c_str(), time.value_or(0) * 1e-9);
    }
}

std::string title_of(std::string const& peer) {
    static std::map<std::string, char const*> const titles{
        {"apr", "APR pool"},
        {"floor", "bump pointer, the floor"},
        {"foonathan", "foonathan/memory stack"},
        {"mimalloc_heap", "mimalloc heap_destroy"},
        {"new_delete", "new/delete of glibc"},
        {"pmr_new_delete", "pmr monotonic on new/delete"},
        {"pmr_warm", "pmr monotonic, warm buffer"},
        {"protobuf", "protobuf arena"},
        {"protobuf_warm", "protobuf arena, warm block"},
        {"unique_ptr", "vector of unique_ptr"},
    };
    auto const found = titles.find(peer);
    return found == titles.end() ? peer : found->second;
}

/// Two panels of bars on logarithmic scales: what an object costs, and what the end of 27,000,000 costs.
void write_chart(bench::results const& all, std::filesystem::path const& file) {
    struct panel {
        char const* title;
        column      data;
        double      left;  // where bars begin: there is no zero
    };
    static panel const panels[] = {
        {"make + end, 64-byte objects, 1,000 a batch: ns an object, log scale",
         {"", "make_end", "/objects:1000"},
         0.1},
        {"end of a batch of 27,000,000 objects: ms, log scale", {"", "huge", "", "end_ms"}, 0.001}};

    std::ofstream out{file};
    out << "set terminal svg size 900,800 font 'sans-serif,13' background 'white' noenhanced\n"
           "set multiplot layout 2,1\nset style fill solid\nset logscale x\nset border 1\nset tics nomirror out\n"
           "unset key\nset grid x lc '#e4e4e4'\nset lmargin 31\nset rmargin 8\n";
    for (auto const& each : panels) {
        std::vector<std::pair<double, std::string>> bars;
        for (auto const& peer : all.peers(each.data.before)) {
            if (auto const value = each.data.of(all, peer)) bars.emplace_back(*value, peer);
        }
        if (bars.empty()) continue;
        std::ranges::sort(bars, std::greater{});
        out << "set title \"" << each.title << "\"\nset xrange [" << each.left << ':' << bars.front().first * 3
            << "]\nset yrange [-0.6:" << static_cast<double>(bars.size()) - 0.4 << "]\n$bars << end\n";
        for (auto const& [value, peer] : bars) {
            out << '"' << title_of(peer) << "\" " << std::max(value, each.left * 1.02) << ' ' << value << ' '
                << (peer == "tenure" ? "0x2a7f62" : "0xb9c4cc") << '\n';
        }
        out << "end\nplot $bars using 2:0:(" << each.left
            << "):2:($0-0.36):($0+0.36):4:yticlabels(1) with boxxyerror lc rgb variable, "
               "'' using 2:0:($3 < "
            << each.left << " ? sprintf(' < %g', " << each.left << ") : sprintf(' %.3g', $3)) with labels left\n";
    }
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 2) {
        std::fputs("usage: report DIRECTORY\n", stderr);
        return 2;
    }
    std::filesystem::path const directory{argv[1]};
    bench::results              all;
    for (auto const& each : std::filesystem::directory_iterator{directory / "raw"}) all.read(each.path());

    print_machine(all);
    auto const missed = print_figures(all);
    print_peers(all);
    print_stores(all);
    print_paging(all);
    print_instructions(all);
    print_includes(all);
    std::ofstream{directory / "results.json"} << boost::json::serialize(all.to_json()) << '\n';
    write_chart(all, directory / "chart.gnuplot");
    std::printf("\n%zu figures missed or not measured\n", missed);
} catch (std::exception const& e) {
    std::fprintf(stderr, "report: %s\n", e.what());
    return 1;
}
