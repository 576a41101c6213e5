// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>

#include <sched.h>

#include <tenure/detail/base/zeroed_atomic.hpp>

namespace tenure::detail {

/// Guards a few dozen instructions, never a system call. It takes one byte, so that every unit and batch can have
/// its own; a std::mutex takes 40. Test and test-and-set. After a while it yields, because the holder may have
/// lost its core.
struct spin_lock {
    [[gnu::always_inline]] void lock() noexcept {
        while (held_.exchange(true, std::memory_order_acquire)) wait();
    }
    bool try_lock() noexcept { return !held_.exchange(true, std::memory_order_acquire); }
    void unlock() noexcept { held_.store(false, std::memory_order_release); }
    /// Unlocks in a forked child, whose one thread must not hold the lock: the holder is gone. Writes only if it
    /// must, because a page that is written to is copied.
    void forget_others() noexcept {
        if (held_.load(std::memory_order_relaxed)) held_.store(false, std::memory_order_relaxed);
    }

    [[gnu::noinline, gnu::cold]] void wait() noexcept {
        for (int spins = 0; held_.load(std::memory_order_relaxed); ++spins) {
            if (spins < 64) {
#if defined(__x86_64__)
                __builtin_ia32_pause();
#endif
            } else {
                ::sched_yield();
            }
        }
    }

    zeroed_atomic<bool> held_{false};  ///< public, so that this is an aggregate, which units need
};

}  // namespace tenure::detail
