// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include <tenure/detail/batch_record.hpp>
#include <tenure/detail/depot.hpp>

namespace tenure::detail {

/// One thread's stock of small free runs of one registry: so that opening a batch takes no lock. What other threads
/// end comes back to it, for this thread's core still has that memory in its cache (as in mimalloc: Leijen et al.,
/// APLAS 2019).
struct run_cache {
    static constexpr std::size_t bins = 5;              ///< runs of 1, 2, 4, 8 and 16 units
    static constexpr std::size_t most = 16 * (1 << 4);  ///< 256 units, 16 MiB, then runs go to the depot

    static bool        fits(std::size_t n) noexcept { return n <= 16 && (n & (n - 1)) == 0; }
    static std::size_t bin_of(std::size_t n) noexcept { return static_cast<std::size_t>(__builtin_ctzl(n)); }

    unit*                    runs[bins]{};
    std::atomic<std::size_t> units{0};
    std::atomic<unit*>       returned{nullptr};  ///< by other threads
    std::atomic<std::size_t> returned_units{0};
    std::atomic<bool>        taken{true};  ///< a thread uses it
    run_cache*               next = nullptr;
};

/// What a `registry` is, below its public face.
struct registry_core {
    registry_core(std::uint64_t decay_ns, std::uint64_t number) noexcept : slabs(decay_ns), uid(number) {}

    depot                      slabs;
    std::uint64_t const        uid;
    batch_record*              root = nullptr;
    spin_lock                  loose_lock;
    batch_record*              loose = nullptr;  ///< batches without a guard, newest first, through older and newer
    std::atomic<run_cache*>    caches{nullptr};
    std::atomic<std::uint64_t> foreign_ends{0};  ///< guards destroyed on a thread that did not open them
    registry_core*             next = nullptr;   ///< of all registries
};

/// What a thread knows of itself. Trivial, so that the compiler reads it without an initialisation check.
struct thread_context {
    lane*         current      = nullptr;
    batch_record* newest       = nullptr;  ///< of the open guards of this thread
    run_cache*    cache        = nullptr;  ///< of the registry used last
    std::uint64_t cache_uid    = 0;
    batch_record* records      = nullptr;  ///< free ones
    std::uint32_t record_count = 0;
    lane*         root_lane    = nullptr;  ///< of the global registry's root, once this thread made something there
    bool          visiting     = false;    ///< `current` is held: it is there by set_current_batch
    bool          exiting      = false;

