// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <tenure/detail/batch/checkpoint.hpp>
#include <tenure/detail/batch/window.hpp>
#include <tenure/detail/objects/large.hpp>
#include <tenure/detail/objects/unit_shares.hpp>

namespace tenure::detail {

/// Recycling: a lane fills the holes between kept objects, whole lines at a time (cf. Blackburn and McKinley,
/// Immix, PLDI 2008). One lane at a time fills a unit.

/// Leaves the lane's hole. The part not used is a hole again.
inline void leave_hole(lane& l) noexcept {
    if (!l.in_hole) return;
    l.in_hole                = false;
    place const            p = place_at(l.holes);
    std::scoped_lock const guard(p.u->lock);
    std::uintptr_t const   at = l.cursor.load(std::memory_order_relaxed) & cursor_address;
    if (at == l.run_end) return;
    set(p.track().dead, at, l.run_end);
    if (share* const mine = find_share(p, l.batch)) {
        clear(*mine, at, l.run_end);
        p.rest().live -= static_cast<std::uint32_t>((l.run_end - at) >> granule_shift);
    }
    l.run_end = at;  // the rest is no longer the lane's
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
        p.rest().filling = nullptr;
        retired          = p.rest().live == 0 && !p.head()->home.load(std::memory_order_relaxed);
        if (retired) fresh = retire_unit(p);
    }
    if (retired) give_part(p.u, 1, fresh);
}

/// Starts a unit's passes over in a new generation, if all its objects are dead and a generation is left.
inline void start_over(place p) noexcept {
    tracking& t = p.track();
    if (!all_dead(t)) return;
    word_t const fresh = generation_of(p.word().load(std::memory_order_relaxed)) + p.rest().passes + 1;
    if (fresh >= last_generation) return;
    p.word().store(whole_word(fresh) & ~whole_flag, std::memory_order_release);
    for (auto& pass : t.pass) pass.store(0, std::memory_order_release);
    p.rest().passes = 0;
}

inline bool next_unit_with_holes(lane& l) noexcept {
    while (l.queue.load(std::memory_order_relaxed)) {
        unit_rest* u = nullptr;
        {
            std::scoped_lock const guard(l.batch->lock);
            u = l.queue.load(std::memory_order_relaxed);
            if (!u) return false;
            l.queue.store(u->next_hole, std::memory_order_relaxed);
            if (u->next_hole) u->next_hole->prev_hole = nullptr;
            u->queue.store(nullptr, std::memory_order_relaxed);
        }
        place const            p = place_at(u->self);
        std::scoped_lock const guard(p.u->lock);
        if (!p.u->tracked.load(std::memory_order_relaxed) || u->filling || sole_owner(p) != l.batch) continue;
        if (filler(p.u, l.batch) != &l) continue;
        if (p.head()->home.load(std::memory_order_relaxed)) start_over(p);
        u->filling  = &l;
        u->deaths   = 0;
        l.holes     = p.base;
        l.hole_line = 0;
        return true;
    }
    return false;
}

/// Takes entries of objects that other threads ended out of the lane's list, and frees their bytes, or the run of
/// a large object.
inline void drain_remote(lane& l) noexcept {
    entry* e = l.remote.exchange(nullptr, std::memory_order_acquire);
    while (e) {
        auto* const after = reinterpret_cast<entry*>(e->state.load(std::memory_order_relaxed) & ~entry::dead);
        unlink(l.entries, e);
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

inline constexpr std::size_t line_bytes = granules_a_line << granule_shift;

/// Points the lane at lines [from, to) of the unit that it fills: one more pass of the unit. Called under the
/// unit's lock.
inline void open_hole(lane& l, place p, std::size_t from, std::size_t to) noexcept {
    tracking& t = p.track();
    ++p.rest().passes;
    guard_word(p);
    share* const mine = find_share(p, l.batch);
    for (std::size_t i = from; i < to; ++i) {
        t.pass[i].store(static_cast<std::uint8_t>(p.rest().passes), std::memory_order_release);
        t.dead[i].store(0, std::memory_order_release);
        if (mine) mine->objects[i].store(~std::uint32_t{0}, std::memory_order_relaxed);
    }
    if (mine) {
        mine->granules += static_cast<std::uint32_t>((to - from) * granules_a_line);
        p.rest().live += static_cast<std::uint32_t>((to - from) * granules_a_line);
    }
    run_taken(to_pointer(p.base + from * line_bytes), (to - from) * line_bytes);
    aim(l, p.base + from * line_bytes, p.base + to * line_bytes,
        generation_of(p.word().load(std::memory_order_relaxed)) + p.rest().passes);
    l.in_hole = true;
}

/// Points the lane at a hole of at least `needed` bytes in a unit of its batch. Returns false if there is none, if
/// the batch has a checkpoint, or if `needed` is above an eighth of a unit, which is not worth the search.
TENURE_SLOW inline bool aim_at_hole(lane& l, std::size_t needed) noexcept {
    if (has_checkpoint(*l.batch)) return false;  // objects made since then have memory of their own
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

        if (from == to || p.rest().passes >= last_pass) {
            guard.unlock();
            finish_filling(l);
            continue;
        }
        if ((to - from) * line_bytes < needed) continue;
        open_hole(l, p, from, to);
        return true;
    }
    return false;
}

}  // namespace tenure::detail
