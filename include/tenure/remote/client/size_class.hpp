// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace tenure::detail::remote {

/// A size that others are rounded up to: 16, 32, ... 128, then four for each doubling. Beyond 64 bytes at most a
/// fifth of a block is more than was asked for.
struct size_class {
    std::size_t bytes = 0;
    std::size_t index = 0;  ///< the size's place in their order, from 0 on

    /// Returns the smallest size of at least `n` bytes.
    static constexpr size_class of(std::size_t n) noexcept {
        if (n <= 128) {
            std::size_t const steps = std::max<std::size_t>((n + 15) / 16, 1);
            return {steps * 16, steps - 1};
        }
        auto const        doublings = static_cast<std::size_t>(std::bit_width(n - 1)) - 1;  // 7 for 129 to 256
        std::size_t const step      = std::size_t{1} << (doublings - 2);
        std::size_t const steps     = (n - 1) / step + 1;  // 5 to 8
        return {steps * step, 8 + (doublings - 7) * 4 + steps - 5};
    }
};

static_assert(size_class::of(0).bytes == 16 && size_class::of(128).index == 7);
static_assert(size_class::of(129).bytes == 160 && size_class::of(129).index == 8);
static_assert(size_class::of(256).bytes == 256 && size_class::of(256).index == 11);
static_assert(size_class::of(257).bytes == 320 && size_class::of(257).index == 12);
static_assert(size_class::of(65536).bytes == 65536);

}  // namespace tenure::detail::remote
