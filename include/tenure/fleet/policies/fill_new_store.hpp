// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <tenure/fleet/plan.hpp>
#include <tenure/fleet/policies/evening_out.hpp>
#include <tenure/fleet/policies/next_look.hpp>
#include <tenure/fleet/view.hpp>

namespace tenure {

/// Moves buffers to a store that was added to a group, from the fullest ones, until it is nearly as full as they
/// are on average; however full that is. Cost: O(stores) while there is a new store, and the moves.
struct fill_new_store {
    std::uint64_t cycles =
        100;            ///< for how long a store is new; those that were there before the first cycle are not
    double gap = 0.05;  ///< of capacity: what it may have less than the mean

    void propose(fleet_view const& view, plan& proposals) {
        if (!due_(view)) return;
        std::vector<store_status> stores = view.stores();
        std::erase_if(stores, [](store_status const& s) { return s.state != store_state::running; });
        double const        mean = detail::evening_out::mean(stores);
        std::uint64_t const now  = view.cycle();
        double              lack = 0;
        std::vector<part>   givers, takers;
        for (store_status const& s : stores) {
            auto const   capacity = static_cast<double>(s.capacity);
            bool const   is_new   = s.since > 0 && now - s.since <= cycles;
            double const below    = (mean - gap - s.fill()) * capacity;
            if (is_new && below > 0) takers.push_back({s, below, (mean - s.fill()) * capacity});
            if (is_new && below > 0) lack += below;
        }
        if (!takers.empty()) {
            std::ranges::sort(stores, std::ranges::greater{}, &store_status::fill);
            for (store_status const& s : stores) {
                double const above = (s.fill() - mean) * static_cast<double>(s.capacity);
                double const gives = std::min(above, lack);
                if (gives <= 0) break;
                givers.push_back({s, gives, above});
                lack -= gives;
            }
            if (detail::evening_out::propose(view, proposals, std::move(givers), std::move(takers)))
                due_.later(view);
        }
        due_.looked(view);
    }

private:
    using part = detail::evening_out::part;

    detail::next_look due_;
};

}  // namespace tenure
