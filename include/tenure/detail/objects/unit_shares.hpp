// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>

#include <tenure/detail/objects/tracking.hpp>
#include <tenure/detail/unit/supply.hpp>

namespace tenure::detail {

/// Units with several owners, and what becomes of one when an owner goes. Protected by the unit's lock.
///
/// A unit without a home, in which little was kept, is recyclable: any batch of its store may take it as its own
/// memory, and make objects between those that were kept (recycle.hpp).

enum class list_end { first, last };

inline void enqueue(place p, hole_list& to, list_end where = list_end::first) noexcept {
    std::scoped_lock const guard(p.where->from->holes_lock);
    unit_rest&             u = p.rest();
    if (u.listed.load(std::memory_order_relaxed)) return;
    bool const in_front = where == list_end::first;
    u.prev_hole         = in_front ? nullptr : to.last;
    u.next_hole         = in_front ? to.first.load(std::memory_order_relaxed) : nullptr;
    (u.next_hole ? u.next_hole->prev_hole : to.last) = &u;
    if (u.prev_hole) u.prev_hole->next_hole = &u;
    else to.first.store(&u, std::memory_order_relaxed);
    u.listed.store(&to, std::memory_order_relaxed);
}

/// Takes a unit out of its list, if it is in one. Called under `holes_lock`.
inline void unlist(unit_rest& u) noexcept {
    hole_list* const from = u.listed.load(std::memory_order_relaxed);
    if (!from) return;
    (u.next_hole ? u.next_hole->prev_hole : from->last) = u.prev_hole;
    if (u.prev_hole) u.prev_hole->next_hole = u.next_hole;
    else from->first.store(u.next_hole, std::memory_order_relaxed);
    u.listed.store(nullptr, std::memory_order_relaxed);
}

inline void dequeue(place p) noexcept {
    if (!p.rest().listed.load(std::memory_order_relaxed)) return;
    std::scoped_lock const guard(p.where->from->holes_lock);
    unlist(p.rest());
}

/// Looks for words of the unit that are wholly free. More will be once its home goes, so it has to be looked at
/// again.
inline void find_room(place p) noexcept {
    tracking& t = p.track();
    t.changed   = 0xffff;
    for (std::size_t i = 0; i < words_a_unit; i += 64) {
        t.room[i / 64] = 0;
        for (std::size_t k = 0; k < 64; ++k)
            t.room[i / 64] |= std::uint64_t{dead_in(t, i + k) == ~std::uint32_t{0}} << k;
    }
}

inline constexpr std::size_t   least_room   = words_a_unit / 16;  ///< that is worth to come for
inline constexpr std::uint32_t least_deaths = unit_bytes >>
                                              (granule_shift + 3);  ///< that are worth a look for room

/// Returns whether the room that was found is worth that the unit changes hands.
inline bool is_roomy(place p) noexcept {
    int words = 0;
    for (std::uint64_t const w : p.track().room) words += std::popcount(w);
    return words >= static_cast<int>(least_room);
}

/// Finds the room of a unit without a home.
inline void look_again(place p) noexcept {
    find_room(p);
    p.track().changed = 0;
}

/// Lists a unit for its holes: for the lane whose memory it is, or for every batch of its store.
inline void offer_holes(place p) noexcept {
    unit_rest& u = p.rest();
    if (u.filling || u.listed.load(std::memory_order_relaxed)) return;
    unit const* const head = p.head();
    u.deaths               = 0;
    if (head->home.load(std::memory_order_relaxed)) {
        enqueue(p, head->maker.load(std::memory_order_relaxed)->queue);
    } else {
        look_again(p);
        if (is_roomy(p)) enqueue(p, p.where->from->recyclable);
    }
}

inline void count_for(place p, batch_record* b) noexcept {
    if (p.rest().counted_by == b) return;
    if (p.rest().counted_by) p.rest().counted_by->rest.books.shared_units.fetch_sub(1, std::memory_order_relaxed);
    if (b) b->rest.books.shared_units.fetch_add(1, std::memory_order_relaxed);
    p.rest().counted_by = b;
}

inline void link_share(share* s) noexcept {
    batch_record&          owner = *s->owner;
    std::scoped_lock const guard(owner.lock);
    owner.touch();
    s->prev_owned = nullptr;
    s->next_owned = owner.shares;
    if (s->next_owned) s->next_owned->prev_owned = s;
    owner.shares = s;
}

inline void unlink_share(share* s) noexcept {
    std::scoped_lock const guard(s->owner->lock);
    if (s->next_owned) s->next_owned->prev_owned = s->prev_owned;
    (s->prev_owned ? s->prev_owned->next_owned : s->owner->shares) = s->next_owned;
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
    s->owner    = owner;
    s->where    = p.u;
    s->base     = p.base;
    s->embedded = embedded;
    s->granules = 0;
    std::memset(s->objects, 0, sizeof s->objects);
    s->next_here = p.rest().shares.load(std::memory_order_relaxed);
    p.rest().shares.store(s, std::memory_order_release);
    link_share(s);
    return s;
}

/// Gives a share of the unit the granules of [begin, end), none of which it had before.
inline void set(place p, share& s, std::uintptr_t begin, std::uintptr_t end) noexcept {
    for_words(begin, end, [&](std::uint32_t i, std::uint32_t mask) {
        s.objects[i].store(s.objects[i].load(std::memory_order_relaxed) | mask, std::memory_order_release);
        note_change(p.track(), i);
    });
    s.granules += static_cast<std::uint32_t>((end - begin) >> granule_shift);
}

/// Takes the granules of [begin, end) from the share, which had all of them.
inline void clear(share& s, std::uintptr_t begin, std::uintptr_t end) noexcept {
    clear(s.objects, begin, end);
    s.granules -= static_cast<std::uint32_t>((end - begin) >> granule_shift);
}

inline void drop_share(place p, share* s) noexcept {
    unlink_share(s);
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

/// Leaves what a batch owns of a unit to the unit's home, which needs no share. Called under the unit's lock.
inline void leave_to_home(place p, share* s) noexcept {
    p.track().changed = 0xffff;
    drop_share(p, s);
}

/// Gives what a batch owns of a unit that is not its memory to another one. Called under the unit's lock.
inline void give_share(place p, share* s, batch_record& to) noexcept {
    if (p.head()->home.load(std::memory_order_relaxed) == &to) return leave_to_home(p, s);
    batch_record* const from = s->owner;
    share* const        has  = find_share(p, &to);
    if (has) {
        for (std::size_t i = 0; i < words_a_unit; ++i)
            if (std::uint32_t const more = s->objects[i].load(std::memory_order_relaxed))
                has->objects[i].store(has->objects[i].load(std::memory_order_relaxed) | more,
                                      std::memory_order_release);
        has->granules += s->granules;
    }
    if (has) return drop_share(p, s);
    unlink_share(s);
    s->owner = &to;
    link_share(s);
    if (p.rest().counted_by == from) count_for(p, &to);
}

/// Gives a batch's share of a unit all that lives there and is no other's: of its home, that is, and of `home`'s
/// own share. Called under the unit's lock, with a share of `home`'s successor; the home is about to leave the
/// unit.
inline void take_over(place p, share* s, batch_record const& home) noexcept {
    tracking& t = p.track();
    s->granules = 0;
    for (std::size_t i = 0; i < words_a_unit; ++i) {
        std::uint32_t mine = ~dead_in(t, i);
        for (share const* o = p.rest().shares.load(std::memory_order_relaxed); o; o = o->next_here)
            if (o != s && o->owner != &home) mine &= ~o->objects[i].load(std::memory_order_relaxed);
        s->objects[i].store(mine, std::memory_order_release);
        s->granules += static_cast<std::uint32_t>(std::popcount(mine));
    }
    t.changed = 0xffff;
    if (share* const own = find_share(p, &home)) drop_share(p, own);
}

/// Retires a unit in which nothing lives: drops its shares, makes it a free run of its own, and returns its next
/// generation. The caller passes it to give_part() once the lock is released. While its batch lives, a share
/// without objects is not dropped earlier: it may be reserved for an object in transfer.
inline word_t retire_unit(place p) noexcept {
    word_t const fresh = generation_of(p.word().load(std::memory_order_relaxed)) + 1;
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

/// Marks what no share has as dead in words [i, i + words_a_group), and finds the room there.
inline void let_go(place p, std::size_t i, share const* first) noexcept {
    tracking&           t     = p.track();
    std::uint64_t const fresh = t.fresh[i / words_a_group].load(std::memory_order_relaxed);
    std::uint64_t       room  = 0;
    for (std::size_t k = i; k < i + words_a_group; ++k) {
        std::uint32_t kept = 0;
        for (share const* s = first; s; s = s->next_here) kept |= s->objects[k].load(std::memory_order_relaxed);
        if (kept && fresh) settle(p, k, lines_any_in(kept));
        if (t.dead[k].load(std::memory_order_relaxed) != ~kept) t.dead[k].store(~kept, std::memory_order_release);
        room |= std::uint64_t{!kept} << k % 64;
        poison_dead(p.base + (k * granules_a_word << granule_shift), ~kept);
    }
    std::uint64_t const here = ((std::uint64_t{1} << words_a_group) - 1) << i % 64;
    t.room[i / 64]           = (t.room[i / 64] & ~here) | room;
}

/// Takes a unit from its home, which is gone. Returns true if no share has objects: it is then retired, with
/// `fresh` as next generation. Else it is a run of its own now.
inline bool orphan(place p, word_t& fresh) noexcept {
    share* const  first = p.rest().shares.load(std::memory_order_relaxed);
    std::uint32_t live  = 0;
    for (share const* s = first; s; s = s->next_here) live += s->granules;
    if (live == 0) {
        fresh = retire_unit(p);
        return true;
    }
    dequeue(p);
    guard_word(p);
    tracking&  t   = p.track();
    bool const all = memory_is_checked();  // which is told of each word
    for (std::size_t g = 0; g < words_a_unit / words_a_group; ++g) {
        if (all || t.changed >> g & 1) let_go(p, g * words_a_group, first);
        t.fresh[g].store(0, std::memory_order_release);
    }
    t.changed        = 0;
    p.rest().live    = live;
    p.rest().filling = nullptr;  // it was one of the home's lanes
    p.rest().deaths  = 0;
    p.u->address     = p.base;
    p.u->length      = 1;
    p.u->home.store(nullptr, std::memory_order_relaxed);
    p.u->head.store(p.u, std::memory_order_release);
    p.u->guarded.store(1, std::memory_order_relaxed);
    count_for(p, first->owner);
    if (is_roomy(p)) enqueue(p, p.where->from->recyclable);
    return false;
}

/// Marks granules as dead, and takes them from `s`. Returns true if they were the last: the unit is then retired,
/// with `fresh` as next generation.
inline bool mark_dead(place p, share* s, std::uintptr_t begin, std::uintptr_t end, word_t& fresh) noexcept {
    auto const granules = static_cast<std::uint32_t>((end - begin) >> granule_shift);
    guard_word(p);
    set_dead(p, begin, end);
    if (s && test(s->objects, begin)) clear(*s, begin, end);
    p.rest().deaths += granules;
    if (!p.head()->home.load(std::memory_order_relaxed)) {
        p.rest().live -= granules;
        if (p.rest().live == 0) {
            fresh = retire_unit(p);
            return true;
        }
    }
    if (p.rest().deaths >= least_deaths) offer_holes(p);
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
    bool const homeless = !p.head()->home.load(std::memory_order_relaxed);
    if (homeless) p.rest().live -= s->granules;
    if (homeless && p.rest().live == 0) {
        fresh = retire_unit(p);
        return true;
    }
    guard_word(p);
    for (std::size_t i = 0; i < words_a_unit; ++i) {
        std::uint32_t const mine = s->objects[i].load(std::memory_order_relaxed);
        if (!mine) continue;
        poison_dead(p.base + (i * granules_a_word << granule_shift), mine);
        set_dead(p, i, mine);
    }
    p.rest().deaths += s->granules;
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
