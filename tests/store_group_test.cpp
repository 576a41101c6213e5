// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/fleet.hpp>
#include <tenure/store/conformance.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/tenure.hpp>
#include <tenure/testing/faulty_store.hpp>

#include "accounting.hpp"
#include "random/dice.hpp"
#include "soon.hpp"
#include "throws.hpp"

namespace {

using namespace std::chrono_literals;
using tenure::any_store;
using tenure::buffer;
using tenure::errc;
using tenure::heap_store;
using tenure::store_group;
using tenure::store_operation;
using faulty = tenure::faulty_store<heap_store>;
using names  = std::vector<std::string>;

constexpr std::size_t mib = std::size_t{1} << 20;

/// A group of stores named a, b, c, whose failures are arranged. Their distances are 1, 2, 3.
struct group {
    explicit group(std::size_t stores = 3, std::size_t capacity = 64 * mib) {
        for (std::size_t i = 0; i < stores; ++i) {
            members.push_back(std::make_shared<faulty>(std::make_shared<heap_store>()));
            fleet.add(std::string(1, static_cast<char>('a' + i)), members.back(),
                      {.capacity = capacity, .distance = 1 + static_cast<double>(i)});
        }
    }

    void kill(std::size_t member) {
        members[member]->inject({.times = std::numeric_limits<std::uint64_t>::max(),
                                 .how   = tenure::faults::fails{make_error_code(errc::disconnected)}});
    }

    std::size_t used(std::size_t member) const { return members[member]->upstream()->usage().bytes; }

    std::vector<std::shared_ptr<faulty>> members;
    store_group                          fleet;
};

template <class T>
std::vector<T> contents(buffer<T> const& b) {
    std::vector<T> all(b.size());
    b.read(0, all);
    return all;
}

names sorted(names all) {
    std::ranges::sort(all);
    return all;
}

}  // namespace

