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

/// A device, by the number that its driver, or whoever reads its memory, gives it.
struct device_id {
    std::uint32_t number = 0;

    friend auto operator<=>(device_id, device_id) = default;
};

/// In place of a device where there is none.
inline constexpr device_id host_memory{static_cast<std::uint32_t>(-1)};

inline std::string to_string(device_id d) {
    return d == host_memory ? "host memory" : "device " + std::to_string(d.number);
}

/// A process that uses devices, by the number that the source of readings gives it: a pid, for NVML. 0 is none.
struct process_id {
    std::uint64_t value = 0;

    explicit    operator bool() const noexcept { return value != 0; }
    friend auto operator<=>(process_id, process_id) = default;
};

/// A job that is to be placed.
struct job_request {
    std::string_view kind{};     ///< jobs of one kind need about the same; copied
    std::size_t      bytes = 0;  ///< of device memory, as declared; 0: not known
    process_id       process{};  ///< that will run it, if that is known yet

    /// That tells what it uses, if its memory is handed out by this process.
    std::shared_ptr<job_meter const> meter{};
};

/// Says which device a job should go to. May be called from several threads at once.
template <class S>
concept device_scheduler = requires(S& s, job_request const& r) {
    // nullopt: none is fit for it now; a later call may say otherwise, and decides as if this one had not been.
    // host_memory: there is no device, and it may go there. Where it goes, it counts until it ends: by its meter,
    // or as the scheduler says of processes.
    { s.pick(r) } -> std::same_as<std::optional<device_id>>;
};

}  // namespace tenure
