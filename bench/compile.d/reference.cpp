// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The unit of bench/compile: about half a second of a compiler's work, with nothing of tenure in it. Budgets are
// written in it, so a change here changes all of them.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

std::string most_common(std::vector<std::string> const& words) {
    std::map<std::string, int> counts;
    for (auto const& word : words) ++counts[word];
    auto const found = std::max_element(counts.begin(), counts.end(),
                                        [](auto const& a, auto const& b) { return a.second < b.second; });
    return found == counts.end() ? "" : found->first;
}
