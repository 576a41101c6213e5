// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tenure/tenure.hpp>

#include "kinds.hpp"

/// What batches and objects are, said as plainly as can be: sets, a tree, and no memory. One thread.
namespace model {

using tenure::batch_status;
using tenure::errc;

struct batch;

struct object {
    std::uint64_t serial  = 0;
    any_handle    handle  = {};
    batch*        owner   = nullptr;  ///< null: ended
    std::uint64_t arrival = 0;        ///< at its owner; a later one is greater
    std::uint64_t list    = 0;  ///< lane it was made through, 0 the batch's own: ends are newest first in each
    std::size_t   place   = 0;  ///< in owner->objects
    bool          has_end = false;
    bool          bound   = false;  ///< cannot leave its batch
    bool          adopted = false;
    bool          called  = false;  ///< a deferred call
    bool          ended   = false;  ///< its destructor has run
    int           phase   = 1;      ///< of a deferred call: 0 is before, 1 in order, as all objects, 2 after
    std::size_t   store   = 0;      ///< of a buffer, among kinds::stores; 0: the registry's
};

struct batch {
    tenure::batch_id     id;
    batch*               parent = nullptr;
    std::string          name;
    std::uint64_t        order     = 0;  ///< of opening
    batch_status         status    = batch_status::active;
    bool                 manual    = false;
    bool                 guarded   = false;
    bool                 detached  = false;
    bool                 has_lanes = false;  ///< or had some
    bool                 limited   = false;  ///< it or one above it has limits
    bool                 limits    = false;  ///< it has
    std::size_t          store     = 0;      ///< of its buffers, unless they name one
    std::uint32_t        inside    = 0;      ///< lanes, guards of enter(), and threads that have it current
    std::vector<batch*>  children{};         ///< not done; oldest first
    std::vector<object*> objects{};
    std::vector<object*> kept_out{};
    std::size_t          made = 0, received = 0, given = 0, freed = 0;

    bool is_active() const { return status == batch_status::active; }
    bool is_open() const { return status == batch_status::active || status == batch_status::retained; }
    bool is_held() const { return inside > 0 || !children.empty(); }
};

/// What one call ends: objects freed one by one, and batches with all that they own, newest first.
struct funeral {
    batch const*         of;  ///< null: one object, freed early
    bool                 guarded;
    std::vector<object*> objects;
};
using fate = std::vector<funeral>;

class world {
public:
    explicit world(tenure::batch_id root) {
        root_       = &batches_.emplace_back();
        root_->id   = root;
        root_->name = "root";
        by_id_.emplace(root.value, root_);
    }

    batch& root() { return *root_; }
    batch* find(tenure::batch_id id) const {
        auto const found = by_id_.find(id.value);
        return found == by_id_.end() ? nullptr : found->second;
    }
    std::vector<batch*> const& living() const { return living_; }  ///< not done; without the root

    batch& open(tenure::batch_id id, batch& parent) {
        batch& b  = batches_.emplace_back();
        b.id      = id;
        b.parent  = &parent;
        b.order   = batches_.size();
        b.limited = parent.limited;
        b.store   = parent.store;
        parent.children.push_back(&b);
        living_.push_back(&b);
        by_id_.emplace(id.value, &b);
        return b;
    }

    object& add(std::uint64_t serial, batch& owner, std::uint64_t list) {
        object& o = objects_.emplace_back();
        o.serial  = serial;
        o.list    = list;
        ++owner.made;
        arrive(o, owner);
        return o;
    }

    object&       with_serial(std::uint64_t serial) { return objects_[serial]; }
    std::uint64_t next_serial() const { return objects_.size(); }

    // ---- what calls do, once they may ----

    void give(object& o, batch& to) {
        ++o.owner->given;
        ++to.received;
        leave(o);
        arrive(o, to);
        // What was made through a lane is another thread's for all that anybody knows, and ends at no certain time.
        // So does what comes to a batch that has lanes, for one of these may have filled the unit where it lives.
        if (o.list != 0 || to.has_lanes) o.list = ~o.arrival;
    }

    void free(object& o, fate& f) {
        ++o.owner->freed;
        leave(o);
        o.owner = nullptr;
        f.push_back({nullptr, false, {&o}});
    }

    void end(batch& b, bool destroy, fate& f) {
        if (!b.is_open() || (b.status == batch_status::retained && !destroy)) return;
        end_children(b, f);
        if (b.manual && !destroy) return retain(b, f);
        b.status = batch_status::ending;
        settle(b, f);
    }

    void clear(batch& b, fate& f) {
        for (object* o : b.objects) o->owner = nullptr;
        std::ranges::sort(b.objects, std::greater{}, &object::arrival);
        f.push_back({&b, b.guarded, std::exchange(b.objects, {})});
        b.kept_out.clear();
        b.made = b.received = b.given = b.freed = 0;
    }

    void give_all(batch& from, batch& to) {
        auto all = from.objects;
        std::ranges::sort(all, std::less{}, &object::arrival);
        for (object* o : all) give(*o, to);
    }

