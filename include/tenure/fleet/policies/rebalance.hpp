// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tenure/fleet/plan.hpp>
#include <tenure/fleet/policies/evening_out.hpp>
#include <tenure/fleet/policies/next_look.hpp>
#include <tenure/fleet/view.hpp>

namespace tenure {

/// Moves buffers from stores that are fuller than `above` to those that are less full than `below`, until no two of
/// them differ by more than `gap`; with as few bytes as that takes. No move puts a giver below the mean of all, or
/// a receiver above it. Copies that must stay where they are, or of which a receiver has one, are passed over.
/// Cost: O(stores) if a store has changed, and the moves.
class rebalance {
public:
    struct options {
        double above = 0.6;  ///< how full, of capacity, a store is that gives
        double below = 0.6;  ///< how full one is at most when it has got something
        double gap   = 0.1;  ///< of capacity
    };

    rebalance() noexcept : rebalance(options{}) {}
    explicit rebalance(options o) noexcept : options_(o) {}

    void propose(fleet_view const& view, plan& proposals) {
        if (!due_(view)) return;
        std::vector<store_status> stores = view.stores();
        std::erase_if(stores, [](store_status const& s) { return s.state != store_state::running; });
        if (is_uneven(stores)) {
            double const      mean  = detail::evening_out::mean(stores);
            double const      low   = lower_end(stores, mean);
            double const      above = std::max(low + options_.gap, options_.above);
            double const      below = std::min(low, options_.below);
            std::vector<part> givers, takers;
            for (store_status const& s : stores) {
                auto const   capacity = static_cast<double>(s.capacity);
                double const fill     = s.fill();
                if (fill > above) givers.push_back({s, (fill - above) * capacity, (fill - mean) * capacity});
                if (fill < below) takers.push_back({s, (below - fill) * capacity, (mean - fill) * capacity});
            }
            if (detail::evening_out::propose(view, proposals, std::move(givers), std::move(takers)))
                due_.later(view);
        }
        due_.looked(view);
    }

private:
    using part = detail::evening_out::part;

    bool is_uneven(std::vector<store_status> const& stores) const noexcept {
        double least = 1, most = 0;
        for (store_status const& s : stores) {
            least = std::min(least, s.fill());
            most  = std::max(most, s.fill());
        }
        return most - least > options_.gap && most > options_.above;
    }

    /// Returns where a window of `gap` begins, around the mean, above which there are as many bytes as are missing
    /// below it: these are the fewest that have to move.
    double lower_end(std::vector<store_status> const& stores, double mean) const noexcept {
        double from = mean - options_.gap, to = mean;
        for (int i = 0; i < 40; ++i) {
            double const low   = (from + to) / 2;
            double       above = 0, below = 0;
            for (store_status const& s : stores) {
                auto const capacity = static_cast<double>(s.capacity);
                above += std::max(0., s.fill() - low - options_.gap) * capacity;
                below += std::max(0., low - s.fill()) * capacity;
            }
            (above > below ? from : to) = low;
        }
        return (from + to) / 2;
    }

    options           options_;
    detail::next_look due_;
};

}  // namespace tenure
