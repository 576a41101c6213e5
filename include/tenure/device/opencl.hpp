// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tenure/detail/space/span_heap.hpp>
#include <tenure/device/concept.hpp>
#include <tenure/device/opencl/api.hpp>

namespace tenure {

/// Selects a device, counted from 0 in the order of the loader and of the platform; `clinfo -l` lists them.
struct opencl_options {
    unsigned platform = 0;
    unsigned device   = 0;
    unsigned queues   = 4;  ///< transfers of that many threads overlap, if the device can
};

/// A device of OpenCL 1.2 or later, of any vendor, through the ICD loader (link OpenCL::OpenCL). On a machine
/// without a GPU, PoCL provides one. A native pointer is a cl_mem: a sub-buffer with just the bytes asked for,
/// because kernels of 1.2 take no offsets.
///
/// Transfers are blocking calls, straight between the caller's memory and the device; drivers stage them as suits
/// them. All operations use sub-buffers, which do not overlap unless one block is used twice: the standard says
/// that only one of a buffer and its parts may be in use at a time.
///
/// OpenCL does not tell how much memory is free: memory_info() tells what this object has not taken. Some drivers
/// allocate when memory is first used, so store_full may come from a write. Thread-safe.
class opencl_device {
public:
    struct memory {
        cl_mem      buffer = nullptr;
        std::size_t bytes  = 0;
    };
    using native_type = cl_mem;

    /// Opens a device in a context of its own. Throws tenure::error: device_unavailable if there is no such
    /// platform or device, or the driver's error.
    explicit opencl_device(opencl_options const& options = {})
        : opencl_device(detail::find_opencl_device(options.platform, options.device), options.queues) {}

    /// Opens a device in the user's context, which must have that device and is retained. Throws tenure::error
    /// with the driver's error.
    opencl_device(cl_context context, cl_device_id id, unsigned queues = 4)
        : opencl_device(id, detail::share_opencl(context), queues) {}

    opencl_device(opencl_device const&)            = delete;
    opencl_device& operator=(opencl_device const&) = delete;

    std::string name() const { return name_; }
    std::size_t alignment() const noexcept { return alignment_; }

    result<device_memory> memory_info() const {
        std::size_t const taken = taken_.load(std::memory_order_relaxed);
        return device_memory{total_ > taken ? total_ - taken : 0, total_};
    }

    /// Makes a buffer. The host knows no addresses here, so alignments above alignment() hold only for offsets in
    /// the buffer.
    result<memory> allocate(std::size_t bytes, std::size_t) noexcept {
        cl_int       code = CL_SUCCESS;
        cl_mem const m    = ::clCreateBuffer(context_.get(), CL_MEM_READ_WRITE, bytes, nullptr, &code);
        if (code == CL_INVALID_BUFFER_SIZE || code == CL_OUT_OF_RESOURCES) return make_error_code(errc::store_full);
        if (code != CL_SUCCESS) return detail::opencl_code(code);
        taken_.fetch_add(bytes, std::memory_order_relaxed);
        return memory{m, bytes};
    }
    result<void> free(memory m) noexcept {
        taken_.fetch_sub(m.bytes, std::memory_order_relaxed);
        return detail::opencl_result(::clReleaseMemObject(m.buffer));
    }

    result<void> read(memory m, std::size_t offset, std::span<std::byte> out) noexcept {
        part const from = part_of(m, offset, out.size());
        if (!from.buffer) return detail::opencl_code(from.code);
        return detail::opencl_result(::clEnqueueReadBuffer(queue(), from.buffer.get(), CL_TRUE, from.offset,
                                                           out.size(), out.data(), 0, nullptr, nullptr));
    }
    result<void> write(memory m, std::size_t offset, std::span<std::byte const> in) noexcept {
        part const to = part_of(m, offset, in.size());
        if (!to.buffer) return detail::opencl_code(to.code);
        return detail::opencl_result(::clEnqueueWriteBuffer(queue(), to.buffer.get(), CL_TRUE, to.offset, in.size(),
                                                            in.data(), 0, nullptr, nullptr));
    }
    result<void> fill(memory m, std::size_t offset, std::byte value, std::size_t bytes) noexcept {
        part const to = part_of(m, offset, bytes);
        if (!to.buffer) return detail::opencl_code(to.code);
        return detail::when_done(queue(), [&](cl_command_queue q, cl_event* done) {
            return ::clEnqueueFillBuffer(q, to.buffer.get(), &value, 1, to.offset, bytes, 0, nullptr, done);
        });
    }

