// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The package graph's query, served: a coroutine a connection, a batch a request, which ends when it is answered,
// when its time is up, when it has too much memory or when its client hangs up. With --load, thousands of clients
// ask at the same time, some for too much, some only to hang up; in the end nothing is alive but the graph.
// query_server/ has the server and the clients, --help the options.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <thread>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <tenure/asio.hpp>
#include <tenure/tenure.hpp>

#include "demo/percentile.hpp"
#include "demo/resident.hpp"
#include "demo/table.hpp"
#include "package_graph/load.hpp"
#include "query_server/load.hpp"
#include "query_server/server.hpp"

namespace {

using namespace query_server;
using demo::fixed;
using demo::grouped;
using demo::mebibytes;
using demo::milliseconds;
using package_graph::loaded_graph;

struct options {
    server_options serve;
    load_options   load;
    std::string    file;
    std::string    at;
    bool           under_load = false;
};

options parse(int argc, char** argv) {
    options     o;
    std::size_t seconds = 15, timeout = 6000, mebibytes_each = 64, mebibytes_all = 512;

    CLI::App app{
        "Answers over a socket which packages are most related to one.\n"
        "One line a request: NAME [wait=MILLISECONDS] [replace]; try it with `nc -U PATH`."};
    app.add_option("--listen", o.at,
                   "unix:PATH or tcp:HOST:PORT; with --load, a socket in the temporary directory");
    app.add_option("--graph", o.file, "An edge list in place of the package index: lines of \"from to [strength]\"")
        ->type_name("FILE");
    app.add_option("--hops", o.serve.how.hops, "Steps from the start")
        ->check(CLI::Range(1U, package_graph::most_hops))
        ->capture_default_str();
    app.add_option("--fanout", o.serve.how.fanout, "Neighbours a hop, at most")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    app.add_option("--workers", o.serve.workers, "Threads for queries")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    app.add_option("--timeout", timeout, "Milliseconds a request may take")
        ->check(CLI::Range(1, 3'600'000))
        ->capture_default_str();
    app.add_option("--request-limit", mebibytes_each, "MiB a request may have")->capture_default_str();
    app.add_option("--limit", mebibytes_all, "MiB that all of them may have")->capture_default_str();
    auto* const load = app.add_flag("--load", o.under_load, "Clients, too: for --seconds, then an account of it");
    app.add_option("--seconds", seconds, "How long they ask")->needs(load)->capture_default_str();
    app.add_option("--connections", o.load.connections, "How many at a time")->needs(load)->capture_default_str();
    app.add_option("--seed", o.load.seed, "Of what they ask")->needs(load)->capture_default_str();
    try {
        app.parse(argc, argv);
        if (o.at.empty() && !o.under_load) throw CLI::RequiredError{"--listen or --load"};
    } catch (CLI::ParseError const& e) {
        std::exit(app.exit(e));
    }
    o.serve.timeout = o.load.timeout = std::chrono::milliseconds{timeout};
    o.serve.request_limit            = mebibytes_each << 20;
    o.serve.limit                    = mebibytes_all << 20;
    o.load.time                      = std::chrono::seconds{seconds};
    o.load.connections               = std::min(o.load.connections, most_connections());
    if (o.at.empty())
        o.at = "unix:" +
               (std::filesystem::temp_directory_path() / ("tenure-query-" + std::to_string(::getpid()))).string();
    return o;
}

/// The most resident memory while clients ask: flat, if it is not much more in the second half than in the first.
struct memory_figures {
    std::size_t first = 0, second = 0;

