// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>

#include <tenure/detail/batch/batch_record.hpp>
#include <tenure/detail/batch/limits.hpp>
#include <tenure/detail/batch/process.hpp>

namespace tenure::detail {

/// Marks a change of a lane's bookkeeping that a snapshot must not see half done.
class moving_guard {
public:
    [[gnu::always_inline]] explicit moving_guard(lane& l) noexcept : lane_(l) { step(); }
    [[gnu::always_inline]] ~moving_guard() { step(); }
    moving_guard(moving_guard const&)            = delete;
    moving_guard& operator=(moving_guard const&) = delete;

private:
    [[gnu::always_inline]] void step() noexcept {
        lane_.moving.store(lane_.moving.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    lane& lane_;
};

template <class T>
void add_relaxed(std::atomic<T>& to, T n) noexcept {  // only one thread writes
    to.store(to.load(std::memory_order_relaxed) + n, std::memory_order_release);
}

struct lane_figures {
    std::uint64_t objects, bytes;
};

/// Returns what was made in a lane so far, for the thread that makes there.
inline lane_figures own_figures_of(lane const& l) noexcept {
    std::uint64_t const cursor = l.cursor.load(std::memory_order_relaxed);
    return {l.objects_before.load(std::memory_order_relaxed) + objects_in(cursor),
            l.bytes_before.load(std::memory_order_relaxed) + address_in(cursor) -
                l.window_begin.load(std::memory_order_relaxed)};
}

/// Returns what was made in a lane so far, exactly, for any thread.
inline lane_figures figures_of(lane const& l) noexcept {
    for (;;) {
        std::uint32_t const before  = l.moving.load(std::memory_order_acquire);
        std::uint64_t const cursor  = l.cursor.load(std::memory_order_acquire);
        std::uint64_t const begin   = l.window_begin.load(std::memory_order_acquire);
        std::uint64_t const bytes   = l.bytes_before.load(std::memory_order_acquire);
        std::uint64_t const objects = l.objects_before.load(std::memory_order_acquire);
        if (before & 1 || l.moving.load(std::memory_order_acquire) != before) continue;
        return {objects + objects_in(cursor), bytes + address_in(cursor) - begin};
    }
}

/// Ends the current window: counts what was made in it, and refunds what was charged and not used.
inline void close_window(lane& l) noexcept {
    if (l.run_end == 0) return;
    std::uint64_t const cursor = l.cursor.load(std::memory_order_relaxed);
    std::uint64_t const at     = address_in(cursor);
    std::uint64_t const unused = l.window_top - at;
    {
        moving_guard const moving(l);
        add_relaxed(l.objects_before, objects_in(cursor));
        add_relaxed(l.bytes_before, at - l.window_begin.load(std::memory_order_relaxed));
        l.window_begin.store(at, std::memory_order_release);
        l.cursor.store(cursor_at(at), std::memory_order_release);
    }
    l.window_top = at;
    l.window_end.store(0, std::memory_order_relaxed);
    if (unused) refund_batch(*l.batch, unused);
}

/// Closes the windows that this thread has open in batches with limits. Windows are charged ahead; after this,
/// what is charged is what is in use, except for other threads' windows. Called near a limit only, because it
/// costs a pass over the thread's open guards.
TENURE_COLD inline void settle_windows() noexcept {
    thread_context& me = this_thread;
    for (batch_record* b = me.newest; b; b = b->older)
        if (b->limited && b->is_here()) close_window(b->primary);
    if (lane* const l = me.current; l && l->batch->limited && l->thread.load(std::memory_order_relaxed) == &me)
        close_window(*l);
}

/// Charges as charge() does, from a batch's own limits upwards, and exactly for this thread.
inline failure charge_exactly(batch_record& b, batch_record const* stop, std::uint64_t bytes) noexcept {
    if (would_pass(b.limited, bytes)) settle_windows();
    return charge(b.limited, stop, bytes);
}

/// Refunds bytes that are no longer in use. Above a soft limit it makes the use exact first, so that the next
/// passing is reported again.
inline void refund_use(batch_record& b, std::uint64_t bytes) noexcept {
    if (!b.limited) return;
    if (is_above_soft(b.limited)) settle_windows();
    refund_batch(b, bytes);
}

/// Points a lane whose window is closed at other memory.
inline void aim(lane& l, std::uintptr_t begin, std::uintptr_t end, word_t generation) noexcept {
    moving_guard const moving(l);
    l.window_begin.store(begin, std::memory_order_release);
    l.cursor.store(cursor_at(begin), std::memory_order_release);
    l.window_top = begin;
    l.run_end    = end;
    l.word       = whole_word(generation);
}

}  // namespace tenure::detail
