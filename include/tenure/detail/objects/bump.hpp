// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/word.hpp>
#include <tenure/detail/batch/lane.hpp>
#include <tenure/detail/objects/throwing.hpp>

namespace tenure::detail {

/// The bytes of an object, with its entry and the padding before it.
struct bytes_at {
    std::uintptr_t begin = 0;  ///< 0: there is no room
    std::size_t    bytes = 0;
};

constexpr std::uintptr_t align_up(std::uintptr_t a, std::size_t alignment) noexcept {
    return (a + alignment - 1) & ~std::uintptr_t{alignment - 1};
}

/// Returns the address of the object in the bytes that bump() gave.
constexpr std::uintptr_t object_at(std::uintptr_t begin, std::size_t before, std::size_t alignment) noexcept {
    return alignment <= 8 ? begin + before : align_up(begin + before, alignment);
}

/// How far ahead of an object the cache line is fetched that a later one is written to. Without it, stores wait one
/// after the other for each line that is not in the L1 cache. Where there is no memory, it does nothing.
inline constexpr std::size_t fetched_ahead = 512;

/// Takes `bytes`, a rounded extent, from the window; `before` of them lie before an address that is a multiple of
/// `alignment`. `count` is one_object or 0. Returns `begin` 0 if there is no room.
[[gnu::always_inline]] inline bytes_at bump(lane& l, std::size_t before, std::size_t bytes, std::size_t alignment,
                                            std::uint64_t count) noexcept {
    std::uint64_t const  cursor = l.cursor.load(std::memory_order_relaxed);
    std::uintptr_t const at     = address_in(cursor);
    if (alignment > 8) bytes = round_extent(object_at(at, before, alignment) - at + bytes - before);
    std::uint64_t const next = cursor + cursor_at(bytes) + count;
    if (next > l.window_end.load(std::memory_order_relaxed)) [[unlikely]]
        return {};
    if (at == 0) __builtin_unreachable();  // so that the caller's test costs nothing
    l.cursor.store(next, std::memory_order_relaxed);
    if (bytes < fetched_ahead) __builtin_prefetch(reinterpret_cast<void const*>(at + fetched_ahead), 1);
    return {at, bytes};
}

/// Makes room for `needed` bytes in the lane's window, unless another thread closes it at once. Called by the
/// lane's own thread. May call on_soft, whose exceptions pass. Fails with batch_ended, wrong_thread,
/// limit_exceeded, memory_full or what the store says: returns false and sets `why`.
TENURE_DECL bool make_room(lane& l, std::size_t needed, failure& why);

/// As make_room(), but throws the failure.
TENURE_DECL void make_room_or_throw(lane& l, std::size_t needed);

/// Reports a refusal in the caller's failure.
struct report_to {
    failure& why;

    void refuse(failure const& f) const noexcept { why = f; }
    bool make_room(lane& l, std::size_t needed) const { return detail::make_room(l, needed, why); }
};
struct throw_it {
    [[noreturn]] static void refuse(failure const& f) { throw_failure(f, "make in batch "); }
    static bool              make_room(lane& l, std::size_t needed) {
        make_room_or_throw(l, needed);
        return true;
    }
};

/// Takes bytes as bump() does, and refills the window if need be. Returns `begin` 0 if refused; `refusal` has the
/// failure then.
template <std::uint64_t Count, class Refusal>
[[gnu::always_inline]] inline bytes_at bump_or(lane& l, std::size_t before, std::size_t bytes,
                                               std::size_t alignment, Refusal refusal) {
    for (;;) {
        if (bytes_at const b = bump(l, before, bytes, alignment, Count); b.begin) [[likely]]
            return b;
        if (!refusal.make_room(l, alignment <= 8 ? bytes : round_extent(bytes + alignment - 8))) return {};
    }
}

}  // namespace tenure::detail
