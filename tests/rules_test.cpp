// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Rules 1 to 6 and 10 of the design, a test each. The finer points of each are in the tests of the calls.

#include "failing.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "journal.hpp"
#include "throws.hpp"

namespace {

using tenure::batch_id;
using tenure::batch_scope;
using tenure::batch_status;
using tenure::batch_usage;
using tenure::errc;
using tenure::handle;
using tenure::registry;

/// A callee that knows nothing of batches but the current one.
handle<traced> callee(journal& log, int n) { return tenure::make<traced>(log, n); }

}  // namespace

TEST_SUITE("rule") {
    TEST_CASE_FIXTURE(
        accounting,
        "1: every object made while a batch is current is registered in it, whichever function made it") {
        journal     log;
        batch_scope outer;
        auto const  first = callee(log, 1);
        {
            batch_scope inner;
            CHECK(callee(log, 2).owner() == inner.id());
            auto const recursive = [&](auto const& self, int n) -> void {
                CHECK(callee(log, n).owner() == inner.id());
                if (n < 10) self(self, n + 1);
            };
            recursive(recursive, 3);
            // A constructor's objects, too, though it is another batch that makes it.
            struct maker {
                explicit maker(journal& j) : made(callee(j, 20)) {}
                handle<traced> made;
            };
            CHECK(outer.make<maker>(log)->made.owner() == inner.id());
            CHECK(inner.usage().objects == 10);
        }
        CHECK(callee(log, 30).owner() == outer.id());
        CHECK(first.alive());
        CHECK(log.ended.size() == 10);

        // Another thread has a current batch of its own.
        std::thread([&] { CHECK(tenure::current_batch() == registry::global().root()); }).join();
    }

    TEST_CASE_FIXTURE(accounting,
                      "2: at the end every object the batch owns is destroyed once, newest first; kept ones not") {
        journal                     log;
        std::vector<handle<traced>> kept;
        std::vector<int>            expected;
        constexpr int               n = 20'000;  // through many runs, small and large
        batch_scope                 outer;
        {
            batch_scope b;
            for (int i = 0; i < n; ++i) {
                auto const h = b.make<traced>(log, i);
                if (i % 7 == 0) b.make<std::array<char, 100'000>>();
                if (i % 3 == 0) kept.push_back(b.keep(h));
                else if (i % 5 == 0) b.free(h);
            }
            log.ended.clear();
        }
        for (int i = n - 1; i >= 0; --i)
            if (i % 3 != 0 && i % 5 != 0) expected.push_back(i);
        CHECK(log.ended == expected);
        for (std::size_t i = 0; i < kept.size(); ++i) CHECK(kept[i]->number() == static_cast<int>(3 * i));
        CHECK(log.alive == static_cast<int>(kept.size()));
        outer.end();
        CHECK(log.alive == 0);
    }

    TEST_CASE_FIXTURE(accounting, "2: what a batch received ends before what it had made by then") {
        journal     log;
        batch_scope b;
        b.make<traced>(log, 1);
        b.make<traced>(log, 2);
        std::thread([&] {
            batch_scope other;
            tenure::transfer_ownership(other.make<traced>(log, 3), b.id());
            tenure::transfer_ownership(other.make<traced>(log, 4), b.id());
        }).join();
        CHECK(log.ended.empty());
        b.end();
        CHECK(log.ended == std::vector{4, 3, 2, 1});
    }

    TEST_CASE_FIXTURE(accounting, "2: a destructor finds what is newer gone, and what is older alive") {
        struct looks {
            std::vector<handle<traced>> const& all;
            std::vector<bool>&                 alive;
            ~looks() {
                for (handle<traced> const h : all) alive.push_back(h.alive());
            }
        };
        journal                     log;
        std::vector<handle<traced>> all;
        std::vector<bool>           alive;
        batch_scope                 b;
        all.push_back(b.make<traced>(log, 1));
        b.make<looks>(all, alive);
        all.push_back(b.make<traced>(log, 2));
        b.make<std::array<char, 100'000>>();
        all.push_back(b.make<traced>(log, 3));
        b.end();
        CHECK(alive == std::vector{true, false, false});
    }

    TEST_CASE_FIXTURE(accounting, "3: a handle is valid until its object is freed, and stale for ever after") {
        journal        log;
        handle<traced> kept;
        handle<traced> stale;
        handle<int>    plain;
        for (bool const with_destructors : {false, true}) {  // batches that end in the shortest way, and others
            int reused = 0;
            for (int i = 0; i < 1000; ++i) {
                batch_scope b;
                auto const  h = b.make<int>(3);
                if (with_destructors) b.make<std::string>(100u, 's');
                if (h.unchecked() == plain.unchecked()) ++reused;
                if (plain.alive()) FAIL("a stale handle came to life");
                if (i == 0) plain = h;
            }
            CHECK(reused > 900);
            plain = {};
        }
        batch_scope top;
        {
            batch_scope                               sink;
            std::vector<std::unique_ptr<batch_scope>> nest;
            for (int i = 0; i < 50; ++i) nest.push_back(std::make_unique<batch_scope>());
            kept  = nest.back()->make<traced>(log, 1);
            stale = nest.back()->make<traced>(log, 2);
            while (nest.size() > 1) {  // through any number of keeps
                nest.back()->keep(kept);
                nest.pop_back();
                CHECK(kept->number() == 1);
            }
            for (int i = 0; i < 50; ++i) {  // ... and transfers
                tenure::transfer_ownership(kept, (i % 2 ? top : sink).id());
                CHECK(kept->number() == 1);
            }
        }
        {
            batch_scope b;
            plain = b.make<int>(3);
        }
        CHECK(kept.alive());
        CHECK_FALSE(stale.alive());

        // However often the memory is used again: some thousand generations of it, in the same place.
        void const* const place  = plain.unchecked();
        int               reused = 0;
        for (int i = 0; i < 20'000; ++i) {
            batch_scope b;
            auto const  h  = b.make<std::array<int, 64>>();
            auto const* at = reinterpret_cast<std::byte const*>(h.get());
            if (place >= at && place < at + sizeof(*h)) ++reused;
            if (stale.alive() || plain.alive()) FAIL("a stale handle came to life");
        }
        CHECK(reused > 0);
        {
            batch_scope              b;  // ... and within one batch, where holes are filled again
            std::vector<handle<int>> gone;
            for (int i = 0; i < 50'000; ++i) {
                auto const h = b.make<int>(i);
                b.free(h);
                if (h.alive() || plain.alive()) FAIL("a stale handle came to life");
                if (gone.size() < 10'000) gone.push_back(h);
                if (i % 1000 == 0) b.make<int>(i);  // stays, so that its unit is not started over
                auto const now = b.make<int>(i);    // is in the place of one of them, perhaps
                if (i % 100 == 0)
                    for (handle<int> const was : gone)
                        if (was.alive()) FAIL("a stale handle came to life");
                b.free(now);
            }
        }
        std::thread([&] {
            CHECK_FALSE(stale.alive());
            CHECK(plain.get() == nullptr);
            check_throws(errc::stale_handle, {}, [&] { (void)stale->number(); });
            CHECK(kept->number() == 1);
        }).join();
        top.free(kept);
        check_throws(errc::stale_handle, {}, [&] { (void)kept->number(); });
    }

    TEST_CASE_FIXTURE(accounting, "4: freeing never allocates and never throws") {
        static_assert(std::is_nothrow_destructible_v<batch_scope>);
        journal                     log;
        registry                    r{{.decay = std::chrono::hours(1)}};  // gives nothing back meanwhile
        batch_scope                 outer(r);
        auto                        b = std::make_unique<batch_scope>();
        std::vector<handle<traced>> freed;
        std::vector<handle<std::array<char, 5000>>> plain;
        for (int i = 0; i < 900; ++i) {
            freed.push_back(b->make<traced>(log, i));
            plain.push_back(b->make<std::array<char, 5000>>());
            if (i % 10 == 0) b->keep(plain.back());
            if (i % 100 == 0) b->make<char[]>(300'000);
        }
        auto const  adopted = b->adopt(new int(1));
        batch_scope child;
        child.make<traced>(log, 1000);

        failing::arm(failing::allocation | failing::mapping, 1);  // the first would fail
        long const before = failing::now.allocations;
        for (std::size_t i = 0; i < freed.size(); i += 3) b->free(freed[i]);
        for (std::size_t i = 1; i < plain.size(); i += 3)
            if (i % 10) b->free(plain[i]);
        b->free(adopted);
        b->end();
        b.reset();
        long const after = failing::now.allocations;
        failing::disarm();
        CHECK(after == before);
        CHECK_FALSE(failing::now.failed);
        CHECK(log.alive == 0);
        CHECK(child.status() == batch_status::done);
    }

    TEST_CASE_FIXTURE(accounting,
                      "5: if a constructor throws, nothing is registered; unwinding ends batches as a brace does") {
        struct refuses {
            refuses(journal& j, int n) : member(j, n) { throw std::runtime_error("no"); }
            traced member;
        };
        journal     log;
        batch_scope outer;
        CHECK_THROWS_WITH(outer.make<refuses>(log, 1), "no");
        CHECK(log.ended == std::vector{1});  // the member alone
        CHECK(outer.usage().objects == 0);
        CHECK(outer.usage().bytes == 0);
        struct refuses_large {
            refuses_large() { throw std::runtime_error("no"); }
            char bytes[200'000];
        };
        CHECK_THROWS_WITH(outer.make<refuses_large>(), "no");
        CHECK(outer.usage().objects == 0);
        CHECK(outer.usage().bytes == 0);
        outer.make<traced>(log, 2);
        CHECK(outer.usage().objects == 1);

        log.ended.clear();
        try {
            batch_scope a;
            a.make<traced>(log, 3);
            a.keep(a.make<traced>(log, 4));
            batch_scope b;
            b.make<traced>(log, 5);
            b.make<refuses>(log, 6);
            FAIL("not reached");
        } catch (std::runtime_error const&) {
            CHECK(log.ended == std::vector{6, 5, 3});
        }
        CHECK(tenure::current_batch() == outer.id());
        CHECK(outer.usage().objects == 2);
        tenure::batch_report const report = outer.end();
        CHECK(report.made == 1);
        CHECK(report.freed == 2);
        CHECK(log.alive == 0);
    }

    TEST_CASE_FIXTURE(accounting, "6: ending is idempotent, and may come in any order") {
        registry& r = registry::global();
        SUBCASE("again is a no-op; an id that never was is no_such_batch") {
            journal     log;
            batch_scope b;
            b.make<traced>(log, 1);
            b.end();
            b.end();
            r.end_batch(b.id());
            CHECK(log.ended == std::vector{1});
            check_throws(errc::no_such_batch, {}, [&] { r.end_batch(batch_id{}); });
        }
        SUBCASE("a parent ends its open children first, newest first") {
            journal     log;
            batch_scope parent;
            parent.make<traced>(log, 1);
            batch_id const loose = r.new_batch({}, parent.id());
            {
                batch_id const before = r.set_current_batch(loose);
                tenure::make<traced>(log, 2);
                r.set_current_batch(before);
            }
            batch_scope first;
            first.make<traced>(log, 3);
            batch_scope grandchild;
            grandchild.make<traced>(log, 4);
            batch_scope second{tenure::below(parent)};
            second.make<traced>(log, 5);
            CHECK(parent.end().status == batch_status::done);
            CHECK(log.ended == std::vector{5, 4, 3, 2, 1});
            CHECK(r.status(loose) == batch_status::done);
            check_throws(errc::batch_ended, {}, [&] { second.make<int>(1); });
            CHECK(tenure::current_batch() == r.root());
        }
        SUBCASE("a child of another thread is asked to stop, and holds its ancestors until it is done") {
            journal          log;
            auto             parent = std::make_unique<batch_scope>();
            auto const       h      = parent->make<traced>(log, 1);
            std::atomic<int> stage{0};
            batch_id         child_id;
            std::thread      worker([&] {
                batch_scope child{tenure::below(*parent)};
                child_id     = child.id();
                auto const g = child.make<traced>(log, 2);
                stage        = 1;
                while (stage != 2) std::this_thread::yield();
                CHECK(child.try_make<int>(1).error() == errc::batch_ended);
                check_throws(errc::batch_ended, {}, [&] { child.make<char[]>(1'000'000); });
                check_throws(errc::batch_ended, {}, [&] { child.keep(g); });
                CHECK(g->number() == 2);  // nothing is taken from under it
                CHECK(h->number() == 1);
                CHECK(child.status() == batch_status::ending);
                stage = 3;
                while (stage != 4) std::this_thread::yield();
            });
            while (stage != 1) std::this_thread::yield();
            batch_id const id = parent->id();
            CHECK(parent->end().status == batch_status::ending);
            parent.reset();
            stage = 2;
            while (stage != 3) std::this_thread::yield();
            CHECK(r.status(id) == batch_status::ending);
            CHECK(r.status(child_id) == batch_status::ending);
            CHECK(h.alive());
            stage = 4;
            worker.join();
            CHECK(r.status(child_id) == batch_status::done);
            CHECK(r.status(id) == batch_status::done);
            CHECK(log.ended == std::vector{2, 1});
        }
        SUBCASE("by one of the batch's own destructors: a no-op") {
            journal        log;
            batch_scope    b;
            batch_id const id = b.id();
            b.make<traced>(log, 1);
            b.defer([&] {
                r.end_batch(id);
                r.destroy_batch(id);
                CHECK(log.alive == 1);
            });
            b.make<traced>(log, 2);
            CHECK(b.end().freed == 3);
            CHECK(log.ended == std::vector{2, 1});
        }
        SUBCASE("what is open below a detached child goes on") {
            auto           top    = std::make_unique<batch_scope>();
            auto           middle = std::make_unique<batch_scope>();
            auto           below  = std::make_unique<batch_scope>();
            batch_id const id = top->id(), detached = middle->detach();
            CHECK(top->end().status == batch_status::ending);
            top.reset();
            CHECK(below->status() == batch_status::active);
            CHECK(below->make<int>(1).alive());
            below.reset();
            r.end_batch(detached);
            CHECK(r.status(id) == batch_status::done);
        }
        SUBCASE("a detached child holds them, too") {
            journal  log;
            batch_id child;
            auto     grand  = std::make_unique<batch_scope>();
            auto     parent = std::make_unique<batch_scope>();
            grand->make<traced>(log, 1);
            parent->make<traced>(log, 2);
            {
                batch_scope b;
                b.make<traced>(log, 3);
                child = b.detach();
            }
            batch_id const ids[] = {grand->id(), parent->id()};
            grand.reset();
            parent.reset();
            for (batch_id const id : ids) CHECK(r.status(id) == batch_status::ending);
            CHECK(r.status(child) == batch_status::active);
            CHECK(log.ended.empty());
            r.end_batch(child);
            for (batch_id const id : ids) CHECK(r.status(id) == batch_status::done);
            CHECK(log.ended == std::vector{3, 2, 1});
        }
        SUBCASE("the current batch is the newest that is still open") {
            auto a = std::make_unique<batch_scope>();
            auto b = std::make_unique<batch_scope>();
            b->end();
            CHECK(tenure::current_batch() == a->id());
            a->end();
            CHECK(tenure::current_batch() == r.root());
            a.reset();
            b.reset();
            CHECK(tenure::current_batch() == r.root());
        }
    }

    TEST_CASE("10: bytes are accounted: made = live + freed at all times, and the batches' sum is what is held") {
        registry       r;
        accounting     books(r);
        journal        log;
        batch_id const sink = r.new_batch({.name = "sink"});
        batch_scope    outer{r};

        // Of all batches together, by what the test itself did.
        std::size_t made = 0, freed = 0;
        auto const  check = [&] {
            books.check_books();
            tenure::snapshot const s = r.snapshot();
            batch_usage            sum;
            for (tenure::batch_info const& b : s.batches) {
                sum.objects += b.usage.objects;
                sum.bytes += b.usage.bytes;
                sum.retained += b.usage.retained;
                CHECK(b.usage.peak >= b.usage.bytes);
            }
            CHECK(sum.bytes <= sum.retained);
            CHECK(sum.objects == made - freed);
            CHECK(sum.retained == s.memory.held);
            CHECK(s.memory.mapped >= s.memory.held + s.memory.cached);
        };

        std::size_t most = 0;
        for (int round = 0; round < 20; ++round) {
            batch_scope                 b{r, {.name = "round"}};
            std::vector<handle<traced>> ends;
            std::vector<handle<char[]>> arrays;
            std::size_t                 bytes = 0;
            for (int i = 0; i < 300; ++i) {
                ends.push_back(b.make<traced>(log, i));
                arrays.push_back(b.make<char[]>(static_cast<std::size_t>(i) * 7));
                bytes += static_cast<std::size_t>(i) * 7;
            }
            arrays.push_back(b.make<char[]>(200'000 + static_cast<std::size_t>(round)));
            made += 601;
            check();
            CHECK(b.usage().objects == 601);
            CHECK(b.usage().bytes >= bytes + 200'000 + 300 * sizeof(traced));
            most = b.usage().bytes;
            for (std::size_t i = 0; i < 100; ++i) b.free(ends[i]);
            freed += 100;
            check();
            for (std::size_t i = 100; i < 150; ++i) b.keep(ends[i]);
            r.transfer_ownership(arrays.back(), sink);
            for (std::size_t i = 0; i < 50; ++i) r.transfer_ownership(arrays[i], sink);
            check();
            std::size_t const in_use = b.usage().bytes;
            auto const        report = b.end();
            CHECK(report.made == 601);
            CHECK(report.kept == 101);
            CHECK(report.freed == 500);
            CHECK(report.made + report.received == report.kept + report.freed);
            CHECK(report.bytes == in_use);
            CHECK(report.peak >= most);
            freed += 400;
            check();
        }
        CHECK(r.usage(sink).objects == 20 * 51);
        CHECK(outer.usage().objects == 20 * 50);
        r.end_batch(sink);
        freed += 20 * 51;
        check();
        auto const report = outer.end();
        CHECK(report.received == 20 * 50);
        CHECK(report.freed == 20 * 50);
        freed += 20 * 50;
        check();
        CHECK(r.usage().held == 0);
        CHECK(log.alive == 0);
    }
}
