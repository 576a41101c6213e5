// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Arithmetic on matrices that live in another process: a server of buffers, as there may be one beside each GPU.
// The product is Strassen's, whose sums and products are needed for a moment only: each step is a batch in a batch,
// and ends at the server with one message. With --crash the client is killed half-way, and the server is left with
// nothing. remote_buffers/ has the matrices and the product, --help the options.

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <nlohmann/json.hpp>

#include <tenure/remote/client.hpp>
#include <tenure/remote/server.hpp>
#include <tenure/tenure.hpp>

#include "demo/named_store.hpp"
#include "demo/progress_bar.hpp"
#include "demo/table.hpp"
#include "remote_buffers/strassen.hpp"

namespace {

using namespace remote_buffers;
using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

struct options {
    std::size_t   side   = 8;    ///< tiles
    std::size_t   width  = 128;  ///< elements of a tile
    std::uint64_t seed   = 1;
    bool          crash  = false;
    std::string   device = "host";
};

options parse(int argc, char** argv) {
    options  o;
    CLI::App app{"Multiplies two matrices whose tiles are buffers of a server, in another process."};
    app.add_option("--side", o.side, "Tiles along a side of a matrix: a power of two")->capture_default_str();
    app.add_option("--tile", o.width, "Elements along a side of a tile")
        ->check(CLI::Range(1, 4096))
        ->capture_default_str();
    app.add_option("--seed", o.seed, "Of the elements")->capture_default_str();
    app.add_option("--device", o.device, "Where the server's memory is: host, opencl:0, cuda:0")
        ->capture_default_str();
    app.add_flag("--crash", o.crash, "Kills the client half-way");
    try {
        app.parse(argc, argv);
        if (o.side == 0 || o.side > 64 || (o.side & (o.side - 1)) != 0)
            throw CLI::ValidationError("--side", "not a power of two up to 64");
    } catch (CLI::ParseError const& e) {
        std::exit(app.exit(e));
    }
    return o;
}

/// A process that does `f`, and is gone with this.
class process {
public:
    template <class F>
    explicit process(F f) : id_{(std::cout.flush(), ::fork())} {
        if (id_ < 0) throw std::system_error{errno, std::generic_category(), "fork"};
        if (id_ != 0) return;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        int code = EXIT_FAILURE;
        try {
            f();
            code = EXIT_SUCCESS;
        } catch (std::exception const& e) {
            std::cerr << "remote_buffers: " << e.what() << '\n';
        }
        std::cout.flush();
        ::_exit(code);
    }
    ~process() {
        if (id_ > 0) ::kill(id_, SIGKILL), wait();
    }
    process(process const&)            = delete;
    process& operator=(process const&) = delete;

    bool is_running() {
        if (id_ <= 0) return false;
        if (::waitpid(id_, &status_, WNOHANG) == 0) return true;
        id_ = -1;
        return false;
    }
    void wait() {
        if (id_ > 0) ::waitpid(id_, &status_, 0);
        id_ = -1;
    }
    bool was_killed() const { return WIFSIGNALED(status_); }
    bool succeeded() const { return WIFEXITED(status_) && WEXITSTATUS(status_) == EXIT_SUCCESS; }

private:
    ::pid_t id_;
    int     status_ = 0;
};

constexpr auto lease = 1s;

void serve(tenure::endpoint const& where, std::string const& device) {
    demo::with_store(device, 0, [&](auto store) {
        boost::asio::io_context io{1};
        tenure::server_options  o;
        o.lease = lease;
        tenure::buffer_server server{io.get_executor(), std::move(store), o};
        server.listen(where);
        io.run();
    });
}

std::shared_ptr<tenure::remote_store> connect(tenure::endpoint const& where, char const* name) {
    tenure::client_options o;
    o.name = name;
    for (auto const end = steady::now() + 5s;; std::this_thread::sleep_for(5ms)) {  // it may not listen yet
        try {
            return tenure::remote_store::connect(where, o);
        } catch (tenure::error const&) {
            if (steady::now() > end) throw;
        }
    }
}

std::size_t products_of(std::size_t side) { return side == 1 ? 1 : 7 * products_of(side / 2); }

/// What the client does.
void compute(tenure::endpoint const& where, options const& o) {
    auto const          store = connect(where, "the matrices");
    worker              w{store, o.width};
    tenure::batch_scope job{{.name = "job"}};
    std::mt19937_64     random{o.seed};
    auto const element = [&](std::size_t, std::size_t) { return static_cast<remote_buffers::element>(random()); };
    auto const a = w.make(o.side, element), b = w.make(o.side, element);

    auto const all   = products_of(o.side);
    auto const begin = steady::now();
    matrix     c;
    {
        demo::progress_bar bar{"products of tiles", all};
        w.before_product = [&] {
            bar.step();
            if (o.crash && w.products() == all / 2) std::raise(SIGKILL);
        };
        c = multiply(w, a, b);
    }
    auto const ms = std::chrono::duration<double, std::milli>(steady::now() - begin).count();
    if (!is_product(w, a, b, c, o.seed)) throw std::logic_error{"the product is wrong"};
    std::cout << "The client made " << demo::grouped(w.made()) << " tiles and multiplied "
              << demo::grouped(w.products()) << " pairs of them in " << demo::milliseconds(ms)
              << "; the product is right.\n"
              << "Of all these tiles, those of the two factors and of the product are left: "
              << demo::grouped(store->usage().blocks) << ".\n";
}

/// What the server has, of all clients but who asks.
struct holdings {
    std::size_t clients = 0, buffers = 0, bytes = 0, batches = 0;

