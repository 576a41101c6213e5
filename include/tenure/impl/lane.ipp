// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <utility>

#include <tenure/detail/life/entering.hpp>
#include <tenure/impl/core.ipp>
#include <tenure/lane.hpp>

namespace tenure {

TENURE_DECL lane::lane(lane&& other) noexcept : lane_(std::exchange(other.lane_, nullptr)) {
    if (lane_) detail::await_thread(*lane_);
}

TENURE_DECL lane::~lane() {
    if (lane_) detail::leave_lane(lane_);
}

TENURE_DECL entered::entered(detail::lane* l) noexcept : lane_(l), previous_(detail::suspend_for(l)) {}

TENURE_DECL entered::~entered() {
    detail::thread_context& me = detail::this_thread;
    if (me.current == lane_) {
        detail::former_current visit = detail::suspend_for(nullptr);
        detail::resume(previous_, lane_);
        detail::leave(visit);
    }
    detail::leave(previous_);
    detail::leave_visit(lane_);
}

}  // namespace tenure
