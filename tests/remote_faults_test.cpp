// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What can go wrong between a client and a server of buffers, each once. Wherever it does: a call ends within its
// timeout, and says what happened; other clients do not notice; and what the two sides count is right afterwards.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <list>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <boost/asio/use_future.hpp>

#include <tenure/batch_scope.hpp>
#include <tenure/buffer.hpp>
#include <tenure/registry.hpp>
#include <tenure/remote/client.hpp>
#include <tenure/remote/server.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/store/limited.hpp>
#include <tenure/testing/faulty_store.hpp>

#include "remote/house.hpp"
#include "remote/process.hpp"
#include "remote/proxy.hpp"
#include "remote/raw_peer.hpp"
#include "stores/contents.hpp"
#include "stores/plain_store.hpp"
#include "temporary.hpp"

namespace {

using tenure::block;
using tenure::errc;
using tenure::remote_store;
using tenure::store_usage;
using namespace std::chrono_literals;
namespace protocol = tenure::protocol;
using protocol::operation;
using clock_type = std::chrono::steady_clock;

/// Also where the machine is busy and sanitizers slow, nobody who lives is silent for so long.
constexpr auto short_lease = TENURE_SANITIZED ? 3s : 1s;
constexpr auto patience    = 20s;  ///< for what happens at once, on a machine that is busy

tenure::endpoint at(std::filesystem::path const& path) { return tenure::endpoint("unix:" + path.native()); }

tenure::server_options with_lease(std::chrono::milliseconds lease) {
    tenure::server_options o;
    o.lease = lease;
    return o;
}

tenure::client_options exact(std::chrono::milliseconds timeout = patience) {
    tenure::client_options o;
    o.timeout = timeout;
    o.ahead   = 0;  // the same requests each time
    return o;
}

/// Of this process.
std::size_t resident_bytes() {
    std::size_t total = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> total >> resident;
    return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

bool goes_on(remote_store& s) {
    byte_vector const x = pattern(77, 100);
    auto const        b = s.allocate(x.size(), 1);
    if (!b || !s.write(*b, 0, x)) return false;
    byte_vector out(x.size());
    return s.read(*b, 0, out) && out == x && s.deallocate({&*b, 1});
}

/// Another client of the same server, at work all the while; when it goes it has not noticed anything.
class bystander {
public:
    explicit bystander(std::filesystem::path const& server)
        : store_(remote_store::connect(at(server), exact())), thread_([this](std::stop_token over) {
              while (!over.stop_requested()) {
                  if (!goes_on(*store_)) ++failures_;
                  ++rounds_;
                  rounds_.notify_all();
                  std::this_thread::sleep_for(1ms);
              }
          }) {}
    ~bystander() {
        rounds_.wait(0);
        thread_.request_stop();
        thread_.join();
        CHECK(failures_ == 0);
        CHECK(store_->usage().blocks == 0);
        CHECK(store_->close());
    }

private:
    std::shared_ptr<remote_store> store_;
    std::atomic<int>              rounds_{0}, failures_{0};
    std::jthread                  thread_;
};

/// All kinds of requests, several of them under way at once, in as few bytes as it takes. Everything succeeds,
/// once.
void act(remote_store& s) {
    auto const  x = pattern(1, 16), y = pattern(2, 16);
    block const a = s.allocate_in(5, 48, 8).value(), b = s.allocate(16, 8).value();
    CHECK(s.usage() == store_usage{64, 2, 0});

    byte_vector out(16, std::byte{9}), there(16), back(16);
    std::array  done = {s.async_write(a, 0, x, boost::asio::use_future),
                        s.async_write(a, 16, y, boost::asio::use_future),
                        s.async_read(a, 32, out, boost::asio::use_future)};
    for (auto& f : done) CHECK_NOTHROW(f.get());
    CHECK(out == byte_vector(16));  // zeros

    CHECK(s.copy(a, 0, b, 0, 16));
    CHECK(s.read(b, 0, there));
    CHECK(there == x);
    CHECK(s.transfer({&b, 1}, 6));
    CHECK(s.deallocate_batch(5, {&a, 1}));  // the answer may be lost, and then it was done nevertheless
    CHECK(s.usage() == store_usage{16, 1, 0});
    CHECK(s.read(a, 16, back).error() == errc::no_such_block);
    CHECK(s.read(b, 0, back));
    CHECK(back == x);
    CHECK(s.deallocate({&b, 1}));
    CHECK(s.usage() == store_usage{});
}

}  // namespace

TEST_CASE("the connection is cut at every byte") {
    temporary_directory const here;
    house<>                   there(here.path() / "server", with_lease(10s));
    proxy                     between(here.path() / "proxy", there.path);
    bystander const           other(there.path);

    // Once without a fault: how many bytes there are.
    std::array<std::uint64_t, 2> bytes{};
    {
        auto const s = remote_store::connect(at(here.path() / "proxy"), exact());
        act(*s);
        bytes = {between.passed(proxy::to_server), between.passed(proxy::to_client)};
        CHECK(s->close());
    }
    MESSAGE(bytes[0] << " bytes to the server, " << bytes[1] << " to the client");
    // A client that was never let in has nothing to go on with: it is told.
    constexpr std::size_t        header = sizeof(protocol::frame_header);
    std::array<std::uint64_t, 2> hello{header + sizeof(protocol::hello_request),
                                       header + sizeof(protocol::hello_reply) - 1};
    std::uint64_t const          step = TENURE_SANITIZED ? 41 : 1;
    for (auto const d : {proxy::to_server, proxy::to_client}) {
        for (std::uint64_t n = 1; n <= bytes[d]; n += step) {
            CAPTURE(d);
            CAPTURE(n);
            between.heal();
            between.cut_after(d, n);
            try {
                auto const s = remote_store::connect(at(here.path() / "proxy"), exact());
                act(*s);
                // Where all was said and the connection goes, the goodbye may go with it.
                if (auto const closed = s->close(); !closed) {
                    CHECK(n == bytes[d]);
                    CHECK(closed.error() == errc::disconnected);
                }
                CHECK(s->allocate(1, 1).error() == errc::store_closed);
            } catch (tenure::error const& e) {
                CHECK(n <= hello[d]);
                CHECK(e.code() == errc::device_unavailable);
            }
        }
    }
    CHECK(there.server.status().buffers <= 1);  // the bystander's
}

TEST_CASE("the connection is cut again and again") {
    temporary_directory const here;
    house<>                   there(here.path() / "server", with_lease(10s));
    proxy                     between(here.path() / "proxy", there.path);
    std::mt19937_64           dice(1);
    std::size_t               cuts = 0;
    for (int i = 0; i < (TENURE_SANITIZED ? 20 : 150); ++i) {
        CAPTURE(i);
        between.heal();
        auto const        s      = remote_store::connect(at(here.path() / "proxy"), exact());
        std::size_t const before = between.connections();
        {
            std::jthread const knife([&, seed = dice()](std::stop_token over) {
                std::mt19937_64 where(seed);
                while (!over.stop_requested()) {
                    std::size_t const now = between.connections();
                    between.cut_after(proxy::direction(where() % 2), 1 + where() % 400);
                    while (!over.stop_requested() && between.connections() == now)
                        std::this_thread::sleep_for(50us);
                }
                between.heal();
            });
            act(*s);
        }
        cuts += between.connections() - before;
    }
    CHECK(there.is_empty_within(patience));
    MESSAGE(cuts << " cuts");
}

TEST_CASE("byte by byte") {
    temporary_directory const here;
    house<>                   there(here.path() / "server");
    proxy                     between(here.path() / "proxy", there.path);
    between.trickle();
    auto const s = remote_store::connect(at(here.path() / "proxy"), exact());
    act(*s);
    byte_vector const x = pattern(3, 20'000);  // longer than what is copied
    auto const        b = made(*s, x);
    CHECK(contents(*s, b) == x);
    CHECK(between.passed(proxy::to_server) > x.size());
    CHECK(s->close());
    CHECK(there.is_empty_within(patience));
}

TEST_CASE("ending a batch is one request, however many buffers") {
    temporary_directory const here;
    house<>                   there(here.path() / "server");
    proxy                     between(here.path() / "proxy", there.path);
    auto const                s = remote_store::connect(at(here.path() / "proxy"));
    tenure::registry          registry;
    for (std::size_t const many : {1u, 100u, 3000u}) {
        CAPTURE(many);
        {
            tenure::batch_scope step(registry, {.store = s});
            for (std::size_t i = 0; i < many; ++i) step.make_buffer<int>(1 + i % 100);
            CHECK(s->usage().blocks == many);
            between.heal();  // from here on it counts
        }
        CHECK(between.passed(proxy::to_server) == sizeof(protocol::frame_header) + sizeof(protocol::batch_request));
        CHECK(between.passed(proxy::to_client) == sizeof(protocol::frame_header) + sizeof(protocol::usage_reply));
        CHECK(s->usage() == store_usage{});
    }
    CHECK(there.is_empty_within(patience));
}

TEST_CASE("as a server" * doctest::skip()) {
    boost::asio::io_context io{1};
    tenure::buffer_server   server(io.get_executor(), std::make_shared<tenure::heap_store>(),
                                   with_lease(short_lease));
    server.listen(at(process::argument()));
    process::tell();
    io.run();
}

TEST_CASE("the server is killed in the middle of a transfer") {
    temporary_directory const here;
    auto const                path = here.path() / "server";
    auto const                big  = pattern(4, 8 << 20);
    for (auto const way : {proxy::to_server, proxy::to_client}) {
        CAPTURE(way);
        proxy                  between(here.path() / (way == proxy::to_server ? "a" : "b"), path);
        std::optional<process> there(std::in_place, "as a server", path);
        REQUIRE(there->await());
        auto const  s = remote_store::connect(at(here.path() / (way == proxy::to_server ? "a" : "b")), exact());
        block const b = made(*s, big), small = made(*s, pattern(5, 10));
        CHECK(s->usage() == store_usage{big.size() + 10, 2, 0});

        constexpr std::uint64_t half = 3 << 20;
        between.stall_after(way, half);
        byte_vector                   out(big.size());
        auto const                    begin = clock_type::now();
        std::promise<std::error_code> said;  // no exception: those through futures are races to the sanitizer
        auto const                    hear = [&](boost::system::error_code e) { said.set_value(e); };
        if (way == proxy::to_server) s->async_write(b, 0, big, hear);
        else s->async_read(b, 0, out, hear);
        while (between.passed(way) != half) std::this_thread::sleep_for(1ms);
        there->kill();
        CHECK(said.get_future().get() == errc::disconnected);
        CHECK(clock_type::now() - begin < patience);
        CHECK(s->usage() == store_usage{});
        CHECK(s->allocate(10, 1).error() == errc::device_unavailable);

        // Another one in its place has nothing of it, and gives no number again.
        between.heal();
        there.emplace("as a server", path);
        REQUIRE(there->await());
        for (block const& old : {b, small}) {
            byte_vector x(10);
            CHECK(s->read(old, 0, x).error() == errc::stale_handle);
            CHECK(s->write(old, 0, x).error() == errc::stale_handle);
            CHECK(s->deallocate({&old, 1}));  // it is gone, as it was to be
        }
        CHECK(s->usage() == store_usage{});
        CHECK(goes_on(*s));
        block const fresh = made(*s, pattern(6, 10));
        CHECK(fresh.id != b.id);
        CHECK(fresh.id != small.id);
        CHECK(s->close());
    }
}

TEST_CASE("the server is another one, before anybody asks") {
    temporary_directory const here;
    auto const                path = here.path() / "server";
    std::optional<process>    there(std::in_place, "as a server", path);
    REQUIRE(there->await());
    auto const               s = remote_store::connect(at(path), exact());
    std::vector<block> const olds{made(*s, pattern(1, 10)), s->allocate_in(3, 20, 1).value()};
    there.emplace("as a server", path);
    REQUIRE(there->await());
    byte_vector x(10);
    for (block const& b : olds) CHECK(s->read(b, 0, x).error() == errc::stale_handle);
    CHECK(s->copy(olds[0], 0, olds[1], 0, 10).error() == errc::stale_handle);
    CHECK(s->transfer(olds, 4).error() == errc::stale_handle);
    CHECK(s->deallocate_batch(3, {&olds[1], 1}));
    CHECK(s->deallocate({olds.data(), 1}));
    CHECK(s->usage() == store_usage{});
    CHECK(goes_on(*s));
}

TEST_CASE("as a client" * doctest::skip()) {
    auto const s = remote_store::connect(at(process::argument()), exact(5 * patience));  // beside many others
    auto const x = pattern(7, 100'000);
    for (std::uint64_t batch = 1;; ++batch) {
        std::array const two{s->allocate_in(batch, x.size(), 64).value(), s->allocate_in(batch, 64, 64).value()};
        s->write(two[0], 0, x).value();
        if (batch == 1) process::tell();
        if (batch % 3 == 0) s->deallocate_batch(batch, two).value();
    }
}

TEST_CASE("clients are killed") {
    temporary_directory const here;
    constexpr int             all = TENURE_SANITIZED ? 20 : 48, at_once = TENURE_SANITIZED ? 5 : 12;
    auto const                lease = 3s;  // for clients that are slow, beside others
    house<>                   there(here.path() / "server", with_lease(lease));
    std::mt19937_64           dice(1);
    for (int killed = 0; killed < all; killed += at_once) {
        CAPTURE(killed);
        std::list<process> clients;
        for (int i = 0; i < at_once; ++i) clients.emplace_back("as a client", there.path);
        for (process& p : clients) {
            REQUIRE(p.await());
            std::this_thread::sleep_for(std::chrono::microseconds(dice() % 2000));
            CHECK(there.store->usage().blocks > 0);
            p.kill();
        }
        CHECK(there.is_empty_within(lease + patience));
    }
    CHECK(there.has_no_clients_within(lease + patience));
    CHECK(there.server.status().bytes == 0);
}

TEST_CASE("a client that stops reading") {
    temporary_directory const here;
    auto const                options = [] {
        auto o            = with_lease(short_lease);
        o.quota.in_flight = 1000;
        return o;
    }();
    // Of a store without addresses the server has copies to send.
    house<plain_store<>> there(here.path() / "server", options);
    bystander const      other(there.path);
    raw_peer             p(there.path);
    REQUIRE(p.hello());
    constexpr std::uint64_t each = 512 << 10, asked = 500;
    auto const              f = p.call(operation::allocate, [&] {
        protocol::allocate_request a;
        a.bytes     = each;
        a.alignment = 1;
        a.count     = 1;
        return a;
    }());
    REQUIRE(f);
    auto const              run = protocol::whole<protocol::block_run>(f->body).value();
    protocol::range_request r;
    r.block           = {run.first, run.bytes};
    r.length          = each;
    auto const before = resident_bytes();
    for (std::uint64_t i = 0; i < asked; ++i)
        if (!p.ask(operation::read, r)) break;  // a slow machine: the lease is over already
    std::size_t most = 0;
    auto const  end  = clock_type::now() + patience;
    while (there.server.status().clients.size() > 1 && clock_type::now() < end) {  // the other one is there, too
        most = std::max(most, resident_bytes() - std::min(resident_bytes(), before));
        std::this_thread::sleep_for(2ms);
    }
    CHECK(there.server.status().clients.size() == 1);
    CHECK(most < each * asked / 4);
    MESSAGE((most >> 10) << " KiB for " << (asked * each >> 10) << " KiB of answers");
}

TEST_CASE("a client that stops talking") {
    temporary_directory const here;
    auto                      o = with_lease(short_lease);
    o.hello_timeout             = short_lease;
    house<>         there(here.path() / "server", o);
    bystander const other(there.path);

    protocol::frame_header hello;
    hello.request          = 1;
    hello.operation        = static_cast<std::uint16_t>(operation::hello);
    auto const whole_hello = raw_peer::whole(hello, protocol::bytes_of(protocol::hello_request()));

    std::list<raw_peer> silent;
    for (std::size_t const n : {std::size_t{0}, std::size_t{1}, sizeof hello, whole_hello.size() - 1}) {
        silent.emplace_back(there.path);
        silent.back().send(std::span(whole_hello).first(n));
    }
    // As far into a request: in its header, its body, a payload that is short, and one that goes straight to
    // memory.
    struct {
        std::size_t payload, said;
    } const requests[] = {{0, 0}, {100, 5}, {100, 40}, {100, 64 + 50}, {1 << 20, 64 + (1 << 19)}};
    for (auto const& x : requests) {
        silent.emplace_back(there.path);
        raw_peer& p = silent.back();
        REQUIRE(p.hello());
        protocol::allocate_request a;
        a.bytes = x.payload, a.alignment = 1, a.count = 1;
        auto const f = p.call(operation::allocate, a);
        REQUIRE(f);
        auto const              run = protocol::whole<protocol::block_run>(f->body).value();
        protocol::range_request r;
        r.block  = {run.first, run.bytes};
        r.length = x.payload;
        protocol::frame_header h;
        h.request        = p.asked + 1;
        h.operation      = static_cast<std::uint16_t>(operation::write);
        auto const frame = raw_peer::whole(h, protocol::bytes_of(r), byte_vector(x.payload));
        CHECK(p.send(std::span(frame).first(x.said)));
    }
    for (raw_peer& p : silent) CHECK(p.is_closed());
    CHECK(there.is_empty_within(patience));
    CHECK(there.server.status().clients.size() == 1);
}

TEST_CASE("a server that stops talking") {
    temporary_directory const here;
    house<>                   there(here.path() / "server", with_lease(10s));
    proxy                     between(here.path() / "proxy", there.path);
    bystander const           other(there.path);
    auto const                timeout = TENURE_SANITIZED ? 3s : 1s;
    auto const                s       = remote_store::connect(at(here.path() / "proxy"), exact(timeout));
    auto const                x       = pattern(1, 100'000);
    block const               b       = made(*s, x);
    byte_vector               out(x.size());
    auto const                times_out = [&](auto call) {
        auto const begin = clock_type::now();
        CHECK(call().error() == errc::timed_out);
        auto const took = clock_type::now() - begin;
        CHECK(took >= timeout);
        CHECK(took < timeout + patience);
    };
    for (std::uint64_t const after : {0u, 20u}) {
        CAPTURE(after);
        between.stall_after(proxy::to_client, after);
        times_out([&] { return s->read(b, 0, out); });
        times_out([&] { return s->write(b, 0, x); });
        between.heal();
        CHECK(goes_on(*s));
        CHECK(contents(*s, b) == x);
    }
    // What came of these nobody knows. Whatever it was, the two sides agree on it afterwards.
    between.stall_after(proxy::to_client, 40);
    times_out([&] { return s->allocate(1000, 8); });
    times_out([&] { return s->allocate_in(9, 1000, 8); });
    between.heal();
    CHECK(goes_on(*s));
    between.stall_after(proxy::to_server, 1000);  // and one that stops reading
    times_out([&] { return s->write(b, 0, x); });
    between.heal();
    CHECK(goes_on(*s));
    block const last = made(*s, x);
    between.stall_after(proxy::to_client, 0);
    times_out([&] { return s->deallocate({&last, 1}); });
    between.heal();
    CHECK(s->write(b, 0, x));
    CHECK(contents(*s, b) == x);
    CHECK(s->usage() == store_usage{x.size(), 1, 0});
    CHECK(s->deallocate({&b, 1}));
    CHECK(there.is_empty_within(patience));
}

TEST_CASE("two clients with the same token") {
    temporary_directory const here;
    auto                      o = with_lease(10s);
    o.tokens.add("both", "open sesame");
    house<> there(here.path() / "server", o);
    auto    with = [](std::string_view token) {
        auto c = exact();
        c.tokens.add("", token);
        return c;
    };
    auto const  one = remote_store::connect(at(there.path), with("open sesame"));
    auto const  two = remote_store::connect(at(there.path), with("open sesame"));
    auto const  x = pattern(1, 100), y = pattern(2, 100);
    block const a = one->allocate_in(1, 100, 1).value(), b = two->allocate_in(1, 100, 1).value();
    CHECK(a.id != b.id);
    CHECK(one->write(a, 0, x));
    CHECK(two->write(b, 0, y));
    byte_vector out(100);
    CHECK(two->read(a, 0, out).error() == errc::no_such_block);
    CHECK(two->write(a, 0, y).error() == errc::no_such_block);
    CHECK(two->copy(a, 0, b, 0, 10).error() == errc::no_such_block);
    CHECK(two->transfer({&a, 1}, 2).error() == errc::no_such_block);
    CHECK(two->deallocate({&a, 1}).error() == errc::no_such_block);
    CHECK(two->deallocate_batch(1, {&b, 1}));  // its own batch 1
    CHECK(contents(*one, a) == x);
    CHECK(one->usage() == store_usage{100, 1, 0});
    CHECK(two->usage() == store_usage{});
    CHECK(two->close());
    CHECK(contents(*one, a) == x);
    CHECK_THROWS_AS(remote_store::connect(at(there.path), with("open sesam")), tenure::error);
    CHECK_THROWS_AS(remote_store::connect(at(there.path), exact()), tenure::error);
    CHECK(goes_on(*one));
    CHECK(one->close());
    CHECK(there.is_empty_within(patience));
}

TEST_CASE("the capacity is exhausted") {
    temporary_directory const here;
    using store                = tenure::limited_store<tenure::heap_store>;
    constexpr std::size_t room = 1 << 20;
    house<store>          there(
        here.path() / "server", with_lease(10s),
        std::make_shared<store>(std::make_shared<tenure::heap_store>(), tenure::store_limits{.bytes = room}));
    auto const  one = remote_store::connect(at(there.path), exact());
    auto const  two = remote_store::connect(at(there.path));  // this one fetches ahead
    block const big = one->allocate(room * 7 / 8, 64).value();
    CHECK(two->allocate(room / 4, 64).error() == errc::store_full);
    CHECK(two->usage().bytes == 0);

    // Until there is no room: what was fetched ahead is used up first, and not lost.
    std::vector<block> small;
    for (;;) {
        auto const b = two->allocate(1000, 8);
        if (!b) {
            CHECK(b.error() == errc::store_full);
            break;
        }
        small.push_back(*b);
    }
    CHECK(small.size() == room / 8 / 1000);
    CHECK(two->usage().blocks == small.size());
    CHECK(one->write(big, 0, pattern(1, 100)));
    CHECK(one->deallocate({&big, 1}));
    CHECK(two->allocate(room / 2, 64).has_value());
    CHECK(two->deallocate(small));
    CHECK(two->usage() == store_usage{room / 2, 1, two->usage().capacity});
    CHECK(two->close());
    CHECK(one->usage().bytes == 0);
    CHECK(there.is_empty_within(patience));
}

TEST_CASE("the device is lost") {
    temporary_directory const here;
    using store = tenure::faulty_store<tenure::heap_store>;
    house<store> there(here.path() / "server", with_lease(10s),
                       std::make_shared<store>(std::make_shared<tenure::heap_store>()));
    auto const   s    = remote_store::connect(at(there.path), exact());
    auto const   x    = pattern(1, 100'000);
    block const large = made(*s, x), small = made(*s, pattern(2, 100)), in_batch = s->allocate_in(3, 64, 8).value();
    auto const  lost = make_error_code(errc::device_unavailable);

    there.store->inject({.times = ~std::uint64_t{0}, .how = tenure::faults::fails{lost}});
    byte_vector out(100), all(x.size());
    CHECK(s->read(small, 0, out).error() == lost);
    CHECK(s->read(large, 0, all).error() == lost);
    CHECK(s->write(small, 0, out).error() == lost);
    CHECK(s->write(large, 0, all).error() == lost);
    CHECK(s->copy(large, 0, small, 0, 10).error() == lost);
    CHECK(s->allocate(10, 1).error() == lost);
    CHECK(s->usage() == store_usage{x.size() + 164, 3, 0});
    // What cannot be freed is the server's to free, once it can; the client has it no more.
    CHECK(s->deallocate({&small, 1}).error() == lost);
    CHECK(s->deallocate_batch(3, {&in_batch, 1}).error() == lost);
    CHECK(s->usage() == store_usage{x.size(), 1, 0});
    CHECK(there.server.status().unfreed == 2);

    there.store->clear();
    CHECK(contents(*s, large) == x);  // what was refused did nothing
    CHECK(s->deallocate({&small, 1}).error() == errc::no_such_block);
    CHECK(goes_on(*s));
    CHECK(there.store->usage() == store_usage{x.size(), 1, 0});
    CHECK(there.server.status().unfreed == 0);
    CHECK(s->close());
    CHECK(there.is_empty_within(patience));
}
