// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

#include <sched.h>

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

/// Gives up a record to which no guard refers any more. It is free for another batch once this one is done.
inline void release_record(batch_record& b) noexcept {
    if (b.state.fetch_or(batch_flags::released, std::memory_order_acq_rel) & batch_flags::done) recycle(&b);
}

/// Closes a guard that is in no thread's chain.
TENURE_COLD inline void close_left_guard(batch_record& b, std::uint64_t id) noexcept {
    b.guard_at.store(guard_place::with_opener, std::memory_order_relaxed);
    b.guard.store(nullptr, std::memory_order_release);
    end_record(b, id, false);
    release_record(b);
}

/// Closes a guard on a thread that did not open it. Only asks the batch to stop: the opener's thread may be making
/// in it just now, and ends it when it comes by, or when it ends.
TENURE_COLD inline void close_foreign_guard(batch_record& b, std::uint64_t id) noexcept {
    bool const over = b.state.load(std::memory_order_acquire) & batch_flags::done;  // its registry may be gone
    if (!over) b.registry.load(std::memory_order_relaxed)->foreign_ends.fetch_add(1, std::memory_order_relaxed);
    end_record(b, id, false);
    guard_place at = guard_place::with_opener;
    if (b.guard_at.compare_exchange_strong(at, guard_place::closed, std::memory_order_acq_rel)) return;
    while (at == guard_place::left && b.guard.load(std::memory_order_acquire))
        ::sched_yield();  // it is just leaving
    close_left_guard(b, id);
}

/// Returns whether a batch that governs this one is over, or it is asked to stop itself.
inline bool is_to_end(batch_record const& b) noexcept {
    for (batch_record const* up = &b; up; up = up->parent.load(std::memory_order_acquire)) {
        if (up->state.load(std::memory_order_seq_cst) & batch_flags::over) return true;
        if (up->detached.load(std::memory_order_relaxed)) return false;
    }
    return false;
}

/// Returns whether the batch is done, and so its registry may be gone, or was another thread's when this process
/// was forked.
inline bool is_done_or_lost(batch_record const& b) noexcept {
    return b.state.load(std::memory_order_acquire) & batch_flags::done || b.rest.abandoned;
}

/// Leaves the guards that outlive this thread, which ends. Their batches live on without one, and hold their
/// parents, until a batch above them ends, or another thread destroys the guard. Ends those that were asked to
/// stop, or whose guards other threads have destroyed.
TENURE_COLD inline void leave_guards() noexcept {
    thread_context& me = this_thread;
    while (me.newest) {  // destructors may leave others open
        // All hold their parents, and are held, before one of them has no guard any more and so can end. Until the
        // last of them has left, nothing here calls the user's code, which may destroy the guards of others.
        batch_record* oldest = nullptr;
        for (batch_record* b = me.newest; b; b = b->older) {
            oldest = b;
            if (is_done_or_lost(*b)) continue;
            hold_parent(*b);
            b->state.fetch_add(1, std::memory_order_acq_rel);
        }
        batch_record* all = nullptr;
        for (batch_record *b = oldest, *newer; b; b = newer) {
            newer           = b->newer.load(std::memory_order_relaxed);
            bool const over = is_done_or_lost(*b);
            leave_chain(*b);
            if (!over) {
                release_primary(*b);
                become_loose_again(*b->registry.load(std::memory_order_relaxed), *b);
                b->next_free = all;
                all          = b;
            }
            guard_place at  = guard_place::with_opener;
            bool const left = b->guard_at.compare_exchange_strong(at, guard_place::left, std::memory_order_acq_rel);
            if (left) b->guard.store(nullptr, std::memory_order_seq_cst);
            else if (over) close_left_guard(*b, b->id.load(std::memory_order_relaxed));
        }
        while (batch_record* const b = all) {
            all                    = b->next_free;
            std::uint64_t const id = b->id.load(std::memory_order_relaxed);
            if (is_closed_elsewhere(*b)) close_left_guard(*b, id);
            else if (is_to_end(*b)) end_record(*b, id, false);
            release_hold(b);
        }
    }
}

/// Counts a guard that is destroyed before guards below it on this thread, which end with it: as when one lives
/// across co_await, and another flow of control opens its own meanwhile. Checked builds report the first on
/// stderr.
TENURE_COLD TENURE_SHARED inline void note_unordered_end(batch_record& b) noexcept {
    b.registry.load(std::memory_order_relaxed)->unordered_ends.fetch_add(1, std::memory_order_relaxed);
    static std::atomic<bool> said{false};
    if (!TENURE_CHECKED || said.exchange(true, std::memory_order_relaxed)) return;
    std::string const label = label_of(b);
    std::fprintf(stderr,
                 "tenure: the guard of batch %s was destroyed before others that were opened below it on this "
                 "thread, and ended these: if it lives across co_await, use batch_owner or bind_batch (said once; "
                 "a snapshot counts them)\n",
                 label.c_str());
}

/// Closes a guard where something is special about the batch: it is held, or ended or retained before, has a
/// checkpoint or open guards below it, or an end unlike the usual one.
TENURE_SLOW inline void close_special_guard(batch_record& b, std::uint64_t id) noexcept {
    std::uint64_t const s = b.state.load(std::memory_order_relaxed);
    if (!(s & batch_flags::ended) && has_open_children(b)) note_unordered_end(b);
    constexpr std::uint64_t over = batch_flags::ended | batch_flags::retained;  // another thread may be freeing it
    if (s & batch_flags::checkpointed && !(s & over)) b.undo->guard_closes(b, id);
    end_record(b, id, false);
    if (b.in_chain) leave_chain(b);  // another thread closed its registry, and the batch with it
    b.guard_at.store(guard_place::with_opener, std::memory_order_relaxed);
    b.guard.store(nullptr, std::memory_order_release);
    release_record(b);
}

