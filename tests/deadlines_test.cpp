// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Deadlines and cancellation, on a clock that the test sets.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "random/dice.hpp"
#include "throws.hpp"
#include "virtual_clock.hpp"

namespace {

using namespace std::chrono_literals;
using tenure::batch_id;
using tenure::batch_owner;
using tenure::batch_scope;
using tenure::batch_status;
using tenure::errc;
using tenure::handle;
using tenure::registry;

/// A registry on virtual time, and nothing left in it.
struct world {
    registry   reg{on_virtual_time()};
    accounting books{reg};
};

struct counted {
    explicit counted(std::atomic<int>& n) : alive(n) { ++alive; }
    counted(counted const&)            = delete;
    counted& operator=(counted const&) = delete;
    ~counted() { --alive; }
    std::atomic<int>& alive;
};

}  // namespace

TEST_SUITE("timeout") {
    TEST_CASE_FIXTURE(world, "is noticed at the next make") {
        handle<int> h;
        batch_id    id;
        {
            batch_scope b(reg, {.name = "slow", .timeout = 10ms});
            id                         = b.id();
            std::stop_token const stop = b.stop_token();
            h                          = b.make<int>(1);
            pass(9ms);
            CHECK(b.make<int>(2).alive());
            CHECK(b.status() == batch_status::active);
            pass(1ms);
            CHECK(b.status() == batch_status::expired);
            CHECK(!stop.stop_requested());
            check_throws(errc::expired, {"make", "slow"}, [&] { b.make<int>(3); });
            CHECK(stop.stop_requested());
            CHECK(b.try_make<int>(3).error() == errc::expired);
            CHECK(b.try_make<std::array<char, 100'000>>().error() == errc::expired);
            check_throws(errc::expired, {}, [&] { b.make_buffer<int>(3); });
            check_throws(errc::expired, {}, [&] { b.keep(h); });
            check_throws(errc::expired, {}, [&] { batch_scope const below{tenure::below(b)}; });
            check_throws(errc::expired, {"enter"}, [&] { auto const e = reg.enter(id); });
            CHECK(*h == 1);  // the guard is open
            CHECK(reg.status(id) == batch_status::expired);
        }
        check_throws(errc::expired, {"access"}, [&] { ++*h; });
        CHECK(reg.status(id) == batch_status::expired);
        check_throws(errc::expired, {}, [&] { auto const e = reg.enter(id); });
        check_throws(errc::expired, {}, [&] { reg.free(h); });
        CHECK(reg.stop_token(id).stop_requested());
    }

    TEST_CASE_FIXTURE(world, "large objects, buffers and lanes notice it, too") {
        batch_scope a(reg, {.timeout = 10ms}), b(reg, {.timeout = 10ms}), c(reg, {.timeout = 10ms});
        auto const  buffer = b.make_buffer<int>(8);
        auto        lane   = c.lane();
        lane.make<int>(1);
        pass(10ms);
        CHECK(a.try_make<std::array<char, 100'000>>().error() == errc::expired);
        std::array<int, 8> out{};
        check_throws(errc::expired, {}, [&] { buffer.read(0, out); });
        CHECK(buffer.try_write(0, out).error() == errc::expired);
        check_throws(errc::expired, {}, [&] { buffer.map(); });
        CHECK(b.try_make<int>().error() == errc::expired);
        CHECK(lane.try_make<int>().error() == errc::expired);
        CHECK(c.try_make<int>().error() == errc::expired);
    }

    TEST_CASE_FIXTURE(world, "and so does who enters, pins, or opens a batch below") {
        batch_scope                other(reg);
        auto const                 h = other.make<int>();
        constexpr std::size_t      n = 4;
        std::array<batch_owner, n> late;
        for (batch_owner& b : late) b = batch_owner(reg, {.timeout = 10ms});
        batch_scope guard(reg, {.timeout = 10ms});
        pass(10ms);
        check_throws(errc::expired, {"enter"}, [&] { auto const in = reg.enter(late[0].id()); });
        check_throws(errc::expired, {"enter"}, [&] { auto const in = late[1].enter(); });
        check_throws(errc::expired, {"below"}, [&] { reg.new_batch({}, late[2].id()); });
        check_throws(errc::expired, {"enter"}, [&] { auto const in = guard.enter(); });
        CHECK(guard.stop_token().stop_requested());
        check_throws(errc::expired, {"below"}, [] { batch_scope const below; });
        guard.end();
        batch_scope pinning(reg, {.timeout = 10ms});
        pass(10ms);
        check_throws(errc::expired, {"pin"}, [&] { auto const p = tenure::pin(h); });
        check_throws(errc::expired, {"borrow"}, [&] { pinning.borrow(h); });
    }

    TEST_CASE_FIXTURE(world, "handles to what it was given say why, and those to what it gave away do not") {
        handle<int>         kept_from_hop, own, kept_out;
        handle<std::string> with_destructor;
        batch_scope         above(reg);
        {
            batch_owner request(reg, {.timeout = 10ms}, above.id());
            {
                auto const  in = request.enter();
                batch_scope hop;
                kept_from_hop   = hop.keep(hop.make<int>(1));
                with_destructor = hop.keep(hop.make<std::string>("kept"));
            }
            {
                auto const  in = request.enter();
                batch_scope hop({.timeout = 1ms});
                own      = hop.make<int>(2);
                kept_out = hop.keep(hop.make<int>(3));
                reg.transfer_ownership(kept_out, above.id());
                pass(1ms);
                reg.expire_overdue();
            }
            check_throws(errc::stale_handle, {}, [&] { ++*own; });  // others have something in its unit
            pass(10ms);
            reg.expire_overdue();
            check_throws(errc::expired, {}, [&] { ++*kept_from_hop; });
            check_throws(errc::expired, {}, [&] { *with_destructor += "x"; });
        }
        CHECK(*kept_out == 3);
        reg.free(kept_out);
        check_throws(errc::stale_handle, {}, [&] { ++*kept_out; });
    }

    TEST_CASE_FIXTURE(world, "a child has what is left to its parent") {
        batch_scope parent(reg, {.timeout = 10ms});
        batch_scope longer({.name = "longer", .timeout = 20ms});
        batch_scope plain;
        batch_scope limited({.limits = {.hard = 1000}});
        batch_scope shorter({.timeout = 5ms});
        batch_scope below;
        auto const  h = below.make<int>();
        pass(5ms);
        CHECK(below.try_make<int>().error() == errc::expired);
        CHECK(shorter.try_make<int>().error() == errc::expired);
        CHECK(limited.make<int>().alive());
        CHECK(plain.make<int>().alive());
        pass(5ms);
        CHECK(limited.try_make<int>().error() == errc::expired);
        CHECK(plain.try_make<int>().error() == errc::expired);
        CHECK(longer.try_make<int>().error() == errc::expired);
        CHECK(parent.try_make<int>().error() == errc::expired);
        CHECK(h.alive());
        below.end();
        CHECK(!h.alive());
    }

    TEST_CASE_FIXTURE(world, "the end in time is an end like others") {
        handle<int>     h;
        batch_id        id;
        std::stop_token stop;
        {
            batch_owner b(reg, {.timeout = 10ms});
            id   = b.id();
            h    = b.make<int>();
            stop = b.stop_token();
        }
        CHECK(reg.status(id) == batch_status::done);
        check_throws(errc::stale_handle, {}, [&] { ++*h; });
        CHECK(!stop.stop_requested());
        CHECK(reg.expire_overdue() == tenure::no_timeout);

        batch_owner late(reg, {.timeout = 10ms});
        h = late.make<int>();
        pass(1s);
        CHECK(late.end().status == batch_status::expired);
        check_throws(errc::expired, {}, [&] { ++*h; });
    }

    TEST_CASE("one that ends after the clock does never does") {
        registry          r{{.clock = []() noexcept { return ~std::uint64_t{0} - 1000; }}};
        batch_scope const b(r, {.timeout = std::chrono::nanoseconds(2000)});
        batch_scope const longest(r, {.timeout = std::chrono::nanoseconds::max()});
        r.expire_overdue();
        CHECK(b.status() == batch_status::active);
        CHECK(longest.status() == batch_status::active);
    }

    TEST_CASE("one that ends when the clock begins is one all the same") {
        static std::atomic<std::uint64_t> now;
        registry                          r{{.clock = []() noexcept { return now.load(); }}};
        batch_scope const                 b(r, {.timeout = std::chrono::nanoseconds(0)});
        now = 1;
        CHECK(b.status() == batch_status::expired);
    }

    TEST_CASE_FIXTURE(world, "expire_overdue frees what nobody is in, and tells how long it is till the next") {
        std::atomic<int>             alive{0};
        std::vector<batch_owner>     owners;
        std::vector<handle<counted>> made;
        for (auto const t : {30ms, 10ms, 20ms, 10ms}) {
            owners.emplace_back(reg, tenure::batch_options{.timeout = t});
            made.push_back(owners.back().make<counted>(alive));
        }
        auto const buffer = owners[1].make_buffer<char>(1000);
        CHECK(reg.expire_overdue() == 10ms);
        CHECK(alive == 4);
        pass(10ms);
        CHECK(reg.expire_overdue() == 10ms);
        CHECK(alive == 2);
        CHECK(!buffer.alive());
        char c = 0;
        CHECK(buffer.try_read(0, {&c, 1}).error() == errc::expired);
        CHECK(owners[1].status() == batch_status::expired);
        CHECK(owners[1].end().freed == 0);
        check_throws(errc::expired, {}, [&] { made[3]->alive = 7; });
        owners.erase(owners.begin() + 2);
        CHECK(alive == 1);
        CHECK(reg.expire_overdue() == 20ms);
        pass(1h);
        CHECK(reg.expire_overdue() == tenure::no_timeout);
        CHECK(alive == 0);
        batch_owner const forever(reg, {.timeout = tenure::no_timeout - 1ns});
        CHECK(reg.expire_overdue() > 1h);
    }

    TEST_CASE_FIXTURE(world, "of all that go together it is known why") {
        std::vector<batch_owner> all;
        std::vector<handle<int>> made;
        for (int i = 0; i < (TENURE_SANITIZED ? 1200 : 3000); ++i) {
            all.emplace_back(reg, tenure::batch_options{.timeout = 1ms});
            made.push_back(all.back().make<int>(i));
        }
        pass(1ms);
        CHECK(reg.expire_overdue() == tenure::no_timeout);
        for (std::size_t i = 0; i < all.size(); ++i) {
            CHECK(reg.status(all[i].id()) == batch_status::expired);
            check_throws(errc::expired, {}, [&] { ++*made[i]; });
        }
        batch_scope again(reg);  // with the same memory
        auto const  h = again.make<int>();
        again.end();
        check_throws(errc::stale_handle, {}, [&] { ++*h; });
    }

    TEST_CASE_FIXTURE(world, "of those that go one after the other it is known, too, though they had one record") {
        std::vector<batch_id> all;
        for (int i = 0; i < 1000; ++i) {
            batch_scope const b(reg, {.timeout = 1ms});
            all.push_back(b.id());
            pass(1ms);
        }
        for (batch_id const id : all) CHECK(reg.status(id) == batch_status::expired);
    }

    TEST_CASE_FIXTURE(world, "deadlines come in order, whatever was disarmed between") {
        dice                                               d(7);
        std::vector<std::pair<std::uint64_t, batch_owner>> all;
        std::uint64_t const                                start = virtual_now;
        for (int i = 0; i < (TENURE_SANITIZED ? 300 : 3000); ++i) {
            std::uint64_t const t = 1 + d.below(1'000'000);
            all.emplace_back(start + t, batch_owner(reg, {.timeout = std::chrono::nanoseconds(t)}));
            if (d.one_in(3)) {
                std::swap(all[d.below(all.size())], all.back());
                all.pop_back();
            }
        }
        for (;;) {
            auto const left = reg.expire_overdue();
            for (auto const& [due, owner] : all)
                if ((owner.status() == batch_status::active) != (due > virtual_now))
                    FAIL_CHECK("at " << due - start);
            if (left == tenure::no_timeout) break;
            pass(left + std::chrono::nanoseconds(d.below(100'000)));
        }
        CHECK(all.size() > 100);
    }
}

TEST_SUITE("in a batch that is over") {
    /// Says so of whatever is tried in it, and names it.
    void nothing_can_be_done(errc why, handle<int> of_another, batch_id another) {
        check_throws(why, {"'request'"}, [&] { tenure::share(of_another, another); });
        check_throws(why, {"'request'"}, [&] { tenure::broadcast(of_another, std::array{another}); });
        check_throws(why, {"'request'"}, [&] { tenure::borrow(of_another); });
        check_throws(why, {"'request'"}, [&] { (void)tenure::pin(of_another); });
        check_throws(why, {"'request'"}, [&] { tenure::make<int>(1); });
        check_throws(why, {"'request'"}, [&] { tenure::keep(of_another); });
        check_throws(why, {"'request'"}, [&] { tenure::make_derived<int>(1, [](std::span<int>) {}); });
        CHECK(tenure::try_share(of_another, another).error() == why);
        CHECK(tenure::try_borrow(of_another).error() == why);
        CHECK(tenure::try_pin(of_another).error() == why);
    }

    TEST_CASE_FIXTURE(world, "without a guard: share, borrow and pin say why, in whichever registry") {
        for (registry* const r : {&reg, &registry::global()}) {
            for (errc const why : {errc::expired, errc::cancelled, errc::batch_ended}) {
                if (why == errc::expired && r != &reg) continue;  // whose clock is not the test's
                batch_owner one(*r);
                batch_owner two(*r);
                auto const  h = one.make<int>(7);
                batch_owner b(*r, {.name = "request", .timeout = 10ms});
                bool        ran  = false;
                auto const  work = tenure::bind_batch(
                    [&] {
                        nothing_can_be_done(why, h, two.id());
                        ran = true;
                    },
                    b.id());
                if (why == errc::cancelled) b.cancel();
                else if (why == errc::batch_ended) b.end();
                else {
                    pass(11ms);
                    reg.expire_overdue();
                }
                work();
                CHECK(ran);
                CHECK(*h == 7);
                CHECK(h.owner() == one.id());
            }
        }
    }

    TEST_CASE_FIXTURE(world, "whose guard is open: likewise") {
        batch_scope one(reg);
        auto const  h = one.make<int>(7);
        batch_scope two{tenure::below(one)};
        batch_scope b{{.name = "request", .timeout = 10ms}};
        auto const  own = b.make<int>(8);
        pass(11ms);
        check_throws(errc::expired, {"'request'"}, [&] { tenure::make<int>(1); });
        nothing_can_be_done(errc::expired, h, two.id());
        check_throws(errc::expired, {"'request'"}, [&] { b.share(h, two.id()); });
        check_throws(errc::expired, {"'request'"}, [&] { b.share(own, two.id()); });
        check_throws(errc::expired, {"'request'"}, [&] { b.broadcast(h, std::array{two.id()}); });
        check_throws(errc::expired, {"'request'"}, [&] { b.borrow(h); });
    }

    TEST_CASE_FIXTURE(world, "is named as long as its record is no other's") {
        batch_id const id = reg.new_batch({.name = "request", .timeout = 10ms});
        pass(11ms);
        reg.expire_overdue();
        check_throws(errc::expired, {"'request'"}, [&] { auto const e = reg.enter(id); });
        check_throws(errc::expired, {"'request'"}, [&] { reg.new_batch({}, id); });
        check_throws(errc::expired, {"'request'"}, [&] { reg.set_current_batch(id); });
        batch_scope other(reg, {.name = "other"});
        auto const  h = other.make<int>(1);
        for (int i = 0; i < 20; ++i) batch_scope again(reg, {.name = "other"});
        try {
            other.share(h, id);
            FAIL_CHECK("shared with what is over");
        } catch (tenure::error const& e) {
            CHECK(e.code() == errc::expired);
            CHECK(std::string(e.what()).find(to_text(id)) != std::string::npos);
            CHECK(std::string(e.what()).find("other") == std::string::npos);
        }
    }
}

TEST_SUITE("cancel") {
    TEST_CASE_FIXTURE(world, "stops makes here and below, and frees what is not open") {
        std::atomic<int> alive{0}, told{0};
        batch_scope      request(reg, {.name = "request"});
        batch_owner      job(reg, {.name = "job"}, request.id()), part(reg, {}, job.id());
        batch_scope      hop;
        batch_id         detached;
        {
            batch_scope d;
            d.make<counted>(alive);
            detached = d.detach();
        }
        job.make<counted>(alive);
        part.make<counted>(alive);
        auto const               h = hop.make<counted>(alive);
        std::stop_callback const first(request.stop_token(), [&] { ++told; });
        std::stop_callback const second(job.stop_token(), [&] { ++told; });
        std::stop_callback const third(hop.stop_token(), [&] { ++told; });
        CHECK(alive == 4);
        request.cancel();
        CHECK(told == 3);
        CHECK(alive == 1);
        CHECK(h.alive());
        for (batch_id const id : {job.id(), part.id(), detached, hop.id(), request.id()})
            CHECK(reg.status(id) == batch_status::cancelled);
        check_throws(errc::cancelled, {"make", "request"}, [&] { request.make<int>(); });
        check_throws(errc::cancelled, {}, [&] { tenure::make<int>(); });
        check_throws(errc::cancelled, {}, [&] { job.make<int>(); });
        check_throws(errc::cancelled, {}, [&] { tenure::transfer_ownership(h, job.id()); });
        request.cancel();
        CHECK(hop.end().freed == 1);
        CHECK(alive == 0);
        check_throws(errc::cancelled, {}, [&] { h->alive = 1; });
    }

    TEST_CASE_FIXTURE(world, "by id, idempotent; the root and strangers are refused") {
        batch_owner b(reg, {.cleanup = tenure::cleanup::manual});
        auto const  h = b.make<int>();
        reg.cancel(b.id());
        reg.cancel(b.id());
        CHECK(!h.alive());
        CHECK(b.status() == batch_status::cancelled);
        check_throws(errc::not_owner, {}, [&] { reg.cancel(reg.root()); });
        check_throws(errc::no_such_batch, {}, [&] { reg.cancel(batch_id{99}); });
        check_throws(errc::no_such_batch, {}, [&] { reg.stop_token(batch_id{99}); });
        CHECK(reg.stop_token(b.id()).stop_requested());
        batch_owner next(reg);
        CHECK(next.status() == batch_status::active);  // perhaps in the same record
        CHECK(next.make<int>().alive());
        CHECK(!next.stop_token().stop_requested());
    }

    TEST_CASE_FIXTURE(world, "what waits for it stops; a plain end asks those who are inside, too") {
        batch_owner               b(reg, {});
        std::atomic<int>          inside{0}, refused{0};
        std::vector<std::jthread> threads;
        for (int i = 0; i < 3; ++i)
            threads.emplace_back([&, i] {
                std::optional<tenure::entered> in;
                tenure::entered const          here = reg.enter(b.id());
                batch_scope                    hop;
                std::stop_token const          stop = i == 0 ? reg.stop_token(b.id()) : hop.stop_token();
                hop.make<int>(i);
                tenure::make<int>(i);
                ++inside;
                while (!stop.stop_requested()) std::this_thread::yield();
                while (hop.try_make<int>(i)) std::this_thread::yield();
                if (hop.try_make<int>(i).error() == errc::cancelled) ++refused;
            });
        while (inside < 3) std::this_thread::yield();
        batch_id const id = b.id();
        reg.cancel(id);
        threads.clear();
        CHECK(refused == 3);
        CHECK(reg.status(id) == batch_status::cancelled);

        batch_owner                    ended(reg, {});
        std::optional<tenure::entered> in;
        std::stop_token const          stop = ended.stop_token();
        {
            tenure::entered const here = ended.enter();
            ended.end();
            CHECK(stop.stop_requested());
            check_throws(errc::batch_ended, {}, [] { tenure::make<int>(); });
        }
    }

    TEST_CASE_FIXTURE(world, "races with guards, ends and makes on other threads") {
        int const                  rounds = TENURE_SANITIZED ? 150 : 3000, waiting = 50;
        std::atomic<int>           alive{0};
        int                        stopped = 0;
        std::atomic<std::uint64_t> current{0};
        std::atomic<bool>          done{false};
        std::jthread               canceller([&] {
            dice d(3);
            while (!done) {
                if (batch_id const id{current}; id) {
                    if (d.one_in(2)) reg.cancel(id);
                    else reg.expire_overdue();
                }
                pass(std::chrono::nanoseconds(d.below(300)));
            }
        });
        std::jthread               visitor([&] {
            while (!done) {
                batch_id const id{current};
                if (!id) continue;
                try {
                    tenure::entered const here = reg.enter(id);
                    for (int i = 0; i < 10; ++i) tenure::make<counted>(alive);
                } catch (tenure::error const& e) {
                    bool const over = e.code() == errc::no_such_batch || e.code() == errc::batch_ended;
                    if (!over && e.code() != errc::expired && e.code() != errc::cancelled) FAIL_CHECK(e.what());
                }
            }
        });
        dice                       d(5);
        for (int i = 0; i < rounds; ++i) {
            try {
                batch_scope b(reg, {.timeout = std::chrono::nanoseconds(1000 + d.below(100'000))});
                current = b.id().value;
                for (std::uint64_t n = d.below(20); n > 0; --n) {
                    batch_scope hop;
                    hop.make<counted>(alive);
                    tenure::make<counted>(alive);
                    if (d.one_in(4)) b.make<counted>(alive);
                }
                // The canceller comes to each batch that waits for it, however it and this thread are scheduled.
                if (i % waiting == 0) {
                    while (b.status() == batch_status::active) std::this_thread::yield();
                    b.make<counted>(alive);
                    FAIL_CHECK("made in a batch that was stopped");
                }
            } catch (tenure::error const& e) {
                if (e.code() != errc::expired && e.code() != errc::cancelled) FAIL_CHECK(e.what());
                ++stopped;
            }
        }
        done = true;
        canceller.join();
        visitor.join();
        CHECK(alive == 0);
        CHECK(stopped >= rounds / waiting);
    }
}
