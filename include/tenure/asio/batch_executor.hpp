// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/strand.hpp>
#include <tenure/batch.hpp>
#include <tenure/bind_batch.hpp>

namespace tenure {

/// Runs all that it is given with a batch current, through another executor, whose properties and context it has.
/// See bind_batch.
template <class Executor>
class batch_executor {
public:
    using inner_executor_type = Executor;

    batch_executor(Executor inner, batch_id id) noexcept : inner_(std::move(inner)), id_(id) {}

    /// Converts as the inner executors do: batch_executor<any_io_executor> from one of an io_context.
    template <class Other>
        requires(!std::same_as<Other, Executor> && std::constructible_from<Executor, Other const&>)
    batch_executor(batch_executor<Other> const& other)  // NOLINT(google-explicit-constructor): as the inner ones
        : inner_(other.get_inner_executor()), id_(other.batch()) {}

    Executor const& get_inner_executor() const noexcept { return inner_; }
    batch_id        batch() const noexcept { return id_; }

    template <class Function>
        requires std::invocable<std::decay_t<Function>&>
    void execute(Function&& f) const {
        inner_.execute(batch_function<std::decay_t<Function>>(std::forward<Function>(f), id_));
    }

    template <class Property>
        requires boost::asio::can_query<Executor const&, Property>::value
    decltype(auto) query(Property const& p) const
        noexcept(boost::asio::is_nothrow_query<Executor const&, Property>::value) {
        return boost::asio::query(inner_, p);
    }
    template <class Property>
        requires boost::asio::can_require<Executor const&, Property>::value
    auto require(Property const& p) const
        noexcept(boost::asio::is_nothrow_require<Executor const&, Property>::value) {
        return rebind(boost::asio::require(inner_, p));
    }
    template <class Property>
        requires boost::asio::can_prefer<Executor const&, Property>::value
    auto prefer(Property const& p) const
        noexcept(boost::asio::is_nothrow_prefer<Executor const&, Property>::value) {
        return rebind(boost::asio::prefer(inner_, p));
    }

    friend bool operator==(batch_executor const& a, batch_executor const& b) noexcept {
        return a.id_ == b.id_ && a.inner_ == b.inner_;
    }
    friend bool operator!=(batch_executor const& a, batch_executor const& b) noexcept { return !(a == b); }

private:
    template <class E>
    batch_executor<std::decay_t<E>> rebind(E&& inner) const noexcept {
        return {std::forward<E>(inner), id_};
    }

    Executor inner_;
    batch_id id_;
};

namespace detail {

/// Returns the executor below, if `e` is bound to a batch, else `e`. So a new binding replaces the old one, and a
/// resumption at any depth costs one.
template <class E>
E const& unbound(E const& e) noexcept {
    return e;  // NOLINT(bugprone-return-const-ref-from-parameter): it goes no further than the call
}
template <class E>
E const& unbound(batch_executor<E> const& e) noexcept {
    return e.get_inner_executor();
}
template <class E>
boost::asio::strand<E> const& unbound(boost::asio::strand<batch_executor<E>> const& e) noexcept {
    return e.get_inner_executor();
}
inline boost::asio::any_io_executor unbound(boost::asio::any_io_executor const& e) {
    auto const* const bound = e.target<batch_executor<boost::asio::any_io_executor>>();
    return bound ? bound->get_inner_executor() : e;
}

template <class E>
concept executor = boost::asio::execution::is_executor<E>::value;

}  // namespace detail

/// Binds an executor to a batch: everything that runs through it - a coroutine spawned on it, a callback bound to
/// it, a posted function - finds that batch current, wherever it resumes, and leaves the thread as it was at each
/// suspension. Copies, strands and any_io_executor keep the binding. A bound executor is bound anew.
///
/// Asio resumes an awaiter inside the operation that it awaited, without asking an executor that needs no more
/// than to run there. So a coroutine that awaits something bound to another batch should be bound itself, if only
/// to its registry's root, or call co_with_batch, which takes care of this.
///
/// The binding does not keep the batch alive. What resumes after the end still runs, so that coroutines can
/// unwind, but with no batch in which anything can be made: make and batch_scope{} throw batch_ended. What is
/// running when the batch ends has its memory until it suspends.
///
/// A batch_scope is bound to its thread and its block: open it between two suspensions, never across one.
/// co_with_batch and batch_owner may live across.
///
/// Throws no_such_batch. Any thread. Cost of a resumption: some 20 ns.
template <detail::executor Executor>
auto bind_batch(Executor const& executor, batch_id id) {
    auto&& inner = detail::unbound(executor);
    return batch_executor<std::decay_t<decltype(inner)>>(inner, batch_id{detail::bindable(id.value)});
}

/// As bind_batch(context.get_executor(), id), for an io_context or a thread_pool.
template <std::derived_from<boost::asio::execution_context> Context>
auto bind_batch(Context& context, batch_id id) {
    return bind_batch(context.get_executor(), id);
}

}  // namespace tenure

/// A strand of a bound executor is a bound strand. Otherwise a function that the strand runs at once, because the
/// thread is there already, would find whatever batch is current.
template <class Executor>
class boost::asio::strand<tenure::batch_executor<Executor>> : public tenure::batch_executor<strand<Executor>> {
public:
    explicit strand(tenure::batch_executor<Executor> const& e)
        : tenure::batch_executor<strand<Executor>>(strand<Executor>(e.get_inner_executor()), e.batch()) {}

    bool running_in_this_thread() const noexcept { return this->get_inner_executor().running_in_this_thread(); }
};
