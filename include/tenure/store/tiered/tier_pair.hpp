// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include <tenure/detail/blocks/chunks.hpp>
#include <tenure/detail/blocks/gather_space.hpp>
#include <tenure/detail/blocks/is_gone.hpp>
#include <tenure/store/concept.hpp>
#include <tenure/store/tiered/tiered_block.hpp>

namespace tenure::detail {

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
    void free(tiered_blocks& batch, gather_space& space, Settled settled) const noexcept {
        while (batch.first()) {
            gather_space::range const room(space, batch.names());
            std::span<block> const    all   = room.blocks();
            std::size_t               front = 0, back = all.size();
            tiered_blocks             part;
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
