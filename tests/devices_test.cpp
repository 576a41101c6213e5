// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Stores on devices: this machine's memory, OpenCL (on PoCL where there is no GPU), and CUDA with a stand-in for
// its driver; cuda_test.cpp is for a real one.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/device/copy.hpp>
#include <tenure/device/cuda.hpp>
#include <tenure/device/host.hpp>
#include <tenure/device/opencl.hpp>
#include <tenure/device/store.hpp>
#include <tenure/native.hpp>
#include <tenure/store/conformance.hpp>
#include <tenure/store/counted.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "stores/fake_cuda.hpp"
#include "throws.hpp"

namespace {

using tenure::block;
using tenure::copy_between;
using tenure::cuda_device;
using tenure::device_store;
using tenure::device_store_options;
using tenure::errc;
using tenure::host_device;
using tenure::opencl_device;
using tenure::detail::conformance::pattern;

static_assert(tenure::backing_store<device_store<host_device>>);
static_assert(tenure::backing_store<device_store<opencl_device>>);
static_assert(tenure::backing_store<device_store<cuda_device>>);

constexpr std::size_t kib = 1024, mib = 1024 * kib;

constexpr tenure::conformance_options less{.max_bytes = 1 << 20, .free_count = 2'000, .threads = 4, .steps = 100};
constexpr tenure::conformance_options amount =
    TENURE_SANITIZED ? less : tenure::conformance_options{.max_bytes = 16 << 20, .steps = 500};

std::shared_ptr<opencl_device> opencl() {
    static auto const device = std::make_shared<opencl_device>();  // PoCL takes a while
    return device;
}

/// A device, and what of it a test may look at.
struct on_host {
    static auto open() { return std::make_shared<host_device>(); }
};
struct on_opencl {
    static auto open() { return opencl(); }
};
struct on_cuda {
    fake_cuda   driver;
    static auto open() { return fake_cuda::open(); }
};

template <class Device>
auto store_on(std::shared_ptr<Device> d, device_store_options const& o = {}) {
    return std::make_shared<device_store<Device>>(std::move(d), o);
}

template <class Store>
block filled(Store& s, std::size_t n, std::uint64_t seed) {
    block const b = s.allocate(n, 16).value();
    CHECK(s.write(b, 0, pattern(seed, n)));
    return b;
}
template <class Store>
bool holds(Store& s, block b, std::uint64_t seed) {
    std::vector<std::byte> found(b.bytes);
    CHECK(s.read(b, 0, found));
    return found == pattern(seed, b.bytes);
}

void check_ok(tenure::conformance_report const& r) {
    CAPTURE(r.to_text());
    CHECK(r.ok());
}

/// host_device that counts, and refuses on request.
class lab_device : public host_device {
public:
    std::atomic<std::size_t> allocations{0}, live{0}, bytes{0};
    std::size_t              most = ~std::size_t{0};  ///< bytes
    tenure::errc             says{};                  ///< to everything, if set
    std::size_t              views = 0;

    tenure::result<memory> allocate(std::size_t n, std::size_t alignment) {
        if (says != errc{}) return make_error_code(says);
        if (n > most - bytes) return make_error_code(errc::store_full);
        ++allocations, ++live;
        auto const m = host_device::allocate(n, alignment);
        bytes += m->bytes;
        return m;
    }
    tenure::result<void> free(memory m) noexcept {
        --live;
        bytes -= m.bytes;
        static_cast<void>(host_device::free(m));
        if (says != errc{}) return make_error_code(says);
        return {};
    }
    tenure::result<void> copy_from(lab_device&, memory, std::size_t, memory, std::size_t, std::size_t) {
        return make_error_code(errc::not_copyable);
    }
    tenure::result<std::byte*> view(memory m, std::size_t offset, std::size_t n) {
        if (says != errc{}) return make_error_code(says);
        ++views;
        return host_device::view(m, offset, n);
    }
    void release(std::byte*) noexcept { --views; }
};
static_assert(tenure::device<lab_device>);

}  // namespace

TEST_SUITE("devices") {
    TEST_CASE_TEMPLATE("a store passes the suite", On, on_host, on_opencl, on_cuda) {
        On on;
        check_ok(tenure::check_store([&] { return store_on(on.open()); }, amount));
        // Small chunks, and all goes back at once; and one that can be filled.
        device_store_options const small{.capacity = mib, .chunk_bytes = 128 * kib, .keep_idle = 0};
        check_ok(tenure::check_store([&] { return store_on(on.open(), small); }, less));
    }

    TEST_CASE_TEMPLATE("fill, copy within, and copy to another store", On, on_host, on_opencl, on_cuda) {
        On         on;
        auto const a = store_on(on.open()), b = store_on(on.open());
        auto const host = store_on(std::make_shared<host_device>());
        for (std::size_t const n : {1ul, 1000ul, (TENURE_SANITIZED ? 1 : 9) * mib + 5}) {
            block const x = filled(*a, n, 1), y = filled(*a, n, 2), z = filled(*b, n, 3), h = filled(*host, n, 4);
            CHECK(a->copy(x, 0, y, 0, n));
            CHECK(holds(*a, y, 1));
            CHECK(copy_between(*a, x, 0, *b, z, 0, n));
            CHECK(holds(*b, z, 1));
            CHECK(copy_between(*host, h, 0, *a, x, 0, n));
            CHECK(holds(*a, x, 4));
            CHECK(copy_between(*a, y, 0, *host, h, 0, n));
            CHECK(holds(*host, h, 1));
            CHECK(copy_between(*a, x, 0, *a, y, 0, n));
            CHECK(holds(*a, y, 4));
            CHECK(copy_between(*host, h, 0, *a, x, n, 0));
            CHECK(copy_between(*a, x, n, *b, z, 0, 1).error() == errc::out_of_range);
            CHECK(copy_between(*host, h, 0, *a, x, 1, n).error() == errc::out_of_range);
            CHECK(holds(*a, x, 4));

            std::size_t const      begin = n / 3, some = n - n / 2;
            std::vector<std::byte> model = pattern(4, n), found(n);
            std::fill_n(model.begin() + static_cast<std::ptrdiff_t>(begin), some, std::byte{0x5a});
            CHECK(a->fill(x, begin, std::byte{0x5a}, some));
            CHECK(a->fill(x, n, std::byte{1}, 0));
            CHECK(a->fill(x, n, std::byte{1}, 1).error() == errc::out_of_range);
            CHECK(a->read(x, 0, found));
            CHECK(found == model);

            CHECK(a->deallocate({&x, 1}));
            CHECK(a->fill(x, 0, std::byte{1}, 0).error() == errc::no_such_block);
            CHECK(copy_between(*a, x, 0, *b, z, 0, 0).error() == errc::no_such_block);
            CHECK(copy_between(*host, h, 0, *a, x, 0, 0).error() == errc::no_such_block);
        }
    }

    TEST_CASE_TEMPLATE("what a device says of itself", On, on_host, on_opencl, on_cuda) {
        On         on;
        auto const device = on.open();
        auto const memory = device->memory_info();
        REQUIRE(memory.has_value());
        CHECK(memory->total > 0);
        CHECK(memory->free <= memory->total);
        CHECK(!device->name().empty());
        auto const s = store_on(device, {.capacity = 100});
        CHECK(s->describe() == "memory of " + device->name());
        CHECK(s->on() == device);
        CHECK(s->usage() == tenure::store_usage{0, 0, 100});
    }

    TEST_CASE_TEMPLATE("threads at once, with transfers of every size", On, on_host, on_opencl, on_cuda) {
        On               on;
        auto const       s = store_on(on.open());
        std::atomic<int> wrong{0};
        {
            std::vector<std::jthread> threads;
            for (std::uint64_t t = 0; t < 6; ++t)
                threads.emplace_back([&, t] {
                    for (std::uint64_t i = 0; i < (TENURE_SANITIZED ? 2 : 6); ++i) {
                        for (std::size_t const n :
                             {10ul, 5000ul, 300 * kib, (TENURE_SANITIZED ? 1 : 3) * mib + 1}) {
                            std::uint64_t const    seed = t * 100 + i;
                            auto const             in   = pattern(seed, n);
                            std::vector<std::byte> out(n);
                            auto const             b = s->allocate(n, 16);
                            wrong += !b || !s->write(*b, 0, in) || !s->read(*b, 0, out) || out != in;
                            if (b) wrong += !s->deallocate({&*b, 1});
                        }
                    }
                });
        }
        CHECK(wrong == 0);
        CHECK(s->usage() == tenure::store_usage{});
    }

    TEST_CASE("OpenCL: a kernel uses buffers of a batch") {
        accounting         books;
        auto const         device = opencl();
        tenure::any_store  store{store_on(device)};
        cl_int             code    = 0;
        char const*        text    = "kernel void twice(global int* x) { x[get_global_id(0)] *= 2; }";
        cl_program const   program = ::clCreateProgramWithSource(device->context(), 1, &text, nullptr, &code);
        cl_device_id const id      = device->id();
        REQUIRE(::clBuildProgram(program, 1, &id, nullptr, nullptr, nullptr) == CL_SUCCESS);
        cl_kernel const                    kernel = ::clCreateKernel(program, "twice", &code);
        tenure::detail::opencl_queue const queue  = tenure::detail::make_opencl_queue(device->context(), id);
        {
            tenure::batch_scope batch;
            auto const          before = batch.make_buffer<int>(100, store), x = batch.make_buffer<int>(100, store),
                       after = batch.make_buffer<int>(100, store);
            std::vector<int> ones(100, 1), found(100);
            for (auto const& b : {before, x, after}) b.write(0, ones);
            {
                auto const        view   = tenure::native<opencl_device>(x);
                cl_mem const      memory = view.get();
                std::size_t const n      = 100;
                CHECK(view.bytes() == 400);
                CHECK(&view.on() == device.get());
                REQUIRE(::clSetKernelArg(kernel, 0, sizeof memory, &memory) == CL_SUCCESS);
                REQUIRE(::clEnqueueNDRangeKernel(queue.get(), kernel, 1, nullptr, &n, nullptr, 0, nullptr,
                                                 nullptr) == CL_SUCCESS);
                REQUIRE(::clFinish(queue.get()) == CL_SUCCESS);
            }
            x.read(0, found);
            CHECK(found == std::vector<int>(100, 2));
            for (auto const& b : {before, after}) {
                b.read(0, found);
                CHECK(found == ones);
            }
        }
        ::clReleaseKernel(kernel);
        ::clReleaseProgram(program);
        CHECK(store.usage() == tenure::store_usage{});
    }

    TEST_CASE("OpenCL: another one in the user's context copies by itself; what is not there is said") {
        auto const  first  = opencl();
        auto const  second = std::make_shared<opencl_device>(first->context(), first->id());
        auto const  a = store_on(first), b = store_on(second);
        block const x = filled(*a, 1000, 1), y = filled(*b, 1000, 2);
        CHECK(b->copy_from(*a, x, 0, y, 0, 1000));
        CHECK(holds(*b, y, 1));

        tenure::opencl_options const nowhere[]{{.platform = 1000}, {.device = 1000}};
        CHECK_THROWS_AS(opencl_device{nowhere[0]}, tenure::error);
        for (auto const& o : nowhere) {
            try {
                opencl_device const d(o);
                FAIL("there is none");
            } catch (tenure::error const& e) {
                CHECK(e.code() == errc::device_unavailable);
                CHECK(std::string(e.what()).find(" 1000 of ") != std::string::npos);
            }
        }
        CHECK(tenure::detail::opencl_code(CL_DEVICE_NOT_AVAILABLE) == errc::device_unavailable);
        CHECK(tenure::detail::opencl_code(CL_MEM_OBJECT_ALLOCATION_FAILURE) == errc::store_full);
        CHECK(tenure::detail::opencl_code(CL_INVALID_VALUE).message() == "CL_INVALID_VALUE (-30)");
        // Blocks that lie side by side, and parts of one that nearly touch.
        auto const z = a->allocate(300, 16).value(), next = a->allocate(300, 16).value();
        CHECK(a->write(z, 0, pattern(5, 300)));
        CHECK(a->copy(z, 0, next, 0, 300));
        CHECK(holds(*a, next, 5));
        CHECK(a->copy(z, 0, z, 150, 150));
        std::vector<std::byte> found(150);
        CHECK(a->read(z, 150, found));
        auto model = pattern(5, 300);
        model.resize(150);
        CHECK(found == model);
    }

    TEST_CASE("OpenCL: nothing of it is left behind") {
        auto const first      = opencl();
        auto const references = [&] {  // each of its objects has one
            cl_uint n = 0;
            CHECK(::clGetContextInfo(first->context(), CL_CONTEXT_REFERENCE_COUNT, sizeof n, &n, nullptr) == 0);
            return n;
        };
        // PoCL's own thread may still have its hands on what it was the last to do.
        auto const settled = [&] {
            using clock    = std::chrono::steady_clock;
            auto const end = clock::now() + std::chrono::seconds(60);
            cl_uint    n   = references();
            for (auto since = clock::now(); clock::now() < std::min(end, since + std::chrono::milliseconds(200));) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
                if (cl_uint const now = references(); now != n) {
                    n     = now;
                    since = clock::now();
                }
            }
            return n;
        };
        auto const before = settled();
        {
            auto const  s = store_on(std::make_shared<opencl_device>(first->context(), first->id()));
            block const x = filled(*s, 1000, 1), y = filled(*s, 30 * mib, 2), z = filled(*s, 1000, 3);
            auto const  view = s->view(x);
            CHECK(references() > before);
            CHECK(s->copy(x, 0, z, 0, 1000));
            CHECK(s->copy(x, 0, x, 510, 400));
            CHECK(s->fill(y, 5, std::byte{1}, mib));
            CHECK(holds(*s, z, 1));
            CHECK(s->deallocate({&y, 1}));
        }
        CHECK(settled() == before);
    }

