// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include <tenure/detail/base/hash_index.hpp>
#include <tenure/detail/timing/batch_queue.hpp>
#include <tenure/detail/uses/link_cut_tree.hpp>
#include <tenure/detail/uses/node_pool.hpp>

namespace tenure::detail {

/// Who waits for whom, in one registry: an edge a pin or borrow, and one for each batch that is over but still
/// used, to the parent that waits for it.
///
/// A batch with anything used has the flag `used` and one hold for all of it. Once nothing else keeps a batch that
/// has ended, it is `over`: it stays while something active reaches it, along edges. What an edge comes from never
/// changes while that is over, so a ring of such batches lasts until all of it goes: it becomes one group, and a
/// group goes when no edge from outside is left. Every edge is looked at twice at most, once when it becomes a
/// witness and once when it turns out to be inside of a group; so all ends together cost as much as the edges that
/// there ever were, times the logarithm of link_cut_tree.
///
/// All calls under `mutex`, which is taken before the locks of units and batches. Whose hold is to be let go waits
/// in a queue until somebody who has given the mutex back does so. Nothing but add() allocates.
class waiting_graph {
public:
    std::mutex mutex;

    /// Whether any object is pinned; to be asked without the mutex.
    bool any() const noexcept { return any_.load(std::memory_order_acquire); }

    pinned_object* find(std::uintptr_t address) const noexcept { return objects_.first(address); }

    /// The batch with that id stays from now on, for something of it will be used: call add() next. False: it is
    /// too late, or a thread takes a checkpoint of the batch or ends one, and nothing of it may be used meanwhile.
    static bool hold(batch_record& b, std::uint64_t id) noexcept {
        std::uint64_t s = b.state.load(std::memory_order_acquire);
        do {
            bool const idle = s & batch_flags::ended && !(s & batch_flags::holds);
            if (!same_batch(s, id) || s & (batch_flags::done | batch_flags::undoing) || idle ||
                b.uses.going.load(std::memory_order_relaxed) == id)
                return false;
            if (s & batch_flags::used) return true;
        } while (!b.state.compare_exchange_weak(s, s + batch_flags::used + 1, std::memory_order_acq_rel));
        b.books.touch();
        return true;
    }

    /// The object at that address is `owner`'s, which is held, and from now on used; null: memory is full.
    pinned_object* add(std::uintptr_t address, batch_record& owner) noexcept {
        pinned_object* const o = spare_objects_.take();
        if (!o) {
            drop(owner);
            return nullptr;
        }
        o->owner = &owner;
        o->uses  = nullptr;
        objects_.insert(address, *o);
        any_.store(true, std::memory_order_release);
        insert(*o);
        return o;
    }

    /// Undoes add(), if nobody uses it.
    void remove(pinned_object& o) noexcept {
        batch_record& owner = *o.owner;
        if (o.uses) return;
        erase(o);
        drop(owner);
    }

    /// A used object of a batch that is not over has another owner, which is not over either.
    void give(pinned_object& o, batch_record& to) noexcept {
        batch_record& from = *o.owner;
        unlink(from.uses.objects, o);
        o.owner = &to;
        insert(o);
        if (!from.uses.objects) stop_using(from);
    }

    /// Nothing but uses keeps the batch any more, and then perhaps those above it; else this is a no-op.
    void note_over(batch_record& b) noexcept {
        for (batch_record* at = &b; at && is_over(*at);) {
            at->uses.over = true;
            pending_.push(*at);
            at = at->holds_parent ? wait_as_child(*at) : nullptr;
        }
    }

    /// Whose use-hold is to be let go next, or null. To be asked after release(), give() and note_over(), and again
    /// as long as `more`.
    batch_record* next_unused(bool& more) noexcept {
        settle();
        more = false;
        while (batch_record* const b = unused_.pop()) {
            b->uses.listed = false;
            if (!b->uses.objects || is_going(*b)) {
                b->state.fetch_sub(batch_flags::used, std::memory_order_acq_rel);
                more = !unused_.empty();
                return b;
            }
            note_over(*b);  // it is used again, and has ended meanwhile
            settle();
        }
        return nullptr;
    }

