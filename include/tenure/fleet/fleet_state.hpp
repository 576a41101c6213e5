// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include <tenure/error.hpp>
#include <tenure/fleet/replica_table.hpp>
#include <tenure/fleet/stores.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Which buffers have copies in which stores of a group, what is under way, and what changed since the last cycle.
/// A state machine: it copies and frees nothing itself, and has no clock but the number of cycles. Calls say what
/// happened; those with `freed` call freed(replica) for each replica whose memory is to be freed now, before its
/// number may be used again.
///
/// A live buffer has a replica that may be read, unless the stores of all of them were lost. What frees or ends
/// something allocates nothing that it cannot do without. Not thread-safe. Cost: what is not said otherwise takes
/// O(copies of the buffer + log(stores)).
class fleet_state {
public:
    static constexpr std::uint32_t none             = replica_table::none;
    static constexpr std::uint32_t everywhere       = 255;  ///< to declare(): one copy in each running store
    static constexpr std::uint64_t protected_cycles = 10;   ///< for how long a copy that arrived is not dropped

    /// Errors: std::errc::invalid_argument for an empty name, one that is there, no capacity, or a distance that is
    /// negative or no number; limit_exceeded for the 65,536th store.
    std::uint16_t add_store(std::string name, std::size_t capacity, double distance = 1) {
        auto const bad = [&](std::string const& why) {
            raise(error(std::make_error_code(std::errc::invalid_argument), "store '" + name + "': " + why));
        };
        if (name.empty()) bad("a name is needed");
        if (stores_.find(name) != fleet_stores::none) bad("the group has a store of that name; it has " + names());
        if (capacity == 0) bad("its capacity is 0 bytes; say how many the group may use");
        if (!(distance >= 0) || std::isinf(distance)) bad("its distance is not a number from 0 on");
        if (stores_.size() == fleet_stores::none)
            raise(error(make_error_code(errc::limit_exceeded), "65,535 stores"));
        return stores_.add({.name = std::move(name), .capacity = capacity, .distance = distance, .since = cycle_});
    }

    /// Returns the store of that name. Errors: no_such_name, with the names that there are. Cost: O(stores).
    std::uint16_t find_store(std::string_view name) const {
        std::uint16_t const s = stores_.find(name);
        if (s == fleet_stores::none)
            raise(error(make_error_code(errc::no_such_name),
                        "the group has no store '" + std::string(name) + "'; it has " + names()));
        return s;
    }

    /// Changes what a store takes part in. One that is lost or removed stays so: if it comes back, it is added
    /// anew, and is empty.
    void set_state(std::uint16_t s, store_state to) {
        if (is_over(stores_[s].state) || stores_[s].state == to) return;
        stores_.change(s, [&](fleet_store& it) {
            bool const look =
                it.state == store_state::retiring || !(to == store_state::running || to == store_state::paused);
            it.state           = to;
            it.replicas.cursor = it.replicas.first;
            it.unswept         = look ? it.replicas.count : 0;
            unswept_           = unswept_ || it.unswept;
        });
    }
    /// Notes that a store did not answer in time: until the next cycle, reads take other copies where there are
    /// some.
    void set_late(std::uint16_t s) noexcept { stores_.set_late(s, cycle_ + 1); }
    /// Notes that a store did not take a copy for which it should have room: for ten cycles it gets none by itself.
    void set_refuses(std::uint16_t s) noexcept { stores_.set_refuses(s, cycle_ + protected_cycles); }
    /// Says how many bytes there may be in the store. Nothing that is there is dropped at once if it is less.
    void set_capacity(std::uint16_t s, std::size_t bytes) {
        stores_.change(s, [&](fleet_store& it) { it.capacity = std::max<std::size_t>(bytes, 1); });
    }
    /// Says how many bytes of the store others than the group have.
    void set_others(std::uint16_t s, std::size_t bytes) {
        stores_.change(s, [&](fleet_store& it) { it.others = bytes; });
    }

