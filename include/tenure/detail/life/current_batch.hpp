// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include <tenure/detail/batch/paging.hpp>
#include <tenure/detail/batch/release.hpp>
#include <tenure/detail/life/over_record.hpp>

namespace tenure::detail {

/// Ends this thread's use of a lane, and gives back the hold that came with it. The lane's objects stay, and the
/// next thread goes on where this one stopped.
inline void leave_lane(lane* l) noexcept {
    batch_record& b = *l->batch;
    {
        std::scoped_lock const guard(b.lock);
        if (--l->users == 0) {
            if (l != &b.primary) l->thread.store(nullptr, std::memory_order_release);
            else if (!b.in_chain) give_primary(b);
        }
    }
    if (is_root(b)) return;
    registry_core& r      = *b.registry.load(std::memory_order_relaxed);
    bool const     can_go = b.evictable.load(std::memory_order_relaxed);
    release_hold(&b);
    if (can_go) relieve(r);
}

/// A batch that was just opened. If it has no guard, another thread may end it at once, and its record then says
/// nothing of it.
struct opened_batch {
    batch_record* record = nullptr;
    std::uint64_t id     = 0;
};

inline void leave(former_current& f) noexcept {
    if (std::exchange(f.visited, false)) leave_lane(f.where);
}

/// Makes `l` current on this thread. Returns what was current, for resume().
[[gnu::always_inline]] inline former_current suspend_for(lane* l) noexcept {
    thread_context& me      = this_thread;
    lane* const     up      = std::exchange(me.current, l);
    bool const      visited = me.visiting;
    if (visited) [[unlikely]]
        me.visiting = false;
    return {up, up ? up->serial.load(std::memory_order_relaxed) : 0, visited};
}

/// Makes current again what was current before; if that is over, what was current before it, as long as its record
/// can tell; else this thread's newest open guard. `leaving`: a lane that the caller is about to leave.
inline void resume(former_current& f, lane const* leaving = nullptr) noexcept {
    thread_context& me = this_thread;
    for (former_current* at = &f;;) {
        lane* const l = at->where;
        if (!l || l->serial.load(std::memory_order_relaxed) != at->serial) {
            me.current = l && me.newest ? &me.newest->primary : nullptr;
            return;
        }
        batch_record& b      = *l->batch;
        bool const    inside = (l == &b.primary && b.in_chain) || l->users > (l == leaving);
        me.visiting          = std::exchange(at->visited, false);
        if (me.visiting || (inside && l->thread.load(std::memory_order_relaxed) == &me)) {
            me.current = l;
            return;
        }
        if (is_over_record(&b)) {
            me.current = l;
            return;
        }
        if (l != &b.primary) {
            me.current = me.newest ? &me.newest->primary : nullptr;
            return;
        }
        at = &b.previous;
    }
}

}  // namespace tenure::detail
