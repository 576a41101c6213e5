// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <tenure/background.hpp>
#include <tenure/detail/background/ending_later.hpp>
#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/impl/registry.ipp>

namespace tenure::detail {

/// Not inline: see new_paging().
owned_ptr<background_front> new_background(registry_core& r, std::size_t limit) {
    return owned_ptr<background_front>(new background_thread(r, limit));
}

extern "C" {
/// What a process has of this once: life/one_copy.hpp.
void const* const tenure_copies_of_background[] = {&last_pending_reclaim, nullptr};
}

}  // namespace tenure::detail
