// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/batch/limits.hpp>
#include <tenure/detail/batch/process.hpp>
#include <tenure/detail/batch/release.hpp>

namespace tenure::detail {

/// What all others do for batches that have a deadline, which is nothing if none has.

/// The earlier of two deadlines, of which 0 never comes.
constexpr std::uint64_t earlier(std::uint64_t a, std::uint64_t b) noexcept { return a - 1 < b - 1 ? a : b; }

/// Returns the batch's own deadline, 0: none.
inline std::uint64_t due_set(batch_record const& b) noexcept {
    return b.rest.timer.deadline.load(std::memory_order_relaxed);
}

/// Returns when the batch expires, or one above it; 0: never. Cost: a step for each batch with limits above it.
inline std::uint64_t due_of(batch_record const& b) noexcept {
    std::uint64_t due = 0;
    if (!timing_used_anywhere.load(std::memory_order_relaxed)) return due;
    for (batch_record const* up = b.limited; up; up = limited_above(up)) due = earlier(due, due_set(*up));
    return due;
}

/// Returns when a batch expires as due_of() does, for a caller that does not hold it. Cost: a step for each batch
/// above it.
inline std::uint64_t due_seen(batch_record const& b) noexcept {
    std::uint64_t due = 0;
    for (batch_record const* up = &b; up; up = up->parent.load(std::memory_order_acquire))
        due = earlier(due, due_set(*up));
    return due;
}

inline bool is_overdue(batch_record const& b) noexcept {
    std::uint64_t const due = due_of(b);
    return due && b.registry.load(std::memory_order_relaxed)->timing->now() >= due;
}

/// Whether each make in the batch looks at the clock itself: there is a deadline that nobody watches.
inline bool minds_the_clock(batch_record const& b) noexcept {
    return b.limited && due_of(b) &&
           !b.registry.load(std::memory_order_relaxed)->timing->watched.load(std::memory_order_relaxed);
}

/// Expires the batch if its time is up, with all above it whose time is up. The caller is inside the batch, or
/// holds it. False: there is time left.
TENURE_COLD inline bool notice_deadline(batch_record& b) noexcept {
    if (!is_overdue(b)) return false;
    batch_record* top = b.limited;
    for (batch_record* up = limited_above(top); up && is_overdue(*up); up = limited_above(up)) top = up;
    top->registry.load(std::memory_order_relaxed)
        ->timing->stop(*top, top->id.load(std::memory_order_relaxed), errc::expired);
    return b.closed();
}

/// Expires a batch if its time is up and nobody watches deadlines. The caller is inside it, holds it, or has its
/// guard. Looks at nothing but the state of a batch that is over: a guard alone does not keep the rest.
inline void mind_the_clock(batch_record& b) noexcept {
    if (!timing_used_anywhere.load(std::memory_order_relaxed)) [[likely]]
        return;
    if (!b.closed() && b.limited && minds_the_clock(b)) notice_deadline(b);
}

/// Expires a batch as mind_the_clock() does, for a caller outside: holds it before looking at anything of its
/// registry.
inline void look_at_the_clock(batch_record& b, std::uint64_t id) noexcept {
    if (!timing_used_anywhere.load(std::memory_order_relaxed)) [[likely]]
        return;
    if (!hold_or_root(b, id) || is_root(b)) return;
    mind_the_clock(b);
    release_hold(&b);
}

}  // namespace tenure::detail
