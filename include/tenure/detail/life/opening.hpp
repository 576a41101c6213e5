// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <source_location>
#include <utility>

#include <tenure/detail/base/barrier.hpp>
#include <tenure/detail/base/clocks.hpp>
#include <tenure/detail/batch/children.hpp>
#include <tenure/detail/batch/limits.hpp>
#include <tenure/detail/batch/loans.hpp>
#include <tenure/detail/batch/records.hpp>
#include <tenure/detail/life/current_batch.hpp>
#include <tenure/detail/objects/batch_figures.hpp>
#include <tenure/detail/objects/supplies.hpp>
#include <tenure/detail/objects/throwing.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Sets a deadline `timeout` from now. Throws what the registry's deadline_watch throws.
TENURE_SLOW inline void set_deadline(batch_record& b, std::chrono::nanoseconds timeout) {
    timing_front* const q = b.registry.load(std::memory_order_relaxed)->timing.get();
    if (!q) refuse_without("tenure/timing.hpp", "give a batch a timeout");
    auto const          left = static_cast<std::uint64_t>(timeout.count() > 0 ? timeout.count() : 0);
    std::uint64_t const now  = q->now();
    std::uint64_t const due  = now + left < now ? ~std::uint64_t{0} : now + left;
    q->arm(b.rest.timer, due ? due : 1);  // 0: none
}

TENURE_COLD inline void drop_deadline(batch_record& b) noexcept {
    if (b.limited != &b) return;
    if (b.rest.timer.deadline.load(std::memory_order_relaxed))
        b.registry.load(std::memory_order_relaxed)->timing->disarm(b.rest.timer);
}

/// Makes a batch, of which nobody else knows or which is claimed, one that is limited by itself. Its limits are yet
/// to be set. `used`: the bytes it has in use.
inline void be_limited(batch_record& b, std::uint64_t used) noexcept {
    b.limited = &b;
    b.unusual |= unusual_flags::own | unusual_flags::inherited;
    b.rest.charged.store(used, std::memory_order_relaxed);
    b.rest.limits.peak.store(used, std::memory_order_relaxed);
}

/// Returns a copy of on_soft, or null if there is none. Throws std::bad_alloc, and what copying throws.
TENURE_SLOW inline std::shared_ptr<limits_now::told const> shared_on_soft(batch_limits const& limits) {
    return limits.on_soft ? std::make_shared<limits_now::told const>(limits.on_soft) : nullptr;
}

/// Charges a batch to a reservation. Throws batch_in_use if that has a batch, or had one.
TENURE_COLD inline void claim_loan(batch_record& b, std::shared_ptr<lender> const& from) {
    if (!from->claim())
        raise(error(errc::batch_in_use, "open a batch with a reservation with which another was opened"));
    lend(b, from);
}

TENURE_SLOW inline void set_options(batch_record& b, batch_options const& o) {
    if (o.cleanup == cleanup::manual) b.end_as(end_flags::manual);
    if (o.long_lived) b.end_as(end_flags::long_lived);
    if (o.reclaim == reclamation::background) {
        background_front* const thread = b.registry.load(std::memory_order_relaxed)->background.get();
        if (!thread) refuse_without("tenure/background.hpp", "open a batch with reclamation::background");
        b.end_as(end_flags::background);
        thread->start();
    }
    if (o.residency != tenure::residency::memory && !pages_of(b))
        refuse_without("tenure/paging.hpp", "open a batch with a residency");
    if (o.residency != tenure::residency::memory) {
        b.residency = o.residency;
        b.unusual |= unusual_flags::own;
    }
    b.rest.priority.store(o.priority, std::memory_order_relaxed);
    if (!o.name.empty()) write_name(b, o.name);
    if (o.on_exception == tenure::on_exception::rollback) {
        b.unwound = std::uncaught_exceptions();
        b.touch();
    }
    if (o.limits.soft == no_limit && o.limits.hard == no_limit && o.timeout == no_timeout && !o.reservation) return;
    be_limited(b, 0);
    put_limits(b, o.limits.soft, o.limits.hard, shared_on_soft(o.limits));
    if (o.reservation) claim_loan(b, reservation_access::lender_of(o.reservation));
    if (o.timeout != no_timeout) set_deadline(b, o.timeout);
}

