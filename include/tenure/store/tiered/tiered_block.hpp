// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// What a tiered_store knows of a block. Under the store's lock, except that `home` and `spare` are the mover's
/// while there is one.
///
///     making -> idle <-> used (by any number of calls)
///                 |  <-> moving (by one thread; only calls that name the block wait)
///                 |
///              claimed, by a deallocate() -> gone, or idle again if the tier would not free it
///
/// A block that is deallocated while it is used or moved is `doomed`: dead for all calls, and freed by the last
/// thread that uses or moves it. So is a freed block of which a tier keeps a copy; it is left for the next
/// deallocate().
///
/// In a forked child, a block that another thread was moving is `lost`: in either tier or in none.
struct tiered_block {
    block         home;   ///< its bytes, in its tier
    block         spare;  ///< a copy that the other tier would not free; id 0: none
    std::uint64_t id        = 0;
    std::size_t   bytes     = 0;
    std::size_t   alignment = 0;
    std::uint32_t users     = 0;  ///< calls that use its bytes
    std::uint32_t pins      = 0;
    bool          fast      = false;  ///< home is in the fast tier
    bool          claimed   = false;  ///< by a deallocate(), or while it is made
    bool          doomed    = false;
    bool          ordered   = false;
    bool          lost      = false;    ///< in a forked child, which does not have its mover
    void const*   mover     = nullptr;  ///< the thread that moves it
    tiered_block* newer     = nullptr;  ///< for use_order
    tiered_block* older     = nullptr;
    tiered_block* next      = nullptr;  ///< in a tiered_blocks

    tiered_block() = default;
    tiered_block(std::size_t size, std::size_t aligned) noexcept : bytes(size), alignment(aligned), claimed(true) {}

    bool        live() const noexcept { return !claimed && !doomed; }
    bool        busy() const noexcept { return users != 0 || mover; }
    bool        may_go() const noexcept { return fast && pins == 0 && !mover && live(); }
    std::size_t in_fast() const noexcept { return (fast ? home.id : spare.id) ? bytes : 0; }
    std::size_t names() const noexcept { return std::size_t{home.id != 0} + std::size_t{spare.id != 0}; }
};

/// A list of blocks: those being freed, or those left behind.
class tiered_blocks {
public:
    void push(tiered_block& b) noexcept {
        b.next = first_;
        first_ = &b;
        names_ += b.names();
        ++size_;
    }
    tiered_block* pop() noexcept {
        tiered_block* const b = first_;
        if (b) first_ = b->next, names_ -= b->names(), --size_;
        return b;
    }
    std::size_t   size() const noexcept { return size_; }
    tiered_block* first() const noexcept { return first_; }
    std::size_t   names() const noexcept { return names_; }  ///< homes and spares of all

private:
    tiered_block* first_ = nullptr;
    std::size_t   names_ = 0;
    std::size_t   size_  = 0;
};

}  // namespace tenure::detail
