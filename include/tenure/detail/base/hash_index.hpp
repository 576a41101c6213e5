// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace tenure::detail {

/// Finds nodes by a 64-bit key. The nodes are chained through themselves, so neither inserting nor erasing can
/// fail. Without memory for more buckets, the chains get longer. Keys may repeat; nodes of one key keep the order
/// in which they were inserted. Not thread-safe. O(1) on average.
///
/// A Node has `std::uint64_t index_key` and `Node* index_next`, both the index's while the node is in it.
template <class Node>
class hash_index {
public:
    hash_index()                             = default;
    hash_index(hash_index const&)            = delete;
    hash_index& operator=(hash_index const&) = delete;
    ~hash_index() { delete[] many_; }

    void insert(std::uint64_t key, Node& n) noexcept {
        if (size_ >= count()) grow();
        insert_as_it_is(key, n);
    }

    /// As insert(), with the buckets that are there: for a node that comes under a spin lock, or as others are
    /// freed.
    void insert_as_it_is(std::uint64_t key, Node& n) noexcept {
        n.index_key = key;
        append(n);
        ++size_;
    }

    /// Makes buckets for so many nodes, while the index is empty. Returns false if memory is full.
    bool reserve(std::size_t nodes) noexcept {
        auto const bits = std::max(first_bits, static_cast<unsigned>(std::bit_width(nodes - 1)));
        delete[] many_;
        many_ = new (std::nothrow) Node* [std::size_t{1} << bits] {};
        bits_ = many_ ? bits : 0;
        return bits_ != 0;
    }

    /// Returns the oldest node of that key, or null.
    Node* first(std::uint64_t key) const noexcept { return from(buckets()[place_of(key)], key); }

    /// Returns the next node of the same key, or null.
    static Node* next(Node const& n) noexcept { return from(n.index_next, n.index_key); }

    void erase(Node& n) noexcept {
        Node** at = &buckets()[place_of(n.index_key)];
        while (*at != &n) at = &(*at)->index_next;
        *at = n.index_next;
        --size_;
    }

    std::size_t size() const noexcept { return size_; }

    /// Returns how many nodes the buckets are meant for.
    std::size_t room() const noexcept { return count(); }

    /// Takes out all nodes and calls f(node) for each, which may delete it.
    template <class F>
    void drain(F f) noexcept {
        for (std::size_t i = 0; i < count(); ++i) {
            while (Node* const n = buckets()[i]) {
                buckets()[i] = n->index_next;
                --size_;
                f(*n);
            }
        }
    }

private:
    static constexpr unsigned first_bits = 6;

    static Node* from(Node* n, std::uint64_t key) noexcept {
        while (n && n->index_key != key) n = n->index_next;
        return n;
    }

    std::size_t count() const noexcept { return std::size_t{1} << bits_; }
    Node**      buckets() const noexcept { return many_ ? many_ : const_cast<Node**>(&one_); }

    /// Ids count up from small numbers; the product spreads them (Knuth, vol. 3, 6.4).
    std::size_t place_of(std::uint64_t key) const noexcept {
        return bits_ ? static_cast<std::size_t>(key * 0x9e3779b97f4a7c15 >> (64 - bits_)) : 0;
    }

    void append(Node& n) noexcept {
        Node** at = &buckets()[place_of(n.index_key)];
        while (*at) at = &(*at)->index_next;
        *at          = &n;
        n.index_next = nullptr;
    }

    void grow() noexcept {
        unsigned const more  = bits_ ? bits_ + 1 : first_bits;
        auto* const    wider = new (std::nothrow) Node* [std::size_t{1} << more] {};
        if (!wider) return;
        std::size_t const old_count = count();
        Node** const      old       = std::exchange(many_, wider);
        Node* const       old_one   = std::exchange(one_, nullptr);
        bits_                       = more;
        for (std::size_t i = 0; i < old_count; ++i) {
            for (Node* n = old ? old[i] : old_one; n;) {
                Node* const after = n->index_next;
                append(*n);
                n = after;
            }
        }
        delete[] old;
    }

    Node**      many_ = nullptr;
    Node*       one_  = nullptr;  ///< the only bucket at first
    unsigned    bits_ = 0;
    std::size_t size_ = 0;
};

}  // namespace tenure::detail
