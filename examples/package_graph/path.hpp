// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>

#include "graph.hpp"

namespace package_graph {

inline constexpr unsigned    most_hops = 6;
inline constexpr std::size_t top_size  = 10;

/// One temporary object a visited path: its last node, and the path that it prolongs by it. A plain pointer will
/// do: hops are nested, so what a path came from outlives it.
struct path {
    path const* from;
    node_id     node;
    float       weight;  ///< the chance that a random walker takes it, as far as the sample can tell
};
static_assert(sizeof(path) == 16);

/// A result. It outlives the paths, so it names nodes and points to nothing.
struct related {
    node_id package;
    double  score;  ///< sum of the weights of all paths that end at it

    std::array<node_id, most_hops> by_way_of;  ///< the strongest path, without its ends
    unsigned                       steps;      ///< how many of them
};

}  // namespace package_graph
