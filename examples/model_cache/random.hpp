// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace model_cache {

/// splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014). The same on every
/// machine; what is drawn for one purpose depends on no other.
class random_stream {
public:
    random_stream(std::uint64_t seed, std::uint64_t purpose, std::uint64_t which = 0) noexcept
        : state_{mix(mix(mix(seed) + purpose) + which)} {}

    std::uint64_t bits() noexcept { return mix(state_ += 0x9e3779b97f4a7c15); }

    /// Uniform in [0, bound), by multiply and shift; off by at most bound / 2^32.
    std::uint32_t below(std::uint32_t bound) noexcept {
        return static_cast<std::uint32_t>((bits() >> 32) * bound >> 32);
    }

    /// Uniform in [-1, 1).
    float symmetric() noexcept { return static_cast<float>(bits() >> 40) * 0x1p-23F - 1; }

private:
    static constexpr std::uint64_t mix(std::uint64_t x) noexcept {
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
        x = (x ^ x >> 27) * 0x94d049bb133111eb;
        return x ^ x >> 31;
    }

    std::uint64_t state_;
};

/// `n` different numbers below `all`, in random order: the beginning of a shuffle.
inline std::vector<std::uint32_t> sample(std::uint32_t all, std::uint32_t n, random_stream random) {
    std::vector<std::uint32_t> out(all);
    for (std::uint32_t i = 0; i < all; ++i) out[i] = i;
    for (std::uint32_t i = 0; i < n; ++i) std::swap(out[i], out[i + random.below(all - i)]);
    out.resize(n);
    return out;
}

}  // namespace model_cache
