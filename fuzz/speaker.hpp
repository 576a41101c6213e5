// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <tenure/remote/protocol.hpp>

#include "input.hpp"
#include "memory_transport.hpp"

namespace fuzz {

namespace protocol = tenure::protocol;
using protocol::operation;

/// What the clients of one server have learned from it; any of them may use it, its own or not.
struct knowledge {
    std::vector<protocol::block_run>       runs;
    std::vector<protocol::hello_reply>     sessions;
    std::vector<protocol::key>             tickets;
    std::map<std::uint64_t, std::uint64_t> asked;  ///< by session: its highest request
    bool mixed = false;  ///< from now on clients may rightly see what others wrote, or who knows what
};

/// One connection as the server sees it, of a client that mostly speaks the protocol: else no input would come past
/// the first frame. Every reply is looked at.
class speaker {
public:
    speaker(std::shared_ptr<wire> w, knowledge& all) : wire_(std::move(w)), all_(all) {}

    wire& its() noexcept { return *wire_; }

    /// The same client, on a new connection.
    void sit_down(std::shared_ptr<wire> w) {
        wire_ = std::move(w);
        heard_.clear();
        half_ = 0;
    }

    /// A step as the input wants it.
    void act(input& in) {
        auto const action = in.take<std::uint8_t>();
        switch (action % 32) {
        case 0:  // anything
            all_.mixed = true;
            return give(*wire_, in.take(in.take<std::uint8_t>()));
        case 1: return hello(in, {});
        case 2: {  // goes on with a session
            if (all_.sessions.empty()) return;
            auto const&             s = all_.sessions[in.take<std::uint8_t>() % all_.sessions.size()];
            protocol::hello_request h;
            h.instance = s.instance;
            h.session  = s.session;
            h.secret   = s.secret;
            asked_     = std::max(asked_, all_.asked[s.session]);
            return hello(in, h);
        }
        case 3: {  // with a ticket
            if (all_.tickets.empty()) return;
            protocol::hello_request h;
            h.purpose = static_cast<std::uint16_t>(protocol::purpose::ticket);
            h.secret  = all_.tickets[in.take<std::uint8_t>() % all_.tickets.size()];
            return hello(in, h);
        }
        case 4: return end(*wire_);
        case 5: {
            protocol::allocate_request a;
            a.batch     = in.take<std::uint8_t>() % 4;
            a.bytes     = number(in);
            a.alignment = std::uint64_t{1} << in.take<std::uint8_t>() % 8;
            a.count     = number(in);
            return ask(operation::allocate, protocol::bytes_of(a));
        }
        case 6: return ask(action & 32 ? operation::trim : operation::deallocate, runs(in, {}));
        case 7: {
            protocol::batch_request const b{in.take<std::uint8_t>() % 4u};
            return ask(operation::transfer, runs(in, protocol::bytes_of(b)));
        }
        case 8: {
            protocol::batch_request const b{in.take<std::uint8_t>() % 4u};
            return ask(operation::end_batch, protocol::bytes_of(b));
        }
        case 9:
        case 10: return ask(operation::read, protocol::bytes_of(range(in)));
        case 11:
        case 12: {
            auto      r = range(in);
            row const payload(static_cast<std::size_t>(std::min<std::uint64_t>(r.length, 40'000)), mark());
            if (action < 224) r.length = payload.size();
            return ask(operation::write, protocol::bytes_of(r), payload);
        }
        case 13: {
            protocol::copy_request c;
            c.from        = name(in);
            c.to          = name(in);
            c.from_offset = number(in);
            c.to_offset   = number(in);
            c.length      = number(in);
            return ask(operation::copy, protocol::bytes_of(c));
        }
        case 14: return ask(operation::usage, {});
        case 15: {
            all_.mixed      = true;
            auto const b    = name(in);
            auto       body = bytes(protocol::bytes_of(b));
            append(body, in.take(1 + in.take<std::uint8_t>() % 2));
            return ask(operation::share, body);
        }
        case 16: return ask(operation::open, in.take(1 + in.take<std::uint8_t>() % 2));
        case 17: return ask(operation::unshare, in.take(1 + in.take<std::uint8_t>() % 2));
        case 18: all_.mixed = true; return ask(operation::grant, protocol::bytes_of(range(in)));
        case 19: {
            protocol::send_request s;
            s.from = range(in);
            s.to   = name(in);
            if (!all_.tickets.empty()) s.ticket = all_.tickets.back();
            auto body = bytes(protocol::bytes_of(s));
            append(body, std::as_bytes(std::span(std::string_view("unix:/nonexistent/tenure"))));
            return ask(operation::send, body);
        }
        case 20: return ask(operation::status, {});
        case 21: return ask(operation::renew, {});
        case 22: return ask(operation::goodbye, {});
        case 23: {  // an operation with a body that is not its own
            auto const what = in.take<std::uint16_t>();
            return ask(static_cast<operation>(what % 24 ? what % 24 : what), in.take(in.take<std::uint8_t>()));
        }
        case 24: settled_ += in.take<std::uint8_t>() % 4; return;
        case 25: settled_ = asked_; return;
        case 26: asked_ += in.take<std::uint8_t>(); return;  // a gap
        case 27:                                             // again, as after a lost connection
            if (!said_.empty()) give(*wire_, said_[in.take<std::uint8_t>() % said_.size()]);
            return;
        case 28: wire_->at_once = 1 + in.take<std::uint8_t>(); return;
        case 29: wire_->at_once = 1 << 20; return;
        case 30:  // of the next frame only so much, and what follows is taken for the rest
            all_.mixed = true;
            half_      = in.take<std::uint8_t>();
            return;
        default: {  // a header that says something else
            all_.mixed = true;
            protocol::frame_header h;
            for (auto& b : std::as_writable_bytes(std::span(&h, 1))) b = in.take<std::byte>();
            if (action & 32)
                h.body = h.body % 1024, h.payload = 0, h.zero = 0, h.request = ++asked_, h.settled = settled_;
            return give(*wire_, protocol::bytes_of(h));
        }
        }
    }

    /// Every frame that came since the last time is one.
    void listen() {
        heard_.insert(heard_.end(), wire_->written.begin(), wire_->written.end());
        wire_->written.clear();
        std::span<std::byte const> rest = heard_;
        while (rest.size() >= sizeof(protocol::frame_header)) {
            auto const h = protocol::header(rest.first<sizeof(protocol::frame_header)>());
            require(h.has_value(), "a reply's header is one");
            std::size_t const whole = sizeof *h + h->body + h->payload;
            if (rest.size() < whole) break;
            hear(*h, rest.subspan(sizeof *h, h->body), rest.subspan(sizeof *h + h->body, h->payload));
            rest = rest.subspan(whole);
        }
        heard_.erase(heard_.begin(), heard_.end() - static_cast<std::ptrdiff_t>(rest.size()));
    }

private:
    using row = std::vector<std::byte>;

    /// What this client writes, and no other one.
    std::byte mark() const noexcept { return static_cast<std::byte>(1 + session_ % 255); }

    static row  bytes(std::span<std::byte const> b) { return {b.begin(), b.end()}; }
    static void append(row& to, std::span<std::byte const> more) { to.insert(to.end(), more.begin(), more.end()); }

    /// Small ones mostly, and now and then one of those where sums overflow.
    static std::uint64_t number(input& in) {
        auto const n = in.take<std::uint8_t>();
        if (n < 128) return n;
        if (n < 224) return std::uint64_t{n} << (n % 8);
        if (n < 248) return std::uint64_t{256} * (n % 8) + n / 8 % 3 - 1;  // about as many as go into a page of ids
        return n < 252 ? in.take<std::uint64_t>() : ~std::uint64_t{0} - n % 4;
    }

    protocol::block_name name(input& in) const {
        auto const which = in.take<std::uint8_t>();
        if (all_.runs.empty()) return {which, which};
        auto const& r = all_.runs[which % all_.runs.size()];
        return {r.first + in.take<std::uint8_t>() % 4, r.bytes + (which == 255)};
    }
    protocol::range_request range(input& in) const {
        protocol::range_request r;
        r.block  = name(in);
        r.offset = in.take<std::uint8_t>() % 8 ? 0 : number(in);
        r.length = in.take<std::uint8_t>() % 4 ? r.block.bytes - std::min<std::uint64_t>(r.block.bytes, r.offset)
                                               : number(in);
        return r;
    }
    row runs(input& in, std::span<std::byte const> first) const {
        row body = bytes(first);
        for (auto n = in.take<std::uint8_t>() % 4; n > 0; --n) {
            auto const          b = name(in);
            protocol::block_run r{b.id, b.bytes, 1};
            if (in.take<std::uint8_t>() % 2) r.count = number(in);
            append(body, protocol::bytes_of(r));
        }
        return body;
    }

    void hello(input& in, protocol::hello_request h) {
        auto const odd = in.take<std::uint8_t>();
        if (odd == 1) h.newest = 0;
        if (odd == 2) h.name_bytes = 3;
        if (odd == 3) h.magic[0] = 'T';
        if (odd == 4) h.oldest = 3, h.newest = 4;
        if (odd == 6) h.newest = 1;
        if (odd == 7) h.token_bytes = 5;
        if (odd >= 128) h.token_bytes = odd % 2 ? 4 : 3;
        row body = bytes(protocol::bytes_of(h));
        if (h.token_bytes != 0)
            append(body, std::as_bytes(std::span(std::string_view(odd == 7 ? "wrong" : odd % 2 ? "hers" : "his"))));
        if (odd == 5) append(body, in.take(in.take<std::uint8_t>()));
        settled_ = 0;
        ask(operation::hello, body);
    }

    void ask(operation what, std::span<std::byte const> body, std::span<std::byte const> payload = {}) {
        protocol::frame_header h;
        h.body      = static_cast<std::uint32_t>(body.size());
        h.payload   = static_cast<std::uint32_t>(payload.size());
        h.request   = ++asked_;
        h.settled   = std::min(settled_, asked_ - 1);
        h.operation = static_cast<std::uint16_t>(what);
        row frame   = bytes(protocol::bytes_of(h));
        append(frame, body);
        append(frame, payload);
        if (session_) all_.asked[session_] = asked_;
        if (half_) frame.resize(std::min(frame.size(), std::exchange(half_, 0)));
        if (said_.size() < 64) said_.push_back(frame);
        give(*wire_, frame);
    }

    void hear(protocol::frame_header const& h, std::span<std::byte const> body,
              std::span<std::byte const> payload) {
        require(h.operation & protocol::is_reply, "a server says nothing of its own");
        require(h.settled == 0, "and settles nothing");
        require(h.status <= protocol::statuses.size(), "a status is one of those");
        if (h.status != 0) {
            bool const limit = h.status == protocol::status_of(make_error_code(tenure::errc::limit_exceeded));
            return require(payload.empty() && body.size() <= (limit ? protocol::most_reason : 0),
                           "an error has nothing with it, but for a limit its name");
        }
        auto const what = static_cast<operation>(h.operation & ~protocol::is_reply);
        require(what == operation::read || payload.empty(), "only a read has a payload");
        switch (what) {
        case operation::hello: {
            auto const r = protocol::whole<protocol::hello_reply>(body);
            require(r.has_value(), "the reply to hello");
            require(r->version >= 1 && r->version <= 2 && r->resumed <= 1 && r->zero == 0, "says what it may");
            if (r->session) {
                all_.sessions.push_back(*r);
                session_ = r->session;
            }
            return;
        }
        case operation::allocate: {
            auto const r = protocol::whole<protocol::block_run>(body);
            require(r && r->count > 0 && r->first != 0, "blocks");
            all_.runs.push_back(*r);
            return;
        }
        case operation::open: {
            auto const b = protocol::whole<protocol::block_name>(body);
            require(b && b->id != 0, "a block");
            all_.runs.push_back({b->id, b->bytes, 1});
            return;
        }
        case operation::grant: {
            auto const k = protocol::whole<protocol::key>(body);
            require(k.has_value(), "a ticket");
            all_.tickets.push_back(*k);
            return;
        }
        case operation::end_batch:
        case operation::usage: return require(body.size() == sizeof(protocol::usage_reply), "usage");
        case operation::status: return require(!body.empty() && body.front() == std::byte{'{'}, "JSON");
        case operation::read:
            require(body.empty(), "a payload alone");
            return require(
                all_.mixed ||
                    std::ranges::all_of(payload, [&](std::byte b) { return b == std::byte{0} || b == mark(); }),
                "zeros, or what the client wrote itself");
        default: return require(body.empty(), "nothing");
        }
    }

    std::shared_ptr<wire> wire_;
    knowledge&            all_;
    std::uint64_t         asked_ = 0, settled_ = 0, session_ = 0;
    std::size_t           half_ = 0;
    row                   heard_;
    std::vector<row>      said_;
};

}  // namespace fuzz
