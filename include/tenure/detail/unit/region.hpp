// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/poison.hpp>
#include <tenure/detail/base/spin_lock.hpp>
#include <tenure/detail/base/zeroed_atomic.hpp>
#include <tenure/detail/blocks/block_list.hpp>
#include <tenure/detail/space/address_space.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure::detail {

inline constexpr std::size_t granules_a_line = 32;  ///< 256 bytes: what is recycled between kept objects
inline constexpr std::size_t lines_a_unit    = unit_bytes / (granules_a_line << granule_shift);

/// One bit a granule, one word a line.
using granule_bits = zeroed_atomic<std::uint32_t>[lines_a_unit];

struct unit;
struct lane;
struct run_cache;
struct saved_area;

/// Batch `owner` owns some objects of a unit, mostly one whose memory is not its own. A unit has one for each such
/// batch.
struct share {
    batch_record*  owner;
    unit*          where;
    share*         next_here;   ///< in the unit, under its lock
    share*         next_owned;  ///< in the owner, under the owner's lock
    share*         prev_owned;
    std::uintptr_t base;      ///< address of `where`
    std::uint32_t  granules;  ///< how many bits of `objects` are set
    bool           embedded;  ///< in `tracking`, not from the heap
    granule_bits   objects;
};

/// What a unit needs to know once its objects no longer live and die together. It has its place in the region from
/// the start, so that free() and the end of a batch never allocate; it is memory only once touched. Under the
/// unit's lock; `dead` and `pass` are also read without it, by accesses (see liveness.hpp).
struct tracking {
    granule_bits                dead;
    zeroed_atomic<std::uint8_t> pass[lines_a_unit];  ///< generation of the line, above the unit's
    share                       own[2];              ///< most units never have more
};

enum class unit_state : std::uint8_t { unused, free, owned };

/// One 64 KiB unit of slab memory. A run is one or more units in a row with one generation and one home; `head` is
/// its first, and fields so marked count there only.
struct unit {
    std::uintptr_t                address;  ///< head
    zeroed_atomic<unit*>          head;
    zeroed_atomic<batch_record*>  home;      ///< head: whose memory it is; null once only shares hold it
    zeroed_atomic<lane*>          maker;     ///< head: the lane whose list has the entries made here
    unit*                         next;      ///< head: in its lane, cache or free list
    unit*                         prev;      ///< head: where that list is doubly linked
    run_cache*                    origin;    ///< head: of the thread that took it, or null
    std::uint32_t                 length;    ///< head, and last unit of a free run
    zeroed_atomic<std::uint32_t>  guarded;   ///< head: how many of the run's units are tracked
    unit_state                    state;     ///< under the depot's lock
    bool                          dirty;     ///< touched since its pages were last dropped
    bool                          huge;      ///< huge pages were asked for
    std::uint32_t                 given_up;  ///< head: a large piece that a checkpoint keeps; which one, from 1
    zeroed_atomic<std::uint64_t>  filed;     ///< id of the batch that mapped it from the page file; 0: nobody did
    spin_lock                     lock;      ///< what follows
    zeroed_atomic<bool>           tracked;   ///< `tracking` is in use
    lane*                         filling;   ///< who makes objects in its holes now, or null
    std::uint16_t                 passes;    ///< how often holes were filled in this generation
    zeroed_atomic<share*>         shares;
    std::uint32_t                 live;          ///< without a home: granules that are not dead
    zeroed_atomic<std::uintptr_t> used_end;      ///< head: where its lane stopped; 0 while it has not
    zeroed_atomic<std::uint32_t>  large_offset;  ///< head: where a large object's extent begins
    zeroed_atomic<std::size_t>    large_bytes;   ///< head: its length, else 0
    std::uintptr_t                self;          ///< its address, while tracked
    std::uint32_t                 deaths;        ///< granules freed since its holes were last looked at
    batch_record*                 counted_by;    ///< without a home: whose `retained` it is part of
    zeroed_atomic<lane*>          queue;      ///< in whose list of units with holes it is; under its batch's lock
    unit*                         next_hole;  ///< likewise
    unit*                         prev_hole;
    zeroed_atomic<std::uint32_t>  over;   ///< small units, head of a large run: the number of the last burial here;
                                          ///< 0: no owner is `reclaim_pending`
    zeroed_atomic<saved_area*>   undo;    ///< who notes what is written here, or null
    zeroed_atomic<std::uint64_t> expiry;  ///< the last batch here that went before its end: expiry.hpp
};

struct supply;

/// A stretch of slab memory, one block of a store, with the descriptors of its units beside it.
struct region {
    std::uintptr_t base;
    std::size_t    count;
    unit*          units;  ///< with an unused one before the first and after the last, for the depot to bump into
    tracking*      tracks;
    region*        next;
    std::size_t    own_bytes;  ///< of this block of descriptors
    supply*        from;
    block          memory;  ///< in the store of that supply
    block_list*    end;     ///< for the case that the store cannot take it back

    unit*     at(std::uintptr_t address) noexcept { return units + ((address - base) >> unit_shift); }
    tracking* track(unit const* u) noexcept { return tracks + (u - units); }

    std::uintptr_t base_of(unit const* u) const noexcept {
        return base + (static_cast<std::size_t>(u - units) << unit_shift);
    }
};