    TEST_CASE("small blocks are cut from few allocations, which go back") {
        auto const device = std::make_shared<lab_device>();
        auto const s      = store_on(device, {.chunk_bytes = 16 * mib, .keep_idle = 4 * mib});
        for (int round = 0; round < 2; ++round) {
            std::vector<block> all;
            std::size_t        bytes = 0;
            for (std::size_t i = 0; i < 10'000; ++i) {
                all.push_back(s->allocate(1 + i * 7919 % (i % 100 == 0 ? 300'000 : 5000), 16).value());
                bytes += all.back().bytes;
            }
            CHECK(device->live <= 8);
            CHECK(device->bytes < bytes * 2);
            CHECK(s->deallocate(all));
            CHECK(device->bytes <= 4 * mib);
        }
        CHECK(s->trim());
        CHECK(device->live == 0);
        // Large ones have their own, and take it along.
        block const large = s->allocate(5 * mib, 16).value();
        CHECK(device->bytes == 5 * mib);
        CHECK(s->deallocate({&large, 1}));
        CHECK(device->live == 0);
        // What idles is not asked for again.
        auto const before = device->allocations.load();
        for (int i = 0; i < 100; ++i) {
            block const b = s->allocate(100, 16).value();
            CHECK(s->deallocate({&b, 1}));
        }
        CHECK(device->allocations == before + 1);
    }

    TEST_CASE("a device that is nearly full gives what it has; what idles makes room") {
        auto const device    = std::make_shared<lab_device>();
        device->most         = 3 * mib;
        auto const         s = store_on(device);
        std::vector<block> all;
        for (;;) {
            auto const b = s->allocate(100'000, 16);
            if (!b) {
                CHECK(b.error() == errc::store_full);
                break;
            }
            all.push_back(*b);
        }
        CHECK(all.size() >= 20);
        CHECK(s->usage().bytes == all.size() * 100'000);
        CHECK(s->deallocate(all));
        CHECK(s->allocate(3 * mib, 16).has_value());  // for which the idle chunks had to go
        CHECK(s->allocate(1, 16).error() == errc::store_full);
    }

    TEST_CASE("a view holds memory that is freed meanwhile, and the device") {
        auto const  device = std::make_shared<lab_device>();
        auto        s      = store_on(device, {.keep_idle = 0});
        block const x = filled(*s, 4000, 1), y = filled(*s, 4000, 2);
        auto        first = s->view(x);
        REQUIRE(first.has_value());
        std::optional second(*s->view(x));
        CHECK(second->get() == first->get());
        CHECK(std::ranges::equal(std::span(first->get(), 4000), pattern(1, 4000)));
        CHECK(s->deallocate(std::array{y, x}));
        CHECK(s->usage() == tenure::store_usage{});
        CHECK(s->read(x, 0, {}).error() == errc::no_such_block);
        CHECK(s->view(x).error() == errc::no_such_block);
        CHECK(s->deallocate({&x, 1}).error() == errc::no_such_block);
        std::vector<block> others;
        for (std::uint64_t i = 0; i < 100; ++i) others.push_back(filled(*s, 4000, 10 + i));
        CHECK(std::ranges::equal(std::span(first->get(), 4000), pattern(1, 4000)));
        CHECK(s->deallocate(others));
        CHECK(device->live == 1);
        second.reset();
        CHECK(device->live == 1);
        auto third = *std::move(first);
        s.reset();
        CHECK(std::ranges::equal(std::span(third.get(), 4000), pattern(1, 4000)));
        CHECK(&third.on() == device.get());
        { auto const gone = std::move(third); }
        CHECK(device->live == 0);
        CHECK(device->views == 0);
        CHECK(device.use_count() == 1);
    }

    TEST_CASE("views on many threads, while blocks come and go") {
        auto const       s = store_on(std::make_shared<host_device>());
        std::atomic<int> wrong{0};
        {
            std::vector<std::jthread> threads;
            for (int t = 0; t < 4; ++t)
                threads.emplace_back([&, t] {
                    for (int i = 0; i < (TENURE_SANITIZED ? 200 : 2000); ++i) {
                        auto const many = std::array{*s->allocate(64, 16), *s->allocate(64, 16)};
                        auto const view = s->view(many[1]);
                        std::fill_n(view->get(), 64, static_cast<std::byte>(t));
                        wrong += !s->deallocate(many);
                        auto const other = *s->allocate(64, 16);
                        wrong += !s->fill(other, 0, std::byte{77}, 64) || !s->deallocate({&other, 1});
                        wrong += std::any_of(view->get(), view->get() + 64,
                                             [&](std::byte b) { return b != static_cast<std::byte>(t); });
                    }
                });
        }
        CHECK(wrong == 0);
        CHECK(s->usage() == tenure::store_usage{});
    }

    TEST_CASE("buffers of a batch end in one call, and native() names what is wrong") {
        accounting books;
        auto const device  = std::make_shared<lab_device>();
        auto const on      = store_on(device);
        auto const counted = std::make_shared<tenure::counted_store<device_store<lab_device>>>(on);
        {
            tenure::batch_scope batch{{.name = "request"}};
            for (int i = 0; i < 10'000; ++i) batch.make_buffer<int>(16, counted);
            CHECK(on->usage().blocks == 10'000);
        }
        CHECK(counted->figures().deallocate.calls == 1);
        CHECK(on->usage() == tenure::store_usage{});

        std::optional<tenure::native_view<lab_device>> left;
        tenure::buffer<int>                            gone;
        {
            tenure::batch_scope batch;
            auto const          x = batch.make_buffer<int>(3, tenure::any_store{on});
            x.write(0, std::array{1, 2, 3});
            left.emplace(tenure::native<lab_device>(x));
            CHECK(left->bytes() == 3 * sizeof(int));
            CHECK(std::memcmp(left->get(), std::array{1, 2, 3}.data(), left->bytes()) == 0);
            check_throws(errc::not_addressable, {}, [&] { tenure::native<host_device>(x); });
            check_throws(errc::not_addressable, {}, [&] { tenure::native<lab_device>(batch.make_buffer<int>(3)); });
            device->says = errc::device_unavailable;
            check_throws(errc::device_unavailable, {}, [&] { tenure::native<lab_device>(x); });
            device->says = {};
            gone         = x;
        }
        check_throws(errc::stale_handle, {}, [&] { tenure::native<lab_device>(gone); });
        CHECK(on->usage() == tenure::store_usage{});
        CHECK(std::memcmp(left->get(), std::array{1, 2, 3}.data(), left->bytes()) == 0);
    }

    TEST_CASE("what the driver says when memory goes back is told, and the blocks are gone") {
        for (errc const code : {errc::corrupt, errc::device_unavailable}) {
            auto const  device = std::make_shared<lab_device>();
            auto const  s      = store_on(device);
            block const small = s->allocate(10, 16).value(), large = s->allocate(100 * mib, 16).value();
            device->says       = code;
            auto const outcome = s->deallocate(std::array{small, large});
            if (code == errc::corrupt) CHECK(outcome.error() == errc::corrupt);
            else CHECK(outcome);  // what was on a device that is lost is gone
            CHECK(s->deallocate(std::array{small, large}).error() == errc::no_such_block);
            CHECK(s->usage() == tenure::store_usage{});
            CHECK(s->allocate(100 * mib, 16).error() == code);
        }
    }

    TEST_CASE("CUDA: a machine without a driver says so") {
        try {
            cuda_device const d({.library = "libcuda-of-no-machine.so.1"});
            FAIL("there is none");
        } catch (tenure::error const& e) {
            CHECK(e.code() == errc::device_unavailable);
            CHECK(std::string(e.what()).find("libcuda-of-no-machine.so.1: cannot open") != std::string::npos);
        }
        try {
            cuda_device const d({.library = "libm.so.6"});
            FAIL("it is none");
        } catch (tenure::error const& e) {
            CHECK(e.code() == errc::device_unavailable);
            CHECK(std::string(e.what()).find("libm.so.6 has no cuGetErrorName") != std::string::npos);
        }
        fake_cuda driver;
        try {
            cuda_device const d(fake_cuda::options(2));
            FAIL("there are two");
        } catch (tenure::error const& e) {
            CHECK(e.code() == errc::device_unavailable);
            CHECK(std::string(e.what()).find("no device 2 of 2") != std::string::npos);
        }
    }

    TEST_CASE("CUDA: another device, page-locked memory, alignments, and the caller's context") {
        fake_cuda  driver;
        auto const a = store_on(fake_cuda::open(0)), b = store_on(fake_cuda::open(1));
        CHECK(a->describe() == "memory of stand-in for a GPU (CUDA device 0)");
        block const x = filled(*a, 100'000, 1), y = filled(*b, 100'000, 2);
        CHECK(b->copy_from(*a, x, 0, y, 0, 100'000));
        CHECK(holds(*b, y, 1));

        block const large = a->allocate(10 * mib, 16).value();
        {
            auto       in = a->on()->page_locked(10 * mib), out = a->on()->page_locked(10 * mib);
            auto const model = pattern(3, 10 * mib);
            std::ranges::copy(model, in->bytes().begin());
            CHECK(a->write(large, 0, in->bytes()));
            CHECK(driver.straight() == 1);
            CHECK(a->read(large, 0, out->bytes()));
            CHECK(driver.straight() == 2);
            CHECK(std::ranges::equal(out->bytes(), model));
            std::vector<std::byte> pageable(10 * mib);
            CHECK(a->read(large, 0, pageable));
            CHECK(driver.straight() == 2);
            CHECK(pageable == model);
        }
        for (std::size_t n = 16; n <= mib; n *= 2) {
            for (std::size_t const size : {100ul, 100'000ul, 20 * mib}) {
                block const c    = a->allocate(size, n).value();
                auto const  view = a->view(c);
                CHECK(view->get() % std::max<std::size_t>(n, 256) == 0);
                CHECK(a->write(c, size - 10, pattern(1, 10)));
                CHECK(a->deallocate({&c, 1}));
            }
        }
        auto const info = a->on()->memory_info();
        CHECK(info->total == fake_cuda::memory);
        CHECK(info->free == info->total - driver.bytes());
        CHECK(a->on()->symbol("cuInit") != nullptr);
        CHECK(a->on()->symbol("cuNoSuchFunction") == nullptr);
    }

    TEST_CASE("CUDA: out of memory") {
        fake_cuda          driver(10 * mib);
        auto const         s = store_on(fake_cuda::open());
        std::vector<block> all;
        while (auto const b = s->allocate(mib, 16)) all.push_back(*b);
        CHECK(all.size() >= 8);
        CHECK(s->allocate(mib, 16).error() == errc::store_full);
        for (std::size_t i = 0; i < all.size(); ++i) CHECK(s->write(all[i], 0, pattern(i, mib)));
        for (std::size_t i = 0; i < all.size(); ++i) CHECK(holds(*s, all[i], i));
        CHECK(s->deallocate(all));
    }

    TEST_CASE("CUDA: whichever call fails, that is what is said, and nothing is left behind") {
        constexpr int invalid = 1, no_memory = 2;
        for (int const code : {invalid, no_memory}) {
            bool done = false;
            for (long after = 0; !done; ++after) {
                REQUIRE(after < 1000);
                CAPTURE(after);
                fake_cuda driver;
                driver.fail(after, code);
                try {
                    auto const s    = store_on(fake_cuda::open(), {.keep_idle = 0});
                    auto const note = [&](auto const& r) {
                        if (r) return true;
                        CHECK((r.error() == errc::store_full || r.error() == errc::memory_full ||
                               r.error() == std::error_code(invalid, tenure::cuda_category())));
                        return false;
                    };
                    auto const             in = pattern(7, 900'000);
                    std::vector<std::byte> out(in.size());
                    auto const             b = s->allocate(in.size(), 16);
                    if (note(b)) {
                        bool const written = note(s->write(*b, 0, in));
                        bool const read    = note(s->read(*b, 0, out));
                        if (written && read) CHECK(out == in);
                        note(s->copy(*b, 0, *b, 500'000, 400'000));
                        note(s->fill(*b, 0, std::byte{1}, 1000));
                        note(s->deallocate({&*b, 1}));
                        CHECK(s->usage() == tenure::store_usage{});
                    }
                } catch (tenure::error const& e) {
                    CAPTURE(e.what());
                    CHECK(driver.objects() == 0);  // it could not be opened
                }
                done = !driver.failed();
            }
        }
    }

    TEST_CASE("CUDA: a device that is lost says so for ever, and all can be given up") {
        accounting books;
        fake_cuda  driver;
        auto const device = fake_cuda::open();
        auto const s      = store_on(device);
        {
            tenure::batch_scope batch;
            auto const          x = batch.make_buffer<int>(1000, tenure::any_store{s});
            auto const          y = batch.make_buffer<int>(10 * mib, tenure::any_store{s});
            std::vector<int>    some(1000, 1);
            x.write(0, some);
            auto const view = tenure::native<cuda_device>(x);
            driver.lose();
            CHECK(x.try_read(0, some).error() == errc::device_unavailable);
            CHECK(x.try_write(0, some).error() == errc::device_unavailable);
            check_throws(errc::device_unavailable, {}, [&] { x.copy_to(y); });
            CHECK(s->fill(x.block(), 0, {}, 1).error() == errc::device_unavailable);
            CHECK(s->allocate(100 * mib, 16).error() == errc::device_unavailable);
            CHECK(device->memory_info().error() == errc::device_unavailable);
            CHECK(device->page_locked(100).error() == errc::device_unavailable);
        }
        CHECK(s->usage() == tenure::store_usage{});
        CHECK_THROWS_AS(fake_cuda::open(), tenure::error);
        CHECK(tenure::detail::cuda_code(700) == errc::device_unavailable);
        CHECK(tenure::detail::cuda_code(1).message() == "CUDA_ERROR_INVALID_VALUE (1)");
        CHECK(tenure::detail::cuda_code(12345).message() == "CUDA error 12345");
        // What was lost with the device is the driver's to reclaim.
        driver.sweep();
    }
}
