// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>
#include <tenure/testing/faulty_store.hpp>

#include "accounting.hpp"
#include "journal.hpp"
#include "model_batch.hpp"
#include "throws.hpp"

using tenure::batch_id;
using tenure::batch_scope;
using tenure::errc;
using tenure::handle;
using tenure::registry;

namespace {

struct own_registry : accounting {
    registry   r;
    accounting books{r};
};

}  // namespace

TEST_SUITE("clear") {
    TEST_CASE_FIXTURE(own_registry, "frees everything, and goes on with the same id and name") {
        journal     log;
        batch_scope b(r, {.name = "rounds"});
        auto const  id = b.id();
        for (int round = 0; round < 3; ++round) {
            log.ended.clear();
            auto const               plain = b.make<int>(7);
            auto const               large = b.make<int[]>(100'000, 1);
            auto const               first = b.make<traced>(log, 1), second = b.make<traced>(log, 2);
            std::pmr::vector<int>    numbers(100, b.resource());
            auto const               bytes = b.make_buffer<int>(1000);
            std::vector<handle<int>> many;
            for (int i = 0; i < 20'000; ++i) many.push_back(b.make<int>(i));
            b.clear();
            CHECK(log.ended == std::vector{2, 1});
            for (bool const alive : {plain.alive(), large.alive(), first.alive(), second.alive(), bytes.alive()})
                CHECK(!alive);
            for (auto const h : many) CHECK(!h.alive());
            CHECK(b.usage().objects == 0);
            CHECK(b.usage().bytes == 0);
            CHECK(b.usage().peak == 0);
            CHECK(b.usage().retained == 0);
            CHECK(b.usage().buffers == 0);
            CHECK(b.id() == id);
            CHECK(b.name() == "rounds");
            CHECK(b.status() == tenure::batch_status::active);
            CHECK(tenure::current_batch() == id);
            books.check_books();
        }
        b.make<int>(1);
        auto const report = b.end();
        CHECK(report.made == 1);
        CHECK(report.freed == 1);
    }

    TEST_CASE_FIXTURE(own_registry, "the usual batch: its memory serves the next round, and handles stay stale") {
        batch_scope              b(r);
        std::vector<handle<int>> old;
        auto const               first = b.make<int>(0);
        for (int round = 0; round < 1000; ++round) {
            b.clear();
            auto const h = b.make<int>(round);
            CHECK(&*h == first.unchecked());  // the same unit
            for (auto const o : old) CHECK(!o.alive());
            if (round % 100 == 0) old.push_back(h);
        }
        CHECK(!first.alive());
        CHECK(b.usage().objects == 1);
        CHECK(r.snapshot().memory.held == b.usage().retained);
    }

    TEST_CASE_FIXTURE(own_registry, "a container that is left gives nothing back of what came in its place") {
        batch_scope                    b(r);
        auto* const                    before = b.resource();
        std::pmr::vector<std::int64_t> left({1}, before);
        auto* const                    at = left.data();
        b.clear();
        CHECK(b.resource() != before);
        auto const h = b.make<std::int64_t>(7);
        CHECK(h.unchecked() == at);
        check_throws(errc::batch_ended, {"allocate from a former resource() of batch #"},
                     [&] { left.resize(100); });
        left = {};
        std::pmr::vector<std::int64_t>(before).swap(left);
        before->deallocate(at, sizeof *at);
        CHECK(b.make<std::int64_t>(8) != h);
        CHECK(*h == 7);
        std::pmr::vector<int> more(100, 5, b.resource());
        CHECK(more.back() == 5);
    }

    TEST_CASE_FIXTURE(own_registry, "what was kept stays, and discard() knows of later keeps only") {
        batch_scope parent(r);
        batch_scope b(r);
        auto const  kept = b.keep(b.make<std::string>("kept, and long enough to be allocated"));
        auto const  also = b.keep(b.make<int>(5));
        b.make<int>(1);
        b.clear();
        CHECK(*kept == "kept, and long enough to be allocated");
        CHECK(*also == 5);
        CHECK(b.usage().objects == 0);
        CHECK(parent.usage().objects == 2);
        auto const later = b.keep(b.make<int>(6));
        CHECK(b.discard().kept == 1);
        CHECK(!later.alive());
        CHECK(kept.alive());
        CHECK(also.alive());
    }

    TEST_CASE_FIXTURE(own_registry, "what came from elsewhere goes; what is shared stays with the others") {
        journal     log;
        batch_scope source(r);
        auto const  given = source.make<traced>(log, 1);
        auto const  plain = source.make<int>(2);
        auto const  ours  = source.make<traced>(log, 3);
        batch_scope b(r);
        r.transfer_ownership(given, b);
        r.transfer_ownership(plain, b);
        r.share(ours, b);
        auto const lent = b.make<std::string>("shared, and long enough to be allocated");
        r.share(lent, source);
        b.clear();
        CHECK(!given.alive());
        CHECK(!plain.alive());
        CHECK(ours.alive());
        CHECK(lent.alive());
        CHECK(log.ended == std::vector{1});
        b.end();
        CHECK(lent.alive());
    }

    TEST_CASE_FIXTURE(own_registry, "refused, with nothing done: threads, batches below, pins, checkpoints") {
        batch_scope b(r, {.name = "refuses"});
        auto const  h     = b.make<std::string>("here");
        auto const  check = [&](errc why) {
            check_throws(why, {"clear batch", "refuses"}, [&] { b.clear(); });
            CHECK(b.try_clear().error() == why);
            check_throws(why, {"clear batch"}, [&] { r.clear(b); });
            CHECK(h.alive());
            CHECK(b.usage().objects == 1);
        };
        {
            batch_scope const below(r);
            check(errc::batch_in_use);
        }
        batch_id const loose = r.new_batch({}, b);
        check(errc::batch_in_use);
        r.end_batch(loose);
        {
            auto const lane = b.lane();
            check(errc::batch_in_use);
        }
        {
            batch_id const other = r.new_batch();
            r.borrow(other, h);
            check(errc::batch_in_use);
            r.end_batch(other);
        }
        {
            batch_scope const user(r);
            auto const        pinned = tenure::pin(h);
            check(errc::batch_in_use);
        }
        b.clear();
        CHECK(!h.alive());
    }

    TEST_CASE_FIXTURE(own_registry, "refused of the usual batch, too, as long as something holds it") {
        batch_scope b(r);
        auto const  h     = b.make<int>(1);
        batch_id    loose = r.new_batch({}, b);
        check_throws(errc::batch_in_use, {"clear batch"}, [&] { b.clear(); });
        CHECK(h.alive());
        r.end_batch(loose);
        r.borrow(loose = r.new_batch(), h);
        check_throws(errc::batch_in_use, {"clear batch"}, [&] { b.clear(); });
        CHECK(h.alive());
        r.end_batch(loose);
        b.clear();
        CHECK(!h.alive());
    }

    TEST_CASE_FIXTURE(own_registry, "refused with a checkpoint open") {
        batch_scope b(r);
        b.make<int>(1);
        b.checkpoint();
        check_throws(errc::not_restorable, {"clear batch"}, [&] { b.clear(); });
        CHECK(b.usage().objects == 1);
        b.commit();
        b.clear();
        CHECK(b.usage().objects == 0);
    }

    TEST_CASE_FIXTURE(own_registry, "refused: by another thread, in a batch that is over, of no batch, of a root") {
        batch_scope b(r, {.name = "mine"});
        auto const  h = b.make<int>(1);
        std::thread([&] {
            check_throws(errc::wrong_thread, {"clear batch", "mine"}, [&] { b.clear(); });
            check_throws(errc::batch_in_use, {"clear batch", "mine"}, [&] { r.clear(b); });
        }).join();
        CHECK(h.alive());
        b.end();
        check_throws(errc::batch_ended, {"clear batch", "mine"}, [&] { b.clear(); });
        check_throws(errc::batch_ended, {"clear batch", "mine"}, [&] { r.clear(b); });
        check_throws(errc::not_owner, {"clear batch"}, [&] { r.clear(r.root()); });
        registry other;
        check_throws(errc::no_such_batch, {"clear batch"}, [&] { r.clear(other.root()); });
        check_throws(errc::no_such_batch, {"clear batch"}, [&] { r.clear(batch_id()); });

        {
            batch_scope late(r, {.timeout = std::chrono::nanoseconds(1)});
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            check_throws(errc::expired, {"clear batch"}, [&] { late.clear(); });
        }
        {
            batch_scope stopped(r);
            stopped.cancel();
            check_throws(errc::cancelled, {"clear batch"}, [&] { stopped.clear(); });
        }
        batch_scope gone(r);
        r.end_batch(gone.detach());
        check_throws(errc::batch_ended, {"clear batch"}, [&] { gone.clear(); });
    }

    TEST_CASE_FIXTURE(own_registry, "lanes and guards of enter() of this thread go on, too") {
        batch_scope b(r);
        auto        lane = b.lane();
        for (int round = 0; round < 3; ++round) {
            auto const       in    = b.enter();
            auto const       one   = lane.make<std::string>("through the lane, and long enough to be allocated");
            auto const       two   = b.make<std::string>("through the scope, and long enough to be allocated");
            auto const       three = tenure::make<int>(3);
            std::pmr::string text(100, 'x', lane.resource());
            b.clear();
            CHECK(!one.alive());
            CHECK(!two.alive());
            CHECK(!three.alive());
            CHECK(*lane.make<int>(4) == 4);
            CHECK(b.usage().objects == 1);
            books.check_books();
        }
    }

    TEST_CASE_FIXTURE(own_registry, "of a batch without a guard, from any thread that is alone in it") {
        batch_id const id = r.new_batch({.name = "loose"});
        for (int round = 0; round < 3; ++round) {
            std::vector<handle<std::string>> made;
            std::thread([&] {
                auto const in = r.enter(id);
                for (int i = 0; i < 100; ++i)
                    made.push_back(tenure::make<std::string>("long enough to be allocated, surely"));
                if (round == 0) r.clear(id);  // this thread is inside
            }).join();
            auto const in = r.enter(id);
            made.push_back(tenure::make<std::string>("of another lane"));
            r.clear(id);
            for (auto const h : made) CHECK(!h.alive());
            CHECK(r.usage(id).objects == 0);
            CHECK(r.usage(id).retained == 0);
            made.front() = tenure::make<std::string>("goes on");
            CHECK(made.front().owner() == id);
        }
        r.end_batch(id);
    }

    TEST_CASE_FIXTURE(own_registry, "limits: what is freed is refunded to the byte, here and above") {
        batch_scope above(r, {.limits = {.hard = 1 << 20}});
        int         passed = 0;
        batch_scope b(r, {.limits = {.soft = 50'000, .hard = 100'000, .on_soft = [&](auto, auto) { ++passed; }}});
        for (int round = 0; round < 5; ++round) {
            b.make_buffer<char>(40'000);
            for (int i = 0; i < 1000; ++i) b.make<std::string>("x");
            CHECK(passed == round + 1);
            CHECK(b.try_make<char[]>(100'000).error() == errc::limit_exceeded);
            b.clear();
        }
        while (b.try_make<int>(1)) {}
        CHECK(b.usage().bytes == 100'000);
        b.end();
        CHECK(above.usage().bytes == 0);
        while (above.try_make<int>(1)) {}
        CHECK(above.usage().bytes == 1 << 20);
    }

    TEST_CASE_FIXTURE(own_registry, "a store that cannot free a block: it counts until the end has freed it") {
        auto const far =
            std::make_shared<tenure::faulty_store<tenure::heap_store>>(std::make_shared<tenure::heap_store>());
        batch_scope b(r, {.limits = {.hard = 10'000}});
        b.make_buffer<char>(6'000, far);
        far->inject({.on = tenure::store_operation::deallocate});
        b.clear();
        CHECK(far->usage().bytes == 6'000);
        CHECK(b.try_make_buffer<char>(5'000).error() == errc::limit_exceeded);
        CHECK(b.end().store_errors == 0);
        CHECK(far->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(own_registry, "destructors run as at an end: what they make lands above") {
        struct busy {
            registry&    r;
            handle<int>* out;
            batch_id     own;
            ~busy() {
                *out = tenure::make<int>(5);
                batch_scope inner(r);
                inner.make<int>(6);
                CHECK(r.parent(inner) != own);
                CHECK(!r.try_clear(own));
                CHECK(r.try_clear(inner));
                CHECK(inner.usage().objects == 0);
            }
        };
        handle<int> out;
        batch_scope above(r);
        batch_scope b(r);
        b.make<busy>(r, &out, b.id());
        b.clear();
        CHECK(out.owner() == above.id());
        CHECK(tenure::current_batch() == b.id());
        b.make<busy>(r, &out, b.id());
    }

    TEST_CASE_FIXTURE(own_registry, "a destructor that ends the batch ends it") {
        struct ender {
            batch_scope& b;
            ~ender() { b.end(); }
        };
        batch_scope b(r);
        b.make<ender>(b);
        b.make<std::string>("and what else there is, long enough to be allocated");
        CHECK(b.try_clear());
        CHECK(b.status() == tenure::batch_status::done);
        check_throws(errc::batch_ended, {}, [&] { b.make<int>(1); });
    }

    TEST_CASE_FIXTURE(accounting, "a batch that was paged out, and goes out again") {
        registry    r({.page_file = ""});
        model_batch m(r, {.name = "paged"});
        for (int round = 0; round < 3; ++round) {
            r.page_out(m.id);
            if (round == 1) {
                auto const in = r.enter(m.id);  // is in again
                r.clear(m.id);
            } else {
                r.clear(m.id);
            }
            CHECK(r.usage(m.id).objects == 0);
            CHECK(r.usage(m.id).paged_out == 0);
            auto const in = r.enter(m.id);
            m.fill(4 * MiB);
            CHECK(m.whole());
        }
    }
}
