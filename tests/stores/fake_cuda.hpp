// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>

#include <dlfcn.h>

#include <doctest/doctest.h>

#include <tenure/device/cuda.hpp>

/// The stand-in for a CUDA driver, of which each test expects that nothing is out when it ends.
class fake_cuda {
public:
    static constexpr std::size_t memory = std::size_t{1} << 30;

    explicit fake_cuda(std::size_t bytes = memory) { call<void(std::size_t)>("fake_cuda_reset")(bytes); }
    ~fake_cuda() {
        CHECK(allocations() == 0);
        CHECK(bytes() == 0);
        CHECK(objects() == 0);
        call<void(std::size_t)>("fake_cuda_reset")(memory);
    }
    fake_cuda(fake_cuda const&)            = delete;
    fake_cuda& operator=(fake_cuda const&) = delete;

    static tenure::cuda_options options(int device = 0) {
        return {.device = device, .streams = 2, .staging = std::size_t{4} << 20, .library = TENURE_FAKE_CUDA};
    }
    static std::shared_ptr<tenure::cuda_device> open(int device = 0) {
        return std::make_shared<tenure::cuda_device>(options(device));
    }

    void        lose() { call<void()>("fake_cuda_lose")(); }
    void        sweep() { call<void()>("fake_cuda_sweep")(); }
    void        fail(long after, int code) { call<void(long, int)>("fake_cuda_fail")(after, code); }
    bool        failed() { return call<bool()>("fake_cuda_failed")(); }
    std::size_t bytes() { return call<std::size_t()>("fake_cuda_bytes")(); }
    std::size_t allocations() { return call<std::size_t()>("fake_cuda_allocations")(); }
    std::size_t straight() { return call<std::size_t()>("fake_cuda_straight")(); }
    std::size_t objects() { return call<std::size_t()>("fake_cuda_objects")(); }

private:
    template <class F>
    F* call(char const* name) {
        void* const f = ::dlsym(library_, name);
        REQUIRE(f);
        return reinterpret_cast<F*>(f);
    }

    void* library_ = ::dlopen(TENURE_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
};
