// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <tenure/detail/base/fork_list.hpp>
#include <tenure/remote/client/call.hpp>
#include <tenure/remote/client/call_driver.hpp>
#include <tenure/remote/client/session.hpp>

namespace tenure::detail::remote {

/// Runs a client's I/O, on one thread at a time: the leader. A blocked caller leads until its own call is
/// finished, so no thread has to be woken for an answer. Callers that arrive meanwhile sleep, and one of them is
/// woken to lead when the leader is done (cf. Schmidt et al., Leader/Followers, 2000). The store's own thread
/// leads while no caller is blocked and something is expected or due. It also runs the handlers that have no
/// executor of their own. So they never run on the thread of a blocked caller, which may hold locks that they
/// want.
///
/// One mutex guards the leader and the submitted calls. It is not held across I/O.
class driver final : public call_driver {
public:
    driver(endpoint const& to, client_options const& options, stash& spare)
        : session_(wire_, to, options, spare),
          wire_work_(wire_.get_executor()),
          handlers_work_(handlers_.get_executor()) {}
    // NOLINTNEXTLINE(bugprone-exception-escape): Asio may throw where memory is out, and then this ends the program
    ~driver() {
        session_.abandon();
        wire_.poll();  // the handlers that Asio still has refer to the session
    }

    session const& state() const noexcept { return session_; }

    /// Returns whether this is a child of the process that owns the connection and the threads that work on it.
    bool is_parents() const noexcept { return mark_.in_child(); }

    /// A call for which a thread blocks.
    struct blocking_call final : call {
        std::condition_variable wake;
        bool                    done  = false;  ///< changed under the driver's lock; the leader reads it without
        bool                    leads = false;
        hook                    sleeps;
        driver*                 by = nullptr;
        std::thread::id         who;

        void finish() noexcept override {
            std::scoped_lock const guard(by->mutex_);
            done = true;
            wake.notify_one();  // with the lock: the call may be gone once it is free
        }
    };

    /// Runs a call until it is finished.
    void run(blocking_call& c) noexcept {
        c.by  = this;
        c.who = std::this_thread::get_id();
        if (mark_.in_child()) {
            c.error = make_error_code(errc::forked);
            c.done  = true;
            return;
        }
        std::unique_lock lock(mutex_);
        submitted_.push_back(c);
        if (leader_ == c.who) {  // called by a handler whose executor runs it at once
            lock.unlock();
            while (!c.done) step();
            return;
        }
        if (leader_ == nobody) {
            leader_ = c.who;
        } else {
            rouse();
            sleepers_.push_back(c);
            c.wake.wait(lock, [&] { return c.done || c.leads; });
            if (!c.leads) return c.sleeps.unlink();
        }
        lock.unlock();
        while (!c.done) step();
        lock.lock();
        hand_over();
    }

    /// Submits a call for which no thread blocks. Any thread.
    void submit(call& c) noexcept {
        if (mark_.in_child()) {
            c.error = make_error_code(errc::forked);
            return c.finish();
        }
        std::scoped_lock const guard(mutex_);
        submitted_.push_back(c);
        rouse();
    }

    void cancel(call& c) noexcept override {
        std::scoped_lock const guard(mutex_);
        if (c.past || c.cancelled.is_linked()) return;
        cancelled_.push_back(c);
        rouse();
    }
    void is_past(call& c) noexcept override {
        std::scoped_lock const guard(mutex_);
        c.past = true;
        c.cancelled.unlink();
    }

    boost::asio::io_context& handlers() noexcept override { return handlers_; }
    void                     handlers_wait() noexcept override {
        std::scoped_lock const guard(mutex_);
        handlers_wait_ = true;
        if (own_ == std::this_thread::get_id()) return;
        if (leader_ == own_) rouse();
        else idle_.notify_one();
    }

    /// Runs the store's own thread until stop(), and then until nothing is expected.
    // NOLINTNEXTLINE(bugprone-exception-escape): Asio may throw where memory is out, and then this ends the program
    void serve() noexcept {
        std::unique_lock lock(mutex_);
        own_ = std::this_thread::get_id();
        for (;;) {
            if (handlers_wait_) {
                handlers_wait_ = false;
                lock.unlock();
                handlers_.poll();
                lock.lock();
            } else if (leader_ == nobody && (wanted_ || clock::now() >= due_)) {
                leader_ = own_;
                lock.unlock();
                step();
                lock.lock();
                hand_over();
            } else if (stopping_ && leader_ == nobody && !wanted_) {
                return;
            } else if (leader_ == nobody && due_ != clock::time_point::max()) {
                waits_until_ = due_;
                idle_.wait_until(lock, waits_until_);
            } else {
                waits_until_ = clock::time_point::max();
                idle_.wait(lock);
            }
        }
    }

    void stop() noexcept {
        std::scoped_lock const guard(mutex_);
        stopping_ = true;
        idle_.notify_one();
    }

private:
    inline static std::thread::id const nobody{};

