// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <concepts>
#include <cstddef>
#include <source_location>
#include <type_traits>
#include <utility>

#include <tenure/batch_scope.hpp>
#include <tenure/detail/batch/thread_context.hpp>

namespace tenure {

// Calls that act on the batch that is current on the calling thread, and in its registry.

namespace detail {

struct result_access {
    template <class R>
    static void keep(batch_scope& b, R& r) {
        b.keep_result(r);
    }
};

/// Where nothing is current: the batch above one that ends, else the root of the global registry.
TENURE_DECL lane& lane_without_current();

/// Returns the lane of the free functions: in this thread's current batch, else in the root of the global
/// registry.
inline lane& current_lane() {
    if (lane* const l = this_thread.current) [[likely]]
        return *l;
    return lane_without_current();
}

}  // namespace detail

/// Runs `f(batch_scope&)` in a batch of its own, and keeps every handle in what f returns that can be reached
/// through ranges, tuples, optionals, results and variants, nested in any way, const or not; or none, if one
/// cannot be kept. Handles inside other types (a struct of yours, a pointer to a container, a std::function) are
/// not seen, and are stale when the call returns: keep() these in f. Or say where a struct has them, in its
/// namespace:
///
///     auto tenure_handles(answer const& a) { return std::tie(a.best, a.others); }
///
/// Throws what f throws, as batch_scope(), and as keep(); not_self_contained also for a container on the batch's
/// own resource().
template <class F>
decltype(auto) with_batch(batch_options const& options, F&& f,
                          std::source_location where = std::source_location::current()) {
    batch_scope b(options, where);
    using R = std::invoke_result_t<F, batch_scope&>;
    if constexpr (std::is_void_v<R>) {
        std::forward<F>(f)(b);
    } else {
        R r = std::forward<F>(f)(b);
        detail::result_access::keep(b, r);
        return static_cast<R>(std::forward<R>(r));
    }
}
template <class F>
    requires std::is_invocable_v<F, batch_scope&>
decltype(auto) with_batch(F&& f, std::source_location where = std::source_location::current()) {
    return with_batch(batch_options{}, std::forward<F>(f), where);
}

/// As batch_scope::make.
template <class T, class... Args>
[[gnu::always_inline]] inline handle<T> make(Args&&... args) {
    return detail::make_in<T>(detail::current_lane(), std::forward<Args>(args)...);
}
template <class T, class... Args>
result<handle<T>> try_make(Args&&... args) {
    return detail::try_make_in<T>(detail::current_lane(), std::forward<Args>(args)...);
}
template <class T, std::convertible_to<std::size_t>... N>
[[gnu::always_inline]] inline handle<T> make_for_overwrite(N... n) {
    return detail::make_for_overwrite_in<T>(detail::current_lane(), static_cast<std::size_t>(n)...);
}
template <class T, std::convertible_to<std::size_t>... N>
result<handle<T>> try_make_for_overwrite(N... n) {
    return detail::try_make_for_overwrite_in<T>(detail::current_lane(), static_cast<std::size_t>(n)...);
}
template <class T>
buffer<T> make_buffer(std::size_t n, any_store const& store = {}) {
    return detail::make_buffer_in<T>(detail::current_lane(), n, store);
}
template <class T>
result<buffer<T>> try_make_buffer(std::size_t n, any_store const& store = {}) {
    return detail::try_make_buffer_in<T>(detail::current_lane(), n, store);
}
template <class T>
buffer<T> open_buffer(std::string_view name, any_store const& store = {}) {
    return detail::open_buffer_as<T>(detail::current_lane(), name, store);
}
template <detail::owned H>
H keep(H h) {
    detail::lane&            from = detail::current_lane();
    detail::raw_handle const raw  = detail::handle_access::raw(h);
    if (!detail::keep_at_once(from, raw))
        if (auto const why = detail::keep_each(from, raw)) detail::throw_failure(why, "keep from batch ");
    return h;
}
template <detail::owned H>
result<H> try_keep(H h) {
    detail::lane&            from = detail::current_lane();
    detail::raw_handle const raw  = detail::handle_access::raw(h);
    if (!detail::keep_at_once(from, raw))
        if (auto const why = detail::keep_each(from, raw)) return make_error_code(why.code);
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
TENURE_DECL batch_id current_batch() noexcept;

}  // namespace tenure

#ifndef TENURE_SEPARATE
#include <tenure/impl/current.ipp>
#endif
