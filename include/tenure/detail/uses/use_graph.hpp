// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <new>
#include <source_location>

#include <tenure/detail/uses/waiting_graph.hpp>

namespace tenure::detail {

/// The pins and borrows of a registry's batches, which make others wait. All calls are made under `mutex`.
class use_graph : public waiting_graph {
public:
    using waiting_graph::add;

    /// Adds a pin for a guard, or a borrow. Returns null if memory is full.
    pin_record* add(batch_record& user, used_object& o, bool borrowed, std::source_location where) noexcept {
        pin_record* const p = spare_pins_.take();
        if (!p) return nullptr;
        p->user         = &user;
        p->where        = where;
        p->borrowed     = borrowed;
        p->prev_of_user = nullptr;
        p->next_of_user = user.uses.pins;
        if (p->next_of_user) p->next_of_user->prev_of_user = p;
        user.uses.pins = p;
        user.books.touch();
        user.uses_others.store(true, std::memory_order_relaxed);
        if (borrowed) borrows_.insert(key_of(user, o), *p);
        else ++user.uses.taken;
        insert(*p, o);
        return p;
    }

    bool is_borrowed(batch_record const& user, used_object const& o) const noexcept {
        pin_record const* p = borrows_.first(key_of(user, o));
        while (p && (p->user != &user || p->object != &o)) p = hash_index<pin_record>::next(*p);
        return p;
    }

    void release(pin_record& p) noexcept {
        if (p.object) remove(p);
        batch_record& user = *p.user;
        p.serial.store(p.serial.load(std::memory_order_relaxed) + 1, std::memory_order_release);
        if (p.next_of_user) p.next_of_user->prev_of_user = p.prev_of_user;
        (p.prev_of_user ? p.prev_of_user->next_of_user : user.uses.pins) = p.next_of_user;
        if (p.borrowed) borrows_.erase(p);
        else --user.uses.taken;
        if (!user.uses.pins) user.uses_others.store(false, std::memory_order_relaxed);
        spare_pins_.give(p);
    }

    /// Releases all uses of the object by that batch. `o` may be gone afterwards.
    void release_all(batch_record& user, pinned_object& o) noexcept {
        for (use_edge *e = o.uses, *next; e; e = next) {
            next = e->next;
            if (e->user == &user) release(static_cast<pin_record&>(*e));
        }
    }

    /// Forgets all uses of a batch whose registry closes: no hold counts any more.
    void forget(batch_record& b) noexcept {
        while (pin_record* const p = b.uses.pins) {
            p->object = nullptr;
            release(*p);
        }
        b.uses.~use_node();
        new (&b.uses) use_node;
    }

private:
    static std::uint64_t key_of(batch_record const& user, used_object const& o) noexcept {
        return reinterpret_cast<std::uintptr_t>(&o) ^ std::uint64_t{user.index} << 40;
    }

    hash_index<pin_record> borrows_;
    stock<pin_record>      spare_pins_;
};

}  // namespace tenure::detail
