// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tenure::detail::remote {

/// Blocks of which allocations are the same: what is asked for is likely asked for again.
struct block_kind {
    std::uint64_t batch     = 0;
    std::size_t   bytes     = 0;
    std::size_t   alignment = 0;

    friend bool operator==(block_kind const&, block_kind const&) = default;
};

/// Blocks of one kind that nobody has yet, one after the other by their numbers.
struct spare_run {
    std::uint64_t first = 0, count = 0;
};

/// What there is of a kind, and how many are fetched the next time.
struct shelf {
    block_kind               kind{};
    bool                     fetching = false;
    std::size_t              ask      = 0;  ///< how many the last time
    std::uint64_t            used     = 0;  ///< when; 0: this is no kind's
    std::size_t              runs     = 0;
    std::array<spare_run, 4> run{};

    /// The number of one; there are some.
    std::uint64_t take() noexcept {
        spare_run&          r  = run[runs - 1];
        std::uint64_t const id = r.first++;
        if (--r.count == 0) --runs;
        return id;
    }

    /// False: there is no place.
    bool put(spare_run const& r) noexcept {
        if (runs == run.size()) return false;
        run[runs++] = r;
        return true;
    }

    bool is_of(block_kind const& k) const noexcept { return used != 0 && kind == k; }
};

/// In the place of the one that was used longest ago, once `empty(shelf&)` has cleared it. Null: it cannot.
template <class F>
shelf* make_shelf(std::span<shelf> among, block_kind const& kind, F empty) noexcept {
    shelf& s = *std::ranges::min_element(among, {}, &shelf::used);
    if (!empty(s)) return nullptr;
    s.kind = kind;
    return &s;
}

/// Shelves of the kinds that come often. Not thread-safe.
class exact_shelves {
public:
    static constexpr std::uint64_t patience = 1024;  ///< blocks of other kinds, before one gives way

    shelf* find(block_kind const& kind) noexcept {
        for (shelf& s : all_)
            if (s.is_of(kind)) return &s;
        return nullptr;
    }

    /// Null: all are in use.
    template <class F>
    shelf* try_make(block_kind const& kind, std::uint64_t now, F empty) noexcept {
        std::uint64_t const oldest = std::ranges::min_element(all_, {}, &shelf::used)->used;
        return oldest == 0 || now - oldest >= patience ? make_shelf(all_, kind, empty) : nullptr;
    }

    template <class F>
    void for_each(F f) noexcept {
        for (shelf& s : all_) f(s);
    }

private:
    std::array<shelf, 8> all_{};
};

/// A shelf for each class of sizes, of a few batches and alignments. Those of one batch and alignment never take
/// each other's places. Not thread-safe.
class class_shelves {
public:
    shelf* find(block_kind const& kind, std::size_t index) noexcept {
        for (shelf& s : bucket(kind, index))
            if (s.is_of(kind)) return &s;
        return nullptr;
    }

    /// Null: there is no room for what the oldest has.
    template <class F>
    shelf* find_or_make(block_kind const& kind, std::size_t index, F empty) noexcept {
        shelf* const s = find(kind, index);
        return s ? s : make_shelf(bucket(kind, index), kind, empty);
    }

    template <class F>
    void for_each(F f) noexcept {
        for (auto& b : buckets_)
            for (shelf& s : b) f(s);
    }

private:
    static constexpr std::size_t ways = 4;

    std::span<shelf> bucket(block_kind const& kind, std::size_t index) noexcept {
        std::uint64_t const h = (kind.batch ^ kind.alignment << 48) * 0x9e3779b97f4a7c15u;
        return buckets_[(index + (h >> 32)) % buckets_.size()];
    }

    std::array<std::array<shelf, ways>, 64> buckets_{};
};

}  // namespace tenure::detail::remote
