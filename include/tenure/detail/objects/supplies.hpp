// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <new>
#include <utility>

#include <tenure/detail/batch/process.hpp>
#include <tenure/detail/objects/read_section.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Supplies of stores that batches name: made for the first batch, gone with the last.

inline std::uint64_t key_of(any_store const& store) noexcept { return std::hash<any_store>{}(store); }

/// Puts a supply among the registry's. `grows`: finding one may get faster by this, which allocates. Called under
/// `supplies_mutex`.
inline void link_supply(registry_core& r, supply& s, bool grows) noexcept {
    s.next = r.supplies;
    if (s.next) s.next->before = &s.next;
    s.before   = &r.supplies;
    r.supplies = &s;
    if (grows) r.by_store.insert(key_of(s.store), s);
    else r.by_store.insert_as_it_is(key_of(s.store), s);
}

/// Returns the supply of a store that batches name, or null. Called under `supplies_mutex`.
inline supply* find_supply(registry_core const& r, any_store const& store) noexcept {
    supply* s = r.by_store.first(key_of(store));
    while (s && s->store != store) s = hash_index<supply>::next(*s);
    return s;
}

/// Unlinks a supply that nothing uses. Returns true if it did, and the supply is the caller's to delete. Called
/// under `supplies_mutex`.
inline bool unlink_idle(registry_core& r, supply& s) noexcept {
    if (s.users > 0 || s.slabs.usage().held > 0 || !s.refused.empty()) return false;
    *s.before = s.next;
    if (s.next) s.next->before = s.before;
    r.by_store.erase(s);
    return true;
}

/// Deletes a supply that no read section may look at. If the store cannot take everything back, the registry keeps
/// the supply, to try later, unless it closes. The registry's own supply goes with the registry, after the last of
/// the others.
inline void end_supply(supply* s) noexcept {
    registry_core& r = s->registry;
    s->slabs.unmap(s->refused);
    if (!s->refused.empty() && s != &r.own) {
        std::scoped_lock const guard(r.supplies_mutex);
        if (!(r.departures.load(std::memory_order_relaxed) & registry_core::closed))
            link_supply(r, *std::exchange(s, nullptr), false);
    }
    if (s != &r.own) delete s;
    if (r.departures.fetch_sub(1, std::memory_order_acq_rel) == (registry_core::closed | 1)) delete &r;
}

inline void depart(supply* first, supply* last) noexcept {
    last->next = departing.load(std::memory_order_relaxed);
    while (!departing.compare_exchange_weak(last->next, first)) {}
}

/// Ends all departing supplies. If a section is open, puts them back and looks once more: a section that ended in
/// between did not see them.
TENURE_COLD inline void end_departing() noexcept {
    do {
        supply* all = departing.exchange(nullptr);
        if (!all) return;
        if (!is_read()) {
            while (supply* const s = all) {
                all = s->next;
                end_supply(s);
            }
            return;
        }
        supply* last = all;
        while (last->next) last = last->next;
        depart(all, last);
    } while (!is_read());
}

/// Has a supply that is unlinked from its registry unmapped once no read section may look at it. end_departing()
/// must follow, once for any number of them, and no lock be held then.
inline void let_depart_later(supply& s) noexcept {
    s.registry.departures.fetch_add(1, std::memory_order_relaxed);
    s.slabs.mark_leaving();
    depart(&s, &s);
}

/// Unmaps a supply as let_depart_later() and end_departing() do. No lock is held.
inline void let_depart(supply& s) noexcept {
    let_depart_later(s);
    end_departing();
}

/// Frees a registry whose batches are all over, with its supplies, once no read section may look at them.
inline void let_depart(registry_core& r) noexcept {
    supply* last = nullptr;
    {
        std::scoped_lock const guard(r.supplies_mutex);
        r.own.next = std::exchange(r.supplies, nullptr);
        for (supply* s = &r.own; s; last = std::exchange(s, s->next)) {
            r.departures.fetch_add(1, std::memory_order_relaxed);
            s->slabs.mark_leaving();
        }
        r.departures.fetch_or(registry_core::closed, std::memory_order_relaxed);
    }
    depart(&r.own, last);
    end_departing();
}

