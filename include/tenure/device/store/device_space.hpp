// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <mutex>
#include <new>
#include <ranges>
#include <span>

#include <tenure/detail/space/slot_size.hpp>
#include <tenure/detail/space/slot_span.hpp>
#include <tenure/detail/space/span_heap.hpp>
#include <tenure/device/store/device_chunks.hpp>
#include <tenure/error.hpp>
#include <tenure/result.hpp>

namespace tenure::detail {

/// A range of a chunk, cut into slots of one size.
template <class Device>
struct device_span : slot_span {
    device_range<Device> where;
};

/// The place of a block.
template <class Device>
struct device_place {
    device_chunk<Device>* chunk;
    device_span<Device>*  span;  ///< null: a range of its own, or a whole chunk
    std::size_t           offset;
    std::size_t           bytes;  ///< as requested
};

/// Gives out a device's memory in blocks of any size. A driver takes microseconds to milliseconds for an
/// allocation, and may have room for only some thousands of them. Up to 64 KiB, a block is a slot of a span, as in
/// span_heap; up to a quarter of a chunk, a range of one; beyond, an allocation of the driver's. All that is known
/// of blocks lies in this process's memory; the device's is not touched.
///
/// Memory is given out as it came back, because a store is one client. If several clients share a store, clear
/// blocks in between.
///
/// Thread-safe. A lock is held for one slot when taking, for a run of one size when freeing, and none across a
/// call of the driver.
template <class Device>
class device_space {
public:
    using place = device_place<Device>;

    device_space(Device& d, device_store_options const& o) noexcept : grain_(d.alignment()), chunks_(d, o) {}

    result<place> take(std::size_t bytes, std::size_t alignment) noexcept {
        std::size_t const some = std::max<std::size_t>(bytes, 1);
        alignment              = std::max(alignment, grain_);
        if (some <= largest && alignment <= largest_alignment) return take_slot(bytes, alignment);
        auto const r =
            chunks_.fits(some, alignment) ? chunks_.take(some, alignment) : chunks_.take_whole(some, alignment);
        if (!r) return r.error();
        return place{r->chunk, nullptr, r->offset, bytes};
    }

    /// Takes back blocks, which must be live. Returns the driver's error if a chunk that went with them could not
    /// be given back.
    result<void> put(std::span<place const> many) noexcept {
        device_chunk<Device>* idle = nullptr;
        while (!many.empty()) {
            place const& first = many.front();
            std::size_t  n     = 1;
            if (first.span) {
                while (n < many.size() && many[n].span && many[n].span->home == first.span->home) ++n;
                put_slots(*first.span->home, many.first(n), idle);
            } else {
                while (n < many.size() && !many[n].span) ++n;
                chunks_.put(many.first(n) | std::views::transform(range_of), idle);
            }
            many = many.subspan(n);
        }
        return idle ? chunks_.free_all(idle) : result<void>{};
    }

    /// Gives chunks that nobody uses back to the driver. Errors: what the driver says.
    result<void> trim() noexcept { return chunks_.trim(); }

private:
    using span = device_span<Device>;

    static constexpr std::size_t largest           = std::size_t{64} << 10;
    static constexpr std::size_t largest_alignment = 4096;
    static constexpr std::size_t least_span        = std::size_t{64} << 10;
    static constexpr unsigned    sizes             = slot_size_of(largest) + 1;
    static_assert(slot_bytes(slot_size_of(largest - largest_alignment + 1, largest_alignment)) == largest);

    static constexpr auto range_of = [](place const& p) noexcept {
        return device_range<Device>{p.chunk, p.offset, std::max<std::size_t>(p.bytes, 1)};
    };

    result<place> take_slot(std::size_t bytes, std::size_t alignment) noexcept {
        unsigned const    size = slot_size_of(std::max<std::size_t>(bytes, 1), alignment);
        std::size_t const each = slot_bytes(size);
        slot_list&        list = lists_[size];
        std::size_t       some = 0;
        {
            std::scoped_lock const guard(list.lock);
            if (list.open) return from(list, bytes);
            some = list.spans;
        }
        auto* const s = new (std::nothrow) span;
        if (!s) return make_error_code(errc::memory_full);
        // The more spans there are, the larger the next: from 64 KiB, or eight slots, four times as much for each,
        // up to 2 MiB.
        std::size_t const least = std::max(least_span, std::bit_ceil(each * 8));
        std::size_t       n     = std::min(least << std::min<std::size_t>(2 * some, 20), slot_span::bytes);
        if (!chunks_.fits(n, alignment)) n = least;
        auto where = chunks_.take(n, 1);
        if (!where && where.error() == errc::store_full && n > each) where = chunks_.take(each, 1);
        if (!where) {
            delete s;
            return where.error();
        }
        s->where  = *where;
        s->memory = where->chunk->shadow + where->offset;

        std::scoped_lock const guard(list.lock);
        s->cut(list, each);
        s->slots = static_cast<std::uint32_t>(where->bytes / each);
        list.link(s);
        ++list.spans;
        return from(list, bytes);
    }

    static place from(slot_list& list, std::size_t bytes) noexcept {
        auto* const s  = static_cast<span*>(list.open);
        auto* const in = s->where.chunk;
        return {in, s, static_cast<std::size_t>(list.take() - in->shadow), bytes};
    }

    void put_slots(slot_list& list, std::span<place const> many, device_chunk<Device>*& idle) noexcept {
        slot_span* empty = nullptr;
        {
            std::scoped_lock const guard(list.lock);
            for (place const& p : many) {
                if (!list.put(p.span, p.chunk->shadow + p.offset)) continue;
                p.span->next = empty;
                empty        = p.span;
            }
        }
        while (empty) {  // only this thread knows them now
            auto* const s = static_cast<span*>(empty);
            empty         = s->next;
            chunks_.put(std::array{s->where}, idle);
            delete s;
        }
    }

    std::size_t const     grain_;
    device_chunks<Device> chunks_;
    slot_list             lists_[sizes];
};

}  // namespace tenure::detail
