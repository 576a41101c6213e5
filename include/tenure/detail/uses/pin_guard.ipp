// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <mutex>
#include <source_location>
#include <utility>

#include <tenure/detail/uses/pin_guard.hpp>
#include <tenure/detail/uses/pinning.hpp>

namespace tenure::detail {

TENURE_DECL pin_guard::pin_guard(lane const& user, raw_handle h, std::source_location where,
                                 failure& why) noexcept {
    pin_attempt const done = pin_for(*user.batch, h, false, where);
    why                    = done.why;
    if (why) return;
    pin_    = done.pin;
    user_   = user.batch;
    serial_ = done.pin->serial.load(std::memory_order_relaxed);
}

TENURE_DECL void pin_guard::release_pin() noexcept {
    read_section const here;  // the batch may end, and its record go to a registry that closes
    if (holds()) {
        registry_uses& in = *uses_of(*static_cast<batch_record*>(user_)->registry.load(std::memory_order_relaxed));
        std::unique_lock graph(in.graph.mutex);
        if (holds()) in.graph.release(*pin_);
        in.leave(std::move(graph));
    }
    pin_ = nullptr;
}

}  // namespace tenure::detail
