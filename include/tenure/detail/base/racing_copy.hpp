// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tenure::detail {

/// A value that one thread writes while others may read it, in whole words. What a reader gets may be of two
/// writes; a number beside the value, read before and after, tells (cf. Boehm, Can seqlocks get along with
/// programming language memory models?, 2012).
template <class T>
struct alignas(std::uint64_t) whole_words {
    static_assert(std::is_trivially_copyable_v<T>);

    T value;
};

/// A word of any object. The attribute makes it an alias of what else is there, as for memcpy().
using racing_word [[gnu::may_alias]] = std::uint64_t;

/// Writes `value` word by word. What the calling thread, or one that handed it a lock, did before is visible to a
/// thread that has read one of the words.
template <class T>
void write_racing(whole_words<T>& to, T const& value) noexcept {
    std::uint64_t words[sizeof to / sizeof(std::uint64_t)]{};
    std::memcpy(words, &value, sizeof value);
    auto* const at = reinterpret_cast<racing_word*>(&to);
    for (std::size_t i = 0; i < sizeof to / sizeof(std::uint64_t); ++i)
        __atomic_store_n(at + i, words[i], __ATOMIC_RELEASE);
}

/// Writes `value` to each word of an array of atomics that are no larger than words, in no order that other threads
/// could rely on.
template <class T, std::size_t n>
void fill_racing(T (&to)[n], std::uint64_t value) noexcept {
    constexpr std::size_t a_word = sizeof(std::uint64_t) / sizeof(T);
    static_assert(n % a_word == 0 && std::is_trivially_copyable_v<T>);
    auto* const at = reinterpret_cast<racing_word*>(to);
    for (std::size_t i = 0; i < n / a_word; ++i) __atomic_store_n(at + i, value, __ATOMIC_RELAXED);
}

/// Reads the value word by word. What the calling thread reads later is read after them.
template <class T>
T read_racing(whole_words<T> const& from) noexcept {
    std::uint64_t words[sizeof from / sizeof(std::uint64_t)];
    auto const*   at = reinterpret_cast<racing_word const*>(&from);
    for (std::size_t i = 0; i < sizeof from / sizeof(std::uint64_t); ++i)
        words[i] = __atomic_load_n(at + i, __ATOMIC_ACQUIRE);
    T value;
    std::memcpy(&value, words, sizeof value);
    return value;
}

}  // namespace tenure::detail