    /// Sets aside room in a store for something that is not in the group yet, or gives it back.
    void hold_room(std::uint16_t s, std::size_t bytes) {
        stores_.change(s, [&](fleet_store& it) { it.arriving += bytes; });
    }
    void give_room(std::uint16_t s, std::size_t bytes) {
        stores_.change(s, [&](fleet_store& it) { it.arriving -= bytes; });
    }

    /// Notes a buffer that was made in a store. Errors: limit_exceeded beyond 16 TiB.
    std::uint32_t add_buffer(std::size_t bytes, std::uint16_t s) {
        if (bytes > replicated_buffer::most_bytes)
            raise(error(make_error_code(errc::limit_exceeded), "a buffer in a group has 16 TiB at most"));
        std::uint32_t const b = table_.add_buffer(bytes);
        if (!memory_lasts([&] { add_copy(b, s); })) {
            table_.remove_buffer(b);
            raise(std::bad_alloc());
        }
        return b;
    }

    /// Notes that a buffer's bytes were made in a store once more, because all copies were lost.
    std::uint32_t add_copy(std::uint32_t b, std::uint16_t s) {
        std::uint32_t r = none;
        stores_.change(s, [&](fleet_store& it) {
            r = table_.add_replica(b, s, it.replicas, replica_state::here);
            it.used += table_.buffer(b).bytes();
        });
        mark(b);
        return r;
    }

    /// Notes that a buffer was freed, with all its copies.
    template <class F>
    void remove_buffer(std::uint32_t b, F&& freed) {
        table_.for_each(b, [&](std::uint32_t r) { release(r, freed); });
        table_.remove_buffer(b);
    }

    /// Asks for so many copies, below which no policy goes; or for one `everywhere`. 0 takes that back.
    void declare(std::uint32_t b, std::uint32_t copies) {
        if (copies > everywhere)
            raise(error(make_error_code(errc::limit_exceeded),
                        "254 copies of a buffer can be asked for, or one "
                        "in each store"));
        table_.buffer(b).declared = copies & 0xff;
        mark(b);
    }

    /// Begins to read the nearest copy that is not in one of `except`. Returns it, or none if there is none.
    std::uint32_t begin_read(std::uint32_t b, std::span<std::uint16_t const> except = {}) {
        std::uint32_t const r = nearest(b, except);
        if (r != none) ++table_[r].readers;
        return r;
    }
    template <class F>
    void end_read(std::uint32_t r, F&& freed) {
        replica_record& it = table_[r];
        if (--it.readers > 0) return;
        if (it.state == replica_state::abandoned) return erase(r, freed);
        if (table_.buffer(it.buffer).wanted) mark(it.buffer);
    }

    /// Begins to write the nearest copy that is not in one of `except`. Until written() or spoil(), no copy is made
    /// of the buffer, and what is being made is wanted no more. Returns the copy, which is read, too; or none.
    template <class F>
    std::uint32_t begin_write(std::uint32_t b, std::span<std::uint16_t const> except, F&& freed) {
        std::uint32_t const r = begin_read(b, except);
        if (r == none) return r;
        table_.buffer(b).written = 1;
        table_.for_each(b, [&](std::uint32_t other) {
            if (table_[other].state == replica_state::arriving) release(other, freed);
        });
        return r;
    }
    /// Notes that `r` was written: the other copies are of yesterday.
    template <class F>
    void written(std::uint32_t r, F&& freed) {
        std::uint32_t const b    = table_[r].buffer;
        table_.buffer(b).written = 0;
        table_.for_each(b, [&](std::uint32_t other) {
            if (other != r) release(other, freed);
        });
        stay(r);
        mark(b);
    }
    /// Notes that `r` is not what it should be: a write to it failed, or its store says so. If there are other
    /// copies, they are as they were before, and `r` goes.
    template <class F>
    void spoil(std::uint32_t r, F&& freed) {
        std::uint32_t const b     = table_[r].buffer;
        bool                other = false;
        table_.buffer(b).written  = 0;
        table_.for_each(b, [&](std::uint32_t i) {
            if (table_[i].state == replica_state::arriving && table_[i].readers == r) release(i, freed);
            else other = other || (i != r && may_be_read(table_[i]));
        });
        if (other) release(r, freed);
        mark(b);
    }

