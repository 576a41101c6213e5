// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The current batch follows the flow of control: through coroutines, callbacks, strands and thread pools.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
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
    std::atomic<std::size_t> astray{0}, made{0}, thrown{0}, caught{0}, cancelled{0}, finished{0}, refused{0};
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

/// Only a cancellation ends this.
awaitable<void> wait_for_ever(tally& all, dice d, batch_id expected) {
    co_await aside(all, d, expected);
    asio::steady_timer never(co_await asio::this_coro::executor, asio::steady_timer::time_point::max());
    co_await never.async_wait(use_awaitable);
}

/// Runs a context on some threads, whatever its handlers throw; every thread is left as it was found.
bool run_on(asio::io_context& io, unsigned threads, tally& all) {
    std::atomic<bool>         clean{true};
    std::vector<std::jthread> pool;
    for (unsigned i = 0; i < threads; ++i)
        pool.emplace_back([&] {
            found_thread const found;
            for (std::size_t ran = 1; ran > 0;) {
                try {
                    ran = io.run_one();
                } catch (mishap const&) {
                    ++all.caught;
                }
                if (!found.is_as_found()) clean = false;
            }
        });
    pool.clear();
    return clean;
}

/// Requests that go from callback to callback; where the chain of one is over, the next begins.
struct exchange {
    asio::io_context&        io;
    asio::thread_pool&       elsewhere;  ///< who cancels
    tally&                   all;
    batch_id                 server;
    std::size_t              total, cut_each;
    std::atomic<std::size_t> next{0}, begun{0}, gone{0};

    void begin();
};

/// One of them, in a batch with one below it and one below that. Whoever works for it has a share in it.
class request : public std::enable_shared_from_this<request> {
public:
    request(exchange& in, std::uint64_t number)
        : in_(in),
          all_(in.all),
          d_(number),
          top_(below(in.server)),
          inner_(below(top_.id())),
          innermost_(below(inner_.id())),
          ids_{top_.id(), inner_.id(), innermost_.id()},
          cut_(number % in.cut_each == 0),
          early_(d_.one_in(2)),
          left_(1 + d_.below(12)),
          timer_(in.io),
          strand_(asio::make_strand(tenure::bind_batch(in.io, top_))) {
        ++in_.begun;
    }
    request(request const&)            = delete;
    request& operator=(request const&) = delete;
    ~request() { ++in_.gone; }

    /// The last was the last, but where the request is to be cut: then it goes on until make() refuses.
    void hop() {
        if (left_ > 0) --left_;
        else if (!cut_) return end_chain(all_.finished);
        else if (!std::exchange(asked_, true))
            asio::post(in_.elsewhere, [self = shared_from_this()] { self->cut(); });
        std::size_t const w    = d_.below(ids_.size());
        auto const        in_w = tenure::bind_batch(in_.io, ids_[w]);
        auto              step = [self = shared_from_this(), w] { self->step(w); };
        switch (d_.below(5)) {
        case 0: asio::post(in_w, std::move(step)); break;
        case 1: asio::post(in_.io, tenure::bind_batch(std::move(step), ids_[w])); break;
        case 2: asio::post(asio::make_strand(in_w), std::move(step)); break;
        case 3: asio::post(tenure::bind_batch(strand_, ids_[w]), std::move(step)); break;
        default:
            timer_.expires_after(std::chrono::microseconds(d_.below(50)));
            timer_.async_wait(asio::bind_executor(
                in_w, [step = std::move(step)](boost::system::error_code const&) mutable { step(); }));
        }
    }

private:
    static batch_owner below(batch_id parent) { return batch_owner(registry::global(), {.name = "call"}, parent); }

    /// A callback: whatever comes of it, the batch that it found current is so when it is over.
    void step(std::size_t w) {
        batch_id const before  = tenure::current_batch();
        bool           refused = false;
        try {
            look_around(w, notes_[w]);
            make_some(all_, d_, notes_[w]);
            if (d_.one_in(4)) {
                std::size_t const other = d_.below(ids_.size());
                asio::dispatch(tenure::bind_batch(in_.io, ids_[other]), [&] { step_aside(other); });
            }
            if (d_.one_in(4))
                asio::co_spawn(tenure::bind_batch(in_.io, ids_[w]), coroutine(shared_from_this(), w, dice(d_())),
                               asio::detached);
            verify(all_, ids_[w], notes_[w]);
            if (!asked_ && d_.one_in(64)) {
                batch_scope const unwound;
                end_chain(all_.thrown);
                throw mishap();
            }
        } catch (tenure::error const& e) {
            if (!cut_ || e.code() != errc::cancelled) ++all_.astray;
            refused = true;
        }
        if (tenure::current_batch() != before) ++all_.astray;
        if (refused) return end_chain(all_.cancelled);
        hop();
    }

