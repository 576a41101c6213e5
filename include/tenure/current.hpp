// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <source_location>
#include <type_traits>
#include <utility>

#include <tenure/batch_scope.hpp>
#include <tenure/detail/batch/thread_context.hpp>
#include <tenure/detail/life/public_calls.hpp>
#include <tenure/detail/life/visit.hpp>
#include <tenure/raise.hpp>

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

/// The elements of an array that is copied.
template <class E>
struct copies_of {
    E const* from;

    template <class U>
    void fill(U* first, std::size_t n) const {
        std::uninitialized_copy_n(from, n, first);
    }
};

/// Whether a copy can be told its memory resource, as pmr containers can.
template <class T>
inline constexpr bool copies_with_resource = std::uses_allocator_v<T, std::pmr::polymorphic_allocator<>> &&
                                             std::is_constructible_v<T, T const&, std::pmr::memory_resource*>;

/// Makes a copy of a live object in batch `to`, which is current meanwhile.
template <class T, class Refusal>
handle<T> copy_into(std::uint64_t to, handle<T> const& h, Refusal refusal) {
    using E = std::remove_cv_t<std::remove_extent_t<T>>;
    static_assert(std::is_copy_constructible_v<E>,
                  "keep_copy and keep_to need a copy constructor: keep() the object");
    static_assert(std::is_array_v<T> || !std::is_polymorphic_v<E> || std::is_final_v<E>,
                  "keep_copy and keep_to copy a T, and so would slice an object of a class derived from it: make T "
                  "final, or keep() the object");
    visit const in(to);
    lane&       l    = current_lane();
    E const*    from = h.unchecked();
    if constexpr (std::is_array_v<T>) {
        return make_elements_or<T>(l, refusal, h.size(), copies_of<E>{from});
    } else {
        if constexpr (copies_with_resource<E>)
            if (serves_this_thread(l)) return make_or<T>(l, refusal, *from, resource_of(l));
        return make_or<T>(l, refusal, *from);
    }
}

template <class T>
handle<T> copy_or_throw(failure const& refused, std::uint64_t to, handle<T> const& h) {
    if (!h.alive()) throw_stale(handle_access::raw(h));
    if (refused) throw_failure(refused, "keep a copy in batch ");
    return copy_into(to, h, throw_it{});
}

template <class T>
result<handle<T>> try_copy(failure why, std::uint64_t to, handle<T> const& h) {
    handle<T> copy;
    if (!why && !memory_lasts([&] { copy = copy_into(to, h, report_to{why}); })) why = {errc::memory_full};
    if (why) return make_error_code(why.code);
    return copy;
}

template <class T>
handle<T> copy_up(lane const& from, handle<T> const& h) {
    std::uint64_t to  = 0;
    failure const why = begin_copy_up(from, handle_access::raw(h), to);
    return copy_or_throw(why, to, h);
}

template <class T>
result<handle<T>> try_copy_up(lane const& from, handle<T> const& h) {
    std::uint64_t to  = 0;
    failure const why = begin_copy_up(from, handle_access::raw(h), to);
    return try_copy(why, to, h);
}

inline std::uint64_t id_in(batch_id id) noexcept { return id.value; }
template <class B>
    requires std::same_as<decltype(std::declval<B const&>().id()), batch_id>
std::uint64_t id_in(B const& b) noexcept {
    return b.id().value;
}

/// A batch_id, or what has one: a batch_scope, a batch_owner.
template <class B>
concept names_batch = requires(B const& b) { id_in(b); };

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
    auto const            one = [&](auto f) { f(detail::handle_access::raw(h)); };
    detail::failure const why = detail::keep_all(detail::current_lane(), one);
    if (why) detail::throw_failure(why, "keep from batch ");
    return h;
}
template <detail::owned H>
result<H> try_keep(H h) {
    auto const            one = [&](auto f) { f(detail::handle_access::raw(h)); };
    detail::failure const why = detail::keep_all(detail::current_lane(), one);
    if (why) return make_error_code(why.code);
    return h;
}

/// As batch_scope::keep_copy, from the current batch.
template <class T>
handle<T> keep_copy(handle<T> h) {
    return detail::copy_up(detail::current_lane(), h);
}
template <class T>
result<handle<T>> try_keep_copy(handle<T> h) {
    return detail::try_copy_up(detail::current_lane(), h);
}

/// Copies an object, as batch_scope::keep_copy does, into a batch of any registry, which is named by its id, its
/// batch_scope or its batch_owner. Any thread. Throws stale_handle, no_such_batch, and as make() in that batch;
/// what the copy constructor throws. Cost: that of entering the batch, none if its guard is this thread's, and of
/// make().
template <detail::names_batch Batch, class T>
handle<T> keep_to(Batch const& to, handle<T> h) {
    std::uint64_t const id = detail::id_in(to);
    return detail::copy_or_throw(detail::begin_copy_to(detail::handle_access::raw(h), id), id, h);
}
template <detail::names_batch Batch, class T>
result<handle<T>> try_keep_to(Batch const& to, handle<T> h) {
    std::uint64_t const id = detail::id_in(to);
    return detail::try_copy(detail::begin_copy_to(detail::handle_access::raw(h), id), id, h);
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
