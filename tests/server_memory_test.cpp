// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A buffer server whose memory is full at any one moment: some client hears of it, or loses its connection, and all
// others are served as ever. What may fail is what requests ask for, and not the few bytes of a handler: Asio takes
// those where it cannot say that there are none (Boost 1.81: any_io_executor::prefer, of a strand), and ends the
// program.

#include "failing.hpp"

#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/remote/client.hpp>
#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server.hpp>

#include "remote/house.hpp"
#include "remote/raw_peer.hpp"
#include "temporary.hpp"

namespace {

using namespace std::chrono_literals;
using tenure::protocol::operation;

template <class T>
raw_peer::bytes followed(T const& head, std::span<std::byte const> more) {
    raw_peer::bytes all(sizeof head);
    std::memcpy(all.data(), &head, sizeof head);
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

/// A client that does a bit of everything. It goes on with its session, as often as it loses its connection.
class visitor {
public:
    explicit visitor(std::filesystem::path const& server) : server_(server) { connect(); }

    /// The number of requests that were done.
    int do_everything() {
        done_ = 0;
        tenure::protocol::allocate_request wanted;
        wanted.batch     = 7;
        wanted.bytes     = 100'000;
        wanted.alignment = 8;
        wanted.count     = 3;
        tenure::protocol::block_run some, small;
        if (auto const f = ask(operation::allocate, tenure::protocol::bytes_of(wanted)); f && !f->error())
            some = tenure::protocol::whole<tenure::protocol::block_run>(f->body).value();
        wanted.bytes = 64;
        wanted.count = 500;
        if (auto const f = ask(operation::allocate, tenure::protocol::bytes_of(wanted)); f && !f->error())
            small = tenure::protocol::whole<tenure::protocol::block_run>(f->body).value();

        tenure::protocol::range_request range;
        range.block.id    = some.first;
        range.block.bytes = some.bytes;
        range.length      = 100'000;
        std::vector<std::byte> const payload(100'000, std::byte{7});
        ask(operation::write, tenure::protocol::bytes_of(range), payload);
        if (auto const f = ask(operation::read, tenure::protocol::bytes_of(range)); f && !f->error())
            CHECK(f->payload.size() == payload.size());
        tenure::protocol::copy_request copy;
        copy.from   = range.block;
        copy.to     = range.block;
        copy.to.id  = some.first + 1;
        copy.length = 1000;
        ask(operation::copy, tenure::protocol::bytes_of(copy));
        ask(operation::grant, tenure::protocol::bytes_of(range));
        std::string_view const name = "a name";
        ask(operation::share, followed(range.block, std::as_bytes(std::span(name))));
        ask(operation::open, std::as_bytes(std::span(name)));
        ask(operation::unshare, std::as_bytes(std::span(name)));
        tenure::protocol::batch_request other;
        other.batch = 8;
        small.count = 200;
        ask(operation::transfer, followed(other, tenure::protocol::bytes_of(small)));
        some.count = 1;
        ask(operation::deallocate, tenure::protocol::bytes_of(some));
        ask(operation::usage, {});
        ask(operation::status, {});
        ask(operation::renew, {});
        other.batch = 7;
        ask(operation::end_batch, tenure::protocol::bytes_of(other));
        return done_;
    }

    bool say_goodbye() { return ask(operation::goodbye, {}).has_value(); }

private:
    void connect() {
        for (int i = 0; i < 5; ++i) {
            peer_.emplace(server_);
            if (auto const r = peer_->hello(known_)) {
                known_.instance = r->instance;
                known_.session  = r->session;
                known_.secret   = r->secret;
                return;
            }
        }
        FAIL("five times in a row nobody was let in");
    }

    /// Nothing: its connection was lost, too often.
    std::optional<raw_peer::frame> ask(operation what, std::span<std::byte const> body,
                                       std::span<std::byte const> payload = {}) {
        auto f = peer_->call(what, body, payload);
        if (!f) {
            connect();
            f = peer_->call(what, body, payload);
        }
        if (f && !f->error()) ++done_;
        return f;
    }

    std::filesystem::path           server_;
    tenure::protocol::hello_request known_;
    std::optional<raw_peer>         peer_;
    int                             done_ = 0;
};

constexpr int everything = 15;

}  // namespace

TEST_CASE("each larger allocation of a server's fails in turn") {
    failing::spared    = true;
    failing::now.least = 257;
    temporary_directory dir;
    {
        tenure::server_options options;
        options.lease = 500ms;
        house<> server(dir.path() / "socket", options);
        int     failures = 0, heard = 0;
        for (long n = 1;; ++n) {
            CAPTURE(n);
            failing::arm(failing::allocation, n);
            {
                visitor v(server.path);
                heard += v.do_everything() != everything;
                v.say_goodbye();
            }
            failing::disarm();
            if (!failing::now.failed) break;
            ++failures;
            visitor another(server.path);
            CHECK(another.do_everything() == everything);
            CHECK(another.say_goodbye());
        }
        CHECK(failures > 20);
        CHECK(heard > 0);
        MESSAGE(failures << " failures, " << heard << " of which a request was not done for");
        CHECK(server.is_empty_within(20s));
    }
    failing::now.least = 0;
    failing::spared    = false;
}

TEST_CASE("a client's asynchronous operation that finds no memory for a name leaves none behind") {
    temporary_directory dir;
    house<>             server(dir.path() / "socket");
    auto const          s = tenure::remote_store::connect(server.where);
    std::string const   name(100'000, 'n');
    int                 failures = 0;
    failing::now.least           = name.size();
    for (;; ++failures) {
        long const before = failing::now.blocks;
        failing::arm(failing::allocation, failures + 1);
        try {
            s->async_unshare(name, [](std::error_code) {});
        } catch (std::bad_alloc const&) {}
        failing::disarm();
        if (!failing::now.failed) break;
        CHECK(failing::now.blocks == before);
    }
    CHECK((failures >= 2 || !FAILING_ALLOCATIONS));
    failing::now.least = 0;
}
