// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

#include <tenure/device/cuda.hpp>
#include <tenure/device/native_view.hpp>

struct CUmod_st;
struct CUfunc_st;

namespace device_kernel {

/// y = a * x + y, in PTX, which the driver compiles for the GPU that it finds: so that no toolkit is needed here. A
/// program that has one includes cuda.h, and launches its own kernels with a view's get() in the same way.
class cuda_axpy {
public:
    using device_type = tenure::cuda_device;
    using vector      = tenure::native_view<device_type>;

    static constexpr char const* api = "CUDA";

    explicit cuda_axpy(device_type const& device) : device_(device) {
        device_type::current const context(device_);
        must(context.code(), "cuCtxPushCurrent");
        must(call<int(CUmod_st**, void const*)>("cuModuleLoadData")(&module_, source), "cuModuleLoadData");
        must(call<int(CUfunc_st**, CUmod_st*, char const*)>("cuModuleGetFunction")(&kernel_, module_, "axpy"),
             "cuModuleGetFunction");
    }
    ~cuda_axpy() {
        device_type::current const context(device_);
        call<int(CUmod_st*)>("cuModuleUnload")(module_);
    }
    cuda_axpy(cuda_axpy const&)            = delete;
    cuda_axpy& operator=(cuda_axpy const&) = delete;

    /// On return it is done.
    void operator()(float a, vector const& x, vector const& y, std::size_t n) {
        constexpr unsigned         threads = 256;
        auto const                 blocks  = static_cast<unsigned>((n + threads - 1) / threads);
        unsigned long long         from = x.get(), to = y.get(), count = n;
        void*                      arguments[]{&a, &from, &to, &count};
        device_type::current const context(device_);
        must(context.code(), "cuCtxPushCurrent");
        auto const launch = call<int(CUfunc_st*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                     unsigned, void*, void**, void**)>("cuLaunchKernel");
        must(launch(kernel_, blocks, 1, 1, threads, 1, 1, 0, nullptr, arguments, nullptr), "cuLaunchKernel");
        must(call<int(void*)>("cuStreamSynchronize")(nullptr), "cuStreamSynchronize");
    }

private:
    static constexpr char const* source = R"(
        .version 6.0
        .target sm_52
        .address_size 64

        .visible .entry axpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u64 n)
        {
            .reg .pred %done;
            .reg .f32  %a, %xi, %yi;
            .reg .b32  %block, %threads, %thread;
            .reg .b64  %i, %n, %x, %y, %wide;

            mov.u32             %block, %ctaid.x;
            mov.u32             %threads, %ntid.x;
            mov.u32             %thread, %tid.x;
            mul.wide.u32        %i, %block, %threads;
            cvt.u64.u32         %wide, %thread;
            add.u64             %i, %i, %wide;
            ld.param.u64        %n, [n];
            setp.ge.u64         %done, %i, %n;
            @%done bra          end;

            ld.param.f32        %a, [a];
            ld.param.u64        %x, [x];
            ld.param.u64        %y, [y];
            cvta.to.global.u64  %x, %x;
            cvta.to.global.u64  %y, %y;
            shl.b64             %i, %i, 2;
            add.u64             %x, %x, %i;
            add.u64             %y, %y, %i;
            ld.global.f32       %xi, [%x];
            ld.global.f32       %yi, [%y];
            fma.rn.f32          %yi, %a, %xi, %yi;
            st.global.f32       [%y], %yi;
        end:
            ret;
        })";

    template <class F>
    F* call(char const* name) const {
        return reinterpret_cast<F*>(device_.symbol(name));
    }

    static void must(int code, char const* call) {
        if (code != 0) throw std::runtime_error(std::string(call) + ": " + tenure::cuda_category().message(code));
    }

    device_type const& device_;
    CUmod_st*          module_ = nullptr;
    CUfunc_st*         kernel_ = nullptr;
};

}  // namespace device_kernel
