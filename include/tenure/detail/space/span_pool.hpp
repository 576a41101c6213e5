// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/memory_tools.hpp>
#include <tenure/detail/base/os.hpp>
#include <tenure/detail/base/spin_lock.hpp>
#include <tenure/detail/space/slot_span.hpp>

namespace tenure::detail {

/// Empty spans, with their memory, for reuse. They go back to the system by decay: the spans that no list needed
/// through a whole period (the least number that were free at any moment of it), a few at each visit, so that no
/// caller pays for all. Thread-safe; no lock is held across a system call.
class span_pool {
public:
    explicit span_pool(std::uint64_t decay_ns) noexcept
        : decay_ns_(decay_ns), next_period_(coarse_now() + decay_ns) {}
    ~span_pool() { trim(); }
    span_pool(span_pool const&)            = delete;
    span_pool& operator=(span_pool const&) = delete;

    /// Returns an empty span that is not cut, on huge pages if asked for and if the system has them. Returns null
    /// if memory is full.
    slot_span* take(bool huge) noexcept {
        slot_span* s = pop();
        if (!s) s = map();
        if (s && huge && !s->huge) {
            ask_huge_pages(s->memory, slot_span::bytes);
            s->huge = true;
        }
        return s;
    }

    /// Takes back a list of empty spans, linked by `next`.
    void put(slot_span* list) noexcept {
        if (!list) return;
        std::scoped_lock const guard(lock_);
        while (slot_span* const s = list) {
            list    = s->next;
            s->next = free_;
            free_   = s;
            count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        }
    }

    /// Gives free spans to the system, `most` at the most. Returns their bytes.
    std::size_t trim(std::size_t most = ~std::size_t{0}) noexcept {
        std::size_t n = 0;
        while (slot_span* const s = n < most ? pop() : nullptr) {
            unmap(s);
            ++n;
        }
        return n * slot_span::bytes;
    }

    /// Gives up to four surplus spans to the system. To be called now and then.
    void tick() noexcept {
        constexpr std::size_t a_visit = 4;
        if (count_.load(std::memory_order_relaxed) == 0) return;
        std::uint64_t const now  = coarse_now();
        std::size_t         give = 0;
        {
            std::scoped_lock const guard(lock_);
            if (now >= next_period_) {
                next_period_ = now + decay_ns_;
                surplus_     = least_;
                least_       = count_.load(std::memory_order_relaxed);
            }
            give = std::min(surplus_, a_visit);
            surplus_ -= give;
        }
        trim(give);
    }

    /// The lock that fork() takes. See fork_list.hpp.
    spin_lock& lock() noexcept { return lock_; }

private:
    slot_span* pop() noexcept {
        std::scoped_lock const guard(lock_);
        slot_span* const       s = free_;
        if (!s) return nullptr;
        free_               = s->next;
        std::size_t const n = count_.load(std::memory_order_relaxed) - 1;
        count_.store(n, std::memory_order_relaxed);
        least_ = std::min(least_, n);
        return s;
    }

    TENURE_COLD static slot_span* map() noexcept {
        auto* const s = new (std::nothrow) slot_span;
        if (!s) return nullptr;
        s->memory = static_cast<std::byte*>(reserve_aligned(slot_span::bytes, slot_span::bytes));
        if (!s->memory) {
            delete s;
            return nullptr;
        }
        slab_mapped(s->memory, slot_span::bytes);
        run_given_back(s->memory, slot_span::bytes);
        return s;
    }

    static void unmap(slot_span* s) noexcept {
        slab_unmapped(s->memory, slot_span::bytes);
        unpoison(s->memory, slot_span::bytes);  // the next user of these addresses knows nothing of us
        give_back(s->memory, slot_span::bytes);
        delete s;
    }

    spin_lock                lock_;
    slot_span*               free_ = nullptr;
    std::atomic<std::size_t> count_{0};     ///< changed under the lock
    std::size_t              least_   = 0;  ///< the least that count_ has been in this period
    std::size_t              surplus_ = 0;
    std::uint64_t const      decay_ns_;
    std::uint64_t            next_period_;
};

}  // namespace tenure::detail