/// Puts a batch into the registry's list of batches without a guard.
TENURE_SLOW inline void become_loose(registry_core& r, batch_record& b) noexcept {
    note_use(b);
    std::scoped_lock const guard(r.loose_lock);
    b.newer.store(nullptr, std::memory_order_relaxed);
    b.older = r.loose;
    if (r.loose) r.loose->newer.store(&b, std::memory_order_relaxed);
    r.loose    = &b;
    b.is_loose = true;
    b.unusual |= unusual_flags::own;
}

/// Puts a batch that had a guard into that list: in front of the batches below it, behind those above it.
TENURE_COLD inline void become_loose_again(registry_core& r, batch_record& b) noexcept {
    note_use(b);
    std::scoped_lock const guard(r.loose_lock);
    batch_record*          above = b.parent.load(std::memory_order_relaxed);
    while (!above->is_loose) above = above->parent.load(std::memory_order_relaxed);  // the root is
    batch_record* const newer        = above->newer.load(std::memory_order_relaxed);
    b.older                          = above;
    (newer ? newer->older : r.loose) = &b;
    b.newer.store(newer, std::memory_order_relaxed);
    above->newer.store(&b, std::memory_order_relaxed);
    b.is_loose = true;
    b.unusual |= unusual_flags::own;
}

/// Takes a batch out of the registry's list of batches without a guard.
inline void leave_loose(batch_record& b) noexcept {
    registry_core&         r = *b.registry.load(std::memory_order_relaxed);
    std::scoped_lock const guard(r.loose_lock);
    batch_record* const    newer     = b.newer.load(std::memory_order_relaxed);
    (newer ? newer->older : r.loose) = b.older;
    if (b.older) b.older->newer.store(newer, std::memory_order_relaxed);
    b.is_loose = false;
}

/// Makes a record as it was before its batch had anything unusual, for the next one.
TENURE_SLOW inline void reset_unusual(batch_record& b) noexcept {
    b.limited      = nullptr;
    b.holds_parent = false;
    b.joined       = false;
    b.detached.store(false, std::memory_order_relaxed);
    b.ends.store(0, std::memory_order_relaxed);
    if (b.residency != tenure::residency::memory) b.evictable.store(false, std::memory_order_relaxed);
    b.residency = tenure::residency::memory;
    b.members.store(no_common, std::memory_order_relaxed);
    b.unusual = 0;
}

TENURE_COLD inline void give_unopened(batch_record& b) noexcept {
    b.unwound = no_unwinding;
    drop_deadline(b);
    if (auto const from = take_loan(b)) from->disclaim();
    if (b.unusual) reset_unusual(b);
    give_record(&b);
}

/// Takes a record and sets it as the options say. Throws std::bad_alloc, and as set_deadline() and
/// shared_on_soft().
inline batch_record* prepare_record(registry_core& r, batch_record const* parent, batch_options const* options) {
    batch_record* const b = take_record();
    struct guard {
        batch_record* b;
        ~guard() {
            if (b) give_unopened(*b);
        }
    } undo{b};
    b->registry.store(&r, std::memory_order_relaxed);
    b->named.store(false, std::memory_order_relaxed);
    if (parent && parent->limited) {
        b->limited = parent->limited;
        b->unusual |= unusual_flags::own | unusual_flags::inherited;
    }
    if (options) set_options(*b, *options);
    join_supplies(*b, parent, r, options && options->store ? &options->store : nullptr);
    if (b->residency != tenure::residency::memory) [[unlikely]]
        b->evictable.store(b->slabs == &r.own && is_pageable(*b), std::memory_order_relaxed);
    undo.b = nullptr;
    return b;
}

