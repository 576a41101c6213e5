// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <future>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <doctest/doctest.h>

#include <tenure/asio.hpp>
#include <tenure/asio/budget.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "throws.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using asio::awaitable;
using asio::use_awaitable;
using tenure::errc;
using tenure::memory_budget;
using tenure::reservation;

constexpr std::size_t MiB = 1 << 20;

struct house : accounting {
    tenure::budget_options options(std::size_t capacity) {
        tenure::budget_options o;
        o.capacity   = capacity;
        o.sample_age = 1ms;
        o.in_use     = [] { return tenure::memory_use{}; };
        o.relieve    = [](std::size_t) {};
        return o;
    }
};

/// What an operation completed with.
struct outcome {
    bool               done = false;
    std::exception_ptr thrown{};
    reservation        room{};

    auto handler() {
        return [this](std::exception_ptr e, reservation r) {
            done   = true;
            thrown = std::move(e);
            room   = std::move(r);
        };
    }
    void rethrow() const {
        if (thrown) std::rethrow_exception(thrown);
    }
};

}  // namespace

TEST_SUITE("budget: async_reserve") {
    TEST_CASE_FIXTURE(house, "completes through the executor, also if there is room at once") {
        memory_budget    b(options(100));
        asio::io_context io;
        outcome          one;
        b.async_reserve({.kind = "one", .bytes = 60}, asio::bind_executor(io, one.handler()));
        CHECK_FALSE(one.done);
        io.run();
        CHECK(one.done);
        CHECK_FALSE(one.thrown);
        CHECK(one.room.bytes() == 60);
    }

    TEST_CASE_FIXTURE(house, "waits for what others release") {
        memory_budget    b(options(100));
        asio::io_context io;
        auto             all = b.reserve({.kind = "all", .bytes = 100});
        outcome          one, two;
        b.async_reserve({.kind = std::string("one"), .bytes = 60}, asio::bind_executor(io, one.handler()));
        b.async_reserve({.kind = "two", .bytes = 60}, asio::bind_executor(io, two.handler()));
        CHECK(b.figures().waiting == 2);
        io.run_for(20ms);
        CHECK_FALSE(one.done);
        all.release();
        while (!one.done) io.run_one();
        CHECK(one.room.bytes() == 60);
        CHECK_FALSE(two.done);
        one.room.release();
        io.run();
        CHECK(two.room.bytes() == 60);
    }

    TEST_CASE_FIXTURE(house, "tells why there is none") {
        memory_budget    b(options(100));
        asio::io_context io;
        auto const       all = b.reserve({.kind = "all", .bytes = 100});
        outcome          late, big;
        b.async_reserve({.kind = "late", .bytes = 1, .timeout = 10ms}, asio::bind_executor(io, late.handler()));
        b.async_reserve({.kind = "big", .bytes = 101}, asio::bind_executor(io, big.handler()));
        io.run();
        check_throws(errc::timed_out, {"'late'", "'all' 100 B"}, [&] { late.rethrow(); });
        check_throws(errc::limit_exceeded, {"'big'", "1 more than there are"}, [&] { big.rethrow(); });
        CHECK_FALSE(late.room);
        CHECK(b.figures().waiting == 0);
    }

    TEST_CASE_FIXTURE(house, "can be cancelled") {
        memory_budget             b(options(100));
        asio::io_context          io;
        asio::cancellation_signal signal;
        auto const                all = b.reserve({.kind = "all", .bytes = 100});
        outcome                   one;
        b.async_reserve({.kind = "one", .bytes = 1},
                        asio::bind_cancellation_slot(signal.slot(), asio::bind_executor(io, one.handler())));
        io.run_for(5ms);
        CHECK_FALSE(one.done);
        signal.emit(asio::cancellation_type::total);
        io.run();
        check_throws(errc::cancelled, {"'one'"}, [&] { one.rethrow(); });
        CHECK(b.figures().waiting == 0);
    }

    TEST_CASE_FIXTURE(house, "ends when its stop token says so, before or while it waits") {
        memory_budget    b(options(100));
        asio::io_context io;
        auto             all = b.reserve({.kind = "all", .bytes = 100});
        std::stop_source stop, other;
        outcome          one, two, late;
        b.async_reserve({.kind = "one", .bytes = 1}, stop.get_token(), asio::bind_executor(io, one.handler()));
        b.async_reserve({.kind = "two", .bytes = 1}, other.get_token(), asio::bind_executor(io, two.handler()));
        io.run_for(5ms);
        CHECK_FALSE(one.done);
        std::jthread const elsewhere([&] { stop.request_stop(); });
        while (!one.done) io.run_one();
        check_throws(errc::cancelled, {"'one'"}, [&] { one.rethrow(); });
        b.async_reserve({.kind = "late", .bytes = 1}, stop.get_token(), asio::bind_executor(io, late.handler()));
        while (!late.done) io.run_one();
        check_throws(errc::cancelled, {"'late'"}, [&] { late.rethrow(); });
        CHECK_FALSE(two.done);
        all.release();
        io.run();
        CHECK(two.room.bytes() == 1);
        other.request_stop();  // which concerns nobody any more
        CHECK(b.figures().waiting == 0);
    }

    TEST_CASE_FIXTURE(house, "has left its stop token when its executor goes") {
        memory_budget    b(options(100));
        auto const       all = b.reserve({.kind = "all", .bytes = 100});
        std::stop_source stop;
        outcome          one;
        {
            asio::io_context io;
            b.async_reserve({.kind = "one", .bytes = 1}, stop.get_token(), asio::bind_executor(io, one.handler()));
        }
        stop.request_stop();
        CHECK_FALSE(one.done);
        CHECK(b.figures().waiting == 0);
    }

    TEST_CASE_FIXTURE(house, "leaves the line when its executor goes") {
        memory_budget b(options(100));
        auto          all = b.reserve({.kind = "all", .bytes = 100});
        outcome       one;
        {
            asio::io_context io;
            b.async_reserve({.kind = "one", .bytes = 1}, asio::bind_executor(io, one.handler()));
            CHECK(b.figures().waiting == 1);
        }
        CHECK(b.figures().waiting == 0);
        CHECK_FALSE(one.done);
        all.release();
        CHECK(b.figures().reserved == 0);
    }

    TEST_CASE_FIXTURE(house, "gives a future, and on an executor of its own works without one of the user's") {
        memory_budget            b(options(100));
        auto                     all  = b.reserve({.kind = "all", .bytes = 100});
        std::future<reservation> room = b.async_reserve({.kind = "one", .bytes = 10}, asio::use_future);
        all.release();
        CHECK(room.get().bytes() == 10);
    }

    TEST_CASE_FIXTURE(house, "in coroutines: a batch of a job that grows, waits and ends") {
        memory_budget     b(options(20 * MiB));
        asio::thread_pool pool(3);
        std::atomic<int>  ended{0};
        auto const        job = [&](std::size_t size) -> awaitable<void> {
            for (int i = 0; i < 30; ++i) {
                auto room =
                    co_await b.async_reserve({.kind = std::to_string(size), .bytes = size * MiB}, use_awaitable);
                tenure::batch_owner const own({.name = "job", .reservation = std::move(room)});
                {
                    auto const inside = tenure::registry::global().enter(own.id());
                    tenure::make<char[]>(size * MiB);
                }
                co_await asio::post(use_awaitable);
                ++ended;
            }
        };
        for (std::size_t i = 1; i < 9; ++i) asio::co_spawn(pool, job(i), asio::detached);
        pool.join();
        CHECK(ended == 240);
        CHECK(b.figures().reserved == 0);
    }

    TEST_CASE_FIXTURE(house, "a job that needs more gets it if there is some, and does not wait in its thread") {
        memory_budget       b(options(20 * MiB));
        auto const          other = b.reserve({.kind = "other", .bytes = 10 * MiB});
        tenure::batch_scope job{
            {.reservation = b.async_reserve({.kind = "job", .bytes = MiB}, asio::use_future).get()}};
        CHECK(job.try_make<char[]>(5 * MiB).has_value());
        CHECK(job.try_make<char[]>(6 * MiB).error() == errc::timed_out);
    }

    TEST_CASE_FIXTURE(house, "a job whose batch is cancelled waits no longer") {
        memory_budget    b(options(100));
        asio::io_context io;
        auto const       all = b.reserve({.kind = "all", .bytes = 100});
        tenure::batch_id id{};
        asio::co_spawn(
            io,
            [&]() -> awaitable<void> {
                try {
                    co_await tenure::co_with_batch({}, [&](tenure::batch_owner& own) -> awaitable<void> {
                        id = own.id();
                        co_await b.async_reserve({.kind = "one", .bytes = 1}, use_awaitable);
                        FAIL("it has no room");
                    });
                } catch (tenure::error const& e) {
                    CHECK(e.code() == errc::cancelled);
                }
            },
            asio::detached);
        io.run_for(5ms);
        CHECK(b.figures().waiting == 1);
        tenure::registry::global().cancel(id);
        io.run();
        CHECK(b.figures().waiting == 0);
    }
}
