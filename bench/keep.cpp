// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#include "keep.hpp"

#include <algorithm>
#include <random>

namespace bench {

mixture const& one_percent_kept() {
    static mixture const all = [] {
        constexpr std::size_t count = 100'000;
        mixture               result;
        // The engine's sequence is fixed by the standard; a distribution's is not, so there is none.
        std::mt19937_64          random{2};
        std::vector<std::size_t> order(count);
        for (std::size_t i = 0; i != count; ++i) {
            order[i] = i;
            result.bytes.push_back(16 * (1 + random() % 256));
            result.total += result.bytes.back();
        }
        for (std::size_t i = 0; i != count / 100; ++i) std::swap(order[i], order[i + random() % (count - i)]);
        result.kept.assign(order.begin(), order.begin() + count / 100);
        std::ranges::sort(result.kept);
        for (auto const i : result.kept) result.kept_total += result.bytes[i];
        return result;
    }();
    return all;
}

}  // namespace bench
