// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/word.hpp>

namespace tenure::detail {

struct finalizer;

/// An object that a thread is about to make.
struct object_to_be {
    raw_handle       handle;
    std::uintptr_t   begin;  ///< of its bytes
    std::size_t      bytes;  ///< with its entry and padding
    finalizer const& what;
};

/// The objects of a registry of which more is known than their bytes tell, as far as others know it: see listing/.
/// A lane of a registry that records has room for one object at a time: so each make comes to refill().
struct object_recorder {
    object_recorder() noexcept                         = default;
    object_recorder(object_recorder const&)            = delete;
    object_recorder& operator=(object_recorder const&) = delete;
    virtual ~object_recorder()                         = default;

    /// `caller` is the address in the program to which the make returns. Where memory is full the object is not
    /// noted.
    virtual void note(object_to_be const& object, void const* caller) noexcept = 0;

    /// What was noted there is not made, or not yet.
    virtual void forget(std::uintptr_t begin) noexcept = 0;

    std::atomic<bool> records{false};
};

/// How many registries record.
TENURE_SHARED inline constinit std::atomic<std::size_t> recording_registries{0};

inline bool any_registry_records() noexcept { return recording_registries.load(std::memory_order_relaxed) != 0; }

}  // namespace tenure::detail
