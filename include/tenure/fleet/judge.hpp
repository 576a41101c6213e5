// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>

#include <tenure/fleet/fleet_state.hpp>
#include <tenure/fleet/refusal.hpp>

namespace tenure::detail {

/// What was said to a proposal: in which store, or why in none.
struct verdict {
    refusal       why   = refusal::none;
    std::uint16_t store = fleet_stores::none;

    explicit operator bool() const noexcept { return why == refusal::none; }
};

/// Judges proposals to copy, drop and move buffers, one after the other, against what will be when all that was
/// accepted is done; what is accepted is added to the orders that the caller names. Nothing is done here: who
/// carries an order out asks again, for meanwhile somebody may have written the buffer, or read it, or a store may
/// be gone. Not thread-safe.
class judge {
public:
    using stores = std::optional<std::span<std::uint16_t const>>;  ///< nothing: any; empty: none

    struct order {
        enum class kind : std::uint8_t { copy, drop } what;
        std::uint32_t replica;
    };

    using orders = std::deque<order>;

    explicit judge(fleet_state& f) noexcept : fleet_(f) {}

    /// Proposes a copy in one of `among`: in the emptiest running store of them that has room.
    verdict copy(std::uint32_t b, orders& out, stores among = {}) {
        verdict const v = find_room(b, among);
        bool const    may_come =
            v.why == refusal::no_room || v.why == refusal::none_running || v.why == refusal::has_it;
        if (!v && may_come && !among) fleet_.mark_when_room(b);
        if (v) order_copy(b, v.store, out);
        return v;
    }

    /// Proposes to drop the copy in one of `among`: from those that retire first, then from paused stores, then
    /// from the fullest.
    verdict drop(std::uint32_t b, orders& out, stores among = {}) {
        std::uint32_t victim = none;
        verdict const v      = find_victim(b, among, victim);
        if (v.why == refusal::in_use || v.why == refusal::just_acquired) fleet_.mark_when_free(b);
        if (!v) return v;
        out.push_back({order::kind::drop, victim});
        fleet_.leave(victim, replica_state::leaving);
        return v;
    }

    /// Drops the copy in a store for somebody who is no policy, and may drop what a policy has just acquired.
    verdict drop_for_user(std::uint32_t b, std::uint16_t in, orders& out) {
        std::uint32_t const r = table().has_buffer(b) ? in_store(b, in) : none;
        if (r != none) fleet_.forget_acquired(r);
        return drop(b, out, std::span<std::uint16_t const>(&in, 1));
    }

    /// Returns why the copy in a store cannot go: because there can be no other, or because it cannot be dropped.
    refusal why_it_stays(std::uint32_t b, std::uint16_t in) const {
        std::uint32_t victim = none;
        refusal const drop   = find_victim(b, std::span<std::uint16_t const>(&in, 1), victim).why;
        return drop == refusal::last_copy || drop == refusal::declared ? find_room(b, {}).why : drop;
    }

    /// Proposes that the copy in `from` goes to one of `among`. It is dropped once the new one is verified and
    /// nobody reads it; see settle().
    verdict move(std::uint32_t b, std::uint16_t from, orders& out, stores among = {}) {
        if (!table().has_buffer(b)) return {refusal::gone};
        std::uint32_t const giver = in_store(b, from);
        if (giver == none || table()[giver].state != replica_state::here || !fleet_.may_be_read(table()[giver]))
            return {refusal::no_copy};
        if (table()[giver].acquired) {
            fleet_.mark_when_free(b);
            return {refusal::just_acquired};
        }
        verdict const v = find_room(b, among);
        if (!v) return v;
        std::uint32_t const taker = order_copy(b, v.store, out);
        fleet_.leave(giver, replica_state::giving);
        if (!memory_lasts([&] { moves_.push_back({b, giver, taker}); })) fleet_.stay(giver);  // a copy, then
        return v;
    }

    /// Looks at the moves under way, `n` at most: what was moved and is read by nobody is ordered to be dropped.
    /// Call it when copies have finished. Returns how many moves wait.
    std::size_t settle(orders& out, std::size_t n = static_cast<std::size_t>(-1)) {
        for (n = std::min(n, moves_.size()); n > 0; --n) {
            move_under_way const m = moves_.front();
            if (!is_of(m.giver, m.buffer) || table()[m.giver].state != replica_state::giving) {
                moves_.pop_front();
                continue;
            }
            bool const there = is_of(m.taker, m.buffer);
            bool const waits =
                there && (table()[m.taker].state == replica_state::arriving || table()[m.giver].readers > 0);
            bool const goes  = !waits && there && may_lose(m.giver) == refusal::none;
            bool const noted = memory_lasts([&] {
                if (waits) moves_.push_back(m);
                if (goes) out.push_back({order::kind::drop, m.giver});
            });
            moves_.pop_front();
            if (noted && waits) continue;
            if (noted && goes) {
                fleet_.leave(m.giver, replica_state::leaving);
            } else {  // a copy, then
                fleet_.stay(m.giver);
                fleet_.mark(m.buffer);
            }
        }
        return moves_.size();
    }

