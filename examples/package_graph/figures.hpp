// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace package_graph {

struct ranked {
    std::string              package;
    double                   score = 0;
    std::vector<std::string> by_way_of;

    bool operator==(ranked const&) const = default;
};

struct named_figures {
    std::string         start;
    std::size_t         paths = 0;
    double              ms    = 0;
    std::vector<ranked> related;
};

struct large_figures {
    std::string start;
    bool        replace   = false;
    std::size_t paths     = 0;
    double      first_ms  = 0;  ///< with memory that is fresh from the system
    double      median_ms = 0;
    std::string answers;  ///< a digest
};

struct stream_figures {
    std::size_t requests = 0, paths = 0, made = 0, freed = 0;
    double      total_ms = 0, p50_ms = 0, p99_ms = 0, max_ms = 0;
    double      ending_ms = 0;  ///< in all
    std::string answers;        ///< a digest
};

struct memory_figures {
    std::size_t before = 0, peak = 0, after = 0, trimmed = 0;
};

struct figures {
    std::string                mode;
    std::vector<named_figures> named;
    std::vector<large_figures> large;
    stream_figures             stream;
    memory_figures             resident;
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ranked, package, score, by_way_of)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(named_figures, start, paths, ms, related)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(large_figures, start, replace, paths, first_ms, median_ms, answers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(stream_figures, requests, paths, made, freed, total_ms, p50_ms, p99_ms, max_ms,
                                   ending_ms, answers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(memory_figures, before, peak, after, trimmed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(figures, mode, named, large, stream, resident)

/// Whether two runs found the same, to the last bit of every score.
inline bool same_answers(figures const& a, figures const& b) {
    return a.stream.answers == b.stream.answers &&
           std::ranges::equal(a.named, b.named, {}, &named_figures::related, &named_figures::related) &&
           std::ranges::equal(a.large, b.large, {}, &large_figures::answers, &large_figures::answers);
}

}  // namespace package_graph
