// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/life/descendants.hpp>
#include <tenure/detail/life/release.hpp>

namespace tenure::detail {

/// How batches end.

void end_record(batch_record& b, std::uint64_t id, bool destroy) noexcept;

/// What claim_end() did. `mine`: it set the flag, so the end is the caller's. `held`: the caller holds the batch.
/// `inside`: something is in the batch or below it; else nothing holds it but its users.
struct end_claim {
    bool mine, held, inside;
};

/// Claims the end of a batch by setting `ended`, or `retained` if `manual`. If something holds the batch, or if
/// `always`, the caller holds it from here on.
inline end_claim claim_end(batch_record& b, std::uint64_t id, bool manual, bool always) noexcept {
    std::uint64_t s = b.state.load(std::memory_order_acquire), next = 0;
    bool          held = false;
    do {
        if (!same_batch(s, id) || s & (batch_flags::ended | (manual ? batch_flags::retained : 0))) return {};
        held = always || s & batch_flags::holds;
        next = (s | (manual ? batch_flags::retained : batch_flags::ended)) + held;
    } while (!b.state.compare_exchange_weak(s, next, std::memory_order_seq_cst));
    return {true, held, holds_inside(s) != 0};
}

/// Batches without a guard that one thread ends together, each after those that it added later. They are claimed
/// when they are added, and so held.
class joint_end {
public:
    /// Claims a batch, with `manual` as retained, unless it is claimed.
    void add(batch_record& b, std::uint64_t id, bool manual) noexcept {
        if (!claim_end(b, id, manual, true).mine) return;
        b.next_along = newest_;
        newest_      = &b;
    }