    void (*leave_visited)() noexcept = nullptr;  ///< once the thread has used set_current_batch
};

inline constinit thread_local thread_context this_thread{};

inline bool batch_record::is_here() const noexcept {
    return primary.thread.load(std::memory_order_relaxed) == &this_thread;
}

/// Process-wide: what outlives threads and registries.
struct process_state {
    std::mutex     mutex;
    registry_core* registries   = nullptr;
    std::uint64_t  last_uid     = 0;
    batch_record*  free_records = nullptr;
    std::uint32_t  record_count = 0;  ///< ever made
    lane*          free_lanes   = nullptr;
    std::uint64_t  last_serial  = 0;
};
inline constinit process_state process{};

/// Takes in what other threads returned.
TENURE_COLD inline void collect_returned(run_cache& c) noexcept {
    unit* u = c.returned.exchange(nullptr, std::memory_order_acquire);
    while (u) {
        unit* const       after = u->next;
        std::size_t const n     = u->length;
        unit*&            first = c.runs[run_cache::bin_of(n)];
        u->next                 = first;
        first                   = u;
        c.returned_units.fetch_sub(n, std::memory_order_relaxed);
        c.units.store(c.units.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
        u = after;
    }
}

/// False: it has enough, or its thread is gone.
inline bool return_run(run_cache& c, unit* u, std::size_t n) noexcept {
    if (!c.taken.load(std::memory_order_relaxed)) return false;
    if (c.returned_units.fetch_add(n, std::memory_order_relaxed) + n > run_cache::most) {
        c.returned_units.fetch_sub(n, std::memory_order_relaxed);
        return false;
    }
    unit* head = c.returned.load(std::memory_order_relaxed);
    do u->next = head;
    while (!c.returned.compare_exchange_weak(head, u, std::memory_order_release, std::memory_order_relaxed));
    return true;
}

inline void give_back_runs(registry_core& r, run_cache& c) noexcept {
    collect_returned(c);
    for (std::size_t b = 0; b < run_cache::bins; ++b) {
        while (unit* u = c.runs[b]) {
            c.runs[b] = u->next;
            r.slabs.put(u, std::size_t{1} << b);
        }
    }
    c.units.store(0, std::memory_order_relaxed);
}

/// Returns what the thread holds when it ends.
class thread_exit {
public:
    struct known_cache {
        std::uint64_t uid;
        run_cache*    cache;
    };
    std::vector<known_cache> caches;

    ~thread_exit() {
        thread_context& me = this_thread;
        if (me.leave_visited) me.leave_visited();
        std::scoped_lock const guard(process.mutex);
        for (registry_core* r = process.registries; r; r = r->next) {
            for (known_cache const& k : caches) {
                if (k.uid != r->uid) continue;
                give_back_runs(*r, *k.cache);
                k.cache->taken.store(false, std::memory_order_release);
            }
        }
        while (batch_record* b = me.records) {
            me.records           = b->next_free;
            b->next_free         = process.free_records;
            process.free_records = b;
        }
        // Guards that outlive their thread: whoever destroys them will find that they belong to none.
        while (batch_record* const b = me.newest) {
            me.newest = b->older;
            b->in_chain.store(false, std::memory_order_relaxed);
            b->guard.store(nullptr, std::memory_order_release);
        }
        me.current = nullptr;
        if (lane* const l = me.root_lane) {
            std::scoped_lock const with_lane(l->batch->lock);
            l->users = 0;
            l->thread.store(nullptr, std::memory_order_release);
            me.root_lane = nullptr;
        }
        me.record_count = 0;
        me.cache        = nullptr;
        me.cache_uid    = 0;
        me.exiting      = true;  // from here on the thread works without stocks of its own
    }
};
inline thread_local thread_exit on_thread_exit;

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

inline batch_record* record_at(std::uint64_t index) noexcept {
    batch_record* const chunk =
        tables.records ? tables.records[index / records_a_chunk].load(std::memory_order_acquire) : nullptr;
    return chunk ? chunk + index % records_a_chunk : nullptr;
}

/// A free record; throws std::bad_alloc.
TENURE_COLD inline batch_record* more_records() {
    std::scoped_lock const guard(process.mutex);
    thread_context&        me = this_thread;
    if (!process.free_records) {
        std::uint32_t const first = process.record_count;
        if (first >> record_bits) throw std::bad_alloc();
        auto* const chunk = new batch_record[records_a_chunk];
        for (std::uint32_t i = 0; i < records_a_chunk; ++i) {
            chunk[i].index       = first + i;
            chunk[i].next_free   = process.free_records;
            process.free_records = chunk + i;
        }
        process.record_count += records_a_chunk;
        tables.records[first / records_a_chunk].store(chunk, std::memory_order_release);
    }
    [[maybe_unused]] auto const* touched = &on_thread_exit;
    batch_record* const          b       = process.free_records;
    process.free_records                 = b->next_free;
    while (process.free_records && me.record_count < 16 && !me.exiting) {
        batch_record* const spare = process.free_records;
        process.free_records      = spare->next_free;
        spare->next_free          = me.records;
        me.records                = spare;
        ++me.record_count;
    }
    return b;
}

inline batch_record* take_record() {
    thread_context& me = this_thread;
    if (batch_record* const b = me.records) {
        me.records = b->next_free;
        --me.record_count;
        return b;
    }
    return more_records();
}

TENURE_COLD inline void give_record_to_process(batch_record* b) noexcept {
    std::scoped_lock const guard(process.mutex);
    b->next_free         = process.free_records;
    process.free_records = b;
}

inline void give_record(batch_record* b) noexcept {
    thread_context& me = this_thread;
    if (b->generation.load(std::memory_order_relaxed) >> (generation_bits - 1)) return;  // its ids are used up
    if (me.record_count >= 256 || me.exiting) [[unlikely]]
        return give_record_to_process(b);
    b->next_free = me.records;
    me.records   = b;
    ++me.record_count;
}

/// Lanes besides a batch's own. Like records they are never returned to the system. Throws std::bad_alloc.
inline lane* take_lane() {
    std::scoped_lock const guard(process.mutex);
    lane*                  l = process.free_lanes;
    if (l) process.free_lanes = l->next;
    else l = new lane;
    l->serial.store(++process.last_serial | std::uint64_t{1} << 63, std::memory_order_relaxed);
    return l;
}

inline void give_lane(lane* l) noexcept {
    std::scoped_lock const guard(process.mutex);
    l->serial.store(0, std::memory_order_relaxed);
    l->next            = process.free_lanes;
    process.free_lanes = l;
}

}  // namespace tenure::detail
