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

/// Any callable that tells the time. It is called with no lock held, by each thread that picks.
template <class C>
concept steady_time = std::move_constructible<C> && requires(C& clock) {
    { clock() } -> std::same_as<std::chrono::steady_clock::time_point>;
};

struct steady_now {
    std::chrono::steady_clock::time_point operator()() const noexcept { return std::chrono::steady_clock::now(); }
};

/// Where a job fits: where the memory that its kind is taken to need (see estimate_options) is free, has been for
/// `available_for`, and is not reserved by jobs that were placed there and have not allocated it yet. Of these
/// devices, the one with the most.
///
/// Free memory is read from `Source` (nvml_memory, store_memory, a lambda) whenever pick() is called; call
/// refresh() from a timer if `available_for` is to mean more than from one pick to the next. Devices are those that
/// the source reports, unless set_devices() says which.
///
/// A job ends, and counts no more, when its meter says so, when remove_process() or the source says that its
/// process is over, or when its process gets another one. The most it was seen to use is what its kind learns.
///
/// Thread-safe: one lock, which is not held while the source or the clock is called. A pick costs what reading
/// costs, and for each job that runs some 50 ns, and 10 more for each device; a batch that ends costs nothing here.
template <memory_source Source, steady_time Clock = steady_now>
class memory_aware {
    using time = std::chrono::steady_clock::time_point;

public:
    explicit memory_aware(Source source, memory_aware_options const& options = {}, Clock clock = {})
        : source_(std::move(source)), clock_(std::move(clock)), rules_(options) {}

    /// nullopt: it fits nowhere now, or nobody knows. Throws std::bad_alloc and what the source throws; then, too,
    /// nothing has changed but what is known of free memory.
    std::optional<device_id> pick(job_request const& r) {
        detail::unplaced_job job(r);
        return read_and([&](time now) { return rules_.pick(job, now); });
    }

    /// Reads the source. Throws as pick().
    void refresh() {
        read_and([](time) {});
    }

    /// From now on these, and no others, whatever the source reports; the wait of those that were not there begins.
    /// Jobs on devices that are gone run on.
    void set_devices(std::span<device_id const> devices) {
        std::scoped_lock const guard(mutex_);
        rules_.set_devices(devices);
    }
    void set_devices(std::initializer_list<device_id> devices) { set_devices(std::span(devices)); }

    /// A process has begun: the oldest job of that kind that was picked for the device without naming its process;
    /// if there is none, one that nobody picked, which needs `bytes` (0: as its kind). What it did before has
    /// ended.
    void add_process(process_id process, device_id device, std::string_view kind, std::size_t bytes = 0) {
        detail::unplaced_job   job({.kind = kind, .bytes = bytes, .process = process});
        time const             read = clock_();
        std::scoped_lock const guard(mutex_);
        time const             now = at(read);
        if (!rules_.jobs().claim(process, device, kind))
            rules_.jobs().place(job, device, rules_.jobs().estimate(kind, bytes), now);
    }

    /// It is over. False: there was none.
    bool remove_process(process_id process) {
        std::scoped_lock const guard(mutex_);
        return rules_.jobs().end(process);
    }

    /// A job of that kind used at most so much; for what was measured elsewhere, or in an earlier run. Throws
    /// std::bad_alloc.
    void observe(std::string_view kind, std::size_t bytes) {
        std::scoped_lock const guard(mutex_);
        rules_.jobs().observe(kind, bytes);
    }

    /// What a job of that kind that declares `bytes` is taken to need.
    std::size_t estimate(std::string_view kind, std::size_t bytes = 0) {
        time const             now = clock_();
        std::scoped_lock const guard(mutex_);
        at(now);
        return rules_.jobs().estimate(kind, bytes);
    }

    /// As last read. Throws std::bad_alloc.
    scheduler_figures figures() {
        time const             now = clock_();
        std::scoped_lock const guard(mutex_);
        return rules_.figures(at(now));
    }

private:
    /// Reads the source, and does the rest under the lock. Of readings that overtake each other the one that began
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

    /// What ended until now counts no more. Under the lock. Threads may come in another order than they looked at
    /// the clock.
    time at(time now) noexcept {
        latest_ = std::max(latest_, now);
        rules_.jobs().sweep(latest_);
        return latest_;
    }

    Source               source_;
    Clock                clock_;
    std::mutex           mutex_;  ///< of what follows
    detail::memory_rules rules_;
    time                 latest_  = time::min();
    std::uint64_t        begun_   = 0;
    std::uint64_t        applied_ = 0;
};

}  // namespace tenure
