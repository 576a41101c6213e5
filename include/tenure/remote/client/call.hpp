// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include <boost/intrusive/list.hpp>

#include <tenure/remote/protocol.hpp>
#include <tenure/store/concept.hpp>

namespace tenure::detail::remote {

using clock = std::chrono::steady_clock;

/// One operation of a store; a large one is several requests. It lies on the stack of the thread that waits for
/// it, or with its handler if no thread does, and has list hooks of its own: so a call allocates nothing. From its
/// submission until it is finished it belongs to the thread that drives the connection.
struct call {
    using hook = boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

    protocol::operation what = protocol::operation::renew;

    // What is asked for. The memory and `many` are the caller's, and must stay valid.
    block                  b, to;
    std::size_t            offset = 0, to_offset = 0, length = 0;
    std::byte*             memory = nullptr;  ///< a write only reads it
    std::span<block const> many;
    std::uint64_t          batch     = 0;
    std::size_t            alignment = 0, count = 1;
    std::size_t            room = 0;  ///< of an allocation: bytes of each block to ask for, `length` or more
    protocol::key          ticket{};
    std::string            text;            ///< a name, an endpoint; the server's status
    bool                   beyond = false;  ///< the range is not in the block: asks only whether the block lives

    // Results.
    std::error_code error;
    block           made;

    // Progress.
    std::size_t done      = 0;  ///< bytes or blocks asked for so far
    unsigned    under_way = 0;  ///< requests without an answer
    bool        all_asked = false;
    bool ask_usage  = false;  ///< asks for the usage last, because the other requests do not say what was freed
    bool again      = false;  ///< was refused for lack of room, and asks once more, for one block
    bool ends_early = false;  ///< `error` is decided; the call is finished once nobody touches its memory

    clock::time_point deadline;

    /// Called by the driver, once, when the call is in none of its lists. The call may be gone afterwards.
    virtual void finish() noexcept = 0;

    hook submitted, cancelled;  ///< under the driver's lock
    bool past = false;          ///< under the driver's lock: the call cannot be cancelled any more
    hook active;                ///< from its acceptance until it is finished: in order of deadlines
    hook ready;                 ///< some of it may be sent, or it is finished

    call()                       = default;
    call(call const&)            = delete;
    call& operator=(call const&) = delete;

    /// Returns whether the operation needs live blocks. (Freeing dead blocks is already done.)
    bool names_blocks() const noexcept {
        using enum protocol::operation;
        return what == read || what == write || what == copy || what == transfer || what == share ||
               what == grant || what == send;
    }

    void failed(std::error_code why) noexcept {
        if (!error) error = why;
    }

protected:
    ~call() = default;
};

template <auto Hook, class Call = call>
using call_list = boost::intrusive::list<Call, boost::intrusive::member_hook<Call, call::hook, Hook>,
                                         boost::intrusive::constant_time_size<false>>;

/// The unfinished calls in order of their deadlines; those of them that have something to ask, in turn; and the
/// finished ones, which the driving thread reports. Not thread-safe. O(1) if deadlines come in order.
class call_queue {
public:
    void enter(call& c) noexcept {
        auto at = active_.end();
        while (at != active_.begin() && std::prev(at)->deadline > c.deadline) --at;
        active_.insert(at, c);
    }
    void finish(call& c) noexcept {
        c.active.unlink();
        c.ready.unlink();
        finished_.push_back(c);
    }

    /// Puts the call behind the others that have something to ask.
    void wants(call& c) noexcept {
        if (!c.ready.is_linked()) ready_.push_back(c);
    }
    call* first() noexcept { return ready_.empty() ? nullptr : &ready_.front(); }

    /// Calls f(call&), which may finish the call, for each call that has something to ask.
    template <class F>
    void for_each_that_wants(F f) noexcept {
        for (auto at = ready_.begin(); at != ready_.end();) f(*at++);
    }

    /// Calls f(call&), which may finish the call, for each call that is out of time. Returns false if one is not
    /// finished.
    template <class F>
    bool late(clock::time_point now, F f) noexcept {
        for (auto at = active_.begin(); at != active_.end() && at->deadline <= now;) f(*at++);
        return active_.empty() || active_.front().deadline > now;
    }

    call* next_finished() noexcept {
        if (finished_.empty()) return nullptr;
        call& c = finished_.front();
        finished_.pop_front();
        return &c;
    }

    bool              empty() const noexcept { return active_.empty() && finished_.empty(); }
    clock::time_point deadline() const noexcept {
        return active_.empty() ? clock::time_point::max() : active_.front().deadline;
    }

private:
    call_list<&call::active> active_;
    call_list<&call::ready>  ready_, finished_;
};

// These functions fill in what a call asks for, whether its caller blocks or not.

inline void ask_blocks(call& c, std::uint64_t batch, std::size_t bytes, std::size_t alignment) noexcept {
    c.what   = protocol::operation::allocate;
    c.batch  = batch;
    c.length = c.room = bytes;
    c.alignment       = alignment;
}

inline void ask_many(call& c, protocol::operation what, std::span<block const> many,
                     std::uint64_t batch = 0) noexcept {
    c.what  = what;
    c.many  = many;
    c.batch = batch;
}

/// Asks for a range of a block. If the range is not in the block, asks only whether the block lives.
inline void ask_range(call& c, protocol::operation what, block b, std::size_t offset, std::byte* memory,
                      std::size_t bytes) noexcept {
    c.what   = what;
    c.b      = b;
    c.beyond = offset > b.bytes || bytes > b.bytes - offset;
    if (c.beyond) {
        c.what = protocol::operation::read;
        return;
    }
    c.offset = offset;
    c.memory = memory;
    c.length = bytes;
}
inline void ask_read(call& c, block b, std::size_t offset, std::span<std::byte> out) noexcept {
    ask_range(c, protocol::operation::read, b, offset, out.data(), out.size());
}
inline void ask_write(call& c, block b, std::size_t offset, std::span<std::byte const> in) noexcept {
    auto* const from = const_cast<std::byte*>(in.data());  // a write only reads it
    ask_range(c, protocol::operation::write, b, offset, from, in.size());
}

inline void ask_copy(call& c, block from, std::size_t from_offset, block to, std::size_t to_offset,
                     std::size_t bytes) noexcept {
    c.what      = protocol::operation::copy;
    c.b         = from;
    c.offset    = from_offset;
    c.to        = to;
    c.to_offset = to_offset;
    c.length    = bytes;
}

/// Asks to send a range to another server, with the ticket that a grant gave there.
inline void ask_send(call& c, block from, std::size_t offset, std::size_t bytes, std::string const& there, block to,
                     std::size_t to_offset, protocol::key const& ticket) {
    ask_range(c, protocol::operation::send, from, offset, nullptr, bytes);
    c.to        = to;
    c.to_offset = to_offset;
    c.ticket    = ticket;
    c.text      = there;
}

/// Asks for share, open or unshare. An invalid name is not sent, but fails with invalid_argument.
inline void ask_name(call& c, protocol::operation what, std::string_view name, block b = {}) {
    c.what = what;
    c.b    = b;
    c.text = name;
    if (name.empty() || name.size() > protocol::most_name)
        c.error = std::make_error_code(std::errc::invalid_argument);
}

}  // namespace tenure::detail::remote
