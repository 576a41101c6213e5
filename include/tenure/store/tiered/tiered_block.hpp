// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// What a tiered_store knows of a block. Everything is read and changed under the store's lock, except that `home`
/// and `spare` are the mover's while it has one.
///
///     making -> idle <-> used (by any number of calls)
///                 |  <-> moving (by one thread; who names the block waits for it, nobody else does)
///                 |
///              claimed, by a deallocate() -> gone, or idle again if the tier would not free it
///
/// In the child of a fork(), a block that another thread was moving is `lost`: in whichever tier, perhaps in none.
///
/// A block that is deallocated while a thread moves it is `doomed`: dead for all, and the mover buries it. So is a
/// block that is freed, but a tier keeps a copy of it: that one waits among the left for the next deallocate().
struct tiered_block {
    block         home;   ///< where its bytes are
    block         spare;  ///< id 0: none; else a copy in the other tier, which that would not free
    std::uint64_t id        = 0;
    std::size_t   bytes     = 0;
    std::size_t   alignment = 0;
    std::uint32_t users     = 0;  ///< calls that are at its bytes
    std::uint32_t pins      = 0;
    bool          fast      = false;  ///< home is in the fast tier
    bool          claimed   = false;  ///< also while it is made
    bool          doomed    = false;
    bool          ordered   = false;
    bool          lost      = false;    ///< in a forked child: the thread that was moving it is not there
    void const*   mover     = nullptr;  ///< the thread that moves it
    tiered_block* newer     = nullptr;  ///< of use_order
    tiered_block* older     = nullptr;
    tiered_block* next      = nullptr;  ///< in a batch that is being freed, or among the left

    tiered_block() = default;
    tiered_block(std::size_t size, std::size_t aligned) noexcept : bytes(size), alignment(aligned), claimed(true) {}

    bool        live() const noexcept { return !claimed && !doomed; }
    bool        busy() const noexcept { return users != 0 || mover; }
    bool        may_go() const noexcept { return fast && pins == 0 && !mover && live(); }
    std::size_t in_fast() const noexcept { return (fast ? home.id : spare.id) ? bytes : 0; }
    std::size_t names() const noexcept { return std::size_t{home.id != 0} + std::size_t{spare.id != 0}; }
};

/// A chain of them.
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
    std::size_t   names() const noexcept { return names_; }  ///< of their tiers, all together

private:
    tiered_block* first_ = nullptr;
    std::size_t   names_ = 0;
    std::size_t   size_  = 0;
};

}  // namespace tenure::detail
