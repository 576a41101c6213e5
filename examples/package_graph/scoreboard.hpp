// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "graph.hpp"
#include "path.hpp"

namespace package_graph {

/// Where the weights of paths add up, by the node they end at. Made once and used by one request after the other:
/// clearing it costs no more than the nodes that were visited.
class scoreboard {
public:
    struct entry {
        double      sum       = 0;
        path const* strongest = nullptr;
        float       best      = -1;  ///< weight of `strongest`
    };

    explicit scoreboard(graph const& g) : packages_{static_cast<node_id>(g.packages())}, entries_(g.size()) {
        visited_.reserve(g.size());
    }

    void add(path const& p) {
        entry& e = entries_[p.node];
        e.sum += p.weight;
        if (p.weight > e.best) [[unlikely]] {
            if (e.best < 0) visited_.push_back(p.node);
            e.strongest = &p;
            e.best      = p.weight;
        }
    }

    entry const& operator[](node_id n) const { return entries_[n]; }

    /// The packages with the greatest sums but `start`, greatest first; ties by name, which is what nodes are
    /// numbered by. Valid until the next call. Cost: linear in the nodes visited.
    std::span<node_id const> top(std::size_t count, node_id start) {
        auto const end = std::partition(visited_.begin(), visited_.end(),
                                        [&](node_id n) { return n < packages_ && n != start; });
        auto const mid = visited_.begin() + std::min(static_cast<std::ptrdiff_t>(count), end - visited_.begin());
        std::partial_sort(visited_.begin(), mid, end, [&](node_id a, node_id b) {
            return entries_[a].sum != entries_[b].sum ? entries_[a].sum > entries_[b].sum : a < b;
        });
        return {visited_.begin(), mid};
    }

    void clear() {
        for (node_id const n : visited_) entries_[n] = {};
        visited_.clear();
    }

private:
    node_id              packages_;
    std::vector<entry>   entries_;
    std::vector<node_id> visited_;
};

}  // namespace package_graph
