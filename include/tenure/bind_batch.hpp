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

/// An executor, which is bound otherwise (asio.hpp), or a context of one.
template <class E>
concept runs_functions =
    requires(E& e, void (*f)()) { e.execute(f); } || requires(std::remove_const_t<E>& e) { e.get_executor(); };

/// Batches below what is over are refused like others below what has ended; for that it is in a registry.
inline void place_over_records() {
    if (over_record_of().registry.load(std::memory_order_acquire)) return;
    batch_record const* const root = find_anywhere(registry::global().root().value);
    for (errc const why : {errc::expired, errc::cancelled, errc::batch_ended})  // the last is looked at above
        over_record_of(why).registry.store(root->registry, std::memory_order_release);
}

/// Throws no_such_batch.
inline std::uint64_t bindable(batch_id id) {
    if (!is_known(id.value)) raise(error(errc::no_such_batch, "bind #" + std::to_string(id.value)));
    place_over_records();
    return id.value;
}

}  // namespace detail

/// A function that runs with a batch current, whichever thread calls it, and leaves the thread as it found it. See
/// bind_batch.
template <class F>
class batch_function {
public:
    batch_function(F f, batch_id id) : f_(std::move(f)), id_(id) {}

    /// Throws what the function throws, and std::bad_alloc.
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

/// Carries the batch that is current here to wherever `f` will run: for the tasks of a thread pool, for callbacks.
/// The batch may end before: then `f` still runs, with no batch that anything could be made in, and make throws
/// batch_ended. While it runs the batch's memory stays, as in registry::enter. Cost of a call: some 20 ns, and next
/// to nothing where the batch is current already.
template <class F>
batch_function<std::decay_t<F>> bind_batch(F&& f) {
    detail::place_over_records();
    return {std::forward<F>(f), batch_id{detail::current_id()}};
}

/// The same for the batch that is named. Throws no_such_batch.
template <class F>
    requires(!detail::runs_functions<std::remove_cvref_t<F> const>)
batch_function<std::decay_t<F>> bind_batch(F&& f, batch_id id) {
    return {std::forward<F>(f), batch_id{detail::bindable(id)}};
}

}  // namespace tenure
