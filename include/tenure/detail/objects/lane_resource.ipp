// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/detail/objects/lane_resource.hpp>
#include <tenure/detail/objects/resource_chunks.hpp>
#include <tenure/detail/objects/slab.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Throws std::bad_alloc.
inline std::pmr::memory_resource* begin_resource(lane& l) {
    thread_context& me = this_thread;
    if (!me.resources) begin_resources();
    std::uint64_t const id   = l.batch->id.load(std::memory_order_relaxed);
    auto* const         made = ::new (me.resources->at(me.resources_taken)) lane_resource(l, id);
    l.resource.store(made, std::memory_order_relaxed);
    if (++me.resources_taken == resource_chunk::room || me.exiting) leave_own_resources();
    return made;
}

TENURE_DECL std::pmr::memory_resource* make_resource(lane& l) {
    batch_record const& b = *l.batch;
    if (b.refuses()) throw_failure({b.why_closed(), &b}, "resource() of batch ");
    return begin_resource(l);
}

TENURE_DECL std::pmr::memory_resource* resource_of_own(lane& l) {
    batch_record const& b    = *l.batch;
    bool const          ours = &l == &b.primary && b.guard.load(std::memory_order_relaxed) == &this_thread;
    if (!ours || b.refuses()) return nullptr;
    std::pmr::memory_resource* own = l.resource.load(std::memory_order_relaxed);
    return own || memory_lasts([&] { own = begin_resource(l); }) ? own : nullptr;
}

}  // namespace tenure::detail
