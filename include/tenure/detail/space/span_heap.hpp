// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <span>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/base/memory_tools.hpp>
#include <tenure/detail/base/os.hpp>
#include <tenure/detail/base/spin_lock.hpp>
#include <tenure/detail/space/slot_size.hpp>
#include <tenure/detail/space/slot_span.hpp>
#include <tenure/detail/space/span_pool.hpp>

namespace tenure::detail {

/// The spans of one slot size in one stripe of a heap. Spans with free slots are listed; the one that was full
/// most recently comes first. So the emptiest spans are used last, and may become empty.
struct alignas(64) slot_list {
    spin_lock   lock;
    slot_span*  open  = nullptr;
    std::size_t spans = 0;

    void link(slot_span* s) noexcept {
        s->next     = open;
        s->previous = nullptr;
        if (open) open->previous = s;
        open = s;
    }

    void unlink(slot_span* s) noexcept {
        (s->previous ? s->previous->next : open) = s->next;
        if (s->next) s->next->previous = s->previous;
    }

    /// Takes a slot. `open` must not be null.
    std::byte* take() noexcept {
        slot_span* const s = open;
        std::byte* const p = s->take();
        if (s->full()) unlink(s);
        return p;
    }

    /// Puts a slot back. Returns true if the span is then empty, and no longer listed.
    bool put(slot_span* s, std::byte const* p) noexcept {
        bool const was_full = s->full();
        s->put(p);
        if (s->used == 0) {
            if (!was_full) unlink(s);
            --spans;
            return true;
        }
        if (was_full) link(s);
        return false;
    }
};

/// Memory that a span_heap gave out.
struct piece {
    std::byte*  address;  ///< null: none
    std::size_t bytes;    ///< as requested
    slot_span*  span;     ///< null: a mapping of its own
};

/// Memory of this process in blocks of any size. Blocks up to 1 MiB come from 2 MiB spans, each cut into slots of
/// one size (segregated fits: Wilson, Johnstone, Neely and Boles, Dynamic Storage Allocation, 1995; spans per
/// size: Ghemawat and Menage, TCMalloc, 2005; bits beside them: jemalloc). A larger block is a mapping of its own:
/// zero-filled, costing memory only where it is touched, and unmapped when freed.
///
/// Thread-safe. Threads are spread over stripes with lists of their own. A lock is held for one block when taking,
/// and for a run of blocks of one list when freeing. No system call is made under a lock.
class span_heap {
public:
    static constexpr unsigned stripes = 8;

    explicit span_heap(std::uint64_t decay_ns) noexcept
        : pool_(decay_ns),
          entry_(
              this, [](void* h) noexcept { static_cast<span_heap*>(h)->for_locks([](spin_lock& l) { l.lock(); }); },
              [](void* h) noexcept { static_cast<span_heap*>(h)->for_locks([](spin_lock& l) { l.unlock(); }); }) {}

    /// Allocates a block. `alignment` is a power of two. The result has no address if memory is full.
    piece take(unsigned stripe, std::size_t bytes, std::size_t alignment) noexcept {
        std::size_t const some = std::max<std::size_t>(bytes, 1);
        if (alignment > largest_slot_alignment || some > largest_slot) return map(bytes, alignment);
        unsigned const size = slot_size_of(some, alignment);
        piece const    e    = take_slot(lists_[stripe][size], slot_bytes(size));
        if (!e.address) return {};
        unpoison(e.address, bytes);
        run_taken(e.address, bytes);
        return {e.address, bytes, e.span};
    }

    /// Frees blocks, all of which must be live. Neighbours in `many` from one list are freed under one lock.
    void put(std::span<piece const> many) noexcept {
        while (!many.empty()) {
            piece const& first = many.front();
            std::size_t  n     = 1;
            if (!first.span) {
                unmap(first);
            } else {
                while (n < many.size() && many[n].span && many[n].span->home == first.span->home) ++n;
                put_slots(*first.span->home, many.first(n));
            }
            many = many.subspan(n);
        }
    }

    /// Gives back spans that were free for long. To be called after put() now and then.
    void tick() noexcept { pool_.tick(); }

    /// Gives all empty spans back to the system. Returns their bytes.
    std::size_t trim() noexcept { return pool_.trim(); }

private:
    piece take_slot(slot_list& list, std::size_t size) noexcept {
        bool another = false;
        {
            std::scoped_lock const guard(list.lock);
            if (list.open) return from(list);
            another = list.spans != 0;
        }
        // The first span of a size may stay nearly empty, so it gets small pages.
        slot_span* const s = pool_.take(another);
        if (!s) return {};
        std::scoped_lock const guard(list.lock);
        s->cut(list, size);
        list.link(s);
        ++list.spans;
        return from(list);
    }

    static piece from(slot_list& list) noexcept {
        slot_span* const s = list.open;
        return {list.take(), 0, s};
    }

    void put_slots(slot_list& list, std::span<piece const> many) noexcept {
        for (piece const& e : many) run_given_back(e.address, e.span->size);
        slot_span* empty = nullptr;
        {
            std::scoped_lock const guard(list.lock);
            for (piece const& e : many) {
                if (!list.put(e.span, e.address)) continue;
                e.span->next = empty;
                empty        = e.span;
            }
        }
        pool_.put(empty);
    }

    static std::size_t whole_pages(std::size_t bytes) noexcept {
        std::size_t const page = page_bytes();
        return std::max((bytes + page - 1) / page * page, page);
    }

    TENURE_COLD static piece map(std::size_t bytes, std::size_t alignment) noexcept {
        constexpr std::size_t absurd = std::numeric_limits<std::size_t>::max() / 4;  // so that no sum overflows
        if (bytes > absurd || alignment > absurd) return {};
        std::size_t const whole = whole_pages(bytes);
        void* const       p =
            alignment > page_bytes() ? reserve_aligned(whole, alignment) : reserve(whole, access::read_write);
        if (!p) return {};
        auto* const address = static_cast<std::byte*>(p);
        slab_mapped(address, whole);
        run_given_back(address + bytes, whole - bytes);
        return {address, bytes, nullptr};
    }

    static void unmap(piece const& e) noexcept {
        std::size_t const whole = whole_pages(e.bytes);
        slab_unmapped(e.address, whole);
        unpoison(e.address, whole);
        give_back(e.address, whole);
    }

    template <class F>
    void for_locks(F f) noexcept {
        for (auto& of_stripe : lists_)
            for (slot_list& list : of_stripe) f(list.lock);
        f(pool_.lock());
    }

    span_pool  pool_;
    slot_list  lists_[stripes][slot_sizes];
    fork_entry entry_;
};

/// Returns the calling thread's stripe. Threads get the stripes in turn, in the order of their first calls.
TENURE_SHARED inline unsigned thread_stripe(unsigned stripes) noexcept {
    static constinit std::atomic<unsigned> threads{0};
    static constinit thread_local unsigned mine = 0;
    if (mine == 0) [[unlikely]]
        mine = threads.fetch_add(1, std::memory_order_relaxed) + 1;
    return mine % stripes;
}

}  // namespace tenure::detail
