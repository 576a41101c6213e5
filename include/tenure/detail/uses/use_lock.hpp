// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/batch/holding.hpp>
#include <tenure/detail/objects/tracking.hpp>

namespace tenure::detail {

/// What functions that free, transfer and end need of the graph of uses.

/// Releases the holds of batches that are no longer used, and unlocks `graph`. Does not recurse: if a call further
/// up on this thread is doing this, that call goes on with what comes of this one.
inline void release_hold_unused(registry_core& r, std::unique_lock<std::mutex> graph) noexcept {
    thread_context& me = this_thread;
    if (me.release == &r) {
        me.more_to_go = true;
        return;
    }
    bool          more = false;
    batch_record* b    = r.uses.next_unused(more);
    graph.unlock();
    if (!b) return;
    registry_core* const outer      = std::exchange(me.release, &r);
    bool const           outer_more = std::exchange(me.more_to_go, false);
    do {
        release_hold(b);
        b                  = nullptr;
        bool const further = std::exchange(me.more_to_go, false);
        if (!more && !further) break;
        std::scoped_lock const guard(r.uses.mutex);
        b = r.uses.next_unused(more);
    } while (b);
    me.release    = outer;
    me.more_to_go = outer_more;
}

/// Notes that a batch that has ended is kept by uses alone, if it is. `seen` is its state a moment ago. Does
/// nothing if the record is another batch's by now.
TENURE_COLD inline void wait_for_users(registry_core& r, batch_record& b, std::uint64_t seen) noexcept {
    std::unique_lock graph(r.uses.mutex);
    if ((b.state.load(std::memory_order_acquire) ^ seen) >> state_tag_shift) return;
    r.uses.note_over(b);
    release_hold_unused(r, std::move(graph));
}

/// Returns whether a batch below `b` is over and waits for its users.
inline bool has_waiting_children(registry_core& r, batch_record const& b) noexcept {
    std::scoped_lock const graph(r.uses.mutex);
    return b.uses.as_parent.uses;
}

/// Releases what the batch has pinned and borrowed, which empties guards of its pins. Called at its end, once
/// nothing of it could refer to those objects, or earlier. Does nothing while the batch waits for its users, who
/// may need what it uses. For any thread that keeps the batch from being reused.
TENURE_COLD inline void release_pins(batch_record& b) noexcept {
    registry_core&   r = *b.registry.load(std::memory_order_relaxed);
    std::unique_lock graph(r.uses.mutex);
    if (b.uses.over) return;
    while (pin_record* const p = b.uses.pins) r.uses.release(*p);
    release_hold_unused(r, std::move(graph));
}

/// Locks an object of `owner`, which is held, and the graph if anything of `owner` is used. So whether the object
/// is pinned does not change until one of these ends. Costs a load if nothing is used.
class use_lock {
public:
    use_lock(batch_record const& owner, extent const& x) noexcept : object_(x) {
        if (owner.state.load(std::memory_order_acquire) & batch_flags::used) [[unlikely]]
            find_out(owner, x);
    }
    use_lock(use_lock const&)            = delete;
    use_lock& operator=(use_lock const&) = delete;

    bool pinned() const noexcept { return pinned_; }

    /// Makes `to` the owner of a pinned object in the graph, where `to` then waits for its users. Both batches are
    /// held.
    void give_to(batch_record& to) noexcept {
        if (pinned_) [[unlikely]]
            graph_.of->uses.give(*pinned_, to);
    }

private:
    struct graph_lock {
        registry_core* of = nullptr;
        ~graph_lock() {
            if (of) [[unlikely]]
                leave();
        }
        TENURE_COLD void leave() noexcept {
            release_hold_unused(*of, std::unique_lock(of->uses.mutex, std::adopt_lock));
        }
    };

    /// Locks the graph, whose lock comes before the object's: releases that and takes it again.
    TENURE_COLD void find_out(batch_record const& owner, extent const& x) noexcept {
        graph_.of = owner.registry.load(std::memory_order_relaxed);
        object_.unlock();
        graph_.of->uses.mutex.lock();
        object_.lock();
        pinned_ = graph_.of->uses.find(x.begin);
    }

    graph_lock     graph_;  ///< released after the object's
    object_lock    object_;
    pinned_object* pinned_ = nullptr;
};

/// Returns whether a batch other than `but` uses the object now. `h` names the object in the slab.
inline bool is_pinned(registry_core& r, raw_handle h, batch_record const* but = nullptr) noexcept {
    read_section const here;
    if (!r.uses.any() || !is_alive(h)) return false;
    std::scoped_lock const     graph(r.uses.mutex);
    pinned_object const* const o = r.uses.find(extent_of(h).begin);
    if (!o || !is_alive(h)) return false;
    use_edge const* e = o->uses;
    while (e && e->user == but) e = e->next;
    return e;
}

/// Releases the batch's own pins and borrows of the object.
inline void unpin(batch_record& b, raw_handle h) noexcept {
    read_section const here;
    if (!is_alive(h)) return;
    registry_core&       r = *b.registry.load(std::memory_order_relaxed);
    std::unique_lock     graph(r.uses.mutex);
    pinned_object* const o = r.uses.find(extent_of(h).begin);
    if (o && is_alive(h)) r.uses.release_all(b, *o);
    release_hold_unused(r, std::move(graph));
}

}  // namespace tenure::detail
