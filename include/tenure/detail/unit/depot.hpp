// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <utility>

#include <unistd.h>

#include <tenure/detail/base/sizes.hpp>
#include <tenure/detail/blocks/unfreed.hpp>
#include <tenure/detail/unit/region.hpp>

namespace tenure::detail {

/// All slab memory that one registry has from one store, as runs of units. Free runs lie in segregated lists
/// (exact below 2 MiB, two for each power of two above; cf. Masmano et al., TLSF, 2004) and join their neighbours
/// through boundary tags (Knuth, vol. 1, 2.5). Threads keep small runs to themselves and come here rarely.
/// Thread-safe: one mutex, never held across a call of the store or of the system.
class depot {
public:
    static constexpr std::size_t huge_units = (std::size_t{2} << 20) >> unit_shift;

    depot(any_store& store, supply& whose, std::uint64_t decay_ns) noexcept
        : store_(store),
          supply_(whose),
          anonymous_(store_.capabilities().anonymous),
          decay_ns_(decay_ns),
          next_tick_(coarse_now() + decay_ns) {}
    depot(depot const&)            = delete;
    depot& operator=(depot const&) = delete;

    /// Hides all regions from read sections that begin later. Must come before unmap(). Nothing may live here, and
    /// no batch may use it.
    void mark_leaving() noexcept {
        for (region* r = regions_; r; r = r->next) detail::mark_leaving(r);
    }

    /// Gives all regions back to the store, after mark_leaving(), when no read section can see them. What the
    /// store refuses goes to `refused`, to be tried again.
    void unmap(unfreed& refused) noexcept {
        while (region* const r = regions_) {
            regions_ = r->next;
            std::error_code why;
            if (owned_block_list left = unmap_region(store_, r, why)) refused.add(std::move(left), why);
        }
        std::fill_n(free_, bins, nullptr);
        nonempty_ = 0;
        mapped_ = held_ = dirty_ = low_dirty_ = surplus_ = 0;
    }

    /// Returns a run of `n` units of one generation. From 2 MiB up it starts at a multiple of 2 MiB, and has huge
    /// pages if the system does. Rather than ask the system for more, by mapping it or by a first touch, it may be
    /// shorter, but not below `least` units or 2 MiB. Returns null if the store refused; see refusal(). Costs a
    /// lock and O(n) words.
    unit* take(std::size_t n, std::size_t least) noexcept {
        std::unique_lock guard(mutex_);
        fit              f = find_for(n, std::max(least, huge_units));
        unit*            u = cut(f, n);
        if (!u) {
            std::size_t const wanted = n << unit_shift;
            if (wanted > largest_run()) {
                refusal_ = errc::memory_full;
                return nullptr;
            }
            std::size_t const more =
                std::max({wanted, least_region(), std::min(mapped_ / 4, std::size_t{1} << 30)});
            guard.unlock();
            result<region*> r = map_region(store_, &supply_, more);
            if (!r) r = map_region(store_, &supply_, wanted);
            guard.lock();
            if (r) add(*r);
            else
                refusal_ = &r.error().category() == &error_category() ? static_cast<errc>(r.error().value())
                                                                      : errc::memory_full;
            u = cut(find(n), n);
            if (!u) return nullptr;
        }
        held_ += n;
        guard.unlock();

        prepare(u, n);
        tick();
        return u;
    }

    unit* take(std::size_t n) noexcept { return take(n, n); }

    /// Takes a run back. Its generation has been raised, so no handle points into it. Never fails. O(1).
    void put(unit* u, std::size_t n) noexcept {
        {
            std::scoped_lock const guard(mutex_);
            held_ -= n;
            dirty_ += n;
            insert(u, n);
        }
        tick();
    }

    /// Retires units whose generations are used up. Their addresses are never used again.
    void retire(unit* u, std::size_t n) noexcept {
        if (anonymous_) drop_pages(to_pointer(u->address), n << unit_shift);
        std::scoped_lock const guard(mutex_);
        held_ -= n;
        for (std::size_t i = 0; i < n; ++i) u[i].state = unit_state::unused;
    }

    /// Gives free memory back to the system, whole 2 MiB ranges only, up to `limit` bytes. Returns the bytes
    /// given.
    std::size_t trim(std::size_t limit) noexcept {
        std::size_t given = 0;
        if (!anonymous_) return given;
        while (given < limit) {
            std::unique_lock guard(mutex_);
            std::size_t      n = (limit - given) >> unit_shift;
            unit*            u = find_dirty(n);
            if (!u) break;
            held_ += n;
            guard.unlock();  // no other thread sees the run now

            bool const gone = drop_pages(to_pointer(u->address), n << unit_shift);

            guard.lock();
            held_ -= n;
            for (std::size_t i = 0; i < n; ++i) {
                if (gone && u[i].dirty) {
                    u[i].dirty = false;
                    --dirty_;
                }
            }
            insert(u, n);
            if (!gone) break;
            given += n << unit_shift;
        }
        return given;
    }

