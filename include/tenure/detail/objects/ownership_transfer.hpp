// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>

#include <sched.h>

#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/detail/batch/buffers_front.hpp>
#include <tenure/detail/batch/entry_lists.hpp>
#include <tenure/detail/objects/slab.hpp>
#include <tenure/detail/objects/use_lock.hpp>

namespace tenure::detail {

/// Returns the handle of the slab record that stands for an adopted object, or an empty one if that is not alive;
/// any other handle unchanged.
inline raw_handle resolve(raw_handle h) noexcept {
    if (!(h.word & cell_flag)) return h;
    cell* const c = cells.find(h.word);
    if (!c || !cell_alive(h.word)) return {};
    return {c->record.load(std::memory_order_relaxed), c->record_word.load(std::memory_order_relaxed)};
}

using buffers_among = owned_ptr<buffer_transfer_front>;

/// Transfers objects between batches in two steps: prepare() all, which may fail and then leaves everything as it
/// was, then commit() all, which fails only for objects that another thread took meanwhile. So a list is
/// transferred whole or not at all.
class ownership_transfer {
public:
    /// `buffers`, null so far, are those among the objects. It must outlive the caller's claims of lanes.
    ownership_transfer(batch_record& from, batch_record& to, buffers_among& buffers) noexcept
        : from_(from), to_(to), buffers_(buffers), common_(nearest_charged(from.limited, to.limited)) {}
    ~ownership_transfer() {
        while (entry* const e = spare_) {
            spare_ = e->next;
            delete static_cast<proxy*>(e);
        }
        if (pending_) {
            refund(to_.limited, common_, pending_);
            to_.own_charge.fetch_sub(pending_, std::memory_order_relaxed);
        }
    }
    ownership_transfer(ownership_transfer const&)            = delete;
    ownership_transfer& operator=(ownership_transfer const&) = delete;

    /// Reserves what commit() will need. Errors: stale_handle if the object is not alive or not `from`'s any more;
    /// not_restorable under a checkpoint; not_self_contained; the cause if `from` was cancelled or expired and its
    /// buffer lost its bytes; wrong_thread for a large object in another thread's list; memory_full;
    /// limit_exceeded.
    failure prepare(raw_handle h) noexcept {
        extent const x           = extent_of(h);
        bool         wants_proxy = false;
        buffer_seen  buffer;
        for (bool has_buffer = false;; ::sched_yield()) {
            if (has_buffer && !buffers_ && !(buffers_ = front_of_buffers().begin_transfer(from_, to_)))
                return {errc::memory_full, &to_, sizeof(block)};
            object_lock const guard(x);
            if (!still_owned(h, x, from_)) return {errc::stale_handle, &from_};
            if (has_checkpoint(from_) && is_under_checkpoint(from_, x.begin)) return {errc::not_restorable, &from_};
            if (is_bound(h.word)) return {errc::not_self_contained, &from_};
            if (is_buffer(x.header)) {
                has_buffer = true;
                if (!buffers_) continue;
                buffer = buffers_->look(x.header);
                if (buffer.in_transit) continue;
                if (buffer.dropped) return {from_.why_closed(), &from_};
            }
            if (!x.large && !reserve_shares(x)) return {errc::memory_full, &to_, sizeof(share)};
            wants_proxy = x.header && stays_listed(x);
            break;
        }
        if (buffer.from && !buffers_->promise(*buffer.from)) return {errc::memory_full, &to_, sizeof(block)};
        if (wants_proxy) {
            if (x.large) return {errc::wrong_thread, &from_};  // the run could not outlive that thread's list
            auto* const p = new (std::nothrow) proxy;
            if (!p) return {errc::memory_full, &to_, sizeof(proxy)};
            p->next = spare_;
            spare_  = p;
        }
        if (to_.limited) {
            std::size_t const bytes = x.bytes + buffer.owned;
            if (failure const why = charge_exactly(to_, common_, bytes)) return why;
            to_.own_charge.fetch_add(bytes, std::memory_order_relaxed);
            pending_ += bytes;
        }
        return {};
    }

