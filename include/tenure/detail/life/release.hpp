// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include <tenure/detail/life/opening.hpp>
#include <tenure/detail/life/reclaim.hpp>

namespace tenure::detail {

/// What becomes of a batch when its last hold goes.

/// Resets what only some batches have, for the next batch with this record.
TENURE_SLOW inline void forget(batch_record& b) noexcept {
    if (b.limited == &b) {
        b.limits.on_soft = nullptr;
        drop_deadline(b);
    }
    if (!b.books.used.load(std::memory_order_relaxed)) return;
    b.books.reset();
    b.cause.store({}, std::memory_order_relaxed);
    b.rolled_back.store(false, std::memory_order_relaxed);
    delete b.stop.exchange(nullptr, std::memory_order_relaxed);
    b.store_errors = 0;
    b.page_error.store({}, std::memory_order_relaxed);
    b.unwound = no_unwinding;
}

/// Returns the record of a batch whose guard and memory are both gone.
[[gnu::always_inline]] inline void recycle(batch_record* b) noexcept {
    leave(b->previous);  // a lane to which no thread came back
    if (b->is_loose) leave_loose(*b);
    b->id.store(0, std::memory_order_release);
    b->primary.serial.store(0, std::memory_order_relaxed);
    if (b->limited == b || b->books.used.load(std::memory_order_relaxed)) forget(*b);
    if (b->residency != tenure::residency::memory) b->evictable.store(false, std::memory_order_relaxed);
    give_record(b);
}

/// Whether a batch that waits must hold its parent, because its charges go back to limits of the parent or above
/// it, or because the parent waits, too, and must go after it.
inline bool must_outlast_background(batch_record const& b) noexcept {
    if (!b.ends_as(end_flags::background)) return false;
    batch_record const* const up = b.parent.load(std::memory_order_relaxed);
    return up && !is_root(*up) && (up->limited || up->ends_as(end_flags::background));
}

/// As background_front::put_off().
TENURE_COLD inline bool put_off_end(batch_record& b, batch_record*& parent) noexcept {
    return b.registry.load(std::memory_order_relaxed)->background->put_off(b, parent);
}

/// Frees what an ended batch without holds owns, or leaves that to the registry's thread. Returns the parent, for
/// the caller to release, if the batch was holding it.
inline batch_record* reclaim(batch_record* b) noexcept {
    if (b->ends_as(end_flags::background)) [[unlikely]]
        if (batch_record* up = nullptr; put_off_end(*b, up)) return up;
    batch_record* const held = b->holds_parent ? b->parent.load(std::memory_order_relaxed) : nullptr;
    release_memory(*b);
    std::uint64_t const before = b->state.fetch_or(batch_flags::done, std::memory_order_acq_rel);
    if (before & batch_flags::released) recycle(b);
    return held;
}

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
        if (!b->state.compare_exchange_strong(s, s | batch_flags::undoing, std::memory_order_acq_rel)) {
            s = ~std::uint64_t{0};  // not a state: the exchange below fails, and loads it
            continue;
        }
        b->busy_thread.store(&this_thread, std::memory_order_release);
        parent = retain(*b);
        left   = true;
        b->busy_thread.store(nullptr, std::memory_order_relaxed);
        s = b->state.fetch_and(~batch_flags::undoing, std::memory_order_acq_rel) & ~batch_flags::undoing;
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

/// Gives a hold back, and clears `flags`. A batch that then goes, or is retained, gives back its own hold on its
/// parent, in a loop and not by recursion.
inline void release_hold(batch_record* b, std::uint64_t flags) noexcept {
    while (b) {
        std::uint64_t const id   = b->id.load(std::memory_order_relaxed);
        bool const          left = b->residency == tenure::residency::paged_when_left;
        dropped_hold const  how  = drop_hold(b, std::exchange(flags, 0));
        if (!how.last && left) [[unlikely]]
            pages_of(*b)->note_leaving(*b, id);
        batch_record* const held = how.last ? reclaim(b) : nullptr;
        b                        = held ? held : how.parent;
    }
}

inline void release_hold_in_place(batch_record* b) noexcept {
    dropped_hold const  how  = drop_hold(b);
    batch_record* const held = how.last ? reclaim(b) : nullptr;
    release_hold(held ? held : how.parent);
}

inline void reclaim_upwards(batch_record* b) noexcept { release_hold(reclaim(b)); }

inline void close_windows(batch_record& b) noexcept {
    b.primary.window_end.store(0, std::memory_order_relaxed);
    std::scoped_lock const guard(b.lock);
    for (lane* l = b.lanes; l; l = l->next) l->window_end.store(0, std::memory_order_relaxed);
}

/// Fires the batch's stop_token, if there is one. The caller holds the batch, or its end is the caller's.
inline void fire_stop(batch_record& b) noexcept {
    stop_front* const s = b.stop.load(std::memory_order_seq_cst);
    if (!s) [[likely]]
        return;
    std::optional<ancestor_is_current> above;  // callbacks are callees, as destructors are
    lane const* const                  l = this_thread.current;
    if (l && l->batch->closed() && !is_over_record(l->batch)) above.emplace(*l->batch);
    s->request_stop();
}

/// Closes the windows of a batch whose state says that it is over, so that every make after this call notices, and
/// fires its stop_token.
inline void stop_lanes(batch_record& b) noexcept {
    heavy_barrier();
    close_windows(b);
    fire_stop(b);
}

}  // namespace tenure::detail