    /// Copies within the device. If both ranges are near each other in one buffer, they use one sub-buffer,
    /// because two could overlap.
    result<void> copy(memory from, std::size_t from_offset, memory to, std::size_t to_offset,
                      std::size_t bytes) noexcept {
        std::size_t const grain = alignment_;
        std::size_t const begin = std::min(from_offset, to_offset), end = std::max(from_offset, to_offset) + bytes;
        bool const        near   = from.buffer == to.buffer && end - begin < 2 * bytes + grain;
        part const        source = near ? part_of(from, begin, end - begin) : part_of(from, from_offset, bytes);
        if (!source.buffer) return detail::opencl_code(source.code);
        if (near) {
            std::size_t const base = source.offset;
            return copy(source.buffer.get(), base + (from_offset - begin), source.buffer.get(),
                        base + (to_offset - begin), bytes);
        }
        part const target = part_of(to, to_offset, bytes);
        if (!target.buffer) return detail::opencl_code(target.code);
        return copy(source.buffer.get(), source.offset, target.buffer.get(), target.offset, bytes);
    }

    /// Copies from another device of the same context. not_copyable: the contexts differ.
    result<void> copy_from(opencl_device& other, memory from, std::size_t from_offset, memory to,
                           std::size_t to_offset, std::size_t bytes) noexcept {
        if (other.context() != context()) return make_error_code(errc::not_copyable);
        return copy(from, from_offset, to, to_offset, bytes);
    }

    result<cl_mem> view(memory m, std::size_t offset, std::size_t bytes) noexcept {
        part p = part_of(m, offset, bytes);
        if (!p.buffer) return detail::opencl_code(p.code);
        return p.buffer.release();
    }
    void release(cl_mem m) noexcept { ::clReleaseMemObject(m); }

    /// Returns the context, for the user's own queues, programs and kernels.
    cl_context context() const noexcept { return context_.get(); }
    /// Returns the device, for the user's own queues, programs and kernels.
    cl_device_id id() const noexcept { return id_; }

private:
    struct part {
        detail::opencl_memory buffer;
        std::size_t           offset = 0;  ///< in that buffer
        cl_int                code   = CL_SUCCESS;
    };

    opencl_device(cl_device_id id, unsigned queues) : opencl_device(id, detail::make_opencl_context(id), queues) {}

    opencl_device(cl_device_id id, detail::opencl_context context, unsigned queues)
        : context_(std::move(context)), id_(id), name_(detail::opencl_name(id)) {
        total_     = detail::opencl_info<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE);
        alignment_ = std::bit_ceil(
            std::max<std::size_t>(detail::opencl_info<cl_uint>(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8, 16));
        for (unsigned i = 0; i < std::max(queues, 1u); ++i)
            queues_.push_back(detail::make_opencl_queue(context_.get(), id));
    }

    cl_command_queue queue() const noexcept {
        return queues_[detail::thread_stripe(static_cast<unsigned>(queues_.size()))].get();
    }

    /// Makes a sub-buffer that has these bytes. It begins at a multiple of alignment_, as every block does, so it
    /// stays within its block.
    part part_of(memory m, std::size_t offset, std::size_t bytes) const noexcept {
        part             p;
        cl_buffer_region region{offset & ~(alignment_ - 1), 0};
        p.offset    = offset - region.origin;
        region.size = bytes + p.offset;
        p.buffer.reset(::clCreateSubBuffer(m.buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &p.code));
        return p;
    }

    result<void> copy(cl_mem from, std::size_t from_offset, cl_mem to, std::size_t to_offset,
                      std::size_t bytes) const noexcept {
        return detail::when_done(queue(), [&](cl_command_queue q, cl_event* done) {
            return ::clEnqueueCopyBuffer(q, from, to, from_offset, to_offset, bytes, 0, nullptr, done);
        });
    }

    detail::opencl_context            context_;
    cl_device_id                      id_;
    std::string                       name_;
    std::size_t                       total_     = 0;
    std::size_t                       alignment_ = 0;
    std::vector<detail::opencl_queue> queues_;
    std::atomic<std::size_t>          taken_{0};
};

static_assert(device<opencl_device>);

}  // namespace tenure