[[noreturn]] TENURE_COLD inline void refuse_below(batch_record const& parent) {
    errc const why = parent.closed() ? parent.why_closed() : errc::batch_in_use;
    throw_failure({why, &parent}, "open a batch below ");
}

/// Asks a new batch to stop: another thread may have ended or stopped the parent before the new batch was there to
/// be told. The new batch has a guard on this thread, which keeps its record.
void pass_on_stop(opened_batch const& opened, batch_record const& parent) noexcept;

/// Tells a new batch if its parent, which other threads have, is over. One with a guard is asked to stop. One
/// without is ended and refused; other threads may have ended it by then, and its record may be another batch's.
/// Throws error{why_closed()} of the parent.
void tell_new_batch(opened_batch const& opened, batch_record& parent, bool guarded);

/// Writes into a record what each batch has. Returns its id.
[[gnu::always_inline]] inline std::uint64_t describe(batch_record& b, std::uint64_t generation,
                                                     batch_record* parent, std::uint64_t now,
                                                     std::source_location where) noexcept {
    std::uint64_t const id = make_id(generation, b.index);
    b.generation.store(generation, std::memory_order_relaxed);
    b.parent.store(parent, std::memory_order_relaxed);
    b.opened_ns.store(now, std::memory_order_relaxed);
    b.where.store(where, std::memory_order_relaxed);
    b.primary.serial.store(id, std::memory_order_relaxed);
    return id;
}

/// Puts a batch with a guard on this thread into the thread's chain.
[[gnu::always_inline]] inline void join_chain(thread_context& me, batch_record& b, batch_record* newest) noexcept {
    b.guard.store(&me, std::memory_order_relaxed);
    b.primary.thread.store(&me, std::memory_order_relaxed);
    b.newer.store(nullptr, std::memory_order_relaxed);
    b.older = newest;
    b.in_chain.store(true, std::memory_order_relaxed);
    if (newest) newest->newer.store(&b, std::memory_order_release);  // pairs with hold_nested()
    me.newest = &b;
}

/// Opens a batch as open_batch() does. `local`: the parent has a guard on this thread. `holds`: the caller holds
/// the parent, and that hold becomes the new batch's.
TENURE_SLOW inline opened_batch put_below(registry_core& r, batch_record* parent, batch_options const* options,
                                          bool guarded, bool local, bool holds, std::source_location where) {
    constexpr auto  relaxed = std::memory_order_relaxed;
    thread_context& me      = this_thread;
    bool const      beside  = local && parent != me.newest;
    if (local && (parent->closed() || (beside && parent->rest.guards_beside >= most_guards_beside))) [[unlikely]]
        refuse_below(*parent);  // first: the thread that frees it may be changing the rest
    batch_record* const b          = prepare_record(r, parent, options);
    std::uint64_t const generation = b->generation.load(relaxed) + 1;
    std::uint64_t const id         = describe(*b, generation, parent, coarse_now(), where);
    if (holds) b->hold_its_parent();
    if (beside) [[unlikely]]
        count_beside(*parent, *b);
    if (guarded) {
        b->previous = suspend_for(&b->primary);
        if (b->previous.visited) b->unusual |= unusual_flags::own;
        join_chain(me, *b, me.newest);
    } else {
        b->guard.store(nullptr, relaxed);
    }
    b->state.store(generation << state_tag_shift | (guarded ? 0 : batch_flags::released),
                   std::memory_order_release);
    if (!guarded) become_loose(r, *b);  // before others can find it, end it and return its record
    if (holds) list_child(*parent, *b);
    b->id.store(id, std::memory_order_release);
    if (local) {
        light_barrier();  // pairs with the heavy one before a stop looks for batches below
        if (parent->closed()) [[unlikely]]
            pass_on_stop({b, id}, *parent);
    }
    return {b, id};
}

