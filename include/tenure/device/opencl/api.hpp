// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300  // else the headers print a message
#endif
#include <CL/cl.h>

#include <memory>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

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

/// Deletes an OpenCL object by calling Release.
template <auto Release>
struct opencl_release {
    template <class T>
    void operator()(T* object) const noexcept {
        Release(object);
    }
};

using opencl_memory  = std::unique_ptr<std::remove_pointer_t<cl_mem>, opencl_release<&::clReleaseMemObject>>;
using opencl_context = std::unique_ptr<std::remove_pointer_t<cl_context>, opencl_release<&::clReleaseContext>>;
using opencl_queue =
    std::unique_ptr<std::remove_pointer_t<cl_command_queue>, opencl_release<&::clReleaseCommandQueue>>;
using opencl_event = std::unique_ptr<std::remove_pointer_t<cl_event>, opencl_release<&::clReleaseEvent>>;

inline void must_opencl(cl_int code, char const* call) {
    if (code != CL_SUCCESS) raise(error(opencl_code(code), call + (": " + opencl_category().message(code))));
}

/// Finds a device by its numbers. Throws device_unavailable, with the count of what there is, or the driver's
/// error.
inline cl_device_id find_opencl_device(unsigned platform, unsigned device) {
    cl_uint      n     = 0;
    cl_int const found = ::clGetPlatformIDs(0, nullptr, &n);
    if (found != CL_SUCCESS || n == 0)
        raise(error(errc::device_unavailable, "OpenCL: no platform is installed (in /etc/OpenCL/vendors)"));
    if (platform >= n)
        raise(error(errc::device_unavailable,
                    "OpenCL: no platform " + std::to_string(platform) + " of " + std::to_string(n)));
    std::vector<cl_platform_id> platforms(n);
    must_opencl(::clGetPlatformIDs(n, platforms.data(), nullptr), "clGetPlatformIDs");

    cl_int const counted = ::clGetDeviceIDs(platforms[platform], CL_DEVICE_TYPE_ALL, 0, nullptr, &n);
    if (counted == CL_DEVICE_NOT_FOUND) n = 0;
    else must_opencl(counted, "clGetDeviceIDs");
    if (device >= n)
        raise(error(errc::device_unavailable, "OpenCL: no device " + std::to_string(device) + " of " +
                                                  std::to_string(n) + " on platform " + std::to_string(platform)));
    std::vector<cl_device_id> devices(n);
    must_opencl(::clGetDeviceIDs(platforms[platform], CL_DEVICE_TYPE_ALL, n, devices.data(), nullptr),
                "clGetDeviceIDs");
    return devices[device];
}

inline opencl_context make_opencl_context(cl_device_id id) {
    cl_int         code = CL_SUCCESS;
    opencl_context made(::clCreateContext(nullptr, 1, &id, nullptr, nullptr, &code));
    must_opencl(code, "clCreateContext");
    return made;
}

inline opencl_context share_opencl(cl_context context) {
    must_opencl(::clRetainContext(context), "clRetainContext");
    return opencl_context(context);
}

/// Makes a queue that runs commands in order. Throws the driver's error.
inline opencl_queue make_opencl_queue(cl_context context, cl_device_id id) {
    cl_int code = CL_SUCCESS;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // 1.2 does not have its successor
    opencl_queue made(::clCreateCommandQueue(context, id, 0, &code));
#pragma GCC diagnostic pop
    must_opencl(code, "clCreateCommandQueue");
    return made;
}

template <class T>
T opencl_info(cl_device_id id, cl_device_info what) {
    T value{};
    must_opencl(::clGetDeviceInfo(id, what, sizeof value, &value, nullptr), "clGetDeviceInfo");
    return value;
}

inline std::string opencl_text(cl_device_id id, cl_device_info what) {
    std::size_t n = 0;
    must_opencl(::clGetDeviceInfo(id, what, 0, nullptr, &n), "clGetDeviceInfo");
    std::string text(n, '\0');
    must_opencl(::clGetDeviceInfo(id, what, n, text.data(), nullptr), "clGetDeviceInfo");
    text.resize(n ? n - 1 : 0);  // without the terminating zero
    return text;
}

inline std::string opencl_name(cl_device_id id) {
    return opencl_text(id, CL_DEVICE_NAME) + " (" + opencl_text(id, CL_DEVICE_VERSION) + ")";
}

/// Enqueues one command, `f(queue, &event)`, waits for it, and returns its outcome.
template <class F>
result<void> when_done(cl_command_queue queue, F f) noexcept {
    cl_event     raw  = nullptr;
    cl_int const sent = f(queue, &raw);
    if (sent != CL_SUCCESS) return opencl_code(sent);
    opencl_event const done(raw);
    if (cl_int const flushed = ::clFlush(queue); flushed != CL_SUCCESS) return opencl_code(flushed);
    cl_int const waited = ::clWaitForEvents(1, &raw);
    if (waited == CL_SUCCESS) return {};
    cl_int status = CL_SUCCESS;
    ::clGetEventInfo(raw, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
    return opencl_code(status < 0 ? status : waited);
}

}  // namespace detail

}  // namespace tenure
