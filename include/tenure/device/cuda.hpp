// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <tenure/device/concept.hpp>
#include <tenure/device/cuda/driver.hpp>
#include <tenure/device/cuda/lanes.hpp>

namespace tenure {

/// Selects a GPU, and says how transfers work.
struct cuda_options {
    int         device  = 0;                     ///< as the driver counts (CUDA_VISIBLE_DEVICES)
    unsigned    streams = 4;                     ///< transfers of that many threads overlap
    std::size_t staging = std::size_t{4} << 20;  ///< bytes of page-locked memory, twice for each stream in use
    std::string library = "libcuda.so.1";        ///< the driver, as dlopen() finds it
};

/// A GPU through the CUDA driver API, loaded at run time: a program builds without a toolkit and starts without a
/// driver (link ${CMAKE_DL_LIBS} if the C library has no dlopen()). It shares the device's primary context with
/// the CUDA runtime, so kernels launched through either can use its memory. A native pointer is a CUdeviceptr.
///
/// Every call leaves the calling thread's current context as it was. Transfers go through page-locked memory in
/// two halves, or straight if the caller's memory is page-locked (see page_locked(), cudaMallocHost), on streams
/// that do not wait for the default stream: wait for a kernel yourself before reading what it wrote.
///
/// Once a kernel of this process has crashed (CUDA_ERROR_ILLEGAL_ADDRESS and the like), CUDA refuses everything
/// for the rest of the process: device_unavailable. Thread-safe. Not to be used in the child of a fork().
class cuda_device {
public:
    struct memory {
        detail::cuda_address base    = 0;  ///< what the driver gave
        detail::cuda_address address = 0;  ///< the first aligned address in it
    };
    using native_type = detail::cuda_address;

    /// Opens a GPU. Throws tenure::error: device_unavailable, with the reason, if there is no driver or no such
    /// device; else what the driver says.
    explicit cuda_device(cuda_options const& options = {}) : driver_(options.library) {
        detail::must_cuda(driver_.cuInit(0), "cuInit of " + options.library);
        int count = 0;
        detail::must_cuda(driver_.cuDeviceGetCount(&count), "cuDeviceGetCount");
        if (options.device < 0 || options.device >= count)
            raise(error(errc::device_unavailable,
                        "CUDA: no device " + std::to_string(options.device) + " of " + std::to_string(count)));
        detail::must_cuda(driver_.cuDeviceGet(&number_, options.device), "cuDeviceGet");
        char text[256]{};
        detail::must_cuda(driver_.cuDeviceGetName(text, sizeof text - 1, number_), "cuDeviceGetName");
        name_ = std::string(text) + " (CUDA device " + std::to_string(options.device) + ")";
        lanes_.emplace(driver_, options.streams, options.staging);
        detail::must_cuda(driver_.cuDevicePrimaryCtxRetain(&context_, number_), "cuDevicePrimaryCtxRetain");
    }

    /// Closes the device. All memory that it gave must be freed by now.
    ~cuda_device() {
        {
            current const in(*this);
            lanes_.reset();
        }
        driver_.cuDevicePrimaryCtxRelease_v2(number_);
    }
    cuda_device(cuda_device const&)            = delete;
    cuda_device& operator=(cuda_device const&) = delete;

    std::string name() const { return name_; }

    /// Returns the alignment that cuMemAlloc() gives at least, and that libraries of kernels expect.
    std::size_t alignment() const noexcept { return 256; }

    result<device_memory> memory_info() const {
        device_memory m;
        auto const    done =
            detail::cuda_result(in_context([&] { return driver_.cuMemGetInfo_v2(&m.free, &m.total); }));
        if (!done) return done.error();
        return m;
    }

    result<memory> allocate(std::size_t bytes, std::size_t alignment) noexcept {
        memory m;
        int    code = in_context([&] { return driver_.cuMemAlloc_v2(&m.base, bytes); });
        m.address   = m.base;
        if (code == detail::cuda_success && m.base % alignment != 0) {
            code = in_context([&] { return driver_.cuMemFree_v2(m.base); });
            if (code == detail::cuda_success)
                code = in_context([&] { return driver_.cuMemAlloc_v2(&m.base, bytes + alignment); });
            m.address = (m.base + alignment - 1) / alignment * alignment;
        }
        // The driver calls a size invalid that is more than it can count.
        if (code == detail::cuda_invalid_value) return make_error_code(errc::store_full);
        if (code != detail::cuda_success) return detail::cuda_result(code).error();
        return m;
    }
    result<void> free(memory m) noexcept {
        return detail::cuda_result(in_context([&] { return driver_.cuMemFree_v2(m.base); }));
    }

    result<void> read(memory m, std::size_t offset, std::span<std::byte> out) noexcept {
        return in_lane([&](detail::cuda_lane& l) { return l.read(m.address + offset, out); });
    }
    result<void> write(memory m, std::size_t offset, std::span<std::byte const> in) noexcept {
        return in_lane([&](detail::cuda_lane& l) { return l.write(m.address + offset, in); });
    }
    result<void> fill(memory m, std::size_t offset, std::byte value, std::size_t bytes) noexcept {
        return in_stream([&](detail::cuda_stream s) {
            return driver_.cuMemsetD8Async(m.address + offset, std::to_integer<unsigned char>(value), bytes, s);
        });
    }
    result<void> copy(memory from, std::size_t from_offset, memory to, std::size_t to_offset,
                      std::size_t bytes) noexcept {
        return in_stream([&](detail::cuda_stream s) {
            return driver_.cuMemcpyDtoDAsync_v2(to.address + to_offset, from.address + from_offset, bytes, s);
        });
    }

