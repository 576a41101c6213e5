// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <exception>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <tenure/asio/batch_executor.hpp>
#include <tenure/asio/cancelled_with.hpp>
#include <tenure/batch.hpp>
#include <tenure/batch_owner.hpp>
#include <tenure/error.hpp>
#include <tenure/raise.hpp>
#include <tenure/reach.hpp>

namespace tenure {

namespace detail {

/// Keeps handles one by one, as for any batch without a guard. Skips a handle that was never given an object.
template <class T>
void keep_awaited(batch_owner& b, T& r) {
    auto keep = [&](auto const& h) {
        if (handle_access::raw(h).word) b.keep(h);
        return true;
    };
    for_each_handle(r, keep);
}

/// Rethrows what a coroutine in that batch threw; in place of an operation's operation_aborted, why the batch
/// stopped, if it has.
[[noreturn]] inline void rethrow_from(batch_owner const& b, std::exception_ptr const& thrown) {
    batch_status const is = b.status();
    if (is == batch_status::expired || is == batch_status::cancelled)
        run_or<boost::system::system_error>(
            [&] { std::rethrow_exception(thrown); },
            [&](boost::system::system_error const& e) {
                if (e.code() != boost::asio::error::operation_aborted) return;
                raise(error(is == batch_status::expired ? errc::expired : errc::cancelled,
                            "co_with_batch gave up what it awaited"));
            });
    std::rethrow_exception(thrown);
}

template <class F>
using awaited = std::invoke_result_t<F&, batch_owner&>;

}  // namespace detail

/// As with_batch, for a coroutine: opens a batch below the current one and runs `f(batch_owner&)`, an awaitable,
/// with that batch current from its first line to its last, whatever it awaits and wherever it resumes; then the
/// batch ends. Handles in what `f` returns are kept: their objects go to the batch above. They are found as by
/// with_batch. Cancelling the caller cancels `f`, and so does the batch when it expires or is cancelled: what `f`
/// awaits then ends with operation_aborted, and if `f` leaves that alone, the caller gets the reason.
///
///     auto best = co_await tenure::co_with_batch({.name = "hop"}, [&](tenure::batch_owner&)
///         -> boost::asio::awaitable<tenure::handle<result>> { ... });
///
/// Throws what `f` throws, batch_ended, expired, cancelled, std::bad_alloc. Cost: that of co_spawn and of a post, a
/// few allocations that Asio recycles.
template <class F>
    requires std::is_invocable_v<F&, batch_owner&>
detail::awaited<F> co_with_batch(batch_options options, F f,
                                 std::source_location where = std::source_location::current()) {
    constexpr auto token = boost::asio::as_tuple(boost::asio::use_awaitable);
    batch_owner    own(options, where);
    auto const     in     = bind_batch(co_await boost::asio::this_coro::executor, own);
    auto           result = co_await boost::asio::co_spawn(in, f(own), cancelled_with(own, token));
    // Asio resumes this inside the operation that completed, with its batch current and not to be freed. So leave
    // it first.
    co_await boost::asio::post(boost::asio::use_awaitable);
    if (std::get<0>(result)) detail::rethrow_from(own, std::get<0>(result));
    if constexpr (std::tuple_size_v<decltype(result)> > 1) {
        detail::keep_awaited(own, std::get<1>(result));
        co_return std::move(std::get<1>(result));
    }
}

}  // namespace tenure

namespace tenure::this_coro {

struct batch_operation {
    template <boost::asio::completion_token_for<void(batch_id)> Token>
    auto operator()(Token&& token) const {
        return boost::asio::async_initiate<Token, void(batch_id)>(
            [](auto handler) {
                auto const at = boost::asio::get_associated_executor(handler);
                boost::asio::dispatch(at, [h = std::move(handler)]() mutable { std::move(h)(current_batch()); });
            },
            token);
    }
};

/// `co_await this_coro::batch()` returns the batch that is current in this coroutine, or none if that is over.
/// tenure::current_batch() returns the same without the cost of co_await, also in functions that the coroutine
/// calls.
inline batch_operation batch() noexcept { return {}; }

}  // namespace tenure::this_coro