/// With any of these, the end of a batch is not its guard's alone.
inline constexpr std::uint64_t ends_specially =
    batch_flags::holds | batch_flags::ended | batch_flags::done | batch_flags::retained | batch_flags::checkpointed;

/// Does what is left of closing a guard whose batch was in the state `s` and has just ended, with no hold.
TENURE_SLOW inline void finish_closing(batch_record& b, std::uint64_t s) noexcept {
    batch_record* const up   = b.parent.load(std::memory_order_relaxed);
    bool const          held = b.holds_parent;
    if (held) unlist_child(b);
    if (!release_plainly(b)) release_memory(b);
    leave_chain(b);
    b.state.store(s | batch_flags::ended | batch_flags::done | batch_flags::released, std::memory_order_release);
    recycle(&b);
    if (held) release_hold(up);
    close_those_elsewhere();
}

/// Closes a guard, which ends its batch.
inline void close_guard(batch_record& b, std::uint64_t id) noexcept {
    if (is_over_record(&b)) return;
    if (b.guard.load(std::memory_order_relaxed) != &this_thread) [[unlikely]]
        return close_foreign_guard(b, id);
    std::uint64_t s = b.state.load(std::memory_order_relaxed);
    if (s & ends_specially || b.ends.load(std::memory_order_relaxed) != 0 || has_open_children(b) ||
        !b.state.compare_exchange_strong(s, s | batch_flags::ended, std::memory_order_seq_cst)) [[unlikely]]
        return close_special_guard(b, id);
    finish_closing(b, s);
}

/// Whether this thread's newest guard leaves the chain as most do: its batch is current, the next guard `up` in the
/// chain, or nothing, is what was current before, and the thread has room for the record.
[[gnu::always_inline]] inline bool leaves_at_once(thread_context const& me, batch_record const& b,
                                                  batch_record const* up) noexcept {
    if (me.current != &b.primary || me.record_count >= most_records) return false;
    if (b.generation.load(std::memory_order_relaxed) >> (generation_bits - 1)) return false;
    if (!up) return b.previous.where == nullptr;
    return b.previous.where == &up->primary &&
           up->primary.serial.load(std::memory_order_relaxed) == b.previous.serial &&
           up->primary.thread.load(std::memory_order_relaxed) == &me;
}

/// Closes a guard, which ends its batch, as close_guard() does. The usual batch, which is this thread's newest and
/// has one lane of objects without destructors at most, costs one locked instruction and no call.
[[gnu::always_inline]] inline void close_guard_at_once(batch_record& b, std::uint64_t id) noexcept {
    thread_context& me = this_thread;
    std::uint64_t   s  = b.state.load(std::memory_order_relaxed);
    if (me.newest != &b || b.unusual || s & ends_specially ||
        !b.state.compare_exchange_strong(s, s | batch_flags::ended, std::memory_order_seq_cst)) [[unlikely]]
        return close_guard(b, id);
    batch_record* const up = b.older;
    if (!leaves_at_once(me, b, up) || !release_at_once(b)) return finish_closing(b, s);
    me.newest = up;
    b.in_chain.store(false, std::memory_order_relaxed);
    me.current = up ? &up->primary : nullptr;
    if (up) up->newer.store(nullptr, std::memory_order_release);
    b.state.store(s | batch_flags::ended | batch_flags::done | batch_flags::released, std::memory_order_release);
    b.id.store(0, std::memory_order_release);
    b.primary.serial.store(0, std::memory_order_relaxed);
    b.next_free = me.records;
    me.records  = &b;
    ++me.record_count;
    if (up && is_closed_elsewhere(*up)) [[unlikely]]
        close_those_elsewhere();
}

/// Returns whether the batch's parent has as many holds as are allowed. A root is not held.
inline bool is_crowded_above(batch_record const& b) noexcept {
    batch_record const* const up = b.parent.load(std::memory_order_relaxed);
    return up && !is_root(*up) && up->state.load(std::memory_order_relaxed) & batch_flags::crowded;
}

/// Detaches a batch from its guard. The batch lives on under its id, and holds its parent.
inline void detach_guard(batch_record& b) noexcept {
    b.unusual |= unusual_flags::own;
    b.detached.store(true, std::memory_order_release);
    if (!b.guard.load(std::memory_order_acquire)) {  // its thread has ended
        b.guard_at.store(guard_place::with_opener, std::memory_order_relaxed);
        return release_record(b);
    }
    hold_parent(b);
    for (batch_record* c = &b; (c = c->newer.load(std::memory_order_relaxed));)
        if (c->parent.load(std::memory_order_relaxed) == &b) hold_parent(*c);
    leave_chain(b);
    release_primary(b);
    become_loose(*b.registry.load(std::memory_order_relaxed), b);
    b.guard.store(nullptr, std::memory_order_release);
    std::uint64_t const id     = b.id.load(std::memory_order_relaxed);
    registry_core&      r      = *b.registry.load(std::memory_order_relaxed);
    bool const          left   = b.residency == tenure::residency::paged_when_left;
    bool const          can_go = b.evictable.load(std::memory_order_relaxed);
    if (b.state.fetch_or(batch_flags::released, std::memory_order_acq_rel) & batch_flags::done) return recycle(&b);
    if (left) r.pages->note_leaving(b, id);
    if (can_go) relieve(r);
}

}  // namespace tenure::detail
