// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <tenure/device/native_view.hpp>
#include <tenure/device/opencl.hpp>

namespace device_kernel {

/// y = a * x + y, in OpenCL C.
class opencl_axpy {
public:
    using device_type = tenure::opencl_device;
    using vector      = tenure::native_view<device_type>;

    static constexpr char const* api = "OpenCL";

    explicit opencl_axpy(device_type const& device) {
        static char const* source = R"(
            kernel void axpy(float a, global float const* x, global float* y) {
                size_t i = get_global_id(0);
                y[i] = fma(a, x[i], y[i]);
            })";

        cl_int             code = CL_SUCCESS;
        cl_device_id const id   = device.id();
        program_.reset(::clCreateProgramWithSource(device.context(), 1, &source, nullptr, &code));
        must(code, "clCreateProgramWithSource");
        must(::clBuildProgram(program_.get(), 1, &id, nullptr, nullptr, nullptr), "clBuildProgram");
        kernel_.reset(::clCreateKernel(program_.get(), "axpy", &code));
        must(code, "clCreateKernel");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // its successor is not in 1.2
        queue_.reset(::clCreateCommandQueue(device.context(), id, 0, &code));
#pragma GCC diagnostic pop
        must(code, "clCreateCommandQueue");
    }

    /// On return it is done.
    void operator()(float a, vector const& x, vector const& y, std::size_t n) {
        cl_mem const from = x.get(), to = y.get();
        must(::clSetKernelArg(kernel_.get(), 0, sizeof a, &a), "clSetKernelArg");
        must(::clSetKernelArg(kernel_.get(), 1, sizeof from, &from), "clSetKernelArg");
        must(::clSetKernelArg(kernel_.get(), 2, sizeof to, &to), "clSetKernelArg");
        must(::clEnqueueNDRangeKernel(queue_.get(), kernel_.get(), 1, nullptr, &n, nullptr, 0, nullptr, nullptr),
             "clEnqueueNDRangeKernel");
        must(::clFinish(queue_.get()), "clFinish");
    }

private:
    template <auto Release>
    struct release {
        template <class T>
        void operator()(T* object) const noexcept {
            Release(object);
        }
    };
    template <class Handle, auto Release>
    using owned = std::unique_ptr<std::remove_pointer_t<Handle>, release<Release>>;

    static void must(cl_int code, char const* call) {
        if (code != CL_SUCCESS)
            throw std::runtime_error(std::string(call) + ": " + tenure::opencl_category().message(code));
    }

    owned<cl_program, &::clReleaseProgram>            program_;
    owned<cl_kernel, &::clReleaseKernel>              kernel_;
    owned<cl_command_queue, &::clReleaseCommandQueue> queue_;
};

}  // namespace device_kernel