/// Set in the table of regions once nothing lives in a region and it is about to be unmapped: read_section.hpp.
inline constexpr std::uintptr_t leaving_bit = 1;

/// The region at an address, for a read_section that has not found it yet. Null: there is none, or it is leaving.
/// To be loaded once: a second look may find another one, or none.
inline region* find_region(std::uintptr_t address) noexcept {
    region* const r = tables.regions[address >> region_shift].load(std::memory_order_acquire);
    return reinterpret_cast<std::uintptr_t>(r) & leaving_bit ? nullptr : r;
}

/// The region of an object that the caller's read_section has found alive, or whose batch the caller holds.
inline region* region_of(std::uintptr_t address) noexcept {
    region* const r = tables.regions[address >> region_shift].load(std::memory_order_acquire);
    return reinterpret_cast<region*>(reinterpret_cast<std::uintptr_t>(r) & ~leaving_bit);
}

/// A unit with all that belongs to it.
struct place {
    region*        where;
    unit*          u;
    std::uintptr_t base;

    tracking&              track() const noexcept { return *where->track(u); }
    unit*                  head() const noexcept { return u->head.load(std::memory_order_relaxed); }
    zeroed_atomic<word_t>& word() const noexcept { return table_word(base); }
};

[[gnu::always_inline]] inline place place_in(region& r, std::uintptr_t address) noexcept {
    return {&r, r.at(address), address & ~(unit_bytes - 1)};
}
[[gnu::always_inline]] inline place place_at(std::uintptr_t address) noexcept {
    return place_in(*region_of(address), address);
}

inline unit*          unit_at(std::uintptr_t address) noexcept { return region_of(address)->at(address); }
inline void*          to_pointer(std::uintptr_t address) noexcept { return reinterpret_cast<void*>(address); }
inline std::uintptr_t to_address(void const* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

/// A block of an addressable store, aligned as a region must be.
inline result<std::pair<block, std::byte*>> take_region_memory(any_store& store, std::size_t bytes) {
    result<block> const memory = store.allocate(bytes, region_grain);
    if (!memory) return memory.error();
    result<std::byte*> const at  = store.try_address(*memory);
    std::error_code          why = at ? std::error_code() : at.error();
    if (at && (detail::to_address(*at) % region_grain || detail::to_address(*at) + bytes > std::uintptr_t{1}
                                                                                               << address_bits))
        why = make_error_code(errc::bad_alignment);
    if (!why) return std::pair(*memory, *at);
    [[maybe_unused]] auto const given_back = store.deallocate({&*memory, 1});  // it is fresh, and we have a reason
    return why;
}

/// A region of at least `bytes`, or why not; then nothing is held.
TENURE_COLD inline result<region*> map_region(any_store& store, supply* from, std::size_t bytes) {
    bytes = (bytes + region_grain - 1) & ~(region_grain - 1);

    std::size_t const count = bytes >> unit_shift;
    std::size_t const own   = sizeof(region) + count * (sizeof(unit) + sizeof(tracking)) + 2 * sizeof(unit);
    owned_block_list  end   = make_block_list(1);
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
    auto* r      = static_cast<region*>(metadata);  // zero-filled, and all of these types are fine with that
    r->base      = base;
    r->count     = count;
    r->own_bytes = own;
    r->from      = from;
    r->memory    = memory;
    r->end       = end.release();
    r->units     = reinterpret_cast<unit*>(r + 1) + 1;
    r->tracks    = reinterpret_cast<tracking*>(r->units + count + 1);
    for (std::size_t i = 0; i < count; ++i) {
        auto& word = table_word(base + (i << unit_shift));
        if (word.load(std::memory_order_relaxed) == 0) word.store(whole_word(1), std::memory_order_relaxed);
    }
    for (std::uintptr_t a = base; a < base + bytes; a += region_grain)
        tables.regions[a >> region_shift].store(r, std::memory_order_release);
    return r;
}

/// No read_section that begins from here on finds the region.
inline void mark_leaving(region* r) noexcept {
    auto* const          entry = reinterpret_cast<region*>(reinterpret_cast<std::uintptr_t>(r) | leaving_bit);
    std::uintptr_t const end   = r->base + (r->count << unit_shift);
    for (std::uintptr_t a = r->base; a < end; a += region_grain)
        tables.regions[a >> region_shift].store(entry, std::memory_order_release);
}

/// The generations stay in the table. Every handle into the region is stale by now, and no read_section that may
/// have found the region is open. Returns what the store could not take back, and says why.
inline owned_block_list unmap_region(any_store& store, region* r, std::error_code& why) noexcept {
    owned_block_list     memory(r->end);
    std::size_t const    bytes = r->count << unit_shift;
    std::uintptr_t const base  = r->base;
    for (std::uintptr_t a = base; a < base + bytes; a += region_grain)
        tables.regions[a >> region_shift].store(nullptr, std::memory_order_release);
    slab_unmapped(r, r->own_bytes);
    slab_unmapped(to_pointer(base), bytes);
    unpoison(to_pointer(base), bytes);  // whoever maps these addresses next knows nothing of us
    memory->add(r->memory);
    give_back(r, r->own_bytes);
    if (auto const done = store.deallocate(memory->blocks()); !done) why = done.error();
    else memory.reset();
    return memory;
}

}  // namespace tenure::detail
