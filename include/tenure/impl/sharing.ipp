// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <new>

#include <tenure/detail/sharing/owners.hpp>
#include <tenure/impl/registry.ipp>
#include <tenure/raise.hpp>
#include <tenure/sharing.hpp>

namespace tenure::detail {

TENURE_DECL failure sharing_calls::share(registry_core& r, raw_handle h, std::uint64_t with) {
    return share_with(r, h, with);
}

TENURE_DECL failure sharing_calls::share(lane const& here, raw_handle h, std::uint64_t with) {
    batch_record const& b = *here.batch;
    if (b.closed()) return {b.why_closed(), &b};
    return share_with(*b.registry.load(std::memory_order_relaxed), h, with);
}

TENURE_DECL failure sharing_calls::broadcast(registry_core& r, raw_handle h, each_id with) {
    return run_or<std::bad_alloc>([&] { return broadcast_or_throw(r, h, with); },
                                  [](auto const&) { return failure{errc::memory_full}; });
}

TENURE_DECL failure sharing_calls::broadcast(lane const& here, raw_handle h, each_id with) {
    batch_record const& b = *here.batch;
    if (b.closed()) return {b.why_closed(), &b};
    return broadcast(*b.registry.load(std::memory_order_relaxed), h, with);
}

TENURE_DECL failure sharing_calls::unshare(registry_core& r, raw_handle h, std::uint64_t with) {
    return unshare_with(r, h, with);
}

}  // namespace tenure::detail
