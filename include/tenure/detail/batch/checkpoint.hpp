// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <tenure/detail/batch/batch_record.hpp>
#include <tenure/detail/unit/region.hpp>

namespace tenure::detail {

/// A batch's checkpoint, as far as others know it: what its memory may still be used for, and what becomes of it at
/// the end. Whoever takes one brings the rest along: checkpoints/. A batch has a list of them, the newest first,
/// which belongs to the thread that may set `undoing`.
struct checkpoint_front {
    checkpoint_front* below = nullptr;
    std::uint32_t     depth = 1;

    /// Returns whether the bytes at `a` were the batch's at this checkpoint.
    virtual bool covers(std::uintptr_t a) const noexcept = 0;

    /// Drops this checkpoint and all below it. What is under them can be written to, transferred and freed again.
    virtual void drop_all(batch_record& b) noexcept = 0;

    /// Rolls back, for a guard that closes while checkpoints are open, if the stack is unwinding and on_exception
    /// asks for it.
    virtual void guard_closes(batch_record& b, std::uint64_t id) noexcept = 0;

    /// Mends this checkpoint and all below it, in a forked child.
    virtual void mend_all() noexcept = 0;

protected:
    checkpoint_front() noexcept                          = default;
    checkpoint_front(checkpoint_front const&)            = delete;
    checkpoint_front& operator=(checkpoint_front const&) = delete;
    ~checkpoint_front()                                  = default;
};

inline bool has_checkpoint(batch_record const& b) noexcept {
    return b.state.load(std::memory_order_acquire) & batch_flags::checkpointed;
}

/// Returns whether the bytes at `a` were the batch's at its newest checkpoint. The caller holds the batch.
TENURE_COLD inline bool is_under_checkpoint(batch_record const& b, std::uintptr_t a) noexcept {
    return b.undo && b.undo->covers(a);
}

/// Marks a large piece of resource() that its container gave back: a rollback still needs it.
TENURE_COLD inline void give_up_large(batch_record const& b, unit* u) noexcept {
    rest_at(u->address).given_up = b.undo->depth;
}

}  // namespace tenure::detail
