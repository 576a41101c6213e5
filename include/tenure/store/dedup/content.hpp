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
    dedup_content* content   = nullptr;  ///< null until it is written
    std::size_t    bytes     = 0;
    std::size_t    alignment = 0;
    std::uint64_t  id        = 0;
    bool           claimed   = false;  ///< a deallocate() is freeing it
};

/// Bytes stored once, for one block or for many. Under the store's lock, except `home`, which does not change.
///
/// An indexed content does not change, since other threads may be comparing with it. To write, a thread takes it
/// out of the index if it has no other user, and else writes to a copy.
struct dedup_content {
    std::uint64_t  index_key  = 0;
    dedup_content* index_next = nullptr;
    content_hash   hash;
    block          home;               ///< in the upstream
    std::size_t    refs    = 1;        ///< blocks that have it, and calls that are comparing with it
    bool           indexed = false;    ///< other blocks can find it
    bool           found   = false;    ///< it was indexed before it was claimed
    dedup_block*   last    = nullptr;  ///< the block that is being freed with it
    dedup_content* next    = nullptr;  ///< in a dedup_contents
};

/// Contents that are being freed, or are left behind.
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
