// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results.hpp"

namespace bench {

/// One thing that tenure promises, and what this machine says to it.
struct figure {
    std::string           what;
    std::string           unit;  // of measured and limit; "x" for a ratio
    double                limit;
    bool                  at_least = false;
    std::optional<double> measured{};
    std::string           from{};  // the two sides of a ratio or difference, as measured

    bool ok() const { return measured && (at_least ? *measured >= limit : *measured <= limit); }
};

std::vector<figure> figures(results const& all);

}  // namespace bench
