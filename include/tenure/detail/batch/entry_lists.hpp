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

/// Returns the owner's locked list that an entry belongs in. Buffers have one of their own: they end after all
/// objects with destructors, which may use them, and any thread can go through it.
inline entry*& list_for(batch_record& owner, std::uintptr_t state) noexcept {
    return is_buffer(finalizer_of(state)) ? owner.first_buffer : owner.inbox;
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
