// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include <tenure/detail/base/hash_index.hpp>
#include <tenure/detail/uses/batch_queue.hpp>
#include <tenure/detail/uses/link_cut_tree.hpp>
#include <tenure/detail/uses/node_pool.hpp>
#include <tenure/detail/uses/use_records.hpp>

namespace tenure::detail {

/// Which batch waits for which, in one registry: an edge for each pin or borrow, and one for each batch that is
/// over but still used, to the parent, which waits for it.
///
/// A batch of which anything is used has the flag `used` and one hold for all uses. Once nothing else keeps a
/// batch that has ended, it is `over`: it stays while something active reaches it along edges. A batch's own edges
/// never change while it is over, so a ring of such batches lasts until all of it goes: it becomes one group,
/// which goes when no edge from outside is left. Every edge is examined twice at most: when it becomes a witness,
/// and when it turns out to be inside a group. So all ends together cost as much as the edges there ever were,
/// times the logarithm of link_cut_tree.
///
/// All calls but any() are made under `mutex`, which is taken before the locks of units and batches. A batch whose
/// hold is to be released waits in a queue until a thread that has released the mutex does that. Only add()
/// allocates.
class waiting_graph {
public:
    std::mutex mutex;

    /// Returns whether any object is pinned. Needs no mutex.
    bool any() const noexcept { return any_.load(std::memory_order_acquire); }

    pinned_object* find(std::uintptr_t address) const noexcept { return objects_.first(address); }

    /// Keeps the batch with that id from now on, because something of it will be used: call add() next. Returns
    /// false if it is too late, or if a thread takes or ends a checkpoint of it, when nothing of it may be used.
    static bool hold(batch_record& b, std::uint64_t id) noexcept {
        std::uint64_t s = b.state.load(std::memory_order_acquire);
        do {
            bool const idle = s & batch_flags::ended && !(s & batch_flags::holds);
            if (!same_batch(s, id) || s & (batch_flags::done | batch_flags::undoing) || idle ||
                b.rest.uses.going.load(std::memory_order_relaxed) == id)
                return false;
            if (s & batch_flags::used) return true;
        } while (!b.state.compare_exchange_weak(s, s + batch_flags::used + 1, std::memory_order_acq_rel));
        b.touch();
        return true;
    }

    /// Notes that the object at that address is used from now on. Its owner was kept by hold(). Returns null if
    /// memory is full.
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

    /// Undoes add(), unless the object is used.
    void remove(pinned_object& o) noexcept {
        batch_record& owner = *o.owner;
        if (o.uses) return;
        erase(o);
        drop(owner);
    }

    /// Makes `to` the owner of a used object. Neither `to` nor the owner before may be over.
    void give(pinned_object& o, batch_record& to) noexcept {
        batch_record& from = *o.owner;
        unlink(from.rest.uses.objects, o);
        o.owner = &to;
        insert(o);
        if (!from.rest.uses.objects) stop_using(from);
    }

    /// Notes that only uses keep the batch, and then those above it; stops at the first that something else keeps.
    void note_over(batch_record& b) noexcept {
        for (batch_record* at = &b; at && is_over(*at);) {
            at->rest.uses.over = true;
            pending_.push(*at);
            at = at->holds_parent ? wait_as_child(*at) : nullptr;
        }
    }

    /// Returns the next batch whose hold for uses is to be released, or null. To be called after release(), give()
    /// and note_over(), and again as long as `more`.
    batch_record* next_unused(bool& more) noexcept {
        settle();
        more = false;
        while (batch_record* const b = unused_.pop()) {
            b->rest.uses.listed = false;
            if (!b->rest.uses.objects || is_going(*b)) {
                b->state.fetch_sub(batch_flags::used, std::memory_order_acq_rel);
                more = !unused_.empty();
                return b;
            }
            note_over(*b);  // the batch is used again, and has ended meanwhile
            settle();
        }
        return nullptr;
    }

