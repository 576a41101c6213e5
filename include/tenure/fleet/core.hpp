// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <mutex>

#include <sched.h>

#include <tenure/detail/base/fork_list.hpp>
#include <tenure/fleet/fleet_state.hpp>
#include <tenure/fleet/judge.hpp>

namespace tenure::detail {

/// A mutex at which who plans lets those go first who use the stores. A std::mutex would let them starve: who plans
/// takes it again before a thread that it woke has come back.
class fleet_mutex {
public:
    void lock() {
        if (mutex_.try_lock()) return;
        waiting_.fetch_add(1, std::memory_order_relaxed);
        // Who plans is done in 30 us: less than it takes to sleep and be woken. Nobody yields here: who is on this
        // processor may be the one who plans, and then has it for milliseconds.
        bool has = false;
        for (int spins = 0; spins < 500 && !has; ++spins) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
            has = mutex_.try_lock();
        }
        if (!has) mutex_.lock();
        waiting_.fetch_sub(1, std::memory_order_relaxed);
    }
    void unlock() noexcept { mutex_.unlock(); }

    /// The mutex as who plans locks it. It waits for a while at most: users may come without end.
    class behind_users {
    public:
        explicit behind_users(fleet_mutex& m) noexcept : it_(m) {}

        void lock() {
            for (int i = 0; i < 1000 && it_.waiting_.load(std::memory_order_relaxed) > 0; ++i) ::sched_yield();
            it_.mutex_.lock();
        }
        void unlock() noexcept { it_.mutex_.unlock(); }

    private:
        fleet_mutex& it_;
    };

private:
    std::atomic<unsigned> waiting_{0};
    fork_mutex            mutex_{this, [](void* self) noexcept { static_cast<fleet_mutex*>(self)->waiting_ = 0; }};
};

/// A group of stores, and what guards it. Who plans holds the lock for O(copies of one buffer), but where a size is
/// given.
struct fleet_core {
    fleet_mutex               mutex;
    fleet_mutex::behind_users planning{mutex};

    // Guarded by the mutex.
    fleet_state   state;
    judge         proposals{state};
    judge::orders orders;  ///< what was accepted, and nobody carries out yet
};

}  // namespace tenure::detail
