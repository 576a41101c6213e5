// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include <tenure/detail/batch/release.hpp>
#include <tenure/detail/life/opening.hpp>
#include <tenure/detail/life/reclaim.hpp>

namespace tenure::detail {

/// What becomes of a batch when its last hold goes.

/// Resets what only some batches have, for the next batch with this record.
TENURE_SLOW inline void forget(batch_record& b) noexcept {
    if (b.limited == &b) {
        b.rest.limits.on_soft.reset();
        drop_deadline(b);
    }
    if (!b.used.load(std::memory_order_relaxed)) return;
    b.used.store(false, std::memory_order_relaxed);
    b.rest.books.reset();
    b.cause.store({}, std::memory_order_relaxed);
    b.rest.rolled_back.store(false, std::memory_order_relaxed);
    delete b.stop.exchange(nullptr, std::memory_order_relaxed);
    for (auto& ns : b.rest.waited) ns.store(0, std::memory_order_relaxed);
    if (b.rest.progress) {
        std::scoped_lock const guard(b.lock);  // a snapshot may be reading it
        delete std::exchange(b.rest.progress, nullptr);
    }
    b.rest.store_errors = 0;
    b.rest.page_error.store({}, std::memory_order_relaxed);
    b.unwound = no_unwinding;
}

/// Returns the record of a batch whose guard and memory are both gone.
inline void recycle(batch_record* b) noexcept {
    leave(b->previous);  // a lane to which no thread came back
    if (b->is_loose) leave_loose(*b);
    b->id.store(0, std::memory_order_release);
    b->primary.serial.store(0, std::memory_order_relaxed);
    if (b->limited == b || b->used.load(std::memory_order_relaxed)) forget(*b);
    if (b->unusual) reset_unusual(*b);
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
    if (b->is_loose) leave_loose(*b);
    unlist_child(*b);
    std::uint64_t const before = b->state.fetch_or(batch_flags::done, std::memory_order_acq_rel);
    if (before & batch_flags::released) recycle(b);
    return held;
}

/// Reclaims a batch, and then what it was holding.
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
