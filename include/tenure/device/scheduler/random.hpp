// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <tenure/device/scheduler/concept.hpp>

namespace tenure {

/// Picks any device, each with the same probability, whatever is free there. `Engine` is given with its seed, so
/// that a run can be repeated. Thread-safe.
template <std::uniform_random_bit_generator Engine = std::mt19937_64>
class random {
public:
    random(std::span<device_id const> devices, Engine engine)
        : devices_(devices.begin(), devices.end()), engine_(std::move(engine)) {}
    random(std::initializer_list<device_id> devices, Engine engine)
        : devices_(devices), engine_(std::move(engine)) {}

    /// Returns a device, nullopt if there is none.
    std::optional<device_id> pick(job_request const&) {
        std::scoped_lock const guard(mutex_);
        if (devices_.empty()) return std::nullopt;
        return devices_[std::uniform_int_distribution<std::size_t>(0, devices_.size() - 1)(engine_)];
    }

    /// Uses these devices from now on.
    void set_devices(std::span<device_id const> devices) {
        std::vector<device_id> fresh(devices.begin(), devices.end());
        std::scoped_lock const guard(mutex_);
        devices_.swap(fresh);
    }
    void set_devices(std::initializer_list<device_id> devices) { set_devices(std::span(devices)); }

private:
    std::mutex             mutex_;
    std::vector<device_id> devices_;
    Engine                 engine_;
};

static_assert(device_scheduler<random<>>);

}  // namespace tenure
