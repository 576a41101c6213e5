// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenure::detail {

/// Sizes, offsets and alignments that a caller, a peer or a file gave. Each is checked once, where it comes in, by
/// one of these. What has passed is so far below the largest number that sums and roundings of it need no check.

/// The most bytes of one object, or of one piece of resource(): half of the addresses that a process has.
inline constexpr std::size_t largest_object = std::size_t{1} << 46;

/// The most that an object or a piece of resource() can be aligned to: what stores give, too.
inline constexpr std::size_t largest_alignment = std::size_t{1} << 30;

/// More bytes than any store has, and yet two of them can be added. Stands for every size above it.
inline constexpr std::size_t absurd_bytes = std::size_t{1} << 62;

/// `most` is a power of two. (One test and no call of popcount, which std::has_single_bit is without POPCNT.)
constexpr bool is_alignment(std::size_t a, std::size_t most = largest_alignment) noexcept {
    return ((a - 1) & (a | ~(most - 1))) == 0;
}

/// The bytes of `n` elements of `each` bytes; absurd_bytes if there are as many or more.
constexpr std::size_t array_bytes(std::size_t n, std::size_t each) noexcept {
    return n > absurd_bytes / each ? absurd_bytes : n * each;
}

/// Whether `n` bytes from `offset` on lie in a block of `bytes`.
constexpr bool is_within(std::size_t offset, std::size_t n, std::size_t bytes) noexcept {
    return offset <= bytes && n <= bytes - offset;
}

/// Whether `more` can be added to `sum` without wrapping.
constexpr bool can_add(std::size_t sum, std::size_t more) noexcept { return more <= ~std::size_t{0} - sum; }

}  // namespace tenure::detail
