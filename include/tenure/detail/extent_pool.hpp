// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <new>

#include <boost/intrusive/set.hpp>

namespace tenure::detail {

/// A range of a file, in bytes; both are multiples of a page. Of no bytes: none.
struct extent_in_file {
    std::uint64_t offset = 0;
    std::uint64_t bytes  = 0;

    std::uint64_t end() const noexcept { return offset + bytes; }
    friend bool   operator==(extent_in_file const&, extent_in_file const&) = default;
};

/// What a free range is like: a hole; backed by blocks of the disk that can be used at once; or not yet to be used.
enum class free_kind : unsigned char { cold, warm, retired };

/// The free ranges of a file: ordered by offset, so that neighbours of one kind join, and within their kind by
/// size, so that the smallest that fits is found. Makes no system call and has no lock. O(log n).
///
/// put() allocates nothing: each range that is out has the record that it may need put aside.
class extent_pool {
public:
    explicit extent_pool(std::uint64_t end) noexcept : end_(end) {}
    extent_pool(extent_pool const&)            = delete;
    extent_pool& operator=(extent_pool const&) = delete;
    ~extent_pool() {
        by_offset_.clear();
        for (auto& s : by_size_) s.clear();
        while (chunk* const c = chunks_) {
            chunks_ = c->next;
            delete c;
        }
    }

    /// To be called before a take(), or a take() and a split: false if there is no memory for records.
    bool prepare() noexcept {
        while (spare_count_ < out_ + 4) {
            auto* const c = new (std::nothrow) chunk;
            if (!c) return false;
            c->next = chunks_;
            chunks_ = c;
            for (piece& p : c->pieces) give(p);
        }
        if (!begun_) {  // all of it is one hole
            begun_ = true;
            ++out_;
            put({0, end_}, free_kind::cold);
        }
        return true;
    }

    /// The smallest range of that kind with room for so many bytes at a multiple of `alignment`; none: no bytes.
    extent_in_file take(free_kind k, std::uint64_t bytes, std::uint64_t alignment) noexcept {
        auto&    sizes = sizes_of(k);
        unsigned tries = 0;
        auto     i     = sizes.lower_bound(bytes, smaller{});
        while (i != sizes.end() && !fits(*i, bytes, alignment)) {
            // After a few that are large enough and lie badly, one where it must fit.
            if (++tries == 8) i = sizes.lower_bound(bytes + alignment, smaller{});
            else ++i;
        }
        if (i == sizes.end()) return {};
        return cut(*i, {aligned(i->offset, alignment), bytes});
    }

    /// Just that range, if all of it is free and of one kind.
    bool take(extent_in_file e) noexcept {
        auto i = by_offset_.upper_bound(e.offset, before{});
        if (i == by_offset_.begin()) return false;
        --i;
        if (e.bytes > i->bytes || e.offset - i->offset > i->bytes - e.bytes) return false;
        cut(*i, e);
        return true;
    }

    /// The largest range of that kind, whole.
    extent_in_file take_largest(free_kind k) noexcept {
        auto& sizes = sizes_of(k);
        if (sizes.empty()) return {};
        piece& p = *std::prev(sizes.end());
        return cut(p, {p.offset, p.bytes});
    }

    /// A range that is out becomes two.
    void split() noexcept { ++out_; }

    void put(extent_in_file e, free_kind k) noexcept {
        --out_;
        auto after = by_offset_.lower_bound(e.offset, before{});
        if (after != by_offset_.end() && after->kind == k && e.end() == after->offset) {
            e.bytes += after->bytes;
            piece& p = *after++;
            unlink(p);
            give(p);
        }
        if (after != by_offset_.begin()) {
            piece& p = *std::prev(after);
            if (p.kind == k && p.offset + p.bytes == e.offset) {
                e = {p.offset, p.bytes + e.bytes};
                unlink(p);
                give(p);
            }
        }
        link(e, k);
    }

