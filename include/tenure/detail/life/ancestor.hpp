// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <source_location>
#include <utility>

#include <tenure/detail/batch/deadlines.hpp>
#include <tenure/detail/batch/sharing_front.hpp>
#include <tenure/detail/life/current_batch.hpp>
#include <tenure/detail/objects/batch_figures.hpp>
#include <tenure/detail/objects/expiry.hpp>
#include <tenure/detail/objects/throwing.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

lane*        enter_held(batch_record& b, bool exclusive);
opened_batch open_batch(registry_core& r, batch_record* parent, batch_options const* options, bool guarded,
                        std::source_location where);

/// Returns the nearest batch above `b` in which something can be made; for a root, the root itself. Null: the
/// registry is closing. The batches above a batch stay as long as it does.
inline batch_record* active_ancestor(batch_record const& b) noexcept {
    batch_record* up =
        is_root(b) ? b.registry.load(std::memory_order_relaxed)->root : b.parent.load(std::memory_order_acquire);
    while (up && (up->closed() || (up->limited && is_overdue(*up))))
        up = up->parent.load(std::memory_order_acquire);
    return up;
}

/// Whether this thread's current batch is closed, so that nothing can be made in it.
inline bool current_is_over() noexcept {
    lane const* const l = this_thread.current;
    return l && l->batch->closed();
}

/// Makes the nearest active ancestor of a batch current on this thread while the end of that batch calls user
/// code: a destructor is a callee like any other, and may make objects and open scopes.
///
/// Looks the lane up when a callee first needs it, because an end must not allocate: this thread's own, or one
/// that the thread enters. Until then no lane is current, and thread_context::ending tells which batch that stands
/// for.
class ancestor_is_current {
public:
    explicit ancestor_is_current(batch_record& b) noexcept
        : over_(&b), outer_(this_thread.ending), usual_(is_usual(b)) {
        if (usual_) [[likely]] {
            this_thread.current = nullptr;
            this_thread.ending  = this;
        } else {
            suspend_another(b);
        }
    }
    ~ancestor_is_current() {
        if (!usual_ || this_thread.current || !over_->in_chain) [[unlikely]] {
            put_back();
        } else {
            this_thread.current = &over_->primary;
            this_thread.ending  = outer_;
        }
    }
    ancestor_is_current(ancestor_is_current const&)            = delete;
    ancestor_is_current& operator=(ancestor_is_current const&) = delete;

    /// Makes a lane of the nearest active ancestor current where none is, and returns it. Throws std::bad_alloc;
    /// batch_ended if the registry is closing.
    lane& enter() {
        note_what_was_current();
        if (entered_ && !entered_->batch->closed()) return *(this_thread.current = entered_);
        for (;;) {
            batch_record& up = above();
            if (lane* const own = own_lane_of(up)) return *(this_thread.current = own_ = own);
            if (!is_root(up) && !hold(up, up.id.load(std::memory_order_acquire))) continue;  // it ended: the next
            lane* const l = enter_held(up, false);
            if (entered_) leave_lane(entered_);
            entered_            = l;
            this_thread.current = l;
            return *l;
        }
    }

    /// Whether the ancestor is current, and not a batch that a callee has made current since.
    bool is_current() const noexcept {
        lane const* const l = this_thread.current;
        return !l || l == own_ || l == entered_;
    }

    /// Returns the nearest active ancestor. Throws batch_ended if the registry is closing.
    batch_record& above() const {
        batch_record* const up = active_ancestor(*over_);
        if (!up) throw_failure({errc::batch_ended, over_}, "no batch is left above batch ");
        return *up;
    }

    /// Returns the id of the nearest active ancestor; 0 if the registry is closing.
    std::uint64_t id_above() const noexcept {
        batch_record const* const up = active_ancestor(*over_);
        return up ? up->id.load(std::memory_order_acquire) : 0;
    }

    /// Opens a batch below the nearest active ancestor. If another thread ends or cancels that meanwhile, tries
    /// the next. Throws batch_ended if the registry is closing, and what open_batch throws for other reasons.
    opened_batch open(batch_options const* options, bool guarded, std::source_location where) const {
        for (;;) {
            batch_record& up         = above();
            auto const    open_below = [&] {
                return std::optional(
                    open_batch(*up.registry.load(std::memory_order_relaxed), &up, options, guarded, where));
            };
            auto const closed = [&](error const& e) {
                if (!up.closed()) raise(e);
                return std::nullopt;
            };
            if (auto const made = run_or<error>(open_below, closed)) return *made;
        }
    }

private:
    static lane* own_lane_of(batch_record& b) noexcept {
        bool const ours = b.guard.load(std::memory_order_relaxed) == &this_thread && b.in_chain;
        return ours ? &b.primary : nullptr;
    }

    /// Whether the ending batch itself is current. It is current again afterwards: its record stays until then.
    static bool is_usual(batch_record const& b) noexcept {
        return this_thread.current == &b.primary && !this_thread.visiting && !is_root(b);
    }

    TENURE_SLOW void suspend_another(batch_record const& b) noexcept {
        thread_context& me = this_thread;
        if (is_common(b) && (me.current || me.ending)) {  // only the root is above it: the current lane stays
            if (!me.current || !me.current->batch->closed() || is_over_record(me.current->batch)) return;
            over_ = me.current->batch;
        }
        if (!active_ancestor(*over_)) return;
        set_      = true;
        before_   = suspend_for(nullptr);
        me.ending = this;
    }

    TENURE_SLOW void put_back() noexcept {
        note_what_was_current();
        if (!set_) return;
        former_current now = suspend_for(nullptr);
        this_thread.ending = outer_;
        resume(before_);
        leave(now);  // a lane that a destructor made current and did not leave
        if (entered_) leave_lane(entered_);
    }

    void note_what_was_current() noexcept {
        if (!std::exchange(usual_, false)) return;
        lane* const l = &over_->primary;
        before_       = {l, l->serial.load(std::memory_order_relaxed), false};
        set_          = true;
    }

    batch_record*        over_;
    ancestor_is_current* outer_;
    lane*                own_     = nullptr;  ///< of an ancestor whose guard is this thread's
    lane*                entered_ = nullptr;  ///< of another ancestor; leave_lane() is due
    bool                 usual_;              ///< is_usual(), and `before_` is not set yet
    bool                 set_ = false;
    former_current       before_;
};

/// Returns the id of this thread's current batch; 0 stands for the root of the global registry.
inline std::uint64_t current_id() noexcept {
    thread_context const& me = this_thread;
    if (me.current) [[likely]]
        return me.current->batch->id.load(std::memory_order_relaxed);
    return me.ending ? me.ending->id_above() : 0;
}

}  // namespace tenure::detail
