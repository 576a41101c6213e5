// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/life/release.hpp>

namespace tenure::detail {

/// How batches end.

template <class F>
void for_records(F f) {
    for (std::uint64_t i = 0;; i += records_a_chunk) {
        batch_record* const chunk = i >> record_bits ? nullptr : record_at(i);
        if (!chunk) return;
        for (std::size_t k = 0; k < records_a_chunk; ++k) f(chunk[k]);
    }
}

/// Whether `b` ends when `top` does: it is below it, and nothing between was detached.
inline bool governs(batch_record const& top, batch_record const* b) noexcept {
    while (b && b != &top && !b->detached.load(std::memory_order_relaxed))
        b = b->parent.load(std::memory_order_acquire);
    return b == &top;
}

/// Whether `b` is below `top`.
inline bool is_above(batch_record const& top, batch_record const& b) noexcept {
    batch_record const* up = b.parent.load(std::memory_order_acquire);
    while (up && up != &top) up = up->parent.load(std::memory_order_acquire);
    return up;
}

void end_record(batch_record& b, std::uint64_t id, bool destroy) noexcept;

/// The flag that an end sets. Where something holds the batch, and for `always`, so does the caller from here on.
/// `inside`: something is in it or below it; else nothing holds it but its users.
struct end_claim {
    bool mine, held, inside;
};
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

/// Ends the loose batches that `top` governs, newest first. All are claimed first, in one pass from old to new,
/// where a batch's parent always comes before it; so this is linear, and needs neither memory nor recursion.
inline void end_loose_descendants(batch_record& top) noexcept {
    registry_core& r          = *top.registry.load(std::memory_order_relaxed);
    batch_record*  ends_along = nullptr;
    {
        std::scoped_lock const guard(r.loose_lock);
        for (batch_record* b = r.root; b; b = b->newer) {
            batch_record const* up = b->parent.load(std::memory_order_relaxed);
            while (up && up != &top && up->guard.load(std::memory_order_relaxed) && !up->detached)
                up = up->parent.load(std::memory_order_relaxed);
            b->ends_along              = up && !b->detached && (up == &top || (up->is_loose && up->ends_along));
            bool const          manual = b->ends_as(end_flags::manual);
            std::uint64_t const id     = b->id.load(std::memory_order_acquire);  // 0: just being opened, and told
            if (!b->ends_along || id == 0 || !claim_end(*b, id, manual, true).mine) continue;
            b->next_along = ends_along;
            ends_along    = b;
        }
    }
    if (ends_along) heavy_barrier();
    while (batch_record* const b = ends_along) {
        ends_along = b->next_along;
        close_windows(*b);
        fire_stop(*b);
        release_hold(b);
    }
}

/// The batch is over but held: open guards of this thread below it end, newest first, then batches without a guard;
/// guards of other threads are asked to stop. Detached batches go on: who holds the id ends them. Costs a pass over
/// the registry's loose batches, and over all records if other threads are inside, or have its guard: scopes that
/// these have open below it do not hold it. Until a pass stops nothing more: a thread may have opened one below a
/// scope of its own just before that was stopped, in a record that the pass was past.
TENURE_COLD inline void end_descendants(batch_record& top) noexcept {
    for (batch_record *c = this_thread.newest, *older; c; c = older) {
        older = c->older;
        if (c != &top && governs(top, c) && !c->closed())
            end_record(*c, c->id.load(std::memory_order_relaxed), false);
    }
    end_loose_descendants(top);
    thread_context const* const guard = top.guard.load(std::memory_order_acquire);
    bool const                  alone = !guard || guard == &this_thread;
    if (alone && (top.state.load(std::memory_order_acquire) & batch_flags::holds) <= 1) return;  // the caller's own
    constexpr std::uint64_t closed  = batch_flags::closed & ~batch_flags::undoing;
    bool                    stopped = true;
    while (std::exchange(stopped, false))
        for_records([&](batch_record& b) {
            std::uint64_t const s = b.state.load(std::memory_order_acquire);
            std::uint64_t const n = b.id.load(std::memory_order_acquire);
            if (n == 0 || s & closed || !same_batch(s, n) || &b == &top) return;
            if (!b.guard.load(std::memory_order_relaxed) || !governs(top, &b)) return;
            if (!hold(b, n, closed)) return;  // its guard may be closing just now
            ++this_thread.listed_ends;  // a rollback of it waits for this hold, so what is called waits for none
            if (set_flag(b, n, batch_flags::stopping, closed).done) {
                stop_lanes(b);
                stopped = true;
            }
            --this_thread.listed_ends;
            release_hold(&b);
        });
}

/// The guard is no longer among the open ones of its thread, which goes on in what was current before.
inline void leave_chain(batch_record& b) noexcept {
    thread_context& me = this_thread;
    if (!b.in_chain) return;
    b.in_chain.store(false, std::memory_order_relaxed);
    if (b.newer) b.newer->older = b.older;
    else me.newest = b.older;
    if (b.older) b.older->newer = b.newer;
    if (b.primary.users > 0) return;  // a guard of enter() keeps it current
    if (me.current == &b.primary) {
        resume(b.previous);
    } else if (b.newer && b.newer->previous.where == &b.primary) {
        b.newer->previous = std::exchange(b.previous, {});
    } else {
        leave(b.previous);
    }
}

/// Nobody makes in the primary lane of a batch that has left its thread's chain, unless somebody is inside.
inline void release_primary(batch_record& b) noexcept {
    std::scoped_lock const guard(b.lock);
    if (b.primary.users == 0) b.primary.thread.store(nullptr, std::memory_order_release);
    else take_primary(b);
}

/// What a child's parent is told when the child no longer counts, or must be waited for.
inline void leave_parent_locally(batch_record& b, bool wait) noexcept {
    batch_record* const up = b.parent.load(std::memory_order_relaxed);
    if (b.holds_parent || !up || is_root(*up)) return;
    --up->children;
    if (wait) {
        up->state.fetch_add(1, std::memory_order_acq_rel);
        b.holds_parent = true;
    }
}

inline void close_guard(batch_record& b, std::uint64_t id) noexcept;

/// A guard of this thread that another one destroyed is closed where it should have been.
TENURE_COLD inline void close_those_elsewhere(batch_record& b) noexcept {
    b.closed_elsewhere.store(false, std::memory_order_relaxed);
    if (b.state.load(std::memory_order_acquire) & batch_flags::done) {
        leave_parent_locally(b, false);
        leave_chain(b);
    }
    close_guard(b, b.id.load(std::memory_order_relaxed));
}

inline void close_those_elsewhere() noexcept {
    while (batch_record* const b = this_thread.newest) {
        if (!b->closed_elsewhere.load(std::memory_order_acquire)) [[likely]]
            return;
        close_those_elsewhere(*b);
    }
}

/// Ends the open guards of this thread that are below `b`, newest first. No recursion: they are found along the
/// thread's chain, where children are always newer than their parents.
inline void end_local_children(batch_record& b) noexcept {
    for (batch_record* c = b.newer; c; c = c->newer) {
        batch_record* const up = c->parent.load(std::memory_order_relaxed);
        c->ends_along          = !c->holds_parent && up && (up == &b || up->ends_along);
    }
    for (batch_record *c = this_thread.newest, *older; c != &b; c = older) {
        older = c->older;
        if (!c->ends_along) continue;
        c->ends_along = false;
        if (c->closed_elsewhere.load(std::memory_order_acquire)) close_those_elsewhere(*c);
        else end_record(*c, c->id.load(std::memory_order_relaxed), false);
    }
}

/// The end of a batch, from any thread that knows its id: done at once by the thread of its guard, or by any where
/// it has no guard; a guard of another thread is asked to stop. Idempotent.
inline void end_record(batch_record& b, std::uint64_t id, bool destroy) noexcept {
    thread_context* const guard = b.guard.load(std::memory_order_acquire);
    bool const            ours  = guard == &this_thread;
    if (guard && !ours && !(b.state.load() & batch_flags::retained)) {
        if (!hold(b, id)) return;
        set_flag(b, id, batch_flags::stopping, 0);
        stop_lanes(b);
        end_descendants(b);
        release_hold(&b);
        return;
    }
    // Once more where a destructor has left a scope open, which it must not; and that is not waited for for ever.
    for (int i = 0; ours && b.children && i < 64; ++i) end_local_children(b);

    // What is retained may be destroyed by any thread from that moment on: so it is held till all is done here.
    bool const manual               = b.ends_as(end_flags::manual) && !destroy;
    auto const [mine, held, inside] = claim_end(b, id, manual, manual);
    if (!mine) return;

    bool const chained = ours && b.in_chain;  // else that is for its own thread to leave
    if (chained) leave_parent_locally(b, held || must_outlast_background(b));
    if (inside || manual) stop_lanes(b);
    else if (held) close_windows(b);
    if (inside) end_descendants(b);
    if (chained && held) {
        leave_chain(b);
        release_primary(b);
    }
    if (held) return release_hold(&b);
    if (!chained) return reclaim_upwards(&b);
    if (b.ends_as(end_flags::background))
        if (put_off_end const later(b); later.done) return release_hold(later.parent);
    release_memory(b);  // the guard still has the record; destructors still find the batch current, and over
    leave_chain(b);
    b.state.fetch_or(batch_flags::done, std::memory_order_acq_rel);
    if (b.holds_parent) release_hold(b.parent.load(std::memory_order_relaxed));
}

TENURE_COLD inline void pass_on_stop(opened_batch const& opened, batch_record const& parent) noexcept {
    errc const why = parent.cause.load(std::memory_order_acquire);
    errc       none{};
    opened.record->books.touch();
    opened.record->cause.compare_exchange_strong(none, why, std::memory_order_acq_rel);
    set_flag(*opened.record, opened.id, batch_flags::stopping, 0);
}

/// The parent's state is written to, if only with what it was: an end that comes later sees the new batch.
TENURE_COLD inline void tell_new_batch(opened_batch const& opened, batch_record& parent, bool guarded) {
    constexpr std::uint64_t over = batch_flags::closed & ~batch_flags::undoing;
    if (!(parent.state.fetch_add(0, std::memory_order_acq_rel) & over)) return;
    if (guarded) {
        pass_on_stop(opened, parent);
    } else {
        end_record(*opened.record, opened.id, true);
        refuse_below(parent);
    }
}

/// The guard is destroyed on a thread that did not open it. What the batch owns goes now, unless there are children
/// in the opener's chain; the record stays until the opener comes by, so that its chain is whole.
TENURE_COLD inline void close_foreign_guard(batch_record& b, std::uint64_t id) noexcept {
    bool const over = b.state.load(std::memory_order_acquire) & batch_flags::done;  // perhaps with its registry
    if (!over) b.registry.load(std::memory_order_relaxed)->foreign_ends.fetch_add(1, std::memory_order_relaxed);
    if (!b.in_chain) {  // the opener has ended it, or is gone
        b.guard.store(nullptr, std::memory_order_release);
        end_record(b, id, false);
        if (b.state.fetch_or(batch_flags::released, std::memory_order_acq_rel) & batch_flags::done) recycle(&b);
        return;
    }
    if (b.children == 0 && !b.ends_as(end_flags::manual) &&
        set_flag(b, id, batch_flags::ended, batch_flags::closed | batch_flags::holds).done) {
        release_memory(b);
        b.state.fetch_or(batch_flags::done, std::memory_order_acq_rel);
        if (b.holds_parent) release_hold(b.parent.load(std::memory_order_relaxed));
    } else {
        end_record(b, id, false);  // asks it to stop
    }
    b.closed_elsewhere.store(true, std::memory_order_release);
}

/// The guard goes, and a checkpoint is open.
void roll_back_unwound(batch_record& b, std::uint64_t id) noexcept;

/// The guard goes, and others below it that this thread has open go with it: as where one lives across co_await,
/// and another flow opened its own meanwhile.
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

/// The guard goes. The common case costs one locked instruction.
inline void close_guard(batch_record& b, std::uint64_t id) noexcept {
    if (b.guard.load(std::memory_order_relaxed) != &this_thread) [[unlikely]]
        return close_foreign_guard(b, id);
    std::uint64_t           s       = b.state.load(std::memory_order_relaxed);
    constexpr std::uint64_t special = batch_flags::holds | batch_flags::ended | batch_flags::done |
                                      batch_flags::retained | batch_flags::checkpointed;
    if (!(s & special) && b.ends.load(std::memory_order_relaxed) == 0 && b.children == 0 &&
        b.state.compare_exchange_strong(s, s | batch_flags::ended, std::memory_order_seq_cst)) [[likely]] {
        batch_record* const up   = b.parent.load(std::memory_order_relaxed);
        bool const          held = b.holds_parent;
        leave_parent_locally(b, false);
        if (!release_plainly(b)) release_memory(b);
        leave_chain(b);
        b.state.store(s | batch_flags::ended | batch_flags::done | batch_flags::released,
                      std::memory_order_release);
        recycle(&b);
        if (held) release_hold(up);
        return close_those_elsewhere();
    }
    if (b.children && !(s & batch_flags::ended)) note_unordered_end(b);
    if (s & batch_flags::checkpointed) roll_back_unwound(b, id);
    end_record(b, id, false);
    if (b.in_chain) leave_chain(b);  // its registry was closed on another thread, and with it the batch
    b.guard.store(nullptr, std::memory_order_release);
    if (b.state.fetch_or(batch_flags::released, std::memory_order_acq_rel) & batch_flags::done) recycle(&b);
}

/// The guard lets go; the batch lives on under its id, and holds its parent.
inline void detach_guard(batch_record& b) noexcept {
    b.detached.store(true, std::memory_order_release);
    leave_parent_locally(b, true);
    for (batch_record* c = b.newer; c; c = c->newer) {
        if (c->holds_parent || c->parent.load(std::memory_order_relaxed) != &b) continue;
        b.state.fetch_add(1, std::memory_order_acq_rel);
        c->holds_parent = true;
    }
    b.children = 0;
    leave_chain(b);
    release_primary(b);
    become_loose(*b.registry.load(std::memory_order_relaxed), b);
    b.guard.store(nullptr, std::memory_order_release);
    std::uint64_t const id     = b.id.load(std::memory_order_relaxed);
    registry_core&      r      = *b.registry.load(std::memory_order_relaxed);
    bool const          left   = b.residency == tenure::residency::paged_when_left;
    bool const          can_go = b.evictable.load(std::memory_order_relaxed);
    if (b.state.fetch_or(batch_flags::released, std::memory_order_acq_rel) & batch_flags::done) return recycle(&b);
    if (left) note_leaving(b, id);
    if (can_go) relieve(r);
}

}  // namespace tenure::detail
