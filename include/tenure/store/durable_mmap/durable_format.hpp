// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <xxhash.h>

#include <tenure/detail/space/extent_pool.hpp>
#include <tenure/store/dedup/hash.hpp>

namespace tenure::detail {

/// The format of a durable store, as in docs/durable-format.md. Numbers are little-endian.
static_assert(std::endian::native == std::endian::little, "the format is little-endian, and is mapped as it is");

inline constexpr std::uint32_t durable_version = 1;

using magic_t = std::array<char, 8>;

inline constexpr magic_t data_magic    = {'t', 'e', 'n', 'u', 'r', 'e', ' ', 'D'};
inline constexpr magic_t catalog_magic = {'t', 'e', 'n', 'u', 'r', 'e', ' ', 'C'};

inline content_hash hash_of(std::span<std::byte const> bytes) noexcept {
    XXH128_hash_t const h = XXH3_128bits(bytes.data(), bytes.size());
    return {h.low64, h.high64};
}

/// The header at 0 and at 4096 of the data file, written in turn.
struct data_header {
    static constexpr std::uint64_t places = 2, apart = 4096, bytes = places * apart;

    magic_t                      magic   = data_magic;
    std::uint32_t                version = durable_version;
    std::uint32_t                zero    = 0;
    std::array<std::uint64_t, 2> store{};        ///< a random number for each store
    std::uint64_t                committed = 0;  ///< the catalog has at least so many commits
    std::uint64_t                check     = 0;

    std::uint64_t expected_check() const noexcept { return XXH3_64bits(this, offsetof(data_header, check)); }
};

/// The header of the catalog, under the key of one byte 0.
struct catalog_header {
    magic_t                      magic   = catalog_magic;
    std::uint32_t                version = durable_version;
    std::uint32_t                zero    = 0;
    std::array<std::uint64_t, 2> store{};
    std::uint64_t                sequence = 0;  ///< commits so far
    std::uint64_t                blocks   = 0;  ///< records
    std::uint64_t                sum      = 0;  ///< the xor of their checks
    std::uint64_t                check    = 0;

    std::uint64_t expected_check() const noexcept { return XXH3_64bits(this, offsetof(catalog_header, check)); }
};

/// The record of a block in the catalog, under a byte 1 and the name.
struct catalog_record {
    std::uint64_t offset = 0;  ///< in the data file
    std::uint64_t bytes  = 0;
    content_hash  hash;  ///< XXH3-128 of the contents
    std::uint64_t check = 0;

    std::uint64_t expected_check(std::string_view key) const noexcept {
        return XXH3_64bits_withSeed(this, offsetof(catalog_record, check), XXH3_64bits(key.data(), key.size()));
    }
};

static_assert(sizeof(data_header) == 48 && sizeof(catalog_header) == 64 && sizeof(catalog_record) == 40);

inline constexpr std::string_view header_key{"\0", 1};
inline constexpr std::size_t      longest_name = 500;  ///< a key of LMDB has at most 511 bytes

inline std::string key_of(std::string_view name) {
    std::string key(1, '\1');
    return key.append(name);
}

/// Returns whole pages, at least one, so that each block has an address of its own.
inline extent_in_file extent_of(std::uint64_t offset, std::uint64_t bytes, std::uint64_t page) noexcept {
    return {offset, std::max((bytes + page - 1) / page * page, page)};
}

}  // namespace tenure::detail
