// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <memory>
#include <source_location>
#include <utility>

#include <tenure/batch_scope.hpp>
#include <tenure/detail/life/reporting.hpp>

namespace tenure {

inline batch_scope::batch_scope(detail::registry_core* core, detail::batch_record* parent,
                                batch_options const* options, source where) {
    detail::close_those_elsewhere();
    if (parent) {
        if (!core) detail::refuse_below(*parent);
        detail::look_at_the_clock(*parent, parent->id.load(std::memory_order_relaxed));  // may be another thread's
    } else {
        detail::lane* const current = detail::this_thread.current;
        if (detail::this_thread.ending) [[unlikely]] {
            if (auto const opened = open_in_end(core, options, where); opened.record) {
                batch_ = opened.record;
                id_    = opened.id;
                return;
            }
        }
        if (current && (!core || current->batch->registry.load(std::memory_order_relaxed) == core)) {
            parent = current->batch;
            core   = parent->registry.load(std::memory_order_relaxed);
        } else {
            if (!core) core = registry::global().core_;
            parent = core->root;
        }
        detail::mind_the_clock(*parent);
    }
    auto const opened = detail::open_batch(*core, parent, options, true, where);
    batch_            = opened.record;
    id_               = opened.id;
}

/// Opens the batch of a scope in a destructor that an end runs, or in what it calls, while the nearest active
/// ancestor of the ending batch is current. Returns no record if other code has made a batch current since, or if
/// the ancestor is of another registry. (A call that took the scope itself would keep the compiler from holding
/// its batch in a register.)
TENURE_COLD inline detail::opened_batch batch_scope::open_in_end(detail::registry_core const* core,
                                                                 batch_options const* options, source where) {
    detail::ancestor_is_current const& end = *detail::this_thread.ending;
    if (!end.is_current()) return {};
    if (core && end.above().registry.load(std::memory_order_relaxed) != core) return {};
    return end.open(options, true, where);
}

template <class T, class Deleter>
handle<T> batch_scope::adopt(T* p, Deleter deleter) {
    auto const address = detail::to_address(p);
    if (!p || address >> detail::address_bits) raise(error(errc::bad_address, "adopt"));
    detail::cell* const cell = detail::take_cell();
    if (!cell) raise(error(errc::memory_full, "adopt: no cell left"));
    using record = detail::adopted<T, Deleter>;
    struct guard {
        detail::cell* c;
        ~guard() {
            if (c) detail::give_cell(*c);
        }
    } undo{cell};
    auto const h = make<record>(p, std::move(deleter), cell);
    auto const r = detail::handle_access::raw(h);
    undo.c       = nullptr;
    detail::fill_cell(*cell, r.pointer, r.word);
    return detail::handle_access::make(p, cell->word.load(std::memory_order_relaxed));
}

inline void batch_scope::require_this_thread(char const* call) const {
    auto* const guard = batch()->guard.load(std::memory_order_relaxed);
    if (guard && guard != &detail::this_thread)
        raise(error(errc::wrong_thread, call + (" of batch " + detail::label_of(*batch_))));
}

inline batch_report batch_scope::end() {
    require_this_thread("end");
    return detail::end_with_report(*batch_, id_);
}

inline batch_report batch_scope::discard() {
    require_this_thread("discard");
    detail::failure    why;
    batch_report const r = detail::discard_with_report(*batch_, id_, why);
    require(why, "discard batch ");
    return r;
}

inline detail::lane* batch_scope::enter_as(bool exclusive) const {
    detail::look_at_the_clock(*batch(), id_);
    if (!detail::hold(*batch(), id_))
        raise(error(detail::over_because(batch_, id_), "enter batch " + detail::label_of(id_)));
    return detail::enter_held(*batch_, exclusive);
}

inline batch_id batch_scope::detach() {
    require_this_thread("detach");
    if (batch_->state.load(std::memory_order_relaxed) & (detail::batch_flags::ended | detail::batch_flags::done))
        raise(error(errc::batch_ended, "detach batch " + detail::label_of(id_)));
    detail::detach_guard(*batch_);
    batch_ = &detail::over_record_of();
    return {id_};
}

inline batch_status batch_scope::status() const noexcept { return detail::status_of(*batch_, id_); }

}  // namespace tenure
