// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <bit>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <tenure/device/concept.hpp>
#include <tenure/device/native_view.hpp>
#include <tenure/device/store/device_core.hpp>
#include <tenure/store/concept.hpp>

namespace tenure {

struct device_store_options {
    /// The most bytes in live blocks, as asked for; 0: what the device gives.
    std::size_t capacity = 0;

    /// The most that is asked of the driver at once for blocks to share. Blocks above a quarter of it have an
    /// allocation each. The first is 4 MiB, and each next as large as all before, up to this.
    std::size_t chunk_bytes = std::size_t{64} << 20;

    /// Bytes in such allocations in which nothing is left, that stay for the next blocks.
    std::size_t keep_idle = std::size_t{64} << 20;
};

/// Memory of a device: host_device, opencl_device, cuda_device, or a user's own. Blocks are cut from large
/// allocations, so that making and freeing them costs some 50 ns each, and no call of the driver most of the time.
///
/// read() and write() pass through this process, copy() does not. They are in no order with the user's kernels:
/// wait for a kernel before reading what it wrote. Those of several threads overlap, as far as the device can.
///
/// Contents of a new block are those of earlier blocks of this store: a store is one client. Who lets several at
/// one clears in between, with fill().
///
/// Errors: store_full, no memory on the device or the capacity is reached; device_unavailable, it is lost, and all
/// that was on it; then blocks can still be freed, and are. What else a driver says when it is given memory back is
/// the result of the deallocate() that did so, and the blocks are freed all the same. Thread-safe.
template <device Device>
class device_store {
public:
    static constexpr store_traits traits{.copyable = true};

    /// Shares `d`, which must not be null.
    explicit device_store(std::shared_ptr<Device> d, device_store_options const& options = {})
        : core_(std::make_shared<core>(std::move(d), options.capacity,
                                       detail::device_chunk_options{options.chunk_bytes, options.keep_idle})) {}

    /// Alignments up to 1 GiB, of the address on the device if it has any.
    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        if (!std::has_single_bit(alignment) || alignment > most_alignment)
            return make_error_code(errc::bad_alignment);
        if (bytes > most_bytes) return make_error_code(errc::store_full);
        return core_->allocate(bytes, alignment);
    }

    /// A lock for every hundred or so, and the driver is called only where a large allocation goes back to it. The
    /// memory of a block that somebody has a view of goes with the view.
    result<void> deallocate(std::span<block const> many) noexcept { return core_->deallocate(many); }

    result<void> read(block b, std::size_t offset, std::span<std::byte> out) {
        auto const from = core_->part_of(b, offset, out.size());
        if (!from) return from.error();
        if (out.empty()) return {};
        return core_->device().read(from->memory, from->offset, out);
    }

    result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        auto const to = core_->part_of(b, offset, in.size());
        if (!to) return to.error();
        if (in.empty()) return {};
        return core_->device().write(to->memory, to->offset, in);
    }

    result<void> copy(block from, std::size_t from_offset, block to, std::size_t to_offset, std::size_t bytes) {
        auto const source = core_->part_of(from, from_offset, bytes);
        if (!source) return source.error();
        auto const target = core_->part_of(to, to_offset, bytes);
        if (!target) return target.error();
        if (bytes == 0) return {};
        return core_->device().copy(source->memory, source->offset, target->memory, target->offset, bytes);
    }

    /// As copy(), from a block of `other`. not_copyable: only through this process (see device/copy.hpp).
    result<void> copy_from(device_store& other, block from, std::size_t from_offset, block to,
                           std::size_t to_offset, std::size_t bytes) {
        auto const source = other.core_->part_of(from, from_offset, bytes);
        if (!source) return source.error();
        auto const target = core_->part_of(to, to_offset, bytes);
        if (!target) return target.error();
        if (bytes == 0) return {};
        return core_->device().copy_from(other.core_->device(), source->memory, source->offset, target->memory,
                                         target->offset, bytes);
    }

    /// Sets `bytes` bytes from `offset` on, on the device.
    result<void> fill(block b, std::size_t offset, std::byte value, std::size_t bytes) {
        auto const to = core_->part_of(b, offset, bytes);
        if (!to) return to.error();
        if (bytes == 0) return {};
        return core_->device().fill(to->memory, to->offset, value, bytes);
    }

    /// The block for kernels: see native_view, and native() for buffers. no_such_block, memory_full, or what the
    /// driver says. As a read: not while the block is being freed.
    result<native_view<Device>> view(block b) {
        auto const native = core_->pin(b);
        if (!native) return native.error();
        return native_view<Device>(core_, b.id, b.bytes, *native);
    }

    /// Gives memory in which nothing lives back to the driver, at once.
    result<void> trim() noexcept { return core_->space().trim(); }

    store_usage usage() const noexcept { return core_->usage(); }

    std::shared_ptr<Device> const& on() const noexcept { return core_->shared_device(); }
    std::string                    describe() const { return "memory of " + core_->device().name(); }

private:
    static constexpr std::size_t most_alignment = std::size_t{1} << 30;
    static constexpr std::size_t most_bytes     = ~std::size_t{0} / 8;  ///< no device has that

    using core = detail::device_core<Device>;

    std::shared_ptr<core> core_;
};

}  // namespace tenure
