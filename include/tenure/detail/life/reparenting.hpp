// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/detail/batch/checkpoint.hpp>
#include <tenure/detail/batch/children.hpp>
#include <tenure/detail/batch/limits.hpp>
#include <tenure/detail/batch/window.hpp>
#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/life/closing.hpp>
#include <tenure/detail/life/exclusive_claim.hpp>
#include <tenure/detail/life/opening.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// How a batch gets another parent.

/// Does to a batch, which is held, what the end or the stop of its parent would have done, had it not been passed
/// over.
TENURE_COLD inline void pass_on_end(batch_record& b, std::uint64_t id, batch_record& parent) noexcept {
    if (!(parent.state.fetch_add(0, std::memory_order_acq_rel) & batch_flags::over)) return;  // as tell_new_batch()
    errc const why = parent.cause.load(std::memory_order_acquire);
    if (why != errc{}) b.registry.load(std::memory_order_relaxed)->timing->stop(b, id, why);
    else if (b.detached.load(std::memory_order_relaxed)) return;
    else if (!b.guard.load(std::memory_order_acquire) || !stop_guard(b, id)) end_record(b, id, false);
}

/// A batch with all that is below it, claimed: nobody is in any of it, nor comes in, nor walks through it.
class moving_tree {
public:
    moving_tree() = default;
    /// Lets go of it. What ended or stopped the batch above one meanwhile has passed that over, and is made up for,
    /// from the top downwards. What that frees runs destructors; so then nothing is claimed any more.
    ~moving_tree() {
        for (member& m : all_) {
            if (m.claim->why() != errc{} || !m.batch->holds_parent) continue;
            m.parent = m.batch->parent.load(std::memory_order_relaxed);
            m.parent->state.fetch_add(1, std::memory_order_acq_rel);
        }
        for (member const& m : all_)
            if (m.claim->why() == errc{}) m.claim->let_go();
        for (member const& m : all_)
            if (m.parent) pass_on_end(*m.batch, m.id, *m.parent);
        for (member& m : all_) {
            m.claim.reset();
            if (m.parent) release_hold(m.parent);
        }
        if (left_) release_hold(left_);
    }
    moving_tree(moving_tree const&)            = delete;
    moving_tree& operator=(moving_tree const&) = delete;

    /// Claims a batch and all below it. Errors: why the batch is over; batch_in_use if somebody else is in one of
    /// them, if one is just beginning or ending, or has a guard of this thread, but for the top, or one nested in
    /// it; not_restorable if one has a checkpoint; memory_full.
    failure claim(batch_record& top, std::uint64_t id) noexcept {
        if (failure const why = add({&top, id})) return why;
        if (has_open_children(top)) return {errc::batch_in_use, &top};
        for (std::size_t i = 0; i < all_.size(); ++i) {
            batch_record&           parent = *all_[i].batch;
            std::vector<batch_seen> children;
            if (!list_children(parent, children)) return no_memory(top);
            for (batch_seen const& c : children) {
                failure const why = add(c);
                // Is over, or just begins; is a guard's; or was moved elsewhere before it was claimed.
                if (why.id || (!why && (c.batch->in_chain.load(std::memory_order_relaxed) ||
                                        c.batch->parent.load(std::memory_order_relaxed) != &parent)))
                    return {errc::batch_in_use, &parent};
                if (why) return why;
            }
        }
        // No walk is in there: it would have ended or stopped the top, which it comes to first.
        if (top.state.load(std::memory_order_acquire) & batch_flags::over) return over_failure(id);
        return {};
    }

    /// Gives back the hold on a parent that the top has left, once nothing is claimed any more.
    void leave(batch_record* parent) noexcept { left_ = parent; }

    template <class F>
    void for_each(F f) noexcept {
        for (member const& m : all_) f(*m.batch);
    }

private:
    struct batch_seen {
        batch_record* batch;
        std::uint64_t id;
    };
    struct member : batch_seen {
        owned_ptr<exclusive_claim> claim{};
        batch_record*              parent = nullptr;  ///< while this lets go of it
    };

    static failure no_memory(batch_record const& b) noexcept {
        return {errc::memory_full, &b, sizeof(exclusive_claim)};
    }

    failure add(batch_seen const& b) noexcept {
        owned_ptr<exclusive_claim> c;
        bool const                 room = memory_lasts([&] { all_.push_back({b}); });
        if (room) c.reset(new (std::nothrow) exclusive_claim(*b.batch, b.id, batch_flags::closed, true));
        if (room && !c) all_.pop_back();
        if (!c) return no_memory(*b.batch);
        all_.back().claim = std::move(c);
        if (errc const why = all_.back().claim->why(); why != errc{}) return {.code = why, .id = b.id};
        if (has_checkpoint(*b.batch)) return {errc::not_restorable, b.batch};
        return {};
    }

