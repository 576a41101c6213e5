// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "virtual_world.hpp"

/// The rules of memory_aware in the plainest way: it forgets nothing, and works everything out anew each time.
class model_scheduler {
public:
    using time  = virtual_world::time;
    using bytes = std::optional<std::size_t>;

    struct job {
        std::string                              kind;
        tenure::device_id                        device;
        tenure::process_id                       process;
        std::shared_ptr<tenure::job_meter const> meter;
        std::size_t                              need;
        time                                     placed;
        bytes                                    used{};
        std::size_t                              peak = 0;
    };

    model_scheduler(virtual_world const& w, tenure::memory_aware_options const& o) : world_(w), o_(o) {}

    /// What the world says now.
    void read() {
        sweep();
        if (world_.down) {
            for (auto& [id, d] : devices_) d.free.reset();
            return;
        }
        listed_ = true;
        for (tenure::device_reading const& r : world_.devices)
            if (!given_ && !devices_.contains(r.device)) devices_[r.device], order_.push_back(r.device);
        for (auto& [id, d] : devices_) d.free.reset();
        for (tenure::device_reading const& r : world_.devices) {
            auto const d = devices_.find(r.device);
            if (d == devices_.end() || !r.free) continue;
            d->second.free = r.free;
            d->second.samples.emplace_back(world_.now, *r.free);
        }
        for (job& j : jobs_) {
            if (j.meter) j.used = j.meter->used();
            else if (j.process) look_for(j);
        }
        std::erase_if(jobs_, [&](job const& j) {
            bool const over = j.process && std::ranges::count(world_.ended, j.process) > 0;
            if (over) learn(j);
            return over;
        });
    }

    void set_devices(std::vector<tenure::device_id> const& devices) {
        auto const before = std::exchange(devices_, {});
        order_.clear();
        for (tenure::device_id const d : devices) {
            if (devices_.contains(d)) continue;
            order_.push_back(d);
            devices_[d] = before.contains(d) ? before.at(d) : watched{};
        }
        given_ = listed_ = true;
    }

    std::size_t reserved(tenure::device_id d) const {
        std::size_t sum = 0;
        for (job const& j : jobs_) {
            if (j.device != d) continue;
            if (j.used) sum += j.need > *j.used ? j.need - *j.used : 0;
            else if (world_.now - j.placed < o_.allocates_within) sum += j.need;
        }
        return sum;
    }

    bytes available(tenure::device_id id) const {
        watched const& d = devices_.at(id);
        if (!d.free || d.samples.empty() || world_.now - d.samples.front().first < o_.available_for) return {};
        if (d.picked && world_.now - *d.picked < o_.pick_interval) return {};
        std::size_t least = d.samples.back().second;
        for (std::size_t i = 0; i + 1 < d.samples.size(); ++i)
            if (world_.now - d.samples[i + 1].first < o_.available_for)
                least = std::min(least, d.samples[i].second);
        std::size_t const gone = reserved(id);
        return least > gone ? least - gone : 0;
    }

    /// In floating point that rounds otherwise: it may be one off.
    std::size_t estimate(std::string const& kind, std::size_t declared) const {
        std::vector<std::size_t> seen;
        if (auto const k = observed_.find(kind); k != observed_.end()) seen = k->second;
        if (auto const k = declared_.find(kind); k != declared_.end() && !declared) declared = k->second;
        std::size_t need = estimate(seen, declared);
        for (job const& j : jobs_) {
            std::size_t const peak = j.meter ? j.meter->peak() : j.peak;
            if (j.kind != kind || peak <= need) continue;
            seen.push_back(peak);
            need = estimate(seen, declared);
        }
        return need;
    }

    std::optional<tenure::device_id> choose(std::size_t need) const {
        std::optional<tenure::device_id> best;
        if (order_.empty() && o_.host_if_no_device && listed_) return tenure::host_memory;
        for (tenure::device_id const d : order_) {
            bytes const has = available(d);
            if (has && *has >= need && (!best || *has > *available(*best))) best = d;
        }
        return best;
    }

