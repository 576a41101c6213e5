// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Stores on devices, each beside the driver's own calls. OpenCL is what the loader finds first, PoCL perhaps; CUDA
// takes part where there is a driver. Wall clock: a device is waited for.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <tenure/device/cuda.hpp>
#include <tenure/device/host.hpp>
#include <tenure/device/opencl.hpp>
#include <tenure/device/store.hpp>
#include <tenure/tenure.hpp>

#include "disk.hpp"
#include "stores.hpp"

namespace {

using bench::check;
using bench::measure;
using tenure::block;
using tenure::device_store;

constexpr std::size_t large = std::size_t{64} << 20;

template <class Device>
std::shared_ptr<Device> const& opened() {
    static auto const device = std::make_shared<Device>();
    return device;
}

/// Through a device_store.
template <class Device>
class stored {
public:
    using name = block;

    name allocate(std::size_t bytes) { return store_->allocate(bytes, 16).value(); }
    void free(std::span<name const> all) { store_->deallocate(all).value(); }
    void write(name const& to, std::span<std::byte const> in) { store_->write(to, 0, in).value(); }
    void read(name const& from, std::span<std::byte> out) { store_->read(from, 0, out).value(); }

    std::shared_ptr<device_store<Device>> const& store() const noexcept { return store_; }

private:
    std::shared_ptr<device_store<Device>> store_ = std::make_shared<device_store<Device>>(opened<Device>());
};

/// The same bytes, and clEnqueue... straight.
class opencl_calls {
public:
    using name = cl_mem;

    name allocate(std::size_t bytes) {
        cl_int     code = CL_SUCCESS;
        name const made = ::clCreateBuffer(device_->context(), CL_MEM_READ_WRITE, bytes, nullptr, &code);
        check(code == CL_SUCCESS, "clCreateBuffer");
        return made;
    }
    void free(std::span<name const> all) {
        for (name const each : all) check(::clReleaseMemObject(each) == CL_SUCCESS, "clReleaseMemObject");
    }
    void write(name to, std::span<std::byte const> in) {
        check(::clEnqueueWriteBuffer(queue_.get(), to, CL_TRUE, 0, in.size(), in.data(), 0, nullptr, nullptr) ==
                  CL_SUCCESS,
              "clEnqueueWriteBuffer");
    }
    void read(name from, std::span<std::byte> out) {
        check(::clEnqueueReadBuffer(queue_.get(), from, CL_TRUE, 0, out.size(), out.data(), 0, nullptr, nullptr) ==
                  CL_SUCCESS,
              "clEnqueueReadBuffer");
    }

private:
    std::shared_ptr<tenure::opencl_device> device_ = opened<tenure::opencl_device>();
    tenure::detail::opencl_queue queue_ = tenure::detail::make_opencl_queue(device_->context(), device_->id());
};

/// The driver's blocking copies, and cuMemAlloc.
class cuda_calls {
public:
    using name = tenure::cuda_device::native_type;

