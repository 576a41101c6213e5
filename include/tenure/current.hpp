// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tenure/batch_scope.hpp>

namespace tenure {

// What acts on the batch that is current on the calling thread.

namespace detail {

template <class T>
void keep_result(batch_scope& b, T& r) {
    if constexpr (owned<T> || handle_range<T>) b.keep(r);
    else if constexpr (requires { std::tuple_size<T>::value; }) {
        std::apply([&](auto&... part) { (keep_result(b, part), ...); }, r);
    }
}

/// Where the free functions act: this thread's current batch, else the root of the global registry.
inline lane& current_lane() {
    if (lane* const l = this_thread.current) [[likely]]
        return *l;
    return registry::global().root_lane();
}

}  // namespace detail

/// Runs `f(batch_scope&)` in a batch of its own. Handles in what f returns, alone, in a tuple or in a range, are
/// kept.
template <class F>
decltype(auto) with_batch(batch_options const& options, F&& f,
                          std::source_location where = std::source_location::current()) {
    batch_scope b(options, where);
    using R = std::invoke_result_t<F, batch_scope&>;
    if constexpr (std::is_void_v<R>) {
        std::forward<F>(f)(b);
    } else {
        R r = std::forward<F>(f)(b);
        detail::keep_result(b, r);
        return static_cast<R>(std::forward<R>(r));
    }
}
template <class F>
    requires std::is_invocable_v<F, batch_scope&>
decltype(auto) with_batch(F&& f, std::source_location where = std::source_location::current()) {
    return with_batch(batch_options{}, std::forward<F>(f), where);
}

/// As the members of batch_scope and registry, on this thread's current batch.
template <class T, class... Args>
[[gnu::always_inline]] inline handle<T> make(Args&&... args) {
    return detail::make_in<T>(detail::current_lane(), std::forward<Args>(args)...);
}
template <class T, class... Args>
result<handle<T>> try_make(Args&&... args) {
    return detail::try_make_in<T>(detail::current_lane(), std::forward<Args>(args)...);
}
template <class T>
buffer<T> make_buffer(std::size_t n, any_store const& store = {}) {
    return detail::make_buffer_in<T>(detail::current_lane(), n, store);
}
template <class T>
result<buffer<T>> try_make_buffer(std::size_t n, any_store const& store = {}) {
    return detail::as_result([&] { return detail::make_buffer_in<T>(detail::current_lane(), n, store); });
}
template <class T>
buffer<T> open_buffer(std::string_view name, any_store const& store = {}) {
    return detail::open_buffer_as<T>(detail::current_lane(), name, store);
}
template <detail::owned H>
H keep(H h) {
    detail::lane&   l   = detail::current_lane();
    detail::failure why = detail::keep_all(*l.batch, [&](auto f) { f(detail::handle_access::raw(h)); });
    if (why) detail::throw_failure(why, "keep from batch ");
    return h;
}
template <detail::owned H>
result<H> try_keep(H h) {
    detail::lane&   l   = detail::current_lane();
    detail::failure why = detail::keep_all(*l.batch, [&](auto f) { f(detail::handle_access::raw(h)); });
    if (why) return make_error_code(why.code);
    return h;
}
template <detail::owned H>
H transfer_ownership(H h, batch_id to) {
    detail::failure const why =
        detail::transfer_from(detail::current_lane(), detail::handle_access::raw(h), to.value);
    if (why) detail::throw_failure(why, "transfer ownership ");
    return h;
}
template <detail::owned H>
result<H> try_transfer_ownership(H h, batch_id to) {
    detail::failure const why =
        detail::transfer_from(detail::current_lane(), detail::handle_access::raw(h), to.value);
    if (why) return make_error_code(why.code);
    return h;
}
template <detail::handle_range R>
R&& transfer_ownership(R&& handles, batch_id to) {
    for (auto const& h : handles)
        if (!h.alive()) detail::throw_stale(detail::handle_access::raw(h));
    for (auto const& h : handles) transfer_ownership(h, to);
    return std::forward<R>(handles);
}
inline batch_id current_batch() noexcept { return registry::current_batch(); }

}  // namespace tenure
