// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A real GPU, through a real driver. Where there is none, what is left is that the driver's functions are declared
// as cuda.h does, if that is here; devices_test.cpp has the rest, with a stand-in.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/device/copy.hpp>
#include <tenure/device/cuda.hpp>
#include <tenure/device/host.hpp>
#include <tenure/device/store.hpp>
#include <tenure/native.hpp>
#include <tenure/store/conformance.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"

#ifdef TENURE_CUDA_HEADER
#include <cuda.h>

namespace {

/// A function's type, with its enumerations as the int that they are to a caller.
template <class T>
using as_int = std::conditional_t<std::is_enum_v<T>, int, T>;
template <class R, class... A>
auto plain(R (*)(A...)) -> as_int<R> (*)(as_int<A>...);

using tenure::detail::cuda_driver;

// The name on the left is what dlsym() is asked for; on the right, cuda.h's macro of the name without its version.
#define SAME(ours, name)                                                                  \
    static_assert(std::is_same_v<decltype(cuda_driver::ours), decltype(plain(&::name))>); \
    static_assert(std::string_view(#ours) == TEXT(name))
#define TEXT(name) TEXT_OF(name)
#define TEXT_OF(name) #name
SAME(cuGetErrorName, cuGetErrorName);
SAME(cuInit, cuInit);
SAME(cuDeviceGet, cuDeviceGet);
SAME(cuDeviceGetCount, cuDeviceGetCount);
SAME(cuDeviceGetName, cuDeviceGetName);
SAME(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain);
SAME(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease);
SAME(cuCtxPushCurrent_v2, cuCtxPushCurrent);
SAME(cuCtxPopCurrent_v2, cuCtxPopCurrent);
SAME(cuMemGetInfo_v2, cuMemGetInfo);
SAME(cuMemAlloc_v2, cuMemAlloc);
SAME(cuMemFree_v2, cuMemFree);
SAME(cuMemHostAlloc, cuMemHostAlloc);
SAME(cuMemFreeHost, cuMemFreeHost);
SAME(cuMemcpyPeerAsync, cuMemcpyPeerAsync);
SAME(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync);
SAME(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync);
SAME(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync);
SAME(cuMemsetD8Async, cuMemsetD8Async);
SAME(cuPointerGetAttribute, cuPointerGetAttribute);
SAME(cuStreamCreate, cuStreamCreate);
SAME(cuStreamSynchronize, cuStreamSynchronize);
SAME(cuStreamDestroy_v2, cuStreamDestroy);
SAME(cuEventCreate, cuEventCreate);
SAME(cuEventRecord, cuEventRecord);
SAME(cuEventSynchronize, cuEventSynchronize);
SAME(cuEventDestroy_v2, cuEventDestroy);
#undef SAME
#undef TEXT
#undef TEXT_OF

static_assert(std::is_same_v<CUdeviceptr, tenure::detail::cuda_address>);
static_assert(CU_STREAM_NON_BLOCKING == 1 && CU_EVENT_DISABLE_TIMING == 2 && CU_MEMHOSTALLOC_PORTABLE == 1);
static_assert(CU_POINTER_ATTRIBUTE_MEMORY_TYPE == 2 && CU_MEMORYTYPE_HOST == 1);
static_assert(CUDA_ERROR_INVALID_VALUE == tenure::detail::cuda_invalid_value);
static_assert(CUDA_ERROR_OUT_OF_MEMORY == tenure::detail::cuda_out_of_memory);
static_assert(tenure::detail::is_cuda_loss(CUDA_ERROR_ILLEGAL_ADDRESS));
static_assert(tenure::detail::is_cuda_loss(CUDA_ERROR_LAUNCH_FAILED));
static_assert(!tenure::detail::is_cuda_loss(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));

}  // namespace
#endif

namespace {

using tenure::block;
using tenure::copy_between;
using tenure::cuda_device;
using tenure::device_store;
using tenure::errc;
using tenure::host_device;
using tenure::detail::conformance::pattern;

constexpr std::size_t mib = std::size_t{1} << 20;

std::string why_not;

/// Null: there is no device of that number.
std::shared_ptr<cuda_device> open(int number = 0) try {
    return std::make_shared<cuda_device>(tenure::cuda_options{.device = number});
} catch (tenure::error const& e) {
    why_not = e.what();
    CHECK(e.code() == errc::device_unavailable);
    return nullptr;
}

auto store_on(std::shared_ptr<cuda_device> d) { return std::make_shared<device_store<cuda_device>>(std::move(d)); }

/// A kernel of one thread, `stores`, which writes 7 to the address that it gets.
constexpr char const* kernel = R"(
    .version 6.0
    .target sm_52
    .address_size 64
    .visible .entry stores(.param .u64 to)
    {
        .reg .b64 %to;
        .reg .b32 %seven;
        ld.param.u64        %to, [to];
        mov.u32             %seven, 7;
        st.global.u32       [%to], %seven;
        ret;
    })";

/// Launches it and waits for it; what that came to.
int launch(cuda_device const& on, unsigned long long to) {
    cuda_device::current const context(on);
    auto const                 call = [&]<class... A>(char const* name, A... arguments) {
        auto* const f = reinterpret_cast<int (*)(A...)>(on.symbol(name));
        if (!f) FAIL("the driver has no " << name);
        return f(arguments...);
    };
    void *module = nullptr, *function = nullptr, *arguments[]{&to};
    REQUIRE(call("cuModuleLoadData", &module, static_cast<void const*>(kernel)) == 0);
    REQUIRE(call("cuModuleGetFunction", &function, module, "stores") == 0);
    void *const none = nullptr, **const no_extra = nullptr;
    REQUIRE(call("cuLaunchKernel", function, 1u, 1u, 1u, 1u, 1u, 1u, 0u, none, static_cast<void**>(arguments),
                 no_extra) == 0);
    int const done = call("cuStreamSynchronize", none);
    call("cuModuleUnload", module);
    return done;
}

}  // namespace

TEST_SUITE("cuda") {
    TEST_CASE("there is a driver, or nothing to test") {
        if (open()) return;
        std::printf("skipped: no CUDA driver: %s\n", why_not.c_str());
        std::fflush(stdout);
        std::_Exit(77);
    }

    TEST_CASE("passes the suite") {
        auto const device = open();
        auto const report =
            tenure::check_store([&] { return store_on(device); }, {.max_bytes = 64 << 20, .steps = 500});
        INFO(report.to_text());
        CHECK(report.ok());
    }

    TEST_CASE("transfers of every size, on several threads, pageable and page-locked") {
        auto const       s = store_on(open());
        std::atomic<int> wrong{0};
        {
            std::vector<std::jthread> threads;
            for (std::uint64_t t = 0; t < 6; ++t)
                threads.emplace_back([&, t] {
                    for (std::size_t const n : {1ul, 5000ul, 300'000ul, 9 * mib + 1, 70 * mib}) {
                        auto const             in = pattern(t + 1, n);
                        std::vector<std::byte> out(n);
                        block const            b = s->allocate(n, 16).value();
                        wrong += !s->write(b, 0, in) || !s->read(b, 0, out) || out != in;
                        auto locked = s->on()->page_locked(n);
                        wrong +=
                            !locked || !s->read(b, 0, locked->bytes()) || !std::ranges::equal(locked->bytes(), in);
                        std::ranges::reverse(locked->bytes());
                        wrong += !s->write(b, 0, locked->bytes()) || !s->read(b, 0, out) ||
                                 !std::ranges::equal(locked->bytes(), out);
                        wrong += !s->deallocate({&b, 1});
                    }
                });
        }
        CHECK(wrong == 0);
    }

    TEST_CASE("copies: within, to this machine's memory, and to another GPU if there is one") {
        auto const first = open(), second = open(1);
        auto const a = store_on(first), b = store_on(second ? second : first);
        if (!second) MESSAGE("one GPU only: copying to another is copying within");
        auto const            host = std::make_shared<device_store<host_device>>(std::make_shared<host_device>());
        constexpr std::size_t n    = 20 * mib + 3;
        block const x = a->allocate(n, 16).value(), y = a->allocate(n, 16).value(), z = b->allocate(n, 16).value(),
                    h                = host->allocate(n, 16).value();
        auto const             model = pattern(1, n);
        std::vector<std::byte> found(n);
        CHECK(a->write(x, 0, model));
        CHECK(a->copy(x, 0, y, 0, n));
        CHECK(copy_between(*a, y, 0, *b, z, 0, n));
        CHECK(copy_between(*b, z, 0, *host, h, 0, n));
        CHECK(host->read(h, 0, found));
        CHECK(found == model);
        CHECK(a->fill(x, 0, std::byte{9}, n));
        CHECK(a->read(x, 0, found));
        CHECK(found == std::vector(n, std::byte{9}));
    }

    TEST_CASE("a kernel writes to a buffer of a batch, whose 100,000 buffers end") {
        accounting books;
        auto const device = open();
        auto const s      = store_on(device);
        {
            tenure::batch_scope batch;
            for (int i = 0; i < 100'000; ++i) batch.make_buffer<int>(4, tenure::any_store{s});
            auto const       x = batch.make_buffer<int>(4, tenure::any_store{s});
            std::vector<int> found{1, 2, 3, 4};
            x.write(0, found);
            {
                auto const view = tenure::native<cuda_device>(x);
                CHECK(launch(*device, view.get() + sizeof(int)) == 0);
            }
            x.read(0, found);
            CHECK(found == std::vector{1, 7, 3, 4});
        }
        CHECK(s->usage() == tenure::store_usage{});
    }

    TEST_CASE("memory: what there is, and more than that") {
        auto const device = open();
        auto const memory = device->memory_info();
        REQUIRE(memory.has_value());
        CHECK(memory->free <= memory->total);
        auto const s = store_on(device);
        CHECK(s->allocate(memory->total + mib, 16).error() == errc::store_full);
        auto const view = s->view(s->allocate(100, 4096).value());
        CHECK(view->get() % 4096 == 0);
    }

    /// The last, for afterwards this process has no CUDA any more.
    TEST_CASE("a kernel that goes wild loses the device, and says so; all can be given up") {
        auto const  device = open();
        auto const  s      = store_on(device);
        block const b      = s->allocate(100, 16).value();
        CHECK(launch(*device, 8) != 0);
        std::array<std::byte, 100> some{};
        CHECK(s->write(b, 0, some).error() == errc::device_unavailable);
        CHECK(s->read(b, 0, some).error() == errc::device_unavailable);
        CHECK(s->allocate(200 * mib, 16).error() == errc::device_unavailable);
        CHECK(s->deallocate({&b, 1}));
        CHECK(s->usage() == tenure::store_usage{});
    }
}
