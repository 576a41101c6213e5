// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <tenure/detail/life/calls.hpp>

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

/// The lane to make current for a visit.
struct visited_lane {
    lane* where;
    bool  entered;        ///< the visit entered it, and leaves it
    bool  stays = false;  ///< it is current already

    bool          over        = false;  ///< it stands in for a batch that is over
    std::uint64_t over_before = 0;      ///< the former thread_context::over
};

/// Returns the lane of the over_record that stands in for a batch that is over; notes the id in
/// thread_context::over.
TENURE_COLD inline visited_lane stand_in(batch_record const* b, std::uint64_t id) noexcept {
    errc const why = over_because(b, id);
    return {&over_record_of(why).primary, false, false, true, std::exchange(this_thread.over, id)};
}

/// Returns the lane to make current for the batch with that id, which it enters if need be. Throws std::bad_alloc.
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
    if (!hold_or_root(*b, id)) return stand_in(b, id);
    return {enter_held(*b), true};
}

/// Makes a batch current on this thread while it lives. Afterwards what was current before is so again, whatever
/// was left open or made current in between. For a batch that is over, an over_record stands in, in which make
/// throws batch_ended, expired or cancelled: never a batch that nobody named.
///
/// Costs two locked instructions; more if another thread is inside; none if the batch is current already, or its
/// guard is this thread's.
class visit {
public:
    /// Makes the batch current. Throws std::bad_alloc if other threads are in all its lanes, and no memory is left
    /// for one.
    explicit visit(std::uint64_t id) : visit(lane_to_visit(id)) {}
    ~visit() {
        thread_context& me = this_thread;
        if (me.current != to_.where || me.visiting) [[unlikely]]
            put_back();
        else if (!to_.stays) go_back(me);
        if (to_.entered) leave_visit(to_.where);
        else if (to_.over) [[unlikely]] me.over = to_.over_before;
    }
    visit(visit const&)            = delete;
    visit& operator=(visit const&) = delete;

private:
    explicit visit(visited_lane const& to) noexcept
        : to_(to),
          previous_(to.stays
                        ? former_current{to.where, to.where ? to.where->serial.load(std::memory_order_relaxed) : 0}
                        : suspend_for(to.where)) {}

    void go_back(thread_context& me) noexcept {
        if (previous_.where) resume(previous_, to_.where);
        else me.current = nullptr;
    }
    TENURE_COLD void put_back() noexcept {
        former_current now = suspend_for(nullptr);
        resume(previous_, to_.entered ? to_.where : nullptr);
        leave(now);
    }

    visited_lane const to_;
    former_current     previous_;
};

}  // namespace tenure::detail
