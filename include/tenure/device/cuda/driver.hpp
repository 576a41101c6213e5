// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <system_error>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/loaded_library.hpp>
#include <tenure/error.hpp>
#include <tenure/result.hpp>

// Named as in cuda.h, so that a program that also includes cuda.h has one type of each.
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;

namespace tenure {

namespace detail {

static_assert(sizeof(void*) == 8, "CUdeviceptr is another type on other machines");

using cuda_address = unsigned long long;  ///< CUdeviceptr
using cuda_context = CUctx_st*;
using cuda_stream  = CUstream_st*;
using cuda_event   = CUevent_st*;

/// The cuGetErrorName() of the first driver that was loaded, for messages.
inline constinit std::atomic<int (*)(int, char const**)> cuda_error_name{nullptr};

/// The part of the CUDA driver API that is used here. It is loaded when the program runs, so nothing of CUDA is
/// needed to build the program, nor to run it elsewhere. The names are those that today's cuda.h resolves to:
/// those with _v2 take 64-bit sizes and addresses; those without date from before CUDA 3.2 (or 4.0, 11.0) and mean
/// something else.
class cuda_driver : public loaded_library {
public:
    /// Loads the driver, and never unloads it, because a driver has threads. Throws tenure::error,
    /// device_unavailable, with what the loader says.
    explicit cuda_driver(std::string const& library) : loaded_library("CUDA", library, RTLD_NODELETE) {
        decltype(cuGetErrorName) none = nullptr;
        cuda_error_name.compare_exchange_strong(none, cuGetErrorName);
    }

    // The functions stand in the order of cuda.h. Each is what dlsym() finds under its name.
#define TENURE_CUDA(name, ...) int (*name)(__VA_ARGS__) = function(#name)
    TENURE_CUDA(cuGetErrorName, int, char const**);
    TENURE_CUDA(cuInit, unsigned);
    TENURE_CUDA(cuDeviceGet, int*, int);
    TENURE_CUDA(cuDeviceGetCount, int*);
    TENURE_CUDA(cuDeviceGetName, char*, int, int);
    TENURE_CUDA(cuDevicePrimaryCtxRetain, cuda_context*, int);
    TENURE_CUDA(cuDevicePrimaryCtxRelease_v2, int);
    TENURE_CUDA(cuCtxPushCurrent_v2, cuda_context);
    TENURE_CUDA(cuCtxPopCurrent_v2, cuda_context*);
    TENURE_CUDA(cuMemGetInfo_v2, std::size_t*, std::size_t*);
    TENURE_CUDA(cuMemAlloc_v2, cuda_address*, std::size_t);
    TENURE_CUDA(cuMemFree_v2, cuda_address);
    TENURE_CUDA(cuMemHostAlloc, void**, std::size_t, unsigned);
    TENURE_CUDA(cuMemFreeHost, void*);
    TENURE_CUDA(cuMemcpyPeerAsync, cuda_address, cuda_context, cuda_address, cuda_context, std::size_t,
                cuda_stream);
    TENURE_CUDA(cuMemcpyHtoDAsync_v2, cuda_address, void const*, std::size_t, cuda_stream);
    TENURE_CUDA(cuMemcpyDtoHAsync_v2, void*, cuda_address, std::size_t, cuda_stream);
    TENURE_CUDA(cuMemcpyDtoDAsync_v2, cuda_address, cuda_address, std::size_t, cuda_stream);
    TENURE_CUDA(cuMemsetD8Async, cuda_address, unsigned char, std::size_t, cuda_stream);
    TENURE_CUDA(cuPointerGetAttribute, void*, int, cuda_address);
    TENURE_CUDA(cuStreamCreate, cuda_stream*, unsigned);
    TENURE_CUDA(cuStreamSynchronize, cuda_stream);
    TENURE_CUDA(cuStreamDestroy_v2, cuda_stream);
    TENURE_CUDA(cuEventCreate, cuda_event*, unsigned);
    TENURE_CUDA(cuEventRecord, cuda_event, cuda_stream);
    TENURE_CUDA(cuEventSynchronize, cuda_event);
    TENURE_CUDA(cuEventDestroy_v2, cuda_event);
#undef TENURE_CUDA

private:
    symbol function(char const* name) const {
        symbol const f = find(name);
        if (f.address) return f;
        raise(error(errc::device_unavailable, "CUDA: " + path + " has no " + name + "; it is too old"));
    }
};

class TENURE_SHARED cuda_category_type final : public std::error_category {
public:
    char const* name() const noexcept override { return "cuda"; }

