// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tenure/detail/blocks/block_list.hpp>
#include <tenure/detail/buffers/buffer_record.hpp>
#include <tenure/detail/checkpoints/saved_area.hpp>
#include <tenure/detail/objects/batch_figures.hpp>
#include <tenure/detail/objects/stored.hpp>

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
struct checkpoint_record {
    checkpoint_record() noexcept                           = default;
    checkpoint_record(checkpoint_record const&)            = delete;
    checkpoint_record& operator=(checkpoint_record const&) = delete;
    ~checkpoint_record() {
        if (memory) give_back(memory, reserved);
        for (saved_copies& c : copies) {
            auto const done = c.in->store.deallocate(c.blocks->blocks());
            if (!done) c.in->refused.add(std::move(c.blocks), done.error());
        }
    }

    checkpoint_record*        below = nullptr;
    std::uint32_t             depth = 1;
    std::vector<saved_area>   areas;  ///< ordered by address
    std::vector<lane_mark>    lanes;
    unit*                     large        = nullptr;
    entry*                    inbox        = nullptr;
    entry*                    first_buffer = nullptr;
    std::vector<saved_buffer> buffers;
    std::vector<saved_copies> copies;
    std::uint64_t             objects = 0, bytes = 0;  ///< in use at the checkpoint
    std::size_t               buffer_bytes = 0;
    void*                     memory       = nullptr;  ///< for copies of pages; address space until it is used
    std::size_t               reserved     = 0;

    saved_area* find(std::uintptr_t a) noexcept {
        auto const next = std::upper_bound(areas.begin(), areas.end(), a,
                                           [](std::uintptr_t x, saved_area const& y) { return x < y.begin; });
        return next != areas.begin() && a < std::prev(next)->last() ? &*std::prev(next) : nullptr;
    }
    lane_mark const* mark_of(lane const& l) const noexcept {
        for (lane_mark const& m : lanes)
            if (m.where == &l) return &m;
        return nullptr;
    }
};

inline bool has_checkpoint(batch_record const& b) noexcept {
    return b.state.load(std::memory_order_acquire) & batch_flags::checkpointed;
}

/// Returns whether the bytes at `a` were the batch's at its newest checkpoint. The caller holds the batch.
TENURE_COLD inline bool is_under_checkpoint(batch_record const& b, std::uintptr_t a) noexcept {
    saved_area const* const x = b.undo ? b.undo->find(a) : nullptr;
    return x && x->has(a);
}

/// Marks a large piece of resource() that its container gave back: a rollback still needs it.
TENURE_COLD inline void give_up_large(batch_record const& b, unit* u) noexcept { u->given_up = b.undo->depth; }

}  // namespace tenure::detail
