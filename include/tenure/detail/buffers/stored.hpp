// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include <tenure/detail/batch/buffers_front.hpp>
#include <tenure/detail/blocks/block_list.hpp>
#include <tenure/detail/objects/supplies.hpp>

namespace tenure::detail {

/// What a batch has in one store. Protected by the batch's lock.
struct stored {
    explicit stored(supply& s) noexcept : from(&s) { hold_supply(s); }
    ~stored() { leave_supply(*from); }
    stored(stored const&)            = delete;
    stored& operator=(stored const&) = delete;

    supply* const    from;
    stored*          next = nullptr;  ///< of the same batch
    flow             made, received, given, freed;
    std::size_t      promised = 0;    ///< buffers that are just being made or received
    owned_block_list to_free;         ///< has room for all of these
    bool             untold = false;  ///< the store may know some blocks by another batch: store_notify.hpp

    flow live() const noexcept {
        if (made.buffers + received.buffers < given.buffers + freed.buffers) return {};  // one is just being made
        return {made.buffers + received.buffers - given.buffers - freed.buffers,
                made.bytes + received.bytes - given.bytes - freed.bytes};
    }
    bool has_room() const noexcept { return live().buffers + promised < to_free->room; }

    /// Takes over `larger` if it has more room, and leaves the old list in it to be deleted.
    void grow(owned_block_list& larger) noexcept {
        if (larger->room <= to_free->room) return;
        for (block const& b : to_free->blocks()) larger->add(b);
        to_free.swap(larger);
    }
};

inline stored* find_stored(batch_record const& b, supply const& s) noexcept {
    stored* at = b.stores.load(std::memory_order_relaxed);
    while (at && at->from != &s) at = at->next;
    return at;
}

/// Reserves what the batch's end will need for one more buffer there. Returns false, with nothing done, if memory
/// is full. Any thread that holds the batch may call this.
inline bool promise(batch_record& b, supply& s) noexcept {
    for (;;) {
        std::size_t room = 16;
        {
            std::scoped_lock const guard(b.lock);
            stored* const          in = find_stored(b, s);
            if (in && in->has_room()) {
                ++in->promised;
                return true;
            }
            if (in) room = in->to_free->room * 2;
        }
        owned_block_list        list = make_block_list(room);  // outside the lock; freed after it if not used
        std::unique_ptr<stored> more(list ? new (std::nothrow) stored(s) : nullptr);
        if (!more) return false;
        std::scoped_lock const guard(b.lock);
        b.touch();
        if (stored* const in = find_stored(b, s)) {
            in->grow(list);
        } else {
            more->to_free = std::move(list);
            more->next    = b.stores.load(std::memory_order_relaxed);
            b.stores.store(more.release(), std::memory_order_release);
        }
    }
}

/// Turns a promise into a buffer of `bytes`, counted in `how`.
inline void redeem(batch_record& b, supply const& s, std::size_t bytes, flow stored::* how) noexcept {
    std::scoped_lock const guard(b.lock);
    stored&                in = *find_stored(b, s);
    --in.promised;
    in.*how += bytes;
}

/// Gives up `n` promises whose buffers will not come.
inline void release_promise(batch_record& b, supply const& s, std::size_t n = 1) noexcept {
    std::scoped_lock const guard(b.lock);
    find_stored(b, s)->promised -= n;
}

/// Counts a buffer that leaves the batch, in `how`.
inline void remove_stored(batch_record& b, supply const& s, std::size_t bytes, flow stored::* how) noexcept {
    std::scoped_lock const guard(b.lock);
    find_stored(b, s)->*how += bytes;
}

/// Frees one block of a batch before its end. If the store cannot, the end tries again.
inline void free_stored(batch_record& b, supply& s, block where) noexcept {
    auto const             done = s.store.deallocate({&where, 1});
    bool const             gone = done || done.error() == errc::no_such_block;
    std::scoped_lock const guard(b.lock);
    stored&                in = *find_stored(b, s);
    if (gone) in.freed += where.bytes;
    else in.to_free->add(where);
}

/// Frees an ending batch's gathered blocks, in one call to each store, with no lock held. Blocks that a store
/// cannot free stay with its supply, to be tried again.
inline void free_in_stores(batch_record& b) noexcept {
    std::uint64_t const id = b.id.load(std::memory_order_relaxed);
    while (b.stores.load(std::memory_order_relaxed)) {
        std::unique_ptr<stored> in;
        {
            std::scoped_lock const guard(b.lock);  // a snapshot may be reading
            in.reset(b.stores.load(std::memory_order_relaxed));
            b.stores.store(in->next, std::memory_order_relaxed);
        }
        supply& s = *in->from;
        // A store that knows batches is told of the end even of an empty one.
        bool const batched = s.store.capabilities().batched && !in->untold;
        auto const many    = in->to_free->blocks();
        if (many.empty() && !batched) continue;
        if (auto const done = batched ? s.store.try_deallocate_batch(id, many) : s.store.deallocate(many); !done) {
            ++b.rest.store_errors;
            b.rest.store_error = done.error();
            if (!many.empty()) s.refused.add(std::move(in->to_free), done.error());
        } else if (!s.refused.empty()) {
            s.refused.retry(s.store);
        }
    }
}

/// Frees the gathered blocks of a batch that goes on. Blocks that cannot be freed are tried again at its end.
/// Returns the bytes freed.
inline std::size_t free_gathered_so_far(batch_record& b) noexcept {
    std::size_t sum = 0;
    for (stored* in = b.stores.load(std::memory_order_relaxed); in; in = in->next) {
        auto const many = in->to_free->blocks();
        if (many.empty()) continue;
        auto const done = in->from->store.deallocate(many);
        if (!done && done.error() != errc::no_such_block) continue;
        std::scoped_lock const guard(b.lock);
        for (block const& gone : many) {
            in->freed += gone.bytes;
            sum += gone.bytes;
        }
        in->to_free->count = 0;
    }
    return sum;
}

/// Returns what a batch has in all stores.
inline flow sum_of_stores(batch_record& b) noexcept {
    flow                   sum;
    std::scoped_lock const guard(b.lock);
    for (stored const* in = b.stores.load(std::memory_order_relaxed); in; in = in->next) {
        flow const live = in->live();
        sum.buffers += live.buffers;
        sum.bytes += live.bytes;
    }
    return sum;
}

}  // namespace tenure::detail
