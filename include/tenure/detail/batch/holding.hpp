// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>

#include <poll.h>
#include <sched.h>

#include <tenure/detail/batch/process.hpp>
#include <tenure/detail/batch/waiting.hpp>

namespace tenure::detail {

/// The result of set_flag(): whether it set the flag, and the state before.
struct flag_set {
    bool          done;
    std::uint64_t before;
};
/// Sets a flag, unless the record is another batch's by now or has one of `unless`.
inline flag_set set_flag(batch_record& b, std::uint64_t id, std::uint64_t flag, std::uint64_t unless) noexcept {
    std::uint64_t s = b.state.load(std::memory_order_acquire);
    do {
        if (!same_batch(s, id) || s & unless) return {false, s};
    } while (!b.state.compare_exchange_weak(s, s | flag, std::memory_order_seq_cst));
    return {true, s};
}

/// Waits for a thread that takes a checkpoint or goes back to one. Returns false if the wait might never end: this
/// thread is that thread; a rollback may wait for what this thread is doing; or, if `briefly` or this thread
/// undoes something itself, that thread runs destructors or calls stores, any of which may wait for this thread.
TENURE_COLD inline bool await_checkpointing(batch_record const& b, bool briefly = false) noexcept {
    waiting_here const timed(wait_for::batch);
    for (int i = 0; b.state.load(std::memory_order_acquire) & batch_flags::undoing; ++i) {
        if (b.busy_thread.load(std::memory_order_acquire) == &this_thread || this_thread.listed_ends) return false;
        if ((briefly || this_thread.undoing) && b.checkpoint_calls_out.load(std::memory_order_acquire))
            return false;
        if (i < 100) ::sched_yield();
        else ::poll(nullptr, 0, 1);
    }
    return true;
}

/// Keeps the batch's memory from going, whatever ends the batch. Returns false if it is over or has one of
/// `unless`. Waits first if `undoing` is all that is in the way.
inline bool hold(batch_record& b, std::uint64_t id, std::uint64_t unless = batch_flags::closed) noexcept {
    std::uint64_t s = b.state.load(std::memory_order_acquire);
    do {
        while (!same_batch(s, id) || s & unless) [[unlikely]] {
            if (!same_batch(s, id) || s & unless & ~batch_flags::undoing || !await_checkpointing(b)) return false;
            s = b.state.load(std::memory_order_acquire);
        }
    } while (!b.state.compare_exchange_weak(s, s + 1, std::memory_order_acq_rel));
    return true;
}

/// For a hold that outlasts the call: a child's, a visitor's. Of these a batch has 8 million at most. The holds of
/// calls, one or two a thread, have the other half of the count.
inline constexpr std::uint64_t unless_crowded = batch_flags::closed | batch_flags::crowded;

/// How many guards of the batch's own thread may be open directly below it, beside the one that was opened first.
/// They are no holds, but each becomes one if it, or the batch, outlives its place: when nothing can be refused any
/// more. So the count of holds has room for them besides all others.
inline constexpr std::uint32_t most_guards_beside = batch_flags::crowded / 2;
static_assert(most_guards_beside + batch_flags::crowded < batch_flags::holds);

/// Of a batch that is held, or a root: all others have a parent, until the record is another batch's.
inline bool is_root(batch_record const& b) noexcept { return !b.parent.load(std::memory_order_relaxed); }

/// Holds the batch as hold() does; but does not hold a root, which lives as long as the caller's registry. Whether
/// the record is a root can be asked only when it is known to be that batch's, so the hold comes first.
inline bool hold_or_root(batch_record& b, std::uint64_t id, std::uint64_t unless = batch_flags::closed) noexcept {
    if (!hold(b, id, unless)) return false;
    if (is_root(b)) b.state.fetch_sub(1, std::memory_order_acq_rel);
    return true;
}

/// Holds the batch as hold() does, even if it has ended, as long as its end has not begun to free it. Returns false
/// also if it has one of the flags `unless`.
inline bool hold_until_freed(batch_record& b, std::uint64_t id, std::uint64_t unless = 0) noexcept {
    std::uint64_t s = b.state.load(std::memory_order_acquire);
    do {
        bool const freed = s & batch_flags::done || (s & batch_flags::ended && !(s & batch_flags::holds));
        if (!same_batch(s, id) || freed || s & unless) return false;
    } while (!b.state.compare_exchange_weak(s, s + 1, std::memory_order_acq_rel));
    return true;
}

/// With none of these flags a batch's memory is still there, even if nothing can be made: so a batch that was
/// ended with cleanup::manual counts.
inline constexpr std::uint64_t unless_over = batch_flags::ended | batch_flags::done | batch_flags::undoing;

/// Makes the batch's own lane this thread's. Returns false if it is in use. Takes a locked instruction, because a
/// visit takes the lane without the batch's lock.
inline bool take_primary(batch_record& b) noexcept {
    return !(b.state.fetch_or(batch_flags::taken, std::memory_order_acq_rel) & batch_flags::taken);
}
inline void give_primary(batch_record& b) noexcept {
    b.primary.thread.store(nullptr, std::memory_order_release);
    b.state.fetch_and(~batch_flags::taken, std::memory_order_acq_rel);
}

}  // namespace tenure::detail
