// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <mutex>
#include <utility>

#include <tenure/detail/batch/holding.hpp>

namespace tenure::detail {

/// The children of a batch that hold it, oldest first, so that what is below a batch is found without a look at any
/// other: see descendants.hpp. A scope that its thread nested in another of its own holds nothing, and is in the
/// thread's chain of guards instead. A root has no list, because it ends with its registry. The lists are guarded
/// by the parent's lock.

/// Lists a batch with its parent, unless it is listed. The caller keeps both from being freed.
inline void list_child(batch_record& parent, batch_record& b) noexcept {
    if (is_root(parent)) return;
    std::scoped_lock const guard(parent.lock);
    if (b.is_listed.load(std::memory_order_relaxed)) return;
    batch_rest& up                                                            = parent.rest;
    b.rest.older_sibling                                                      = up.newest_child;
    b.rest.newer_sibling                                                      = nullptr;
    (up.newest_child ? up.newest_child->rest.newer_sibling : up.oldest_child) = &b;
    up.newest_child                                                           = &b;
    b.is_listed.store(true, std::memory_order_release);
}

/// Takes a batch out of its parent's list, if it is there. Called by the thread that frees it, or gives it another
/// parent, as long as it holds the one it has.
inline void unlist_child(batch_record& b) noexcept {
    if (!b.is_listed.load(std::memory_order_acquire)) return;
    batch_record&          parent = *b.parent.load(std::memory_order_relaxed);
    std::scoped_lock const guard(parent.lock);
    batch_record* const    older                                   = b.rest.older_sibling;
    batch_record* const    newer                                   = b.rest.newer_sibling;
    (older ? older->rest.newer_sibling : parent.rest.oldest_child) = newer;
    (newer ? newer->rest.older_sibling : parent.rest.newest_child) = older;
    b.is_listed.store(false, std::memory_order_relaxed);
}

/// Counts a guard that is opened on the thread of its parent, but not as the newest of it.
inline void count_beside(batch_record& parent, batch_record& b) noexcept {
    ++parent.rest.guards_beside;
    b.is_beside = true;
    b.unusual |= unusual_flags::own;
}
inline void uncount_beside(batch_record& b) noexcept {
    if (std::exchange(b.is_beside, false)) --b.parent.load(std::memory_order_relaxed)->rest.guards_beside;
}

/// Forgets the children of a batch at the end of its registry, when batches go in another order.
inline void forget_children(batch_record& b) noexcept {
    b.rest.oldest_child = b.rest.newest_child = nullptr;
    b.is_listed.store(false, std::memory_order_relaxed);
    b.is_beside          = false;
    b.rest.guards_beside = 0;
}

}  // namespace tenure::detail
