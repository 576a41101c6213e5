// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include <tenure/raise.hpp>

namespace tenure::detail {

/// A range of a file. Both members are bytes and multiples of a page. A range of 0 bytes stands for none.
struct extent_in_file {
    std::uint64_t offset = 0;
    std::uint64_t bytes  = 0;

    std::uint64_t end() const noexcept { return offset + bytes; }
    friend bool   operator==(extent_in_file const&, extent_in_file const&) = default;
};

/// State of a free range: a hole (cold), backed by blocks of the disk (warm), or not to be used yet (retired).
enum class free_kind : unsigned char { cold, warm, retired };

/// The free ranges of a file. They are ordered by offset, so that neighbours of one kind join, and within each
/// kind by size, so that the smallest that fits is found. Makes no system call and takes no lock. O(log n).
///
/// put() allocates nothing: the nodes that it may need for a range are set aside while the range is out.
class extent_pool {
public:
    explicit extent_pool(std::uint64_t end) noexcept : end_(end) {}
    extent_pool(extent_pool const&)            = delete;
    extent_pool& operator=(extent_pool const&) = delete;

    /// Prepares for one take(), or for a take() and a split(), and must be called before it. Returns false if
    /// there is no memory for records.
    bool prepare() noexcept {
        std::size_t const enough = nodes_a_piece * (out_ + 4);
        if (spare_.size() < enough && !memory_lasts([&] { add_spare(enough + 64 * nodes_a_piece); })) return false;
        if (!begun_) {  // all of the file is one hole
            begun_ = true;
            ++out_;
            put({0, end_}, free_kind::cold);
        }
        return true;
    }

    /// Takes the smallest range of that kind that has `bytes` bytes at a multiple of `alignment`. Returns 0 bytes
    /// if there is none.
    extent_in_file take(free_kind k, std::uint64_t bytes, std::uint64_t alignment) noexcept {
        auto&    all   = sizes_of(k);
        unsigned tries = 0;
        auto     i     = all.lower_bound(bytes);
        while (i != all.end() && !fits(*i, bytes, alignment)) {
            // After a few ranges that are large enough but badly aligned, try one in which it must fit.
            if (++tries == 8) i = all.lower_bound(bytes + alignment);
            else ++i;
        }
        if (i == all.end()) return {};
        return cut(*i, {aligned(i->offset, alignment), bytes});
    }

    /// Takes exactly that range. Returns false unless all of it is free and of one kind.
    bool take(extent_in_file e) noexcept {
        auto i = by_offset_.upper_bound(e.offset);
        if (i == by_offset_.begin()) return false;
        --i;
        if (e.bytes > i->bytes || e.offset - i->offset > i->bytes - e.bytes) return false;
        cut(*i, e);
        return true;
    }

    /// Takes the largest range of that kind, whole. Returns 0 bytes if there is none.
    extent_in_file take_largest(free_kind k) noexcept {
        auto& all = sizes_of(k);
        if (all.empty()) return {};
        piece const& p = *std::prev(all.end());
        return cut(p, {p.offset, p.bytes});
    }

    /// Records that a range that is out became two.
    void split() noexcept { ++out_; }

    /// Puts a range back and joins it with free neighbours of its kind.
    void put(extent_in_file e, free_kind k) noexcept {
        --out_;
        auto after = by_offset_.lower_bound(e.offset);
        if (after != by_offset_.end() && after->kind == k && e.end() == after->offset) {
            e.bytes += after->bytes;
            unlink(*after++);
        }
        if (after != by_offset_.begin()) {
            piece const& p = *std::prev(after);
            if (p.kind == k && p.offset + p.bytes == e.offset) {
                e = {p.offset, p.bytes + e.bytes};
                unlink(p);
            }
        }
        link(e, k);
    }

    std::uint64_t bytes(free_kind k) const noexcept { return bytes_[static_cast<unsigned>(k)]; }

    /// Returns the number of free ranges, of all kinds.
    std::size_t pieces() const noexcept { return by_offset_.size(); }

private:
    static constexpr std::size_t nodes_a_piece = 2;  ///< one in by_offset_, one in by_size_

    struct piece {
        std::uint64_t offset = 0, bytes = 0;
        free_kind     kind = free_kind::cold;
    };
    struct before {
        using is_transparent = void;
        bool operator()(piece const& a, piece const& b) const noexcept { return a.offset < b.offset; }
        bool operator()(piece const& a, std::uint64_t b) const noexcept { return a.offset < b; }
        bool operator()(std::uint64_t a, piece const& b) const noexcept { return a < b.offset; }
    };
    struct smaller {
        using is_transparent = void;
        bool operator()(piece const& a, piece const& b) const noexcept {
            return a.bytes != b.bytes ? a.bytes < b.bytes : a.offset < b.offset;
        }
        bool operator()(piece const& a, std::uint64_t b) const noexcept { return a.bytes < b; }
        bool operator()(std::uint64_t a, piece const& b) const noexcept { return a < b.bytes; }
    };
    using offsets = std::set<piece, before>;
    using sizes   = std::set<piece, smaller>;
    using node    = offsets::node_type;  // of both sets

    static std::uint64_t aligned(std::uint64_t at, std::uint64_t alignment) noexcept {
        return (at + alignment - 1) & ~(alignment - 1);
    }
    static bool fits(piece const& p, std::uint64_t bytes, std::uint64_t alignment) noexcept {
        std::uint64_t const skip = aligned(p.offset, alignment) - p.offset;
        return bytes <= p.bytes && skip <= p.bytes - bytes;
    }

    sizes& sizes_of(free_kind k) noexcept { return by_size_[static_cast<unsigned>(k)]; }

    /// Takes `e` out of `p`, which contains it. The rest of `p`, before and after, stays free.
    extent_in_file cut(piece const& p, extent_in_file e) noexcept {
        extent_in_file const all{p.offset, p.bytes};
        free_kind const      k = p.kind;
        unlink(p);
        if (e.offset > all.offset) link({all.offset, e.offset - all.offset}, k);
        if (e.end() < all.end()) link({e.end(), all.end() - e.end()}, k);
        ++out_;
        return e;
    }

    void link(extent_in_file e, free_kind k) noexcept {
        by_offset_.insert(spare({e.offset, e.bytes, k}));
        sizes_of(k).insert(spare({e.offset, e.bytes, k}));
        bytes_[static_cast<unsigned>(k)] += e.bytes;
    }
    void unlink(piece const& p) noexcept {
        piece const was = p;
        bytes_[static_cast<unsigned>(was.kind)] -= was.bytes;
        spare_.push_back(by_offset_.extract(by_offset_.find(was)));
        spare_.push_back(sizes_of(was.kind).extract(sizes_of(was.kind).find(was)));
    }

    node spare(piece p) noexcept {
        node n    = std::move(spare_.back());
        n.value() = p;
        spare_.pop_back();
        return n;
    }
    /// Adds spare nodes until there are `enough`. Reserves room in the list for the nodes in use, too.
    void add_spare(std::size_t enough) {
        std::size_t const all = enough + nodes_a_piece * by_offset_.size();
        if (all > spare_.capacity()) spare_.reserve(std::max(all, 2 * spare_.capacity()));
        while (spare_.size() < enough) {
            offsets one;
            spare_.push_back(one.extract(one.emplace().first));
        }
    }

    offsets           by_offset_;
    sizes             by_size_[3];
    std::uint64_t     bytes_[3]{};
    std::vector<node> spare_;
    std::size_t       out_ = 0;  ///< ranges that a user has and may put back
    std::uint64_t     end_;
    bool              begun_ = false;
};

}  // namespace tenure::detail
