// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <system_error>

#include <tenure/detail/base/config.hpp>
#include <tenure/device/cuda/driver.hpp>
#include <tenure/error.hpp>
#include <tenure/result.hpp>

namespace tenure {

namespace detail {

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
