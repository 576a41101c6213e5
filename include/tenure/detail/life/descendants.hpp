// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <poll.h>
#include <sched.h>

#include <tenure/detail/batch/release.hpp>

namespace tenure::detail {

/// What is below a batch, found at a cost in proportion to itself, however many batches the registry has.
///
///     top ◀─── list of children ─── loose ◀─── list ─── scope ◀─── list ─── loose
///      ▲                                                  ▲
///      └── chain of its thread: scope, scope              └── chain of its thread: scope
///
/// A batch that holds its parent is in the list of its parent's children. A scope that a thread has nested in one
/// of its own holds nothing: it is in the chain of that thread's guards, above the scope in which it is nested, its
/// *anchor*, which is listed or the top. The thread changes its chain without a lock.

/// Whether `b` ends when `top` does: it is `top` or below it, and no batch from `b` up to `top` was detached.
inline bool governs(batch_record const& top, batch_record const* b) noexcept {
    while (b && b != &top && !b->detached.load(std::memory_order_relaxed))
        b = b->parent.load(std::memory_order_acquire);
    return b == &top;
}

/// Whether `top` is above `b`.
inline bool is_above(batch_record const& top, batch_record const& b) noexcept {
    batch_record const* up = b.parent.load(std::memory_order_acquire);
    while (up && up != &top) up = up->parent.load(std::memory_order_acquire);
    return up;
}

/// Whether `b` is a scope that a thread has nested in its scope `anchor`, at any depth.
inline bool is_nested_in(batch_record const& anchor, batch_record const& b) noexcept {
    batch_record const* up = &b;
    while (up && up != &anchor && !up->is_listed.load(std::memory_order_acquire))
        up = up->parent.load(std::memory_order_acquire);
    return up == &anchor;
}

/// Returns the next scope nested in `anchor` and opened after `from`, which are both held, and holds it; null:
/// none.
///
/// Goes up the chain one scope after another. When it has read which scope is above, it looks whether the one below
/// was still in the chain then. If not, it begins again. So it misses no scope that was open at the beginning and
/// stays open: nothing that is in a chain changes its place there. A scope that is opened later sees by itself
/// whether its parent is over: put_below().
inline batch_record* hold_nested(batch_record& anchor, batch_record& from) noexcept {
    batch_record* at = &from;
    std::uint64_t id = at->id.load(std::memory_order_acquire);
    for (int failed = 0;;) {
        batch_record* const above    = at->newer.load(std::memory_order_acquire);
        std::uint64_t const above_id = above ? above->id.load(std::memory_order_acquire) : 0;
        bool const          stays    = at->in_chain.load(std::memory_order_acquire) &&
                           at->newer.load(std::memory_order_acquire) == above &&
                           at->id.load(std::memory_order_acquire) == id;
        if (!stays) {
            at = &anchor;
            id = at->id.load(std::memory_order_acquire);
            if (!at->in_chain.load(std::memory_order_acquire)) return nullptr;
            if (++failed % 128 != 0) ::sched_yield();
            else ::poll(nullptr, 0, 1);  // that thread opens and closes scopes all the time
            continue;
        }
        if (!above_id) return nullptr;  // there is none, or it is just being opened
        if (is_nested_in(anchor, *above) && hold_until_freed(*above, above_id, batch_flags::moving)) {
            if (is_above(anchor, *above)) return above;
            release_hold(above);  // it moved before it was held
        }
        at = above;
        id = above_id;
    }
}

/// Returns the child that was listed after `after`, or the first one, and holds it; null: none. Passes over those
/// that are being freed, with nothing below them, or get another parent: who moves them then looks whether that, or
/// the one that they had, is over.
inline batch_record* hold_listed(batch_record& parent, batch_record const* after) noexcept {
    std::scoped_lock const guard(parent.lock);
    batch_record*          b = after ? after->rest.newer_sibling : parent.rest.oldest_child;
    for (; b; b = b->rest.newer_sibling) {
        std::uint64_t const id = b->id.load(std::memory_order_acquire);
        if (id && hold_until_freed(*b, id, batch_flags::moving))
            return b;  // 0: it is being opened, and will look at its parent
    }
    return nullptr;
}

/// A walk through what is below a batch, which the caller holds: parents before their children, older children
/// before younger. Holds the batch where it is. That keeps those above it, too, each by its child.
class descent {
public:
    explicit descent(batch_record& top) noexcept : top_(top), at_(&top) {
        ++this_thread.listed_ends;  // a rollback waits for these holds, so callees here wait for no rollback
    }
    ~descent() { --this_thread.listed_ends; }
    descent(descent const&)            = delete;
    descent& operator=(descent const&) = delete;

    /// Goes to the next batch: the first below the one where it is if `deeper`, else the next that is not below.
    /// Null: there is none. Frees what ended meanwhile and nothing else holds.
    batch_record* next(bool deeper) noexcept {
        batch_record* to = deeper ? below(*at_, nullptr) : nullptr;
        while (!to && at_ != &top_) {
            bool const    listed = at_->is_listed.load(std::memory_order_acquire);
            batch_record& up     = listed ? *at_->parent.load(std::memory_order_acquire) : anchor_of(*at_);
            to                   = listed ? below(up, at_) : hold_nested(up, *at_);
            if (!to) {
                if (&up != &top_) hold_until_freed(up, up.id.load(std::memory_order_acquire));
                go(up);
            }
        }
        if (to) go(*to);
        return to;
    }

private:
    void go(batch_record& to) noexcept {
        batch_record* const from = at_;
        at_                      = &to;
        if (from != &top_) release_hold(from);
    }

    bool is_anchor(batch_record const& b) const noexcept {
        return &b == &top_ || b.is_listed.load(std::memory_order_acquire);
    }
    batch_record& anchor_of(batch_record& b) const noexcept {
        batch_record* up = &b;
        while (!is_anchor(*up)) up = up->parent.load(std::memory_order_acquire);
        return *up;
    }

    /// Returns the first below `b`, or the next after a listed child of it.
    batch_record* below(batch_record& b, batch_record const* after) const noexcept {
        batch_record* const listed = hold_listed(b, after);
        if (listed || !is_anchor(b) || !b.in_chain.load(std::memory_order_acquire)) return listed;
        return hold_nested(b, b);
    }

    batch_record& top_;
    batch_record* at_;
};

/// Calls visit(batch, id) for all that is below `top`, which is held, parents first. What a batch has below it is
/// left out if the call returns false. To miss nothing that is opened meanwhile, the call must see to it that the
/// batch is over and, if it has a guard, that its thread has passed a barrier since. Then whatever is opened below
/// it later finds that out by itself.
template <class F>
void for_descendants(batch_record& top, F visit) noexcept {
    descent walk(top);
    bool    deeper = true;
    while (batch_record* const b = walk.next(deeper)) deeper = visit(*b, b->id.load(std::memory_order_acquire));
}

}  // namespace tenure::detail
