// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <tenure/device/scheduler/memory_rules.hpp>

namespace tenure {

/// A callable that tells the time. Each thread that picks calls it, with no lock held.
template <class C>
concept steady_time = std::move_constructible<C> && requires(C& clock) {
    { clock() } -> std::same_as<std::chrono::steady_clock::time_point>;
};

/// Tells the time of the steady clock.
struct steady_now {
    std::chrono::steady_clock::time_point operator()() const noexcept { return std::chrono::steady_clock::now(); }
};

/// Picks a device where a job fits: where the memory that its kind is taken to need (see estimate_options) is
/// free, has been free for `available_for`, and is not reserved by jobs placed there that have not allocated it
/// yet. Of several, it picks the one with the most such memory.
///
/// Each pick() reads free memory from `Source` (nvml_memory, store_memory, a lambda). Call refresh() from a timer
/// if `available_for` is to mean more than from one pick to the next. The devices are those that the source
/// reports, unless set_devices() says which.
///
/// A job ends, and counts no more, when its meter says so, when remove_process() or the source says that its
/// process is over, or when its process gets another job. Its kind learns the most that the job was seen to use.
///
/// Thread-safe: one lock, not held while the source or the clock is called. A pick costs a reading, and for each
/// running job some 50 ns, and 10 ns more for each device. The end of a batch costs nothing here.
template <memory_source Source, steady_time Clock = steady_now>
class memory_aware {
    using time = std::chrono::steady_clock::time_point;

public:
    explicit memory_aware(Source source, memory_aware_options const& options = {}, Clock clock = {})
        : source_(std::move(source)), clock_(std::move(clock)), rules_(options) {}

    /// Picks a device for a job, which counts there from now on. Returns nullopt if it fits nowhere now, or
    /// nothing is known. Throws std::bad_alloc and what the source throws. After nullopt or an exception only what
    /// is known of free memory has changed.
    std::optional<device_id> pick(job_request const& r) {
        detail::unplaced_job job(r);
        return read_and([&](time now) { return rules_.pick(job, now); });
    }

    /// Reads the source. Throws std::bad_alloc and what the source throws.
    void refresh() {
        read_and([](time) {});
    }

    /// Uses these devices from now on, and no others, whatever the source reports. For new ones the wait for
    /// `available_for` begins. Jobs on devices that are gone run on.
    void set_devices(std::span<device_id const> devices) {
        std::scoped_lock const guard(mutex_);
        rules_.set_devices(devices);
    }
    void set_devices(std::initializer_list<device_id> devices) { set_devices(std::span(devices)); }

    /// Records that a process has begun. It runs the oldest job of that kind that was picked for the device
    /// without a process; else a job that nobody picked, which needs `bytes` (0: as its kind). The process's job
    /// before that ends.
    void add_process(process_id process, device_id device, std::string_view kind, std::size_t bytes = 0) {
        detail::unplaced_job   job({.kind = kind, .bytes = bytes, .process = process});
        time const             read = clock_();
        std::scoped_lock const guard(mutex_);
        time const             now = at(read);
        if (!rules_.jobs().claim(process, device, kind))
            rules_.jobs().place(job, device, rules_.jobs().estimate(kind, bytes), now);
    }

    /// Records that a process is over. Returns false if it had no job.
    bool remove_process(process_id process) {
        std::scoped_lock const guard(mutex_);
        return rules_.jobs().end(process);
    }

    /// Records the most bytes that a job of that kind used, as measured elsewhere or in an earlier run. Throws
    /// std::bad_alloc.
    void observe(std::string_view kind, std::size_t bytes) {
        std::scoped_lock const guard(mutex_);
        rules_.jobs().observe(kind, bytes);
    }

    /// Returns the bytes that a job of that kind which declares `bytes` is taken to need.
    std::size_t estimate(std::string_view kind, std::size_t bytes = 0) {
        time const             now = clock_();
        std::scoped_lock const guard(mutex_);
        at(now);
        return rules_.jobs().estimate(kind, bytes);
    }

    /// Returns the figures as of the last reading. Throws std::bad_alloc.
    scheduler_figures figures() {
        time const             now = clock_();
        std::scoped_lock const guard(mutex_);
        return rules_.figures(at(now));
    }

private:
    /// Reads the source, and does the rest under the lock. If readings overtake each other, the one that began
    /// last counts.
    template <class F>
    auto read_and(F rest) {
        detail::job_book::question asked;
        std::uint64_t              number = 0;
        time const                 read   = clock_();
        {
            std::scoped_lock const guard(mutex_);
            at(read);
            asked  = rules_.jobs().ask();
            number = ++begun_;
        }
        result<memory_reading> const reading = source_(std::span<process_id const>(asked.processes));
        std::scoped_lock const       guard(mutex_);
        time const                   now = at(read);
        if (number > applied_) {
            applied_ = number;
            rules_.apply(asked, reading, now);
        }
        return rest(now);
    }

    /// Ends jobs that are over by `now`, and returns the latest time seen. Call it under the lock. Threads may
    /// come in another order than they looked at the clock.
    time at(time now) noexcept {
        latest_ = std::max(latest_, now);
        rules_.jobs().sweep(latest_);
        return latest_;
    }

    Source               source_;
    Clock                clock_;
    std::mutex           mutex_;  ///< guards what follows
    detail::memory_rules rules_;
    time                 latest_  = time::min();
    std::uint64_t        begun_   = 0;
    std::uint64_t        applied_ = 0;
};

}  // namespace tenure
