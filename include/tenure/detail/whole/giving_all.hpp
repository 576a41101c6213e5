// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/detail/batch/buffers_front.hpp>
#include <tenure/detail/batch/entry_lists.hpp>
#include <tenure/detail/batch/sharing_front.hpp>
#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/life/closing.hpp>
#include <tenure/detail/life/exclusive_claim.hpp>
#include <tenure/detail/objects/ownership_transfer.hpp>
#include <tenure/detail/objects/recycle.hpp>

namespace tenure::detail {

/// Gives all that a batch owns to another one. Objects are not looked at one by one: the memory changes hands, and
/// what lives there with it.
///
/// Where this thread has the receiver's own lane, the list of what has an end to run goes over as a whole, and so
/// do the runs, if both batches take theirs from one supply. But of a small batch's units the receiver gets shares,
/// as by keep(): what is left of such a unit is then there for whatever batch comes next.
class giving_all {
public:
    /// Nobody else is in `from`, which is claimed; `to` is held.
    giving_all(batch_record& from, batch_record& to, exclusive_claim const& claim) noexcept
        : from_(from),
          to_(to),
          claim_(claim),
          to_lane_(&to.primary),
          common_(nearest_charged(from.limited, to.limited)) {}
    giving_all(giving_all const&)            = delete;
    giving_all& operator=(giving_all const&) = delete;

    /// Gives all, or nothing. Errors: not_self_contained: there is a resource(), and another thread has the
    /// receiver's lane; batch_in_use: a store is just being told of another buffer's new owner; limit_exceeded,
    /// memory_full.
    failure give() noexcept {
        settle();
        if (failure const why = prepare()) return why;
        note_peak(from_);
        // First the lists: a thread that finds an object to be the receiver's also looks for its entry there.
        give_buffers();
        for_lanes(from_, [&](lane& l) { give_entries(l); });
        give_list(from_.inbox, to_.inbox);
        give_list(from_.rest.before, to_.rest.before);
        give_list(from_.rest.after, to_.rest.after);
        for_lanes(from_, [&](lane& l) {
            give_memory_of(l);
            if (kept_log* const log = l.kept_out.load(std::memory_order_relaxed)) log->last = {};
            if (l.resource.load(std::memory_order_relaxed)) give_resources(l);
        });
        while (unit* const u = from_.large) {
            std::scoped_lock const guard(u->lock);
            move_large(u, from_, to_);
        }
        give_shares();
        if (shared_) shared_->commit([](raw_handle) {});
        book();
        return {};
    }

private:
    static constexpr std::uint64_t most_shared = 4;  ///< units of which shares go over, and not the runs

    /// Leaves nothing in the lanes that is half done.
    void settle() noexcept {
        for_lanes(from_, [&](lane& l) {
            close_window(l);
            finish_filling(l);
            leave_run(l);
            units_ += l.units.load(std::memory_order_relaxed);
            if (!l.lists_moved.load(std::memory_order_relaxed)) return;
            for (entry *e = l.entries, *next; e; e = next) {
                next = e->next;
                if (e->state.load(std::memory_order_acquire) & entry::moved) leave_list(l, e);
            }
            l.lists_moved.store(false, std::memory_order_relaxed);
        });
        claim_.await_others();
        for_lanes(from_, [](lane& l) { drain_remote(l); });
        mine_  = is_mine(&to_.primary);
        whole_ = mine_ && from_.slabs == to_.slabs && units_ > most_shared;
        what_  = usage_of(from_);
    }

    /// Takes the entry of an object that was transferred away out of its list.
    static void leave_list(lane& l, entry* e) noexcept {
        object_lock const    guard(extent_of(e));
        std::uintptr_t const state = e->state.load(std::memory_order_relaxed);
        if (!(state & entry::moved)) return;  // its new owner has just ended it, and hands it in
        proxy_of(state)->listed = nullptr;
        unlink(l.entries, l.oldest_entry, e);
    }

    failure prepare() noexcept {
        bool contained = true, all = true;
        for_lanes(from_, [&](lane const& l) {
            contained = contained && (mine_ || !l.resource.load(std::memory_order_relaxed));
            if (!whole_) for_used_units(l, [&](place p) { all = all && share_for(p, &to_); });
        });
        if (!contained) return {errc::not_self_contained, &from_};
        if (!all) return {errc::memory_full, &to_, sizeof(share)};
        if (failure const why = prepare_buffers()) return why;
        if (failure const why = prepare_shared()) return why;
        if (!to_.limited) return {};
        std::size_t const bytes = what_.bytes + what_.buffer_bytes;
        if (failure const why = charge_exactly(to_, common_, bytes)) return why;
        to_.own_charge.fetch_add(bytes, std::memory_order_relaxed);
        return {};
    }

