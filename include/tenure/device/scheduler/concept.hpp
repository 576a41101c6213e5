// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tenure {

/// Identifies a device by the number that its driver, or the source of readings, gives it.
struct device_id {
    std::uint32_t number = 0;

    friend auto operator<=>(device_id, device_id) = default;
};

/// Stands for a device where there is none.
inline constexpr device_id host_memory{static_cast<std::uint32_t>(-1)};

inline std::string to_string(device_id d) {
    return d == host_memory ? "host memory" : "device " + std::to_string(d.number);
}

/// Identifies a process that uses devices by the number that the source of readings gives it: a pid for NVML. 0 is
/// none.
struct process_id {
    std::uint64_t value = 0;

    explicit    operator bool() const noexcept { return value != 0; }
    friend auto operator<=>(process_id, process_id) = default;
};

/// Counts what one job uses of its device. The code that gives the job memory counts, and schedulers read, so they
/// need not look for the job in the driver's list of processes. Thread-safe.
///
/// used() is never more than what the job really has, because what it needs beyond that is reserved. So count what
/// the job gets afterwards, and what it gives back before.
class job_meter {
public:
    /// Counts `bytes` that the job has got.
    void add(std::size_t bytes) noexcept {
        std::size_t const now  = taken_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
        std::size_t       most = peak_.load(std::memory_order_relaxed);
        while (most < now && !peak_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {}
    }

    /// Announces that the job may give back up to `bytes`. Call end_return() later, with the same figure.
    void begin_return(std::size_t bytes) noexcept { leaving_.fetch_add(bytes, std::memory_order_acq_rel); }
    /// Ends a begin_return() of `bytes`, of which `returned` were given back.
    void end_return(std::size_t bytes, std::size_t returned) noexcept {
        taken_.fetch_sub(returned, std::memory_order_relaxed);
        leaving_.fetch_sub(bytes, std::memory_order_release);
    }

    /// Counts `bytes` that the job gives back.
    void take(std::size_t bytes) noexcept { taken_.fetch_sub(bytes, std::memory_order_relaxed); }

    /// Ends the job. Nothing is added after this, and peak() is what the job needed.
    void end() noexcept { ended_.store(true, std::memory_order_release); }

    bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
    /// Returns the most bytes that the job had at once.
    std::size_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }
    /// Returns the bytes that the job has now, without those that it may be giving back.
    std::size_t used() const noexcept {
        // Load this first: what has left `leaving_` by then is off `taken_` too.
        std::size_t const leaving = leaving_.load(std::memory_order_acquire);
        std::size_t const taken   = taken_.load(std::memory_order_relaxed);
        return taken - std::min(taken, leaving);
    }

private:
    std::atomic<std::size_t> taken_{0}, leaving_{0}, peak_{0};
    std::atomic<bool>        ended_{false};
};

/// A job to be placed.
struct job_request {
    std::string_view kind{};     ///< jobs of one kind need about the same; the scheduler copies the text
    std::size_t      bytes = 0;  ///< of device memory, as declared; 0: not known
    process_id       process{};  ///< the process that will run it, if it is known yet

    /// Tells what the job uses, if this process hands out its memory.
    std::shared_ptr<job_meter const> meter{};
};

/// Says which device a job should go to. May be called from several threads at once.
template <class S>
concept device_scheduler = requires(S& s, job_request const& r) {
    // Returns nullopt if no device is fit now; a later call decides as if this one had not been made. Returns
    // host_memory if there is no device and the job may go there. A placed job counts until it ends: as its meter
    // says, or as the scheduler says for processes.
    { s.pick(r) } -> std::same_as<std::optional<device_id>>;
};

}  // namespace tenure