    /// Copies from GPU to GPU, over NVLink or the bus if they can; else the driver passes the bytes through this
    /// machine. not_copyable: the other device was opened with another driver library.
    result<void> copy_from(cuda_device& other, memory from, std::size_t from_offset, memory to,
                           std::size_t to_offset, std::size_t bytes) noexcept {
        if (other.driver_.handle != driver_.handle) return make_error_code(errc::not_copyable);
        if (other.context_ == context_) return copy(from, from_offset, to, to_offset, bytes);
        return in_stream([&](detail::cuda_stream s) {
            return driver_.cuMemcpyPeerAsync(to.address + to_offset, context_, from.address + from_offset,
                                             other.context_, bytes, s);
        });
    }

    result<native_type> view(memory m, std::size_t offset, std::size_t) noexcept { return m.address + offset; }
    void                release(native_type) noexcept {}

    /// Owns page-locked memory of this process, from and to which transfers are as fast as the bus. Movable. The
    /// device must outlive it.
    class page_locked_memory {
    public:
        page_locked_memory(page_locked_memory&& other) noexcept
            : on_(other.on_), bytes_(std::exchange(other.bytes_, {})) {}
        page_locked_memory& operator=(page_locked_memory other) noexcept {
            std::swap(on_, other.on_);
            std::swap(bytes_, other.bytes_);
            return *this;
        }
        ~page_locked_memory() {
            if (bytes_.data()) on_->in_context([&] { return on_->driver_.cuMemFreeHost(bytes_.data()); });
        }

        std::span<std::byte> bytes() const noexcept { return bytes_; }

    private:
        friend cuda_device;
        page_locked_memory(cuda_device& on, std::span<std::byte> bytes) noexcept : on_(&on), bytes_(bytes) {}

        cuda_device*         on_;
        std::span<std::byte> bytes_;
    };

    /// Allocates page-locked memory. It costs milliseconds, and system memory that has no other use meanwhile.
    /// Errors: memory_full, or what the driver says.
    result<page_locked_memory> page_locked(std::size_t bytes) noexcept {
        constexpr unsigned portable = 1;
        void*              p        = nullptr;
        int const          code     = in_context([&] { return driver_.cuMemHostAlloc(&p, bytes, portable); });
        if (auto const done = done_here(code); !done) return done.error();
        return page_locked_memory(*this, {static_cast<std::byte*>(p), bytes});
    }

    /// Makes the device's context the calling thread's current one while it lives, for the user's own calls of the
    /// driver or the runtime. Destroy it on the same thread, last made first.
    class current {
    public:
        explicit current(cuda_device const& d) noexcept
            : driver_(d.driver_), code_(d.driver_.cuCtxPushCurrent_v2(d.context_)) {}
        ~current() {
            detail::cuda_context popped = nullptr;
            if (code_ == detail::cuda_success) driver_.cuCtxPopCurrent_v2(&popped);
        }
        current(current const&)            = delete;
        current& operator=(current const&) = delete;

        int code() const noexcept { return code_; }  ///< a CUresult; not 0: the context is not current

    private:
        detail::cuda_driver const& driver_;
        int const                  code_;
    };

    /// Returns the device's CUcontext.
    detail::cuda_context context() const noexcept { return context_; }

    /// Returns a function of the driver API by the name that the library has for it (cuLaunchKernel,
    /// cuMemAlloc_v2), null if there is none. So a program need not link to the driver either.
    void* symbol(char const* function) const noexcept { return driver_.find(function).address; }

private:
    /// Calls f with the context current, and returns its CUresult; once the device is lost, that error without
    /// calling f.
    template <class F>
    int in_context(F f) const noexcept {
        if (int const lost = lost_.load(std::memory_order_relaxed)) return lost;
        current const in(*this);
        int const     code = in.code() == detail::cuda_success ? f() : in.code();
        if (detail::is_cuda_loss(code)) lost_.store(code, std::memory_order_relaxed);
        return code;
    }
    /// Calls f with a lane.
    template <class F>
    result<void> in_lane(F f) noexcept {
        return done_here(in_context([&] { return lanes_->with(f); }));
    }
    template <class F>
    result<void> in_stream(F f) noexcept {
        return in_lane([&](detail::cuda_lane& l) { return l.run(f); });
    }
    /// Returns the outcome of a call of which only this machine's memory can be short: memory_full.
    static result<void> done_here(int code) noexcept {
        if (code == detail::cuda_out_of_memory) return make_error_code(errc::memory_full);
        return detail::cuda_result(code);
    }

    detail::cuda_driver               driver_;
    int                               number_  = 0;
    detail::cuda_context              context_ = nullptr;
    std::string                       name_;
    std::optional<detail::cuda_lanes> lanes_;
    mutable std::atomic<int>          lost_{0};  ///< the CUresult that reported the loss
};

static_assert(device<cuda_device>);

}  // namespace tenure
