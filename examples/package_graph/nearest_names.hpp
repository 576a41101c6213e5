// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph.hpp"

namespace package_graph {

/// Levenshtein's: insertions, deletions and substitutions of one character.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i + 1);
        for (std::size_t j = 0; j < b.size(); ++j) {
            auto const substituted = diagonal + (a[i] != b[j]);
            diagonal               = row[j + 1];
            row[j + 1]             = std::min({substituted, row[j] + 1, row[j + 1] + 1});
        }
    }
    return row.back();
}

/// The packages whose names are nearest to one that there is not; a name that begins with it counts as near.
inline std::vector<std::string> nearest_names(graph const& g, std::string_view wanted, std::size_t count) {
    std::vector<std::pair<std::size_t, node_id>> found;
    for (node_id n = 0; n < g.packages(); ++n) {
        auto const distance = g.name(n).starts_with(wanted) ? 1 : edit_distance(wanted, g.name(n));
        if (distance <= std::max<std::size_t>(2, wanted.size() / 3)) found.emplace_back(distance, n);
    }
    std::ranges::sort(found);
    found.resize(std::min(found.size(), count));
    std::vector<std::string> names;
    for (auto const& [distance, n] : found) names.push_back(g.name(n));
    return names;
}

}  // namespace package_graph
