// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include <tenure/device/store.hpp>

namespace tenure {

/// Copies from a block on one device to a block on another, which may be the same device, or of another kind. The
/// devices copy by themselves if they can (two GPUs of CUDA, one OpenCL context), else through at most 8 MiB of
/// this process's memory. Errors: those of the two stores; memory_full. As thread-safe as the stores.
template <device From, device To>
result<void> copy_between(device_store<From>& from_store, block from, std::size_t from_offset,
                          device_store<To>& to_store, block to, std::size_t to_offset, std::size_t bytes) {
    if constexpr (std::is_same_v<From, To>) {
        if (&from_store == &to_store) return to_store.copy(from, from_offset, to, to_offset, bytes);
        result<void> const done = to_store.copy_from(from_store, from, from_offset, to, to_offset, bytes);
        if (done || done.error() != errc::not_copyable) return done;
    }
    // Both ranges and the target are checked first, so that nothing is copied unless everything can be.
    if (from_offset > from.bytes || bytes > from.bytes - from_offset || to_offset > to.bytes ||
        bytes > to.bytes - to_offset)
        return make_error_code(errc::out_of_range);
    if (auto const there = to_store.write(to, to_offset, {}); !there) return there;
    constexpr std::size_t              most = std::size_t{8} << 20;
    std::unique_ptr<std::byte[]> const staging(new (std::nothrow)
                                                   std::byte[std::max<std::size_t>(std::min(bytes, most), 1)]);
    if (!staging) return make_error_code(errc::memory_full);
    std::size_t at = 0;
    do {  // at least once, so that a missing block is noticed
        std::span<std::byte> const part(staging.get(), std::min(bytes - at, most));
        if (auto const read = from_store.read(from, from_offset + at, part); !read) return read;
        if (auto const written = to_store.write(to, to_offset + at, part); !written) return written;
        at += part.size();
    } while (at < bytes);
    return {};
}

}  // namespace tenure