    /// Inside another callback, in another batch. What it threw would come out of the loop, and not here.
    void step_aside(std::size_t w) {
        auto const h = tenure::try_make<note>(ids_[w].value);
        if (h ? h->owner() != ids_[w] : !cut_ || h.error() != errc::cancelled) ++all_.astray;
    }

    static awaitable<void> coroutine(std::shared_ptr<request> self, std::size_t w, dice d) {
        std::vector<handle<note>> mine;
        try {
            for (auto n = 1 + d.below(3); n > 0; --n) {
                co_await pause(d);
                self->look_around(w, mine);
                make_some(self->all_, d, mine);
            }
        } catch (tenure::error const& e) {
            bool const meant =
                (self->cut_ && e.code() == errc::cancelled) || (self->early_ && e.code() == errc::batch_ended);
            if (!meant) ++self->all_.astray;
            ++self->all_.refused;
        }
    }

    /// Throws what make() does where the batch has gone. While a thread is inside it does not, so the notes are
    /// there.
    void look_around(std::size_t w, std::vector<handle<note>> const& notes) {
        if (tenure::current_batch() == ids_[w]) return verify(all_, ids_[w], notes);
        if (tenure::current_batch()) ++all_.astray;
        tenure::make<note>();
        ++all_.astray;
    }

    /// An owner is for one thread at a time, and this is another one.
    void cut() {
        if (early_) registry::global().cancel(ids_[0]);
        else top_.cancel();
    }

    /// Its batches end here, whoever is still at work in them, or with the last who is.
    void end_chain(std::atomic<std::size_t>& how) {
        ++how;
        if (early_) top_.end();
        in_.begin();
    }

    exchange&                     in_;
    tally&                        all_;
    dice                          d_;
    batch_owner                   top_, inner_, innermost_;
    std::array<batch_id, 3> const ids_;
    bool const                    cut_, early_;
    std::uint64_t                 left_;
    bool                          asked_ = false;  ///< the other thread, to cut it
    asio::steady_timer            timer_;
    asio::strand<tenure::batch_executor<asio::io_context::executor_type>> strand_;
    std::array<std::vector<handle<note>>, 3>                              notes_;
};