    /// Brings in memory for free units, one stretch of at most `most` bytes (a multiple of 2 MiB), unless `enough`
    /// bytes of free memory are ready. Returns the bytes brought in; 0: enough are ready. Errors: memory_full, and
    /// what the store reports.
    result<std::size_t> warm(std::size_t enough, std::size_t most) noexcept {
        std::size_t const units = (enough + unit_bytes - 1) >> unit_shift;
        std::unique_lock  guard(mutex_);
        if (dirty_ >= units) return std::size_t{0};
        std::size_t n = std::min((units - dirty_ + huge_units - 1) / huge_units * huge_units, most >> unit_shift);
        unit*       u = find_cold(n);
        if (!u) {
            std::size_t const more = std::max((units - dirty_) << unit_shift, least_region());
            guard.unlock();
            result<region*> const r = map_region(store_, &supply_, more);
            if (!r) return r.error();
            guard.lock();
            add(*r);
            u = find_cold(n);
            if (!u) return make_error_code(errc::memory_full);  // others have taken all of it
        }
        guard.unlock();  // no other thread sees the stretch now

        prepare(u, n);
        bool const ready = touch_pages(to_pointer(u->address), n << unit_shift);
        if (!ready && anonymous_) drop_pages(to_pointer(u->address), n << unit_shift);

        guard.lock();
        if (ready) dirty_ += n;
        else
            for (std::size_t i = 0; i < n; ++i) u[i].dirty = false;
        insert(u, n);
        if (!ready) return make_error_code(errc::memory_full);
        return n << unit_shift;
    }

    /// Has decay leave that many bytes, in runs that were taken and in free ones. 0: gives up what was set before;
    /// else the larger counts.
    void stay_warm(std::size_t bytes) noexcept {
        std::scoped_lock const guard(mutex_);
        warm_ = bytes ? std::max(warm_, bytes >> unit_shift) : 0;
    }

    struct figures {
        std::size_t mapped, held, dirty;
    };

    /// Locks for fork(). See fork_list.hpp.
    void lock_for_fork() noexcept { mutex_.lock(); }
    void unlock_after_fork() noexcept { mutex_.unlock(); }

    /// Calls f(unit, address) for all units that are not in free runs, by address in each region. The caller holds
    /// the lock.
    template <class F>
    void for_units_in_use(F f) noexcept {
        for (region* r = regions_; r; r = r->next)
            for (std::size_t i = 0; i < r->count;) {
                unit& u = r->units[i];
                if (u.state == unit_state::free) {
                    i += u.length;
                } else {
                    f(u, r->base + (i << unit_shift));
                    ++i;
                }
            }
    }

    /// Unlocks, in a forked child, the units in free runs. A thread that followed a stale handle may have locked
    /// one, and does not exist in the child. The fork itself takes the locks of all other units.
    void free_locks_of_free_units() noexcept {
        for (region* r = regions_; r; r = r->next)
            for (std::size_t i = 0; i < r->count; ++i) r->units[i].lock.forget_others();
    }

    /// Makes the handles into all runs that did not come back stale. No thread is left that could return these
    /// runs.
    void outdate() noexcept {
        std::scoped_lock const guard(mutex_);
        for_units_in_use([](unit& u, std::uintptr_t address) {
            if (u.state != unit_state::owned) return;
            zeroed_atomic<word_t>& word = table_word(address);
            word.store(whole_word(generation_of(word.load(std::memory_order_relaxed)) + 1),
                       std::memory_order_release);
            u.tracked.store(false, std::memory_order_release);  // which would tell of objects of older generations
        });
    }

    /// Returns why take() last returned null.
    errc refusal() const noexcept {
        std::scoped_lock const guard(mutex_);
        return refusal_;
    }

    /// Returns bytes: of address space, in runs that were taken, and in free runs that still have memory.
    figures usage() const noexcept {
        std::scoped_lock const guard(mutex_);
        return {mapped_, held_ << unit_shift, dirty_ << unit_shift};
    }

    /// Returns the bytes of the descriptors that were touched. Cost: a step a region.
    std::size_t table_bytes() const noexcept {
        std::scoped_lock const guard(mutex_);
        std::size_t            bytes = (held_ + dirty_) * sizeof(unit);
        for (region const* r = regions_; r; r = r->next)
            bytes += r->tracked.load(std::memory_order_relaxed) * (sizeof(tracking) + sizeof(unit_rest));
        return bytes;
    }

private:
    static constexpr std::size_t bins = 64;