    /// Calls f(user) for each use that keeps `b` waiting, except by its own group.
    template <class F>
    void for_users(batch_record& b, F f) const {
        batch_record const&      group = link_cut_tree::group_of(b);
        used_object const* const first = group.rest.uses.objects;
        for (used_object const* o = first; o; o = o->next == first ? nullptr : o->next)
            for (use_edge const* e = o->uses; e; e = e->next)
                if (&link_cut_tree::group_of(*e->user) != &group) f(*e->user);
    }

    /// Forgets all used objects, at the end of the registry, once all batches are forgotten.
    void forget_objects() noexcept {
        objects_.drain([&](pinned_object& o) { spare_objects_.give(o); });
    }

    /// Returns the work done so far, in edges examined and steps in the forest.
    std::uint64_t steps() const noexcept { return steps_ + forest_.steps(); }

protected:
    /// Puts a used object into the ring of its owner's group, and holds the owner.
    void insert(used_object& o) noexcept {
        batch_record& owner = link_cut_tree::group_of(*o.owner);
        start_using(*o.owner);
        used_object*& ring = owner.rest.uses.objects;
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
        unlink(link_cut_tree::group_of(*o.owner).rest.uses.objects, o);
        objects_.erase(o);
        if (objects_.size() == 0) any_.store(false, std::memory_order_release);
        spare_objects_.give(o);
    }

    /// Removes an edge from its object: no batch waits for this use any more.
    void detach(use_edge& e) noexcept {
        used_object& o = *std::exchange(e.object, nullptr);
        if (e.next) e.next->prev = e.prev;
        (e.prev ? e.prev->next : o.uses) = e.next;
        if (o.uses) return;
        if (&o == &o.owner->rest.uses.as_parent) unlink(link_cut_tree::group_of(*o.owner).rest.uses.objects, o);
        else erase(static_cast<pinned_object&>(o));
    }

    void remove(use_edge& e) noexcept {
        batch_record& owner = *e.object->owner;
        lose_witness(e);
        detach(e);
        drop(owner);
    }

    /// Takes the owner's witness away if it is this edge: the owner has to look for another.
    void lose_witness(use_edge const& e) noexcept {
        batch_record& owner = link_cut_tree::group_of(*e.object->owner);
        if (owner.rest.uses.witness != &e) return;
        owner.rest.uses.witness = nullptr;
        forest_.cut(owner);
        pending_.push(owner);
    }

    /// Releases the hold for uses if nothing is used any more. A batch that is over waits until it is settled.
    void drop(batch_record& b) noexcept {
        if (!b.rest.uses.over && !b.rest.uses.objects) stop_using(b);
    }

private:
    static void start_using(batch_record& b) noexcept {
        if (b.state.load(std::memory_order_relaxed) & batch_flags::used) return;
        b.touch();
        b.state.fetch_add(batch_flags::used + 1, std::memory_order_acq_rel);
    }

    /// Releases the batch's hold for uses. If that takes more than a decrement, leaves it to next_unused().
    void stop_using(batch_record& b) noexcept {
        constexpr std::uint64_t special = batch_flags::ended | batch_flags::retained;
        std::uint64_t           s       = b.state.load(std::memory_order_relaxed);
        while (!(s & special) && b.residency == tenure::residency::memory && !b.rest.uses.listed)
            if (b.state.compare_exchange_weak(s, s - batch_flags::used - 1, std::memory_order_acq_rel)) return;
        if (std::exchange(b.rest.uses.listed, true)) return;
        unused_.push(b);
    }

    static bool is_over(batch_record const& b) noexcept {
        constexpr std::uint64_t both = batch_flags::ended | batch_flags::used;
        std::uint64_t const     s    = b.state.load(std::memory_order_acquire);
        use_node const&         n    = b.rest.uses;
        return (s & both) == both && (s & batch_flags::holds) == 1 && !n.over && !n.listed && !is_going(b);
    }
    static bool is_going(batch_record const& b) noexcept {
        return b.rest.uses.going.load(std::memory_order_relaxed) == b.id.load(std::memory_order_relaxed);
    }

