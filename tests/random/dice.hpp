// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <cstdlib>

/// Numbers that are the same on every machine for the same seed (Steele, Lea and Flood, SplitMix, OOPSLA 2014).
class dice {
public:
    explicit dice(std::uint64_t seed) noexcept : state_(seed) {}

    static std::uint64_t mix(std::uint64_t x) noexcept {
        x += 0x9e3779b97f4a7c15;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
        x = (x ^ x >> 27) * 0x94d049bb133111eb;
        return x ^ x >> 31;
    }

    std::uint64_t operator()() noexcept {
        std::uint64_t const x = mix(state_);
        state_ += 0x9e3779b97f4a7c15;
        return x;
    }
    std::uint64_t below(std::uint64_t n) noexcept { return (*this)() % n; }
    bool          one_in(std::uint64_t n) noexcept { return below(n) == 0; }

private:
    std::uint64_t state_;
};

/// TENURE_STEPS and TENURE_SEED: how long random tests run, and what they do.
inline std::uint64_t from_environment(char const* name, std::uint64_t otherwise) {
    char const* const text = std::getenv(name);
    return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}
