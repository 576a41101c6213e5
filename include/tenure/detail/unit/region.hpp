// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/memory_tools.hpp>
#include <tenure/detail/base/spin_lock.hpp>
#include <tenure/detail/base/zeroed_atomic.hpp>
#include <tenure/detail/blocks/block_list.hpp>
#include <tenure/detail/space/address_space.hpp>
#include <tenure/detail/unit/hole_list.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure::detail {

inline constexpr std::size_t line_bytes   = 64;  ///< what is recycled between kept objects: all of it or nothing
inline constexpr std::size_t lines_a_unit = unit_bytes / line_bytes;

inline constexpr std::size_t granules_a_word = 32;
inline constexpr std::size_t words_a_unit    = unit_bytes / (granules_a_word << granule_shift);
inline constexpr std::size_t lines_a_word    = lines_a_unit / words_a_unit;
inline constexpr std::size_t words_a_group   = 64 / lines_a_word;  ///< whose lines are one word of tracking::fresh

/// One bit for each granule.
using granule_bits = zeroed_atomic<std::uint32_t>[words_a_unit];

struct unit;
struct lane;
struct run_cache;
struct saved_area;

/// What batch `owner` owns of a unit, mostly of one that is another batch's memory. A unit has a share for each
/// such batch.
struct share {
    batch_record*  owner;
    unit*          where;
    share*         next_here;   ///< in the unit, under its lock
    share*         next_owned;  ///< in the owner, under the owner's lock
    share*         prev_owned;
    std::uintptr_t base;      ///< address of `where`
    std::uint32_t  granules;  ///< number of bits set in `objects`
    bool           embedded;  ///< in `tracking`, not on the heap
    granule_bits   objects;
};

/// What a unit needs to know when its objects no longer live and die together. It has its place in the region from
/// the start, so that free() and the end of a batch never allocate; it takes memory only when touched. Guarded by
/// the unit's lock. Accesses also read the first three without it (see liveness.hpp).
///
/// A *fresh* line was given out whole in the unit's generation, and nothing in it is dead, whatever `dead` says:
/// that stays as it was before, all ones. Most lines are never asked about one by one.
struct tracking {
    zeroed_atomic<std::uint64_t> fresh[lines_a_unit / 64];
    granule_bits                 dead;
    zeroed_atomic<std::uint32_t> pass[lines_a_unit];       ///< low half of the generation when it was given out
    std::uint64_t                room[words_a_unit / 64];  ///< free words, as bits, when last looked at
    std::uint16_t                changed;                  ///< since the unit had no home: a bit for each group
    share                        own[2];                   ///< most units never have more
};

enum class unit_state : std::uint8_t { unused, free, owned };

/// One 64 KiB unit of slab memory. A run is one or more neighbouring units with one generation and one home.
/// `head` is its first unit; fields marked "head" count only there. Ends walk these, so they are small: what few
/// units need is in unit_rest.
struct unit {
    std::uintptr_t               address;  ///< head
    zeroed_atomic<unit*>         head;
    zeroed_atomic<batch_record*> home;          ///< head: whose memory it is; null if only shares hold it
    zeroed_atomic<lane*>         maker;         ///< head: the lane whose list has the entries made here
    unit*                        next;          ///< head: in its lane, cache or free list
    unit*                        prev;          ///< head: if that list is doubly linked
    run_cache*                   origin;        ///< head: cache of the thread that took it, or null
    zeroed_atomic<std::uint64_t> used_end;      ///< head: where its lane stopped; else taken_for(), or 0
    zeroed_atomic<std::size_t>   large_bytes;   ///< head: the length of a large object's extent, else 0
    zeroed_atomic<std::uint32_t> large_offset;  ///< head: where that extent begins
    std::uint32_t                length;        ///< head, and last unit of a free run
    zeroed_atomic<std::uint32_t> guarded;       ///< head: how many of the run's units are tracked
    zeroed_atomic<std::uint32_t> over;  ///< small unit, head of a large run: number of the last background end
                                        ///< here; 0: no owner is `reclaim_pending`
    unit_state          state;          ///< under the depot's lock
    bool                dirty;          ///< touched since its pages were last dropped
    bool                huge;           ///< huge pages were asked for
    zeroed_atomic<bool> tracked;        ///< `tracking` is in use
    spin_lock           lock;           ///< guards `tracked`, `tracking` and the first part of unit_rest

    /// Says for which batch a lane took the run, until the lane stops there; for messages about stale handles.
    void taken_for(std::uint64_t id) noexcept { used_end.store(id << 1 | 1, std::memory_order_relaxed); }

