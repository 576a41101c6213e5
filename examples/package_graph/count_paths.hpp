// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <vector>

#include "graph.hpp"
#include "query.hpp"
#include "sample.hpp"

namespace package_graph {

/// How many paths a query from each node visits, without visiting them: what a node has at a hop is the same on
/// every path that comes by, so it is counted once. In floating point, exact to 2^53: who asks for too much shall
/// be told so.
inline std::vector<double> count_paths(graph const& g, query_options const& how) {
    std::vector<double> from_next(g.size()), from_here(g.size());
    if (how.replace) {
        // Edges lead both ways: who has a neighbour at all has `fanout` draws at each hop, and no draw is looked
        // at.
        double paths = 0;
        for (unsigned hop = 0; hop < how.hops; ++hop) paths = how.fanout * (1 + paths);
        for (node_id n = 0; n < g.size(); ++n) from_here[n] = g.neighbours(n).empty() ? 0 : paths;
        return from_here;
    }
    for (unsigned hop = how.hops; hop >= 1; --hop) {
        for (node_id n = 0; n < g.size(); ++n) {
            double paths = 0;
            sample(g.neighbours(n), how, n, hop, [&](neighbour to) { paths += 1 + from_next[to.node]; });
            from_here[n] = paths;
        }
        from_here.swap(from_next);
    }
    return from_next;
}

}  // namespace package_graph
