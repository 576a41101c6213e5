// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <array>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "journal.hpp"
#include "throws.hpp"

using tenure::batch_scope;
using tenure::errc;
using tenure::handle;
using tenure::registry;
using tenure::unique_owner;

namespace {

struct own_registry : accounting {
    registry   r;
    accounting books{r};

    std::size_t in_root() const { return r.usage(r.root()).objects; }
};

struct base {
    virtual ~base() = default;
    int number      = 1;
};
struct derived : base {
    explicit derived(journal& j) : end(j, 7) {}
    traced end;
};

static_assert(!std::is_copy_constructible_v<unique_owner<int>> && !std::is_copy_assignable_v<unique_owner<int>>);
static_assert(std::is_nothrow_move_constructible_v<unique_owner<int>>);
static_assert(std::is_nothrow_move_assignable_v<unique_owner<int>>);
static_assert(std::is_convertible_v<unique_owner<derived>, unique_owner<base>>);
static_assert(!std::is_convertible_v<unique_owner<base>, unique_owner<derived>>);
static_assert(std::is_convertible_v<unique_owner<derived>, std::shared_ptr<base>>);
static_assert(!std::is_convertible_v<unique_owner<derived>&, std::shared_ptr<base>>);
static_assert(sizeof(unique_owner<int>) == sizeof(handle<int>) + sizeof(tenure::batch_id));

}  // namespace

