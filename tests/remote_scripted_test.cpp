// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A client whose server says what it is told to: out of order, never, again, and what makes no sense.

#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/use_future.hpp>

#include <tenure/remote/client.hpp>

#include "scripted_server.hpp"
#include "temporary.hpp"

namespace {

using tenure::block;
using tenure::errc;
using tenure::remote_store;
using operation = tenure::protocol::operation;
using namespace std::chrono_literals;

/// Longer than anything here takes, also where it is slow.
constexpr auto soon = 1000ms, late = 20'000ms;

std::vector<std::byte> bytes(std::size_t n, int what) {
    return std::vector<std::byte>(n, static_cast<std::byte>(what));
}

/// A client and, on this thread, its server. What the client does runs on another.
struct pair {
    temporary_directory           dir;
    scripted_server               server{(dir.path() / "socket").string()};
    std::shared_ptr<remote_store> store;

    explicit pair(tenure::client_options options = {}) : pair(options, [](auto&) {}) {}

    template <class Change>
    pair(tenure::client_options options, Change change) {
        auto reply = server.offer();
        change(reply);
        auto made = std::async(std::launch::async, [&] { return remote_store::connect(server.where(), options); });
        server.greet(reply);
        store = made.get();
    }
    ~pair() {
        server.cut();
        std::jthread const gone([this] { store.reset(); });
    }

    template <class F>
    auto doing(F f) {
        return std::async(std::launch::async, std::move(f));
    }
    block make(std::size_t n, std::uint64_t id) {
        auto made = doing([&] { return store->allocate(n, 1); });
        server.give(server.next(operation::allocate), id);
        return made.get().value();
    }
};

constexpr std::uint64_t epoch = std::uint64_t{9} << 40;
constexpr std::size_t   big   = 100'000;  // beyond what is fetched ahead

tenure::client_options patient(std::chrono::milliseconds timeout) {
    tenure::client_options o;
    o.timeout = timeout;
    return o;
}

}  // namespace

