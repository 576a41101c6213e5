// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/life/keeping.hpp>
#include <tenure/detail/life/public_calls.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

TENURE_DECL bool keep_at_once(lane& from, raw_handle h) noexcept { return keep_near(from, h) || keep_one(from, h); }

TENURE_DECL failure keep_all(lane& from, all_handles handles) { return keep_listed(from, handles); }

TENURE_DECL failure transfer_object(registry_core& r, raw_handle h, std::uint64_t to) {
    return transfer_to(r, h, to);
}

TENURE_DECL failure transfer_from(lane const& current, raw_handle h, std::uint64_t to) {
    registry_core* const r = current.batch->registry.load(std::memory_order_relaxed);
    return r && !is_over_record(current.batch) ? transfer_to(*r, h, to)
                                               : failure{current.batch->why_closed(), current.batch};
}

TENURE_DECL failure free_object_of(registry_core& r, raw_handle h) { return free_one(r, h); }

TENURE_DECL failure free_in(lane const& owner, raw_handle h) {
    batch_record&        b = *owner.batch;
    registry_core* const r = b.registry.load(std::memory_order_relaxed);
    return r ? free_one(*r, h, &b) : failure{errc::batch_ended, &b};
}

TENURE_DECL failure drop_object_of(registry_core& r, raw_handle h) { return free_one(r, h, nullptr, by_dropping); }

TENURE_DECL failure drop_in(lane const& owner, raw_handle h) {
    batch_record&        b = *owner.batch;
    registry_core* const r = b.registry.load(std::memory_order_relaxed);
    return r ? free_one(*r, h, &b, by_dropping) : failure{errc::batch_ended, &b};
}

TENURE_DECL failure free_all(registry_core& r, each_handle handles) {
    failure why;
    handles([&](raw_handle h) {
        if (!is_alive(h)) why = {stale_because(resolve(h))};
        else if (is_pinned(r, resolve(h))) why = {errc::object_pinned};
        return !why;
    });
    if (!why)
        handles([&](raw_handle h) {
            if (is_alive(h)) why = free_one(r, h);
            return !why;
        });
    return why;
}

}  // namespace tenure::detail
