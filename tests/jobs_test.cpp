// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Jobs that a budget runs: memory_budget::run, and what becomes of those that fail.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/budget.hpp>
#include <tenure/save.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "temporary.hpp"
#include "throws.hpp"

namespace {

using namespace std::chrono_literals;
using tenure::batch_scope;
using tenure::errc;
using tenure::job_attempt;
using tenure::job_failure;
using tenure::job_options;
using tenure::memory_budget;
using tenure::on_failure;

constexpr std::size_t MiB = 1 << 20;

/// A budget of 100 MiB for which only reservations count.
struct workshop : accounting {
    memory_budget budget{[] {
        tenure::budget_options o{.capacity = 100 * MiB, .sample_age = 1ms};
        o.in_use  = [] { return tenure::memory_use{}; };
        o.relieve = [](std::size_t) {};
        return o;
    }()};

    job_options job(std::string_view kind, std::size_t bytes, std::size_t attempts = 1) {
        job_options o{.needs = {.kind = kind, .bytes = bytes}, .batch = {.name = kind}, .attempts = attempts};
        if (attempts > 1) o.on_failure = on_failure::requeue;
        return o;
    }
};

}  // namespace

TEST_CASE_FIXTURE(workshop, "a job runs in a batch with its room, which is free when it returns") {
    int const answer = budget.run(job("query", 30 * MiB), [&](batch_scope& b) {
        CHECK(budget.figures().reserved == 30 * MiB);
        CHECK(b.name() == "query");
        return *b.make<int>(42);
    });
    CHECK(answer == 42);
    CHECK(budget.figures().reserved == 0);

    // What it returns may be whatever can be moved; or nothing.
    auto const owned = budget.run(job("query", MiB), [](batch_scope&) { return std::make_unique<int>(7); });
    CHECK(*owned == 7);
    bool ran = false;
    budget.run(job("query", MiB), [&](batch_scope&, job_attempt const& a) { ran = a.number == 1; });
    CHECK(ran);
    CHECK(budget.failures().empty());
}

TEST_CASE_FIXTURE(workshop, "what a job throws passes, and is kept") {
    CHECK_THROWS_WITH_AS(
        budget.run(job("query", MiB), [](batch_scope&) { throw std::runtime_error("no such table"); }),
        "no such table", std::runtime_error);
    CHECK_THROWS_AS(budget.run(job("odd", MiB), [](batch_scope&) { throw 7; }), int);
    CHECK(budget.figures().reserved == 0);
    std::vector<job_failure> const all = budget.failures();
    REQUIRE(all.size() == 2);
    CHECK(all[0].kind == "query");
    CHECK(all[0].what == "no such table");
    CHECK(!all[0].requeued);
    CHECK(all[1].what == "an exception that is no std::exception");
}

TEST_CASE_FIXTURE(workshop, "a job that fails is put back in line, so often") {
    std::vector<std::size_t> numbers;
    auto const               fails = [&](std::size_t times) {
        return [&numbers, times](batch_scope& b, job_attempt const& a) {
            b.make<std::string>("of this attempt");
            CHECK(a.failures.size() == a.number - 1);
            numbers.push_back(a.number);
            if (a.number <= times) throw std::runtime_error("attempt " + std::to_string(a.number));
            return a.failures.empty() ? std::string() : a.failures.back().what;
        };
    };
    CHECK(budget.run(job("job", MiB, 3), fails(2)) == "attempt 2");
    CHECK(numbers == std::vector<std::size_t>{1, 2, 3});
    CHECK(budget.failures().size() == 2);
    CHECK(budget.failures()[1].requeued);
    CHECK(budget.failures()[1].attempt == 2);

    CHECK_THROWS_WITH(budget.run(job("job", MiB, 3), fails(3)), "attempt 3");
    CHECK(numbers.size() == 6);
    CHECK(!budget.failures().back().requeued);
    CHECK(budget.figures().reserved == 0);
}

TEST_CASE_FIXTURE(workshop, "only the last failures are kept") {
    for (int i = 0; i < 70; ++i)
        CHECK_THROWS(
            budget.run(job("job", MiB), [&](batch_scope&) { throw std::runtime_error(std::to_string(i)); }));
    CHECK(budget.failures().size() == 64);
    CHECK(budget.failures().front().what == "6");
    CHECK(budget.failures().back().what == "69");
}

TEST_CASE_FIXTURE(workshop, "who is put back lets those that wait go first") {
    std::vector<std::string> order;
    std::jthread             other;
    budget.run(job("first", 80 * MiB, 2), [&](batch_scope&, job_attempt const& a) {
        if (a.number == 1) {
            other = std::jthread(
                [&] { budget.run(job("second", 80 * MiB), [&](batch_scope&) { order.push_back("second"); }); });
            while (budget.figures().waiting == 0) std::this_thread::yield();
            throw std::runtime_error("again");
        }
        order.push_back("first");
    });
    other.join();
    CHECK(order == std::vector<std::string>{"second", "first"});
}

