// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <memory_resource>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tenure/detail/batch/lane.hpp>
#include <tenure/detail/batch/thread_context.hpp>
#include <tenure/detail/objects/make_object.hpp>
#include <tenure/handle.hpp>

namespace tenure {

template <class T>
class buffer;

namespace detail {

template <class Refusal>
[[gnu::always_inline]] inline bool is_wrong_thread(lane& l, Refusal refusal) {
    if (!TENURE_CHECKED || may_make_in(l)) return false;
    refusal.refuse({errc::wrong_thread, l.batch});
    return true;
}

template <class T, class Refusal, class Elements>
[[gnu::always_inline]] inline handle<T> make_elements_or(lane& l, Refusal refusal, std::size_t n,
                                                         Elements elements) {
    using E = std::remove_extent_t<T>;
    if (is_wrong_thread(l, refusal)) return {};
    auto const [p, word] = make_array<E>(l, refusal, n, elements);
    return handle_access::make(static_cast<E*>(p), word, p ? n : 0);
}

/// Makes `n` elements, or `n` copies of a value.
template <class T, class Refusal, class N, class... Value>
[[gnu::always_inline]] inline handle<T> make_array_or(lane& l, Refusal refusal, N const& n, Value const&... value) {
    static_assert(sizeof...(Value) <= 1,
                  "make<T[]>(n) takes the number of elements; make<T[]>(n, value), also what "
                  "each is a copy of; make<T[]>({a, b}), the elements");
    auto const count = static_cast<std::size_t>(n);
    if constexpr (sizeof...(Value) > 0) {
        return make_elements_or<T>(l, refusal, count, copies_of_one<Value...>{value...});
    } else {
        static_assert(std::is_default_constructible_v<std::remove_extent_t<T>>,
                      "make<T[]>(n) needs a default constructor; make<T[]>(n, value) and make<T[]>({a, b}) copy");
        return make_elements_or<T>(l, refusal, count, for_use{});
    }
}

/// A type that is told its handle when it is made: see <tenure/handle_from_this.hpp>.
template <class U>
concept knows_handle = requires(U& object) { tenure_tell_handle(object, &object, word_t{}); };

template <class T, class Refusal, class... Args>
[[gnu::always_inline]] inline handle<T> make_or(lane& l, Refusal refusal, Args&&... args) {
    static_assert(!std::is_bounded_array_v<T>, "make<T[]>(n) makes arrays");
    if constexpr (std::is_unbounded_array_v<T>) {
        static_assert(sizeof...(Args) > 0, "make<T[]>(n) takes the number of elements");
        return make_array_or<T>(l, refusal, std::forward<Args>(args)...);
    } else {
        if (is_wrong_thread(l, refusal)) return {};
        auto const [p, word] = make_object<T>(l, refusal, std::forward<Args>(args)...);
        if constexpr (knows_handle<std::remove_cv_t<T>>)
            if (p) tenure_tell_handle(*p, p, word);
        return handle_access::make(static_cast<T*>(p), word);
    }
}

template <class T, class... Args>
[[gnu::always_inline]] inline handle<T> make_in(lane& l, Args&&... args) {
    return make_or<T>(l, throw_it{}, std::forward<Args>(args)...);
}

template <class T, class... Args>
result<handle<T>> try_make_in(lane& l, Args&&... args) {
    failure         why;
    handle<T> const h = make_or<T>(l, report_to{why}, std::forward<Args>(args)...);
    if (why) return make_error_code(why.code);
    return h;
}

/// The elements that make<T[]>({a, b}) takes.
template <class T>
    requires std::is_unbounded_array_v<T>
using elements_of = std::initializer_list<std::remove_cv_t<std::remove_extent_t<T>>>;

template <class T>
handle<T> make_list_in(lane& l, elements_of<T> const& list) {
    return make_elements_or<T>(l, throw_it{}, list.size(), copies_of{list.begin()});
}
template <class T>
result<handle<T>> try_make_list_in(lane& l, elements_of<T> const& list) {
    failure         why;
    handle<T> const h = make_elements_or<T>(l, report_to{why}, list.size(), copies_of{list.begin()});
    if (why) return make_error_code(why.code);
    return h;
}

template <class T, class Refusal, class... N>
[[gnu::always_inline]] inline handle<T> make_for_overwrite_or(lane& l, Refusal refusal, N... n) {
    static_assert(!std::is_bounded_array_v<T>, "make_for_overwrite<T[]>(n) makes arrays");
    if constexpr (std::is_unbounded_array_v<T>) {
        static_assert(sizeof...(N) == 1, "make_for_overwrite<T[]>(n) takes the number of elements");
        return make_elements_or<T>(l, refusal, n..., for_overwrite{});
    } else {
        static_assert(sizeof...(N) == 0, "make_for_overwrite<T>() takes no arguments: make<T>(...) does");
        return make_or<T>(l, refusal, for_overwrite{});
    }
}

template <class T, class... N>
[[gnu::always_inline]] inline handle<T> make_for_overwrite_in(lane& l, N... n) {
    return make_for_overwrite_or<T>(l, throw_it{}, n...);
}

template <class T, class... N>
result<handle<T>> try_make_for_overwrite_in(lane& l, N... n) {
    failure         why;
    handle<T> const h = make_for_overwrite_or<T>(l, report_to{why}, n...);
    if (why) return make_error_code(why.code);
    return h;
}

template <class T, class Deleter>
handle<T> adopt_in(lane& l, T* p, Deleter deleter) {
    cell_guard place(p);
    using record              = adopted<T, Deleter>;
    handle<record> const h    = make_in<record>(l, p, std::move(deleter), place.get());
    word_t const         word = place.fill(handle_access::raw(h));
    if constexpr (knows_handle<T>) tenure_tell_handle(*p, p, word);
    return handle_access::make(p, word);
}
template <class T, class Deleter>
handle<T> adopt_in(lane& l, std::unique_ptr<T, Deleter>&& p) {
    handle<T> const h = adopt_in(l, p.get(), p.get_deleter());
    p.release();
    return h;
}

template <release_phase Phase = release_phase::in_order, class F>
handle<deferred_call> defer_in(lane& l, F& f) {
    return make_in<deferred<F, Phase>>(l, std::move(f));
}
template <class F>
handle<deferred_call> defer_in(lane& l, F& f, release_phase phase) {
    switch (phase) {
    case release_phase::before: return defer_in<release_phase::before>(l, f);
    case release_phase::after: return defer_in<release_phase::after>(l, f);
    case release_phase::in_order: break;
    }
    return defer_in(l, f);
}

/// Whether release() may be asked for a T: for what adopt() took.
template <class T>
constexpr void require_adoptable() noexcept {
    static_assert(!std::is_same_v<T, deferred_call>, "cancel() takes a deferred call back");
    static_assert(!std::is_array_v<T>, "release() is for what adopt() took, which is no array");
}

/// A range whose elements can become those of a buffer; and the type of these. (As handle_range: without <ranges>.)
template <class R>
using element_of = std::iter_value_t<decltype(std::begin(std::declval<R&>()))>;
template <class R>
concept element_range = requires(R& r) {
    { std::begin(r) } -> std::input_iterator;
    std::end(r);
} && std::is_trivially_copyable_v<element_of<R>>;

/// In buffer.hpp.
template <class T>
buffer<T> make_buffer_in(lane& l, std::size_t n, any_store const& store);
template <class T>
result<buffer<T>> try_make_buffer_in(lane& l, std::size_t n, any_store const& store);
template <class R>
buffer<element_of<R>> make_buffer_of(lane& l, R& elements, any_store const& store);
template <class R>
result<buffer<element_of<R>>> try_make_buffer_of(lane& l, R& elements, any_store const& store);
template <class T>
buffer<T> open_buffer_as(lane& l, std::string_view name, any_store const& store);
template <class T, class Deleter>
buffer<T> adopt_buffer_in(lane& l, std::span<T> memory, Deleter deleter);

}  // namespace detail

/// Lets one other thread make objects in a batch, with memory of its own, so without waiting for anybody. A batch
/// that ends meanwhile is `ending` until the lane is closed; what the lane made then goes with it. One thread at a
/// time may use a lane. Its objects belong to the batch like all others.
class lane {
public:
    /// Hands the lane to the thread that uses it from then on.
    lane(lane&& other) noexcept;
    lane& operator=(lane&&) = delete;
    ~lane();