/// Returns the supply for a store, with one more user. Returns null if memory is full.
TENURE_COLD inline supply* join_supply(registry_core& r, any_store const& store) noexcept {
    if (store == r.own.store) return &r.own;
    std::scoped_lock const guard(r.supplies_mutex);
    supply*                s = find_supply(r, store);
    if (!s) {
        s = new (std::nothrow) supply(store, r, r.decay, 0);
        if (!s) return nullptr;
        link_supply(r, *s, true);
    }
    ++s->users;
    return s;
}

inline void hold_supply(supply& s) noexcept {
    if (&s == &s.registry.own) return;
    std::scoped_lock const guard(s.registry.supplies_mutex);
    ++s.users;
}

/// Gives up one use of a supply. Returns true if that was the last, and end_departing() must follow.
TENURE_COLD inline bool leave_supply_later(supply& s) noexcept {
    if (&s == &s.registry.own) return false;
    {
        std::scoped_lock const guard(s.registry.supplies_mutex);
        --s.users;
        if (!unlink_idle(s.registry, s)) return false;
    }
    let_depart_later(s);
    return true;
}

/// Gives up one use of a supply, which may be gone then.
inline void leave_supply(supply& s) noexcept {
    if (leave_supply_later(s)) end_departing();
}

/// Returns the supply in which a batch's buffers live.
inline supply& buffers_of(batch_record const& b) noexcept { return *(b.joined ? b.buffers : b.slabs); }

TENURE_COLD inline void join_named(batch_record& b, batch_record const* parent, registry_core& r,
                                   any_store const* named) {
    if (named) {
        b.buffers = join_supply(r, *named);
        if (!b.buffers) raise(std::bad_alloc());
        if (b.buffers->addressable()) b.slabs = b.buffers;
    } else {
        b.buffers = &buffers_of(*parent);
        hold_supply(*b.buffers);
    }
    if (b.slabs != b.buffers) hold_supply(*b.slabs);
    b.joined = b.slabs != &r.own || b.buffers != &r.own;
    if (b.joined) b.unusual |= unusual_flags::own | unusual_flags::inherited;
}

/// Gives a batch the supplies of the one above it, or the one it names: for slabs only if that is addressable.
/// Throws std::bad_alloc.
inline void join_supplies(batch_record& b, batch_record const* parent, registry_core& r, any_store const* named) {
    b.slabs = parent ? parent->slabs : &r.own;
    if (named || (parent && parent->joined)) [[unlikely]]
        join_named(b, parent, r, named);
}

TENURE_COLD inline void leave_named(batch_record& b) noexcept {
    supply* const own     = &b.registry.load(std::memory_order_relaxed)->own;
    supply* const buffers = std::exchange(b.buffers, own);
    supply* const slabs   = std::exchange(b.slabs, own);
    leave_supply(*buffers);
    if (slabs != buffers) leave_supply(*slabs);
}

/// Gives up a batch's supplies, in which nothing of it is left.
inline void leave_supplies(batch_record& b) noexcept {
    if (std::exchange(b.joined, false)) [[unlikely]]
        leave_named(b);
}

/// Asks all stores again to free what they could not, and returns free memory of stores that batches name to the
/// system. Returns the bytes given back.
inline std::size_t tidy_supplies(registry_core& r) noexcept {
    std::size_t given = 0;
    if (!r.own.refused.empty()) r.own.refused.retry(r.own.store);
    auto const used = [&](supply* const& next) {  // while it is asked, with no lock held
        std::scoped_lock const guard(r.supplies_mutex);
        if (next) ++next->users;
        return next;
    };
    for (supply *s = used(r.supplies), *after; s; s = after) {
        if (!s->refused.empty()) s->refused.retry(s->store);
        given += s->slabs.trim(static_cast<std::size_t>(-1));
        after = used(s->next);
        leave_supply(*s);
    }
    return given;
}

}  // namespace tenure::detail
