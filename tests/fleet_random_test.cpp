// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A group of stores that exist only here, on virtual time: stores fail, stall, fill up and return while buffers are
// made, read, written and freed, and all policies run. What the stores really hold is compared with what the group
// believes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/fleet/planner.hpp>
#include <tenure/fleet/policies.hpp>

#include "random/dice.hpp"

namespace {

using tenure::store_state;
using tenure::detail::fleet_state;
using tenure::detail::judge;

/// Proposes whatever comes to its mind.
struct at_random {
    dice* random;

    void propose(tenure::fleet_view const& view, tenure::plan& proposals) const {
        auto const stores = view.stores();
        for (auto const& b : view.changed()) {
            if (stores.empty() || !random->one_in(4)) continue;
            auto const s = stores[random->below(stores.size())].id, other = stores[random->below(stores.size())].id;
            switch (random->below(5)) {
            case 0: proposals.replicate(b); break;
            case 1: proposals.replicate(b, {s, other}); break;
            case 2: proposals.drop(b, {s}); break;
            case 3: proposals.move(b, s); break;
            default: proposals.drop(b);
            }
        }
    }
};

class world {
public:
    explicit world(std::uint64_t seed) : random_(seed) {
        planner_.add(at_random{&random_});
        planner_.add(tenure::retire_store{});
        planner_.add(tenure::keep_replicas(2));
        planner_.add(tenure::promote_demanded({.reads = 2, .fade = 15}));
        planner_.add(tenure::reduce_replicas{2});
        planner_.add(tenure::relieve_full_stores{});
        planner_.add(tenure::fill_new_store{});
        planner_.add(tenure::rebalance{});
        for (int i = 0; i < 4; ++i) add_store();
    }

    void step() {
        ++now_;
        finish_some();
        switch (random_.below(24)) {
        case 0:
        case 1:
        case 2: make(); break;
        case 3:
        case 4: free(); break;
        case 5:
        case 6: write(); break;
        case 7:
        case 8:
        case 9: read(); break;
        case 10:
        case 11: end_read(); break;
        case 12: declare(); break;
        case 13: demand(); break;
        case 14:
        case 15: cycle(); break;
        case 16:
            if (random_.one_in(8)) change_store();
            break;
        case 17:
            if (random_.one_in(40)) kill();
            break;
        case 18: others(); break;
        default: start_some();
        }
        if (now_ % 997 == 0) compare();
    }

    void compare() const {
        std::map<std::uint16_t, std::size_t> used;
        for (auto const& [r, there] : held_) {
            REQUIRE(fleet().table().has_replica(r));
            if (!stores_[there.store].lives) continue;
            used[there.store] += there.bytes;
        }
        for (std::uint16_t s = 0; s < stores_.size(); ++s) {
            if (!stores_[s].lives) continue;
            std::size_t arriving = 0;
            for (copy const& c : copies_) arriving += c.to == s ? c.bytes : 0;
            for (judge::order const& o : orders_)
                if (o.what == judge::order::kind::copy && fleet().table()[o.replica].store == s)
                    arriving += fleet().table().bytes(o.replica);
            CHECK(fleet().stores()[s].used == used[s]);
            CHECK(fleet().stores()[s].arriving == arriving);
        }
        for (auto const& [b, it] : buffers_)
            fleet().table().for_each(b, [&, value = it.value](std::uint32_t r) {
                auto const& record = fleet().table()[r];
                if (fleet().may_be_read(record) && stores_[record.store].lives) CHECK(held_.at(r).value == value);
            });
    }

    struct figures {
        std::size_t lost = 0, lost_with_a_copy = 0, over_limit = 0, dropped_soon = 0, wrong_reads = 0;
        std::size_t copied = 0, dropped = 0, failed = 0, retired = 0, reads = 0;
    } seen;

private:
    struct buffer {
        std::uint64_t value;
        std::size_t   bytes;
    };
    struct held {
        std::uint16_t                store;
        std::uint64_t                value;
        std::size_t                  bytes;
        std::optional<std::uint64_t> copied_in{};  // which cycle
    };
    struct copy {
        std::uint32_t replica;
        std::uint16_t from, to;
        std::uint64_t value;
        std::size_t   bytes;
        std::uint64_t until;
    };
    struct store {
        bool lives;
    };

    fleet_state const& fleet() const { return core_.state; }
    fleet_state&       fleet() { return core_.state; }

    auto freed() {
        return [this](std::uint32_t r) { held_.erase(r); };
    }

    void add_store() {
        fleet().add_store("store " + std::to_string(stores_.size()), 2000 + random_.below(2000),
                          static_cast<double>(random_.below(3)));
        stores_.push_back({true});
    }

