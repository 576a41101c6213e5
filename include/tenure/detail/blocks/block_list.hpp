// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <new>
#include <span>

#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// Room for blocks that will be freed in one call. It is allocated when the blocks are, because freeing must not
/// allocate.
struct block_list {
    block_list* next;
    std::size_t room;
    std::size_t count;

    /// Returns the `room` blocks right behind this object. Their lifetime began with the memory.
    block*       items() noexcept { return std::launder(reinterpret_cast<block*>(this + 1)); }
    block const* items() const noexcept { return std::launder(reinterpret_cast<block const*>(this + 1)); }

    std::span<block const> blocks() const noexcept { return {items(), count}; }
    void                   add(block b) noexcept { items()[count++] = b; }

    std::size_t bytes() const noexcept {
        std::size_t sum = 0;
        for (block const& b : blocks()) sum += b.bytes;
        return sum;
    }

    static void operator delete(void* p) noexcept { ::operator delete(p); }  // of more bytes than sizeof says
};

using owned_block_list = owned_ptr<block_list>;

/// Returns an empty list, or null if memory is full.
inline owned_block_list make_block_list(std::size_t room) noexcept {
    if (room == 0) room = 1;
    std::size_t const most = (static_cast<std::size_t>(-1) - sizeof(block_list)) / sizeof(block);
    void* const p = room > most ? nullptr : ::operator new(sizeof(block_list) + room * sizeof(block), std::nothrow);
    return owned_block_list(p ? ::new (p) block_list{nullptr, room, 0} : nullptr);
}

}  // namespace tenure::detail