    /// Takes the order to drop a replica back.
    void keep(std::uint32_t r) {
        if (!table().has_replica(r) || table()[r].state != replica_state::leaving) return;
        fleet_.stay(r);
        fleet_.mark(table()[r].buffer);
    }

    /// Drops the replica that was ordered to be, if that is still right. Returns whether it did.
    template <class F>
    bool carry_out_drop(std::uint32_t r, F&& freed) {
        if (!table().has_replica(r) || table()[r].state != replica_state::leaving) return false;
        if (may_lose(r) != refusal::none) {
            keep(r);
            return false;
        }
        fleet_.drop(r, freed);
        return true;
    }

    /// Takes an order back: the copy is not made, the replica stays.
    template <class F>
    void take_back(order o, F&& freed) {
        if (o.what == order::kind::copy) fleet_.finish_copy(o.replica, false, freed);
        else keep(o.replica);
    }

    std::size_t moves() const noexcept { return moves_.size(); }

private:
    static constexpr std::uint32_t none = fleet_state::none;

    struct move_under_way {
        std::uint32_t buffer, giver, taker;
    };

    replica_table const& table() const noexcept { return fleet_.table(); }

    bool is_of(std::uint32_t r, std::uint32_t b) const noexcept {
        return table().has_replica(r) && !replica_table::detached(table()[r]) && table()[r].buffer == b;
    }

    std::uint32_t in_store(std::uint32_t b, std::uint16_t s) const {
        std::uint32_t found = none;
        table().for_each(b, [&](std::uint32_t r) {
            if (table()[r].store == s) found = r;
        });
        return found;
    }

    std::uint32_t order_copy(std::uint32_t b, std::uint16_t s, orders& out) {
        out.push_back({order::kind::copy, none});
        if (memory_lasts([&] { out.back().replica = fleet_.set_aside(b, s); })) return out.back().replica;
        out.pop_back();
        raise(std::bad_alloc());
    }

    verdict find_room(std::uint32_t b, stores among) const {
        if (!table().has_buffer(b)) return {refusal::gone};
        if (among && among->empty()) return {refusal::no_candidates};
        bool has_source = false;
        table().for_each(b, [&](std::uint32_t r) { has_source = has_source || fleet_.may_be_read(table()[r]); });
        if (!has_source) return {refusal::no_copy};

        std::size_t const bytes = table().buffer(b).bytes();
        verdict           best{refusal::none_running};
        std::pair         least(false, 0.);
        // The refusal that says most: there is a store that runs, there is one without a copy, there is room. Of
        // stores with room, one that has just refused a copy comes last.
        auto const consider = [&](std::uint16_t s) {
            fleet_store const& it = fleet_.stores()[s];
            if (it.state != store_state::running) return false;
            refusal const   why = in_store(b, s) != none ? refusal::has_it
                                  : !it.has_room(bytes)  ? refusal::no_room
                                                         : refusal::none;
            std::pair const rank(it.refuses > fleet_.cycle(), it.fill());
            if (why == refusal::none && (!best || rank < least)) {
                best  = {refusal::none, s};
                least = rank;
            } else if (!best && best.why != refusal::no_room) {
                best.why = why;
            }
            return why == refusal::none && !rank.first;
        };
        if (among) std::ranges::for_each(*among, consider);
        else
            for (auto const& [fill, s] : fleet_.stores().emptiest())
                if (consider(s)) break;
        return best;
    }

    /// Returns why a replica that may be read must not go.
    refusal may_lose(std::uint32_t r) const {
        std::uint32_t const b    = table()[r].buffer;
        std::size_t         rest = 0;
        table().for_each(b, [&](std::uint32_t other) { rest += other != r && fleet_.stays(table()[other]); });
        if (rest == 0) return refusal::last_copy;
        if (rest < fleet_.needed(b)) return refusal::declared;
        if (table()[r].readers > 0) return refusal::in_use;
        return table()[r].acquired ? refusal::just_acquired : refusal::none;
    }

    verdict find_victim(std::uint32_t b, stores among, std::uint32_t& victim) const {
        if (!table().has_buffer(b)) return {refusal::gone};
        if (among && among->empty()) return {refusal::no_candidates};
        verdict    best{refusal::no_copy};
        auto const eagerness = [&](std::uint32_t r) {
            fleet_store const& s = fleet_.stores()[table()[r].store];
            return std::pair(s.state, s.fill());  // running < paused < retiring
        };
        table().for_each(b, [&](std::uint32_t r) {
            replica_record const& it = table()[r];
            if (it.state != replica_state::here || fleet_.stores()[it.store].state == store_state::lost) return;
            if (among && std::ranges::find(*among, it.store) == among->end()) return;
            if (refusal const why = may_lose(r); why != refusal::none) {
                if (!best) best.why = why;
            } else if (!best || eagerness(victim) < eagerness(r)) {
                victim = r;
                best   = {refusal::none, it.store};
            }
        });
        return best;
    }

    fleet_state&               fleet_;
    std::deque<move_under_way> moves_;
};

}  // namespace tenure::detail
