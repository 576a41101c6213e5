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

TENURE_DECL failure copy_calls::begin_up(lane const& from, raw_handle h, std::uint64_t& to) noexcept {
    batch_record const& b = *from.batch;
    if (b.closed()) return {b.why_closed(), &b};
    batch_record const* const up = b.parent.load(std::memory_order_relaxed);
    if (!up) return {errc::not_owner, &b};
    if (up->closed()) return {up->why_closed(), up};
    to = up->id.load(std::memory_order_relaxed);
    return is_alive(h) ? failure{} : failure{stale_because(resolve(h)), &b};
}

TENURE_DECL failure copy_calls::begin_to(raw_handle h, std::uint64_t to) noexcept {
    if (!is_known(to)) return {errc::no_such_batch};
    if (!find_anywhere(to)) return over_failure(to);
    return is_alive(h) ? failure{} : failure{stale_because(resolve(h))};
}

TENURE_DECL bool copy_calls::serves_this_thread(lane const& l) noexcept {
    batch_record const& b = *l.batch;
    return &l == &b.primary && b.guard.load(std::memory_order_relaxed) == &this_thread && !b.closed();
}

}  // namespace tenure::detail
