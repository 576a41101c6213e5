// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tenure::detail {

/// Reads the file of an LMDB environment (data version 1, 64 bits) that may be damaged. LMDB believes what its
/// pages say, and a flipped bit may send it anywhere; so this class goes first, checks each number before use, and
/// calls f(key, value) for each entry of the main database, in order. Reads memory only.
///
/// A file that passes is a whole tree in whole pages, each used once, keys in order: nothing in it can lead LMDB
/// astray. The caller checks the values.
class lmdb_image {
public:
    explicit lmdb_image(std::span<std::byte const> file) noexcept : file_(file) {}

    /// Reads the meta pages. False: no environment.
    bool begin() {
        meta first, second;
        if (!read_meta(0, first)) return false;
        page_ = first.trees[0].pad;
        if (page_ < 512 || page_ > 65'536 || !std::has_single_bit(page_)) return false;
        if (!read_meta(page_, second) || second.trees[0].pad != page_) return false;
        meta_ = first.transaction < second.transaction ? second : first;
        // The last pages may be free and never written, but only so many of them.
        return meta_.last_page >= 1 && meta_.last_page <= 2 * (file_.size() / page_) + unwritten_pages;
    }
    /// Returns the number of the commit. Different numbers are different commits.
    std::uint64_t transaction() const noexcept { return meta_.transaction; }

    template <class F>
    bool walk(F f) {
        used_.assign(meta_.last_page + 1, false);
        used_[0] = used_[1] = true;

        tree const& free = meta_.trees[0];
        tree const& main = meta_.trees[1];
        if ((free.flags & ~no_subdirectory) != integer_keys || main.flags != 0 || main.pad != 0) return false;
        return walk(main, false, f) && walk(free, true, [&](std::string_view key, std::string_view value) {
                   return check_free(number(key), value);
               });
    }

private:
    static constexpr std::uint64_t no_page = ~std::uint64_t{0}, unwritten_pages = 256;
    static constexpr std::uint16_t integer_keys = 0x08, no_subdirectory = 0x4000;
    static constexpr std::uint16_t branch_page = 1, leaf_page = 2, overflow_page = 4, meta_page = 8;
    static constexpr std::uint16_t in_overflow = 1;
    static constexpr std::size_t   page_header = 16, node_header = 8;
    static constexpr std::uint32_t magic = 0xBEEFC0DE, data_version = 1;
    static constexpr unsigned      deepest = 32;

    struct tree {
        std::uint32_t pad;
        std::uint16_t flags, depth;
        std::uint64_t branches, leaves, overflows, entries, root;
    };
    struct meta {
        std::uint32_t magic, version;
        std::uint64_t address, map_size;
        tree          trees[2];
        std::uint64_t last_page, transaction;
    };
    static_assert(sizeof(tree) == 48 && sizeof(meta) == 136);

    /// Reads eight bytes of `text`, which must have them.
    static std::uint64_t number(std::string_view text, std::size_t offset = 0) noexcept {
        std::array<char, 8> eight{};
        text.copy(eight.data(), eight.size(), offset);
        return std::bit_cast<std::uint64_t>(eight);
    }
    template <class T>
    T at(std::uint64_t offset) const noexcept {
        T t;
        std::memcpy(&t, file_.data() + offset, sizeof t);
        return t;
    }

    bool read_meta(std::uint64_t offset, meta& m) const noexcept {
        if (offset > file_.size() || file_.size() - offset < page_header + sizeof m) return false;
        m = at<meta>(offset + page_header);
        return at<std::uint16_t>(offset + 10) == meta_page && m.magic == magic && m.version == data_version;
    }

    /// Marks a page that exists and was not named before; else returns false.
    bool use(std::uint64_t page) {
        if (page < 2 || page > meta_.last_page || used_[page]) return false;
        used_[page] = true;
        return true;
    }
    bool in_file(std::uint64_t page, std::uint64_t count = 1) const noexcept {
        return count <= meta_.last_page && page <= meta_.last_page + 1 - count &&
               (page + count) * page_ <= file_.size();
    }

    struct bounds {  ///< of keys: from `from` up to, without `to`
        std::optional<std::string_view> from, to;
    };

    static bool before(std::string_view a, std::string_view b, bool integers) noexcept {
        return integers ? number(a) < number(b) : a < b;
    }

    template <class F>
    bool walk(tree const& t, bool integers, F f) {
        tree seen{};
        if (t.root == no_page) return t.depth == 0 && t.entries == 0;
        if (t.depth == 0 || t.depth > deepest) return false;
        return walk(t.root, t.depth, integers, {}, seen, f) && seen.branches == t.branches &&
               seen.leaves == t.leaves && seen.overflows == t.overflows && seen.entries == t.entries;
    }

    template <class F>
    bool walk(std::uint64_t page, unsigned depth, bool integers, bounds b, tree& seen, F& f) {
        if (!use(page) || !in_file(page)) return false;
        std::uint64_t const begin = page * page_;
        bool const          leaf  = depth == 1;
        auto const          lower = at<std::uint16_t>(begin + 12), upper = at<std::uint16_t>(begin + 14);
        // An empty 64 KiB page has an upper of 65536, which is 0 here; no page in use is empty.
        if (at<std::uint64_t>(begin) != page || at<std::uint16_t>(begin + 10) != (leaf ? leaf_page : branch_page) ||
            at<std::uint16_t>(begin + 8) != 0 || lower < page_header || lower > upper || upper > page_ || lower % 2)
            return false;
        std::size_t const count = (lower - page_header) / 2;
        if (count < (leaf || integers ? 1u : 2u)) return false;
        ++(leaf ? seen.leaves : seen.branches);

        std::size_t sizes = 0;
        for (std::size_t i = 0; i < count; ++i) {
            node n;
            if (!read_node(begin, at<std::uint16_t>(begin + page_header + 2 * i), upper, leaf, n)) return false;
            sizes += n.size;
            bool const nameless = !leaf && i == 0;  // the first key of a branch means nothing
            if (!nameless) {
                if (integers && n.key.size() != 8) return false;
                if (n.key.empty() || (b.from && before(n.key, *b.from, integers)) ||
                    (b.to && !before(n.key, *b.to, integers)))
                    return false;
            }
            if (leaf) {
                if (i > 0 && b.from && !before(*b.from, n.key, integers)) return false;
                b.from = n.key;
                ++seen.entries;
                std::string_view value = n.value;
                if (n.flags == in_overflow && (!integers || !read_overflow(n, value, seen))) return false;
                if (!f(n.key, value)) return false;
                continue;
            }
            bounds child = b;
            if (!nameless) child.from = n.key;
            if (i + 1 < count) {
                node next;
                if (!read_node(begin, at<std::uint16_t>(begin + page_header + 2 * (i + 1)), upper, leaf, next) ||
                    (integers && next.key.size() != 8) || next.key.empty())
                    return false;
                child.to = next.key;
            }
            if (!walk(n.child, depth - 1, integers, child, seen, f)) return false;
        }
        return sizes == page_ - upper;
    }

    struct node {
        std::string_view key, value;
        std::uint64_t    child  = 0;
        std::uint64_t    length = 0;  ///< of the value, in the page or not
        std::uint16_t    flags  = 0;
        std::size_t      size   = 0;  ///< in the page
    };

    bool read_node(std::uint64_t begin, std::uint16_t offset, std::uint16_t upper, bool leaf,
                   node& n) const noexcept {
        if (offset < upper || offset % 2 || offset + node_header > page_) return false;
        std::uint64_t const here = begin + offset;
        std::uint64_t const low = at<std::uint16_t>(here), high = at<std::uint16_t>(here + 2);
        n.flags               = at<std::uint16_t>(here + 4);
        std::size_t const key = at<std::uint16_t>(here + 6);
        n.length              = low | high << 16;
        n.child               = n.length | std::uint64_t{n.flags} << 32;
        if (leaf && (n.flags & ~in_overflow)) return false;
        std::size_t const value = !leaf ? 0 : n.flags & in_overflow ? 8 : n.length;
        n.size                  = (node_header + key + value + 1) & ~std::size_t{1};
        if (n.size > page_ - offset) return false;
        auto const* const text = reinterpret_cast<char const*>(file_.data() + here + node_header);
        n.key                  = {text, key};
        n.value                = {text + key, value};
        return true;
    }

    bool read_overflow(node const& n, std::string_view& value, tree& seen) {
        std::uint64_t const page  = number(n.value);
        std::uint64_t const count = (n.length + page_header + page_ - 1) / page_;
        if (page < 2 || !in_file(page, count)) return false;
        std::uint64_t const begin = page * page_;
        if (at<std::uint64_t>(begin) != page || at<std::uint16_t>(begin + 10) != overflow_page ||
            at<std::uint32_t>(begin + 12) != count)
            return false;
        for (std::uint64_t i = 0; i < count; ++i)
            if (!use(page + i)) return false;
        seen.overflows += count;
        value = {reinterpret_cast<char const*>(file_.data() + begin + page_header), n.length};
        return true;
    }

    /// Checks the pages that a commit has freed: their count, then their numbers, the largest first.
    bool check_free(std::uint64_t transaction, std::string_view value) {
        if (transaction > meta_.transaction || value.size() < 8 || value.size() % 8) return false;
        std::uint64_t const count = number(value);
        if (count != value.size() / 8 - 1) return false;
        std::uint64_t last = no_page;
        for (std::uint64_t i = 1; i <= count; ++i) {
            std::uint64_t const page = number(value, 8 * i);
            if (page >= last || !use(page)) return false;
            last = page;
        }
        return true;
    }

    std::span<std::byte const> file_;
    std::uint64_t              page_ = 0;
    meta                       meta_{};
    std::vector<bool>          used_;
};

}  // namespace tenure::detail
