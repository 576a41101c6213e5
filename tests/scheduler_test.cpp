// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include "failing.hpp"  // first

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/device/scheduler.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/store/limited.hpp>

#include "model_scheduler.hpp"
#include "random/dice.hpp"
#include "virtual_world.hpp"

namespace {

using namespace tenure;
using namespace std::chrono_literals;

using rule   = estimate_options::rule;
using picked = std::optional<device_id>;

picked to(std::uint32_t n) { return device_id{n}; }

/// A scheduler in a world of its own.
struct lab : virtual_world {
    virtual_scheduler s;

    lab(std::size_t count, std::size_t bytes, memory_aware_options const& o = {})
        : virtual_world(count, bytes), s(source{this}, o, clock{this}) {}

    picked pick(std::size_t bytes, std::string_view kind = "job", std::uint64_t process = 0) {
        return s.pick({.kind = kind, .bytes = bytes, .process = {process}});
    }
    std::size_t reserved(std::size_t d) { return s.figures().devices.at(d).reserved; }

    std::optional<std::size_t> available(std::size_t d) {
        s.refresh();
        return s.figures().devices.at(d).available;
    }

    std::string state() { return s.figures().to_text(); }
};

/// One that used so much is over.
void run(lab& l, std::string_view kind, std::size_t declared, std::size_t used) {
    auto const m = std::make_shared<job_meter>();
    REQUIRE(l.s.pick({.kind = kind, .bytes = declared, .meter = m}) == to(0));
    m->add(used);
    m->take(used);
    m->end();
}

}  // namespace

TEST_SUITE("schedulers that look at nothing") {
    TEST_CASE("round robin starts at device 0 and visits all") {
        round_robin s{{0}, {1}, {2}};
        for (int round = 0; round < 3; ++round)
            for (std::uint32_t d = 0; d < 3; ++d) CHECK(s.pick({}) == to(d));
        s.pick({});
        s.set_devices({{7}, {8}});
        CHECK(s.pick({}) == to(7));
        CHECK(s.pick({}) == to(8));
        CHECK(s.pick({}) == to(7));
        s.set_devices({});
        CHECK(s.pick({}) == std::nullopt);
    }

    TEST_CASE("random visits all, each about as often, and the same ones for the same seed") {
        tenure::random a({{0}, {1}, {2}, {3}}, std::mt19937_64(7)), b({{0}, {1}, {2}, {3}}, std::mt19937_64(7));
        std::map<device_id, int> visits;
        for (int i = 0; i < 4000; ++i) {
            picked const d = a.pick({});
            CHECK(d == b.pick({}));
            ++visits[d.value()];
        }
        CHECK(visits.size() == 4);
        for (auto const& [d, n] : visits) CHECK((n > 850 && n < 1150));
        a.set_devices({{9}});
        CHECK(a.pick({}) == to(9));
        a.set_devices({});
        CHECK(a.pick({}) == std::nullopt);
    }
}

