// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>

#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/detail/batch/limits.hpp>
#include <tenure/detail/batch/progress.hpp>
#include <tenure/detail/batch/window.hpp>
#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/life/closing.hpp>
#include <tenure/detail/life/exclusive_claim.hpp>
#include <tenure/detail/life/opening.hpp>

namespace tenure::detail {

/// What a batch was opened with may change.

/// Makes a batch limited by itself. What is below it goes on with limits above, so nothing may be. Errors: those of
/// exclusive_claim; batch_in_use if this thread has a guard open below it.
inline failure limit_by_itself(batch_record& b, std::uint64_t id) noexcept {
    close_those_elsewhere();
    exclusive_claim const claim(b, id, batch_flags::closed);
    if (claim.why() != errc{}) return {.code = claim.why(), .id = id};
    if (has_open_children(b)) return {errc::batch_in_use, &b};
    if (b.limited == &b) return {};
    for_lanes(b, [](lane& l) { close_window(l); });  // whose rest was not charged
    claim.await_others();
    if (!b.limited) {
        batch_usage const use = usage_of(b);
        b.own_charge.store(use.bytes + use.buffer_bytes, std::memory_order_relaxed);
    }
    be_limited(b, b.own_charge.load(std::memory_order_relaxed));
    put_limits(b, no_limit, no_limit, {});
    return {};
}

/// Calls f() for a batch that is limited by itself, which it becomes if it is not. It is held meanwhile. Errors:
/// why it is over, those of limit_by_itself(). Throws what f throws.
template <class F>
failure with_limits(batch_record& b, std::uint64_t id, F f) {
    for (;;) {
        {
            kept_open const held(b, id, batch_flags::closed);
            if (!held) return over_failure(id);
            if (b.limited == &b) {
                f();
                settle_windows();
                return {};
            }
        }
        if (failure const why = limit_by_itself(b, id)) return why;
    }
}

/// Calls f(progress_meter&) for a batch that is held, under its lock. Returns false if there is no memory for a
/// meter.
template <class F>
bool with_meter(batch_record& b, F f) noexcept {
    for (owned_ptr<progress_meter> fresh;;) {
        {
            std::scoped_lock const guard(b.lock);
            if (!b.rest.progress) b.rest.progress = fresh.release();
            if (b.rest.progress) {
                b.touch();
                f(*b.rest.progress);
                return true;
            }
        }
        fresh.reset(new (std::nothrow) progress_meter);
        if (!fresh) return false;
    }
}

}  // namespace tenure::detail
