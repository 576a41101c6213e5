// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <tenure/fleet/plan.hpp>
#include <tenure/fleet/policies/next_look.hpp>
#include <tenure/fleet/view.hpp>

namespace tenure {

/// Relieves stores that are fuller than `above`: drops what has a copy elsewhere and then, if that is not enough,
/// moves the rest to the emptiest, until they are `to` full or, if that takes several cycles, no fuller than
/// `above`. Cost: O(stores) if a store has changed, and of a full store 4,096 buffers a cycle.
class relieve_full_stores {
public:
    struct options {
        double above = 0.95;  ///< of capacity
        double to    = 0.90;  ///< of capacity
    };

    relieve_full_stores() noexcept : relieve_full_stores(options{}) {}
    explicit relieve_full_stores(options o) noexcept : options_(o) {}

    void propose(fleet_view const& view, plan& proposals) {
        if (!due_(view)) return;
        bool more = false, left = false;
        for (store_status const& s : view.stores()) {
            if (s.state == store_state::retiring || s.fill() <= options_.above) continue;
            double need = (s.fill() - options_.to) * static_cast<double>(s.capacity);
            relieve(view, s, need, proposals);
            left = left || need > 0;
            more = more || (need > 0 && s.copies / part > rounds_);
        }
        rounds_ = more ? rounds_ + 1 : 0;
        if (more) due_.soon(view);
        else if (left) due_.later(view);
        due_.looked(view);
    }

private:
    static constexpr std::size_t part = 4096;  // buffers of a store that are looked at in a cycle

    static void relieve(fleet_view const& view, store_status const& s, double& need, plan& proposals) {
        std::vector<fleet_buffer> single;
        for (std::size_t seen = 0, n = std::min(s.copies, part); seen < n && need > 0;) {
            std::vector<fleet_buffer> const some = view.some_in(s.id);
            seen += fleet_view::part;
            for (fleet_buffer const& b : some) {
                if (need <= 0 || b.bytes() == 0) continue;
                if (proposals.drop(b, {s.id})) need -= static_cast<double>(b.bytes());
                else single.push_back(b);
            }
        }
        for (fleet_buffer const& b : single)
            if (need > 0 && proposals.move(b, s.id)) need -= static_cast<double>(b.bytes());
    }

    options           options_;
    std::size_t       rounds_ = 0;  // through which a full store was looked at in parts
    detail::next_look due_;
};

}  // namespace tenure