    void place(job j, std::size_t declared) {
        if (j.process) end(j.process);
        if (auto const d = devices_.find(j.device); d != devices_.end()) d->second.picked = world_.now;
        if (declared) declared_[j.kind] = declared;
        observed_.try_emplace(j.kind);
        jobs_.push_back(std::move(j));
    }

    void add_process(tenure::process_id p, tenure::device_id d, std::string const& kind, std::size_t need,
                     std::size_t declared) {
        auto const j = std::ranges::find_if(
            jobs_, [&](job const& x) { return !x.process && !x.meter && x.device == d && x.kind == kind; });
        if (j != jobs_.end()) {
            job claimed     = *j;
            claimed.process = p;
            auto const old  = std::ranges::find(jobs_, p, &job::process);
            *j              = std::move(claimed);
            if (old != jobs_.end()) learn(*old), jobs_.erase(old);
            return;
        }
        auto const picked = devices_.contains(d) ? devices_.at(d).picked : std::nullopt;
        place({kind, d, p, nullptr, need, world_.now}, declared);
        if (devices_.contains(d)) devices_.at(d).picked = picked;  // for it was not
    }

    bool end(tenure::process_id p) {
        auto const j = std::ranges::find(jobs_, p, &job::process);
        if (j == jobs_.end()) return false;
        learn(*j);
        jobs_.erase(j);
        return true;
    }

    void observe(std::string const& kind, std::size_t n) { observed_[kind].push_back(n); }

    void sweep() {
        std::erase_if(jobs_, [&](job const& j) {
            bool const lapsed = !j.process && !j.meter && world_.now - j.placed >= o_.allocates_within;
            bool const over   = lapsed || (j.meter && j.meter->ended());
            if (over) learn(j);
            return over;
        });
    }

    std::vector<tenure::device_id> const& devices() const { return order_; }
    std::vector<job> const&               jobs() const { return jobs_; }

    std::map<std::string, std::vector<std::size_t>> const& observed() const { return observed_; }

private:
    struct watched {
        std::vector<std::pair<time, std::size_t>> samples{};
        bytes                                     free{};
        std::optional<time>                       picked{};
    };

    void learn(job const& j) {
        std::size_t const peak = j.meter ? j.meter->peak() : j.peak;
        if (peak > 0) observed_[j.kind].push_back(peak);
    }

    void look_for(job& j) const {
        for (tenure::device_reading const& r : world_.devices) {
            if (r.device != j.device || !r.processes) continue;
            bytes sum = 0;
            for (tenure::process_use const& u : *r.processes)
                if (u.process == j.process) sum = sum && u.bytes ? bytes(*sum + *u.bytes) : std::nullopt;
            if (!sum) return;
            j.used = sum;
            j.peak = std::max(j.peak, *sum);
        }
    }

    std::size_t estimate(std::vector<std::size_t> const& seen, std::size_t declared) const {
        if (seen.empty()) return declared ? declared : o_.estimate.unknown;
        auto const n    = static_cast<double>(seen.size());
        double     mean = 0, squares = 0;
        for (std::size_t const x : seen) mean += static_cast<double>(x) / n;
        for (std::size_t const x : seen) squares += std::pow(static_cast<double>(x) - mean, 2) / n;
        double learned = mean + o_.estimate.deviations * std::sqrt(squares);
        if (o_.estimate.by == tenure::estimate_options::rule::maximum)
            learned = static_cast<double>(*std::ranges::max_element(seen));
        return static_cast<std::size_t>(
            std::ceil(declared ? (static_cast<double>(declared) + n * learned) / (n + 1) : learned));
    }

    virtual_world const&                            world_;
    tenure::memory_aware_options const              o_;
    std::map<tenure::device_id, watched>            devices_;
    std::vector<tenure::device_id>                  order_;
    bool                                            given_  = false;
    bool                                            listed_ = false;
    std::vector<job>                                jobs_;
    std::map<std::string, std::vector<std::size_t>> observed_;
    std::map<std::string, std::size_t>              declared_;
};
