// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>

namespace tenure::detail {

/// The graph of uses: which batch uses what, and whose it is. All but the atomics is protected by the mutex of
/// the registry's use_graph.

struct batch_record;
struct pin_record;
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
