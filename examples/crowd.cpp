// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Twelve processes of three users on one machine want more memory together than it has. They run one after another;
// then at once, each as if it were alone; then at once with budgets that share the machine. The machine is the
// demo's own: it has so much memory, and kills the largest process where that runs out (crowd/machine.hpp). What
// they do is in crowd/jobs.hpp; --help tells the options.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <tenure/arbiter.hpp>

#include "crowd/jobs.hpp"
#include "crowd/machine.hpp"
#include "crowd/picture.hpp"
#include "demo/table.hpp"
#include "package_graph/count_paths.hpp"
#include "package_graph/load.hpp"

namespace {

using crowd::course;
using crowd::job;

struct options {
    std::string file;
    std::size_t memory  = std::size_t{1} << 30;
    std::size_t pieces  = 6;
    std::string picture = "crowd.svg";
};

options parse(int argc, char** argv) {
    options  o;
    CLI::App app{"Twelve processes of three users share a machine whose memory is not enough for all of them."};
    app.add_option("--graph", o.file, "An edge list in place of the package index")->type_name("FILE");
    app.add_option("--memory", o.memory, "What the machine has for them")
        ->transform(CLI::AsSizeValue(false))
        ->capture_default_str();
    app.add_option("--pieces", o.pieces, "Queries or rounds of training of each process")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--picture", o.picture, "Where to draw who had what over time; empty: nowhere")
        ->type_name("FILE")
        ->capture_default_str();
    try {
        app.parse(argc, argv);
    } catch (CLI::ParseError const& e) {
        std::exit(app.exit(e));
    }
    return o;
}

/// The directory in which the processes tell each other what they have.
class meeting_place {
public:
    meeting_place() {
        std::string path = (std::filesystem::temp_directory_path() / "tenure-crowd-XXXXXX").string();
        if (!::mkdtemp(path.data())) throw std::runtime_error("no directory " + path);
        path_ = path;
    }
    ~meeting_place() {
        std::error_code ignored;  // the system clears /tmp
        std::filesystem::remove_all(path_, ignored);
    }
    meeting_place(meeting_place const&)            = delete;
    meeting_place& operator=(meeting_place const&) = delete;

    std::filesystem::path const& path() const noexcept { return path_; }

private:
    std::filesystem::path path_;
};

/// The largest query whose paths take a third of the memory at most.
void choose_query(package_graph::graph const& g, std::size_t memory, crowd::appetite& a) {
    for (a.how.fanout = 300;; a.how.fanout = a.how.fanout * 3 / 4) {
        auto const paths = package_graph::count_paths(g, a.how);
        a.start          = static_cast<package_graph::node_id>(std::ranges::max_element(paths) - paths.begin());
        a.query          = static_cast<std::size_t>(paths[a.start]) * 17;  // 16 each, and the frontiers
        if (a.query <= memory / 3 || a.how.fanout < 4) return;
    }
}

int run(options const& o) {
    if (o.memory < std::size_t{16} << 20)
        throw std::runtime_error("--memory: processes alone take some; give 16 MiB");
    auto const loaded =
        o.file.empty() ? package_graph::load_package_index() : package_graph::load_edge_list(o.file);
    package_graph::graph const& g = loaded.graph;
    crowd::appetite             a;
    a.net.widths = {128, 256, 120, 10};
    choose_query(g, o.memory, a);
    a.clients = std::max<std::size_t>(1, o.memory / 4 / (3 * a.net.parameters() * sizeof(float)));

    std::vector<job> jobs;
    for (std::string const user : {"ann", "ben", "eva"})
        for (bool const trains : {false, true, false, true}) jobs.push_back({user, trains, o.pieces});
    crowd::machine                machine(jobs, o.memory);
    meeting_place const           place;
    tenure::machine_arbiter const arbiter({.directory = place.path(), .bytes = o.memory / 8 * 7});

    auto const alone  = [&](job const& j, crowd::account& so_far) { crowd::work(j, g, a, nullptr, so_far); };
    auto const shared = [&](job const& j, crowd::account& so_far) {
        std::size_t const      began = crowd::own_memory();
        tenure::budget_options mine;
        mine.in_use = [=] {
            std::size_t const now = crowd::own_memory();
            return tenure::memory_use{.in_use = now - std::min(now, began)};
        };
        tenure::memory_budget budget{arbiter, {.job = j.name()}, mine};
        crowd::work(j, g, a, &budget, so_far);
    };
    std::cout << jobs.size() << " processes of three users, " << o.pieces
              << " pieces of work each, on a machine with " << demo::mebibytes(o.memory) << ": queries of "
              << demo::mebibytes(a.query) << ", training with " << demo::mebibytes(a.training()) << "\n\n"
              << std::flush;
    course const one    = machine.run("one after another", 1, alone);
    course const crowd  = machine.run("at once", jobs.size(), alone);
    course const budget = machine.run("at once, with budgets", jobs.size(), shared);

    demo::table t("lrrrrrr");
    t.row({"", "time", "work done", "killed", "failed", "begun again", "most memory"});
    auto const row = [&](char const* name, course const& c) {
        t.row({name, demo::fixed(c.seconds, 1) + " s", std::to_string(c.done), std::to_string(c.killed),
               std::to_string(c.failed), std::to_string(c.again), demo::mebibytes(c.peak)});
    };
    row("one after another", one);
    row("at once", crowd);
    row("at once, with budgets", budget);
    std::cout << t << "\nWith budgets the whole is done " << demo::fixed(one.seconds / budget.seconds, 2)
              << " times as fast as one after another, and " << (budget.killed + budget.failed ? "some" : "nobody")
              << " was killed.\n";
    if (!o.picture.empty()) {
        crowd::picture p(jobs, o.memory);
        p.add("one after another", one);
        p.add("at once: " + std::to_string(crowd.killed) + " killed", crowd);
        p.add("at once, with budgets", budget);
        std::ofstream file(o.picture);
        if (!(file << p)) throw std::runtime_error("cannot write " + o.picture);
        std::cout << "Who had what over time: " << o.picture << '\n';
    }
    return one.killed + budget.killed + budget.failed == 0 && budget.done == jobs.size() * o.pieces ? EXIT_SUCCESS
                                                                                                    : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) try { return run(parse(argc, argv)); } catch (std::exception const& e) {
    std::cerr << "crowd: " << e.what() << '\n';
    return EXIT_FAILURE;
}