    failure prepare_buffers() noexcept {
        if (!from_.first_buffer) return {};
        buffers_ = front_of_buffers().begin_transfer(from_, to_);
        if (!buffers_) return {errc::memory_full, &to_, sizeof(block)};
        for (entry* e = from_.first_buffer; e; e = e->next) {
            buffer_seen seen;
            {
                object_lock const guard(extent_of(e));
                seen = buffers_->look(e);
            }
            if (seen.in_transit) return {errc::batch_in_use, &from_};
            if (!buffers_->promise(*seen.from)) return {errc::memory_full, &to_, sizeof(block)};
        }
        return {};
    }

    failure prepare_shared() noexcept {
        if (!from_.memberships) return {};
        failure why;
        shared_ = front_of_sharing().begin(from_, to_);
        if (!shared_) return {errc::memory_full, &to_, sizeof(std::uint64_t)};
        front_of_sharing().for_commons(from_, [&](std::uint64_t id) {
            if (!why) why = shared_->prepare(id, {});
        });
        return why;
    }

    /// Calls f(place) under the lock of each unit in which the lane has made something.
    template <class F>
    static void for_used_units(lane const& l, F f) noexcept {
        for (unit* u = l.runs; u; u = u->next) {
            std::uintptr_t const stop = u->stopped_at();
            std::uintptr_t const end  = stop ? stop : u->address + (std::size_t{u->length} << unit_shift);
            for_units(u->address, end, [&](place p, std::uintptr_t, std::uintptr_t) {
                std::scoped_lock const guard(p.u->lock);
                f(p);
            });
        }
    }

    void give_buffers() noexcept {
        while (entry* const e = from_.first_buffer) {
            object_lock const guard(extent_of(e));
            buffers_->move_untold(e);
            std::uintptr_t const state = e->state.load(std::memory_order_relaxed);
            remove_from_list(from_, e, state);
            put_in_list(to_, e, state);
        }
    }

    void give_entries(lane& l) noexcept {
        if (!l.entries) return;
        if (mine_) {
            lane& way                                            = to_.primary;
            l.oldest_entry->next                                 = way.entries;
            (way.entries ? way.entries->prev : way.oldest_entry) = l.oldest_entry;
            way.entries                                          = std::exchange(l.entries, nullptr);
            return;
        }
        for (entry *e = l.oldest_entry, *newer; e; e = newer) {
            newer = e->prev;
            put_in_list(to_, e, e->state.load(std::memory_order_relaxed));
        }
        l.entries = nullptr;
    }

    void give_memory_of(lane& l) noexcept {
        if (whole_) {
            while (unit* const u = l.runs) {
                l.runs = u->next;
                give_run_of(u);
            }
        } else {
            for_used_units(l, [&](place p) { take_over(p, find_share(p, &to_), from_); });
            for (unit* u = l.runs; u; u = u->next)  // one in which nothing was made is not to go out with the batch
                if (!u->guarded.load(std::memory_order_relaxed)) u->home.store(nullptr, std::memory_order_release);
            release_runs(*from_.slabs, l);
        }
        moving_guard const moving(l);
        leave_memory(l);
    }

    /// Gives a run to the receiver's own lane, but for units at its end in which nothing was made.
    void give_run_of(unit* u) noexcept {
        lane& way = to_.primary;
        drop_unused(u);
        u->maker.store(&way, std::memory_order_release);
        u->home.store(&to_, std::memory_order_release);
        unit*& at = way.runs ? way.runs->next : way.runs;  // behind the run that the lane makes in
        u->next   = at;
        at        = u;
        add_relaxed<std::uint64_t>(way.units, u->length);
        if (way.run_end == 0) {  // a lane without runs: it has some now, and no room in them
            std::uintptr_t const end = u->address + (std::size_t{u->length} << unit_shift);
            aim(way, end, end, generation_of(table_word(u->address).load(std::memory_order_relaxed)));
        }
        std::uintptr_t const stop = u->stopped_at();
        if (!stop) u->taken_for(to_.id.load(std::memory_order_relaxed));
        bool const open = stop && stop % unit_bytes;
        for (std::size_t i = u->guarded.load(std::memory_order_relaxed) ? 0 : u->length - 1; i < u->length; ++i) {
            place const            p = place_in(*region_of(u->address), u->address + (i << unit_shift));
            std::scoped_lock const guard(p.u->lock);
            if (open && i + 1 == u->length) begin_tracking(p);
            if (!p.u->tracked.load(std::memory_order_relaxed)) continue;
            for (batch_record const* b : {&from_, &to_})
                if (share* const s = find_share(p, b)) leave_to_home(p, s);
            bool const listed = p.rest().listed.load(std::memory_order_relaxed);
            dequeue(p);
            if (listed || (open && i + 1 == u->length)) enqueue(p, way.queue, list_end::last);
        }
    }

