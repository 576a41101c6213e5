// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A group of servers that are processes of their own: they retire, and are killed, while buffers are read and
// written.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <boost/asio/io_context.hpp>

#include <tenure/fleet.hpp>
#include <tenure/remote/client.hpp>
#include <tenure/remote/server.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/tenure.hpp>

#include "random/dice.hpp"
#include "remote/process.hpp"
#include "soon.hpp"
#include "temporary.hpp"

namespace {

using namespace std::chrono_literals;
using tenure::buffer;
using tenure::store_group;

constexpr std::size_t mib = std::size_t{1} << 20;

/// Servers "0", "1", ... in a group.
class servers {
public:
    /// A server that is gone for longer than the lease is lost.
    explicit servers(std::size_t n, std::chrono::milliseconds lease = 30s) {
        for (std::size_t i = 0; i < n; ++i) {
            std::string const where = "unix:" + (here_.path() / std::to_string(i)).string();
            processes_.emplace_back("a server of the group", std::to_string(lease.count()) + ' ' + where);
            REQUIRE(processes_.back().await());
            members.push_back(tenure::remote_store::connect(tenure::endpoint(where), {.timeout = lease / 2}));
            fleet.add(std::to_string(i), members.back(), {.capacity = 256 * mib});
        }
    }

    void kill(std::size_t i) { std::next(processes_.begin(), static_cast<std::ptrdiff_t>(i))->kill(); }

    store_group                                        fleet;
    std::vector<std::shared_ptr<tenure::remote_store>> members;

private:
    temporary_directory const here_;
    std::list<process>        processes_;
};

/// Buffers of numbers, each of which is the same in the whole buffer and says how often it was written. Threads
/// read and write them until this goes.
class load {
public:
    load(tenure::batch_scope& in, store_group const& fleet, std::size_t buffers, std::size_t copies) {
        for (std::size_t i = 0; i < buffers; ++i) {
            all_.emplace_back(in.make_buffer<std::uint64_t>(100 + i % 2000, fleet));
            all_.back().b.fill(0);
            if (copies > 1) CHECK(tenure::replicate(all_.back().b, copies) == copies);
        }
        for (std::uint64_t t = 0; t < 2; ++t) threads_.emplace_back([this, t] { run(t); });
    }
    ~load() { stop(); }
    load(load const&)            = delete;
    load& operator=(load const&) = delete;

    void stop() {
        over_ = true;
        for (std::thread& t : threads_) t.join();
        threads_.clear();
    }

    /// Returns how many buffers do not hold what was written last.
    std::size_t wrong() {
        std::size_t n = 0;
        for (one& o : all_) n += !is_right(o);
        return n;
    }
    std::size_t errors() const { return errors_; }
    std::size_t reads() const { return reads_; }

private:
    struct one {
        explicit one(buffer<std::uint64_t> const& made) : b(made) {}

        buffer<std::uint64_t> b;
        std::uint64_t         written = 0;
        std::mutex            mutex{};  // only reads of a buffer may overlap
    };

    bool is_right(one& o) {
        std::vector<std::uint64_t> out(o.b.size());
        auto const                 r = o.b.try_read(0, out);
        CAPTURE(r ? "" : r.error().message());
        CHECK(r);
        if (!r) ++errors_;
        return r && std::ranges::count(out, o.written) == static_cast<std::ptrdiff_t>(out.size());
    }

    void run(std::uint64_t seed) {
        dice random(seed);
        while (!over_) {
            one& o = *std::next(all_.begin(), static_cast<std::ptrdiff_t>(random.below(all_.size())));
            std::scoped_lock const guard(o.mutex);
            if (random.one_in(20)) {
                if (o.b.try_fill(o.written + 1)) ++o.written;
                else ++errors_;
            } else {
                CHECK(is_right(o));
                ++reads_;
            }
        }
    }

    std::list<one>           all_;
    std::vector<std::thread> threads_;
    std::atomic<bool>        over_{false};
    std::atomic<std::size_t> errors_{0}, reads_{0};
};

}  // namespace

TEST_CASE("a server of the group" * doctest::skip()) {
    std::string const      told  = process::argument();
    std::size_t const      space = told.find(' ');
    tenure::server_options options;
    options.lease = std::chrono::milliseconds(std::stoul(told.substr(0, space)));
    boost::asio::io_context io{1};
    tenure::buffer_server   all{io.get_executor(), std::make_shared<tenure::heap_store>(), options};
    all.listen(tenure::endpoint(told.substr(space + 1)));
    process::tell();
    io.run();
}

TEST_SUITE("a group of servers") {
    TEST_CASE("ten servers are retired in waves down to one under load") {
        servers                s(10);
        tenure::batch_scope    round;
        load                   users(round, s.fleet, TENURE_SANITIZED ? 100 : 500, 1);
        tenure::memory_manager manager(s.fleet, {.interval = 5ms, .policies = {tenure::rebalance{}}});
        manager.start();
        for (std::size_t wave = 0; wave < 3; ++wave) {
            std::vector<std::thread> retiring;
            for (std::size_t i = 3 * wave; i < 3 * wave + 3; ++i)
                retiring.emplace_back([&, i] {
                    auto const report = manager.retire(std::to_string(i), {.timeout = 60s, .remove = true});
                    INFO(report.to_text());
                    CHECK(report);
                    CHECK(s.members[i]->usage().bytes == 0);
                });
            for (std::thread& t : retiring) t.join();
            for (std::size_t i = 3 * wave; i < 3 * wave + 3; ++i) s.kill(i);
        }
        CHECK(s.fleet.stores().size() == 1);
        users.stop();
        CHECK(users.errors() == 0);
        CHECK(users.wrong() == 0);
        MESSAGE(users.reads() << " reads");
    }

    TEST_CASE("a server that is killed takes nothing with it that another has") {
        servers                s(4, 1s);
        tenure::batch_scope    round;
        load                   users(round, s.fleet, 100, 2);
        tenure::memory_manager manager(s.fleet, {.interval = 5ms, .policies = {}});
        users.stop();
        manager.run_once();  // writes have left one copy of some
        s.kill(1);
        CHECK(users.wrong() == 0);
        CHECK(users.errors() == 0);
        CHECK(soon([&] {  // it is late until its lease is over, and read once in a cycle
            manager.run_once();
            return users.wrong() == 0 && s.fleet.stores().size() == 3;
        }));
        while (manager.run_once().copied > 0) {}
        s.kill(2);
        CHECK(users.wrong() == 0);
    }
}
