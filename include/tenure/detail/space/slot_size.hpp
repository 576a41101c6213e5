// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <bit>
#include <cstddef>

namespace tenure::detail {

/// The sizes of slots: multiples of 16 up to 128, then four to each power of two, so that a block above 128 wastes
/// less than a fifth of its slot (Evans, A scalable concurrent malloc implementation, 2006, and jemalloc since).
inline constexpr std::size_t largest_slot           = std::size_t{1} << 20;
inline constexpr std::size_t largest_slot_alignment = std::size_t{1} << 16;
inline constexpr unsigned    slot_sizes             = 60;

constexpr std::size_t slot_bytes(unsigned size) noexcept {
    if (size < 8) return (size + 1) * 16;
    return std::size_t{(size - 8) % 4 + 5} << (5 + (size - 8) / 4);
}

/// Returns the smallest size of slot with room for `bytes`, from 1 to largest_slot.
constexpr unsigned slot_size_of(std::size_t bytes) noexcept {
    if (bytes <= 128) return static_cast<unsigned>((bytes + 15) / 16 - 1);
    unsigned const step = static_cast<unsigned>(std::bit_width(bytes - 1)) - 3;
    return 8 + (step - 5) * 4 + static_cast<unsigned>((bytes - 1) >> step) - 4;
}

/// Returns the smallest size of slot with room for `bytes` whose slots all lie at multiples of `alignment` in an
/// aligned span.
constexpr unsigned slot_size_of(std::size_t bytes, std::size_t alignment) noexcept {
    unsigned size = slot_size_of((bytes + alignment - 1) & ~(alignment - 1));
    while (slot_bytes(size) % alignment != 0) ++size;
    return size;
}

static_assert(slot_size_of(1) == 0 && slot_size_of(128) == 7 && slot_size_of(129) == 8);
static_assert(slot_bytes(8) == 160 && slot_bytes(11) == 256 && slot_bytes(slot_sizes - 1) == largest_slot);
static_assert(slot_size_of(largest_slot) == slot_sizes - 1);
static_assert(slot_bytes(slot_size_of(largest_slot - largest_slot_alignment + 1, largest_slot_alignment)) ==
              largest_slot);

}  // namespace tenure::detail
