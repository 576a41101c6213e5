// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
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

    bool is_of(block_kind const& k) const noexcept { return used != 0 && kind == k; }
};

/// Returns a shelf for the kind: the one used longest ago, once `empty(shelf&)` has cleared it. Null if it cannot.
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
    static constexpr std::uint64_t patience = 1024;  ///< uses of other kinds, before a shelf gives way

    shelf* find(block_kind const& kind) noexcept {
        for (shelf& s : all_)
            if (s.is_of(kind)) return &s;
        return nullptr;
    }

    /// Returns a shelf for the kind, or null if all are in use.
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

/// A shelf for each size class, for a few batches and alignments. The shelves of one batch and alignment never
/// take each other's places. Not thread-safe.
class class_shelves {
public:
    shelf* find(block_kind const& kind, std::size_t index) noexcept {
        for (shelf& s : bucket(kind, index))
            if (s.is_of(kind)) return &s;
        return nullptr;
    }

    /// Returns the kind's shelf, and makes it if there is none. Null if there is no room for what the oldest one
    /// has.
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
