// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>
#include <string>
#include <type_traits>
#include <utility>

#include <dlfcn.h>

#include <tenure/device/nvml/error.hpp>
#include <tenure/error.hpp>

namespace tenure::detail {

/// The part of NVML that is used here. It is declared here because not every machine that builds has NVML's
/// header, and not every machine that runs has the library.
struct nvml_api {
    struct opaque_device;
    using device = opaque_device*;

    struct memory {
        unsigned long long total, free, used;
    };
    static constexpr int                insufficient_size = 7;
    static constexpr unsigned long long not_available     = ~0ull;

    int (*init)()                              = nullptr;
    int (*shutdown)()                          = nullptr;
    int (*count)(unsigned*)                    = nullptr;
    int (*handle)(unsigned, device*)           = nullptr;
    int (*memory_info)(device, memory*)        = nullptr;
    int (*processes)(device, unsigned*, void*) = nullptr;  ///< null: none of its versions is there
};

/// Loads and initialises the library, and shuts it down at the end.
class nvml_library {
public:
    /// Loads the library. Throws device_unavailable, and says why.
    explicit nvml_library(std::string const& path) : loaded_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        if (!loaded_) raise(error(errc::device_unavailable, "NVML: " + last_error()));
        struct guard {
            void* loaded;
            ~guard() {
                if (loaded) ::dlclose(loaded);
            }
        } failed{loaded_};
        require(path, "nvmlInit_v2", call.init);
        require(path, "nvmlShutdown", call.shutdown);
        require(path, "nvmlDeviceGetCount_v2", call.count);
        require(path, "nvmlDeviceGetHandleByIndex_v2", call.handle);
        require(path, "nvmlDeviceGetMemoryInfo", call.memory_info);
        for (char const* name : {"nvmlDeviceGetComputeRunningProcesses_v3",
                                 "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses"})
            if (!call.processes) find(name, call.processes);
        if (int const why = call.init())
            raise(error(errc::device_unavailable, path + ": nvmlInit_v2: " + nvml_category().message(why)));
        failed.loaded = nullptr;
    }
    ~nvml_library() {
        call.shutdown();
        ::dlclose(loaded_);
    }
    nvml_library(nvml_library const&)            = delete;
    nvml_library& operator=(nvml_library const&) = delete;

    nvml_api call;

private:
    template <class F>
    void find(char const* name, F& f) noexcept {
        f = reinterpret_cast<F>(::dlsym(loaded_, name));
    }
    template <class F>
    void require(std::string const& path, char const* name, F& f) {
        find(name, f);
        if (!f) raise(error(errc::device_unavailable, path + " is no NVML library of ours: it has no " + name));
    }
    static std::string last_error() {
        char const* const why = ::dlerror();  // NOLINT(concurrency-mt-unsafe): of this thread, in glibc
        return why ? why : "the library cannot be loaded";
    }

    void* loaded_;
};

}  // namespace tenure::detail
