// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenure/device/scheduler/concept.hpp>
#include <tenure/device/scheduler/estimate.hpp>
#include <tenure/device/scheduler/memory_source.hpp>

namespace tenure::detail {

/// A job on the device where it was placed.
struct placed_job {
    using time = std::chrono::steady_clock::time_point;

    device_id                        device{};
    process_id                       process{};  ///< none, and no meter: not claimed yet
    std::shared_ptr<job_meter const> meter{};
    time                             placed{};
    std::uint64_t                    serial = 0;
    job_kinds::value_type*           kind   = nullptr;
    std::size_t                      need   = 0;
    std::optional<std::size_t>       used{};    ///< at the last reading
    std::size_t                      seen = 0;  ///< the most at any reading; a meter knows it better

    std::size_t peak() const noexcept { return meter ? meter->peak() : seen; }

    /// Returns the bytes that the job needs and has not allocated yet. A job whose use nobody tells is taken to
    /// allocate within `allocates_within`.
    std::size_t reserved(time now, std::chrono::nanoseconds allocates_within) const noexcept {
        if (used) return need - std::min(need, *used);
        return now - placed < allocates_within ? need : 0;
    }
};

/// Memory for a job and its kind, taken before it is known whether the job goes anywhere, so that placing cannot
/// fail.
struct unplaced_job {
    explicit unplaced_job(job_request const& r) : job(1), declared(r.bytes) {
        job.front().process = r.process;
        job.front().meter   = r.meter;
        job_kinds one;
        kind = one.extract(one.try_emplace(std::string(r.kind)).first);
    }

    std::list<placed_job> job;
    job_kinds::node_type  kind;
    std::size_t           declared;
};

/// Keeps all jobs that were placed and have not ended, and what was learned from those that have. Not thread-safe.
class job_book {
public:
    using time = placed_job::time;

    /// The state with which a reading will be compared.
    struct question {
        std::vector<process_id>                            processes{};
        std::vector<std::pair<std::uint64_t, std::size_t>> metered{};  ///< serial, bytes in use
        std::uint64_t                                      last = 0;   ///< serial of the last job
    };

    job_book(estimate_options how, std::chrono::nanoseconds allocates_within) noexcept
        : how_(how), allocates_within_(allocates_within) {}

    /// Returns the bytes that a job of this kind is taken to need. A running job that has passed the estimate
    /// counts as seen already.
    std::size_t estimate(std::string_view kind, std::size_t declared) const {
        auto const found = kinds_.find(kind);
        if (found == kinds_.end()) return need_estimate().bytes(declared, how_);
        need_estimate seen = found->second.seen;
        if (!declared) declared = found->second.declared;
        std::size_t need = seen.bytes(declared, how_);
        for (placed_job const& j : jobs_) {
            if (j.kind != &*found || j.peak() <= need) continue;
            seen.observe(j.peak());
            need = seen.bytes(declared, how_);
        }
        return need;
    }

    /// Places a job: it counts on the device from now on. The job that its process had before ends.
    void place(unplaced_job& fresh, device_id device, std::size_t need, time now) noexcept {
        placed_job& j = fresh.job.front();
        if (j.process) end(j.process);
        j.kind = &*kinds_.insert(std::move(fresh.kind)).position;
        if (fresh.declared) j.kind->second.declared = fresh.declared;
        j.device = device;
        j.need   = need;
        j.placed = now;
        j.serial = ++last_serial_;
        jobs_.splice(jobs_.end(), fresh.job);
    }

    /// Gives a process the oldest job of that kind that was placed on the device without one, and ends the job
    /// that the process had. Returns false, and changes nothing, if there is no such job.
    bool claim(process_id id, device_id device, std::string_view kind) noexcept {
        auto const j = std::ranges::find_if(jobs_, [&](placed_job const& x) {
            return !x.process && !x.meter && x.device == device && x.kind->first == kind;
        });
        if (j == jobs_.end()) return false;
        end(id);
        j->process = id;
        j->serial  = ++last_serial_;
        return true;
    }

    /// Ends the job of a process. Returns false if it has none, or one that is newer than `last`.
    bool end(process_id id, std::uint64_t last = ~std::uint64_t{0}) noexcept {
        auto const j = std::ranges::find(jobs_, id, &placed_job::process);
        if (!id || j == jobs_.end() || j->serial > last) return false;
        end(j);
        return true;
    }

    /// Ends jobs whose meters say that they are over, and jobs that nobody claimed in time.
    void sweep(time now) noexcept {
        for (auto j = jobs_.begin(); j != jobs_.end();) {
            bool const lapsed = !j->process && !j->meter && now - j->placed >= allocates_within_;
            bool const over   = lapsed || (j->meter && j->meter->ended());
            j                 = over ? end(j) : std::next(j);
        }
    }

    std::size_t reserved(device_id device, time now) const noexcept {
        std::size_t sum = 0;
        for (placed_job const& j : jobs_)
            if (j.device == device) sum += std::min(j.reserved(now, allocates_within_), ~sum);
        return sum;
    }

    std::size_t count(device_id device) const noexcept {
        return static_cast<std::size_t>(std::ranges::count(jobs_, device, &placed_job::device));
    }

    question ask() const {
        question q{.last = last_serial_};
        q.metered.reserve(jobs_.size());
        for (placed_job const& j : jobs_) {
            if (j.process) q.processes.push_back(j.process);
            if (j.meter) q.metered.emplace_back(j.serial, j.meter->used());
        }
        return q;
    }

    void apply(question const& asked, memory_reading const& reading) noexcept {
        for (placed_job& j : jobs_)
            if (!j.meter && j.process) look_for(j, reading);
        // Memory that is taken or given back during a reading may or may not show in it. The lesser figure
        // reserves more.
        auto before = asked.metered.begin();
        for (placed_job& j : jobs_) {
            if (!j.meter) continue;
            while (before != asked.metered.end() && before->first < j.serial) ++before;
            bool const was_asked = before != asked.metered.end() && before->first == j.serial;
            j.used               = was_asked ? std::min(before->second, j.meter->used()) : 0;
        }
        for (process_id const p : reading.ended) end(p, asked.last);
    }

    job_kinds const& kinds() const noexcept { return kinds_; }

    void observe(std::string_view kind, std::size_t bytes) {
        kinds_.try_emplace(std::string(kind)).first->second.seen.observe(bytes);
    }

private:
    using iterator = std::list<placed_job>::iterator;

    /// Ends a job. A job that was not seen to use anything teaches nothing: it may not have been read in time.
    iterator end(iterator j) noexcept {
        if (j->peak() > 0) j->kind->second.seen.observe(j->peak());
        return jobs_.erase(j);
    }

    /// Finds what a job uses. A process may be listed several times; if one figure is not known, the sum is not.
    static void look_for(placed_job& j, memory_reading const& reading) noexcept {
        auto const at = std::ranges::find(reading.devices, j.device, &device_reading::device);
        if (at == reading.devices.end()) return;
        std::optional<std::vector<process_use>> const& all = at->processes;
        if (!all) return;
        std::size_t sum = 0;
        for (process_use const& u : *all) {
            if (u.process != j.process) continue;
            if (!u.bytes) return;
            sum += std::min(*u.bytes, ~sum);
        }
        j.used = sum;
        j.seen = std::max(j.seen, sum);
    }

    estimate_options const         how_;
    std::chrono::nanoseconds const allocates_within_;
    job_kinds                      kinds_{};
    std::list<placed_job>          jobs_{};  ///< those with meters are ordered by serial
    std::uint64_t                  last_serial_ = 0;
};

}  // namespace tenure::detail
