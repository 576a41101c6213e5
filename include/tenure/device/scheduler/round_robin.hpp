// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <tenure/device/scheduler/concept.hpp>

namespace tenure {

/// Picks one device after the other, whatever is free there, from the first on. Thread-safe.
class round_robin {
public:
    explicit round_robin(std::span<device_id const> devices) : devices_(devices.begin(), devices.end()) {}
    round_robin(std::initializer_list<device_id> devices) : devices_(devices) {}

    /// Returns the next device, nullopt if there is none.
    std::optional<device_id> pick(job_request const&) noexcept {
        std::scoped_lock const guard(mutex_);
        if (devices_.empty()) return std::nullopt;
        return devices_[next_++ % devices_.size()];
    }

    /// Uses these devices from now on, beginning with the first.
    void set_devices(std::span<device_id const> devices) {
        std::vector<device_id> fresh(devices.begin(), devices.end());
        std::scoped_lock const guard(mutex_);
        devices_.swap(fresh);
        next_ = 0;
    }
    void set_devices(std::initializer_list<device_id> devices) { set_devices(std::span(devices)); }

private:
    std::mutex             mutex_;
    std::vector<device_id> devices_;
    std::size_t            next_ = 0;
};

static_assert(device_scheduler<round_robin>);

}  // namespace tenure