    /// Returns where the lane stopped, 0 while it has not.
    std::uintptr_t stopped_at() const noexcept {
        std::uint64_t const u = used_end.load(std::memory_order_relaxed);
        return u & 1 ? 0 : u;
    }
    /// Returns the id of the batch for which the run was taken last; 0 if that is not known any more.
    std::uint64_t last_taker() const noexcept {
        std::uint64_t const u = used_end.load(std::memory_order_relaxed);
        return u & 1 ? u >> 1 : 0;
    }
};
static_assert(sizeof(unit) == 96);

/// The rest of what is known of a unit: of one whose objects do not live and die together, one that was paged out,
/// one under a checkpoint, one whose batch went before its end. Memory that is zero is one that is none of these.
struct unit_rest {
    zeroed_atomic<share*>     shares;
    lane*                     filling;     ///< the lane that makes objects in its holes now, or null
    batch_record*             counted_by;  ///< without a home: the batch whose `shared_units` counts it
    std::uintptr_t            self;        ///< the unit's address, once it was tracked
    std::uint32_t             live;        ///< without a home: granules that are not dead
    std::uint32_t             deaths;      ///< granules freed since its holes were last looked at
    zeroed_atomic<hole_list*> listed;      ///< where it stands for its holes; under the supply's `holes_lock`
    unit_rest*                next_hole;   ///< in that list, under that lock
    unit_rest*                prev_hole;
    std::uint32_t             passes;  ///< generations since it was tracked, or since the oldest of what lives here
    std::uint32_t             first_pass;  ///< `passes` when it became the memory of its home

    std::uint32_t                given_up;  ///< head: depth of the checkpoint that keeps a large piece; 0: none
    zeroed_atomic<std::uint64_t> filed;     ///< id of the batch that mapped it from the page file; 0: none
    zeroed_atomic<saved_area*>   undo;      ///< the saved area that notes what is written here, or null
    zeroed_atomic<std::uint64_t> expiry;    ///< the last batch here that went before its end: expiry.hpp
};

struct supply;

/// A stretch of slab memory, one block of a store, with the descriptors of its units beside it.
struct region {
    std::uintptr_t base;
    std::size_t    count;
    unit*          units;  ///< an unused unit lies before and after them, and stops the depot's joining
    unit_rest*     rests;
    tracking*      tracks;
    region*        next;
    std::size_t    own_bytes;  ///< of this block of descriptors
    supply*        from;
    block          memory;  ///< in the store of that supply
    block_list*    end;     ///< room for `memory`, if the store cannot take it back

    zeroed_atomic<std::uint32_t> tracked;  ///< units that have ever been, whose `tracking` takes memory

    unit*     at(std::uintptr_t address) noexcept { return units + ((address - base) >> unit_shift); }
    tracking* track(unit const* u) noexcept { return tracks + (u - units); }

    tracking&  track_at(std::uintptr_t address) noexcept { return tracks[(address - base) >> unit_shift]; }
    unit_rest& rest_at(std::uintptr_t address) noexcept { return rests[(address - base) >> unit_shift]; }

    std::uintptr_t base_of(unit const* u) const noexcept {
        return base + (static_cast<std::size_t>(u - units) << unit_shift);
    }
};

/// Set in the table of regions when nothing lives in a region and it is about to be unmapped: read_section.hpp.
inline constexpr std::uintptr_t leaving_bit = 1;

/// Returns the region at an address, for a read_section that has not found it yet, or null if there is none, or if
/// it is leaving. To be called once: a second call may find another region, or none.
[[gnu::always_inline]] inline region* find_region(std::uintptr_t address) noexcept {
    region* const r = tables.regions[address >> region_shift].load(std::memory_order_acquire);
    return reinterpret_cast<std::uintptr_t>(r) & leaving_bit ? nullptr : r;
}

/// Returns the region of an object that the caller's read_section has found alive, or whose batch the caller
/// holds.
inline region* region_of(std::uintptr_t address) noexcept {
    region* const r = tables.regions[address >> region_shift].load(std::memory_order_acquire);
    return reinterpret_cast<region*>(reinterpret_cast<std::uintptr_t>(r) & ~leaving_bit);
}

/// A unit with all that belongs to it.
struct place {
    region*        where;
    unit*          u;
    std::uintptr_t base;

    tracking&              track() const noexcept { return where->track_at(base); }
    unit_rest&             rest() const noexcept { return where->rest_at(base); }
    unit*                  head() const noexcept { return u->head.load(std::memory_order_relaxed); }
    zeroed_atomic<word_t>& word() const noexcept { return table_word(base); }
};

[[gnu::always_inline]] inline place place_in(region& r, std::uintptr_t address) noexcept {
    return {&r, r.at(address), address & ~(unit_bytes - 1)};
}
[[gnu::always_inline]] inline place place_at(std::uintptr_t address) noexcept {
    return place_in(*region_of(address), address);
}

