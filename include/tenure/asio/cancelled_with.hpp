// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/associator.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/post.hpp>
#include <tenure/batch.hpp>
#include <tenure/raise.hpp>
#include <tenure/timing.hpp>

namespace tenure {

namespace detail {

/// Cancels one operation when a batch stops, unless it completes before. The operation's handler owns it.
template <class Executor>
class stop_signal : public std::enable_shared_from_this<stop_signal<Executor>> {
public:
    explicit stop_signal(Executor const& executor) : executor_(executor) {}

    boost::asio::cancellation_slot slot() noexcept { return signal_.slot(); }

    /// On the handler's executor, as anything that emits a signal.
    void emit(boost::asio::cancellation_type type) { signal_.emit(type); }

    /// Called when the operation has begun: not before, for emitting must not overlap with that.
    void watch(std::stop_token const& token) {
        std::scoped_lock const guard(mutex_);
        if (!completed_) callback_.emplace(token, on_stop{this});
    }

    /// Called when the operation completes. A callback that is running on another thread is waited for.
    void complete() noexcept {
        std::scoped_lock const guard(mutex_);
        completed_ = true;
        callback_.reset();
    }

private:
    struct on_stop {
        stop_signal* self;

        /// On the thread that stops the batch. Where there is no memory for a post, the operation goes on.
        void operator()() const {
            memory_lasts([&] {
                boost::asio::post(self->executor_, [weak = self->weak_from_this()] {
                    if (auto const alive = weak.lock()) alive->emit(boost::asio::cancellation_type::terminal);
                });
            });
        }
    };

    Executor                                   executor_;
    boost::asio::cancellation_signal           signal_;
    std::mutex                                 mutex_;  ///< guards what follows
    bool                                       completed_ = false;
    std::optional<std::stop_callback<on_stop>> callback_;
};

/// The handler of an operation that a batch cancels, with the properties of the user's handler.
template <class Handler, class Signal>
struct cancelled_handler {
    Handler                        handler;
    std::shared_ptr<Signal>        signal;
    boost::asio::cancellation_slot outer;  ///< the user's own, which reaches the operation through the signal

    template <class... Results>
    void operator()(Results&&... results) {
        signal->complete();
        if (outer.is_connected()) outer.clear();
        signal.reset();
        std::move(handler)(std::forward<Results>(results)...);
    }
};

template <class Initiation>
struct cancelled_initiation {
    Initiation start;
    batch_id   batch;

    template <class Handler, class... Args>
    void operator()(Handler&& handler, Args&&... args) && {
        using handler_type          = std::decay_t<Handler>;
        using executor              = boost::asio::associated_executor_t<handler_type>;
        using signal                = stop_signal<executor>;
        std::stop_token const token = timing_calls::stop_token(batch);
        auto const            s     = std::allocate_shared<signal>(boost::asio::get_associated_allocator(handler),
                                                                   boost::asio::get_associated_executor(handler));
        boost::asio::cancellation_slot outer = boost::asio::get_associated_cancellation_slot(handler);
        if (outer.is_connected())
            outer.assign([weak = std::weak_ptr(s)](boost::asio::cancellation_type type) {
                if (auto const alive = weak.lock()) alive->emit(type);
            });
        std::move(start)(
            boost::asio::bind_cancellation_slot(
                s->slot(), cancelled_handler<handler_type, signal>{std::forward<Handler>(handler), s, outer}),
            std::forward<Args>(args)...);
        s->watch(token);
    }
};

}  // namespace detail

/// What cancelled_with() returns.
template <class Token>
struct cancelled_token {
    Token    token;
    batch_id batch;
};

/// Adapts a completion token: the operation is cancelled when the batch stops, as its stop_token says. With a
/// coroutine it is cancelled whatever it awaits then, so a timer or a read in it ends at the batch's deadline:
///
///     co_spawn(bind_batch(io, request), serve(socket), tenure::cancelled_with(request, asio::detached));
///
/// The operation completes as Asio's cancellation has it, mostly with operation_aborted. The signal (terminal) is
/// posted to the handler's executor. A cancellation slot of the token's own still works.
///
/// A batch that is over cancels at once. Throws std::bad_alloc, what the operation's start throws. Any thread, as
/// the operation itself. Cost: an allocation that Asio recycles, and a std::stop_callback.
template <class Token>
cancelled_token<std::decay_t<Token>> cancelled_with(batch_id batch, Token&& token) {
    return {std::forward<Token>(token), batch};
}

}  // namespace tenure

template <class Token, class... Signatures>
struct boost::asio::async_result<tenure::cancelled_token<Token>, Signatures...> {
    template <class Initiation, class Cancelled, class... Args>
    static auto initiate(Initiation&& start, Cancelled&& c, Args&&... args) {
        return async_initiate<Token, Signatures...>(
            tenure::detail::cancelled_initiation<std::decay_t<Initiation>>{std::forward<Initiation>(start),
                                                                           c.batch},
            c.token, std::forward<Args>(args)...);
    }
};

template <template <class, class> class Associator, class Handler, class Signal, class Default>
struct boost::asio::associator<Associator, tenure::detail::cancelled_handler<Handler, Signal>, Default>
    : Associator<Handler, Default> {
    using handler = tenure::detail::cancelled_handler<Handler, Signal>;

    static decltype(auto) get(handler const& h) noexcept { return Associator<Handler, Default>::get(h.handler); }
    static decltype(auto) get(handler const& h, Default const& d) noexcept {
        return Associator<Handler, Default>::get(h.handler, d);
    }
};