TEST_SUITE("where a job fits") {
    TEST_CASE("the fitting device with the most free memory, the first of equals") {
        lab l(4, 100);
        l.free(0) = 40;
        l.free(1) = 70;
        l.free(2) = 90;
        l.free(3) = 90;
        CHECK(l.pick(80) == to(2));
        CHECK(l.pick(80) == to(3));
        CHECK(l.pick(80) == std::nullopt);
        CHECK(l.pick(70) == to(1));
        CHECK(l.pick(41) == std::nullopt);
        CHECK(l.pick(40) == to(0));
        CHECK(l.pick(11) == std::nullopt);
        CHECK(l.pick(10) == to(2));
    }

    TEST_CASE("nothing fits: nullopt, and no state has changed") {
        lab l(2, 100, {.pick_interval = 10s});
        CHECK(l.pick(60, "one", 1) == to(0));
        l.now += 1s;
        l.use(0, {1}, 20);
        l.free(0) = 80;
        l.s.refresh();
        std::string const before = l.state();
        CHECK(l.pick(101, "another") == std::nullopt);
        CHECK(l.pick(101, "one") == std::nullopt);
        CHECK(l.pick(101, "one", 1) == std::nullopt);  // that process goes on with what it does
        CHECK(l.state() == before);
        CHECK(l.s.estimate("one") == 60);  // and not the 101 declared since
        CHECK(l.s.estimate("another") == 0);
        CHECK(l.pick(100, "another") == to(1));  // which no pick that failed has put off
        l.now += 9s;
        CHECK(l.pick(40) == to(0));
    }

    TEST_CASE("a device is available only after it has been so for available_for") {
        lab l(1, 100, {.available_for = 10s});
        CHECK(l.pick(50) == std::nullopt);
        l.now += 9'999ms;
        CHECK(l.pick(50) == std::nullopt);
        l.now += 1ms;
        CHECK(l.pick(50) == to(0));
    }

    TEST_CASE("time never goes back, though threads come in another order than they looked at the clock") {
        lab l(1, 100, {.available_for = 10s, .pick_interval = 2s});
        l.s.refresh();
        l.now += 10s;
        CHECK(l.available(0) == 100);
        l.now -= 5s;
        CHECK(l.available(0) == 100);
        CHECK(l.pick(50) == to(0));
        l.now += 6s;
        CHECK(l.pick(50) == std::nullopt);  // it was picked a second ago, and not six
        l.now += 1s;
        CHECK(l.pick(50) == to(0));
    }

    TEST_CASE("a dip in free memory restarts the wait") {
        lab l(1, 100, {.available_for = 10s});
        l.s.refresh();
        l.now += 20s;
        CHECK(l.available(0) == 100);
        l.free(0) = 30;
        CHECK(l.available(0) == 30);  // at once
        l.now += 5s;
        l.free(0) = 100;
        CHECK(l.pick(31) == std::nullopt);
        l.now += 9'999ms;
        CHECK(l.pick(31) == std::nullopt);
        CHECK(l.available(0) == 30);  // to a job so small it was available all along
        l.now += 1ms;
        CHECK(l.pick(31) == to(0));

        // One dip in the wait for the other.
        l.free(0) = 0;
        l.s.refresh();
        l.now += 1s;
        l.free(0) = 90;
        l.s.refresh();
        l.now += 9s;
        l.free(0) = 50;
        l.s.refresh();
        l.now += 1s;
        l.free(0) = 90;
        CHECK(l.available(0) == 50 - 31);
        l.now += 9s;
        CHECK(l.available(0) == 50 - 31);
        l.now += 1s;
        CHECK(l.available(0) == 90 - 31);
    }

    TEST_CASE("a device is not picked twice within pick_interval") {
        lab l(2, 100, {.pick_interval = 10s});
        CHECK(l.pick(1) == to(0));
        l.now += 4s;
        CHECK(l.pick(1) == to(1));
        CHECK(l.pick(1) == std::nullopt);
        l.now += 5'999ms;
        CHECK(l.pick(1) == std::nullopt);
        l.now += 1ms;
        CHECK(l.pick(1) == to(0));
        CHECK(l.pick(1) == std::nullopt);
        l.now += 4s;
        CHECK(l.pick(1) == to(1));
    }

    TEST_CASE("host memory where there is no device, if that is wanted") {
        for (bool const wanted : {false, true}) {
            picked const none = wanted ? picked(host_memory) : std::nullopt;
            lab          l(0, 0, {.host_if_no_device = wanted});
            l.down = make_error_code(errc::device_unavailable);
            CHECK(l.pick(1'000'000, "job", 1) == std::nullopt);  // for nobody knows
            l.down.clear();
            CHECK(l.pick(1'000'000, "job", 1) == none);
            l.devices.push_back({{0}, 100, 100, {}});
            CHECK(l.pick(1'000'000) == std::nullopt);  // there is one, where it does not fit
            l.s.set_devices({});
            l.down = make_error_code(errc::device_unavailable);
            CHECK(l.pick(1'000'000) == none);
        }
        CHECK(to_string(host_memory) == "host memory");
        CHECK(to_string(device_id{3}) == "device 3");
    }

    TEST_CASE("devices are those that the source reports, or those that were set") {
        lab l(2, 100, {.available_for = 10s});
        l.s.refresh();
        l.now += 10s;
        l.devices.push_back({{2}, 200, 200, {}});
        CHECK(l.pick(1) == to(0));  // the new one has not been there for long
        l.now += 10s;
        CHECK(l.pick(1) == to(2));

        l.s.set_devices({{1}, {2}, {5}, {1}});
        CHECK(l.s.figures().devices.size() == 3);
        CHECK(l.available(0) == 100);  // what is known stays
        CHECK(l.available(1) == 199);
        CHECK(l.available(2) == std::nullopt);
        CHECK(l.s.figures().devices.at(2).why == errc::device_unavailable);
        l.s.set_devices({{0}});
        CHECK(l.pick(1) == std::nullopt);  // it was away: the wait begins
        l.now += 10s;
        CHECK(l.pick(99) == to(0));  // the job that went there first counts still
        CHECK(l.pick(1) == std::nullopt);
    }

    TEST_CASE("a device of which nothing is known is not picked, and that is no dip") {
        lab l(2, 100, {.available_for = 10s});
        l.s.refresh();
        l.now += 10s;
        l.free(0)        = std::nullopt;
        l.devices[0].why = make_error_code(std::errc::io_error);
        CHECK(l.pick(50) == to(1));
        CHECK(l.pick(51) == std::nullopt);
        CHECK(l.s.figures().devices.at(0).why == std::errc::io_error);
        CHECK(l.state().find("device 0: unknown of 100 bytes free") != std::string::npos);
        l.free(0) = 100;
        CHECK(l.pick(51) == to(0));
        l.devices.pop_back();
        CHECK(l.pick(50) == std::nullopt);
    }

    TEST_CASE("a source that fails: nullopt, and the figures say why, until it works again") {
        lab l(1, 100, {.available_for = 10s});
        l.s.refresh();
        l.now += 10s;
        l.down = make_error_code(errc::device_unavailable);
        CHECK(l.pick(50) == std::nullopt);
        CHECK(l.state().find("device unavailable: ") != std::string::npos);
        l.down.clear();
        CHECK(l.pick(50) == to(0));

        l.while_reading = [] { throw std::runtime_error("no such luck"); };
        CHECK_THROWS_AS(l.pick(1), std::runtime_error);
        CHECK(l.reserved(0) == 50);
        CHECK(l.pick(50) == to(0));
    }

    TEST_CASE("stores with a capacity tell what is free in them") {
        auto const a =
            std::make_shared<limited_store<heap_store>>(std::make_shared<heap_store>(), store_limits{.bytes = 100});
        auto const b =
            std::make_shared<limited_store<heap_store>>(std::make_shared<heap_store>(), store_limits{.bytes = 90});
        auto const   c = std::make_shared<heap_store>();  // of no known capacity
        memory_aware s(store_memory({a, b, c}));
        CHECK(s.pick({.bytes = 1}) == to(0));
        block const x = a->allocate(20, 1).value();
        CHECK(s.pick({.bytes = 1}) == to(1));
        CHECK(a->deallocate({&x, 1}));
        CHECK(s.pick({.bytes = 1}) == to(0));
        CHECK(s.figures().devices.at(2).free == std::nullopt);
        CHECK(s.figures().devices.at(0).total == 100);
    }
}