/// Opens a batch below one that other threads may end at any time: holds that before it looks at anything of it.
/// Throws as open_batch().
TENURE_SLOW inline opened_batch open_apart(registry_core& r, batch_record& parent, batch_options const* options,
                                           bool guarded, std::source_location where) {
    struct guard {
        batch_record* parent;
        ~guard() {
            if (parent) release_hold(parent);
        }
    } undo{hold(parent, parent.id.load(std::memory_order_relaxed), unless_crowded) ? &parent : nullptr};
    if (!undo.parent) refuse_below(parent);
    opened_batch const opened = put_below(r, &parent, options, guarded, false, true, where);
    undo.parent               = nullptr;
    tell_new_batch(opened, parent, guarded);
    return opened;
}

/// Opens a batch below `parent`, whose record the caller keeps from becoming another batch's meanwhile. `guarded`:
/// it belongs to a guard on this thread and becomes current. Throws std::bad_alloc, error{why_closed()} of the
/// parent, batch_in_use for more than 8 million batches below one, or 4 million guards of one thread, and as
/// set_deadline().
[[gnu::always_inline]] inline opened_batch open_batch(registry_core& r, batch_record* parent,
                                                      batch_options const* options, bool guarded,
                                                      std::source_location where) {
    bool const local = parent && guarded && parent->guard.load(std::memory_order_relaxed) == &this_thread;
    if (parent && parent != r.root && !local) [[unlikely]]
        return open_apart(r, *parent, options, guarded, where);
    return put_below(r, parent, options, guarded, local, false, where);
}

/// Has a batch that was just opened below a closed one asked to stop.
TENURE_COLD inline opened_batch open_below_closed(opened_batch const& opened, batch_record const& parent) noexcept {
    pass_on_stop(opened, parent);
    return opened;
}

/// Opens the usual batch: with a guard on this thread, without options, below the thread's newest guard, if that is
/// current, else below the root of the global registry. Returns no record, with nothing done, where there is more
/// to consider; open_batch() does that. Calls nothing but the clock, and that first, so that no register needs
/// saving.
[[gnu::always_inline]] inline opened_batch open_at_once(std::source_location where) noexcept {
    constexpr auto      relaxed = std::memory_order_relaxed;
    std::uint64_t const now     = coarse_now();
    thread_context&     me      = this_thread;
    batch_record* const b       = me.records;
    batch_record* const newest  = me.newest;
    batch_record* const parent  = newest ? newest : process.global_root.load(std::memory_order_acquire);
    if (me.ending || !b || !parent) return {};
    if (newest ? me.current != &newest->primary : me.current != nullptr) return {};
    if (parent->unusual & unusual_flags::inherited) return {};  // so there is no deadline either
    if (newest &&
        (newest->closed() || newest->guard_at.load(std::memory_order_acquire) != guard_place::with_opener))
        return {};
    me.records = b->next_free;
    --me.record_count;
    b->registry.store(parent->registry.load(relaxed), relaxed);
    b->slabs = parent->slabs;
    b->named.store(false, relaxed);
    std::uint64_t const generation = b->generation.load(relaxed) + 1;
    std::uint64_t const id         = describe(*b, generation, parent, now, where);
    b->previous.where              = newest ? &newest->primary : nullptr;
    b->previous.serial             = newest ? newest->primary.serial.load(relaxed) : 0;
    me.current                     = &b->primary;
    join_chain(me, *b, newest);
    b->state.store(generation << state_tag_shift, std::memory_order_release);
    b->id.store(id, std::memory_order_release);
    if (newest) {
        light_barrier();  // as in put_below()
        if (newest->closed()) [[unlikely]]
            return open_below_closed({b, id}, *newest);
    }
    return {b, id};
}

}  // namespace tenure::detail