void exchange::begin() {
    if (std::uint64_t const number = next++; number < total) std::make_shared<request>(*this, number)->hop();
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
                    bool const        cut = d.one_in(4), held_up = cut && d.one_in(4);
                    auto const in = cut || d.one_in(2) ? asio::any_io_executor(tenure::bind_batch(strand, request))
                                                       : asio::any_io_executor(tenure::bind_batch(io, request));
                    asio::steady_timer later(io, std::chrono::microseconds(d.below(200)));
                    if (cut)
                        later.async_wait(asio::bind_executor(in, [stop](boost::system::error_code e) {
                            if (!e) stop->emit(asio::cancellation_type::terminal);
                        }));
                    try {
                        if (held_up)  // until it is cancelled, however slow everything is
                            co_await asio::co_spawn(in, wait_for_ever(all, dice(d()), request.id()),
                                                    asio::bind_cancellation_slot(stop->slot(), use_awaitable));
                        else
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
            CHECK(run_on(io, 4, all));
        }
        CHECK(all.astray == 0);
        CHECK(all.finished == total);
        CHECK(all.thrown > 0);
        CHECK(all.cancelled > 0);
        CHECK(all.caught == 0);
        CHECK(server.end().status == batch_status::done);
        CHECK(text::alive == 0);
    }

    TEST_CASE_FIXTURE(accounting, "ten thousand callbacks on four threads, and nothing lands in another's batch") {
        // 200 are cancelled, each with what is below: of 1,024 batches it is known why, whatever came after them.
        std::size_t const total = TENURE_SANITIZED ? 1000 : 10'000, cut = 200;
        asio::io_context  io;
        asio::thread_pool elsewhere(1);
        tally             all;
        batch_owner       server(tenure::batch_options{.name = "server"});
        exchange          requests{io, elsewhere, all, server.id(), total, total / cut};
        for (int i = 0; i < 100; ++i) requests.begin();
        CHECK(run_on(io, 4, all));
        elsewhere.join();
        CHECK(all.astray == 0);
        CHECK(requests.begun == total);
        CHECK(requests.gone == total);
        CHECK(all.finished + all.thrown + all.cancelled == total);
        CHECK(all.finished > total / 2);
        CHECK(all.thrown > 0);
        CHECK(all.caught == all.thrown);
        CHECK(all.cancelled > cut / 2);
        CHECK(all.refused > 0);
        CHECK(all.made > total);
        CHECK(server.end().status == batch_status::done);
        CHECK(text::alive == 0);
    }

    TEST_CASE_FIXTURE(accounting, "callbacks, posts and timers find the batch of their executor") {
        asio::io_context io;
        batch_owner      a(tenure::batch_options{.name = "a"}), b(tenure::batch_options{.name = "b"});
        auto const       in_a = tenure::bind_batch(io, a);
        auto const       in_b = tenure::bind_batch(in_a, b);  // bound anew
        static_assert(std::is_same_v<decltype(in_a), decltype(in_b)>);
        std::vector<batch_id> seen;
        auto const            look = [&] { seen.push_back(tenure::make<note>().owner()); };

        asio::post(in_a, look);
        asio::steady_timer timer(io, std::chrono::microseconds(1));
        timer.async_wait(asio::bind_executor(in_b, [&](boost::system::error_code) { look(); }));
        asio::post(in_a, [&] {
            asio::dispatch(in_b, look);  // inside the other
            look();
            asio::dispatch(in_a, look);
        });
        asio::post(io, look);
        found_thread const found;
        io.run();
        CHECK(found.is_as_found());
        std::sort(seen.begin(), seen.end());
        std::vector<batch_id> expected{registry::global().root(), a.id(), a.id(), a.id(), b.id(), b.id()};
        std::sort(expected.begin(), expected.end());
        CHECK(seen == expected);
    }

    TEST_CASE_FIXTURE(accounting, "an executor for a batch is an executor like others") {
        asio::io_context  io;
        batch_owner const a(tenure::batch_options{.name = "a"}), b(tenure::batch_options{});
        auto const        in_a = tenure::bind_batch(io, a);
        CHECK(in_a == tenure::bind_batch(io.get_executor(), a.id()));
        CHECK(in_a != tenure::bind_batch(io, b));
        CHECK(in_a.batch() == a.id());
        CHECK(&asio::query(in_a, asio::execution::context) == &io);

        asio::any_io_executor const any = in_a;
        CHECK(any == asio::any_io_executor(tenure::bind_batch(io, a)));
        CHECK(any != asio::any_io_executor(io.get_executor()));
        batch_id   found;
        auto const look = [&] { found = tenure::current_batch(); };
        asio::require(any, asio::execution::blocking.never).execute(look);
        io.run();
        CHECK(found == a.id());

        // Work that is under way keeps the context running.
        {
            auto const tracked = asio::prefer(in_a, asio::execution::outstanding_work.tracked);
            io.restart();
            CHECK(io.poll() == 0);
            CHECK(!io.stopped());
        }
        CHECK(io.poll() == 0);
        CHECK(io.stopped());

        io.restart();
        auto const strand = asio::make_strand(in_a);
        static_assert(std::is_same_v<std::decay_t<decltype(tenure::bind_batch(strand, b).get_inner_executor())>,
                                     asio::strand<asio::io_context::executor_type>>);  // bound once, to `b`
        asio::post(strand, [&] {
            CHECK(strand.running_in_this_thread());
            asio::dispatch(tenure::bind_batch(strand, b), look);  // at once, for it is the same strand
            CHECK(found == b.id());
            asio::dispatch(strand, look);
            CHECK(found == a.id());
        });
        io.run();
        check_throws(errc::no_such_batch, {"bind #56347925.1"},
                     [&] { tenure::bind_batch(io, batch_id{123456789}); });
    }

    TEST_CASE_FIXTURE(accounting, "what resumes after the end of its batch runs, and can make nothing") {
        asio::io_context io;
        bool             unwound = false, refused = false, opened = false;
        batch_owner      request(tenure::batch_options{.name = "request"});
        batch_scope      stranger;  // current on the thread that runs the context
        auto const       job = [&]() -> awaitable<void> {
            auto const h = tenure::make<note>();
            co_await asio::post(use_awaitable);
            unwound = !h.alive();
            CHECK(tenure::current_batch() == batch_id{});
            CHECK(batch_id{} == co_await tenure::this_coro::batch());
            check_throws(errc::batch_ended, {"that is over"}, [] { tenure::make<note>(); });
            check_throws(errc::batch_ended, {}, [] { tenure::make_buffer<int>(8); });
            check_throws(errc::batch_ended, {}, [] { tenure::keep(handle<note>()); });
            check_throws(errc::batch_ended, {}, [&] { tenure::transfer_ownership(h, stranger.id()); });
            check_throws(errc::batch_ended, {}, [] { batch_owner const below(tenure::batch_options{}); });
            refused = !tenure::try_make<text>(1u);
            try {
                batch_scope const below;
            } catch (tenure::error const& e) {
                opened = e.code() != errc::batch_ended;
            }
            {
                batch_scope const elsewhere{tenure::below(stranger)};
                CHECK(tenure::current_batch() == elsewhere.id());
            }
            CHECK(tenure::current_batch() == batch_id{});
            throw mishap();
        };
        std::exception_ptr why;
        asio::co_spawn(tenure::bind_batch(io, request), job, [&](std::exception_ptr e) { why = e; });
        io.run_one();
        CHECK(request.end().status == batch_status::done);
        found_thread const found;
        io.run();
        CHECK(found.is_as_found());
        CHECK(unwound);
        CHECK(refused);
        CHECK(!opened);
        CHECK_THROWS_AS(std::rethrow_exception(why), mishap);
        CHECK(stranger.usage().objects == 0);
    }

    TEST_CASE_FIXTURE(accounting, "a batch that ends while its coroutine runs goes when that suspends") {
        asio::io_context io;
        batch_owner      request(tenure::batch_options{});
        handle<note>     h;
        asio::post(tenure::bind_batch(io, request), [&] {
            h = tenure::make<note>();
            CHECK(request.status() == batch_status::active);
            batch_id const id = request.id();
            CHECK(request.end().status == batch_status::ending);
            CHECK(h.alive());
            CHECK(!tenure::try_make<note>());
            CHECK(registry::global().status(id) == batch_status::ending);
        });
        io.run();
        CHECK(!h.alive());
    }

    TEST_CASE_FIXTURE(accounting, "a guard's own thread runs its batch's coroutines without entering it") {
        asio::io_context io;
        handle<note>     h;
        {
            batch_scope request;
            asio::co_spawn(
                tenure::bind_batch(io, request),
                [&]() -> awaitable<void> {
                    h = tenure::make<note>();
                    co_await asio::post(use_awaitable);
                    CHECK(tenure::make<note>().owner() == request.id());
                    {
                        batch_scope hop;
                        CHECK(tenure::make<note>().owner() == hop.id());
                    }
                    CHECK(tenure::current_batch() == request.id());
                },
                asio::detached);
            {
                batch_scope other;
                io.run();
                CHECK(tenure::current_batch() == other.id());
            }
            CHECK(request.usage().objects == 2);
            CHECK(h.owner() == request.id());
        }
        CHECK(!h.alive());
    }

    TEST_CASE_FIXTURE(accounting, "co_with_batch keeps what with_batch would") {
        using several = std::vector<std::tuple<int, std::optional<handle<note>>>>;
        asio::io_context io;
        batch_owner      request(tenure::batch_options{.name = "request"});
        bool             ran = false;
        auto const       job = [&]() -> awaitable<void> {
            auto const made =
                co_await tenure::co_with_batch({}, [](batch_owner&) -> awaitable<tenure::result<handle<note>>> {
                    co_return tenure::try_make<note>(1u);
                });
            CHECK(made->owner() == request.id());
            auto const all = co_await tenure::co_with_batch({}, [](batch_owner&) -> awaitable<several> {
                co_return several{{1, tenure::make<note>(2u)}, {2, {}}, {3, handle<note>()}};
            });
            CHECK(std::get<1>(all[0])->owner() == request.id());
            ran = true;
        };
        asio::co_spawn(tenure::bind_batch(io.get_executor(), request.id()), job(), asio::detached);
        io.run();
        CHECK(ran);
    }

    TEST_CASE_FIXTURE(accounting, "a batch_owner keeps what is its own, or shared with it, and nothing else") {
        batch_owner       server(tenure::batch_options{.name = "server"}), other(tenure::batch_options{});
        batch_owner const request(registry::global(), {}, server.id());
        batch_owner       hop(registry::global(), {}, request.id());
        auto const        above   = server.make<note>(1u);
        auto const        strange = other.make<note>(2u);
        CHECK(hop.keep(above).owner() == server.id());
        CHECK_THROWS_WITH_AS(hop.keep(strange), doctest::Contains("not the owner"), tenure::error);
        CHECK(strange.owner() == other.id());

        auto const own = hop.make<note>(3u);
        CHECK(hop.keep(own).owner() == request.id());
        CHECK(hop.keep(own).owner() == request.id());
        auto const shared = hop.make<note>(4u);
        registry::global().share(shared, other.id());
        hop.keep(shared);
        hop.end();
        registry::global().unshare(shared, other.id());
        CHECK(shared.alive());  // it has the parent's share
    }

    TEST_CASE_FIXTURE(accounting, "batches of a coroutine nest, keep, and unwind") {
        asio::io_context          io;
        batch_owner               request(tenure::batch_options{.name = "request"});
        std::vector<handle<note>> kept;
        std::vector<batch_id>     hops;
        auto const                job = [&]() -> awaitable<void> {
            auto pair = co_await tenure::co_with_batch(
                {.name = "outer"}, [&](batch_owner& outer) -> awaitable<std::pair<handle<note>, int>> {
                    hops.push_back(outer.id());
                    auto const inner = co_await tenure::co_with_batch(
                        {.name = "inner"}, [&](batch_owner& b) -> awaitable<std::vector<handle<note>>> {
                            hops.push_back(b.id());
                            std::vector<handle<note>> all{tenure::make<note>(1u), tenure::make<note>(2u)};
                            tenure::make<note>(3u);
                            co_await asio::post(use_awaitable);
                            co_return all;
                        });
                    CHECK(registry::global().status(hops[1]) == batch_status::done);
                    CHECK(tenure::current_batch() == outer.id());
                    CHECK(inner[1].owner() == outer.id());
                    kept = inner;
                    co_return std::pair(inner[0], 7);
                });
            CHECK(pair.second == 7);
            CHECK(pair.first.owner() == request.id());
            CHECK(kept[0].alive());
            CHECK(!kept[1].alive());
            try {
                co_await tenure::co_with_batch({}, [&](batch_owner& b) -> awaitable<void> {
                    hops.push_back(b.id());
                    co_await asio::post(use_awaitable);
                    throw mishap();
                });
                FAIL("it threw");
            } catch (mishap const&) {
                CHECK(registry::global().status(hops[2]) == batch_status::done);
                CHECK(tenure::current_batch() == request.id());
            }
        };
        std::exception_ptr why;
        asio::co_spawn(tenure::bind_batch(io, request), job, [&](std::exception_ptr e) { why = e; });
        io.run();
        CHECK(!why);
        CHECK(hops.size() == 3);
    }

    TEST_CASE_FIXTURE(accounting, "who is not bound is as before after a batch of its own") {
        asio::io_context io;
        asio::co_spawn(
            io,
            []() -> awaitable<void> {
                batch_id const before = tenure::current_batch();
                co_await tenure::co_with_batch(
                    {}, [](batch_owner&) -> awaitable<void> { co_await asio::post(use_awaitable); });
                CHECK(tenure::current_batch() == before);
            },
            asio::detached);
        io.run();
    }
}

