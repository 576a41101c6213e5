// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

#include <tenure/detail/base/memory_tools.hpp>
#include <tenure/detail/space/file_space.hpp>
#include <tenure/detail/space/file_window.hpp>
#include <tenure/detail/space/slot_size.hpp>
#include <tenure/detail/space/span_heap.hpp>
#include <tenure/error.hpp>
#include <tenure/result.hpp>

namespace tenure::detail {

/// An extent that is cut into slots of one size.
struct file_span : slot_span {
    extent_in_file where;
};

/// Small pieces of a mapped file that share its pages: spans of slots of one size, as in span_heap. The first
/// spans are short, because each takes its space from the disk. All pages of a span come at once: a fault for each
/// would cost twice as much, and ten times as much when the disk is busy.
///
/// Thread-safe. A lock is held for one slot, and no system call is made under it. Freeing allocates nothing.
class file_slots {
public:
    static constexpr std::size_t largest           = std::size_t{64} << 10;
    static constexpr std::size_t largest_alignment = 4096;

    struct slot {
        std::byte* address = nullptr;
        file_span* span    = nullptr;
    };

    file_slots(file_space& space, file_window& window) noexcept : space_(space), window_(window) {}

    static bool fits(std::size_t bytes, std::size_t alignment) noexcept {
        return bytes <= largest && alignment <= largest_alignment;
    }

    /// Returns a slot for `bytes` bytes at a multiple of `alignment`. fits() must hold. Errors: memory_full, or
    /// those of file_space::reserve().
    result<slot> take(std::size_t bytes, std::size_t alignment) noexcept {
        unsigned const    size = slot_size_of(std::max<std::size_t>(bytes, 1), alignment);
        std::size_t const each = slot_bytes(size);
        slot_list&        list = lists_[size];
        std::size_t       some = 0;
        {
            std::scoped_lock const guard(list.lock);
            if (list.open) return from(list);
            some = list.spans;
        }
        auto* const s = new (std::nothrow) file_span;
        if (!s) return make_error_code(errc::memory_full);
        // A first span has 64 KiB, or eight slots if that is more. Each span of this size makes the next four
        // times as long, up to 2 MiB.
        std::size_t const least = std::max(least_span, std::bit_ceil(each * 8));
        std::size_t const n     = std::min(least << std::min<std::size_t>(2 * some, 20), slot_span::bytes);
        auto              where = space_.reserve(n);
        if (!where && n > least) where = space_.reserve(least);
        if (!where) {
            delete s;
            return where.error();
        }
        s->where  = *where;
        s->memory = window_.at(where->offset);
        window_.populate(*where);

        std::scoped_lock const guard(list.lock);
        s->cut(list, each);
        s->slots = static_cast<std::uint32_t>(where->bytes / each);
        list.link(s);
        ++list.spans;
        return from(list);
    }

    /// Frees a slot. The caller calls space.settle() after its last put().
    void put(slot const& s) noexcept {
        run_given_back(s.address, s.span->size);
        {
            std::scoped_lock const guard(s.span->home->lock);
            if (!s.span->home->put(s.span, s.address)) return;
        }
        space_.release_later(s.span->where);  // no other thread knows the span now
        delete s.span;
    }

private:
    static constexpr std::size_t least_span = std::size_t{64} << 10;
    static constexpr unsigned    sizes      = slot_size_of(largest) + 1;
    static_assert(slot_bytes(slot_size_of(largest - largest_alignment + 1, largest_alignment)) == largest);

    static slot from(slot_list& list) noexcept {
        auto* const s = static_cast<file_span*>(list.open);
        return {list.take(), s};
    }

    file_space&  space_;
    file_window& window_;
    slot_list    lists_[sizes];
};

}  // namespace tenure::detail
