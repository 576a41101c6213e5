// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include <tenure/detail/base/racing_copy.hpp>
#include <tenure/detail/objects/liveness.hpp>
#include <tenure/detail/objects/runs.hpp>

namespace tenure::detail {

/// Which batch owns what, granule by granule, in units whose objects no longer live and die together. Protected by
/// the unit's lock.

/// Calls f(index, mask) for each word of bits that covers granules of [g, last).
template <class F>
TENURE_SLOW void for_many_words(std::uint32_t g, std::uint32_t last, F f) {
    while (g < last) {
        std::uint32_t const low = g % 32, n = std::min(32 - low, last - g);
        f(g / 32, (n == 32 ? ~std::uint32_t{0} : (std::uint32_t{1} << n) - 1) << low);
        g += n;
    }
}

/// Calls f(index, mask) for each word of bits that covers granules of [begin, end), which lies in one unit. Mostly
/// that is one word.
template <class F>
[[gnu::always_inline]] inline void for_words(std::uintptr_t begin, std::uintptr_t end, F f) {
    auto const g    = static_cast<std::uint32_t>((begin & (unit_bytes - 1)) >> granule_shift);
    auto const last = static_cast<std::uint32_t>(g + ((end - begin) >> granule_shift));
    if (g / 32 == (last - 1) / 32 && last - g < 32) [[likely]]
        f(g / 32, ((std::uint32_t{1} << (last - g)) - 1) << g % 32);
    else for_many_words(g, last, f);
}

inline void clear(granule_bits& bits, std::uintptr_t begin, std::uintptr_t end) noexcept {
    for_words(begin, end, [&](std::uint32_t i, std::uint32_t mask) {
        bits[i].store(bits[i].load(std::memory_order_relaxed) & ~mask, std::memory_order_release);
    });
}

/// Calls f(place, begin, end) for each unit that [from, end) touches.
template <class F>
void for_units(std::uintptr_t from, std::uintptr_t end, F f) {
    for (std::uintptr_t a = from; a < end;) {
        std::uintptr_t const stop = std::min(end, (a & ~(unit_bytes - 1)) + unit_bytes);
        f(place_at(a), a, stop);
        a = stop;
    }
}

/// Spreads the bits of a word's lines over the granules of each.
constexpr std::uint32_t granules_in(std::uint32_t lines) noexcept { return (lines * 0x204081 & 0x1010101) * 255; }

/// Returns which lines of a word have all of these granules, as bits.
constexpr std::uint32_t lines_all_in(std::uint32_t granules) noexcept {
    std::uint32_t all = granules & granules >> 4;
    all &= all >> 2;
    all &= all >> 1;
    return (all & 0x1010101) * 0x1020408 >> 24 & 15;
}
constexpr std::uint32_t lines_any_in(std::uint32_t granules) noexcept { return ~lines_all_in(~granules) & 15; }

/// Returns which lines of word `i` are fresh, as bits.
inline std::uint32_t fresh_lines(tracking const& t, std::size_t i) noexcept {
    return t.fresh[i / words_a_group].load(std::memory_order_relaxed) >> i % words_a_group * lines_a_word & 15;
}
/// Returns the bit of tracking::changed for word `i`.
constexpr std::uint32_t group_bit(std::size_t i) noexcept { return std::uint32_t{1} << i / words_a_group; }

/// Notes that some of word `i` died, came to a share, or is no longer fresh.
inline void note_change(tracking& t, std::size_t i) noexcept {
    t.changed = static_cast<std::uint16_t>(t.changed | group_bit(i));
}

inline void forget_fresh(tracking& t, std::size_t i, std::uint32_t lines) noexcept {
    auto& fresh = t.fresh[i / words_a_group];
    fresh.store(fresh.load(std::memory_order_relaxed) & ~(std::uint64_t{lines} << i % words_a_group * lines_a_word),
                std::memory_order_release);
    note_change(t, i);
}

/// Returns which granules of word `i` are dead.
inline std::uint32_t dead_in(tracking const& t, std::size_t i) noexcept {
    return t.dead[i].load(std::memory_order_relaxed) & ~granules_in(fresh_lines(t, i));
}

/// Writes down what is known of these lines of word `i`, if they are fresh: they are not, afterwards.
inline void settle(place p, std::size_t i, std::uint32_t lines) noexcept {
    tracking& t = p.track();
    lines &= fresh_lines(t, i);
    if (!lines) return;
    auto const pass = static_cast<std::uint32_t>(generation_of(p.word().load(std::memory_order_relaxed)));
    for (std::uint32_t left = lines; left; left &= left - 1)
        t.pass[i * lines_a_word + static_cast<std::size_t>(std::countr_zero(left))].store(
            pass, std::memory_order_relaxed);
    t.dead[i].store(t.dead[i].load(std::memory_order_relaxed) & ~granules_in(lines), std::memory_order_release);
    forget_fresh(t, i, lines);
}

/// Marks granules of word `i` as dead.
inline void set_dead(place p, std::size_t i, std::uint32_t granules) noexcept {
    tracking& t = p.track();
    if (granules != ~std::uint32_t{0}) settle(p, i, lines_any_in(granules));
    t.dead[i].store(t.dead[i].load(std::memory_order_relaxed) | granules, std::memory_order_release);
    if (granules == ~std::uint32_t{0}) forget_fresh(t, i, 15);
    note_change(t, i);
}

/// Marks the granules of [begin, end), which lies in one unit, as dead.
inline void set_dead(place p, std::uintptr_t begin, std::uintptr_t end) noexcept {
    for_words(begin, end, [&](std::uint32_t i, std::uint32_t mask) { set_dead(p, i, mask); });
}

inline void begin_tracking(place p) noexcept {
    if (p.u->tracked.load(std::memory_order_relaxed)) return;
    tracking& t = p.track();
    fill_racing(t.dead, ~std::uint64_t{0});
    for (auto& lines : t.fresh) lines.store(~std::uint64_t{0}, std::memory_order_relaxed);
    for (auto& words : t.room) words = ~std::uint64_t{0};
    t.changed      = 0;
    t.own[0].where = t.own[1].where = nullptr;
    unit_rest& rest                 = p.rest();
    if (rest.self != p.base) {
        rest.self = p.base;  // read without the lock by next_own_unit()
        p.where->tracked.fetch_add(1, std::memory_order_relaxed);
    }
    rest.filling = nullptr;
    rest.live = rest.deaths = rest.passes = rest.first_pass = 0;
    std::uintptr_t const used                               = std::max(p.head()->stopped_at(), p.base);
    if (used != p.base && used < p.base + unit_bytes) set_dead(p, used, p.base + unit_bytes);
    p.u->tracked.store(true, std::memory_order_release);
    p.head()->guarded.fetch_add(1, std::memory_order_relaxed);
}

/// Makes every later access ask the unit whether the object lives.
inline void guard_word(place p) noexcept {
    if (p.word().load(std::memory_order_relaxed) & whole_flag)
        p.word().fetch_and(~whole_flag, std::memory_order_release);
}

inline share* find_share(place p, batch_record const* owner) noexcept {
    share* s = p.rest().shares.load(std::memory_order_relaxed);
    while (s && s->owner != owner) s = s->next_here;
    return s;
}

/// Finds the owner among the shares after `before`, and moves its share to the front: the owner just asked for is
/// likely asked for again.
TENURE_SLOW inline batch_record* owner_of_many(unit_rest& u, share* before, std::uintptr_t probe) noexcept {
    for (; share* const s = before->next_here; before = s) {
        if (!test(s->objects, probe)) continue;
        before->next_here = s->next_here;
        s->next_here      = u.shares.load(std::memory_order_relaxed);
        u.shares.store(s, std::memory_order_release);
        return s->owner;
    }
    return nullptr;
}

/// Returns the owner of the object with this granule. Called under the unit's lock.
inline batch_record* owner_under_lock(place p, std::uintptr_t probe) noexcept {
    if (p.u->tracked.load(std::memory_order_relaxed)) {
        share* const s = p.rest().shares.load(std::memory_order_relaxed);
        if (s && test(s->objects, probe)) return s->owner;
        if (s && s->next_here)
            if (batch_record* const owner = owner_of_many(p.rest(), s, probe)) return owner;
    }
    return p.head()->home.load(std::memory_order_acquire);
}

/// Returns the batch that owned the object a moment ago; null if the object has ended meanwhile. Takes the unit's
/// lock if the unit may have several owners.
inline batch_record* owner_of(extent const& x) noexcept {
    if (x.large) return x.large->home.load(std::memory_order_acquire);
    place const p = place_at(x.probe());
    if (!p.u->tracked.load(std::memory_order_acquire)) return p.head()->home.load(std::memory_order_acquire);
    std::scoped_lock const guard(p.u->lock);
    return owner_under_lock(p, x.probe());
}

/// The batch that owns an object while that is alive. The id belongs to the record: a record read a moment ago may
/// be another batch's by now, with another id.
struct owner_seen {
    batch_record* record = nullptr;  ///< null: the object is not alive
    std::uint64_t id     = 0;
};
/// Returns the batch that owned the live object at one moment during the call; a null record if the object is not
/// alive. Called in a read_section.
inline owner_seen find_owner(raw_handle h) noexcept {
    while (is_alive(h)) {
        extent const        x = extent_of(h);
        batch_record* const b = owner_of(x);
        if (!b) continue;  // the batch is just ending
        std::uint64_t const id = b->id.load(std::memory_order_acquire);
        if (is_alive(h) && owner_of(x) == b && b->id.load(std::memory_order_acquire) == id) return {b, id};
    }
    return {};
}

/// Returns whether all owners of the object are reclaim_pending, not counting the batch that this thread reclaims.
/// Until then the object is alive. If no owner in the unit is reclaim_pending any more, sets `unit::over` to 0,
/// unless another batch has stored its number there meanwhile. `locked`: the caller has the object's lock.
TENURE_COLD inline bool is_reclaim_pending(raw_handle h, bool locked) noexcept {
    extent const  x      = extent_of(h);
    place const   p      = place_at(x.large ? to_address(h.pointer) : x.probe());
    unit* const   u      = x.large ? x.large : p.u;
    std::uint32_t number = u->over.load(std::memory_order_acquire);
    bool          alive = false, owned = false, any = false;
    auto const    ask = [&](batch_record const* b, bool owns) {
        bool const is = b && b->reclaim_pending.load(std::memory_order_acquire);
        any           = any || is;
        owned         = owned || owns;
        alive         = alive || (owns && (!is || b == this_thread.reclaiming));
    };
    if (!locked) u->lock.lock();
    bool const shared = !x.large && u->tracked.load(std::memory_order_relaxed);
    for (share const* s = shared ? p.rest().shares.load(std::memory_order_relaxed) : nullptr; s; s = s->next_here)
        ask(s->owner, test(s->objects, x.probe()));
    ask(p.head()->home.load(std::memory_order_acquire), !owned);
    if (!locked) u->lock.unlock();
    if (!any) u->over.compare_exchange_strong(number, 0, std::memory_order_acq_rel);
    return !alive;
}

/// Locks the units that an object lies in: two at most, the lower first. Only a thread that has these locks
/// decides who owns the object, whether it lives, and in which list its entry stands.
class object_lock {
public:
    explicit object_lock(extent const& x) noexcept : first_(x.large ? x.large : unit_at(x.begin)), last_(first_) {
        std::uintptr_t const last = x.begin + x.bytes - 1;
        if (!x.large && (x.begin ^ last) >> unit_shift) last_ = unit_at(last);
        lock();
    }
    ~object_lock() { unlock(); }
    object_lock(object_lock const&)            = delete;
    object_lock& operator=(object_lock const&) = delete;

