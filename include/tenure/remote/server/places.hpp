// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include <tenure/remote/protocol.hpp>
#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// Gives ids of blocks to a server's sessions, in pages. Thread-safe.
class id_source {
public:
    static constexpr unsigned      page_bits = 9;
    static constexpr std::uint64_t page_ids  = std::uint64_t{1} << page_bits;

    /// The upper 24 bits are random, so that no id of an earlier server is one of this server's.
    explicit id_source(std::uint64_t random) noexcept : next_((random | 1) << 40) {}

    std::uint64_t take(std::uint64_t n) noexcept {
        return next_.fetch_add(n * page_ids, std::memory_order_relaxed);
    }

private:
    std::atomic<std::uint64_t> next_;
};

/// The place of a block in its session's lists.
struct block_place {
    static constexpr std::uint32_t nowhere = ~std::uint32_t{0};

    std::uint32_t list  = nowhere;
    std::uint32_t index = 0;
};

/// Maps ids to places. Ids come in runs, so there is a table for every 512 of them, found by hashing, and the last
/// table found is remembered: eight bytes a block, and O(1). Not thread-safe.
class place_map {
    struct page {
        std::array<block_place, id_source::page_ids> places;
        std::uint32_t                                live = 0;
    };

public:
    static constexpr std::uint64_t page_cost = sizeof(page) + 64;

    explicit place_map(id_source& ids) noexcept : ids_(ids) {}

    std::uint64_t pages() const noexcept { return pages_.size(); }
    std::uint64_t pages_for(std::uint64_t n) const noexcept {
        return n <= left_ ? 0 : (n + id_source::page_ids - 1) / id_source::page_ids;
    }

    /// Returns the first of `n` new ids, one after the other, whose places are nowhere yet. Throws bad_alloc, and
    /// then changes nothing.
    std::uint64_t make(std::uint64_t n) {
        if (n <= left_) {
            std::uint64_t const first = next_;
            next_ += n;
            left_ -= n;
            return first;
        }
        std::uint64_t const pages = (n + id_source::page_ids - 1) / id_source::page_ids;
        std::uint64_t const first = ids_.take(pages);
        std::uint64_t       made  = 0;
        try {
            for (; made < pages; ++made)
                pages_.emplace((first >> id_source::page_bits) + made, std::make_unique<page>());
        } catch (...) {
            while (made > 0) pages_.erase((first >> id_source::page_bits) + --made);
            throw;
        }
        std::uint64_t const old = left_ ? next_ : 0;  // without ids left, next_ may be in a new page
        next_                   = first + n;
        left_                   = pages * id_source::page_ids - n;
        last_                   = nullptr;
        if (old) drop_if_empty(old);
        return first;
    }

    /// Returns the place of `id`, or null if no block of this session has that id.
    block_place* find(std::uint64_t id) noexcept {
        page* const p = page_of(id);
        if (!p) return nullptr;
        block_place& at = p->places[id % id_source::page_ids];
        return at.list == block_place::nowhere ? nullptr : &at;
    }

    void put(std::uint64_t id, block_place where) noexcept {
        page* const p                       = page_of(id);
        p->places[id % id_source::page_ids] = where;
        ++p->live;
    }

    void erase(std::uint64_t id) noexcept {
        page* const p                            = page_of(id);
        p->places[id % id_source::page_ids].list = block_place::nowhere;
        if (--p->live == 0) drop_if_empty(id);
    }

    /// Gives up ids that make() gave and none of which was put.
    void abandon(std::uint64_t first, std::uint64_t n) noexcept {
        for (std::uint64_t id = first; id < first + n; id = (id | (id_source::page_ids - 1)) + 1) drop_if_empty(id);
    }

    void clear() noexcept {
        pages_ = {};
        last_  = nullptr;
        next_ = left_ = 0;
    }

    /// Returns the first id after `id` that may have a place: without a page for `id`, the first of the next page.
    /// Returns the largest id if there is no next page, and never a smaller one. `id` is not the largest.
    std::uint64_t skip(std::uint64_t id) noexcept {
        std::uint64_t const last = page_of(id) ? id : id | (id_source::page_ids - 1);
        return last + (last != ~std::uint64_t{0});
    }

private:
    page* page_of(std::uint64_t id) noexcept {
        std::uint64_t const number = id >> id_source::page_bits;
        if (last_ && number == last_number_) return last_;
        auto const at = pages_.find(number);
        if (at == pages_.end()) return nullptr;
        last_number_ = number;
        return last_ = at->second.get();
    }

    /// Drops the page of `id` if it is empty and has no ids left to give.
    void drop_if_empty(std::uint64_t id) noexcept {
        std::uint64_t const number = id >> id_source::page_bits;
        if (left_ && number == next_ >> id_source::page_bits) return;
        auto const at = pages_.find(number);
        if (at == pages_.end() || at->second->live) return;
        last_ = nullptr;
        pages_.erase(at);
    }

    id_source&                                                      ids_;
    boost::unordered_flat_map<std::uint64_t, std::unique_ptr<page>> pages_;
    std::uint64_t                                                   next_        = 0;  ///< id to give next
    std::uint64_t                                                   left_        = 0;  ///< ids left in its page
    std::uint64_t                                                   last_number_ = 0;
    page*                                                           last_        = nullptr;
};

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