    /// Calls f(batch) for each use of what keeps `b` waiting, by others than those that it waits with.
    template <class F>
    void for_users(batch_record& b, F f) const {
        batch_record const&      group = link_cut_tree::group_of(b);
        used_object const* const first = group.uses.objects;
        for (used_object const* o = first; o; o = o->next == first ? nullptr : o->next)
            for (use_edge const* e = o->uses; e; e = e->next)
                if (&link_cut_tree::group_of(*e->user) != &group) f(*e->user);
    }

    /// At the end of the registry, once all batches are forgotten.
    void forget_objects() noexcept {
        objects_.drain([&](pinned_object& o) { spare_objects_.give(o); });
    }

    /// All that was ever done, in edges looked at and steps in the forest.
    std::uint64_t steps() const noexcept { return steps_ + forest_.steps(); }

protected:
    /// Into the ring of its owner, which is held for it.
    void insert(used_object& o) noexcept {
        batch_record& owner = link_cut_tree::group_of(*o.owner);
        start_using(*o.owner);
        used_object*& ring = owner.uses.objects;
        o.next             = ring ? ring : &o;
        o.prev             = ring ? ring->prev : &o;
        o.next->prev = o.prev->next = &o;
        if (!ring) ring = &o;
    }
    static void unlink(used_object*& ring, used_object& o) noexcept {
        if (ring == &o) ring = o.next == &o ? nullptr : o.next;
        o.next->prev = o.prev;
        o.prev->next = o.next;
    }
    static void insert(use_edge& e, used_object& o) noexcept {
        e.object = &o;
        e.prev   = nullptr;
        e.next   = o.uses;
        if (e.next) e.next->prev = &e;
        o.uses = &e;
    }

    void erase(pinned_object& o) noexcept {
        unlink(link_cut_tree::group_of(*o.owner).uses.objects, o);
        objects_.erase(o);
        if (objects_.size() == 0) any_.store(false, std::memory_order_release);
        spare_objects_.give(o);
    }

    /// Nobody waits for this use any more.
    void detach(use_edge& e) noexcept {
        used_object& o = *std::exchange(e.object, nullptr);
        if (e.next) e.next->prev = e.prev;
        (e.prev ? e.prev->next : o.uses) = e.next;
        if (o.uses) return;
        if (&o == &o.owner->uses.as_parent) unlink(link_cut_tree::group_of(*o.owner).uses.objects, o);
        else erase(static_cast<pinned_object&>(o));
    }

    void remove(use_edge& e) noexcept {
        batch_record& owner = *e.object->owner;
        lose_witness(e);
        detach(e);
        drop(owner);
    }

    /// If the edge is why its owner is still there, that has to look for another reason.
    void lose_witness(use_edge const& e) noexcept {
        batch_record& owner = link_cut_tree::group_of(*e.object->owner);
        if (owner.uses.witness != &e) return;
        owner.uses.witness = nullptr;
        forest_.cut(owner);
        pending_.push(owner);
    }

    /// If nothing of it is used any more. One that is over stays until it is settled.
    void drop(batch_record& b) noexcept {
        if (!b.uses.over && !b.uses.objects) stop_using(b);
    }

private:
    static void start_using(batch_record& b) noexcept {
        if (b.state.load(std::memory_order_relaxed) & batch_flags::used) return;
        b.books.touch();
        b.state.fetch_add(batch_flags::used + 1, std::memory_order_acq_rel);
    }

    /// Where letting go means more than to count, it is put off.
    void stop_using(batch_record& b) noexcept {
        constexpr std::uint64_t special = batch_flags::ended | batch_flags::retained;
        std::uint64_t           s       = b.state.load(std::memory_order_relaxed);
        while (!(s & special) && b.residency == tenure::residency::memory && !b.uses.listed)
            if (b.state.compare_exchange_weak(s, s - batch_flags::used - 1, std::memory_order_acq_rel)) return;
        if (std::exchange(b.uses.listed, true)) return;
        unused_.push(b);
    }

    static bool is_over(batch_record const& b) noexcept {
        constexpr std::uint64_t both = batch_flags::ended | batch_flags::used;
        std::uint64_t const     s    = b.state.load(std::memory_order_acquire);
        use_node const&         n    = b.uses;
        return (s & both) == both && (s & batch_flags::holds) == 1 && !n.over && !n.listed && !is_going(b);
    }
    static bool is_going(batch_record const& b) noexcept {
        return b.uses.going.load(std::memory_order_relaxed) == b.id.load(std::memory_order_relaxed);
    }

