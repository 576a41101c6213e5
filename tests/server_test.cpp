// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The server of buffers: what it answers, frame by frame, without sockets; then who gets in, and what becomes of
// what they have, over sockets.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <doctest/doctest.h>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include <tenure/remote/client.hpp>
#include <tenure/remote/server.hpp>
#include <tenure/remote/server/hub.hpp>
#include <tenure/remote/server/session_logic.hpp>
#include <tenure/remote/tls.hpp>
#include <tenure/store/heap.hpp>

#include "soon.hpp"
#include "stores/plain_store.hpp"
#include "temporary.hpp"
#include "throws.hpp"

namespace {

namespace protocol = tenure::protocol;
using tenure::errc;
using tenure::make_error_code;
using tenure::detail::amounts;
using tenure::detail::resource;
using tenure::detail::session_logic;
using op    = protocol::operation;
using bytes = std::vector<std::byte>;
using next  = session_logic::next;
using namespace std::chrono_literals;

std::uint16_t status(errc e) { return protocol::status_of(make_error_code(e)); }

template <class... T>
bytes pack(T const&... parts) {
    bytes      out;
    auto const add = [&](std::span<std::byte const> b) { out.insert(out.end(), b.begin(), b.end()); };
    (add([&]() -> std::span<std::byte const> {
         if constexpr (!std::is_convertible_v<T const&, std::string_view>) return protocol::bytes_of(parts);
         else return std::as_bytes(std::span(std::string_view(parts)));
     }()),
     ...);
    return out;
}

bytes pattern(std::size_t n, unsigned seed = 1) {
    bytes out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>((i * 7 + seed) & 0xff);
    return out;
}

protocol::u64 u(std::uint64_t n) { return protocol::u64(n); }

struct reply {
    std::uint64_t request   = 0;
    std::uint16_t operation = 0, status = 0;
    bytes         body, payload;

    template <class T>
    T as() const {
        REQUIRE(body.size() == sizeof(T));
        T out;
        std::memcpy(&out, body.data(), sizeof out);
        return out;
    }
};

bytes frame(std::uint64_t request, std::uint64_t settled, op what, bytes const& body = {},
            bytes const& payload = {}) {
    protocol::frame_header h;
    h.body      = static_cast<std::uint32_t>(body.size());
    h.payload   = static_cast<std::uint32_t>(payload.size());
    h.request   = request;
    h.settled   = settled;
    h.operation = static_cast<std::uint16_t>(what);
    bytes out   = pack(h);
    out.insert(out.end(), body.begin(), body.end());
    out.insert(out.end(), payload.begin(), payload.end());
    return out;
}

auto head(bytes const& f) {
    return protocol::header(std::span<std::byte const, sizeof(protocol::frame_header)>(f.data(), 32));
}

/// All that is queued, as if a socket took `at_once` bytes of it each time.
bytes sent(tenure::detail::outgoing& out, std::size_t at_once = static_cast<std::size_t>(-1)) {
    bytes all;
    while (!out.empty()) {
        std::size_t n = 0;
        for (auto const& b : out.next()) {
            auto const* const p    = static_cast<std::byte const*>(b.data());
            std::size_t const part = std::min(b.size(), at_once - n);
            all.insert(all.end(), p, p + part);
            n += part;
        }
        REQUIRE(n > 0);
        out.consume(n);
    }
    return all;
}

std::vector<reply> replies(std::span<std::byte const> all) {
    std::vector<reply> out;
    while (!all.empty()) {
        auto const h = *protocol::take<protocol::frame_header>(all);
        REQUIRE(all.size() >= h.body + h.payload);
        CHECK((h.operation & protocol::is_reply) != 0);
        CHECK(h.settled == 0u);
        CHECK(h.zero == 0u);
        auto const body = all.first(h.body), payload = all.subspan(h.body, h.payload);
        out.push_back({h.request,
                       static_cast<std::uint16_t>(h.operation & ~protocol::is_reply),
                       h.status,
                       {body.begin(), body.end()},
                       {payload.begin(), payload.end()}});
        all = all.subspan(h.body + h.payload);
    }
    return out;
}

/// How often it was called, and a heap that never gives zeros by itself.
class watched_store {
public:
    static constexpr tenure::store_traits traits{.addressable = true};

    tenure::result<tenure::block> allocate(std::size_t n, std::size_t alignment) {
        if (refuse_after && --refuse_after == 0) return make_error_code(errc::store_full);
        auto const b = heap_.allocate(n, alignment);
        if (b && n) std::memset(*heap_.address(*b), 0x5a, n);
        return b;
    }
    tenure::result<void> deallocate(std::span<tenure::block const> many) noexcept {
        ++deallocations;
        if (fail_once.exchange(false)) return make_error_code(errc::device_unavailable);
        return heap_.deallocate(many);
    }
    tenure::result<std::byte*> address(tenure::block b) { return heap_.address(b); }
    tenure::result<void>       read(tenure::block b, std::size_t at, std::span<std::byte> out) {
        return heap_.read(b, at, out);
    }
    tenure::result<void> write(tenure::block b, std::size_t at, std::span<std::byte const> in) {
        return heap_.write(b, at, in);
    }
    tenure::store_usage usage() const noexcept { return heap_.usage(); }

    std::atomic<std::size_t> deallocations{0}, refuse_after{0};
    std::atomic<bool>        fail_once{false};

private:
    tenure::heap_store heap_;
};
static_assert(tenure::backing_store<watched_store>);

using not_addressable = plain_store<>;
static_assert(tenure::backing_store<not_addressable>);

/// Of what is not named there is no limit.
amounts limits(std::initializer_list<std::pair<resource, std::uint64_t>> some) {
    amounts out{};
    for (auto const& [r, n] : some) out[tenure::detail::index_of(r)] = n;
    return out;
}

/// A session, and its client's side.
template <class Store = watched_store>
struct script {
    explicit script(std::shared_ptr<Store> s = std::make_shared<Store>())
        : store(s), common(std::make_shared<tenure::detail::served_store>(tenure::any_store(s)), 0x123456) {}

    explicit script(amounts const& each)
        : store(std::make_shared<Store>()),
          common(std::make_shared<tenure::detail::served_store>(tenure::any_store(store)), 0x123456, each) {}

    /// Of a tenant of that name, or of the one that is there.
    tenure::detail::admission admit(std::shared_ptr<tenure::detail::tenant> of = nullptr) {
        if (!of) of = whose;
        auto a = tenure::detail::admission::to(of, 8);
        REQUIRE(a.has_value());
        return std::move(*a);
    }
    std::shared_ptr<tenure::detail::tenant> another(std::string const& name) {
        return std::make_shared<tenure::detail::tenant>(name, common.each_tenant, common.all);
    }

    std::shared_ptr<Store>                  store;
    tenure::detail::common                  common;
    std::shared_ptr<tenure::detail::tenant> whose = another("one");
    session_logic                           logic{common, admit(), 1, 1};
    tenure::detail::outgoing                out;
    std::uint64_t                           request = 2;
    next                                    last    = next::done;

    /// In a frame as it is received.
    next put(bytes const& f, session_logic* to = nullptr) {
        auto const h = head(f);
        REQUIRE(h.has_value());
        auto const body = std::span(f).subspan(sizeof(protocol::frame_header), h->body);
        return last     = (to ? to : &logic)->apply(*h, body, std::span(f).subspan(sizeof *h + h->body), out);
    }

    reply say(op what, bytes const& body = {}, bytes const& payload = {}) {
        put(frame(request, request - 1, what, body, payload));
        auto const all = replies(sent(out));
        REQUIRE(all.size() == 1);
        CHECK(all[0].request == request);
        CHECK(all[0].operation == static_cast<std::uint16_t>(what));
        ++request;
        return all[0];
    }

