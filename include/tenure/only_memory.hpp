// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory_resource>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tenure {

/// True if T's destructor only gives memory back to T's polymorphic_allocator. Such a T, made with the batch's own
/// resource() as its last argument, needs no destructor call, because its memory goes with the batch: the end of
/// `make<std::pmr::string>(text, batch.resource())` costs nothing. Specialise it for containers of your own.
template <class T>
inline constexpr bool only_memory = std::is_trivially_destructible_v<T>;

template <class C, class Traits>
inline constexpr bool only_memory<std::basic_string<C, Traits, std::pmr::polymorphic_allocator<C>>> = true;

template <class T>
inline constexpr bool only_memory<std::vector<T, std::pmr::polymorphic_allocator<T>>> = only_memory<T>;
template <class T>
inline constexpr bool only_memory<std::deque<T, std::pmr::polymorphic_allocator<T>>> = only_memory<T>;
template <class T>
inline constexpr bool only_memory<std::list<T, std::pmr::polymorphic_allocator<T>>> = only_memory<T>;
template <class T>
inline constexpr bool only_memory<std::forward_list<T, std::pmr::polymorphic_allocator<T>>> = only_memory<T>;

namespace detail {

/// True if all T are only_memory: the elements of a container, and what it orders or hashes them by.
template <class... T>
inline constexpr bool all_only_memory = (only_memory<std::remove_const_t<T>> && ...);

template <class K, class V>
using pmr_pairs = std::pmr::polymorphic_allocator<std::pair<K const, V>>;

}  // namespace detail

template <class K, class Less>
inline constexpr bool only_memory<std::set<K, Less, std::pmr::polymorphic_allocator<K>>> =
    detail::all_only_memory<K, Less>;
template <class K, class Less>
inline constexpr bool only_memory<std::multiset<K, Less, std::pmr::polymorphic_allocator<K>>> =
    detail::all_only_memory<K, Less>;
template <class K, class V, class Less>
inline constexpr bool only_memory<std::map<K, V, Less, detail::pmr_pairs<K, V>>> =
    detail::all_only_memory<K, V, Less>;
template <class K, class V, class Less>
inline constexpr bool only_memory<std::multimap<K, V, Less, detail::pmr_pairs<K, V>>> =
    detail::all_only_memory<K, V, Less>;
template <class K, class Hash, class Equal>
inline constexpr bool only_memory<std::unordered_set<K, Hash, Equal, std::pmr::polymorphic_allocator<K>>> =
    detail::all_only_memory<K, Hash, Equal>;
template <class K, class Hash, class Equal>
inline constexpr bool only_memory<std::unordered_multiset<K, Hash, Equal, std::pmr::polymorphic_allocator<K>>> =
    detail::all_only_memory<K, Hash, Equal>;
template <class K, class V, class Hash, class Equal>
inline constexpr bool only_memory<std::unordered_map<K, V, Hash, Equal, detail::pmr_pairs<K, V>>> =
    detail::all_only_memory<K, V, Hash, Equal>;
template <class K, class V, class Hash, class Equal>
inline constexpr bool only_memory<std::unordered_multimap<K, V, Hash, Equal, detail::pmr_pairs<K, V>>> =
    detail::all_only_memory<K, V, Hash, Equal>;

/// True if everything that a T refers to lies in the T itself or in its batch, so that a rollback of their bytes
/// restores it. A checkpoint of a batch with such objects is then allowed. A type without a destructor needs no
/// specialisation, nor does an only_memory one on the batch's own resource().
template <class T>
inline constexpr bool restorable = false;

}  // namespace tenure
