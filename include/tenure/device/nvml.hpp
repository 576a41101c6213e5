// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/loaded_library.hpp>
#include <tenure/device/scheduler/memory_source.hpp>
#include <tenure/error.hpp>

namespace tenure {

namespace detail {

/// The category of the codes that NVML calls return; their values are NVML's own.
class TENURE_SHARED nvml_category_type final : public std::error_category {
public:
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

namespace detail {

/// The part of NVML that is used here. It is declared here because not every machine that builds has NVML's
/// header, and not every machine that runs has the library.
class nvml_library : loaded_library {
public:
    struct opaque_device;
    using device = opaque_device*;

    struct memory {
        unsigned long long total, free, used;
    };
    static constexpr int                insufficient_size = 7;
    static constexpr unsigned long long not_available     = ~0ull;

    /// Loads and initialises the library. Throws device_unavailable, and says why.
    explicit nvml_library(std::string const& library) : loaded_library("NVML", library) {
        must(init(), "nvmlInit_v2");
    }
    ~nvml_library() { shutdown(); }

    /// Throws device_unavailable if `call` returned an error.
    void must(int code, char const* call) const {
        if (code == 0) return;
        refuse(call, nvml_category().message(code));
    }
    /// Throws device_unavailable: what `call` said.
    [[noreturn]] void refuse(std::string const& call, std::string const& said) const {
        raise(error(errc::device_unavailable, path + ": " + call + ": " + said));
    }

private:
    symbol function(char const* name) const {
        symbol const f = find(name);
        if (f.address) return f;
        raise(error(errc::device_unavailable, path + " is no NVML library of ours: it has no " + name));
    }
    symbol newest_processes() const noexcept {
        for (char const* name :
             {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"})
            if (symbol const f = find(name); f.address) return f;
        return find("nvmlDeviceGetComputeRunningProcesses");
    }

public:
    int (*init)()                              = function("nvmlInit_v2");
    int (*shutdown)()                          = function("nvmlShutdown");
    int (*count)(unsigned*)                    = function("nvmlDeviceGetCount_v2");
    int (*device_at)(unsigned, device*)        = function("nvmlDeviceGetHandleByIndex_v2");
    int (*memory_info)(device, memory*)        = function("nvmlDeviceGetMemoryInfo");
    int (*processes)(device, unsigned*, void*) = newest_processes();  ///< null: none of its versions is there
};

/// Lists the processes that have memory on a device; nullopt if the driver does not tell.
///
/// The description of a process has grown with drivers, also under one name of the function: 16, 24 or 32 bytes.
/// It begins with the pid and has at 8 what the process uses. To learn its size, the buffer for the driver is
/// filled with a pattern first: words that the driver does not write keep it.
inline std::optional<std::vector<process_use>> nvml_processes(nvml_library const& nvml, nvml_library::device d) {
    constexpr std::size_t   most_words = 4;
    constexpr std::uint64_t pattern    = 0xa5c3'96e1'5a3c'691e;  // no existing pid or size
    if (!nvml.processes) return std::nullopt;
    std::vector<std::uint64_t> words;
    constexpr unsigned         most  = 1u << 20;  // what the driver says is not to be trusted with our memory
    unsigned                   count = 0;
    for (unsigned room = 64;; room = std::max(count, room) * 2) {
        if (count > most || room > most) return std::nullopt;
        words.assign(room * most_words, pattern);
        count         = room;
        int const why = nvml.processes(d, &count, words.data());
        if (why == nvml_library::insufficient_size) continue;
        if (why != 0 || count > room) return std::nullopt;
        break;
    }
    std::vector<process_use> found;
    if (count == 0) return found;
    std::size_t written = words.size();
    while (written > 0 && words[written - 1] == pattern) --written;
    std::size_t const each = written / count;
    if (written % count != 0 || each < 2 || each > most_words) return std::nullopt;
    for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t pid = 0;
        std::memcpy(&pid, &words[i * each], sizeof pid);
        process_use&        p     = found.emplace_back(process_use{{pid}});
        std::uint64_t const bytes = words[i * each + 1];
        if (bytes != nvml_library::not_available && bytes != pattern) p.bytes = bytes;
    }
    return found;
}

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
        nvml_->must(nvml_->count(&count), "nvmlDeviceGetCount_v2");
        if (count > most_devices) nvml_->refuse("nvmlDeviceGetCount_v2", std::to_string(count) + " devices");
        for (unsigned i = 0; i < count; ++i) {
            known_device& d = devices_.emplace_back();
            d.why           = nvml_->device_at(i, &d.handle);
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
    static constexpr unsigned most_devices = 1024;  ///< of one machine; a driver that says more is not sound

    struct known_device {
        detail::nvml_library::device handle = nullptr;
        int                          why    = 0;  ///< why there is no handle; 0: there is one
    };

    device_reading read(device_id number, known_device const& d) const {
        device_reading               r{.device = number};
        detail::nvml_library::memory m{};
        if (int const why = d.why ? d.why : nvml_->memory_info(d.handle, &m)) {
            r.why = {why, nvml_category()};
            return r;
        }
        if (m.free != detail::nvml_library::not_available) r.free = m.free;
        if (m.total != detail::nvml_library::not_available) r.total = m.total;
        r.processes = detail::nvml_processes(*nvml_, d.handle);
        return r;
    }

    std::shared_ptr<detail::nvml_library> nvml_;
    std::vector<known_device>             devices_;
};

static_assert(memory_source<nvml_memory>);

}  // namespace tenure
