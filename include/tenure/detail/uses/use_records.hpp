// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <source_location>

#include <tenure/detail/base/config.hpp>

namespace tenure::detail {

/// The graph of uses: which batch uses what, and whose it is. All but the atomics is protected by the mutex of
/// the registry's use_graph.

struct batch_record;
struct used_object;

/// An edge: `user` keeps the owner of `object` from going.
struct use_edge {
    batch_record* user   = nullptr;
    used_object*  object = nullptr;  ///< null: no batch waits for this use any more
    use_edge*     next   = nullptr;  ///< of the same object
    use_edge*     prev   = nullptr;
};

/// An object that others use, as long as they do. When it is kept or transferred, this is all that moves.
struct used_object {
    batch_record* owner = nullptr;
    use_edge*     uses  = nullptr;
    used_object*  next  = nullptr;  ///< in the ring of its owner, or of the owner's group
    used_object*  prev  = nullptr;
};

/// An object with pins and borrows, found by its address.
struct TENURE_SHARED pinned_object : used_object {
    std::uint64_t  index_key  = 0;
    pinned_object* index_next = nullptr;
    pinned_object* next_free  = nullptr;
};

/// A pin or a borrow. Its memory is never anything else, so a guard can always ask whether this still is its pin.
struct TENURE_SHARED pin_record : use_edge {
    std::atomic<std::uint64_t> serial{0};  ///< changes when the pin is released
    pin_record*                next_of_user = nullptr;
    pin_record*                prev_of_user = nullptr;
    std::source_location       where;               ///< where it was taken
    bool                       borrowed   = false;  ///< has no guard, and is found by object and user
    std::uint64_t              index_key  = 0;
    pin_record*                index_next = nullptr;
    pin_record*                next_free  = nullptr;
};

/// A batch's node in the graph. Fields from `group` on are in use while the batch is over, or one below it in the
/// forest, or a child of it.
struct use_node {
    pin_record*   pins    = nullptr;  ///< that the batch took
    used_object*  objects = nullptr;  ///< ring of its used objects, and of those of its group
    batch_record* next    = nullptr;  ///< in a queue of use_graph
    std::uint32_t taken   = 0;        ///< how many of `pins` have a guard
    bool          over    = false;    ///< only uses keep the batch from going
    bool          listed  = false;    ///< its hold for uses is to be released

    batch_record*              group   = nullptr;  ///< the batch that stands for its group, or one nearer to that
    batch_record*              members = nullptr;  ///< ring of the group; null: the batch is alone
    use_edge*                  witness = nullptr;  ///< the use through which an active batch needs this one
    batch_record*              up      = nullptr;  ///< link_cut_tree
    batch_record*              left    = nullptr;
    batch_record*              right   = nullptr;
    std::atomic<std::uint64_t> going{0};  ///< the batch's id, once no use keeps it: too late to use it

    use_edge    to_parent;  ///< while the batch is over: makes the parent wait for it
    used_object as_parent;  ///< what the `to_parent` of its children lead to
};

}  // namespace tenure::detail
