// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include <tenure/detail/batch/checkpoint.hpp>
#include <tenure/detail/batch/deadlines.hpp>
#include <tenure/detail/batch/loans.hpp>
#include <tenure/detail/batch/paging.hpp>
#include <tenure/detail/batch/records.hpp>
#include <tenure/detail/batch/sharing_front.hpp>
#include <tenure/detail/batch/waiting.hpp>
#include <tenure/detail/life/ancestor.hpp>
#include <tenure/detail/objects/expiry.hpp>
#include <tenure/detail/objects/freeing.hpp>
#include <tenure/detail/objects/resource_chunks.hpp>

namespace tenure::detail {

/// Frees the memory of a batch that is over. Everything here runs once, on one thread, when nothing holds the
/// batch any more. Nothing allocates. User code (destructors) runs with no lock held.

template <class F>
void for_lanes(batch_record& b, F f) {
    f(b.primary);
    for (lane *l = b.lanes, *next; l; l = next) {
        next = l->next;
        f(*l);
    }
}

inline void guard_run(unit const* u) noexcept {
    zeroed_atomic<word_t>* const words = &table_word(u->address);
    for (std::size_t i = 0; i < u->length; ++i)
        words[i].store(words[i].load(std::memory_order_relaxed) & ~whole_flag, std::memory_order_release);
}

/// Makes every access to the batch's objects ask the object's own state. While destructors run, newest object
/// first, handles to what is already gone must be stale.
inline void guard_all(batch_record& b) noexcept {
    for_lanes(b, [](lane& l) {
        for (unit* u = l.runs; u; u = u->next) guard_run(u);
    });
    for (unit* u = b.large; u; u = u->next) guard_run(u);
    std::scoped_lock const guard(b.lock);
    for (share* s = b.shares; s; s = s->next_owned) guard_word({region_of(s->base), s->where, s->base});
}

inline extent extent_of(entry* e) noexcept { return {to_address(e), sizeof(entry), nullptr, e}; }

/// Runs an object's finalizer. For a buffer, notes its block instead, to be freed with the others of its store.
inline void end_object(batch_record& b, finalizer const& f, entry* e) noexcept {
    if (is_buffer(f)) front_of_buffers().gather(b, e);
    else f.destroy(e);
}

/// Ends the object of an entry that is in no list any more. No other thread can be at it, because a call on one of
/// the batch's objects holds the batch.
inline void run_entry(batch_record& b, entry* e) noexcept {
    std::uintptr_t const state = e->state.load(std::memory_order_acquire);
    if (state & entry::proxied) {
        auto* const  p      = static_cast<proxy*>(e);
        entry* const object = p->object;
        listed_entry listed;
        {
            object_lock const guard(extent_of(object));
            listed = end_proxied(*p);
        }
        delete p;
        end_object(b, finalizer_of(state), object);
        listed.hand_in();
    } else {
        e->state.store(entry::dead, std::memory_order_release);
        end_object(b, finalizer_of(state), e);
    }
}

/// Ends what is in one of the batch's locked lists, newest first, up to `until`.
inline void run_locked(batch_record& b, entry*& list, entry const* until = nullptr) noexcept {
    for (;;) {
        entry* e = nullptr;
        {
            std::scoped_lock const guard(b.lock);
            if (list == until) return;
            e = list;
            unlink(list, e);
        }
        run_entry(b, e);
    }
}

inline void run_buffers(batch_record& b, entry const* until = nullptr) noexcept {
    while (b.first_buffer != until) {
        entry* const e = b.first_buffer;
        unlink(b.first_buffer, e);
        run_entry(b, e);
    }
}

/// Aborts with a message: two threads made objects with destructors in one lane at once, and one lost the other's
/// entry. An entry that is in the list twice would be destroyed twice, or for ever.
[[noreturn]] TENURE_COLD inline void end_corrupt_list(batch_record const& b) noexcept {
    std::string const label = label_of(b);
    std::fprintf(stderr,
                 "tenure: the list of objects of batch %s is corrupt: several threads made objects in it at once; "
                 "give each a lane(), or enter()\n",
                 label.c_str());
    std::abort();
}

/// Ends the objects in a lane's list, newest first, up to `until`. Entries of transferred objects leave the list
/// here, under their objects' locks: before that their bytes cannot go, and afterwards they are gone.
inline void run_entries(batch_record& b, lane& l, entry const* until = nullptr) noexcept {
    while (l.entries != until) {
        entry* const e = l.entries;
        l.entries      = e->next;
        if (l.entries && (l.entries->prev != e || l.entries == e)) [[unlikely]]
            end_corrupt_list(b);
        std::uintptr_t const state = e->state.load(std::memory_order_acquire);
        if (state & entry::moved) {
            object_lock const    guard(extent_of(e));
            std::uintptr_t const now = e->state.load(std::memory_order_relaxed);
            if (now & entry::moved) proxy_of(now)->listed = nullptr;
        } else if (!(state & entry::dead)) {
            run_entry(b, e);
        }
    }
}

/// Ends all objects of a batch, phase by phase, and newest first in each list.
inline void run_all(batch_record& b) noexcept {
    bool const phases = b.used.load(std::memory_order_relaxed);
    if (phases) run_locked(b, b.rest.before);
    run_locked(b, b.inbox);
    for_lanes(b, [&](lane& l) { run_entries(b, l); });
    if (phases) run_locked(b, b.rest.after);
    run_buffers(b);
}

/// Frees a run in which some units are tracked. Units in which other batches have shares stay; the rest goes back
/// piece by piece.
TENURE_COLD inline void release_guarded(unit* first, std::size_t n) noexcept {
    // From the last unit to the first, because other threads find a unit's home through its head: the head's home
    // must not be null while a unit still refers to that head.
    std::uintptr_t const base  = first->address;
    std::size_t          end   = n;
    auto const           flush = [&](std::size_t begin) {
        if (begin == end) return;
        unit* const u = first + begin;
        u->address    = base + (begin << unit_shift);
        u->length     = static_cast<std::uint32_t>(end - begin);
        u->home.store(nullptr, std::memory_order_relaxed);  // it may be left from when `u` was a head before
        for (std::size_t i = begin; i < end; ++i) first[i].head.store(u, std::memory_order_release);
        u->guarded.store(0, std::memory_order_relaxed);
        give_part(u, end - begin, generation_of(table_word(u->address).load(std::memory_order_relaxed)) + 1);
    };
    for (std::size_t i = n; i-- > 0;) {
        unit* const u = first + i;
        if (!u->tracked.load(std::memory_order_acquire)) continue;
        flush(i + 1);
        end                          = i;
        std::uintptr_t const at      = base + (i << unit_shift);
        word_t               fresh   = 0;
        bool                 retired = false;
        {
            std::scoped_lock const guard(u->lock);
            retired = orphan({region_of(at), u, at}, fresh);
        }
        if (retired) give_part(u, 1, fresh);
    }
    flush(0);
}

inline void release_runs(supply& s, lane& l) noexcept {
    while (unit* const u = l.runs) {
        l.runs              = u->next;
        std::size_t const n = u->length;
        if (u->guarded.load(std::memory_order_relaxed)) release_guarded(u, n);
        else give_run(s, u, n, generation_of(table_word(u->address).load(std::memory_order_relaxed)) + 1);
    }
}

/// Forgets the memory of a lane, whose runs are given away. The caller has a moving_guard.
inline void leave_memory(lane& l) noexcept {
    l.cursor.store(0, std::memory_order_release);
    l.window_begin.store(0, std::memory_order_release);
    l.units.store(0, std::memory_order_release);
    l.window_end.store(0, std::memory_order_relaxed);
    l.window_top = l.run_end = 0;
    l.word                   = 0;
    l.holes                  = 0;
    l.hole_line              = 0;
    l.in_hole                = false;
    l.lists_moved.store(false, std::memory_order_relaxed);
    l.remote.store(nullptr, std::memory_order_relaxed);
}

/// Forgets what was made in a lane, whose runs are given back.
inline void forget_memory(lane& l) noexcept {
    moving_guard const moving(l);
    l.bytes_before.store(0, std::memory_order_release);
    l.objects_before.store(0, std::memory_order_release);
    leave_memory(l);
}

inline void forget_kept(lane& l) noexcept {
    while (kept_log* const k = l.kept_out.load(std::memory_order_relaxed)) {
        l.kept_out.store(k->next, std::memory_order_relaxed);
        ::operator delete(k);
    }
}

inline void reset(lane& l) noexcept {
    forget_memory(l);
    l.thread.store(nullptr, std::memory_order_relaxed);
    l.users.store(0, std::memory_order_relaxed);
    if (l.resource.load(std::memory_order_relaxed)) end_resource(l);
}

/// Frees the memory of the usual batch: one lane full of objects without destructors. False, and nothing is done:
/// the batch is another one.
inline bool release_plainly(batch_record& b) noexcept {
    lane& l = b.primary;
    if (b.used.load(std::memory_order_relaxed) || l.entries || b.limited) return false;
    l.window_end.store(0, std::memory_order_relaxed);
    if (l.run_end) {
        unit* const u = l.runs;
        if (!u->next && u->length == 1 && !u->guarded.load(std::memory_order_relaxed)) [[likely]] {
            l.runs = nullptr;
            give_run(*b.slabs, u, 1, generation_of(table_word(u->address).load(std::memory_order_relaxed)) + 1);
        } else {
            release_runs(*b.slabs, l);
        }
        reset(l);
    } else {
        l.thread.store(nullptr, std::memory_order_relaxed);
        if (l.resource.load(std::memory_order_relaxed)) end_resource(l);
    }
    leave_supplies(b);
    return true;
}

/// Frees the memory of a batch as release_plainly() does, if it is none, or one unit that this thread's cache takes
/// back. False, and nothing is done: there is more to consider. Calls nothing.
[[gnu::always_inline]] inline bool release_at_once(batch_record& b) noexcept {
    constexpr auto relaxed = std::memory_order_relaxed;
    lane&          l       = b.primary;
    if (b.used.load(relaxed) || l.entries || l.resource.load(relaxed)) return false;
    if (l.run_end) {
        unit* const      u = l.runs;
        run_cache* const c = this_thread.cache;
        if (u->next || u->length != 1 || u->guarded.load(relaxed) || !c || u->origin != c) return false;
        std::size_t const more     = c->units.load(relaxed) + 1;
        auto&             word     = table_word(u->address);
        word_t const      last     = word.load(relaxed);
        constexpr word_t  one_more = word_t{1} << generation_shift;
        if (last - whole_flag >= (last_generation - 1) * one_more) return false;  // true also of a guarded unit
        if (more > run_cache::most || under_valgrind) return false;
        word.store(last + one_more, std::memory_order_release);
        poison(to_pointer(u->address), unit_bytes);
        l.window_end.store(0, relaxed);  // first, so that a make on a wrong thread finds no room at address 0
        moving_guard const moving(l);
        l.cursor.store(0, std::memory_order_release);
        l.window_begin.store(0, std::memory_order_release);
        l.bytes_before.store(0, std::memory_order_release);
        l.objects_before.store(0, std::memory_order_release);
        l.units.store(0, std::memory_order_release);
        l.run_end  = 0;
        l.runs     = nullptr;
        u->next    = c->runs[0];
        c->runs[0] = u;
        c->units.store(more, relaxed);
    }
    l.thread.store(nullptr, relaxed);
    return true;
}

/// Closes all shares of a batch. A unit's lock is taken before its owners', so each share is looked up again under
/// it: a thread that freed the last object there may have retired the unit.
inline void close_shares(batch_record& b) noexcept {
    errc const lapsed = b.cause.load(std::memory_order_relaxed);
    for (;;) {
        place              p{};
        read_section const here;
        {
            std::scoped_lock const guard(b.lock);
            if (!b.shares) return;
            p = {region_of(b.shares->base), b.shares->where, b.shares->base};
        }
        word_t fresh   = 0;
        bool   retired = false;
        {
            std::scoped_lock const guard(p.u->lock);
            share* const           s = find_share(p, &b);
            if (s && lapsed != errc{}) b.registry.load(std::memory_order_relaxed)->timing->note(p, b, lapsed);
            if (s) retired = close_share(p, s, fresh);
        }
        if (retired) give_part(p.u, 1, fresh);
    }
}

/// Notes why a batch goes before its end, if it does, so that its handles can say so.
TENURE_COLD inline void log_expiry(batch_record& b) noexcept {
    timing_front* const timing = b.registry.load(std::memory_order_relaxed)->timing.get();
    if (!timing) return;
    if (b.limited && is_overdue(b)) b.cause.store(errc::expired, std::memory_order_release);
    errc const cause = b.cause.load(std::memory_order_acquire);
    if (cause == errc{}) return;
    b.touch();
    timing->log(b, cause);
}

/// Ends all that the batch owns and returns its memory.
inline void release_memory(batch_record& b) noexcept {
    bool const reclaim_pending =
        b.reclaim_pending.load(std::memory_order_relaxed);  // then mark_dead() has logged it
    if (!reclaim_pending && (b.limited || b.used.load(std::memory_order_relaxed))) log_expiry(b);
    if (has_checkpoint(b)) [[unlikely]]
        b.undo->drop_all(b);
    bool ends = any_in_locked_lists(b);
    for_lanes(b, [&](lane& l) {
        close_window(l);
        ends = ends || l.entries;
    });
    bool const calls = ends || b.memberships;
    if (calls) b.busy_thread.store(&this_thread, std::memory_order_relaxed);  // destructors may fork: forking.hpp
    if (ends) {
        be_in(b);  // for the destructors
        guard_all(b);
        ancestor_is_current const above(b);
        run_all(b);
    }
    if (b.memberships) {
        ancestor_is_current const above(b);
        front_of_sharing().leave_all(b);
    }
    free_gathered(b);
    if (b.paged) pages_of(b)->drop_pages(b);
    close_shares(b);
    while (unit* const u = b.large) {
        b.large = u->next;
        give_large(u);
    }
    for_lanes(b, [&](lane& l) {
        release_runs(*b.slabs, l);
        reset(l);
        forget_kept(l);
    });
    while (b.lanes) {
        b.lock.lock();  // a snapshot may be walking the list
        lane* const l = b.lanes;
        b.lanes       = l->next;
        b.lock.unlock();
        give_lane(l);
    }
    b.has_lanes.store(false, std::memory_order_relaxed);
    if (b.paging.load(std::memory_order_acquire) != paging_state::in) pages_of(b)->settle(b);
    if (b.limited) refund(b.limited, nullptr, b.own_charge.exchange(0, std::memory_order_relaxed));
    leave_supplies(b);
    end_loan(b);
    if (b.used.load(std::memory_order_relaxed) && (b.holds_parent || !b.ends_as(end_flags::background)))
        pass_on_waits(b);
    if (b.uses_others.load(std::memory_order_relaxed))
        b.registry.load(std::memory_order_relaxed)->uses->release_pins(b);
    if (calls) b.busy_thread.store(nullptr, std::memory_order_relaxed);
}

}  // namespace tenure::detail
