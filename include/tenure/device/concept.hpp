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

/// The memory of a device, in bytes. `free` is what the driver tells for all processes; if it does not tell, what
/// this process has not taken.
struct device_memory {
    std::size_t free  = 0;
    std::size_t total = 0;

    friend bool operator==(device_memory const&, device_memory const&) = default;
};

/// Something with memory of its own, which a driver gives out in large pieces; device_store makes a store of it.
/// Any thread may call any operation, several at once. An operation is done when it returns. Operations are in no
/// order with what the user runs on the device: if a kernel writes to memory, wait for it before reading.
///
/// Failures are results, never exceptions: device_unavailable once the device is lost; store_full for no memory
/// there, memory_full for none here; else what the driver said, in a category of its own. The caller checks
/// ranges: they lie within the memory that is named.
template <class D>
concept device = requires(D& d, D const& view, typename D::memory m, typename D::native_type native, std::size_t n,
                          std::span<std::byte> out, std::span<std::byte const> in, std::byte value) {
    // Names what allocate() returned; only its device knows what it means.
    requires std::is_trivially_copyable_v<typename D::memory>;
    // The type that kernels take: a device pointer, a cl_mem.
    requires std::is_trivially_copyable_v<typename D::native_type>;

    // Tells, for messages, which device it is, and whose.
    { view.name() } -> std::same_as<std::string>;

    // Returns a power of two, constant: a part that is viewed on its own must begin at a multiple of it.
    { view.alignment() } noexcept -> std::same_as<std::size_t>;

    // Returns what the device has now, or what the driver says.
    { view.memory_info() } -> std::same_as<result<device_memory>>;

    // Bytes, at least one; alignment (a power of two, up to 1 GiB) of the address, if the host can know it. This
    // is an allocation of the driver's: microseconds to milliseconds. Contents are unspecified, and may be another
    // process's if the driver does not clear them. Errors: store_full, memory_full.
    { d.allocate(n, n) } -> std::same_as<result<typename D::memory>>;

    // Frees memory that nobody uses any more. On an error the driver still has it, or has lost it with the device.
    { d.free(m) } noexcept -> std::same_as<result<void>>;

    // Memory, offset, then as many bytes as the span has. On an error a part may have been done.
    { d.read(m, n, out) } -> std::same_as<result<void>>;
    { d.write(m, n, in) } -> std::same_as<result<void>>;

    // Memory, offset, value, bytes.
    { d.fill(m, n, value, n) } -> std::same_as<result<void>>;

    // From, offset, to, offset, bytes: within the device. The ranges do not overlap.
    { d.copy(m, n, m, n, n) } -> std::same_as<result<void>>;

    // Another device of this type, then as copy(): from memory of that device into memory of this one.
    // not_copyable: the bytes can only pass through this process, and nothing was done.
    { d.copy_from(d, m, n, m, n, n) } -> std::same_as<result<void>>;

    // Memory, offset (a multiple of alignment()), bytes (at least one). Returns what a kernel takes to use just
    // these bytes. It is valid until it is released, once; the memory outlives it.
    { d.view(m, n, n) } -> std::same_as<result<typename D::native_type>>;
    { d.release(native) } noexcept;
};

}  // namespace tenure
