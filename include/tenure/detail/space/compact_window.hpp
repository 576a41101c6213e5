// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/mman.h>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/os.hpp>
#include <tenure/detail/base/word.hpp>
#include <tenure/detail/space/address_space.hpp>
#include <tenure/detail/space/tables.hpp>

namespace tenure::detail {

/// The addresses that a compact handle can name: 2^32 granules, 32 GiB. There is one window in a process, so that a
/// handle needs no base of its own. Nothing lives in the first region grain: so the table has no unit there, and
/// the null handle, whose number of a granule is 0, is never found alive.
struct compact_window {
    std::uintptr_t         base;   ///< 0: there is none, and so no compact handle but null
    zeroed_atomic<word_t>* words;  ///< of the units from `base` on
};
inline constexpr std::size_t compact_bytes = std::size_t{1} << (32 + granule_shift);

/// Written once: before main, in a program that has compact handles, or when the first library that has them is
/// loaded.
TENURE_SHARED inline constinit compact_window compact_reach{0, &no_unit};

/// Takes the addresses from `base` to the end of its region grain for good, if they are free.
inline bool take_compact_base(std::uintptr_t base) noexcept {
    void* const got = ::mmap(to_pointer(base), region_grain, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED) return false;
    bool there = got == to_pointer(base);  // a kernel before 4.17 takes the address for a hint
    for (std::size_t i = 0; there && i < region_grain >> unit_shift; ++i)
        there = table_word(base + (i << unit_shift)).load(std::memory_order_relaxed) == 0;
    if (!there) give_back(got, region_grain);
    return there;
}

/// Sets the window where the system maps memory next. Most kernels go downwards from there; so most of the window
/// lies below.
TENURE_SHARED inline bool reserve_compact_window() noexcept {
    static bool const reserved = [] {
        constexpr std::size_t probe = std::size_t{64} << 20, gib = std::size_t{1} << 30;
        if (!reserve_tables()) return false;
        void* const first  = reserve(probe, access::read);
        void* const second = reserve(probe, access::read);
        bool const  down   = second < first;
        if (first) give_back(first, probe);
        if (second) give_back(second, probe);
        if (!first || !second) return false;
        std::uintptr_t const next = to_address(first) & ~(region_grain - 1);
        for (std::size_t below = down ? 30 * gib : 2 * gib; below >= gib; below -= gib / 4) {
            if (next <= below || !take_compact_base(next - below)) continue;
            compact_reach = {next - below, &table_word(next - below)};
            return true;
        }
        return false;
    }();
    return reserved;
}

inline bool const compact_reserved_at_start = reserve_compact_window();

}  // namespace tenure::detail