    /// Its hold of the parent becomes an edge. Returns the parent.
    batch_record* wait_as_child(batch_record& b) noexcept {
        batch_record* const up = b.parent.load(std::memory_order_relaxed);
        b.holds_parent         = false;
        b.uses.to_parent.user  = &b;
        used_object& o         = up->uses.as_parent;
        o.owner                = up;
        if (!o.uses) insert(o);
        insert(b.uses.to_parent, o);
        up->state.fetch_sub(1, std::memory_order_acq_rel);
        return up;
    }
    void rejoin_parent(batch_record& b) noexcept {
        if (!std::exchange(b.uses.to_parent.user, nullptr)) return;
        b.parent.load(std::memory_order_relaxed)->state.fetch_add(1, std::memory_order_acq_rel);
        b.holds_parent = true;
        if (b.uses.to_parent.object) remove(b.uses.to_parent);
    }

    void settle() noexcept {
        while (batch_record* const b = pending_.pop())
            if (!find_witness(*b)) dissolve(*b);
    }

    /// A user outside of its own tree; what it finds to be below it becomes one with it.
    bool find_witness(batch_record& b) noexcept {
        while (used_object* const o = b.uses.objects) {
            use_edge& e = *o->uses;
            ++steps_;
            batch_record& user = link_cut_tree::group_of(*e.user);
            if (&user != &b) {
                if (&forest_.root_of(user) != &b) {
                    forest_.link(b, user);
                    b.uses.witness = &e;
                    return true;
                }
                forest_.contract(b, user, [&](batch_record& m) { merge(b, m); });
            }
            detach(e);
        }
        return false;
    }

    static void merge(batch_record& b, batch_record& m) noexcept {
        m.uses.witness = nullptr;
        if (used_object* const more = std::exchange(m.uses.objects, nullptr)) {
            if (used_object* const ring = b.uses.objects) {
                std::swap(ring->prev->next, more->prev->next);
                std::swap(ring->prev, more->prev);
            } else {
                b.uses.objects = more;
            }
        }
        for (batch_record* const x : {&b, &m})
            if (!x->uses.members) x->uses.members = x;
        std::swap(b.uses.members, m.uses.members);
    }

    template <class F>
    static void for_members(batch_record& b, F f) {
        batch_record* m = &b;
        do {
            batch_record* const next = m->uses.members;
            f(*m);
            m = next;
        } while (m && m != &b);
    }

    /// Calls f(batch) for each that has the pin as its witness.
    template <class F>
    static void for_kept(batch_record& b, F f) {
        for (pin_record* p = b.uses.pins; p; p = p->next_of_user) {
            if (!p->object) continue;
            batch_record& owner = link_cut_tree::group_of(*p->object->owner);
            if (owner.uses.witness == p) f(owner);
        }
    }

    /// Nothing active reaches the group any more: each of it goes by itself, children before parents. Until its
    /// memory is gone, what it uses stays; of that, what hung below the group is a root for the moment.
    void dissolve(batch_record& b) noexcept {
        bool const many = b.uses.members;
        for_members(b, [&](batch_record& m) {
            rejoin_parent(m);
            if (many) for_kept(m, [&](batch_record& owner) { forest_.cut(owner); });
        });
        for_members(b, [&](batch_record& m) {
            m.uses.group   = nullptr;
            m.uses.members = nullptr;
            m.uses.over    = false;
            m.uses.going.store(m.id.load(std::memory_order_relaxed), std::memory_order_relaxed);
            m.uses.listed = true;
            unused_.push(m);
        });
    }

    std::atomic<bool>         any_{false};
    hash_index<pinned_object> objects_;
    stock<pinned_object>      spare_objects_;
    link_cut_tree             forest_;
    batch_queue               pending_;  ///< over and without a witness
    batch_queue               unused_;   ///< with a use-hold to be let go, unless they are used again
    std::uint64_t             steps_ = 0;
};

}  // namespace tenure::detail
