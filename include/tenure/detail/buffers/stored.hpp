// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include <tenure/detail/base/hash_index.hpp>
#include <tenure/detail/batch/buffers_front.hpp>
#include <tenure/detail/blocks/block_list.hpp>
#include <tenure/detail/objects/supplies.hpp>

namespace tenure::detail {

struct stored;

/// Finds what a batch has in each of many stores, by key_of() the store.
using stored_index = hash_index<stored>;

/// What a batch has in one store. Protected by the batch's lock.
struct stored {
    explicit stored(supply& s) noexcept : from(&s) { hold_supply(s); }
    ~stored() {
        if (from) leave_supply(*from);
    }
    stored(stored const&)            = delete;
    stored& operator=(stored const&) = delete;

    supply*                       from;            ///< null: it was left
    stored*                       next = nullptr;  ///< of the same batch
    std::unique_ptr<stored_index> all;             ///< if this is the first of many: all of them
    flow                          came, went;      ///< made and received; given and freed
    std::size_t                   promised = 0;    ///< buffers that are just being made or received
    owned_block_list              to_free;         ///< has room for all of these
    bool          untold     = false;  ///< the store may know some blocks by another batch: store_notify.hpp
    std::uint64_t index_key  = 0;      ///< in `all`, as the next is
    stored*       index_next = nullptr;

    flow live() const noexcept {
        if (came.buffers < went.buffers) return {};  // one is just being made
        return {came.buffers - went.buffers, came.bytes - went.bytes};
    }
    bool has_room() const noexcept { return live().buffers + promised < to_free->room; }

    /// Takes over `larger` if it has more room, and leaves the old list in it to be deleted.
    void grow(owned_block_list& larger) noexcept {
        if (larger->room <= to_free->room) return;
        for (block const& b : to_free->blocks()) larger->add(b);
        std::swap(to_free, larger);
    }
};

/// With so many stores, a batch gets an index of them.
inline constexpr std::size_t many_stores = 8;

/// Returns what a batch has in a store, or null. A batch has at most one supply of a store in use.
inline stored* find_stored(batch_record const& b, any_store const& store) noexcept {
    stored* at = b.stores.load(std::memory_order_relaxed);
    if (at && at->all) [[unlikely]] {
        at = at->all->first(key_of(store));
        while (at && at->from->store != store) at = stored_index::next(*at);
        return at;
    }
    while (at && at->from->store != store) at = at->next;
    return at;
}
inline stored* find_stored(batch_record const& b, supply const& s) noexcept {
    stored* at = b.stores.load(std::memory_order_relaxed);
    if (at && at->all) [[unlikely]]
        return find_stored(b, s.store);
    while (at && at->from != &s) at = at->next;
    return at;
}

/// Returns for how many stores a batch needs an index before it gets one more; 0: it has that, or has few stores.
inline std::size_t index_for_one_more(batch_record const& b) noexcept {
    stored const* const first = b.stores.load(std::memory_order_relaxed);
    if (first && first->all) return first->all->size() < first->all->room() ? 0 : 4 * first->all->size();
    std::size_t n = 0;
    for (stored const* at = first; at && n < many_stores; at = at->next) ++n;
    return n < many_stores ? 0 : 4 * n;
}

/// Returns an empty index with room for so many stores. Null for none, and if memory is full: then a batch's stores
/// are looked for in what index there is, or one by one.
inline std::unique_ptr<stored_index> make_stored_index(std::size_t stores) noexcept {
    if (stores == 0) return nullptr;
    std::unique_ptr<stored_index> made(new (std::nothrow) stored_index);
    return made && made->reserve(stores) ? std::move(made) : nullptr;
}

/// Makes `one` the newest of a batch's stores. If `wider` has more room than their index, it takes the place of
/// that, which is left in it to be deleted.
inline void add_stored(batch_record& b, std::unique_ptr<stored> one,
                       std::unique_ptr<stored_index>& wider) noexcept {
    stored* const first = b.stores.load(std::memory_order_relaxed);
    if (first) one->all = std::move(first->all);
    if (wider && (!one->all || one->all->room() < wider->room())) {
        for (stored* at = first; at; at = at->next) wider->insert_as_it_is(key_of(at->from->store), *at);
        one->all.swap(wider);
    }
    if (one->all) one->all->insert_as_it_is(key_of(one->from->store), *one);
    one->next = first;
    b.stores.store(one.release(), std::memory_order_release);
}

/// Reserves what the batch's end will need for one more buffer there, and returns where that is counted. Returns
/// null, with nothing done, if memory is full. Any thread that holds the batch may call this.
inline stored* promise(batch_record& b, supply& s) noexcept {
    for (;;) {
        std::size_t room = 16, index_for = 0;
        {
            std::scoped_lock const guard(b.lock);
            stored* const          in = find_stored(b, s);
            if (in && in->has_room()) {
                ++in->promised;
                return in;
            }
            if (in) room = in->to_free->room * 2;
            else index_for = index_for_one_more(b);
        }
        owned_block_list        list  = make_block_list(room);  // outside the lock; freed after it if not used
        auto                    index = make_stored_index(index_for);
        std::unique_ptr<stored> more(list ? new (std::nothrow) stored(s) : nullptr);
        if (!more) return nullptr;
        std::scoped_lock const guard(b.lock);
        b.touch();
        if (stored* const in = find_stored(b, s)) {
            in->grow(list);
        } else {
            more->to_free = std::move(list);
            add_stored(b, std::move(more), index);
        }
    }
}

/// Turns a promise into a buffer of `bytes`, counted in `how`.
inline void redeem(batch_record& b, stored& in, std::size_t bytes, flow stored::* how) noexcept {
    std::scoped_lock const guard(b.lock);
    --in.promised;
    in.*how += bytes;
}
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
    if (gone) in.went += where.bytes;
    else in.to_free->add(where);
}

/// Frees an ending batch's gathered blocks, in one call to each store, with no lock held. Blocks that a store
/// cannot free stay with its supply, to be tried again.
inline void free_in_stores(batch_record& b) noexcept {
    std::uint64_t const id       = b.id.load(std::memory_order_relaxed);
    bool                departed = false;
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
        if (!many.empty() || batched) {
            auto const done = batched ? s.store.try_deallocate_batch(id, many) : s.store.deallocate(many);
            if (!done) {
                ++b.rest.store_errors;
                b.rest.store_error = done.error();
                if (!many.empty()) s.refused.add(std::move(in->to_free), done.error());
            } else if (!s.refused.empty()) {
                s.refused.retry(s.store);
            }
        }
        in->from = nullptr;
        departed = leave_supply_later(s) || departed;
    }
    if (departed) end_departing();  // one heavy barrier for all stores
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
            in->went += gone.bytes;
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
