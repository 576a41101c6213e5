// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <tenure/detail/batch/holding.hpp>
#include <tenure/detail/objects/ownership_transfer.hpp>

namespace tenure::detail {

/// From here on the object's own state is asked at every access. Under the object's lock.
inline void guard_extent(extent const& x) noexcept {
    if (x.large) {
        zeroed_atomic<word_t>* const words = &table_word(x.large->address);
        for (std::size_t i = 0; i < x.large->length; ++i)
            words[i].store(words[i].load(std::memory_order_relaxed) & ~whole_flag, std::memory_order_release);
        return;
    }
    for_units(x.begin, x.begin + x.bytes, [](place p, std::uintptr_t, std::uintptr_t) {
        begin_tracking(p);
        guard_word(p);
    });
}

/// An entry whose object ends, and which stays in the list of a lane that is another thread's.
class listed_entry {
public:
    listed_entry() = default;

    /// Under the object's lock, while the lane's batch has not ended. A rollback of that batch waits for hand_in();
    /// so until then this thread waits for no rollback.
    listed_entry(entry* e, lane* l) noexcept
        : entry_(e),
          lane_(l),
          held_(is_root(*l->batch) || hold_until_freed(*l->batch, l->batch->id.load(std::memory_order_relaxed))) {
        if (held_) ++this_thread.listed_ends;
    }

    explicit operator bool() const noexcept { return lane_; }

    /// Tells the lane that the entry may leave. Where its batch is just ending, that sees to it.
    void hand_in() const noexcept {
        if (!held_) return;
        --this_thread.listed_ends;
        batch_record* const b    = lane_->batch;
        entry*              head = lane_->remote.load(std::memory_order_relaxed);
        do entry_->state.store(reinterpret_cast<std::uintptr_t>(head) | entry::dead, std::memory_order_relaxed);
        while (!lane_->remote.compare_exchange_weak(head, entry_, std::memory_order_release,
                                                    std::memory_order_relaxed));
        if (!is_root(*b)) release_hold(b);
    }

private:
    entry* entry_ = nullptr;
    lane*  lane_  = nullptr;
    bool   held_  = false;
};

/// An entry whose object was given away belongs to the object's owner; from here on, to the batch in whose list it
/// stands: its bytes must not be filled again before it leaves that. Under the object's lock.
inline void return_entry(entry* e, batch_record* to) noexcept {
    std::uintptr_t const at = to_address(e);
    for_units(at, at + sizeof(entry), [&](place p, std::uintptr_t begin, std::uintptr_t end) {
        for (share* s = p.u->shares.load(std::memory_order_relaxed); s; s = s->next_here)
            if (test(s->objects, begin)) clear(*s, begin, end);
        if (p.head()->home.load(std::memory_order_relaxed) == to) return;
        if (share* const s = find_share(p.u, to)) set(*s, begin, end);  // it has one, from when the object was its
    });
}

/// The end of an object that has a proxy, under the object's lock. The caller has taken the proxy from its inbox.
inline listed_entry end_proxied(proxy const& p) noexcept {
    p.object->state.store(entry::dead, std::memory_order_release);
    if (!p.listed) return {};
    return_entry(p.object, p.listed->batch);
    return {p.object, p.listed};
}

/// An object's way out: what its end needs once its lock is gone.
struct departure {
    finalizer const* end  = nullptr;
    proxy*           gone = nullptr;
    listed_entry     listed;
};

/// Takes an entry out of whatever knows of it. Under the object's lock.
inline departure depart(batch_record& owner, extent const& x) noexcept {
    entry* const         e     = x.header;
    std::uintptr_t const state = e->state.load(std::memory_order_relaxed);
    e->state.store(entry::dead, std::memory_order_release);
    if (state & (entry::moved | entry::inbox)) {
        proxy* const         gone = state & entry::moved ? proxy_of(state) : nullptr;
        std::uintptr_t const in   = gone ? gone->state.load(std::memory_order_relaxed) : state;
        remove_from_list(owner, gone ? gone : e, in);
        if (!gone) return {&finalizer_of(state), nullptr, {}};
        return {&finalizer_of(in), gone, end_proxied(*gone)};
    }
    lane* const l = lane_of(x, &owner);
    if (!is_mine(l)) return {&finalizer_of(state), nullptr, {e, l}};
    unlink(l->entries, e);
    return {&finalizer_of(state), nullptr, {}};
}

/// Ends an object and gives its bytes back to its owner, which is held; any thread. stale_handle: the object is not
/// that batch's or not alive, somebody else was first; object_pinned. The destructor runs here, with no lock held.
inline errc free_object(batch_record& owner, raw_handle h) noexcept {
    extent const  x = extent_of(h);
    departure     way;
    buffer_record buffer{};
    derivation*   made_by = nullptr;
    retired_units empty;
    note_peak(owner);
    {
        use_lock const guard(owner, x);
        if (!still_owned(h, x, owner)) return errc::stale_handle;
        if (guard.pinned()) return errc::object_pinned;
        if (buffer_record const* const b = as_buffer(x)) {
            if (!b->lent()) buffer = *b;
            made_by = b->made_by();
        }
        if (x.header || x.large) guard_extent(x);
        if (x.header) way = depart(owner, x);
        else if (!x.large) mark_range_dead(owner, x.begin, x.begin + x.bytes, empty);
    }
    delete way.gone;
    if (way.end) way.end->destroy(x.header);
    if (buffer.from) free_stored(owner, *buffer.from, buffer.where);
    if (made_by) drop_derivation(*made_by);
    owner.books.add(&ledger::freed, 1, x.bytes, owner.is_here());
    refund_use(owner, x.bytes + buffer.where.bytes);
    if (x.large && !way.listed) {
        unlink_large(owner, x.large);
        give_large(x.large);
    } else if (x.header && !x.large) {
        std::uintptr_t const from = x.begin + (way.listed ? sizeof(entry) : 0);
        object_lock const    guard(x);
        mark_range_dead(owner, from, x.begin + x.bytes, empty);
    }
    empty.give();
    way.listed.hand_in();
    return {};
}

}  // namespace tenure::detail
