// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <mutex>
#include <new>

#include <tenure/detail/objects/tracking.hpp>

namespace tenure::detail {

/// Units with several owners, and what becomes of one when an owner goes. Protected by the unit's lock.

inline void enqueue(place p, lane* l) noexcept {
    std::scoped_lock const guard(l->batch->lock);
    unit_rest&             u = p.rest();
    if (u.queue.load(std::memory_order_relaxed)) return;
    unit_rest* const first = l->queue.load(std::memory_order_relaxed);
    u.prev_hole            = nullptr;
    u.next_hole            = first;
    if (first) first->prev_hole = &u;
    l->queue.store(&u, std::memory_order_relaxed);
    u.queue.store(l, std::memory_order_relaxed);
}

inline void dequeue(place p) noexcept {
    unit_rest&  u = p.rest();
    lane* const l = u.queue.load(std::memory_order_relaxed);
    if (!l) return;
    std::scoped_lock const guard(l->batch->lock);
    if (u.queue.load(std::memory_order_relaxed) != l) return;
    if (u.next_hole) u.next_hole->prev_hole = u.prev_hole;
    if (u.prev_hole) u.prev_hole->next_hole = u.next_hole;
    else l->queue.store(u.next_hole, std::memory_order_relaxed);
    u.queue.store(nullptr, std::memory_order_relaxed);
}

/// Returns the only batch that owns anything in the unit, or null.
inline batch_record* sole_owner(place p) noexcept {
    batch_record* only = p.head()->home.load(std::memory_order_relaxed);
    for (share const* s = p.rest().shares.load(std::memory_order_relaxed); s; s = s->next_here) {
        if (s->granules == 0) continue;
        if (only) return nullptr;
        only = s->owner;
    }
    return only;
}

/// Returns the lane whose list has the entries of objects that `owner`, the sole owner, makes here. Only that lane
/// may fill holes.
inline lane* filler(unit const* u, batch_record* owner) noexcept {
    unit const* const head = u->head.load(std::memory_order_relaxed);
    return head->home.load(std::memory_order_relaxed) == owner ? head->maker.load(std::memory_order_relaxed)
                                                               : &owner->primary;
}

inline bool all_dead(tracking const& t) noexcept {
    for (auto const& word : t.dead)
        if (word.load(std::memory_order_relaxed) != ~std::uint32_t{0}) return false;
    return true;
}

inline constexpr std::uint16_t last_pass = 255;  ///< of a generation; the next one needs a unit that is all dead

inline void offer_holes(place p) noexcept {
    if (p.rest().filling || (p.rest().passes >= last_pass && !all_dead(p.track()))) return;
    batch_record* const owner = sole_owner(p);
    if (!owner || p.where->from != owner->slabs) return;  // new objects of the owner belong in its own store
    enqueue(p, filler(p.u, owner));
}

inline void count_for(place p, batch_record* b) noexcept {
    if (p.rest().counted_by == b) return;
    if (p.rest().counted_by) p.rest().counted_by->rest.books.shared_units.fetch_sub(1, std::memory_order_relaxed);
    if (b) b->rest.books.shared_units.fetch_add(1, std::memory_order_relaxed);
    p.rest().counted_by = b;
}

/// Returns the owner's share of the unit, new if need be; null if memory is full.
inline share* share_for(place p, batch_record* owner) noexcept {
    begin_tracking(p);
    if (share* const s = find_share(p, owner)) return s;
    tracking&  t        = p.track();
    share*     s        = !t.own[0].where ? &t.own[0] : !t.own[1].where ? &t.own[1] : nullptr;
    bool const embedded = s != nullptr;
    if (!s) s = new (std::nothrow) share;
    if (!s) return nullptr;
    dequeue(p);  // the unit has one more owner
    s->owner    = owner;
    s->where    = p.u;
    s->base     = p.base;
    s->embedded = embedded;
    s->granules = 0;
    for (auto& word : s->objects) word.store(0, std::memory_order_relaxed);
    s->next_here = p.rest().shares.load(std::memory_order_relaxed);
    p.rest().shares.store(s, std::memory_order_release);
    std::scoped_lock const guard(owner->lock);
    owner->touch();
    s->prev_owned = nullptr;
    s->next_owned = owner->shares;
    if (s->next_owned) s->next_owned->prev_owned = s;
    owner->shares = s;
    return s;
}

/// Gives the share the granules of [begin, end), none of which it had before.
inline void set(share& s, std::uintptr_t begin, std::uintptr_t end) noexcept {
    set(s.objects, begin, end);
    s.granules += static_cast<std::uint32_t>((end - begin) >> granule_shift);
}

/// Takes the granules of [begin, end) from the share, which had all of them.
inline void clear(share& s, std::uintptr_t begin, std::uintptr_t end) noexcept {
    clear(s.objects, begin, end);
    s.granules -= static_cast<std::uint32_t>((end - begin) >> granule_shift);
}

inline void drop_share(place p, share* s) noexcept {
    {
        std::scoped_lock const guard(s->owner->lock);
        if (s->next_owned) s->next_owned->prev_owned = s->prev_owned;
        (s->prev_owned ? s->prev_owned->next_owned : s->owner->shares) = s->next_owned;
    }
    share* before = p.rest().shares.load(std::memory_order_relaxed);
    if (before == s) p.rest().shares.store(s->next_here, std::memory_order_relaxed);
    else {
        while (before->next_here != s) before = before->next_here;
        before->next_here = s->next_here;
    }
    if (p.rest().counted_by == s->owner) {
        share* const other = p.rest().shares.load(std::memory_order_relaxed);
        count_for(p, other ? other->owner : nullptr);
    }
    s->where = nullptr;
    if (!s->embedded) delete s;
}

/// Retires a unit in which nothing lives: drops its shares, makes it a free run of its own, and returns its next
/// generation. The caller passes it to give_part() once the lock is released. While its batch lives, a share
/// without objects is not dropped earlier: it may be reserved for an object in transfer.
inline word_t retire_unit(place p) noexcept {
    word_t const fresh = generation_of(p.word().load(std::memory_order_relaxed)) + p.rest().passes + 1;
    p.word().store(whole_word(fresh), std::memory_order_release);  // before tracked, shares: see alive_in_unit()
    while (share* const s = p.rest().shares.load(std::memory_order_relaxed)) drop_share(p, s);
    dequeue(p);
    count_for(p, nullptr);
    p.u->tracked.store(false, std::memory_order_release);
    p.u->address = p.base;
    p.u->length  = 1;
    p.u->head.store(p.u, std::memory_order_relaxed);
    p.u->home.store(nullptr, std::memory_order_relaxed);
    p.u->guarded.store(0, std::memory_order_relaxed);
    return fresh;
}

inline void poison_dead(std::uintptr_t line, std::uint32_t dead) noexcept {
    if (!memory_is_checked()) return;
    for (; dead; dead &= dead - 1)
        run_given_back(to_pointer(line + (static_cast<std::size_t>(std::countr_zero(dead)) << granule_shift)), 8);
}

/// Takes a unit from its home, which is gone. Returns true if no share has objects: it is then retired, with
/// `fresh` as next generation. Else it is a run of its own now.
inline bool orphan(place p, word_t& fresh) noexcept {
    tracking&     t     = p.track();
    share* const  first = p.rest().shares.load(std::memory_order_relaxed);
    std::uint32_t live  = 0;
    for (share const* s = first; s; s = s->next_here) live += s->granules;
    if (live == 0) {
        fresh = retire_unit(p);
        return true;
    }
    dequeue(p);
    guard_word(p);
    for (std::size_t i = 0; i < lines_a_unit; ++i) {
        std::uint32_t mine = 0;
        for (share const* s = first; s; s = s->next_here) mine |= s->objects[i].load(std::memory_order_relaxed);
        t.dead[i].store(~mine, std::memory_order_release);
        poison_dead(p.base + (i * granules_a_line << granule_shift), ~mine);
    }
    p.rest().live    = live;
    p.rest().filling = nullptr;  // it was one of the home's lanes
    p.u->address     = p.base;
    p.u->length      = 1;
    p.u->home.store(nullptr, std::memory_order_relaxed);
    p.u->head.store(p.u, std::memory_order_release);
    p.u->guarded.store(1, std::memory_order_relaxed);
    count_for(p, first->owner);
    offer_holes(p);
    return false;
}

/// Marks granules as dead, and takes them from `s`. Returns true if they were the last: the unit is then retired,
/// with `fresh` as next generation.
inline bool mark_dead(place p, share* s, std::uintptr_t begin, std::uintptr_t end, word_t& fresh) noexcept {
    auto const granules = static_cast<std::uint32_t>((end - begin) >> granule_shift);
    guard_word(p);
    set(p.track().dead, begin, end);
    if (s && test(s->objects, begin)) clear(*s, begin, end);
    p.rest().deaths += granules;
    if (!p.head()->home.load(std::memory_order_relaxed)) {
        p.rest().live -= granules;
        if (p.rest().live == 0 && !p.rest().filling) {
            fresh = retire_unit(p);
            return true;
        }
    }
    if (p.rest().deaths >= unit_bytes >> (granule_shift + 3)) offer_holes(p);
    return false;
}

/// Units that were found empty under a lock, to be given back once it is released.
class retired_units {
public:
    void add(unit* u, word_t fresh) noexcept {
        units_[count_]   = u;
        fresh_[count_++] = fresh;
    }
    void give() noexcept {
        while (count_ > 0) {
            --count_;
            give_part(units_[count_], 1, fresh_[count_]);
        }
    }

private:
    unit*       units_[2];
    word_t      fresh_[2];
    std::size_t count_ = 0;
};

/// Marks granules of `owner` as dead, in one unit or two whose locks the caller has. Adds units retired by that to
/// `empty`.
inline void mark_range_dead(batch_record& owner, std::uintptr_t from, std::uintptr_t to,
                            retired_units& empty) noexcept {
    run_given_back(to_pointer(from), to - from);
    for_units(from, to, [&](place p, std::uintptr_t begin, std::uintptr_t end) {
        word_t fresh = 0;
        begin_tracking(p);
        if (mark_dead(p, find_share(p, &owner), begin, end, fresh)) empty.add(p.u, fresh);
    });
}

/// Closes a share whose batch is over. Returns true if it was the last with objects: the unit is then retired,
/// with `fresh` as next generation.
inline bool close_share(place p, share* s, word_t& fresh) noexcept {
    bool const  homeless = !p.head()->home.load(std::memory_order_relaxed);
    lane* const filler   = p.rest().filling;
    if (filler && filler->batch == s->owner) p.rest().filling = nullptr;
    if (homeless) p.rest().live -= s->granules;
    if (homeless && p.rest().live == 0 && !p.rest().filling) {
        fresh = retire_unit(p);
        return true;
    }
    guard_word(p);
    tracking& t = p.track();
    for (std::size_t i = 0; i < lines_a_unit; ++i) {
        std::uint32_t const mine = s->objects[i].load(std::memory_order_relaxed);
        if (!mine) continue;
        poison_dead(p.base + (i * granules_a_line << granule_shift), mine);
        t.dead[i].store(t.dead[i].load(std::memory_order_relaxed) | mine, std::memory_order_release);
    }
    p.rest().deaths += s->granules;
    dequeue(p);
    drop_share(p, s);
    offer_holes(p);
    return false;
}

/// Returns whether the batch retains the unit, and no other owns anything in it.
inline bool is_all_of(batch_record const& b, place p) noexcept {
    std::scoped_lock const    guard(p.u->lock);
    batch_record const* const home = p.head()->home.load(std::memory_order_relaxed);
    bool                      any  = home == &b;
    if (home ? !any : p.rest().counted_by != &b) return false;  // another batch retains it, so it does not go out
    if (!p.u->tracked.load(std::memory_order_relaxed)) return any;
    for (share const* s = p.rest().shares.load(std::memory_order_relaxed); s; s = s->next_here) {
        if (s->granules > 0 && s->owner != &b) return false;
        any = any || s->granules > 0;
    }
    return any;
}

}  // namespace tenure::detail
