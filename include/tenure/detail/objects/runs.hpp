// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include <tenure/detail/objects/supplies.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Runs of units, taken from the thread's cache or the depot, and given back.

/// Makes room for one more cache of this thread's. First forgets those of registries that are gone, so that a
/// thread which sees many of them come and go does not search them all. Takes the process's lock.
inline void make_room_for_cache() {
    auto& all = on_thread_exit.caches;
    if (all.size() < all.capacity()) return;
    std::vector<std::uint64_t> alive;
    {
        std::scoped_lock const guard(process.mutex);
        for (registry_core const* r = process.registries; r; r = r->next) alive.push_back(r->own.uid);
    }
    std::sort(alive.begin(), alive.end());
    std::erase_if(all, [&](auto const& k) { return !std::binary_search(alive.begin(), alive.end(), k.uid); });
    all.reserve(std::max<std::size_t>(8, 2 * all.size()));
}

inline run_cache* find_or_make_cache(supply& s) {
    thread_context& me   = this_thread;
    run_cache*      mine = nullptr;
    for (auto const& k : on_thread_exit.caches)
        if (k.uid == s.uid) mine = k.cache;
    if (!mine) {
        make_room_for_cache();
        for (mine = s.caches.load(std::memory_order_acquire); mine; mine = mine->next) {
            bool free = false;
            if (mine->taken.compare_exchange_strong(free, true, std::memory_order_acquire)) break;
        }
        if (!mine) {
            mine       = new run_cache;
            mine->next = s.caches.load(std::memory_order_relaxed);
            while (!s.caches.compare_exchange_weak(mine->next, mine, std::memory_order_release)) {}
        }
        on_thread_exit.caches.push_back({s.uid, mine});
    }
    me.cache     = mine;
    me.cache_uid = s.uid;
    return mine;
}

TENURE_COLD inline run_cache* find_cache(supply& s) noexcept {
    if (this_thread.exiting || s.uid == 0) return nullptr;
    return run_or<std::bad_alloc>([&] { return find_or_make_cache(s); },
                                  [](auto const&) { return nullptr; });  // without a cache, the depot serves
}

inline run_cache* cache_of(supply& s) noexcept {
    return this_thread.cache_uid == s.uid ? this_thread.cache : find_cache(s);
}

/// Returns a run of `n` units or, if need be, of down to `least`; null if there is none. Its memory is poisoned,
/// its contents are unspecified.
inline unit* take_run(supply& s, std::size_t n, std::size_t least) noexcept {
    run_cache* const c = cache_of(s);
    if (c && run_cache::fits(n)) [[likely]] {
        unit*& first = c->runs[run_cache::bin_of(n)];
        if (!first && c->returned.load(std::memory_order_relaxed)) collect_returned(*c);
        if (unit* const u = first) [[likely]] {
            first = u->next;
            c->units.store(c->units.load(std::memory_order_relaxed) - n, std::memory_order_relaxed);
            return u;
        }
    }
    return s.slabs.take(n, least);
}

/// Makes all handles into a run stale and marks its memory as free. `fresh` is its next generation. Returns true
/// if that is the last one: the run is then retired.
inline bool outdate(supply& s, unit* u, std::size_t n, word_t fresh) noexcept {
    zeroed_atomic<word_t>* const words = &table_word(u->address);
    for (std::size_t i = 0; i < n; ++i) words[i].store(whole_word(fresh), std::memory_order_release);
    run_given_back(to_pointer(u->address), n << unit_shift);
    if (fresh < last_generation) [[likely]]
        return false;
    s.slabs.retire(u, n);
    return true;
}

/// Puts a run back into the depot of a store that batches name. Ends the supply if nothing uses it any more.
TENURE_COLD inline void put_last(supply& s, unit* u, std::size_t n) noexcept {
    registry_core& r = s.registry;
    {
        std::scoped_lock const guard(r.supplies_mutex);
        s.slabs.put(u, n);
        if (!unlink_idle(r, s)) return;
    }
    let_depart(s);
}

inline void put_run(supply& s, unit* u, std::size_t n) noexcept {
    if (s.uid == 0) [[unlikely]]
        put_last(s, u, n);
    else s.slabs.put(u, n);
}

/// Gives back a run as it was taken: to the cache it came from, to this thread's, or to the depot.
[[gnu::always_inline]] inline void give_run(supply& s, unit* u, std::size_t n, word_t fresh) noexcept {
    if (outdate(s, u, n, fresh)) return;
    run_cache* const c = cache_of(s);
    if (c && run_cache::fits(n)) [[likely]] {
        if (u->origin != c && u->origin && return_run(*u->origin, u, n)) return;
        std::size_t const more = c->units.load(std::memory_order_relaxed) + n;
        if (more <= run_cache::most) [[likely]] {
            unit*& first = c->runs[run_cache::bin_of(n)];
            u->next      = first;
            first        = u;
            c->units.store(more, std::memory_order_relaxed);
            return;
        }
    }
    put_run(s, u, n);
}

/// Gives back a part of a run. It joins its neighbours in the depot; a thread's cache would keep them apart.
inline void give_part(unit* u, std::size_t n, word_t fresh) noexcept {
    supply& s = *region_of(u->address)->from;
    if (!outdate(s, u, n, fresh)) put_run(s, u, n);
}

/// Gives back what follows the first `n` units of a run, none of which is tracked.
inline void cut_run(unit* u, std::size_t n) noexcept {
    unit* const       rest = u + n;
    std::size_t const gone = u->length - n;
    rest->address          = u->address + (n << unit_shift);
    rest->length           = static_cast<std::uint32_t>(gone);
    rest->home.store(nullptr, std::memory_order_relaxed);  // it may be left from when it was a head before
    for (std::size_t i = 0; i < gone; ++i) rest[i].head.store(rest, std::memory_order_release);
    rest->guarded.store(0, std::memory_order_relaxed);
    u->length = static_cast<std::uint32_t>(n);
    give_part(rest, gone, generation_of(table_word(rest->address).load(std::memory_order_relaxed)) + 1);
}

}  // namespace tenure::detail
