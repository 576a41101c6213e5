// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>

#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/detail/timing/stopping.hpp>
#include <tenure/impl/batch_scope.ipp>
#include <tenure/impl/registry.ipp>
#include <tenure/timing.hpp>

namespace tenure::detail {

TENURE_DECL void timing_calls::cancel(lane& of, std::uint64_t id) noexcept {
    if (!is_over_record(of.batch)) stop_batch(*of.batch, id, errc::cancelled);
}
TENURE_DECL void timing_calls::cancel(batch_id id) noexcept {
    if (batch_record* const b = find_anywhere(id.value)) stop_batch(*b, id.value, errc::cancelled);
}
TENURE_DECL void timing_calls::cancel(registry& in, batch_id id) {
    found const f = in.find_to_end(id, "cancel batch ");
    if (f.record) stop_batch(*f.record, id.value, errc::cancelled);
}

TENURE_DECL std::stop_token timing_calls::stop_token(lane& of, std::uint64_t id) {
    return stop_token_of(*of.batch, id);
}
TENURE_DECL std::stop_token timing_calls::stop_token(batch_id id) {
    batch_record* const b = find_anywhere(id.value);
    return stop_token_of(b ? *b : over_record_of(), id.value);
}
TENURE_DECL std::stop_token timing_calls::stop_token(registry_core& in, batch_id id) {
    found const f = find_known(in, id.value, "stop_token of batch ");
    return stop_token_of(f.record ? *f.record : over_record_of(), id.value);
}

TENURE_DECL std::chrono::nanoseconds timing_calls::expire_overdue(registry_core& in) noexcept {
    return in.timing ? detail::expire_overdue(in) : no_timeout;
}

TENURE_DECL void timing_calls::watch(registry& of, std::shared_ptr<deadline_watch> const& by) {
    registry_core& core = core_of(of);
    if (!core.timing) refuse_without("tenure/timing.hpp", "watch the deadlines of a registry that was opened");
    deadlines_of(core).watch_by(by);
    by->earlier();  // for deadlines that exist already
}

TENURE_DECL void timing_calls::unwatch(registry& of) noexcept { deadlines_of(core_of(of)).watch_by(nullptr); }

/// Not inline: see new_paging().
owned_ptr<timing_front> new_timing(registry_core&) {
    registry_timing::be_ready_for_forks();
    return owned_ptr<timing_front>(new registry_timing);
}

extern "C" {
/// What a process has of this once: life/one_copy.hpp.
void const* const tenure_copies_of_timing[] = {&expiries, nullptr};
}

}  // namespace tenure::detail
