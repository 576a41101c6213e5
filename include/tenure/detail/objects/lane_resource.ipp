// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/detail/objects/lane_resource.hpp>
#include <tenure/detail/objects/resource_chunks.hpp>
#include <tenure/detail/objects/slab.hpp>

namespace tenure::detail {

TENURE_DECL std::pmr::memory_resource* make_resource(lane& l) {
    batch_record& b = *l.batch;
    if (b.refuses()) throw_failure({b.why_closed(), &b}, "resource() of batch ");
    thread_context& me = this_thread;
    if (!me.resources) begin_resources();
    auto* const made =
        ::new (me.resources->at(me.resources_taken)) lane_resource(l, b.id.load(std::memory_order_relaxed));
    l.resource.store(made, std::memory_order_relaxed);
    if (++me.resources_taken == resource_chunk::room || me.exiting) leave_own_resources();
    return made;
}

}  // namespace tenure::detail
