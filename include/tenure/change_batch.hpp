// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <chrono>
#include <cstdint>
#include <string_view>

#include <tenure/batch_scope.hpp>
#include <tenure/registry.hpp>

// Opt-in: set_name(), set_priority(), set_limits(), set_timeout() and reparent() of batch_scope and registry, which
// change what a batch was opened with, and progress(), which says how far it is. <tenure/tenure.hpp> has it.

namespace tenure::detail {

/// A batch to change: a scope's, or that of a registry with an id.
struct batch_to_change {
    batch_to_change(lane& of, std::uint64_t its_id) noexcept : scope(&of), id(its_id) {}
    batch_to_change(registry_core& in, batch_id its_id) noexcept : registry(&in), id(its_id.value) {}

    lane*          scope    = nullptr;
    registry_core* registry = nullptr;
    std::uint64_t  id;
};

struct change_batch_calls {
    TENURE_DECL static failure set_name(batch_to_change const& which, std::string_view name) noexcept;
    TENURE_DECL static failure set_priority(batch_to_change const& which, int priority) noexcept;
    TENURE_DECL static failure set_limits(batch_to_change const& which, batch_limits const& limits);
    TENURE_DECL static failure set_timeout(batch_to_change const& which, std::chrono::nanoseconds timeout);
    TENURE_DECL static failure reparent(batch_to_change const& which, batch_id parent) noexcept;
    TENURE_DECL static failure progress(batch_to_change const& which, std::uint64_t done,
                                        std::uint64_t total) noexcept;
};

}  // namespace tenure::detail

#ifndef TENURE_SEPARATE
#include <tenure/impl/change_batch.ipp>
#endif