    name allocate(std::size_t bytes) {
        name made = 0;
        must(call<int(name*, std::size_t)>("cuMemAlloc_v2")(&made, bytes), "cuMemAlloc");
        return made;
    }
    void free(std::span<name const> all) {
        auto const f = call<int(name)>("cuMemFree_v2");
        for (name const each : all) must(f(each), "cuMemFree");
    }
    void write(name to, std::span<std::byte const> in) {
        must(call<int(name, void const*, std::size_t)>("cuMemcpyHtoD_v2")(to, in.data(), in.size()),
             "cuMemcpyHtoD");
    }
    void read(name from, std::span<std::byte> out) {
        must(call<int(void*, name, std::size_t)>("cuMemcpyDtoH_v2")(out.data(), from, out.size()), "cuMemcpyDtoH");
    }

protected:
    template <class F>
    F* call(char const* function) const {
        void* const found = device_->symbol(function);
        check(found, function);
        return reinterpret_cast<F*>(found);
    }
    static void must(int code, char const* what) { check(code == 0, what); }

private:
    std::shared_ptr<tenure::cuda_device> device_ = opened<tenure::cuda_device>();
    tenure::cuda_device::current         context_{*device_};
};

/// cuMemAllocAsync, from the device's own pool, waited for once for all.
class cuda_pool : public cuda_calls {
public:
    name allocate(std::size_t bytes) {
        name made = 0;
        must(call<int(name*, std::size_t, void*)>("cuMemAllocAsync")(&made, bytes, nullptr), "cuMemAllocAsync");
        return made;
    }
    void free(std::span<name const> all) {
        auto const f = call<int(name, void*)>("cuMemFreeAsync");
        for (name const each : all) must(f(each, nullptr), "cuMemFreeAsync");
        must(call<int(void*)>("cuStreamSynchronize")(nullptr), "cuStreamSynchronize");
    }
};

/// Memory of this process: pageable, or page-locked by CUDA.
class pageable {
public:
    std::span<std::byte> bytes() { return bytes_; }

private:
    std::vector<std::byte> bytes_ = std::vector<std::byte>(large, std::byte{1});
};
class locked {
public:
    std::span<std::byte> bytes() { return memory_.bytes(); }

private:
    tenure::cuda_device::page_locked_memory memory_ = opened<tenure::cuda_device>()->page_locked(large).value();
};

template <class Calls, class Host>
void transfer(benchmark::State& state, std::size_t bytes, bool out) {
    Calls                      calls;
    Host                       host;
    std::span<std::byte> const some = host.bytes().first(bytes);
    std::array const           all{calls.allocate(bytes)};
    calls.write(all[0], some);
    measure(state, 1, [&] {
        if (out) calls.read(all[0], some);
        else calls.write(all[0], some);
    });
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
    calls.free(all);
}

/// Many of 4 KiB are made, and freed.
template <class Calls>
void make_and_free(benchmark::State& state) {
    constexpr std::size_t             many = 10'000;
    Calls                             calls;
    std::vector<typename Calls::name> all(many);
    measure(state, many, [&] {
        for (auto& each : all) each = calls.allocate(bench::buffer_bytes);
        calls.free(all);
    });
}

/// A batch of 100,000 buffers, made before: only its end counts.
template <class Device>
void end_of_batch(benchmark::State& state) {
    tenure::registry                   registry;
    stored<Device>                     calls;
    tenure::any_store const            store{calls.store()};
    std::optional<tenure::batch_scope> batch;
    measure(
        state, bench::buffers,
        [&] {
            batch.emplace(registry);
            for (std::size_t i = 0; i != bench::buffers; ++i)
                batch->make_buffer<std::byte>(bench::buffer_bytes, store);
        },
        [&] { batch.reset(); }, [&] { check(store.usage().blocks == 0, "something is left"); });
}

void add(std::string const& name, std::function<void(benchmark::State&)> const& f) {
    benchmark::RegisterBenchmark(("devices/" + name).c_str(), f)->Unit(benchmark::kMicrosecond)->UseManualTime();
}

template <class Calls, class Host = pageable>
void add_transfers(std::string const& peer) {
    add("write_64MiB/" + peer, [](benchmark::State& s) { transfer<Calls, Host>(s, large, false); });
    add("read_64MiB/" + peer, [](benchmark::State& s) { transfer<Calls, Host>(s, large, true); });
    add("write_4KiB/" + peer, [](benchmark::State& s) { transfer<Calls, Host>(s, 4096, false); });
    add("read_4KiB/" + peer, [](benchmark::State& s) { transfer<Calls, Host>(s, 4096, true); });
}

bool register_all() {
    using tenure::cuda_device, tenure::host_device, tenure::opencl_device;
    add("end/host", &end_of_batch<host_device>);
    add_transfers<opencl_calls>("clEnqueue");
    add_transfers<stored<opencl_device>>("opencl_store");
    add("make/clCreateBuffer", &make_and_free<opencl_calls>);
    add("make/opencl_store", &make_and_free<stored<opencl_device>>);
    add("end/opencl", &end_of_batch<opencl_device>);

    if (!::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
        std::fprintf(stderr, "bench: without CUDA: %s\n", ::dlerror());
        return false;
    }
    add_transfers<cuda_calls>("cuMemcpy");
    add_transfers<cuda_calls, locked>("cuMemcpy_locked");
    add_transfers<stored<cuda_device>>("cuda_store");
    add_transfers<stored<cuda_device>, locked>("cuda_store_locked");
    add("make/cuMemAlloc", &make_and_free<cuda_calls>);
    add("make/cuMemAllocAsync", &make_and_free<cuda_pool>);
    add("make/cuda_store", &make_and_free<stored<cuda_device>>);
    add("end/cuda", &end_of_batch<cuda_device>);
    return true;
}
bool const registered = register_all();

}  // namespace
