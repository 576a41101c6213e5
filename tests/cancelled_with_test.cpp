// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What a coroutine or a callback waits for ends when its batch expires or is cancelled.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <memory_resource>
#include <stdexcept>
#include <utility>

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/system/system_error.hpp>

#include <doctest/doctest.h>

#include <tenure/asio.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

using asio::awaitable;
using asio::use_awaitable;
using boost::system::error_code;
using tenure::batch_owner;
using tenure::cancelled_with;
using tenure::errc;
using tenure::registry;

awaitable<void> wait_an_hour(int& reached) {
    asio::steady_timer timer{co_await asio::this_coro::executor, 1h};
    reached = 1;
    co_await timer.async_wait(use_awaitable);
    reached = 2;
}

bool was_aborted(std::exception_ptr const& e) {
    if (!e) return false;
    try {
        std::rethrow_exception(e);
    } catch (boost::system::system_error const& s) {
        return s.code() == asio::error::operation_aborted;
    }
}

/// Nothing of it is due within a test, unless it is cancelled.
struct due_in_an_hour {
    asio::io_context   io{1};
    asio::steady_timer timer{io, 1h};
    error_code         outcome;
    bool               done = false;

    auto note() {
        return [this](error_code e) {
            outcome = e;
            done    = true;
        };
    }
};

}  // namespace

