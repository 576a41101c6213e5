// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/base/os.hpp>
#include <tenure/detail/base/zeroed_atomic.hpp>
#include <tenure/detail/unit/region.hpp>
#include <tenure/detail/unit/write_fault.hpp>

namespace tenure::detail {

/// Saves what slab memory held at a checkpoint, which makes it read-only. A thread that writes to a page faults,
/// and the handler copies the page before it changes. So a checkpoint costs what is changed, not what is there.

/// A set of granules of one unit.
struct granule_mask {
    std::uint32_t bits[words_a_unit];

    bool has(std::uintptr_t a) const noexcept {
        return bits[(a & (unit_bytes - 1)) >> (granule_shift + 5)] >> (a >> granule_shift & 31) & 1;
    }

    /// Removes the granules in [begin, end), which lies in one unit.
    void drop(std::uintptr_t begin, std::uintptr_t end) noexcept {
        change(begin, end, [](std::uint32_t had, std::uint32_t in) { return had & ~in; });
    }
    /// Removes all granules but those in [begin, end), which lies in one unit.
    void keep(std::uintptr_t begin, std::uintptr_t end) noexcept {
        change(begin, end, [](std::uint32_t had, std::uint32_t in) { return had & in; });
    }

private:
    template <class F>
    void change(std::uintptr_t begin, std::uintptr_t end, F f) noexcept {
        std::size_t const first = (begin & (unit_bytes - 1)) >> granule_shift;
        std::size_t const last  = first + ((end - begin) >> granule_shift);
        for (std::size_t i = 0; i < words_a_unit; ++i) {
            std::size_t const from = std::clamp(first, i * 32, i * 32 + 32) - i * 32;
            std::size_t const to   = std::clamp(last, i * 32, i * 32 + 32) - i * 32;
            bits[i] = f(bits[i], static_cast<std::uint32_t>((std::uint64_t{1} << to) - (std::uint64_t{1} << from)));
        }
    }
};

TENURE_OPTIMISTIC inline void copy_granules(void* to, void const* from, granule_mask const& which) noexcept {
    auto* const                out = static_cast<std::uint64_t*>(to);
    auto const volatile* const in  = static_cast<std::uint64_t const volatile*>(from);
    for (std::size_t i = 0; i < words_a_unit; ++i)
        for (std::uint32_t bits = which.bits[i]; bits; bits &= bits - 1) {
            std::size_t const g = i * granules_a_word + static_cast<std::size_t>(__builtin_ctz(bits));
            out[g]              = in[g];
        }
}

enum class page_state : std::uint8_t {
    clean,   ///< as at the checkpoint, and read-only
    saving,  ///< a thread is copying it
    saved,   ///< copied; may still be read-only
};

/// Counts the mappings that were cut. Each change of protection cuts one in up to three, and a process may have
/// 65,530. The more there are, the more pages are saved at a time.
TENURE_SHARED inline constinit std::atomic<std::size_t> cut_mappings{0};

inline std::size_t pages_at_a_time() noexcept {
    std::size_t const cuts = cut_mappings.load(std::memory_order_relaxed);
    return cuts < 6'000 ? 1 : cuts < 10'000 ? 16 : cuts < 14'000 ? 256 : std::size_t{1} << 20;
}

/// A stretch of one batch's memory at one checkpoint.
struct saved_area {
    std::uintptr_t                begin, end;       ///< what is restored; multiples of 8
    zeroed_atomic<page_state>*    pages = nullptr;  ///< null: all of it was copied at once
    std::byte*                    copy  = nullptr;  ///< of the whole pages
    std::unique_ptr<granule_mask> mask{};           ///< the granules to restore; null: all
    std::size_t                   cuts = 0;

    std::uintptr_t first() const noexcept { return begin; }  // a unit's begin, so a page's
    std::uintptr_t last() const noexcept {                   // the end, rounded up to whole pages
        return (end + page_bytes() - 1) & ~(page_bytes() - 1);
    }
    std::size_t page_count() const noexcept { return (last() - first()) / page_bytes(); }
    bool        has(std::uintptr_t a) const noexcept { return begin <= a && a < end && (!mask || mask->has(a)); }
    page_state  state(std::size_t i) const noexcept { return pages[i].load(std::memory_order_acquire); }
    void*       page(std::size_t i) const noexcept { return to_pointer(first() + i * page_bytes()); }
    std::byte*  copy_of(std::size_t i) const noexcept { return copy + i * page_bytes(); }

    /// Copies page `i`. No other thread may be using it.
    void save_now(std::size_t i) noexcept {
        copy_unchecked(copy_of(i), page(i), page_bytes());
        pages[i].store(page_state::saved, std::memory_order_release);
    }

