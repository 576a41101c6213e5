// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <vector>

#include <tenure/fleet/plan.hpp>
#include <tenure/fleet/view.hpp>

namespace tenure {

/// Empties the stores that retire: copies what they have to others, and drops it when it is verified there. Cost:
/// what changed, as all does that a store has when it begins to retire.
struct retire_store {
    void propose(fleet_view const& view, plan& proposals) {
        if (std::uint64_t const now = view.version(); now != seen_) {
            seen_ = now;
            retiring_.clear();
            for (store_status const& s : view.stores())
                if (s.state == store_state::retiring) retiring_.push_back(s.id);
        }
        if (retiring_.empty()) return;
        for (fleet_buffer const& b : view.changed())
            for (store_id const s : b.replicas())
                if (std::ranges::find(retiring_, s) != retiring_.end()) empty(b, s, proposals);
    }

private:
    static void empty(fleet_buffer const& b, store_id s, plan& proposals) {
        if (b.copies() == 0) proposals.replicate(b);  // if more were asked for, these are proposed already
        proposals.drop(b, {s});
    }

    std::uint64_t         seen_ = 0;
    std::vector<store_id> retiring_;
};

}  // namespace tenure
