// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
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
    using hook = boost::intrusive::list_member_hook<>;

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
    void (*finish)(call&) noexcept = nullptr;

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

    /// Sets the error, unless there is one.
    void failed(std::error_code why) noexcept {
        if (!error) error = why;
    }

protected:
    ~call() = default;
};

template <call::hook call::* Hook>
using call_list = boost::intrusive::list<call, boost::intrusive::member_hook<call, call::hook, Hook>,
                                         boost::intrusive::constant_time_size<false>>;

/// Takes the call out of the list if it is in it.
template <call::hook call::* Hook>
void unlink(call_list<Hook>& list, call& c) noexcept {
    if ((c.*Hook).is_linked()) list.erase(list.iterator_to(c));
}

}  // namespace tenure::detail::remote
