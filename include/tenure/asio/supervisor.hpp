// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/timing/deadlines.hpp>
#include <tenure/registry.hpp>
#include <tenure/timing.hpp>

namespace tenure {

namespace detail {

/// One timer for all deadlines of a registry. An earlier deadline moves it. A deadline that goes leaves it, and it
/// then finds nothing to do. Its handlers hold it, and so does the registry's queue until it is stopped.
class deadline_timer final : public deadline_watch, public std::enable_shared_from_this<deadline_timer> {
public:
    deadline_timer(registry& of, boost::asio::any_io_executor const& executor) : registry_(of), timer_(executor) {}

    void earlier() override {
        std::scoped_lock const guard(posting_);
        if (posted_) return;
        boost::asio::post(timer_.get_executor(), [self = shared_from_this()] { self->act(true); });
        posted_ = true;
    }

    /// Stops the timer, and returns when it does nothing any more. Not to be called from a callback of a
    /// stop_token.
    // NOLINTNEXTLINE(bugprone-exception-escape): where a lock cannot be had, the program ends
    void stop() noexcept {
        std::scoped_lock const guard(acting_, posting_);
        posted_ = stopped_ = true;
        timer_.cancel();
    }

    /// Keeps the timer for ever: in a forked child, where a thread of the parent may have been using it.
    void stay() noexcept { self_ = shared_from_this(); }

private:
    void act(bool by_post) {
        std::scoped_lock const guard(acting_);
        if (stopped_) return;
        if (by_post) {
            std::scoped_lock const with_posts(posting_);
            posted_ = false;
        }
        std::chrono::nanoseconds const left = registry_.expire_overdue();
        if (left == no_timeout) return;
        timer_.expires_after(std::min<std::chrono::nanoseconds>(left, std::chrono::hours(1)));
        timer_.async_wait([self = shared_from_this()](boost::system::error_code const& e) {
            if (!e) self->act(false);
        });
    }

    registry&                 registry_;
    std::mutex                acting_;  ///< guards the members up to `stopped_`, while batches expire
    boost::asio::steady_timer timer_;
    bool                      stopped_ = false;
    std::mutex                posting_;  ///< guards `posted_`, for a moment
    bool                      posted_ = false;

    std::shared_ptr<deadline_timer> self_;
};

}  // namespace detail

/// Acts on the deadlines of a registry's batches when they come (batch_options::timeout), by one timer; makes then
/// look at no clock. One for a registry at a time. Callbacks of a batch's stop_token, and the destructors of what
/// it frees, run on the supervisor's thread, or on one of its executor's.
///
/// Arming and disarming cost a batch some 100 ns, and a post to the executor if its deadline is the earliest.
class supervisor {
public:
    /// Uses the executor of the user's io_context, which then has work as long as there are deadlines. Throws
    /// std::bad_alloc.
    explicit supervisor(boost::asio::any_io_executor const& executor, registry& of = registry::global())
        : registry_(of), timer_(std::make_shared<detail::deadline_timer>(of, executor)) {
        detail::timing_calls::watch(of, timer_);
    }

    /// Uses a thread of its own. Throws std::bad_alloc, and what std::thread throws.
    explicit supervisor(registry& of = registry::global()) : registry_(of), own_(std::make_unique<own_thread>()) {
        timer_ = std::make_shared<detail::deadline_timer>(of, own_->io.get_executor());
        detail::timing_calls::watch(of, timer_);
    }

    /// Leaves expiry to be noticed as without a supervisor. Returns when nothing of it runs any more; at once in a
    /// forked child of the process that made it, where it leaves everything as it is.
    ~supervisor() {
        if (made_.in_child()) {
            timer_->stay();
            [[maybe_unused]] auto* const parents = own_.release();
            return;
        }
        detail::timing_calls::unwatch(registry_);
        timer_->stop();
    }
    supervisor(supervisor const&)            = delete;
    supervisor& operator=(supervisor const&) = delete;

private:
    struct own_thread {
        boost::asio::io_context                                                  io{1};
        boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{io.get_executor()};
        std::thread                                                              thread{[this] { io.run(); }};

        ~own_thread() {
            io.stop();
            thread.join();
        }
    };

    registry&                               registry_;
    detail::fork_mark const                 made_;
    std::unique_ptr<own_thread>             own_;
    std::shared_ptr<detail::deadline_timer> timer_;
};

}  // namespace tenure