    /// Calls f(first, end) for each stretch of saved pages.
    template <class F>
    void for_saved(F f) const noexcept {
        for (std::size_t i = 0, n = page_count(); i < n;) {
            if (state(i) != page_state::saved) {
                ++i;
                continue;
            }
            std::size_t const from = i;
            while (i < n && state(i) == page_state::saved) ++i;
            f(from, i);
        }
    }
};

/// Saves pages in the fault handler, so with nothing but loads, stores, mprotect and sched_yield.
class page_saver {
public:
    /// Saves the page at `a` that a thread writes to. Returns true if the write may be tried again.
    static bool on_write(std::uintptr_t a) noexcept {
        int const saved = errno;
        inside.fetch_add(1);
        saved_area* const area = rest_at(a).undo.load();
        bool const        done = area && area->pages && area->first() <= a && a < area->last() && save(*area, a);
        inside.fetch_sub(1);
        errno = saved;
        return done;
    }

    /// Waits until no thread looks at areas that no unit names any more.
    static void await_all() noexcept {
        while (inside.load() > 0) ::sched_yield();
    }

    /// Forgets, in forked children, threads that were in the handler. No lock is held.
    static void be_ready_for_forks() noexcept {
        write_fault::be_ready_for_forks();
        add_for_ever(at_fork);
    }

    /// In a forked child, saves pages that a lost thread was copying. They are still unchanged and read-only.
    static void finish(saved_area& x) noexcept {
        for (std::size_t i = 0; left && x.pages && i < x.page_count(); ++i)
            if (x.state(i) == page_state::saving) x.save_now(i);
    }

    TENURE_SHARED inline static constinit std::atomic<std::size_t> inside{0};  ///< threads in on_write()

private:
    TENURE_SHARED inline static constinit bool left = false;  ///< in a child: a thread was inside

    TENURE_SHARED inline static constinit fork_node at_fork{
        .mend = [](void*) noexcept { left = inside.exchange(0) > 0; }};

    static bool open(saved_area const& x, std::size_t lo, std::size_t hi) noexcept {
        return ::syscall(SYS_mprotect, x.page(lo), (hi - lo) * page_bytes(), PROT_READ | PROT_WRITE) == 0;
    }

    static bool save(saved_area& x, std::uintptr_t a) noexcept {
        static thread_local constinit std::uintptr_t last_opened = 0;

        std::size_t const i = (a - x.first()) / page_bytes();
        for (page_state now = x.state(i); now != page_state::clean || !claim(x, i); now = x.state(i)) {
            if (now == page_state::saved) {  // copied before; read-only for a checkpoint that is over
                bool const again = std::exchange(last_opened, a) == a;
                if (again) last_opened = 0;
                return !again && open(x, i, i + 1);
            }
            ::sched_yield();
        }
        last_opened = 0;
        return save_around(x, i, wanted(x, i)) || save_around(x, i, x.page_count());
    }

    static bool claim(saved_area& x, std::size_t i) noexcept {
        page_state clean = page_state::clean;
        return x.pages[i].compare_exchange_strong(clean, page_state::saving, std::memory_order_acq_rel);
    }

    /// Returns how many pages to save: as many as were written to right before, up to 16, because a thread that
    /// writes in a row goes on; at least pages_at_a_time().
    static std::size_t wanted(saved_area const& x, std::size_t i) noexcept {
        std::size_t before = 0;
        while (before < 16 && before < i && x.state(i - before - 1) == page_state::saved) ++before;
        return std::max(before, pages_at_a_time());
    }

    /// Saves up to `n` pages around page `i`, which is claimed or was saved in vain, and makes them writable.
    /// Returns false if the system refuses.
    static bool save_around(saved_area& x, std::size_t i, std::size_t n) noexcept {
        bool const        aligned = n > 16 || n == pages_at_a_time();
        std::size_t const begin   = aligned ? i / n * n : i;
        std::size_t const limit   = std::min(begin + n, x.page_count());
        std::size_t       lo = i, hi = i + 1;
        while (hi < limit && (x.state(hi) == page_state::saved || claim(x, hi))) ++hi;
        while (lo > begin && (x.state(lo - 1) == page_state::saved || claim(x, lo - 1))) --lo;
        for (std::size_t k = lo; k < hi; ++k)
            if (x.state(k) == page_state::saving) x.save_now(k);
        if (!open(x, lo, hi)) return false;  // a page could not be written to before this unless it was saved
        std::atomic_ref(x.cuts).fetch_add(1, std::memory_order_relaxed);
        cut_mappings.fetch_add(1, std::memory_order_relaxed);
        return true;
    }
};

}  // namespace tenure::detail
