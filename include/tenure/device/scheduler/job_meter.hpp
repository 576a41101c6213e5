// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>

namespace tenure {

/// What one job uses of its device, by the count of whoever hands memory out to it. Schedulers read it: a job that
/// has one need not be looked for in the driver's list of processes. Thread-safe.
class job_meter {
public:
    job_meter()                            = default;
    job_meter(job_meter const&)            = delete;
    job_meter& operator=(job_meter const&) = delete;

    void add(std::size_t bytes) noexcept {
        std::size_t const now  = used_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
        std::size_t       most = peak_.load(std::memory_order_relaxed);
        while (most < now && !peak_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {}
    }
    void take(std::size_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }

    /// Nothing is added after this, and peak() is what the job needed.
    void end() noexcept { ended_.store(true, std::memory_order_release); }

    bool        ended() const noexcept { return ended_.load(std::memory_order_acquire); }
    std::size_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
    std::size_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }

private:
    std::atomic<std::size_t> used_{0}, peak_{0};
    std::atomic<bool>        ended_{false};
};

}  // namespace tenure