    /// Returns the bytes of the longest run that may be taken. The descriptors of a run are 0.4 % of it, and
    /// taking it writes them: a run above 16 times the machine's memory would fill that with descriptors alone.
    static std::size_t largest_run() noexcept {
        static long const pages = ::sysconf(_SC_PHYS_PAGES);
        return std::min(static_cast<std::size_t>(std::max(pages, 1L)) * page_bytes() * 16, largest_object * 2);
    }

    /// Returns the bytes of the smallest region. Anonymous memory costs nothing until it is touched; a file's
    /// space may be taken at once.
    std::size_t least_region() const noexcept { return std::size_t{anonymous_ ? 64u : 2u} << 20; }

    void add(region* r) noexcept {
        r->next  = regions_;
        regions_ = r;
        mapped_ += r->count << unit_shift;
        r->units->address = r->base;
        insert(r->units, r->count);
    }

    static std::size_t bin_of(std::size_t n) noexcept {
        if (n < huge_units) return n - 1;
        unsigned const log = static_cast<unsigned>(std::bit_width(n)) - 1;
        return std::min(std::size_t{31} + 2 * (log - 5) + (n >> (log - 1) & 1), bins - 1);
    }

    struct fit {
        unit*       range = nullptr;
        std::size_t skip  = 0;
    };

    /// Returns a free range with room for `n` units, from the smallest lists first; if `ready`, where they have
    /// memory, as far as a short look tells.
    fit find(std::size_t n, bool ready = false) const noexcept {
        int looks = 64;
        for (std::uint64_t left = nonempty_ & ~std::uint64_t{0} << bin_of(n); left; left &= left - 1) {
            for (unit* u = free_[std::countr_zero(left)]; u; u = u->next) {
                std::size_t const skip = n < huge_units ? 0 : to_boundary(u);
                if (skip + n > u->length) continue;
                if (!ready || is_ready({u, skip}, n)) return {u, skip};
                if (--looks == 0) return {};
            }
        }
        return {};
    }

    static bool is_ready(fit f, std::size_t n) noexcept {
        return f.range[f.skip].dirty && f.range[f.skip + n - 1].dirty;
    }

    /// Returns a free range for `n` units; or for fewer, from `least` on, where `n` would take more memory from the
    /// system.
    fit find_for(std::size_t& n, std::size_t least) const noexcept {
        fit const  whole   = find(n);
        auto const shorter = [&](bool ready) {
            for (std::size_t less = n; less >= least; less /= 2)
                if (fit const f = find(less, ready); f.range) {
                    n = less;
                    return f;
                }
            return whole;
        };
        if (!whole.range) return shorter(false);
        return n < huge_units || dirty_ < least || is_ready(whole, n) ? whole : shorter(true);
    }

    static std::size_t to_boundary(unit const* u) noexcept {
        return (huge_units - (u->address >> unit_shift) % huge_units) % huge_units;
    }

    /// Takes `n` units out of a range that find() returned. The rest of the range stays free.
    unit* cut(fit f, std::size_t n) noexcept {
        if (!f.range) return nullptr;
        std::size_t const length = f.range->length;
        unit* const       u      = f.range + f.skip;
        u->address               = f.range->address + (f.skip << unit_shift);
        erase(f.range);
        if (f.skip) link(f.range, f.skip);
        if (std::size_t const after = length - f.skip - n) {
            u[n].address = u->address + (n << unit_shift);
            link(u + n, after);
        }
        for (std::size_t i = 0; i < n; ++i) u[i].state = unit_state::owned;
        return u;
    }

    void insert(unit* u, std::size_t n) noexcept {
        if (u[-1].state == unit_state::free) {
            std::size_t const before = u[-1].length;
            erase(u - before);
            u -= before;
            n += before;
        }
        if (u[n].state == unit_state::free) {
            std::size_t const after = u[n].length;
            erase(u + n);
            n += after;
        }
        link(u, n);
        low_dirty_ = std::min(low_dirty_, dirty_);
    }

    void link(unit* u, std::size_t n) noexcept {
        std::size_t const b = bin_of(n);
        u->state = u[n - 1].state = unit_state::free;
        u->length = u[n - 1].length = static_cast<std::uint32_t>(n);
        u->prev                     = nullptr;
        u->next                     = free_[b];
        if (u->next) u->next->prev = u;
        free_[b] = u;
        nonempty_ |= std::uint64_t{1} << b;
    }

    void erase(unit* u) noexcept {
        std::size_t const b = bin_of(u->length);
        if (u->next) u->next->prev = u->prev;
        (u->prev ? u->prev->next : free_[b]) = u->next;
        if (!free_[b]) nonempty_ &= ~(std::uint64_t{1} << b);
    }

