// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>

#include <tenure/detail/base/cells.hpp>
#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/batch/checkpoint.hpp>
#include <tenure/detail/batch/hazard.hpp>
#include <tenure/detail/batch/process.hpp>
#include <tenure/detail/life/current_batch.hpp>
#include <tenure/detail/life/entering.hpp>
#include <tenure/detail/life/opening.hpp>
#include <tenure/detail/objects/read_section.hpp>
#include <tenure/detail/objects/resource_chunks.hpp>

namespace tenure::detail {

/// What becomes of batches in a forked child. Its one thread goes on with all that it had, and with batches that
/// nobody was in. A batch that another thread was in, or was just moving, bringing back or freeing, may be in any
/// state. In the child it is over, for the reason `forked`; it is read at most, and never freed.

/// Stands for threads of the parent process, which the child does not have.
TENURE_SHARED inline constinit thread_context gone_thread{};

/// Takes and returns the locks of everything that is reached from `process`, except those of batches, which nobody
/// gets meanwhile: gated_spin_lock. Outside of fork() no lock is taken under a unit's or a batch's, but the next
/// unit's of the same run, and a batch's under a unit's.
struct core_locks {
    template <class F>
    static void for_registries(F f) noexcept {
        for (registry_core* r = process.registries; r; r = r->next) f(*r);
    }
    template <class F>
    static void for_supplies(F f) noexcept {
        for_registries([&](registry_core& r) {
            f(r.own);
            for (supply* s = r.supplies; s; s = s->next) f(*s);
        });
    }

    static void lock() noexcept {
        process.mutex.lock();
        for_registries([](registry_core& r) {
            if (r.background) r.background->lock_for_fork();
            if (r.uses) r.uses->lock();
            r.supplies_mutex.lock();
            if (r.timing) r.timing->lock_for_fork();
            if (r.pages) r.pages->lock_for_fork();
            r.loose_lock.lock();
        });
        for_supplies([](supply& s) {
            s.slabs.lock_for_fork();
            s.refused.lock_for_fork();
        });
        cells.mutex.lock();
        all_resources.lock_for_fork();
        for_supplies([](supply& s) {
            s.slabs.for_units_in_use([](unit& u, std::uintptr_t) { u.lock.lock(); });
            s.holes_lock.lock();
        });
        forks.under_way.store(true, std::memory_order_seq_cst);
        for_records([](batch_record& b) { b.lock.await_unlocked(); });
    }

