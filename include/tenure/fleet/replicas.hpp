// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <tenure/buffer.hpp>
#include <tenure/error.hpp>
#include <tenure/fleet/store_group.hpp>
#include <tenure/raise.hpp>

namespace tenure {

namespace detail {

/// A buffer in a group, by its number there.
class grouped_buffer {
public:
    /// Errors: not_in_group.
    template <class B>
    explicit grouped_buffer(B const& b) : block_(b.block()), store_(b.stores().front()) {
        group_ = store_.get_if<group_store>();
        if (!group_) raise(error(make_error_code(errc::not_in_group), "a buffer in store " + store_.describe()));
    }

    group_core& core() const noexcept { return group_->core(); }
    fleet_core& fleet() const noexcept { return core().fleet(); }

    /// Returns its number, with the lock held. Errors: stale_handle.
    std::uint32_t number() const {
        std::optional<std::uint32_t> const b = core().find(block_);
        if (!b) raise(error(make_error_code(errc::stale_handle), "a buffer in store " + store_.describe()));
        return *b;
    }

    /// Returns which of the group's stores that is. Errors: not_in_group.
    std::uint16_t number_of(any_store const& where) const {
        group_place const* const p = where.get_if<group_place>();
        if (!p || where.whole() != store_)
            raise(error(make_error_code(errc::not_in_group),
                        "store " + where.describe() + " for a buffer in " + store_.describe()));
        return p->number();
    }

    [[noreturn]] void refuse(errc why, refusal because, std::string const& what) const {
        raise(error(make_error_code(why),
                    what + ": " + std::string(text_of(because)) + "; store " + store_.describe()));
    }

private:
    block        block_;
    any_store    store_;
    group_store* group_;
};

/// Makes one more copy, in a store or in the emptiest. Returns why not, if there is none.
inline refusal copy_once(grouped_buffer const& b, std::optional<std::uint16_t> where) {
    judge::orders orders;
    judge::stores among;
    if (where) among = std::span<std::uint16_t const>(&*where, 1);
    {
        std::scoped_lock const guard(b.fleet().mutex);
        verdict const          v = b.fleet().proposals.copy(b.number(), orders, among);
        if (!v) return v.why;
    }
    return b.core().carry_out_copy(orders.front().replica) ? refusal::none : refusal::no_copy;
}

}  // namespace detail

/// Copies a buffer to another store of its group, verifies the copy, and returns when it is there; at once if there
/// is or comes one. Errors: not_in_group; store_full if the store has no room or does not run; store_lost if the
/// copying failed; stale_handle. Thread-safe, but that no thread may free the buffer meanwhile. Cost: reading the
/// bytes twice and writing them once.
template <class T>
void replicate(buffer<T> const& b, any_store const& where) {
    detail::grouped_buffer const it(b);
    refusal const                why = detail::copy_once(it, it.number_of(where));
    if (why == refusal::none || why == refusal::has_it) return;
    bool const room = why == refusal::no_room || why == refusal::none_running;
    it.refuse(room ? errc::store_full : errc::store_lost, why, "replicate a buffer to " + where.describe());
}

/// Declares how many copies of a buffer there are to be at least, and makes them. No policy goes below that, and a
/// memory_manager makes copies anew that were lost or overwritten. 0 or 1 takes that back. Returns how many there
/// are: fewer if the group has not so many stores with room. Errors: not_in_group; limit_exceeded beyond 254
/// copies; stale_handle.
template <class T>
std::size_t replicate(buffer<T> const& b, std::size_t copies) {
    detail::grouped_buffer const it(b);
    auto const                   count = [&] {
        std::size_t n = 0;
        auto const& f = it.fleet().state;
        f.table().for_each(it.number(), [&](std::uint32_t r) { n += f.stays(f.table()[r]); });
        return n;
    };
    {
        std::scoped_lock const guard(it.fleet().mutex);
        it.fleet().state.declare(it.number(), static_cast<std::uint32_t>(std::min<std::size_t>(copies, 255 + 1)));
    }
    for (;;) {
        {
            std::scoped_lock const guard(it.fleet().mutex);
            if (std::size_t const n = count(); n >= copies) return n;
        }
        if (detail::copy_once(it, {}) == refusal::none) continue;
        std::scoped_lock const guard(it.fleet().mutex);
        return count();
    }
}

/// Drops the copy of a buffer in a store. Errors: replica_needed, with the reason, and nothing is dropped;
/// not_in_group; stale_handle.
template <class T>
void drop_replica(buffer<T> const& b, any_store const& where) {
    detail::grouped_buffer const it(b);
    std::uint16_t const          from = it.number_of(where);
    detail::judge::orders        orders;
    detail::verdict              v;
    {
        std::scoped_lock const guard(it.fleet().mutex);
        v = it.fleet().proposals.drop_for_user(it.number(), from, orders);
    }
    if (v && !it.core().carry_out_drop(orders.front().replica)) v.why = refusal::last_copy;
    if (!v) it.refuse(errc::replica_needed, v.why, "drop a copy in " + where.describe());
}

/// Returns the names of the stores that have a copy of a buffer, verified. Errors: not_in_group, stale_handle.
template <class T>
std::vector<std::string> replicas(buffer<T> const& b) {
    detail::grouped_buffer const it(b);
    std::vector<std::string>     out;
    std::scoped_lock const       guard(it.fleet().mutex);
    auto const&                  f = it.fleet().state;
    f.table().for_each(it.number(), [&](std::uint32_t r) {
        if (f.may_be_read(f.table()[r])) out.push_back(f.stores()[f.table()[r].store].name);
    });
    return out;
}

}  // namespace tenure
