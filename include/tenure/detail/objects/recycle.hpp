// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include <tenure/detail/batch/checkpoint.hpp>
#include <tenure/detail/batch/window.hpp>
#include <tenure/detail/objects/large.hpp>
#include <tenure/detail/objects/unit_shares.hpp>

namespace tenure::detail {

/// Recycling: a lane makes objects in the holes of units, whole lines at a time (cf. Blackburn and McKinley, Immix,
/// PLDI 2008): in those of its own, and then of units in which only what was kept is left. Such a unit becomes the
/// memory of the lane's batch until that ends. One lane at a time fills a unit.

/// Leaves the lane's hole in `p`. The rest of it is a hole again, unless that is less than another would begin
/// with. Called under the unit's lock.
inline void leave_hole(lane& l, place p) noexcept {
    if (!std::exchange(l.in_hole, false)) return;
    std::uintptr_t const at = address_in(l.cursor.load(std::memory_order_relaxed));
    if (l.run_end - at >= granules_a_word << granule_shift) set_dead(p, at, l.run_end);
    l.run_end = at;  // the rest is no longer the lane's
}

inline void leave_hole(lane& l) noexcept {
    if (!l.in_hole) return;
    place const            p = place_at(l.holes);
    std::scoped_lock const guard(p.u->lock);
    leave_hole(l, p);
}

/// Leaves the lane's run. The unused end of the run has no owner, and can be recycled once objects around it end.
inline void leave_run(lane& l) noexcept {
    if (l.in_hole) return leave_hole(l);
    std::uintptr_t const at = address_in(l.cursor.load(std::memory_order_relaxed));
    if (!l.runs || at == l.run_end) return;
    l.runs->used_end.store(at, std::memory_order_relaxed);
    for_units(at, l.run_end, [](place p, std::uintptr_t begin, std::uintptr_t end) {
        std::scoped_lock const guard(p.u->lock);
        if (p.u->tracked.load(std::memory_order_relaxed)) set_dead(p, begin, end);
    });
    l.run_end = at;
}

/// Counts anew for how many generations the oldest line has been in use.
TENURE_COLD inline void recount_passes(place p) noexcept {
    tracking const& t      = p.track();
    auto const      now    = static_cast<std::uint32_t>(generation_of(p.word().load(std::memory_order_relaxed)));
    std::uint32_t   oldest = 0;
    for (std::size_t i = 0; i < words_a_unit; ++i)
        for (std::uint32_t in_use = lines_any_in(~t.dead[i].load(std::memory_order_relaxed)) & ~fresh_lines(t, i);
             in_use; in_use &= in_use - 1) {
            std::size_t const line = i * lines_a_word + static_cast<std::size_t>(std::countr_zero(in_use));
            oldest                 = std::max(oldest, now - t.pass[line].load(std::memory_order_relaxed));
        }
    p.rest().passes     = oldest;
    p.rest().first_pass = std::min(p.rest().first_pass, oldest);
}

/// Raises the unit's generation, for objects that are made in its holes. Accesses to these ask the table alone,
/// until one of them is freed. Returns false if the unit has no generation left.
inline bool begin_pass(place p) noexcept {
    word_t const next = generation_of(p.word().load(std::memory_order_relaxed)) + 1;
    if (p.rest().passes == last_pass) recount_passes(p);
    if (p.rest().passes == last_pass || next >= last_generation) return false;
    tracking& t = p.track();
    for (std::size_t i = 0; i < words_a_unit; ++i)
        if (t.fresh[i / words_a_group].load(std::memory_order_relaxed)) settle(p, i, 15);
        else i |= words_a_group - 1;
    ++p.rest().passes;
    p.word().store(whole_word(next), std::memory_order_release);
    return true;
}

/// Has the lane fill the unit's holes, in a generation of their own. Called under the unit's lock.
inline bool begin_filling(lane& l, place p) noexcept {
    if (!begin_pass(p)) return false;
    p.rest().filling = &l;
    p.rest().deaths  = 0;
    l.holes          = p.base;
    l.hole_line      = 0;
    return true;
}

inline unit_rest* take_first(hole_list& from, supply& s) noexcept {
    std::scoped_lock const guard(s.holes_lock);
    unit_rest* const       u = from.first.load(std::memory_order_relaxed);
    if (u) unlist(*u);
    return u;
}

/// Returns whether the lane's batch may have a recyclable unit. Not if another batch's whole unit is in the page
/// file or under a checkpoint, or will be at once, or is just let go of: the thread that sees to that looks who
/// owns what under the unit's lock, after it has changed what is asked here. And lane_of() must find the entries
/// that the batch has.
inline bool may_take(lane const& l, place p) noexcept {
    constexpr std::uint64_t held_still = batch_flags::checkpointed | batch_flags::undoing | batch_flags::ended;
    for (share const* s = p.rest().shares.load(std::memory_order_relaxed); s; s = s->next_here) {
        batch_record const& b = *s->owner;
        if (&b == l.batch && &l != &b.primary) return false;
        if (b.paging.load(std::memory_order_relaxed) != paging_state::in) return false;
        if (b.state.load(std::memory_order_relaxed) & held_still) return false;
    }
    return true;
}

/// Free words [from, to) of a unit.
struct stretch {
    std::size_t from, to;
    std::size_t bytes() const noexcept { return (to - from) * granules_a_word << granule_shift; }
};

/// Returns the next word from `i` on that is free, or, if not `is`, that is not free; words_a_unit if none is.
inline std::size_t next_word(tracking const& t, std::size_t i, bool is) noexcept {
    while (i < words_a_unit) {
        std::uint64_t const left = (is ? t.room[i / 64] : ~t.room[i / 64]) >> i % 64;
        if (left) return i + static_cast<std::size_t>(std::countr_zero(left));
        i = (i | 63) + 1;
    }
    return i;
}

/// Returns the first free stretch from word `i` on that has `needed` bytes, at least one word; an empty one if
/// there is none.
inline stretch find_stretch(tracking const& t, std::size_t i, std::size_t needed) noexcept {
    for (stretch s{0, i}; s.to < words_a_unit;) {
        s.from = next_word(t, s.to, true);
        s.to   = next_word(t, s.from, false);
        if (s.from < s.to && s.bytes() >= needed) return s;
    }
    return {words_a_unit, words_a_unit};
}

/// Returns the first word behind the lane's last hole in the unit that it fills.
inline std::size_t next_word_of(lane const& l) noexcept { return (l.hole_line + lines_a_word - 1) / lines_a_word; }

/// Leaves the unit that the lane fills, which has no hole of the size that is needed now. If much of it is left,
/// the lane comes back for smaller objects.
inline void finish_filling(lane& l) noexcept {
    if (!l.holes) return;
    place const            p = place_at(l.holes);
    std::scoped_lock const guard(p.u->lock);
    leave_hole(l, p);
    l.holes          = 0;
    p.rest().filling = nullptr;
    std::size_t left = 0;
    for (stretch s{0, next_word_of(l)}; s.to < words_a_unit; left += s.to - s.from)
        s = find_stretch(p.track(), s.to, 0);
    if (left >= least_room || p.rest().deaths >= least_deaths) enqueue(p, l.queue, list_end::last);
}

/// Takes entries of objects that other threads ended out of the lane's list, and frees their bytes, or the run of
/// a large object.
inline void drain_remote(lane& l) noexcept {
    entry* e = l.remote.exchange(nullptr, std::memory_order_acquire);
    while (e) {
        auto* const after = reinterpret_cast<entry*>(e->state.load(std::memory_order_relaxed) & ~entry::dead);
        unlink(l.entries, l.oldest_entry, e);
        std::uintptr_t const at = to_address(e);
        if (unit* const run = unit_at(at)->head.load(std::memory_order_relaxed);
            run->large_bytes.load(std::memory_order_relaxed)) {
            unlink_large(*l.batch, run);
            give_large(run);
        } else {
            retired_units empty;
            {
                object_lock const guard({at, sizeof(entry), nullptr, nullptr});
                mark_range_dead(*l.batch, at, at + sizeof(entry), empty);
            }
            empty.give();
        }
        e = after;
    }
}

inline constexpr int most_tries = 4;  ///< of the first units in a list; those that do not serve become the last

/// Begins to fill a unit of the lane's own that has `needed` bytes in one piece.
inline bool next_own_unit(lane& l, std::size_t needed) noexcept {
    for (int tries = 0; tries < most_tries && l.queue.any(); ++tries) {
        // Of what others have freed meanwhile, the entries are still between the holes.
        if (l.remote.load(std::memory_order_relaxed)) drain_remote(l);
        unit_rest* const rest = take_first(l.queue, *l.batch->slabs);
        if (!rest) return false;
        place const p = place_at(rest->self);
        {
            std::scoped_lock const guard(p.u->lock);
            unit const* const      head = p.head();
            bool const             own  = head->home.load(std::memory_order_relaxed) == l.batch &&
                             head->maker.load(std::memory_order_relaxed) == &l;
            if (!own || !p.u->tracked.load(std::memory_order_relaxed) || rest->filling) continue;
            find_room(p);
            if (find_stretch(p.track(), 0, needed).from == words_a_unit) {
                enqueue(p, l.queue, list_end::last);
                continue;
            }
            if (!begin_filling(l, p)) continue;
        }
        leave_run(l);
        return true;
    }
    return false;
}

/// Makes a recyclable unit that has `needed` bytes in one piece the memory of the lane's batch, and begins to fill
/// it.
inline bool next_recyclable_unit(lane& l, std::size_t needed) noexcept {
    supply& s = *l.batch->slabs;
    for (int tries = 0; tries < most_tries && s.recyclable.any(); ++tries) {
        unit_rest* const rest = take_first(s.recyclable, s);
        if (!rest) return false;
        place const p = place_at(rest->self);
        {
            std::scoped_lock const guard(p.u->lock);
            if (!p.u->tracked.load(std::memory_order_relaxed) || p.head()->home.load(std::memory_order_relaxed))
                continue;
            dequeue(p);  // it may have been listed again meanwhile
            if (p.track().changed) look_again(p);
            if (!may_take(l, p) || find_stretch(p.track(), 0, needed).from == words_a_unit) {
                enqueue(p, s.recyclable, list_end::last);
                continue;
            }
            if (!begin_filling(l, p)) continue;
            count_for(p, nullptr);
            rest->first_pass = rest->passes;
            p.u->home.store(l.batch, std::memory_order_release);
            p.u->maker.store(&l, std::memory_order_release);
            p.u->used_end.store(0, std::memory_order_relaxed);
            p.u->origin = nullptr;
        }
        leave_run(l);
        p.u->next = l.runs;
        l.runs    = p.u;
        add_relaxed<std::uint64_t>(l.units, 1);
        return true;
    }
    return false;
}

/// Points the lane at a stretch of the unit that it fills, and at the free lines beside it, up to line `limit`. No
/// line that was in an earlier hole of this pass, and has died since: what was made there has the same generation.
/// Called under the unit's lock.
inline void open_hole(lane& l, place p, stretch s, std::size_t limit = lines_a_unit) noexcept {
    tracking&           t      = p.track();
    std::uint32_t const before = s.from > 0 ? lines_all_in(dead_in(t, s.from - 1)) : 0;
    std::uint32_t const after  = s.to < words_a_unit ? lines_all_in(dead_in(t, s.to)) : 0;
    std::size_t const   wide   = static_cast<std::size_t>(std::countl_one(before << 28));
    std::size_t const   first  = std::max<std::size_t>(s.from * lines_a_word - wide, l.hole_line);
    std::size_t const   last =
        std::min(s.to * lines_a_word + static_cast<std::size_t>(std::countr_one(after)), limit);
    l.hole_line = static_cast<std::uint32_t>(last);
    for (std::size_t line = first; line < last;) {
        std::size_t const   n    = std::min(64 - line % 64, last - line);
        std::uint64_t const mask = (n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1) << line % 64;
        auto&               bits = t.fresh[line / 64];
        bits.store(bits.load(std::memory_order_relaxed) | mask, std::memory_order_release);
        line += n;
    }
    std::uintptr_t const begin = p.base + first * line_bytes, end = p.base + last * line_bytes;
    run_taken(to_pointer(begin), end - begin);
    aim(l, begin, end, generation_of(p.word().load(std::memory_order_relaxed)));
    l.in_hole = true;
}

/// Opens the next hole of at least `needed` bytes, in whole words, of the unit that the lane fills.
inline bool open_next_hole(lane& l, std::size_t needed) noexcept {
    place const            p = place_at(l.holes);
    std::scoped_lock const guard(p.u->lock);
    leave_hole(l, p);
    stretch const s = find_stretch(p.track(), next_word_of(l), needed);
    if (s.from == words_a_unit) return false;
    open_hole(l, p, s);
    return true;
}

/// Points the lane at a hole of at least `needed` bytes. Returns false if there is none, if the batch has a
/// checkpoint, or if `needed` is above an eighth of a unit, which is not worth the search.
TENURE_SLOW inline bool aim_at_hole(lane& l, std::size_t needed) noexcept {
    if (has_checkpoint(*l.batch)) return false;  // objects made since then have memory of their own
    if (l.remote.load(std::memory_order_relaxed)) drain_remote(l);
    if (needed > unit_bytes / 8) return false;
    while (l.holes || next_own_unit(l, needed) || next_recyclable_unit(l, needed)) {
        if (open_next_hole(l, needed)) return true;
        finish_filling(l);
    }
    return false;
}

}  // namespace tenure::detail