TEST_SUITE("jobs that run") {
    TEST_CASE("a job that was placed and has not allocated yet counts as reserved") {
        lab l(1, 100);
        CHECK(l.pick(60, "job", 1) == to(0));
        CHECK(l.asked.empty());
        CHECK(l.available(0) == 40);
        CHECK(l.asked == std::vector{process_id{1}});
        CHECK(l.pick(41) == std::nullopt);
        l.use(0, {1}, 25);
        l.free(0) = 75;
        CHECK(l.available(0) == 40);
        CHECK(l.reserved(0) == 35);
        l.use(0, {1}, 60);
        l.free(0) = 40;
        CHECK(l.available(0) == 40);
        CHECK(l.reserved(0) == 0);
        l.use(0, {1}, 10);  // it gives something back, and may want it again
        l.free(0) = 90;
        CHECK(l.available(0) == 40);
        l.use(0, {1}, 70);  // it takes more than it needs: the reservation is never less than none
        l.free(0) = 30;
        CHECK(l.available(0) == 30);
        l.devices[0].processes->clear();  // it has nothing, and lives
        l.free(0) = 100;
        CHECK(l.available(0) == 40);
    }

    TEST_CASE("processes that have ended no longer count") {
        lab l(1, 100);
        CHECK(l.pick(60, "job", 1) == to(0));
        SUBCASE("for the source says so") {
            l.ended = {{1}};
            CHECK(l.available(0) == 100);
        }
        SUBCASE("for the user says so") {
            CHECK_FALSE(l.s.remove_process({2}));
            CHECK(l.s.remove_process({1}));
            CHECK_FALSE(l.s.remove_process({1}));
        }
        SUBCASE("but no process is none that can end") {
            CHECK(l.pick(30, "other") == to(0));
            CHECK_FALSE(l.s.remove_process({}));
            l.ended = {{}};
            CHECK(l.available(0) == 10);
            l.s.remove_process({1});
            l.s.add_process({2}, {0}, "other");
            l.s.remove_process({2});
        }
        SUBCASE("but a new one of the same number, that began while the source was read, does") {
            l.ended         = {{1}};
            l.while_reading = [&] {
                l.s.remove_process({1});
                l.s.add_process({1}, {0}, "job", 20);
            };
            CHECK(l.available(0) == 80);
            CHECK(l.s.remove_process({1}));
        }
        SUBCASE("for the process has another job") {
            CHECK(l.pick(30, "other", 1) == to(0));
            CHECK(l.available(0) == 70);
            CHECK(l.s.remove_process({1}));
        }
        SUBCASE("though the driver lists them still") {
            l.use(0, {1}, 30);
            l.free(0) = 70;
            l.ended   = {{1}};
            CHECK(l.available(0) == 70);
        }
        CHECK(l.reserved(0) == 0);
        l.ended.clear();
        l.s.refresh();
        CHECK(l.asked.empty());
    }

    TEST_CASE("a process that begins takes over the oldest pick for it") {
        lab l(2, 100);
        CHECK(l.pick(60, "a") == to(0));
        CHECK(l.pick(60, "b") == to(1));
        CHECK(l.pick(20, "a") == to(0));
        CHECK(l.reserved(0) == 80);
        l.s.add_process({1}, {0}, "a");
        CHECK(l.reserved(0) == 80);
        l.use(0, {1}, 70);
        l.free(0) = 30;
        l.s.refresh();
        CHECK(l.reserved(0) == 20);
        l.s.add_process({2}, {0}, "a");
        CHECK(l.reserved(0) == 20);
        l.s.add_process({3}, {0}, "c", 7);  // nobody picked for that one
        CHECK(l.reserved(0) == 27);
        l.s.add_process({4}, {1}, "a");
        CHECK(l.reserved(1) == 60 + l.s.estimate("a"));
        l.s.add_process({4}, {0}, "b", 1);  // it has moved
        CHECK(l.reserved(1) == 60);
        CHECK(l.reserved(0) == 28);
    }

    TEST_CASE("a pick that no process claims is reserved for allocates_within") {
        lab l(1, 100, {.allocates_within = 1min});
        CHECK(l.pick(60) == to(0));
        l.now += 59s;
        CHECK(l.available(0) == 40);
        l.now += 1s;
        CHECK(l.available(0) == 100);
        l.s.add_process({1}, {0}, "job", 10);
        CHECK(l.reserved(0) == 10);
        CHECK(l.pick(70) == to(0));
        l.now += 1min;
        l.s.add_process({1}, {0}, "job", 20);  // that of the pick comes too late
        CHECK(l.reserved(0) == 20);
    }

    TEST_CASE("unknown use is not a zero") {
        lab l(1, 100, {.allocates_within = 1min});
        CHECK(l.pick(60, "job", 1) == to(0));
        SUBCASE("of a process that is listed") { l.use(0, {1}, std::nullopt); }
        SUBCASE("of any process") { l.devices[0].processes.reset(); }
        SUBCASE("of one of its contexts") {
            l.use(0, {1}, 3);
            l.devices[0].processes->push_back({{1}, std::nullopt});
        }
        l.free(0) = 50;  // perhaps it was that one
        CHECK(l.available(0) == 0);
        CHECK(l.reserved(0) == 60);
        l.now += 1min;  // by now it has allocated, and what that was is not free
        CHECK(l.available(0) == 50);

        // What was known stays, until something else is.
        l.devices[0].processes.emplace();
        l.use(0, {1}, 40);
        CHECK(l.available(0) == 30);
        l.use(0, {1}, std::nullopt);
        CHECK(l.available(0) == 30);

        // And a use that never was known teaches nothing.
        l.s.add_process({2}, {0}, "dark", 10);
        l.use(0, {2}, std::nullopt);
        l.s.refresh();
        l.s.remove_process({2});
        CHECK(l.s.estimate("dark") == 10);
        l.s.remove_process({1});
        CHECK(l.s.estimate("job") == 50);
    }

    TEST_CASE("contexts of one process are added up, on its own device") {
        lab l(2, 100);
        CHECK(l.pick(60, "job", 1) == to(0));
        l.devices[0].processes->push_back({{1}, 10});
        l.devices[0].processes->push_back({{1}, 15});
        l.devices[0].processes->push_back({{2}, 20});
        l.use(1, {1}, 30);
        l.s.refresh();
        CHECK(l.reserved(0) == 35);
    }

    TEST_CASE("a job with a meter needs no driver to tell") {
        lab        l(1, 100, {.allocates_within = 1min});
        auto const m = std::make_shared<job_meter>();
        CHECK(l.s.pick({.kind = "job", .bytes = 60, .meter = m}) == to(0));
        CHECK(l.available(0) == 40);
        m->add(50);
        l.free(0) = 50;
        CHECK(l.available(0) == 40);
        l.now += 1h;
        CHECK(l.reserved(0) == 10);
        m->take(50);
        m->add(20);
        l.free(0) = 80;
        CHECK(l.available(0) == 40);

        // Memory that moves while free memory is read may be in both figures, or in none: no harm is done.
        l.while_reading = [&] { m->add(30); };
        CHECK(l.available(0) == 40);
        l.free(0)       = 50;
        l.while_reading = [&] { m->take(30); };
        CHECK(l.available(0) == 10);

        m->take(20);
        m->end();
        l.free(0) = 100;
        CHECK(l.reserved(0) == 0);
        CHECK(l.available(0) == 100);
        CHECK(l.s.estimate("job") == 55);
        CHECK(m.use_count() == 1);
    }

    TEST_CASE("no lock is held while the source is called, and a reading that is overtaken does not count") {
        lab l(1, 100);
        l.s.refresh();
        l.while_reading = [&] {
            l.free(0) = 10;
            CHECK(l.pick(10) == to(0));
            CHECK(l.s.estimate("job") == 10);
        };
        CHECK(l.pick(50) == std::nullopt);  // it read 100, and that was before
        CHECK(l.available(0) == 0);
    }

    TEST_CASE("without memory nothing has changed") {
        lab l(2, 100);
        l.s.refresh();
        for (long nth = 1; FAILING_ALLOCATIONS; ++nth) {
            std::string const before = l.state();
            picked            d;
            failing::arm(failing::allocation, nth);
            try {
                d = l.pick(50, "a kind with a name that no string holds within", 7);
            } catch (std::bad_alloc const&) {
                d = std::nullopt;
            }
            failing::disarm();
            if (d) {
                CHECK(d == to(0));
                break;
            }
            CHECK(failing::now.failed);
            CHECK(l.state() == before);
        }
    }
}

