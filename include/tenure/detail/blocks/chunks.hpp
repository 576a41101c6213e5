// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>

#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// Calls f(offset, bytes) -> result<void> for that part of a block, front to back: in one piece if the store has
/// an address for it, else in pieces that are read into this process. Stops at the first error, the store's or
/// f's.
template <class Store, class F>
result<void> for_each_chunk(Store& s, block b, std::size_t offset, std::size_t bytes, F f) {
    if (bytes == 0) return {};
    if constexpr (Store::traits.addressable) {
        result<std::byte*> const p = s.address(b);
        if (!p) return p.error();
        return f(offset, std::span<std::byte const>(*p + offset, bytes));
    } else {
        constexpr std::size_t        most = std::size_t{64} << 10;
        std::byte                    small[4096];
        std::unique_ptr<std::byte[]> large;
        std::span<std::byte>         room(small);
        if (bytes > room.size()) {
            std::size_t const n = std::min(bytes, most);
            large.reset(new (std::nothrow) std::byte[n]);
            if (large) room = {large.get(), n};  // otherwise the pieces are smaller
        }
        for (std::size_t const end = offset + bytes; offset < end;) {
            std::span<std::byte> const piece = room.first(std::min(room.size(), end - offset));
            if (result<void> r = s.read(b, offset, piece); !r) return r;
            if (result<void> r = f(offset, piece); !r) return r;
            offset += piece.size();
        }
        return {};
    }
}

/// Copies that part of a block to the same part of another block, which may be another store's. Errors: either
/// store's.
template <class From, class To>
result<void> copy_part(From& from, block source, To& to, block target, std::size_t offset, std::size_t bytes) {
    return for_each_chunk(from, source, offset, bytes, [&](std::size_t at, std::span<std::byte const> piece) {
        return to.write(target, at, piece);
    });
}

}  // namespace tenure::detail
