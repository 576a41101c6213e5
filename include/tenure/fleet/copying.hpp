// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include <tenure/detail/blocks/copying.hpp>
#include <tenure/error.hpp>
#include <tenure/result.hpp>

namespace tenure::detail {

/// Compares `n` bytes of two blocks, piece by piece. Errors: corrupt if they differ; memory_full; what the stores
/// say.
inline result<void> compare_blocks(place_in_block const& a, place_in_block const& b, std::size_t n) {
    std::size_t const            piece = std::min(n, largest_piece);
    std::unique_ptr<std::byte[]> bytes(new (std::nothrow) std::byte[2 * piece]);
    if (!bytes) return make_error_code(errc::memory_full);
    for (std::size_t done = 0; done < n; done += piece) {
        std::span const one(bytes.get(), std::min(piece, n - done)), other(bytes.get() + piece, one.size());
        if (auto const read = (a + done).read(one); !read) return read;
        if (auto const read = (b + done).read(other); !read) return read;
        if (std::memcmp(one.data(), other.data(), one.size()) != 0) return make_error_code(errc::corrupt);
    }
    return {};
}

/// Copies `n` bytes and reads them back. Errors: corrupt if what is there differs; memory_full; what the stores
/// say. Cost: each store reads or writes the bytes, and reads them once more.
inline result<void> copy_and_verify(place_in_block const& from, place_in_block const& to, std::size_t n) {
    result<void> const copied = copy_block(from, to, n);
    return copied && n > 0 ? compare_blocks(from, to, n) : copied;
}

}  // namespace tenure::detail