    /// `at_once`: what requests may have when one happens to look; and what is still to go of the last.
    bool flat(std::size_t at_once) const { return second <= first + first / 10 + at_once; }
};

struct outcome {
    load_figures   clients;
    server_figures server;
    memory_figures memory;
};

asio::awaitable<void> watch_memory(memory_figures& f, clock::duration half, std::atomic<bool> const& asking) {
    asio::steady_timer timer{co_await asio::this_coro::executor};
    for (auto const begin = clock::now(); asking;) {
        auto& most = clock::now() - begin < half ? f.first : f.second;
        most       = std::max(most, demo::resident_memory().now);
        timer.expires_after(std::chrono::milliseconds{20});
        co_await timer.async_wait(asio::use_awaitable);
    }
}

/// The server on this thread, the clients on another.
outcome serve_under_load(tenure::registry& r, package_graph::graph const& g, options const& o) {
    outcome          out;
    asio::io_context io{1};
    {
        tenure::supervisor const deadlines{io.get_executor(), r};
        server                   s{io, r, g, o.serve};
        s.listen(tenure::endpoint{o.at});
        std::atomic<bool> asking{true};
        asio::co_spawn(io, watch_memory(out.memory, o.load.time / 2, asking), asio::detached);
        std::exception_ptr failed;
        std::thread        clients{[&] {
            try {
                out.clients = load{g, tenure::endpoint{o.at}, o.load}.run();
            } catch (...) {
                failed = std::current_exception();
            }
            asking = false;
            asio::post(io, [&] { s.close(); });
        }};
        io.run();
        clients.join();
        if (failed) std::rethrow_exception(failed);
        out.server = s.figures();
    }
    return out;
}

void print(outcome& out, options const& o) {
    auto&       c = out.clients;
    auto const& s = out.server;
    demo::table t{"lrl"};
    auto const  row = [&](std::string const& what, std::size_t n, std::string const& note) {
        t.row({what, grouped(n), note});
    };
    std::string latency = "none";
    if (!c.ms.empty())
        latency = "p50 " + milliseconds(demo::percentile(c.ms, 0.5)) + ", p99 " +
                  milliseconds(demo::percentile(c.ms, 0.99)) + " besides the wait they asked for";
    row("answered", c.ok, latency);
    row("refused", c.refused, "for more than " + mebibytes(o.serve.request_limit));
    row("expired", c.expired, "after " + milliseconds(static_cast<double>(o.serve.timeout.count())));
    row("hung up", c.killed, grouped(s.cancelled) + " of them noticed before the answer");
    row("at one time", s.most, "on " + grouped(o.load.connections) + " connections");
    std::cout << t << "Resident memory: at most " << mebibytes(out.memory.first) << " in the first half, "
              << mebibytes(out.memory.second) << " in the second\n";
}

/// What is left besides the graph, which is one object in a batch of its own; empty where that is all.
std::string left_over(tenure::registry& r, tenure::batch_id graph) {
    r.drain();
    auto const  s    = r.snapshot();
    std::size_t held = 0;
    for (auto const& b : s.batches) {
        if (b.id == graph) held = b.usage.retained;
        if (b.usage.objects != (b.id == graph) || s.batches.size() != 2) return s.to_text();
    }
    return s.memory.held == held ? "" : s.to_text();
}

/// What these clients were to bring about, and did not: a line each.
std::string not_shown(outcome const& out, options const& o) {
    auto const& c = out.clients;
    std::string lines;
    auto const  expect = [&](bool happened, std::string const& otherwise) {
        if (!happened) lines += otherwise + '\n';
    };
    expect(c.ok, "No request was answered.");
    expect(c.expired || !c.slow, "Of " + grouped(c.slow) + " requests for more than the timeout none expired.");
    expect(out.server.cancelled || !c.too_early,
           "Of " + grouped(c.too_early) + " clients that hung up before their answer none was noticed.");
    // They begin, and pause, for a third of the timeout at most.
    bool const all_began = o.load.time >= o.serve.timeout;
    expect(3 * out.server.most >= 2 * o.load.connections || !all_began,
           "Less than two thirds of the connections had a request at one time.");
    return lines;
}

int demonstrate(tenure::registry& r, tenure::batch_scope& home, package_graph::graph const& g, options const& o) {
    outcome out = serve_under_load(r, g, o);
    print(out, o);
    int status = EXIT_SUCCESS;
    if (auto const left = left_over(r, home.id()); !left.empty()) {
        std::cout << "Left behind:\n" << left;
        status = EXIT_FAILURE;
    } else {
        std::cout << "Nothing is left but the graph.\n";
    }
    if (!out.memory.flat((o.serve.workers + 1) * o.serve.request_limit)) {
        std::cout << "Memory grew.\n";
        status = EXIT_FAILURE;
    }
    if (out.clients.wrong) {
        std::cout << out.clients.wrong << " requests failed that should not\n";
        status = EXIT_FAILURE;
    }
    if (auto const lines = not_shown(out, o); !lines.empty()) {
        std::cout << lines;
        status = EXIT_FAILURE;
    }
    return status;
}

/// Until SIGINT or SIGTERM.
int serve(tenure::registry& r, package_graph::graph const& g, options const& o) {
    asio::io_context         io{1};
    tenure::supervisor const deadlines{io.get_executor(), r};
    server                   s{io, r, g, o.serve};
    s.listen(tenure::endpoint{o.at});
    asio::signal_set enough{io, SIGINT, SIGTERM};
    enough.async_wait([&](auto, int) { s.stop(); });
    std::cout << "at " << o.at << std::endl;
    io.run();
    std::cout << r.snapshot().to_text();
    return EXIT_SUCCESS;
}

int run(options const& o) {
    tenure::registry    r;
    tenure::batch_scope home{r, {.name = "graph"}};
    auto const          loaded    = home.make<loaded_graph>(o.file.empty() ? package_graph::load_package_index()
                                                                           : package_graph::load_edge_list(o.file));
    package_graph::graph const& g = loaded->graph;
    std::cout << loaded->source << ": " << grouped(g.packages()) << " packages, " << grouped(g.edges())
              << " edges\n"
              << std::flush;
    struct remover {
        std::string const& at;
        ~remover() {
            if (at.starts_with("unix:")) ::unlink(at.c_str() + 5);
        }
    } const socket_file{o.at};
    return o.under_load ? demonstrate(r, home, g, o) : serve(r, g, o);
}

}  // namespace

int main(int argc, char** argv) {
    auto const o = parse(argc, argv);
    try {
        return run(o);
    } catch (std::exception const& e) {
        std::cerr << "query_server: " << e.what() << '\n';
        return EXIT_FAILURE;
    }
}
