// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <tenure/budget.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "small_cgroup.hpp"
#include "throws.hpp"

namespace {

using namespace std::chrono_literals;
using tenure::batch_scope;
using tenure::budget_options;
using tenure::errc;
using tenure::memory_budget;
using tenure::memory_use;
using tenure::reservation;

constexpr std::size_t MiB = 1 << 20;

/// A budget of a process that uses what the test says.
struct house : accounting {
    std::atomic<std::size_t> in_use{0};
    std::atomic<int>         relieved{0};

    budget_options options(std::size_t capacity) {
        budget_options o;
        o.capacity   = capacity;
        o.sample_age = 1ms;
        o.in_use     = [this] { return memory_use{.in_use = in_use}; };
        o.relieve    = [this](std::size_t) { ++relieved; };
        return o;
    }
};

/// Waits until so many wait in the budget.
void await_waiting(memory_budget const& b, std::size_t n) {
    while (b.figures().waiting != n) std::this_thread::yield();
}

}  // namespace

TEST_SUITE("budget") {
    TEST_CASE_FIXTURE(house, "room is reserved until the guard goes") {
        memory_budget b(options(100));
        {
            reservation const r = b.reserve({.kind = "one", .bytes = 60});
            CHECK(r.bytes() == 60);
            reservation const copy = r;
            CHECK(b.figures().reserved == 60);
            REQUIRE(b.figures().holders.size() == 1);
            CHECK(b.figures().holders[0].kind == "one");
            CHECK(b.try_reserve({.kind = "two", .bytes = 41}).error() == errc::timed_out);
            CHECK(b.try_reserve({.kind = "two", .bytes = 40}).has_value());
        }
        CHECK(b.figures().reserved == 0);
        CHECK(b.figures().holders.empty());
        reservation none;
        CHECK_FALSE(none);
        CHECK(none.bytes() == 0);
    }

    TEST_CASE_FIXTURE(house, "a reservation outlives its budget") {
        std::optional<memory_budget> b(std::in_place, options(100));
        reservation                  r = b->reserve({.bytes = 60});
        b.reset();
        CHECK(r.bytes() == 60);
        r.release();
        CHECK(r.bytes() == 0);
    }

    TEST_CASE_FIXTURE(house, "who can never have it is told at once, by how much") {
        memory_budget b(options(100));
        check_throws(errc::limit_exceeded, {"reserve 130 bytes", "'big'", "30 more than there are", "capacity"},
                     [&] { b.reserve({.kind = "big", .bytes = 130}); });
        CHECK(b.try_reserve({.kind = "big", .bytes = 130}).error() == errc::limit_exceeded);
        auto const held = b.reserve({.kind = "held", .bytes = 40});
        check_throws(errc::limit_exceeded, {"'big'", "30 more than there are", "most has 'held' 40 B"},
                     [&] { b.reserve({.kind = "big", .bytes = 130}); });
        budget_options o = options(100);
        o.cores          = 4;
        memory_budget c(o);
        check_throws(errc::limit_exceeded, {"5 cores", "of 4"}, [&] { c.reserve({.kind = "wide", .cores = 5}); });
        CHECK(b.figures().reserved == 40);
    }

    TEST_CASE_FIXTURE(house, "who waits in vain is told who has what") {
        memory_budget b(options(100 * MiB));
        auto const    most = b.reserve({.kind = "most", .bytes = 80 * MiB});
        auto const    some = b.reserve({.kind = "some", .bytes = 10 * MiB});
        check_throws(errc::timed_out,
                     {"'late'", "100.0 MiB", "90.0 MiB are reserved", "'most' 80.0 MiB, 'some' 10.0 MiB"},
                     [&] { b.reserve({.kind = "late", .bytes = 20 * MiB, .timeout = 5ms}); });
        CHECK(b.figures().waiting == 0);
        check_throws(errc::timed_out, {"'late'"},
                     [&] { b.reserve({.kind = "late", .bytes = 20 * MiB, .timeout = -5ms}); });
    }

    TEST_CASE_FIXTURE(house, "who waits gets what others release, bytes and cores together") {
        budget_options o = options(100);
        o.cores          = 4;
        memory_budget    b(o);
        auto             cores = b.reserve({.kind = "cores", .cores = 3});
        auto             bytes = b.reserve({.kind = "bytes", .bytes = 90});
        std::atomic<int> got{0};
        std::thread      waits([&] {
            auto const r = b.reserve({.kind = "both", .bytes = 50, .cores = 2});
            got          = static_cast<int>(r.bytes());
        });
        await_waiting(b, 1);
        cores.release();
        CHECK(got == 0);
        CHECK(b.figures().cores_reserved == 0);
        bytes.release();
        waits.join();
        CHECK(got == 50);
        CHECK(b.figures().cores_reserved == 0);
    }

    TEST_CASE_FIXTURE(house, "a stop request ends the wait") {
        memory_budget    b(options(100));
        auto const       all = b.reserve({.kind = "all", .bytes = 100});
        std::stop_source stop;
        std::thread      waits([&] {
            check_throws(errc::cancelled, {"'late'"},
                              [&] { b.reserve({.kind = "late", .bytes = 1}, stop.get_token()); });
        });
        await_waiting(b, 1);
        stop.request_stop();
        waits.join();
        CHECK(b.figures().waiting == 0);
    }

    TEST_CASE_FIXTURE(house, "memory in use beyond what is reserved counts, and is given back first") {
        memory_budget b(options(100));
        auto          one = b.reserve({.kind = "one", .bytes = 5});
        in_use            = 90;
        while (b.figures().in_use != 90) std::this_thread::yield();
        std::thread waits([&] { b.reserve({.kind = "two", .bytes = 50, .timeout = 20s}); });
        await_waiting(b, 1);
        while (relieved < 3) std::this_thread::yield();
        CHECK(b.figures().waiting == 1);
        one.release();  // it was not in the way
        in_use = 40;
        waits.join();
        CHECK(b.figures().in_use == 40);
    }

    TEST_CASE_FIXTURE(house, "what was there before may go while others wait for it") {
        in_use = 90;
        memory_budget b(options(100));
        CHECK(b.figures().baseline == 90);
        auto const  one = b.reserve({.kind = "one", .bytes = 5});
        std::thread waits([&] { b.reserve({.kind = "two", .bytes = 50, .timeout = 20s}); });
        await_waiting(b, 1);
        in_use = 40;
        waits.join();
        CHECK(relieved == 1);
        CHECK(b.figures().baseline == 40);
    }

    TEST_CASE_FIXTURE(house, "more capacity lets others start") {
        memory_budget b(options(100));
        auto const    all = b.reserve({.kind = "all", .bytes = 100});
        std::thread   waits([&] { b.reserve({.kind = "late", .bytes = 50}); });
        await_waiting(b, 1);
        b.set_capacity(150);
        waits.join();
        CHECK(b.figures().capacity == 150);
    }

    TEST_CASE_FIXTURE(house, "who waits for more than there is left is told") {
        memory_budget b(options(100));
        auto const    all = b.reserve({.kind = "all", .bytes = 100});
        std::thread   waits([&] {
            check_throws(errc::limit_exceeded, {"20 more than there are"},
                           [&] { b.reserve({.kind = "late", .bytes = 50, .timeout = 20s}); });
        });
        await_waiting(b, 1);
        b.set_capacity(30);
        waits.join();
        CHECK(b.figures().reserved == 100);
        CHECK(b.figures().capacity == 30);
    }

    TEST_CASE_FIXTURE(house, "many that wait look and relieve as one") {
        budget_options   o = options(100);
        std::atomic<int> looks{0};
        o.sample_age = 20ms;
        o.in_use     = [&] { return ++looks, memory_use{}; };
        memory_budget            b(o);
        auto                     all = b.reserve({.kind = "all", .bytes = 100});
        std::vector<std::thread> threads;
        for (int i = 0; i < 50; ++i) threads.emplace_back([&] { b.reserve({.kind = "late", .bytes = 2}); });
        await_waiting(b, 50);
        std::this_thread::sleep_for(100ms);
        int const  before = looks;
        auto const began  = std::chrono::steady_clock::now();
        std::this_thread::sleep_for(200ms);
        CHECK(looks - before <= (std::chrono::steady_clock::now() - began) / 15ms + 2);
        all.release();
        for (auto& t : threads) t.join();
        CHECK(b.figures().reserved == 0);
    }

    TEST_CASE_FIXTURE(house, "what the first that waits lacks is asked for") {
        std::atomic<std::size_t> asked{0};
        budget_options           o = options(100);
        o.relieve                  = [&](std::size_t bytes) { asked = bytes; };
        memory_budget b(o);
        auto const    some = b.reserve({.kind = "some", .bytes = 90});
        check_throws(errc::timed_out, {}, [&] { b.reserve({.kind = "late", .bytes = 50, .timeout = 50ms}); });
        CHECK(asked == 40);
    }

    TEST_CASE_FIXTURE(house, "idle batches go out for one that waits, as many as it takes") {
        tenure::registry              models;
        std::vector<tenure::batch_id> idle;
        for (int i = 0; i < 8; ++i) {
            idle.push_back(models.new_batch({.residency = tenure::residency::automatic}));
            auto const inside = models.enter(idle.back());
            auto const h      = tenure::make<char[]>(4 * MiB - 4096);
            for (std::size_t at = 0; at < h.size(); at += 4096) h[at] = 'x';
        }
        auto const     out = [&](tenure::batch_id id) { return models.usage(id).paged_out; };
        budget_options o   = options(40 * MiB);
        o.in_use           = [&] {
            std::size_t sum = 0;
            for (auto const id : idle) sum += models.usage(id).retained - out(id);
            return memory_use{.in_use = sum};
        };
        SUBCASE("of the registry that it names") { o.registry = &models, o.relieve = nullptr; }
        SUBCASE("by a function") {
            o.relieve = [&](std::size_t bytes) { models.page_out_idle(bytes); };
        }
        memory_budget b(o);
        CHECK(b.figures().baseline == 32 * MiB);
        auto const room = b.reserve({.kind = "job", .bytes = 20 * MiB, .timeout = 20s});
        CHECK(room.bytes() == 20 * MiB);
        for (std::size_t i = 0; i < idle.size(); ++i) CHECK((out(idle[i]) > 0) == (i < 3));
        for (auto const id : idle) models.end_batch(id);
    }

    TEST_CASE_FIXTURE(house, "memory of another kind may be more than the machine has") {
        memory_budget b(options(std::size_t{1} << 60));
        CHECK(b.reserve({.bytes = std::size_t{1} << 59}).bytes() == std::size_t{1} << 59);
    }

    TEST_CASE_FIXTURE(house, "is not negative") {
        auto const minus = static_cast<std::size_t>(-5);
        auto const bad   = std::make_error_code(std::errc::invalid_argument);
        check_throws(bad, {"-5 bytes"}, [&] { memory_budget const b({.capacity = minus}); });
        check_throws(bad, {"-5 cores"}, [&] { memory_budget const b({.cores = minus}); });
        memory_budget b(options(100));
        check_throws(bad, {"-5 bytes"}, [&] { b.set_capacity(minus); });
        check_throws(bad, {"-5 cores"}, [&] { b.set_capacity(50, minus); });
        CHECK(b.figures().capacity == 100);
        check_throws(errc::limit_exceeded, {"more than there are"}, [&] { b.reserve({.bytes = minus}); });
    }

    TEST_CASE("is that of the machine, or of its cgroup, if nothing is said") {
        memory_budget     b;
        std::size_t const all = b.figures().capacity;
        CHECK(all <= tenure::detail::physical_memory());
        CHECK(all > MiB);
        CHECK(b.figures().in_use > 0);
    }
}

