// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <tenure/fleet/fleet_state.hpp>
#include <tenure/fleet/view.hpp>

namespace tenure::detail {

/// When a policy that goes by how full the stores are has to look again: when something in them has changed or, if
/// it said so, when copies that are protected now are protected no longer.
class next_look {
public:
    bool operator()(fleet_view const& view) const {
        return view.version() != seen_ || (again_ && view.cycle() >= again_);
    }
    void looked(fleet_view const& view) {
        seen_ = view.version();
        if (view.cycle() >= again_) again_ = 0;
    }
    /// Asks for a look when it may be worth it, though nothing changes.
    void later(fleet_view const& view) {
        if (!again_ || view.cycle() >= again_) again_ = view.cycle() + fleet_state::protected_cycles + 1;
    }
    /// Asks for a look in the next cycle.
    void soon(fleet_view const& view) { again_ = view.cycle() + 1; }

private:
    std::uint64_t seen_  = 0;
    std::uint64_t again_ = 0;  ///< in which cycle; 0: none
};

}  // namespace tenure::detail
