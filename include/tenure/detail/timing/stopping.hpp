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

/// Batches whose time is up or that were cancelled: nothing more is made there, their buffers go, and they
/// themselves as soon as no thread is inside. A guard that is open keeps its objects until it closes: it is asked
/// to stop, as by the end of a batch above it from another thread.

/// False: it had one.
inline bool give_cause(batch_record& b, errc cause) noexcept {
    b.registry.load(std::memory_order_relaxed)->deadlines.used.store(true, std::memory_order_relaxed);
    b.books.touch();
    errc none{};
    return b.cause.compare_exchange_strong(none, cause, std::memory_order_acq_rel);
}

/// Nothing is made in the batch any more, which the caller holds, and goes on holding for its end where it has no
/// guard. `again`: that is so. `others`: somebody else holds it, too.
struct stopped {
    bool again = false, others = true;
};
inline stopped stop_making(batch_record& b, std::uint64_t id) noexcept {
    if (b.guard.load(std::memory_order_acquire)) {
        if (set_flag(b, id, batch_flags::stopping, batch_flags::closed & ~batch_flags::undoing).done) stop_lanes(b);
        return {};
    }
    if (!claim_end(b, id, false, false).mine) return {};
    bool const others =
        (b.state.load(std::memory_order_acquire) & batch_flags::holds) > 2;  // the caller's and ours
    if (others) stop_lanes(b);
    else fire_stop(b);
    return {true, others};
}

/// What other threads are still in of what has just been ended.
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

/// As end_descendants, but open guards of this thread go on, and detached batches do not. Costs a pass over all
/// records, and another if there are buffers in what goes.
TENURE_COLD inline void stop_descendants(batch_record& top, errc cause, dropped_blocks& dropped) noexcept {
    bool more = false, again = true;
    while (std::exchange(again, false))  // as end_descendants
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

/// False: it was over.
inline bool stop_batch(batch_record& b, std::uint64_t id, errc cause) noexcept {
    if (!hold_or_root(b, id) || is_root(b)) return false;
    dropped_blocks dropped;
    bool const     first = give_cause(b, cause);
    stopped const  how   = stop_making(b, id);  // from here on nobody comes in, and no batch below is opened
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

/// Whether its makes look at the clock themselves, one by one.
inline bool minds_the_clock(batch_record const& b) noexcept {
    return b.limited && b.limited->deadline.load(std::memory_order_relaxed) &&
           !b.registry.load(std::memory_order_relaxed)->deadlines.watched.load(std::memory_order_relaxed);
}

/// Expires the batch, and all above it whose time is up; the caller is inside, or holds it. False: there is time.
TENURE_COLD inline bool notice_deadline(batch_record& b) noexcept {
    if (!is_overdue(b)) return false;
    batch_record* top = b.limited;
    for (batch_record* up = limited_above(top); up && is_overdue(*up); up = limited_above(up)) top = up;
    stop_batch(*top, top->id.load(std::memory_order_relaxed), errc::expired);
    return b.closed();
}

/// Where nobody watches deadlines: for who is inside, or holds the batch, or has its guard, of which nothing is
/// looked at once it is over.
inline void mind_the_clock(batch_record& b) noexcept {
    if (!deadline_queue::used_anywhere.load(std::memory_order_relaxed)) [[likely]]
        return;
    if (!b.closed() && b.limited && minds_the_clock(b)) notice_deadline(b);
}

/// And for whoever comes to it: nothing of its registry is looked at before it is held.
inline void look_at_the_clock(batch_record& b, std::uint64_t id) noexcept {
    if (!deadline_queue::used_anywhere.load(std::memory_order_relaxed)) [[likely]]
        return;
    if (!hold_or_root(b, id) || is_root(b)) return;
    mind_the_clock(b);
    release_hold(&b);
}

/// Expires all of a registry whose time is up. How long till the next, or no_timeout.
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
            if (id == 0) {  // it is just being opened
                n->due = now + 1'000'000;
                q.heap.add(*n);
            }
        }
        if (!id || stop_batch(*b, id, errc::expired)) continue;
        // Over, or this thread takes a checkpoint of it or ends one just now: once more, then.
        std::scoped_lock const guard(q.mutex);
        std::uint64_t const    s = b->state.load(std::memory_order_acquire);
        if (!same_batch(s, id) || !(s & batch_flags::undoing) || b->timer.armed) continue;
        b->timer.due = q.now() + 1'000'000;
        q.heap.add(b->timer);
    }
}

/// The batch's stop_token; one that has been asked to stop where it is over. The source comes with the first.
/// Throws std::bad_alloc.
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