    template <class Map>
    auto any_of(Map& all) {
        auto it = all.lower_bound(static_cast<std::uint32_t>(random_.below(all.rbegin()->first + 1)));
        return it == all.end() ? all.begin() : it;
    }

    std::optional<std::uint16_t> any_store(store_state state) {
        std::vector<std::uint16_t> some;
        for (std::uint16_t s = 0; s < stores_.size(); ++s)
            if (fleet().stores()[s].state == state) some.push_back(s);
        if (some.empty()) return {};
        return some[random_.below(some.size())];
    }

    void make() {
        auto const s = any_store(store_state::running);
        if (!s || !stores_[*s].lives || buffers_.size() > 150) return;
        std::size_t const bytes = random_.one_in(20) ? 0 : 1 + random_.below(60);
        if (!fleet().stores()[*s].has_room(bytes)) return;  // as the store itself would say
        std::uint32_t const b                  = fleet().add_buffer(bytes, *s);
        buffers_[b]                            = {++values_, bytes};
        held_[fleet().table().buffer(b).first] = {*s, values_, bytes};
    }

    void free() {
        if (buffers_.empty()) return;
        auto const it = any_of(buffers_);
        fleet().remove_buffer(it->first, freed());
        buffers_.erase(it);
    }

    /// Begins to read as who reads does: a store that does not answer is lost, and the next copy is tried.
    std::uint32_t find(std::uint32_t b) {
        for (;;) {
            std::uint32_t const r = fleet().begin_read(b);
            if (r == fleet_state::none) {
                count_lost(b);
                return r;
            }
            if (stores_[fleet().table()[r].store].lives) return r;
            fleet().set_state(fleet().table()[r].store, store_state::lost);
            fleet().end_read(r, freed());
        }
    }

    void count_lost(std::uint32_t b) {
        ++seen.lost;
        for (auto const& [r, h] : held_)
            if (stores_[h.store].lives && h.value == buffers_[b].value) ++seen.lost_with_a_copy;
        auto const s = any_store(store_state::running);  // it is made again by its recipe
        if (!s || !stores_[*s].lives) return;
        held_[fleet().add_copy(b, *s)] = {*s, buffers_[b].value, buffers_[b].bytes};
    }

    void read() {
        if (buffers_.empty() || reads_.size() > 20) return;
        auto const          it = any_of(buffers_);
        std::uint32_t const r  = find(it->first);
        if (r == fleet_state::none) return;
        ++seen.reads;
        seen.wrong_reads += held_.at(r).value != it->second.value;
        reads_.push_back(r);
    }
    void end_read() {
        if (reads_.empty()) return;
        std::swap(reads_[random_.below(reads_.size())], reads_.back());
        fleet().end_read(reads_.back(), freed());
        reads_.pop_back();
    }

    void write() {
        if (buffers_.empty()) return;
        auto const          it = any_of(buffers_);
        std::uint32_t const r  = find(it->first);
        if (r == fleet_state::none) return;
        it->second.value = held_.at(r).value = ++values_;
        fleet().written(r, freed());
        fleet().end_read(r, freed());
    }

    void declare() {
        if (buffers_.empty()) return;
        std::uint64_t const n = random_.below(12);
        fleet().declare(any_of(buffers_)->first, n == 11 ? fleet_state::everywhere : n < 4 ? std::uint32_t(n) : 0);
    }

    void demand() {
        auto const s = any_store(store_state::running);
        if (buffers_.empty() || !s) return;
        std::uint32_t const b = any_of(buffers_)->first;
        for (int i = 0; i < 3; ++i) fleet().note_demand(b, *s);
    }

    void change_store() {
        static constexpr store_state states[]{store_state::running, store_state::paused, store_state::retiring};
        auto const                   from = states[random_.below(3)];
        auto const                   s    = any_store(from);
        if (!s) return;
        seen.retired += from == store_state::retiring && fleet().stores()[*s].replicas.count == 0;
        fleet().set_state(*s, states[random_.below(3)]);
        if (random_.one_in(3)) fleet().set_capacity(*s, 1000 + random_.below(3000));
    }

    void kill() {
        auto const s = static_cast<std::uint16_t>(random_.below(stores_.size()));
        if (!stores_[s].lives) return;
        stores_[s].lives = false;  // which nobody knows yet
        if (random_.one_in(2)) fleet().set_state(s, store_state::lost);
        add_store();
    }

    void others() {
        if (auto const s = any_store(store_state::running))
            fleet().set_others(*s, random_.one_in(3) ? random_.below(1500) : 0);
    }

