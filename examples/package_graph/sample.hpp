// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "graph.hpp"

namespace package_graph {

/// How a node's neighbours are chosen. It depends on nothing but the seed, the node and the hop, and uses integers
/// only: so it is the same on every machine, and whoever asks again gets the same.
struct sampling {
    std::uint32_t fanout  = 300;    ///< at most so many neighbours a node and hop
    bool          replace = false;  ///< exactly so many, drawn with replacement
    std::uint64_t seed    = 1;
};

inline std::size_t sample_size(std::size_t degree, sampling const& how) noexcept {
    if (how.replace) return degree ? how.fanout : 0;
    return std::min<std::size_t>(degree, how.fanout);
}

/// splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014). The i-th number is a
/// function of the state and i alone, so that draws do not wait for each other.
class random_stream {
public:
    random_stream(std::uint64_t seed, node_id node, unsigned hop) noexcept
        : state_{mix(mix(seed) ^ (std::uint64_t{hop} << 32 | node))} {}

    /// Uniform in [0, bound), by multiply and shift; off by at most bound / 2^32.
    std::uint32_t below(std::uint32_t bound) noexcept {
        state_ += 0x9e3779b97f4a7c15;
        return static_cast<std::uint32_t>((mix(state_) >> 32) * bound >> 32);
    }

private:
    static constexpr std::uint64_t mix(std::uint64_t x) noexcept {
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
        x = (x ^ x >> 27) * 0x94d049bb133111eb;
        return x ^ x >> 31;
    }

    std::uint64_t state_;
};

/// Calls `visit(neighbour)` for each neighbour chosen, always in the same order. Without replacement that is all of
/// them if they are few enough, else one from each of `fanout` equal strata of their list: distinct without a set
/// to remember them in, and in one pass.
template <class F>
void sample(std::span<neighbour const> all, sampling const& how, node_id node, unsigned hop, F visit) {
    auto const degree = static_cast<std::uint32_t>(all.size());
    if (degree <= how.fanout && !how.replace) {
        for (neighbour const& n : all) visit(n);
        return;
    }
    if (degree == 0) return;
    random_stream random{how.seed, node, hop};
    if (how.replace) {
        for (std::uint32_t i = 0; i < how.fanout; ++i) visit(all[random.below(degree)]);
        return;
    }
    std::uint64_t begin = 0;
    for (std::uint64_t i = 1; i <= how.fanout; ++i) {
        std::uint64_t const end = i * degree / how.fanout;
        visit(all[begin + random.below(static_cast<std::uint32_t>(end - begin))]);
        begin = end;
    }
}

}  // namespace package_graph
