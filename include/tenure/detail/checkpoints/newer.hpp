// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include <tenure/detail/checkpoints/checkpoint_areas.hpp>

namespace tenure::detail {

/// Frees what came to a batch after a checkpoint. Nobody else is in the batch. Allocates nothing.

/// Returns the newer granules of a share: those that `older`, if any, does not have.
inline granule_mask newer_in(share const& s, granule_mask const* older) noexcept {
    granule_mask mask{};
    for (std::size_t i = 0; i < words_a_unit; ++i)
        mask.bits[i] = s.objects[i].load(std::memory_order_relaxed) & ~(older ? older->bits[i] : 0);
    return mask;
}

/// Marks granules dead. `s`, if any, is the share that had some of them. Returns true if nothing is left and the
/// unit is retired; `fresh` is then its generation. Call it under the unit's lock.
inline bool mark_granules_dead(place p, share* s, granule_mask const& which, word_t& fresh) noexcept {
    begin_tracking(p);
    guard_word(p);
    std::uint32_t count = 0;
    for (std::size_t i = 0; i < words_a_unit; ++i) {
        std::uint32_t const bits = which.bits[i];
        if (!bits) continue;
        poison_dead(p.base + (i * granules_a_word << granule_shift), bits);
        set_dead(p, i, bits);
        p.rest().deaths += static_cast<std::uint32_t>(std::popcount(bits));
        if (!s) continue;
        std::uint32_t const had = s->objects[i].load(std::memory_order_relaxed);
        s->objects[i].store(had & ~bits, std::memory_order_release);
        count += static_cast<std::uint32_t>(std::popcount(had & bits));
    }
    if (s) s->granules -= count;
    if (!p.head()->home.load(std::memory_order_relaxed)) {
        p.rest().live -= count;
        if (p.rest().live == 0) {
            fresh = retire_unit(p);
            return true;
        }
    }
    return false;
}

/// Frees what the batch received since the checkpoint in units in which it had nothing then.
inline void mark_new_shares_dead(batch_record& b, checkpoint_record& c) noexcept {
    for (;;) {
        place              p{};
        read_section const here;
        {
            std::scoped_lock const guard(b.lock);
            share*                 s = b.shares;
            while (s && c.find(s->base)) s = s->next_owned;
            if (!s) return;
            p = {region_of(s->base), s->where, s->base};
        }
        word_t fresh   = 0;
        bool   retired = false;
        {
            std::scoped_lock const guard(p.u->lock);
            if (share* const s = find_share(p, &b)) {
                retired = mark_granules_dead(p, s, newer_in(*s, nullptr), fresh);
                if (!retired) {
                    drop_share(p, s);
                    offer_holes(p);
                }
            }
        }
        if (retired) give_part(p.u, 1, fresh);
    }
}

/// Marks dead what came to the batch since the checkpoint in units of which it had a part then.
inline void mark_dead_in_shares(batch_record& b, checkpoint_record const& c) noexcept {
    for (saved_area const& x : c.areas) {
        if (!x.mask) continue;
        place const            p = place_at(x.begin);
        std::scoped_lock const guard(p.u->lock);
        word_t                 none = 0;  // the unit has older granules, so it stays
        share* const           s    = find_share(p, &b);
        if (!s) continue;
        granule_mask newer = newer_in(*s, x.mask.get());
        c.listed.drop_from(newer, x.begin);
        mark_granules_dead(p, s, newer, none);
    }
}

/// Makes [at, end) of a unit a hole, without what others own there. The lane goes on with it.
inline void reopen(batch_record& b, lane& l, std::uintptr_t at, std::uintptr_t end) noexcept {
    place const p = place_at(at);
    if (l.holes != p.base) finish_filling(l);
    std::scoped_lock const guard(p.u->lock);
    begin_tracking(p);
    granule_mask which = granules_of(b, p);
    which.keep(at, end);
    word_t none = 0;
    mark_granules_dead(p, find_share(p, &b), which, none);
    if (!begin_filling(l, p)) return;
    find_room(p);
    std::size_t const limit = (end - p.base) / line_bytes;
    l.hole_line             = static_cast<std::uint32_t>((at - p.base + line_bytes - 1) / line_bytes);
    stretch s               = find_stretch(p.track(), next_word_of(l), 0);
    s.to                    = std::min(s.to, limit / lines_a_word);
    if (s.from < s.to) open_hole(l, p, s, limit);
}

/// Gives back whole units of a run, from the one at `from` on.
inline void cut_run(lane& l, unit* u, std::uintptr_t from) noexcept {
    std::size_t const keep = (from - u->address) >> unit_shift;
    std::size_t const n    = u->length;
    if (keep >= n) return;
    unit* const   rest    = u + keep;
    std::uint32_t guarded = 0;
    for (std::size_t i = keep; i < n; ++i) guarded += u[i].tracked.load(std::memory_order_relaxed);
    u->length = static_cast<std::uint32_t>(keep);
    u->guarded.fetch_sub(guarded, std::memory_order_relaxed);
    rest->address = from;
    add_relaxed<std::uint64_t>(l.units, std::uint64_t{keep} - n);
    release_guarded(rest, n - keep);
}

inline void give_newer_runs(batch_record& b, lane& l, unit const* mark) noexcept {
    while (l.runs != mark) {
        unit* const       u = l.runs;
        std::size_t const n = u->length;
        l.runs              = u->next;
        add_relaxed<std::uint64_t>(l.units, ~std::uint64_t{n} + 1);
        if (u->guarded.load(std::memory_order_relaxed)) release_guarded(u, n);
        else give_run(*b.slabs, u, n, generation_of(table_word(u->address).load(std::memory_order_relaxed)) + 1);
    }
}

inline void set_cursor(lane& l, std::uintptr_t at) noexcept {
    moving_guard const moving(l);
    l.window_begin.store(at, std::memory_order_release);
    l.cursor.store(cursor_at(at), std::memory_order_release);
    l.window_top = l.run_end = at;
    l.window_end.store(0, std::memory_order_relaxed);
}

/// Restores the lane, except that it goes on in a hole.
inline void take_back(batch_record& b, lane& l, checkpoint_record& c) noexcept {
    lane_mark const* const m = c.mark_of(l);
    leave_hole(l);
    if (l.holes && !c.find(l.holes)) finish_filling(l);  // the unit goes with what is newer
    give_newer_runs(b, l, m ? m->runs : nullptr);
    if (!m || (!m->runs && !m->hole_end)) return set_cursor(l, m ? m->cursor : 0);
    set_cursor(l, m->cursor);
    if (m->hole_end) return reopen(b, l, m->cursor, m->hole_end);
    if (!m->goes_on) return;
    std::uintptr_t const next = (m->cursor + unit_bytes - 1) & ~(unit_bytes - 1);
    std::uintptr_t const cut  = std::max(next, m->runs->address + unit_bytes);  // a run is never empty
    cut_run(l, m->runs, cut);
    m->runs->used_end.store(m->cursor, std::memory_order_relaxed);
    if (m->cursor < cut) reopen(b, l, m->cursor, cut);
}

inline void give_newer_large(batch_record& b, checkpoint_record const& c) noexcept {
    while (b.large != c.large) {
        unit* const u = b.large;
        unlink_large(b, u);
        give_large(u);
    }
    for (unit* u = b.large; u; u = u->next)
        if (std::uint32_t& given_up = rest_at(u->address).given_up; given_up == c.depth) given_up = 0;
}

}  // namespace tenure::detail
