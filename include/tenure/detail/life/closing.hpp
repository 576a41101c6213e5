// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>

#include <sched.h>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/life/ending.hpp>

namespace tenure::detail {

/// How guards close: on the thread that opened them, on another one, or never, because that thread has ended.

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

/// Takes its guard from a batch. The batch lives on under its id, and holds its parent, with which it ends. If it
/// was asked to stop, it ends, as it would have with its guard.
inline void drop_guard(batch_record& b) noexcept {
    b.unusual |= unusual_flags::own;
    if (!b.in_chain) {  // its thread has ended, or has ended it before, with cleanup::manual
        b.guard_at.store(guard_place::with_opener, std::memory_order_relaxed);
        b.guard.store(nullptr, std::memory_order_release);
        return release_record(b);
    }
    hold_parent(b);
    for (batch_record* c = &b; (c = c->newer.load(std::memory_order_relaxed));)
        if (c->parent.load(std::memory_order_relaxed) == &b) hold_parent(*c);
    leave_chain(b);
    release_primary(b);
    become_loose(*b.registry.load(std::memory_order_relaxed), b);
    b.guard.store(nullptr, std::memory_order_seq_cst);  // pairs with end_record() on another thread
    std::uint64_t const id     = b.id.load(std::memory_order_relaxed);
    registry_core&      r      = *b.registry.load(std::memory_order_relaxed);
    bool const          left   = b.residency == tenure::residency::paged_when_left;
    bool const          can_go = b.evictable.load(std::memory_order_relaxed);
    std::uint64_t const s      = b.state.fetch_or(batch_flags::released, std::memory_order_seq_cst);
    if (s & batch_flags::done) return recycle(&b);
    if (s & batch_flags::stopping) return end_record(b, id, false);
    if (left) r.pages->note_leaving(b, id);
    if (can_go) relieve(r);
}

/// Detaches a batch from its guard: as drop_guard(), but the batch does not end with its parent, which waits.
inline void detach_guard(batch_record& b) noexcept {
    b.detached.store(true, std::memory_order_release);
    drop_guard(b);
}

}  // namespace tenure::detail
