// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include <tenure/detail/base/clocks.hpp>
#include <tenure/detail/life/calls.hpp>

namespace tenure::detail {

/// Ends that report what they did.

inline batch_report report_of(batch_record& b) noexcept {
    batch_figures const f = figures_of(b);
    batch_report        r;
    r.bytes    = bytes_in_use(b, f);
    r.made     = f.made_objects;
    r.received = b.rest.books.received.objects();
    r.kept     = b.rest.books.given.objects();
    r.freed    = b.rest.books.freed.objects();
    r.peak     = std::max<std::size_t>(r.bytes, b.rest.books.peak.load(std::memory_order_relaxed));
    r.duration = std::chrono::nanoseconds(coarse_now() - b.opened_ns.load(std::memory_order_relaxed));
    if (b.uses_others.load(std::memory_order_relaxed))
        b.registry.load(std::memory_order_relaxed)->uses->report_pins(b, r);
    return r;
}

/// Completes a report whose `status` is set with what only the end shows. False: the batch is not done yet.
inline bool complete(batch_report& r, flow const& in_stores, bool late) noexcept {
    if (r.status != batch_status::done) {
        r.bytes = 0;
        return false;
    }
    if (late) r.status = batch_status::expired;
    r.freed        = r.made + r.received - r.kept;
    r.buffers      = in_stores.buffers;
    r.buffer_bytes = in_stores.bytes;
    return true;
}

/// Ends a batch whose guard is this thread's, and reports what the end did.
inline batch_report end_with_report(batch_record& b, std::uint64_t id) noexcept {
    if (b.state.load(std::memory_order_acquire) & (batch_flags::ended | batch_flags::retained))
        return {.status = status_of(b, id)};
    batch_report r         = report_of(b);
    bool const   late      = b.limited && is_overdue(b);
    flow const   in_stores = stored_in(b);
    end_record(b, id, false);
    r.status = status_of(b.state.load(std::memory_order_acquire));
    if (!complete(r, in_stores, late)) return r;
    r.status       = status_of(b, id);
    r.store_errors = b.rest.store_errors;
    if (r.store_errors) r.store_error = b.rest.store_error;
    return r;
}

/// Ends a batch from any thread, and reports what the end did: exactly, if no other thread is at the batch. Blocks
/// that stores could not free are not reported, because the record may be another batch's by then.
inline batch_report end_by_id(batch_record& b, std::uint64_t id) noexcept {
    auto const          status  = [&] { return status_of(b, id); };
    std::uint64_t const is_over = batch_flags::ended | batch_flags::retained;
    if (!hold(b, id, is_over)) return {.status = status()};
    batch_report r         = report_of(b);
    bool const   late      = b.limited && is_overdue(b);
    flow const   in_stores = stored_in(b);
    r.page_error           = b.rest.page_error.load(std::memory_order_relaxed).code();
    release_hold_in_place(&b);
    end_record(b, id, false);
    r.status = status();
    complete(r, in_stores, late);
    return r;
}

/// Calls f(log) for what each lane of a batch has kept, newest first. Other threads may be keeping more.
template <class F>
void for_kept(batch_record& b, F f) {
    auto const of = [&](lane& l) {
        for (kept_log* k = l.kept_out.load(std::memory_order_acquire); k; k = k->next) f(*k);
    };
    of(b.primary);
    lane* others = nullptr;
    {
        std::scoped_lock const guard(b.lock);
        others = b.lanes;  // none of these goes before the batch
    }
    for (; others; others = others->next) of(*others);
}

/// Frees what keep() transferred from this batch and is still alive, newest first for each lane; of an object that
/// is shared by now, the parent's share. The batch's own pins do not count, because it ends. An object that others
/// pin at this very moment stays. Errors: object_pinned if another batch uses some of the objects; then nothing was
/// done.
inline failure discard_kept(batch_record& b) noexcept {
    registry_core& r = *b.registry.load(std::memory_order_relaxed);
    if (r.uses && r.uses->any()) {
        bool pinned = false;
        for_kept(b, [&](kept_log& k) {
            for (raw_handle const& h : k.handles()) pinned = pinned || r.uses->is_pinned(h, &b);
        });
        if (pinned) return {errc::object_pinned, &b};
        for_kept(b, [&](kept_log& k) {
            for (raw_handle const& h : k.handles()) r.uses->unpin(b, h);
        });
    }
    for_kept(b, [&](kept_log& k) {
        for (std::size_t i = k.handles().size(); i-- > 0;) {
            raw_handle const h = k.items()[i];
            if (!is_alive(h)) continue;
            if (std::uint64_t const common = common_of(h)) front_of_sharing().leave(*b.parent.load(), common);
            else free_one(r, h);
        }
    });
    return {};
}

/// Calls discard_kept(), then ends the batch as end_with_report() does. If discard_kept() fails, sets `why`, and
/// the batch goes on. A batch that is over and waits is held meanwhile, because the last thread inside may leave
/// at any moment.
inline batch_report discard_with_report(batch_record& b, std::uint64_t id, failure& why) noexcept {
    bool const over = b.state.load(std::memory_order_acquire) & (batch_flags::ended | batch_flags::retained);
    if (over && !hold_until_freed(b, id)) return {.status = status_of(b, id)};
    batch_report pins;
    if (!b.closed() && b.uses_others.load(std::memory_order_relaxed))
        b.registry.load(std::memory_order_relaxed)->uses->report_pins(b, pins);
    bool any = false;
    for_kept(b, [&](kept_log&) { any = true; });
    if (any) {
        ancestor_is_current const above(b);
        why = discard_kept(b);
    }
    if (over) release_hold_in_place(&b);
    if (why) return {};
    batch_report r = end_with_report(b, id);
    r.pins_held    = pins.pins_held;
    r.pins         = pins.pins;
    return r;
}

}  // namespace tenure::detail
