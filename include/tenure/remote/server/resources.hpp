// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include <unistd.h>

#include <tenure/detail/base/config.hpp>
#include <tenure/error.hpp>
#include <tenure/remote/server/options.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure::detail {

/// The resources that a server counts, for each tenant and for all together.
enum class resource : std::uint8_t {
    bytes,     ///< that the store holds in blocks
    buffers,   ///< blocks
    batches,   ///< with a block in them
    sessions,  ///< connected, or waiting for their client
    names,     ///< of shared blocks
    requests,  ///< that may be unsettled: the windows of all sessions
    queued,    ///< bytes of requests that have partly arrived, and of answers that are not taken
    tickets,   ///< that are not used yet
    memory,    ///< bytes of the server's own bookkeeping
};
inline constexpr std::size_t resources = 9;

inline constexpr std::array<std::string_view, resources> resource_names = {
    "bytes",        "buffers", "batches",
    "sessions",     "names",   "requests",
    "queued bytes", "tickets", "bytes of bookkeeping"};

/// A figure for each resource.
using amounts = std::array<std::uint64_t, resources>;

inline constexpr std::size_t index_of(resource r) noexcept { return static_cast<std::size_t>(r); }

/// Errors that say which limit refused a request, for use inside a server. On the wire such an error is
/// errc::limit_exceeded with a text.
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

/// Returns the error of a limit: the server's own if `of_all`, else the tenant's.
inline std::error_code limit_error(resource r, bool of_all) noexcept {
    return {static_cast<int>(2 * index_of(r) + (of_all ? 2 : 1)), limit_category()};
}

inline bool is_limit(std::error_code why) noexcept { return why.category() == limit_category(); }

/// Returns the error that others are told, which is one of tenure's.
inline std::error_code outward(std::error_code why) noexcept {
    return is_limit(why) ? make_error_code(errc::limit_exceeded) : why;
}

/// Returns how many bytes of the machine's memory this process may use: all, or less in a container.
inline std::uint64_t machine_memory() {
    auto const    pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
    std::uint64_t all = pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)
                                              : std::uint64_t{1} << 30;
    std::uint64_t limit = 0;
    if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit && limit != 0) all = std::min(all, limit);
    return all;
}

/// Returns `of`, the limits of all tenants together, with those filled in that were left to the server.
inline server_limits resolved(server_limits of, any_store const& store) {
    bool const takes_memory = store.capabilities().anonymous && store.usage().capacity == 0;
    if (of.bytes == 0 && takes_memory) of.bytes = machine_memory() / 4 * 3;
    if (of.memory == 0) of.memory = std::max<std::uint64_t>(machine_memory() / 16, std::uint64_t{32} << 20);
    return of;
}

inline amounts amounts_of(server_limits const& of) noexcept {
    amounts out{};
    out[index_of(resource::bytes)]    = of.bytes;
    out[index_of(resource::memory)]   = of.memory;
    out[index_of(resource::sessions)] = of.sessions;
    out[index_of(resource::queued)]   = of.queued_bytes;
    return out;
}

inline amounts amounts_of(tenant_quota const& of, server_limits const& all) noexcept {
    amounts out{};
    out[index_of(resource::bytes)]    = of.bytes;
    out[index_of(resource::buffers)]  = of.buffers;
    out[index_of(resource::batches)]  = of.batches;
    out[index_of(resource::sessions)] = of.sessions;
    out[index_of(resource::names)]    = of.names;
    out[index_of(resource::requests)] = of.requests;
    out[index_of(resource::queued)]   = of.queued_bytes;
    out[index_of(resource::tickets)]  = of.tickets;
    out[index_of(resource::memory)]   = of.memory ? of.memory : all.memory / 2;
    return out;
}

}  // namespace tenure::detail
