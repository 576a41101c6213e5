// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <tenure/device/concept.hpp>
#include <tenure/device/store/device_core.hpp>

namespace tenure {

template <device Device>
class device_store;

/// A block of a device_store as kernels take it: an address on the device, or a cl_mem. While the view lives, the
/// device stays open and the memory is nobody else's, even if the block is freed meanwhile, for example by the end
/// of its batch. The memory then goes back with the last view. A view does not hold off the end itself: after it
/// nobody can read what a kernel wrote, so let the batch outlive the view.
///
/// Kernels are the user's: wait for them before the view goes, and before reading the block. Movable. Any thread
/// may destroy it.
template <device Device>
class native_view {
public:
    using native_type = typename Device::native_type;

    native_view(native_view&&) noexcept = default;  // leaves no core
    native_view& operator=(native_view other) noexcept {
        std::swap(core_, other.core_);
        std::swap(id_, other.id_);
        std::swap(bytes_, other.bytes_);
        std::swap(native_, other.native_);
        return *this;
    }
    ~native_view() {
        if (!core_) return;
        core_->device().release(native_);
        core_->unpin(id_);
    }

    /// Returns the address or cl_mem. Meaningless once the view was moved from.
    native_type get() const noexcept { return native_; }
    std::size_t bytes() const noexcept { return bytes_; }
    Device&     on() const noexcept { return core_->device(); }

private:
    friend class device_store<Device>;
    using core = detail::device_core<Device>;

    native_view(std::shared_ptr<core> c, std::uint64_t id, std::size_t bytes, native_type n) noexcept
        : core_(std::move(c)), id_(id), bytes_(bytes), native_(n) {}

    std::shared_ptr<core> core_;
    std::uint64_t         id_;
    std::size_t           bytes_;
    native_type           native_;
};

}  // namespace tenure
