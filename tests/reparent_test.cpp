// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A batch gets another parent, with all that is below it.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/detail/timing/deadlines.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "counted.hpp"
#include "throws.hpp"
#include "virtual_clock.hpp"

namespace {

using namespace tenure;
using namespace std::chrono_literals;

/// A registry on virtual time, and nothing left in it.
struct fresh {
    registry   r{on_virtual_time()};
    accounting books{r};
};

using kilobyte = std::array<char, 1000>;

}  // namespace

TEST_SUITE("a batch that gets another parent") {
    TEST_CASE_FIXTURE(fresh, "ends with that, and not with the one that it had") {
        int        ends = 0;
        auto const made = [&](batch_id id) {
            auto const in = r.enter(id);
            return make<counted>(ends);
        };
        batch_id const before = r.new_batch({.name = "before"}), after = r.new_batch({.name = "after"});
        batch_id const moved = r.new_batch({.name = "moved"}, before), below = r.new_batch({}, moved);
        auto const     h = made(moved);
        auto const     l = made(below);
        CHECK(r.parent(moved) == before);
        r.reparent(moved, after);
        CHECK(r.parent(moved) == after);
        CHECK(r.parent(below) == moved);
        CHECK(r.is_ancestor(after, below));
        CHECK_FALSE(r.is_ancestor(before, below));
        CHECK(r.snapshot(after).batches.size() == 3);
        CHECK(r.snapshot(before).batches.size() == 1);
        r.end_batch(before);
        CHECK(r.status(before) == batch_status::done);
        CHECK(ends == 0);
        CHECK((h.alive() && l.alive()));
        made(moved);
        r.end_batch(after);
        CHECK(ends == 3);
        for (batch_id const id : {after, moved, below}) CHECK(r.status(id) == batch_status::done);
    }

    TEST_CASE_FIXTURE(fresh, "publishes what was built apart") {
        batch_owner const cache(r, {.name = "cache"});
        handle<int>       h;
        batch_id          built;
        {
            batch_scope b(r, {.name = "built"});
            h     = b.make<int>(5);
            built = b.detach();
        }
        r.reparent(built, cache.id());
        CHECK(*h == 5);
        CHECK(h.owner() == built);
        CHECK(r.parent(built) == cache.id());
        r.end_batch(cache.id());
        CHECK_FALSE(h.alive());
        CHECK(r.status(built) == batch_status::done);  // though it had been detached
    }

    TEST_CASE("goes before it when their registry does") {
        std::vector<int> ended;
        {
            registry       r;
            batch_id const moved = r.new_batch({.long_lived = true});
            batch_id const below = r.new_batch({.long_lived = true}, moved);
            batch_id const to    = r.new_batch({.long_lived = true});
            for (auto const& [id, n] : {std::pair(moved, 2), {below, 1}, {to, 3}}) {
                auto const in = r.enter(id);
                defer([&ended, place = n] { ended.push_back(place); });
            }
            r.reparent(moved, to);
        }
        CHECK(ended == std::vector{1, 2, 3});
    }

    TEST_CASE_FIXTURE(fresh, "may have a guard, which stays where it is") {
        batch_owner const elsewhere(r, {.name = "elsewhere"});
        batch_scope       outer(r, {.name = "outer"});
        handle<int>       kept, gone;
        {
            batch_scope b;
            gone = b.make<int>(1);
            SUBCASE("to a batch without one") {
                b.reparent(elsewhere.id());
                CHECK(r.parent(b.id()) == elsewhere.id());
                kept = b.keep(b.make<int>(2));
                CHECK(kept.owner() == elsewhere.id());
            }
            SUBCASE("to one above its parent") {
                batch_scope c;
                c.reparent(outer.id());
                CHECK(r.parent(c.id()) == outer.id());
                kept = c.keep(c.make<int>(2));
                CHECK(kept.owner() == outer.id());
            }
            SUBCASE("to the root") {
                b.reparent(r.root());
                CHECK(r.parent(b.id()) == r.root());
                kept = b.make<int>(2);
                transfer_ownership(kept, outer.id());
            }
            SUBCASE("to where it is") {
                b.reparent(outer.id());
                kept = b.keep(b.make<int>(2));
                CHECK(kept.owner() == outer.id());
            }
            SUBCASE("and back") {
                b.reparent(elsewhere.id());
                b.reparent(r.root());
                b.reparent(outer.id());
                batch_scope const nested;
                CHECK(r.parent(nested.id()) == b.id());
                kept = keep_to(outer.id(), make<int>(2));
            }
            CHECK(current_batch() == b.id());
        }
        CHECK(current_batch() == outer.id());
        CHECK_FALSE(gone.alive());
        CHECK(*kept == 2);
    }

    TEST_CASE_FIXTURE(fresh, "has its parent end while its guard is open") {
        std::optional<batch_owner> elsewhere(std::in_place, r, batch_options{.name = "elsewhere"});
        batch_id const             id = elsewhere->id();
        batch_scope                b(r);
        auto const                 h = b.make<int>(1);
        b.reparent(id);
        elsewhere.reset();  // ends this thread's guards below it, as any end does
        CHECK_FALSE(h.alive());
        CHECK(r.status(id) == batch_status::done);
    }

    TEST_CASE_FIXTURE(fresh, "and a guard of another thread is asked to stop by its new parent") {
        batch_id const   to = r.new_batch({.name = "to"});
        std::atomic<int> step{0};
        std::thread      other([&] {
            batch_scope b(r);
            b.reparent(to);
            step = 1;
            while (step == 1) std::this_thread::yield();
            CHECK(b.try_make<int>(1).error() == errc::batch_ended);
        });
        while (step == 0) std::this_thread::yield();
        r.end_batch(to);
        CHECK(r.status(to) == batch_status::ending);
        step = 2;
        other.join();
        CHECK(r.status(to) == batch_status::done);
    }
}

