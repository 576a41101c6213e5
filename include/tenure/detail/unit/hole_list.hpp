// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>

namespace tenure::detail {

struct unit_rest;

/// Units with room between what was kept, linked through unit_rest. Guarded by the supply's `holes_lock`.
struct hole_list {
    std::atomic<unit_rest*> first{nullptr};
    unit_rest*              last = nullptr;

    bool any() const noexcept { return first.load(std::memory_order_relaxed); }
};

}  // namespace tenure::detail
