// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>

#include <tenure/detail/unit/depot.hpp>

namespace tenure::detail {

/// One thread's stock of small free runs of one depot, so that opening a batch takes no lock. Runs that other
/// threads end come back to it, because this thread's core still has that memory in its cache (as in mimalloc:
/// Leijen et al., APLAS 2019).
struct run_cache {
    static constexpr std::size_t bins = 5;              ///< runs of 1, 2, 4, 8 and 16 units
    static constexpr std::size_t most = 16 * (1 << 4);  ///< 256 units, 16 MiB; more go to the depot

    static bool        fits(std::size_t n) noexcept { return n <= 16 && (n & (n - 1)) == 0; }
    static std::size_t bin_of(std::size_t n) noexcept { return static_cast<std::size_t>(__builtin_ctzl(n)); }

    unit*                    runs[bins]{};
    std::atomic<std::size_t> units{0};
    std::atomic<unit*>       returned{nullptr};  ///< by other threads
    std::atomic<std::size_t> returned_units{0};
    std::atomic<bool>        taken{true};  ///< a thread uses it
    run_cache*               next = nullptr;
};

/// Calls f(run, units) for each run that other threads returned, and removes it from the cache.
template <class F>
void take_returned(run_cache& c, F f) noexcept {
    unit* u = c.returned.exchange(nullptr, std::memory_order_acquire);
    while (u) {
        unit* const       after = u->next;
        std::size_t const n     = u->length;
        f(u, n);
        c.returned_units.fetch_sub(n, std::memory_order_relaxed);
        u = after;
    }
}

/// Moves the runs that other threads returned into the stock.
TENURE_COLD inline void collect_returned(run_cache& c) noexcept {
    take_returned(c, [&](unit* u, std::size_t n) {
        unit*& first = c.runs[run_cache::bin_of(n)];
        u->next      = first;
        first        = u;
        c.units.store(c.units.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    });
}

/// Gives a run back to another thread's cache. Returns false if that has enough, or if its thread has ended.
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

/// Gives the runs that other threads returned to the depot. The cache may be another thread's, which may be busy
/// elsewhere for long.
inline void give_back_returned(depot& to, run_cache& c) noexcept {
    take_returned(c, [&](unit* u, std::size_t n) { to.put(u, n); });
}

inline void give_back_runs(depot& to, run_cache& c) noexcept {
    give_back_returned(to, c);
    for (std::size_t b = 0; b < run_cache::bins; ++b) {
        while (unit* u = c.runs[b]) {
            c.runs[b] = u->next;
            to.put(u, std::size_t{1} << b);
        }
    }
    c.units.store(0, std::memory_order_relaxed);
}

}  // namespace tenure::detail
