// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include <tenure/detail/blocks/chunks.hpp>
#include <tenure/detail/blocks/gather_space.hpp>
#include <tenure/detail/blocks/is_gone.hpp>
#include <tenure/store/adaptor/parts.hpp>
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
    tiered_block* next      = nullptr;  ///< in a chain

    tiered_block() = default;
    tiered_block(std::size_t size, std::size_t aligned) noexcept : bytes(size), alignment(aligned), claimed(true) {}

    bool        live() const noexcept { return !claimed && !doomed; }
    bool        busy() const noexcept { return users != 0 || mover; }
    bool        may_go() const noexcept { return fast && pins == 0 && !mover && live(); }
    std::size_t in_fast() const noexcept { return (fast ? home.id : spare.id) ? bytes : 0; }
    std::size_t names() const noexcept { return std::size_t{home.id != 0} + std::size_t{spare.id != 0}; }
};

/// What a tiered_store does with its tiers: without a lock, on blocks that no other thread uses. After an error
/// the block's bytes are where they were.
template <class Fast, class Slow>
struct tier_pair {
    std::shared_ptr<Fast> const fast;
    std::shared_ptr<Slow> const slow;

    std::error_code drop_spare(tiered_block& e) const noexcept {
        return e.fast ? drop(*slow, e.spare) : drop(*fast, e.spare);
    }
    std::error_code drop_home(tiered_block& e) const noexcept {
        return e.fast ? drop(*fast, e.home) : drop(*slow, e.home);
    }

    /// Moves the home to the slow tier. The caller sets `e.fast`, which is read under the lock.
    std::error_code demote(tiered_block& e) const noexcept {
        if (std::error_code const wrong = drop_spare(e)) return wrong;
        result<block> const copy = slow->allocate(e.bytes, e.alignment);
        return copy ? move_home(e, *fast, *slow, *copy) : copy.error();
    }

    /// Moves the home to `copy`, a block of the fast tier. There must be no spare. The caller sets `e.fast`.
    std::error_code promote(tiered_block& e, block copy) const noexcept { return move_home(e, *slow, *fast, copy); }

    /// Frees homes and spares, in one call to each tier if there is room to gather them. Calls settled(block, is
    /// home gone, is spare gone, result of the home's tier).
    template <class Settled>
    void free(chain<tiered_block>& batch, gather_space& space, Settled settled) const noexcept {
        while (batch.first()) {
            gather_space::range const room(space, 2 * batch.size());
            std::span<block> const    all   = room.blocks();
            std::size_t               front = 0, back = all.size();
            chain<tiered_block>       part;
            while (batch.first() && batch.first()->names() <= back - front) {
                tiered_block& e = *batch.pop();
                if (e.home.id) (e.fast ? all[front++] : all[--back]) = e.home;
                if (e.spare.id) (e.fast ? all[--back] : all[front++]) = e.spare;
                part.push(e);
            }
            result<void> const f = front ? fast->deallocate(all.first(front)) : result<void>();
            result<void> const s = back < all.size() ? slow->deallocate(all.subspan(back)) : result<void>();
            while (tiered_block* const e = part.pop()) {
                if (e->fast) settled(*e, is_freed(*fast, f, e->home), is_freed(*slow, s, e->spare), f);
                else settled(*e, is_freed(*slow, s, e->home), is_freed(*fast, f, e->spare), s);
            }
        }
    }

private:
    template <class Tier>
    static bool is_freed(Tier& tier, result<void> const& outcome, block b) noexcept {
        return !b.id || outcome || is_gone(tier, b);
    }

    /// Frees `b` and makes it none, unless there is an error.
    template <class Tier>
    static std::error_code drop(Tier& tier, block& b) noexcept {
        if (!b.id) return {};
        result<void> const outcome = tier.deallocate({&b, 1});
        if (!is_freed(tier, outcome, b)) return outcome.error();
        b = {};
        return {};
    }

    /// Fills the copy and makes it the home. On error frees the copy, or keeps it as the spare.
    template <class From, class To>
    static std::error_code move_home(tiered_block& e, From& from, To& to, block copy) noexcept {
        result<void> const copied = copy_part(from, e.home, to, copy, 0, e.bytes);
        std::error_code    wrong  = copied ? drop(from, e.home) : copied.error();
        if (!wrong) {
            e.home = copy;
        } else if (copied && !from.read(e.home, 0, {})) {
            // The old home may exist or not; only the copy is certain.
            e.spare = std::exchange(e.home, copy);
            wrong   = {};
        } else {
            e.spare = copy;
            drop(to, e.spare);
        }
        return wrong;
    }
};

}  // namespace tenure::detail
