// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <tenure/store/concept.hpp>
#include <tenure/store/dedup/hash.hpp>

namespace tenure::detail {

struct dedup_content;

/// A block as the user of a dedup_store sees it.
struct dedup_block {
    dedup_content* content   = nullptr;  ///< none until it is written
    std::size_t    bytes     = 0;
    std::size_t    alignment = 0;
    std::uint64_t  id        = 0;
    bool           claimed   = false;  ///< a deallocate() is at it
};

/// Bytes that are stored once, for one block or for many. Under the store's lock, but for `home`, which stays.
///
/// While it is in the index it does not change, for others may be reading it to compare: who is to write takes it
/// out, if it has no other user, and else writes to a copy.
struct dedup_content {
    std::uint64_t  index_key  = 0;
    dedup_content* index_next = nullptr;
    content_hash   hash;
    block          home;               ///< in the upstream
    std::size_t    refs    = 1;        ///< blocks that have it, and calls that are comparing with it
    bool           indexed = false;    ///< others can find it
    bool           found   = false;    ///< it was, before it was to be freed
    dedup_block*   last    = nullptr;  ///< the block with whose end it is being freed
    dedup_content* next    = nullptr;  ///< in a chain
};

/// Those that are being freed, or are left.
class dedup_contents {
public:
    void push(dedup_content& c) noexcept {
        c.next = first_;
        first_ = &c;
        ++size_;
    }
    dedup_content* pop() noexcept {
        dedup_content* const c = first_;
        if (c) first_ = c->next, --size_;
        return c;
    }
    std::size_t size() const noexcept { return size_; }

private:
    dedup_content* first_ = nullptr;
    std::size_t    size_  = 0;
};

}  // namespace tenure::detail
