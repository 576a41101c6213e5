// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <source_location>

#include <tenure/detail/base/config.hpp>

namespace tenure::detail {

/// What the graph of uses consists of: who uses what, and whose that is. All of it under the lock of a registry's
/// use_graph, but for what is atomic.

struct batch_record;
struct used_object;

/// `user` keeps the owner of `object` from going.
struct use_edge {
    batch_record* user   = nullptr;
    used_object*  object = nullptr;  ///< null: nobody waits for this one any more
    use_edge*     next   = nullptr;  ///< of the object
    use_edge*     prev   = nullptr;
};

/// What others use, as long as they do. When it is kept or transferred, this is all that moves.
struct used_object {
    batch_record* owner = nullptr;
    use_edge*     uses  = nullptr;
    used_object*  next  = nullptr;  ///< in a ring: of the owner, or of those that wait with it
    used_object*  prev  = nullptr;
};

/// An object with pins and borrows, found by its address.
struct TENURE_SHARED pinned_object : used_object {
    std::uint64_t  index_key  = 0;
    pinned_object* index_next = nullptr;
    pinned_object* next_free  = nullptr;
};

/// A pin or a borrow. Its memory is never anything else, so a guard can always ask whether it still is what it was.
struct TENURE_SHARED pin_record : use_edge {
    std::atomic<std::uint64_t> serial{0};  ///< a new one when it is released
    pin_record*                next_of_user = nullptr;
    pin_record*                prev_of_user = nullptr;
    std::source_location       where;               ///< it was taken
    bool                       borrowed   = false;  ///< has no guard, and is found by object and user
    std::uint64_t              index_key  = 0;
    pin_record*                index_next = nullptr;
    pin_record*                next_free  = nullptr;
};

/// What a batch is in the graph. What follows `group` is of use while it is over and waits for others.
struct use_node {
    pin_record*   pins    = nullptr;  ///< that it took
    used_object*  objects = nullptr;  ///< ring of what is used of it, and of those that wait with it as one
    batch_record* next    = nullptr;  ///< in a queue of use_graph
    std::uint32_t taken   = 0;        ///< of `pins`, with a guard
    bool          over    = false;    ///< only uses keep it from going
    bool          listed  = false;    ///< its hold for what is used is to be let go

    batch_record* group   = nullptr;  ///< the one that stands for those that wait as one, or is nearer to it
    batch_record* members = nullptr;  ///< ring of these; null: it is alone
    use_edge*     witness = nullptr;  ///< the use through which something active needs it
    batch_record* up      = nullptr;  ///< link_cut_tree
    batch_record* left    = nullptr;
    batch_record* right   = nullptr;
    std::atomic<std::uint64_t> going{0};  ///< id of the batch that no use keeps any more: too late to use it

    use_edge    to_parent;  ///< while it is over: the parent waits for it
    used_object as_parent;  ///< what children use so
};

}  // namespace tenure::detail
