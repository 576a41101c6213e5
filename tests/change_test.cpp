// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What a batch was opened with changes: name, priority, limits, deadline.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/detail/timing/deadlines.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "throws.hpp"
#include "virtual_clock.hpp"

namespace {

using namespace std::chrono_literals;
using tenure::batch_id;
using tenure::batch_limits;
using tenure::batch_owner;
using tenure::batch_scope;
using tenure::batch_status;
using tenure::errc;
using tenure::handle;
using tenure::no_limit;
using tenure::no_timeout;
using tenure::registry;

/// A registry on virtual time, and nothing left in it.
struct changes {
    registry   r{on_virtual_time()};
    accounting books{r};
};

using eight = std::array<char, 8>;

/// How many objects of 8 bytes can still be made.
template <class Batch>
std::size_t fill(Batch& b) {
    std::size_t n = 0;
    while (b.template try_make<eight>()) ++n;
    return n;
}

/// Calls of on_soft.
struct crossings {
    auto note() {
        return [this](batch_id id, std::size_t in_use) {
            last  = id;
            bytes = in_use;
            ++calls;
        };
    }

    int         calls = 0;
    batch_id    last;
    std::size_t bytes = 0;
};

/// The name in a snapshot.
std::string seen_name(registry& r, batch_id id) {
    for (tenure::batch_info const& b : r.snapshot().batches)
        if (b.id == id) return b.name;
    return "(none)";
}

}  // namespace

