// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenure::detail {

/// Checks for sizes, offsets and alignments from a caller, a peer or a file. Each value is checked once, by one of
/// these, where it comes in. A value that has passed is so far below the largest number that its sums and
/// roundings need no check.

/// The most bytes of one object, or of one piece of resource(): half of a process's addresses.
inline constexpr std::size_t largest_object = std::size_t{1} << 46;

/// The largest alignment of an object or of a piece of resource(), which is also the most that stores give.
inline constexpr std::size_t largest_alignment = std::size_t{1} << 30;

/// Stands for every size that is as large or larger: more bytes than any store has, and yet two of them can be
/// added.
inline constexpr std::size_t absurd_bytes = std::size_t{1} << 62;

/// Returns whether `a` is a power of two up to `most`, itself a power of two. (One test without a call of
/// popcount, which std::has_single_bit makes where POPCNT is missing.)
constexpr bool is_alignment(std::size_t a, std::size_t most = largest_alignment) noexcept {
    return ((a - 1) & (a | ~(most - 1))) == 0;
}

/// Returns the bytes of `n` elements of `each` bytes, or absurd_bytes if there are that many or more.
constexpr std::size_t array_bytes(std::size_t n, std::size_t each) noexcept {
    return n > absurd_bytes / each ? absurd_bytes : n * each;
}

/// Returns whether `n` bytes from `offset` on lie in a block of `bytes`.
constexpr bool is_within(std::size_t offset, std::size_t n, std::size_t bytes) noexcept {
    return offset <= bytes && n <= bytes - offset;
}

/// Returns whether `more` can be added to `sum` without wrapping.
constexpr bool can_add(std::size_t sum, std::size_t more) noexcept { return more <= ~std::size_t{0} - sum; }

}  // namespace tenure::detail
