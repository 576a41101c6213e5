// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <system_error>

#include <xxhash.h>

#include <tenure/detail/base/file.hpp>
#include <tenure/error.hpp>
#include <tenure/store/durable_mmap/durable_format.hpp>

namespace tenure::detail {

/// Checks bytes of the file against a hash. Uses read(), since a failing disk would be a signal in a mapping.
/// Errors: corrupt, memory_full, or the system's.
inline std::error_code verify(int fd, std::uint64_t offset, std::uint64_t bytes, block_hash const& expected) {
    struct freer {
        void operator()(XXH3_state_t* s) const noexcept { XXH3_freeState(s); }
    };
    constexpr std::size_t                      at_once = std::size_t{256} << 10;
    std::unique_ptr<XXH3_state_t, freer> const state(XXH3_createState());
    auto const                         n = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, at_once));
    std::unique_ptr<std::byte[]> const buffer(new (std::nothrow) std::byte[n]);
    if (!state || !buffer) return make_error_code(errc::memory_full);
    XXH3_128bits_reset(state.get());
    while (bytes) {
        std::span<std::byte> const part(buffer.get(), static_cast<std::size_t>(std::min<std::uint64_t>(bytes, n)));
        if (!read_whole(fd, offset, part)) return errno ? io_code(errno) : make_error_code(errc::corrupt);
        XXH3_128bits_update(state.get(), part.data(), part.size());
        offset += part.size();
        bytes -= part.size();
    }
    XXH128_hash_t const h = XXH3_128bits_digest(state.get());
    return block_hash{h.low64, h.high64} == expected ? std::error_code() : make_error_code(errc::corrupt);
}

}  // namespace tenure::detail
