// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The current batch follows the flow of control: through coroutines, callbacks, strands and thread pools.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <doctest/doctest.h>

#include <tenure/asio.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "random/dice.hpp"
#include "throws.hpp"

namespace {

namespace asio = boost::asio;

using asio::awaitable;
using asio::use_awaitable;
using tenure::batch_id;
using tenure::batch_owner;
using tenure::batch_scope;
using tenure::batch_status;
using tenure::errc;
using tenure::handle;
using tenure::registry;

/// Says in which batch it was meant to be.
struct note {
    std::uint64_t batch = 0;
    std::uint64_t text  = 0x5eed;
};

struct text {
    explicit text(std::uint64_t id) : batch(id) { ++alive; }
    text(text const&)            = delete;
    text& operator=(text const&) = delete;
    ~text() { --alive; }

    std::uint64_t                   batch;
    static inline std::atomic<long> alive{0};
};

struct mishap : std::runtime_error {
    mishap() : std::runtime_error("mishap") {}
};

/// What went wrong, and what was done, over all threads.
struct tally {
    std::atomic<std::size_t> astray{0}, made{0}, thrown{0}, cancelled{0}, finished{0}, refused{0};
};

/// The thread is as this found it, whatever ran meanwhile.
struct found_thread {
    tenure::detail::lane* const         current = tenure::detail::this_thread.current;
    tenure::detail::batch_record* const newest  = tenure::detail::this_thread.newest;

    bool is_as_found() const {
        tenure::detail::thread_context const& me = tenure::detail::this_thread;
        return me.current == current && me.newest == newest && !me.visiting;
    }
};

/// Makes some, and finds all of them in the batch that is current.
void make_some(tally& all, dice& d, std::vector<handle<note>>& notes) {
    batch_id const here = tenure::current_batch();
    for (auto n = d.below(4); n > 0; --n) {
        auto const h = tenure::make<note>(here.value);
        auto const t = tenure::make<text>(here.value);
        if (h.owner() != here || t.owner() != here) ++all.astray;
        notes.push_back(h);
        all.made += 2;
    }
    {
        batch_scope hop;  // of this thread and block
        if (tenure::make<note>(hop.id().value).owner() != hop.id()) ++all.astray;
    }
    if (tenure::current_batch() != here) ++all.astray;
}

awaitable<void> pause(dice& d) {
    for (auto n = d.below(4); n > 0; --n) co_await asio::post(use_awaitable);
    if (d.one_in(16)) {
        asio::steady_timer timer(co_await asio::this_coro::executor, std::chrono::microseconds(d.below(50)));
        co_await timer.async_wait(use_awaitable);
    }
}

void verify(tally& all, batch_id expected, std::vector<handle<note>> const& notes) {
    if (tenure::current_batch() != expected) ++all.astray;
    for (handle<note> const h : notes)
        if (h->batch != expected.value || h->text != 0x5eed) ++all.astray;
}

awaitable<void> aside(tally& all, dice d, batch_id expected) {
    std::vector<handle<note>> mine;
    make_some(all, d, mine);
    co_await pause(d);
    verify(all, expected, mine);
}

/// Works in the batch that is current, and in batches below it, with pauses at which it may change threads.
awaitable<handle<note>> work(tally& all, dice d, unsigned depth, batch_id expected) {
    std::vector<handle<note>> notes;
    for (auto round = 1 + d.below(3); round > 0; --round) {
        verify(all, expected, notes);
        make_some(all, d, notes);
        co_await pause(d);
        verify(all, expected, notes);
        if (depth > 0 && d.one_in(2)) {
            dice const                  more = dice(d());
            std::optional<handle<note>> kept;
            try {
                kept = co_await tenure::co_with_batch(
                    {.name = "hop"}, [&, more](batch_owner& hop) { return work(all, more, depth - 1, hop.id()); });
            } catch (mishap const&) {
                ++all.thrown;
            }
            verify(all, expected, notes);
            if (kept && (*kept)->text != 0x5eed) ++all.astray;
            if (kept && kept->owner() != expected) ++all.astray;
        }
        if (d.one_in(4))  // a sibling in the same batch, which is awaited
            co_await asio::co_spawn(co_await asio::this_coro::executor, aside(all, dice(d()), expected),
                                    use_awaitable);
        if (d.one_in(32)) throw mishap();
    }
    verify(all, expected, notes);
    co_return tenure::make<note>(expected.value);
}

/// Runs a context on some threads; every thread is left as it was found.
bool run_on(asio::io_context& io, unsigned threads) {
    std::atomic<bool>         clean{true};
    std::vector<std::jthread> all;
    for (unsigned i = 0; i < threads; ++i)
        all.emplace_back([&] {
            found_thread const found;
            while (io.run_one() > 0)
                if (!found.is_as_found()) clean = false;
        });
    all.clear();
    return clean;
}

}  // namespace

TEST_SUITE("flow") {
    TEST_CASE_FIXTURE(accounting, "ten thousand coroutines on four threads, and nothing lands in another's batch") {
        std::size_t const total = TENURE_SANITIZED ? 1000 : 10'000;
        asio::io_context  io;
        tally             all;
        batch_owner       server(tenure::batch_options{.name = "server"});
        {
            std::atomic<std::size_t> next{0};
            // A client is on a strand, for cancellation is no business of two threads at once; its requests are
            // where the dice say.
            auto const client = [&](std::uint64_t seed, auto strand) -> awaitable<void> {
                for (std::size_t i = next++; i < total; i = next++) {
                    dice              d(seed + i);
                    auto const        stop = std::make_shared<asio::cancellation_signal>();
                    batch_owner const request(tenure::batch_options{.name = "request"});
                    bool const        cut = d.one_in(4);
                    auto const in = cut || d.one_in(2) ? asio::any_io_executor(tenure::bind_batch(strand, request))
                                                       : asio::any_io_executor(tenure::bind_batch(io, request));
                    asio::steady_timer later(io, std::chrono::microseconds(d.below(200)));
                    if (cut)
                        later.async_wait(asio::bind_executor(in, [stop](boost::system::error_code e) {
                            if (!e) stop->emit(asio::cancellation_type::terminal);
                        }));
                    try {
                        co_await asio::co_spawn(in, work(all, dice(d()), 2, request.id()),
                                                asio::bind_cancellation_slot(stop->slot(), use_awaitable));
                    } catch (mishap const&) {
                        ++all.thrown;
                    } catch (boost::system::system_error const&) {
                        ++all.cancelled;
                    }
                    ++all.finished;
                }
            };
            for (std::uint64_t i = 0; i < 500; ++i) {
                auto const strand = asio::make_strand(tenure::bind_batch(io, server));
                asio::co_spawn(strand, client(i << 32, strand), asio::detached);
            }
            CHECK(run_on(io, 4));
        }
        CHECK(all.astray == 0);
        CHECK(all.finished == total);
        CHECK(all.thrown > 0);
        CHECK(all.cancelled > 0);
        CHECK(server.end().status == batch_status::done);
        CHECK(text::alive == 0);
    }
}
