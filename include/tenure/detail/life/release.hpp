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
#include <tenure/detail/timing/background.hpp>

namespace tenure::detail {

/// What becomes of a batch when the last hold goes.

/// What only some batches have, and the next one with this record has not.
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

/// Both guard and memory are gone.
inline void recycle(batch_record* b) noexcept {
    leave(b->previous);  // what nobody came back to
    if (b->is_loose) leave_loose(*b);
    b->id.store(0, std::memory_order_release);
    b->primary.serial.store(0, std::memory_order_relaxed);
    if (b->limited == b || b->books.used.load(std::memory_order_relaxed)) forget(*b);
    if (b->residency != tenure::residency::memory) b->evictable.store(false, std::memory_order_relaxed);
    give_record(b);
}

/// Frees what an ended batch without holds owns. Returns the parent if it was holding that.
inline batch_record* reclaim(batch_record* b) noexcept {
    if (b->ends_as(end_flags::background)) [[unlikely]]
        if (put_off_end const later(*b); later.done) return later.parent;
    batch_record* const held = b->holds_parent ? b->parent.load(std::memory_order_relaxed) : nullptr;
    release_memory(*b);
    std::uint64_t const before = b->state.fetch_or(batch_flags::done, std::memory_order_acq_rel);
    if (before & batch_flags::released) recycle(b);
    return held;
}

/// An ended batch with cleanup::manual on which nothing depends is nobody's child any more: the registry has it
/// until destroy_batch. Returns the parent if it was holding that. The caller has the last hold.
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

/// How many holds there are besides the one for what others use.
inline std::uint64_t holds_inside(std::uint64_t state) noexcept {
    return (state & batch_flags::holds) - (state & batch_flags::used ? 1 : 0);
}

/// What a hold was that was given back.
struct dropped_hold {
    bool          last   = false;    ///< of a batch that is over and can be freed
    batch_record* parent = nullptr;  ///< which the batch held till now, and the caller is to let go
};

/// As drop_hold: with the last one besides that, a batch that is retained leaves its parent, and one that has ended
/// waits for its users.
TENURE_COLD inline dropped_hold drop_special_hold(batch_record* b, std::uint64_t flags) noexcept {
    registry_core& r      = *b->registry.load(std::memory_order_relaxed);
    std::uint64_t  s      = b->state.load(std::memory_order_acquire);
    batch_record*  parent = nullptr;
    bool           left   = false;
    do {
        bool const last = holds_inside(s) == 1;
        bool const kept = s & batch_flags::retained && !(s & batch_flags::ended);
        if (!last || !kept || left || (s & batch_flags::used && has_waiting_children(r, *b))) continue;
        // Who frees something of it pays its charge back to whom it is charged to: not while that changes.
        if (!b->state.compare_exchange_strong(s, s | batch_flags::undoing, std::memory_order_acq_rel)) {
            s = ~std::uint64_t{0};  // no state: the exchange below fails, and loads it
            continue;
        }
        b->busy_thread.store(&this_thread, std::memory_order_release);
        parent = retain(*b);
        left   = true;
        b->busy_thread.store(nullptr, std::memory_order_relaxed);
        s = b->state.fetch_and(~batch_flags::undoing, std::memory_order_acq_rel) & ~batch_flags::undoing;
    } while (!b->state.compare_exchange_weak(s, (s - 1) & ~flags, std::memory_order_acq_rel));
    constexpr std::uint64_t waits = batch_flags::ended | batch_flags::used;
    if ((s & waits) == waits && holds_inside(s) == 1) wait_for_users(r, *b, s);
    return {(s & batch_flags::holds) == 1 && s & batch_flags::ended, parent};
}

/// Gives a hold back, and `flags`.
inline dropped_hold drop_hold(batch_record* b, std::uint64_t flags = 0) noexcept {
    std::uint64_t s = b->state.load(std::memory_order_acquire);
    do {
        if (s & (batch_flags::retained | batch_flags::used)) [[unlikely]]
            return drop_special_hold(b, flags);
    } while (!b->state.compare_exchange_weak(s, (s - 1) & ~flags, std::memory_order_acq_rel));
    return {(s & batch_flags::holds) == 1 && s & batch_flags::ended};
}

/// No recursion: a batch that goes, or is retained, gives back its hold of the next.
inline void release_hold(batch_record* b, std::uint64_t flags) noexcept {
    while (b) {
        std::uint64_t const id   = b->id.load(std::memory_order_relaxed);
        bool const          left = b->residency == tenure::residency::paged_when_left;
        dropped_hold const  how  = drop_hold(b, std::exchange(flags, 0));
        if (!how.last && left) [[unlikely]]
            note_leaving(*b, id);
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

/// Asks whoever has the batch's stop_token to stop. The batch is held, or its end is the caller's.
inline void fire_stop(batch_record& b) noexcept {
    std::stop_source* const s = b.stop.load(std::memory_order_seq_cst);
    if (!s) [[likely]]
        return;
    std::optional<ancestor_is_current> above;  // callbacks are callees, too
    lane const* const                  l = this_thread.current;
    if (l && l->batch->closed() && !is_over_record(l->batch)) above.emplace(*l->batch);
    s->request_stop();
}

/// The batch's state says that it is over; from the return of this call on, every make finds out.
inline void stop_lanes(batch_record& b) noexcept {
    heavy_barrier();
    close_windows(b);
    fire_stop(b);
}

}  // namespace tenure::detail