TEST_SUITE("unique_owner") {
    TEST_CASE_FIXTURE(own_registry, "has an object that its batch's end leaves alone, as talloc_steal(NULL, p)") {
        journal              log;
        unique_owner<traced> mine;
        handle<traced>       h;
        {
            batch_scope b(r);
            h              = b.make<traced>(log, 1);
            auto* const at = h.get();
            b.make<traced>(log, 2);
            mine = b.detach(h);
            CHECK(&*mine == at);
            CHECK(b.usage().objects == 1);
            CHECK(b.end().kept == 1);
        }
        CHECK(log.ended == std::vector{2});
        CHECK(mine);
        CHECK(mine->number() == 1);
        CHECK(mine.get() == h.get());
        CHECK(mine.handle() == h);
        CHECK(h.owner() == r.root());
        CHECK(in_root() == 1);
        CHECK(r.leak_report() == "");
        mine.reset();
        CHECK(!mine);
        CHECK(!h.alive());
        CHECK(log.ended == std::vector{2, 1});
        CHECK(in_root() == 0);
    }

    TEST_CASE_FIXTURE(own_registry, "frees in its destructor, on any thread, and moves as unique_ptr does") {
        journal log;
        {
            batch_scope          b(r);
            unique_owner<traced> one = b.detach(b.make<traced>(log, 1)), two = b.detach(b.make<traced>(log, 2));
            std::thread([moved = std::move(one)] { CHECK(moved->number() == 1); }).join();
            CHECK(log.ended == std::vector{1});
            CHECK(!one);
            CHECK(one.get() == nullptr);
            check_throws(errc::stale_handle, {"null handle"}, [&] { (void)*one; });
            check_throws(errc::stale_handle, {"null handle"}, [&] { (void)one->number(); });
            one = std::move(two);
            CHECK(log.ended.size() == 1);
            one = b.detach(b.make<traced>(log, 3));
            CHECK(log.ended == std::vector{1, 2});
            auto& itself = one;
            one          = std::move(itself);
            CHECK(one->number() == 3);
            one = nullptr;
            CHECK(log.ended == std::vector{1, 2, 3});
            std::vector<unique_owner<traced>> many;
            for (int i = 4; i < 300; ++i) many.push_back(b.detach(b.make<traced>(log, i)));
            many.front().swap(many.back());
            CHECK(many.front()->number() == 299);
        }
        CHECK(log.ended.size() == 299);
        CHECK(log.alive == 0);
        CHECK(in_root() == 0);
    }

    TEST_CASE_FIXTURE(own_registry, "of a base, a const, an array, a large object, an adopted one") {
        journal     log;
        int         deleted = 0;
        batch_scope b(r);
        {
            unique_owner<base> const      part     = b.detach(b.make<derived>(log));
            unique_owner<int const> const constant = b.detach(handle<int const>(b.make<int>(5)));
            unique_owner<int[]> const     array    = b.detach(b.make<int[]>({1, 2, 3}));
            auto const                    strings  = b.detach(b.make<std::string[]>(100, "element"));
            auto const                    large    = b.detach(b.make<std::array<std::string, 10'000>>());
            auto const adopted = b.detach(b.adopt(new int(6), [&](int const* p) { ++deleted, delete p; }));
            CHECK(part->number == 1);
            CHECK(*constant == 5);
            CHECK(array[2] == 3);
            check_throws(errc::out_of_range, {}, [&] { (void)array[3]; });
            CHECK(strings[99] == "element");
            CHECK(large->size() == 10'000);
            CHECK(*adopted == 6);
            CHECK(b.end().kept == 6);
            CHECK(log.alive == 1);
        }
        CHECK(log.alive == 0);
        CHECK(deleted == 1);
        CHECK(in_root() == 0);
        CHECK(r.usage(r.root()).bytes == 0);
    }

    TEST_CASE_FIXTURE(own_registry, "becomes a shared_ptr, whose last copy frees the object") {
        journal               log;
        std::shared_ptr<base> shared;
        {
            batch_scope b(r);
            shared                               = b.detach(b.make<derived>(log));
            std::shared_ptr<int[]> const numbers = b.detach(b.make<int[]>(10, 4));
            CHECK(numbers[9] == 4);
        }
        std::weak_ptr<base> const weak = shared;
        auto const                copy = std::exchange(shared, nullptr);
        CHECK(weak.lock()->number == 1);
        CHECK(log.alive == 1);
        CHECK(std::shared_ptr<base>(unique_owner<base>()) == nullptr);
        const_cast<std::shared_ptr<base>&>(copy).reset();
        CHECK(weak.expired());
        CHECK(log.alive == 0);
        CHECK(in_root() == 0);
    }

    TEST_CASE_FIXTURE(own_registry, "gives the object up with release(), for a batch to take") {
        journal     log;
        batch_scope b(r);
        auto        owner = b.detach(b.make<traced>(log, 1));
        auto const  h     = owner.release();
        CHECK(!owner);
        CHECK(h.alive());
        CHECK(h.owner() == r.root());
        r.transfer_ownership(h, b);
        b.end();
        CHECK(log.ended == std::vector{1});

        // What somebody else gave away by a handle is that batch's, and what was freed is freed.
        batch_scope c(r);
        {
            auto const given = c.detach(c.make<traced>(log, 2)), freed = c.detach(c.make<traced>(log, 3));
            r.transfer_ownership(given.handle(), c);
            r.free(freed.handle());
            CHECK(!freed);
            CHECK(freed.get() == nullptr);
        }
        CHECK(log.ended == std::vector{1, 3});
        c.end();
        CHECK(log.ended == std::vector{1, 3, 2});
    }

    TEST_CASE_FIXTURE(own_registry,
                      "is refused what the batch does not own, or must not lose; then nothing happens") {
        batch_scope outer(r);
        auto const  of_outer = outer.make<std::string>("outer's");
        {
            batch_scope inner(r, {.name = "inner"});
            check_throws(errc::not_owner, {"detach from batch 'inner'"}, [&] { (void)inner.detach(of_outer); });
            CHECK(tenure::try_detach(of_outer).error() == errc::not_owner);
            auto const shared = inner.make<int>(1);
            r.share(shared, outer);
            CHECK(inner.try_detach(shared).error() == errc::not_owner);
            auto const bound = inner.make<std::pmr::vector<int>>(10u, inner.resource());
            check_throws(errc::not_self_contained, {"inner"}, [&] { (void)inner.detach(bound); });
            CHECK(bound->size() == 10);
            inner.free(bound);
            inner.checkpoint();
            CHECK(inner.try_detach(shared).error() == errc::not_owner);
            auto const before = inner.make<int>(2);
            inner.checkpoint();
            check_throws(errc::not_restorable, {"inner"}, [&] { (void)inner.detach(before); });
            auto since = inner.detach(inner.make<int>(3));
            inner.rollback();
            inner.commit();
            CHECK(*since == 3);
            CHECK(*inner.detach(before) == 2);
            auto const stale = inner.make<int>(4);
            inner.free(stale);
            check_throws(errc::stale_handle, {"detach"}, [&] { (void)inner.detach(stale); });
            check_throws(errc::stale_handle, {"detach"}, [&] { (void)r.detach(handle<int>()); });
            inner.end();
            CHECK(inner.try_detach(since.handle()).error() == errc::batch_ended);
            CHECK(*shared == 1);
        }
        registry other;
        CHECK(other.try_detach(of_outer).error() == errc::not_owner);
        CHECK(*of_outer == "outer's");
        CHECK(in_root() == 0);
    }

    TEST_CASE_FIXTURE(own_registry,
                      "by the registry, of whatever batch, on any thread, and from all that share it") {
        batch_scope b(r);
        auto const  h = b.make<std::string>("of whoever"), shared = b.make<std::string>("of two");
        auto const  other = r.new_batch();
        r.share(shared, other);
        unique_owner<std::string> one, two;
        std::thread([&] {
            one = r.detach(h);
            two = r.try_detach(shared).value();
        }).join();
        b.end();
        r.end_batch(other);
        CHECK(*one == "of whoever");
        CHECK(*two == "of two");
        CHECK(in_root() == 2);
        auto const again = r.new_batch();
        r.share(two.handle(), again);
        auto const left = two.handle();
        two.reset();
        CHECK(*left == "of two");  // it is the batch's now
        r.end_batch(again);
        CHECK(!left.alive());
    }

    TEST_CASE_FIXTURE(own_registry, "is freed when its last pin goes, if the owner went before") {
        journal                                     log;
        batch_scope                                 user(r);
        std::optional<tenure::pinned<traced const>> pin;
        handle<traced>                              pinned, borrowed, three;
        {
            batch_scope b(r);
            auto const  one = b.detach(pinned = b.make<traced>(log, 1));
            auto const  two = b.detach(borrowed = b.make<traced>(log, 2));
            three           = b.make<traced>(log, 3);
            {
                auto const in = user.enter();
                tenure::borrow(three);
            }
            auto const after = b.detach(three);  // pinned before
            {
                auto const in = user.enter();
                pin.emplace(tenure::pin(handle<traced const>(pinned)));
                tenure::borrow(borrowed);
            }
        }
        CHECK(log.ended.empty());
        CHECK((*pin)->number() == 1);
        CHECK(borrowed->number() == 2);
        pin.reset();
        CHECK(log.ended == std::vector{1});
        CHECK(three->number() == 3);
        user.end();
        CHECK(log.ended.size() == 3);
        CHECK(log.alive == 0);
        CHECK(in_root() == 0);
    }

    TEST_CASE_FIXTURE(own_registry, "outlives its batch's limits, its page-out and its cancellation") {
        std::vector<unique_owner<std::array<char, 40'000>>> mine;
        {
            batch_scope b(r, {.name = "small", .limits = {.hard = 100'000}});
            for (int i = 0; i < 20; ++i) mine.push_back(b.detach(b.make<std::array<char, 40'000>>()));
            CHECK(b.usage().bytes == 0);
            b.make<char[]>(90'000);
        }
        mine.clear();
        auto const  id = r.new_batch();
        handle<int> h;
        {
            auto const in = r.enter(id);
            h             = tenure::make<int>(5);
        }
        r.page_out(id);
        auto const owner = r.detach(h);
        r.end_batch(id);
        CHECK(*owner == 5);

        batch_scope b(r);
        auto const  late = b.make<int>(6);
        b.cancel();
        auto const saved = b.detach(late);
        b.end();
        CHECK(*saved == 6);
    }

    TEST_CASE("outlives its registry, which frees the object") {
        journal                 log;
        unique_owner<traced>    mine;
        std::shared_ptr<traced> shared;
        std::string             leaks = "none";
        {
            registry    own({.on_leak = [&](std::string const& report) { leaks = report; }});
            batch_scope b(own);
            mine   = b.detach(b.make<traced>(log, 1));
            shared = b.detach(b.make<traced>(log, 2));
            b.end();
            CHECK(own.snapshot().batches.front().usage.objects == 2);
        }
        CHECK(leaks == "none");
        CHECK(log.ended == std::vector{2, 1});
        CHECK(!mine);
        CHECK(mine.get() == nullptr);
        check_throws(errc::stale_handle, {}, [&] { (void)mine->number(); });
        mine.reset();
        shared.reset();
        CHECK(log.ended.size() == 2);
    }

    TEST_CASE("in an object that ends with a batch, or with the registry") {
        journal log;
        struct holder {
            unique_owner<traced> part;
            traced               end;
            holder(unique_owner<traced> p, journal& j, int n) : part(std::move(p)), end(j, n) {}
        };
        {
            registry own;
            {
                batch_scope b(own);
                b.make<holder>(b.detach(b.make<traced>(log, 1)), log, 2);
            }
            CHECK(log.ended == std::vector{2, 1});
            auto const in = own.enter(own.root());
            for (int i = 0; i < 10; ++i) {
                auto const h = tenure::make<traced>(log, 10 + i);
                tenure::make<holder>(tenure::detach(h), log, 20 + i);
            }
            log.ended.clear();
        }
        CHECK(log.ended.size() == 20);
        CHECK(log.alive == 0);
    }

    TEST_CASE_FIXTURE(own_registry, "many, made and dropped by several threads at once") {
        std::vector<std::thread> threads;
        for (int t = 0; t < 3; ++t)
            threads.emplace_back([&, t] {
                bool                                   all = true;
                std::vector<unique_owner<std::string>> mine;
                for (int round = 0; round < 200; ++round) {
                    batch_scope b(r);
                    for (int i = 0; i < 5; ++i)
                        mine.push_back(b.detach(b.make<std::string>(100u, static_cast<char>('a' + t))));
                    b.end();
                    if (round % 3 == 0) mine.erase(mine.begin(), mine.begin() + 3);
                    for (auto const& m : mine) all = all && m->front() == 'a' + t;
                }
                CHECK(all);
            });
        for (auto& t : threads) t.join();
        CHECK(in_root() == 0);
    }
}
