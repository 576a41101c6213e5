// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>

#include <tenure/fleet/plan.hpp>
#include <tenure/fleet/view.hpp>

namespace tenure {

/// Drops copies beyond so many, or beyond those that were asked for of a buffer if they are more. Cost: what
/// changed.
struct reduce_replicas {
    std::size_t copies = 1;

    void propose(fleet_view const& view, plan& proposals) const {
        for (fleet_buffer const& b : view.changed()) {
            std::size_t const has = b.copies();
            if (has <= copies) continue;
            for (std::size_t n = has; n > std::max({copies, b.declared(), std::size_t{1}}); --n)
                if (!proposals.drop(b)) break;
        }
    }
};

}  // namespace tenure