    /// Moves a prepared object. Returns false, with nothing done, if it is not as it was prepared: another thread
    /// was first, the list names it twice, or its buffer lost its bytes or changed its store.
    bool commit(raw_handle h) noexcept {
        extent const x = extent_of(h);
        buffer_seen  buffer;
        note_peak(from_);
        {
            use_lock guard(from_, x);
            if (!still_owned(h, x, from_) || (x.header && stays_listed(x) && !spare_)) return false;
            if (is_buffer(x.header) && (!buffers_ || !buffers_->move(x.header, buffer))) return false;
            guard.give_to(to_);
            if (x.header) move_entry(x);
            if (x.large) move_large(x.large, from_, to_);
            else
                for_units(x.begin, x.begin + x.bytes, [&](place p, std::uintptr_t begin, std::uintptr_t end) {
                    set(p, *find_share(p, &to_), begin, end);
                    if (share* const s = find_share(p, &from_); s && test(s->objects, begin)) clear(*s, begin, end);
                });
        }
        if (buffer.in_transit) buffers_->add(h, buffer);
        std::size_t const bytes = x.bytes + buffer.owned;
        from_.add(&ledger::given, 1, x.bytes, from_.is_here());
        to_.add(&ledger::received, 1, x.bytes, to_.is_here());
        to_.rest.books.noted.store(0, std::memory_order_relaxed);
        if (from_.limited) {
            refund(from_.limited, common_, bytes);
            from_.own_charge.fetch_sub(bytes, std::memory_order_relaxed);
        }
        if (to_.limited) pending_ -= bytes;
        return true;
    }

    /// Returns whether commit() found a buffer that lost its bytes after prepare(), because its batch was
    /// cancelled or expired.
    bool lost() const noexcept { return buffers_ && buffers_->lost; }

private:
    bool reserve_shares(extent const& x) noexcept {
        bool all = true;
        for_units(x.begin, x.begin + x.bytes,
                  [&](place p, std::uintptr_t, std::uintptr_t) { all = all && share_for(p, &to_); });
        return all;
    }

    /// Returns whether the entry has to stay in its list, because that is another thread's, which may be changing
    /// it.
    bool stays_listed(extent const& x) const noexcept {
        constexpr std::uintptr_t elsewhere = entry::moved | entry::inbox;
        return !(x.header->state.load(std::memory_order_acquire) & elsewhere) && !is_mine(lane_of(x, &from_));
    }

    void move_entry(extent const& x) noexcept {
        entry* const         e     = x.header;
        std::uintptr_t const state = e->state.load(std::memory_order_acquire);
        if (state & entry::moved) {
            auto* const          p  = proxy_of(state);
            std::uintptr_t const in = p->state.load(std::memory_order_relaxed);
            remove_from_list(from_, p, in);
            put_in_list(to_, p, in);
            return;
        }
        lane* const l = lane_of(x, &from_);
        if (state & entry::inbox) remove_from_list(from_, e, state);
        else if (is_mine(l)) unlink(l->entries, l->oldest_entry, e);
        else {
            auto* const p = static_cast<proxy*>(spare_);
            spare_        = p->next;
            p->object     = e;
            p->listed     = l;
            l->lists_moved.store(true, std::memory_order_relaxed);
            put_in_list(to_, p, state | entry::proxied);
            e->state.store(reinterpret_cast<std::uintptr_t>(p) | entry::moved, std::memory_order_release);
            return;
        }
        lane* const next = x.large ? &to_.primary : lane_of(x, &to_);
        if (is_mine(next) && !is_apart(finalizer_of(state))) {
            e->state.store(state & ~entry::inbox, std::memory_order_release);
            link_front(next->entries, next->oldest_entry, e);
        } else {
            put_in_list(to_, e, state);
        }
    }

    batch_record&  from_;
    batch_record&  to_;
    buffers_among& buffers_;
    batch_record*  common_;             ///< the nearest batch with limits at or above both
    entry*         spare_   = nullptr;  ///< proxies that are not used yet
    std::uint64_t  pending_ = 0;        ///< bytes charged to `to_` for objects not committed yet
};

}  // namespace tenure::detail