TEST_CASE_FIXTURE(workshop, "who was cancelled or stopped does not begin again") {
    int  runs = 0;
    auto code = errc{};
    try {
        budget.run(job("job", MiB, 5), [&](batch_scope& b) {
            ++runs;
            b.cancel();
            b.make<int>(1);
        });
    } catch (tenure::error const& e) {
        code = static_cast<errc>(e.code().value());
    }
    CHECK(code == errc::cancelled);
    CHECK(runs == 1);

    runs = 0;  // whatever it throws then
    CHECK_THROWS_AS(budget.run(job("job", MiB, 5),
                               [&](batch_scope& b) {
                                   ++runs;
                                   b.cancel();
                                   throw std::runtime_error("told to stop");
                               }),
                    std::runtime_error);
    CHECK(runs == 1);

    runs = 0;  // a batch of its own is another matter
    CHECK(budget.run(job("job", MiB, 5), [&](batch_scope&) {
        batch_scope part;
        if (++runs == 1) part.cancel();
        return *part.make<int>(runs);
    }) == 2);

    std::stop_source stop;
    runs = 0;
    CHECK_THROWS_WITH(budget.run(
                          job("job", MiB, 5),
                          [&](batch_scope&) {
                              ++runs;
                              stop.request_stop();
                              throw std::runtime_error("stopped");
                          },
                          stop.get_token()),
                      "stopped");
    CHECK(runs == 1);
}

TEST_CASE_FIXTURE(workshop, "a job for which there is never room is refused, not run") {
    check_throws(errc::limit_exceeded, {"for a job 'huge'"},
                 [&] { budget.run(job("huge", 200 * MiB, 5), [](batch_scope&) { FAIL("no room for it"); }); });
    CHECK(budget.failures().empty());  // it did not run
}

TEST_CASE_FIXTURE(workshop, "of jobs that wait for each other one begins again, and both come to their end") {
    std::atomic<int> begun{0}, ended{0};
    auto const       work = [&](batch_scope& b, job_attempt const& a) {
        auto const some = b.make_for_overwrite<std::byte[]>(30 * MiB);
        if (a.number == 1) {
            ++begun;
            while (begun < 2) std::this_thread::yield();
        }
        auto const more = b.make_for_overwrite<std::byte[]>(50 * MiB);  // both have 30: one of them must give way
        CHECK(some.alive());
        CHECK(more.alive());
        ++ended;
    };
    {
        std::jthread const one([&] { budget.run(job("job", 30 * MiB, 4), work); });
        std::jthread const two([&] { budget.run(job("job", 30 * MiB, 4), work); });
    }
    CHECK(ended == 2);
    REQUIRE(budget.failures().size() == 1);
    CHECK(budget.failures()[0].code == errc::would_deadlock);
    CHECK(budget.failures()[0].requeued);
}

TEST_CASE_FIXTURE(workshop, "a job that begins again goes on from what it had saved") {
    temporary_directory const where;
    std::vector<int>          done;  // each step as it was done, by all attempts
    int const                 sum = budget.run(job("train", MiB, 4), [&](batch_scope& b, job_attempt const& a) {
        auto const saved = tenure::restore(where.path());
        auto const state = saved.empty() ? b.make_buffer<int>(1) : saved.get<int>("state");
        if (saved.empty()) {
            state.fill(0);
            give_name(state, "state");
        }
        auto const first = static_cast<int>(
            saved.empty() ? 0 : tenure::registry::global().snapshot().batches.back().progress.done);
        for (int step = first; step < 9; ++step) {
            int value = 0;
            state.read(0, std::span(&value, 1));
            value += step;
            state.write(0, std::span(&value, 1));
            done.push_back(step);
            b.progress(static_cast<std::uint64_t>(step) + 1, 9);
            if (step % 3 == 2) save(b, where.path());
            if (step == 4 && a.number == 1) throw std::runtime_error("a disk was full");
            if (step == 6 && a.number == 2) throw std::runtime_error("a wire broke");
        }
        int value = 0;
        state.read(0, std::span(&value, 1));
        return value;
    });
    CHECK(sum == 36);
    CHECK(done == std::vector<int>{0, 1, 2, 3, 4, 3, 4, 5, 6, 6, 7, 8});
    REQUIRE(budget.failures().size() == 2);
    CHECK(budget.failures()[1].what == "a wire broke");
}
