// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <type_traits>

#include <tenure/handle.hpp>

namespace tenure {

namespace detail {

/// Returns a handle of the same object by another pointer into it.
template <class T, class U>
handle<T> recast(handle<U> const& h, T* p) noexcept {
    raw_handle const from = handle_access::raw(h);
    return handle_access::make(p, word_at(to_address(p), to_address(from.pointer), from.word));
}

}  // namespace detail

/// Does to a handle what static_cast, dynamic_cast and const_cast do to a pointer, as std::static_pointer_cast and
/// the like: the result names the same object, and is stale when `h` is. A null handle gives a null handle. Any
/// thread. static_handle_cast and const_handle_cast do not look at the object.
template <class T, class U>
    requires(!std::is_array_v<T> && !std::is_array_v<U>)
handle<T> static_handle_cast(handle<U> const& h) noexcept {
    return detail::recast(h, static_cast<T*>(h.unchecked()));
}
template <class T, class U>
    requires(!std::is_array_v<T> && !std::is_array_v<U>)
handle<T> const_handle_cast(handle<U> const& h) noexcept {
    return detail::recast(h, const_cast<T*>(h.unchecked()));
}

/// Returns a null handle if the object is no T. Throws stale_handle.
template <class T, class U>
    requires(!std::is_array_v<T> && !std::is_array_v<U>)
handle<T> dynamic_handle_cast(handle<U> const& h) {
    T* const p = h ? dynamic_cast<T*>(h.operator->()) : nullptr;
    return p ? detail::recast(h, p) : handle<T>();
}

}  // namespace tenure
