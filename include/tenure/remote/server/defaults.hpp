// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>

#include <unistd.h>

#include <tenure/remote/server/options.hpp>
#include <tenure/remote/server/tenant.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure::detail {

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
