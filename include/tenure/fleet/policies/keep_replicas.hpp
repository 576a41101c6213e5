// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <tenure/fleet/plan.hpp>
#include <tenure/fleet/view.hpp>

namespace tenure {

/// Keeps so many copies of every buffer, in different stores, as long as there is room. Drops none. Cost: what
/// changed.
class keep_replicas {
public:
    explicit keep_replicas(std::size_t copies) noexcept : copies_(copies) {}

    void propose(fleet_view const& view, plan& proposals) const {
        for (fleet_buffer const& b : view.changed())
            for (std::size_t n = b.copies(); n < copies_; ++n)
                if (!proposals.replicate(b)) break;
    }

private:
    std::size_t copies_;
};

}  // namespace tenure
