// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <tenure/detail/blocks/gather_space.hpp>
#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// Blocks of several stores that are to be freed, each store's in one call. Allocates nothing: the room was made
/// with the blocks. Not thread-safe.
class freed_replicas {
public:
    /// Takes room for `want` blocks, or for less if other threads have it.
    freed_replicas(gather_space& space, std::size_t want) noexcept : range_(space, 2 * want) {}

    /// Returns for how many more there is room.
    std::size_t room() const noexcept { return range_.blocks().size() / 2 - size_; }

    void add(std::uint16_t store, block b) noexcept {
        blocks()[size_]   = b;
        stores()[size_++] = {store, 0};
    }

    /// Calls f(store, blocks) for each store. Cost: O(blocks x stores).
    template <class F>
    void for_each_store(F&& f) noexcept {
        for (std::size_t done = 0; done < size_;) {
            std::size_t end = done;
            for (std::size_t i = done; i < size_; ++i) {
                if (stores()[i].id != stores()[done].id) continue;
                std::swap(stores()[i], stores()[end]);
                std::swap(blocks()[i], blocks()[end++]);
            }
            f(static_cast<std::uint16_t>(stores()[done].id), std::span<block const>(blocks() + done, end - done));
            done = end;
        }
        size_ = 0;
    }

private:
    block* blocks() const noexcept { return range_.blocks().data(); }
    block* stores() const noexcept { return blocks() + range_.blocks().size() / 2; }  // their numbers, as ids

    gather_space::range range_;
    std::size_t         size_ = 0;
};

}  // namespace tenure::detail