TEST_SUITE("budget: batches") {
    TEST_CASE_FIXTURE(house, "are charged to their room, with all below them, and release it at their end") {
        memory_budget b(options(100 * MiB));
        {
            batch_scope job{{.name = "job", .reservation = b.reserve({.kind = "job", .bytes = 10 * MiB})}};
            CHECK(b.figures().reserved == 10 * MiB);
            job.make<std::array<char, 4 * MiB>>();
            {
                batch_scope below;
                below.make<std::array<char, 5 * MiB>>();
                CHECK(b.figures().reserved == 10 * MiB);
            }
            job.make<std::array<char, MiB>>();
        }
        CHECK(b.figures().reserved == 0);
        CHECK(b.estimate("job") > 9 * MiB);  // halfway from what was declared to what was used
        CHECK(b.estimate("job") < 10 * MiB);
    }

    TEST_CASE_FIXTURE(house, "teach their kind what they used at their highest, children included") {
        memory_budget b(options(100 * MiB));
        for (int i = 0; i < 20; ++i) {
            batch_scope job{{.reservation = b.reserve({.kind = "job"})}};
            batch_scope below;
            auto const  h = below.make<char[]>(3 * MiB);
            below.free(h);
            below.make<char[]>(MiB);
        }
        CHECK(b.estimate("job") >= 3 * MiB);
        CHECK(b.estimate("job") < 3 * MiB + 100'000);
        b.observe("other", 7);
        CHECK(b.estimate("other") == 7);
        CHECK(b.estimate("unknown", 5) == 5);
    }

    TEST_CASE_FIXTURE(house, "that need more get it while there is some") {
        memory_budget b(options(100 * MiB));
        reservation   room = b.reserve({.kind = "job", .bytes = MiB, .timeout = 1ms});
        {
            batch_scope job{{.name = "hungry", .reservation = room}};
            for (int i = 0; i < 50; ++i) job.make<std::array<char, MiB>>();
            CHECK(room.bytes() >= 50 * MiB);
            CHECK(room.bytes() <= 60 * MiB);
            CHECK(b.figures().reserved == room.bytes());
            check_throws(errc::limit_exceeded, {"'hungry'", "104857600 more wanted", "100.0 MiB"},
                         [&] { job.make<std::array<char, 100 * MiB>>(); });
            auto const other = b.reserve({.kind = "other", .bytes = 30 * MiB});
            check_throws(errc::timed_out, {"'hungry'", "'other' 30.0 MiB"},
                         [&] { job.make<std::array<char, 40 * MiB>>(); });
            CHECK(job.try_make<std::array<char, 40 * MiB>>().error() == errc::timed_out);
            check_throws(errc::timed_out, {"'hungry'"}, [&] { job.make_buffer<char>(40 * MiB); });
            job.make<std::array<char, 10 * MiB>>();
            check_throws(errc::timed_out, {"'hungry'"}, [&] {
                for (int i = 0; i < 10'000'000; ++i) job.make<std::array<char, 64>>();
            });
            CHECK(b.figures().reserved <= 100 * MiB);
        }
        CHECK(room.bytes() == 0);  // though the guard is here
        CHECK(b.figures().reserved == 0);
    }

    TEST_CASE_FIXTURE(house, "wait at a make until there is more") {
        memory_budget     b(options(100 * MiB));
        auto              other = b.reserve({.kind = "other", .bytes = 90 * MiB});
        std::atomic<bool> made{false};
        std::thread       hungry([&] {
            batch_scope job{{.name = "hungry", .reservation = b.reserve({.kind = "job", .bytes = MiB})}};
            job.make<char[]>(30 * MiB);
            made = true;
        });
        await_waiting(b, 1);
        CHECK_FALSE(made);
        other.release();
        hungry.join();
        CHECK(made);
    }

    TEST_CASE_FIXTURE(house, "do not take for used what one that has just ended used") {
        budget_options o = options(100 * MiB);
        o.sample_age     = 1h;
        memory_budget b(o);
        auto          other = b.reserve({.kind = "other", .bytes = 90 * MiB});
        in_use              = 100 * MiB;
        std::atomic<bool> made{false};
        std::thread       hungry([&] {
            batch_scope job{{.reservation = b.reserve({.kind = "job", .bytes = MiB})}};
            made = job.try_make<char[]>(30 * MiB).has_value();
        });
        while (b.figures().in_use != 100 * MiB) std::this_thread::yield();
        in_use = MiB;
        other.release();
        hungry.join();
        CHECK(made);
    }

    TEST_CASE_FIXTURE(house, "wait also when the budget itself has gone") {
        std::optional<memory_budget> b(std::in_place, options(100 * MiB));
        auto                         other = b->reserve({.kind = "other", .bytes = 90 * MiB});
        std::atomic<bool>            made{false};
        std::thread                  hungry([&, room = b->reserve({.kind = "job", .bytes = MiB})] {
            batch_scope job{{.reservation = room}};
            job.make<char[]>(30 * MiB);
            made = true;
                         });
        await_waiting(*b, 1);
        b.reset();
        int const before = relieved;
        in_use           = 200 * MiB;
        while (relieved < before + 3) std::this_thread::yield();
        in_use = 0;
        CHECK_FALSE(made);
        other.release();
        hungry.join();
        CHECK(made);
    }

    TEST_CASE_FIXTURE(house, "never pass their own hard limit") {
        memory_budget b(options(100 * MiB));
        batch_scope   job{{.limits = {.hard = 2 * MiB}, .reservation = b.reserve({.kind = "job", .bytes = MiB})}};
        job.make<std::array<char, MiB + 1000>>();
        CHECK(job.try_make<std::array<char, MiB>>().error() == errc::limit_exceeded);
        CHECK(b.figures().reserved < 2 * MiB);
        job.set_limits({.hard = 5 * MiB});
        CHECK(job.try_make<std::array<char, MiB>>().has_value());
    }

    TEST_CASE_FIXTURE(house, "that wait for each other: the youngest is told, and the other goes on") {
        memory_budget    b(options(100 * MiB));
        std::atomic<int> open{0}, told{0}, done{0};
        auto const       job = [&](std::string_view kind) {
            batch_scope one{{.name = kind, .reservation = b.reserve({.kind = kind, .bytes = 50 * MiB})}};
            ++open;
            while (open < 2) std::this_thread::yield();
            auto const more = one.try_make<char[]>(70 * MiB);
            if (!more && more.error() == errc::would_deadlock) ++told;
            if (more) ++done;
        };
        std::thread first([&] { job("first"); }), second([&] { job("second"); });
        first.join();
        second.join();
        CHECK(told == 1);
        CHECK(done == 1);
    }

    TEST_CASE_FIXTURE(house, "a job that reserves within another that has all is told that it waits for itself") {
        memory_budget b(options(100));
        batch_scope   job{{.reservation = b.reserve({.kind = "all", .bytes = 100})}};
        check_throws(errc::would_deadlock, {"'more'", "'all' 100 B"},
                     [&] { b.reserve({.kind = "more", .bytes = 1, .timeout = 20s}); });
    }

    TEST_CASE_FIXTURE(house, "a batch that is cancelled waits no longer") {
        tenure::registry           r;
        memory_budget              b(options(100 * MiB));
        auto const                 other = b.reserve({.kind = "other", .bytes = 90 * MiB});
        std::atomic<std::uint64_t> id{0};
        std::thread                hungry([&] {
            batch_scope job{r, {.reservation = b.reserve({.kind = "job", .bytes = MiB})}};
            id = job.id().value;
            CHECK(job.try_make<char[]>(30 * MiB).error() == errc::cancelled);
        });
        await_waiting(b, 1);
        r.cancel(tenure::batch_id{id});
        hungry.join();
        CHECK(b.figures().waiting == 0);
        CHECK(b.figures().reserved == 90 * MiB);
    }

    TEST_CASE_FIXTURE(house, "one batch for each reservation") {
        memory_budget b(options(100));
        reservation   room = b.reserve({.kind = "job", .bytes = 50});
        {
            batch_scope one{{.reservation = room}};
            check_throws(errc::batch_in_use, {"another was opened"},
                         [&] { batch_scope two{{.reservation = room}}; });
            CHECK(b.figures().reserved == 50);
        }
        check_throws(errc::batch_in_use, {"another was opened"}, [&] { batch_scope two{{.reservation = room}}; });

        reservation const other = b.reserve({.kind = "job", .bytes = 50});
        tenure::registry  r;
        r.cancel(r.new_batch());
        batch_scope over{r};
        r.cancel(over.id());
        check_throws(errc::cancelled, {}, [&] { batch_scope two{r, {.reservation = other}}; });
        CHECK(b.figures().reserved == 50);
    }

    TEST_CASE_FIXTURE(house, "that live on keep their room until they end") {
        tenure::registry r;
        memory_budget    b(options(100));
        tenure::batch_id id{};
        {
            batch_scope job{r, {.reservation = b.reserve({.kind = "job", .bytes = 50})}};
            id = job.detach();
        }
        CHECK(b.figures().reserved == 50);
        r.end_batch(id);
        CHECK(b.figures().reserved == 0);

        id = r.new_batch(
            {.cleanup = tenure::cleanup::manual, .reservation = b.reserve({.kind = "job", .bytes = 50})});
        r.end_batch(id);
        CHECK(b.figures().reserved == 50);
        r.destroy_batch(id);
        CHECK(b.figures().reserved == 0);

        {
            tenure::registry other;
            other.new_batch({.reservation = b.reserve({.kind = "job", .bytes = 50}), .long_lived = true});
            CHECK(b.figures().reserved == 50);
        }
        CHECK(b.figures().reserved == 0);
    }

    TEST_CASE_FIXTURE(house, "many threads reserve, grow, wait and end") {
        memory_budget            b(options(64 * MiB));
        std::atomic<std::size_t> inside{0};
        std::atomic<int>         ended{0}, told{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < 6; ++t)
            threads.emplace_back([&, t] {
                for (int i = 0; i < (TENURE_SANITIZED ? 50 : 300); ++i) {
                    auto const  kind = (t + i) % 3;
                    auto const  size = static_cast<std::size_t>(1 + (t * 7 + i * 3) % 20) * MiB;
                    batch_scope job{
                        {.reservation = b.reserve(
                             {.kind = std::string(1, static_cast<char>('a' + kind)), .bytes = size / 2})}};
                    if (auto const h = job.try_make<char[]>(size)) {
                        std::size_t const now = inside += size;
                        CHECK(now <= 64 * MiB);
                        inside -= size;
                        ++ended;
                    } else {
                        CHECK(h.error() == errc::would_deadlock);
                        ++told;
                    }
                }
            });
        for (auto& t : threads) t.join();
        CHECK(ended > 0);
        CHECK(b.figures().reserved == 0);
        CHECK(b.figures().waiting == 0);
    }

    TEST_CASE_FIXTURE(house, "in a forked child nobody waits, and reservations are as they were") {
        memory_budget b(options(100));
        auto          all = b.reserve({.kind = "all", .bytes = 100});
        std::thread   waits([&] { b.reserve({.kind = "late", .bytes = 10}); });
        await_waiting(b, 1);
        pid_t const child = fork();
        if (child == 0) {
            bool const alone = b.figures().waiting == 0 && b.figures().reserved == 100;
            all.release();
            _exit(alone && b.try_reserve({.kind = "child", .bytes = 100}) ? 0 : 1);
        }
        int status = 1;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
        all.release();
        waits.join();
    }

    TEST_CASE_FIXTURE(house, "a fork waits for nobody who gives memory back") {
        tenure::registry r;
        budget_options   o = options(100);
        o.relieve          = [&](std::size_t) {
            ++relieved;
            batch_scope{r}.make<std::array<char, 100'000>>();
            r.trim();
        };
        memory_budget            b(o);
        auto                     one = b.reserve({.kind = "one", .bytes = 1});
        std::vector<std::thread> threads;
        in_use = 1000;
        while (b.figures().in_use != 1000) std::this_thread::yield();
        for (int i = 0; i < 3; ++i) threads.emplace_back([&] { b.reserve({.kind = "late", .bytes = 10}); });
        for (int i = 0; i < (TENURE_SANITIZED ? 10 : 100); ++i) {
            pid_t const child = fork();
            if (child == 0) _exit(b.figures().waiting == 0 ? 0 : 1);
            int status = 1;
            REQUIRE(waitpid(child, &status, 0) == child);
            CHECK(status == 0);
        }
        CHECK(relieved > 0);
        in_use = 0;
        for (auto& t : threads) t.join();
    }
}

namespace {

/// A folder of files as the kernel shows them.
struct kernel_files {
    std::filesystem::path const root =
        std::filesystem::temp_directory_path() / ("budget_test." + std::to_string(getpid()));

    ~kernel_files() { std::filesystem::remove_all(root); }

    void write(std::string const& name, std::string_view text) const {
        std::filesystem::create_directories((root / name).parent_path());
        std::ofstream(root / name) << text;
    }
    tenure::detail::process_memory memory() const {
        return tenure::detail::process_memory(false, (root / "proc").string(), (root / "cgroup").string());
    }
    memory_use read() const { return memory()(); }
};

}  // namespace

TEST_SUITE("memory of the process") {
    TEST_CASE("is what it has in memory and in swap, where no cgroup limits it") {
        kernel_files k;
        k.write(
            "proc/status",
            "Name:\tx\nVmRSS:\t  999 kB\nRssAnon:\t  100 kB\nRssFile:\t 50 kB\nRssShmem:\t 8 kB\nVmSwap:\t 2 kB\n");
        k.write("proc/cgroup", "0::/user.slice\n");
        CHECK(k.read().in_use == 110 * 1024);
        CHECK(k.read().limit == tenure::no_limit);
        k.write("cgroup/user.slice/memory.max", "max\n");
        CHECK(k.read().limit == tenure::no_limit);
    }

    TEST_CASE("is what the cgroup with the lowest limit uses, without what can be dropped") {
        kernel_files k;
        k.write("proc/cgroup", "12:cpu:/x\n0::/a/b/c\n");
        k.write("cgroup/a/memory.max", "5000\n");
        k.write("cgroup/a/memory.current", "1000\n");
        k.write("cgroup/a/memory.stat", "anon 5\ninactive_file 300\n");
        k.write("cgroup/a/b/memory.max", "9000\n");
        k.write("cgroup/a/b/c/memory.max", "max\n");
        CHECK(k.read().in_use == 700);
        CHECK(k.read().limit == 5000);
        k.write("cgroup/a/memory.max", "4000\n");
        CHECK(k.read().limit == 4000);
    }

    TEST_CASE("in a container the cgroup is what is mounted") {
        kernel_files k;
        k.write("proc/cgroup", "0::/../../not/here\n");
        k.write("cgroup/memory.max", "5000\n");
        k.write("cgroup/memory.current", "1000\n");
        CHECK(k.read().in_use == 1000);
        CHECK(k.read().limit == 5000);
    }

    TEST_CASE("of version 1, too") {
        kernel_files k;
        k.write("proc/cgroup", "4:memory:/a\n3:cpu:/a\n0::/\n");
        k.write("cgroup/memory/a/memory.limit_in_bytes", "5000\n");
        k.write("cgroup/memory/a/memory.usage_in_bytes", "1000\n");
        k.write("cgroup/memory/a/memory.stat", "inactive_file 100\ntotal_inactive_file 200\n");
        CHECK(k.read().in_use == 800);
        CHECK(k.read().limit == 5000);
        k.write("cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
        k.write("proc/status", "RssAnon: 1 kB\n");
        CHECK(k.read().in_use == 1024);
        CHECK(k.read().limit == tenure::no_limit);
    }

    TEST_CASE("is that of another cgroup once the process is there") {
        kernel_files k;
        k.write("proc/cgroup", "0::/a\n");
        k.write("cgroup/a/memory.max", "5000\n");
        k.write("cgroup/a/memory.current", "1000\n");
        auto mine = k.memory();
        CHECK(mine().in_use == 1000);
        std::filesystem::remove_all(k.root / "cgroup/a");
        k.write("proc/cgroup", "0::/b\n");
        k.write("cgroup/b/memory.max", "7000\n");
        k.write("cgroup/b/memory.current", "3000\n");
        CHECK(mine().limit == 5000);  // still, and not none
        CHECK(mine().in_use == 3000);
        CHECK(mine().limit == 7000);
    }

    TEST_CASE("files that say nothing are as none") {
        kernel_files k;
        CHECK(k.read().in_use == 0);
        for (std::string_view const text : {"", "\n", "RssAnon:", "RssAnon: -5 kB",
                                            "RssAnon: 99999999999999999999999 kB", "0::", ":memory:", "\0\0"}) {
            k.write("proc/status", text);
            k.write("proc/cgroup", text);
            k.write("cgroup/memory.max", text);
            CHECK(k.read().in_use == 0);
            CHECK(k.read().limit == tenure::no_limit);
        }
    }

    TEST_CASE("of this process grows with what it touches") {
        tenure::detail::process_memory mine;
        std::size_t const              before = mine().in_use;
        std::vector<char> const        some(64 * MiB, 'x');
        CHECK(some[MiB] == 'x');
        CHECK(mine().in_use >= before + 60 * MiB);
    }

    TEST_CASE("is what it was when last seen, while no file can be opened") {
        kernel_files k;
        k.write("proc/cgroup", "0::/a\n");
        k.write("cgroup/a/memory.max", "5000\n");
        k.write("cgroup/a/memory.current", "1000\n");
        tenure::detail::process_memory mine, limited = k.memory();
        memory_use const               before = mine();
        CHECK(before.in_use > 0);
        ::rlimit all{};
        REQUIRE(::getrlimit(RLIMIT_NOFILE, &all) == 0);
        ::rlimit const none{.rlim_cur = 0, .rlim_max = all.rlim_max};
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
        memory_use const               now = mine(), in_group = limited();
        tenure::detail::process_memory late    = k.memory();
        memory_use const               unknown = late();
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &all) == 0);
        CHECK(now.in_use == before.in_use);
        CHECK(now.limit == before.limit);
        CHECK(in_group.in_use == 1000);
        CHECK(in_group.limit == 5000);
        CHECK(unknown.in_use == 0);
        CHECK(late().in_use == 1000);
        CHECK(late().limit == 5000);
    }

    TEST_CASE("counts what its cgroup uses, whose limit is the capacity") {
        if (TENURE_SANITIZED) {
            MESSAGE("skipped: a sanitizer has memory of its own, for which there is no room in the cgroup");
            return;
        }
        small_cgroup const group(400 * MiB);
        if (!group) {
            MESSAGE("skipped: a test may not make a cgroup here");
            return;
        }
        ::pid_t const child = ::fork();
        if (child == 0) {
            auto const must = [](bool good, int code) {
                if (!good) ::_exit(code);
            };
            must(group.join(), 2);
            std::vector<char> const some(100 * MiB, 'x');
            must(some[MiB] == 'x', 9);
            memory_budget b{{.capacity = 2000 * MiB, .sample_age = 1ms}};
            must(b.figures().capacity == 400 * MiB, 3);
            must(b.figures().in_use >= 100 * MiB, 4);
            must(b.try_reserve({.bytes = 401 * MiB}).error() == errc::limit_exceeded, 5);
            must(b.try_reserve({.bytes = 350 * MiB}).error() == errc::timed_out, 6);
            must(b.try_reserve({.bytes = 250 * MiB}).has_value(), 7);
            memory_budget const less{{.capacity = 200 * MiB}};
            must(less.figures().capacity == 200 * MiB, 8);
            ::_exit(0);
        }
        int status = -1;
        CHECK(::waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }
}