TEST_SUITE("bind_batch of functions") {
    TEST_CASE_FIXTURE(accounting, "a thread pool's task carries the batch it was made in") {
        batch_scope               request;
        std::atomic<std::size_t>  astray{0};
        std::vector<handle<note>> notes(64);
        {
            asio::thread_pool pool(4);
            for (auto& h : notes) {
                asio::post(pool, tenure::bind_batch([&] {
                               h = tenure::make<note>(request.id().value);
                               if (h.owner() != request.id()) ++astray;
                           }));
                asio::post(pool, [&] {
                    if (tenure::detail::this_thread.current) ++astray;
                });
            }
            pool.join();
        }
        CHECK(astray == 0);
        CHECK(request.usage().objects == 64);
        for (auto const h : notes) CHECK(h->batch == request.id().value);
    }

    TEST_CASE_FIXTURE(accounting, "arguments and results pass, exceptions leave the thread as it was") {
        batch_owner a(tenure::batch_options{});
        auto        add = tenure::bind_batch(
            [](std::unique_ptr<int> x, int& y) -> int& {
                if (!x) throw mishap();
                y += *x;
                return y;
            },
            a.id());
        int                sum = 1;
        found_thread const found;
        CHECK(&add(std::make_unique<int>(2), sum) == &sum);
        CHECK(sum == 3);
        CHECK_THROWS_AS(add(nullptr, sum), mishap);
        CHECK(found.is_as_found());
        CHECK(add.batch() == a.id());

        auto const once =
            tenure::bind_batch([p = std::make_unique<int>(4)]() { return *p; });  // of no batch: the root
        CHECK(once() == 4);
        auto const root = tenure::bind_batch([] { return tenure::current_batch(); });
        {
            batch_scope const here;
            CHECK(root() == registry::global().root());
            CHECK(tenure::current_batch() == here.id());
        }
        check_throws(errc::no_such_batch, {}, [] { tenure::bind_batch([] {}, batch_id{}); });
    }

    TEST_CASE_FIXTURE(accounting, "what a function leaves open or current is not left to the thread") {
        batch_owner                a(tenure::batch_options{}), b(tenure::batch_options{});
        std::optional<batch_scope> forgotten;
        found_thread const         found;
        tenure::bind_batch([&] { registry::global().set_current_batch(b.id()); }, a.id())();
        CHECK(found.is_as_found());
        tenure::bind_batch([&] { forgotten.emplace(); }, a.id())();
        CHECK(tenure::current_batch() == registry::global().root());
        forgotten.reset();
        CHECK(found.is_as_found());
        CHECK(a.end().status == batch_status::done);
        CHECK(b.end().status == batch_status::done);
    }

    TEST_CASE_FIXTURE(accounting, "several threads in one batch have a lane each") {
        batch_owner    a(tenure::batch_options{});
        unsigned const rounds = TENURE_SANITIZED ? 500 : 20'000;
        auto           task   = tenure::bind_batch(
            [&] {
                auto const h = tenure::make<note>(a.id().value);
                auto const t = tenure::make<text>(a.id().value);
                return h.owner() == a.id() && t->batch == h->batch;
            },
            a.id());
        std::atomic<bool>         good{true};
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([&, f = task]() mutable {
                for (unsigned n = 0; n < rounds; ++n)
                    if (!f()) good = false;
            });
        // Others come in by the older ways meanwhile.
        for (unsigned n = 0; n < rounds / 4; ++n) {
            tenure::entered const here = a.enter();
            if (tenure::make<note>().owner() != a.id()) good = false;
        }
        for (unsigned n = 0; n < rounds / 4; ++n)
            if (a.make<note>().owner() != a.id()) good = false;
        threads.clear();
        CHECK(good);
        CHECK(registry::global().usage(a.id()).objects == rounds * 8 + rounds / 4 * 2);
    }
}

