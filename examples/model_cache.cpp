// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A federated round as training servers run it: a thousand clients, each with a model, the state of its optimizer
// and its metrics; a few of them train at a time, and the mean of what they come to is the next global model. Far
// more than there is to be of memory: in batches that page out, beside the same all in memory and in a file each.
// model_cache/caches.hpp has the three, --help the options.

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "demo/in_child.hpp"
#include "demo/table.hpp"
#include "model_cache/caches.hpp"
#include "model_cache/federation.hpp"
#include "model_cache/figures.hpp"

namespace {

using namespace model_cache;

struct options {
    federation               what;
    std::size_t              memory_limit = std::size_t{64} << 20;
    std::string              directory;
    std::vector<std::string> modes{"memory", "paged", "files"};
    bool                     json = false;
};

options parse(int argc, char** argv) {
    options  o;
    CLI::App app{
        "Federated averaging over many clients, whose models do not all fit in memory.\n"
        "In each mode the same arithmetic: the final weights are compared to the last bit."};
    app.add_option("--clients", o.what.clients, "Each has a model of its own")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    app.add_option("--rounds", o.what.rounds, "Of training")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    app.add_option("--sample", o.what.sample, "Clients a round")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    app.add_option("--memory-limit", o.memory_limit, "In mode paged: of slab memory in use")
        ->transform(CLI::AsSizeValue(false))
        ->type_name("SIZE")
        ->default_str("64 MiB");
    app.add_option("--page-file", o.directory, "Where modes paged and files write (TMPDIR, else /var/tmp)")
        ->check(CLI::ExistingDirectory)
        ->type_name("DIRECTORY");
    app.add_option("--mode", o.modes, "Only this one (or these): memory, paged, files")
        ->check(CLI::IsMember({"memory", "paged", "files"}));
    app.add_option("--seed", o.what.how.seed, "Of the examples, the first weights and the draws")
        ->capture_default_str();
    app.add_flag("--json", o.json, "Results for a program to read, on stdout");
    try {
        app.parse(argc, argv);
        if (o.what.sample > o.what.clients) throw CLI::ValidationError("--sample", "more than --clients");
    } catch (CLI::ParseError const& e) {
        std::exit(app.exit(e));
    }
    if (o.directory.empty()) {
        char const* const set = std::getenv("TMPDIR");
        o.directory           = set && *set ? set : "/var/tmp";
    }
    return o;
}

figures run_mode(std::string const& mode, options const& o) {
    auto const n = o.what.net.parameters();
    if (mode == "files")
        return run(mode, o.what, [&] { return std::make_unique<files>(o.what.clients, n, o.directory); });
    tenure::registry_options where{.page_file = o.directory};
    if (mode == "paged") where.memory_limit.high = o.memory_limit;
    return run(mode, o.what, [&] { return std::make_unique<batches>(o.what.clients, n, where); });
}

void print_heading(options const& o) {
    auto const a_client = 3 * o.what.net.parameters() * sizeof(float);
    std::cout << demo::grouped(o.what.clients) << " clients of " << a_client / 1024 << " KiB, "
              << demo::mebibytes(a_client * o.what.clients) << " in all; " << demo::grouped(o.what.rounds)
              << " rounds of " << demo::grouped(o.what.sample) << "; mode paged has a limit of "
              << demo::mebibytes(o.memory_limit) << "\n\n"
              << std::flush;
}

void answer(options const& o) {
    if (!o.json) print_heading(o);
    std::vector<figures> modes;
    for (auto const& mode : o.modes)
        modes.push_back(demo::in_child(mode, "--clients", [&] { return run_mode(mode, o); }));
    if (o.json) std::cout << nlohmann::json{{"modes", modes}}.dump(2) << '\n';
    else print(std::cout, modes);
    for (auto const& f : modes) {
        if (f.weights != modes.front().weights)
            throw std::logic_error{f.mode + " and " + modes.front().mode + " disagree"};
    }
    if (o.json) return;
    std::cout << "\nThe global model recognises " << demo::fixed(100 * modes.front().accuracy, 1)
              << " % of examples that no client had.\n";
    if (modes.size() > 1) std::cout << "Its weights and all clients' are the same in all modes, bit for bit.\n";
}

}  // namespace

int main(int argc, char** argv) {
    auto const o = parse(argc, argv);
    try {
        answer(o);
    } catch (std::exception const& e) {
        std::cerr << "model_cache: " << e.what() << '\n';
        return EXIT_FAILURE;
    }
}
