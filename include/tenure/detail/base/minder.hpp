// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include <pthread.h>

#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/base/signals_blocked.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// A thread that does rounds of something while there is need for them, and sleeps otherwise. It is started when it
/// is first needed. Thread-safe, but for stop().
class minder {
public:
    using time = std::chrono::steady_clock::time_point;

    /// `round` says when the next one is due, if one is. No lock is held when it is called. `name` is the thread's,
    /// a literal of 15 characters at most.
    minder(char const* name, std::function<std::optional<time>()> round) noexcept
        : name_(name), round_(std::move(round)) {}
    ~minder() { stop(); }
    minder(minder const&)            = delete;
    minder& operator=(minder const&) = delete;

    /// Has a round begin after this call, unless there is no thread to do it, and never will be: the system gives
    /// none, or stop() was called.
    void ring() noexcept {
        std::scoped_lock const guard(mutex_);
        if (stopping_) return;
        if (!thread_.joinable() && !start()) stopping_.store(true, std::memory_order_release);
        rung_ = true;
        bell_.notify_one();
    }

    /// Whether there will be no more rounds.
    bool has_stopped() const noexcept { return stopping_.load(std::memory_order_acquire); }

    /// Ends the thread, once its round is over.
    void stop() noexcept {
        {
            std::scoped_lock const guard(mutex_);
            stopping_ = true;
            bell_.notify_one();
        }
        if (thread_.joinable()) thread_.join();
    }

private:
    /// The mutex is locked.
    bool start() noexcept {
        auto const begin = [&] {
            signals_blocked const here;  // the program's signals are for its own threads
            thread_ = std::thread([this] { run(); });
        };
        run_or<std::exception>(begin, [](auto const&) {});  // system_error, bad_alloc
        return thread_.joinable();
    }

    void run() noexcept {
        ::pthread_setname_np(::pthread_self(), name_);
        std::unique_lock<std::mutex> guard(mutex_);
        for (time due = time::max(); !stopping_;) {
            if (!rung_ && std::chrono::steady_clock::now() < due) {
                bell_.wait_until(guard, due);
                continue;
            }
            rung_ = false;
            guard.unlock();
            due = round_().value_or(time::max());
            guard.lock();
        }
    }

    /// In a forked child, which does not have the thread.
    void lose() noexcept {
        new (&thread_) std::thread;            // the old one cannot be joined
        new (&bell_) std::condition_variable;  // the end of the old one would wait for the lost thread
        rung_ = false;
    }

    char const* const                          name_;
    std::function<std::optional<time>()> const round_;

    mutable fork_mutex      mutex_{this, [](void* self) noexcept { static_cast<minder*>(self)->lose(); }};
    std::condition_variable bell_;
    std::thread             thread_;
    bool                    rung_ = false;
    std::atomic<bool>       stopping_{false};
};

}  // namespace tenure::detail