TEST_SUITE("what a kind of job needs") {
    TEST_CASE("a declared figure first, fading out as observations come") {
        lab l(1, 10'000);
        CHECK(l.s.estimate("job") == 0);
        CHECK(l.s.estimate("job", 1000) == 1000);
        run(l, "job", 1000, 200);
        CHECK(l.s.estimate("job") == 600);       // (1000 + 1 * 200) / 2
        CHECK(l.s.estimate("job", 400) == 300);  // it declares something else
        run(l, "job", 0, 200);
        CHECK(l.s.estimate("job") == 467);  // (1000 + 2 * 200) / 3, rounded up
        for (int i = 0; i < 98; ++i) run(l, "job", 0, 200);
        CHECK(l.s.estimate("job") == 208);
        run(l, "undeclared", 0, 200);
        CHECK(l.s.estimate("undeclared") == 200);
        CHECK(l.s.figures().kinds.at(0).observed == 100);
        CHECK(l.state().find("kind \"job\": 208 bytes, from 100 jobs\n") != std::string::npos);
    }

    TEST_CASE("the mean and so many standard deviations") {
        lab l(1, 10'000, {.estimate = {.deviations = 3}});
        for (unsigned const used : {2u, 4u, 4u, 4u, 5u, 5u, 7u, 9u}) run(l, "job", 0, used * 100);
        CHECK(l.s.estimate("job") == 500 + 3 * 200);
    }

    TEST_CASE("or the maximum") {
        lab l(1, 10'000, {.estimate = {.by = rule::maximum}});
        for (unsigned const used : {200u, 900u, 300u}) run(l, "job", 0, used);
        CHECK(l.s.estimate("job") == 900);
        CHECK(l.s.estimate("job", 100) == 700);  // (100 + 3 * 900) / 4
    }

    TEST_CASE("a figure for what nothing is known of") {
        lab l(1, 100, {.estimate = {.unknown = 70}});
        CHECK(l.pick(0) == to(0));
        CHECK(l.pick(0) == std::nullopt);
        CHECK(l.pick(30, "other") == to(0));
    }

    TEST_CASE("a job larger than its estimate raises that kind's estimate only") {
        lab l(1, 1000);
        run(l, "a", 100, 100);
        run(l, "b", 100, 100);
        SUBCASE("when it is over") { run(l, "a", 0, 300); }
        SUBCASE("while it runs") {
            CHECK(l.pick(0, "a", 1) == to(0));
            l.use(0, {1}, 300);
            l.s.refresh();
        }
        CHECK(l.s.estimate("a") == 300);  // (100 + 2 * (200 + 2 * 100)) / 3
        CHECK(l.s.estimate("b") == 100);
    }

    TEST_CASE("and always does, by either rule") {
        for (auto const by : {rule::mean_and_deviations, rule::maximum}) {
            dice d(11);
            for (int round = 0; round < (TENURE_SANITIZED ? 50 : 500); ++round) {
                lab l(1, 1u << 30, {.estimate = {.by = by, .deviations = static_cast<double>(d.below(5)) / 2}});
                std::size_t const declared = d.below(3) * 100'000;
                for (int i = 0; i < 20; ++i) {
                    std::size_t const before = l.s.estimate("job", declared);
                    std::size_t const used   = 1 + d.below(300'000);
                    run(l, "job", declared, used);
                    std::size_t const after = l.s.estimate("job", declared);
                    if (used > before + 100) CHECK(after > before);
                }
            }
        }
    }

    TEST_CASE("a job that was not seen to use anything teaches nothing") {
        lab l(1, 100);
        run(l, "job", 50, 0);
        CHECK(l.pick(0, "job", 1) == to(0));
        l.s.refresh();
        l.s.remove_process({1});
        CHECK(l.s.estimate("job") == 50);
        CHECK(l.s.figures().kinds.at(0).observed == 0);
    }

    TEST_CASE("what was measured elsewhere can be told") {
        lab l(1, 100);
        l.s.observe("job", 80);
        CHECK(l.pick(0) == to(0));
        CHECK(l.reserved(0) == 80);
    }
}

namespace {

/// One scheduler and its model through the same random days.
class random_program {
public:
    explicit random_program(std::uint64_t seed) : d_(seed), o_(options(d_)), l_(d_.below(4), 100, o_), m_(l_, o_) {}

    void step() {
        auto const        some  = [&] { return static_cast<std::size_t>(d_.below(120)); };
        std::size_t const n     = l_.devices.size();
        auto const        where = static_cast<std::size_t>(n ? d_.below(n) : 0);
        process_id const  p{1 + d_.below(6)};
        switch (d_.below(16)) {
        case 0:
        case 1: l_.now += std::chrono::milliseconds(d_.below(8000)); break;
        case 2:
        case 3:
            if (n) l_.free(where) = d_.one_in(8) ? std::nullopt : std::optional(some());
            break;
        case 4:
        case 5:
            if (n && l_.devices[where].processes)
                l_.use(where, p, d_.one_in(4) ? std::nullopt : std::optional(some()));
            break;
        case 6:
            if (!n) break;
            if (d_.one_in(3)) l_.devices[where].processes.reset();
            else l_.devices[where].processes.emplace();
            break;
        case 7: CHECK(l_.s.remove_process(p) == m_.end(p)); break;
        case 8: add(p); break;
        case 9: move_meter(); break;
        case 10: l_.down = d_.one_in(3) ? make_error_code(errc::device_unavailable) : std::error_code{}; break;
        case 11: devices(); break;
        case 12:
            l_.ended = {p};
            read();
            l_.ended.clear();
            break;
        default: pick(p);
        }
        compare();
    }

private:
    static memory_aware_options options(dice& d) {
        return {.available_for     = 1s * d.below(4),
                .pick_interval     = 1s * d.below(3),
                .allocates_within  = 1s * (1 + d.below(20)),
                .estimate          = {.by         = d.one_in(3) ? rule::maximum : rule::mean_and_deviations,
                                      .deviations = static_cast<double>(d.below(5)) / 2,
                                      .unknown    = d.below(20)},
                .host_if_no_device = d.one_in(2)};
    }

    std::string kind() { return d_.one_in(2) ? "a" : "b"; }

    void read() {
        l_.s.refresh();
        m_.read();
    }

    std::size_t need(std::string const& k, std::size_t declared) {
        std::size_t const has = l_.s.estimate(k, declared), wanted = m_.estimate(k, declared);
        CHECK((has <= wanted + 1 && wanted <= has + 1));  // rounded otherwise
        return has;
    }

    void pick(process_id p) {
        read();
        std::string const k        = kind();
        std::size_t const declared = d_.one_in(3) ? 0 : d_.below(110);
        auto const        meter    = d_.one_in(3) ? std::make_shared<job_meter>() : nullptr;
        if (meter || d_.one_in(3)) p = {};
        std::size_t const n      = need(k, declared);
        picked const      wanted = m_.choose(n);
        picked const      has    = l_.s.pick({.kind = k, .bytes = declared, .process = p, .meter = meter});
        CHECK(has == wanted);
        if (!has) return;
        ++placed;
        if (*has != host_memory) {
            auto const at = std::ranges::find(l_.devices, *has, &device_reading::device);
            REQUIRE((at != l_.devices.end() && at->free));
            if (n > 0) CHECK(*at->free >= m_.reserved(*has) + n);  // never more than there is
        }
        m_.place({k, *has, p, meter, n, l_.now}, declared);
        if (meter) meters_.push_back(meter);
    }

    void add(process_id p) {
        std::string const k        = kind();
        std::size_t const declared = d_.below(3) * 20;
        device_id const   where{static_cast<std::uint32_t>(d_.below(4))};
        m_.sweep();
        std::size_t const n = need(k, declared);
        l_.s.add_process(p, where, k, declared);
        m_.add_process(p, where, k, n, declared);
    }

    void move_meter() {
        if (meters_.empty()) return;
        auto const i = static_cast<std::size_t>(d_.below(meters_.size()));
        job_meter& m = *meters_[i];
        if (d_.one_in(3)) {
            m.end();
            meters_.erase(meters_.begin() + static_cast<std::ptrdiff_t>(i));
        } else if (d_.one_in(2)) {
            m.add(d_.below(40));
        } else {
            m.take(d_.below(m.used() + 1));
        }
    }

    void devices() {
        if (d_.one_in(2)) {  // the machine's
            if (l_.devices.size() < 4)
                l_.devices.push_back({{static_cast<std::uint32_t>(l_.devices.size())}, 100, 100, {}});
            return;
        }
        std::vector<device_id> some;
        for (std::uint64_t i = d_.below(5); i > 0; --i) some.push_back({static_cast<std::uint32_t>(d_.below(5))});
        l_.s.set_devices(some);
        m_.set_devices(some);
    }

    void compare() {
        if (d_.one_in(2)) read();
        m_.sweep();
        scheduler_figures const f = l_.s.figures();
        REQUIRE(f.devices.size() == m_.devices().size());
        for (std::size_t i = 0; i < f.devices.size(); ++i) {
            device_id const d = m_.devices()[i];
            CHECK(f.devices[i].device == d);
            CHECK(f.devices[i].reserved == m_.reserved(d));
            CHECK(f.devices[i].available == m_.available(d));
            CHECK(f.devices[i].jobs ==
                  static_cast<std::size_t>(std::ranges::count(m_.jobs(), d, &model_scheduler::job::device)));
        }
        REQUIRE(f.kinds.size() == m_.observed().size());
        for (kind_figures const& k : f.kinds) {
            CHECK(k.observed == m_.observed().at(k.kind).size());
            CHECK(k.estimate == need(k.kind, 0));
        }
    }

    dice                                    d_;
    memory_aware_options                    o_;
    lab                                     l_;
    model_scheduler                         m_;
    std::vector<std::shared_ptr<job_meter>> meters_{};

public:
    std::size_t placed = 0;
};

}  // namespace

TEST_CASE("random days of a scheduler and of its model") {
    std::uint64_t const steps  = from_environment("TENURE_STEPS", TENURE_SANITIZED ? 4'000 : 60'000);
    std::uint64_t const seed   = from_environment("TENURE_SEED", 1);
    std::size_t         placed = 0;
    for (std::uint64_t day = 0; day * 200 < steps; ++day) {
        std::uint64_t const this_day = dice::mix(seed + day);
        CAPTURE(this_day);
        random_program p(this_day);
        for (int i = 0; i < 200; ++i) {
            CAPTURE(i);
            p.step();
        }
        placed += p.placed;
    }
    CHECK(placed > steps / 50);
}

TEST_CASE("threads that pick at once never get more than there is") {
    constexpr std::size_t devices = 3, places = TENURE_SANITIZED ? 20 : 200;
    lab                   l(devices, places * 10);
    l.watching = false;
    std::atomic<std::size_t> placed{0};
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&] {
                std::vector<std::shared_ptr<job_meter>> mine;
                for (int i = 0;; ++i) {
                    auto const m = std::make_shared<job_meter>();
                    if (!l.s.pick({.kind = "job", .bytes = 10, .meter = m})) break;
                    if (i % 4 == 0) m->end();  // that one makes room again
                    else ++placed;
                    if (i % 16 == 0) l.s.figures();
                }
            });
    }
    CHECK(placed == devices * places);
}
