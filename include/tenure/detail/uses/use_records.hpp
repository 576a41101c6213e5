// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <source_location>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/batch/use_node.hpp>

namespace tenure::detail {

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

}  // namespace tenure::detail
