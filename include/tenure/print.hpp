// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <iosfwd>
#include <string>
#include <string_view>

#include <tenure/batch.hpp>
#include <tenure/buffer.hpp>
#include <tenure/compact_handle.hpp>
#include <tenure/detail/base/printed.hpp>
#include <tenure/error.hpp>
#include <tenure/handle.hpp>

namespace tenure {

namespace detail {

/// Returns what a handle prints as.
inline std::string handle_text(void const* pointer, bool is_null, bool is_alive) {
    return is_null ? "null" : printed(is_alive ? "%p" : "%p (stale)", pointer);
}

/// What to_text() knows.
template <class T>
inline constexpr bool is_printed = is_handle<T> || is_buffer_handle<T>;
template <class T>
inline constexpr bool is_printed<compact_handle<T>> = true;
template <>
inline constexpr bool is_printed<batch_id> = true;
template <>
inline constexpr bool is_printed<batch_status> = true;
template <>
inline constexpr bool is_printed<errc> = true;
template <class T>
concept has_text = is_printed<T>;

}  // namespace detail

/// Returns the batch's number as messages have it, such as "#47.3".
inline std::string to_text(batch_id id) { return detail::id_text(id.value); }

/// Returns "active", "ending", ...
inline std::string to_text(batch_status s) { return detail::to_string(s); }

/// Returns the error's short name, such as "stale handle". What to do next: make_error_code(e).message().
inline std::string to_text(errc e) {
    std::string_view const text = detail::text_of(e);
    return std::string(text.substr(0, text.find_first_of(":;")));
}

/// Returns an address as pointers print, "0x7f12c0010040 (stale)", or "null". Any thread; what prints as alive may
/// be freed by another the next moment.
template <class T>
std::string to_text(handle<T> const& h) {
    return detail::handle_text(h.unchecked(), !h, h.alive());
}
template <class T>
std::string to_text(compact_handle<T> const& h) {
    return detail::handle_text(h.unchecked(), !h, h.alive());
}

/// Returns "buffer of 12", "buffer of 12 (stale)", or "null". Does not read the bytes.
template <class B>
    requires detail::is_buffer_handle<B>
std::string to_text(B const& b) {
    if (!b) return "null";
    return detail::printed(b.alive() ? "buffer of %zu" : "buffer of %zu (stale)", b.size());
}

/// Prints to_text(). Width and fill apply, as to a string.
template <class Traits, detail::has_text T>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, T const& t) {
    return out << to_text(t);
}

}  // namespace tenure
