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

namespace detail {

/// The devices of a scheduler that picks whatever is free there. Thread-safe.
class device_list {
public:
    explicit device_list(std::span<device_id const> devices) : devices_(devices.begin(), devices.end()) {}
    device_list(std::initializer_list<device_id> devices) : devices_(devices) {}

    /// Uses these devices from now on, and begins anew.
    void set_devices(std::span<device_id const> devices) {
        std::vector<device_id> fresh(devices.begin(), devices.end());
        std::scoped_lock const guard(mutex_);
        devices_.swap(fresh);
        picked_ = 0;
    }
    void set_devices(std::initializer_list<device_id> devices) { set_devices(std::span(devices)); }

protected:
    /// Returns the device number index(n, picked), of n after `picked` others; nullopt if there is none. Calls
    /// `index` under the lock.
    template <class F>
    std::optional<device_id> pick_by(F index) {
        std::scoped_lock const guard(mutex_);
        if (devices_.empty()) return std::nullopt;
        return devices_[index(devices_.size(), picked_++)];
    }

private:
    std::mutex             mutex_;
    std::vector<device_id> devices_;
    std::size_t            picked_ = 0;  ///< since the devices were set
};

}  // namespace detail

/// Picks one device after the other, whatever is free there, from the first on. Thread-safe.
class round_robin : public detail::device_list {
public:
    using device_list::device_list;

    /// Returns the next device, nullopt if there is none.
    std::optional<device_id> pick(job_request const&) noexcept {
        return pick_by([](std::size_t n, std::size_t picked) { return picked % n; });
    }
};

static_assert(device_scheduler<round_robin>);

/// Picks any device, each with the same probability, whatever is free there. `Engine` is given with its seed, so
/// that a run can be repeated. Thread-safe.
template <std::uniform_random_bit_generator Engine = std::mt19937_64>
class random : public detail::device_list {
public:
    random(std::span<device_id const> devices, Engine engine) : device_list(devices), engine_(std::move(engine)) {}
    random(std::initializer_list<device_id> devices, Engine engine)
        : device_list(devices), engine_(std::move(engine)) {}

    /// Returns a device, nullopt if there is none.
    std::optional<device_id> pick(job_request const&) {
        return pick_by([&](std::size_t n, std::size_t) {
            return std::uniform_int_distribution<std::size_t>(0, n - 1)(engine_);
        });
    }

private:
    Engine engine_;
};

static_assert(device_scheduler<random<>>);

}  // namespace tenure
