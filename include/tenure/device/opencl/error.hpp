// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300  // else the headers print a message
#endif
#include <CL/cl.h>

#include <string>
#include <system_error>

#include <tenure/detail/base/config.hpp>
#include <tenure/error.hpp>
#include <tenure/result.hpp>

namespace tenure {

namespace detail {

class TENURE_SHARED opencl_category_type final : public std::error_category {
public:
    char const* name() const noexcept override { return "opencl"; }

    std::string message(int code) const override {
        char const* const known = name_of(code);
        return (known ? known : std::string("an error of the driver's own")) + " (" + std::to_string(code) + ")";
    }

private:
    static char const* name_of(int code) noexcept {
        switch (code) {
#define TENURE_NAME(code) \
    case code: return #code
            TENURE_NAME(CL_SUCCESS);
            TENURE_NAME(CL_DEVICE_NOT_FOUND);
            TENURE_NAME(CL_DEVICE_NOT_AVAILABLE);
            TENURE_NAME(CL_COMPILER_NOT_AVAILABLE);
            TENURE_NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE);
            TENURE_NAME(CL_OUT_OF_RESOURCES);
            TENURE_NAME(CL_OUT_OF_HOST_MEMORY);
            TENURE_NAME(CL_MEM_COPY_OVERLAP);
            TENURE_NAME(CL_BUILD_PROGRAM_FAILURE);
            TENURE_NAME(CL_MAP_FAILURE);
            TENURE_NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET);
            TENURE_NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
            TENURE_NAME(CL_INVALID_VALUE);
            TENURE_NAME(CL_INVALID_PLATFORM);
            TENURE_NAME(CL_INVALID_DEVICE);
            TENURE_NAME(CL_INVALID_CONTEXT);
            TENURE_NAME(CL_INVALID_COMMAND_QUEUE);
            TENURE_NAME(CL_INVALID_MEM_OBJECT);
            TENURE_NAME(CL_INVALID_PROGRAM);
            TENURE_NAME(CL_INVALID_KERNEL_NAME);
            TENURE_NAME(CL_INVALID_KERNEL);
            TENURE_NAME(CL_INVALID_KERNEL_ARGS);
            TENURE_NAME(CL_INVALID_WORK_GROUP_SIZE);
            TENURE_NAME(CL_INVALID_EVENT);
            TENURE_NAME(CL_INVALID_OPERATION);
            TENURE_NAME(CL_INVALID_BUFFER_SIZE);
#undef TENURE_NAME
        case -1001: return "CL_PLATFORM_NOT_FOUND_KHR";
        default: return nullptr;
        }
    }
};

}  // namespace detail

/// Returns the category of OpenCL's errors, whose values are OpenCL's own codes. Thread-safe.
inline std::error_category const& opencl_category() noexcept {
    return detail::immortal<detail::opencl_category_type>();
}

namespace detail {

/// Returns an errc for a code if one says it, else OpenCL's own code. CL_OUT_OF_RESOURCES stays, because it may
/// have several causes.
inline std::error_code opencl_code(cl_int code) noexcept {
    constexpr cl_int no_platform = -1001, nvidia_lost = -9999;
    switch (code) {
    case CL_DEVICE_NOT_FOUND:
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_INVALID_CONTEXT:
    case CL_INVALID_COMMAND_QUEUE:  // some drivers say it of all queues after a kernel has crashed
    case no_platform:
    case nvidia_lost: return make_error_code(errc::device_unavailable);
    case CL_MEM_OBJECT_ALLOCATION_FAILURE: return make_error_code(errc::store_full);
    case CL_OUT_OF_HOST_MEMORY: return make_error_code(errc::memory_full);
    default: return {code, opencl_category()};
    }
}

inline result<void> opencl_result(cl_int code) noexcept {
    if (code == CL_SUCCESS) return {};
    return opencl_code(code);
}

}  // namespace detail

}  // namespace tenure
