// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <system_error>

#include <tenure/detail/base/config.hpp>
#include <tenure/error.hpp>

namespace tenure {

namespace detail {

/// The category of the codes that NVML calls return; their values are NVML's own.
class TENURE_SHARED nvml_category_type final : public std::error_category {
public:
    static constexpr int unknown = 999;

    char const* name() const noexcept override { return "nvml"; }

    std::string message(int code) const override {
        switch (code) {
        case 0: return "success";
        case 1: return "not initialized";
        case 2: return "invalid argument";
        case 3: return "not supported by the device";
        case 4: return "no permission";
        case 6: return "not found";
        case 7: return "insufficient size";
        case 8: return "a power cable is not attached";
        case 9: return "the NVIDIA driver is not loaded";
        case 10: return "the device does not answer in time";
        case 11: return "an interrupt of the device is not handled";
        case 12: return "the NVML library is not found";
        case 13: return "the driver does not know this function: it is older than its library";
        case 15: return "the device has fallen off its bus: it must be reset";
        case 16: return "the device must be reset";
        case 17: return "the operating system or a cgroup blocks the device";
        case 18: return "the driver and its library are of different versions: reboot after an update";
        case 19: return "in use";
        case 20: return "out of memory";
        default: return "NVML error " + std::to_string(code);
        }
    }
};

}  // namespace detail

/// Returns the category of the codes that NVML returns.
inline std::error_category const& nvml_category() noexcept {
    return detail::immortal<detail::nvml_category_type>();
}

}  // namespace tenure
