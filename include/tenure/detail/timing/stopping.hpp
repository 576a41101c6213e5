// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>

#include <tenure/detail/buffers/dropping.hpp>
#include <tenure/detail/life/ending.hpp>

namespace tenure::detail {

/// What becomes of batches that expire or are cancelled. Nothing more is made in them, their buffers go, and they
/// themselves as soon as no thread is inside. An open guard keeps its objects until it closes: it is asked to
/// stop, as when another thread ends a batch above it.

/// Sets why a batch goes before its end. False: it had a reason already.
inline bool give_cause(batch_record& b, errc cause) noexcept {
    b.registry.load(std::memory_order_relaxed)->deadlines.used.store(true, std::memory_order_relaxed);
    b.books.touch();
    errc none{};
    return b.cause.compare_exchange_strong(none, cause, std::memory_order_acq_rel);
}

/// What stop_making() did. `again`: the caller has a second hold on the batch, and ends it by giving that back.
/// `others`: somebody else is in the batch, or holds it, too.
struct stopped {
    bool again = false, others = true;
};

/// Stops makes in a batch, which the caller holds. A guard is asked to stop. A batch without one is ended, and
/// held once more for that.
inline stopped stop_making(batch_record& b, std::uint64_t id) noexcept {
    if (b.guard.load(std::memory_order_acquire)) {
        if (set_flag(b, id, batch_flags::stopping, batch_flags::closed & ~batch_flags::undoing).done) stop_lanes(b);
        return {};
    }
    if (!claim_end(b, id, false, false).mine) return {};
    bool const others =
        (b.state.load(std::memory_order_acquire) & batch_flags::holds) > 2;  // the caller's, and claim_end()'s
    if (others) stop_lanes(b);
    else fire_stop(b);
    return {true, others};
}

/// Drops the buffers of batches below `top` that have just been ended for `cause`, and that other threads are
/// still in.
TENURE_COLD inline void drop_buffers_below(batch_record& top, errc cause, dropped_blocks& to) noexcept {
    constexpr std::uint64_t over = batch_flags::ended | batch_flags::retained;
    for_records([&](batch_record& b) {
        std::uint64_t const s = b.state.load(std::memory_order_acquire);
        std::uint64_t const n = b.id.load(std::memory_order_acquire);
        if (n == 0 || !(s & over) || !same_batch(s, n) || !b.stores.load(std::memory_order_acquire) ||
            b.cause.load(std::memory_order_acquire) != cause || !is_above(top, b) || !hold_until_freed(b, n))
            return;
        drop_buffers(b, to);
        release_hold(&b);
    });
}

/// Stops what is below a batch. Unlike end_descendants(), only asks this thread's open guards to stop, and stops
/// detached batches, too. Costs passes over all records until one stops nothing, and another if what goes has
/// buffers.
TENURE_COLD inline void stop_descendants(batch_record& top, errc cause, dropped_blocks& dropped) noexcept {
    bool more = false, again = true;
    while (std::exchange(again, false))  // as in end_descendants()
        for_records([&](batch_record& b) {
            std::uint64_t const s = b.state.load(std::memory_order_acquire);
            std::uint64_t const n = b.id.load(std::memory_order_acquire);
            if (n == 0 || s & batch_flags::closed || !same_batch(s, n) || !is_above(top, b) || !hold(b, n)) return;
            bool const first = give_cause(b, cause);
            bool const left  = b.guard.load(std::memory_order_acquire) || !governs(top, &b);
            if (left) {
                stopped const how = stop_making(b, n);
                if (first && how.others) drop_buffers(b, dropped);
                if (how.again) release_hold(&b);
                again = true;
            } else {
                more = more || b.stores.load(std::memory_order_acquire);
            }
            release_hold(&b);
        });
    end_loose_descendants(top);
    if (more) drop_buffers_below(top, cause, dropped);
}

/// Stops a batch, and what is below it, for `cause`. False: it was over, or is the root.
inline bool stop_batch(batch_record& b, std::uint64_t id, errc cause) noexcept {
    if (!hold_or_root(b, id) || is_root(b)) return false;
    dropped_blocks dropped;
    bool const     first = give_cause(b, cause);
    stopped const  how   = stop_making(b, id);  // from here on no thread comes in, and no batch is opened below
    if (how.others) stop_descendants(b, cause, dropped);
    if (how.others && first) drop_buffers(b, dropped);
    if (how.again) release_hold(&b);
    release_hold(&b);
    return true;
}

inline bool is_overdue(batch_record const& b) noexcept {
    batch_record const* const from = b.limited;
    std::uint64_t const       due  = from ? from->deadline.load(std::memory_order_relaxed) : 0;
    return due && b.registry.load(std::memory_order_relaxed)->deadlines.now() >= due;
}

/// Whether each make in the batch looks at the clock itself: there is a deadline that nobody watches.
inline bool minds_the_clock(batch_record const& b) noexcept {
    return b.limited && b.limited->deadline.load(std::memory_order_relaxed) &&
           !b.registry.load(std::memory_order_relaxed)->deadlines.watched.load(std::memory_order_relaxed);
}

/// Expires the batch if its time is up, with all above it whose time is up. The caller is inside the batch, or
/// holds it. False: there is time left.
TENURE_COLD inline bool notice_deadline(batch_record& b) noexcept {
    if (!is_overdue(b)) return false;
    batch_record* top = b.limited;
    for (batch_record* up = limited_above(top); up && is_overdue(*up); up = limited_above(up)) top = up;
    stop_batch(*top, top->id.load(std::memory_order_relaxed), errc::expired);
    return b.closed();
}

/// Expires a batch if its time is up and nobody watches deadlines. The caller is inside it, holds it, or has its
/// guard. Looks at nothing but the state of a batch that is over: a guard alone does not keep the rest.
inline void mind_the_clock(batch_record& b) noexcept {
    if (!deadline_queue::used_anywhere.load(std::memory_order_relaxed)) [[likely]]
        return;
    if (!b.closed() && b.limited && minds_the_clock(b)) notice_deadline(b);
}

/// Expires a batch as mind_the_clock() does, for a caller outside: holds it before looking at anything of its
/// registry.
inline void look_at_the_clock(batch_record& b, std::uint64_t id) noexcept {
    if (!deadline_queue::used_anywhere.load(std::memory_order_relaxed)) [[likely]]
        return;
    if (!hold_or_root(b, id) || is_root(b)) return;
    mind_the_clock(b);
    release_hold(&b);
}

/// Expires the batches of a registry whose time is up. Returns the time until the next deadline, or no_timeout.
inline std::chrono::nanoseconds expire_overdue(registry_core& r) noexcept {
    deadline_queue& q = r.deadlines;
    for (;;) {
        batch_record* b  = nullptr;
        std::uint64_t id = 0;
        {
            std::scoped_lock const guard(q.mutex);
            std::uint64_t const    now = q.now();
            deadline_node* const   n   = q.heap.top();
            if (!n) return no_timeout;
            if (n->due > now) return std::chrono::nanoseconds(n->due - now);
            q.heap.remove(*n);
            b  = n->batch;
            id = b->id.load(std::memory_order_acquire);
            if (id == 0) {  // it is just being opened: again in 1 ms
                n->due = now + 1'000'000;
                q.heap.add(*n);
            }
        }
        if (!id || stop_batch(*b, id, errc::expired)) continue;
        // The batch is over; or this thread is taking or ending a checkpoint of it: then again in 1 ms.
        std::scoped_lock const guard(q.mutex);
        std::uint64_t const    s = b->state.load(std::memory_order_acquire);
        if (!same_batch(s, id) || !(s & batch_flags::undoing) || b->timer.armed) continue;
        b->timer.due = q.now() + 1'000'000;
        q.heap.add(b->timer);
    }
}

/// Returns the batch's stop_token; for a batch that is over, one that has been asked to stop. The first call makes
/// the stop_source. Throws std::bad_alloc.
inline std::stop_token stop_token_of(batch_record& b, std::uint64_t id) {
    if (!hold(b, id, unless_over)) {
        std::stop_source over;
        over.request_stop();
        return over.get_token();
    }
    struct guard {
        batch_record* b;
        ~guard() { release_hold(b); }
    } const undo{&b};
    std::stop_source* s = b.stop.load(std::memory_order_acquire);
    if (!s) {
        auto fresh = std::make_unique<std::stop_source>();
        b.books.touch();
        if (b.stop.compare_exchange_strong(s, fresh.get(), std::memory_order_seq_cst)) s = fresh.release();
        if (b.state.load(std::memory_order_seq_cst) & batch_flags::closed) s->request_stop();
    }
    return s->get_token();
}

}  // namespace tenure::detail
