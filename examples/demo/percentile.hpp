// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace demo {

/// The smallest value that at least `share` of all values do not exceed (nearest rank).
inline double percentile(std::vector<double>& values, double share) {
    auto const rank = static_cast<std::ptrdiff_t>(std::ceil(share * static_cast<double>(values.size()))) - 1;
    auto const at   = values.begin() + std::max<std::ptrdiff_t>(rank, 0);
    std::ranges::nth_element(values, at);
    return *at;
}

}  // namespace demo
