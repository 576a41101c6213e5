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

/// What somebody waits for: one operation of a store, of which large ones are several requests. It lies in the
/// waiting thread's stack, or with the handler of who does not wait, and is in lists by hooks of its own: so a call
/// allocates nothing. Who drives the connection has it from when it is submitted until it is finished.
struct call {
    using hook = boost::intrusive::list_member_hook<>;

    protocol::operation what = protocol::operation::renew;

    // What is asked for. Memory and `many` stay the caller's, and stay.
    block                  b, to;
    std::size_t            offset = 0, to_offset = 0, length = 0;
    std::byte*             memory = nullptr;  ///< a write only reads it
    std::span<block const> many;
    std::uint64_t          batch     = 0;
    std::size_t            alignment = 0, count = 1;
    std::size_t            room = 0;  ///< of allocations: bytes of each to ask for, `length` or more
    protocol::key          ticket{};
    std::string            text;            ///< a name, an endpoint; what the server's status is
    bool                   beyond = false;  ///< the range is not in the block: asks only whether that lives

    // What came of it.
    std::error_code error;
    block           made;

    // How far it is.
    std::size_t done       = 0;  ///< bytes or blocks that were asked for so far
    unsigned    under_way  = 0;  ///< requests without an answer
    bool        all_asked  = false;
    bool        ask_usage  = false;  ///< as the last request, where the others do not say what was freed
    bool        again      = false;  ///< it was refused with more than was asked for, and asks once more
    bool        ends_early = false;  ///< `error` is decided, once nobody touches its memory

    clock::time_point deadline;

    /// Called by the driver, once, in none of its lists; the call may be gone afterwards.
    void (*finish)(call&) noexcept = nullptr;

    hook submitted, cancelled;  ///< under the driver's lock
    bool past = false;          ///< too: nobody may cancel it any more
    hook active;                ///< from then on until it is finished: in order of deadlines
    hook ready;                 ///< something of it may be sent; or it is finished

    call()                       = default;
    call(call const&)            = delete;
    call& operator=(call const&) = delete;

    /// Whether it can only be done to blocks that are there. (To free others is done already.)
    bool names_blocks() const noexcept {
        using enum protocol::operation;
        return what == read || what == write || what == copy || what == transfer || what == share ||
               what == grant || what == send;
    }

    /// The first error stays.
    void failed(std::error_code why) noexcept {
        if (!error) error = why;
    }

protected:
    ~call() = default;
};

template <call::hook call::* Hook>
using call_list = boost::intrusive::list<call, boost::intrusive::member_hook<call, call::hook, Hook>,
                                         boost::intrusive::constant_time_size<false>>;

/// Takes it out if it is in.
template <call::hook call::* Hook>
void unlink(call_list<Hook>& list, call& c) noexcept {
    if ((c.*Hook).is_linked()) list.erase(list.iterator_to(c));
}

}  // namespace tenure::detail::remote
