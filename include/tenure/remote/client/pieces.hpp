// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <utility>

#include <tenure/remote/client/call.hpp>
#include <tenure/remote/client/epochs.hpp>
#include <tenure/remote/client/stash.hpp>
#include <tenure/remote/client/window.hpp>

namespace tenure::detail::remote {

/// The most bytes of a body and a payload, as agreed with the server.
struct agreed {
    std::uint32_t body = 0, payload = 0;
};

/// Makes the requests of a call, one after the other.
class pieces {
public:
    explicit pieces(epochs const& gone) noexcept : gone_(gone) {}

    agreed most;

    /// Decides what can be decided without the server. Returns whether the call is done, with an error or without.
    bool settles(call& c) const noexcept {
        using enum protocol::operation;
        auto const gone = [&](block const& b) { return gone_.lost(b.id); };
        switch (c.what) {
        case deallocate: return std::ranges::all_of(c.many, gone);  // as was asked
        case end_batch: return !c.many.empty() && std::ranges::all_of(c.many, gone);
        case transfer:
            if (std::ranges::any_of(c.many, gone)) c.failed(make_error_code(errc::stale_handle));
            return c.error || c.many.empty();
        default:
            if (c.names_blocks() && (gone(c.b) || (c.what == copy && gone(c.to))))
                c.failed(make_error_code(errc::stale_handle));
            return static_cast<bool>(c.error);
        }
    }

    /// Makes the next request of `c`, which has not asked for everything. Returns false if it fails instead, with
    /// `c.error`.
    bool make(call& c, request& r) const {
        using enum protocol::operation;
        protocol::operation what = c.what;
        if (c.ask_usage && c.all_asked) {
            what        = usage;
            c.ask_usage = false;
        }
        r.of        = &c;
        c.all_asked = true;
        r.set(what);
        switch (what) {
        case allocate: r.put(protocol::allocate_request{c.batch, c.room, c.alignment, c.count}); break;
        case deallocate: make_runs(c, r); break;
        case transfer:
            r.put(protocol::batch_request{c.batch});
            make_runs(c, r);
            if (!c.all_asked) c.failed(make_error_code(errc::limit_exceeded));  // all of them or none
            return c.all_asked;
        case end_batch: r.put(protocol::batch_request{c.batch}); break;
        case read:
        case write: {
            std::size_t const part = std::min<std::size_t>(c.length - c.done, most.payload);
            r.put(range(c, c.done, part));
            r.memory = c.memory + c.done;
            if (what == read) r.expected = static_cast<std::uint32_t>(part);
            else r.header.payload = static_cast<std::uint32_t>(part);
            c.done += part;
            c.all_asked = c.done == c.length;
            break;
        }
        case grant: r.put(range(c, 0, c.length)); break;
        case copy:
            r.put(protocol::copy_request{protocol::name_of(c.b), protocol::name_of(c.to), c.offset, c.to_offset,
                                         c.length});
            break;
        case send:
            r.put(protocol::send_request{range(c, 0, c.length), protocol::name_of(c.to), c.to_offset, c.ticket});
            put_text(c, r);
            break;
        case share:
            r.put(protocol::name_of(c.b));
            put_text(c, r);
            break;
        case open:
        case unshare: put_text(c, r); break;
        default: break;
        }
        return true;
    }

    /// Makes the request that tells of smaller blocks. Returns false if there are none.
    static bool tell_trims(request& r, stash& spare) noexcept {
        r.set(protocol::operation::trim);
        std::array<protocol::block_run, request::body_room / sizeof(protocol::block_run)> few;
        std::span<protocol::block_run>                                                    runs = few;
        try {
            r.tail.resize(stash::most_trims * sizeof(protocol::block_run));
            runs = {reinterpret_cast<protocol::block_run*>(r.tail.data()), stash::most_trims};
        } catch (std::bad_alloc const&) {  // as many as the body has room for
            r.tail.clear();
        }
        auto const told = spare.trims(runs);
        if (r.tail.empty()) {
            for (auto const& run : runs.first(told.runs)) r.put(run);
        } else {
            r.tail.resize(told.runs * sizeof(protocol::block_run));
            r.header.body += static_cast<std::uint32_t>(r.tail.size());
        }
        r.bytes = -told.bytes;
        return told.runs != 0;
    }

    static void give_back(request& r, std::span<protocol::block_run const> runs) noexcept {
        r.set(protocol::operation::deallocate);
        for (protocol::block_run const& run : runs) {
            r.put(run);
            r.bytes -= static_cast<std::int64_t>(run.bytes * run.count);
            r.blocks -= static_cast<std::int64_t>(run.count);
        }
    }

    /// Empties a request whose memory is no longer its caller's. It stays of the same kind, so that the server may
    /// answer as before; if the server never got the first one, this one does nothing. An allocation is not
    /// changed.
    static void empty(request& r) noexcept {
        using enum protocol::operation;
        r.of = nullptr;
        switch (r.operation()) {
        case write: {
            auto range   = r.body_as<protocol::range_request>();
            range.length = 0;
            std::memcpy(r.body.data(), &range, sizeof range);
            r.header.payload = 0;
            r.memory         = nullptr;
            break;
        }
        case read: r.memory = nullptr; break;  // the payload is thrown away
        case deallocate:
        case transfer:
            r.header.body = r.operation() == transfer ? sizeof(protocol::batch_request) : 0;
            r.runs        = 0;
            break;
        default: break;
        }
    }

    /// Turns a request of which the server knows nothing yet into one that does nothing.
    static void nothing(request& r) noexcept {
        r.reset(r.number());
        r.set(protocol::operation::renew);
    }

private:
    static protocol::range_request range(call const& c, std::size_t from, std::size_t n) noexcept {
        return {protocol::name_of(c.b), c.offset + from, n};
    }

    static void put_text(call& c, request& r) noexcept {
        r.tail = std::move(c.text);
        c.text.clear();
        r.header.body += static_cast<std::uint32_t>(r.tail.size());
    }

    /// Adds as many runs as go into one body: now if there is room in the request, else while they go out.
    void make_runs(call& c, request& r) const noexcept {
        std::size_t const   room = (most.body - r.header.body) / sizeof(protocol::block_run);
        std::size_t const   here = (request::body_room - r.header.body) / sizeof(protocol::block_run);
        run_reader          runs(c.many, c.done, gone_);
        protocol::block_run run;
        std::size_t         n     = 0;
        std::uint64_t       bytes = 0, blocks = 0;
        r.begin = c.done;
        while (n < room && runs.next(run)) {
            if (n < here) std::memcpy(r.body.data() + r.header.body + n * sizeof run, &run, sizeof run);
            ++n;
            bytes += run.bytes * run.count;
            blocks += run.count;
            c.done = runs.at();
        }
        protocol::block_run more;
        c.all_asked = !runs.next(more);
        r.header.body += static_cast<std::uint32_t>(n * sizeof run);
        r.runs = n > here ? n : 0;
        if (r.operation() == protocol::operation::deallocate) {
            r.bytes  = -static_cast<std::int64_t>(bytes);
            r.blocks = -static_cast<std::int64_t>(blocks);
        }
    }

    epochs const& gone_;
};

}  // namespace tenure::detail::remote
