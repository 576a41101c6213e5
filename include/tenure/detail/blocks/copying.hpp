// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>

#include <tenure/error.hpp>
#include <tenure/result.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure::detail {

/// Copies `n` bytes between blocks, by the shortest way: inside the store, straight from or to memory that one of
/// them has here, else through a buffer of this process. Errors: memory_full, and what the stores say.
inline result<void> copy_block(any_store& from, block source, any_store& to, block target, std::size_t n) {
    if (n == 0 || (from == to && source == target)) return {};
    if (from == to && from.capabilities().copyable) return from.try_copy(source, 0, target, 0, n);
    if (result<std::byte*> const at = from.try_address(source)) return to.write(target, 0, {*at, n});
    if (result<std::byte*> const at = to.try_address(target)) return from.read(source, 0, {*at, n});

    std::size_t const            piece = std::min(n, std::size_t{1} << 20);
    std::unique_ptr<std::byte[]> bytes(new (std::nothrow) std::byte[piece]);
    if (!bytes) return make_error_code(errc::memory_full);
    for (std::size_t at = 0; at < n; at += piece) {
        std::span<std::byte> const part(bytes.get(), std::min(piece, n - at));
        if (auto const done = from.read(source, at, part); !done) return done;
        if (auto const done = to.write(target, at, part); !done) return done;
    }
    return {};
}

}  // namespace tenure::detail
