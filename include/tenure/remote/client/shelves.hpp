// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tenure::detail::remote {

/// Blocks that are allocated alike. A caller that asks for one is likely to ask for more.
struct block_kind {
    std::uint64_t batch     = 0;
    std::size_t   bytes     = 0;
    std::size_t   alignment = 0;

    friend bool operator==(block_kind const&, block_kind const&) = default;
};

/// Blocks of one kind that nobody has yet, with consecutive numbers.
struct spare_run {
    std::uint64_t first = 0, count = 0;
};

/// The spare blocks of one kind, and how many are fetched the next time.
struct shelf {
    block_kind               kind{};
    bool                     fetching = false;
    std::size_t              ask      = 0;  ///< how many were fetched the last time
    std::uint64_t            used     = 0;  ///< when it was used last; 0: the shelf is free
    std::size_t              runs     = 0;
    std::array<spare_run, 4> run{};

    /// Takes out a block and returns its number. There must be one.
    std::uint64_t take() noexcept {
        spare_run&          r  = run[runs - 1];
        std::uint64_t const id = r.first++;
        if (--r.count == 0) --runs;
        return id;
    }

    /// Adds a run. Returns false if there is no place for it.
    bool put(spare_run const& r) noexcept {
        if (runs == run.size()) return false;
        run[runs++] = r;
        return true;
    }
};

/// Returns the kind's shelf among these, or null.
inline shelf* find_shelf(std::span<shelf> among, block_kind const& kind) noexcept {
    for (shelf& s : among)
        if (s.used != 0 && s.kind == kind) return &s;
    return nullptr;
}

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

/// Shelves for each size class, for a few batches and alignments. The shelves of one batch and alignment never take
/// each other's places.
using class_shelves = std::array<std::array<shelf, 4>, 64>;

/// Returns the shelves among which that of the kind is.
inline std::span<shelf> shelves_for(class_shelves& all, block_kind const& kind) noexcept {
    std::uint64_t const h = (kind.batch ^ kind.alignment << 48) * 0x9e3779b97f4a7c15u;
    return all[(size_class::of(kind.bytes).index + (h >> 32)) % all.size()];
}

}  // namespace tenure::detail::remote
