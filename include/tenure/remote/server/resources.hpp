// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include <tenure/detail/base/config.hpp>
#include <tenure/error.hpp>

namespace tenure::detail {

/// What a server counts: of each tenant, and of all of them together.
enum class resource : std::uint8_t {
    bytes,     ///< that the store holds in blocks
    buffers,   ///< blocks
    batches,   ///< with a block in them
    sessions,  ///< connected, or waiting for their client
    names,     ///< of shared blocks
    requests,  ///< that may be unsettled: each session's window
    queued,    ///< bytes of requests that have not wholly arrived, and of answers that nobody has taken
    tickets,   ///< that were not used
    memory,    ///< bytes that the server itself needs to know all this
};
inline constexpr std::size_t resources = 9;

inline constexpr std::array<std::string_view, resources> resource_names = {
    "bytes",        "buffers", "batches",
    "sessions",     "names",   "requests",
    "queued bytes", "tickets", "bytes of bookkeeping"};

/// A figure for each resource.
using amounts = std::array<std::uint64_t, resources>;

inline constexpr std::size_t index_of(resource r) noexcept { return static_cast<std::size_t>(r); }

/// Says which limit: inside a server only. On the wire it is errc::limit_exceeded, and a text.
class TENURE_SHARED limit_category_type final : public std::error_category {
public:
    char const* name() const noexcept override { return "tenure server limit"; }
    std::string message(int code) const override {
        auto const at = static_cast<std::size_t>(code - 1) / 2;
        if (code < 1 || at >= resources) return "limit exceeded";
        return "limit exceeded: " + std::string(resource_names[at]) +
               (code % 2 ? " of one tenant" : " of the server");
    }
};

TENURE_SHARED inline std::error_category const& limit_category() noexcept {
    static limit_category_type const category;
    return category;
}

/// `of_all`: the server's own limit, else the tenant's.
inline std::error_code limit_error(resource r, bool of_all) noexcept {
    return {static_cast<int>(2 * index_of(r) + (of_all ? 2 : 1)), limit_category()};
}

inline bool is_limit(std::error_code why) noexcept { return why.category() == limit_category(); }

/// What others are told: an error of tenure's.
inline std::error_code outward(std::error_code why) noexcept {
    return is_limit(why) ? make_error_code(errc::limit_exceeded) : why;
}

}  // namespace tenure::detail