TEST_SUITE("batch_owner") {
    TEST_CASE_FIXTURE(accounting, "ends what it owns, wherever it goes") {
        batch_id                   id;
        handle<note>               h;
        std::optional<batch_owner> there;
        {
            batch_scope request{{.name = "request"}};
            h = request.make<note>();
            there.emplace(request.detach());
            id = there->id();
        }
        CHECK(h.alive());
        std::jthread([&] {
            batch_owner here = std::move(*there);
            CHECK(!*there);
            CHECK(here.make<note>().owner() == id);
            CHECK(here.status() == batch_status::active);
        }).join();
        CHECK(!h.alive());
        CHECK(registry::global().status(id) == batch_status::done);
        CHECK(there->status() == batch_status::done);
        CHECK(there->end().freed == 0);
    }

    TEST_CASE_FIXTURE(accounting, "is below the current batch, keeps to it, and ends with it") {
        batch_scope request;
        batch_owner a(tenure::batch_options{.name = "a"});
        auto const  h = a.make<note>(), gone = a.make<note>();
        CHECK(a.keep(h) == h);
        CHECK(h.owner() == request.id());
        check_throws(errc::stale_handle, {}, [&] { a.keep(handle<note>()); });
        batch_owner b(std::move(a));
        a = batch_owner(registry::global());
        CHECK(registry::global().status(a.id()) == batch_status::active);
        auto const report = b.end();
        CHECK(report.status == batch_status::done);
        CHECK(report.made == 2);
        CHECK(report.kept == 1);
        CHECK(!gone.alive());
        CHECK(h.alive());
        CHECK(!b);
        check_throws(errc::batch_ended, {}, [&] { b.make<note>(); });
        check_throws(errc::batch_ended, {"enter"}, [&] { auto const e = b.enter(); });
        check_throws(errc::no_such_batch, {"own batch #10668913.1"},
                     [] { batch_owner const o(batch_id{77777777}); });

        batch_owner c(tenure::batch_options{});
        request.end();
        CHECK(c.status() == batch_status::done);
    }
}

