// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <new>

#include <tenure/detail/process.hpp>

namespace tenure::detail {

/// Runs of units, from the thread's stock or the registry's depot, and back.

TENURE_COLD inline run_cache* find_cache(registry_core& r) noexcept try {
    thread_context& me = this_thread;
    if (me.exiting) return nullptr;
    run_cache* mine = nullptr;
    for (auto const& k : on_thread_exit.caches)
        if (k.uid == r.uid) mine = k.cache;
    if (!mine) {
        on_thread_exit.caches.reserve(on_thread_exit.caches.size() + 1);
        for (mine = r.caches.load(std::memory_order_acquire); mine; mine = mine->next) {
            bool free = false;
            if (mine->taken.compare_exchange_strong(free, true, std::memory_order_acquire)) break;
        }
        if (!mine) {
            mine       = new run_cache;
            mine->next = r.caches.load(std::memory_order_relaxed);
            while (!r.caches.compare_exchange_weak(mine->next, mine, std::memory_order_release)) {}
        }
        on_thread_exit.caches.push_back({r.uid, mine});
    }
    me.cache     = mine;
    me.cache_uid = r.uid;
    return mine;
} catch (std::bad_alloc const&) {
    return nullptr;  // the depot serves without a cache
}

inline run_cache* cache_of(registry_core& r) noexcept {
    return this_thread.cache_uid == r.uid ? this_thread.cache : find_cache(r);
}

/// A run of `n` units, or if need be of down to `least`, or null. Its memory is poisoned, its contents are
/// unspecified.
inline unit* take_run(registry_core& r, std::size_t n, std::size_t least) noexcept {
    run_cache* const c = cache_of(r);
    if (c && run_cache::fits(n)) [[likely]] {
        unit*& first = c->runs[run_cache::bin_of(n)];
        if (!first && c->returned.load(std::memory_order_relaxed)) collect_returned(*c);
        if (unit* const u = first) [[likely]] {
            first = u->next;
            c->units.store(c->units.load(std::memory_order_relaxed) - n, std::memory_order_relaxed);
            return u;
        }
    }
    return r.slabs.take(n, least);
}

/// All handles into a run become stale, and its memory is free. `fresh` is its next generation. True: that was the
/// last.
inline bool outdate(registry_core& r, unit* u, std::size_t n, word_t fresh) noexcept {
    std::atomic<word_t>* const words = &table_word(u->address);
    for (std::size_t i = 0; i < n; ++i) words[i].store(whole_word(fresh), std::memory_order_release);
    run_given_back(to_pointer(u->address), n << unit_shift);
    if (fresh < last_generation) [[likely]]
        return false;
    r.slabs.retire(u, n);
    return true;
}

/// A run comes back as it was taken.
inline void give_run(registry_core& r, unit* u, std::size_t n, word_t fresh) noexcept {
    if (outdate(r, u, n, fresh)) return;
    run_cache* const c = cache_of(r);
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
    r.slabs.put(u, n);
}

/// Part of a run comes back: it joins its neighbours in the depot, for in a thread's stock it would keep them
/// apart.
inline void give_part(registry_core& r, unit* u, std::size_t n, word_t fresh) noexcept {
    if (!outdate(r, u, n, fresh)) r.slabs.put(u, n);
}

}  // namespace tenure::detail
