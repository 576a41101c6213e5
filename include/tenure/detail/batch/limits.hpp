// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include <tenure/detail/batch/batch_record.hpp>
#include <tenure/detail/batch/failure.hpp>

namespace tenure::detail {

/// Returns the next batch with limits above `b`, which has limits itself.
inline batch_record* limited_above(batch_record const* b) noexcept {
    batch_record* const up = b->parent.load(std::memory_order_acquire);
    return up ? up->limited : nullptr;
}

/// Returns the nearest batch with limits that both charge, which are batches with limits, or null.
inline batch_record* nearest_charged(batch_record* a, batch_record* b) noexcept {
    for (; b; b = limited_above(b))
        for (batch_record* other = a; other; other = limited_above(other))
            if (b == other) return b;
    return nullptr;
}

inline std::uint64_t soft_limit(batch_record const& b) noexcept {
    return b.rest.limits.soft.load(std::memory_order_relaxed);
}
inline std::uint64_t hard_limit(batch_record const& b) noexcept {
    limits_now const& l = b.rest.limits;
    return std::min(l.hard.load(std::memory_order_relaxed), l.lent.load(std::memory_order_relaxed));
}

/// Returns what to call when the use passes the soft limit, or null. It stays while the caller calls it.
inline std::shared_ptr<limits_now::told const> on_soft_of(batch_record& b) noexcept {
    std::scoped_lock const guard(b.lock);
    return b.rest.limits.on_soft;
}

/// Sets the limits of a batch that is limited by itself. Who makes next is told if the use is above the soft one.
inline void put_limits(batch_record& b, std::size_t soft, std::size_t hard,
                       std::shared_ptr<limits_now::told const> on_soft) noexcept {
    std::scoped_lock const guard(b.lock);
    b.rest.limits.soft.store(soft, std::memory_order_relaxed);
    b.rest.limits.hard.store(hard, std::memory_order_relaxed);
    b.rest.limits.on_soft.swap(on_soft);  // the former goes when the lock is free again
    b.rest.above_soft.store(false, std::memory_order_relaxed);
}

/// Takes a charge back, of which `bytes` were never in use.
inline void uncharge(batch_record& b, std::uint64_t bytes) noexcept {
    std::uint64_t const now = b.rest.charged.fetch_sub(bytes, std::memory_order_relaxed) - bytes;
    if (now <= soft_limit(b)) b.rest.above_soft.store(false, std::memory_order_relaxed);
}

/// Notes what was charged at its highest, which is always right before some of it is refunded.
inline void note_charged(batch_record& b) noexcept {
    std::atomic<std::uint64_t>& peak = b.rest.limits.peak;
    std::uint64_t const         now  = b.rest.charged.load(std::memory_order_relaxed);
    std::uint64_t               was  = peak.load(std::memory_order_relaxed);
    while (was < now && !peak.compare_exchange_weak(was, now, std::memory_order_relaxed)) {}
}

inline void refund(batch_record* from, batch_record const* stop, std::uint64_t bytes) noexcept {
    for (batch_record* b = from; b != stop; b = limited_above(b)) {
        note_charged(*b);
        uncharge(*b, bytes);
    }
}

inline void refund_batch(batch_record& b, std::uint64_t bytes) noexcept {
    if (!b.limited) return;
    refund(b.limited, nullptr, bytes);
    b.own_charge.fetch_sub(bytes, std::memory_order_relaxed);
}

/// Charges `bytes` to every batch with limits from `from` up to but not including `stop`. Charges none on failure.
inline failure charge(batch_record* from, batch_record const* stop, std::uint64_t bytes) noexcept {
    for (batch_record* b = from; b != stop; b = limited_above(b)) {
        std::uint64_t const hard     = hard_limit(*b);
        bool const          hopeless = bytes > hard;  // not added: such sums could wrap
        std::uint64_t const before   = b->rest.charged.fetch_add(hopeless ? 0 : bytes, std::memory_order_relaxed);
        if (hopeless || before + bytes > hard) {
            if (!hopeless) b->rest.charged.fetch_sub(bytes, std::memory_order_relaxed);
            for (batch_record* below = from; below != b; below = limited_above(below)) uncharge(*below, bytes);
            return {errc::limit_exceeded, b, bytes, before};
        }
    }
    return {};
}

/// Returns how much to charge ahead, between what is needed and what is offered: the less, the closer to a limit.
/// So the limit is met to the byte, and yet a make costs a charge only now and then.
inline std::uint64_t charge_ahead(batch_record* from, std::uint64_t needed, std::uint64_t offered) noexcept {
    for (batch_record* b = from; b; b = limited_above(b)) {
        std::uint64_t const used = b->rest.charged.load(std::memory_order_relaxed);
        std::uint64_t const hard = hard_limit(*b), soft = soft_limit(*b);
        offered = std::min(offered, used < hard ? (hard - used) / 16 : 0);
        if (used < soft) offered = std::min(offered, soft - used);
        else if (!b->rest.above_soft.load(std::memory_order_relaxed)) offered = 0;  // it will be told the use
    }
    return std::max(needed, offered);
}

/// Returns whether a charge would pass a limit that is not passed yet. If so, it is worth knowing the exact use.
inline bool would_pass(batch_record const* from, std::uint64_t bytes) noexcept {
    for (batch_record const* b = from; b; b = limited_above(b)) {
        std::uint64_t const used = b->rest.charged.load(std::memory_order_relaxed);
        std::uint64_t const soft = soft_limit(*b);
        if (used + bytes > hard_limit(*b) || (used <= soft && used + bytes > soft)) return true;
    }
    return false;
}

inline bool is_above_soft(batch_record const* from) noexcept {
    while (from && !from->rest.above_soft.load(std::memory_order_relaxed)) from = limited_above(from);
    return from != nullptr;
}

/// Calls on_soft of every batch that has just passed its soft limit. No lock is held; a callback may do anything.
inline void tell_soft_limits(batch_record* from) {
    for (batch_record* b = from; b; b = limited_above(b)) {
        std::uint64_t const used = b->rest.charged.load(std::memory_order_relaxed);
        if (used <= soft_limit(*b) || b->rest.above_soft.exchange(true, std::memory_order_relaxed)) continue;
        if (auto const tell = on_soft_of(*b)) (*tell)(batch_id{b->id.load(std::memory_order_relaxed)}, used);
    }
}

}  // namespace tenure::detail
