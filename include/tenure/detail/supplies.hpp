// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <mutex>

#include <tenure/detail/process.hpp>

namespace tenure::detail {

/// Room for `bytes` more under the registry's memory limit, if need be by what idle batches give up.
bool make_room(registry_core& r, std::size_t bytes) noexcept;

/// What is over the limit goes out, as far as it can: after something that can go now was left.
inline void relieve(registry_core& r) noexcept {
    if (r.pages.limited()) make_room(r, 0);
}

/// As make_room, for a batch; only what is in the registry's own store counts.
inline bool has_room(batch_record const& b, std::size_t bytes) noexcept {
    registry_core& r = *b.registry.load(std::memory_order_relaxed);
    return !r.pages.limited() || b.slabs != &r.own || make_room(r, bytes);
}

/// The supplies of stores that batches name: made by the first batch, gone with the last.

/// True: nobody uses it, and it is the caller's to delete. Under the registry's lock of supplies.
inline bool unlink_idle(registry_core& r, supply& s) noexcept {
    if (s.users > 0 || s.slabs.usage().held > 0 || !s.refused.empty()) return false;
    supply** at = &r.supplies;
    while (*at != &s) at = &(*at)->next;
    *at = s.next;
    return true;
}

/// For one more batch. Throws std::bad_alloc.
TENURE_COLD inline supply* join_supply(registry_core& r, any_store const& store) {
    if (store == r.own.store) return &r.own;
    std::scoped_lock const guard(r.supplies_mutex);
    supply*                s = r.supplies;
    while (s && s->store != store) s = s->next;
    if (!s) {
        s          = new supply(store, r, r.decay, 0);
        s->next    = r.supplies;
        r.supplies = s;
    }
    ++s->users;
    return s;
}

inline void hold_supply(supply& s) noexcept {
    if (&s == &s.registry.own) return;
    std::scoped_lock const guard(s.registry.supplies_mutex);
    ++s.users;
}

TENURE_COLD inline void leave_supply(supply& s) noexcept {
    if (&s == &s.registry.own) return;
    {
        std::scoped_lock const guard(s.registry.supplies_mutex);
        --s.users;
        if (!unlink_idle(s.registry, s)) return;
    }
    delete &s;
}

/// A batch uses what the one above it uses, or what it names: slabs only where that is addressable.
inline void join_supplies(batch_record& b, batch_record const* parent, registry_core& r, any_store const* named) {
    supply* const above = parent ? parent->slabs : &r.own;
    b.slabs             = above;
    b.buffers           = parent ? parent->buffers : &r.own;
    if (named) [[unlikely]] {
        b.buffers = join_supply(r, *named);
        if (b.buffers->addressable()) b.slabs = b.buffers;
    }
    if (!named) hold_supply(*b.buffers);
    if (b.slabs != b.buffers) hold_supply(*b.slabs);
}

inline void leave_supplies(batch_record& b) noexcept {
    supply* const own = &b.registry.load(std::memory_order_relaxed)->own;
    if (b.buffers != own) leave_supply(*b.buffers);
    if (b.slabs != b.buffers && b.slabs != own) leave_supply(*b.slabs);
}

/// Asks all stores again to free what they could not.
inline void retry_refused(registry_core& r) noexcept {
    if (!r.own.refused.empty()) r.own.refused.retry(r.own.store);
    for (std::size_t i = 0;; ++i) {
        supply* s = nullptr;
        {
            std::scoped_lock const guard(r.supplies_mutex);
            s = r.supplies;
            for (std::size_t k = 0; s && k < i; ++k) s = s->next;
            if (!s) return;
            ++s->users;  // while it is asked, with no lock held
        }
        if (!s->refused.empty()) s->refused.retry(s->store);
        leave_supply(*s);
    }
}

}  // namespace tenure::detail