TEST_SUITE("set_name") {
    TEST_CASE_FIXTURE(changes, "is what all see from then on") {
        batch_scope plain(r), named(r, {.name = "before"});
        for (batch_scope* const b : {&plain, &named}) {
            b->set_name("a name that is longer than one word");
            CHECK(b->name() == "a name that is longer than one word");
            CHECK(seen_name(r, b->id()) == "a name that is longer than one word");
            r.set_name(b->id(), "short");
            CHECK(b->name() == "short");
            check_throws(errc::memory_full, {"'short'"}, [&] { b->make<char[]>(std::size_t{1} << 60); });
            b->set_name("");
            CHECK(b->name() == "");
            b->set_name(std::string(100, 'x'));
            CHECK(b->name() == std::string(63, 'x'));
        }
        r.set_name(r.root(), "of all");
        CHECK(seen_name(r, r.root()) == "of all");
    }

    TEST_CASE_FIXTURE(changes, "goes with the batch, not with its record") {
        {
            batch_scope b(r);
            b.set_name("first");
        }
        batch_scope const next(r);
        CHECK(next.name() == "");
    }

    TEST_CASE_FIXTURE(changes, "is seen whole by other threads") {
        std::string const names[]{std::string(60, 'a'), std::string(40, 'b')};
        batch_scope       b(r, {.name = names[0]});
        std::atomic<int>  seen{0}, mixed{0};
        auto const        rename = [&](int i) {
            for (; seen < 20'000; ++i) r.set_name(b.id(), names[i % 2]);
        };
        std::thread one([&] { rename(0); }), other([&] { rename(1); });
        for (; seen < 20'000; ++seen) {
            std::string const name = b.name();
            if (name != names[0] && name != names[1]) ++mixed;
        }
        one.join();
        other.join();
        CHECK(mixed == 0);
    }
}

TEST_SUITE("set_priority") {
    TEST_CASE("changes who goes out first") {
        constexpr std::size_t MiB = 1u << 20;
        registry              r(
            {.memory_limit = {.high = 16 * MiB, .low = 12 * MiB}, .eviction = tenure::lowest_priority_first{}});
        auto const hoard = [&](int priority) {
            batch_id const id = r.new_batch({.residency = tenure::residency::automatic, .priority = priority});
            auto const     in = r.enter(id);
            tenure::make<char[]>(6 * MiB);
            return id;
        };
        batch_id const first = hoard(1), second = hoard(2);
        r.set_priority(first, 3);
        {
            batch_scope b(r);
            b.make<char[]>(5 * MiB);
        }
        CHECK(r.usage(first).paged_out == 0);
        CHECK(r.usage(second).paged_out > 0);
        r.end_batch(first);
        r.end_batch(second);
    }
}

TEST_SUITE("set_limits") {
    TEST_CASE_FIXTURE(changes, "a raised one lets makes go on, a lowered one refuses them until enough is freed") {
        batch_scope b(r, {.limits = {.hard = 800}});
        CHECK(fill(b) == 100);
        b.set_limits({.hard = 1600});
        std::vector<handle<eight>> made;
        for (int i = 0; i < 100; ++i) made.push_back(b.make<eight>());
        CHECK(fill(b) == 0);
        b.set_limits({.hard = 400});
        check_throws(errc::limit_exceeded, {"1600 bytes in use", "limit 400"}, [&] { b.make<eight>(); });
        for (handle<eight> const h : made) b.free(h);
        CHECK(fill(b) == 0);
        r.set_limits(b.id(), {.hard = 816});
        CHECK(fill(b) == 2);
        b.set_limits({});
        CHECK(b.make<std::array<char, 100'000>>().alive());
    }

    TEST_CASE_FIXTURE(changes, "the first: what is there counts, of every kind, to the byte") {
        batch_scope       b(r);
        std::size_t const buffer = 4096;
        auto const        early  = b.make<eight>();
        auto const        large  = b.make<std::array<char, 100'000>>();
        std::pmr::string  text("text that is too long for the string itself", b.resource());
        b.make_buffer<char>(buffer);
        std::size_t const used = b.usage().bytes + b.usage().buffer_bytes;
        b.set_limits({.hard = used + 80});
        CHECK(fill(b) == 10);
        CHECK(b.usage().bytes + b.usage().buffer_bytes == used + 80);
        b.free(early);
        CHECK(fill(b) == 1);
        b.free(large);
        CHECK(fill(b) >= 100'000 / 8);
        CHECK(b.usage().bytes + b.usage().buffer_bytes == used + 80);
        {
            batch_scope const below;
            CHECK(!tenure::try_make<eight>());
        }
        CHECK(b.try_make<eight>().error() == errc::limit_exceeded);
    }

    TEST_CASE_FIXTURE(changes, "the first below others: what was charged there stays charged, and goes back once") {
        batch_scope outer(r, {.limits = {.hard = 800}});
        {
            batch_scope b;
            for (int i = 0; i < 50; ++i) b.make<eight>();
            b.set_limits({.hard = 480});
            CHECK(fill(b) == 10);
            b.set_limits({.hard = 8000});
            CHECK(fill(b) == 40);
            check_throws(errc::limit_exceeded, {"800 bytes in use"}, [&] { b.make<eight>(); });
        }
        CHECK(fill(outer) == 100);
    }

    TEST_CASE_FIXTURE(changes, "the first needs the batch alone, and changes nothing else") {
        batch_scope b(r, {.name = "crowd"});
        auto const  h      = b.make<int>();
        auto const  refuse = [&] {
            check_throws(errc::batch_in_use, {"set the limits of batch", "crowd"},
                          [&] { b.set_limits({.hard = 0}); });
            check_throws(errc::batch_in_use, {"set the timeout of batch"}, [&] { b.set_timeout(1h); });
            CHECK(r.try_set_limits(b.id(), {.hard = 0}).error() == errc::batch_in_use);
            CHECK(b.make<int>().alive());
        };
        {
            batch_scope const below;
            refuse();
        }
        {
            batch_owner const below(r, {}, b.id());
            refuse();
        }
        {
            auto const lane = b.lane();
            refuse();
        }
        {
            batch_scope const user(r);
            auto const        pinned = tenure::pin(h);
            CHECK(b.try_set_limits({.hard = 0}).error() == errc::batch_in_use);
        }
        std::thread([&] { CHECK(b.try_set_limits({.hard = 0}).error() == errc::batch_in_use); }).join();
        b.set_limits({.hard = 0});
        CHECK(!b.try_make<int>());
        batch_scope const below;
        b.set_limits({.hard = 100'000});  // it has limits now
        CHECK(tenure::make<int>().alive());
        std::thread([&] { b.set_limits({.hard = 0}); }).join();
        CHECK(!tenure::try_make<std::array<char, 60'000>>());
    }

    TEST_CASE_FIXTURE(changes, "the first after a checkpoint: what a rollback frees comes back") {
        batch_scope b(r);
        b.make<eight>();
        b.checkpoint();
        for (int i = 0; i < 20'000; ++i) b.make<eight>();
        b.make<std::array<char, 100'000>>();
        b.make_buffer<char>(1000);
        b.set_limits({});
        b.make<eight>();
        b.rollback();
        b.set_limits({.hard = 88});
        CHECK(b.usage().bytes == 8);
        CHECK(fill(b) == 10);
        b.clear();
        CHECK(fill(b) == 11);
    }

    TEST_CASE_FIXTURE(changes, "of a batch without a guard, by id") {
        batch_owner b(r);
        {
            auto const in = b.enter();
            for (int i = 0; i < 10; ++i) tenure::make<eight>();
            CHECK(r.try_set_limits(b.id(), {.hard = 160}));  // this thread may be in it
            CHECK(tenure::try_make<eight>());
        }
        r.set_limits(b.id(), {.hard = 160});
        auto const  in = b.enter();
        std::size_t n  = 0;
        while (tenure::try_make<eight>()) ++n;
        CHECK(n == 9);
    }

    TEST_CASE_FIXTURE(changes, "with batches below that have limits of their own") {
        batch_scope outer(r, {.limits = {.hard = 800}});
        batch_scope inner({.limits = {.hard = 8000}});
        batch_scope plain;
        CHECK(fill(plain) == 100);
        outer.set_limits({.hard = 1600});
        CHECK(fill(plain) == 100);
        inner.set_limits({.hard = 1600});
        outer.set_limits({});
        CHECK(fill(plain) == 0);
        inner.set_limits({});
        CHECK(plain.make<std::array<char, 100'000>>().alive());
    }

    TEST_CASE_FIXTURE(changes, "on_soft is the new one, and is told at the next make if it is late") {
        crossings   first, second;
        batch_scope b(r, {.limits = {.soft = 80, .on_soft = first.note()}});
        for (int i = 0; i < 20; ++i) b.make<eight>();
        CHECK(first.calls == 1);
        b.set_limits({.soft = 120, .on_soft = second.note()});
        CHECK(second.calls == 0);
        b.make<eight>();
        CHECK(second.calls == 1);
        CHECK(second.last == b.id());
        CHECK(second.bytes == 168);
        b.set_limits({.soft = 1680, .on_soft = second.note()});
        b.make<eight>();
        CHECK(second.calls == 1);
    }

    TEST_CASE_FIXTURE(changes, "on_soft may set them itself") {
        batch_scope                      b(r);
        std::vector<std::size_t>         told;
        std::function<void(std::size_t)> grow = [&](std::size_t soft) {
            b.set_limits({.soft = soft, .hard = 2 * soft, .on_soft = [&, soft](batch_id, std::size_t in_use) {
                              told.push_back(in_use);
                              if (soft < 10'000) grow(2 * soft);
                          }});
        };
        grow(1000);
        std::size_t const made = fill(b);
        CHECK(made == 32'000 / 8);
        CHECK(told.size() == 5);
        grow = nullptr;
    }

    TEST_CASE_FIXTURE(changes, "on_soft that is being called outlasts its place") {
        batch_owner              b(r, {.limits = {.soft = 80}});
        std::atomic<int>         state{0};
        auto                     alive = std::make_shared<int>(1);
        std::weak_ptr<int> const watch = alive;
        r.set_limits(b.id(), {.soft = 80, .on_soft = [&, alive](batch_id, std::size_t) {
                                  state = 1;
                                  while (state == 1) std::this_thread::yield();
                                  CHECK(*alive == 1);
                              }});
        alive.reset();
        std::thread maker([&] {
            auto const in = b.enter();
            tenure::make<std::array<char, 160>>();
        });
        while (state != 1) std::this_thread::yield();
        r.set_limits(b.id(), {.soft = 80});
        CHECK(!watch.expired());
        state = 2;
        maker.join();
        CHECK(watch.expired());
    }

    TEST_CASE_FIXTURE(changes, "and what copying it throws leaves those that were") {
        struct thrower {
            thrower() = default;
            thrower(thrower const& other) : armed(other.armed) {
                if (*armed) throw std::runtime_error("copied");
            }
            void                  operator()(batch_id, std::size_t) const {}
            std::shared_ptr<bool> armed = std::make_shared<bool>(false);
        };
        thrower const      t;
        batch_limits const limits{.hard = 0, .on_soft = t};
        batch_scope        b(r, {.limits = {.hard = 80}});
        *t.armed = true;
        CHECK_THROWS_WITH(b.set_limits(limits), "copied");
        CHECK(fill(b) == 10);
    }

    TEST_CASE_FIXTURE(changes, "threads make, while others set them: none is passed for good") {
        constexpr std::size_t    low = 80'000, high = 240'000;
        batch_scope              outer(r, {.limits = {.hard = 2 * high}});
        batch_owner              b(r, {.limits = {.hard = low}}, outer.id());
        std::atomic<bool>        over{false};
        std::atomic<int>         runs{0};
        std::vector<std::thread> all;
        for (int t = 0; t < 2; ++t)
            all.emplace_back([&] {
                while (!over) {
                    auto const in = b.enter();
                    for (int i = 0; i < 100; ++i)
                        if (auto const h = tenure::try_make<eight>(); h && i % 2) r.free(*h);
                    ++runs;
                }
            });
        for (int i = 0; i < 1000 || runs < 100; ++i) r.set_limits(b.id(), {.hard = i % 2 ? low : high});
        over = true;
        for (std::thread& t : all) t.join();
        CHECK(r.usage(b.id()).bytes <= high);
        {
            auto const in   = b.enter();
            auto const more = [&] {
                r.set_limits(b.id(), {.hard = r.usage(b.id()).bytes + 80});
                std::size_t n = 0;
                while (tenure::try_make<eight>()) ++n;
                return n;
            };
            CHECK(more() <= 10 + 65'536 / 8);  // the lane's last window
            CHECK(more() <= 10);
        }
        r.end_batch(b.id());
        CHECK(fill(outer) == 2 * high / 8);
    }

    TEST_CASE_FIXTURE(changes, "strangers, the root and what is over are refused") {
        registry    other;
        batch_scope b(r);
        batch_id    gone;
        {
            batch_scope const below(r);
            gone = below.id();
        }
        batch_owner retained(r, {.cleanup = tenure::cleanup::manual});
        r.end_batch(retained.id());
        check_throws(errc::no_such_batch, {}, [&] { other.set_limits(b.id(), {}); });
        check_throws(errc::no_such_batch, {}, [&] { other.set_name(b.id(), "x"); });
        check_throws(errc::no_such_batch, {}, [&] { r.set_priority(batch_id{12'345'678'901}, 1); });
        for (batch_id const over : {gone, retained.id()}) {
            check_throws(errc::batch_ended, {"set the name of batch"}, [&] { r.set_name(over, "x"); });
            check_throws(errc::batch_ended, {"set the priority of batch"}, [&] { r.set_priority(over, 1); });
            check_throws(errc::batch_ended, {"set the limits of batch"}, [&] { r.set_limits(over, {}); });
            check_throws(errc::batch_ended, {"set the timeout of batch"}, [&] { r.set_timeout(over, 1s); });
        }
        check_throws(errc::not_owner, {}, [&] { r.set_limits(r.root(), {}); });
        CHECK(r.try_set_timeout(r.root(), 1s).error() == errc::not_owner);
        r.destroy_batch(retained.id());
        auto const        shared = b.make<int>(1);
        batch_owner const sharer(r);
        r.share(shared, sharer.id());
        check_throws(errc::not_owner, {}, [&] { r.set_name(shared.owner(), "x"); });
        b.detach();
        check_throws(errc::batch_ended, {}, [&] { b.set_name("x"); });
        CHECK(b.try_set_limits({}).error() == errc::batch_ended);
        CHECK(b.try_set_priority(1).error() == errc::batch_ended);
        CHECK(b.try_set_timeout(1s).error() == errc::batch_ended);
        r.end_batch(b.id());
    }

    TEST_CASE_FIXTURE(changes, "random makes, frees and limits: the use that counts is the use") {
        std::mt19937 random(7);
        auto const   below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
        for (int round = 0; round < 30; ++round) {
            batch_scope                outer(r, {.limits = {.hard = round % 2 ? no_limit : 1'000'000}});
            std::optional<batch_scope> b;
            b.emplace();
            std::vector<handle<char[]>> all;
            for (int step = 0; step < 200; ++step) {
                if (below(3) == 0 && !all.empty()) {
                    std::size_t const i = below(all.size());
                    b->free(all[i]);
                    all[i] = all.back();
                    all.pop_back();
                } else if (auto const h = b->try_make<char[]>(1 + below(below(20) ? 200 : 100'000))) {
                    all.push_back(*h);
                }
                if (below(40) == 0 && !all.empty()) {
                    b->keep(all.back());
                    all.pop_back();
                }
                if (below(20) == 0) {
                    std::size_t const used = b->usage().bytes, more = below(100);
                    b->set_limits({.hard = used + 8 * more});
                    std::vector<handle<eight>> fits;
                    while (auto const h = b->try_make<eight>()) fits.push_back(*h);
                    CHECK(fits.size() == more);
                    for (handle<eight> const h : fits) b->free(h);
                    b->set_limits({});
                }
            }
            b.reset();
            std::size_t const used = outer.usage().bytes;
            outer.set_limits({.hard = used + 80});
            CHECK(fill(outer) == 10);
        }
    }
}

TEST_SUITE("set_timeout") {
    TEST_CASE_FIXTURE(changes, "extends, shortens, and takes away") {
        batch_scope b(r, {.timeout = 10ms});
        pass(9ms);
        b.set_timeout(10ms);
        pass(9ms);
        CHECK(b.make<int>().alive());
        CHECK(b.status() == batch_status::active);
        r.set_timeout(b.id(), no_timeout);
        CHECK(r.expire_overdue() == no_timeout);
        pass(1h);
        CHECK(b.make<int>().alive());
        b.set_timeout(1h);
        b.set_timeout(2ms);
        CHECK(r.expire_overdue() == 2ms);
        pass(1ms);
        CHECK(b.make<int>().alive());
        pass(1ms);
        CHECK(b.status() == batch_status::expired);
        check_throws(errc::expired, {"set the timeout of batch"}, [&] { b.set_timeout(1h); });
        check_throws(errc::expired, {"make"}, [&] { b.make<int>(); });
        check_throws(errc::expired, {}, [&] { b.set_name("late"); });
    }

    TEST_CASE_FIXTURE(changes, "the first, and one that is over at once") {
        batch_scope b(r);
        b.set_timeout(5ms);
        pass(4ms);
        CHECK(b.make<int>().alive());
        CHECK(r.expire_overdue() == 1ms);
        pass(1ms);
        CHECK(b.try_make<int>().error() == errc::expired);
        b.end();
        batch_scope const other(r);
        CHECK(r.try_set_timeout(other.id(), -1s));
        CHECK(!tenure::try_make<int>());
        CHECK(other.status() == batch_status::expired);
    }

    TEST_CASE_FIXTURE(changes, "that of a batch above is for those below, whenever they were opened") {
        batch_scope outer(r, {.timeout = 10ms});
        {
            batch_scope longer({.timeout = 20ms});
            batch_scope limited({.limits = {.hard = 10'000}});
            batch_scope plain;
            outer.set_timeout(1h);
            pass(10ms);
            CHECK(plain.make<int>().alive());
            CHECK(plain.status() == batch_status::active);
            CHECK(r.expire_overdue() == 10ms);
            pass(10ms);
            CHECK(plain.status() == batch_status::expired);
            CHECK(plain.try_make<int>().error() == errc::expired);
            CHECK(longer.try_make<int>().error() == errc::expired);
            CHECK(outer.make<int>().alive());
        }
        batch_scope const again({.timeout = 2h});
        outer.set_timeout(10ms);
        pass(10ms);
        for (auto const& seen : r.snapshot().batches)
            if (seen.id != r.root()) CHECK(seen.status == batch_status::expired);
        CHECK(again.status() == batch_status::expired);
    }

    TEST_CASE_FIXTURE(changes, "is taken away with its batch, and not met by the next") {
        {
            batch_scope b(r);
            b.set_timeout(1ms);
        }
        CHECK(r.expire_overdue() == no_timeout);
        pass(1ms);
        batch_scope next(r);
        CHECK(next.make<int>().alive());
    }

    TEST_CASE("tells the supervisor, and what that throws leaves the one that was") {
        struct watch : tenure::detail::deadline_watch {
            void earlier() override {
                ++told;
                if (refuses) throw std::runtime_error("no");
            }
            int  told    = 0;
            bool refuses = false;
        };
        registry   r{on_virtual_time()};
        auto const by = std::make_shared<watch>();
        tenure::detail::timing_calls::watch(r, by);
        {
            batch_scope first(r, {.limits = {.hard = 10'000}}), b(r, {.timeout = 10ms});
            int const   told = by->told;
            b.set_timeout(5ms);
            CHECK(by->told > told);
            by->refuses = true;
            CHECK_THROWS_WITH(b.set_timeout(1ms), "no");
            CHECK_THROWS_WITH(first.set_timeout(1ms), "no");
            CHECK(r.expire_overdue() == 5ms);
            by->refuses = false;
            pass(5ms);
            CHECK(r.expire_overdue() == no_timeout);
            CHECK(b.try_make<int>().error() == errc::expired);
            CHECK(first.make<int>().alive());
        }
        tenure::detail::timing_calls::unwatch(r);
    }

    TEST_CASE_FIXTURE(changes, "threads set it, while another expires what is over") {
        batch_owner              b(r, {.timeout = 1h});
        std::atomic<bool>        over{false};
        std::thread              clock([&] {
            while (!over) {
                r.expire_overdue();
                pass(1ms);
            }
        });
        std::vector<std::thread> all;
        for (int t = 0; t < 2; ++t)
            all.emplace_back([&] {
                for (int i = 0; i < 2'000; ++i) {
                    r.set_timeout(b.id(), i % 3 ? 1h : no_timeout);
                    batch_scope mine(r);
                    static_cast<void>(mine.try_set_timeout(1ms));
                    static_cast<void>(mine.try_set_timeout(i % 2 ? 1ms : 1h));
                    static_cast<void>(mine.try_make<int>());
                }
            });
        for (std::thread& t : all) t.join();
        over = true;
        clock.join();
        CHECK(r.status(b.id()) == batch_status::active);
        r.set_timeout(b.id(), no_timeout);
        CHECK(r.expire_overdue() == no_timeout);
    }
}
