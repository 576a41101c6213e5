// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/life/visit.hpp>

namespace tenure::detail {

/// Whether any registry has given out this id.
inline bool is_known(std::uint64_t id) noexcept {
    batch_record* const b = record_of(id);
    std::uint64_t const n = id >> record_bits;
    return b && n != 0 && n <= b->generation.load(std::memory_order_acquire);
}

/// Returns this thread's lane in the global registry's root, where null does not stand for that, as in a
/// destructor. Null: there is no global registry yet. Throws std::bad_alloc.
TENURE_COLD inline lane* global_root_lane() {
    batch_record const* const root = process.global_root.load(std::memory_order_acquire);
    return root ? lane_of_root(*root->registry.load(std::memory_order_relaxed)) : nullptr;
}

TENURE_COLD inline visited_lane stand_in(batch_record const* b, std::uint64_t id) noexcept {
    errc const why = over_because(b, id);
    return {&over_record_of(why).primary, false, false, true, std::exchange(this_thread.over, id)};
}
inline visited_lane lane_to_visit(std::uint64_t id) {
    thread_context const& me = this_thread;
    if (current_id() == id && (id || !me.current) && !me.visiting) return {me.current, false, true};
    batch_record* const b = find_anywhere(id);
    if (!b && !id) return {me.ending ? global_root_lane() : nullptr, false};
    if (!b) return stand_in(b, id);
    if (b->guard.load(std::memory_order_acquire) == &this_thread)
        return b->closed() ? stand_in(b, id) : visited_lane{&b->primary, false};
    if (visit_primary(*b, id)) [[likely]]
        return {&b->primary, true};
    if (!hold_or_root(*b, id, unless_crowded)) return stand_in(b, id);
    return {enter_held(*b), true};
}

}  // namespace tenure::detail
