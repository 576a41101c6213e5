// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <tenure/detail/life/visit.ipp>
#include <tenure/detail/life/visiting.hpp>
#include <tenure/impl/core.ipp>
#include <tenure/impl/current.ipp>
#include <tenure/keep_copy.hpp>

namespace tenure::detail {

inline lane* own_lane(batch_record& b) noexcept {
    return b.guard.load(std::memory_order_relaxed) == &this_thread && !b.closed() ? &b.primary : nullptr;
}

TENURE_DECL failure copy_calls::begin_up(lane const& from, raw_handle h, place& to) noexcept {
    batch_record const& b = *from.batch;
    if (b.closed()) return {b.why_closed(), &b};
    batch_record* const up = b.parent.load(std::memory_order_relaxed);
    if (!up) return {errc::not_owner, &b};
    if (up->closed()) return {up->why_closed(), up};
    to = {up->id.load(std::memory_order_relaxed), own_lane(*up)};
    return is_alive(h) ? failure{} : failure{stale_because(resolve(h)), &b};
}

TENURE_DECL failure copy_calls::begin_to(std::uint64_t id, raw_handle h, place& to) noexcept {
    if (!is_known(id)) return {errc::no_such_batch};
    batch_record* const b = find_anywhere(id);
    if (!b) return over_failure(id);
    to = {id, own_lane(*b)};
    return is_alive(h) ? failure{} : failure{stale_because(resolve(h))};
}

}  // namespace tenure::detail