inline unit*      unit_at(std::uintptr_t address) noexcept { return region_of(address)->at(address); }
inline unit_rest& rest_at(std::uintptr_t address) noexcept { return region_of(address)->rest_at(address); }

/// Allocates a block of an addressable store, aligned as a region must be. Errors: the store's; bad_alignment.
inline result<std::pair<block, std::byte*>> take_region_memory(any_store& store, std::size_t bytes) {
    result<block> const memory = store.allocate(bytes, region_grain);
    if (!memory) return memory.error();
    result<std::byte*> const at  = store.try_address(*memory);
    std::error_code          why = at ? std::error_code() : at.error();
    if (at && (detail::to_address(*at) % region_grain || detail::to_address(*at) + bytes > std::uintptr_t{1}
                                                                                               << address_bits))
        why = make_error_code(errc::bad_alignment);
    if (!why) return std::pair(*memory, *at);
    [[maybe_unused]] auto const given_back = store.deallocate({&*memory, 1});  // it is fresh, and `why` is set
    return why;
}

/// Maps a region of at least `bytes`. Errors: the store's, bad_alignment, memory_full; then nothing is held.
TENURE_COLD inline result<region*> map_region(any_store& store, supply* from, std::size_t bytes) {
    bytes = (bytes + region_grain - 1) & ~(region_grain - 1);

    std::size_t const count = bytes >> unit_shift;
    std::size_t const own =
        sizeof(region) + count * (sizeof(unit) + sizeof(unit_rest) + sizeof(tracking)) + 2 * sizeof(unit);
    owned_block_list end = make_block_list(1);
    if (!end) return make_error_code(errc::memory_full);
    auto const taken = take_region_memory(store, bytes);
    if (!taken) return taken.error();
    auto const [memory, slab]     = *taken;
    std::uintptr_t const base     = detail::to_address(slab);
    void* const          metadata = reserve(own, access::read_write);
    if (!metadata || !make_writable(&table_word(base), count * sizeof(word_t))) {
        if (metadata) give_back(metadata, own);
        [[maybe_unused]] auto const given_back = store.deallocate({&memory, 1});
        return make_error_code(errc::memory_full);
    }
    slab_mapped(slab, bytes);
    slab_mapped(metadata, own);
    run_given_back(slab, bytes);
    auto* r      = static_cast<region*>(metadata);  // zero-filled, which all of these types allow
    r->base      = base;
    r->count     = count;
    r->own_bytes = own;
    r->from      = from;
    r->memory    = memory;
    r->end       = end.release();
    r->units     = reinterpret_cast<unit*>(r + 1) + 1;
    r->rests     = reinterpret_cast<unit_rest*>(r->units + count + 1);
    r->tracks    = reinterpret_cast<tracking*>(r->rests + count);
    for (std::size_t i = 0; i < count; ++i) {
        auto& word = table_word(base + (i << unit_shift));
        if (word.load(std::memory_order_relaxed) == 0) word.store(whole_word(1), std::memory_order_relaxed);
    }
    for (std::uintptr_t a = base; a < base + bytes; a += region_grain)
        tables.regions[a >> region_shift].store(r, std::memory_order_release);
    return r;
}

/// Hides the region from every read_section that begins from here on.
inline void mark_leaving(region* r) noexcept {
    auto* const          entry = reinterpret_cast<region*>(reinterpret_cast<std::uintptr_t>(r) | leaving_bit);
    std::uintptr_t const end   = r->base + (r->count << unit_shift);
    for (std::uintptr_t a = r->base; a < end; a += region_grain)
        tables.regions[a >> region_shift].store(entry, std::memory_order_release);
}

/// Unmaps a region. Its generations stay in the table. Every handle into it must be stale, and no read_section
/// open that may have found it. Returns what the store could not take back, and sets `why`.
inline owned_block_list unmap_region(any_store& store, region* r, std::error_code& why) noexcept {
    owned_block_list     memory(r->end);
    std::size_t const    bytes = r->count << unit_shift;
    std::uintptr_t const base  = r->base;
    for (std::uintptr_t a = base; a < base + bytes; a += region_grain)
        tables.regions[a >> region_shift].store(nullptr, std::memory_order_release);
    slab_unmapped(r, r->own_bytes);
    slab_unmapped(to_pointer(base), bytes);
    unpoison(to_pointer(base), bytes);  // the next user of these addresses knows nothing of us
    memory->add(r->memory);
    give_back(r, r->own_bytes);
    if (auto const done = store.deallocate(memory->blocks()); !done) why = done.error();
    else memory.reset();
    return memory;
}

}  // namespace tenure::detail