    std::string message(int code) const override {
        char const* text = nullptr;
        if (auto const name_of = cuda_error_name.load(); name_of && name_of(code, &text) == 0 && text)
            return text + (" (" + std::to_string(code) + ")");
        return "CUDA error " + std::to_string(code);
    }
};

}  // namespace detail

/// Returns the category of the CUDA driver's errors, whose values are CUresults. Thread-safe.
inline std::error_category const& cuda_category() noexcept {
    return detail::immortal<detail::cuda_category_type>();
}

namespace detail {

inline constexpr int cuda_success = 0, cuda_invalid_value = 1, cuda_out_of_memory = 2;

/// Returns whether nothing in this context, or in this process, works after an error. Most of these errors say
/// that a kernel has crashed; then every later call, by any thread, returns the same error.
constexpr bool is_cuda_loss(int code) noexcept {
    switch (code) {
    case 3:    // NOT_INITIALIZED
    case 4:    // DEINITIALIZED
    case 34:   // STUB_LIBRARY: a toolkit's, which is there only to be linked to
    case 46:   // DEVICE_UNAVAILABLE
    case 100:  // NO_DEVICE
    case 101:  // INVALID_DEVICE
    case 201:  // INVALID_CONTEXT: it was reset
    case 214:  // ECC_UNCORRECTABLE
    case 220:  // NVLINK_UNCORRECTABLE
    case 226:  // CONTAINED
    case 700:  // ILLEGAL_ADDRESS
    case 702:  // LAUNCH_TIMEOUT
    case 709:  // CONTEXT_IS_DESTROYED
    case 710:  // ASSERT
    case 714:  // HARDWARE_STACK_ERROR
    case 715:  // ILLEGAL_INSTRUCTION
    case 716:  // MISALIGNED_ADDRESS
    case 717:  // INVALID_ADDRESS_SPACE
    case 718:  // INVALID_PC
    case 719:  // LAUNCH_FAILED
    case 802:  // SYSTEM_NOT_READY
    case 803:  // SYSTEM_DRIVER_MISMATCH
    case 804:  // COMPAT_NOT_SUPPORTED_ON_DEVICE
    case 805:  // MPS_CONNECTION_FAILED
    case 806:  // MPS_RPC_FAILURE
    case 807:  // MPS_SERVER_NOT_READY
    case 808:  // MPS_MAX_CLIENTS_REACHED
    case 809:  // MPS_MAX_CONNECTIONS_REACHED
    case 810:  // MPS_CLIENT_TERMINATED
    case 911:  // EXTERNAL_DEVICE
    case 999:  // UNKNOWN: what is in memory cannot be trusted after that
        return true;
    default: return false;
    }
}

/// Returns an errc for a code if one says it, else CUDA's own code.
inline std::error_code cuda_code(int code) noexcept {
    if (is_cuda_loss(code)) return make_error_code(errc::device_unavailable);
    if (code == cuda_out_of_memory) return make_error_code(errc::store_full);
    return {code, cuda_category()};
}

inline result<void> cuda_result(int code) noexcept {
    if (code == cuda_success) return {};
    return cuda_code(code);
}

inline void must_cuda(int code, std::string const& context) {
    if (code == cuda_success) return;
    raise(error(cuda_code(code), "CUDA: " + context + ": " + cuda_category().message(code)));
}

}  // namespace detail

}  // namespace tenure
