// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <tenure/device/scheduler/job_meter.hpp>

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
