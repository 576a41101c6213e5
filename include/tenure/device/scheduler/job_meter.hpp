// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace tenure {

/// What one job uses of its device, by the count of whoever hands memory out to it. Schedulers read it: a job that
/// has one need not be looked for in the driver's list of processes. Thread-safe.
///
/// used() is at no moment more than what is really taken, for what a job needs beyond it is reserved: so count what
/// it gets afterwards, and what it gives back before.
class job_meter {
public:
    job_meter()                            = default;
    job_meter(job_meter const&)            = delete;
    job_meter& operator=(job_meter const&) = delete;

    /// The job has so many bytes more.
    void add(std::size_t bytes) noexcept {
        std::size_t const now  = taken_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
        std::size_t       most = peak_.load(std::memory_order_relaxed);
        while (most < now && !peak_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {}
    }

    /// It may be about to give so many back; then end_return() with the same figure, and how many of them it did.
    void begin_return(std::size_t bytes) noexcept { leaving_.fetch_add(bytes, std::memory_order_acq_rel); }
    void end_return(std::size_t bytes, std::size_t returned) noexcept {
        taken_.fetch_sub(returned, std::memory_order_relaxed);
        leaving_.fetch_sub(bytes, std::memory_order_release);
    }

    /// It gives so many back.
    void take(std::size_t bytes) noexcept { taken_.fetch_sub(bytes, std::memory_order_relaxed); }

    /// Nothing is added after this, and peak() is what the job needed.
    void end() noexcept { ended_.store(true, std::memory_order_release); }

    bool        ended() const noexcept { return ended_.load(std::memory_order_acquire); }
    std::size_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }
    std::size_t used() const noexcept {
        std::size_t const leaving =
            leaving_.load(std::memory_order_acquire);  // first: then what it left is off, too
        std::size_t const taken = taken_.load(std::memory_order_relaxed);
        return taken - std::min(taken, leaving);
    }

private:
    std::atomic<std::size_t> taken_{0}, leaving_{0}, peak_{0};
    std::atomic<bool>        ended_{false};
};

}  // namespace tenure
