// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/current.hpp>
#include <tenure/detail/life/ancestor.hpp>
#include <tenure/impl/core.ipp>
#include <tenure/registry.hpp>

namespace tenure {

namespace detail {

TENURE_DECL lane& lane_without_current() {
    return this_thread.ending ? this_thread.ending->enter() : *lane_of_root(core_of(registry::global()));
}

}  // namespace detail

TENURE_DECL batch_id current_batch() noexcept { return registry::current_batch(); }

}  // namespace tenure
