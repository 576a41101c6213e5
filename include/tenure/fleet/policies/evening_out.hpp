// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <queue>
#include <utility>
#include <vector>

#include <tenure/fleet/plan.hpp>
#include <tenure/fleet/view.hpp>

namespace tenure::detail {

/// Moves buffers from stores that have too much to those that have too little.
class evening_out {
public:
    /// How much a store is to give, or to get.
    struct part {
        store_status store;
        double       bytes;  ///< as many, about
        double       most;   ///< and never more
    };

    /// Returns how full all of the stores together are.
    static double mean(std::vector<store_status> const& stores) noexcept {
        double bytes = 0, capacity = 0;
        for (store_status const& s : stores) {
            bytes += static_cast<double>(s.bytes);
            capacity += static_cast<double>(s.capacity);
        }
        return capacity > 0 ? bytes / capacity : 0;
    }

    /// Proposes the moves. The fullest gives first, and the emptiest gets. Of what a store gives, the last buffer
    /// is the one with which it comes nearest to `bytes`. Cost: O(buffers of the givers), each of which is looked
    /// at once at most. Returns whether some could not move for a reason that passes.
    static bool propose(fleet_view const& view, plan& proposals, std::vector<part> givers,
                        std::vector<part> takers) {
        std::ranges::sort(givers, [](part const& a, part const& b) { return a.store.fill() > b.store.fill(); });
        auto const emptier = [](part const& a, part const& b) { return a.store.fill() > b.store.fill(); };
        std::priority_queue<part, std::vector<part>, decltype(emptier)> queue(emptier, std::move(takers));
        bool                                                            passes = false;
        for (part& giver : givers) {
            std::size_t unseen = giver.store.copies;
            while (unseen > 0 && giver.bytes > 0 && !queue.empty()) {
                std::vector<fleet_buffer> const some = view.some_in(giver.store.id);
                unseen -= std::min(unseen, fleet_view::part);
                for (fleet_buffer const& b : some)
                    if (giver.bytes > 0) give(giver, b, queue, proposals, passes);
            }
        }
        return passes;
    }

private:
    template <class Queue>
    static void give(part& giver, fleet_buffer const& b, Queue& takers, plan& proposals, bool& passes) {
        auto const bytes = static_cast<double>(b.bytes());
        if (bytes == 0 || bytes > 2 * giver.bytes || bytes > giver.most) return;
        std::vector<part> passed;  // which have the buffer, or too little room for it
        while (!takers.empty() && passed.size() < 4) {
            part taker = takers.top();
            takers.pop();
            if (bytes > 2 * taker.bytes || bytes > taker.most) {
                passed.push_back(std::move(taker));
                continue;
            }
            decision const d = proposals.move(b, giver.store.id, {taker.store.id});
            if (d) {
                giver.bytes -= bytes, giver.most -= bytes;
                taker.bytes -= bytes, taker.most -= bytes;
                taker.store.bytes += static_cast<std::size_t>(bytes);
                if (taker.bytes > 0) takers.push(std::move(taker));
                break;
            }
            passed.push_back(std::move(taker));
            passes = passes || d.why == refusal::just_acquired || d.why == refusal::in_use;
            if (d.why != refusal::has_it && d.why != refusal::no_room) break;
        }
        for (part& p : passed) takers.push(std::move(p));
    }
};

}  // namespace tenure::detail
