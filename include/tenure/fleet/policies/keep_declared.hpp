// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <tenure/fleet/plan.hpp>
#include <tenure/fleet/view.hpp>

namespace tenure::detail {

/// Makes the copies that were asked for of a buffer. Every manager has it, before all other policies.
struct keep_declared {
    void propose(fleet_view const& view, plan& proposals) const {
        for (fleet_buffer const& b : view.changed()) {
            std::size_t const least = b.declared();
            if (least == 0) continue;
            // Of one that is everywhere, a proposal is refused, and comes up again with the next store.
            for (std::size_t n = b.everywhere() ? 0 : b.copies(); n < least; ++n)
                if (!proposals.replicate(b)) break;
        }
    }
};

}  // namespace tenure::detail
