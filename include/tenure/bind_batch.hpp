// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include <tenure/batch.hpp>
#include <tenure/batch_scope.hpp>
#include <tenure/detail/life/visiting.hpp>
#include <tenure/error.hpp>
#include <tenure/registry.hpp>

namespace tenure {

namespace detail {

/// An executor or an execution context. asio.hpp binds these in its own way.
template <class E>
concept runs_functions =
    requires(E& e, void (*f)()) { e.execute(f); } || requires(std::remove_const_t<E>& e) { e.get_executor(); };

/// Puts the records that stand in for over batches into a registry, so that opening a batch below one of them is
/// refused as below any ended batch.
inline void place_over_records() {
    if (over_record_of().registry.load(std::memory_order_acquire)) return;
    batch_record const* const root = find_anywhere(registry::global().root().value);
    for (errc const why : {errc::expired, errc::cancelled, errc::batch_ended})  // the check above reads the last
        over_record_of(why).registry.store(root->registry, std::memory_order_release);
}

/// Returns the value of an id that was given out. Throws no_such_batch.
inline std::uint64_t bindable(batch_id id) {
    if (!is_known(id.value)) raise(error(errc::no_such_batch, "bind #" + std::to_string(id.value)));
    place_over_records();
    return id.value;
}

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
    detail::place_over_records();
    return {std::forward<F>(f), batch_id{detail::current_id()}};
}

/// As bind_batch(f), for batch `id`. Throws no_such_batch.
template <class F>
    requires(!detail::runs_functions<std::remove_cvref_t<F> const>)
batch_function<std::decay_t<F>> bind_batch(F&& f, batch_id id) {
    return {std::forward<F>(f), batch_id{detail::bindable(id)}};
}

}  // namespace tenure
