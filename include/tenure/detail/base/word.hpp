// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tenure::detail {

/// The word beside the pointer in a handle, and its counterpart in the generation table.
///
///   handle into a slab   0 1 [generation 37] [header 1] [offset 13] [extent 11]
///   handle to a cell     1 0 [generation 37] [cell index 25]
///   null handle          all zero
///   table, unit whole    0 1 [generation 37] 0
///   table, unit guarded  0 0 [generation 37] 0        some handles of this generation are stale: ask the unit
///   table, no unit       0
///
/// A checked access compares the two words from bit 25 up. `offset` (granules from the first of the extent to the
/// one that the pointer is in) and `extent` tell a handle<Base> what its whole object covers, because slab memory
/// has no directory. Both are constants of the type that is made: a make adds nothing to the word of its lane but
/// these.
using word_t = std::uint64_t;

inline constexpr unsigned    granule_shift = 3;  ///< objects start and end at multiples of 8 bytes
inline constexpr unsigned    unit_shift    = 16;
inline constexpr std::size_t unit_bytes    = std::size_t{1} << unit_shift;

inline constexpr unsigned offset_shift     = 11;
inline constexpr unsigned generation_shift = 25;
inline constexpr word_t   extent_mask      = (word_t{1} << offset_shift) - 1;
inline constexpr word_t   header_flag      = word_t{1} << 24;
inline constexpr word_t   cell_flag        = word_t{1} << 63;
inline constexpr word_t   whole_flag       = word_t{1} << 62;
inline constexpr word_t   generation_mask  = (word_t{1} << 37) - 1;
inline constexpr word_t   last_generation  = generation_mask - 512;  ///< a unit or cell that reaches it is retired
inline constexpr word_t   cell_index_mask  = (word_t{1} << generation_shift) - 1;

constexpr word_t generation_of(word_t w) noexcept { return (w >> generation_shift) & generation_mask; }
constexpr word_t whole_word(word_t generation) noexcept { return whole_flag | generation << generation_shift; }

/// Extents up to 8184 bytes count granules of 8. Larger ones count steps of 128 bytes, up to a whole unit. 0 is a
/// large object. The numbers above these are for bound objects, which refer to memory from their batch's
/// resource() and so cannot leave the batch; they count granules again, up to 4088 bytes.
inline constexpr std::size_t fine_extent   = 1023 * 8;
inline constexpr std::size_t largest_small = unit_bytes;

constexpr std::size_t round_extent(std::size_t bytes) noexcept {
    if (bytes == 0) bytes = 1;
    return bytes <= fine_extent ? (bytes + 7) & ~std::size_t{7} : (bytes + 127) & ~std::size_t{127};
}

constexpr word_t encode_extent(std::size_t rounded) noexcept {
    return rounded <= fine_extent ? rounded >> granule_shift : 1024 | rounded >> 7;
}

inline constexpr word_t      last_unbound  = 1024 | largest_small >> 7;
inline constexpr std::size_t largest_bound = (extent_mask - last_unbound) << granule_shift;
static_assert(largest_bound <= fine_extent);

constexpr bool is_bound(word_t w) noexcept { return (w & extent_mask) > last_unbound && !(w & cell_flag); }

/// Returns the word of a bound object of that extent, or `w` unchanged if the extent is too large for that.
constexpr word_t bound_word(word_t w, std::size_t rounded) noexcept {
    return rounded > largest_bound ? w : w + last_unbound;  // `w` counts granules, too
}

constexpr std::size_t decode_extent(word_t w) noexcept {
    word_t const e = w & extent_mask;
    if (e < 1024) [[likely]]
        return e << granule_shift;
    return e > last_unbound ? (e - last_unbound) << granule_shift : (e & 1023) << 7;
}

/// Encodes the bytes, whole granules, from the beginning of a small object's extent to its pointer.
constexpr word_t encode_offset(std::size_t bytes) noexcept { return bytes >> granule_shift << offset_shift; }

/// Returns where the extent of a small object begins, given the pointer of its handle.
constexpr std::uintptr_t extent_begin(std::uintptr_t pointer, word_t w) noexcept {
    return (pointer >> granule_shift << granule_shift) - ((w >> offset_shift & 8191) << granule_shift);
}

/// Returns the word of a handle whose pointer goes from one place in its object to another, as to a base. The words
/// of large objects and of cells have no offset.
constexpr word_t word_at(std::uintptr_t to, std::uintptr_t from, word_t w) noexcept {
    word_t const granules = (to >> granule_shift) - (from >> granule_shift);
    if (granules == 0 || w & cell_flag || !(w & extent_mask)) return w;
    return w + (granules << offset_shift);
}

inline void*          to_pointer(std::uintptr_t address) noexcept { return reinterpret_cast<void*>(address); }
inline std::uintptr_t to_address(void const* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

/// A handle without its type.
struct raw_handle {
    void const* pointer;
    word_t      word;
};

}  // namespace tenure::detail