    static void unlock() noexcept {
        forks.under_way.store(false, std::memory_order_release);
        for_supplies([](supply& s) {
            s.holes_lock.unlock();
            s.slabs.for_units_in_use([](unit& u, std::uintptr_t) { u.lock.unlock(); });
        });
        all_resources.unlock_after_fork();
        cells.mutex.unlock();
        for_supplies([](supply& s) {
            s.refused.unlock_after_fork();
            s.slabs.unlock_after_fork();
        });
        for_registries([](registry_core& r) {
            r.loose_lock.unlock();
            if (r.pages) r.pages->unlock_after_fork();
            if (r.timing) r.timing->unlock_after_fork();
            r.supplies_mutex.unlock();
            if (r.uses) r.uses->unlock();
            if (r.background) r.background->unlock_after_fork();
        });
        process.mutex.unlock();
    }
};

/// Whether a lane that is in use is another thread's.
inline bool is_anothers(lane const& l) noexcept {
    thread_context const* const t = l.thread.load(std::memory_order_relaxed);
    return t != &this_thread && t != &whoever_comes;
}

/// Whether another thread was at the batch. That includes an end that is not through, unless this thread runs it
/// and has forked in a destructor. `was_at_end`: the lost background thread was freeing it.
inline bool was_left(batch_record& b, bool was_at_end) noexcept {
    std::uint64_t const         s     = b.state.load(std::memory_order_relaxed);
    thread_context const* const guard = b.guard.load(std::memory_order_relaxed);
    if (guard && guard != &this_thread) return true;
    if (s & batch_flags::undoing && b.busy_thread.load(std::memory_order_relaxed) != &this_thread) return true;
    if (b.paging.load(std::memory_order_relaxed) == paging_state::moving) return true;
    if (was_at_end && b.reclaim_pending.load(std::memory_order_relaxed)) return true;
    bool const ends = s & batch_flags::ended && !(s & batch_flags::holds);
    if (ends && !b.reclaim_pending.load(std::memory_order_relaxed) &&
        b.busy_thread.load(std::memory_order_relaxed) != &this_thread)
        return true;
    bool left = b.primary.claimed || (s & batch_flags::taken && is_anothers(b.primary));
    for (lane const* l = b.lanes; l; l = l->next)
        left = left || l->claimed || (l->users.load(std::memory_order_relaxed) && is_anothers(*l));
    return left;
}

/// Ends a batch in this process, for the reason `forked`, and adds a hold for ever: its memory stays.
inline void abandon(batch_record& b) noexcept {
    errc none{};
    b.cause.compare_exchange_strong(none, errc::forked, std::memory_order_relaxed);
    b.state.fetch_or(batch_flags::ended, std::memory_order_relaxed);
    b.state.fetch_add(1, std::memory_order_acq_rel);
    b.state.fetch_and(~(batch_flags::undoing | batch_flags::moving), std::memory_order_release);
    b.rest.abandoned = true;
    if (b.paging.load(std::memory_order_relaxed) == paging_state::moving) b.paged = nullptr;  // half changed
    if (b.is_loose) leave_loose(b);
    thread_context const* const guard = b.guard.load(std::memory_order_relaxed);
    if (!guard || guard == &this_thread) return;  // whose chain it is in, until the scope closes
    b.guard.store(&gone_thread, std::memory_order_relaxed);
    b.in_chain.store(false, std::memory_order_relaxed);
    if (batch_record* const up = b.parent.load(std::memory_order_relaxed)) {
        up->lock.forget_others();
        list_child(*up, b);
    }
    b.guard_at.store(guard_place::ended, std::memory_order_relaxed);
}

/// Ends the claim of a thread that is gone on the paging of a batch, or of a record that had one. That thread had
/// moved nothing yet, or the batch is abandoned.
inline void end_claim_of_gone_thread(batch_record& b) noexcept {
    paging_state const now = b.paging.load(std::memory_order_relaxed);
    if (!is_claimed(now)) return;
    b.paging.store(now == paging_state::claimed_out ? paging_state::out : paging_state::in,
                   std::memory_order_relaxed);
}

/// Returns whether the record is that of a batch which is not over, in a registry that is open. A guard may have
/// the record of a batch that is over, and whose registry is no more.
inline bool is_going_on(batch_record const& b) noexcept {
    return b.id.load(std::memory_order_relaxed) && !(b.state.load(std::memory_order_relaxed) & batch_flags::done) &&
           b.registry.load(std::memory_order_relaxed)->in_fork == forks.forks.load(std::memory_order_relaxed);
}

/// Gives back the holds of abandoned batches on their parents, which can then end without them. An abandoned batch
/// keeps its hold if a batch below it goes on, because that is charged to the batches above, and ends with them.
/// What abandoned batches have charged stays charged. A parent that had ended before stays as it is, because
/// freeing it now would run destructors in fork(). O(records).
inline void let_parents_go() noexcept {
    for_records([](batch_record& b) {
        if (!is_going_on(b) || b.rest.abandoned) return;
        batch_record* up = b.parent.load(std::memory_order_relaxed);
        // Where one is needed already, so are those above it.
        for (; up && up->rest.abandoned && !up->rest.needed; up = up->parent.load(std::memory_order_relaxed))
            up->rest.needed = true;
    });
    for_records([](batch_record& b) {
        if (!b.rest.abandoned || b.rest.needed || !is_going_on(b)) return;
        if (b.limited != &b) b.limited = nullptr;
        constexpr std::uint64_t stays = batch_flags::ended | batch_flags::done | batch_flags::retained;
        batch_record* const     up    = b.holds_parent ? b.parent.load(std::memory_order_relaxed) : nullptr;
        if (!up || up->rest.abandoned || up->state.load(std::memory_order_relaxed) & stays) return;
        up->state.fetch_sub(1, std::memory_order_relaxed);
        unlist_child(b);
        b.holds_parent = false;
        b.parent.store(b.registry.load(std::memory_order_relaxed)->root, std::memory_order_relaxed);
    });
}

/// Leaves a lane that another thread was in, or was just moving to other memory.
inline void leave_lane_of_gone_thread(lane& l) noexcept {
    if (l.moving.load(std::memory_order_relaxed) & 1) l.moving.fetch_add(1, std::memory_order_relaxed);
    thread_context const* const t = l.thread.load(std::memory_order_relaxed);
    if (t && t != &this_thread && t != &whoever_comes) l.thread.store(&gone_thread, std::memory_order_relaxed);
}

/// Mends a record. Returns whether its batch is abandoned. Writes only what it must, because a page that is written
/// to is copied.
inline bool mend_record(batch_record& b) noexcept {
    b.lock.forget_others();
    bool const was_at_end = b.rest.was_at_end;
    bool       abandoned  = false;
    if (was_at_end) b.rest.was_at_end = false;
    if (b.rest.needed) b.rest.needed = false;
    if (b.id.load(std::memory_order_relaxed)) {
        if (is_going_on(b) && !is_root(b)) {
            abandoned = was_left(b, was_at_end);
            if (abandoned) abandon(b);
            else if (has_checkpoint(b)) b.undo->mend_all();
        }
        b.rest.waiting_now.forget();
        leave_lane_of_gone_thread(b.primary);
        for (lane* l = b.lanes; l; l = l->next) leave_lane_of_gone_thread(*l);
    }
    end_claim_of_gone_thread(b);  // of a free record, too: a thread claims it before it asks whose it is
    return abandoned;
}

/// Mends the core in a forked child, whose locks are free, so that nothing waits for threads that are gone.
/// O(units, records, registries). Allocates nothing.
inline void mend_after_fork() noexcept {
    forget_hazards_of_others();
    forget_readers_of_others();
    core_locks::for_supplies([](supply& s) { s.slabs.free_locks_of_free_units(); });
    process.threads.store(this_thread.counted, std::memory_order_relaxed);
    core_locks::for_registries([&](registry_core& r) {
        batch_record const* const mine   = this_thread.reclaiming;
        bool const                own    = mine && mine->registry.load(std::memory_order_relaxed) == &r;
        batch_record* const       at_end = r.background ? r.background->lose_thread(own ? mine : nullptr) : nullptr;
        if (at_end && at_end->registry.load(std::memory_order_relaxed) == &r) at_end->rest.was_at_end = true;
        if (r.timing) r.timing->lose_watch();
        r.in_fork = forks.forks.load(std::memory_order_relaxed);
        r.departures.store(0, std::memory_order_relaxed);
    });
    for (supply const* s = departing.load(std::memory_order_relaxed); s; s = s->next)
        if (s->registry.in_fork == forks.forks.load(std::memory_order_relaxed))
            s->registry.departures.fetch_add(1, std::memory_order_relaxed);
    bool any = false;
    for_records([&](batch_record& b) { any = mend_record(b) || any; });
    if (any) let_parents_go();
}

/// Installs the core's part of the fork handlers. Called when a registry is made.
TENURE_COLD inline void be_ready_for_forks() noexcept {
    std::scoped_lock const guard(forks.mutex);
    install_fork_handlers();
    forks.lock_core.store(&core_locks::lock, std::memory_order_release);
    forks.unlock_core.store(&core_locks::unlock, std::memory_order_release);
    forks.mend_core.store(&mend_after_fork, std::memory_order_release);
}

}  // namespace tenure::detail
