// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include <pthread.h>
#include <sched.h>

#include <tenure/detail/base/signals_blocked.hpp>
#include <tenure/detail/batch/batch_record.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Batches that are over and wait for the registry's thread to run their destructors, the oldest end first; that
/// thread; and a chore, which it does step by step while no batch waits. Thread-safe, but for stop().
class background_queue {
public:
    /// Sets the most bytes that may wait; one batch alone may have more.
    void limit(std::size_t bytes) noexcept { limit_ = bytes; }

    /// Starts the thread if there is none. If the system has none to give, ends run on the threads that call them,
    /// until a later call succeeds.
    template <class F>
    void start(F work) noexcept {
        if (running_.load(std::memory_order_acquire) || retired_.load(std::memory_order_relaxed)) return;
        std::scoped_lock const guard(starting_);
        if (running_.load(std::memory_order_relaxed)) return;
        auto const run_thread = [&] {
            signals_blocked const here;  // the program's signals are for its own threads
            thread_ = std::thread([run = std::move(work)] {
                settle();
                run();
            });
            running_.store(true, std::memory_order_release);
        };
        run_or<std::exception>(run_thread, [](auto const&) {});  // system_error, bad_alloc
    }

    /// Counts `bytes` among those that wait. True: put() must follow. False: too much waits already, or there is
    /// no thread; nothing was counted.
    bool admit(std::size_t bytes) noexcept {
        if (!running_.load(std::memory_order_acquire) || retired_.load(std::memory_order_relaxed)) return false;
        std::size_t const before = bytes_.fetch_add(bytes, std::memory_order_relaxed);
        if (before == 0 || (before <= limit_ && bytes <= limit_ - before)) return true;
        bytes_.fetch_sub(bytes, std::memory_order_relaxed);
        return false;
    }

    /// Hands a batch over to the thread. Wakes the thread if it sleeps until it is woken, or if more than half of
    /// the limit waits.
    void put(batch_record& b) noexcept {
        bool wake = bytes_.load(std::memory_order_relaxed) > limit_ / 2;
        {
            std::scoped_lock const guard(mutex_);
            b.rest.next_waiting                         = nullptr;
            (last_ ? last_->rest.next_waiting : first_) = &b;
            last_                                       = &b;
            count_.fetch_add(1, std::memory_order_relaxed);
            wake = wake || sleeps_;
        }
        if (wake) bell_.notify_one();
    }

    /// Notes that there is a chore, unless there is no thread to do it. Wakes the thread.
    void add_chore() noexcept {
        {
            std::scoped_lock const guard(mutex_);
            if (!running_.load(std::memory_order_acquire) || retired_.load(std::memory_order_relaxed) || chore_)
                return;
            chore_ = true;
            count_.fetch_add(1, std::memory_order_relaxed);
        }
        bell_.notify_one();
    }

    /// Ends the chore, if there still is one: it is done, or given up.
    void end_chore() noexcept {
        {
            std::scoped_lock const guard(mutex_);
            if (!std::exchange(chore_, false)) return;
        }
        finished(0);
    }

    /// Waits for the thread's next batch and returns it. Null: a step of the chore is due, or if there is none, the
    /// registry is closing.
    ///
    /// Waking a thread takes longer than all the rest of an end: 15 to 45 us in a virtual machine, whose idle core
    /// has to be started. So after recent work the thread looks for more by itself, after a nap of 1 ms and then
    /// ever longer ones, up to 16 ms. It sleeps until it is woken only after 1 s without work.
    batch_record* next() noexcept {
        using namespace std::chrono_literals;
        constexpr auto   longest = 16ms;
        constexpr auto   enough  = 1s;
        std::unique_lock guard(mutex_);
        auto const       idle_since = std::chrono::steady_clock::now();
        for (auto nap = 1ms; !first_; nap = std::min(nap * 2, longest)) {
            if (chore_ || stopping_) return nullptr;
            sleeps_ = std::chrono::steady_clock::now() - idle_since > enough;
            if (sleeps_) bell_.wait(guard);
            else bell_.wait_for(guard, nap);
            sleeps_ = false;
        }
        return at_ = pop();
    }

    bool has_chore() const noexcept {
        std::scoped_lock const guard(mutex_);
        return chore_;
    }

