// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server/places.hpp>
#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// The blocks of a batch. The store's blocks lie in one array, as its deallocate() takes them.
struct batch_list {
    std::uint64_t              number = 0;
    std::vector<std::uint64_t> ids;
    std::vector<block>         blocks;   ///< the store's block of each id
    std::vector<std::uint32_t> smaller;  ///< the store's size less the client's; without memory: all 0

    std::uint32_t less(std::size_t i) const noexcept { return smaller.empty() ? 0 : smaller[i]; }
    std::size_t   bytes(std::size_t i) const noexcept { return blocks[i].bytes - less(i); }

    /// Appends a block. reserve() must have made room.
    void push(std::uint64_t id, block b, std::uint32_t by) noexcept {
        if (smaller.capacity() != 0) smaller.push_back(by);
        ids.push_back(id);
        blocks.push_back(b);
    }
    /// Removes block `i`; the last block takes its place.
    void take_out(std::size_t i) noexcept {
        ids[i]    = ids.back();
        blocks[i] = blocks.back();
        if (!smaller.empty()) smaller[i] = smaller.back();
        shrink(ids.size() - 1);
    }
    void shrink(std::size_t n) noexcept {
        ids.resize(n);
        blocks.resize(n);
        if (smaller.capacity() != 0) smaller.resize(n);
    }
};

/// Counts the server's memory for lists, in bytes, and computes growths in advance. Not thread-safe.
class list_memory {
public:
    /// Bytes of a list without blocks.
    static constexpr std::uint64_t list_cost = sizeof(batch_list) + 64;

    std::uint64_t bytes() const noexcept { return entries_ * entry_cost + lesses_ * less_cost; }

    /// Returns the bytes that reserve() will take for the same arguments.
    static std::uint64_t growth(batch_list const& l, std::uint64_t more, bool smaller) noexcept {
        std::uint64_t const wanted = l.ids.size() + more;
        std::uint64_t       n      = l.ids.capacity();
        std::uint64_t       cost   = 0;
        if (wanted > n) {
            cost = (std::max(wanted, 2 * n) - n) * entry_cost;
            n    = std::max(wanted, 2 * n);
        }
        if (smaller || l.smaller.capacity() != 0) cost += (n - l.smaller.capacity()) * less_cost;
        return cost;
    }

    /// Makes room for `more` blocks. `smaller`: for the client, some of them are smaller than the store's. Throws
    /// bad_alloc, also if their indices would not fit block_place.
    void reserve(batch_list& l, std::uint64_t more, bool smaller) {
        std::size_t const wanted = l.ids.size() + more, before = l.ids.capacity();
        if (wanted >= block_place::nowhere) throw std::bad_alloc();
        if (wanted > before) {
            l.ids.reserve(std::max(wanted, 2 * before));
            entries_ += l.ids.capacity() - before;
        }
        l.blocks.reserve(l.ids.capacity());
        std::size_t const had = l.smaller.capacity();
        if (!smaller && had == 0) return;
        l.smaller.reserve(l.ids.capacity());
        lesses_ += l.smaller.capacity() - had;
        l.smaller.resize(l.ids.size());
    }

    void drop(batch_list& l) noexcept {
        entries_ -= l.ids.capacity();
        lesses_ -= l.smaller.capacity();
        // `= {}` would assign an empty list of elements and keep the memory.
        l.ids     = std::vector<std::uint64_t>();
        l.blocks  = std::vector<block>();
        l.smaller = std::vector<std::uint32_t>();
    }

private:
    static constexpr std::uint64_t entry_cost = sizeof(std::uint64_t) + sizeof(block);
    static constexpr std::uint64_t less_cost  = sizeof(std::uint32_t);

    std::uint64_t entries_ = 0, lesses_ = 0;  ///< elements that there is memory for, in all lists
};

/// Returns whether runs name more blocks than `limit` (0: 4,294,967,296), or ids that cannot exist.
inline bool more_than(std::uint64_t limit, std::span<protocol::block_run const> runs) noexcept {
    std::uint64_t const most  = limit ? limit : std::uint64_t{1} << 32;
    std::uint64_t       count = 0;
    for (protocol::block_run const& r : runs) {
        if (r.count > most - count || r.first + r.count < r.first) return true;
        count += r.count;
    }
    return false;
}

}  // namespace tenure::detail
