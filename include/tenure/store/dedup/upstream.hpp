// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include <tenure/detail/blocks/chunks.hpp>
#include <tenure/detail/blocks/gather_space.hpp>
#include <tenure/detail/blocks/is_gone.hpp>
#include <tenure/store/concept.hpp>
#include <tenure/store/dedup/content.hpp>
#include <tenure/store/dedup/hash.hpp>

namespace tenure::detail {

/// What a dedup_store does with its upstream: without a lock, on contents that do not change meanwhile.
template <class Upstream, class Hasher>
struct dedup_upstream {
    std::shared_ptr<Upstream> const store;

    static std::optional<content_hash> hash_of(std::span<std::byte const> bytes) noexcept {
        Hasher hasher;
        return hasher.update(bytes) ? std::optional(hasher.digest()) : std::nullopt;
    }
    std::optional<content_hash> hash_of(block home) const {
        Hasher             hasher;
        result<void> const r =
            for_each_chunk(*store, home, 0, home.bytes, [&](std::size_t, std::span<std::byte const> piece) {
                return hasher.update(piece) ? result<void>() : result<void>(make_error_code(errc::memory_full));
            });
        return r ? std::optional(hasher.digest()) : std::nullopt;
    }

    /// Returns whether that part of a stored content is `bytes`; false if it cannot be read.
    bool equals(block home, std::size_t offset, std::span<std::byte const> bytes) const {
        return for_each_chunk(*store, home, offset, bytes.size(),
                              [&](std::size_t at, std::span<std::byte const> piece) -> result<void> {
                                  if (std::memcmp(piece.data(), bytes.data() + (at - offset), piece.size()) == 0)
                                      return {};
                                  return make_error_code(errc::out_of_range);  // any error ends the loop
                              })
            .has_value();
    }
    bool equals(block home, block other) const {
        return for_each_chunk(*store, other, 0, other.bytes,
                              [&](std::size_t at, std::span<std::byte const> piece) -> result<void> {
                                  if (equals(home, at, piece)) return {};
                                  return make_error_code(errc::out_of_range);
                              })
            .has_value();
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
    void free(dedup_contents& all, gather_space& space, Settled settled) const noexcept {
        while (all.size()) {
            gather_space::range const room(space, all.size());
            dedup_contents            part;
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
};

}  // namespace tenure::detail