TEST_SUITE("supervisor") {
    using namespace std::chrono_literals;

    // Its timer looks again and again until the clock that the test sets is there.
    std::atomic<std::uint64_t> virtual_now{1};
    tenure::registry_options   on_virtual_time() {
        tenure::registry_options o;
        o.clock = []() noexcept { return virtual_now.load(); };
        return o;
    }

    TEST_CASE_FIXTURE(accounting, "acts at the deadline, on a thread of its own or the user's") {
        for (bool const own : {true, false}) {
            CAPTURE(own);
            asio::io_context                  io;
            tenure::registry                  reg(on_virtual_time());
            std::optional<tenure::supervisor> watch;
            if (own) watch.emplace(reg);
            else watch.emplace(io.get_executor(), reg);
            std::jthread user;
            auto const   work = asio::make_work_guard(io);
            if (!own) user = std::jthread([&] { io.run(); });
            {
                batch_owner const        later(reg, {.timeout = 1h});
                batch_owner              soon(reg, {.timeout = 3ms});
                auto const               h = soon.make<text>(1u);
                std::atomic<bool>        told{false};
                std::stop_callback const tell(soon.stop_token(), [&] { told = true; });
                batch_scope              open(reg, {.timeout = 3ms});
                auto const               here = open.make<note>();
                std::stop_token const    stop = open.stop_token();
                virtual_now += 3'000'000;
                while (!told || text::alive > 0 || !stop.stop_requested()) std::this_thread::yield();
                check_throws(errc::expired, {}, [&] { h->batch = 2; });
                CHECK(here.alive());
                CHECK(open.try_make<note>().error() == errc::expired);
                CHECK(soon.status() == batch_status::expired);
                CHECK(later.status() == batch_status::active);
            }
            watch.reset();
            io.stop();
        }
    }

    TEST_CASE_FIXTURE(accounting, "an expired request's coroutine unwinds") {
        asio::io_context   io;
        tenure::supervisor watch(io.get_executor());
        batch_owner        request(tenure::batch_options{.name = "request", .timeout = 2ms});
        std::exception_ptr why;
        asio::co_spawn(
            tenure::bind_batch(io, request),
            [&]() -> awaitable<void> {
                asio::steady_timer        never(io, 1h);
                std::stop_callback const  cut(request.stop_token(),
                                              [&] { asio::post(io, [&] { never.cancel(); }); });
                boost::system::error_code e;
                co_await never.async_wait(asio::redirect_error(use_awaitable, e));
                CHECK(e == asio::error::operation_aborted);
                tenure::make<note>();
            },
            [&](std::exception_ptr e) { why = e; });
        io.run();
        check_throws(errc::expired, {"that is over"}, [&] { std::rethrow_exception(why); });
    }

    TEST_CASE_FIXTURE(accounting, "comes and goes while others open and end batches") {
        tenure::registry          reg;
        std::atomic<bool>         done{false};
        std::vector<std::jthread> threads;
        for (unsigned i = 0; i < 3; ++i)
            threads.emplace_back([&, i] {
                dice d(i);
                while (!done) {
                    batch_scope b(reg, {.timeout = std::chrono::microseconds(d.below(300))});
                    for (auto n = d.below(50); n > 0; --n)
                        if (auto const h = b.try_make<text>(n); !h && h.error() != errc::expired)
                            FAIL_CHECK("other");
                }
            });
        for (int i = 0; i < (TENURE_SANITIZED ? 20 : 50); ++i) {
            tenure::supervisor const watch(reg);
            std::this_thread::yield();
        }
        done = true;
        threads.clear();
        CHECK(text::alive == 0);
    }
}
