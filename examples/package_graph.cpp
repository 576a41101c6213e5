// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Which packages are most related to one? Asks Debian's own package graph, by the sampled expansion that graph
// learning uses: up to 300 neighbours a hop, three hops, one temporary object for each of up to 27 million paths, a
// batch a request and a batch a hop. query.hpp has the query; --help the options.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "demo/in_child.hpp"
#include "package_graph/count_paths.hpp"
#include "package_graph/figures.hpp"
#include "package_graph/graph.hpp"
#include "package_graph/load.hpp"
#include "package_graph/memory.hpp"
#include "package_graph/nearest_names.hpp"
#include "package_graph/peers.hpp"
#include "package_graph/report.hpp"
#include "package_graph/run.hpp"

namespace {

using namespace package_graph;

struct options {
    query_options            how;
    std::vector<std::string> packages;
    std::string              file;
    std::string              mode     = std::string{tenure_memory::name};
    std::size_t              requests = 3000;
    bool                     compare  = false;
    bool                     json     = false;
};

/// Calls `f(Memory{})` for each mode there is.
template <class F>
void for_each_mode(F f) {
    f(tenure_memory{});
    f(pmr_memory{});
    f(new_delete_memory{});
    f(shared_ptr_memory{});
}

options parse(int argc, char** argv) {
    options                  o;
    std::vector<std::string> modes;
    for_each_mode([&](auto memory) { modes.emplace_back(memory.name); });

    CLI::App app{
        "Finds the packages most related to one, in Debian's package graph or any other.\n"
        "Without --package: well-known ones, the largest requests there are, and a stream of random ones."};
    app.add_option("--package", o.packages, "Only this one (or these)")->type_name("NAME");
    app.add_option("--graph", o.file,
                   "An edge list in place of the package index: lines of \"from to [strength]\", gzip or plain")
        ->type_name("FILE");
    app.add_option("--hops", o.how.hops, "Steps from the start")
        ->check(CLI::Range(1U, most_hops))
        ->capture_default_str();
    app.add_option("--fanout", o.how.fanout, "Neighbours a hop, at most")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    app.add_flag("--replace", o.how.replace, "Exactly so many, drawn with replacement");
    app.add_option("--seed", o.how.seed, "Of the sampling and of the random requests")->capture_default_str();
    app.add_option("--requests", o.requests, "How many random requests")->capture_default_str();
    auto* const mode = app.add_option("--mode", o.mode, "Where the objects live")
                           ->check(CLI::IsMember(modes))
                           ->capture_default_str();
    app.add_flag("--compare", o.compare, "The same in all modes, side by side")->excludes(mode);
    app.add_flag("--json", o.json, "Results for a program to read, on stdout");
    try {
        app.parse(argc, argv);
    } catch (CLI::ParseError const& e) {
        std::exit(app.exit(e));
    }
    return o;
}

node_id find_package(graph const& g, std::string const& name) {
    if (auto const n = g.find(name)) return *n;
    std::string hint;
    for (auto const& near : nearest_names(g, name, 5)) hint += (hint.empty() ? "; did you mean " : ", ") + near;
    throw input_error{"no package is called " + name + hint};
}

std::vector<node_id> random_starts(graph const& g, options const& o) {
    random_stream        random{o.how.seed, 0, 0};
    std::vector<node_id> starts(o.requests);
    for (auto& n : starts) n = random.below(static_cast<std::uint32_t>(g.packages()));
    return starts;
}

/// The package with the greatest value.
template <class Value>
node_id greatest(graph const& g, Value value) {
    node_id best = 0;
    for (node_id n = 1; n < g.packages(); ++n) {
        if (value(n) > value(best)) best = n;
    }
    return best;
}

/// A path costs 16 bytes; where it costs most, in shared_ptr's mode, it has counts, malloc's own and a list's as
/// well.
bool has_room(double paths) {
    constexpr double worst = 96;
    return paths * worst <
           static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

/// Refuses before the machine runs out of memory, rather than after.
void require_room(graph const& g, node_id start, double paths) {
    if (has_room(paths)) return;
    throw std::runtime_error{"a request from " + g.name(start) + " would visit " + fixed(paths, 0) +
                             " paths, too many for this machine's memory: lower --fanout or --hops"};
}

/// What is to be asked: --package's, or some well-known ones, the largest requests and random ones.
workload plan(graph const& g, options const& o) {
    workload   work{o.how, {}, {}, {}};
    auto const paths = count_paths(g, o.how);
    if (!o.packages.empty()) {
        for (auto const& name : o.packages) work.named.push_back(find_package(g, name));
        for (node_id const n : work.named) require_room(g, n, paths[n]);
        return work;
    }
    auto const largest = greatest(g, [&](node_id n) { return paths[n]; });
    require_room(g, largest, paths[largest]);
    for (char const* const name : {"libc6", "bash", "python3", "gcc", "git", "firefox-esr"}) {
        if (auto const n = g.find(name)) work.named.push_back(*n);
    }
    work.stream = random_starts(g, o);
    work.large.push_back({largest, o.how});

    // Few packages have 300 neighbours, so the largest request has far fewer than 300^3 paths. Drawn with
    // replacement, as much of graph learning does it, every node has 300: the full load, from the greatest hub.
    auto full      = o.how;
    full.replace   = true;
    auto const hub = greatest(g, [&](node_id n) { return g.neighbours(n).size(); });
    if (!o.how.replace && has_room(count_paths(g, full)[hub])) work.large.push_back({hub, full});
    return work;
}

std::vector<figures> run_modes(graph const& g, workload const& work, options const& o) {
    std::vector<figures> all;
    for_each_mode([&](auto memory) {
        using memory_t = decltype(memory);
        std::string const name{memory.name};
        if (o.compare) all.push_back(demo::in_child(name, "--fanout", [&] { return run<memory_t>(g, work); }));
        else if (o.mode == name) all.push_back(run<memory_t>(g, work));
    });
    for (auto const& f : all) {
        if (!same_answers(f, all.front()))
            throw std::logic_error{f.mode + " and " + all.front().mode + " disagree"};
    }
    return all;
}

void print_heading(loaded_graph const& loaded, seconds took, options const& o) {
    std::cout << loaded.source << ": " << grouped(loaded.graph.packages()) << " packages, "
              << grouped(loaded.graph.edges()) << " edges, read in " << milliseconds(took.count() * 1000) << '\n'
              << o.how.hops << " hops, " << (o.how.replace ? "" : "up to ") << grouped(o.how.fanout)
              << " neighbours a hop, seed " << o.how.seed << "; mode: " << (o.compare ? "all" : o.mode) << "\n\n"
              << "A score is how often a random walker from there is expected to come by in " << o.how.hops
              << " steps.\n\"By way of\" is the strongest path, where that is not the direct one.\n\n"
              << std::flush;
}

void answer(options const& o) {
    auto const         begin  = clock::now();
    loaded_graph const loaded = o.file.empty() ? load_package_index() : load_edge_list(o.file);
    seconds const      took   = clock::now() - begin;
    graph const&       g      = loaded.graph;
    auto const         work   = plan(g, o);
    if (!o.json) print_heading(loaded, took, o);
    auto const modes = run_modes(g, work, o);
    if (o.json) {
        nlohmann::json const out{
            {"graph", {{"source", loaded.source}, {"packages", g.packages()}, {"edges", g.edges()}}},
            {"query",
             {{"hops", o.how.hops}, {"fanout", o.how.fanout}, {"replace", o.how.replace}, {"seed", o.how.seed}}},
            {"budget_ms", budget_ms},
            {"modes", modes}};
        std::cout << out.dump(2) << '\n';
    } else {
        print(std::cout, modes.front());
        if (o.compare) print_comparison(std::cout, modes);
    }
}

}  // namespace

int main(int argc, char** argv) {
    auto const o = parse(argc, argv);
    try {
        answer(o);
    } catch (std::exception const& e) {
        std::cerr << "package_graph: " << e.what() << '\n';
        return EXIT_FAILURE;
    }
}