    explicit holdings(tenure::remote_store& asks) {
        auto const status = nlohmann::json::parse(asks.server_status().value());
        for (auto const& c : status.at("clients")) {
            if (c.at("name") == "the onlooker") continue;
            ++clients;
            buffers += c.at("buffers").get<std::size_t>();
            bytes += c.at("bytes").get<std::size_t>();
            batches += c.at("batches").get<std::size_t>();
        }
    }
    holdings() = default;

    std::vector<std::string> row(std::string when) const {
        return {std::move(when), demo::grouped(clients), demo::grouped(batches), demo::grouped(buffers),
                demo::mebibytes(bytes)};
    }
};

void run(options const& o) {
    auto name = (std::filesystem::temp_directory_path() / "remote_buffers_XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::system_error{errno, std::generic_category(), name};
    struct directory {
        std::filesystem::path path;
        ~directory() {
            std::error_code ignored;  // the system clears it
            std::filesystem::remove_all(path, ignored);
        }
    } const here{name};
    tenure::endpoint const where{"unix:" + (here.path / "server").string()};

    auto const bytes = o.side * o.side * o.width * o.width * sizeof(element);
    std::cout << "Two matrices of " << demo::grouped(o.side * o.width) << " rows and columns, "
              << demo::mebibytes(bytes) << " each, at a server in another process; here is room for three tiles of "
              << demo::grouped(o.width * o.width * sizeof(element) / 1024) << " KiB.\n\n";

    process const server{[&] { serve(where, o.device); }};
    process       client{[&] { compute(where, o); }};
    auto const    onlooker = connect(where, "the onlooker");
    holdings      most, last;
    while (client.is_running()) {
        if (holdings const now{*onlooker}; now.clients != 0) {
            last = now;
            if (now.bytes > most.bytes) most = now;
        }
        std::this_thread::sleep_for(2ms);
    }
    auto const ended = steady::now();
    if (!o.crash && !client.succeeded()) throw std::runtime_error{"the client failed"};
    if (o.crash && !client.was_killed()) throw std::runtime_error{"the client was not killed"};

    demo::table t{"lrrrr"};
    t.row({"at the server", "clients", "batches", "buffers", "bytes"});
    t.row(most.row("at most"));
    if (o.crash) t.row(holdings{*onlooker}.row("as the client was killed"));
    for (;;) {
        holdings const now{*onlooker};
        if (now.clients != 0 && steady::now() < ended + 10 * lease) {
            std::this_thread::sleep_for(2ms);
            continue;
        }
        auto const ms = std::chrono::duration<double, std::milli>(steady::now() - ended).count();
        t.row(now.row(demo::milliseconds(ms) + " later"));
        std::cout << '\n' << t;
        if (now.clients != 0 || now.buffers != 0) throw std::logic_error{"something is left"};
        break;
    }
    std::cout << "\nNothing is left of the client.";
    if (o.crash)
        std::cout << " Its lease was "
                  << demo::milliseconds(std::chrono::duration<double, std::milli>(lease).count()) << '.';
    std::cout << '\n';
}

}  // namespace

int main(int argc, char** argv) {
    auto const o = parse(argc, argv);
    try {
        run(o);
    } catch (std::exception const& e) {
        std::cerr << "remote_buffers: " << e.what() << '\n';
        return EXIT_FAILURE;
    }
}
