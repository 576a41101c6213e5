// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <utility>

#include <tenure/detail/batch/batch_record.hpp>

namespace tenure::detail {

/// Why batches that are over still exist: each hangs below its witness, one of its users that still exist, up to a
/// root that is active and needs none. A batch that loses its witness looks for another outside its own tree. A
/// user below itself would only show that batches wait for each other in a ring; these are contracted to a group,
/// which waits and goes as one.
///
/// A link-cut tree (Sleator and Tarjan, 1983): every path from a root down to the batch last asked about is a
/// splay tree, in the order of depth. So a query costs O(log n), amortized, however long the chains are and
/// whichever roots they get. Not thread-safe.
class link_cut_tree {
public:
    /// Returns the batch that stands for the group of `b`.
    static batch_record& group_of(batch_record& b) noexcept {
        batch_record* at = &b;
        while (batch_record* const above = at->rest.uses.group) {
            if (above->rest.uses.group) at->rest.uses.group = above->rest.uses.group;
            at = above;
        }
        return *at;
    }

    batch_record& root_of(batch_record& b) noexcept {
        expose(b);
        batch_record* at = &b;
        for (; at->rest.uses.left; ++steps_) at = at->rest.uses.left;
        splay(*at);
        return *at;
    }

    /// Hangs `b`, which is a root, below `above`, which is in another tree.
    void link(batch_record& b, batch_record& above) noexcept {
        splay(b);
        b.rest.uses.up = &above;
    }

    /// Makes `b` a root.
    void cut(batch_record& b) noexcept {
        expose(b);
        if (batch_record* const above = std::exchange(b.rest.uses.left, nullptr)) above->rest.uses.up = nullptr;
    }

    /// Calls f(batch) for each batch on the path from `root`, exclusive, down to `b`, and makes them one group
    /// with `root`. What hung below them hangs below `root` then.
    template <class F>
    void contract(batch_record& root, batch_record& b, F f) noexcept {
        expose(b);
        for (batch_record* at = &b; at;) {
            ++steps_;
            if (batch_record* const less = at->rest.uses.left) {
                at->rest.uses.left    = less->rest.uses.right;
                less->rest.uses.right = at;
                at                    = less;
                continue;
            }
            batch_record* const next = std::exchange(at->rest.uses.right, nullptr);
            at->rest.uses.up         = nullptr;
            if (at != &root) {
                at->rest.uses.group = &root;
                f(*at);
            }
            at = next;
        }
    }

    std::uint64_t steps() const noexcept { return steps_; }

private:
    /// Returns the parent of `b` in its splay tree or, at the top of that, the batch that its path hangs below.
    static batch_record* above(batch_record& b) noexcept {
        if (b.rest.uses.up) b.rest.uses.up = &group_of(*b.rest.uses.up);
        return b.rest.uses.up;
    }
    static batch_record* inside(batch_record& b) noexcept {
        batch_record* const p = above(b);
        return p && (p->rest.uses.left == &b || p->rest.uses.right == &b) ? p : nullptr;
    }

    static void rotate(batch_record& b, batch_record& p) noexcept {
        bool const left = p.rest.uses.left == &b;
        if (batch_record* const q = inside(p))
            (q->rest.uses.left == &p ? q->rest.uses.left : q->rest.uses.right) = &b;
        b.rest.uses.up                                = p.rest.uses.up;
        batch_record*& from                           = left ? b.rest.uses.right : b.rest.uses.left;
        (left ? p.rest.uses.left : p.rest.uses.right) = from;
        if (from) from->rest.uses.up = &p;
        from           = &p;
        p.rest.uses.up = &b;
    }

    void splay(batch_record& b) noexcept {
        while (batch_record* const p = inside(b)) {
            ++steps_;
            if (batch_record* const q = inside(*p))
                rotate((q->rest.uses.left == p) == (p->rest.uses.left == &b) ? *p : b,
                       (q->rest.uses.left == p) == (p->rest.uses.left == &b) ? *q : *p);
            rotate(b, *b.rest.uses.up);
        }
    }

    /// Makes the path from the root to `b` one splay tree, with `b` on top and nothing deeper.
    void expose(batch_record& b) noexcept {
        batch_record* last = nullptr;
        for (batch_record* at = &b; at; at = above(*at)) {
            splay(*at);
            at->rest.uses.right = last;
            last                = at;
        }
        splay(b);
    }

    std::uint64_t steps_ = 0;
};

}  // namespace tenure::detail
