// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A store at a server, through a socket.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <malloc.h>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>

#include <tenure/remote/client.hpp>
#include <tenure/remote/server.hpp>
#include <tenure/store/conformance.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/store/limited.hpp>
#include <tenure/tenure.hpp>

#include "remote/house.hpp"
#include "remote/proxy.hpp"
#include "soon.hpp"
#include "stores/lab_buffers.hpp"
#include "stores/plain_store.hpp"
#include "temporary.hpp"

namespace {

using namespace std::chrono_literals;
using tenure::block;
using tenure::endpoint;
using tenure::errc;
using tenure::remote_store;
using tenure::store_usage;

std::vector<std::byte> bytes(std::size_t n, int what) {
    return std::vector<std::byte>(n, static_cast<std::byte>(what));
}

/// A server and a place for its socket.
struct fixture {
    temporary_directory dir;
    endpoint            at{"unix:" + (dir.path() / "socket").string()};
    house<>             server{at};
};

/// Hands on what two sides say, until it is cut: then both lose their connection, and the next one may come.
class cable {
public:
    cable(std::string const& path, std::string to)
        : where_("unix:" + path), acceptor_(io_, path), to_(std::move(to)) {
        accept();
        thread_ = std::jthread([this] { io_.run(); });
    }
    ~cable() { io_.stop(); }

    endpoint const& where() const { return where_; }
    void            cut() {
        boost::asio::post(io_, [this] {
            for (auto& e : ends_) e->close();
            ends_.clear();
        });
    }

private:
    using local = boost::asio::local::stream_protocol;
    struct way {
        std::shared_ptr<local::socket> from, to;
        std::array<std::byte, 5000>    buffer;
    };

    void accept() {
        acceptor_.async_accept([this](boost::system::error_code why, local::socket s) {
            if (why) return;
            auto a = std::make_shared<local::socket>(std::move(s)), b = std::make_shared<local::socket>(io_);
            b->connect(to_, why);
            if (!why) {
                ends_.insert(ends_.end(), {a, b});
                carry(std::make_shared<way>(way{a, b, {}}));
                carry(std::make_shared<way>(way{b, a, {}}));
            }
            accept();
        });
    }
    void carry(std::shared_ptr<way> w) {
        w->from->async_read_some(
            boost::asio::buffer(w->buffer), [this, w](boost::system::error_code why, std::size_t n) {
                if (why) return;
                boost::asio::async_write(*w->to, boost::asio::buffer(w->buffer.data(), n),
                                         [this, w](boost::system::error_code bad, std::size_t) {
                                             if (!bad) carry(w);
                                         });
            });
    }

    endpoint                                    where_;
    boost::asio::io_context                     io_;
    local::acceptor                             acceptor_;
    local::endpoint                             to_;
    std::vector<std::shared_ptr<local::socket>> ends_;
    std::jthread                                thread_;
};

}  // namespace

TEST_CASE("a remote store is a store") {
    fixture                     f;
    tenure::conformance_options options;
    options.max_bytes = std::size_t{TENURE_SANITIZED ? 3 : 40} << 20;
    if (TENURE_SANITIZED) options.free_count = 10'000, options.steps = 300;
    auto const report = tenure::check_store([&] { return remote_store::connect(f.at); }, options);
    INFO(report.to_text());
    CHECK(report.ok());
}

TEST_CASE("elements of buffers at a server") {
    fixture             f;
    auto const          client = remote_store::connect(f.server.where);
    tenure::registry    r;
    tenure::batch_scope b(r);
    CHECK(elements_error(b, client) == "");
    CHECK(b.end().store_errors == 0);
}