    /// Gives back the units at a run's end in which nothing was made.
    static void drop_unused(unit* u) noexcept {
        std::uintptr_t const stop = u->stopped_at();
        if (!stop || u->guarded.load(std::memory_order_relaxed)) return;
        std::size_t const used = std::max<std::size_t>(1, (stop - u->address + unit_bytes - 1) >> unit_shift);
        if (used < u->length) cut_run(u, used);
    }

    void give_resources(lane& l) noexcept {
        auto* const r = static_cast<lane_resource*>(l.resource.exchange(nullptr, std::memory_order_relaxed));
        std::uint64_t const id  = to_.id.load(std::memory_order_relaxed);
        auto* const         own = static_cast<lane_resource*>(to_.primary.resource.load(std::memory_order_relaxed));
        lane_resource*      last = r;
        for (;; last = last->next) {
            last->go_to(&to_.primary, id);
            if (!last->next) break;
        }
        if (own) {
            last->next = own->next;
            own->next  = r;
        } else {
            to_.primary.resource.store(r, std::memory_order_relaxed);
        }
    }

    /// Gives a list that has the batch's lock.
    void give_list(entry*& mine, entry*& theirs) noexcept {
        from_.lock.lock();
        entry* const first = std::exchange(mine, nullptr);
        from_.lock.unlock();
        if (!first) return;
        entry* last = first;
        while (last->next) last = last->next;
        std::scoped_lock const guard(to_.lock);
        to_.touch();
        last->next = theirs;
        if (theirs) theirs->prev = last;
        theirs = first;
    }

    void give_shares() noexcept {
        for (;;) {
            place              p{};
            read_section const here;
            {
                std::scoped_lock const guard(from_.lock);
                if (!from_.shares) return;
                p = {region_of(from_.shares->base), from_.shares->where, from_.shares->base};
            }
            std::scoped_lock const guard(p.u->lock);
            if (share* const s = find_share(p, &from_)) give_share(p, s, to_);
        }
    }

    void book() noexcept {
        std::size_t const bytes = what_.bytes + what_.buffer_bytes;
        from_.add(&ledger::given, what_.objects, what_.bytes, from_.is_here());
        to_.add(&ledger::received, what_.objects, what_.bytes, to_.is_here());
        for (batch_record* b : {&from_, &to_}) b->rest.books.noted.store(0, std::memory_order_relaxed);
        if (!from_.limited) return;
        refund(from_.limited, common_, bytes);
        from_.own_charge.fetch_sub(bytes, std::memory_order_relaxed);
    }

    batch_record&          from_;
    batch_record&          to_;
    exclusive_claim const& claim_;
    buffers_among          buffers_;
    lane_claim const       to_lane_;
    batch_record* const    common_;         ///< the nearest batch with limits at or above both
    std::uint64_t          units_ = 0;      ///< of `from`'s own memory
    bool                   mine_  = false;  ///< this thread has the receiver's own lane
    bool                   whole_ = false;  ///< runs go over as they are
    batch_usage            what_{};

    owned_ptr<share_transfer_front> shared_;
};

/// Gives all that a batch other than the root owns to the batch `to_id` of its registry. Errors: no_such_batch;
/// batch_in_use as of clear_batch(); not_restorable: either has a checkpoint; what over_because() says of either;
/// those of giving_all::give().
inline failure give_all(batch_record& from, std::uint64_t id, std::uint64_t to_id) noexcept {
    close_those_elsewhere();
    found const to = find_batch(*from.registry.load(std::memory_order_relaxed), to_id);
    if (!to.known) return {.code = errc::no_such_batch, .id = to_id};
    if (!to.record) return over_failure(to_id);
    held_batch const target(*to.record, to_id, batch_flags::closed);
    if (!target) return over_failure(to_id);
    if (is_common(*to.record)) return {errc::not_owner, to.record};
    if (id == to_id) return {};
    exclusive_claim const claim(from, id, batch_flags::closed);
    if (claim.why() != errc{}) return {.code = claim.why(), .id = id};
    if (has_open_children(from)) return {errc::batch_in_use, &from};
    for (batch_record const* b : {&from, to.record})
        if (has_checkpoint(*b)) return {errc::not_restorable, b};
    return giving_all(from, *to.record, claim).give();
}

}  // namespace tenure::detail