    /// Returns the next batch for a caller that does the work of a lost thread: see lose_thread(). Null: no batch
    /// waits, or the thread runs. Does not wait.
    batch_record* next_left_over() noexcept {
        if (running_.load(std::memory_order_acquire)) return nullptr;
        std::scoped_lock const guard(mutex_);
        return first_ ? pop() : nullptr;
    }

    /// Notes that a batch of `bytes`, which next() or next_left_over() returned, is freed.
    void finished(std::size_t bytes) noexcept {
        bytes_.fetch_sub(bytes, std::memory_order_relaxed);
        if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) count_.notify_all();
    }

    /// Waits until no batch waits or is being freed, and there is no chore. Not for the thread itself.
    void drain() noexcept {
        bell_.notify_one();
        while (std::uint32_t const n = count_.load(std::memory_order_acquire))
            count_.wait(n, std::memory_order_acquire);
    }

    /// Takes no more batches, and waits for those that wait. Called at the exit of the process, when other threads
    /// may go on.
    void retire() noexcept {
        retired_.store(true, std::memory_order_relaxed);
        end_chore();
        drain();
    }

    /// Ends the thread, once it has freed what waits.
    void stop() noexcept {
        retired_.store(true, std::memory_order_relaxed);  // later ends do their own work at once
        { std::scoped_lock const starting(starting_); }   // a caller that was just starting the thread is done
        if (!thread_.joinable()) return;
        end_chore();
        drain();
        {
            std::scoped_lock const guard(mutex_);
            stopping_ = true;
        }
        bell_.notify_one();
        thread_.join();
        running_.store(false, std::memory_order_release);
    }

    /// Takes and returns the locks at a fork: see fork_list.hpp.
    void lock_for_fork() noexcept {
        starting_.lock();
        mutex_.lock();
    }
    void unlock_after_fork() noexcept {
        mutex_.unlock();
        starting_.unlock();
    }

    /// Forgets the thread, in a forked child, which does not have it. What waits is left for next_left_over(), or
    /// for a thread that is started later. `own`: the batch that the caller is freeing, as the queue's thread or
    /// after next_left_over(), or null. Returns the batch that another thread was freeing, or null.
    batch_record* lose_thread(batch_record const* own) noexcept {
        new (&thread_) std::thread;            // the old one cannot be joined
        new (&bell_) std::condition_variable;  // the end of the old one would wait for the lost thread
        running_.store(false, std::memory_order_relaxed);
        sleeps_                = false;
        chore_                 = false;
        std::uint32_t batches  = own ? 1 : 0;
        std::size_t   in_these = own ? own->rest.waiting_bytes : 0;
        for (batch_record const* b = first_; b; b = b->rest.next_waiting) {
            ++batches;
            in_these += b->rest.waiting_bytes;
        }
        count_.store(batches, std::memory_order_relaxed);
        bytes_.store(in_these, std::memory_order_relaxed);
        batch_record* const at = std::exchange(at_, nullptr);
        return at == own ? nullptr : at;
    }

    std::size_t batches() const noexcept {
        std::scoped_lock const guard(mutex_);
        return count_.load(std::memory_order_relaxed) - chore_;
    }
    std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

private:
    batch_record* pop() noexcept {
        batch_record* const b = std::exchange(first_, first_->rest.next_waiting);
        if (!first_) last_ = nullptr;
        return b;
    }

    /// Names the thread and makes it a batch job, which never preempts the thread that wakes it: else, if all
    /// cores are busy, an end would wait for the destructors after all.
    static void settle() noexcept {
        ::sched_param const usual{};
        ::pthread_setschedparam(::pthread_self(), SCHED_BATCH, &usual);
        ::pthread_setname_np(::pthread_self(), "tenure-ends");
    }

    mutable std::mutex         mutex_;  ///< guards what follows up to `stopping_`
    std::condition_variable    bell_;
    batch_record*              first_    = nullptr;
    batch_record*              last_     = nullptr;
    batch_record*              at_       = nullptr;  ///< the batch that the thread is freeing, or freed last
    bool                       sleeps_   = false;    ///< the thread sleeps until it is woken
    bool                       chore_    = false;
    bool                       stopping_ = false;
    std::size_t                limit_    = 0;
    std::atomic<std::size_t>   bytes_{0};
    std::atomic<std::uint32_t> count_{0};  ///< batches that wait, the one being freed, and the chore
    std::atomic<bool>          running_{false};
    std::atomic<bool>          retired_{false};
    std::mutex                 starting_;
    std::thread                thread_;
};

}  // namespace tenure::detail