    /// Makes one round of I/O: by the leader, without the lock.
    void step() noexcept {
        take_in();
        session_.pump();
        if (!finish()) {
            auto const due = session_.due();
            if (session_.is_direct()) {
                bool const ready = wait(due);
                session_.at(clock::now());
                if (ready) session_.receive();
                if (session_.now() >= due) session_.tick();
            } else if (due <= session_.now()) {
                session_.tick();
                turn([&] { wire_.poll_one(); });
            } else if (due == clock::time_point::max()) {
                turn([&] { wire_.run_one(); });
                session_.at(clock::now());
            } else {
                turn([&] { wire_.run_one_until(due); });
                session_.at(clock::now());
            }
            session_.pump();
            finish();
        }
    }

    /// Waits for the socket, for something to do, or until `due`. Returns whether there is something to receive.
    bool wait(clock::time_point due) noexcept {
        std::unique_lock lock(mutex_);
        if (!submitted_.empty() || !cancelled_.empty()) return false;
        waits_ = true;
        lock.unlock();
        auto const patience = due == clock::time_point::max() ? std::chrono::hours(1) : due - session_.now();
        bool const ready =
            wake_up_.wait(session_.connection().socket(), session_.connection().is_sending(), patience);
        lock.lock();
        waits_ = false;
        if (std::exchange(woken_, false)) wake_up_.clear();
        return ready;
    }

    void take_in() noexcept {
        call_list<&call::submitted> submitted;
        std::unique_lock            lock(mutex_);
        submitted.swap(submitted_);
        bool const any_cancelled = !cancelled_.empty();
        lock.unlock();
        session_.at(clock::now());
        while (!submitted.empty()) {
            call& c = submitted.front();
            submitted.pop_front();
            session_.accept(c);
        }
        if (any_cancelled) lock.lock();
        while (any_cancelled && !cancelled_.empty()) {
            call& c = cancelled_.front();
            cancelled_.pop_front();
            lock.unlock();  // `c` stays: only this thread finishes it
            session_.end_early(c, std::make_error_code(std::errc::operation_canceled));
            lock.lock();
        }
    }

    template <class F>
    // NOLINTNEXTLINE(bugprone-exception-escape): what else is thrown is a mistake, and ends the program
    void turn(F f) noexcept {
        try {
            f();
        } catch (std::bad_alloc const&) {
            session_.out_of_memory();
        }
    }

    bool finish() noexcept {
        bool any = false;
        while (call* const c = session_.next_finished()) {
            any = true;
            c->finish();
        }
        return any;
    }

    // With the lock ---------------------------------------------------------------------------------------------

    /// Makes the leader look at what was submitted. If there is none, wakes the store's own thread to lead.
    void rouse() noexcept {
        if (leader_ == nobody) {
            wanted_ = true;
            idle_.notify_one();
        } else if (leader_ == std::this_thread::get_id()) {
            return;
        } else if (waits_) {
            if (!std::exchange(woken_, true)) wake_up_.set();
        } else if (!roused_) {
            roused_ = true;
            boost::asio::post(wire_, with_memory(rouse_memory_, [this] {  // rouse_memory_ is free by now
                                  std::scoped_lock const guard(mutex_);
                                  roused_ = false;
                              }));
        }
    }

    /// Ends the lead of the calling thread. The first sleeper leads next, else the store's own thread if wanted.
    void hand_over() noexcept {
        wanted_ = session_.busy() || !submitted_.empty() || !cancelled_.empty();
        due_    = session_.due();
        if (!sleepers_.empty()) {
            blocking_call& c = sleepers_.front();
            sleepers_.pop_front();
            c.leads = true;
            leader_ = c.who;
            c.wake.notify_one();
            return;
        }
        leader_ = nobody;
        if (own_ != std::this_thread::get_id() && (wanted_ || due_ < waits_until_)) idle_.notify_one();
    }

    fork_mark const                                  mark_;
    std::mutex                                       mutex_;
    std::condition_variable                          idle_;  ///< where the store's own thread waits
    std::thread::id                                  leader_, own_;
    call_list<&call::submitted>                      submitted_;
    call_list<&call::cancelled>                      cancelled_;
    call_list<&blocking_call::sleeps, blocking_call> sleepers_;  ///< in order of arrival
    bool              waits_ = false, woken_ = false;            ///< the leader waits for its socket; it was woken
    bool              roused_ = false, handlers_wait_ = false, wanted_ = false, stopping_ = false;
    clock::time_point due_ = clock::time_point::max(), waits_until_ = due_;

    boost::asio::io_context wire_{1}, handlers_{1};
    io_memory               rouse_memory_;
    wake_up                 wake_up_;
    session                 session_;

    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> wire_work_, handlers_work_;
};

}  // namespace tenure::detail::remote