    /// Takes out the next whole 2 MiB ranges that are free and have memory, at most `n` units.
    unit* find_dirty(std::size_t& n) noexcept {
        std::size_t const most = n / huge_units * huge_units;
        for (std::uint64_t left = nonempty_ & ~std::uint64_t{0} << bin_of(huge_units); left; left &= left - 1) {
            for (unit* u = free_[std::countr_zero(left)]; u; u = u->next) {
                for (std::size_t i = to_boundary(u); i + huge_units <= u->length; i += huge_units) {
                    std::size_t run = 0;
                    while (
                        run < most && i + run + huge_units <= u->length &&
                        std::any_of(u + i + run, u + i + run + huge_units, [](unit const& x) { return x.dirty; }))
                        run += huge_units;
                    if (!run) continue;
                    n = run;
                    return cut({u, i}, n);
                }
            }
        }
        return nullptr;
    }

    /// Takes out a stretch of free units without memory, at most `n`, from the ranges that find() looks at first.
    /// It ends at a multiple of 2 MiB, or consists of such, if it can.
    unit* find_cold(std::size_t& n) noexcept {
        for (std::uint64_t left = nonempty_; left; left &= left - 1) {
            for (unit* u = free_[std::countr_zero(left)]; u; u = u->next) {
                std::size_t const length = u->length;
                std::size_t       begin  = 0;
                while (begin < length && u[begin].dirty) ++begin;
                if (begin == length) continue;
                std::size_t const in_huge = (begin + huge_units - to_boundary(u)) % huge_units;
                std::size_t const most    = in_huge ? std::min(n, huge_units - in_huge) : n;
                std::size_t       run     = 1;
                while (run < most && begin + run < length && !u[begin + run].dirty) ++run;
                if (run > huge_units) run -= run % huge_units;
                n = run;
                return cut({u, begin}, n);
            }
        }
        return nullptr;
    }

    /// Prepares a run for its new owner, outside the lock: one generation, one head, no leftovers.
    void prepare(unit* u, std::size_t n) noexcept {
        zeroed_atomic<word_t>* const words = &table_word(u->address);

        std::size_t was_dirty = 0, was_huge = 0;
        word_t      newest = 0;
        for (std::size_t i = 0; i < n; ++i) {
            newest = std::max(newest, words[i].load(std::memory_order_relaxed));
            was_dirty += u[i].dirty;
            was_huge += u[i].huge;
            u[i].dirty = true;
            u[i].head.store(u, std::memory_order_relaxed);
        }
        for (std::size_t i = 0; i < n; ++i) words[i].store(newest, std::memory_order_relaxed);
        u->length = static_cast<std::uint32_t>(n);
        if (anonymous_ && n >= huge_units && was_huge < n) {
            ask_huge_pages(to_pointer(u->address), n << unit_shift);
            for (std::size_t i = 0; i < n; ++i) u[i].huge = true;
        }
        if (was_dirty) {
            std::scoped_lock const guard(mutex_);
            dirty_ -= was_dirty;
            low_dirty_ = std::min(low_dirty_, dirty_);
        }
    }

    /// Decay: memory that stayed free through a whole period is surplus and goes back to the system, a few MiB at
    /// each visit, so that no caller pays for all of it.
    void tick() noexcept {
        if (!anonymous_) return;
        constexpr std::size_t a_visit = std::size_t{8} << 20;
        std::size_t           give    = 0;
        {
            std::scoped_lock const guard(mutex_);
            if (dirty_ < huge_units) return;
            std::uint64_t const now = coarse_now();
            if (now >= next_tick_) {
                next_tick_ = now + decay_ns_;
                surplus_   = low_dirty_ << unit_shift;
                low_dirty_ = dirty_;
            }
            std::size_t const have = held_ + dirty_;
            give                   = std::min({surplus_, a_visit, (have - std::min(have, warm_)) << unit_shift});
            surplus_ -= give;
        }
        if (give >= huge_units << unit_shift) trim(give);
    }

    any_store&         store_;
    supply&            supply_;
    bool const         anonymous_;
    mutable std::mutex mutex_;
    errc               refusal_ = errc::memory_full;
    region*            regions_ = nullptr;
    unit*              free_[bins]{};
    std::uint64_t      nonempty_  = 0;
    std::size_t        mapped_    = 0;
    std::size_t        held_      = 0;  ///< units
    std::size_t        dirty_     = 0;  ///< free units with memory
    std::size_t        low_dirty_ = 0;  ///< the least that `dirty_` has been in this period
    std::size_t        surplus_   = 0;
    std::size_t        warm_      = 0;  ///< units, held or dirty, that decay leaves
    std::uint64_t      decay_ns_;
    std::uint64_t      next_tick_;
};

}  // namespace tenure::detail
