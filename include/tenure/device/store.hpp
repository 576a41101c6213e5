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

/// The memory of a device as a store: of a host_device, opencl_device, cuda_device, or a user's own. Blocks are
/// cut from large allocations, so making or freeing one costs some 50 ns, and mostly no call of the driver.
///
/// read() and write() pass through this process, copy() does not. They are in no order with the user's kernels:
/// wait for a kernel before reading what it wrote. Calls of several threads overlap, as far as the device can.
///
/// A new block has the contents of earlier blocks of this store: a store is one client. If several clients share a
/// store, clear blocks in between, with fill().
///
/// Errors: store_full if the device has no memory or the capacity is reached; device_unavailable once the device
/// is lost, and all that was on it. Blocks can still be freed then, and are. If the driver reports another error
/// when memory is given back to it, the deallocate() that did so returns it, and the blocks are freed all the
/// same. Thread-safe.
template <device Device>
class device_store {
public:
    static constexpr store_traits traits{.copyable = true};

    /// Makes a store on `d`, which it shares and which must not be null.
    explicit device_store(std::shared_ptr<Device> d, device_store_options const& options = {})
        : core_(std::make_shared<core>(std::move(d), options)) {}

    /// Allocates a block. Alignments, up to 1 GiB, are those of the address on the device, if it has any.
    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        if (!std::has_single_bit(alignment) || alignment > most_alignment)
            return make_error_code(errc::bad_alignment);
        if (bytes > most_bytes) return make_error_code(errc::store_full);
        return core_->allocate(bytes, alignment);
    }

    /// Frees blocks. It takes a lock for every hundred or so, and calls the driver only when a large allocation
    /// goes back. The memory of a block that has a view goes with the view.
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

    /// Copies as copy(), from a block of `other`. not_copyable: the bytes can only pass through this process (see
    /// device/copy.hpp).
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

    /// Sets `bytes` bytes from `offset` on to `value`, on the device.
    result<void> fill(block b, std::size_t offset, std::byte value, std::size_t bytes) {
        auto const to = core_->part_of(b, offset, bytes);
        if (!to) return to.error();
        if (bytes == 0) return {};
        return core_->device().fill(to->memory, to->offset, value, bytes);
    }

    /// Returns the block for kernels: see native_view, and native() for buffers. It counts as a read: the block
    /// must not be freed meanwhile. Errors: no_such_block, memory_full, or what the driver says.
    result<native_view<Device>> view(block b) {
        auto const native = core_->pin(b);
        if (!native) return native.error();
        return native_view<Device>(core_, b.id, b.bytes, *native);
    }

    /// Gives memory in which nothing lives back to the driver, at once. Errors: what the driver says.
    result<void> trim() noexcept { return core_->space().trim(); }

    store_usage usage() const noexcept { return core_->usage(); }

    std::shared_ptr<Device> const& on() const noexcept { return core_->shared_device(); }
    std::string                    describe() const { return "memory of " + core_->device().name(); }

private:
    static constexpr std::size_t most_alignment = std::size_t{1} << 30;
    static constexpr std::size_t most_bytes     = ~std::size_t{0} / 8;  ///< more than any device has

    using core = detail::device_core<Device>;

    std::shared_ptr<core> core_;
};

}  // namespace tenure