    /// Ends them. Calls f(batch) with each before it may go.
    template <class F>
    void end(F f) noexcept {
        if (newest_) heavy_barrier();
        while (batch_record* const b = newest_) {
            newest_ = b->next_along;
            close_windows(*b);
            fire_stop(*b);
            f(*b);
            release_hold(b);
        }
    }

private:
    batch_record* newest_ = nullptr;
};

/// Asks the guard of a batch to stop, which the caller holds. Returns false if its thread has just ended and left
/// the batch without a guard.
inline bool stop_guard(batch_record& b, std::uint64_t id) noexcept {
    if (set_flag(b, id, batch_flags::stopping, batch_flags::over).done) stop_lanes(b);
    return b.guard.load(std::memory_order_seq_cst);  // pairs with leave_guards()
}

/// Ends what is below a batch that is over but held: this thread's open guards, newest first, then batches without
/// a guard, children before their parents. Asks guards of other threads to stop. Detached batches go on, until they
/// are ended by id. Costs nothing for batches elsewhere.
TENURE_COLD inline void end_descendants(batch_record& top) noexcept {
    for (batch_record *c = this_thread.newest, *older; c; c = older) {
        older = c->older;
        if (c != &top && governs(top, c) && !c->closed())
            end_record(*c, c->id.load(std::memory_order_relaxed), false);
    }
    joint_end loose;
    for_descendants(top, [&](batch_record& b, std::uint64_t id) {
        if (b.detached.load(std::memory_order_relaxed)) return false;
        if (!b.guard.load(std::memory_order_acquire) || !stop_guard(b, id))
            loose.add(b, id, b.ends_as(end_flags::manual));
        return true;
    });
    loose.end([](batch_record&) {});
}

/// Takes a guard out of its thread's chain of open guards. The thread goes on in what was current before.
inline void leave_chain(batch_record& b) noexcept {
    thread_context& me = this_thread;
    if (!b.in_chain) return;
    b.in_chain.store(false, std::memory_order_relaxed);
    batch_record* const newer = b.newer.load(std::memory_order_relaxed);
    if (newer) newer->older = b.older;
    else me.newest = b.older;
    if (b.older) b.older->newer.store(newer, std::memory_order_release);
    uncount_beside(b);
    if (b.primary.users > 0) return;  // a guard of enter() keeps it current
    if (me.current == &b.primary) {
        if (b.previous.where) resume(b.previous);
        else me.current = nullptr;
    } else if (newer && newer->previous.where == &b.primary) {
        newer->previous = std::exchange(b.previous, {});
        if (newer->previous.visited) newer->unusual |= unusual_flags::own;
    } else {
        leave(b.previous);
    }
}

/// Gives up the primary lane of a batch that has left its thread's chain, unless a thread is inside.
inline void release_primary(batch_record& b) noexcept {
    std::scoped_lock const guard(b.lock);
    if (b.primary.users == 0) b.primary.thread.store(nullptr, std::memory_order_release);
    else take_primary(b);
}

/// Has a child hold its parent, which it outlives, or whose chain it leaves. It must not have left the chain
/// before.
inline void hold_parent(batch_record& b) noexcept {
    batch_record* const up = b.parent.load(std::memory_order_relaxed);
    if (b.holds_parent || !up || is_root(*up)) return;
    up->state.fetch_add(1, std::memory_order_acq_rel);
    b.hold_its_parent();
    list_child(*up, b);
    uncount_beside(b);
}

/// Whether a guard is open directly below `b` in the same chain, the child of a batch that is this thread's.
inline bool has_open_children(batch_record const& b) noexcept {
    constexpr auto      relaxed = std::memory_order_relaxed;
    batch_record const* c       = b.in_chain.load(relaxed) ? b.newer.load(relaxed) : nullptr;
    while (c && (c->holds_parent || c->parent.load(relaxed) != &b)) c = c->newer.load(relaxed);
    return c;
}

void close_guard(batch_record& b, std::uint64_t id) noexcept;

inline bool is_closed_elsewhere(batch_record const& b) noexcept {
    return b.guard_at.load(std::memory_order_acquire) == guard_place::closed;
}

/// Closes a guard of this thread that another thread destroyed.
TENURE_COLD inline void close_those_elsewhere(batch_record& b) noexcept {
    b.guard_at.store(guard_place::with_opener, std::memory_order_relaxed);
    close_guard(b, b.id.load(std::memory_order_relaxed));
}

/// Takes the guard of a batch that this thread has ended out of its chain. Returns `released`, for the caller to
/// set, if another thread has destroyed it.
inline std::uint64_t leave_ended(batch_record& b) noexcept {
    leave_chain(b);
    guard_place at = guard_place::with_opener;
    if (b.guard_at.compare_exchange_strong(at, guard_place::ended, std::memory_order_acq_rel) ||
        at != guard_place::closed)
        return 0;
    b.guard_at.store(guard_place::with_opener, std::memory_order_relaxed);
    b.guard.store(nullptr, std::memory_order_release);
    return batch_flags::released;
}

/// Closes this thread's newest guards that another thread destroyed.
inline void close_those_elsewhere() noexcept {
    while (batch_record* const b = this_thread.newest) {
        if (!is_closed_elsewhere(*b)) [[likely]]
            return;
        close_those_elsewhere(*b);
    }
}

/// Ends this thread's open guards below `b`, newest first. Finds them without recursion, along the thread's chain,
/// where children are always newer than their parents.
inline void end_local_children(batch_record& b) noexcept {
    for (batch_record* c = &b; (c = c->newer.load(std::memory_order_relaxed));) {
        batch_record* const up = c->parent.load(std::memory_order_relaxed);
        c->ends_along          = !c->holds_parent && up && (up == &b || up->ends_along);
    }
    for (batch_record *c = this_thread.newest, *older; c != &b; c = older) {
        older = c->older;
        if (!c->ends_along) continue;
        c->ends_along = false;
        if (is_closed_elsewhere(*c)) close_those_elsewhere(*c);
        else end_record(*c, c->id.load(std::memory_order_relaxed), false);
    }
}

/// Ends a batch, from any thread that knows its id. A guard of another thread is asked to stop; any other batch
/// ends at once. `destroy`: frees it whatever its cleanup. Idempotent.
inline void end_record(batch_record& b, std::uint64_t id, bool destroy) noexcept {
    thread_context* const guard = b.guard.load(std::memory_order_acquire);
    bool const            ours  = guard == &this_thread;
    if (guard && !ours && !(b.state.load() & batch_flags::retained)) {
        if (!hold(b, id)) return;
        set_flag(b, id, batch_flags::stopping, 0);
        stop_lanes(b);
        end_descendants(b);
        bool const left = !b.guard.load(std::memory_order_seq_cst);  // pairs with leave_guards()
        release_hold(&b);
        if (left) end_record(b, id, destroy);  // its thread has ended meanwhile
        return;
    }
    // Again if a destructor has left a scope open, which it must not; but not for ever.
    for (int i = 0; ours && i < 64 && has_open_children(b); ++i) end_local_children(b);

    // Once the batch is retained, any thread may destroy it: so it is held until all is done here.
    bool const manual               = b.ends_as(end_flags::manual) && !destroy;
    auto const [mine, held, inside] = claim_end(b, id, manual, manual);
    if (!mine) return;

    bool const chained = ours && b.in_chain;  // else its own thread leaves the chain
    if (chained && (held || must_outlast_background(b))) hold_parent(b);
    if (inside || manual) stop_lanes(b);
    else if (held) close_windows(b);
    if (inside) end_descendants(b);
    if (chained && held) {
        b.state.fetch_or(leave_ended(b), std::memory_order_acq_rel);
        release_primary(b);
    }
    if (held) return release_hold(&b);
    if (!chained) return reclaim_upwards(&b);
    if (b.ends_as(end_flags::background))
        if (batch_record* up = nullptr; put_off_end(b, up)) return release_hold(up);
    release_memory(b);  // the batch is still current
    unlist_child(b);
    batch_record* const up   = b.holds_parent ? b.parent.load(std::memory_order_relaxed) : nullptr;
    std::uint64_t const gone = batch_flags::done | leave_ended(b);
    if ((b.state.fetch_or(gone, std::memory_order_acq_rel) | gone) & batch_flags::released) recycle(&b);
    if (up) release_hold(up);
}

TENURE_COLD inline void pass_on_stop(opened_batch const& opened, batch_record const& parent) noexcept {
    errc const why = parent.cause.load(std::memory_order_acquire);
    errc       none{};
    opened.record->touch();
    opened.record->cause.compare_exchange_strong(none, why, std::memory_order_acq_rel);
    set_flag(*opened.record, opened.id, batch_flags::stopping, 0);
}

/// Tells a new batch if its parent is over: see opening.hpp. Writes the parent's state, if only with what it was,
/// so that an end that comes later sees the new batch.
TENURE_COLD inline void tell_new_batch(opened_batch const& opened, batch_record& parent, bool guarded) {
    if (!(parent.state.fetch_add(0, std::memory_order_acq_rel) & batch_flags::over)) return;
    if (guarded) {
        pass_on_stop(opened, parent);
    } else {
        end_record(*opened.record, opened.id, true);
        refuse_below(parent);
    }
}

}  // namespace tenure::detail
