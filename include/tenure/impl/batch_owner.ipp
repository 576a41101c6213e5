// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <source_location>
#include <string>

#include <tenure/batch_owner.hpp>
#include <tenure/detail/life/reporting.hpp>
#include <tenure/detail/life/visiting.hpp>
#include <tenure/impl/core.ipp>
#include <tenure/impl/lane.ipp>
#include <tenure/raise.hpp>
#include <tenure/registry.hpp>

namespace tenure {

TENURE_DECL batch_owner::batch_owner(registry& in, batch_options const& options, batch_id parent, source where)
    : id_(in.new_batch(options, parent, where)) {}

TENURE_DECL batch_owner::batch_owner(batch_id id) : id_(id) {
    if (!detail::is_known(id.value)) raise(error(errc::no_such_batch, "own batch " + detail::id_text(id.value)));
}

TENURE_DECL batch_owner::~batch_owner() {
    if (auto* const b = detail::find_anywhere(id_.value)) detail::end_record(*b, id_.value, false);
}

TENURE_DECL batch_report batch_owner::end() noexcept {
    batch_id const id = release();
    auto* const    b  = detail::find_anywhere(id.value);
    return b ? detail::end_by_id(*b, id.value) : batch_report{};
}

TENURE_DECL batch_status batch_owner::status() const noexcept {
    auto* const b = detail::find_anywhere(id_.value);
    return detail::status_of(b ? *b : detail::over_record_of(), id_.value);
}

TENURE_DECL entered batch_owner::enter() const {
    auto* const b = detail::find_anywhere(id_.value);
    if (b) detail::look_at_the_clock(*b, id_.value);
    if (b && detail::visit_primary(*b, id_.value)) return entered(&b->primary);
    return entered(detail::enter_held(held("enter batch ")));
}

TENURE_DECL batch_id batch_owner::open(batch_options const& options, source where) {
    detail::lane const* const current = detail::this_thread.current;
    if (auto* const end = detail::this_thread.ending; end && end->is_current())
        return {end->open(&options, false, where).id};
    if (!current) return registry::global().new_batch(options, {}, where);
    auto* const r = current->batch->registry.load(std::memory_order_relaxed);
    if (!r) raise(error(current->batch->why_closed(), "open a batch below one that is over"));
    detail::mind_the_clock(*current->batch);
    return {detail::open_batch(*r, current->batch, &options, false, where).id};
}

/// Returns the batch, which the caller holds from then on. Throws batch_ended, batch_in_use.
TENURE_DECL detail::batch_record& batch_owner::held(char const* call) const {
    auto* const b = detail::find_anywhere(id_.value);
    if (!b || !detail::hold(*b, id_.value, detail::unless_crowded))
        raise(error(detail::over_because(b, id_.value), call + detail::label_of(id_.value)));
    return *b;
}

TENURE_DECL detail::lane* batch_owner::enter_alone(char const* call) const {
    return detail::enter_held(held(call), true);
}

TENURE_DECL void batch_owner::keep_from_it(detail::raw_handle h) const {
    detail::batch_record& b = held("keep from batch ");
    struct guard {
        detail::batch_record& b;
        ~guard() { detail::release_hold(&b); }
    } const undo{b};
    if (auto const why = detail::keep_from(b, h)) detail::throw_failure(why, "keep from batch ");
}

}  // namespace tenure
