// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <tenure/detail/batch/children.hpp>
#include <tenure/detail/batch/holding.hpp>
#include <tenure/detail/batch/limits.hpp>
#include <tenure/detail/batch/paging.hpp>
#include <tenure/detail/batch/uses_front.hpp>

namespace tenure::detail {

/// How a hold on a batch is given back.

/// Moves a retained batch on which nothing depends below the registry's root, where it stays until destroy_batch.
/// The caller has the last hold. Returns the parent, for the caller to release, if the batch was holding it.
inline batch_record* retain(batch_record& b) noexcept {
    batch_record* const held = b.holds_parent ? b.parent.load(std::memory_order_relaxed) : nullptr;
    if (b.limited && b.limited != &b) {
        refund(b.limited, nullptr, b.own_charge.exchange(0, std::memory_order_relaxed));
        b.limited = nullptr;
    } else if (b.limited) {
        refund(limited_above(&b), nullptr, b.own_charge.load(std::memory_order_relaxed));
    }
    unlist_child(b);
    b.holds_parent = false;
    b.parent.store(b.registry.load(std::memory_order_relaxed)->root, std::memory_order_release);
    return held;
}

/// Returns the number of holds in `state`, without the one that stands for all uses of the batch's objects.
inline std::uint64_t holds_inside(std::uint64_t state) noexcept {
    return (state & batch_flags::holds) - (state & batch_flags::used ? 1 : 0);
}

/// A hold that has been given back.
struct dropped_hold {
    bool          last   = false;    ///< the last of a batch that has ended: it can be freed
    batch_record* parent = nullptr;  ///< held by the batch till now; the caller must release it
};

/// Gives back a hold on a batch that is retained or used, and clears `flags`. With the last hold besides that for
/// its users, a retained batch leaves its parent, and an ended batch waits for its users.
TENURE_COLD inline dropped_hold drop_special_hold(batch_record* b, std::uint64_t flags) noexcept {
    registry_core& r      = *b->registry.load(std::memory_order_relaxed);
    std::uint64_t  s      = b->state.load(std::memory_order_acquire);
    batch_record*  parent = nullptr;
    bool           left   = false;
    do {
        bool const last = holds_inside(s) == 1;
        bool const kept = s & batch_flags::retained && !(s & batch_flags::ended);
        if (!last || !kept || left || (s & batch_flags::used && r.uses->has_waiting_children(*b))) continue;
        // A thread that frees something of the batch refunds the batch that was charged: not while that changes.
        constexpr std::uint64_t claim = batch_flags::undoing | batch_flags::moving;
        if (!b->state.compare_exchange_strong(s, s | claim, std::memory_order_acq_rel)) {
            s = ~std::uint64_t{0};  // not a state: the exchange below fails, and loads it
            continue;
        }
        b->busy_thread.store(&this_thread, std::memory_order_release);
        parent = retain(*b);
        left   = true;
        b->busy_thread.store(nullptr, std::memory_order_relaxed);
        s = b->state.fetch_and(~claim, std::memory_order_acq_rel) & ~claim;
    } while (!b->state.compare_exchange_weak(s, (s - 1) & ~flags, std::memory_order_acq_rel));
    constexpr std::uint64_t waits = batch_flags::ended | batch_flags::used;
    if ((s & waits) == waits && holds_inside(s) == 1) r.uses->wait_for_users(*b, s);
    return {(s & batch_flags::holds) == 1 && s & batch_flags::ended, parent};
}

/// Gives a hold back, and clears `flags`.
inline dropped_hold drop_hold(batch_record* b, std::uint64_t flags = 0) noexcept {
    std::uint64_t s = b->state.load(std::memory_order_acquire);
    do {
        if (s & (batch_flags::retained | batch_flags::used)) [[unlikely]]
            return drop_special_hold(b, flags);
    } while (!b->state.compare_exchange_weak(s, (s - 1) & ~flags, std::memory_order_acq_rel));
    return {(s & batch_flags::holds) == 1 && s & batch_flags::ended};
}

/// Gives a hold back, and clears `flags`. With the last hold a batch that is over is reclaimed, and one that is
/// paged_when_left goes out. A batch that is reclaimed or retained gives back its own hold on its parent, in a
/// loop and not by recursion.
inline void release_hold(batch_record* b, std::uint64_t flags = 0) noexcept {
    while (b) {
        std::uint64_t const id   = b->id.load(std::memory_order_relaxed);
        bool const          left = b->residency == tenure::residency::paged_when_left;
        dropped_hold const  how  = drop_hold(b, std::exchange(flags, 0));
        if (!how.last && left) [[unlikely]]
            pages_of(*b)->note_leaving(*b, id);
        batch_record* const held = how.last ? b->registry.load(std::memory_order_relaxed)->reclaim(b) : nullptr;
        b                        = held ? held : how.parent;
    }
}

/// Gives a hold back as release_hold() does, but a batch that is paged_when_left stays in memory.
inline void release_hold_in_place(batch_record* b) noexcept {
    dropped_hold const  how  = drop_hold(b);
    batch_record* const held = how.last ? b->registry.load(std::memory_order_relaxed)->reclaim(b) : nullptr;
    release_hold(held ? held : how.parent);
}

}  // namespace tenure::detail
