// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tenure/fleet/plan.hpp>
#include <tenure/fleet/view.hpp>

namespace tenure {

/// Relieves stores that are fuller than `above`: drops what has a copy elsewhere and then, if that is not enough,
/// moves the rest to the emptiest, until they are `to` full. Cost: O(stores) if a store has changed, and of a full
/// store 4,096 buffers a cycle.
class relieve_full_stores {
public:
    struct options {
        double above = 0.95;  ///< of capacity
        double to    = 0.90;  ///< of capacity
    };

    relieve_full_stores() noexcept : relieve_full_stores(options{}) {}
    explicit relieve_full_stores(options o) noexcept : options_(o) {}

    void propose(fleet_view const& view, plan& proposals) {
        if (view.version() == seen_) return;
        for (store_status const& s : view.stores()) {
            if (s.state == store_state::retiring || s.fill() <= options_.above) continue;
            double need = (s.fill() - options_.to) * static_cast<double>(s.capacity);
            relieve(view, s, need, [&](fleet_buffer const& b) { return bool(proposals.drop(b, {s.id})); });
            relieve(view, s, need, [&](fleet_buffer const& b) { return bool(proposals.move(b, s.id)); });
        }
        seen_ = view.version();
    }

private:
    template <class F>
    static void relieve(fleet_view const& view, store_status const& s, double& need, F&& without) {
        for (std::size_t seen = 0, n = std::min<std::size_t>(s.copies, 4096); seen < n && need > 0;) {
            std::vector<fleet_buffer> const some = view.some_in(s.id);
            if (some.empty()) return;
            seen += some.size();
            for (fleet_buffer const& b : some)
                if (std::size_t const bytes = b.bytes(); need > 0 && bytes > 0 && without(b))
                    need -= static_cast<double>(bytes);
        }
    }

    options       options_;
    std::uint64_t seen_ = 0;
};

}  // namespace tenure