    /// Lists the children of a batch that is claimed, so that none is added. Returns false if memory is full.
    static bool list_children(batch_record& b, std::vector<batch_seen>& out) noexcept {
        auto const for_children = [&](auto f) {
            std::scoped_lock const guard(b.lock);
            for (batch_record* c = b.rest.oldest_child; c; c = c->rest.newer_sibling) f(*c);
        };
        std::size_t n = 0;
        for_children([&](batch_record&) { ++n; });
        if (!memory_lasts([&] { out.reserve(n); })) return false;
        for_children([&](batch_record& c) { out.push_back({&c, c.id.load(std::memory_order_acquire)}); });
        return true;
    }

    std::vector<member> all_;  ///< parents before their children
    batch_record*       left_ = nullptr;
};

/// Moves a claimed tree below another batch, which is held.
class reparenting {
public:
    reparenting(moving_tree& tree, batch_record& top, batch_record& to) noexcept
        : tree_(tree),
          top_(top),
          to_(to),
          charged_(top.limited == &top ? limited_above(&top) : top.limited),
          common_(nearest_charged(charged_, to.limited)) {}

    /// Moves all, or nothing. Errors: limit_exceeded.
    failure move() noexcept {
        std::uint64_t bytes = 0;
        tree_.for_each([&](batch_record& b) {
            for_lanes(b, [](lane& l) { close_window(l); });
            bytes += charge_of(b);
        });
        if (to_.limited)
            if (failure const why = charge_exactly(to_, common_, bytes)) return why;
        if (charged_) refund(charged_, common_, bytes);
        tree_.for_each([&](batch_record& b) {
            if (b.limited == charged_) aim(b);
        });
        join();
        tree_.for_each([](batch_record& b) {
            if (!b.is_loose) return;
            leave_loose(b);  // the registry's list has what is below a batch in front of it
            become_loose(*b.registry.load(std::memory_order_relaxed), b);
        });
        return {};
    }

private:
    /// What a batch has charged to those with limits, or would have if there were some.
    static std::uint64_t charge_of(batch_record& b) noexcept {
        if (b.limited) return b.own_charge.load(std::memory_order_relaxed);
        batch_usage const use = usage_of(b);
        return use.bytes + use.buffer_bytes;
    }

    /// Has a batch without limits of its own, nor of one below the top, charge to the new ones.
    void aim(batch_record& b) noexcept {
        b.own_charge.store(to_.limited ? charge_of(b) : 0, std::memory_order_relaxed);
        b.limited = to_.limited;
        if (b.limited) b.unusual |= unusual_flags::own | unusual_flags::inherited;
    }

    void join() noexcept {
        unlist_child(top_);
        if (top_.holds_parent) tree_.leave(top_.parent.load(std::memory_order_relaxed));
        top_.holds_parent = false;
        top_.detached.store(false, std::memory_order_relaxed);
        bool const holds = !is_root(to_);
        if (holds) to_.state.fetch_add(1, std::memory_order_acq_rel);
        top_.parent.store(&to_, std::memory_order_release);
        if (!holds) return;
        top_.hold_its_parent();
        list_child(to_, top_);
    }

    moving_tree&        tree_;
    batch_record&       top_;
    batch_record&       to_;
    batch_record* const charged_;  ///< the nearest with limits above the tree, or null
    batch_record* const common_;   ///< the nearest that both the former parent and the new one charge
};

/// Gives a batch other than the root another parent of its registry. Errors: no_such_batch; what over_failure()
/// says of either; not_owner if the new parent is what several batches share; below_itself; batch_in_use if the new
/// parent has too many batches below it; those of moving_tree::claim() and reparenting::move(); not_restorable if
/// either parent has a checkpoint.
inline failure reparent(batch_record& b, std::uint64_t id, std::uint64_t to_id) noexcept {
    close_those_elsewhere();
    found const to = find_batch(*b.registry.load(std::memory_order_relaxed), to_id);
    if (!to.known) return {.code = errc::no_such_batch, .id = to_id};
    if (!to.record) return over_failure(to_id);
    look_at_the_clock(*to.record, to_id);
    kept_open const target(*to.record, to_id, batch_flags::closed);
    if (!target) return over_failure(to_id);
    if (is_common(*to.record)) return {errc::not_owner, to.record};
    if (to.record->state.load(std::memory_order_relaxed) & batch_flags::crowded)
        return {errc::batch_in_use, to.record};
    {
        kept_open const held(b, id, batch_flags::closed);
        if (!held) return over_failure(id);
        if (&b == to.record || is_above(b, *to.record)) return {errc::below_itself, &b};
        if (b.in_chain.load(std::memory_order_relaxed) && b.guard.load(std::memory_order_acquire) == &this_thread)
            hold_parent(b);  // so that it is in a list, as a batch elsewhere is
    }
    moving_tree tree;
    if (failure const why = tree.claim(b, id)) return why;
    batch_record const& from = *b.parent.load(std::memory_order_relaxed);
    if (&from == to.record) return {};
    for (batch_record const* up : {&from, static_cast<batch_record const*>(to.record)})
        if (has_checkpoint(*up)) return {errc::not_restorable, up};
    return reparenting(tree, b, *to.record).move();
}

}  // namespace tenure::detail
