// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <memory>
#include <source_location>
#include <utility>

#include <tenure/batch_scope.hpp>
#include <tenure/detail/life/reporting.hpp>
#include <tenure/impl/core.ipp>
#include <tenure/impl/lane.ipp>
#include <tenure/raise.hpp>
#include <tenure/registry.hpp>

namespace tenure {

namespace detail {

/// In a destructor that an end runs, or one that it calls: where what is current is the nearest active ancestor of
/// what ends, and not what somebody made current since. No record: it is that, or of another registry.
TENURE_COLD inline opened_batch open_in_end(registry_core const* core, batch_options const* options,
                                            std::source_location where) {
    ancestor_is_current const& end = *this_thread.ending;
    if (!end.is_current()) return {};
    if (core && end.above().registry.load(std::memory_order_relaxed) != core) return {};
    return end.open(options, true, where);
}

/// Opens a scope where open_at_once() does not.
TENURE_SLOW inline opened_scope open_any(registry* in, lane* below, batch_options const* options,
                                         std::source_location where) {
    close_those_elsewhere();
    registry_core* core   = in ? &core_of(*in) : nullptr;
    batch_record*  parent = nullptr;
    if (below) {
        parent = below->batch;
        core   = parent->registry.load(std::memory_order_relaxed);
        if (!core) refuse_below(*parent);
        look_at_the_clock(*parent, parent->id.load(std::memory_order_relaxed));  // may be another thread's
    } else {
        lane* const current = this_thread.current;
        if (this_thread.ending) [[unlikely]] {
            if (auto const opened = open_in_end(core, options, where); opened.record)
                return {&opened.record->primary, opened.id};
        }
        if (current && (!core || current->batch->registry.load(std::memory_order_relaxed) == core)) {
            parent = current->batch;
            core   = parent->registry.load(std::memory_order_relaxed);
        } else {
            if (!core) parent = process.global_root.load(std::memory_order_acquire);
            if (!core && !parent) core = &core_of(registry::global());
            if (!parent) parent = core->root;
            if (!core) core = parent->registry.load(std::memory_order_relaxed);
        }
        mind_the_clock(*parent);
    }
    auto const opened = open_batch(*core, parent, options, true, where);
    return {&opened.record->primary, opened.id};
}

/// What open_scope() and end_scope() do most of the time, once in a program: too much to be in each scope.
TENURE_SLOW inline opened_scope open_usual(std::source_location where) {
    if (auto const opened = open_at_once(where); opened.record) [[likely]]
        return {&opened.record->primary, opened.id};
    return open_any(nullptr, nullptr, nullptr, where);
}
TENURE_SLOW inline void end_usual(lane& l, std::uint64_t id) noexcept {
    close_guard_at_once(owner_of_primary(l), id);
}

TENURE_DECL opened_scope open_scope(std::source_location where) { return open_usual(where); }

TENURE_DECL opened_scope open_scope(registry* in, lane* below, batch_options const* options,
                                    std::source_location where) {
    return open_any(in, below, options, where);
}

TENURE_DECL void end_scope(lane& l, std::uint64_t id) noexcept { end_usual(l, id); }

}  // namespace detail

TENURE_DECL detail::batch_record& batch_scope::batch() const { return detail::owner_of_primary(*lane_); }

TENURE_DECL void batch_scope::require_this_thread(char const* call) const {
    auto* const guard = batch().guard.load(std::memory_order_relaxed);
    if (guard && guard != &detail::this_thread)
        raise(error(errc::wrong_thread, call + (" of batch " + detail::label_of(batch()))));
}

TENURE_DECL batch_report batch_scope::end() {
    require_this_thread("end");
    return detail::end_with_report(batch(), id_);
}

TENURE_DECL batch_report batch_scope::discard() {
    require_this_thread("discard");
    detail::failure    why;
    batch_report const r = detail::discard_with_report(batch(), id_, why);
    require(why, "discard batch ");
    return r;
}

TENURE_DECL detail::lane* batch_scope::enter_as(bool exclusive) const {
    detail::look_at_the_clock(batch(), id_);
    if (!detail::hold(batch(), id_, detail::unless_crowded))
        raise(error(detail::over_because(&batch(), id_), "enter batch " + detail::label_of(id_)));
    return detail::enter_held(batch(), exclusive);
}

TENURE_DECL batch_id batch_scope::detach() {
    require_this_thread("detach");
    if (batch().state.load(std::memory_order_relaxed) & (detail::batch_flags::ended | detail::batch_flags::done))
        raise(error(errc::batch_ended, "detach batch " + detail::label_of(id_)));
    if (detail::is_crowded_above(batch()))
        raise(error(errc::batch_in_use, "detach batch " + detail::label_of(id_)));
    detail::detach_guard(batch());
    lane_ = &detail::over_record_of().primary;
    return {id_};
}

TENURE_DECL batch_status batch_scope::status() const noexcept { return detail::status_of(batch(), id_); }

TENURE_DECL std::string batch_scope::name() const { return detail::name_of(batch()); }

TENURE_DECL batch_usage batch_scope::usage() const noexcept { return detail::usage_of(batch()); }

}  // namespace tenure
