// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/error_code.hpp>

#include <tenure/remote/client/call_driver.hpp>

namespace tenure::detail::remote {

/// A store's own executor. What is posted to it runs on the store's thread, in order, and never inside execute().
/// Valid as long as the store.
class store_executor {
public:
    explicit store_executor(call_driver& d) noexcept : driver_(&d) {}

    boost::asio::execution_context& query(boost::asio::execution::context_t) const noexcept {
        return driver_->handlers();
    }
    static constexpr boost::asio::execution::blocking_t query(boost::asio::execution::blocking_t) noexcept {
        return boost::asio::execution::blocking.never;
    }

    template <class F>
    void execute(F&& f) const {
        boost::asio::require(driver_->handlers().get_executor(), boost::asio::execution::blocking.never)
            .execute(std::forward<F>(f));
        driver_->handlers_wait();
    }

    friend bool operator==(store_executor const&, store_executor const&) noexcept = default;

private:
    call_driver* driver_;
};

/// The signature of a handler that gets these members of a finished call, besides the error.
template <auto... Given>
using signature = void(boost::system::error_code, std::remove_cvref_t<decltype(std::declval<call&>().*Given)>...);

/// A call for which no thread blocks, with its handler: one allocation, by the handler's allocator. It lives until
/// it runs on the handler's executor; until then the handler's cancellation slot may be used.
template <class Handler, auto... Given>
class async_call final : public call {
public:
    using allocator_type = boost::asio::associated_allocator_t<Handler>;

    /// Makes a call and fills it in by `set(call&)`.
    template <class Set>
    static async_call* make(call_driver& d, Handler&& h, Set const& set) {
        rebound     a(boost::asio::get_associated_allocator(h));
        auto* const place = traits::allocate(a, 1);
        try {
            return ::new (static_cast<void*>(place)) async_call(d, std::move(h), set);
        } catch (...) {
            traits::deallocate(a, place, 1);
            throw;
        }
    }

    /// Posts the finished call to the handler's executor. Holds work there until it returns, else the context
    /// could be gone before.
    void deliver() {
        auto const work = work_;
        boost::asio::post(work.get_executor(), delivery{std::unique_ptr<async_call, deleter>(this)});
    }

private:
    using rebound  = typename std::allocator_traits<allocator_type>::template rebind_alloc<async_call>;
    using traits   = std::allocator_traits<rebound>;
    using executor = boost::asio::associated_executor_t<Handler, store_executor>;
    using slot     = boost::asio::associated_cancellation_slot_t<Handler>;

    template <class Set>
    async_call(call_driver& d, Handler&& h, Set const& set)
        : driver_(d),
          handler_(std::move(h)),
          work_(boost::asio::get_associated_executor(handler_, store_executor(d))),
          slot_(boost::asio::get_associated_cancellation_slot(handler_)) {
        set(*this);
        if (!slot_.is_connected()) return;
        slot_.assign([this](boost::asio::cancellation_type type) {
            if (type != boost::asio::cancellation_type::none) driver_.cancel(*this);
        });
    }
    ~async_call() = default;

    static void destroy(async_call* c, rebound a) noexcept {
        if (c->slot_.is_connected()) c->slot_.clear();
        c->~async_call();
        traits::deallocate(a, c, 1);
    }
    struct deleter {
        void operator()(async_call* c) const noexcept {
            destroy(c, rebound(boost::asio::get_associated_allocator(c->handler_)));
        }
    };

    // NOLINTNEXTLINE(bugprone-exception-escape): Asio may throw where memory is out, and then this ends the program
    void finish() noexcept override {
        if (slot_.is_connected()) driver_.is_past(*this);
        deliver();
    }

    /// Runs the handler, on its executor.
    struct delivery {
        using allocator_type = typename async_call::allocator_type;

        std::unique_ptr<async_call, deleter> what;

        allocator_type get_allocator() const noexcept {
            return boost::asio::get_associated_allocator(what->handler_);
        }
        void operator()() {
            Handler                         handler(std::move(what->handler_));
            boost::system::error_code const why  = what->error;
            auto                            made = std::tuple(std::move((*what).*Given)...);
            auto const                      work = std::move(what->work_);
            // Frees the memory first, for which it needs the handler's allocator: the handler may ask for as much
            // again.
            destroy(what.release(), rebound(boost::asio::get_associated_allocator(handler)));
            std::apply([&](auto&... result) { std::move(handler)(why, std::move(result)...); }, made);
        }
    };

    call_driver&                               driver_;
    Handler                                    handler_;
    boost::asio::executor_work_guard<executor> work_;
    slot                                       slot_;
};

/// Sends from server to server in two steps: one server grants a ticket, the other shows it. `grant(self)` begins
/// the first step, `send(self, ticket)` the second.
template <class Grant, class Send>
struct sending {
    Grant grant;
    Send  send;

    template <class Self>
    void operator()(Self& self) {
        self.reset_cancellation_state(boost::asio::enable_total_cancellation());
        grant(self);
    }
    template <class Self>
    void operator()(Self& self, boost::system::error_code why, protocol::key const& ticket) {
        bool const cancelled = self.cancelled() != boost::asio::cancellation_type::none;
        if (cancelled && !why) why = boost::asio::error::operation_aborted;
        if (why) return self.complete(why);
        auto next = send;  // `self` is moved, and this object with it
        next(self, ticket);
    }
    template <class Self>
    void operator()(Self& self, boost::system::error_code why) {
        self.complete(why);
    }
};
template <class Grant, class Send>
sending(Grant, Send) -> sending<Grant, Send>;

}  // namespace tenure::detail::remote
