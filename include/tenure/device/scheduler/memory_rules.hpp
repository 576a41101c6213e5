// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <tenure/device/scheduler/concept.hpp>
#include <tenure/device/scheduler/job_book.hpp>
#include <tenure/device/scheduler/low_water.hpp>
#include <tenure/device/scheduler/memory_source.hpp>

namespace tenure {

/// Options of memory_aware.
struct memory_aware_options {
    /// Free memory counts only after it has been free for this long, as far as readings show: each pick() and
    /// refresh() reads. 0: at once.
    std::chrono::nanoseconds available_for{0};

    /// The least time between two jobs that go to one device.
    std::chrono::nanoseconds pick_interval{0};

    /// A job whose use nobody can tell (no process was named, or the driver does not say) counts as reserved for
    /// this long; after that, its use is taken to show in what is free.
    std::chrono::nanoseconds allocates_within = std::chrono::minutes(5);

    estimate_options estimate{};

    /// Jobs go to host_memory if there is no device. Whether they fit there is not checked.
    bool host_if_no_device = false;
};

/// A scheduler's figures of a device, in bytes.
struct device_figures {
    device_id                  device{};
    std::optional<std::size_t> free{}, total{};  ///< as last read; nullopt: not known
    std::size_t                reserved = 0;     ///< for jobs that were placed there and have not allocated it yet
    std::size_t                jobs     = 0;     ///< jobs that were placed there and are not over
    std::optional<std::size_t> available{};      ///< to a job now; nullopt: not known, or no job may go there yet
    std::error_code            why{};            ///< why something is not known; empty if all is
};

/// A scheduler's figures of a kind of job.
struct kind_figures {
    std::string kind{};
    std::size_t observed = 0;  ///< jobs that are over and used something, or were told by observe()
    std::size_t estimate = 0;  ///< bytes that one more job is taken to need
};

/// A scheduler's figures of its devices and of all kinds of job.
struct scheduler_figures {
    std::vector<device_figures> devices{};
    std::vector<kind_figures>   kinds{};

    /// Returns a text for people: a line a device, then a line a kind.
    std::string to_text() const {
        std::string out;
        for (device_figures const& d : devices) {
            out += to_string(d.device) + ": ";
            out += d.free ? std::to_string(*d.free) : "unknown";
            if (d.total) out += " of " + std::to_string(*d.total);
            out +=
                " bytes free, " + std::to_string(d.reserved) + " reserved, " + std::to_string(d.jobs) + " jobs; ";
            out += d.available ? std::to_string(*d.available) + " available" : "not available yet";
            if (d.why) out += " (" + d.why.message() + ")";
            out += "\n";
        }
        for (kind_figures const& k : kinds)
            out += "kind \"" + k.kind + "\": " + std::to_string(k.estimate) + " bytes, from " +
                   std::to_string(k.observed) + " jobs\n";
        return out;
    }
};

namespace detail {

/// The rules of memory_aware, without a lock, a clock or a source: the caller has read what it passes in.
class memory_rules {
public:
    using time = std::chrono::steady_clock::time_point;

    explicit memory_rules(memory_aware_options const& o) noexcept
        : options_(o), jobs_(o.estimate, o.allocates_within) {}

    job_book& jobs() noexcept { return jobs_; }

    /// Returns the fitting device with the most available memory, the first of several; host_memory if no device
    /// is reported and the options allow it. The job counts there from now on. With nullopt nothing has changed.
    std::optional<device_id> pick(unplaced_job& job, time now) noexcept {
        std::size_t const need = jobs_.estimate(job.kind.key(), job.declared);
        watched*          best = nullptr;
        std::size_t       most = 0;
        for (watched& w : devices_) {
            std::optional<std::size_t> const has = available(w, now);
            if (!has || *has < need || (best && *has <= most)) continue;
            best = &w;
            most = *has;
        }
        if (best) best->picked = now;
        else if (!devices_.empty() || !options_.host_if_no_device || !listed_) return std::nullopt;
        device_id const where = best ? best->device : host_memory;
        jobs_.place(job, where, need, now);
        return where;
    }

    /// Uses these devices from now on, and no others that a source may report. What is known of devices that were
    /// there stays.
    void set_devices(std::span<device_id const> devices) {
        std::vector<watched> fresh;
        for (device_id const d : devices) {
            watched* const known = find(d);
            if (std::ranges::find(fresh, d, &watched::device) != fresh.end()) continue;
            fresh.push_back(known ? *known : watched{d, low_water(options_.available_for)});
        }
        devices_.swap(fresh);
        given_ = listed_ = true;
    }

    void apply(job_book::question const& asked, result<memory_reading> const& reading, time now) {
        if (!reading) {
            for (watched& w : devices_) w.last = device_reading{.device = w.device, .why = reading.error()};
            return;
        }
        if (!given_) add_reported(*reading);
        for (watched& w : devices_) {
            auto const at = std::ranges::find(reading->devices, w.device, &device_reading::device);
            if (at == reading->devices.end()) {
                w.last = {.device = w.device, .why = make_error_code(errc::device_unavailable)};
                continue;
            }
            w.last = {.device = w.device, .free = at->free, .total = at->total, .why = at->why};
            if (w.last.free) w.free.sample(now, *w.last.free);
        }
        jobs_.apply(asked, *reading);
    }

    scheduler_figures figures(time now) const {
        scheduler_figures all;
        for (watched const& w : devices_)
            all.devices.push_back({.device    = w.device,
                                   .free      = w.last.free,
                                   .total     = w.last.total,
                                   .reserved  = jobs_.reserved(w.device, now),
                                   .jobs      = jobs_.count(w.device),
                                   .available = available(w, now),
                                   .why       = w.last.why});
        for (auto const& [name, k] : jobs_.kinds())
            all.kinds.push_back({name, k.seen.count(), jobs_.estimate(name, 0)});
        return all;
    }

private:
    struct watched {
        device_id           device{};
        low_water           free;
        device_reading      last{};  ///< its `processes` is not kept
        std::optional<time> picked{};
    };

    /// Returns the bytes that a job may have; nullopt: nobody knows, or it is too soon.
    std::optional<std::size_t> available(watched const& w, time now) const noexcept {
        if (!w.last.free || (w.picked && now - *w.picked < options_.pick_interval)) return std::nullopt;
        std::optional<std::size_t> const least = w.free.least(now);
        if (!least) return std::nullopt;
        return *least - std::min(*least, jobs_.reserved(w.device, now));
    }

    watched* find(device_id d) noexcept {
        auto const at = std::ranges::find(devices_, d, &watched::device);
        return at == devices_.end() ? nullptr : &*at;
    }

    void add_reported(memory_reading const& reading) {
        for (device_reading const& r : reading.devices)
            if (!find(r.device)) devices_.push_back({r.device, low_water(options_.available_for)});
        listed_ = true;
    }

    memory_aware_options const options_;
    job_book                   jobs_;
    std::vector<watched>       devices_{};
    bool                       given_  = false;  ///< by set_devices()
    bool                       listed_ = false;  ///< it is known which devices there are, if any
};

}  // namespace detail
}  // namespace tenure