    /// All but `staying`, which is the batch's and comes back to it, in this order.
    std::vector<object*> all_but(batch& b, std::vector<object*> const& staying) {
        std::vector<object*> rest;
        for (object* o : b.objects)
            if (std::ranges::find(staying, o) == staying.end()) rest.push_back(o);
        for (object* o : staying) {
            leave(*o);
            arrive(*o, b);
            if (o->list != 0 || b.has_lanes) o->list = ~o->arrival;
        }
        std::ranges::sort(rest, std::less{}, &object::arrival);
        return rest;
    }

    void keep_all_but(batch& b, std::vector<object*> const& staying) {
        for (object* o : all_but(b, staying)) give(*o, *b.parent);
    }

    /// The rest ends in a batch that nobody knows.
    void clear_but(batch& b, std::vector<object*> const& staying, fate& f) {
        auto rest = all_but(b, staying);
        std::ranges::reverse(rest);
        for (object* o : rest) {
            leave(*o);
            o->owner = nullptr;
        }
        f.push_back({nullptr, false, std::move(rest)});
        b.kept_out.clear();
        b.made = b.given = b.freed = 0;
        b.received                 = staying.size();
    }

    void release_hold(batch& b, fate& f) {
        --b.inside;
        settle(b, f);
    }

    void discard(batch& b, fate& f) {
        for (; !b.kept_out.empty(); b.kept_out.pop_back()) {
            object& o = *b.kept_out.back();
            if (o.owner && o.owner->status != batch_status::ending) free(o, f);
        }
    }

    // ---- what calls say ----

    /// keep() out of `from`; errc{} where it does all that was asked.
    static errc keep_outcome(batch const& from, std::vector<object*> const& list) {
        if (!from.is_active()) return errc::batch_ended;
        if (!from.parent) return errc::not_owner;
        if (!from.parent->is_active()) return errc::batch_ended;
        return named_outcome(from, list);
    }
    static errc named_outcome(batch const& from, std::vector<object*> const& list) {
        for (object const* o : list) {
            if (!o->owner) return errc::stale_handle;
            if (o->owner != &from && !is_or_above(o->owner, from.parent)) return errc::not_owner;
        }
        return {};
    }

    static errc transfer_outcome(object const& o, batch const& to) {
        if (!to.is_active()) return errc::batch_ended;
        if (!o.owner) return errc::stale_handle;
        if (o.owner != &to && o.owner->status == batch_status::ending) return errc::batch_ended;
        return {};
    }

    errc clear_outcome(batch const& b) const {
        if (&b == root_) return errc::not_owner;
        if (!b.is_active()) return errc::batch_ended;
        return b.children.empty() ? errc{} : errc::batch_in_use;
    }

    errc give_all_outcome(batch const& from, batch const& to) const {
        if (&from == root_) return errc::not_owner;
        if (!to.is_active()) return errc::batch_ended;
        return &from == &to ? errc{} : clear_outcome(from);
    }

    static errc take_back_outcome(object const& o) {
        errc const free = free_outcome(o);
        return free == errc{} && !o.adopted && !o.called ? errc::not_adopted : free;
    }

    static errc free_outcome(object const& o) {
        if (!o.owner) return errc::stale_handle;
        return o.owner->status == batch_status::ending ? errc::batch_ended : errc{};
    }

    static bool is_or_above(batch const* upper, batch const* b) {
        while (b && b != upper) b = b->parent;
        return b != nullptr;
    }

private:
    void arrive(object& o, batch& owner) {
        o.owner   = &owner;
        o.arrival = ++arrivals_;
        o.place   = owner.objects.size();
        owner.objects.push_back(&o);
    }

    static void leave(object& o) {
        auto& all           = o.owner->objects;
        all[o.place]        = all.back();
        all[o.place]->place = o.place;
        all.pop_back();
    }

    /// Detached ones go on, with all below them.
    void end_children(batch& b, fate& f) {
        auto const children = b.children;
        for (auto c = children.rbegin(); c != children.rend(); ++c)
            if ((*c)->is_active() && !(*c)->detached) end(**c, false, f);
    }

    void retain(batch& b, fate& f) {
        b.status = batch_status::retained;
        settle(b, f);
    }

    /// Frees what is over and not held, and what waited for it. A retained batch that nothing holds is nobody's
    /// child any more.
    void settle(batch& first, fate& f) {
        for (batch* b = &first; !b->is_held();) {
            batch* const up = b->parent;
            if (b->status == batch_status::ending) {
                b->status = batch_status::done;
                for (object* o : b->objects) o->owner = nullptr;
                std::ranges::sort(b->objects, std::greater{}, &object::arrival);
                f.push_back({b, b->guarded, std::exchange(b->objects, {})});
                std::erase(up->children, b);
                std::erase(living_, b);
            } else if (b->status == batch_status::retained && up != root_) {
                std::erase(up->children, b);
                b->parent  = root_;
                b->limited = false;
                root_->children.push_back(b);
            } else {
                return;
            }
            b = up;
        }
    }

    batch*                                    root_;
    std::deque<batch>                         batches_;
    std::vector<batch*>                       living_;
    std::unordered_map<std::uint64_t, batch*> by_id_;
    std::deque<object>                        objects_;
    std::uint64_t                             arrivals_ = 0;
};

}  // namespace model
