// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <concepts>
#include <memory_resource>
#include <string_view>
#include <type_traits>

namespace tenure {

namespace detail {

/// Returns whether T is a template of the standard library. Asks for its name: to have all containers declared
/// would cost whoever makes an int, and takes only some of them, more than all of tenure's public headers.
template <class T>
consteval bool of_std() {
    std::string_view const function = __PRETTY_FUNCTION__;
    return function.find("[T = std::") != function.npos || function.find("[with T = std::") != function.npos;
}

/// A container of the standard library with a polymorphic_allocator.
template <class T>
concept pmr_container = requires(T& v) {
    v.begin();
    requires std::same_as<typename T::allocator_type, std::pmr::polymorphic_allocator<typename T::value_type>>;
    requires of_std<T>();
};

template <class T>
consteval bool gives_back_only_memory();

}  // namespace detail

/// True if T's destructor only gives memory back to T's polymorphic_allocator. Such a T, made with the batch's own
/// resource() as its last argument, needs no destructor call, because its memory goes with the batch: the end of
/// `make<std::pmr::string>(text, batch.resource())` costs nothing. Specialise it for containers of your own.
template <class T>
inline constexpr bool only_memory = detail::gives_back_only_memory<T>();

namespace detail {

template <class C>
consteval bool elements_are_only_memory() {
    if constexpr (requires { typename C::mapped_type; })
        return only_memory<typename C::key_type> && only_memory<typename C::mapped_type>;
    else return only_memory<typename C::value_type>;
}

template <class C>
consteval bool order_is_only_memory() {
    if constexpr (requires { typename C::key_compare; }) return only_memory<typename C::key_compare>;
    else if constexpr (requires { typename C::hasher; })
        return only_memory<typename C::hasher> && only_memory<typename C::key_equal>;
    else return true;
}

template <class T>
consteval bool gives_back_only_memory() {
    if constexpr (std::is_trivially_destructible_v<T>) return true;
    else if constexpr (pmr_container<T>) return elements_are_only_memory<T>() && order_is_only_memory<T>();
    else return false;
}

}  // namespace detail

/// True if everything that a T refers to lies in the T itself or in its batch, so that a rollback of their bytes
/// restores it. A checkpoint of a batch with such objects is then allowed. A type without a destructor needs no
/// specialisation, nor does an only_memory one on the batch's own resource().
template <class T>
inline constexpr bool restorable = false;

}  // namespace tenure
