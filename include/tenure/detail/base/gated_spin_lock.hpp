// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>

#include <sched.h>

#include <tenure/detail/base/fork_list.hpp>

namespace tenure::detail {

/// A spin_lock of which there are too many for a fork() to take and return each: every page that is written to
/// after a fork is copied, in the parent and in the child. Instead the forking thread sets `forks.under_way`, from
/// when on nobody gets such a lock, and waits until each is free. Nothing that a fork takes may be taken under one.
///
///     a thread                              the thread that forks
///     L1  held = true                       F1  under_way = true
///     L2  under_way? then held = false      F2  held? then wait
///         and wait                          F3  fork
///
/// All four are sequentially consistent: so L2 sees F1, or F2 sees L1. A thread that is between L1 and L2 at F3 has
/// changed nothing. Its lock is held in the child by nobody: see forget_others().
class gated_spin_lock {
public:
    [[gnu::always_inline]] void lock() noexcept {
        while (!try_lock()) wait();
    }
    bool try_lock() noexcept {
        if (held_.exchange(true, std::memory_order_seq_cst)) return false;
        if (!forks.under_way.load(std::memory_order_seq_cst)) [[likely]]
            return true;
        unlock();
        return false;
    }
    void unlock() noexcept { held_.store(false, std::memory_order_release); }

    /// Waits until nobody has the lock. For the thread that forks.
    void await_unlocked() const noexcept {
        while (held_.load(std::memory_order_seq_cst)) ::sched_yield();
    }
    /// Unlocks in a forked child, whose one thread must not have the lock. Writes only if it must.
    void forget_others() noexcept {
        if (held_.load(std::memory_order_relaxed)) held_.store(false, std::memory_order_relaxed);
    }

private:
    [[gnu::noinline, gnu::cold]] void wait() noexcept {
        for (int spins = 0;
             held_.load(std::memory_order_relaxed) || forks.under_way.load(std::memory_order_relaxed); ++spins) {
            if (spins < 64) {
#if defined(__x86_64__)
                __builtin_ia32_pause();
#endif
            } else {
                ::sched_yield();
            }
        }
    }

    std::atomic<bool> held_{false};
};

}  // namespace tenure::detail
