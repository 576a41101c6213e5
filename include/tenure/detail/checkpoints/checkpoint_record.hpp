// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tenure/detail/batch/checkpoint.hpp>
#include <tenure/detail/blocks/block_list.hpp>
#include <tenure/detail/buffers/buffer_record.hpp>
#include <tenure/detail/buffers/stored.hpp>
#include <tenure/detail/checkpoints/saved_area.hpp>
#include <tenure/detail/objects/batch_figures.hpp>

namespace tenure::detail {

/// The state of a lane at a checkpoint. Lists grow at the front, and what they hold stays until the checkpoint is
/// over. So what comes before `runs` and `entries` is newer.
struct lane_mark {
    lane*          where;
    unit*          runs;
    entry*         entries;
    std::uintptr_t cursor;
    bool           goes_on;   ///< the lane goes on in the first of `runs`, behind the cursor
    std::uintptr_t hole_end;  ///< or it goes on in a hole up to here; else 0
};

/// Addresses of entries that stand in the batch's lists although their objects are no longer the batch's: other
/// batches have them, or they have ended. The bytes of such an entry come back to the batch once its object ends,
/// and stay until the entry has left the list. So they are as old as the list, whenever they come back.
class entry_addresses {
public:
    void add(entry const* e) { all_.push_back(to_address(e)); }  // may throw std::bad_alloc
    void sort() noexcept { std::ranges::sort(all_); }

    bool has(entry const* e) const noexcept { return std::ranges::binary_search(all_, to_address(e)); }
    /// Returns whether one of them has bytes in the unit at `base`.
    bool any_in(std::uintptr_t base) const noexcept {
        auto const next = first_in(base);
        return next != all_.end() && *next < base + unit_bytes;
    }
    /// Removes what they have of the unit at `base`.
    void drop_from(granule_mask& mask, std::uintptr_t base) const noexcept {
        for (auto at = first_in(base); at != all_.end() && *at < base + unit_bytes; ++at)
            mask.drop(std::max(*at, base), std::min(*at + sizeof(entry), base + unit_bytes));
    }

private:
    std::vector<std::uintptr_t>::const_iterator first_in(std::uintptr_t base) const noexcept {
        return std::ranges::upper_bound(all_, base - sizeof(entry));
    }

    std::vector<std::uintptr_t> all_;
};

struct saved_buffer {
    buffer_record what;
    block         copy;
};

/// Copies of buffers in one store, which one call frees.
struct saved_copies {
    supply*          in;
    owned_block_list blocks;
};

/// One checkpoint of a batch. Newer memory can go. Older memory is in `areas` and stays: it is neither freed nor
/// transferred, and no hole in it is filled.
struct checkpoint_record final : checkpoint_front {
    ~checkpoint_record() {
        if (memory) give_back(memory, reserved);
        for (saved_copies& c : copies) {
            auto const done = c.in->store.deallocate(c.blocks->blocks());
            if (!done) c.in->refused.add(std::move(c.blocks), done.error());
        }
    }

    std::vector<saved_area>   areas;  ///< ordered by address
    std::vector<lane_mark>    lanes;
    entry_addresses           listed;
    unit*                     large        = nullptr;
    entry*                    inbox        = nullptr;
    entry*                    first_buffer = nullptr;
    std::vector<saved_buffer> buffers;
    std::vector<saved_copies> copies;
    std::uint64_t             objects = 0, bytes = 0;  ///< in use at the checkpoint
    void*                     memory   = nullptr;      ///< for copies of pages; address space until it is used
    std::size_t               reserved = 0;

    checkpoint_record* older() const noexcept { return static_cast<checkpoint_record*>(below); }

    bool covers(std::uintptr_t a) const noexcept override {
        saved_area const* const x = find(a);
        return x && x->has(a);
    }
    void drop_all(batch_record& b) noexcept override;
    void guard_closes(batch_record& b, std::uint64_t id) noexcept override;
    void mend_all() noexcept override {
        for (checkpoint_record* c = this; c; c = c->older())
            for (saved_area& x : c->areas) page_saver::finish(x);
    }

    saved_area* find(std::uintptr_t a) noexcept {
        auto const next = std::ranges::upper_bound(areas, a, {}, &saved_area::begin);
        return next != areas.begin() && a < std::prev(next)->last() ? &*std::prev(next) : nullptr;
    }
    saved_area const* find(std::uintptr_t a) const noexcept {
        return const_cast<checkpoint_record*>(this)->find(a);
    }
    lane_mark const* mark_of(lane const& l) const noexcept {
        auto const m = std::ranges::find(lanes, &l, &lane_mark::where);
        return m == lanes.end() ? nullptr : &*m;
    }
};

/// Returns the batch's newest checkpoint, or null.
inline checkpoint_record* newest_checkpoint(batch_record const& b) noexcept {
    return static_cast<checkpoint_record*>(b.undo);
}

}  // namespace tenure::detail