TEST_SUITE("the limits of a batch that gets another parent") {
    TEST_CASE_FIXTURE(fresh, "are those of the batches above it then, and count what is in use in the tree") {
        for (bool const own : {false, true}) {
            CAPTURE(own);
            batch_id const free  = r.new_batch({.name = "free"});
            batch_id const tight = r.new_batch({.name = "tight", .limits = {.hard = 10'000}});
            batch_id const wide  = r.new_batch({.name = "wide", .limits = {.hard = 100'000}}, tight);
            batch_id const b     = r.new_batch({.name = "b", .limits = {.hard = own ? 50'000u : no_limit}}, free);
            batch_id const below = r.new_batch({.name = "below"}, b);
            auto const     fill  = [&](batch_id id, int n) {
                auto const in   = r.enter(id);
                int        made = 0;
                while (made < n && try_make<kilobyte>()) ++made;
                return made;
            };
            CHECK(fill(b, 2) == 2);
            CHECK(fill(below, 4) == 4);
            r.reparent(b, tight);
            CHECK(fill(tight, 100) == 4);
            CHECK(fill(below, 1) == 0);
            r.reparent(b, wide);  // both charge `tight`
            CHECK(fill(tight, 100) == 0);
            r.reparent(b, free);
            CHECK(fill(tight, 100) == 6);
            CHECK(fill(below, 30) == 30);
            CHECK(r.try_reparent(b, wide).error() == errc::limit_exceeded);
            check_throws(errc::limit_exceeded, {"move batch 'tight'", "limit 10000"},
                         [&] { r.reparent(b, tight); });
            CHECK(r.parent(b) == free);
            CHECK(fill(b, 100) == (own ? 14 : 100));
            r.end_batch(b);
            CHECK(fill(tight, 100) == 0);
            r.end_batch(tight);
            r.end_batch(free);
        }
    }

    TEST_CASE_FIXTURE(fresh, "count buffers, and are given back at its end") {
        batch_id const tight = r.new_batch({.name = "tight", .limits = {.hard = 10'000}});
        batch_id const b     = r.new_batch({.name = "b"});
        {
            auto const in = r.enter(b);
            make_buffer<char>(6000);
        }
        r.reparent(b, tight);
        {
            auto const in = r.enter(tight);
            CHECK(try_make<std::array<char, 6000>>().error() == errc::limit_exceeded);
            r.end_batch(b);
            CHECK(try_make<std::array<char, 6000>>());
        }
        r.end_batch(tight);
    }

    TEST_CASE_FIXTURE(fresh, "and deadlines, too") {
        batch_id const timed = r.new_batch({.name = "timed", .timeout = 10s});
        batch_id const b = r.new_batch({.name = "b"}), below = r.new_batch({}, b);
        batch_id const leaves = r.new_batch({.name = "leaves"}, timed);
        r.reparent(b, timed);
        r.reparent(leaves, r.root());
        pass(11s);
        r.expire_overdue();
        for (batch_id const id : {timed, b, below}) CHECK(r.status(id) == batch_status::expired);
        CHECK(r.status(leaves) == batch_status::active);
        CHECK(r.try_reparent(leaves, timed).error() == errc::expired);
        r.end_batch(leaves);
    }
}

TEST_SUITE("a batch does not get another parent, and all is as it was,") {
    TEST_CASE_FIXTURE(fresh, "if that is not above it") {
        batch_id const a = r.new_batch({.name = "a"}), b = r.new_batch({}, a), c = r.new_batch({}, b);
        CHECK(r.try_reparent(a, c).error() == errc::below_itself);
        check_throws(errc::below_itself, {"move batch 'a'", "not below it"}, [&] { r.reparent(a, a); });
        CHECK(r.try_reparent(r.root(), a).error() == errc::not_owner);
        CHECK(r.try_reparent(a, batch_id{12345}).error() == errc::no_such_batch);
        CHECK(r.try_reparent(batch_id{12345}, a).error() == errc::no_such_batch);
        registry       other;
        batch_id const theirs = other.new_batch();
        CHECK(r.try_reparent(a, theirs).error() == errc::no_such_batch);
        batch_id const over = r.new_batch();
        r.end_batch(over);
        CHECK(r.try_reparent(a, over).error() == errc::batch_ended);
        CHECK(r.try_reparent(over, a).error() == errc::batch_ended);
        other.end_batch(theirs);
        r.end_batch(a);
    }

    TEST_CASE_FIXTURE(fresh, "if something of it is in use") {
        batch_id const to = r.new_batch({.name = "to"}), a = r.new_batch({.name = "a"}),
                       b = r.new_batch({.name = "b"}, a);
        SUBCASE("by a thread inside") {
            auto const in = r.enter(b);
            std::thread([&] { CHECK(r.try_reparent(a, to).error() == errc::batch_in_use); }).join();
            CHECK(r.parent(a) == r.root());
        }
        SUBCASE("by a pin") {
            handle<int> h;
            {
                auto const in = r.enter(b);
                h             = make<int>(1);
            }
            batch_scope user(r);
            user.borrow(h);
            check_throws(errc::batch_in_use, {"move batch"}, [&] { r.reparent(a, to); });
            CHECK(r.parent(a) == r.root());
        }
        SUBCASE("by a guard that is nested there") {
            batch_scope outer(r);
            batch_scope nested;
            CHECK(outer.try_reparent(to).error() == errc::batch_in_use);
            CHECK(r.parent(outer.id()) == r.root());
        }
        SUBCASE("by a guard in one below it") {
            auto const  in = r.enter(b);
            batch_scope nested;
            CHECK(r.try_reparent(a, to).error() == errc::batch_in_use);
            CHECK(r.parent(a) == r.root());
        }
        SUBCASE("by a guard of another thread") {
            batch_scope mine(r);
            std::thread([&] { CHECK(r.try_reparent(mine.id(), to).error() == errc::batch_in_use); }).join();
            CHECK(r.parent(mine.id()) == r.root());
        }
        SUBCASE("by a checkpoint") {
            batch_scope mine(r);
            mine.checkpoint();
            CHECK(mine.try_reparent(to).error() == errc::not_restorable);
            CHECK(r.try_reparent(a, mine.id()).error() == errc::not_restorable);
        }
        r.reparent(a, to);
        CHECK(r.parent(a) == to);
        r.end_batch(to);
        CHECK(r.status(b) == batch_status::done);
    }
}

TEST_SUITE("batches that get other parents") {
    // Whoever ends above one that moves meets it there, or passes it over, and then the mover sees to it.
    TEST_CASE_FIXTURE(fresh, "while others end, cancel and open above, below and beside them") {
        int const rounds = TENURE_SANITIZED ? 200 : 700;
        for (int i = 0; i < rounds; ++i) {
            batch_id const        a = r.new_batch({.name = "a"}), b = r.new_batch({.name = "b"});
            batch_id const        moved = r.new_batch({.name = "moved"}, a);
            std::vector<batch_id> below(3);
            for (batch_id& id : below) id = r.new_batch({}, moved);
            batch_id const   lowest = r.new_batch({.name = "lowest"}, below[1]);
            std::atomic<int> ready{0};
            auto const       begin = [&] {
                ++ready;
                while (ready < 3) std::this_thread::yield();
            };
            std::thread mover([&] {
                begin();
                for (int n = 0; n < 4; ++n) static_cast<void>(r.try_reparent(moved, n % 2 ? a : b));
            });
            std::thread ender([&] {
                begin();
                if (i % 3 == 0) r.end_batch(a);
                else if (i % 3 == 1) r.cancel(a);
                else r.end_batch(below[1]);
            });
            begin();
            try {
                auto const  in = r.enter(i % 2 ? moved : lowest);
                batch_scope opened;
                opened.make<int>(i);
            } catch (error const& e) {
                CHECK((e.code() == errc::batch_ended || e.code() == errc::cancelled));
            }
            mover.join();
            ender.join();
            if (i % 3 != 2 && r.status(moved) == batch_status::active) CHECK(r.parent(moved) == b);
            if (i % 3 == 2) CHECK(r.status(lowest) != batch_status::active);
            if (i % 3 == 1)
                for (batch_id const id : {moved, lowest})
                    CHECK((r.status(id) == batch_status::active || r.status(id) == batch_status::cancelled));
            r.end_batch(a);
            r.end_batch(b);
            for (batch_id const id : {a, b, moved, lowest, below[0], below[1], below[2]})
                CHECK(r.status(id) != batch_status::active);
            CHECK(r.snapshot().batches.size() == 1);
        }
    }

    TEST_CASE_FIXTURE(fresh, "or try to in vain, miss no end") {
        int const rounds = TENURE_SANITIZED ? 200 : 700;
        for (int i = 0; i < rounds; ++i) {
            batch_id const        a = r.new_batch({.name = "a"}), moved = r.new_batch({.name = "moved"}, a);
            batch_id const        full = r.new_batch({.name = "full", .limits = {.hard = 1}});
            std::vector<batch_id> below(4);
            for (batch_id& id : below) id = r.new_batch({}, moved);
            batch_id const lowest = r.new_batch({.name = "lowest"}, below[1]);
            {
                auto const in = r.enter(moved);
                make<int>(i);
            }
            std::atomic<bool> ready{false}, over{false};
            std::thread       mover([&] {
                for (ready = true; !over;) {
                    auto const refused = r.try_reparent(moved, full).error();
                    CAPTURE(refused.message());
                    CHECK((refused == errc::limit_exceeded || refused == errc::batch_in_use ||
                           refused == errc::batch_ended || refused == errc::cancelled));
                }
            });
            while (!ready) std::this_thread::yield();
            if (i % 3 == 0) r.end_batch(a);
            else if (i % 3 == 1) r.cancel(a);
            else r.end_batch(below[1]);
            over = true;
            mover.join();
            CHECK(r.status(lowest) == (i % 3 == 1 ? batch_status::cancelled : batch_status::done));
            if (i % 3 != 2) CHECK(r.status(moved) == r.status(lowest));
            r.end_batch(a);
            r.end_batch(full);
        }
    }

    TEST_CASE_FIXTURE(fresh, "are asked to stop, not ended, if they have a guard") {
        int const rounds = TENURE_SANITIZED ? 200 : 1000;
        for (int i = 0; i < rounds; ++i) {
            batch_id const    to = r.new_batch({.name = "to"});
            std::atomic<bool> ready{false};
            std::thread       ender([&] {
                while (!ready) std::this_thread::yield();
                r.end_batch(to);
            });
            {
                batch_scope b(r);
                auto const  h = b.make<int>(i);
                ready         = true;
                static_cast<void>(b.try_reparent(to));
                CHECK(*h == i);
                ender.join();
                CHECK(*h == i);
            }
            CHECK(r.status(to) == batch_status::done);
        }
    }

    TEST_CASE_FIXTURE(fresh, "charge their limits once, whoever moves what is above and below them") {
        int const      rounds = TENURE_SANITIZED ? 100 : 500;
        batch_id const here   = r.new_batch({.name = "here", .limits = {.hard = 100'000}});
        batch_id const there  = r.new_batch({.name = "there", .limits = {.hard = 100'000}});
        for (int i = 0; i < rounds; ++i) {
            batch_id const from = r.new_batch({.name = "from"}, here), top = r.new_batch({.name = "top"}, from);
            batch_id const below = r.new_batch({.name = "below"}, top), away = r.new_batch({.name = "away"});
            for (batch_id const id : {top, below}) {
                auto const in = r.enter(id);
                make<kilobyte>();
            }
            std::atomic<int> ready{0};
            auto const       move = [&](batch_id what, batch_id where) {
                ++ready;
                while (ready < 2) std::this_thread::yield();
                static_cast<void>(r.try_reparent(what, where));
            };
            std::thread one([&] { move(top, away); });
            move(from, there);
            one.join();
            for (batch_id const id : {from, away}) r.end_batch(id);
        }
        for (batch_id const id : {here, there}) {
            {
                auto const in   = r.enter(id);
                int        made = 0;
                while (try_make<kilobyte>()) ++made;
                CHECK(made == 100);
            }
            r.end_batch(id);
        }
    }

    TEST_CASE_FIXTURE(fresh, "make no ring, whoever moves what at the same time") {
        int const rounds = TENURE_SANITIZED ? 50 : 300;
        for (int i = 0; i < rounds; ++i) {
            std::vector<batch_id> all(4);
            for (batch_id& id : all) id = r.new_batch();
            std::vector<std::thread> movers;
            for (std::size_t t = 0; t < 3; ++t)
                movers.emplace_back([&, t] {
                    for (std::size_t n = 0; n < 20; ++n)
                        static_cast<void>(r.try_reparent(all[(n + t) % 4], all[(n * 3 + t * t + 1) % 4]));
                });
            for (auto& m : movers) m.join();
            CHECK(r.snapshot().batches.size() == 5);
            for (batch_id const id : all) {
                batch_id up = id;
                for (int n = 0; n < 5 && up != r.root(); ++n) up = r.parent(up);
                CHECK(up == r.root());
            }
            for (batch_id const id : all) r.end_batch(id);
            CHECK(r.snapshot().batches.size() == 1);
        }
    }
}
