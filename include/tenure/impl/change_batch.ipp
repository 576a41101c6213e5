// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string_view>
#include <utility>

#include <tenure/change_batch.hpp>
#include <tenure/detail/batch/deadlines.hpp>
#include <tenure/detail/batch/sharing_front.hpp>
#include <tenure/detail/life/changing.hpp>
#include <tenure/detail/life/reparenting.hpp>
#include <tenure/impl/batch_scope.ipp>
#include <tenure/impl/registry.ipp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Calls f(record) for a batch that may be changed; a scope's, or one of that registry. Errors: no_such_batch,
/// not_owner for what several batches share, over_failure(), those of f.
template <class F>
failure with_batch_to_change(batch_to_change const& which, F f) {
    found of{which.scope ? which.scope->batch : nullptr, true};
    if (which.registry) of = find_batch(*which.registry, which.id);
    if (!of.known) return {.code = errc::no_such_batch, .id = which.id};
    if (!of.record || is_over_record(of.record)) return over_failure(which.id);
    if (is_common(*of.record)) return {errc::not_owner, of.record};
    look_at_the_clock(*of.record, which.id);
    return f(*of.record);
}

/// As with_batch_to_change(), for a batch that is held meanwhile.
template <class F>
failure with_held(batch_to_change const& which, F f) {
    return with_batch_to_change(which, [&](batch_record& b) {
        kept_open const held(b, which.id, batch_flags::closed);
        if (!held) return over_failure(which.id);
        f(b);
        return failure{};
    });
}

/// As with_batch_to_change(), for a batch other than the root that is limited by itself, or becomes so. Errors:
/// not_owner for the root, too, those of with_limits().
template <class F>
failure with_limited(batch_to_change const& which, F f) {
    return with_batch_to_change(which, [&](batch_record& b) {
        if (which.registry && &b == which.registry->root) return failure{errc::not_owner, &b};
        return with_limits(b, which.id, [&] { f(b); });
    });
}

TENURE_DECL failure change_batch_calls::set_name(batch_to_change const& which, std::string_view name) noexcept {
    return with_held(which, [&](batch_record& b) { rename(b, name); });
}

TENURE_DECL failure change_batch_calls::set_priority(batch_to_change const& which, int priority) noexcept {
    return with_held(which, [&](batch_record& b) { b.rest.priority.store(priority, std::memory_order_relaxed); });
}

TENURE_DECL failure change_batch_calls::set_limits(batch_to_change const& which, batch_limits const& limits) {
    std::shared_ptr<limits_now::told const> on_soft;
    if (!memory_lasts([&] { on_soft = shared_on_soft(limits); }))
        return {.code = errc::memory_full, .wanted = sizeof limits, .id = which.id};
    return with_limited(which,
                        [&](batch_record& b) { put_limits(b, limits.soft, limits.hard, std::move(on_soft)); });
}

TENURE_DECL failure change_batch_calls::set_timeout(batch_to_change const&   which,
                                                    std::chrono::nanoseconds timeout) {
    return with_limited(which, [&](batch_record& b) {
        if (timeout == no_timeout) drop_deadline(b);
        else set_deadline(b, timeout);
    });
}

TENURE_DECL failure change_batch_calls::reparent(batch_to_change const& which, batch_id parent) noexcept {
    return with_batch_to_change(which, [&](batch_record& b) {
        if (which.registry && &b == which.registry->root) return failure{errc::not_owner, &b};
        return detail::reparent(b, which.id, parent.value);
    });
}

TENURE_DECL failure change_batch_calls::progress(batch_to_change const& which, std::uint64_t done,
                                                 std::uint64_t total) noexcept {
    bool          enough = true;
    failure const why    = with_held(which, [&](batch_record& b) {
        enough = with_meter(b, [&](progress_meter& m) { m.note(done, total, coarse_now()); });
    });
    if (!enough && !why) return {.code = errc::memory_full, .wanted = sizeof(progress_meter), .id = which.id};
    return why;
}

}  // namespace tenure::detail