    /// As batch_scope::make.
    template <class T, class... Args>
    [[gnu::always_inline]] handle<T> make(Args&&... args) {
        return detail::make_in<T>(*lane_, std::forward<Args>(args)...);
    }
    template <class T, class... Args>
    result<handle<T>> try_make(Args&&... args) {
        return detail::try_make_in<T>(*lane_, std::forward<Args>(args)...);
    }

    template <class T>
    handle<T> make(detail::elements_of<T> list) {
        return detail::make_list_in<T>(*lane_, list);
    }
    template <class T>
    result<handle<T>> try_make(detail::elements_of<T> list) {
        return detail::try_make_list_in<T>(*lane_, list);
    }

    /// As batch_scope::make_for_overwrite.
    template <class T, std::convertible_to<std::size_t>... N>
    [[gnu::always_inline]] handle<T> make_for_overwrite(N... n) {
        return detail::make_for_overwrite_in<T>(*lane_, static_cast<std::size_t>(n)...);
    }
    template <class T, std::convertible_to<std::size_t>... N>
    result<handle<T>> try_make_for_overwrite(N... n) {
        return detail::try_make_for_overwrite_in<T>(*lane_, static_cast<std::size_t>(n)...);
    }

    /// As batch_scope::make_buffer.
    template <class T>
    buffer<T> make_buffer(std::size_t n, any_store const& store = {}) {
        return detail::make_buffer_in<T>(*lane_, n, store);
    }
    template <detail::element_range R>
    buffer<detail::element_of<R>> make_buffer(R&& elements, any_store const& store = {}) {
        return detail::make_buffer_of(*lane_, elements, store);
    }

    /// Returns memory for containers of this thread. Valid while the batch is.
    std::pmr::memory_resource* resource() { return detail::resource_of(*lane_); }

private:
    friend class batch_scope;
    friend class batch_owner;
    explicit lane(detail::lane* l) noexcept : lane_(l) {}

    detail::lane* lane_;
};

/// Keeps the batch current on the thread that called enter(), while it lives: there the free functions act on it.
class entered {
public:
    entered(entered const&)            = delete;
    entered& operator=(entered const&) = delete;
    ~entered();

    /// Returns memory for containers that live in the batch. Valid while this guard is, on this thread.
    std::pmr::memory_resource* resource() { return detail::resource_of(*lane_); }

private:
    friend class batch_owner;
    friend class batch_scope;
    friend class registry;
    explicit entered(detail::lane* l) noexcept;

    detail::lane*          lane_;
    detail::former_current previous_;
};

}  // namespace tenure

#ifndef TENURE_SEPARATE
#include <tenure/impl/lane.ipp>
#endif
