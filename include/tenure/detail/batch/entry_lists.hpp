// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <tenure/detail/batch/batch_record.hpp>

namespace tenure::detail {

/// The lists of a batch's objects that have a lock, which any thread may take.

inline bool is_buffer(finalizer const& f) noexcept { return !f.type; }

/// Returns whether an object is a buffer, and alive. Called under the object's lock, or while no other thread can
/// reach the object. A buffer is never moved: its entry is always in a locked list.
inline bool is_buffer(entry const* e) noexcept {
    std::uintptr_t const state = e ? e->state.load(std::memory_order_acquire) : entry::dead;
    return !(state & (entry::dead | entry::moved)) && is_buffer(finalizer_of(state));
}

/// Whether entries stand in a locked list even on the thread of their lane. Buffers have one of their own: they end
/// after all objects with destructors, which may use them, and any thread can go through it. Calls in a phase have
/// one for each, so that an end without such calls looks for none.
inline bool is_apart(finalizer const& f) noexcept { return is_buffer(f) || f.phase != release_phase::in_order; }

/// Returns the owner's locked list that an entry belongs in.
inline entry*& list_for(batch_record& owner, std::uintptr_t state) noexcept {
    finalizer const& f = finalizer_of(state);
    switch (f.phase) {
    case release_phase::before: return owner.rest.before;
    case release_phase::after: return owner.rest.after;
    case release_phase::in_order: break;
    }
    return is_buffer(f) ? owner.first_buffer : owner.inbox;
}

/// Whether anything is in the locked lists of a batch that ends, or where nobody else is.
inline bool any_in_locked_lists(batch_record const& b) noexcept {
    bool const phases = b.used.load(std::memory_order_relaxed) && (b.rest.before || b.rest.after);
    return b.inbox || b.first_buffer || phases;
}

inline void put_in_list(batch_record& owner, entry* e, std::uintptr_t state) noexcept {
    std::scoped_lock const guard(owner.lock);
    e->state.store(state | entry::inbox, std::memory_order_release);
    link_front(list_for(owner, state), e);
}

inline void remove_from_list(batch_record& owner, entry* e, std::uintptr_t state) noexcept {
    std::scoped_lock const guard(owner.lock);
    if (owner.next_buffer == e) owner.next_buffer = e->next;
    unlink(list_for(owner, state), e);
}

}  // namespace tenure::detail
