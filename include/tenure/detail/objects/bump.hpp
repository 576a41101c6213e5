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

/// Takes `bytes`, a rounded extent, from the window; `before` of them lie before an address that is a multiple of
/// `alignment`. `count` is one_object or 0. Returns `begin` 0 if there is no room.
[[gnu::always_inline]] inline bytes_at bump(lane& l, std::size_t before, std::size_t bytes, std::size_t alignment,
                                            std::uint64_t count) noexcept {
    std::uint64_t const cursor = l.cursor.load(std::memory_order_relaxed);
    std::uint64_t const at     = cursor & cursor_address;
    if (alignment > 8) bytes = round_extent(object_at(at, before, alignment) - at + bytes - before);
    if (at + bytes > l.window_end.load(std::memory_order_relaxed)) [[unlikely]]
        return {};
    l.cursor.store(cursor + bytes + count, std::memory_order_relaxed);
    return {at, bytes};
}

/// Takes bytes as bump() does, after it has made room for them. Called by the lane's own thread. May call on_soft,
/// whose exceptions pass. Fails with batch_ended, wrong_thread, limit_exceeded, memory_full or what the store says:
/// returns `begin` 0 and sets `why`, or throws if that is null.
TENURE_DECL bytes_at bump_after_refill(lane& l, std::size_t before, std::size_t bytes, std::size_t alignment,
                                       std::uint64_t count, failure* why);

/// Reports a refusal in the caller's failure.
struct report_to {
    failure& why;

    failure* place() const noexcept { return &why; }
    void     refuse(failure const& f) const noexcept { why = f; }
};
struct throw_it {
    static failure*   place() noexcept { return nullptr; }
    [[noreturn]] void refuse(failure const& f) const { throw_failure(f, "make in batch "); }
};

/// Takes bytes as bump() does, and refills the window if need be. Returns `begin` 0 if refused; `refusal` has the
/// failure then.
template <std::uint64_t Count, class Refusal>
[[gnu::always_inline]] inline bytes_at bump_or(lane& l, std::size_t before, std::size_t bytes,
                                               std::size_t alignment, Refusal refusal) {
    if (bytes_at const b = bump(l, before, bytes, alignment, Count); b.begin) [[likely]]
        return b;
    return bump_after_refill(l, before, bytes, alignment, Count, refusal.place());
}

}  // namespace tenure::detail
