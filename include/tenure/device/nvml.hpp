// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <tenure/device/nvml/processes.hpp>
#include <tenure/device/scheduler/memory_source.hpp>

namespace tenure {

namespace detail {

/// Returns whether a process is over. A process that nobody has waited for yet counts as over, because its memory
/// is gone by then.
inline bool has_ended(process_id p) noexcept {
    auto const pid = static_cast<pid_t>(p.value);
    if (pid <= 0 || static_cast<std::uint64_t>(pid) != p.value) return false;  // not a pid, so nothing is known
    auto const fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (fd < 0) return errno == ESRCH || (errno == ENOSYS && ::kill(pid, 0) != 0 && errno == ESRCH);
    pollfd     over{fd, POLLIN, 0};
    bool const ended = ::poll(&over, 1, 0) == 1;
    ::close(fd);
    return ended;
}

}  // namespace detail

/// Reads free memory and processes of this machine's NVIDIA devices from their driver (NVML). The library is
/// loaded at run time, so nothing is needed to build (before glibc 2.34, link with -ldl). Devices have the numbers
/// of nvidia-smi. CUDA has the same numbers if CUDA_DEVICE_ORDER is PCI_BUS_ID and CUDA_VISIBLE_DEVICES hides
/// none. Processes are pids.
///
/// Copies share the library. Thread-safe. A reading costs two driver calls a device, some microseconds to a
/// millisecond each, and three system calls for each process that is asked about.
class nvml_memory {
public:
    /// Loads the library. Throws device_unavailable, and says why: there is no library, or no driver.
    explicit nvml_memory(std::string const& library = "libnvidia-ml.so.1")
        : nvml_(std::make_shared<detail::nvml_library>(library)) {
        unsigned count = 0;
        if (int const why = nvml_->call.count(&count))
            raise(error(errc::device_unavailable, library + ": nvmlDeviceGetCount_v2: " + message(why)));
        for (unsigned i = 0; i < count; ++i) {
            detail::nvml_api::device handle = nullptr;
            int const                why    = nvml_->call.handle(i, &handle);
            devices_.push_back({handle, why});
        }
    }

    /// Reads all devices, and which of `asked` are over. Of a device that does not answer nothing is known.
    result<memory_reading> operator()(std::span<process_id const> asked) const {
        memory_reading all;
        for (std::size_t i = 0; i < devices_.size(); ++i)
            all.devices.push_back(read({static_cast<std::uint32_t>(i)}, devices_[i]));
        for (process_id const p : asked)
            if (detail::has_ended(p)) all.ended.push_back(p);
        return all;
    }

    std::size_t device_count() const noexcept { return devices_.size(); }

private:
    struct known_device {
        detail::nvml_api::device handle;
        int                      why;  ///< why there is no handle; 0: there is one
    };

    device_reading read(device_id number, known_device const& d) const {
        device_reading           r{.device = number};
        detail::nvml_api::memory m{};
        if (int const why = d.why ? d.why : nvml_->call.memory_info(d.handle, &m)) {
            r.why = {why, nvml_category()};
            return r;
        }
        if (m.free != detail::nvml_api::not_available) r.free = m.free;
        if (m.total != detail::nvml_api::not_available) r.total = m.total;
        r.processes = detail::nvml_processes::read(nvml_->call, d.handle);
        return r;
    }

    static std::string message(int why) { return nvml_category().message(why); }

    std::shared_ptr<detail::nvml_library> nvml_;
    std::vector<known_device>             devices_;
};

static_assert(memory_source<nvml_memory>);

}  // namespace tenure
