// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/batch/batch_record.hpp>
#include <tenure/detail/batch/failure.hpp>
#include <tenure/detail/batch/limits.hpp>
#include <tenure/reservation.hpp>

namespace tenure::detail {

/// Memory that a budget lends to a batch that is limited by itself.

/// Returns who lends to the batch, or null. It stays while the caller has it.
inline std::shared_ptr<lender> lender_of(batch_record& b) noexcept {
    std::scoped_lock const guard(b.lock);
    return b.rest.limits.from;
}

/// Charges the batch to a loan that it has claimed.
inline void lend(batch_record& b, std::shared_ptr<lender> from) noexcept {
    from->begun();
    std::scoped_lock const guard(b.lock);
    b.rest.limits.lent.store(from->bytes(), std::memory_order_relaxed);
    b.rest.limits.from.swap(from);
}

/// Takes the loan of a batch from it, and returns it, or null.
TENURE_COLD inline std::shared_ptr<lender> take_loan(batch_record& b) noexcept {
    std::scoped_lock const guard(b.lock);
    b.rest.limits.lent.store(no_limit, std::memory_order_relaxed);
    return std::exchange(b.rest.limits.from, nullptr);
}

/// Gives back what was lent to a batch whose memory is free.
inline void end_loan(batch_record& b) noexcept {
    if (b.limited != &b || b.rest.limits.lent.load(std::memory_order_relaxed) == no_limit) [[likely]]
        return;
    if (auto const from = take_loan(b)) from->ended(b.rest.limits.peak.load(std::memory_order_relaxed));
}

/// Asks for more where a charge was refused because a loan is used up. The caller is inside `b`, and holds no lock.
/// Returns nothing if it is worth another try, else why not.
TENURE_COLD inline failure borrow(batch_record& b, failure why) noexcept {
    batch_record* up = b.limited;
    while (up && up != why.batch) up = limited_above(up);
    auto const from = up ? lender_of(*up) : nullptr;
    if (!from) return why;
    std::size_t const hard = up->rest.limits.hard.load(std::memory_order_relaxed);
    if (why.wanted > hard || why.in_use > hard - why.wanted) return why;
    why.code = from->extend(why.in_use, why.wanted, [&] { return b.closed(); });
    if (b.closed()) return {b.why_closed(), &b};
    if (why) return why;
    std::scoped_lock const guard(up->lock);
    if (up->rest.limits.from == from) up->rest.limits.lent.store(from->bytes(), std::memory_order_relaxed);
    return {};
}

/// Charges by `charge()`, and borrows what is missing.
template <class F>
failure charge_or_borrow(batch_record& b, F charge) {
    for (;;) {
        failure const why = charge();
        if (why.code != errc::limit_exceeded) [[likely]]
            return why;
        if (failure const refused = borrow(b, why)) return refused;
    }
}

}  // namespace tenure::detail
