// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include <dlfcn.h>

#include <tenure/error.hpp>

// Named as in cuda.h, so that a program that also includes cuda.h has one type of each.
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;

namespace tenure::detail {

static_assert(sizeof(void*) == 8, "CUdeviceptr is another type on other machines");

using cuda_address = unsigned long long;  ///< CUdeviceptr
using cuda_context = CUctx_st*;
using cuda_stream  = CUstream_st*;
using cuda_event   = CUevent_st*;

/// The part of the CUDA driver API that is used here. It is loaded when the program runs, so nothing of CUDA is
/// needed to build the program, nor to run it elsewhere. The names are those that today's cuda.h resolves to:
/// those with _v2 take 64-bit sizes and addresses; those without date from before CUDA 3.2 (or 4.0, 11.0) and mean
/// something else.
struct cuda_driver {
    // The functions stand in the order of cuda.h. Each is what dlsym() finds under its name.
    int (*cuGetErrorName)(int, char const**);
    int (*cuInit)(unsigned);
    int (*cuDeviceGet)(int*, int);
    int (*cuDeviceGetCount)(int*);
    int (*cuDeviceGetName)(char*, int, int);
    int (*cuDevicePrimaryCtxRetain)(cuda_context*, int);
    int (*cuDevicePrimaryCtxRelease_v2)(int);
    int (*cuCtxPushCurrent_v2)(cuda_context);
    int (*cuCtxPopCurrent_v2)(cuda_context*);
    int (*cuMemGetInfo_v2)(std::size_t*, std::size_t*);
    int (*cuMemAlloc_v2)(cuda_address*, std::size_t);
    int (*cuMemFree_v2)(cuda_address);
    int (*cuMemHostAlloc)(void**, std::size_t, unsigned);
    int (*cuMemFreeHost)(void*);
    int (*cuMemcpyPeerAsync)(cuda_address, cuda_context, cuda_address, cuda_context, std::size_t, cuda_stream);
    int (*cuMemcpyHtoDAsync_v2)(cuda_address, void const*, std::size_t, cuda_stream);
    int (*cuMemcpyDtoHAsync_v2)(void*, cuda_address, std::size_t, cuda_stream);
    int (*cuMemcpyDtoDAsync_v2)(cuda_address, cuda_address, std::size_t, cuda_stream);
    int (*cuMemsetD8Async)(cuda_address, unsigned char, std::size_t, cuda_stream);
    int (*cuPointerGetAttribute)(void*, int, cuda_address);
    int (*cuStreamCreate)(cuda_stream*, unsigned);
    int (*cuStreamSynchronize)(cuda_stream);
    int (*cuStreamDestroy_v2)(cuda_stream);
    int (*cuEventCreate)(cuda_event*, unsigned);
    int (*cuEventRecord)(cuda_event, cuda_stream);
    int (*cuEventSynchronize)(cuda_event);
    int (*cuEventDestroy_v2)(cuda_event);

    void* library;
};

/// The cuGetErrorName() of the first driver that was loaded, for messages.
inline constinit std::atomic<int (*)(int, char const**)> cuda_error_name{nullptr};

/// Loads the driver, and never unloads it, because a driver has threads. Throws tenure::error, device_unavailable,
/// with what the loader says.
inline cuda_driver load_cuda(std::string const& path) {
    cuda_driver d{};
    d.library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!d.library) {
        char const* const why = ::dlerror();
        raise(error(errc::device_unavailable, std::string("CUDA: ") + (why ? why : path.c_str())));
    }
    auto const find = [&]<class F>(F*& f, char const* name) {
        f = reinterpret_cast<F*>(::dlsym(d.library, name));
        if (!f) raise(error(errc::device_unavailable, "CUDA: " + path + " has no " + name + "; it is too old"));
    };
#define TENURE_FIND(name) find(d.name, #name)
    TENURE_FIND(cuGetErrorName);
    TENURE_FIND(cuInit);
    TENURE_FIND(cuDeviceGet);
    TENURE_FIND(cuDeviceGetCount);
    TENURE_FIND(cuDeviceGetName);
    TENURE_FIND(cuDevicePrimaryCtxRetain);
    TENURE_FIND(cuDevicePrimaryCtxRelease_v2);
    TENURE_FIND(cuCtxPushCurrent_v2);
    TENURE_FIND(cuCtxPopCurrent_v2);
    TENURE_FIND(cuMemGetInfo_v2);
    TENURE_FIND(cuMemAlloc_v2);
    TENURE_FIND(cuMemFree_v2);
    TENURE_FIND(cuMemHostAlloc);
    TENURE_FIND(cuMemFreeHost);
    TENURE_FIND(cuMemcpyPeerAsync);
    TENURE_FIND(cuMemcpyHtoDAsync_v2);
    TENURE_FIND(cuMemcpyDtoHAsync_v2);
    TENURE_FIND(cuMemcpyDtoDAsync_v2);
    TENURE_FIND(cuMemsetD8Async);
    TENURE_FIND(cuPointerGetAttribute);
    TENURE_FIND(cuStreamCreate);
    TENURE_FIND(cuStreamSynchronize);
    TENURE_FIND(cuStreamDestroy_v2);
    TENURE_FIND(cuEventCreate);
    TENURE_FIND(cuEventRecord);
    TENURE_FIND(cuEventSynchronize);
    TENURE_FIND(cuEventDestroy_v2);
#undef TENURE_FIND
    decltype(d.cuGetErrorName) none = nullptr;
    cuda_error_name.compare_exchange_strong(none, d.cuGetErrorName);
    return d;
}

}  // namespace tenure::detail
