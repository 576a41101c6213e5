// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <tenure/detail/base/zeroed_atomic.hpp>
#include <tenure/detail/checkpoints/checkpoint_record.hpp>
#include <tenure/detail/life/reclaim.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Finds and watches a batch's memory at a checkpoint. Nobody else is in the batch.

/// Returns which granules of a tracked unit are the batch's. Call it under the unit's lock.
inline granule_mask granules_of(batch_record const& b, place p) noexcept {
    granule_mask mask{};
    bool const   at_home = p.head()->home.load(std::memory_order_relaxed) == &b;
    for (std::size_t i = 0; i < words_a_unit; ++i) {
        std::uint32_t mine = at_home ? ~dead_in(p.track(), i) : 0;
        for (share const* s = p.rest().shares.load(std::memory_order_relaxed); s; s = s->next_here) {
            std::uint32_t const bits = s->objects[i].load(std::memory_order_relaxed);
            mine                     = s->owner == &b ? mine | bits : mine & ~bits;
        }
        mask.bits[i] = mine;
    }
    return mask;
}

/// Returns the batch's part of a unit that others also own parts of, or in which a lane fills a hole. Throws
/// std::bad_alloc.
inline saved_area masked_area(batch_record const& b, place p, std::uintptr_t end, lane_mark const* filler) {
    saved_area x{.begin = p.base, .end = end, .mask = std::make_unique<granule_mask>()};
    {
        std::scoped_lock const guard(p.u->lock);
        *x.mask = granules_of(b, p);
    }
    x.mask->keep(p.base, end);
    if (filler) x.mask->drop(filler->cursor, filler->hole_end);
    return x;
}

/// Adds areas for [begin, end), which begins at a unit's begin. Neighbouring units that only the batch owns are
/// one area.
inline void add_areas(std::vector<saved_area>& to, batch_record const& b, std::vector<lane_mark> const& lanes,
                      std::uintptr_t begin, std::uintptr_t end) {
    bool joins = false;
    for (std::uintptr_t a = begin; a < end; a += unit_bytes) {
        std::uintptr_t const stop   = std::min(a + unit_bytes, end);
        lane_mark const*     filler = nullptr;
        for (lane_mark const& m : lanes)
            if (m.hole_end && ((m.hole_end - 1) ^ a) < unit_bytes) filler = &m;
        bool const mine = !filler && is_all_of(b, place_at(a));
        if (!mine) to.push_back(masked_area(b, place_at(a), stop, filler));
        else if (joins) to.back().end = stop;
        else to.push_back({a, stop});
        joins = mine;
    }
}

/// Returns where the batch's use of a run ends: where its lane stands or stopped. A unit in which the lane stopped
/// counts whole, because the rest may have been filled as a hole.
inline std::uintptr_t end_of_use(unit const* u, lane_mark const& m) noexcept {
    if (m.goes_on && u == m.runs) return m.cursor;
    std::uintptr_t const used = u->stopped_at();
    return used ? (used + unit_bytes - 1) & ~(unit_bytes - 1) : u->address + (std::size_t{u->length} << unit_shift);
}

/// Returns the areas of the batch, ordered by address: those of its memory, and of each unit to which an entry that
/// is `listed` may come back. Throws std::bad_alloc.
inline std::vector<saved_area> areas_of(batch_record& b, std::vector<lane_mark> const& lanes,
                                        entry_addresses const& listed) {
    std::vector<saved_area> out;
    auto const              add_whole = [&](std::uintptr_t begin, std::uintptr_t end) {
        if (begin < end) out.push_back({begin, end});
    };
    for (lane_mark const& m : lanes)
        for (unit const* u = m.runs; u; u = u->next) {
            if (u->guarded.load(std::memory_order_relaxed)) add_areas(out, b, lanes, u->address, end_of_use(u, m));
            else add_whole(u->address, end_of_use(u, m));
        }
    for (unit const* u = b.large; u; u = u->next) {
        std::uintptr_t const begin = u->address + u->large_offset.load(std::memory_order_relaxed);
        if (!rest_at(u->address).given_up)
            add_whole(u->address, begin + round_extent(u->large_bytes.load(std::memory_order_relaxed)));
    }
    std::vector<std::uintptr_t> shared;
    for (std::size_t n = 64; n > shared.capacity();) {  // no memory is allocated under the lock
        shared.clear();
        shared.reserve(n);
        n = 0;
        std::scoped_lock const guard(b.lock);
        for (share const* s = b.shares; s; s = s->next_owned)
            if ((s->granules || listed.any_in(s->base)) && ++n <= shared.capacity()) shared.push_back(s->base);
    }
    for (std::uintptr_t const base : shared)
        if (place_at(base).head()->home.load(std::memory_order_relaxed) != &b)
            add_areas(out, b, lanes, base, base + unit_bytes);
    std::ranges::sort(out, {}, &saved_area::begin);
    return out;
}

/// Returns whether the area is watched page by page: if the kernel may take pages of it and one batch owns it
/// alone. Never with ThreadSanitizer: a thread that faults in one of its functions holds a lock that the handler
/// would wait for.
inline bool is_watched(saved_area const& x) noexcept {
    return !TENURE_TSAN && !x.mask && region_of(x.begin)->from->store.capabilities().anonymous;
}

