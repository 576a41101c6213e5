// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/spin_lock.hpp>
#include <tenure/detail/batch/limits.hpp>
#include <tenure/detail/batch/liveness.hpp>
#include <tenure/detail/batch/records.hpp>
#include <tenure/error.hpp>

namespace tenure::detail {

/// The batches that went before their end, expired or cancelled, and where their memory was, so that a thread that
/// comes too late learns why. Each unit and each record remembers the last of them; so however many go together,
/// all are known. The last 1,024 batches and the last 1,024 runs are known besides, even if others have had the
/// same units and records since. Older ones are just over, and their handles stale. So are those of objects in a
/// unit where other batches owned something, too, and of adopted objects. Looked at only where an error is made.

/// Packs what a unit or a record remembers: a generation of it, how often its holes were filled in that, and why
/// the batch went. 0: nothing.
constexpr std::uint64_t expiry_of(std::uint64_t generation, std::uint64_t passes, errc cause) noexcept {
    return generation << 16 | (passes & 255) << 8 | static_cast<std::uint64_t>(cause);
}

/// Returns the cause in `expiry` if that is of `generation`; else errc{}.
constexpr errc cause_in(std::uint64_t expiry, std::uint64_t generation) noexcept {
    return generation - (expiry >> 16) <= (expiry >> 8 & 255) ? static_cast<errc>(expiry & 255) : errc{};
}

class expiry_log {
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
    errc of_batch(std::uint64_t id) noexcept {
        if (!any_.load(std::memory_order_relaxed)) return {};
        std::scoped_lock const guard(lock_);
        for (batch const& b : batches_)
            if (b.id == id && id) return b.cause;
        return {};
    }

    /// Returns why the memory of an object went; errc{} if it is not in the log.
    errc of_object(raw_handle h) noexcept {
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

/// Returns why the batch with that id went before its end; errc{}: it did not, as far as is known.
TENURE_COLD inline errc expiry_of_batch(std::uint64_t id) noexcept {
    batch_record const* const b = record_of(id);
    errc const cause = b ? cause_in(b->expiry.load(std::memory_order_acquire), id >> record_bits) : errc{};
    return cause == errc{} ? expiries.of_batch(id) : cause;
}

/// Returns why a handle is stale; stale_handle if no other reason is known.
TENURE_COLD inline errc stale_because(raw_handle h) noexcept {
    if (!h.word) return errc::stale_handle;
    read_section const   here;
    std::uintptr_t const at = to_address(h.pointer);
    region* const        r  = find_region(at);
    errc cause = r ? cause_in(r->at(at)->expiry.load(std::memory_order_acquire), generation_of(h.word)) : errc{};
    if (cause == errc{}) cause = expiries.of_object(h);
    return cause == errc{} ? errc::stale_handle : cause;
}

/// Returns why nothing can be made in the batch with that id, which is over; batch_ended if no other reason is
/// known. `b`: its record, or null.
TENURE_COLD inline errc over_because(batch_record const* b, std::uint64_t id) noexcept {
    errc cause{};
    if (b && b->id.load(std::memory_order_acquire) == id) cause = b->cause.load(std::memory_order_acquire);
    if (cause == errc{}) cause = expiry_of_batch(id);
    return cause == errc{} ? errc::batch_ended : cause;
}

TENURE_COLD inline failure over_failure(std::uint64_t id) noexcept {
    return {.code = over_because(record_of(id), id), .id = id};
}

}  // namespace tenure::detail