TEST_CASE("a remote store that is full, over TCP with a token") {
    tenure::server_options options;
    options.tokens.add("me", "a secret");
    auto const limited = std::make_shared<tenure::limited_store<tenure::heap_store>>(
        std::make_shared<tenure::heap_store>(), tenure::store_limits{.bytes = 300'000});
    house<tenure::limited_store<tenure::heap_store>> server(endpoint("tcp:127.0.0.1:0"), options, limited);
    tenure::client_options                           mine;
    CHECK_THROWS_AS(remote_store::connect(server.where, mine), tenure::error);
    mine.tokens.add("", "a secret");
    auto const s = remote_store::connect(server.where, mine);
    // However many were fetched ahead: all of the room can be had.
    std::vector<block> all;
    for (;;) {
        auto const b = s->allocate(1000, 8);
        if (!b) {
            CHECK(b.error() == errc::store_full);
            break;
        }
        all.push_back(*b);
    }
    CHECK(all.size() == 300);
    CHECK(s->usage().bytes == 300'000);
    CHECK(s->deallocate(all).has_value());
    CHECK(s->usage().bytes == 0);
}

TEST_CASE("small blocks of many sizes: each is as large as was asked for, and so is the sum") {
    fixture    f;
    auto const s = remote_store::connect(f.at);
    struct made {
        block         b;
        unsigned char mark;
    };
    std::vector<made> all;
    std::size_t       sum  = 0;
    auto const        fill = [&](std::uint64_t batch, std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            std::size_t const bytes = i * 7919 % 1301, alignment = std::size_t{1} << i % 3;
            auto const        b = s->allocate_in(batch, bytes, alignment).value();
            REQUIRE(b.bytes == bytes);
            sum += bytes;
            all.push_back({b, static_cast<unsigned char>(all.size())});
            if (i % 3 == 0)
                CHECK(s->write(b, 0, std::vector<std::byte>(bytes, static_cast<std::byte>(all.back().mark))));
        }
    };
    // Answers come in order: after this one, the server has said what it knows of the others.
    auto const usage = [&] {
        CHECK(s->read(all.back().b, 0, {}));
        return s->usage();
    };
    auto const check = [&](std::size_t from) {
        std::vector<std::byte> out;
        for (std::size_t i = from; i < all.size(); i += 7) {
            auto const& [b, mark] = all[i];
            out.assign(b.bytes, std::byte{1});
            REQUIRE(s->read(b, 0, out));
            bool const written = i % 3 == 0;
            CHECK(std::ranges::all_of(out, [&, m = mark](std::byte x) {
                return x == (written ? static_cast<std::byte>(m) : std::byte{0});
            }));
            out.resize(b.bytes + 1);
            CHECK(s->read(b, 0, out).error() == errc::out_of_range);
            CHECK(s->read({b.id, b.bytes + 1}, 0, out).error() == errc::no_such_block);
        }
    };
    fill(1, 3000);
    check(0);
    CHECK(usage() == tenure::store_usage{sum, 3000, 0});

    // Some are freed, some are another batch's, some are found by name; the rest ends with the batch.
    std::vector<block> freed, moved;
    std::size_t        kept = 0;
    for (std::size_t i = 0; i < 3000; i += 3) {
        (i % 2 ? freed : moved).push_back(all[i].b);
        if (i % 2) sum -= all[i].b.bytes;
        else kept += all[i].b.bytes;
    }
    CHECK(s->deallocate(freed));
    CHECK(s->usage().bytes == sum);
    CHECK(s->transfer(moved, 2));
    CHECK(s->share(moved[5], "five"));
    auto const other = remote_store::connect(f.at);
    CHECK(other->open("five").value() == moved[5]);
    CHECK(s->deallocate_batch(1, {}));
    CHECK(s->usage() == tenure::store_usage{kept, moved.size(), 0});
    CHECK(s->deallocate_batch(2, moved));
    CHECK(s->usage() == tenure::store_usage{});

    // And again, from several threads at once.
    std::atomic<std::size_t>  together{0};
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 3; ++t)
        threads.emplace_back([&, t] {
            for (std::size_t i = 0; i < 2000; ++i) {
                auto const b = s->allocate_in(3 + t, (i * 31 + t) % 700, 8).value();
                together += b.bytes;
                if (i % 50 == 0) CHECK(s->write(b, 0, std::vector<std::byte>(b.bytes)));
            }
        });
    threads.clear();
    all = {{s->allocate_in(3, 1000, 8).value(), 0}};
    CHECK(usage() == tenure::store_usage{together + 1000, 6001, 0});
    for (std::uint64_t batch = 3; batch < 6; ++batch) CHECK(s->deallocate_batch(batch, {}));
    CHECK(s->usage() == tenure::store_usage{});
    CHECK(s->close());
}

TEST_CASE("a forked child is told that the store is its parent's, and gets none of its blocks") {
    fixture    f;
    auto const s = remote_store::connect(f.at);
    for (int i = 0; i < 5; ++i) REQUIRE(s->allocate_in(3, 64, 8).has_value());  // then some are fetched ahead
    ::pid_t const child = ::fork();
    if (child == 0) {
        boost::asio::io_context io;
        std::error_code         why;
        s->async_allocate_in(3, 64, 8, boost::asio::bind_executor(io, [&](std::error_code e, block) { why = e; }));
        io.run();
        auto const waited = s->allocate_in(3, 64, 8);
        ::_exit(why == errc::forked && !waited && waited.error() == errc::forked ? 0 : 1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

TEST_CASE("any completion token") {
    fixture    f;
    auto const s    = remote_store::connect(f.at);
    auto const from = bytes(50'000, 7);
    auto       into = bytes(50'000, 0);

    SUBCASE("callbacks, on the store's thread") {
        std::promise<std::pair<std::error_code, block>> made;
        std::thread::id                                 where;
        s->async_allocate(50'000, 8, [&](std::error_code why, block b) {
            where = std::this_thread::get_id();
            made.set_value({why, b});
        });
        auto const [why, b] = made.get_future().get();
        CHECK_FALSE(why);
        CHECK(where != std::this_thread::get_id());
        std::promise<std::thread::id> written;
        s->async_write(b, 0, from, [&](boost::system::error_code bad) {
            CHECK_FALSE(bad.failed());
            // May block there.
            CHECK(s->read(b, 0, into).has_value());
            written.set_value(std::this_thread::get_id());
        });
        CHECK(written.get_future().get() == where);
        CHECK(into == from);
    }
    SUBCASE("futures") {
        block const b = s->async_allocate(50'000, 8, boost::asio::use_future).get();
        s->async_write(b, 0, from, boost::asio::use_future).get();
        s->async_copy(b, 0, b, 40'000, 10'000, boost::asio::use_future).get();
        s->async_read(b, 0, into, boost::asio::use_future).get();
        CHECK(into == from);
        std::promise<std::error_code> refused;
        s->async_read(b, 1, into, [&](std::error_code why) { refused.set_value(why); });
        CHECK(refused.get_future().get() == errc::out_of_range);
        s->async_deallocate(std::span(&b, 1), boost::asio::use_future).get();
    }
    SUBCASE("coroutines, deferred") {
        boost::asio::io_context io;
        auto const              program = [&]() -> boost::asio::awaitable<int> {
            using boost::asio::use_awaitable;
            block const b = co_await s->async_allocate_in(3, 50'000, 8, use_awaitable);
            co_await s->async_write(b, 0, from, use_awaitable);
            co_await s->async_transfer(std::span(&b, 1), 4, use_awaitable);
            auto later = s->async_read(b, 0, into, boost::asio::deferred);
            co_await std::move(later)(use_awaitable);
            co_await s->async_deallocate_batch(4, std::span(&b, 1), use_awaitable);
            auto const [why] = co_await s->async_read(b, 0, into, boost::asio::as_tuple(use_awaitable));
            CHECK(std::error_code(why) == errc::no_such_block);
            co_return 5;
        };
        auto theirs = boost::asio::co_spawn(io, program, boost::asio::use_future);
        io.run();
        CHECK(theirs.get() == 5);
        CHECK(into == from);
        into = bytes(50'000, 0);
        CHECK(boost::asio::co_spawn(s->get_executor(), program, boost::asio::use_future).get() == 5);
        CHECK(into == from);
    }
    SUBCASE("detached") {
        block const b = s->allocate(10, 1).value();
        s->async_deallocate(std::span(&b, 1), boost::asio::detached);
        CHECK(s->read(b, 0, std::span(into).first(1)).error() == errc::no_such_block);
    }
    CHECK(s->usage() == store_usage{s->usage().bytes, s->usage().blocks, 0});
}

TEST_CASE("a handler runs on its executor, which has work until then") {
    fixture                 f;
    auto const              s = remote_store::connect(f.at);
    boost::asio::io_context io;
    std::thread::id         where;
    int                     calls = 0;
    for (int i = 0; i < 3; ++i) {
        s->async_allocate(100, 8, boost::asio::bind_executor(io, [&](std::error_code why, block) {
                              CHECK_FALSE(why);
                              where = std::this_thread::get_id();
                              ++calls;
                          }));
    }
    io.run();
    CHECK(calls == 3);
    CHECK(where == std::this_thread::get_id());
}

TEST_CASE("the last pointer goes in a handler") {
    fixture            f;
    auto               s = remote_store::connect(f.at);
    std::promise<void> gone;
    auto* const        store = s.get();
    store->async_allocate(100, 8, [s = std::move(s), &gone](std::error_code, block) mutable {
        s.reset();
        gone.set_value();
    });
    gone.get_future().get();
}

TEST_CASE("calls that block and calls that do not, from many threads") {
    fixture          f;
    auto const       s     = remote_store::connect(f.at);
    unsigned const   turns = TENURE_SANITIZED ? 60 : 1000;
    std::atomic<int> handled{0}, failed{0};
    std::mutex       lock;  // that handlers want, and that callers hold while they block
    {
        std::vector<std::jthread> threads;
        for (unsigned t = 0; t < 4; ++t) {
            threads.emplace_back([&, t] {
                block const b    = s->allocate(9000, 8).value();
                auto        mine = bytes(9000, static_cast<int>(t)), got = bytes(9000, 99);
                for (unsigned i = 0; i < turns; ++i) {
                    std::size_t const  n = 1 + i * 37 % 9000;
                    std::promise<void> done;
                    s->async_write(b, 0, std::span(mine).first(n), [&](std::error_code why) {
                        std::scoped_lock const guard(lock);
                        failed += why ? 1 : 0;
                        ++handled;
                        done.set_value();
                    });
                    {
                        std::scoped_lock const guard(lock);
                        failed += s->read(b, 0, std::span(got).first(1)) ? 0 : 1;
                    }
                    done.get_future().get();
                    failed += s->read(b, 0, std::span(got).first(n)) && got[n - 1] == mine[n - 1] ? 0 : 1;
                }
                failed += s->deallocate(std::span(&b, 1)) ? 0 : 1;
            });
        }
    }
    CHECK(handled == static_cast<int>(4 * turns));
    CHECK(failed == 0);
    CHECK(s->usage() == store_usage{0, 0, 0});
}

TEST_CASE("a connection that is cut again and again: nothing lost, nothing twice") {
    fixture    f;
    cable      between((f.dir.path() / "cable").string(), (f.dir.path() / "socket").string());
    auto const s = remote_store::connect(between.where());
    std::vector<std::pair<block, int>> live;
    std::size_t                        held  = 0;
    int const                          turns = TENURE_SANITIZED ? 60 : 500;
    for (int i = 0; i < turns; ++i) {
        if (i % 5 == 0) between.cut();
        std::size_t const n = i % 7 == 0 ? 300'000 : static_cast<std::size_t>(10 + i);
        auto const        b = s->allocate(n, 8);
        REQUIRE(b.has_value());
        held += n;
        REQUIRE(s->write(*b, 0, bytes(n, i)).has_value());
        live.emplace_back(*b, i);
        if (i % 3 == 0) {
            auto const [old, what] = live.front();
            live.erase(live.begin());
            if (i % 4 == 0) between.cut();
            auto got = bytes(old.bytes, 0);
            REQUIRE(s->read(old, 0, got).has_value());
            REQUIRE(got == bytes(old.bytes, what));
            REQUIRE(s->deallocate(std::span(&old, 1)).has_value());
            held -= old.bytes;
        }
        REQUIRE(s->usage().bytes == held);
        REQUIRE(s->usage().blocks == live.size());
    }
    CHECK(f.server.server.status().clients.size() == 1);
}

TEST_CASE("another server in the place of the first: what was there is stale") {
    temporary_directory dir;
    endpoint const      at("unix:" + (dir.path() / "socket").string());
    auto                server = std::make_unique<house<>>(at);
    auto const          s      = remote_store::connect(at);
    block const         old    = s->allocate(1000, 8).value();
    server.reset();
    server   = std::make_unique<house<>>(at);
    auto one = bytes(1, 0);
    CHECK(s->read(old, 0, one).error() == errc::stale_handle);  // the first that is asked, too
    CHECK(s->read(old, 0, one).error() == errc::stale_handle);
    CHECK(s->deallocate(std::span(&old, 1)).has_value());
    block const fresh = s->allocate(1000, 8).value();
    CHECK(s->read(fresh, 0, one).has_value());
    CHECK(s->usage() == store_usage{1000, 1, 0});
    CHECK(s->close().has_value());
}

TEST_CASE("two clients share a block") {
    fixture     f;
    auto const  a = remote_store::connect(f.at), b = remote_store::connect(f.at);
    block const mine  = a->allocate(100, 8).value();
    bool        waits = true;
    SUBCASE("and wait") {}
    SUBCASE("and do not wait") { waits = false; }
    using boost::asio::use_future;
    if (waits) CHECK(a->share(mine, "weights").has_value());
    else a->async_share(mine, "weights", use_future).get();
    block const theirs = waits ? b->open("weights").value() : b->async_open("weights", use_future).get();
    CHECK(a->write(mine, 0, bytes(100, 4)).has_value());
    auto got = bytes(100, 0);
    CHECK(b->read(theirs, 0, got).has_value());
    CHECK(got == bytes(100, 4));
    CHECK(b->usage() == store_usage{0, 0, 0});
    CHECK(b->deallocate(std::span(&theirs, 1)).error() == errc::no_such_block);
    if (waits) CHECK(a->unshare("weights").has_value());
    else a->async_unshare("weights", use_future).get();
    CHECK(b->open("weights").error() == errc::no_such_name);
    for (auto const& name : {std::string(), std::string(256, 'x')}) {  // there are no such names
        CHECK(a->open(name).error() == std::errc::invalid_argument);
        CHECK(a->share(mine, name).error() == std::errc::invalid_argument);
        std::promise<std::error_code> refused;
        a->async_unshare(name, [&](std::error_code why) { refused.set_value(why); });
        CHECK(refused.get_future().get() == std::errc::invalid_argument);
    }
    auto const status = waits ? a->server_status().value() : a->async_server_status(use_future).get();
    CHECK(status.find("\"clients\"") != std::string::npos);
}

TEST_CASE("two servers send a block, and the client sees none of it") {
    temporary_directory    dir;
    house<plain_store<>>   to(dir.path() / "to");
    tenure::server_options options;
    endpoint const         nobody("unix:" + (dir.path() / "nobody").string());
    options.peers = {to.where, nobody};
    house<>               from(dir.path() / "from", options);
    proxy                 before_from(dir.path() / "proxy", from.path);
    auto const            a        = remote_store::connect(endpoint("unix:" + (dir.path() / "proxy").string()));
    auto const            b        = remote_store::connect(to.where);
    constexpr std::size_t n        = 3 << 20;
    auto                  contents = bytes(n, 5), got = bytes(n, 0);
    contents[n / 2]  = std::byte{6};
    block const here = a->allocate(n, 8).value(), there = b->allocate(n + 10, 8).value();
    CHECK(a->write(here, 0, contents).has_value());
    before_from.heal();  // from here on it counts

    SUBCASE("the caller waits") { CHECK(a->send_to(here, 0, n, *b, there, 10).has_value()); }
    SUBCASE("a future") { a->async_send_to(here, 0, n, *b, there, 10, boost::asio::use_future).get(); }
    SUBCASE("a coroutine, on its own executor") {
        boost::asio::io_context io;
        auto const              program = [&]() -> boost::asio::awaitable<void> {
            co_await a->async_send_to(here, 0, n, *b, there, 10, boost::asio::use_awaitable);
        };
        auto done = boost::asio::co_spawn(io, program, boost::asio::use_future);
        io.run();
        done.get();
    }
    CHECK(before_from.passed(proxy::to_server) + before_from.passed(proxy::to_client) < 1000);
    CHECK(b->read(there, 10, got).has_value());
    CHECK(got == contents);
    CHECK(b->read(there, 0, std::span(got).first(10)).has_value());
    CHECK(std::vector(got.begin(), got.begin() + 10) == bytes(10, 0));  // nothing beside it

    // A part of it; what is not in a block; blocks that are gone, on either side.
    CHECK(a->send_to(here, n / 2, 1, *b, there, 0).has_value());
    CHECK(b->read(there, 0, std::span(got).first(1)).has_value());
    CHECK(got[0] == std::byte{6});
    CHECK(a->send_to(here, 1, n, *b, there, 0).error() == errc::out_of_range);
    CHECK(a->send_to(here, 0, n, *b, there, 11).error() == errc::out_of_range);
    block const gone{there.id + 1'000'000, 10};
    CHECK(a->send_to(here, 0, 1, *b, gone, 0).error() == errc::no_such_block);
    CHECK(a->send_to(gone, 0, 1, *b, there, 0).error() == errc::no_such_block);
    // The other way, which the server's owner has not allowed; and a client where nothing can be sent.
    CHECK(b->send_to(there, 0, 1, *a, here, 0).error() == errc::access_denied);
    std::promise<std::error_code> refused;
    a->async_send_to(here, 0, 1, *b, gone, 0, [&](std::error_code why) { refused.set_value(why); });
    CHECK(refused.get_future().get() == errc::no_such_block);
    CHECK(b->close().has_value());
    CHECK(a->send_to(here, 0, 1, *b, there, 0).error() == errc::store_closed);
    CHECK(a->read(here, 0, got).has_value());
    CHECK(got == contents);
}

namespace {

/// Of this process, where the system's malloc tells.
std::size_t bytes_in_use() {
    auto const m = ::mallinfo2();
    return m.uordblks + m.hblkhd;
}

}  // namespace

TEST_CASE("what was sent is let go") {
    constexpr std::size_t n = 2 << 20, many = TENURE_SANITIZED ? 4 : 32;
    temporary_directory   dir;
    house<plain_store<>>  there(dir.path() / "server");  // whose payloads are copies, on their way
    auto const            s    = remote_store::connect(there.where);
    block const           b    = s->allocate(n, 8).value();
    auto const            once = [&] {
        auto       payload = std::make_shared<std::vector<std::byte>>(bytes(n, 1));
        auto const weak    = std::weak_ptr(payload);
        auto const all     = std::span(*payload);
        s->async_write(b, 0, all, [payload = std::move(payload)](std::error_code why) { CHECK_FALSE(why); });
        return weak;
    };
    // The caller's memory is nobody's any more once the handler was called, though nothing is asked after it.
    auto const first = once();
    CHECK(soon([&] { return first.expired(); }, 20s));

    // So is what both sides had of it while it went: the lists, the copies, the answers.
    auto const before = bytes_in_use();
    {
        std::vector<std::weak_ptr<std::vector<std::byte>>> written;
        for (std::size_t i = 0; i < many; ++i) written.push_back(once());
        CHECK(soon([&] { return std::ranges::all_of(written, [](auto const& w) { return w.expired(); }); }, 20s));
        std::vector<std::vector<std::byte>> got(many, bytes(n, 0));
        std::vector<std::future<void>>      reads;
        for (auto& g : got) reads.push_back(s->async_read(b, 0, g, boost::asio::use_future));
        for (auto& r : reads) r.get();
        CHECK(std::ranges::all_of(got, [&](auto const& g) { return g == bytes(n, 1); }));
    }
    CHECK(soon([&] { return bytes_in_use() < before + (std::size_t{1} << 20); }, 20s));
    CHECK(s->close().has_value());
}

TEST_CASE("the buffers of batches in a remote store") {
    fixture          f;
    auto const       s = remote_store::connect(f.at);
    tenure::registry registry;
    {
        tenure::batch_scope request(registry, {.name = "request"});
        auto const          input = request.make_buffer<int>(1000, s);
        std::vector<int>    numbers(1000);
        std::iota(numbers.begin(), numbers.end(), 0);
        input.write(0, numbers);
        auto result = [&] {
            tenure::batch_scope hop(tenure::below(request), {.name = "hop"});
            auto const          scratch = hop.make_buffer<int>(1000, s);
            input.copy_to(scratch);
            auto const best = hop.make_buffer<int>(1000, s);
            scratch.copy_to(best);
            for (int i = 0; i < 100; ++i) hop.make_buffer<int>(10, s);
            CHECK(s->usage().blocks == 103);
            return hop.keep(best);
        }();
        CHECK(s->usage() == store_usage{8000, 2, 0});
        std::vector<int> got(1000);
        result.read(0, got);
        CHECK(got == numbers);
    }
    CHECK(s->usage() == store_usage{0, 0, 0});
    auto const clients = f.server.server.status().clients;
    REQUIRE(clients.size() == 1);
    CHECK(clients[0].batches <= 1);  // what waits for who asks next has no batch, or the last one
}

TEST_CASE("a batch that is cancelled while somebody is inside has nothing in a remote store any more") {
    fixture          f;
    auto const       s = remote_store::connect(f.at);
    tenure::registry registry;
    {
        tenure::batch_scope              request(registry, {.name = "request"});
        std::vector<tenure::buffer<int>> all;
        std::atomic<bool>                begun{false};
        for (int i = 0; i < 100; ++i) all.push_back(request.make_buffer<int>(1000, s));
        auto const kept = [&] {
            tenure::batch_scope hop(tenure::below(request), {.name = "hop"});
            return hop.keep(hop.make_buffer<int>(1000, s));  // known there by another batch until then
        }();
        std::thread reader([&] {  // reads that are on their way when that happens end in either way
            std::vector<int> out(1000);
            begun = true;
            begun.notify_all();
            for (;;) {
                auto const done = all[0].try_read(0, out);
                if (done) continue;
                CHECK(done.error() == errc::cancelled);
                return;
            }
        });
        begun.wait(false);
        registry.cancel(request.id());
        CHECK(s->usage().blocks <= 1);  // that of the reader
        reader.join();
        CHECK(kept.try_write(0, std::vector<int>(1000)).error() == errc::cancelled);
    }
    CHECK(s->usage() == store_usage{0, 0, 0});
}
