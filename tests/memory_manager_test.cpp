// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tenure/fleet.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/tenure.hpp>
#include <tenure/testing/faulty_store.hpp>

#include "soon.hpp"
#include "throws.hpp"

namespace {

using namespace std::chrono_literals;
using tenure::buffer;
using tenure::errc;
using tenure::heap_store;
using tenure::memory_manager;
using tenure::refusal;
using tenure::store_group;
using faulty = tenure::faulty_store<heap_store>;
using names  = std::vector<std::string>;

struct group {
    explicit group(std::initializer_list<std::size_t> capacities) {
        for (std::size_t const n : capacities) {
            members.push_back(std::make_shared<faulty>(std::make_shared<heap_store>()));
            fleet.add(std::string(1, static_cast<char>('a' + members.size() - 1)), members.back(), {.capacity = n});
        }
    }

    std::size_t used(std::size_t member) const { return members[member]->upstream()->usage().bytes; }
    double      fill(std::size_t member) const { return fleet.stores()[member].fill(); }

    std::vector<std::shared_ptr<faulty>> members;
    store_group                          fleet;
};

buffer<char> filled(tenure::batch_scope& in, std::size_t bytes, tenure::any_store const& where, char with) {
    auto const b = in.make_buffer<char>(bytes, where);
    b.fill(with);
    return b;
}

bool has(buffer<char> const& b, char what) {
    std::vector<char> all(b.size());
    b.read(0, all);
    return std::ranges::count(all, what) == static_cast<std::ptrdiff_t>(all.size());
}

names sorted(names all) {
    std::ranges::sort(all);
    return all;
}

}  // namespace