TEST_SUITE("cancelled_with") {
    TEST_CASE_FIXTURE(accounting, "a coroutine: what it awaits ends with its batch's cancellation") {
        registry           r;
        batch_owner        request(r, {.name = "request"});
        asio::io_context   io{1};
        int                reached = 0;
        std::exception_ptr thrown;
        asio::co_spawn(tenure::bind_batch(io, request), wait_an_hour(reached),
                       cancelled_with(request, [&](std::exception_ptr e) { thrown = e; }));
        asio::post(io, [&] {
            CHECK(reached == 1);
            request.cancel();
        });
        io.run();
        CHECK(reached == 1);
        CHECK(was_aborted(thrown));
    }

    TEST_CASE_FIXTURE(accounting,
                      "a coroutine: what it awaits ends at its batch's deadline, by the supervisor's timer") {
        registry           r;
        asio::io_context   io{1};
        int                reached = 0;
        std::exception_ptr thrown;
        {
            tenure::supervisor const deadlines(io.get_executor(), r);
            batch_owner              request(r, {.name = "request", .timeout = 1ms});
            asio::co_spawn(tenure::bind_batch(io, request), wait_an_hour(reached),
                           cancelled_with(request, [&](std::exception_ptr e) { thrown = e; }));
            io.run();
        }
        CHECK(reached < 2);
        CHECK(was_aborted(thrown));
    }

    TEST_CASE_FIXTURE(accounting, "a callback: its operation is cancelled when the batch above ends, too") {
        registry       r;
        due_in_an_hour w;
        batch_owner    above(r, {.name = "above"});
        batch_owner    request(r, {.name = "request"}, above);
        w.timer.async_wait(cancelled_with(request, w.note()));
        asio::post(w.io, [&] { above.end(); });
        w.io.run();
        CHECK(w.outcome == asio::error::operation_aborted);
    }

    TEST_CASE_FIXTURE(accounting, "a batch that is over cancels at once") {
        registry       r;
        due_in_an_hour w;
        batch_owner    request(r, {.name = "request"});
        request.cancel();
        w.timer.async_wait(cancelled_with(request, w.note()));
        w.io.run();
        CHECK(w.outcome == asio::error::operation_aborted);
        w.io.restart();
        w.done = false;
        w.timer.async_wait(cancelled_with(batch_owner(), w.note()));  // of none
        w.io.run();
        CHECK(w.done);
    }

    TEST_CASE_FIXTURE(accounting, "what completes before is left alone") {
        registry           r;
        asio::io_context   io{1};
        asio::steady_timer soon{io, 0s}, later{io, 0s};
        batch_owner        request(r, {.name = "request"});
        int                done = 0;
        soon.async_wait(cancelled_with(request, [&](error_code e) {
            CHECK(!e);
            ++done;
            request.cancel();  // nothing of this is left to be cancelled, also not what begins now
            later.async_wait([&](error_code f) {
                CHECK(!f);
                ++done;
            });
        }));
        io.run();
        CHECK(done == 2);
    }

    TEST_CASE_FIXTURE(accounting, "a slot of the handler's own still works") {
        registry                  r;
        due_in_an_hour            w;
        batch_owner               request(r, {.name = "request"});
        asio::cancellation_signal hang_up;
        w.timer.async_wait(cancelled_with(request, asio::bind_cancellation_slot(hang_up.slot(), w.note())));
        asio::post(w.io, [&] { hang_up.emit(asio::cancellation_type::terminal); });
        w.io.run();
        CHECK(w.outcome == asio::error::operation_aborted);
        CHECK_FALSE(hang_up.slot().has_handler());
        request.cancel();
    }

    TEST_CASE_FIXTURE(accounting, "the handler keeps its executor and its allocator, and returns are the token's") {
        registry                            r;
        due_in_an_hour                      w;
        batch_owner                         request(r, {.name = "request"});
        std::pmr::monotonic_buffer_resource memory;
        auto const                          strand = asio::make_strand(w.io);
        bool                                there  = false;
        auto const                          in_strand =
            asio::bind_executor(strand, [&](error_code) { there = strand.running_in_this_thread(); });
        w.timer.async_wait(
            cancelled_with(request, asio::bind_allocator(std::pmr::polymorphic_allocator<>(&memory), in_strand)));
        asio::post(w.io, [&] { request.cancel(); });
        w.io.run();
        CHECK(there);

        w.io.restart();
        batch_owner other(r, {.name = "other"});
        auto        future = w.timer.async_wait(cancelled_with(other, asio::use_future));
        other.cancel();
        w.io.run();
        CHECK_THROWS_AS(future.get(), boost::system::system_error);
    }

    TEST_CASE_FIXTURE(accounting, "co_with_batch: what it awaits ends in time, and the caller learns why") {
        registry         r;
        asio::io_context io{1};
        int              reached = 0;
        {
            tenure::supervisor const deadlines(io.get_executor(), r);
            auto const               serve = [&]() -> awaitable<void> {
                tenure::error caught(errc::batch_ended);
                try {
                    co_await tenure::co_with_batch({.name = "step", .timeout = 1ms},
                                                                 [&](batch_owner&) { return wait_an_hour(reached); });
                } catch (tenure::error const& e) {
                    caught = e;
                }
                CHECK(caught.code() == errc::expired);
                try {
                    co_await tenure::co_with_batch({.name = "step"}, [&](batch_owner& step) -> awaitable<void> {
                        step.cancel();
                        throw std::logic_error("its own");
                        co_return;
                    });
                } catch (std::logic_error const&) {
                    reached = 7;
                }
            };
            asio::co_spawn(tenure::bind_batch(io, r.root()), serve, [](std::exception_ptr e) { CHECK(!e); });
            io.run();
        }
        CHECK(reached == 7);
    }

    TEST_CASE("threads: cancellations race with completions and with starts") {
        registry         r;
        std::atomic<int> completed{0};
        constexpr int    rounds = TENURE_SANITIZED ? 500 : 5000;
        {
            asio::thread_pool pool{4};
            for (int i = 0; i < rounds; ++i) {
                auto const request = std::make_shared<batch_owner>(r, tenure::batch_options{.name = "request"});
                auto const strand  = asio::make_strand(pool);
                auto const timer = std::make_shared<asio::steady_timer>(strand, std::chrono::microseconds(i % 50));
                asio::post(strand, [=, &completed] {
                    timer->async_wait(cancelled_with(
                        *request, asio::bind_executor(strand, [timer, request, &completed](error_code) {
                            completed.fetch_add(1);
                        })));
                });
                asio::post(pool, [request] { request->cancel(); });
            }
            pool.join();
        }
        CHECK(completed == rounds);
        CHECK(r.snapshot().batches.size() == 1);
    }
}
