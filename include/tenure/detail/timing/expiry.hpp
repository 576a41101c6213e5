// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/spin_lock.hpp>
#include <tenure/detail/life/reclaim.hpp>
#include <tenure/detail/objects/expiry.hpp>
#include <tenure/error.hpp>

namespace tenure::detail {

/// The batches that went before their end, expired or cancelled, and where their memory was, so that a thread that
/// comes too late learns why. Each unit and each record remembers the last of them; so however many go together,
/// all are known. The last 1,024 batches and the last 1,024 runs are known besides, even if others have had the
/// same units and records since. Older ones are just over, and their handles stale. So are those of objects in a
/// unit where other batches owned something, too, and of adopted objects. Looked at only where an error is made.

class expiry_log final : public expiry_front {
public:
    void add_batch(std::uint64_t id, errc cause) noexcept {
        std::scoped_lock const guard(lock_);
        batches_[next_batch_++ % size] = {id, cause};
        any_.store(true, std::memory_order_relaxed);
    }
    void add_run(std::uintptr_t begin, std::size_t bytes, word_t generation, errc cause) noexcept {
        std::scoped_lock const guard(lock_);
        runs_[next_run_++ % size] = {begin, begin + bytes, generation, cause};
    }

    /// Returns why a batch went; errc{} if it is not in the log.
    errc of_batch(std::uint64_t id) noexcept override {
        if (!any_.load(std::memory_order_relaxed)) return {};
        std::scoped_lock const guard(lock_);
        for (batch const& b : batches_)
            if (b.id == id && id) return b.cause;
        return {};
    }

    /// Returns why the memory of an object went; errc{} if it is not in the log.
    errc of_object(raw_handle h) noexcept override {
        std::uintptr_t const   at = to_address(h.pointer);
        std::scoped_lock const guard(lock_);
        for (run const& r : runs_)
            if (at - r.begin < r.end - r.begin && generation_of(h.word) == r.generation) return r.cause;
        return {};
    }

    /// Takes and returns the lock at a fork: see fork_list.hpp.
    void lock_for_fork() noexcept { lock_.lock(); }
    void unlock_after_fork() noexcept { lock_.unlock(); }

private:
    static constexpr std::size_t size = 1024;
    struct batch {
        std::uint64_t id;
        errc          cause;
    };
    struct run {
        std::uintptr_t begin, end;
        word_t         generation;
        errc           cause;
    };

    std::atomic<bool>       any_{false};
    spin_lock               lock_;
    std::size_t             next_batch_ = 0, next_run_ = 0;
    std::array<batch, size> batches_{};
    std::array<run, size>   runs_{};
};
TENURE_SHARED inline constinit expiry_log expiries{};

/// Calls f(ago) for each line in which a share has something: so many generations ago it was given out.
template <class F>
void for_ages(place p, share const& s, F f) {
    tracking const& t   = p.track();
    auto const      now = static_cast<std::uint32_t>(generation_of(p.word().load(std::memory_order_relaxed)));
    for (std::size_t i = 0; i < words_a_unit; ++i)
        for (std::uint32_t left = lines_any_in(s.objects[i].load(std::memory_order_relaxed)); left;
             left &= left - 1) {
            std::size_t const   k     = static_cast<std::size_t>(std::countr_zero(left));
            std::uint32_t const given = t.pass[i * lines_a_word + k].load(std::memory_order_relaxed);
            f(fresh_lines(t, i) >> k & 1 ? 0 : now - given);
        }
}

/// Notes in a unit why what `b` owned there went before its end. Notes nothing if other batches own something of
/// the same generations, for which the reason would be wrong. Called under the unit's lock, or while the unit is
/// not tracked.
inline void note_expiry(place p, batch_record const& b, errc cause) noexcept {
    batch_record const* const home   = p.head()->home.load(std::memory_order_relaxed);
    word_t const              now    = generation_of(p.word().load(std::memory_order_relaxed));
    std::uint32_t             newest = last_pass, oldest = 0;
    if (home == &b) newest = 0;
    if (p.u->tracked.load(std::memory_order_relaxed)) {
        share const* const first = p.rest().shares.load(std::memory_order_relaxed);
        if (home == &b) oldest = p.rest().passes - p.rest().first_pass;
        for (share const* s = first; s; s = s->next_here)
            if (s->owner == &b)
                for_ages(p, *s, [&](std::uint32_t ago) {
                    newest = std::min(newest, ago);
                    oldest = std::max(oldest, ago);
                });
        bool mixed = false;
        for (share const* s = first; s; s = s->next_here)
            if (s->owner != &b)
                for_ages(p, *s, [&](std::uint32_t ago) { mixed = mixed || (newest <= ago && ago <= oldest); });
        if (mixed) return;
    }
    if (newest > oldest) return;
    p.rest().expiry.store(expiry_of(now - newest, oldest - newest, cause), std::memory_order_release);
}

/// Notes why a batch goes before its end, for all that is its own.
inline void log_batch(batch_record& b, errc cause) noexcept {
    expiry_logged.store(&expiries, std::memory_order_release);
    std::uint64_t const id = b.id.load(std::memory_order_relaxed);
    expiries.add_batch(id, cause);
    b.expiry.store(expiry_of(id >> record_bits, 0, cause), std::memory_order_release);
    auto const log = [&](unit* u) {
        for (int n = 0; u; u = u->next, ++n) {
            std::uintptr_t const base = u->address;
            for (std::size_t i = 0; i < u->length; ++i) {
                place const      p{region_of(base), u + i, base + (i << unit_shift)};
                std::unique_lock guard(p.u->lock, std::defer_lock);
                if (p.u->tracked.load(std::memory_order_acquire)) guard.lock();
                note_expiry(p, b, cause);
            }
            if (n < 256 && !u->guarded.load(std::memory_order_relaxed))
                expiries.add_run(base, std::size_t{u->length} << unit_shift,
                                 generation_of(table_word(base).load(std::memory_order_relaxed)), cause);
        }
    };
    for_lanes(b, [&](lane const& l) { log(l.runs); });
    log(b.large);
}

}  // namespace tenure::detail
