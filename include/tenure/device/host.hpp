// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <system_error>

#include <unistd.h>

#include <tenure/detail/base/os.hpp>
#include <tenure/device/concept.hpp>

namespace tenure {

/// This machine's memory as a device: whole pages from the system, zero-filled. It is for machines without a GPU,
/// and for tests; for speed in memory use a heap_store. A native pointer is an address of this process.
class host_device {
public:
    struct memory {
        std::byte*  address = nullptr;
        std::size_t bytes   = 0;  ///< whole pages
    };
    using native_type = std::byte*;

    host_device() noexcept                     = default;
    host_device(host_device const&)            = delete;
    host_device& operator=(host_device const&) = delete;

    std::string name() const { return "host memory"; }
    std::size_t alignment() const noexcept { return 16; }

    /// Returns the machine's memory, and how much of it the kernel calls free. Errors: what the system says.
    result<device_memory> memory_info() const {
        auto const free = ::sysconf(_SC_AVPHYS_PAGES), total = ::sysconf(_SC_PHYS_PAGES);
        if (free < 0 || total < 0) return std::error_code(errno, std::system_category());
        return device_memory{static_cast<std::size_t>(free) * detail::page_bytes(),
                             static_cast<std::size_t>(total) * detail::page_bytes()};
    }

    result<memory> allocate(std::size_t bytes, std::size_t alignment) noexcept {
        std::size_t const page = detail::page_bytes();
        if (bytes > most || alignment > most) return make_error_code(errc::store_full);
        memory m{nullptr, (bytes + page - 1) / page * page};
        void*  p = alignment > page ? detail::reserve_aligned(m.bytes, alignment)
                                    : detail::reserve(m.bytes, detail::access::read_write);
        if (!p) return make_error_code(errc::store_full);
        m.address = static_cast<std::byte*>(p);
        return m;
    }
    result<void> free(memory m) noexcept {
        detail::give_back(m.address, m.bytes);
        return {};
    }

    result<void> read(memory m, std::size_t offset, std::span<std::byte> out) noexcept {
        std::memcpy(out.data(), m.address + offset, out.size());
        return {};
    }
    result<void> write(memory m, std::size_t offset, std::span<std::byte const> in) noexcept {
        std::memcpy(m.address + offset, in.data(), in.size());
        return {};
    }
    result<void> fill(memory m, std::size_t offset, std::byte value, std::size_t bytes) noexcept {
        std::memset(m.address + offset, std::to_integer<int>(value), bytes);
        return {};
    }
    result<void> copy(memory from, std::size_t from_offset, memory to, std::size_t to_offset,
                      std::size_t bytes) noexcept {
        std::memcpy(to.address + to_offset, from.address + from_offset, bytes);
        return {};
    }
    result<void> copy_from(host_device&, memory from, std::size_t from_offset, memory to, std::size_t to_offset,
                           std::size_t bytes) noexcept {
        return copy(from, from_offset, to, to_offset, bytes);
    }

    result<std::byte*> view(memory m, std::size_t offset, std::size_t) noexcept { return m.address + offset; }
    void               release(std::byte*) noexcept {}

private:
    static constexpr std::size_t most = ~std::size_t{0} / 4;  // so that no sum overflows
};

static_assert(device<host_device>);

}  // namespace tenure
