// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include <tenure/result.hpp>

namespace tenure {

/// What a device has, in bytes. `free` is as the driver tells it, for all processes; where it does not, what this
/// process has not taken.
struct device_memory {
    std::size_t free  = 0;
    std::size_t total = 0;

    friend bool operator==(device_memory const&, device_memory const&) = default;
};

/// Something with memory of its own, which a driver gives out in large pieces; device_store makes a store of it.
/// Every operation may be called from any thread, several at once, and is done when it returns. They are in no
/// order with what the user runs on the device: who has a kernel write to memory waits for it before reading.
///
/// What goes wrong is a result, never an exception: device_unavailable once the device is lost; store_full
/// for no memory there, memory_full for none here; else what the driver said, in a category of its own. Ranges are
/// checked by the caller: they lie within the memory that is named.
template <class D>
concept device = requires(D& d, D const& view, typename D::memory m, typename D::native_type native, std::size_t n,
                          std::span<std::byte> out, std::span<std::byte const> in, std::byte value) {
    // Names what allocate() gave; only its device knows what it means.
    requires std::is_trivially_copyable_v<typename D::memory>;
    // What kernels take: a device pointer, a cl_mem.
    requires std::is_trivially_copyable_v<typename D::native_type>;

    // For messages: which device it is, and whose.
    { view.name() } -> std::same_as<std::string>;

    // A power of two, constant: what is viewed on its own must begin at a multiple of it.
    { view.alignment() } noexcept -> std::same_as<std::size_t>;

    { view.memory_info() } -> std::same_as<result<device_memory>>;

    // Bytes, at least one; alignment (a power of two, up to 1 GiB) of the address, where the host can know it.
    // An allocation of the driver's: microseconds to milliseconds. Contents are whatever was there, another
    // process's perhaps if the driver does not clear it. store_full, memory_full.
    { d.allocate(n, n) } -> std::same_as<result<typename D::memory>>;

    // It is not used any more, by nobody. On an error the driver has it still, or lost it with the device.
    { d.free(m) } noexcept -> std::same_as<result<void>>;

    // Memory, offset, then as many bytes as the span has. On an error part of it may have been done.
    { d.read(m, n, out) } -> std::same_as<result<void>>;
    { d.write(m, n, in) } -> std::same_as<result<void>>;

    // Memory, offset, value, bytes.
    { d.fill(m, n, value, n) } -> std::same_as<result<void>>;

    // From, offset, to, offset, bytes: within the device. The ranges do not overlap.
    { d.copy(m, n, m, n, n) } -> std::same_as<result<void>>;

    // As copy, from memory of the device `from` into this one's. not_copyable: there is no way between the two
    // but through this process, and nothing was done.
    { d.copy_from(d, m, n, m, n, n) } -> std::same_as<result<void>>;

    // Memory, offset (a multiple of alignment()), bytes (at least one): what a kernel takes to use just these.
    // It is valid until it is released, once, which the memory outlives.
    { d.view(m, n, n) } -> std::same_as<result<typename D::native_type>>;
    { d.release(native) } noexcept;
};

}  // namespace tenure
