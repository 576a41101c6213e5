// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <source_location>
#include <utility>
#include <vector>

#include <tenure/batch.hpp>
#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/batch/uses_front.hpp>
#include <tenure/detail/life/calls.hpp>
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
        p->next_of_user = user.rest.uses.pins;
        if (p->next_of_user) p->next_of_user->prev_of_user = p;
        user.rest.uses.pins = p;
        user.touch();
        user.uses_others.store(true, std::memory_order_relaxed);
        if (borrowed) borrows_.insert(key_of(user, o), *p);
        else ++user.rest.uses.taken;
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
        (p.prev_of_user ? p.prev_of_user->next_of_user : user.rest.uses.pins) = p.next_of_user;
        if (p.borrowed) borrows_.erase(p);
        else --user.rest.uses.taken;
        if (!user.rest.uses.pins) user.uses_others.store(false, std::memory_order_relaxed);
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
        while (pin_record* const p = b.rest.uses.pins) {
            p->object = nullptr;
            release(*p);
        }
        b.rest.uses.~use_node();
        new (&b.rest.uses) use_node;
    }

private:
    static std::uint64_t key_of(batch_record const& user, used_object const& o) noexcept {
        return reinterpret_cast<std::uintptr_t>(&o) ^ std::uint64_t{user.index} << 40;
    }

    hash_index<pin_record> borrows_;
    stock<pin_record>      spare_pins_;
};

/// The uses of one registry.
class registry_uses final : public uses_front {
public:
    explicit registry_uses(registry_core& r) noexcept : registry_(r) {}

    bool any() const noexcept override { return graph.any(); }
    void lock() noexcept override { graph.mutex.lock(); }
    void unlock() noexcept override { graph.mutex.unlock(); }
    void leave() noexcept override { leave(std::unique_lock(graph.mutex, std::adopt_lock)); }
    /// Releases the holds of batches that are no longer used, and unlocks the graph. Does not recurse: if a call
    /// further up on this thread is doing this, that call goes on with what comes of this one.
    void leave(std::unique_lock<std::mutex> held) noexcept {
        thread_context& me = this_thread;
        if (me.release == &registry_) {
            me.more_to_go = true;
            return;
        }
        bool          more = false;
        batch_record* b    = graph.next_unused(more);
        held.unlock();
        if (!b) return;
        registry_core* const outer      = std::exchange(me.release, &registry_);
        bool const           outer_more = std::exchange(me.more_to_go, false);
        do {
            release_hold(b);
            b                  = nullptr;
            bool const further = std::exchange(me.more_to_go, false);
            if (!more && !further) break;
            std::scoped_lock const guard(graph.mutex);
            b = graph.next_unused(more);
        } while (b);
        me.release    = outer;
        me.more_to_go = outer_more;
    }

    used_object* find(std::uintptr_t address) const noexcept override { return graph.find(address); }
    void         give(used_object& o, batch_record& to) noexcept override {
        graph.give(static_cast<pinned_object&>(o), to);
    }

    void wait_for_users(batch_record& b, std::uint64_t seen) noexcept override {
        std::unique_lock held(graph.mutex);
        if ((b.state.load(std::memory_order_acquire) ^ seen) >> state_tag_shift) return;
        graph.note_over(b);
        leave(std::move(held));
    }
    bool has_waiting_children(batch_record const& b) noexcept override {
        std::scoped_lock const held(graph.mutex);
        return b.rest.uses.as_parent.uses;
    }
    void release_pins(batch_record& b) noexcept override {
        std::unique_lock held(graph.mutex);
        if (b.rest.uses.over) return;
        while (pin_record* const p = b.rest.uses.pins) graph.release(*p);
        leave(std::move(held));
    }

    bool is_pinned(raw_handle h, batch_record const* but) noexcept override {
        read_section const here;
        if (!any() || !is_alive(h)) return false;
        std::scoped_lock const     held(graph.mutex);
        pinned_object const* const o = graph.find(extent_of(h).begin);
        if (!o || !is_alive(h)) return false;
        use_edge const* e = o->uses;
        while (e && e->user == but) e = e->next;
        return e;
    }
    void unpin(batch_record& b, raw_handle h) noexcept override {
        read_section const here;
        if (!is_alive(h)) return;
        std::unique_lock     held(graph.mutex);
        pinned_object* const o = graph.find(extent_of(h).begin);
        if (o && is_alive(h)) graph.release_all(b, *o);
        leave(std::move(held));
    }

    void report_pins(batch_record const& b, batch_report& r) noexcept override {
        std::scoped_lock const held(graph.mutex);
        r.pins_held         = b.rest.uses.taken;
        std::size_t const n = std::min(r.pins_held, r.pins.size());
        pin_record const* p = b.rest.uses.pins;
        for (std::size_t i = 0; i < n; p = p->next_of_user)
            if (!p->borrowed) r.pins[i++] = p->where;
    }
    void add_users(batch_record& b, std::uint64_t id, std::vector<batch_id>& out) override {
        auto const ends = [&] {
            std::uint64_t const s = b.state.load(std::memory_order_acquire);
            return s & batch_flags::used && same_batch(s, id) && status_of(s) == batch_status::ending;
        };
        if (!ends()) return;
        std::scoped_lock const held(graph.mutex);
        if (!ends()) return;
        graph.for_users(b, [&](batch_record const& u) { out.push_back({u.id.load(std::memory_order_relaxed)}); });
    }

    void forget(batch_record& b) noexcept override { graph.forget(b); }
    void forget_objects() noexcept override { graph.forget_objects(); }

    /// The locks of the records that registries share, at a fork: taken after that of any graph. Called before the
    /// first is made, with no lock held.
    static void be_ready_for_forks() noexcept { add_for_ever(at_fork); }

    TENURE_SHARED inline static constinit fork_node at_fork{.lock =
                                                                [](void*) noexcept {
                                                                    stock<pinned_object>::lock_for_fork();
                                                                    stock<pin_record>::lock_for_fork();
                                                                },
                                                            .unlock =
                                                                [](void*) noexcept {
                                                                    stock<pin_record>::unlock_after_fork();
                                                                    stock<pinned_object>::unlock_after_fork();
                                                                }};

    use_graph graph;

private:
    registry_core& registry_;
};

/// Returns the uses of a registry; null if it was opened without.
inline registry_uses* uses_of(registry_core& r) noexcept { return static_cast<registry_uses*>(r.uses.get()); }

}  // namespace tenure::detail