    void cycle() {
        std::vector<std::size_t> free;
        for (std::uint16_t s = 0; s < stores_.size(); ++s) free.push_back(fleet().stores()[s].arriving);
        auto const report = planner_.run(core_, {.dry = random_.one_in(10), .most_decisions = 0}, freed());
        for (auto const& p : report.policies) CHECK(p.error.empty());
        for (std::uint16_t s = 0; s < stores_.size(); ++s) {
            auto const& it = fleet().stores()[s];
            seen.over_limit += it.arriving > free[s] && it.taken() > it.capacity;
        }
        for (; !core_.orders.empty(); core_.orders.pop_front()) orders_.push_back(core_.orders.front());
    }

    void start_some() {
        for (std::uint64_t n = random_.below(4); n > 0 && !orders_.empty(); --n) {
            judge::order const o = orders_.front();
            orders_.pop_front();
            if (o.what == judge::order::kind::copy) start(o.replica);
            else drop(o.replica);
        }
    }

    void start(std::uint32_t r) {
        std::uint32_t const from = fleet().begin_copy(r, freed());
        if (from == fleet_state::none) return;
        std::uint64_t const stalls = random_.one_in(50) ? 3000 : 0;
        copies_.push_back({r, fleet().table()[from].store, fleet().table()[r].store, held_.at(from).value,
                           fleet().table().bytes(r), now_ + random_.below(60) + stalls});
    }

    void finish_some() {
        for (std::size_t i = 0; i < copies_.size();) {
            if (copies_[i].until > now_) {
                ++i;
                continue;
            }
            copy const c = copies_[i];
            copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(i));
            bool const ok = stores_[c.from].lives && stores_[c.to].lives && !random_.one_in(30);
            if (!stores_[c.to].lives) fleet().set_state(c.to, store_state::lost);
            if (!stores_[c.from].lives) fleet().set_state(c.from, store_state::lost);
            held_[c.replica] = {c.to, c.value, c.bytes, fleet().cycle()};
            fleet().finish_copy(c.replica, ok, freed());
            (ok ? seen.copied : seen.failed) += 1;
            core_.proposals.settle(core_.orders);
        }
    }

    /// Drops as who carries it out does: asks the other copies' stores first whether they live.
    void drop(std::uint32_t r) {
        auto const& table = fleet().table();
        if (table.has_replica(r) && table[r].state == tenure::detail::replica_state::leaving)
            table.for_each(table[r].buffer, [&](std::uint32_t other) {
                if (!stores_[table[other].store].lives) fleet().set_state(table[other].store, store_state::lost);
            });
        if (core_.proposals.carry_out_drop(r, [&](std::uint32_t gone) {
                auto const cycle = held_.at(gone).copied_in;
                seen.dropped_soon += cycle && fleet().cycle() - *cycle <= fleet_state::protected_cycles;
                held_.erase(gone);
            }))
            ++seen.dropped;
    }

    dice                            random_;
    tenure::detail::fleet_core      core_;
    tenure::detail::planner         planner_;
    std::vector<store>              stores_;
    std::map<std::uint32_t, buffer> buffers_;
    std::map<std::uint32_t, held>   held_;  // by replica: what is really there
    std::vector<copy>               copies_;
    std::vector<std::uint32_t>      reads_;
    std::deque<judge::order>        orders_;
    std::uint64_t                   now_ = 0, values_ = 0;
};

}  // namespace

TEST_SUITE("fleet at random") {
    TEST_CASE("stores that fail, stall, fill up and return lose nothing that another has") {
        std::uint64_t const steps = from_environment("TENURE_STEPS", TENURE_SANITIZED ? 100'000 : 400'000);
        std::uint64_t const seed  = from_environment("TENURE_SEED", 1);
        CAPTURE(seed);
        world::figures all;
        for (std::uint64_t done = 0, part = 0; done < steps; ++part) {
            world it(seed + part);
            CAPTURE(part);
            for (std::uint64_t const end = std::min(steps, done + 50'000); done < end; ++done) it.step();
            it.compare();
            CHECK(it.seen.lost_with_a_copy == 0);
            CHECK(it.seen.over_limit == 0);
            CHECK(it.seen.dropped_soon == 0);
            REQUIRE(it.seen.wrong_reads == 0);
            all.lost += it.seen.lost;
            all.copied += it.seen.copied;
            all.failed += it.seen.failed;
            all.dropped += it.seen.dropped;
            all.retired += it.seen.retired;
            all.reads += it.seen.reads;
        }
        MESSAGE(all.copied << " copied, " << all.failed << " failed, " << all.dropped << " dropped, " << all.retired
                           << " stores retired, " << all.lost << " lost, " << all.reads << " reads");
        CHECK(all.copied > steps / 100);
        CHECK(all.dropped > steps / 1000);
        CHECK(all.retired > 0);
        CHECK(all.lost > 0);
    }
}
