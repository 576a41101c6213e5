// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/detail/batch/holding.hpp>
#include <tenure/detail/batch/records.hpp>
#include <tenure/detail/batch/release.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "journal.hpp"
#include "throws.hpp"

namespace {

using tenure::batch_id;
using tenure::batch_scope;
using tenure::errc;
using tenure::handle;
using tenure::registry;

/// Makes T until the limit says no; how many it were.
template <class T>
std::size_t fill(batch_scope& b) {
    std::size_t n = 0;
    while (b.try_make<T>()) ++n;
    return n;
}

/// Calls of on_soft.
struct crossings {
    std::vector<std::pair<batch_id, std::size_t>> calls;

    auto note() {
        return [this](batch_id id, std::size_t in_use) { calls.emplace_back(id, in_use); };
    }
};

}  // namespace

TEST_SUITE("hard limit") {
    TEST_CASE_FIXTURE(accounting, "is met to the byte") {
        for (std::size_t const hard : {0u, 7u, 8u, 1000u, 65'536u, 65'544u, 1'000'000u, 5'000'001u}) {
            CAPTURE(hard);
            batch_scope b{{.limits = {.hard = hard}}};
            CHECK(fill<std::array<char, 8>>(b) == hard / 8);
            CHECK(b.usage().bytes == hard / 8 * 8);
        }
    }

    TEST_CASE_FIXTURE(accounting, "for large objects and arrays, too") {
        batch_scope b{{.limits = {.hard = 1'000'000}}};
        b.make<char[]>(800'000);
        CHECK(b.try_make<char[]>(200'001).error() == errc::limit_exceeded);
        CHECK(b.try_make<char[]>(100'000).has_value());
        CHECK(b.usage().bytes <= 1'000'000);
        std::size_t const left = 1'000'000 - b.usage().bytes;
        CHECK(fill<std::array<char, 8>>(b) == left / 8);
    }

    TEST_CASE_FIXTURE(accounting, "says the batch, its use and its limit, and what to do") {
        batch_scope b{{.name = "small", .limits = {.hard = 1000}}};
        b.make<std::array<char, 600>>();
        std::string const id = to_text(b.id());
        check_throws(errc::limit_exceeded,
                     {"'small'", id, "600 bytes in use", "504 more wanted", "limit 1000", "raise"},
                     [&] { b.make<std::array<char, 500>>(); });
        CHECK(b.usage().objects == 1);  // and nothing was half made
        CHECK(b.usage().bytes == 600);
        b.make<std::array<char, 400>>();
    }

    TEST_CASE_FIXTURE(accounting, "what is freed can be used again") {
        batch_scope b{{.limits = {.hard = 10'000}}};
        for (int round = 0; round < 100; ++round) {
            std::vector<handle<std::array<char, 1000>>> all;
            while (auto h = b.try_make<std::array<char, 1000>>()) all.push_back(*h);
            CHECK(all.size() == 10);
            for (auto const& h : all) b.free(h);
        }
        auto const large = b.make<char[]>(9000);
        b.free(large);
        b.make<char[]>(9000);
    }

    TEST_CASE_FIXTURE(accounting, "resource() counts") {
        batch_scope b{{.limits = {.hard = 100'000}}};
        void* const p = b.resource()->allocate(90'000);
        CHECK(b.try_make<char[]>(20'000).error() == errc::limit_exceeded);
        b.resource()->deallocate(p, 90'000);
        CHECK(b.try_make<char[]>(20'000).has_value());
    }

    TEST_CASE_FIXTURE(accounting, "a throwing constructor uses nothing up") {
        struct refuses {
            refuses() { throw std::runtime_error("no"); }
            char bytes[500];
        };
        batch_scope b{{.limits = {.hard = 1000}}};
        for (int i = 0; i < 100; ++i) CHECK_THROWS_AS(b.make<refuses>(), std::runtime_error);
        CHECK(b.usage().bytes == 0);
        CHECK(fill<std::array<char, 8>>(b) == 125);
    }

    TEST_CASE_FIXTURE(accounting, "children count against it, until they end") {
        batch_scope outer{{.name = "outer", .limits = {.hard = 10'000}}};
        outer.make<std::array<char, 1000>>();
        {
            batch_scope middle;
            middle.make<std::array<char, 2000>>();
            batch_scope inner{{.name = "inner", .limits = {.hard = 100'000}}};
            inner.make<std::array<char, 3000>>();
            check_throws(errc::limit_exceeded, {"'outer'", "6000 bytes in use", "limit 10000"},
                         [&] { inner.make<std::array<char, 4008>>(); });
            CHECK(fill<std::array<char, 8>>(inner) == 500);
            CHECK(middle.try_make<int>().error() == errc::limit_exceeded);
            CHECK(outer.try_make<int>().error() == errc::limit_exceeded);
            inner.end();
            CHECK(fill<std::array<char, 8>>(middle) == 875);
        }
        CHECK(fill<std::array<char, 8>>(outer) == 1125);
    }

    TEST_CASE_FIXTURE(accounting, "is met to the byte by several open batches together") {
        batch_scope outer{{.limits = {.hard = 1'000'000}}};
        outer.make<std::array<char, 8>>();
        batch_scope middle;
        middle.make<std::array<char, 8>>();
        batch_scope inner;
        CHECK(fill<std::array<char, 8>>(inner) == 124'998);
        CHECK(middle.try_make<int>().error() == errc::limit_exceeded);
        CHECK(outer.try_make<int>().error() == errc::limit_exceeded);
    }

    TEST_CASE_FIXTURE(accounting, "the nearer limit is told first") {
        batch_scope outer{{.name = "outer", .limits = {.hard = 1000}}};
        batch_scope inner{{.name = "inner", .limits = {.hard = 500}}};
        check_throws(errc::limit_exceeded, {"'inner'", "limit 500"}, [&] { inner.make<std::array<char, 2000>>(); });
        CHECK(fill<std::array<char, 8>>(inner) == 62);
    }

    TEST_CASE_FIXTURE(accounting, "what is kept goes on counting, once") {
        batch_scope outer{{.limits = {.hard = 10'000}}};
        {
            batch_scope inner;
            inner.keep(inner.make<std::array<char, 4000>>(), inner.make<std::array<char, 4000>>());
        }
        CHECK(fill<std::array<char, 1000>>(outer) == 2);
    }

    TEST_CASE_FIXTURE(accounting, "transfer into a full batch is refused, and changes nothing") {
        batch_scope    source{{.name = "source"}};
        auto const     h    = source.make<std::array<char, 600>>();
        batch_id const full = registry::global().new_batch({.name = "full", .limits = {.hard = 1000}});
        auto const     g    = source.make<std::array<char, 600>>();
        tenure::transfer_ownership(h, full);
        check_throws(errc::limit_exceeded, {"'full'", "limit 1000"}, [&] { tenure::transfer_ownership(g, full); });
        CHECK(g.owner() == source.id());
        CHECK(registry::global().usage(full).bytes == 600);
        registry::global().free(h);
        tenure::transfer_ownership(g, full);
        CHECK(g.owner() == full);
        registry::global().end_batch(full);
    }

    TEST_CASE_FIXTURE(accounting, "what is given away can be made again") {
        batch_id const other = registry::global().new_batch();
        batch_scope    b{{.limits = {.hard = 1000}}};
        for (int i = 0; i < 10; ++i) tenure::transfer_ownership(b.make<std::array<char, 600>>(), other);
        CHECK(b.usage().bytes == 0);
        CHECK(registry::global().usage(other).bytes == 6000);
        registry::global().end_batch(other);
    }

    TEST_CASE_FIXTURE(accounting, "what one limit refuses is not charged to those below it") {
        batch_scope outer{{.name = "outer", .limits = {.hard = 1000}}};
        batch_scope inner{{.name = "inner", .limits = {.hard = 2000}}};
        for (int i = 0; i < 10; ++i)
            check_throws(errc::limit_exceeded, {"'outer'"}, [&] { inner.make<std::array<char, 1500>>(); });
        inner.make<std::array<char, 1000>>();
    }

    TEST_CASE_FIXTURE(accounting, "a manual batch that is left counts no more for those above") {
        batch_id left, limited;
        {
            batch_scope outer{{.limits = {.hard = 10'000}}};
            {
                batch_scope b{{.cleanup = tenure::cleanup::manual}};
                b.make<std::array<char, 8000>>();
                left = b.id();
            }
            outer.make<std::array<char, 8000>>();
        }
        {
            batch_scope outer{{.limits = {.hard = 10'000}}};
            {
                batch_scope b{{.cleanup = tenure::cleanup::manual, .limits = {.hard = 9000}}};
                b.make<std::array<char, 8000>>();
                limited = b.id();
            }
            outer.make<std::array<char, 8000>>();
        }
        CHECK(registry::global().usage(left).bytes == 8000);
        registry::global().destroy_batch(left);
        registry::global().destroy_batch(limited);
    }

    TEST_CASE_FIXTURE(accounting, "threads together do not pass it") {
        batch_scope outer{{.limits = {.hard = 4'000'000}}};
        auto const  work = [&] {
            batch_scope mine{tenure::below(outer)};
            while (mine.try_make<std::array<char, 64>>()) {}
            CHECK(outer.usage().bytes + mine.usage().bytes <= 4'000'000);
        };
        std::thread other(work);
        work();
        other.join();
        CHECK(fill<std::array<char, 8>>(outer) == 500'000);
    }
}

TEST_SUITE("soft limit") {
    TEST_CASE_FIXTURE(accounting, "tells once a crossing") {
        crossings   c;
        batch_scope b{{.limits = {.soft = 1000, .on_soft = c.note()}}};
        for (int i = 0; i < 125; ++i) b.make<std::array<char, 8>>();
        CHECK(c.calls.empty());  // it is reached, not passed
        b.make<std::array<char, 8>>();
        REQUIRE(c.calls.size() == 1);
        CHECK(c.calls[0].first == b.id());
        CHECK(c.calls[0].second >= 1008);
        for (int i = 0; i < 100'000; ++i) b.make<std::array<char, 8>>();
        CHECK(c.calls.size() == 1);
    }

    TEST_CASE_FIXTURE(accounting, "and again once use has been below") {
        crossings   c;
        batch_scope b{{.limits = {.soft = 1000, .on_soft = c.note()}}};
        for (std::size_t round = 1; round <= 3; ++round) {
            std::vector<handle<std::array<char, 100>>> all;
            for (int i = 0; i < 12; ++i) all.push_back(b.make<std::array<char, 100>>());
            CHECK(c.calls.size() == round);
            for (auto const& h : all) b.free(h);
            CHECK(b.usage().bytes == 0);
        }
    }

    TEST_CASE_FIXTURE(accounting, "and again where it has been below, and not empty") {
        crossings   c;
        batch_scope b{{.limits = {.soft = 100'000, .on_soft = c.note()}}};
        b.make<char[]>(80'000);
        for (std::size_t round = 1; round <= 3; ++round) {
            auto const more = b.make<char[]>(90'000);
            CHECK(c.calls.size() == round);
            b.free(more);
            CHECK(b.usage().bytes == 80'000);
        }
    }

    TEST_CASE_FIXTURE(accounting, "a child's use counts, and its end takes it back") {
        crossings   c;
        batch_scope outer{{.limits = {.soft = 10'000, .on_soft = c.note()}}};
        for (std::size_t round = 1; round <= 3; ++round) {
            batch_scope inner;
            inner.make<std::array<char, 9000>>();
            CHECK(c.calls.size() == round - 1);
            inner.make<std::array<char, 2000>>();
            CHECK(c.calls.size() == round);
            CHECK(c.calls.back().first == outer.id());
        }
    }

    TEST_CASE_FIXTURE(accounting, "not before several open batches together have passed it") {
        crossings   c;
        batch_scope outer{{.limits = {.soft = 100'000, .on_soft = c.note()}}};
        outer.make<int>();
        batch_scope middle;
        middle.make<int>();
        batch_scope inner;
        inner.make<std::array<char, 8000>>();
        CHECK(c.calls.empty());
        middle.make<char[]>(92'000);
        CHECK(c.calls.size() == 1);
    }

    TEST_CASE_FIXTURE(accounting, "of each batch on the way up") {
        crossings   low, high;
        batch_scope outer{{.limits = {.soft = 2000, .on_soft = high.note()}}};
        batch_scope inner{{.limits = {.soft = 1000, .on_soft = low.note()}}};
        inner.make<std::array<char, 1500>>();
        CHECK(low.calls.size() == 1);
        CHECK(high.calls.empty());
        inner.make<std::array<char, 1500>>();
        CHECK(low.calls.size() == 1);
        CHECK(high.calls.size() == 1);
    }

    TEST_CASE_FIXTURE(accounting, "for large objects and resource(), too") {
        crossings   c;
        batch_scope b{{.limits = {.soft = 100'000, .on_soft = c.note()}}};
        auto const  h = b.make<char[]>(200'000);
        CHECK(c.calls.size() == 1);
        b.free(h);
        (void)b.resource()->allocate(150'000);
        CHECK(c.calls.size() == 2);
    }

    TEST_CASE_FIXTURE(accounting, "the callback may do anything: make, free and end batches") {
        std::vector<handle<std::array<char, 100>>> cache;
        batch_scope*                               self  = nullptr;
        int                                        calls = 0;
        batch_scope b{{.limits = {.soft = 1000, .hard = 2000, .on_soft = [&](batch_id, std::size_t) {
                                      ++calls;
                                      for (auto const& h : cache) self->free(h);
                                      cache.clear();
                                      batch_scope inner;
                                      inner.make<std::string>("made in the callback, and gone with it");
                                  }}}};
        self = &b;
        for (int i = 0; i < 1000; ++i) cache.push_back(b.make<std::array<char, 100>>());
        CHECK(calls >= 90);
        CHECK(b.usage().peak <= 2000);
    }

    TEST_CASE_FIXTURE(accounting, "what the callback throws leaves make, before the object exists") {
        journal     log;
        batch_scope b{{.limits = {.soft    = 100,
                                  .on_soft = [](batch_id, std::size_t) { throw std::runtime_error("enough"); }}}};
        b.make<std::array<char, 96>>();
        CHECK_THROWS_WITH(b.make<traced>(log, 1), "enough");
        CHECK(log.alive == 0);
        CHECK(b.usage().objects == 1);
        b.make<traced>(log, 2);  // one call a crossing
        CHECK(log.alive == 1);
    }
}

TEST_SUITE("batches below one, and visitors") {
    TEST_CASE_FIXTURE(accounting, "more than 8 million are refused, and those that are there are counted on") {
        registry          own;
        batch_id const    crowd = own.new_batch({.name = "crowd"});
        batch_id const    other = own.new_batch();
        handle<int> const h     = [&] {
            auto const in = own.enter(other);
            return tenure::make<int>(1);
        }();
        auto* const b = tenure::detail::record_of(crowd.value);
        std::size_t n = 0;
        while (tenure::detail::hold(*b, crowd.value, tenure::detail::unless_crowded)) ++n;
        CHECK(n == std::size_t{1} << 23);

        auto const in_use = make_error_code(errc::batch_in_use);
        check_throws(in_use, {"open a batch below 'crowd'"}, [&] { own.new_batch({}, crowd); });
        {
            auto const in = own.enter(crowd);  // one may: through the batch's own lane
            check_throws(in_use, {"enter batch 'crowd'"}, [&] { static_cast<void>(own.enter(crowd)); });
        }
        check_throws(in_use, {"make current: batch 'crowd'"}, [&] { own.set_current_batch(crowd); });
        CHECK(own.status(crowd) == tenure::batch_status::active);
        own.transfer_ownership(h, crowd);  // calls go on
        CHECK(h.owner() == crowd);

        while (n-- > 1) tenure::detail::release_hold(b);
        batch_id const below = own.new_batch({}, crowd);
        own.end_batch(crowd);
        CHECK(own.status(crowd) == tenure::batch_status::ending);
        CHECK(*h == 1);
        tenure::detail::release_hold(b);
        CHECK(own.status(below) == tenure::batch_status::done);
        CHECK(own.status(crowd) == tenure::batch_status::done);
        own.end_batch(other);
    }

    TEST_CASE_FIXTURE(accounting,
                      "more than 4 million guards of one thread beside each other are refused: each may become "
                      "a hold") {
        auto const          in_use = make_error_code(errc::batch_in_use);
        batch_scope         above{{.name = "above"}};
        auto&               b     = *tenure::detail::record_of(above.id().value);
        std::uint32_t const most  = tenure::detail::most_guards_beside;
        std::uint32_t&      count = b.rest.guards_beside;
        auto const          open  = [&] { return std::make_unique<batch_scope>(tenure::below(above)); };
        auto                first = open();
        CHECK(count == 0);
        auto second = open();
        CHECK(count == 1);
        auto third = open();
        CHECK(count == 2);
        second.reset();
        CHECK(count == 1);
        tenure::batch_id const detached = third->detach();
        CHECK(count == 0);
        registry::global().end_batch(detached);
        count = most;  // as if so many were open
        check_throws(in_use, {"open a batch below 'above'"}, [&] { open(); });
        CHECK(count == most);
        count  = most - 1;
        second = open();
        check_throws(in_use, {"open a batch below 'above'"}, [&] { open(); });
        second.reset();
        CHECK(count == most - 1);
        count = 0;
        CHECK(above.status() == tenure::batch_status::active);
    }

    TEST_CASE_FIXTURE(accounting, "a guard beside another counts until it closes, also if its batch ends later") {
        registry      own;
        batch_scope   above(own);
        batch_scope   newest;
        auto&         b     = *tenure::detail::record_of(above.id().value);
        auto&         root  = *b.parent.load();
        std::uint32_t count = 0;
        {
            batch_scope beside(tenure::below(above), {.reclaim = tenure::reclamation::background});
            static_cast<void>(beside.make<std::string>(100u, 'x'));
            count = b.rest.guards_beside;
        }
        CHECK(count == 1);
        CHECK(b.rest.guards_beside == 0);
        CHECK(root.rest.guards_beside == 0);
    }

    TEST_CASE_FIXTURE(accounting, "all the records that ids can name: what is open goes on, and ends make room") {
        auto&                                     process = tenure::detail::process;
        std::uint32_t const                       before  = process.record_count;
        registry                                  own;
        std::vector<std::unique_ptr<batch_scope>> open;
        process.record_count = std::uint32_t{1} << tenure::detail::record_bits;  // as if there were so many
        auto const  more     = [&] { open.push_back(std::make_unique<batch_scope>(tenure::below(*open.front()))); };
        char const* text     = nullptr;
        try {
            open.push_back(std::make_unique<batch_scope>(own));
            for (;;) more();
        } catch (std::bad_alloc const& e) {
            text = e.what();
        }
        REQUIRE(text);
        CHECK(std::string_view(text).find("67108864 batches") != std::string_view::npos);
        REQUIRE(open.size() > 2);
        CHECK_THROWS_AS(static_cast<void>(own.new_batch()), std::bad_alloc);
        CHECK_THROWS_AS(static_cast<void>(own.new_batch({}, open.back()->id())), std::bad_alloc);
        auto const h = open.back()->make<int>(7);
        open.back()->keep(h);
        CHECK_NOTHROW(open.pop_back());
        CHECK(*h == 7);
        CHECK_NOTHROW(more());
        CHECK_THROWS_AS(more(), std::bad_alloc);
        while (open.size() > 1) open.pop_back();
        open.clear();
        CHECK_FALSE(h.alive());
        process.record_count = before;
    }
}
