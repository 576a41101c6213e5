// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <tenure/detail/base/config.hpp>
#include <tenure/raise.hpp>
#include <tenure/store/adaptor.hpp>
#include <tenure/store/adaptor/parts.hpp>

namespace tenure {

namespace detail {

/// A call for room that this thread is in, and the one around it.
struct room_call {
    void const*      store;
    room_call const* outer;
};
TENURE_SHARED inline constinit thread_local room_call const* innermost_room_call = nullptr;

}  // namespace detail

/// A store that calls for room before it refuses an allocation: to end batches that can be made anew, to trim, to
/// page out. Blocks and capabilities are the upstream's.
///
/// As thread-safe as the upstream. A call costs nothing beyond the upstream's own.
template <backing_store Upstream>
class retry_store : public store_adaptor<Upstream> {
public:
    using store_adaptor<Upstream>::upstream;

    /// Makes room for a block of so many bytes, and returns whether to try again. Called on the thread that
    /// allocates, perhaps on several at once, with no lock of a store held. It may end batches, but not the one
    /// that the block is for, nor one above that. It may use this store; an allocation here that is refused
    /// meanwhile, on the same thread, stays refused. What it throws is dropped, and counts as false.
    using make_room = std::function<bool(std::size_t bytes)>;

    /// `over` and `callback` must not be null.
    retry_store(std::shared_ptr<Upstream> over, make_room callback) noexcept
        : store_adaptor<Upstream>(std::move(over)), make_room_(std::move(callback)) {}

    /// Allocates. If the upstream has no room (store_full, memory_full, limit_exceeded, or the system's ENOSPC or
    /// ENOMEM), calls for room and tries once more: not for a block that is larger than the upstream's capacity.
    /// Errors: the upstream's.
    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        result<block> const b = upstream()->allocate(bytes, alignment);
        if (b || !detail::is_full(b.error()) || !detail::could_hold(*upstream(), bytes) || !call_for(bytes))
            return b;
        return upstream()->allocate(bytes, alignment);
    }

    std::string describe() const { return "retry " + detail::name_of(*upstream()); }

private:
    bool call_for(std::size_t bytes) noexcept {
        detail::room_call const here{this, detail::innermost_room_call};
        for (detail::room_call const* c = here.outer; c; c = c->outer)
            if (c->store == this) return false;
        bool again                  = false;
        detail::innermost_room_call = &here;
        static_cast<void>(detail::thrown_by([&] { again = make_room_(bytes); }));
        detail::innermost_room_call = here.outer;
        return again;
    }

    make_room const make_room_;
};

static_assert(backing_store<retry_store<any_store>>);

}  // namespace tenure
