// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include <tenure/batch.hpp>
#include <tenure/batch_scope.hpp>
#include <tenure/detail/life/visit.hpp>
#include <tenure/error.hpp>
#include <tenure/registry.hpp>

namespace tenure {

namespace detail {

/// An executor or an execution context. asio.hpp binds these in its own way.
template <class E>
concept runs_functions =
    requires(E& e, void (*f)()) { e.execute(f); } || requires(std::remove_const_t<E>& e) { e.get_executor(); };

/// What bind_batch() notes of this thread: the batch that is current, or the one that is named; 0: the root of the
/// global registry. Throws no_such_batch.
TENURE_DECL std::uint64_t current_to_bind();
TENURE_DECL std::uint64_t bindable(std::uint64_t id);

}  // namespace detail

/// A function that runs with a batch current, whichever thread calls it, and leaves the thread as it was. See
/// bind_batch.
template <class F>
class batch_function {
public:
    batch_function(F f, batch_id id) : f_(std::move(f)), id_(id) {}

    /// Calls the function with the batch current. Throws what the function throws, and std::bad_alloc.
    template <class... Args>
        requires std::is_invocable_v<F&, Args...>
    decltype(auto) operator()(Args&&... args) & {
        detail::visit const here(id_.value);
        return std::invoke(f_, std::forward<Args>(args)...);
    }
    template <class... Args>
        requires std::is_invocable_v<F const&, Args...>
    decltype(auto) operator()(Args&&... args) const& {
        detail::visit const here(id_.value);
        return std::invoke(f_, std::forward<Args>(args)...);
    }
    template <class... Args>
        requires std::is_invocable_v<F, Args...>
    decltype(auto) operator()(Args&&... args) && {
        detail::visit const here(id_.value);
        return std::invoke(std::move(f_), std::forward<Args>(args)...);
    }

    batch_id batch() const noexcept { return id_; }

private:
    F        f_;
    batch_id id_;  ///< 0: the root of the global registry
};

/// Carries this thread's current batch to wherever `f` runs: for tasks of a thread pool, for callbacks. The batch
/// may end first. Then `f` still runs, with no batch in which anything can be made, and make throws batch_ended.
/// While `f` runs, the batch's memory stays, as in registry::enter. Cost of a call: some 20 ns, and next to
/// nothing if the batch is current already.
template <class F>
batch_function<std::decay_t<F>> bind_batch(F&& f) {
    return {std::forward<F>(f), batch_id{detail::current_to_bind()}};
}

/// As bind_batch(f), for batch `id`. Throws no_such_batch.
template <class F>
    requires(!detail::runs_functions<std::remove_cvref_t<F> const>)
batch_function<std::decay_t<F>> bind_batch(F&& f, batch_id id) {
    return {std::forward<F>(f), batch_id{detail::bindable(id.value)}};
}

}  // namespace tenure

#ifndef TENURE_SEPARATE
#include <tenure/impl/bind_batch.ipp>
#endif