    protocol::block_run allocate(std::uint64_t batch, std::uint64_t n, std::uint64_t count = 1) {
        reply const r = say(op::allocate, pack(u(batch), u(n), u(8), u(count)));
        REQUIRE(r.status == 0);
        return r.as<protocol::block_run>();
    }
    bytes read(protocol::block_run const& b, std::uint64_t at, std::uint64_t n) {
        auto const r = say(op::read, pack(b.first, b.bytes, u(at), u(n)));
        CHECK(r.status == 0);
        return r.payload;
    }
    std::uint16_t write(protocol::block_run const& b, std::uint64_t at, bytes const& what) {
        return say(op::write, pack(b.first, b.bytes, u(at), u(what.size())), what).status;
    }
};

TEST_CASE("each operation's answer, byte for byte") {
    script     s;
    auto const b = s.allocate(7, 16, 3);
    CHECK(b.bytes == 16u);
    CHECK(b.count == 3u);
    CHECK((b.first >> 40) == (0x123456u | 1u));

    CHECK(s.write(b, 4, pattern(4)) == 0);
    s.put(frame(4, 3, op::read, pack(b.first, b.bytes, u(2), u(8))));
    bytes expected = pack(protocol::u32(0), protocol::u32(8), u(4), u(0), protocol::u16(0x8008), protocol::u16(0),
                          protocol::u32(0), std::string(2, '\0'));
    for (std::byte const x : pattern(4)) expected.push_back(x);
    expected.resize(expected.size() + 2);
    CHECK(sent(s.out, 3) == expected);

    s.put(frame(5, 4, op::usage));
    CHECK(sent(s.out) == pack(protocol::u32(24), protocol::u32(0), u(5), u(0), protocol::u16(0x800b),
                              protocol::u16(0), protocol::u32(0), u(48), u(3), u(0)));
    s.request = 6;
    CHECK(s.say(op::renew).body.empty());
    CHECK(s.say(op::copy, pack(b.first, u(16), u(b.first + 1), u(16), u(4), u(8), u(4))).status == 0);
    CHECK(s.say(op::read, pack(u(b.first + 1), u(16), u(8), u(4))).payload == pattern(4));
    CHECK(s.say(op::transfer, pack(u(8), u(b.first + 1), u(16), u(2))).status == 0);
    CHECK(s.say(op::end_batch, pack(u(7))).body == pack(u(32), u(2), u(0)));
    CHECK(s.say(op::usage).body == pack(u(32), u(2), u(0)));
    CHECK(s.say(op::deallocate, pack(u(b.first + 1), u(16), u(1))).status == 0);
    CHECK(s.say(op::end_batch, pack(u(8))).body == pack(u(0), u(0), u(0)));
    CHECK(s.say(op::end_batch, pack(u(8))).body == pack(u(0), u(0), u(0)));  // there is no such batch: it is done
    CHECK(s.store->usage().blocks == 0);
    auto const bye = s.say(op::goodbye);
    CHECK(bye.status == 0);
    CHECK(s.last == next::bye);
}

TEST_CASE("each error is told, and nothing happened") {
    script     s;
    auto const b    = s.allocate(1, 100);
    auto const code = [&](op what, bytes const& body, bytes const& payload = {}) {
        return s.say(what, body, payload).status;
    };
    auto const none = status(errc::no_such_block), range = status(errc::out_of_range);
    CHECK(code(op::allocate, pack(u(0), u(8), u(3), u(1))) == status(errc::bad_alignment));
    CHECK(code(op::allocate, pack(u(0), u(8), u(0), u(1))) == status(errc::bad_alignment));
    CHECK(code(op::allocate, pack(u(0), u(~0ull), u(8), u(2))) == status(errc::limit_exceeded));
    CHECK(code(op::read, pack(b.first, u(99), u(0), u(1))) == none);
    CHECK(code(op::read, pack(u(b.first + 1), u(100), u(0), u(1))) == none);
    CHECK(code(op::read, pack(u(1), u(100), u(0), u(1))) == none);
    CHECK(code(op::read, pack(b.first, u(100), u(100), u(1))) == range);
    CHECK(code(op::read, pack(b.first, u(100), u(~0ull), u(2))) == range);
    CHECK(code(op::read, pack(b.first, u(100), u(0), u(~0ull))) == range);
    CHECK(code(op::read, pack(b.first, u(100), u(100), u(0))) == 0);
    CHECK(code(op::write, pack(b.first, u(100), u(99), u(2)), pattern(2)) == range);
    CHECK(code(op::write, pack(b.first, u(100), u(~0ull), u(2)), pattern(2)) == range);
    CHECK(code(op::write, pack(b.first, u(7), u(0), u(2)), pattern(2)) == none);
    CHECK(code(op::copy, pack(b.first, u(100), b.first, u(100), u(0), u(5), u(10))) == range);
    CHECK(code(op::copy, pack(b.first, u(100), b.first, u(100), u(0), u(95), u(10))) == range);
    CHECK(code(op::copy, pack(b.first, u(100), b.first, u(100), u(0), u(~0ull), u(10))) == range);
    CHECK(code(op::copy, pack(b.first, u(100), b.first, u(1), u(0), u(50), u(10))) == none);
    CHECK(code(op::open, pack("nothing")) == status(errc::no_such_name));
    CHECK(code(op::unshare, pack("nothing")) == status(errc::no_such_name));
    CHECK(code(op::share, pack(u(5), u(100), "x")) == none);
    CHECK(code(op::grant, pack(b.first, u(100), u(50), u(51))) == range);
    CHECK(code(op::status, {}) == status(errc::access_denied));
    CHECK(code(op::send, pack(b.first, u(100), u(0), u(1), u(1), u(1), u(0), protocol::key{}, "unix:/x")) ==
          status(errc::access_denied));
    CHECK(s.read(b, 0, 100) == bytes(100));

    // Some of these live, most do not.
    CHECK(code(op::transfer, pack(u(2), b.first, u(100), u(2))) == none);
    CHECK(code(op::deallocate, pack(u(1), u(100), u(1), b.first, u(100), u(3000))) == none);
    CHECK(s.store->usage().blocks == 0);
    CHECK(code(op::deallocate, pack(b.first, u(100), u(1))) == none);
    CHECK(code(op::deallocate, pack(b.first, u(100), u(~0ull))) == status(errc::limit_exceeded));

    // Up to the largest number that there can be: what walks over them comes to an end.
    for (auto const what : {op::deallocate, op::trim, op::transfer}) {
        bytes const batch = what == op::transfer ? pack(u(2)) : bytes();
        auto const  runs  = [&](bytes const& run) {
            bytes all = batch;
            all.insert(all.end(), run.begin(), run.end());
            return code(what, all);
        };
        CHECK(runs(pack(u(~0ull - 9), u(100), u(5))) == none);
        CHECK(runs(pack(u(~0ull - 9), u(100), u(9))) == none);
        CHECK(runs(pack(u(~0ull - 2000), u(100), u(2000))) == none);
        CHECK(runs(pack(u(~0ull), u(100), u(1))) == status(errc::limit_exceeded));
    }

    // All or none.
    s.store->refuse_after = 5;
    CHECK(code(op::allocate, pack(u(3), u(8), u(8), u(10))) == status(errc::store_full));
    CHECK(s.store->usage().blocks == 0);
    CHECK(s.logic.own().batches() == 0);
}

TEST_CASE("quotas") {
    script<>      base(limits({{resource::bytes, 1000}, {resource::buffers, 4}, {resource::batches, 2}}));
    session_logic logic(base.common, base.admit(), 2, 1);
    std::uint64_t request = 2;
    auto const    say     = [&](op what, bytes const& body) {
        base.put(frame(request, request - 1, what, body), &logic);
        ++request;
        return replies(sent(base.out)).at(0);
    };
    auto const limit = status(errc::limit_exceeded);
    CHECK(say(op::allocate, pack(u(1), u(1001), u(8), u(1))).status == limit);
    CHECK(say(op::allocate, pack(u(1), u(334), u(8), u(3))).status == limit);
    CHECK(say(op::allocate, pack(u(1), u(1), u(8), u(5))).status == limit);
    auto const b = say(op::allocate, pack(u(1), u(500), u(8), u(2))).as<protocol::block_run>();
    CHECK(say(op::allocate, pack(u(1), u(1), u(8), u(1))).status == limit);
    CHECK(say(op::usage, {}).body == pack(u(1000), u(2), u(1000)));
    CHECK(say(op::transfer, pack(u(2), b.first, u(500), u(1))).status == 0);
    CHECK(say(op::transfer, pack(u(3), b.first, u(500), u(1))).status == limit);
    CHECK(say(op::end_batch, pack(u(1))).status == 0);
    CHECK(say(op::transfer, pack(u(3), b.first, u(500), u(1))).status == 0);
    CHECK(logic.own().batches() == 1);  // what is empty does not count
    CHECK(say(op::allocate, pack(u(9), u(500), u(8), u(1))).status == 0);
}

TEST_CASE("what makes no sense ends the session") {
    struct one {
        char const* what;
        bytes       f;
    };
    auto broken = [](auto change) {
        bytes                  f = frame(2, 1, op::renew);
        protocol::frame_header h;
        std::memcpy(&h, f.data(), sizeof h);
        change(h);
        return pack(h);
    };
    one const all[] = {
        {"an old number", frame(1, 0, op::renew)},
        {"a second hello", frame(2, 1, op::hello)},
        {"no operation", broken([](auto& h) { h.operation = 0; })},
        {"no such operation", broken([](auto& h) { h.operation = 19; })},
        {"a reply", broken([](auto& h) { h.operation = 0x8002; })},
        {"a status", broken([](auto& h) { h.status = 4; })},
        {"a payload", frame(2, 1, op::renew, {}, pattern(1))},
        {"a body", frame(2, 1, op::renew, pattern(1))},
        {"a short body", frame(2, 1, op::allocate, pattern(31))},
        {"a long body", frame(2, 1, op::allocate, pattern(33))},
        {"none of a block", frame(2, 1, op::allocate, pack(u(0), u(8), u(8), u(0)))},
        {"half a run", frame(2, 1, op::deallocate, pattern(25))},
        {"half a batch", frame(2, 1, op::end_batch, pattern(7))},
        {"a transfer without a batch", frame(2, 1, op::transfer, pattern(7))},
        {"a write of another length", frame(2, 1, op::write, pack(u(1), u(1), u(0), u(2)), pattern(1))},
        {"a name of nothing", frame(2, 1, op::open)},
        {"a long name", frame(2, 1, op::open, pattern(256))},
        {"a share without a name", frame(2, 1, op::share, pack(u(1), u(1)))},
        {"a send to nowhere", frame(2, 1, op::send, pattern(72))},
    };
    for (auto const& [what, f] : all) {
        CAPTURE(what);
        script<tenure::heap_store> s;
        CHECK(s.put(f) == next::over);
        auto const r = replies(sent(s.out));
        REQUIRE(r.size() == 1);
        CHECK(r[0].status == 1);
        CHECK(r[0].body.empty());
    }
    auto const bad_header = [&](auto change) {
        bytes const f = broken(change);
        return !head(f);
    };
    CHECK(bad_header([](auto& h) { h.request = 0; }));
    CHECK(bad_header([](auto& h) { h.settled = 2; }));
    CHECK(bad_header([](auto& h) { h.zero = 1; }));
    CHECK(bad_header([](auto& h) { h.body = (1 << 20) + 1; }));
    CHECK(bad_header([](auto& h) { h.payload = (16 << 20) + 1; }));
}

TEST_CASE("a request is done once, and its answer is repeated until it is settled") {
    script     s;
    auto const ask = frame(2, 1, op::allocate, pack(u(5), u(64), u(8), u(1)));
    s.put(ask);
    auto const first = sent(s.out);
    s.put(ask);
    CHECK(sent(s.out) == first);
    CHECK(s.store->usage().blocks == 1);
    auto const b = replies(first)[0].as<protocol::block_run>();

    // A read is read again; a write is not written again.
    s.put(frame(3, 1, op::write, pack(b.first, b.bytes, u(0), u(4)), pattern(4)));
    s.put(frame(4, 1, op::read, pack(b.first, b.bytes, u(0), u(4))));
    s.put(frame(5, 1, op::write, pack(b.first, b.bytes, u(0), u(4)), pattern(4, 9)));
    s.put(frame(3, 1, op::write, pack(b.first, b.bytes, u(0), u(4)), pattern(4)));
    s.put(frame(4, 1, op::read, pack(b.first, b.bytes, u(0), u(4))));
    auto const all = replies(sent(s.out));
    REQUIRE(all.size() == 5);
    CHECK(all[1].payload == pattern(4));
    CHECK(all[4].payload == pattern(4, 9));

    // A long one is dropped as it comes.
    session_logic::arriving w;
    auto const              again = frame(3, 1, op::write, pack(b.first, b.bytes, u(0), u(4)), pattern(4));
    auto const              h     = *head(again);
    CHECK(s.logic.begin_write(h, std::span(again).subspan(32, 32), w, s.out) == next::done);
    CHECK(w.target.where.empty());
    s.logic.end_write(w, s.out);
    CHECK(replies(sent(s.out)).at(0).status == 0);

    SUBCASE("with another operation it is no repetition") { CHECK(s.put(frame(3, 1, op::renew)) == next::over); }
    SUBCASE("settled, it is not asked again") {
        CHECK(s.put(frame(6, 3, op::renew)) == next::done);
        CHECK(s.put(frame(4, 3, op::read, pack(b.first, b.bytes, u(0), u(4)))) == next::done);
        CHECK(s.put(frame(3, 1, op::write, pack(b.first, b.bytes, u(0), u(4)), pattern(4))) == next::over);
    }
    SUBCASE("as many as may be in flight") {
        for (std::uint64_t i = 6; i < 10; ++i) CHECK(s.put(frame(i, 1, op::renew)) == next::done);
        CHECK(s.put(frame(9, 1, op::renew)) == next::done);
        CHECK(s.put(frame(10, 1, op::renew)) == next::over);
    }
    SUBCASE("a hello takes a number, which is left out") {
        CHECK(!s.logic.resume(5));
        CHECK(s.logic.resume(8));  // 6 and 7 never came
        CHECK(s.put(frame(5, 1, op::write, pack(b.first, b.bytes, u(0), u(4)), pattern(4, 9))) == next::done);
        CHECK(s.put(frame(6, 1, op::renew)) == next::done);
        SUBCASE("and 7 comes") {
            CHECK(s.put(frame(7, 1, op::renew)) == next::done);
            CHECK(s.put(frame(9, 1, op::renew)) == next::done);
        }
        SUBCASE("or was another hello") { CHECK(s.put(frame(9, 1, op::renew)) == next::done); }
        SUBCASE("and that number is nobody's") { CHECK(s.put(frame(8, 1, op::renew)) == next::over); }
    }
}

TEST_CASE("memory is cleared before another client has it") {
    SUBCASE("with addresses") {
        script<watched_store> s;
        for (std::uint64_t const n : {1ull, 100ull, 5000ull, 3ull << 20}) {
            auto const b = s.allocate(0, n, 2);
            CHECK(s.read(b, 0, n) == bytes(n));
            CHECK(s.write(b, 0, pattern(n)) == 0);
            CHECK(s.say(op::deallocate, pack(b.first, b.bytes, b.count)).status == 0);
        }
    }
    SUBCASE("by the system's help") {
        script<tenure::heap_store> s;
        for (int i = 0; i < 3; ++i) {
            auto const n = std::uint64_t{3} << 20 | 77;
            auto const b = s.allocate(0, n);
            CHECK(s.read(b, 0, n) == bytes(n));
            CHECK(s.write(b, 0, pattern(n)) == 0);
            CHECK(s.say(op::deallocate, pack(b.first, b.bytes, b.count)).status == 0);
        }
    }
    SUBCASE("without") {
        script<not_addressable> s;
        auto const              b = s.allocate(0, 200'000);
        CHECK(s.read(b, 0, 200'000) == bytes(200'000));
        CHECK(s.write(b, 1, pattern(100'000)) == 0);
        CHECK(s.read(b, 1, 100'000) == pattern(100'000));
        CHECK(s.say(op::copy, pack(b.first, b.bytes, b.first, b.bytes, u(1), u(100'001), u(90'000))).status == 0);
        CHECK(s.read(b, 100'001, 90'000) == bytes(pattern(90'000)));
        CHECK(s.say(op::read, pack(b.first, b.bytes, u(0), u(2 << 20))).status == status(errc::out_of_range));
    }
}

TEST_CASE("a block that is freed while it is sent stays until it is") {
    script        s;
    std::uint64_t n = 100'000;
    auto const    b = s.allocate(4, n);
    s.write(b, 0, pattern(n));
    s.put(frame(s.request, s.request - 1, op::read, pack(b.first, b.bytes, u(0), u(n))));

    // Bytes that are read stay as they were: what writes there waits.
    CHECK(s.put(frame(s.request + 1, 1, op::write, pack(b.first, b.bytes, u(0), u(1)), pattern(1))) == next::later);
    CHECK(s.put(frame(s.request + 1, 1, op::copy, pack(b.first, b.bytes, b.first, b.bytes, u(9), u(0), u(1)))) ==
          next::later);
    CHECK(s.put(frame(s.request + 1, 1, op::end_batch, pack(u(4)))) == next::done);
    CHECK(s.logic.own().blocks() == 0);
    CHECK(s.store->usage().blocks == 1);
    auto const all = replies(sent(s.out, 1000));
    REQUIRE(all.size() == 2);
    CHECK(all[0].payload == pattern(n));
    CHECK(s.store->usage().blocks == 0);
    s.request += 2;

    // As it arrives, too.
    auto const              c = s.allocate(4, n, 3);
    session_logic::arriving w;
    auto const              f = frame(s.request, 1, op::write, pack(c.first, c.bytes, u(0), u(n)), pattern(n));
    REQUIRE(s.logic.begin_write(*head(f), std::span(f).subspan(32, 32), w, s.out) == next::done);
    REQUIRE(w.target.where.size() == n);
    s.logic.end();
    CHECK(s.store->usage().blocks == 1);
    std::memset(w.target.where.data(), 1, n);
    w = {};
    CHECK(s.store->usage().blocks == 0);
}

TEST_CASE("what is shared by name") {
    script        a;
    session_logic b(a.common, a.admit(), 2, 1);
    std::uint64_t number = 2;
    auto const    say    = [&](op what, bytes const& body, bytes const& payload = {}) {
        a.put(frame(number, number - 1, what, body, payload), &b);
        ++number;
        return replies(sent(a.out)).at(0);
    };
    auto const x    = a.allocate(1, 64);
    auto const name = pack("weights");
    auto const none = status(errc::no_such_block), denied = status(errc::access_denied);
    a.write(x, 0, pattern(64));
    CHECK(say(op::read, pack(x.first, x.bytes, u(0), u(4))).status == none);
    CHECK(a.say(op::share, pack(x.first, x.bytes, "weights")).status == 0);
    CHECK(say(op::read, pack(x.first, x.bytes, u(0), u(4))).status == none);  // it has to be opened
    CHECK(say(op::open, name).body == pack(x.first, x.bytes));
    CHECK(say(op::read, pack(x.first, x.bytes, u(0), u(64))).payload == pattern(64));
    CHECK(say(op::write, pack(x.first, x.bytes, u(0), u(4)), pattern(4, 3)).status == 0);
    CHECK(a.read(x, 0, 4) == pattern(4, 3));
    CHECK(say(op::usage, {}).body == pack(u(0), u(0), u(0)));

    // It stays the first client's.
    CHECK(say(op::deallocate, pack(x.first, x.bytes, u(1))).status == none);
    CHECK(say(op::transfer, pack(u(1), x.first, x.bytes, u(1))).status == none);
    CHECK(say(op::share, pack(x.first, x.bytes, "mine")).status == none);
    CHECK(say(op::unshare, name).status == denied);
    auto const y = say(op::allocate, pack(u(0), u(8), u(8), u(1))).as<protocol::block_run>();
    CHECK(say(op::share, pack(y.first, y.bytes, "weights")).status == denied);
    CHECK(say(op::grant, pack(x.first, x.bytes, u(0), u(8))).status == 0);

    SUBCASE("until that one takes the name back") {
        CHECK(a.say(op::unshare, name).status == 0);
        CHECK(say(op::open, name).status == status(errc::no_such_name));
        CHECK(say(op::read, pack(x.first, x.bytes, u(0), u(4))).status == 0);
        CHECK(say(op::share, pack(y.first, y.bytes, "weights")).status == 0);
    }
    SUBCASE("or frees the block") {
        CHECK(a.say(op::end_batch, pack(u(1))).status == 0);
        CHECK(say(op::open, name).status == status(errc::no_such_name));
        CHECK(say(op::read, pack(x.first, x.bytes, u(0), u(4))).status == none);
        CHECK(say(op::share, pack(y.first, y.bytes, "weights")).status == 0);
    }
    SUBCASE("or is gone") {
        a.logic.end();
        CHECK(a.store->usage().blocks == 1);
        CHECK(say(op::open, name).status == status(errc::no_such_name));
    }
}

TEST_CASE("what was opened and is gone costs nothing any more") {
    script        a;
    session_logic guest(a.common, a.admit(a.another("two")), 2, 1);
    std::uint64_t number = 2;
    auto const    say    = [&](op what, bytes const& body) {
        a.put(frame(number, number - 1, what, body), &guest);
        ++number;
        return replies(sent(a.out)).at(0).status;
    };
    auto const used = [&] { return guest.whose()->own().used(resource::memory); };
    for (int i = 0; i < 5000; ++i) {
        auto const b = a.allocate(1, 8);
        CHECK(a.say(op::share, pack(b.first, b.bytes, "x")).status == 0);
        CHECK(say(op::open, pack("x")) == 0);
        if (i == 0) CHECK(used() > 0);
        CHECK(a.say(op::end_batch, pack(u(1))).status == 0);
        if (i == 0) CHECK(say(op::read, pack(b.first, b.bytes, u(0), u(1))) == status(errc::no_such_block));
        if (i == 0) CHECK(used() == 0);
    }
    CHECK(used() < 100'000);
}

TEST_CASE("a ticket is for one range, once") {
    script        s;
    auto const    b    = s.allocate(0, 100);
    auto const    made = s.say(op::grant, pack(b.first, b.bytes, u(10), u(20)));
    protocol::key key  = made.as<protocol::key>();
    auto          t    = s.common.tickets.take(key);
    REQUIRE(t);
    CHECK(!s.common.tickets.take(key));
    CHECK(!s.common.tickets.take(protocol::key{}));

    session_logic guest(s.common, s.admit(), 1, std::move(*t));
    std::uint64_t number = 2;
    auto const    write  = [&](std::uint64_t at, std::uint64_t n) {
        s.put(frame(number, number - 1, op::write, pack(b.first, b.bytes, u(at), u(n)), pattern(n)), &guest);
        ++number;
        return replies(sent(s.out)).at(0).status;
    };
    CHECK(write(10, 20) == 0);
    CHECK(write(29, 1) == 0);
    CHECK(write(30, 0) == 0);
    for (auto const& [at, n] : {std::pair{9, 2}, {10, 21}, {29, 2}, {31, 0}, {0, 1}})
        CHECK(write(static_cast<std::uint64_t>(at), static_cast<std::uint64_t>(n)) == status(errc::out_of_range));
    CHECK(s.read(b, 10, 20).size() == 20);
    SUBCASE("and nothing else") {
        CHECK(s.put(frame(number, 1, op::read, pack(b.first, b.bytes, u(10), u(1))), &guest) == next::over);
    }
    SUBCASE("until the block is gone") {
        CHECK(s.say(op::deallocate, pack(b.first, b.bytes, u(1))).status == 0);
        CHECK(write(10, 1) == status(errc::no_such_block));
    }
}

TEST_CASE("as many tickets as a tenant may give, over all its sessions") {
    script     s(limits({{resource::tickets, 3}}));
    auto const b = s.allocate(0, 100);
    {
        script     other(limits({{resource::tickets, 3}}));
        auto const c = other.allocate(0, 100);
        CHECK(other.say(op::grant, pack(c.first, c.bytes, u(0), u(1))).status == 0);
        CHECK(s.say(op::grant, pack(b.first, b.bytes, u(0), u(1))).status == 0);
        CHECK(s.say(op::grant, pack(b.first, b.bytes, u(0), u(1))).status == 0);
        auto const one = s.say(op::grant, pack(b.first, b.bytes, u(0), u(1)));
        CHECK(one.status == 0);
        CHECK(s.say(op::grant, pack(b.first, b.bytes, u(0), u(1))).status == status(errc::limit_exceeded));
        CHECK(s.common.tickets.take(one.as<protocol::key>()));  // used, it counts no more
        CHECK(s.say(op::grant, pack(b.first, b.bytes, u(0), u(1))).status == 0);
    }
}

TEST_CASE("a batch of many ends with one call") {
    script              s;
    std::uint64_t const many = TENURE_SANITIZED ? 10'000 : 100'000;
    auto const          a = s.allocate(5, 64, many / 2), b = s.allocate(6, 64, 10), c = s.allocate(5, 64, many / 2);
    auto const          calls = s.store->deallocations.load();
    auto const          begin = std::chrono::steady_clock::now();
    CHECK(s.say(op::end_batch, pack(u(5))).status == 0);
    auto const took = std::chrono::steady_clock::now() - begin;
    MESSAGE("end of " << many << ": " << std::chrono::duration<double, std::milli>(took).count() << " ms");
    CHECK(s.store->deallocations == calls + 1);
    CHECK(s.store->usage().blocks == 10);
    CHECK(s.say(op::read, pack(a.first, a.bytes, u(0), u(1))).status == status(errc::no_such_block));
    CHECK(s.say(op::read, pack(c.first, c.bytes, u(0), u(1))).status == status(errc::no_such_block));
    CHECK(s.read(b, 0, 64) == bytes(64));

    // One after the other, from the middle, and back again.
    for (std::uint64_t i = 1; i < 10; i += 2)
        CHECK(s.say(op::deallocate, pack(u(b.first + i), b.bytes, u(1))).status == 0);
    for (std::uint64_t i = 0; i < 10; i += 2)
        CHECK(s.say(op::transfer, pack(u(i + 1), u(b.first + i), b.bytes, u(1))).status == 0);
    CHECK(s.logic.own().batches() == 5);
    for (std::uint64_t i = 0; i < 10; i += 2) CHECK(s.say(op::end_batch, pack(u(i + 1))).status == 0);
    CHECK(s.store->usage().blocks == 0);
    CHECK(s.logic.own().bytes() == 0);
}

TEST_CASE("pages of ids that are used up") {
    script s;
    for (std::uint64_t const n : {512u, 512u, 1u, 511u, 1024u, 100u, 412u, 3u}) {
        auto const b = s.allocate(1, 8, n);
        CHECK(s.read(b, 0, 8) == bytes(8));
        CHECK(s.say(op::read, pack(u(b.first + n - 1), u(8), u(0), u(8))).status == 0);
        CHECK(s.say(op::read, pack(u(b.first + n), u(8), u(0), u(8))).status == status(errc::no_such_block));
        auto const c = s.allocate(2, 8, n);
        CHECK(s.say(op::deallocate, pack(c.first, c.bytes, c.count)).status == 0);
        CHECK(s.say(op::deallocate, pack(c.first, c.bytes, u(1))).status == status(errc::no_such_block));
    }
    CHECK(s.say(op::end_batch, pack(u(1))).status == 0);
    CHECK(s.store->usage().blocks == 0);
}

TEST_CASE("what the store would not free is tried again") {
    script     s;
    auto const a = s.allocate(5, 64, 3), b = s.allocate(6, 64, 3);
    s.store->fail_once = true;
    CHECK(s.say(op::end_batch, pack(u(5))).status == status(errc::device_unavailable));
    CHECK(s.store->usage().blocks == 6);
    CHECK(s.common.store->unfreed_blocks().blocks == 3);
    CHECK(s.say(op::end_batch, pack(u(6))).status == 0);
    CHECK(s.store->usage().blocks == 0);
    CHECK(s.say(op::read, pack(a.first, a.bytes, u(0), u(1))).status == status(errc::no_such_block));
    CHECK(b.count == 3u);
}

// ---- limits of tenants

/// What a tenant has is what its sessions have; at the end it is nothing.
void check_nothing_left(tenure::detail::tenant const& of) {
    for (std::size_t i = 0; i < tenure::detail::resources; ++i) {
        CAPTURE(tenure::detail::resource_names[i]);
        CHECK(of.own().used(static_cast<resource>(i)) == 0);
    }
}

TEST_CASE("blocks of no bytes cost memory, which is limited: over all sessions of a tenant") {
    constexpr std::uint64_t million = 1'000'000, memory = 8 << 20;
    script                  s(limits({{resource::memory, memory}, {resource::bytes, 1 << 20}}));
    std::uint64_t           made = 0;
    auto const              fill = [&](session_logic& to, std::uint64_t& request) {
        for (std::uint64_t n = 1000; n != 0;) {
            s.put(frame(request, request - 1, op::allocate, pack(u(0), u(0), u(8), u(n))), &to);
            ++request;
            auto const r = replies(sent(s.out)).at(0);
            if (r.status == 0) made += n;
            else n /= 10;
            if (r.status) CHECK(r.status == status(errc::limit_exceeded));
            REQUIRE(made < million);
        }
    };
    fill(s.logic, s.request);
    CHECK(made > memory / 200);
    CHECK(made < memory / 80);
    CHECK(s.whose->own().used(resource::memory) <= memory);
    CHECK(s.whose->own().used(resource::memory) > memory / 10 * 9);
    auto const alone = made;

    SUBCASE("a second session does not double it") {
        session_logic second(s.common, s.admit(), 2, 1);
        std::uint64_t request = 2;
        fill(second, request);
        CHECK(made == alone);
    }
    SUBCASE("another tenant has its own") {
        session_logic other(s.common, s.admit(s.another("two")), 2, 1);
        std::uint64_t request = 2;
        fill(other, request);
        CHECK(made == 2 * alone);
        other.end();
        check_nothing_left(*other.whose());
    }
    SUBCASE("what is freed comes back") {
        s.say(op::usage);
        s.logic.end();
        check_nothing_left(*s.whose);
        session_logic again(s.common, s.admit(), 2, 1);
        std::uint64_t request = 2;
        made                  = 0;
        fill(again, request);
        CHECK(made == alone);
    }
}

TEST_CASE("batches, pages of numbers and lists cost memory, too, and give it back") {
    script     s(limits({{resource::memory, 4 << 20}}));
    auto const used = [&] { return s.whose->own().used(resource::memory); };
    s.say(op::end_batch, pack(u(1)));
    auto const limit = status(errc::limit_exceeded);

    // One live block in a page of 512.
    std::uint64_t kept = 0;
    for (;; ++kept) {
        auto const r = s.say(op::allocate, pack(u(1), u(0), u(8), u(512)));
        if (r.status) {
            CHECK(r.status == limit);
            break;
        }
        auto const b = r.as<protocol::block_run>();
        CHECK(s.say(op::deallocate, pack(u(b.first + 1), u(0), u(511))).status == 0);
        REQUIRE(kept < 2000);
    }
    CHECK(kept > 500);
    CHECK(s.say(op::end_batch, pack(u(1))).status == 0);
    CHECK(used() < 10'000);

    // Many batches of one block; and their memory, once they are over, serves the next ones.
    for (int round = 0; round < 2; ++round) {
        std::uint64_t batch = 1;
        for (;; ++batch) {
            auto const r = s.say(op::allocate, pack(u(batch), u(0), u(8), u(1)));
            if (r.status) {
                CHECK(r.status == limit);
                break;
            }
            REQUIRE(batch < 50'000);
        }
        CHECK(batch > 5'000);
        for (std::uint64_t i = 1; i <= batch; ++i) CHECK(s.say(op::end_batch, pack(u(i))).status == 0);
        CHECK(s.logic.own().batches() == 0);
    }
    s.logic.end();
    check_nothing_left(*s.whose);
}

TEST_CASE("a batch that is over leaves nothing of its list, and the next one counts again") {
    script     s(limits({{resource::memory, 4 << 20}}));
    auto const used = [&] { return s.whose->own().used(resource::memory); };
    for (int round = 0; round < 4; ++round) {
        for (std::uint64_t const n : {3000u, 17u, 1000u}) {
            REQUIRE(s.say(op::allocate, pack(u(1), u(0), u(8), u(n))).status == 0);
            CHECK(used() > n * (sizeof(std::uint64_t) + sizeof(tenure::block)));
            CHECK(used() < 4 << 20);
            CHECK(s.say(op::end_batch, pack(u(1))).status == 0);
            CHECK(used() < 10'000);
        }
    }
    s.logic.end();
    check_nothing_left(*s.whose);
}

TEST_CASE("a small block with a large alignment takes up its alignment") {
    script     s(limits({{resource::bytes, 1 << 20}}));
    auto const b = s.say(op::allocate, pack(u(1), u(3), u(1 << 18), u(4)));
    REQUIRE(b.status == 0);
    CHECK(s.say(op::usage).body == pack(u(12), u(4), u(1 << 20)));
    CHECK(s.whose->own().used(resource::bytes) == 1 << 20);
    CHECK(s.say(op::allocate, pack(u(1), u(0), u(128), u(1))).status == status(errc::limit_exceeded));
    CHECK(s.say(op::allocate, pack(u(1), u(0), u(std::uint64_t{1} << 40), u(1))).status ==
          status(errc::bad_alignment));
    auto const run = b.as<protocol::block_run>();
    CHECK(s.write(run, 0, pattern(3)) == 0);
    CHECK(s.write(run, 0, pattern(4)) == status(errc::out_of_range));
    CHECK(s.say(op::end_batch, pack(u(1))).body == pack(u(0), u(0), u(1 << 20)));
    CHECK(s.whose->own().used(resource::bytes) == 0);
}

TEST_CASE("limits are the tenant's, whichever session asks, and say which they are") {
    script        s(limits({{resource::bytes, 1000},
                            {resource::buffers, 6},
                            {resource::batches, 2},
                            {resource::names, 2},
                            {resource::sessions, 3},
                            {resource::requests, 20}}));
    session_logic second(s.common, s.admit(), 2, 1);
    std::uint64_t request = 2;
    auto const    say     = [&](op what, bytes const& body) {
        s.put(frame(request, request - 1, what, body), &second);
        ++request;
        return replies(sent(s.out)).at(0);
    };
    auto const limited = [](reply const& r, std::string_view text) {
        CHECK(r.status == status(errc::limit_exceeded));
        CHECK(std::string_view(reinterpret_cast<char const*>(r.body.data()), r.body.size()) == text);
    };
    auto const a = s.allocate(1, 400);
    auto const b = say(op::allocate, pack(u(1), u(400), u(8), u(1))).as<protocol::block_run>();
    limited(say(op::allocate, pack(u(1), u(201), u(8), u(1))), "bytes: one tenant may have 1000");
    limited(say(op::allocate, pack(u(1), u(1), u(8), u(5))), "buffers: one tenant may have 6");
    limited(say(op::allocate, pack(u(2), u(1), u(8), u(1))), "batches: one tenant may have 2");
    CHECK(s.say(op::share, pack(a.first, a.bytes, "x")).status == 0);
    CHECK(say(op::share, pack(b.first, b.bytes, "y")).status == 0);
    limited(say(op::share, pack(b.first, b.bytes, "z")), "names: one tenant may have 2");

    // Said again as it was; and to a client that knows only version 1, without the text.
    s.put(frame(request - 1, request - 2, op::share, pack(b.first, b.bytes, "z")), &second);
    limited(replies(sent(s.out)).at(0), "names: one tenant may have 2");
    second.version = 1;
    limited(say(op::share, pack(b.first, b.bytes, "z")), "");
    second.version = 2;

    // Sessions, and the requests that they may have under way: eight, eight, and what is left of twenty.
    auto third = tenure::detail::admission::to(s.whose, 8);
    REQUIRE(third.has_value());
    CHECK(third->window() == 4);
    auto const fourth = tenure::detail::admission::to(s.whose, 8);
    REQUIRE(!fourth);
    CHECK(fourth.error() == tenure::detail::limit_error(resource::sessions, false));
    CHECK(fourth.error().message() == "limit exceeded: sessions of one tenant");
    third->give_back();
    CHECK(tenure::detail::admission::to(s.whose, 8).has_value());

    // Nobody else notices, and all of it comes back.
    {
        session_logic other(s.common, s.admit(s.another("two")), 3, 1);
        s.put(frame(2, 1, op::allocate, pack(u(1), u(1000), u(8), u(1))), &other);
        CHECK(replies(sent(s.out)).at(0).status == 0);
    }
    CHECK(s.say(op::unshare, pack("x")).status == 0);
    CHECK(say(op::share, pack(b.first, b.bytes, "z")).status == 0);
    CHECK(s.say(op::end_batch, pack(u(1))).status == 0);
    CHECK(say(op::allocate, pack(u(2), u(600), u(8), u(1))).status == 0);
    second.end();
    s.logic.end();
    check_nothing_left(*s.whose);
}

TEST_CASE("all tenants together have limits, too") {
    auto const all = limits({{resource::bytes, 1000}});
    script<>   s;
    auto const together = std::make_shared<tenure::detail::meter>(all);
    auto const one      = std::make_shared<tenure::detail::tenant>("one", amounts{}, together),
               two      = std::make_shared<tenure::detail::tenant>("two", amounts{}, together);
    session_logic a(s.common, s.admit(one), 5, 1), b(s.common, s.admit(two), 6, 1);
    auto const    make = [&](session_logic& l, std::uint64_t request, std::uint64_t n) {
        s.put(frame(request, request - 1, op::allocate, pack(u(1), u(n), u(8), u(1))), &l);
        return replies(sent(s.out)).at(0);
    };
    CHECK(make(a, 2, 700).status == 0);
    auto const r = make(b, 2, 301);
    CHECK(r.status == status(errc::limit_exceeded));
    CHECK(r.body == pack("bytes: the server may have 1000"));
    CHECK(two->own().used(resource::bytes) == 0);  // what was refused is not charged
    CHECK(make(b, 3, 300).status == 0);
    a.end();
    CHECK(make(b, 4, 700).status == 0);
    b.end();
    CHECK(together->used(resource::bytes) == 0);
    CHECK(one->own().used(resource::bytes) == 0);
    CHECK(two->own().used(resource::bytes) == 0);
}

TEST_CASE("a block that was freed counts until nobody is at it any more") {
    script        s(limits({{resource::bytes, 150'000}}));
    std::uint64_t n = 100'000;
    auto const    b = s.allocate(4, n);
    s.put(frame(s.request, s.request - 1, op::read, pack(b.first, b.bytes, u(0), u(n))));
    ++s.request;
    s.put(frame(s.request, s.request - 1, op::end_batch, pack(u(4))));
    ++s.request;
    CHECK(s.logic.own().blocks() == 0);
    CHECK(s.whose->own().used(resource::bytes) == n);
    s.put(frame(s.request, s.request - 1, op::allocate, pack(u(4), u(n), u(8), u(1))));
    ++s.request;
    auto const all = replies(sent(s.out));
    REQUIRE(all.size() == 3);
    CHECK(all[2].status == status(errc::limit_exceeded));
    CHECK(s.whose->own().used(resource::bytes) == 0);
    CHECK(s.say(op::allocate, pack(u(4), u(n), u(8), u(1))).status == 0);
    s.logic.end();
    check_nothing_left(*s.whose);
}

TEST_CASE("a block is trimmed: what it lost is nobody's") {
    script     s;
    auto const b    = s.allocate(1, 160, 4);
    auto const none = status(errc::no_such_block), range = status(errc::out_of_range);
    CHECK(s.say(op::trim, pack(b.first, u(130), u(1), u(b.first + 1), u(0), u(1))).status == 0);
    CHECK(s.say(op::usage).body == pack(u(130 + 0 + 320), u(4), u(0)));
    CHECK(s.whose->own().used(resource::bytes) == 640);  // as the store holds them
    CHECK(s.say(op::read, pack(b.first, u(160), u(0), u(1))).status == none);
    CHECK(s.say(op::read, pack(b.first, u(130), u(0), u(130))).status == 0);
    CHECK(s.say(op::read, pack(b.first, u(130), u(0), u(131))).status == range);
    CHECK(s.say(op::read, pack(b.first, u(130), u(130), u(1))).status == range);
    CHECK(s.say(op::write, pack(b.first, u(130), u(129), u(2)), pattern(2)).status == range);
    auto const other = u(b.first + 2);
    CHECK(s.say(op::copy, pack(b.first, u(130), other, u(160), u(100), u(0), u(31))).status == range);
    CHECK(s.say(op::copy, pack(other, u(160), b.first, u(130), u(0), u(100), u(31))).status == range);
    CHECK(s.say(op::copy, pack(other, u(160), b.first, u(130), u(0), u(100), u(30))).status == 0);
    CHECK(s.say(op::grant, pack(b.first, u(130), u(100), u(31))).status == range);

    // Not larger, not twice as it was, nor what somebody else may be at.
    CHECK(s.say(op::trim, pack(b.first, u(131), u(1))).status == none);
    CHECK(s.say(op::trim, pack(u(b.first + 4), u(1), u(1))).status == none);
    CHECK(s.say(op::trim, pack(b.first, u(130), u(1))).status == 0);
    CHECK(s.say(op::share, pack(other, u(160), "x")).status == 0);
    CHECK(s.say(op::trim, pack(other, u(100), u(1))).status == none);

    // It moves, is found and is freed by its new size.
    CHECK(s.say(op::transfer, pack(u(2), b.first, u(160), u(1))).status == none);
    CHECK(s.say(op::transfer, pack(u(2), b.first, u(130), u(1))).status == 0);
    CHECK(s.say(op::share, pack(b.first, u(130), "y")).status == 0);
    session_logic guest(s.common, s.admit(s.another("two")), 2, 1);
    s.put(frame(2, 1, op::open, pack("y")), &guest);
    CHECK(replies(sent(s.out)).at(0).body == pack(b.first, u(130)));
    s.put(frame(3, 2, op::read, pack(b.first, u(130), u(0), u(131))), &guest);
    CHECK(replies(sent(s.out)).at(0).status == range);
    CHECK(s.say(op::deallocate, pack(b.first, u(160), u(1))).status == none);
    CHECK(s.say(op::deallocate, pack(b.first, u(130), u(1))).status == 0);
    CHECK(s.say(op::end_batch, pack(u(1))).body == pack(u(0), u(0), u(0)));
    CHECK(s.store->usage() == tenure::store_usage{});
    s.logic.version = 1;
    CHECK(s.put(frame(s.request, s.request - 1, op::trim)) == next::over);
    s.logic.end();
    guest.end();
    check_nothing_left(*s.whose);
}

TEST_CASE("a trim is not refused for memory: the client has given the rest of the block to somebody") {
    std::uint64_t const n = 1000;
    std::uint64_t       needed;
    {
        script s;
        s.allocate(1, 160, n);
        needed = s.whose->own().used(resource::memory);
    }
    script     s(limits({{resource::memory, needed}}));
    auto const b = s.allocate(1, 160, n);
    CHECK(s.say(op::allocate, pack(u(2), u(8), u(8), u(1))).status == status(errc::limit_exceeded));
    CHECK(s.say(op::trim, pack(b.first, u(101), u(n))).status == 0);
    protocol::block_run last;
    last.first = b.first + n - 1;
    last.bytes = 101;
    CHECK(s.write(last, 100, pattern(1)) == 0);
    CHECK(s.read(last, 100, 1) == pattern(1));
    CHECK(s.whose->own().used(resource::memory) > needed);  // it counts,
    CHECK(s.whose->own().used(resource::memory) <= needed + 4 * 2 * n);
    CHECK(s.say(op::end_batch, pack(u(1))).status == 0);
    CHECK(s.say(op::allocate, pack(u(2), u(8), u(8), u(1))).status == 0);  // and comes back
    s.logic.end();
    check_nothing_left(*s.whose);
}

TEST_CASE("wrong tokens are looked at slowly, from one place and from all") {
    using namespace tenure::detail;
    attempts   a({3, 1}, {5, 2});
    auto const begin = attempts::clock::time_point(1000h);
    auto const wait  = [&](char const* place, std::chrono::milliseconds at) { return a.begin(place, begin + at); };
    for (int i = 0; i < 3; ++i) CHECK(wait("one", 0ms).count() == 0);
    CHECK(wait("one", 0ms) > 999ms);
    CHECK(wait("one", 0ms) < 1001ms);
    CHECK(wait("one", 400ms) > 599ms);  // who asks again has lost nothing
    CHECK(wait("one", 1001ms).count() == 0);
    CHECK(wait("one", 1001ms).count() != 0);

    // A right one costs nothing.
    for (int i = 0; i < 100; ++i) {
        CHECK(wait("two", 1001ms).count() == 0);
        a.right("two");
    }
    // From many places: five at once, and then two a second.
    int passed = 0;
    for (int i = 0; i < 100; ++i) passed += wait(("place " + std::to_string(i)).c_str(), 20s).count() == 0;
    CHECK(passed == 5);
    passed = 0;
    for (int i = 0; i < 1000; ++i)
        passed += wait(("place " + std::to_string(i)).c_str(), 20s + 10ms * i).count() == 0;
    CHECK(passed >= 19);
    CHECK(passed <= 20);
    for (std::size_t i = 0; i < 3 * attempts::most_places; ++i) wait(("x" + std::to_string(i)).c_str(), 40s);
    CHECK(a.places() <= attempts::most_places);

    // A place that had a right one does not wait for what others guess, and for its own guesses as before.
    attempts b({3, 1}, {5, 2});
    CHECK(b.begin("known", begin).count() == 0);
    b.right("known");
    for (int i = 0; i < 100; ++i) b.begin("place " + std::to_string(i), begin);
    CHECK(b.begin("other", begin).count() != 0);
    for (int i = 0; i < 3; ++i) CHECK(b.begin("known", begin).count() == 0);
    CHECK(b.begin("known", begin).count() != 0);
    for (int i = 0; i < 3; ++i) b.right("known");  // none of these was taken of all
    CHECK(b.begin("other", begin).count() != 0);

    // No limit.
    attempts none({0, 0}, {0, 0});
    for (int i = 0; i < 1000; ++i) CHECK(none.begin("one", begin).count() == 0);
}

TEST_CASE("those who have not said who they are: so many, and a quarter from one place") {
    auto const                                   v = std::make_shared<tenure::detail::visitors>(8);
    std::vector<tenure::detail::visitors::visit> all;
    for (char const* const place : {"a", "a", "b", "b", "c", "c", "d"}) {
        all.push_back(v->enter(place));
        CHECK(all.back());
    }
    CHECK(!v->enter("a"));
    CHECK(v->enter("d"));
    all.push_back(v->enter("d"));
    CHECK(!v->enter("a"));
    all.erase(all.begin());
    CHECK(v->enter("e"));
    all.clear();
    CHECK(v->count() == 0);
}

TEST_CASE("a few places do not keep others out who have not said who they are") {
    auto const                                   v = std::make_shared<tenure::detail::visitors>(8);
    std::vector<tenure::detail::visitors::visit> all;
    std::vector<int>                             gone;
    for (int i = 0; i < 8; ++i) {
        all.push_back(v->enter(std::string(1, static_cast<char>('a' + i / 2))));
        REQUIRE(all.back());
        if (i != 1) all.back().when_evicted([&gone, i] { gone.push_back(i); });
    }
    auto const e = v->enter("e");
    CHECK(e);
    CHECK(v->enter("f"));              // and leaves
    CHECK(gone == std::vector{0, 2});  // the oldest of the fullest places
    CHECK(v->count() == 7);
    CHECK(v->enter("e"));

    // One that has to make room before it said how hears of it when it does.
    for (char const* const place : {"g", "h", "i", "j"}) all.push_back(v->enter(place));
    CHECK(v->count() == 8);
    for (int i = 0; i < 40; ++i) all.push_back(v->enter("k" + std::to_string(i)));
    for (auto const& one : all) CHECK(one);
    CHECK(v->count() == 8);
    bool heard = false;
    all[1].when_evicted([&] { heard = true; });
    CHECK(heard);
    all.clear();
    CHECK(v->count() == 0);
}

TEST_CASE("a visitor whose place is not made after all has none") {
    auto const                                   v = std::make_shared<tenure::detail::visitors>(8);
    std::vector<tenure::detail::visitors::visit> all;
    for (char const* const place : {"a", "a", "b", "b", "c", "c", "d", "d"}) {
        all.push_back(v->enter(place));
        all.back().when_evicted([] { throw std::bad_alloc(); });
    }
    for (char const* const place : {"e", "f", "g"}) {
        std::size_t const before = v->count();
        try {
            auto const entered = v->enter(place);
            CHECK(entered);
        } catch (std::bad_alloc const&) {
            CHECK(v->count() == before - 1);
        }
    }
    all.clear();
    CHECK(v->count() == 0);
}

TEST_CASE("a store is let go with the server's executor, whatever was being sent to a peer") {
    namespace local = boost::asio::local;
    temporary_directory const                   where;
    std::string const                           path = where.path() / "peer";
    boost::asio::io_context                     elsewhere;
    local::stream_protocol::acceptor const      peer(elsewhere, local::stream_protocol::endpoint(path));
    std::weak_ptr<tenure::detail::served_store> left;
    {
        boost::asio::io_context io;
        auto const              store = std::make_shared<tenure::detail::served_store>(
            tenure::any_store(std::make_shared<tenure::heap_store>()));
        left = store;
        std::make_shared<tenure::detail::sender>(
            io.get_executor(), store, nullptr, tenure::endpoint("unix:" + path), tenure::detail::stay(),
            tenure::block{}, tenure::protocol::send_request{}, [](std::error_code) {})
            ->start(std::chrono::seconds(30));
        io.run_one();
    }
    CHECK(left.expired());
}

/// A hub of no sockets.
std::shared_ptr<tenure::detail::hub> hub_of(boost::asio::io_context& io, tenure::server_options o) {
    return std::make_shared<tenure::detail::hub>(
        io.get_executor(), tenure::any_store(std::make_shared<tenure::heap_store>()), std::move(o));
}

TEST_CASE("strangers do not keep the users of this machine out, and each counts as one connection") {
    boost::asio::io_context io;
    tenure::server_options  o;
    o.limits.visitors                              = 4;
    o.limits.connections                           = 6;
    auto const                                 hub = hub_of(io, o);
    std::vector<tenure::detail::hub::entrance> all;
    auto const                                 enter = [&](std::string const& place, bool local) {
        tenure::detail::peer who;
        who.place     = place;
        who.local     = local;
        auto       e  = hub->enter(who);
        bool const in = static_cast<bool>(e.visit);
        if (in) all.push_back(std::move(e));
        return in;
    };
    for (char const* const place : {"a", "b", "c", "d"}) CHECK(enter(place, false));
    CHECK(enter("user 1", true));
    CHECK(hub->connections() == 5);
    CHECK(enter("user 2", true));
    CHECK(!enter("user 3", true));  // more connections than there may be
    all[5].visit = {};              // it has said hello, and is there still
    CHECK(!enter("user 3", true));
    all.pop_back();
    CHECK(enter("user 3", true));
    all.clear();
    CHECK(hub->connections() == 0);
}

TEST_CASE("a session that no connection ever took up ends, too") {
    boost::asio::io_context io;
    tenure::server_options  o;
    o.lease        = 10ms;
    auto const hub = hub_of(io, o);
    {
        tenure::detail::greeting said;
        tenure::detail::peer     who;
        who.local    = true;
        auto const w = hub->hello(said, 1, who);
        REQUIRE(w.has_value());
        REQUIRE(w->session);
    }
    CHECK(hub->sessions().size() == 1);
    io.run();
    CHECK(hub->sessions().empty());
}

// ---- over sockets

/// A server, and a thread or two that run it.
template <class Store = tenure::heap_store>
struct running {
    explicit running(tenure::server_options o = {}, int threads = 2)
        : server(io.get_executor(), store, std::move(o)) {
        for (int i = 0; i < threads; ++i) all.emplace_back([this] { io.run(); });
    }
    ~running() {
        server.close();
        work.reset();
    }

    std::string unix_socket() {
        return server.listen(tenure::endpoint("unix:" + (dir.path() / "s").string())).to_text();
    }

    temporary_directory                                                      dir;
    std::shared_ptr<Store>                                                   store = std::make_shared<Store>();
    boost::asio::io_context                                                  io;
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{io.get_executor()};
    tenure::buffer_server                                                    server;
    std::vector<std::jthread>                                                all;
};

/// A client that knows nothing but frames.
class raw {
public:
    /// `from`: 127.0.0.`from`, over TCP.
    explicit raw(std::string const& where, unsigned char from = 1) {
        tenure::endpoint const at(where);
        if (at.how == tenure::endpoint::kind::unix_socket) {
            ::sockaddr_un a{};
            a.sun_family = AF_UNIX;
            at.where.copy(a.sun_path, sizeof a.sun_path - 1);
            fd_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
            REQUIRE(::connect(fd_, reinterpret_cast<::sockaddr*>(&a), sizeof a) == 0);
        } else {
            ::sockaddr_in a{};
            a.sin_family      = AF_INET;
            a.sin_port        = htons(at.port);
            a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            fd_               = ::socket(AF_INET, SOCK_STREAM, 0);
            ::sockaddr_in mine{};
            mine.sin_family      = AF_INET;
            mine.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + from);
            REQUIRE(::bind(fd_, reinterpret_cast<::sockaddr*>(&mine), sizeof mine) == 0);
            REQUIRE(::connect(fd_, reinterpret_cast<::sockaddr*>(&a), sizeof a) == 0);
        }
        ::timeval const patience{20, 0};
        ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    }
    raw(raw const&)            = delete;
    raw& operator=(raw const&) = delete;
    ~raw() { cut(); }
    void cut() {
        if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    }

    void put(std::span<std::byte const> what) {
        while (!what.empty()) {
            auto const n = ::send(fd_, what.data(), what.size(), MSG_NOSIGNAL);
            if (n <= 0) return;  // the server had enough
            what = what.subspan(static_cast<std::size_t>(n));
        }
    }
    bool get(std::span<std::byte> into) {
        while (!into.empty()) {
            auto const n = ::recv(fd_, into.data(), into.size(), 0);
            if (n <= 0) return false;
            into = into.subspan(static_cast<std::size_t>(n));
        }
        return true;
    }
    /// Whether the server hung up.
    bool over() {
        std::byte b;
        return !get({&b, 1}) && errno != EAGAIN;
    }
    reply answer() {
        protocol::frame_header h;
        REQUIRE(get(std::as_writable_bytes(std::span(&h, 1))));
        reply r{h.request, static_cast<std::uint16_t>(h.operation & ~protocol::is_reply), h.status, bytes(h.body),
                bytes(h.payload)};
        REQUIRE(get(r.body));
        REQUIRE(get(r.payload));
        return r;
    }

    static bytes greeting(std::uint64_t number, protocol::hello_request h = {}, std::string_view token = {}) {
        h.name_bytes  = 4;
        h.token_bytes = static_cast<std::uint16_t>(token.size());
        return frame(number, number - 1, op::hello, pack(h, "test", std::string(token)));
    }
    reply greet(protocol::hello_request const& h = {}, std::string_view token = {}) {
        put(greeting(request, h, token));
        auto r = answer();
        CHECK(r.request == request++);
        if (r.status == 0) welcome = r.as<protocol::hello_reply>();
        return r;
    }
    /// To go on with this one's session.
    protocol::hello_request known() const {
        protocol::hello_request h;
        h.instance = welcome.instance;
        h.session  = welcome.session;
        h.secret   = welcome.secret;
        return h;
    }
    reply say(op what, bytes const& body = {}, bytes const& payload = {}) {
        put(frame(request, request - 1, what, body, payload));
        ++request;
        return answer();
    }
    protocol::block_run allocate(std::uint64_t batch, std::uint64_t n, std::uint64_t count = 1) {
        reply const r = say(op::allocate, pack(u(batch), u(n), u(8), u(count)));
        REQUIRE(r.status == 0);
        return r.as<protocol::block_run>();
    }

    std::uint64_t         request = 1;
    protocol::hello_reply welcome;

private:
    int fd_ = -1;
};

TEST_CASE("hello, in all its ways") {
    tenure::server_options o;
    o.tokens.add("ann", "open sesame");
    o.tokens.add("", "another");
    o.quota.in_flight = 17;
    running    s(o);
    auto const at = s.unix_socket();
    {
        raw c(at);
        REQUIRE(c.greet({}, "open sesame").status == 0);
        CHECK(c.welcome.version == 2u);
        CHECK(c.welcome.resumed == 0u);
        CHECK(c.welcome.lease == 30'000u);
        CHECK(c.welcome.in_flight == 17u);
        CHECK(c.welcome.most_payload == 16u << 20);
        auto const all = s.server.status();
        REQUIRE(all.clients.size() == 1);
        CHECK(all.clients[0].name == "test");
        CHECK(all.clients[0].token == "ann");
        CHECK(all.to_json().find("sesame") == std::string::npos);
        CHECK(c.say(op::goodbye).status == 0);
        CHECK(c.over());
    }
    auto const refused = [&](bytes const& f, errc why) {
        raw c(at);
        c.put(f);
        auto const r = c.answer();
        CHECK(r.status == status(why));
        CHECK(c.over());
    };
    for (std::string_view const token : {"", "open sesam", "open sesame!", "open sesamE"})
        refused(raw::greeting(1, {}, token), errc::access_denied);
    protocol::hello_request h;
    h.oldest = h.newest = 3;
    refused(raw::greeting(1, h, "another"), errc::newer_format);
    h.oldest = h.newest = 0;
    refused(raw::greeting(1, h, "another"), errc::newer_format);
    h.oldest = 1, h.newest = 3;
    CHECK(raw(at).greet(h, "another").status == 0);
    h         = {};
    h.purpose = 1;
    refused(raw::greeting(1, h), errc::access_denied);
    h.purpose = 2;
    refused(raw::greeting(1, h, "another"), errc::protocol_error);
    h          = {};
    h.magic[0] = 'T';
    refused(raw::greeting(1, h, "another"), errc::protocol_error);
    h             = {};
    h.token_bytes = 9;
    refused(frame(1, 0, op::hello, pack(h, "12345678")), errc::protocol_error);
    refused(frame(1, 0, op::hello, pattern(4097)), errc::protocol_error);
    refused(frame(1, 0, op::hello, pattern(5)), errc::protocol_error);
    refused(frame(1, 0, op::renew), errc::protocol_error);
    refused(bytes(32), errc::protocol_error);
    CHECK(soon([&] { return s.server.status().connections == 0; }, 20s));
}

/// What a server tells its log.
struct diary {
    void operator()(tenure::server_event const& e) {
        std::scoped_lock const guard(lock);
        all.push_back(e);
    }
    std::uint64_t count(tenure::server_event::kind what, bool with_left_out) {
        std::scoped_lock const guard(lock);
        std::uint64_t          n = 0;
        for (auto const& e : all) n += (e.what == what) + (with_left_out ? e.left_out : 0);
        return n;
    }
    std::mutex                        lock;
    std::vector<tenure::server_event> all;
};

TEST_CASE("who guesses tokens waits; who knows one gets in from elsewhere, and goes on from anywhere") {
    auto const             heard = std::make_shared<diary>();
    tenure::server_options o;
    o.tokens.add("ann", "open sesame");
    o.log           = [heard](tenure::server_event const& e) { (*heard)(e); };
    o.hello_timeout = 300ms;
    o.wrong_tokens  = {.at_once = 5, .a_second = 1};
    running    s(o);
    auto const at = s.unix_socket();
    raw        known(at);
    CHECK(known.greet({}, "open sesame").status == 0);

    auto const begin   = std::chrono::steady_clock::now();
    int        looked  = 0;
    int const  guesses = 60;
    for (int i = 0; i < guesses; ++i) {
        raw c(at);
        c.put(raw::greeting(1, {}, "guess"));
        protocol::frame_header h;
        if (i > 10) {
            c.cut();  // does not even wait
            continue;
        }
        if (!c.get(std::as_writable_bytes(std::span(&h, 1)))) continue;  // it waited, and was closed
        CHECK(h.status == status(errc::access_denied));
        ++looked;
    }
    auto const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    CHECK(looked >= 5);
    CHECK(looked <= 5 + seconds + 1);
    CHECK(soon([&] { return s.server.status().connections == 1; }, 20s));

    // Its place is the guesser's, but it has a session.
    raw again(at);
    again.request = known.request;
    CHECK(again.greet(known.known(), "open sesame").status == 0);
    CHECK(again.welcome.resumed == 1u);
    CHECK(heard->count(tenure::server_event::kind::refused, true) >= static_cast<std::uint64_t>(looked));
}

TEST_CASE("who knows a token is not slowed, however often they come") {
    tenure::server_options o;
    o.tokens.add("ann", "open sesame");
    o.wrong_tokens = {.at_once = 2, .a_second = 0.001, .all_at_once = 3, .all_a_second = 0.001};
    running    s(o);
    auto const at = s.unix_socket();
    for (int i = 0; i < 10; ++i) CHECK(raw(at).greet({}, "open sesame").status == 0);
}

TEST_CASE("refusals are told a few times a second") {
    std::vector<tenure::server_event> told;
    tenure::detail::event_log         log([&](tenure::server_event const& e) { told.push_back(e); });
    auto const                        now   = tenure::detail::event_log::clock::time_point(1000h);
    auto const                        event = [](tenure::server_event::kind k) {
        return tenure::server_event{k, "somebody", {}, {}, 0, 0, 0, make_error_code(errc::access_denied), 0};
    };
    for (int i = 0; i < 10'000; ++i) log.tell(event(tenure::server_event::kind::refused), now);
    CHECK(told.size() == 20);
    log.tell(event(tenure::server_event::kind::opened), now);
    CHECK(told.size() == 21);
    CHECK(told.back().left_out == 9980);
    log.tell(event(tenure::server_event::kind::refused), now + 10s);
    CHECK(told.size() == 22);
    CHECK(told.back().left_out == 0);
}

TEST_CASE("a session is its tenant's: its secret is not enough") {
    auto const             heard = std::make_shared<diary>();
    tenure::server_options o;
    o.tokens.add("ann", "hers");
    o.tokens.add("bob", "his");
    o.tokens.add("", "one");
    o.tokens.add("", "another");
    o.tokens.add("ann", "her new one");
    o.log = [heard](tenure::server_event const& e) { (*heard)(e); };
    running    s(o);
    auto const at    = s.unix_socket();
    auto const tries = [&](std::string_view mine, std::string_view then) {
        raw c(at);
        CHECK(c.greet({}, mine).status == 0);
        auto const b = c.allocate(1, 100);
        raw        d(at);
        d.request      = c.request;
        auto const was = d.greet(c.known(), then).status;
        if (was == 0) {
            CHECK(d.welcome.resumed == 1u);
            CHECK(d.say(op::read, pack(b.first, b.bytes, u(0), u(100))).status == 0);
        } else {
            CHECK(d.over());
            CHECK(c.say(op::read, pack(b.first, b.bytes, u(0), u(100))).status == 0);  // it does not notice
        }
        return was;
    };
    CHECK(tries("hers", "his") == status(errc::access_denied));
    CHECK(tries("one", "another") == status(errc::access_denied));
    CHECK(tries("hers", "hers") == 0);
    CHECK(tries("hers", "her new one") == 0);  // the same person's
    CHECK(heard->count(tenure::server_event::kind::refused, false) == 2);
}

TEST_CASE("limits over sockets: two sessions of a token are one tenant") {
    auto const             heard = std::make_shared<diary>();
    tenure::server_options o;
    o.tokens.add("ann", "hers");
    o.tokens.add("bob", "his");
    o.quota = {.bytes = 1000, .buffers = 3, .sessions = 2};
    o.log   = [heard](tenure::server_event const& e) { (*heard)(e); };
    running    s(o);
    auto const at = s.unix_socket();
    auto const a  = std::make_unique<raw>(at);
    raw        b(at), c(at), d(at);
    CHECK(a->greet({}, "hers").status == 0);
    CHECK(b.greet({}, "hers").status == 0);
    auto const r = c.greet({}, "hers");
    CHECK(r.status == status(errc::limit_exceeded));
    CHECK(r.body == pack("limit exceeded: sessions of one tenant"));
    CHECK(d.greet({}, "his").status == 0);
    a->allocate(1, 600);
    CHECK(b.say(op::allocate, pack(u(1), u(600), u(8), u(1))).status == status(errc::limit_exceeded));
    d.allocate(1, 1000);
    auto const all = s.server.status();
    REQUIRE(all.tenants.size() == 2);
    CHECK(all.tenants[0].name == "token \"ann\"");
    CHECK(all.tenants[0].figures[0].used == 600);
    CHECK(all.tenants[0].figures[0].most == 1000);
    CHECK(all.figures[0].used == 1600);
    CHECK(all.figures[0].most > 1000);  // there is a limit by default,
    CHECK(all.figures[8].used > 0);     // and of bookkeeping
    CHECK(all.figures[8].most > 1 << 20);
    CHECK(all.to_json().find("\"most\":1000") != std::string::npos);
    CHECK(heard->count(tenure::server_event::kind::limited, false) == 1);
    CHECK(heard->count(tenure::server_event::kind::refused, false) == 1);

    // A session that is over gives back what it had, and its place.
    CHECK(a->say(op::goodbye).status == 0);
    CHECK(b.say(op::allocate, pack(u(1), u(600), u(8), u(1))).status == 0);
    raw e(at);
    CHECK(e.greet({}, "hers").status == 0);

    // A client that is told says which limit it was.
    CHECK(b.say(op::goodbye).status == 0);
    tenure::client_options mine;
    mine.tokens.add("", "hers");
    auto const store = tenure::remote_store::connect(tenure::endpoint(at), mine);
    CHECK(store->last_limit().empty());
    CHECK(store->allocate(1001, 8).error() == errc::limit_exceeded);
    CHECK(store->last_limit() == "bytes: one tenant may have 1000");
    check_throws(errc::limit_exceeded, {"sessions of one tenant"},
                 [&] { tenure::remote_store::connect(tenure::endpoint(at), mine); });
}

TEST_CASE("who does not take the answers holds no more than the tenant's queue, and goes on") {
    tenure::server_options o;
    o.quota = {.queued_bytes = 1 << 20};
    running<not_addressable>          s(o);
    auto const                        at = s.unix_socket();
    std::size_t const                 n  = 60'000;
    std::vector<std::unique_ptr<raw>> all;
    for (int i = 0; i < 6; ++i) {
        auto& c = *all.emplace_back(std::make_unique<raw>(at));
        c.greet();
        auto const b = c.allocate(0, n);
        for (int k = 0; k < 100; ++k) c.put(frame(c.request++, 1, op::read, pack(b.first, b.bytes, u(0), u(n))));
    }
    auto const queued  = [&] { return s.server.status().figures[tenure::detail::index_of(resource::queued)].used; };
    auto const bounded = [&] { return queued() <= (1 << 20) + 6 * (std::uint64_t{256} << 10); };
    for (int i = 0; i < 200; ++i) CHECK(bounded());
    for (auto const& c : all) {
        for (int k = 0; k < 100; ++k) CHECK(c->answer().payload.size() == n);
        CHECK(bounded());
    }
    all.clear();
    CHECK(soon([&] { return queued() == 0; }, 20s));
}

TEST_CASE("what a payload lands in counts for the tenant's queue, until it is written") {
    running<not_addressable> s;
    raw                      c(s.unix_socket());
    c.greet();
    auto const b      = c.allocate(0, 1 << 20);
    auto const queued = [&] { return s.server.status().figures[tenure::detail::index_of(resource::queued)].used; };
    auto const f = frame(c.request++, 1, op::write, pack(b.first, b.bytes, u(0), u(1 << 20)), pattern(1 << 20));
    CHECK(queued() < 1 << 20);
    c.put(std::span(f).first(200'000));
    CHECK(soon([&] { return queued() >= 1 << 20; }, 20s));
    c.put(std::span(f).subspan(200'000));
    CHECK(c.answer().status == 0);
    CHECK(soon([&] { return queued() < 1 << 20; }, 20s));
}

TEST_CASE("a long request comes through though others fill the server's queue") {
    tenure::server_options o;
    o.tokens.add("ann", "hers");
    o.tokens.add("bob", "his");
    o.limits.queued_bytes = 1 << 20;
    running<not_addressable>          s(o);
    auto const                        at = s.unix_socket();
    std::size_t const                 n  = 60'000;
    std::vector<std::unique_ptr<raw>> all;
    for (int i = 0; i < 6; ++i) {  // and takes no answers
        auto& c = *all.emplace_back(std::make_unique<raw>(at));
        c.greet({}, "hers");
        auto const b = c.allocate(0, n);
        for (int k = 0; k < 100; ++k) c.put(frame(c.request++, 1, op::read, pack(b.first, b.bytes, u(0), u(n))));
    }
    auto const queued = [&] { return s.server.status().figures[tenure::detail::index_of(resource::queued)].used; };
    REQUIRE(soon([&] { return queued() >= 1 << 20; }, 20s));
    bytes runs;
    while (runs.size() < 500'000) {
        auto const one = pack(u(1), u(1), u(1));
        runs.insert(runs.end(), one.begin(), one.end());
    }
    raw first(at), second(at);
    CHECK(first.greet({}, "his").status == 0);
    CHECK(second.greet({}, "his").status == 0);
    for (int i = 0; i < 3; ++i) {
        CHECK(first.say(op::deallocate, runs).status == status(errc::no_such_block));
        CHECK(second.say(op::deallocate, runs).status == status(errc::no_such_block));
    }
    CHECK(queued() >= 1 << 20);
}

TEST_CASE("a session that the server keeps waiting does not end for its silence") {
    tenure::server_options o;
    o.lease               = 2s;  // as long as a busy machine may hold up the greetings here
    o.limits.queued_bytes = 1;   // always full
    running    s(o);
    auto const at = s.unix_socket();
    bytes      runs;
    while (runs.size() < 500'000) {
        auto const one = pack(u(1), u(1), u(1));
        runs.insert(runs.end(), one.begin(), one.end());
    }
    raw slow(at), waits(at);
    slow.greet();
    waits.greet();
    auto const f     = frame(slow.request, slow.request - 1, op::deallocate, runs);
    auto const piece = [&](std::size_t i) { slow.put(std::span(f).subspan(i * 1000, 1000)); };
    for (std::size_t i = 0; i < 10; ++i) piece(i);
    std::this_thread::sleep_for(50ms);  // until it has the turn; else it is less of a test
    waits.put(frame(waits.request, waits.request - 1, op::deallocate, runs));
    for (std::size_t i = 10; i < 25; ++i) {
        std::this_thread::sleep_for(200ms);
        piece(i);
    }
    slow.cut();
    CHECK(waits.answer().status == status(errc::no_such_block));
}

TEST_CASE("a session goes on where its connection was cut") {
    running    s;
    auto const at = s.unix_socket();
    raw        c(at);
    c.greet();
    auto const b = c.allocate(3, 1 << 20);

    // In the middle of a write: that was not done, though some of it is there.
    auto const w =
        frame(c.request, c.request - 1, op::write, pack(b.first, b.bytes, u(0), u(1 << 20)), pattern(1 << 20));
    bool cut = false;
    SUBCASE("and is known to be gone") { cut = true; }
    SUBCASE("and still seems to be there") {}
    c.put(std::span(w).first(w.size() / 2));
    auto const lost = c.request++;
    if (cut) c.cut();

    raw d(at);
    d.request = c.request;
    CHECK(d.greet(c.known()).status == 0);
    CHECK(d.welcome.resumed == 1u);
    CHECK(d.welcome.session == c.welcome.session);
    d.put(w);
    auto const r = d.answer();
    CHECK(r.request == lost);
    CHECK(r.status == 0);
    CHECK(d.say(op::read, pack(b.first, b.bytes, u(0), u(1 << 20))).payload == pattern(1 << 20));
    if (!cut) CHECK(c.over());

    // Whoever does not know the secret has a new session.
    auto known = d.known();
    known.secret[15] ^= 1;
    raw e(at);
    CHECK(e.greet(known).status == 0);
    CHECK(e.welcome.resumed == 0u);
    CHECK(e.say(op::read, pack(b.first, b.bytes, u(0), u(1))).status == status(errc::no_such_block));
    known = d.known();
    known.instance += 1;
    raw f(at);
    CHECK(f.greet(known).status == 0);
    CHECK(f.welcome.resumed == 0u);

    CHECK(d.say(op::goodbye).status == 0);
    CHECK(d.over());
    CHECK(s.store->usage().blocks == 0);
    raw g(at);
    CHECK(g.greet(d.known()).status == 0);
    CHECK(g.welcome.resumed == 0u);
}

TEST_CASE("who says nothing for a lease is gone, with all that was theirs") {
    tenure::server_options o;
    o.lease         = 2s;  // as long as a busy machine may hold up the greetings here
    o.hello_timeout = 2s;
    running    s(o);
    auto const at = s.unix_socket();
    raw        silent(at);
    raw        idle(at);
    raw        deaf(at);
    idle.greet();
    idle.allocate(1, 1000, 10);
    deaf.greet();
    auto const b = deaf.allocate(0, 8 << 20);
    for (int i = 0; i < 4; ++i)  // and does not take the answers
        deaf.put(frame(deaf.request++, 1, op::read, pack(b.first, b.bytes, u(0), b.bytes)));
    {
        raw killed(at);
        killed.greet();
        killed.allocate(1, 1000, 10);
    }
    CHECK(soon([&] { return s.store->usage().blocks == 0 && s.server.status().clients.empty(); }, 20s));
    CHECK(silent.over());
    CHECK(idle.over());
    CHECK(soon([&] { return s.server.status().connections == 0; }, 20s));

    raw late(at);
    CHECK(late.greet(idle.known()).status == 0);
    CHECK(late.welcome.resumed == 0u);
}

TEST_CASE("frames in pieces, long ones, and answers that nobody takes") {
    tenure::server_options o;
    o.lease = 10min;  // the client is silent while it compares
    running    s(o);
    auto const at = s.unix_socket();
    raw        c(at);
    for (std::byte const b : raw::greeting(c.request++)) c.put({&b, 1});
    CHECK(c.answer().status == 0);
    std::size_t const large = 5 << 20;
    auto const        b     = c.allocate(0, large);
    auto const        w = frame(c.request++, 1, op::write, pack(b.first, b.bytes, u(0), u(large)), pattern(large));
    for (std::size_t i = 0; i < w.size();) {  // which pieces arrive together is the system's affair
        std::size_t const n = std::min(i < 100 ? std::size_t{1} : std::size_t{99'999}, w.size() - i);
        c.put(std::span(w).subspan(i, n));
        i += n;
    }
    CHECK(c.answer().status == 0);

    // Errors of long writes: their payloads are passed over.
    bytes      many;
    auto const add   = [&](bytes const& f) { many.insert(many.end(), f.begin(), f.end()); };
    auto const first = c.request;
    add(frame(c.request++, 1, op::write, pack(b.first, b.bytes, u(1), u(large)), pattern(large)));
    add(frame(c.request++, 1, op::write, pack(u(1), b.bytes, u(0), u(100'000)), pattern(100'000)));
    add(frame(c.request++, 1, op::renew));
    // A read, a write to the same place, a read: the first one has the old bytes.
    add(frame(c.request++, 1, op::read, pack(b.first, b.bytes, u(0), u(large))));
    add(frame(c.request++, 1, op::write, pack(b.first, b.bytes, u(0), u(large)), pattern(large, 9)));
    for (int i = 0; i < 20; ++i) add(frame(c.request++, 1, op::read, pack(b.first, b.bytes, u(0), u(large))));
    std::jthread       writer([&] { c.put(many); });
    std::vector<reply> got;
    for (auto i = first; i < c.request; ++i) {
        got.push_back(c.answer());
        CHECK(got.back().request == i);
    }
    CHECK(got[0].status == status(errc::out_of_range));
    CHECK(got[1].status == status(errc::no_such_block));
    CHECK(got[2].status == 0);
    CHECK(got[3].payload == pattern(large));
    CHECK(got[4].status == 0);
    bytes const written = pattern(large, 9);
    for (std::size_t i = 5; i < got.size(); ++i) CHECK(got[i].payload == written);

    // The largest body there is.
    bytes runs;
    while (runs.size() + 24 <= protocol::most_body) {
        auto const one = pack(u(1), u(1), u(1));
        runs.insert(runs.end(), one.begin(), one.end());
    }
    CHECK(c.say(op::deallocate, runs).status == status(errc::no_such_block));
    CHECK(c.say(op::status).body.size() > 100);
}

TEST_CASE("stores without addresses, over sockets") {
    running<not_addressable> s;
    raw                      c(s.unix_socket());
    c.greet();
    CHECK(c.welcome.most_payload == 1u << 20);
    auto const b = c.allocate(0, 3 << 20);
    for (std::uint64_t i = 0; i < 3; ++i)
        c.put(frame(c.request++, 1, op::write, pack(b.first, b.bytes, u(i << 20), u(1 << 20)),
                    pattern(1 << 20, static_cast<unsigned>(i))));
    for (int i = 0; i < 3; ++i) CHECK(c.answer().status == 0);
    for (std::uint64_t i = 0; i < 3; ++i)
        CHECK(c.say(op::read, pack(b.first, b.bytes, u(i << 20), u(1 << 20))).payload ==
              pattern(1 << 20, static_cast<unsigned>(i)));
    CHECK(c.say(op::read, pack(b.first, b.bytes, u(0), u(2 << 20))).status == status(errc::limit_exceeded));
    c.put(frame(c.request, 1, op::write, pack(b.first, b.bytes, u(0), u(2 << 20)), bytes(2 << 20)));
    CHECK(c.answer().status == 1);
    CHECK(c.over());
}

TEST_CASE("who gets in") {
    running             s;
    temporary_directory dir;
    auto const          path = (dir.path() / "tokens").string();
    SUBCASE("through a Unix socket: whose it is") {
        auto const    at = s.unix_socket();
        struct ::stat about{};
        REQUIRE(::stat(tenure::endpoint(at).where.c_str(), &about) == 0);
        CHECK((about.st_mode & 0777) == 0600);
        tenure::server_options o;
        o.users = {::geteuid() + 1};
        running other(o);
        raw     c(other.unix_socket());
        c.put(raw::greeting(1));
        CHECK(c.over());
    }
    SUBCASE("beyond this machine, nobody without TLS and a proof") {
        for (char const* const where : {"tcp:0.0.0.0:0", "tcp:[::]:0", "tcp:localhost:0", "tls:0.0.0.0:0"})
            check_throws(errc::insecure, {where}, [&] { s.server.listen(tenure::endpoint(where)); });
        tenure::server_options o;
        o.tokens.add("", "x");
        running with_token(o);
        check_throws(errc::insecure, {"TLS"}, [&] { with_token.server.listen(tenure::endpoint("tcp:0.0.0.0:0")); });
        auto const at = with_token.server.listen(tenure::endpoint("tcp:127.0.0.1:0"));
        CHECK(at.port != 0);
        raw c(at.to_text());
        CHECK(c.greet({}, "x").status == 0);
        CHECK(c.say(op::status).status == status(errc::access_denied));

        // Whatever else it sends, it hears why it is over.
        raw d(at.to_text());
        CHECK(d.greet({}, "x").status == 0);
        bytes nonsense(std::size_t{4} << 20, std::byte{0xee});
        d.put(nonsense);
        CHECK(d.answer().status == 1);
        CHECK(d.over());
    }
    SUBCASE("tokens from a file that is nobody else's") {
        std::ofstream(path) << "# people\nann:secret\n\nplain\r\n";
        ::chmod(path.c_str(), 0640);
        check_throws(errc::access_denied, {path, "chmod 600"}, [&] { tenure::tokens::from_file(path); });
        ::chmod(path.c_str(), 0600);
        auto const all  = tenure::tokens::from_file(path);
        auto const find = [&](std::string_view t) { return all.find(std::as_bytes(std::span(t))); };
        REQUIRE(find("secret"));
        CHECK(*find("secret") == "ann");
        CHECK(find("plain"));
        CHECK(!find("ann:secret"));
        CHECK(!find(""));
        CHECK(all.first() == "secret");
        std::ofstream(path) << std::string((std::size_t{16} << 20) + 1, 'x');
        check_throws(errc::limit_exceeded, {path, "too long"}, [&] { tenure::tokens::from_file(path); });
        std::ofstream(path) << "# nobody\n";
        check_throws(errc::access_denied, {path}, [&] { tenure::tokens::from_file(path); });
        check_throws(std::error_code(ENOENT, std::system_category()), {"/nowhere"},
                     [&] { tenure::tokens::from_file("/nowhere"); });
    }
    SUBCASE("a file of tokens may be a link, as mounted secrets are, and nothing but a file at its end") {
        std::ofstream(path) << "ann:secret\n";
        ::chmod(path.c_str(), 0600);
        auto const link = (dir.path() / "link").string(), pipe = (dir.path() / "pipe").string();
        std::filesystem::create_symlink(path, link);
        CHECK(tenure::tokens::from_file(link).first() == "secret");
        ::chmod(path.c_str(), 0644);  // the file's permissions count, and not the link's
        check_throws(errc::access_denied, {link, "chmod 600"}, [&] { tenure::tokens::from_file(link); });

        // Nobody writes to the pipe: who waited for that would wait for ever.
        REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
        std::filesystem::remove(link);
        std::filesystem::create_symlink(pipe, link);
        for (std::string const& other : {pipe, link, dir.path().string(), std::string("/dev/null")})
            check_throws(errc::not_a_file, {"token file " + other}, [&] { tenure::tokens::from_file(other); });
        if (std::filesystem::exists("/proc/self/mem"))  // opens, and cannot be read from its begin
            check_throws(std::error_code(EIO, std::system_category()), {"/proc/self/mem"},
                         [&] { tenure::tokens::from_file("/proc/self/mem"); });
    }
    SUBCASE("a socket's file that a dead server left is replaced; a living one's is not") {
        auto const at = s.unix_socket();
        check_throws(std::error_code(EADDRINUSE, std::system_category()), {at},
                     [&] { s.server.listen(tenure::endpoint(at)); });
        auto const    left = "unix:" + (dir.path() / "left").string();
        int const     fd   = ::socket(AF_UNIX, SOCK_STREAM, 0);
        ::sockaddr_un a{};
        a.sun_family = AF_UNIX;
        tenure::endpoint(left).where.copy(a.sun_path, sizeof a.sun_path - 1);
        REQUIRE(::bind(fd, reinterpret_cast<::sockaddr*>(&a), sizeof a) == 0);
        ::close(fd);
        std::ofstream(dir.path() / "file") << "somebody's";
        check_throws(std::error_code(EADDRINUSE, std::system_category()), {"file"},
                     [&] { s.server.listen(tenure::endpoint("unix:" + (dir.path() / "file").string())); });
        CHECK(std::filesystem::file_size(dir.path() / "file") == 10);
        s.server.listen(tenure::endpoint(left));
        CHECK(raw(left).greet().status == 0);
    }
}

/// Keys and certificates of an authority of the test's own, as files.
class certificates {
public:
    explicit certificates(std::filesystem::path dir) : dir_(std::move(dir)) {
        auto ca = make("ca", "test authority", nullptr, nullptr);
        make("server", "localhost", ca.first.get(), ca.second.get());
        make("client", "worker 7", ca.first.get(), ca.second.get());
        make("long", "worker 8", ca.first.get(), ca.second.get(), 5);
        auto other = make("other_ca", "somebody else", nullptr, nullptr);
        make("stranger", "worker 7", other.first.get(), other.second.get());
        revoke("revoked", 3, ca.first.get(), ca.second.get());
    }
    std::string pem(char const* name) const { return (dir_ / (std::string(name) + ".pem")).string(); }
    std::string key(char const* name) const { return (dir_ / (std::string(name) + ".key")).string(); }

private:
    using x509 = std::unique_ptr<::X509, decltype(&::X509_free)>;
    using pkey = std::unique_ptr<::EVP_PKEY, decltype(&::EVP_PKEY_free)>;

    std::pair<x509, pkey> make(char const* file, char const* name, ::X509* issuer, ::EVP_PKEY* by, int units = 0) {
        pkey k(::EVP_EC_gen("P-256"), &::EVP_PKEY_free);
        x509 c(::X509_new(), &::X509_free);
        REQUIRE(k);
        REQUIRE(c);
        ::X509_set_version(c.get(), 2);
        ::ASN1_INTEGER_set(::X509_get_serialNumber(c.get()), ++serial_);
        ::X509_gmtime_adj(::X509_getm_notBefore(c.get()), -3600);
        ::X509_gmtime_adj(::X509_getm_notAfter(c.get()), 3600);
        ::X509_set_pubkey(c.get(), k.get());
        ::X509_NAME_add_entry_by_txt(::X509_get_subject_name(c.get()), "CN", MBSTRING_ASC,
                                     reinterpret_cast<unsigned char const*>(name), -1, -1, 0);
        std::string const unit(60, 'x');
        for (int i = 0; i < units; ++i)
            ::X509_NAME_add_entry_by_txt(::X509_get_subject_name(c.get()), "OU", MBSTRING_ASC,
                                         reinterpret_cast<unsigned char const*>(unit.c_str()), -1, -1, 0);
        ::X509_set_issuer_name(c.get(), ::X509_get_subject_name(issuer ? issuer : c.get()));
        auto const extend = [&](int what, char const* value) {
            ::X509V3_CTX context;
            ::X509V3_set_ctx(&context, issuer ? issuer : c.get(), c.get(), nullptr, nullptr, 0);
            ::X509_EXTENSION* const e = ::X509V3_EXT_conf_nid(nullptr, &context, what, value);
            REQUIRE(e);
            ::X509_add_ext(c.get(), e, -1);
            ::X509_EXTENSION_free(e);
        };
        if (!issuer) extend(NID_basic_constraints, "critical,CA:TRUE");
        else if (std::string_view(name) == "localhost") extend(NID_subject_alt_name, "DNS:localhost");
        REQUIRE(::X509_sign(c.get(), by ? by : k.get(), ::EVP_sha256()) > 0);
        std::FILE* const p = std::fopen(pem(file).c_str(), "w");
        ::PEM_write_X509(p, c.get());
        std::fclose(p);
        std::FILE* const q = std::fopen(key(file).c_str(), "w");
        ::PEM_write_PrivateKey(q, k.get(), nullptr, nullptr, 0, nullptr, nullptr);
        std::fclose(q);
        ::chmod(key(file).c_str(), 0600);
        return {std::move(c), std::move(k)};
    }

    /// Writes the authority, and its list of what it revokes: the certificate that was made as number `serial`.
    void revoke(char const* file, long serial, ::X509* by, ::EVP_PKEY* k) {
        std::unique_ptr<::X509_CRL, decltype(&::X509_CRL_free)>         list(::X509_CRL_new(), &::X509_CRL_free);
        std::unique_ptr<::ASN1_TIME, decltype(&::ASN1_TIME_free)> const before(::X509_gmtime_adj(nullptr, -60),
                                                                               &::ASN1_TIME_free),
            after(::X509_gmtime_adj(nullptr, 3600), &::ASN1_TIME_free);
        std::unique_ptr<::ASN1_INTEGER, decltype(&::ASN1_INTEGER_free)> const number(::ASN1_INTEGER_new(),
                                                                                     &::ASN1_INTEGER_free);
        ::ASN1_INTEGER_set(number.get(), serial);
        ::X509_REVOKED* const one = ::X509_REVOKED_new();
        REQUIRE(one);
        ::X509_REVOKED_set_serialNumber(one, number.get());
        ::X509_REVOKED_set_revocationDate(one, before.get());
        ::X509_CRL_set_version(list.get(), 1);
        ::X509_CRL_set_issuer_name(list.get(), ::X509_get_subject_name(by));
        ::X509_CRL_set1_lastUpdate(list.get(), before.get());
        ::X509_CRL_set1_nextUpdate(list.get(), after.get());
        REQUIRE(::X509_CRL_add0_revoked(list.get(), one) == 1);
        REQUIRE(::X509_CRL_sign(list.get(), k, ::EVP_sha256()) > 0);
        std::FILE* const p = std::fopen(pem(file).c_str(), "w");
        ::PEM_write_X509(p, by);
        ::PEM_write_X509_CRL(p, list.get());
        std::fclose(p);
    }

    std::filesystem::path dir_;
    long                  serial_ = 0;
};

/// Sends `n` bytes of a block of `from` to one of `to`; what came of it.
std::error_code send(raw& from, raw& to, tenure::endpoint const& where, std::uint64_t n) {
    auto const a = from.allocate(0, n), b = to.allocate(0, n + 10);
    CHECK(from.say(op::write, pack(a.first, a.bytes, u(0), u(n)), pattern(n)).status == 0);
    auto const ticket = to.say(op::grant, pack(b.first, b.bytes, u(10), u(n)));
    CHECK(ticket.status == 0);
    auto const r = from.say(op::send, pack(a.first, a.bytes, u(0), u(n), b.first, b.bytes, u(10),
                                           ticket.as<protocol::key>(), where.to_text()));
    if (r.status) return protocol::error_of(r.status);
    CHECK(to.say(op::read, pack(b.first, b.bytes, u(10), u(n))).payload == pattern(n));
    return {};
}

TEST_CASE("blocks go from server to server") {
    running<not_addressable> to;
    auto const               there = tenure::endpoint(to.unix_socket());
    tenure::server_options   o;
    o.peers = {there, tenure::endpoint("unix:/nowhere/at/all")};
    running from(o);
    raw     a(from.unix_socket()), b(there.to_text());
    a.greet();
    b.greet();
    CHECK(!send(a, b, there, 1 << 20));
    CHECK(!send(a, b, there, 3));
    CHECK(send(a, b, o.peers[1], 3) == errc::device_unavailable);
    CHECK(send(a, b, tenure::endpoint("unix:/tmp/elsewhere"), 3) == errc::access_denied);

    // A wrong ticket.
    auto const x = a.allocate(0, 8);
    CHECK(a.say(op::send, pack(x.first, x.bytes, u(0), u(8), u(1), u(8), u(0), protocol::key{}, there.to_text()))
              .status == status(errc::access_denied));
}

TEST_CASE("TLS: who is who on both sides") {
    temporary_directory    dir;
    certificates const     c(dir.path());
    tenure::server_options o;
    auto const             server = [&](bool ask) {
        return std::make_shared<tenure::tls_server>(
            tenure::tls_files{c.pem("server"), c.key("server"), ask ? c.pem("ca") : std::string()});
    };
    check_throws(std::error_code(ENOENT, std::system_category()), {"/nowhere"},
                 [&] { tenure::tls_server(tenure::tls_files{"/nowhere", c.key("server"), {}}); });

    ::chmod(c.key("server").c_str(), 0640);
    check_throws(errc::access_denied, {c.key("server"), "chmod 600"}, [&] { server(true); });
    check_throws(errc::access_denied, {c.key("server"), "chmod 600"},
                 [&] { tenure::tls_client(tenure::tls_files{c.pem("server"), c.key("server"), {}}); });
    ::chmod(c.key("server").c_str(), 0600);

    // Who can write the authorities' file can let in whom they like; there must be one in it, and more may be.
    ::chmod(c.pem("ca").c_str(), 0664);
    check_throws(errc::access_denied, {c.pem("ca"), "chmod go-w"}, [&] { server(true); });
    ::chmod(c.pem("ca").c_str(), 0644);
    auto const both = (dir.path() / "both.pem").string();
    for (std::string const& text : {std::string(), std::string("-----BEGIN CERTIFICATE-----\nnone\n")}) {
        std::ofstream(both) << text;
        ::chmod(both.c_str(), 0644);
        CHECK_THROWS_AS(tenure::tls_server(tenure::tls_files{c.pem("server"), c.key("server"), both}),
                        tenure::error);
    }
    std::ofstream(both) << std::ifstream(c.pem("other_ca")).rdbuf() << std::ifstream(c.pem("ca")).rdbuf();

    // A pipe that nobody writes to is refused, and not waited for.
    auto const pipe = (dir.path() / "pipe").string();
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    auto const good = [&] { return tenure::tls_files{c.pem("server"), c.key("server"), c.pem("ca")}; };
    for (auto const which :
         {&tenure::tls_files::certificate, &tenure::tls_files::key, &tenure::tls_files::authorities}) {
        auto files   = good();
        files.*which = pipe;
        check_throws(errc::not_a_file, {pipe}, [&] { tenure::tls_server{files}; });
        check_throws(errc::not_a_file, {pipe}, [&] { tenure::tls_client{files}; });
    }
    o.tls = server(true);
    running to(o);
    auto    there = to.server.listen(tenure::endpoint("tls:127.0.0.1:0"));
    raw     b(to.unix_socket());
    b.greet();

    auto const attempt = [&](tenure::tls_files const& files, std::string const& host) {
        tenure::server_options p;
        auto                   peer = there;
        peer.where                  = host;
        p.peers                     = {peer};
        p.peers_tls                 = std::make_shared<tenure::tls_client>(files);
        running from(p);
        raw     a(from.unix_socket());
        a.greet();
        return send(a, b, peer, 100'000);
    };
    CHECK(!attempt({c.pem("client"), c.key("client"), c.pem("ca")}, "localhost"));
    CHECK(!attempt({c.pem("client"), c.key("client"), both}, "localhost"));
    // The host is another one, though the certificate is good; the authority is another one; there is no
    // certificate.
    CHECK(attempt({c.pem("client"), c.key("client"), c.pem("ca")}, "127.0.0.1") == errc::access_denied);
    CHECK(attempt({c.pem("client"), c.key("client"), c.pem("other_ca")}, "localhost") == errc::access_denied);
    CHECK(attempt({c.pem("stranger"), c.key("stranger"), c.pem("ca")}, "localhost"));
    CHECK(attempt({{}, {}, c.pem("ca")}, "localhost"));

    // A revoked certificate is refused, and another one of the same authority is not.
    {
        tenure::server_options with_list;
        with_list.tls = std::make_shared<tenure::tls_server>(
            tenure::tls_files{c.pem("server"), c.key("server"), c.pem("revoked")});
        running    strict(with_list);
        auto const at      = strict.server.listen(tenure::endpoint("tls:127.0.0.1:0"));
        auto const connect = [&](char const* who) {
            auto where  = at;
            where.where = "localhost";
            tenure::client_options as;
            as.tls = std::make_shared<tenure::tls_client>(tenure::tls_files{c.pem(who), c.key(who), c.pem("ca")});
            static_cast<void>(tenure::remote_store::connect(where, as));
        };
        connect("long");
        CHECK_THROWS_AS(connect("client"), tenure::error);
    }

    // Neither plain text nor an old version.
    raw plain(there.to_text());
    plain.put(raw::greeting(1));
    bytes answer(4096);
    CHECK(!plain.get(answer));
    std::unique_ptr<::SSL_CTX, decltype(&::SSL_CTX_free)> old(::SSL_CTX_new(::TLS_client_method()),
                                                              &::SSL_CTX_free);
    ::SSL_CTX_set_security_level(old.get(), 0);
    ::SSL_CTX_set_max_proto_version(old.get(), TLS1_1_VERSION);
    std::unique_ptr<::SSL, decltype(&::SSL_free)> ssl(::SSL_new(old.get()), &::SSL_free);
    int const                                     fd = ::socket(AF_INET, SOCK_STREAM, 0);
    ::sockaddr_in                                 address{};
    address.sin_family      = AF_INET;
    address.sin_port        = htons(there.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(fd, reinterpret_cast<::sockaddr*>(&address), sizeof address) == 0);
    ::SSL_set_fd(ssl.get(), fd);
    CHECK(::SSL_connect(ssl.get()) != 1);
    ::close(fd);

    // Without an authority for clients, a token.
    tenure::server_options t;
    t.tls = server(false);
    running nobody(t);
    check_throws(errc::insecure, {"token"}, [&] { nobody.server.listen(tenure::endpoint("tls:localhost:0")); });
}

TEST_CASE("whoever was silent for longest makes room for others, with TLS and without") {
    temporary_directory    dir;
    certificates const     c(dir.path());
    tenure::server_options o;
    o.tokens.add("", "x");
    o.hello_timeout   = 60s;
    o.limits.visitors = 4;
    char const* where = "tcp:127.0.0.1:0";
    SUBCASE("with") {
        where = "tls:127.0.0.1:0";
        o.tls = std::make_shared<tenure::tls_server>(tenure::tls_files{c.pem("server"), c.key("server"), {}});
    }
    SUBCASE("without") {}
    running                           s(o);
    auto const                        at = s.server.listen(tenure::endpoint(where)).to_text();
    std::vector<std::unique_ptr<raw>> silent;
    for (unsigned char i = 0; i < 4; ++i) {
        silent.push_back(std::make_unique<raw>(at, static_cast<unsigned char>(i + 2)));
        CHECK(soon([&] { return s.server.status().connections == i + 1u; }, 20s));
    }
    raw late(at, 6);
    if (!o.tls) CHECK(late.greet({}, "x").status == 0);
    CHECK(silent[0]->over());
}

TEST_CASE("a client over TLS") {
    temporary_directory    dir;
    certificates const     c(dir.path());
    tenure::server_options o;
    o.tls = std::make_shared<tenure::tls_server>(tenure::tls_files{c.pem("server"), c.key("server"), c.pem("ca")});
    running    there(o);
    auto const bound = there.server.listen(tenure::endpoint("tls:127.0.0.1:0"));
    auto const with  = [&](char const* who, char const* ca, char const* host = "localhost") {
        tenure::client_options mine;
        mine.tls = std::make_shared<tenure::tls_client>(tenure::tls_files{c.pem(who), c.key(who), c.pem(ca)});
        auto at  = bound;
        at.where = host;
        return tenure::remote_store::connect(at, mine);
    };
    auto const s = with("client", "ca");
    auto const x = pattern(3 << 20);
    auto const b = s->allocate_in(1, x.size(), 8).value();
    bytes      out(x.size());
    CHECK(s->write(b, 0, x));
    CHECK(s->read(b, 0, out));
    CHECK(out == x);
    {
        // Several at once, from two threads; the end of the batch.
        bytes        first(100'000), second(100'000);
        std::jthread other([&] { CHECK(s->read(b, 0, first)); });
        CHECK(s->read(b, 100'000, second));
        other.join();
        CHECK(std::equal(first.begin(), first.end(), x.begin()));
        CHECK(std::equal(second.begin(), second.end(), x.begin() + 100'000));
    }
    CHECK(s->deallocate_batch(1, {&b, 1}));
    CHECK(s->usage() == tenure::store_usage{});
    CHECK(s->read(b, 0, out).error() == errc::no_such_block);
    CHECK(s->close());

    // A long subject is named by its fingerprint.
    auto const longer = with("long", "ca");
    auto const all    = there.server.status().clients;
    CHECK(std::any_of(all.begin(), all.end(), [](auto const& one) {
        return one.tenant.starts_with("certificate sha256:") && one.tenant.size() == 12 + 7 + 64 &&
               one.peer.find("sha256:") != std::string::npos && one.peer.size() < 120;
    }));
    CHECK(longer->close());
    CHECK(soon([&] { return there.server.status().clients.empty(); }, 20s));

    // Another host than the certificate's, an authority that is none, a client whom nobody knows; and without TLS.
    auto const refused = [](auto connects) {
        try {
            connects();
            return false;
        } catch (tenure::error const& e) {
            return e.code() == errc::access_denied || e.code() == errc::device_unavailable;
        }
    };
    CHECK(refused([&] { with("client", "ca", "127.0.0.1"); }));
    CHECK(refused([&] { with("client", "other_ca"); }));
    CHECK(refused([&] { with("stranger", "ca"); }));
    check_throws(std::make_error_code(std::errc::invalid_argument), {"tls_client"},
                 [&] { tenure::remote_store::connect(bound); });
    CHECK(there.server.status().clients.empty());
}

TEST_CASE("drain lets those who are there go on, and nobody in") {
    running           s;
    auto const        at = s.unix_socket();
    std::atomic<bool> done{false};
    raw               c(at), d(at);
    c.greet();
    d.greet();
    auto const b = c.allocate(0, 10);
    s.server.drain(60s, [&] { done = true; });
    CHECK(c.say(op::read, pack(b.first, b.bytes, u(0), u(10))).payload == bytes(10));
    check_throws(errc::store_closed, {}, [&] { s.server.listen(tenure::endpoint(at)); });
    CHECK(c.say(op::goodbye).status == 0);
    CHECK(!done);
    CHECK(d.say(op::goodbye).status == 0);
    CHECK(soon([&] { return done.load(); }, 20s));
    CHECK(s.store->usage().blocks == 0);
}

TEST_CASE("closing frees what is there, whatever is under way") {
    running    s;
    auto const at = s.unix_socket();
    raw        c(at), d(at);
    c.greet();
    d.greet();
    auto const b = c.allocate(0, 8 << 20);
    d.allocate(4, 8, 1000);
    for (int i = 0; i < 4; ++i) c.put(frame(c.request++, 1, op::read, pack(b.first, b.bytes, u(0), b.bytes)));
    auto const w = frame(c.request++, 1, op::write, pack(b.first, b.bytes, u(0), b.bytes), pattern(8 << 20));
    c.put(std::span(w).first(100'000));
    s.server.close();
    CHECK(soon([&] { return s.store->usage().blocks == 0; }, 20s));
    CHECK(d.over());
}

}  // namespace