    /// Notes that somebody wants to read the buffer at a store. What is noted beyond 65,536 in a cycle is
    /// forgotten.
    struct demand {
        std::uint32_t buffer, generation;
        std::uint16_t store;
    };
    void note_demand(std::uint32_t b, std::uint16_t s) {
        if (demands_.size() < 65'536) demands_.push_back({b, table_.buffer(b).generation, s});
    }

    /// Sets aside room for a copy, which is to be made.
    std::uint32_t set_aside(std::uint32_t b, std::uint16_t s) {
        std::uint32_t r = none;
        stores_.change(s, [&](fleet_store& it) {
            r                 = table_.add_replica(b, s, it.replicas, replica_state::arriving);
            table_[r].readers = none;
            it.arriving += table_.buffer(b).bytes();
        });
        return r;
    }

    /// Begins to make a copy for which room was set aside. Returns the replica to copy from, which stays until
    /// finish_copy(); or none: then it is wanted no more, or not possible, and is gone.
    template <class F>
    std::uint32_t begin_copy(std::uint32_t r, F&& freed) {
        replica_record const& it     = table_[r];
        bool const            wanted = it.state == replica_state::arriving && !table_.buffer(it.buffer).written &&
                            stores_[it.store].state == store_state::running;
        std::uint32_t const from = wanted ? nearest(it.buffer) : none;
        if (from == none) {
            finish_copy(r, false, freed);
            return none;
        }
        ++table_[from].readers;
        table_[r].readers = from;
        return from;
    }
    /// Notes how a copy went: `verified` if the bytes are there, and are those of the source.
    template <class F>
    void finish_copy(std::uint32_t r, bool verified, F&& freed) {
        replica_record& it = table_[r];
        if (std::uint32_t const from = std::exchange(it.readers, 0); from != none) end_read(from, freed);
        if (it.state == replica_state::cancelled) return erase(r, freed);
        std::uint32_t const b = it.buffer;
        if (!verified || stores_[it.store].state == store_state::lost) {
            erase(r, freed);
        } else {
            std::size_t const bytes = table_.bytes(r);
            stores_.change(it.store, [&](fleet_store& s) { s.arriving -= bytes, s.used += bytes; });
            it.state    = replica_state::here;
            it.acquired = tag(cycle_);
            if (!memory_lasts([&] { acquired_[cycle_ % acquired_.size()].push_back(r); })) it.acquired = 0;
        }
        mark(b);
    }

    /// Says that a replica leaves: at once (`leaving`) or when another is there (`giving`).
    void leave(std::uint32_t r, replica_state how) {
        if (table_[r].state == replica_state::here) count_leaving(r, true);
        table_[r].state = how;
    }
    /// Takes that back.
    void stay(std::uint32_t r) {
        if (table_[r].state == replica_state::here) return;
        count_leaving(r, false);
        table_[r].state = replica_state::here;
    }
    template <class F>
    void drop(std::uint32_t r, F&& freed) {
        std::uint32_t const b = table_[r].buffer;
        release(r, freed);
        mark(b);
    }

    /// Begins a cycle, which has to be prepared until prepare() returns true.
    void begin_cycle() {
        ++cycle_;
        if (stores_.room_grew()) retries_ = unplaced_.size();
        retries_now_ = std::min<std::size_t>(retries_, retries_in_a_cycle);
        retries_ -= retries_now_;
        if (std::exchange(missed_, false))
            for (std::uint16_t s = 0; s < stores_.size(); ++s) look_at_all(s);
    }
    /// Does a part of what a cycle begins with, of about `n` replicas: what was protected is no more; what stores
    /// that retire have counts as changed; what lost ones had is forgotten; what found no room may find some.
    template <class F>
    bool prepare(std::size_t n, F&& freed) {
        std::uint64_t const then = cycle_ + acquired_.size() - protected_cycles - 1;
        for (auto& old = acquired_[then % acquired_.size()]; n > 0 && !old.empty(); --n) {
            replica_record& it = table_[old.front()];
            if (it.acquired == tag(then)) {
                it.acquired = 0;
                if (may_be_read(it) && table_.buffer(it.buffer).wanted) mark(it.buffer);
            }
            old.pop_front();
        }
        for (; n > 0 && retries_now_ > 0; --n, --retries_now_) {
            std::uint32_t const b = unplaced_.front();
            unplaced_.pop_front();
            table_.buffer(b).unplaced = 0;
            if (table_.has_buffer(b)) mark(b);
        }
        if (n > 0 && unswept_) {
            unswept_ = false;
            for (std::uint16_t s = 0; s < stores_.size(); ++s) n = sweep(s, n, freed);
        }
        return n > 0;
    }
    /// Gives what changed, once, in exchange for an empty list: numbers of buffers, some of which may be free
    /// again.
    void take_changed(std::deque<std::uint32_t>& out) noexcept { changed_.swap(out); }
    void take_demands(std::deque<demand>& out) noexcept { demands_.swap(out); }
    /// Notes that the buffer was looked at: what happens to it from now on is a change.
    void look(std::uint32_t b) noexcept { table_.buffer(b).changed = 0; }

    /// Ends the protection of a copy that has just been acquired.
    void forget_acquired(std::uint32_t r) noexcept { table_[r].acquired = 0; }

    /// Counts the buffer among what changed.
    void mark(std::uint32_t b) noexcept {
        replicated_buffer& it = table_.buffer(b);
        if (it.changed) return;
        it.wanted  = 0;
        it.changed = 1;
        if (memory_lasts([&] { changed_.push_back(b); })) return;
        it.changed = 0;
        missed_    = true;
    }
    /// Marks the buffer when nobody reads it any more, or it is protected no longer.
    void mark_when_free(std::uint32_t b) noexcept { table_.buffer(b).wanted = 1; }
    /// Marks the buffer when there is more room.
    void mark_when_room(std::uint32_t b) noexcept {
        replicated_buffer& it = table_.buffer(b);
        if (it.unplaced) return;
        it.unplaced = memory_lasts([&] { unplaced_.push_back(b); });
        if (!it.unplaced) missed_ = true;
    }
    /// Notes that something that changed could not be looked at: in the next cycle, all has changed.
    void miss() noexcept { missed_ = true; }

    /// Calls f(buffer) for the next replicas of a store, `n` at most; goes round from call to call. Cost: O(n).
    template <class F>
    void go_round(std::uint16_t s, std::size_t n, F&& f) {
        std::uint32_t at = stores_[s].replicas.round;
        for (n = std::min<std::size_t>(n, stores_[s].replicas.count); n > 0; --n) {
            if (may_be_read(table_[at])) f(table_[at].buffer);
            at = table_[at].next;
        }
        stores_.set_round(s, at);
    }

    /// Returns whether a replica, which is somebody's, holds the buffer's bytes.
    bool may_be_read(replica_record const& r) const noexcept {
        bool const has =
            r.state == replica_state::here || r.state == replica_state::giving || r.state == replica_state::leaving;
        return has && stores_[r.store].state != store_state::lost;
    }
    /// Returns whether a replica is there to stay.
    bool stays(replica_record const& r) const noexcept {
        return r.state == replica_state::here && takes_part(r.store);
    }
    bool takes_part(std::uint16_t s) const noexcept {
        return stores_[s].state == store_state::running || stores_[s].state == store_state::paused;
    }
    /// Returns how many copies a buffer has to have: at least one.
    std::size_t needed(std::uint32_t b) const noexcept {
        std::size_t const n = table_.buffer(b).declared;
        return std::max<std::size_t>(n == everywhere ? stores_.emptiest().size() : n, 1);
    }

    replica_table const& table() const noexcept { return table_; }
    fleet_stores const&  stores() const noexcept { return stores_; }
    std::uint64_t        cycle() const noexcept { return cycle_; }

    /// Returns the stores' names, as errors list them.
    std::string names() const {
        std::string out;
        for (std::uint16_t s = 0; s < stores_.size(); ++s)
            if (!is_over(stores_[s].state)) out += (out.empty() ? "" : ", ") + stores_[s].name;
        return out.empty() ? "none" : out;
    }

private:
    static constexpr std::size_t retries_in_a_cycle = 4096;

    static std::uint8_t tag(std::uint64_t cycle) noexcept {
        return static_cast<std::uint8_t>(cycle % (protected_cycles + 2) + 1);
    }

    /// Returns the nearest replica that may be read, which stays if it was to leave for want of another.
    std::uint32_t nearest(std::uint32_t b, std::span<std::uint16_t const> except = {}) {
        std::uint32_t best    = none;
        auto const    further = [&](std::uint32_t r) {
            fleet_store const& s = stores_[table_[r].store];
            return std::tuple(table_[r].state == replica_state::leaving, s.late > cycle_, s.distance);
        };
        table_.for_each(b, [&](std::uint32_t r) {
            if (!may_be_read(table_[r]) || std::ranges::find(except, table_[r].store) != except.end()) return;
            if (best == none || further(r) < further(best)) best = r;
        });
        if (best != none && table_[best].state == replica_state::leaving) stay(best);
        return best;
    }

    void count_leaving(std::uint32_t r, bool leaves) {
        std::size_t const bytes = table_.bytes(r);
        stores_.change(table_[r].store, [&](fleet_store& s) { leaves ? s.leaving += bytes : s.leaving -= bytes; });
    }

    /// Takes a replica from its buffer. Its memory is freed now or, if somebody uses it, afterwards.
    template <class F>
    void release(std::uint32_t r, F&& freed) {
        replica_record& it = table_[r];
        if (it.state == replica_state::arriving) {
            table_.detach(r);
            it.state = replica_state::cancelled;
            return;
        }
        stay(r);
        if (it.readers == 0) return erase(r, freed);
        table_.detach(r);
        it.state = replica_state::abandoned;
    }

    template <class F>
    void erase(std::uint32_t r, F&& freed) {
        freed(r);
        replica_record const& it      = table_[r];
        std::size_t const     bytes   = table_.bytes(r);
        bool const            arrives = it.state == replica_state::arriving || it.state == replica_state::cancelled;
        if (!replica_table::detached(it)) table_.detach(r);
        stores_.change(it.store, [&](fleet_store& s) {
            (arrives ? s.arriving : s.used) -= bytes;
            table_.remove_replica(r, s.replicas);
        });
    }

    void look_at_all(std::uint16_t s) {
        stores_.change(s, [&](fleet_store& it) {
            it.replicas.cursor = it.replicas.first;
            it.unswept         = it.replicas.count;
        });
        unswept_ = true;
    }

    /// Looks at replicas of a store whose state changed, `n` at most. Returns how many more it could.
    template <class F>
    std::size_t sweep(std::uint16_t s, std::size_t n, F&& freed) {
        if (stores_[s].unswept == 0) return n;
        std::uint32_t left = std::min(stores_[s].unswept, stores_[s].replicas.count);
        for (; left > 0 && n > 0; --left, --n) {
            std::uint32_t const r = stores_[s].replicas.cursor;
            stores_.set_cursor(s, table_[r].next);
            if (replica_table::detached(table_[r])) continue;
            std::uint32_t const b = table_[r].buffer;
            if (stores_[s].state == store_state::lost) release(r, freed);
            mark(b);
        }
        stores_.change(s, [&](fleet_store& it) { it.unswept = left; });
        unswept_ = unswept_ || left > 0;
        return n;
    }

    replica_table             table_;
    fleet_stores              stores_;
    std::uint64_t             cycle_ = 0;
    std::deque<std::uint32_t> changed_;
    std::deque<demand>        demands_;
    std::deque<std::uint32_t> unplaced_;
    std::size_t               retries_ = 0, retries_now_ = 0;  // of unplaced_: altogether, and in this cycle
    bool                      missed_ = false, unswept_ = false;

    std::array<std::deque<std::uint32_t>, protected_cycles + 2> acquired_;  // in which cycle
};

}  // namespace tenure::detail