TEST_SUITE("store group") {
    TEST_CASE("passes the suite of stores") {
        constexpr tenure::conformance_options less{
            .max_bytes = 1 << 20, .free_count = 2'000, .threads = 4, .steps = 300};
        constexpr tenure::conformance_options amount = TENURE_SANITIZED ? less : tenure::conformance_options{};
        auto const                            report = tenure::check_store(
            [] {
                store_group g;
                for (char const* const name : {"a", "b", "c"})
                    g.add(name, std::make_shared<heap_store>(), {.capacity = std::size_t{1} << 32});
                return std::make_shared<any_store>(g);
            },
            amount);
        INFO(report.to_text());
        CHECK(report.ok());
        auto const limited = tenure::check_store(
            [] {
                store_group g;
                g.add("one", std::make_shared<heap_store>(tenure::heap_options{.capacity = mib}));
                return std::make_shared<any_store>(g);
            },
            amount);
        INFO(limited.to_text());
        CHECK(limited.ok());
    }

    TEST_CASE("buffers go where they are asked to and else to the emptiest") {
        accounting const    books;
        group               g;
        tenure::batch_scope round;
        auto const          there = round.make_buffer<int>(1000, g.fleet["b"]);
        CHECK(tenure::replicas(there) == names{"b"});
        CHECK(g.used(1) == 4000);
        CHECK(tenure::replicas(round.make_buffer<int>(10, g.fleet)) == names{"a"});
        CHECK(tenure::replicas(round.make_buffer<int>(10, g.fleet)) == names{"c"});
        there.fill(7);
        CHECK(contents(there) == std::vector<int>(1000, 7));
        CHECK(there.stores() == std::vector<any_store>{g.fleet});
        auto const stores = g.fleet.stores();
        REQUIRE(stores.size() == 3);
        CHECK(stores[1].name == "b");
        CHECK(stores[1].bytes == 4000);
        CHECK(stores[1].copies == 1);
    }

    TEST_CASE("the end of a batch is one call to each store however many copies there are") {
        group g;
        {
            tenure::batch_scope round;
            for (int i = 0; i < 50; ++i) {
                auto const b = round.make_buffer<int>(100, g.fleet[i % 2 ? "a" : "b"]);
                tenure::replicate(b, g.fleet["c"]);
                if (i % 3 == 0) tenure::replicate(b, 3);
            }
            auto const plain = round.make_buffer<int>(100, g.fleet);
            plain.fill(1);
            for (auto const& m : g.members) CHECK(m->calls(store_operation::deallocate) == 0);
        }
        for (std::size_t i = 0; i < 3; ++i) {
            CHECK(g.members[i]->calls(store_operation::deallocate) == 1);
            CHECK(g.used(i) == 0);
        }
    }

    TEST_CASE("a read takes the nearest copy") {
        group               g;
        tenure::batch_scope round;
        auto const          b = round.make_buffer<int>(100, g.fleet["c"]);
        b.fill(3);
        auto const reads = [&](std::size_t i) { return g.members[i]->calls(store_operation::read); };
        tenure::replicate(b, g.fleet["b"]);
        auto const before = reads(1), far = reads(2);
        CHECK(contents(b) == std::vector<int>(100, 3));
        CHECK(reads(1) == before + 1);
        CHECK(reads(2) == far);
    }

    TEST_CASE("a write makes the copy that it writes the only one") {
        group               g;
        tenure::batch_scope round;
        auto const          b = round.make_buffer<int>(100, g.fleet["c"]);
        b.fill(1);
        CHECK(tenure::replicate(b, 3) == 3);
        std::vector<int> const two{2};
        b.write(5, two);
        CHECK(tenure::replicas(b) == names{"a"});
        CHECK(g.used(1) == 0);
        CHECK(g.used(2) == 0);
        std::vector<int> want(100, 1);
        want[5] = 2;
        CHECK(contents(b) == want);
        tenure::replicate(b, g.fleet["c"]);
        CHECK(contents(b) == want);
    }

    TEST_CASE("a write that fails in one store leaves the other copies as they were") {
        group               g;
        tenure::batch_scope round;
        auto const          b = round.make_buffer<int>(100, g.fleet["a"]);
        b.fill(1);
        tenure::replicate(b, g.fleet["b"]);
        g.members[0]->inject({.on = store_operation::write, .how = tenure::faults::shortens{.to = 200}});
        std::vector<int> const twos(100, 2);
        CHECK_FALSE(b.try_write(0, twos));
        CHECK(tenure::replicas(b) == names{"b"});
        CHECK(contents(b) == std::vector<int>(100, 1));
        // With one copy only, there is nothing to go back to.
        g.members[1]->inject({.on = store_operation::write, .how = tenure::faults::shortens{.to = 200}});
        CHECK_FALSE(b.try_write(0, twos));
        CHECK(tenure::replicas(b) == names{"b"});
        CHECK(contents(b)[0] == 2);
        CHECK(contents(b)[99] == 1);
    }

    TEST_CASE("a store that dies takes nothing with it that another has") {
        group               g;
        tenure::batch_scope round;
        auto const          both = round.make_buffer<int>(100, g.fleet["a"]);
        auto const          one  = round.make_buffer<int>(100, g.fleet["a"]);
        both.fill(1);
        one.fill(2);
        tenure::replicate(both, g.fleet["b"]);
        g.kill(0);
        CHECK(contents(both) == std::vector<int>(100, 1));
        CHECK(tenure::replicas(both) == names{"b"});
        std::vector<int> out(1);
        CHECK(one.try_read(0, out).error() == errc::store_lost);
        check_throws(errc::store_lost, {"a (lost)", "make it anew"}, [&] { one.read(0, out); });
        check_throws(errc::store_lost, {"b of group of a (lost), b, c", "verified copy"}, [&] {
            auto const place = any_store(g.fleet["b"]);
            tenure::replicate(one, place);
        });
        // A write goes to the copy that is left; and what was lost can be freed.
        both.fill(5);
        CHECK(contents(both) == std::vector<int>(100, 5));
        round.free(one);
        g.fleet.add("a", std::make_shared<heap_store>(), {.capacity = mib});  // it is back, and empty
        tenure::replicate(both, g.fleet["a"]);
        CHECK(sorted(tenure::replicas(both)) == names{"a", "b"});
    }

    TEST_CASE("a store that is late is passed over until the next cycle and stays") {
        group                  g;
        tenure::memory_manager manager(g.fleet);
        tenure::batch_scope    round;
        auto const             b = round.make_buffer<int>(100, g.fleet["a"]);
        b.fill(1);
        tenure::replicate(b, g.fleet["b"]);
        g.members[0]->inject(
            {.on = store_operation::read, .how = tenure::faults::fails{make_error_code(errc::timed_out)}});
        auto const before = g.members[0]->calls(store_operation::read);
        CHECK(contents(b) == std::vector<int>(100, 1));
        CHECK(contents(b) == std::vector<int>(100, 1));
        CHECK(g.members[0]->calls(store_operation::read) == before + 1);
        manager.run_once();
        CHECK(contents(b) == std::vector<int>(100, 1));
        CHECK(g.members[0]->calls(store_operation::read) == before + 2);
        CHECK(tenure::replicas(b).size() == 2);
    }

    TEST_CASE("a copy is counted before it starts and given up cleanly") {
        group               g(2, 1000);
        tenure::batch_scope round;
        auto const          b = round.make_buffer<char>(600, g.fleet["a"]);
        b.fill('x');
        auto const other = round.make_buffer<char>(500, g.fleet["b"]);
        check_throws(errc::store_full, {"replicate", "b of group", "no candidate has room"},
                     [&] { tenure::replicate(b, g.fleet["b"]); });
        CHECK(round.try_make_buffer<char>(501, g.fleet["b"]).error() == errc::store_full);
        CHECK(round.try_make_buffer<char>(501, g.fleet).error() == errc::store_full);
        round.free(other);
        for (auto const on : {store_operation::allocate, store_operation::write, store_operation::read}) {
            g.members[1]->inject({.on = on});
            CHECK_THROWS_AS(tenure::replicate(b, g.fleet["b"]), tenure::error);
            CHECK(tenure::replicas(b) == names{"a"});
            CHECK(g.used(1) == 0);
            CHECK(g.fleet.stores()[1].bytes == 0);
        }
        tenure::replicate(b, g.fleet["b"]);
        CHECK(contents(b) == std::vector<char>(600, 'x'));
    }

    TEST_CASE("a copy that differs is not believed") {
        struct liar : heap_store {
            tenure::result<void> read(tenure::block b, std::size_t offset, std::span<std::byte> out) {
                auto const r = heap_store::read(b, offset, out);
                if (!out.empty()) out.back() ^= std::byte{1};
                return r;
            }
        };
        group g(1);
        g.fleet.add("liar", std::make_shared<tenure::faulty_store<liar>>(std::make_shared<liar>()),
                    {.capacity = 64 * mib});
        tenure::batch_scope round;
        auto const          b = round.make_buffer<int>(1'000'000, g.fleet["a"]);
        check_throws(errc::store_lost, {"replicate", "liar"}, [&] { tenure::replicate(b, g.fleet["liar"]); });
        CHECK(g.fleet.stores()[1].bytes == 0);
        CHECK(tenure::replicas(b) == names{"a"});
    }

    TEST_CASE("the last copy stays and so do as many as were asked for") {
        group               g;
        tenure::batch_scope round;
        auto const          b = round.make_buffer<int>(100, g.fleet["a"]);
        check_throws(errc::replica_needed, {"drop a copy in a of", "no other store"},
                     [&] { tenure::drop_replica(b, g.fleet["a"]); });
        check_throws(errc::replica_needed, {"no candidate has a verified copy"},
                     [&] { tenure::drop_replica(b, g.fleet["b"]); });
        CHECK(tenure::replicate(b, 2) == 2);
        check_throws(errc::replica_needed, {"fewer copies"}, [&] { tenure::drop_replica(b, g.fleet["a"]); });
        CHECK(tenure::replicate(b, 1) == 2);
        tenure::drop_replica(b, g.fleet["a"]);
        CHECK(tenure::replicas(b).size() == 1);
        CHECK(g.used(0) == 0);
        CHECK(tenure::replicate(b, 17) == 3);
        CHECK_THROWS_AS(tenure::replicate(b, 300), tenure::error);
    }

    TEST_CASE("a copy is dropped when another store has it and answers") {
        group               g;
        tenure::batch_scope round;
        auto const          b = round.make_buffer<int>(100, g.fleet["a"]);
        b.fill(4);
        tenure::replicate(b, g.fleet["b"]);
        g.kill(1);  // which nobody knows yet
        CHECK_THROWS_AS(tenure::drop_replica(b, g.fleet["a"]), tenure::error);
        CHECK(contents(b) == std::vector<int>(100, 4));
    }

    TEST_CASE("a buffer moves between places of a group") {
        group               g;
        tenure::batch_scope round;
        auto const          b = round.make_buffer<int>(100, g.fleet["a"]);
        b.fill(9);
        b.move_to(g.fleet["c"]);
        CHECK(tenure::replicas(b) == names{"c"});
        CHECK(g.used(0) == 0);
        CHECK(contents(b) == std::vector<int>(100, 9));
        b.move_to(std::make_shared<heap_store>());
        CHECK(g.used(2) == 0);
        CHECK(contents(b) == std::vector<int>(100, 9));
        b.move_to(g.fleet);
        CHECK(tenure::replicas(b) == names{"a"});
    }

    TEST_CASE("what is asked of the wrong store says so") {
        group               g;
        group const         other;
        tenure::batch_scope round;
        auto const          outside = round.make_buffer<int>(10);
        check_throws(errc::not_in_group, {"not in the group"}, [&] { tenure::replicate(outside, g.fleet["a"]); });
        auto const b = round.make_buffer<int>(10, g.fleet["a"]);
        check_throws(errc::not_in_group, {"not in the group"}, [&] { tenure::replicate(b, other.fleet["a"]); });
        check_throws(errc::not_in_group, {"not in the group"}, [&] { tenure::replicate(b, g.fleet); });
        check_throws(errc::no_such_name, {"no store 'd'", "a, b, c"}, [&] { (void)g.fleet["d"]; });
        auto const bad = std::make_error_code(std::errc::invalid_argument);
        auto const any = std::make_shared<heap_store>();
        check_throws(bad, {"'a'", "a, b, c"}, [&] { g.fleet.add("a", any, {.capacity = 1}); });
        check_throws(bad, {"name is needed"}, [&] { g.fleet.add("", any, {.capacity = 1}); });
        check_throws(bad, {"'x'", "capacity"}, [&] { g.fleet.add("x", any); });
        check_throws(bad, {"'x'", "distance"}, [&] { g.fleet.add("x", any, {.capacity = 1, .distance = NAN}); });
        check_throws(bad, {"'x'", "there is none"}, [&] { g.fleet.add("x", {}); });
        CHECK(g.fleet.stores().size() == 3);
        round.free(b);
        check_throws(errc::stale_handle, {}, [&] { (void)tenure::replicas(b); });
    }

    TEST_CASE("a store that is paused receives nothing") {
        group               g;
        tenure::batch_scope round;
        auto const          b = round.make_buffer<int>(10, g.fleet["a"]);
        g.fleet.pause("b");
        check_throws(errc::store_full, {"no candidate is running"}, [&] { tenure::replicate(b, g.fleet["b"]); });
        CHECK_FALSE(round.try_make_buffer<int>(10, g.fleet["b"]));
        CHECK(tenure::replicas(round.make_buffer<int>(10, g.fleet)) == names{"c"});
        g.fleet.resume("b");
        tenure::replicate(b, g.fleet["b"]);
        g.fleet.lose("a");
        CHECK(tenure::replicas(b) == names{"b"});
    }

    TEST_CASE("no copy is made of what is being written") {
        group               g;
        tenure::batch_scope round;
        auto const          b = round.make_buffer<int>(2, g.fleet["a"]);
        b.fill(1);
        tenure::replicate(b, g.fleet["b"]);
        g.members[0]->inject({.on = store_operation::write, .how = tenure::faults::delays{200ms}});
        g.members[0]->inject({.on = store_operation::write, .how = tenure::faults::shortens{.to = 4}});
        std::thread writer([&] { CHECK_FALSE(b.try_write(0, std::vector{2, 2})); });
        CHECK(soon([&] { return g.members[0]->struck() == 1; }));
        CHECK_THROWS_AS(tenure::replicate(b, g.fleet["c"]), tenure::error);
        writer.join();
        CHECK(tenure::replicas(b) == names{"b"});
        CHECK(contents(b) == std::vector{1, 1});
        tenure::replicate(b, g.fleet["c"]);
        CHECK(contents(b) == std::vector{1, 1});
    }

    TEST_CASE("a copy that cannot be read is passed over and one that is corrupt goes") {
        group               g;
        tenure::batch_scope round;
        auto const          b = round.make_buffer<int>(100, g.fleet["a"]);
        b.fill(1);
        tenure::replicate(b, g.fleet["b"]);
        g.members[0]->inject({.on = store_operation::read});
        CHECK(contents(b) == std::vector<int>(100, 1));
        CHECK(tenure::replicas(b).size() == 2);
        g.members[0]->inject(
            {.on = store_operation::read, .how = tenure::faults::fails{make_error_code(errc::corrupt)}});
        CHECK(contents(b) == std::vector<int>(100, 1));
        CHECK(tenure::replicas(b) == names{"b"});
        CHECK(g.used(0) == 0);
        g.members[1]->inject(
            {.on = store_operation::read, .how = tenure::faults::fails{make_error_code(errc::corrupt)}});
        std::vector<int> out(1);
        CHECK(b.try_read(0, out).error() == errc::corrupt);
        CHECK(tenure::replicas(b) == names{"b"});
    }

    TEST_CASE("what is ordered and never made does not stand in the way of the end") {
        group g(4);
        {
            tenure::memory_manager manager(g.fleet, {.policies = {tenure::keep_replicas(4)}});
            tenure::batch_scope    round;
            auto const             b = round.make_buffer<int>(100, g.fleet["a"]);
            for (std::size_t i = 1; i < 4; ++i)
                g.members[i]->inject({.on = store_operation::allocate, .how = tenure::faults::delays{50ms}});
            std::thread cycle([&] { manager.run_once(); });
            CHECK(
                soon([&] { return g.members[1]->struck() + g.members[2]->struck() + g.members[3]->struck() > 0; }));
            round.free(b);
            cycle.join();
        }
        for (auto const& s : g.fleet.stores()) CHECK(s.bytes == 0);
        for (std::size_t i = 0; i < 4; ++i) CHECK(g.used(i) == 0);
    }

    TEST_CASE("a copy that a manager has ordered and not made is made by who asks for it") {
        group               g;
        tenure::batch_scope round;
        auto const          b = round.make_buffer<int>(100, g.fleet["a"]);
        b.fill(3);
        {
            // Stopped in the middle of its first cycle, it leaves orders.
            tenure::memory_manager manager(g.fleet, {.interval = 1ms, .policies = {tenure::keep_replicas(3)}});
            for (std::size_t i = 1; i < 3; ++i)
                g.members[i]->inject({.on = store_operation::allocate, .how = tenure::faults::delays{100ms}});
            manager.start();
            CHECK(soon([&] { return g.members[1]->struck() + g.members[2]->struck() == 1; }));
            manager.stop();
            CHECK(tenure::replicas(b).size() == 2);
            CHECK(g.fleet.stores()[1].bytes + g.fleet.stores()[2].bytes == 800);
            tenure::replicate(b, g.fleet["b"]);
            tenure::replicate(b, g.fleet["c"]);
            CHECK(tenure::replicas(b).size() == 3);
        }
        CHECK(contents(b) == std::vector<int>(100, 3));
    }

    TEST_CASE("what a manager has ordered goes with it") {
        group               g;
        tenure::batch_scope round;
        auto const          b = round.make_buffer<int>(100, g.fleet["a"]);
        {
            tenure::memory_manager manager(g.fleet, {.interval = 1ms, .policies = {tenure::keep_replicas(3)}});
            for (std::size_t i = 1; i < 3; ++i)
                g.members[i]->inject({.on = store_operation::allocate, .how = tenure::faults::delays{100ms}});
            manager.start();
            CHECK(soon([&] { return g.members[1]->struck() + g.members[2]->struck() == 1; }));
        }
        CHECK(tenure::replicas(b).size() == 2);
        CHECK(g.fleet.stores()[1].bytes + g.fleet.stores()[2].bytes == 400);
    }

    TEST_CASE("what a store refuses to free is freed later") {
        group g;
        {
            tenure::batch_scope round;
            round.make_buffer<int>(1000, g.fleet["a"]).fill(1);
            g.members[0]->inject({.on = store_operation::deallocate});
        }
        CHECK(g.used(0) == 4000);
        CHECK(g.fleet.stores()[0].bytes == 4000);
        { tenure::batch_scope{}.make_buffer<int>(1, g.fleet["b"]).fill(1); }
        CHECK(g.used(0) == 0);
        CHECK(g.fleet.stores()[0].bytes == 0);
    }

    TEST_CASE("a store that refuses copies does not stand in the way of others") {
        group               g;
        tenure::batch_scope round;
        round.make_buffer<int>(100, g.fleet["c"]).fill(0);  // b is the emptiest
        auto const b = round.make_buffer<int>(100, g.fleet["a"]);
        g.members[1]->inject({.on    = store_operation::allocate,
                              .times = 1'000'000,
                              .how   = tenure::faults::fails{make_error_code(errc::store_full)}});
        CHECK(tenure::replicate(b, 2) == 2);
        CHECK(sorted(tenure::replicas(b)) == names{"a", "c"});
    }

    TEST_CASE("a place is a store for a whole batch") {
        group               g;
        tenure::batch_scope round({.store = g.fleet["b"]});
        auto const          b = round.make_buffer<int>(100);
        CHECK(tenure::replicas(b) == names{"b"});
        tenure::replicate(b, g.fleet["a"]);
        CHECK(tenure::replicas(b).size() == 2);
    }

    TEST_CASE("threads make and write and read and copy and free at once") {
        group                  g(4);
        tenure::memory_manager manager(
            g.fleet, {.interval = std::chrono::microseconds(200),
                      .policies = {tenure::keep_replicas(2), tenure::reduce_replicas{2}, tenure::rebalance{}}});
        manager.start();
        std::vector<std::thread> users;
        for (std::uint64_t t = 0; t < 3; ++t)
            users.emplace_back([&, t] {
                dice random(t);
                for (int i = 0; i < (TENURE_SANITIZED ? 100 : 400); ++i) {
                    tenure::batch_scope              round;
                    std::vector<buffer<std::size_t>> all;
                    for (std::size_t k = 0; k < 8; ++k) {
                        all.push_back(round.make_buffer<std::size_t>(1 + random.below(100), g.fleet));
                        all.back().fill(k);
                        if (random.one_in(2)) tenure::replicate(all.back(), 2);
                        if (random.one_in(4)) all.back().fill(k);
                    }
                    for (std::size_t k = 0; k < all.size(); ++k)
                        CHECK(contents(all[k]) == std::vector<std::size_t>(all[k].size(), k));
                    if (random.one_in(3)) round.free(all[3]);
                }
            });
        for (std::thread& u : users) u.join();
        manager.stop();
        manager.run_once();  // what it had ordered of buffers that are gone
        for (std::size_t i = 0; i < 4; ++i) CHECK(g.used(i) == 0);
        for (auto const& s : g.fleet.stores()) CHECK(s.bytes == 0);
    }
}
