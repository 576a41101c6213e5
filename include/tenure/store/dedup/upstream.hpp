// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include <tenure/detail/blocks/chunks.hpp>
#include <tenure/detail/blocks/gather_space.hpp>
#include <tenure/detail/blocks/is_gone.hpp>
#include <tenure/store/adaptor/parts.hpp>
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
    dedup_content* next    = nullptr;  ///< in a chain
};

/// What a dedup_store does with its upstream: without a lock, on contents that do not change meanwhile.
template <class Upstream, class Hasher>
struct dedup_upstream {
    std::shared_ptr<Upstream> const store;

    static std::optional<content_hash> hash_of(std::span<std::byte const> bytes) noexcept {
        Hasher hasher;
        return hasher.update(bytes) ? std::optional(hasher.digest()) : std::nullopt;
    }
    std::optional<content_hash> hash_of(block home) const {
        Hasher     hasher;
        bool const read = holds(home, 0, home.bytes, [&](std::size_t, std::span<std::byte const> piece) {
            return hasher.update(piece);
        });
        return read ? std::optional(hasher.digest()) : std::nullopt;
    }

    /// Returns whether that part of a stored content is `bytes`; false if it cannot be read.
    bool equals(block home, std::size_t offset, std::span<std::byte const> bytes) const {
        return holds(home, offset, bytes.size(), [&](std::size_t at, std::span<std::byte const> piece) {
            return std::memcmp(piece.data(), bytes.data() + (at - offset), piece.size()) == 0;
        });
    }
    bool equals(block home, block other) const {
        return holds(other, 0, other.bytes,
                     [&](std::size_t at, std::span<std::byte const> piece) { return equals(home, at, piece); });
    }

    /// Copies a part of one block to the same part of another.
    result<void> copy(block from, block to, std::size_t offset, std::size_t bytes) const {
        return copy_part(*store, from, *store, to, offset, bytes);
    }

    /// Frees a content's block; false: the upstream would not.
    bool drop(block home) const noexcept { return store->deallocate({&home, 1}) || is_gone(*store, home); }

    /// Frees contents, in one call if there is room to gather them. Calls settled(content, whether it is freed,
    /// error).
    template <class Settled>
    void free(chain<dedup_content>& all, gather_space& space, Settled settled) const noexcept {
        while (all.size()) {
            gather_space::range const room(space, all.size());
            chain<dedup_content>      part;
            for (block& b : room.blocks()) {
                dedup_content* const c = all.pop();
                b                      = c->home;
                part.push(*c);
            }
            result<void> const outcome = store->deallocate(room.blocks());
            while (dedup_content* const c = part.pop())
                settled(c, outcome || is_gone(*store, c->home), outcome.error());
        }
    }

private:
    /// Returns whether that part of a content can be read, and f(offset, piece) is true for each piece of it.
    template <class F>
    bool holds(block home, std::size_t offset, std::size_t bytes, F f) const {
        auto const go_on = [&](std::size_t at, std::span<std::byte const> piece) -> result<void> {
            if (f(at, piece)) return {};
            return make_error_code(errc::corrupt);  // any error ends the loop
        };
        return for_each_chunk(*store, home, offset, bytes, go_on).has_value();
    }
};

}  // namespace tenure::detail