/// Reserves address space for the copies. Throws std::bad_alloc.
inline void give_room(checkpoint_record& c) {
    std::size_t bytes = 0, pages = 0;
    for (saved_area const& x : c.areas) {
        bytes += x.last() - x.first();
        if (is_watched(x)) pages += x.page_count();
    }
    if (bytes == 0) return;
    void* const memory = reserve(bytes + pages, access::read_write);
    if (!memory) raise(std::bad_alloc());
    c.memory   = memory;
    c.reserved = bytes + pages;
#ifdef MADV_NOHUGEPAGE
    ::madvise(memory, c.reserved, MADV_NOHUGEPAGE);  // few pages change, far between
#endif
    auto* copy  = static_cast<std::byte*>(memory);
    auto* state = reinterpret_cast<zeroed_atomic<page_state>*>(copy + bytes);  // zeros: all pages are clean
    for (saved_area& x : c.areas) {
        x.copy = copy;
        copy += x.last() - x.first();
        if (!is_watched(x)) continue;
        x.pages = state;
        state += x.page_count();
    }
}

inline void copy_whole(saved_area& x, bool back) noexcept {
    quiet_tools const quiet;
    void* const       here = to_pointer(x.begin);
    void* const       from = back ? static_cast<void*>(x.copy) : here;
    void* const       to   = back ? here : static_cast<void*>(x.copy);
    if (x.mask) copy_granules(to, from, *x.mask);
    else copy_unchecked(to, from, x.end - x.begin);
}

/// Calls f(begin, end) for stretches of whole pages: the parts of watched areas that part(area) returns,
/// neighbours joined. Stops and returns false once f returns false.
template <class Part, class F>
bool for_stretches_of(std::vector<saved_area>& areas, Part part, F f) {
    std::uintptr_t begin = 0, end = 0;
    for (saved_area& x : areas) {
        if (!x.pages) continue;
        auto const [from, to] = part(x);
        if (from >= to) continue;
        if (from != end) {
            if (begin < end && !f(begin, end)) return false;
            begin = from;
        }
        end = to;
    }
    return begin >= end || f(begin, end);
}

inline void for_units_of(saved_area const& x, saved_area* by) noexcept {
    for (std::uintptr_t a = x.first(); a < x.last(); a += unit_bytes) rest_at(a).undo.store(by);
}

/// Copies at once the page in which each lane goes on, because it is the first that would be written to.
inline void save_last_pages(checkpoint_record& c) noexcept {
    for (lane_mark const& m : c.lanes) {
        saved_area* const x = m.goes_on && m.cursor % page_bytes() ? c.find(m.cursor - 1) : nullptr;
        if (x && x->pages && x->end == m.cursor) x->save_now(x->page_count() - 1);
    }
}

/// Notes changes from now on. Returns false if the system refuses; changes are then not noted.
inline bool watch(checkpoint_record& c) noexcept {
    write_fault::ask_first(&page_saver::on_write);
    for (saved_area& x : c.areas) {
        if (x.pages) for_units_of(x, &x);
        else copy_whole(x, false);
    }
    save_last_pages(c);
    auto const clean = [](saved_area const& x) {
        bool const partly = x.state(x.page_count() - 1) == page_state::saved;
        return std::pair(x.first(), x.last() - (partly ? page_bytes() : 0));
    };
    return for_stretches_of(c.areas, clean, [](std::uintptr_t begin, std::uintptr_t end) {
        return protect(to_pointer(begin), end - begin, PROT_READ);
    });
}

/// Returns the area of an older checkpoint that watched the page at `a` before and will again, else null. The next
/// older checkpoint may have none, because it found the unit shared and copied its part.
inline saved_area* watched_below(checkpoint_record const& c, std::uintptr_t a) noexcept {
    for (checkpoint_record* older = c.older(); older; older = older->older())
        if (saved_area* const x = older->find(a); x && x->pages) return x;
    return nullptr;
}

/// Stops watching for this checkpoint. Memory that no older checkpoint watches can be written to again.
inline void unwatch(checkpoint_record& c) noexcept {
    auto const all  = [](saved_area const& x) { return std::pair(x.first(), x.last()); };
    auto const open = [](std::uintptr_t begin, std::uintptr_t end) {
        if (begin < end) unprotect(to_pointer(begin), end - begin);
        return true;
    };
    if (!c.below) for_stretches_of(c.areas, all, open);
    for (saved_area const& x : c.areas) {
        if (!x.pages) continue;
        for (std::uintptr_t a = x.first(), unit_end; a < x.last(); a = unit_end) {
            unit_end                = std::min(a + unit_bytes, x.last());
            saved_area* const older = watched_below(c, a);
            if (c.below) open(older ? std::min(older->last(), unit_end) : a, unit_end);
            rest_at(a).undo.store(older);
        }
    }
    std::size_t cuts = 0;
    for (saved_area const& x : c.areas) cuts += x.cuts;
    if (c.below && !c.older()->areas.empty()) c.older()->areas.front().cuts += cuts;
    else cut_mappings.fetch_sub(cuts, std::memory_order_relaxed);
    write_fault::note_end();
    page_saver::await_all();
}

/// Calls f(older area, page in it, copy here) for pages that changed since this checkpoint and not between the
/// older one and this one.
template <class F>
void for_pages_clean_before(checkpoint_record& c, F f) noexcept {
    for (saved_area const& x : c.areas) {
        if (!x.pages) continue;
        x.for_saved([&](std::size_t from, std::size_t to) {
            for (std::size_t i = from; i < to; ++i) {
                auto const        a     = to_address(x.page(i));
                saved_area* const older = watched_below(c, a);
                if (!older) continue;
                std::size_t const k = (a - older->first()) / page_bytes();
                if (older->state(k) == page_state::clean) f(*older, k, x.copy_of(i));
            }
        });
    }
}

}  // namespace tenure::detail