    void lock() noexcept {
        first_->lock.lock();
        if (last_ != first_) last_->lock.lock();
    }
    void unlock() noexcept {
        if (last_ != first_) last_->lock.unlock();
        first_->lock.unlock();
    }

private:
    unit* first_;
    unit* last_;
};

/// Locks the units of an object in a slab, if no other thread has them. Converts to true if it locked them.
class object_lock_if_free {
public:
    explicit object_lock_if_free(extent const& x) noexcept
        : first_(unit_at(x.begin)), last_(unit_at(x.begin + x.bytes - 1)) {
        if (!first_->lock.try_lock()) return;
        locked_ = last_ == first_ || last_->lock.try_lock();
        if (!locked_) first_->lock.unlock();
    }
    ~object_lock_if_free() {
        if (!locked_) return;
        if (last_ != first_) last_->lock.unlock();
        first_->lock.unlock();
    }
    object_lock_if_free(object_lock_if_free const&)            = delete;
    object_lock_if_free& operator=(object_lock_if_free const&) = delete;

    explicit operator bool() const noexcept { return locked_; }

private:
    unit* first_;
    unit* last_;
    bool  locked_ = false;
};

/// Returns whether the object is alive and `owner`'s. Called under the object's lock, with `owner` held; true
/// until one of these ends.
inline bool still_owned(raw_handle h, extent const& x, batch_record const& owner) noexcept {
    if (!is_alive(h, true)) return false;
    if (!x.large) return owner_under_lock(place_at(x.probe()), x.probe()) == &owner;
    bool const whole = table_word(x.large->address).load(std::memory_order_relaxed) & whole_flag;
    return x.large->home.load(std::memory_order_relaxed) == &owner && (x.header || whole);
}

/// Returns the lane in whose list the object's entry stands, or would stand if the object came to `owner` now. Not
/// for entries that are in an inbox, or moved. Called under the object's lock.
inline lane* lane_of(extent const& x, batch_record* owner) noexcept {
    unit const* const head = x.large ? x.large : place_at(x.begin).head();
    return head->home.load(std::memory_order_relaxed) == owner ? head->maker.load(std::memory_order_relaxed)
                                                               : &owner->primary;
}

inline bool is_mine(lane const* l) noexcept { return l->thread.load(std::memory_order_relaxed) == &this_thread; }

}  // namespace tenure::detail
