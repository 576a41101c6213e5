// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

#include "graph.hpp"
#include "line_reader.hpp"

namespace package_graph {

/// Reads "from to [strength]" lines, as SNAP and others publish graphs. Empty lines and those that start with # or
/// % are skipped. Names are any words; a strength is a positive number, 1 unless given.
inline void read_edge_list(line_reader& lines, graph_builder& into) {
    std::string_view line;
    while (lines.next(line)) {
        std::array<std::string_view, 4> word;
        std::size_t                     words = 0;
        for (auto rest = line; words < word.size(); ++words) {
            auto const begin = rest.find_first_not_of(" \t");
            if (begin == rest.npos) break;
            auto const end = std::min(rest.find_first_of(" \t", begin), rest.size());
            word[words]    = rest.substr(begin, end - begin);
            rest.remove_prefix(end);
        }
        if (words == 0 || word[0].front() == '#' || word[0].front() == '%') continue;

        float strength = 1;
        bool  good     = words == 2 || words == 3;
        if (words == 3) {
            auto const end    = word[2].data() + word[2].size();
            auto const [p, e] = std::from_chars(word[2].data(), end, strength);
            good              = e == std::errc{} && p == end && std::isnormal(strength) && strength > 0;
        }
        if (!good) {
            lines.fail("expected \"from to\" or \"from to strength\" with a positive strength, found \"" +
                       std::string{line.substr(0, 60)} + "\"");
        }
        into.package(word[0]);
        into.package(word[1]);
        into.edge(word[0], word[1], strength);
    }
}

}  // namespace package_graph
