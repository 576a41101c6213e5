// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>

#include <poll.h>
#include <sched.h>

#include <tenure/detail/batch/process.hpp>

namespace tenure::detail {

/// Sets a flag, unless the record is another batch's by now or has one of `unless`. Returns the state before.
struct flag_set {
    bool          done;
    std::uint64_t before;
};
inline flag_set set_flag(batch_record& b, std::uint64_t id, std::uint64_t flag, std::uint64_t unless) noexcept {
    std::uint64_t s = b.state.load(std::memory_order_acquire);
    do {
        if (!same_batch(s, id) || s & unless) return {false, s};
    } while (!b.state.compare_exchange_weak(s, s | flag, std::memory_order_seq_cst));
    return {true, s};
}

/// Waits for a thread that is taking a checkpoint or going back to one. False: that would be for ever, perhaps: it
/// is this thread; or it waits for what this one is at; or it runs destructors or asks stores, any of which may
/// wait for this thread in turn: where `briefly`, or this thread undoes something itself.
TENURE_COLD inline bool await_checkpointing(batch_record const& b, bool briefly = false) noexcept {
    for (int i = 0; b.state.load(std::memory_order_acquire) & batch_flags::undoing; ++i) {
        if (b.busy_thread.load(std::memory_order_acquire) == &this_thread || this_thread.listed_ends) return false;
        if ((briefly || this_thread.undoing) && b.checkpoint_calls_out.load(std::memory_order_acquire))
            return false;
        if (i < 100) ::sched_yield();
        else ::poll(nullptr, 0, 1);
    }
    return true;
}

/// Keeps the batch's memory from going, whatever ends it. False: it is over.
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

inline bool is_root(batch_record const& b) noexcept {
    return b.registry.load(std::memory_order_relaxed)->root == &b;
}

/// As hold, for callers of the batch's registry: its root is there as long as that, and is not held. Which of the
/// two the record is can be asked only once it is known to be that batch's.
inline bool hold_or_root(batch_record& b, std::uint64_t id, std::uint64_t unless = batch_flags::closed) noexcept {
    if (!hold(b, id, unless)) return false;
    if (is_root(b)) b.state.fetch_sub(1, std::memory_order_acq_rel);
    return true;
}

/// As hold, whoever ended it, as long as its end has not begun to free it.
inline bool hold_until_freed(batch_record& b, std::uint64_t id) noexcept {
    std::uint64_t s = b.state.load(std::memory_order_acquire);
    do {
        bool const freed = s & batch_flags::done || (s & batch_flags::ended && !(s & batch_flags::holds));
        if (!same_batch(s, id) || freed) return false;
    } while (!b.state.compare_exchange_weak(s, s + 1, std::memory_order_acq_rel));
    return true;
}

/// The memory is still there, even if nothing can be made: so a batch that was ended with cleanup::manual counts.
inline constexpr std::uint64_t unless_over = batch_flags::ended | batch_flags::done | batch_flags::undoing;

/// Makes the batch's own lane this thread's, unless it is another use's. By a locked instruction, for a visit does
/// it without the batch's lock.
inline bool take_primary(batch_record& b) noexcept {
    return !(b.state.fetch_or(batch_flags::taken, std::memory_order_acq_rel) & batch_flags::taken);
}
inline void give_primary(batch_record& b) noexcept {
    b.primary.thread.store(nullptr, std::memory_order_release);
    b.state.fetch_and(~batch_flags::taken, std::memory_order_acq_rel);
}

/// Gives a hold back, and flags that went with it; with the last one a batch that is over is reclaimed, and one
/// that is paged_when_left goes out.
void release_hold(batch_record* b, std::uint64_t flags = 0) noexcept;

/// Deadlines, see stopping.hpp.
bool minds_the_clock(batch_record const& b) noexcept;
bool notice_deadline(batch_record& b) noexcept;
bool is_overdue(batch_record const& b) noexcept;

/// The same, but it stays where it is.
void release_hold_in_place(batch_record* b) noexcept;

}  // namespace tenure::detail