TEST_CASE("answers come in any order") {
    pair        p;
    block const b = p.make(big, epoch + 1);
    auto        x = bytes(10, 0), y = bytes(20'000, 0);
    auto        first  = p.store->async_read(b, 0, x, boost::asio::use_future);
    auto        second = p.store->async_read(b, 5, y, boost::asio::use_future);
    auto const  one    = p.server.next(operation::read);
    auto const  two    = p.server.next(operation::read);
    CHECK(two.number() == one.number() + 1);
    CHECK(two.as<tenure::protocol::range_request>().offset == 5);
    p.server.answer(two, {}, bytes(20'000, 2));
    second.get();
    CHECK(y == bytes(20'000, 2));
    CHECK(first.wait_for(0s) == std::future_status::timeout);
    p.server.answer(one, {}, bytes(10, 1));
    first.get();
    CHECK(x == bytes(10, 1));

    auto       again = p.doing([&] { return p.store->write(b, 0, x).has_value(); });
    auto const w     = p.server.next(operation::write);
    CHECK(w.payload == x);
    CHECK(w.header.settled == two.number());
    p.server.answer(w);
    CHECK(again.get());
}

TEST_CASE("long payloads go in pieces, and others take their turn") {
    pair        p({}, [](auto& reply) { reply.most_payload = 4096, reply.in_flight = 4; });
    block const b          = p.make(big, epoch + 1);
    auto const  all        = bytes(big, 3);
    auto        sent       = p.store->async_write(b, 0, all, boost::asio::use_future);
    std::size_t bytes_seen = 0;
    auto        one        = bytes(1, 0);
    auto        small      = p.store->async_read(b, 0, one, boost::asio::use_future);
    unsigned    before     = 0;
    bool        read       = false;
    while (bytes_seen < big) {
        auto const f = p.server.next();
        if (f.what() == operation::read) {
            read = true;
            p.server.answer(f, {}, bytes(1, 7));
            continue;
        }
        CHECK(f.payload.size() <= 4096);
        CHECK(f.as<tenure::protocol::range_request>().offset == bytes_seen);
        bytes_seen += f.payload.size();
        before += !read;
        p.server.answer(f);
    }
    sent.get();
    small.get();
    CHECK(one == bytes(1, 7));
    CHECK(before < 25);
}

TEST_CASE("no more in flight than the server allows") {
    pair                                p({}, [](auto& reply) { reply.in_flight = 3; });
    block const                         b = p.make(big, epoch + 1);
    std::vector<std::vector<std::byte>> into(10, bytes(8, 0));
    std::vector<std::future<void>>      reads;
    for (auto& x : into) reads.push_back(p.store->async_read(b, 0, x, boost::asio::use_future));
    std::vector<scripted_server::frame> got;
    for (int i = 0; i < 10; ++i) {
        if (got.size() == 3) {  // answered from the back: only the first one lets it go on
            for (; !got.empty(); got.pop_back()) p.server.answer(got.back(), {}, bytes(8, 1));
        }
        got.push_back(p.server.next(operation::read));
        CHECK(got.back().number() - got.back().header.settled <= 3);
    }
    for (auto const& f : got) p.server.answer(f, {}, bytes(8, 1));
    for (auto& r : reads) r.get();
}

TEST_CASE("a server that says nothing: the call ends in time, and its memory is left alone") {
    pair        p(patient(soon));
    block const b    = p.make(big, epoch + 1);
    auto        into = bytes(60'000, 9);
    auto        read = p.doing([&] { return p.store->read(b, 0, into).error(); });
    auto const  f    = p.server.next(operation::read);

    SUBCASE("at all") { CHECK(read.get() == errc::timed_out); }
    SUBCASE("after a part of the payload") {
        tenure::protocol::frame_header h;
        h.payload   = 60'000;
        h.request   = f.number();
        h.operation = static_cast<std::uint16_t>(operation::read) | tenure::protocol::is_reply;
        p.server.send(tenure::protocol::bytes_of(h));
        p.server.send(bytes(30'000, 1));
        CHECK(read.get() == errc::timed_out);
    }
    auto const after = into;
    // It looks whether the server is there by another connection, where what nobody wants is asked for once more.
    p.server.accept();
    auto const h = p.server.next(operation::hello);
    CHECK(h.as<tenure::protocol::hello_request>().session == 5);
    auto reply    = p.server.offer();
    reply.resumed = 1;
    p.server.answer(h, tenure::protocol::bytes_of(reply));
    auto const again = p.server.next(operation::read);
    CHECK(again.number() == f.number());
    p.server.answer(again, {}, bytes(60'000, 5));
    auto       one  = bytes(1, 0);
    auto       next = p.doing([&] { return p.store->read(b, 0, one).error(); });
    auto const n    = p.server.next(operation::read);
    CHECK(n.number() == h.number() + 1);
    p.server.answer(n, {}, bytes(1, 4));
    CHECK_FALSE(next.get());
    CHECK(into == after);
}

TEST_CASE("a server that does not read: what is being sent is let go") {
    pair        p(patient(soon));
    block const b    = p.make(40 << 20, epoch + 1);
    auto        from = bytes(40 << 20, 9);
    CHECK(p.store->write(b, 0, from).error() == errc::timed_out);
}

TEST_CASE("cancelled") {
    pair                             p({}, [](auto& reply) { reply.in_flight = 1; });
    block const                      b = p.make(big, epoch + 1);
    auto                             x = bytes(1000, 0), y = bytes(1000, 0);
    boost::asio::cancellation_signal stop_first, stop_second;
    std::promise<std::error_code>    first, second;
    auto const                       read = [&](auto& into, auto& signal, auto& result) {
        p.store->async_read(b, 0, into,
                                                  boost::asio::bind_cancellation_slot(
                                signal.slot(), [&result](std::error_code why) { result.set_value(why); }));
    };
    read(x, stop_first, first);
    read(y, stop_second, second);
    auto const f = p.server.next(operation::read);
    stop_second.emit(boost::asio::cancellation_type::total);  // it was not sent
    CHECK(second.get_future().get() == std::errc::operation_canceled);
    stop_first.emit(boost::asio::cancellation_type::terminal);  // it was
    CHECK(first.get_future().get() == std::errc::operation_canceled);
    p.server.answer(f, {}, bytes(1000, 1));
    auto       one  = bytes(1, 0);
    auto       next = p.doing([&] { return p.store->read(b, 0, one).error(); });
    auto const n    = p.server.next(operation::read);  // the other one was never sent
    CHECK(n.number() == f.number() + 1);
    p.server.answer(n, {}, bytes(1, 4));
    CHECK_FALSE(next.get());
    CHECK(x == bytes(1000, 0));
    CHECK(y == bytes(1000, 0));
}

TEST_CASE("a connection that is lost: what has no answer is asked again, with its number, in order") {
    pair        p;
    block const b     = p.make(big, epoch + 1);
    auto        x     = bytes(5, 0);
    auto const  from  = bytes(70'000, 6);
    auto        read  = p.store->async_read(b, 0, x, boost::asio::use_future);
    auto        write = p.store->async_write(b, 0, from, boost::asio::use_future);
    auto        made  = p.store->async_allocate(big, 1, boost::asio::use_future);
    auto const  r     = p.server.next(operation::read);
    auto const  w     = p.server.next(operation::write);
    auto const  a     = p.server.next(operation::allocate);
    p.server.answer(w);
    write.get();
    p.server.cut();

    p.server.accept();
    auto h = p.server.next(operation::hello);
    CHECK(h.number() == a.number() + 1);
    CHECK(h.as<tenure::protocol::hello_request>().secret == p.server.offer().secret);
    p.server.cut();  // once more, before the answer
    p.server.accept();
    h             = p.server.next(operation::hello);
    auto reply    = p.server.offer();
    reply.resumed = 1;
    p.server.answer(h, tenure::protocol::bytes_of(reply));
    CHECK(p.server.next(operation::read).number() == r.number());
    auto const again = p.server.next(operation::allocate);
    CHECK(again.number() == a.number());
    p.server.give(again, epoch + 7);
    CHECK(made.get() == block{epoch + 7, big});
    p.server.answer(r, {}, bytes(5, 3));
    read.get();
    CHECK(x == bytes(5, 3));
    CHECK(p.store->usage() == tenure::store_usage{2 * big, 2, 0});
}

TEST_CASE("another instance: what was there is gone, and said to be") {
    pair        p;
    block const b    = p.make(big, epoch + 1);
    auto        x    = bytes(5, 0);
    auto        read = p.doing([&] { return p.store->read(b, 0, x).error(); });
    p.server.next(operation::read);
    auto made = p.doing([&] { return p.store->allocate(big, 1).error(); });
    p.server.next(operation::allocate);
    auto freed = p.doing([&] { return p.store->deallocate_batch(3, {}).has_value(); });
    p.server.next(operation::end_batch);
    p.server.cut();
    auto reply     = p.server.offer();
    reply.instance = 78;
    reply.session  = 6;
    p.server.greet(reply);
    CHECK(read.get() == errc::stale_handle);
    CHECK(made.get() == errc::disconnected);
    CHECK(freed.get());
    CHECK(p.store->usage() == tenure::store_usage{0, 0, 0});
    CHECK(p.store->read(b, 0, x).error() == errc::stale_handle);
    CHECK(p.store->write(b, 0, x).error() == errc::stale_handle);
    CHECK(p.store->transfer(std::span(&b, 1), 3).error() == errc::stale_handle);
    CHECK(p.store->deallocate(std::span(&b, 1)).has_value());  // nobody asks the server

    block const n      = p.make(big, (std::uint64_t{10} << 40) + 1);
    block const both[] = {b, n};
    freed              = p.doing([&] { return p.store->deallocate(both).has_value(); });
    auto const f       = p.server.next(operation::deallocate);
    CHECK(f.body.size() == sizeof(tenure::protocol::block_run));
    CHECK(f.as<tenure::protocol::block_run>().first == n.id);
    p.server.answer(f);
    CHECK(freed.get());
}

TEST_CASE("the same instance, but the lease is over") {
    pair        p;
    block const b = p.make(big, epoch + 1);
    p.server.cut();
    auto x        = bytes(5, 0);
    auto read     = p.doing([&] { return p.store->read(b, 0, x).error(); });
    auto reply    = p.server.offer();
    reply.session = 6;
    p.server.greet(reply);
    CHECK(read.get() == errc::stale_handle);
    read = p.doing([&] { return p.store->read(b, 0, x).error(); });
    p.server.answer(p.server.next(operation::read), errc::no_such_block);
    CHECK(read.get() == errc::stale_handle);
    auto freed = p.doing([&] { return p.store->deallocate(std::span(&b, 1)).has_value(); });
    p.server.answer(p.server.next(operation::deallocate), errc::no_such_block);
    tenure::protocol::usage_reply none;
    p.server.answer(p.server.next(operation::usage), tenure::protocol::bytes_of(none));
    CHECK(freed.get());
}

TEST_CASE("nobody is there any more") {
    auto        options = patient(late);
    pair        p(options, [](auto& reply) { reply.lease = 60; });
    block const b = p.make(big, epoch + 1);
    auto        x = bytes(5, 0);
    p.server.cut();
    std::filesystem::remove(p.dir.path() / "socket");
    CHECK(p.store->read(b, 0, x).error() == errc::disconnected);
    CHECK(p.store->read(b, 0, x).error() == errc::stale_handle);
    CHECK(p.store->deallocate(std::span(&b, 1)).has_value());
    CHECK(p.store->allocate(big, 1).error() == errc::device_unavailable);
}

TEST_CASE("small blocks come some at a time") {
    pair          p;
    std::uint64_t next    = epoch + 1;
    std::size_t   asked[] = {0, 0, 0, 0};
    for (int i = 0; i < 4; ++i) {
        std::size_t const n    = std::size_t{1} << i;
        auto              made = p.doing([&] {
            std::vector<block> all;
            for (std::size_t k = 0; k < n; ++k) all.push_back(p.store->allocate_in(4, 16, 8).value());
            return all;
        });
        auto const        f    = p.server.next(operation::allocate);
        auto const        a    = f.as<tenure::protocol::allocate_request>();
        CHECK(a.batch == 4);
        asked[i] = a.count;
        p.server.give(f, next);
        next += a.count;
        CHECK(made.get().size() == n);
    }
    CHECK(std::vector<std::size_t>(asked, asked + 4) == std::vector<std::size_t>{1, 2, 4, 8});
    CHECK(p.store->usage() == tenure::store_usage{15 * 16, 15, 0});

    // There is no room for sixteen: one, then.
    auto made = p.doing([&] { return p.store->allocate_in(4, 16, 8).value(); });
    auto f    = p.server.next(operation::allocate);
    CHECK(f.as<tenure::protocol::allocate_request>().count == 16);
    p.server.answer(f, errc::store_full);
    f = p.server.next(operation::allocate);
    CHECK(f.as<tenure::protocol::allocate_request>().count == 1);
    p.server.give(f, next);
    CHECK(made.get().id == next++);

    // What nobody asked for is not counted, and goes with the batch.
    auto two = p.doing([&] { return p.store->allocate_in(4, 16, 8).value(); });
    f        = p.server.next(operation::allocate);
    p.server.give(f, next);
    two.get();
    CHECK(p.store->usage() == tenure::store_usage{17 * 16, 17, 0});
    auto                          ended = p.doing([&] { return p.store->deallocate_batch(4, {}).has_value(); });
    tenure::protocol::usage_reply none;
    p.server.answer(p.server.next(operation::end_batch), tenure::protocol::bytes_of(none));
    CHECK(ended.get());
    CHECK(p.store->usage() == tenure::store_usage{0, 0, 0});
}

namespace {

/// A client that asks for small blocks of a batch, and what its server hears of it.
struct small_blocks : pair {
    explicit small_blocks(std::uint16_t version) : pair({}, [&](auto& r) { r.version = version; }) {
        for (std::size_t n = 1000; n < 1008; ++n) ask(n, n, 1);  // the first few sizes have places of their own
        ask(100, 100, 1);
    }

    block ask(std::size_t n, std::size_t bytes, std::uint64_t count) {
        auto       made = doing([&] { return store->allocate_in(4, n, 8).value(); });
        auto const f    = server.next(operation::allocate);
        auto const a    = f.as<tenure::protocol::allocate_request>();
        CHECK(a.bytes == bytes);
        CHECK(a.count == count);
        server.give(f, next);
        auto const b = made.get();
        CHECK(b == block{next, n});
        next += count;
        sum += n;
        return b;
    }

    std::uint64_t next = epoch + 1;
    std::size_t   sum  = 0;
};

}  // namespace

TEST_CASE("small blocks of many sizes come one by one, where the server knows no better") {
    small_blocks p(1);
    p.ask(101, 101, 1);
    p.ask(102, 102, 1);
    CHECK(p.store->usage() == tenure::store_usage{p.sum, 11, 0});
}

TEST_CASE("small blocks of many sizes come some at a time, too, and are told to be smaller before they are named") {
    namespace protocol = tenure::protocol;
    small_blocks p(2);
    auto&        sum   = p.sum;
    auto const   first = p.ask(101, 112, 2);
    CHECK(p.store->usage() == tenure::store_usage{sum, 10, 0});
    auto const second = p.store->allocate_in(4, 97, 8).value();  // nobody is asked
    CHECK(second == block{first.id + 1, 97});
    sum += 97;
    CHECK(p.store->usage() == tenure::store_usage{sum, 11, 0});

    // What comes before anything that names them; how many frames that is depends on when they went.
    struct heard {
        std::vector<scripted_server::frame> trims;
        scripted_server::frame              then;
        std::vector<block>                  all;
    };
    auto const listen = [&] {
        heard h;
        for (;;) {
            h.then = p.server.next();
            if (h.then.what() != operation::trim) return h;
            h.trims.push_back(h.then);
            auto const runs = *protocol::list<protocol::block_run>(h.then.body);
            for (auto const& r : runs)
                for (std::uint64_t i = 0; i != r.count; ++i)
                    h.all.push_back({r.first + i, static_cast<std::size_t>(r.bytes)});
        }
    };
    std::vector<std::byte> out(97);
    auto                   read = p.doing([&] { return p.store->read(second, 0, out).has_value(); });
    auto const             told = listen();
    REQUIRE(told.all.size() == 2);
    CHECK(told.all[0] == first);
    CHECK(told.all[1] == second);
    CHECK(told.then.what() == operation::read);
    CHECK(told.then.as<protocol::range_request>().block.bytes == 97);
    CHECK(p.store->usage() == tenure::store_usage{sum, 11, 0});
    auto const answer = [&](heard const& h) {
        for (auto const& f : h.trims) p.server.answer(f);
    };
    SUBCASE("it does as it is told") {
        answer(told);
        p.server.answer(told.then, {}, bytes(97, 1));
        CHECK(read.get());
        CHECK(p.store->usage() == tenure::store_usage{sum, 11, 0});
    }
    SUBCASE("it does not, and is asked what there is") {
        for (std::size_t i = 0; i + 1 != told.trims.size(); ++i) p.server.answer(told.trims[i]);
        p.server.answer(told.trims.back(), errc::no_such_block);
        p.server.answer(told.then, {}, bytes(97, 1));
        CHECK(read.get());
        protocol::usage_reply u;
        u.bytes  = 5000;
        u.blocks = 5;
        p.server.answer(p.server.next(operation::usage), protocol::bytes_of(u));
        auto again = p.doing([&] { return p.store->read(second, 0, out).has_value(); });
        p.server.answer(p.server.next(operation::read), {}, bytes(97, 1));
        CHECK(again.get());
        CHECK(p.store->usage() == tenure::store_usage{5000, 5, 0});
    }
    SUBCASE("the connection is lost, and it is told again, first") {
        p.server.cut();
        auto reply    = p.server.offer();
        reply.resumed = 1;
        reply.version = 2;
        p.server.greet(reply);
        auto const again = listen();
        REQUIRE(again.trims.size() == told.trims.size());
        for (std::size_t i = 0; i != again.trims.size(); ++i) {
            CHECK(again.trims[i].body == told.trims[i].body);
            CHECK(again.trims[i].number() == told.trims[i].number());
        }
        answer(again);
        p.server.answer(again.then, {}, bytes(97, 1));
        CHECK(read.get());
        CHECK(p.store->usage() == tenure::store_usage{sum, 11, 0});
    }
    SUBCASE("those that nobody has named end with the batch, untold") {
        answer(told);
        p.server.answer(told.then, {}, bytes(97, 1));
        CHECK(read.get());
        p.ask(101, 112, 4);
        for (int i = 0; i < 3; ++i) p.store->allocate_in(4, 101, 8).value();
        auto       ended = p.doing([&] { return p.store->deallocate_batch(4, {}).has_value(); });
        auto const last  = listen();
        CHECK(last.all.empty());
        answer(last);
        CHECK(last.then.what() == operation::end_batch);
        protocol::usage_reply none;
        p.server.answer(last.then, protocol::bytes_of(none));
        CHECK(ended.get());
        CHECK(p.store->usage() == tenure::store_usage{0, 0, 0});
    }
}

TEST_CASE("a limit has a name") {
    pair       p({}, [](auto& r) { r.version = 2; });
    auto       made = p.doing([&] { return p.store->allocate(big, 1).error(); });
    auto const text = std::string_view("buffers: one tenant may have 7\n");
    p.server.answer(p.server.next(operation::allocate), std::as_bytes(std::span(text)), {},
                    tenure::protocol::status_of(make_error_code(errc::limit_exceeded)));
    CHECK(made.get() == errc::limit_exceeded);
    CHECK(p.store->last_limit() == "buffers: one tenant may have 7?");

    // No other error has a text.
    made = p.doing([&] { return p.store->allocate(big, 1).error(); });
    p.server.answer(p.server.next(operation::allocate), std::as_bytes(std::span(text)), {},
                    tenure::protocol::status_of(make_error_code(errc::store_full)));
    CHECK(made.get() == errc::protocol_error);
}

TEST_CASE("the end of a batch is one request, whose answer says what is left") {
    pair p;
    for (std::uint64_t i = 1; i <= 3; ++i) p.make(big, epoch + i);
    auto const left = [](std::size_t blocks) {
        tenure::protocol::usage_reply u;
        u.bytes  = blocks * big;
        u.blocks = blocks;
        return u;
    };
    auto const counts = [&](std::size_t blocks) {
        return p.store->usage() == tenure::store_usage{blocks * big, blocks, 0};
    };
    using boost::asio::use_future;
    auto                          first = p.store->async_deallocate_batch(1, {}, use_future);
    auto                          made  = p.store->async_allocate(big, 1, use_future);
    std::promise<std::error_code> second;
    p.store->async_deallocate_batch(2, {}, [&](std::error_code why) { second.set_value(why); });
    auto       ended = second.get_future();
    auto const one   = p.server.next(operation::end_batch);
    auto const grows = p.server.next(operation::allocate);
    auto const two   = p.server.next(operation::end_batch);
    CHECK(one.body.size() == 8);
    SUBCASE("in order") {
        p.server.answer(one, tenure::protocol::bytes_of(left(2)));
        first.get();
        CHECK(counts(2));
        p.server.give(grows, epoch + 4);
        CHECK(made.get().id == epoch + 4);
        CHECK(counts(3));
        p.server.answer(two, tenure::protocol::bytes_of(left(2)));
        CHECK_FALSE(ended.get());
    }
    SUBCASE("what came later is heard earlier") {
        p.server.give(grows, epoch + 4);
        CHECK(made.get().id == epoch + 4);
        CHECK(counts(4));
        p.server.answer(one, tenure::protocol::bytes_of(left(2)));
        first.get();
        CHECK(counts(3));
        p.server.answer(two, tenure::protocol::bytes_of(left(2)));
        CHECK_FALSE(ended.get());
    }
    SUBCASE("the last is heard first, and has all in it") {
        p.server.answer(two, tenure::protocol::bytes_of(left(2)));
        CHECK_FALSE(ended.get());
        CHECK(counts(2));
        p.server.give(grows, epoch + 4);
        CHECK(made.get().id == epoch + 4);
        CHECK(counts(2));
        p.server.answer(one, tenure::protocol::bytes_of(left(2)));
        first.get();
    }
    SUBCASE("where it fails, the client asks") {
        p.server.answer(one, tenure::protocol::bytes_of(left(2)));
        p.server.give(grows, epoch + 4);
        p.server.answer(two, errc::device_unavailable);
        auto const asked = p.server.next(operation::usage);
        CHECK(asked.number() == two.number() + 1);
        CHECK(ended.wait_for(0s) == std::future_status::timeout);
        p.server.answer(asked, tenure::protocol::bytes_of(left(2)));
        CHECK(ended.get() == errc::device_unavailable);
        CHECK(counts(2));
        return;
    }
    CHECK(counts(2));
    // Nothing else was asked.
    auto       again = p.doing([&] { return p.store->deallocate_batch(3, {}).has_value(); });
    auto const third = p.server.next(operation::end_batch);
    CHECK(third.number() == two.number() + 1);
    p.server.answer(third, tenure::protocol::bytes_of(left(0)));
    CHECK(again.get());
    CHECK(counts(0));
}

TEST_CASE("a server that makes no sense") {
    pair        p;
    block const b = p.make(big, epoch + 1);
    auto        x = bytes(100, 0);

    using namespace tenure::protocol;
    std::function<void(scripted_server::frame const&)> say;
    SUBCASE("a payload that is too long") {
        say = [&](auto const& f) { p.server.answer(f, {}, bytes(101, 1)); };
    }
    SUBCASE("a payload that is too short") {
        say = [&](auto const& f) { p.server.answer(f, {}, bytes(99, 1)); };
    }
    SUBCASE("an answer to what was not asked") {
        say = [&](auto f) {
            f.header.request += 1;
            p.server.answer(f, {}, bytes(100, 1));
        };
    }
    SUBCASE("another operation") {
        say = [&](auto f) {
            f.header.operation = static_cast<std::uint16_t>(operation::renew);
            p.server.answer(f);
        };
    }
    SUBCASE("a body where there is none") {
        say = [&](auto const& f) { p.server.answer(f, bytes(4, 0), bytes(100, 1)); };
    }
    SUBCASE("a body larger than any") {
        say = [&](auto const& f) {
            frame_header h;
            h.request   = f.number();
            h.operation = f.header.operation | is_reply;
            h.body      = ~0u;
            p.server.send(bytes_of(h));
        };
    }
    SUBCASE("what it says of us") {
        say = [&](auto const& f) { p.server.answer(f, errc::protocol_error); };
    }
    auto read = p.doing([&] { return p.store->read(b, 0, x).error(); });
    say(p.server.next(operation::read));
    CHECK(read.get() == errc::protocol_error);
    CHECK(p.store->read(b, 0, x).error() == errc::stale_handle);  // the session is over
}

TEST_CASE("blocks that cannot be") {
    pair        p;
    block const b = p.make(big, epoch + 1);
    using namespace tenure::protocol;
    block_run run;
    run.first = epoch + 2, run.bytes = big, run.count = 1;
    SUBCASE("of another instance") { run.first = 1; }
    SUBCASE("none") { run.first = 0; }
    SUBCASE("too many") { run.count = 2; }
    SUBCASE("of other bytes") { run.bytes = 1; }
    auto made = p.doing([&] { return p.store->allocate(big, 1).error(); });
    p.server.answer(p.server.next(operation::allocate), bytes_of(run));
    CHECK(made.get() == errc::protocol_error);
    CHECK(p.store->deallocate(std::span(&b, 1)).has_value());
}

TEST_CASE("a list of many runs goes as it is made") {
    pair               p;
    std::vector<block> all;
    p.make(big, epoch + 1);
    std::size_t const n = TENURE_SANITIZED ? 50'000 : 100'000;  // more than one body has room for
    for (std::size_t i = 0; i < n; ++i) all.push_back({epoch + 3 * (n - i), 8});
    auto        freed = p.doing([&] { return p.store->deallocate(all).has_value(); });
    std::size_t at    = 0;
    while (at < n) {
        auto const f    = p.server.next(operation::deallocate);
        auto const runs = tenure::protocol::list<tenure::protocol::block_run>(f.body);
        REQUIRE(runs.has_value());
        bool good = !runs->empty();
        for (auto const& r : *runs) good = good && r.first == all[at++].id && r.count == 1 && r.bytes == 8;
        REQUIRE(good);
        p.server.answer(f);
    }
    CHECK(freed.get());

    all.clear();
    for (std::uint64_t i = 0; i < 10; ++i) all.push_back({epoch + 100 - i, 8});  // newest first
    for (std::uint64_t i = 0; i < 10; ++i) all.push_back({epoch + 200 + i, 8});
    freed           = p.doing([&] { return p.store->deallocate(all).has_value(); });
    auto const f    = p.server.next(operation::deallocate);
    auto const runs = tenure::protocol::list<tenure::protocol::block_run>(f.body).value();
    REQUIRE(runs.size() == 2);
    CHECK(runs[0].first == epoch + 91);
    CHECK(runs[0].count == 10);
    CHECK(runs[1].first == epoch + 200);
    CHECK(runs[1].count == 10);
    p.server.answer(f);
    CHECK(freed.get());
}

TEST_CASE("it renews its lease while there is nothing to ask") {
    pair p({}, [](auto& reply) { reply.lease = 30; });
    p.server.answer(p.server.next(operation::renew));
    p.server.answer(p.server.next(operation::renew));
}

TEST_CASE("close") {
    pair                          p;
    block const                   b = p.make(big, epoch + 1);
    auto                          x = bytes(5, 0);
    std::promise<std::error_code> read, made;
    p.store->async_read(b, 0, x, [&](std::error_code why) { read.set_value(why); });
    p.server.next(operation::read);
    auto closed = p.doing([&] { return p.store->close().has_value(); });
    p.server.part();
    CHECK(closed.get());
    CHECK(read.get_future().get() == errc::store_closed);
    CHECK(p.store->allocate(1, 1).error() == errc::store_closed);
    CHECK(p.store->read(b, 0, x).error() == errc::store_closed);
    CHECK(p.store->close().has_value());
    p.store->async_allocate(1, 1, [&](std::error_code why, block) { made.set_value(why); });
    CHECK(made.get_future().get() == errc::store_closed);
}

TEST_CASE("a goodbye that goes with the connection: nobody knows whether it was heard") {
    pair                          p;
    auto                          x = bytes(5, 0);
    auto                          b = p.make(big, epoch + 1);
    std::promise<std::error_code> read;
    p.store->async_read(b, 0, x, [&](std::error_code why) { read.set_value(why); });
    auto closed = p.doing([&] { return p.store->close().error(); });
    p.server.next(operation::read);
    p.server.next(operation::goodbye);
    p.server.cut();
    CHECK(closed.get() == errc::disconnected);
    CHECK(read.get_future().get() == errc::store_closed);
    CHECK(p.store->allocate(1, 1).error() == errc::store_closed);
    CHECK(p.store->close().has_value());  // there is nothing to say any more
}

TEST_CASE("a store that is closed while the connection is down says that the server has not heard") {
    pair                          p;
    auto                          x = bytes(5, 0);
    block const                   b = p.make(big, epoch + 1);
    std::promise<std::error_code> read;
    p.store->async_read(b, 0, x, [&](std::error_code why) { read.set_value(why); });
    p.server.next(operation::read);
    p.server.cut();
    p.server.accept();
    p.server.next(operation::hello);  // the server still has the session, and gives no answer
    CHECK(p.store->close().error() == errc::disconnected);
    CHECK(read.get_future().get() == errc::store_closed);
    CHECK(p.store->close().has_value());
}

TEST_CASE("a store that is closed without a session at the server has nothing to say") {
    pair p({}, [](auto& reply) { reply.lease = 60; });
    p.server.cut();
    std::filesystem::remove(p.dir.path() / "socket");
    CHECK(p.store->allocate(big, 1).error() == errc::disconnected);  // its lease is over
    CHECK(p.store->close().has_value());
}

TEST_CASE("who is not let in hears why") {
    temporary_directory dir;
    auto const          path = (dir.path() / "socket").string();
    auto const          why  = [&] {
        try {
            remote_store::connect(tenure::endpoint("unix:" + path), patient(late));
        } catch (tenure::error const& e) {
            CHECK(std::string(e.what()).find(path) != std::string::npos);
            return e.code();
        }
        return std::error_code();
    };
    CHECK(why() == errc::device_unavailable);
    scripted_server server(path);
    auto            refused = std::async(std::launch::async, why);
    server.accept();
    server.answer(server.next(operation::hello), errc::access_denied);
    CHECK(refused.get() == errc::access_denied);

    refused = std::async(std::launch::async, why);
    server.accept();
    auto reply    = server.offer();
    reply.version = 3;
    server.answer(server.next(operation::hello), tenure::protocol::bytes_of(reply));
    CHECK(refused.get() == errc::protocol_error);
}