    std::uint64_t bytes(free_kind k) const noexcept { return bytes_[static_cast<unsigned>(k)]; }

    /// Free ranges, of all kinds.
    std::size_t pieces() const noexcept { return by_offset_.size(); }

private:
    using hook = boost::intrusive::set_member_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>;

    struct piece {
        std::uint64_t offset = 0, bytes = 0;
        hook          in_offsets, in_sizes;
        piece*        next = nullptr;  ///< among the spare
        free_kind     kind = free_kind::cold;
    };
    struct before {
        bool operator()(piece const& a, piece const& b) const noexcept { return a.offset < b.offset; }
        bool operator()(piece const& a, std::uint64_t b) const noexcept { return a.offset < b; }
        bool operator()(std::uint64_t a, piece const& b) const noexcept { return a < b.offset; }
    };
    struct smaller {
        bool operator()(piece const& a, piece const& b) const noexcept {
            return a.bytes != b.bytes ? a.bytes < b.bytes : a.offset < b.offset;
        }
        bool operator()(piece const& a, std::uint64_t b) const noexcept { return a.bytes < b; }
        bool operator()(std::uint64_t a, piece const& b) const noexcept { return a < b.bytes; }
    };
    template <hook piece::* Hook, class Less>
    using tree = boost::intrusive::set<piece, boost::intrusive::member_hook<piece, hook, Hook>,
                                       boost::intrusive::compare<Less>>;

    struct chunk {
        chunk* next = nullptr;
        piece  pieces[64];
    };

    static std::uint64_t aligned(std::uint64_t at, std::uint64_t alignment) noexcept {
        return (at + alignment - 1) & ~(alignment - 1);
    }
    static bool fits(piece const& p, std::uint64_t bytes, std::uint64_t alignment) noexcept {
        std::uint64_t const skip = aligned(p.offset, alignment) - p.offset;
        return bytes <= p.bytes && skip <= p.bytes - bytes;
    }

    tree<&piece::in_sizes, smaller>& sizes_of(free_kind k) noexcept { return by_size_[static_cast<unsigned>(k)]; }

    /// `e` lies in `p`; what is before and after it stays free.
    extent_in_file cut(piece& p, extent_in_file e) noexcept {
        extent_in_file const all{p.offset, p.bytes};
        free_kind const      k = p.kind;
        unlink(p);
        give(p);
        if (e.offset > all.offset) link({all.offset, e.offset - all.offset}, k);
        if (e.end() < all.end()) link({e.end(), all.end() - e.end()}, k);
        ++out_;
        return e;
    }

    void link(extent_in_file e, free_kind k) noexcept {
        piece& p = *spare_;
        spare_   = p.next;
        --spare_count_;
        p.offset = e.offset;
        p.bytes  = e.bytes;
        p.kind   = k;
        by_offset_.insert(p);
        sizes_of(k).insert(p);
        bytes_[static_cast<unsigned>(k)] += e.bytes;
    }
    void unlink(piece& p) noexcept {
        by_offset_.erase(by_offset_.iterator_to(p));
        sizes_of(p.kind).erase(sizes_of(p.kind).iterator_to(p));
        bytes_[static_cast<unsigned>(p.kind)] -= p.bytes;
    }
    void give(piece& p) noexcept {
        p.next = spare_;
        spare_ = &p;
        ++spare_count_;
    }

    tree<&piece::in_offsets, before> by_offset_;
    tree<&piece::in_sizes, smaller>  by_size_[3];
    std::uint64_t                    bytes_[3]{};
    piece*                           spare_       = nullptr;
    std::size_t                      spare_count_ = 0;
    std::size_t                      out_         = 0;  ///< ranges that somebody has, and may put back
    chunk*                           chunks_      = nullptr;
    std::uint64_t                    end_;
    bool                             begun_ = false;
};

}  // namespace tenure::detail