    /// Turns the batch's hold on its parent into an edge. Returns the parent.
    batch_record* wait_as_child(batch_record& b) noexcept {
        batch_record* const up     = b.parent.load(std::memory_order_relaxed);
        b.holds_parent             = false;
        b.rest.uses.to_parent.user = &b;
        used_object& o             = up->rest.uses.as_parent;
        o.owner                    = up;
        if (!o.uses) insert(o);
        insert(b.rest.uses.to_parent, o);
        up->state.fetch_sub(1, std::memory_order_acq_rel);
        return up;
    }
    /// Turns the edge to the parent back into a hold.
    void rejoin_parent(batch_record& b) noexcept {
        if (!std::exchange(b.rest.uses.to_parent.user, nullptr)) return;
        b.parent.load(std::memory_order_relaxed)->state.fetch_add(1, std::memory_order_acq_rel);
        b.hold_its_parent();
        if (b.rest.uses.to_parent.object) remove(b.rest.uses.to_parent);
    }

    void settle() noexcept {
        while (batch_record* const b = pending_.pop())
            if (!find_witness(*b)) dissolve(*b);
    }

    /// Makes a user outside the batch's own tree its witness; users found below it become one group with it.
    /// Returns false if there is none.
    bool find_witness(batch_record& b) noexcept {
        while (used_object* const o = b.rest.uses.objects) {
            use_edge& e = *o->uses;
            ++steps_;
            batch_record& user = link_cut_tree::group_of(*e.user);
            if (&user != &b) {
                if (&forest_.root_of(user) != &b) {
                    forest_.link(b, user);
                    b.rest.uses.witness = &e;
                    return true;
                }
                forest_.contract(b, user, [&](batch_record& m) { merge(b, m); });
            }
            detach(e);
        }
        return false;
    }

    static void merge(batch_record& b, batch_record& m) noexcept {
        m.rest.uses.witness = nullptr;
        if (used_object* const more = std::exchange(m.rest.uses.objects, nullptr)) {
            if (used_object* const ring = b.rest.uses.objects) {
                std::swap(ring->prev->next, more->prev->next);
                std::swap(ring->prev, more->prev);
            } else {
                b.rest.uses.objects = more;
            }
        }
        for (batch_record* const x : {&b, &m})
            if (!x->rest.uses.members) x->rest.uses.members = x;
        std::swap(b.rest.uses.members, m.rest.uses.members);
    }

    template <class F>
    static void for_members(batch_record& b, F f) {
        batch_record* m = &b;
        do {
            batch_record* const next = m->rest.uses.members;
            f(*m);
            m = next;
        } while (m && m != &b);
    }

    /// Calls f(batch) for each batch that has a pin of `b` as its witness.
    template <class F>
    static void for_kept(batch_record& b, F f) {
        for (pin_record* p = b.rest.uses.pins; p; p = p->next_of_user) {
            if (!p->object) continue;
            batch_record& owner = link_cut_tree::group_of(*p->object->owner);
            if (owner.rest.uses.witness == p) f(owner);
        }
    }

    /// Dissolves a group that nothing active reaches any more: each member goes by itself, children before
    /// parents. What it uses stays until its memory is gone; batches that hung below the group are roots for the
    /// moment.
    void dissolve(batch_record& b) noexcept {
        bool const many = b.rest.uses.members;
        for_members(b, [&](batch_record& m) {
            rejoin_parent(m);
            if (many) for_kept(m, [&](batch_record& owner) { forest_.cut(owner); });
        });
        for_members(b, [&](batch_record& m) {
            m.rest.uses.group   = nullptr;
            m.rest.uses.members = nullptr;
            m.rest.uses.over    = false;
            m.rest.uses.going.store(m.id.load(std::memory_order_relaxed), std::memory_order_relaxed);
            m.rest.uses.listed = true;
            unused_.push(m);
        });
    }

    std::atomic<bool>         any_{false};
    hash_index<pinned_object> objects_;
    stock<pinned_object>      spare_objects_;
    link_cut_tree             forest_;
    batch_queue               pending_;  ///< batches that are over and have no witness
    batch_queue               unused_;   ///< batches to lose their hold for uses, unless they are used again
    std::uint64_t             steps_ = 0;
};

}  // namespace tenure::detail
