// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <tenure/detail/life/visit.hpp>
#include <tenure/detail/life/visiting.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

inline visit::visit(visited_lane const& to) noexcept
    : to_(to),
      previous_(to.stays ? former_current{to.where, to.where ? to.where->serial.load(std::memory_order_relaxed) : 0}
                         : suspend_for(to.where)) {}

TENURE_DECL visit::visit(std::uint64_t id) : visit(lane_to_visit(id)) {}

TENURE_DECL visit::~visit() {
    thread_context& me = this_thread;
    if (me.current != to_.where || me.visiting) [[unlikely]]
        put_back();
    else if (!to_.stays) go_back(me);
    if (to_.entered) leave_visit(to_.where);
    else if (to_.over) [[unlikely]] me.over = to_.over_before;
}

inline void visit::go_back(thread_context& me) noexcept {
    if (previous_.where) resume(previous_, to_.where);
    else me.current = nullptr;
}

inline void visit::put_back() noexcept {
    former_current now = suspend_for(nullptr);
    resume(previous_, to_.entered ? to_.where : nullptr);
    leave(now);
}

}  // namespace tenure::detail
