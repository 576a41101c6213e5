// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/life/current_batch.hpp>
#include <tenure/detail/life/reclaim.hpp>
#include <tenure/detail/objects/batch_figures.hpp>

namespace tenure::detail {

/// The end of a batch whose destructors another thread runs. For who ends it: its handles become stale, a few words
/// a unit, and it is queued. The rest is release_memory(), as of any batch.
///
/// A batch that waits is `ended`, without holds, and not `done`: for whoever meets it, an end that takes its time.
/// Its words are guarded, as they are while destructors run; so every access asks, and is told by `reclaim_pending`
/// that the owner is over, unless it comes from one of these destructors, which finds the batch as it would at a
/// brace.

void leave_chain(batch_record& b) noexcept;
void recycle(batch_record* b) noexcept;

TENURE_SHARED inline constinit std::atomic<std::uint32_t> last_pending_reclaim{0};

/// Nobody else can be at the batch. Where a unit has one owner, no locked instruction: each would wait for its unit
/// to come from memory.
inline void mark_dead(batch_record& b) noexcept {
    log_expiry(b);
    b.reclaim_pending.store(true, std::memory_order_relaxed);
    pending_reclaims.fetch_add(1, std::memory_order_relaxed);
    std::uint32_t const number = last_pending_reclaim.fetch_add(1, std::memory_order_relaxed) | std::uint32_t{1}
                                                                                                    << 31;
    auto const tell       = [&](unit& u) { u.over.store(number, std::memory_order_release); };
    auto const tell_among = [&](unit& u) { u.over.exchange(number, std::memory_order_acq_rel); };
    for_lanes(b, [&](lane& l) {
        close_window(l);
        for (unit* u = l.runs; u; u = u->next) {
            bool const shared = u->guarded.load(std::memory_order_relaxed);
            for (std::size_t i = 0; i < u->length; ++i) shared ? tell_among(u[i]) : tell(u[i]);
        }
    });
    for (unit* u = b.large; u; u = u->next) tell(*u);
    {
        std::scoped_lock const guard(b.lock);
        for (share const* s = b.shares; s; s = s->next_owned) tell_among(*s->where);
    }
    guard_all(b);
}

/// Whether a batch that waits must keep the one above it: what it is charged goes back to that one's limits, or
/// that one waits, too, and goes after it.
inline bool must_outlast_background(batch_record const& b) noexcept {
    if (!b.ends_as(end_flags::background)) return false;
    batch_record const* const up = b.parent.load(std::memory_order_relaxed);
    return up && !is_root(*up) && (up->limited || up->ends_as(end_flags::background));
}

/// Leaves a batch that is over, and that nothing holds, to the registry's thread. Unless `done`, nothing happened:
/// no destructors are to run, or too much waits already. `parent`, if any, is not held any more: the caller lets go
/// of it. The guard's thread calls, if there is one.
struct put_off_end {
    bool          done   = false;
    batch_record* parent = nullptr;

    TENURE_COLD explicit put_off_end(batch_record& b) noexcept {
        registry_core& r    = *b.registry.load(std::memory_order_relaxed);
        bool           ends = b.inbox || b.first_buffer;
        for_lanes(b, [&](lane const& l) { ends = ends || l.entries; });
        std::size_t const bytes = (figures_of(b).units << unit_shift) + sizeof(batch_record);
        if (!ends || !r.background.admit(bytes)) return;
        done            = true;
        b.waiting_bytes = bytes;
        mark_dead(b);
        if (!must_outlast_background(b)) {
            if (b.holds_parent) parent = b.parent.load(std::memory_order_relaxed);
            b.holds_parent = false;
            b.parent.store(r.root, std::memory_order_release);
        }
        if (b.in_chain) leave_chain(b);
        b.primary.thread.store(nullptr, std::memory_order_release);
        r.background.put(b);
    }
};

/// For the registry's thread: one of those that waited.
inline void finish_end(batch_record& b) noexcept {
    thread_context&     me = this_thread;
    batch_record* const up = b.holds_parent ? b.parent.load(std::memory_order_relaxed) : nullptr;
    me.reclaiming          = &b;
    release_memory(b);
    me.reclaiming = nullptr;
    b.reclaim_pending.store(false, std::memory_order_release);
    pending_reclaims.fetch_sub(1, std::memory_order_release);
    if (b.state.fetch_or(batch_flags::done, std::memory_order_acq_rel) & batch_flags::released) recycle(&b);
    release_hold(up);
}

/// In a forked child, where what waited for the parent's thread is this one's to do.
TENURE_COLD inline void run_left_over(registry_core& r) noexcept {
    while (batch_record* const b = r.background.next_left_over()) {
        std::size_t const bytes  = b->waiting_bytes;
        former_current    before = suspend_for(nullptr);
        finish_end(*b);
        resume(before);
        r.background.finished(bytes);
    }
}

TENURE_COLD inline void run_background(registry_core& r) noexcept {
    // It counts as none of the threads that go on at exit: see end_at_exit.
    [[maybe_unused]] auto const* touched = &on_thread_exit;
    process.threads.fetch_sub(1, std::memory_order_relaxed);
    while (batch_record* const b = r.background.next()) {
        std::size_t const bytes = b->waiting_bytes;
        finish_end(*b);
        r.background.finished(bytes);
    }
    process.threads.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace tenure::detail
