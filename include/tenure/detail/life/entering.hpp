// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/life/closing.hpp>

namespace tenure::detail {

/// Stands for the thread that a lane waits for: see await_thread().
TENURE_SHARED inline constinit thread_context whoever_comes{};

/// Leaves a lane to the first thread that makes something in it. That thread finds no window, and so comes to
/// refill(), which notes it. Until then no thread takes the lane's list for its own.
inline void await_thread(lane& l) noexcept {
    close_window(l);
    l.thread.store(&whoever_comes, std::memory_order_release);
}

/// Enters a lane of `b`, which is held, to make objects in: the batch's own if no other thread uses it, else
/// another such lane, else a new one. `exclusive`: an idle or new one that nobody else enters, for the first
/// thread that makes something in it. Throws std::bad_alloc.
inline lane* enter_lane(batch_record& b, bool exclusive) {
    thread_context* const me   = &this_thread;
    auto const            fits = [&](lane const& l) {
        thread_context const* const t = l.thread.load(std::memory_order_relaxed);
        return exclusive ? l.users == 0 && t == nullptr : t == me || (t == nullptr && l.users == 0);
    };
    auto const take = [&](lane& l) {
        ++l.users;
        if (exclusive) await_thread(l);
        else l.thread.store(me, std::memory_order_release);
        return &l;
    };
    lane* l = nullptr;
    {
        std::scoped_lock const guard(b.lock);
        if (fits(b.primary) && (b.primary.thread.load(std::memory_order_relaxed) == me || take_primary(b)))
            l = take(b.primary);
        for (lane* other = b.lanes; other && !l; other = other->next)
            if (fits(*other)) l = take(*other);
    }
    if (!l) {
        l = take_lane();
        std::scoped_lock const guard(b.lock);
        l->batch   = &b;
        l->entries = nullptr;
        l->next    = b.lanes;
        b.lanes    = l;
        b.has_lanes.store(true, std::memory_order_release);
        b.touch();
        take(*l);
    }
    note_entry(b);
    return l;
}

/// Enters a lane as enter_lane() does. The caller's hold goes with the lane, or back if there is none. Throws
/// std::bad_alloc.
inline lane* enter_held(batch_record& b, bool exclusive = false) {
    struct guard {
        batch_record* b;
        ~guard() {
            if (b && !is_root(*b)) release_hold(b);
        }
    } undo{&b};
    lane* const l = enter_lane(b, exclusive);
    undo.b        = nullptr;
    return l;
}

/// The state of a batch without a guard before and during a visit through its own lane, if nothing else holds it.
/// Expecting these is twice as fast as loading the state: a load waits for the locked instruction before it.
inline std::uint64_t unvisited(std::uint64_t id) noexcept { return generation_tag(id) | batch_flags::released; }
inline std::uint64_t visited(std::uint64_t id) noexcept { return (unvisited(id) + 1) | batch_flags::taken; }

/// Takes the batch's own lane and a hold, but for a root, with one locked instruction. False: the batch is closed
/// or has a guard, or its lane is taken.
inline bool visit_primary(batch_record& b, std::uint64_t id) noexcept {
    using namespace batch_flags;
    std::uint64_t s = unvisited(id);
    while (!b.state.compare_exchange_weak(s, (s + 1) | taken, std::memory_order_acq_rel))
        if (!same_batch(s, id) || (s & (closed | released | taken)) != released) return false;
    if (is_root(b)) [[unlikely]]
        b.state.fetch_sub(1, std::memory_order_acq_rel);  // as hold_or_root(): others enter it without a hold
    b.primary.thread.store(&this_thread, std::memory_order_relaxed);
    b.primary.users.store(1, std::memory_order_relaxed);
    note_entry(b);
    return true;
}

/// Leaves a lane as leave_lane() does; with one locked instruction if visit_primary() took it, nothing else holds
/// the batch, and its residency is `memory`.
inline void leave_visit(lane* l) noexcept {
    batch_record& b    = *l->batch;
    bool const    sole = l == &b.primary && l->users.load(std::memory_order_relaxed) == 1;
    if (!sole || b.in_chain.load(std::memory_order_relaxed) || is_root(b)) return leave_lane(l);
    registry_core&      r      = *b.registry.load(std::memory_order_relaxed);
    std::uint64_t const id     = b.id.load(std::memory_order_relaxed);
    bool const          can_go = b.evictable.load(std::memory_order_relaxed);
    bool const          stays  = b.residency == tenure::residency::memory;
    l->users.store(0, std::memory_order_relaxed);
    l->thread.store(nullptr, std::memory_order_relaxed);
    if (std::uint64_t s = visited(id);
        stays && b.state.compare_exchange_strong(s, unvisited(id), std::memory_order_acq_rel)) [[likely]]
        return;
    release_hold(&b, batch_flags::taken);
    if (can_go) relieve(r);
}

/// Claims a lane that nobody uses for this thread during one call, which can then change the lane's list.
class lane_claim {
public:
    explicit lane_claim(lane* l) noexcept {
        if (!l || l->thread.load(std::memory_order_relaxed)) return;
        std::scoped_lock const guard(l->batch->lock);
        if (l->thread.load(std::memory_order_relaxed)) return;
        if (is_primary(*l) && !take_primary(*l->batch)) return;
        l->thread.store(&this_thread, std::memory_order_relaxed);
        lane_ = l;
    }
    ~lane_claim() {
        if (!lane_) return;
        std::scoped_lock const guard(lane_->batch->lock);
        if (lane_->users > 0) return;
        if (is_primary(*lane_)) give_primary(*lane_->batch);
        else lane_->thread.store(nullptr, std::memory_order_release);
    }
    lane_claim(lane_claim const&)            = delete;
    lane_claim& operator=(lane_claim const&) = delete;

private:
    static bool is_primary(lane const& l) noexcept { return &l == &l.batch->primary; }

    lane* lane_ = nullptr;
};

/// Claims all idle lanes of a batch, but for the primary one, for this thread during one call, which can then
/// change their lists.
class idle_lanes_claim {
public:
    explicit idle_lanes_claim(batch_record& b) noexcept
        : batch_(b.has_lanes.load(std::memory_order_acquire) ? &b : nullptr) {
        for_each([](lane& l) {
            if (l.thread.load(std::memory_order_relaxed)) return;
            l.claimed = true;
            l.thread.store(&this_thread, std::memory_order_relaxed);
        });
    }
    ~idle_lanes_claim() {
        for_each([](lane& l) {
            if (!l.claimed || l.thread.load(std::memory_order_relaxed) != &this_thread) return;
            l.claimed = false;
            if (l.users == 0) l.thread.store(nullptr, std::memory_order_release);
        });
    }
    idle_lanes_claim(idle_lanes_claim const&)            = delete;
    idle_lanes_claim& operator=(idle_lanes_claim const&) = delete;

private:
    template <class F>
    void for_each(F f) noexcept {
        if (!batch_) return;
        std::scoped_lock const guard(batch_->lock);
        for (lane* l = batch_->lanes; l; l = l->next) f(*l);
    }

    batch_record* batch_;
};

}  // namespace tenure::detail
