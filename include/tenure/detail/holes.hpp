// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <mutex>
#include <new>

#include <tenure/detail/large.hpp>
#include <tenure/detail/liveness.hpp>
#include <tenure/detail/process.hpp>
#include <tenure/detail/window.hpp>

namespace tenure::detail {

/// Units whose objects no longer live and die together: bitmaps, shares, and holes filled again, whole lines at a
/// time (cf. Blackburn and McKinley, Immix, PLDI 2008). All of it under the unit's lock.

/// Calls f(bits index, mask) for the granules of [begin, end), which lie in one unit.
template <class F>
void for_words(std::uintptr_t begin, std::uintptr_t end, F f) {
    auto       g    = static_cast<std::uint32_t>((begin & (unit_bytes - 1)) >> granule_shift);
    auto const last = static_cast<std::uint32_t>(g + ((end - begin) >> granule_shift));
    if (g / 32 == (last - 1) / 32 && last - g < 32) [[likely]] {
        f(g / 32, ((std::uint32_t{1} << (last - g)) - 1) << g % 32);
        return;
    }
    while (g < last) {
        std::uint32_t const low = g % 32, n = std::min(32 - low, last - g);
        f(g / 32, (n == 32 ? ~std::uint32_t{0} : (std::uint32_t{1} << n) - 1) << low);
        g += n;
    }
}

inline void set(granule_bits& bits, std::uintptr_t begin, std::uintptr_t end) noexcept {
    for_words(begin, end, [&](std::uint32_t i, std::uint32_t mask) {
        bits[i].store(bits[i].load(std::memory_order_relaxed) | mask, std::memory_order_release);
    });
}

inline void clear(granule_bits& bits, std::uintptr_t begin, std::uintptr_t end) noexcept {
    for_words(begin, end, [&](std::uint32_t i, std::uint32_t mask) {
        bits[i].store(bits[i].load(std::memory_order_relaxed) & ~mask, std::memory_order_release);
    });
}

/// Calls f(place, begin, end) for each unit that the extent touches.
template <class F>
void for_units(extent const& x, F f) {
    std::uintptr_t const end = x.begin + x.bytes;
    for (std::uintptr_t a = x.begin; a < end;) {
        std::uintptr_t const stop = std::min(end, (a & ~(unit_bytes - 1)) + unit_bytes);
        f(place_at(a), a, stop);
        a = stop;
    }
}

inline void begin_tracking(place p) noexcept {
    if (p.u->tracked.load(std::memory_order_relaxed)) return;
    tracking& t = p.track();
    for (auto& word : t.dead) word.store(0, std::memory_order_relaxed);
    for (auto& pass : t.pass) pass.store(0, std::memory_order_relaxed);
    t.own[0].where = t.own[1].where = nullptr;
    p.u->self                       = p.base;
    p.u->passes                     = 0;
    p.u->filling                    = false;
    p.u->live = p.u->deaths = 0;
    p.u->tracked.store(true, std::memory_order_release);
    p.head()->guarded.fetch_add(1, std::memory_order_relaxed);
}

/// From now on every access to the unit asks the unit.
inline void guard_word(place p) noexcept {
    word_t const w = p.word().load(std::memory_order_relaxed);
    p.word().store(w & ~whole_flag, std::memory_order_release);
}

inline share* find_share(unit const* u, batch_record const* owner) noexcept {
    share* s = u->shares.load(std::memory_order_relaxed);
    while (s && s->owner != owner) s = s->next_here;
    return s;
}

/// Who owns the object with this granule. Takes the unit's lock where there is more than one possibility.
inline batch_record* owner_at(std::uintptr_t probe) noexcept {
    place const p = place_at(probe);
    if (p.u->tracked.load(std::memory_order_acquire)) {
        std::scoped_lock const guard(p.u->lock);
        if (p.u->tracked.load(std::memory_order_relaxed)) {
            for (share* s = p.u->shares.load(std::memory_order_relaxed); s; s = s->next_here)
                if (test(s->objects, probe)) return s->owner;
        }
    }
    return p.head()->home.load(std::memory_order_acquire);
}

// ---- units with holes, queued for the lane that may fill them
// ------------------------------------------------------

inline void enqueue(unit* u, lane* l) noexcept {
    std::scoped_lock const guard(l->batch->lock);
    if (u->queue.load(std::memory_order_relaxed)) return;
    unit* const first = l->queue.load(std::memory_order_relaxed);
    u->prev_hole      = nullptr;
    u->next_hole      = first;
    if (first) first->prev_hole = u;
    l->queue.store(u, std::memory_order_relaxed);
    u->queue.store(l, std::memory_order_relaxed);
}

inline void dequeue(unit* u) noexcept {
    lane* const l = u->queue.load(std::memory_order_relaxed);
    if (!l) return;
    std::scoped_lock const guard(l->batch->lock);
    if (u->queue.load(std::memory_order_relaxed) != l) return;
    if (u->next_hole) u->next_hole->prev_hole = u->prev_hole;
    if (u->prev_hole) u->prev_hole->next_hole = u->next_hole;
    else l->queue.store(u->next_hole, std::memory_order_relaxed);
    u->queue.store(nullptr, std::memory_order_relaxed);
}

/// The only batch that owns anything here, or null.
inline batch_record* sole_owner(unit const* u) noexcept {
    batch_record* only = u->head.load(std::memory_order_relaxed)->home.load(std::memory_order_relaxed);
    for (share const* s = u->shares.load(std::memory_order_relaxed); s; s = s->next_here) {
        if (s->granules == 0) continue;
        if (only) return nullptr;
        only = s->owner;
    }
    return only;
}

/// Whose list has the entries of objects made here by `owner`, which is the sole owner; only that lane may fill
/// holes.
inline lane* filler(unit const* u, batch_record* owner) noexcept {
    unit const* const head = u->head.load(std::memory_order_relaxed);
    return head->home.load(std::memory_order_relaxed) == owner ? head->maker.load(std::memory_order_relaxed)
                                                               : &owner->primary;
}

inline void offer_holes(place p) noexcept {
    if (p.u->filling || p.u->passes >= 255) return;
    if (batch_record* const owner = sole_owner(p.u)) enqueue(p.u, filler(p.u, owner));
}

// ---- shares
// --------------------------------------------------------------------------------------------------------

inline void count_for(place p, batch_record* b) noexcept {
    if (p.u->counted_by == b) return;
    if (p.u->counted_by) p.u->counted_by->books.shared_units.fetch_sub(1, std::memory_order_relaxed);
    if (b) b->books.shared_units.fetch_add(1, std::memory_order_relaxed);
    p.u->counted_by = b;
}

/// The owner's share of this unit, new if need be; null when the heap is full.
inline share* share_for(place p, batch_record* owner) noexcept {
    begin_tracking(p);
    if (share* const s = find_share(p.u, owner)) return s;
    tracking&  t        = p.track();
    share*     s        = !t.own[0].where ? &t.own[0] : !t.own[1].where ? &t.own[1] : nullptr;
    bool const embedded = s != nullptr;
    if (!s) s = new (std::nothrow) share;
    if (!s) return nullptr;
    dequeue(p.u);  // no longer one owner's alone
    s->owner    = owner;
    s->where    = p.u;
    s->base     = p.base;
    s->embedded = embedded;
    s->granules = 0;
    for (auto& word : s->objects) word.store(0, std::memory_order_relaxed);
    s->next_here = p.u->shares.load(std::memory_order_relaxed);
    p.u->shares.store(s, std::memory_order_release);
    std::scoped_lock const guard(owner->lock);
    owner->books.touch();
    s->prev_owned = nullptr;
    s->next_owned = owner->shares;
    if (s->next_owned) s->next_owned->prev_owned = s;
    owner->shares = s;
    return s;
}

/// Whether the granules are the share's, or not any more; all of them were the other before.
inline void set(share& s, std::uintptr_t begin, std::uintptr_t end) noexcept {
    set(s.objects, begin, end);
    s.granules += static_cast<std::uint32_t>((end - begin) >> granule_shift);
}

inline void clear(share& s, std::uintptr_t begin, std::uintptr_t end) noexcept {
    clear(s.objects, begin, end);
    s.granules -= static_cast<std::uint32_t>((end - begin) >> granule_shift);
}

inline void drop_share(place p, share* s) noexcept {
    {
        std::scoped_lock const guard(s->owner->lock);
        if (s->next_owned) s->next_owned->prev_owned = s->prev_owned;
        (s->prev_owned ? s->prev_owned->next_owned : s->owner->shares) = s->next_owned;
    }
    share* before = p.u->shares.load(std::memory_order_relaxed);
    if (before == s) p.u->shares.store(s->next_here, std::memory_order_relaxed);
    else {
        while (before->next_here != s) before = before->next_here;
        before->next_here = s->next_here;
    }
    if (p.u->counted_by == s->owner) {
        share* const other = p.u->shares.load(std::memory_order_relaxed);
        count_for(p, other ? other->owner : nullptr);
    }
    s->where = nullptr;
    if (!s->embedded) delete s;
}

/// Nothing lives in the unit. Shares without objects end only here: until then one may be reserved for an object
/// that is just being given. Makes the unit a free run of its own; the caller gives it to give_run() once the lock
/// is dropped.
inline word_t retire_unit(place p) noexcept {
    while (share* const s = p.u->shares.load(std::memory_order_relaxed)) drop_share(p, s);
    dequeue(p.u);
    count_for(p, nullptr);
    word_t const fresh = generation_of(p.word().load(std::memory_order_relaxed)) + p.u->passes + 1;
    p.word().store(whole_word(fresh), std::memory_order_release);  // before tracked: see alive_guarded()
    p.u->tracked.store(false, std::memory_order_release);
    p.u->address = p.base;
    p.u->length  = 1;
    p.u->head.store(p.u, std::memory_order_relaxed);
    p.u->home.store(nullptr, std::memory_order_relaxed);
    p.u->guarded.store(0, std::memory_order_relaxed);
    return fresh;
}

inline void poison_dead(std::uintptr_t line, std::uint32_t dead) noexcept {
    if (!memory_is_checked()) return;
    for (; dead; dead &= dead - 1)
        run_given_back(to_pointer(line + (static_cast<std::size_t>(std::countr_zero(dead)) << granule_shift)), 8);
}

/// The home of this unit is gone. True: nobody has a share, the unit is retired. Else it is a run of its own now.
inline bool orphan(place p, word_t& fresh) noexcept {
    tracking&     t     = p.track();
    share* const  first = p.u->shares.load(std::memory_order_relaxed);
    std::uint32_t live  = 0;
    for (share const* s = first; s; s = s->next_here) live += s->granules;
    if (live == 0) {
        fresh = retire_unit(p);
        return true;
    }
    dequeue(p.u);
    guard_word(p);
    for (std::size_t i = 0; i < lines_a_unit; ++i) {
        std::uint32_t mine = 0;
        for (share const* s = first; s; s = s->next_here) mine |= s->objects[i].load(std::memory_order_relaxed);
        t.dead[i].store(~mine, std::memory_order_release);
        poison_dead(p.base + (i * granules_a_line << granule_shift), ~mine);
    }
    p.u->live    = live;
    p.u->filling = false;
    p.u->address = p.base;
    p.u->length  = 1;
    p.u->home.store(nullptr, std::memory_order_relaxed);
    p.u->head.store(p.u, std::memory_order_release);
    p.u->guarded.store(1, std::memory_order_relaxed);
    count_for(p, first->owner);
    offer_holes(p);
    return false;
}

/// These granules are nobody's any more. True: that was the last, the unit is retired.
inline bool bury(place p, share* s, std::uintptr_t begin, std::uintptr_t end, word_t& fresh) noexcept {
    auto const granules = static_cast<std::uint32_t>((end - begin) >> granule_shift);
    if (test(p.track().dead, begin)) return false;  // two threads freed it at once
    guard_word(p);
    set(p.track().dead, begin, end);
    if (s) clear(*s, begin, end);
    p.u->deaths += granules;
    if (!p.head()->home.load(std::memory_order_relaxed)) {
        p.u->live -= granules;
        if (p.u->live == 0 && !p.u->filling) {
            fresh = retire_unit(p);
            return true;
        }
    }
    if (p.u->deaths >= unit_bytes >> (granule_shift + 3)) offer_holes(p);
    return false;
}

/// The batch that had this share is over.
inline bool close_share(place p, share* s, word_t& fresh) noexcept {
    guard_word(p);
    tracking& t = p.track();
    for (std::size_t i = 0; i < lines_a_unit; ++i) {
        std::uint32_t const mine = s->objects[i].load(std::memory_order_relaxed);
        if (!mine) continue;
        poison_dead(p.base + (i * granules_a_line << granule_shift), mine);
        t.dead[i].store(t.dead[i].load(std::memory_order_relaxed) | mine, std::memory_order_release);
    }
    if (!p.head()->home.load(std::memory_order_relaxed)) p.u->live -= s->granules;
    p.u->deaths += s->granules;
    dequeue(p.u);
    p.u->filling = false;
    drop_share(p, s);
    if (!p.head()->home.load(std::memory_order_relaxed) && p.u->live == 0) {
        fresh = retire_unit(p);
        return true;
    }
    offer_holes(p);
    return false;
}

// ---- filling
// ---------------------------------------------------------------------------------------------------------

/// What is left of a hole when the lane goes elsewhere is a hole again.
inline void leave_hole(lane& l) noexcept {
    if (!l.in_hole) return;
    l.in_hole                = false;
    place const            p = place_at(l.holes);
    std::scoped_lock const guard(p.u->lock);
    std::uintptr_t const   at = l.cursor.load(std::memory_order_relaxed) & cursor_address;
    if (at == l.run_end) return;
    set(p.track().dead, at, l.run_end);
    if (share* const s = p.u->shares.load(std::memory_order_relaxed)) {
        if (share* const mine = find_share(p.u, l.batch); mine && s) clear(*mine, at, l.run_end);
        p.u->live -= static_cast<std::uint32_t>((l.run_end - at) >> granule_shift);
    }
}

inline void finish_filling(lane& l) noexcept {
    if (!l.holes) return;
    leave_hole(l);
    place const p  = place_at(l.holes);
    l.holes        = 0;
    bool   retired = false;
    word_t fresh   = 0;
    {
        std::scoped_lock const guard(p.u->lock);
        p.u->filling = false;
        if (p.head()->home.load(std::memory_order_relaxed) == nullptr) {
            if (p.u->live == 0) {
                fresh   = retire_unit(p);
                retired = true;
            }
        }
    }
    if (retired) give_part(*l.batch->registry.load(std::memory_order_relaxed), p.u, 1, fresh);
}

/// All of a unit's objects are dead: its passes can start over, in a new generation.
inline void start_over(place p) noexcept {
    tracking& t = p.track();
    for (auto const& word : t.dead)
        if (word.load(std::memory_order_relaxed) != ~std::uint32_t{0}) return;
    word_t const fresh = generation_of(p.word().load(std::memory_order_relaxed)) + p.u->passes + 1;
    if (fresh >= last_generation) return;
    p.word().store(whole_word(fresh) & ~whole_flag, std::memory_order_release);
    for (auto& pass : t.pass) pass.store(0, std::memory_order_release);
    p.u->passes = 0;
}

inline bool next_unit_with_holes(lane& l) noexcept {
    while (l.queue.load(std::memory_order_relaxed)) {
        unit* u = nullptr;
        {
            std::scoped_lock const guard(l.batch->lock);
            u = l.queue.load(std::memory_order_relaxed);
            if (!u) return false;
            l.queue.store(u->next_hole, std::memory_order_relaxed);
            if (u->next_hole) u->next_hole->prev_hole = nullptr;
            u->queue.store(nullptr, std::memory_order_relaxed);
        }
        std::scoped_lock const guard(u->lock);
        if (!u->tracked.load(std::memory_order_relaxed) || u->filling || sole_owner(u) != l.batch) continue;
        if (filler(u, l.batch) != &l) continue;
        place const p{region_of(u->self), u, u->self};
        if (p.head()->home.load(std::memory_order_relaxed)) start_over(p);
        u->filling  = true;
        u->deaths   = 0;
        l.holes     = p.base;
        l.hole_line = 0;
        return true;
    }
    return false;
}

/// Objects of this lane that other threads ended: their entries leave the list only now, and then their lines are
/// free.
inline void drain_remote(lane& l) noexcept {
    entry* e = l.remote.exchange(nullptr, std::memory_order_acquire);
    while (e) {
        entry* const after = *std::launder(reinterpret_cast<entry**>(e + 1));
        unlink(l.entries, e);
        std::uintptr_t const at = to_address(e);
        if (unit* const run = unit_at(at)->head.load(std::memory_order_relaxed); run->large_bytes) {
            unlink_large(*l.batch, run);
            give_large(*l.batch->registry.load(std::memory_order_relaxed), run);
        } else {
            constexpr std::size_t left = sizeof(entry) + sizeof(entry*);
            for_units({at, left, nullptr, nullptr}, [](place p, std::uintptr_t begin, std::uintptr_t end) {
                std::scoped_lock const guard(p.u->lock);
                word_t                 fresh = 0;
                bury(p, nullptr, begin, end, fresh);  // the lane is its home: never retired here
            });
            poison(e, left);
        }
        e = after;
    }
}

/// Points the lane at a hole of at least `needed` bytes in a unit of its batch. Larger objects are not worth the
/// search.
TENURE_SLOW inline bool aim_at_hole(lane& l, std::size_t needed) noexcept {
    if (l.remote.load(std::memory_order_relaxed)) drain_remote(l);
    if (needed > unit_bytes / 8) return false;
    leave_hole(l);
    while (l.holes || next_unit_with_holes(l)) {
        place const      p = place_at(l.holes);
        std::unique_lock guard(p.u->lock);
        tracking&        t    = p.track();
        std::size_t      from = l.hole_line;
        auto const       free = [&](std::size_t i) {
            return t.dead[i].load(std::memory_order_relaxed) == ~std::uint32_t{0};
        };
        while (from < lines_a_unit && !free(from)) ++from;
        std::size_t to = from;
        while (to < lines_a_unit && free(to)) ++to;
        l.hole_line = static_cast<std::uint32_t>(to);

        constexpr std::size_t line_bytes = granules_a_line << granule_shift;
        if (from == to || p.u->passes >= 255) {
            guard.unlock();
            finish_filling(l);
            continue;
        }
        if ((to - from) * line_bytes < needed) continue;

        ++p.u->passes;
        guard_word(p);
        share* const mine = find_share(p.u, l.batch);
        for (std::size_t i = from; i < to; ++i) {
            t.pass[i].store(static_cast<std::uint8_t>(p.u->passes), std::memory_order_release);
            t.dead[i].store(0, std::memory_order_release);
            if (mine) mine->objects[i].store(~std::uint32_t{0}, std::memory_order_relaxed);
        }
        if (mine) {
            mine->granules += static_cast<std::uint32_t>((to - from) * granules_a_line);
            p.u->live += static_cast<std::uint32_t>((to - from) * granules_a_line);
        }
        run_taken(to_pointer(p.base + from * line_bytes), (to - from) * line_bytes);
        aim(l, p.base + from * line_bytes, p.base + to * line_bytes,
            generation_of(p.word().load(std::memory_order_relaxed)) + p.u->passes);
        l.in_hole = true;
        return true;
    }
    return false;
}

}  // namespace tenure::detail