TEST_SUITE("memory manager") {
    TEST_CASE("a policy of the user's keeps two copies") {
        struct keep_two {
            void propose(tenure::fleet_view const& view, tenure::plan& plan) const {
                for (auto const& b : view.changed())
                    if (b.replicas().size() < 2) plan.replicate(b);
            }
        };
        group               g{1000, 1000, 1000};
        memory_manager      manager(g.fleet, {.policies = {keep_two{}}});
        tenure::batch_scope round;
        auto const          b      = filled(round, 100, g.fleet["a"], 'x');
        auto const          report = manager.run_once();
        CHECK(report.copied == 1);
        CHECK(report.bytes_copied == 100);
        CHECK(report.failed == 0);
        REQUIRE(report.decisions.size() == 1);
        CHECK(report.decisions[0]);
        CHECK(sorted(tenure::replicas(b)) == names{"a", "b"});
        CHECK(has(b, 'x'));
        CHECK(manager.run_once().copied == 0);
        b.fill('y');
        CHECK(tenure::replicas(b).size() == 1);
        manager.run_once();
        CHECK(tenure::replicas(b).size() == 2);
        CHECK(has(b, 'y'));
    }

    TEST_CASE("copies that were asked for are made again when a store dies") {
        group               g{1000, 1000, 1000};
        memory_manager      manager(g.fleet);
        tenure::batch_scope round;
        auto const          b = filled(round, 100, g.fleet["a"], 'x');
        CHECK(tenure::replicate(b, 2) == 2);
        g.fleet.lose("a");
        CHECK(has(b, 'x'));
        CHECK(manager.run_once().copied == 1);
        CHECK(sorted(tenure::replicas(b)) == names{"b", "c"});
    }

    TEST_CASE("a copy that fails is tried again") {
        group               g{1000, 1000};
        memory_manager      manager(g.fleet, {.policies = {tenure::keep_replicas(2)}});
        tenure::batch_scope round;
        auto const          b = filled(round, 100, g.fleet["a"], 'x');
        g.members[1]->inject({.on = tenure::store_operation::write});
        CHECK(manager.run_once().failed == 1);
        CHECK(g.used(1) == 0);
        CHECK(manager.run_once().copied == 1);
        CHECK(has(b, 'x'));
    }

    TEST_CASE("a dry run says what would be done and what it costs") {
        group               g{1000, 1000};
        memory_manager      manager(g.fleet, {.policies = {tenure::keep_replicas(2)}});
        tenure::batch_scope round;
        auto const          b    = filled(round, 100, g.fleet["a"], 'x');
        auto const          plan = manager.run_once({.dry = true});
        CHECK(plan.bytes_to_copy() == 100);
        CHECK(plan.copied == 0);
        CHECK(tenure::replicas(b).size() == 1);
        CHECK(g.fleet.stores()[1].bytes == 0);
        manager.run_once();
        filled(round, 200, g.fleet["a"], 'z');
        CHECK(manager.run_once({.dry = true}).copying > 0ns);
    }

    TEST_CASE("a store retires while all goes on") {
        group                     g{100'000, 100'000, 100'000};
        memory_manager            manager(g.fleet);
        tenure::batch_scope       round;
        std::vector<buffer<char>> all;
        for (int i = 0; i < 200; ++i)
            all.push_back(filled(round, 100, g.fleet["a"], static_cast<char>('a' + i % 26)));
        tenure::replicate(all[7], g.fleet["b"]);
        auto const report = manager.retire("a");
        CHECK(report);
        CHECK(report.copied == 199 * 100);
        CHECK(g.used(0) == 0);
        CHECK(g.fleet.stores()[0].state == tenure::store_state::retiring);
        for (std::size_t i = 0; i < all.size(); ++i) CHECK(has(all[i], static_cast<char>('a' + i % 26)));
        CHECK(std::abs(static_cast<double>(g.used(1)) - static_cast<double>(g.used(2))) <= 200);
        CHECK_FALSE(round.try_make_buffer<char>(10, g.fleet["a"]));
        CHECK(manager.retire("b", {.remove = true}));
        CHECK(g.fleet.stores().size() == 2);
        check_throws(errc::no_such_name, {"no store 'b'", "a, c"}, [&] { (void)g.fleet["b"]; });
        auto const bad = std::make_error_code(std::errc::invalid_argument);
        check_throws(bad, {"retire store 'c'", "no other"}, [&] { manager.retire("c"); });
        check_throws(errc::no_such_name, {"'x'"}, [&] { manager.retire("x"); });
    }

    TEST_CASE("a store whose buffers have nowhere to go runs again or stays as it is") {
        group               g{1000, 300};
        memory_manager      manager(g.fleet);
        tenure::batch_scope round;
        for (int i = 0; i < 5; ++i) filled(round, 100, g.fleet["a"], 'x');
        auto const report = manager.retire("a");
        CHECK_FALSE(report);
        CHECK(report.left == 2);
        CHECK(report.bytes_left == 200);
        CHECK(report.why == refusal::no_room);
        CHECK(report.to_text().find("no candidate has room") != std::string::npos);
        CHECK(g.fleet.stores()[0].state == tenure::store_state::running);
        CHECK_FALSE(manager.retire("a", {.keep_retiring = true}));
        CHECK(g.fleet.stores()[0].state == tenure::store_state::retiring);
        g.fleet.add("c", std::make_shared<heap_store>(), {.capacity = 1000});
        CHECK(manager.retire("a"));
        CHECK(g.used(0) == 0);
    }

    TEST_CASE("retiring waits for who reads and gives up in time") {
        group               g{1000, 1000};
        memory_manager      manager(g.fleet);
        tenure::batch_scope round;
        auto const          b = filled(round, 100, g.fleet["a"], 'x');
        // A read that takes long: the copy that it reads stays until it is over.
        g.members[0]->inject({.on = tenure::store_operation::read, .nth = 1, .how = tenure::faults::delays{300ms}});
        std::thread reader([&] { CHECK(has(b, 'x')); });
        CHECK(soon([&] { return g.members[0]->struck() == 1; }));
        CHECK_FALSE(manager.retire("a", {.timeout = 50ms}));
        CHECK(g.used(0) == 100);
        CHECK(manager.retire("a", {.timeout = 60s}));
        reader.join();
        CHECK(g.used(0) == 0);
        CHECK(has(b, 'x'));
    }

    TEST_CASE("a retire whose time is up goes on where it ended") {
        group               g{100'000, 100'000};
        memory_manager      manager(g.fleet);
        tenure::batch_scope round;
        for (int i = 0; i < 50; ++i) filled(round, 100, g.fleet["a"], 'x');
        g.members[1]->inject(
            {.on = tenure::store_operation::write, .times = 50, .how = tenure::faults::delays{10ms}});
        auto const report = manager.retire("a", {.timeout = 50ms, .keep_retiring = true});
        CHECK_FALSE(report);
        CHECK(report.left > 20);
        CHECK(manager.retire("a"));
        CHECK(g.used(1) == 5000);
    }

    TEST_CASE("several stores retire at once") {
        group                     g{100'000, 100'000, 100'000, 100'000};
        memory_manager            manager(g.fleet);
        tenure::batch_scope       round;
        std::vector<buffer<char>> all;
        for (int i = 0; i < 300; ++i) all.push_back(filled(round, 100, g.fleet, static_cast<char>('a' + i % 26)));
        std::vector<std::thread> threads;
        for (char const* const name : {"a", "b", "c"})
            threads.emplace_back([&, name] { CHECK(manager.retire(name)); });
        for (std::thread& t : threads) t.join();
        CHECK(g.used(3) == 300 * 100);
        for (std::size_t i = 0; i < all.size(); ++i) CHECK(has(all[i], static_cast<char>('a' + i % 26)));
    }

    TEST_CASE("rebalance evens out") {
        group               g{10'000, 10'000, 20'000};
        memory_manager      manager(g.fleet);
        tenure::batch_scope round;
        for (int i = 0; i < 90; ++i) filled(round, 100, g.fleet["a"], 'x');
        auto const report = manager.rebalance();
        CHECK(report.copied > 0);
        CHECK(g.fill(0) - std::min(g.fill(1), g.fill(2)) <= 0.11);
        CHECK(g.used(0) + g.used(1) + g.used(2) == 9000);
    }

    TEST_CASE("cycles run on a thread of the manager's") {
        group               g{1000, 1000};
        memory_manager      manager(g.fleet, {.interval = 1ms, .policies = {tenure::keep_replicas(2)}});
        tenure::batch_scope round;
        CHECK_FALSE(manager.running());
        manager.start();
        manager.start();
        CHECK(manager.running());
        auto const b = filled(round, 100, g.fleet["a"], 'x');
        CHECK(soon([&] { return tenure::replicas(b).size() == 2; }));
        manager.stop();
        CHECK_FALSE(manager.running());
        auto const later = filled(round, 100, g.fleet["a"], 'y');
        CHECK(tenure::replicas(later).size() == 1);
        manager.start();
        CHECK(soon([&] { return tenure::replicas(later).size() == 2; }));
    }

    TEST_CASE("a store that cannot be emptied because copies fail says so") {
        group               g{1000, 1000};
        memory_manager      manager(g.fleet);
        tenure::batch_scope round;
        filled(round, 100, g.fleet["a"], 'x');
        g.members[1]->inject({.on = tenure::store_operation::write, .times = 1'000'000});
        auto const report = manager.retire("a");
        CHECK_FALSE(report);
        CHECK(report.why == refusal::failing);
        CHECK(g.fleet.stores()[0].state == tenure::store_state::running);
    }

    TEST_CASE("a copy is made where a buffer is read often") {
        group               g{1000, 1000};
        memory_manager      manager(g.fleet, {.policies = {tenure::promote_demanded({.reads = 3})}});
        tenure::batch_scope round;
        auto const          b = filled(round, 100, g.fleet["a"], 'x');
        for (int i = 0; i < 3; ++i) tenure::note_demand(b, g.fleet["b"]);
        CHECK(manager.run_once({.dry = true}).bytes_to_copy() == 100);
        CHECK(manager.run_once().copied == 1);
        CHECK(tenure::replicas(b).size() == 2);
    }

    TEST_CASE("the child of a fork uses the group and not the manager") {
        store_group fleet;  // of stores that a child may use, which a faulty_store is not
        for (char const* const name : {"a", "b"})
            fleet.add(name, std::make_shared<heap_store>(), {.capacity = 1'000'000});
        tenure::batch_scope round;
        auto const          b = filled(round, 100, fleet["a"], 'x');
        memory_manager      manager(fleet, {.interval = 1ms, .policies = {tenure::keep_replicas(2)}});
        manager.start();
        std::atomic<bool> over{false};
        std::thread       user([&] {
            while (!over) {
                tenure::batch_scope inner;
                CHECK(has(filled(inner, 1000, fleet["b"], 'y'), 'y'));
            }
        });
        for (int i = 0; i < (TENURE_SANITIZED ? 5 : 30); ++i) {
            ::pid_t const child = ::fork();
            if (child == 0) {
                ::alarm(20);
                bool refused = false;
                try {
                    manager.run_once();
                } catch (tenure::error const& e) {
                    refused = e.code() == errc::forked;
                }
                bool const used = has(b, 'x') && !tenure::replicas(b).empty() && fleet.stores().size() == 2;
                {
                    tenure::batch_scope inner;
                    filled(inner, 10, fleet["a"], 'z');
                }
                manager.stop();
                ::_exit(refused && used ? 0 : 1);
            }
            int status = 1;
            REQUIRE(::waitpid(child, &status, 0) == child);
            CHECK(status == 0);
        }
        over = true;
        user.join();
    }

    TEST_CASE("policies are added and removed by name") {
        struct throws {
            void propose(tenure::fleet_view const&, tenure::plan&) const { throw std::runtime_error("no idea"); }
        };
        group               g{1000, 1000};
        memory_manager      manager(g.fleet, {.policies = {throws{}, tenure::keep_replicas(2)}});
        tenure::batch_scope round;
        auto const          b      = filled(round, 100, g.fleet["a"], 'x');
        auto const          report = manager.run_once();
        CHECK(std::ranges::count_if(report.policies, [](auto const& p) { return p.error == "no idea"; }) == 1);
        CHECK(tenure::replicas(b).size() == 2);
        CHECK(manager.policies().size() == 2);
        manager.remove("tenure::keep_replicas");
        CHECK(manager.policies().size() == 1);
        auto const bad = std::make_error_code(std::errc::invalid_argument);
        check_throws(bad, {"throws"}, [&] { manager.add(throws{}); });
        check_throws(errc::no_such_name, {"no policy 'x'"}, [&] { manager.remove("x"); });
        check_throws(bad, {"interval"},
                     [&] { memory_manager const never(g.fleet, {.interval = 0s, .policies = {}}); });
    }
}
