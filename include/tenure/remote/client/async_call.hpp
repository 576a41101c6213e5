// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/error_code.hpp>

#include <tenure/remote/client/driver.hpp>
#include <tenure/remote/client/executor.hpp>

namespace tenure::detail::remote {

/// What a handler gets from a finished call, besides the error.
template <class T>
struct given;
template <>
struct given<void> {
    using signature = void(boost::system::error_code);
    static std::tuple<> of(call&) noexcept { return {}; }
};
template <>
struct given<block> {
    using signature = void(boost::system::error_code, block);
    static std::tuple<block> of(call& c) noexcept { return c.made; }
};
template <>
struct given<protocol::key> {
    using signature = void(boost::system::error_code, protocol::key);
    static std::tuple<protocol::key> of(call& c) noexcept { return c.ticket; }
};
template <>
struct given<std::string> {
    using signature = void(boost::system::error_code, std::string);
    static std::tuple<std::string> of(call& c) noexcept { return std::move(c.text); }
};

/// A call for which no thread blocks, with its handler: one allocation, by the handler's allocator. It lives until
/// it runs on the handler's executor; until then the handler's cancellation slot may be used.
template <class Handler, class Given>
class async_call final : public call {
public:
    using allocator_type = boost::asio::associated_allocator_t<Handler>;

    /// Makes a call and fills it in by `set(call&)`.
    template <class Set>
    static async_call* make(driver& d, Handler&& h, Set set) {
        rebound     a(boost::asio::get_associated_allocator(h));
        auto* const place = traits::allocate(a, 1);
        async_call* c     = nullptr;
        try {
            c = ::new (static_cast<void*>(place)) async_call(d, std::move(h));
        } catch (...) {
            traits::deallocate(a, place, 1);
            throw;
        }
        set(static_cast<call&>(*c));
        c->finish = &finished;
        c->slot_  = boost::asio::get_associated_cancellation_slot(c->handler_);
        if (c->slot_.is_connected()) {
            c->slot_.assign([c](boost::asio::cancellation_type type) {
                if (type != boost::asio::cancellation_type::none) c->driver_.cancel(*c);
            });
        }
        return c;
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

    async_call(driver& d, Handler&& h)
        : driver_(d),
          handler_(std::move(h)),
          work_(boost::asio::get_associated_executor(handler_, store_executor(d))) {}
    ~async_call() = default;

    static void destroy(async_call* c) noexcept {
        rebound a(boost::asio::get_associated_allocator(c->handler_));
        c->~async_call();
        traits::deallocate(a, c, 1);
    }
    struct deleter {
        void operator()(async_call* c) const noexcept {
            if (c->slot_.is_connected()) c->slot_.clear();
            destroy(c);
        }
    };

    // NOLINTNEXTLINE(bugprone-exception-escape): Asio may throw where memory is out, and then this ends the program
    static void finished(call& x) noexcept {
        auto& c = static_cast<async_call&>(x);
        if (c.slot_.is_connected()) c.driver_.is_past(c);
        c.deliver();
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
            auto                            made = given<Given>::of(*what);
            auto const                      work = std::move(what->work_);
            // Frees the memory first, for which it needs the handler's allocator: the handler may ask for as much
            // again.
            rebound     a(boost::asio::get_associated_allocator(handler));
            auto* const c = what.release();
            if (c->slot_.is_connected()) c->slot_.clear();
            c->~async_call();
            traits::deallocate(a, c, 1);
            std::apply([&](auto&... result) { std::move(handler)(why, std::move(result)...); }, made);
        }
    };

    driver&                                    driver_;
    Handler                                    handler_;
    boost::asio::executor_work_guard<executor> work_;
    slot                                       slot_;
};

}  // namespace tenure::detail::remote
