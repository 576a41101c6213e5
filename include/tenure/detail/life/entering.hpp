// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/life/ending.hpp>

namespace tenure::detail {

/// Stands for the thread that a lane is meant for.
TENURE_SHARED inline constinit thread_context whoever_comes{};

/// Who makes something in the lane next finds no window, and so comes to refill(), which notes its thread. Till
/// then nobody takes the lane's list for its own.
inline void await_thread(lane& l) noexcept {
    close_window(l);
    l.thread.store(&whoever_comes, std::memory_order_release);
}

/// The lane through which this thread makes objects in `b`: the batch's own where nobody uses it, else an idle one,
/// else a new one. `exclusive`: not shared with other uses by this thread. The caller holds `b`. Throws
/// std::bad_alloc.
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
        b.books.touch();
        take(*l);
    }
    note_entry(b);
    return l;
}

/// As enter_lane(b, false), for a hold that goes with the lane, or back at once if there is none.
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

/// What `state` is while a batch without a guard is visited through its own lane, and nothing else holds it. To
/// expect that, rather than load what is there, is twice as fast: a load waits for the locked instruction before
/// it.
inline std::uint64_t unvisited(std::uint64_t id) noexcept { return generation_tag(id) | batch_flags::released; }
inline std::uint64_t visited(std::uint64_t id) noexcept { return (unvisited(id) + 1) | batch_flags::taken; }

/// The batch's own lane, and a hold, by one locked instruction: of a batch without a guard, in whose lane nobody
/// is.
inline bool visit_primary(batch_record& b, std::uint64_t id) noexcept {
    using namespace batch_flags;
    std::uint64_t s = unvisited(id);
    while (!b.state.compare_exchange_weak(s, (s + 1) | taken, std::memory_order_acq_rel))
        if (!same_batch(s, id) || (s & (closed | released | taken)) != released) return false;
    b.primary.thread.store(&this_thread, std::memory_order_relaxed);
    b.primary.users.store(1, std::memory_order_relaxed);
    note_entry(b);
    return true;
}

/// And back, by one. As leave_lane.
inline void leave_visit(lane* l) noexcept {
    batch_record& b    = *l->batch;
    bool const    sole = l == &b.primary && l->users.load(std::memory_order_relaxed) == 1;
    if (!sole || b.in_chain.load(std::memory_order_relaxed)) return leave_lane(l);
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

/// For the time of one call a lane that nobody uses is this thread's, so that its list can be changed.
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

/// As lane_claim, for all lanes of a batch that nobody uses.
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
