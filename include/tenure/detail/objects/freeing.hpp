// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <tenure/detail/batch/release.hpp>
#include <tenure/detail/objects/ownership_transfer.hpp>

namespace tenure::detail {

/// Makes every later access ask the object's own state. Called under the object's lock.
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

/// The entry of an object that ends, while it stays in the list of another thread's lane.
class listed_entry {
public:
    listed_entry() = default;

    /// Called under the object's lock, while the lane's list exists. A rollback of the lane's batch waits for
    /// hand_in(), so until then this thread waits for no rollback.
    listed_entry(entry* e, lane* l) noexcept
        : entry_(e),
          lane_(l),
          held_(is_root(*l->batch) || hold_until_freed(*l->batch, l->batch->id.load(std::memory_order_relaxed))) {
        if (held_) ++this_thread.listed_ends;
    }

    explicit operator bool() const noexcept { return lane_; }

    /// Tells the lane that the entry may leave its list. Does nothing if the lane's batch is just ending, which
    /// drops the list.
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

/// Gives the entry's bytes to `to`, the batch in whose list it stands. They belonged to the owner of the object,
/// which was transferred, and must not be filled again before the entry leaves the list. Called under the object's
/// lock.
inline void return_entry(entry* e, batch_record* to) noexcept {
    std::uintptr_t const at = to_address(e);
    for_units(at, at + sizeof(entry), [&](place p, std::uintptr_t begin, std::uintptr_t end) {
        for (share* s = p.rest().shares.load(std::memory_order_relaxed); s; s = s->next_here)
            if (test(s->objects, begin)) clear(*s, begin, end);
        for_words(begin, end, [&](std::uint32_t i, std::uint32_t) { note_change(p.track(), i); });
        if (p.head()->home.load(std::memory_order_relaxed) == to) return;
        if (share* const s = find_share(p, to)) set(p, *s, begin, end);  // `to` got it when it owned the object
    });
}

/// Marks an object with a proxy as dead. Returns its entry if that still stands in a list. The caller has the
/// object's lock and has taken the proxy from its inbox.
inline listed_entry end_proxied(proxy const& p) noexcept {
    p.object->state.store(entry::dead, std::memory_order_release);
    if (!p.listed) return {};
    return_entry(p.object, p.listed->batch);
    return {p.object, p.listed};
}

/// What the end of an object still needs once the object's lock is released.
struct departure {
    finalizer const* end  = nullptr;
    proxy*           gone = nullptr;
    listed_entry     listed;
};

/// Marks an entry as dead and takes it out of its list, unless that is another thread's. Called under the object's
/// lock.
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
    unlink(l->entries, l->oldest_entry, e);
    return {&finalizer_of(state), nullptr, {}};
}

/// Returns the finalizer of a live object. Called under the object's lock.
inline finalizer const& finalizer_of(extent const& x) noexcept {
    std::uintptr_t const state = x.header->state.load(std::memory_order_relaxed);
    return finalizer_of(state & entry::moved ? proxy_of(state)->state.load(std::memory_order_relaxed) : state);
}

/// How an object ends that is freed early.
using end_of_object                          = void (*finalizer::*)(entry*) noexcept;
inline constexpr end_of_object by_destroying = &finalizer::destroy, by_dropping = &finalizer::drop;

/// Ends an object and gives its bytes back to its owner, which is held. The destructor runs with no lock held. Any
/// thread may call this. Errors: stale_handle if the object is not alive or not that batch's (another thread was
/// first); object_pinned; not_adopted.
inline errc free_object(batch_record& owner, raw_handle h, end_of_object how = by_destroying) noexcept {
    extent const  x = extent_of(h);
    departure     way;
    retired_units empty;

    buffers_front::taken buffer;
    note_peak(owner);
    {
        use_lock const guard(owner, x);
        if (!still_owned(h, x, owner)) return errc::stale_handle;
        if (guard.pinned()) return errc::object_pinned;
        if (how == by_dropping && (!x.header || !finalizer_of(x).drop)) return errc::not_adopted;
        if (is_buffer(x.header)) buffer = front_of_buffers().take(x.header);
        if (x.header || x.large) guard_extent(x);
        if (x.header) way = depart(owner, x);
        else if (!x.large) mark_range_dead(owner, x.begin, x.begin + x.bytes, empty);
    }
    delete way.gone;
    if (way.end) (way.end->*how)(x.header);
    if (buffer.from || buffer.made_by) front_of_buffers().free(owner, buffer);
    owner.add(&ledger::freed, 1, x.bytes, owner.is_here());
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
