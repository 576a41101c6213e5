// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <concepts>
#include <cstddef>
#include <iterator>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tenure/detail/life/public_calls.hpp>
#include <tenure/handle.hpp>

namespace tenure::detail {

/// Finds the handles that can be reached from a value through ranges, tuples, optionals, results and variants,
/// nested in any way. Types are recognised by their members, so those of boost::variant2 and others work as well
/// as the standard's, and none of their headers is needed here.

/// A type of the user's that says where its handles are.
template <class T>
concept names_handles = requires(T& v) { tenure_handles(v); };

/// std::optional, std::expected or tenure::result, but not of void.
template <class T>
concept maybe_value = requires(T& v) {
    { v.has_value() } -> std::convertible_to<bool>;
    requires !std::is_void_v<decltype(*v)>;
};

/// A range that can be traversed without using it up.
template <class T>
concept repeatable_range = requires(T& r) {
    { std::begin(r) } -> std::forward_iterator;
    std::end(r);
};

template <class T>
concept tuple_like = requires { std::tuple_size<T>::value; };

template <class T>
inline constexpr bool is_variant = false;
template <template <class...> class V, class... A>
    requires requires(V<A...> const& v) { v.valueless_by_exception(); }
inline constexpr bool is_variant<V<A...>> = true;

namespace by_argument {

void visit();  // hides other functions of that name, so that the variant's own is found

template <class F, class V>
bool visit_variant(F&& f, V& v) {
    return visit(f, v);
}

}  // namespace by_argument

template <class T, class... Above>
constexpr bool may_hold_handles();

template <class T, class... Above>
struct alternatives_of;
template <template <class...> class V, class... A, class... Above>
struct alternatives_of<V<A...>, Above...> {
    static constexpr bool hold = (may_hold_handles<A, Above...>() || ...);
};

/// Returns whether a T may hold handles. `Above` are the types through which T was reached; one that comes again
/// has been asked already.
template <class T, class... Above>
constexpr bool may_hold_handles() {
    using U = std::remove_cvref_t<T>;
    if constexpr ((std::same_as<U, Above> || ...)) return false;
    else if constexpr (owned<U> || names_handles<T>) return true;
    else if constexpr (maybe_value<T>) return may_hold_handles<decltype(*std::declval<T&>()), U, Above...>();
    else if constexpr (is_variant<U>) return alternatives_of<U, U, Above...>::hold;
    else if constexpr (repeatable_range<T>)
        return may_hold_handles<decltype(*std::begin(std::declval<T&>())), U, Above...>();
    else if constexpr (tuple_like<U>)
        return []<std::size_t... I>(std::index_sequence<I...>) {
            return (may_hold_handles<std::tuple_element_t<I, U>, U, Above...>() || ...);
        }(std::make_index_sequence<std::tuple_size_v<U>>{});
    return false;
}

/// A type that may hold handles and is not one itself.
template <class T>
concept holds_handles = !owned<std::remove_cvref_t<T>> && may_hold_handles<std::remove_reference_t<T>>();

/// A type that may hold handles, or is one.
template <class T>
concept reaches_handles = may_hold_handles<std::remove_reference_t<T>>();

/// Calls f(handle) for each handle that can be reached from `v`, until f returns false. Returns false if f did.
template <class T, class F>
bool for_each_handle(T& v, F& f) {
    using U = std::remove_cv_t<T>;
    if constexpr (!may_hold_handles<T>()) return true;
    else if constexpr (owned<U>) return f(v);
    else if constexpr (names_handles<T>) {
        auto&& named = tenure_handles(v);
        static_assert(may_hold_handles<std::remove_reference_t<decltype(named)>>(),
                      "tenure_handles() gives handles, or a range, tuple, optional, result or variant of some");
        return for_each_handle(named, f);
    } else if constexpr (maybe_value<T>) {
        return !v.has_value() || for_each_handle(*v, f);
    } else if constexpr (is_variant<U>) {
        return v.valueless_by_exception() ||
               by_argument::visit_variant([&](auto& value) { return for_each_handle(value, f); }, v);
    } else if constexpr (repeatable_range<T>) {
        for (auto&& element : v)
            if (!for_each_handle(element, f)) return false;
        return true;
    } else {
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
            using std::get;
            auto const one = [&](auto&& part) { return for_each_handle(part, f); };
            return (one(get<I>(v)) && ...);
        }(std::make_index_sequence<std::tuple_size_v<U>>{});
    }
}

// What keep() of scopes and of the current batch are made of.

inline void require_kept(failure const& why) {
    if (why) [[unlikely]]
        throw_failure(why, "keep from batch ");
}

template <owned... H>
failure keep_these(lane& from, H const&... h) {
    if constexpr (sizeof...(H) == 1)
        if (keep_at_once(from, handle_access::raw(h)...)) return {};
    return keep_each(from, handle_access::raw(h)...);
}

/// Returns what hands every handle that can be reached from `r` to a sink.
template <class R>
auto handles_in(R& r) {
    return [&r](handle_sink& to) {
        auto one = [&](auto const& h) { return to.add(handle_access::raw(h)); };
        for_each_handle(r, one);
    };
}

/// Every handle that can be reached from `r`, all or none.
template <class R>
failure keep_range(lane& from, R& r) {
    return keep_all(from, handles_in(r));
}

}  // namespace tenure::detail
