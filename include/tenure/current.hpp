// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <source_location>
#include <span>
#include <tuple>
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
template <class T>
handle<T> make(detail::elements_of<T> list) {
    return detail::make_list_in<T>(detail::current_lane(), list);
}
template <class T>
result<handle<T>> try_make(detail::elements_of<T> list) {
    return detail::try_make_list_in<T>(detail::current_lane(), list);
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
template <detail::element_range R>
buffer<detail::element_of<R>> make_buffer(R&& elements, any_store const& store = {}) {
    return detail::make_buffer_of(detail::current_lane(), elements, store);
}
template <detail::element_range R>
result<buffer<detail::element_of<R>>> try_make_buffer(R&& elements, any_store const& store = {}) {
    return detail::try_make_buffer_of(detail::current_lane(), elements, store);
}
template <class T>
buffer<T> open_buffer(std::string_view name, any_store const& store = {}) {
    return detail::open_buffer_as<T>(detail::current_lane(), name, store);
}
/// As batch_scope::adopt, batch_scope::adopt_buffer and batch_scope::defer.
template <class T, class Deleter = std::default_delete<T>>
handle<T> adopt(T* p, Deleter deleter = {}) {
    return detail::adopt_in(detail::current_lane(), p, std::move(deleter));
}
template <class T, class Deleter>
handle<T> adopt(std::unique_ptr<T, Deleter>&& p) {
    return detail::adopt_in(detail::current_lane(), std::move(p));
}
template <class T, std::size_t N, class Deleter>
buffer<T> adopt_buffer(std::span<T, N> memory, Deleter deleter) {
    return detail::adopt_buffer_in<T>(detail::current_lane(), memory, std::move(deleter));
}
template <class F>
handle<deferred_call> defer(F f) {
    return detail::defer_in(detail::current_lane(), f);
}
template <class F>
handle<deferred_call> defer(F f, release_phase phase) {
    return detail::defer_in(detail::current_lane(), f, phase);
}

/// As batch_scope::release, and batch_scope::cancel of a deferred call.
template <class T>
T* release(handle<T> h) {
    detail::require_adoptable<T>();
    if (auto const why = detail::drop_in(detail::current_lane(), detail::handle_access::raw(h)))
        detail::throw_failure(why, "release from batch ");
    return h.unchecked();
}
template <class T>
result<T*> try_release(handle<T> h) {
    detail::require_adoptable<T>();
    if (auto const why = detail::drop_in(detail::current_lane(), detail::handle_access::raw(h)))
        return make_error_code(why.code);
    return h.unchecked();
}
inline void cancel(handle<deferred_call> call) {
    if (auto const why = detail::drop_in(detail::current_lane(), detail::handle_access::raw(call)))
        detail::throw_failure(why, "cancel a deferred call of batch ");
}
inline result<void> try_cancel(handle<deferred_call> call) {
    if (auto const why = detail::drop_in(detail::current_lane(), detail::handle_access::raw(call)))
        return make_error_code(why.code);
    return {};
}

/// As batch_scope::keep.
template <detail::owned H>
H keep(H h) {
    detail::require_kept(detail::keep_these(detail::current_lane(), h));
    return h;
}
template <detail::owned... H>
    requires(sizeof...(H) > 1)
std::tuple<H...> keep(H... h) {
    detail::require_kept(detail::keep_these(detail::current_lane(), h...));
    return {h...};
}
template <detail::holds_handles R>
R&& keep(R&& handles) {
    detail::require_kept(detail::keep_range(detail::current_lane(), handles));
    return std::forward<R>(handles);
}
template <detail::owned H>
result<H> try_keep(H h) {
    if (auto const why = detail::keep_these(detail::current_lane(), h)) return make_error_code(why.code);
    return h;
}
template <detail::holds_handles R>
result<void> try_keep(R&& handles) {
    if (auto const why = detail::keep_range(detail::current_lane(), handles)) return make_error_code(why.code);
    return {};
}

/// As batch_scope::free.
template <detail::owned H>
void free(H h) {
    if (auto const why = detail::free_in(detail::current_lane(), detail::handle_access::raw(h)))
        detail::throw_failure(why, "free in batch ");
}
template <detail::owned H>
result<void> try_free(H h) {
    if (auto const why = detail::free_in(detail::current_lane(), detail::handle_access::raw(h)))
        return make_error_code(why.code);
    return {};
}

/// As batch_scope::resource: the memory of whichever batch is current, for functions that are not handed a scope.
/// pmr() is an allocator of it, as containers take one: std::pmr::vector<int> v(tenure::pmr()).
inline std::pmr::memory_resource*        current_resource() { return detail::resource_of(detail::current_lane()); }
inline std::pmr::polymorphic_allocator<> pmr() { return current_resource(); }

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
