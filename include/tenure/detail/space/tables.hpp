// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/word.hpp>
#include <tenure/detail/base/zeroed_atomic.hpp>

namespace tenure::detail {

struct region;
struct batch_record;

#if defined(__x86_64__)
inline constexpr unsigned address_bits = 47;
#else
inline constexpr unsigned address_bits = 48;
#endif
inline constexpr unsigned    region_shift    = 21;  ///< regions are multiples of 2 MiB, so aligned
inline constexpr std::size_t region_grain    = std::size_t{1} << region_shift;
inline constexpr std::size_t unit_count_max  = std::size_t{1} << (address_bits - unit_shift);
inline constexpr std::size_t records_a_chunk = 64;

/// The process's tables over the whole user address space. So a slab may lie anywhere, and a handle's pointer
/// alone finds its generation: one load, no base, no bounds. The tables take address space (16 GiB on x86-64), not
/// memory: only entries of units that were ever used are touched. They outlive every registry, which keeps a
/// handle stale for ever: the next owner of an address goes on counting where the last one stopped.
struct address_space {
    zeroed_atomic<word_t>*        generations;  ///< a word for each unit
    zeroed_atomic<region*>*       regions;      ///< a pointer for each region grain
    zeroed_atomic<batch_record*>* records;      ///< a pointer for each chunk of batch records
};

/// What a null handle is compared with. No handle's word is all ones.
TENURE_SHARED inline constinit zeroed_atomic<word_t> no_unit{~word_t{0}};

/// The tables. Written once, before main or by the first registry, whichever comes first.
TENURE_SHARED inline constinit address_space tables{&no_unit, nullptr, nullptr};

inline zeroed_atomic<word_t>& table_word(std::uintptr_t address) noexcept {
    return tables.generations[address >> unit_shift];
}

}  // namespace tenure::detail
