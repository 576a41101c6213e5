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

/// Returns how many bytes it takes there: a rounded extent, with the padding before it.
constexpr std::size_t extent_at(std::uintptr_t begin, std::size_t before, std::size_t bytes,
                                std::size_t alignment) noexcept {
    return alignment <= 8 ? bytes : round_extent(object_at(begin, before, alignment) - begin + bytes - before);
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
    bytes                       = extent_at(at, before, bytes, alignment);
    std::uint64_t const next    = cursor + cursor_at(bytes) + count;
    if (next > l.window_end.load(std::memory_order_relaxed)) [[unlikely]]
        return {};
    if (at == 0) __builtin_unreachable();  // so that the caller's test costs nothing
    l.cursor.store(next, std::memory_order_relaxed);
    if (bytes < fetched_ahead) __builtin_prefetch(reinterpret_cast<void const*>(at + fetched_ahead), 1);
    return {at, bytes};
}

/// Returns the word of handles to an object in a slab.
[[gnu::always_inline]] inline word_t word_of_small(lane const& l, bytes_at at, std::size_t before,
                                                   std::size_t alignment) noexcept {
    return l.word | (before ? header_flag : 0) | encode_extent(at.bytes) |
           encode_offset(alignment <= 8 ? before : object_at(at.begin, before, alignment) - at.begin);
}

struct finalizer;

/// Makes room in the lane's window, unless another thread closes it at once: for an object, with its entry, that
/// has `bytes`, a rounded extent; or, if there is no `what`, for so many bytes. Called by the lane's own thread.
/// May call on_soft, whose exceptions pass. Fails with batch_ended, wrong_thread, limit_exceeded, memory_full or
/// what the store says: returns false and sets `why`.
bool make_room(lane& l, std::size_t bytes, finalizer const* what, failure& why);

/// As make_room(), but throws the failure. Neither is inlined: they tell where in the program they were called.
void make_room_or_throw(lane& l, std::size_t bytes, finalizer const* what);

/// Returns how many bytes have room for so many that begin at a multiple of `alignment`, or end their entry there.
constexpr std::size_t room_for(std::size_t bytes, std::size_t alignment) noexcept {
    return alignment <= 8 ? bytes : round_extent(bytes + alignment - 8);
}

/// Reports a refusal in the caller's failure.
struct report_to {
    failure& why;

    void                        refuse(failure const& f) const noexcept { why = f; }
    [[gnu::always_inline]] bool make_room(lane& l, std::size_t bytes, finalizer const* what) const {
        return detail::make_room(l, bytes, what, why);
    }
};
struct throw_it {
    [[noreturn]] static void refuse(failure const& f) { throw_failure(f, "make in batch "); }

    [[gnu::always_inline]] static bool make_room(lane& l, std::size_t bytes, finalizer const* what) {
        make_room_or_throw(l, bytes, what);
        return true;
    }
};

/// Takes bytes as bump() does, and refills the window if need be: for an object, or, without `what`, for bytes that
/// have no handle. Returns `begin` 0 if refused; `refusal` has the failure then.
template <std::uint64_t Count, class Refusal>
[[gnu::always_inline]] inline bytes_at bump_or(lane& l, std::size_t before, std::size_t bytes,
                                               std::size_t alignment, finalizer const* what, Refusal refusal) {
    for (;;) {
        if (bytes_at const b = bump(l, before, bytes, alignment, Count); b.begin) [[likely]]
            return b;
        if (!refusal.make_room(l, what ? bytes : room_for(bytes, alignment), what)) return {};
    }
}

}  // namespace tenure::detail
