// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Every call of batch_scope, and the free functions.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <numeric>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "journal.hpp"
#include "throws.hpp"

namespace {

using tenure::batch_id;
using tenure::batch_report;
using tenure::batch_scope;
using tenure::batch_status;
using tenure::errc;
using tenure::handle;
using tenure::registry;

batch_id parent_of(registry const& r, batch_id id) {
    for (tenure::batch_info const& b : r.snapshot().batches)
        if (b.id == id) return b.parent;
    FAIL("batch not in the snapshot");
    return {};
}

batch_id parent_of(batch_scope const& b) { return parent_of(registry::global(), b.id()); }

}  // namespace

namespace answers {

struct answer {
    handle<int>              best;
    std::vector<handle<int>> others;
};
auto tenure_handles(answer const& a) { return std::tie(a.best, a.others); }

struct tree : std::vector<std::variant<handle<int>, tree>> {};

}  // namespace answers

static_assert(!std::is_copy_constructible_v<batch_scope> && !std::is_move_constructible_v<batch_scope>);
static_assert(!std::is_copy_assignable_v<batch_scope> && !std::is_move_assignable_v<batch_scope>);
static_assert(std::is_nothrow_destructible_v<batch_scope>);

TEST_SUITE("opening") {
    TEST_CASE_FIXTURE(accounting, "a batch is below the current one, becomes current, and gives way at its brace") {
        batch_id const root = registry::global().root();
        CHECK(tenure::current_batch() == root);
        {
            batch_scope outer;
            CHECK(tenure::current_batch() == outer.id());
            CHECK(parent_of(outer) == root);
            {
                batch_scope inner;
                CHECK(tenure::current_batch() == inner.id());
                CHECK(parent_of(inner) == outer.id());
            }
            CHECK(tenure::current_batch() == outer.id());
        }
        CHECK(tenure::current_batch() == root);
    }

    TEST_CASE_FIXTURE(accounting, "with options") {
        batch_scope b{{.name = "request"}};
        CHECK(b.name() == "request");
        CHECK(b.status() == batch_status::active);
        CHECK(b.usage() == tenure::batch_usage{});

        batch_scope nameless;
        CHECK(nameless.name() == "");

        std::string const long_name(100, 'n');
        batch_scope       cut{{.name = long_name}};
        CHECK(cut.name() == long_name.substr(0, 63));
    }

    TEST_CASE_FIXTURE(accounting,
                      "in a registry: below the current batch if that is its own, else below its root") {
        registry    r;
        batch_scope elsewhere;
        {
            batch_scope first{r};
            CHECK(parent_of(r, first.id()) == r.root());
            CHECK(tenure::current_batch() == first.id());

            batch_scope second{r, {.name = "second"}};
            CHECK(parent_of(r, second.id()) == first.id());
            CHECK(second.name() == "second");

            batch_scope third{registry::global()};
            CHECK(parent_of(third) == registry::global().root());
        }
        CHECK(tenure::current_batch() == elsewhere.id());
    }

    TEST_CASE_FIXTURE(accounting, "below a given batch, whichever is current") {
        batch_scope outer;
        batch_scope middle;
        batch_scope beside{tenure::below(outer)};
        CHECK(parent_of(beside) == outer.id());
        CHECK(tenure::current_batch() == beside.id());

        batch_scope named{tenure::below(middle), {.name = "named"}};
        CHECK(parent_of(named) == middle.id());
        CHECK(named.name() == "named");

        auto kept = beside.make<int>(1);
        beside.keep(kept);
        CHECK(kept.owner() == outer.id());
    }

    TEST_CASE_FIXTURE(accounting, "by a name alone, and with options that are all defaults") {
        registry          r;
        std::string const name = "a string";
        batch_scope       literal{"a literal"};
        batch_scope       string(name);
        batch_scope       view{std::string_view(name).substr(2)};
        CHECK(literal.name() == "a literal");
        CHECK(string.name() == name);
        CHECK(view.name() == "string");
        CHECK(parent_of(view) == string.id());

        batch_scope plain{{}};
        batch_scope inside{r, {}};
        batch_scope under{tenure::below(inside), {}};
        CHECK(parent_of(plain) == view.id());
        CHECK(parent_of(r, inside.id()) == r.root());
        CHECK(parent_of(r, under.id()) == inside.id());
        static_assert(!std::is_copy_constructible_v<batch_scope> && !std::is_move_constructible_v<batch_scope>);
        static_assert(!std::is_constructible_v<batch_scope, batch_scope&>);
        static_assert(!std::is_constructible_v<batch_scope, batch_scope&, tenure::batch_options>);
    }

    TEST_CASE_FIXTURE(accounting, "below another thread's batch") {
        batch_scope outer;
        handle<int> kept;
        std::thread([&] {
            batch_scope mine{tenure::below(outer)};
            CHECK(parent_of(mine) == outer.id());
            CHECK(tenure::current_batch() == mine.id());
            kept = mine.keep(mine.make<int>(7));
        }).join();
        CHECK(kept.owner() == outer.id());
        CHECK(*kept == 7);
    }

    TEST_CASE_FIXTURE(accounting, "ids name a batch for ever") {
        batch_id first, second;
        {
            batch_scope b;
            first = b.id();
        }
        {
            batch_scope b;
            second = b.id();
        }
        CHECK(first != second);
        CHECK(first);
        CHECK_FALSE(batch_id{});
        CHECK(std::hash<batch_id>{}(first) == std::hash<batch_id>{}(batch_id{first.value}));
    }
}

TEST_SUITE("making") {
    TEST_CASE_FIXTURE(accounting, "make forwards its arguments") {
        struct pair_of {
            std::unique_ptr<int> first;
            std::string          second;
        };
        batch_scope b;
        auto        p = b.make<pair_of>(std::make_unique<int>(3), "three");
        CHECK(*p->first == 3);
        CHECK(p->second == "three");
        CHECK(p.owner() == b.id());

        auto n = b.make<int>();
        CHECK(*n == 0);

        int  value = 1;
        auto ref   = b.make<std::reference_wrapper<int>>(value);
        ref->get() = 2;
        CHECK(value == 2);
    }

    TEST_CASE_FIXTURE(accounting, "make<T[]>: value-initialised, with its length in the handle") {
        batch_scope b;
        auto        a = b.make<int[]>(1000u);
        CHECK(a.size() == 1000);
        CHECK(a.span().size() == 1000);
        CHECK(std::accumulate(a.span().begin(), a.span().end(), 0) == 0);
        std::iota(a.span().begin(), a.span().end(), 0);
        CHECK(a[999] == 999);
        check_throws(errc::out_of_range, {"1000", "size()"}, [&] { (void)a[1000]; });
        CHECK(b.usage().objects == 1);

        auto strings = b.make<std::string[]>(3);
        CHECK(strings[2].empty());
        strings[2] = "long enough that the heap has it, not the string itself";
    }

    TEST_CASE_FIXTURE(accounting, "try_make: an error_code in place of tenure's own exceptions") {
        batch_scope b{{.limits = {.hard = 1000}}};
        auto        r = b.try_make<int>(3);
        REQUIRE(r.has_value());
        CHECK(**r == 3);
        CHECK(b.try_make<std::array<char, 2000>>().error() == errc::limit_exceeded);
        CHECK(b.try_make<char[]>(2000).error() == errc::limit_exceeded);
        CHECK(b.try_make<char[]>(100)->size() == 100);
        b.end();
        CHECK(b.try_make<int>(3).error() == errc::batch_ended);
    }

    TEST_CASE_FIXTURE(accounting, "adopt: what was made elsewhere ends with the batch") {
        std::FILE* const file = std::tmpfile();
        REQUIRE(file);
        handle<std::FILE> h;
        int               closed = -1;
        {
            batch_scope b;
            h = b.adopt(file, [&](std::FILE* f) { closed = std::fclose(f); });
            CHECK(&*h == file);
            CHECK(h.get() == file);
            CHECK(h.owner() == b.id());
            CHECK(b.usage().objects == 1);
            CHECK(std::fputs("written through the handle", &*h) >= 0);
            CHECK(closed == -1);
        }
        CHECK(closed == 0);
        CHECK_FALSE(h.alive());
        check_throws(errc::stale_handle, {"keep() it"}, [&] { (void)*h; });
    }

    TEST_CASE_FIXTURE(accounting, "adopt: with a plain function, and of a type that is not known") {
        struct opaque;
        static int  released = 0;
        batch_scope b;
        int         thing = 3;
        auto const  h     = b.adopt(reinterpret_cast<opaque*>(&thing), +[](opaque*) { ++released; });
        CHECK(static_cast<void*>(h.get()) == &thing);
        auto const constant = b.adopt(static_cast<int const*>(&thing), [](int const*) { ++released; });
        CHECK(*constant == 3);
        b.end();
        CHECK(released == 2);
    }

    TEST_CASE_FIXTURE(accounting, "adopt: a unique_ptr, with its deleter") {
        journal     log;
        batch_scope b;
        auto        owned = std::make_unique<traced>(log, 1);
        auto        h     = b.adopt(std::move(owned));
        CHECK(owned == nullptr);
        CHECK(h->number() == 1);

        int  deleted = 0;
        auto deleter = [&deleted](int* p) {
            ++deleted;
            delete p;
        };
        auto const custom = b.adopt(std::unique_ptr<int, decltype(deleter)>(new int(4), deleter));
        CHECK(*custom == 4);
        auto const plain = b.adopt(new int(5));  // std::default_delete
        CHECK(*plain == 5);
        b.free(custom);
        CHECK(deleted == 1);
        b.end();
        CHECK(deleted == 1);
        CHECK(log.alive == 0);
    }

    TEST_CASE_FIXTURE(accounting, "adopt: kept and freed like anything else") {
        journal     log;
        batch_scope outer;
        {
            batch_scope inner;
            auto        kept  = inner.keep(inner.adopt(std::make_unique<traced>(log, 1)));
            auto        freed = inner.adopt(std::make_unique<traced>(log, 2));
            inner.free(freed);
            CHECK(log.ended == std::vector{2});
            CHECK_FALSE(freed.alive());
            CHECK(kept.owner() == outer.id());
        }
        CHECK(log.ended == std::vector{2});
        CHECK(log.alive == 1);
    }

    TEST_CASE_FIXTURE(accounting, "adopt: on failure the caller keeps it") {
        batch_scope b{{.limits = {.hard = 0}}};
        auto        owned = std::make_unique<int>(1);
        check_throws(errc::limit_exceeded, {}, [&] { (void)b.adopt(std::move(owned)); });
        REQUIRE(owned != nullptr);
        CHECK(*owned == 1);
        check_throws(errc::bad_address, {"not null"}, [&] { (void)b.adopt(static_cast<int*>(nullptr)); });
    }

    TEST_CASE_FIXTURE(accounting, "defer: a call at the end, in the order of destructors") {
        journal log;
        {
            batch_scope b;
            b.make<traced>(log, 1);
            b.defer([&] { log.ended.push_back(2); });
            b.make<traced>(log, 3);
            b.adopt(std::make_unique<traced>(log, 4));
            b.defer([&log, gone = std::make_unique<int>(5)] { log.ended.push_back(*gone); });
            CHECK(log.ended.empty());
        }
        CHECK(log.ended == std::vector{5, 4, 3, 2, 1});
    }
}

TEST_SUITE("keeping") {
    TEST_CASE_FIXTURE(accounting, "one handle; it stays valid, and is returned") {
        journal     log;
        batch_scope outer;
        auto const  make = [&] {
            batch_scope inner;
            return inner.keep(inner.make<traced>(log, 1));
        };
        handle<traced> const h = make();
        CHECK(h->number() == 1);
        CHECK(h.owner() == outer.id());
        outer.end();
        CHECK(log.ended == std::vector{1});
        CHECK_FALSE(h.alive());
    }

    TEST_CASE_FIXTURE(accounting, "several handles, of different types") {
        batch_scope outer;
        batch_scope inner;
        auto const  a = inner.make<int>(1);
        auto const  b = inner.make<std::string>("two");
        auto const  c = inner.make<double[]>(3);
        static_assert(std::is_same_v<decltype(inner.keep(a, b, c)),
                                     std::tuple<handle<int>, handle<std::string>, handle<double[]>>>);
        CHECK(inner.keep(a, b, c) == std::tuple(a, b, c));
        inner.end();
        CHECK(*a == 1);
        CHECK(*b == "two");
        CHECK(c.size() == 3);
        CHECK(a.owner() == outer.id());
        CHECK(c.owner() == outer.id());
    }

    TEST_CASE_FIXTURE(accounting, "a range, given back as it came") {
        batch_scope              outer;
        batch_scope              inner;
        std::vector<handle<int>> many;
        for (int i = 0; i < 1000; ++i) many.push_back(inner.make<int>(i));

        std::vector<handle<int>>& same = inner.keep(many);
        CHECK(&same == &many);
        std::list<handle<int>> const few = inner.keep(std::list{inner.make<int>(-1), inner.make<int>(-2)});
        inner.keep(std::vector<handle<int>>{});
        auto const report = inner.end();
        CHECK(report.kept == 1002);
        for (int i = 0; i < 1000; ++i) CHECK(*many[static_cast<std::size_t>(i)] == i);
        CHECK(*few.back() == -2);
        CHECK(outer.usage().objects == 1002);
    }

    TEST_CASE_FIXTURE(accounting, "what an ancestor owns stays there") {
        batch_scope top;
        auto const  in_top = top.make<int>(1);
        batch_scope middle;
        auto const  in_middle = middle.make<int>(2);
        batch_scope inner;
        auto const  in_inner = inner.make<int>(3);
        inner.keep(in_top, in_middle, in_inner);
        CHECK(in_top.owner() == top.id());
        CHECK(in_middle.owner() == middle.id());
        CHECK(in_inner.owner() == middle.id());
        inner.keep(in_inner);
        CHECK(in_inner.owner() == middle.id());
        CHECK(inner.end().kept == 1);
    }

    TEST_CASE_FIXTURE(accounting, "a handle named twice is kept once") {
        batch_scope outer;
        batch_scope inner;
        auto const  h = inner.make<int>(1);
        inner.keep(std::vector{h, h, h});
        CHECK(inner.end().kept == 1);
        CHECK(outer.usage().objects == 1);
    }

    TEST_CASE_FIXTURE(accounting, "a view") {
        batch_scope              outer;
        batch_scope              inner;
        std::vector<handle<int>> all;
        for (int i = 0; i < 10; ++i) all.push_back(inner.make<int>(i));
        inner.keep(all | std::views::drop(4));
        inner.keep(std::span(all).first(2));
        for (std::size_t i = 0; i < all.size(); ++i)
            CHECK(all[i].owner() == (i < 2 || i >= 4 ? outer : inner).id());
    }

    TEST_CASE_FIXTURE(accounting, "to the root, for as long as the registry lives") {
        auto const h = [] {
            batch_scope b;
            return b.keep(b.make<std::string>("kept for good"));
        }();
        CHECK(*h == "kept for good");
        CHECK(h.owner() == registry::global().root());
        registry::global().free(h);
    }

    TEST_CASE_FIXTURE(accounting, "try_keep, in the same three forms") {
        batch_scope outer;
        batch_scope inner;
        auto const  one = inner.make<int>(1), two = inner.make<int>(2), three = inner.make<int>(3);
        auto const  freed = inner.make<int>(4);
        inner.free(freed);
        CHECK(inner.try_keep(freed).error() == errc::stale_handle);
        CHECK(inner.try_keep(handle<int>{}).error() == errc::stale_handle);
        CHECK(inner.try_keep(one, freed).error() == errc::stale_handle);
        CHECK(inner.try_keep(std::vector{one, freed}).error() == errc::stale_handle);
        CHECK(inner.usage().objects == 3);  // so far nothing was kept
        CHECK(*inner.try_keep(one) == one);
        CHECK(*inner.try_keep(one, two) == std::tuple(one, two));
        CHECK(inner.try_keep(std::array{two, three}).has_value());
        for (auto const h : {one, two, three}) CHECK(h.owner() == outer.id());
    }
}

TEST_SUITE("ending") {
    TEST_CASE_FIXTURE(accounting, "free: one object, now") {
        journal     log;
        batch_scope b;
        auto const  first  = b.make<traced>(log, 1);
        auto const  second = b.make<traced>(log, 2);
        auto const  plain  = b.make<long>(3);
        auto const  array  = b.make<std::string[]>(4);
        b.free(first);
        CHECK(log.ended == std::vector{1});
        CHECK_FALSE(first.alive());
        CHECK(second->number() == 2);
        b.free(plain);
        b.free(array);
        CHECK_FALSE(plain.alive());
        CHECK_FALSE(array.alive());
        CHECK(b.usage().objects == 1);
        CHECK(b.end().freed == 4);
        CHECK(log.ended == std::vector{1, 2});
    }

    TEST_CASE_FIXTURE(accounting, "try_free: an error_code") {
        batch_scope outer;
        auto const  theirs = outer.make<int>(1);
        batch_scope b;
        auto const  h = b.make<int>(1);
        CHECK(b.try_free(h).has_value());
        CHECK(b.try_free(h).error() == errc::stale_handle);
        CHECK(b.try_free(theirs).error() == errc::not_owner);
        CHECK(registry::global().try_free(theirs).has_value());
        CHECK(registry::global().try_free(theirs).error() == errc::stale_handle);
    }

    TEST_CASE_FIXTURE(accounting, "end: early, with a report") {
        journal     log;
        batch_scope outer;
        batch_scope b{{.name = "reported"}};
        b.make<traced>(log, 1);
        b.keep(b.make<int>(2));
        b.free(b.make<std::array<char, 800>>());
        std::size_t const in_use = b.usage().bytes;
        std::size_t const peak   = b.usage().peak;
        CHECK(peak >= in_use + 800);

        batch_report const r = b.end();
        CHECK(r.made == 3);
        CHECK(r.received == 0);
        CHECK(r.kept == 1);
        CHECK(r.freed == 2);
        CHECK(r.bytes == in_use);
        CHECK(r.peak == peak);
        CHECK(r.duration >= std::chrono::nanoseconds(0));
        CHECK(r.duration < std::chrono::minutes(1));
        CHECK(r.status == batch_status::done);
        CHECK(log.ended == std::vector{1});
        CHECK(b.status() == batch_status::done);
        CHECK(tenure::current_batch() == outer.id());
        CHECK(b.usage().objects == 0);
        CHECK(b.usage().bytes == 0);

        batch_report const again = b.end();
        CHECK(again.freed == 0);
        CHECK(again.kept == 0);
        CHECK(again.made == 0);
        CHECK(again.bytes == 0);
        CHECK(again.status == batch_status::done);
    }

    TEST_CASE_FIXTURE(accounting, "end: what was received counts, too") {
        batch_scope outer;
        {
            batch_scope inner;
            inner.keep(inner.make<int>(1));
            inner.keep(inner.make<std::string>("2"));
        }
        outer.make<int>(3);
        batch_report const r = outer.end();
        CHECK(r.made == 1);
        CHECK(r.received == 2);
        CHECK(r.freed == 3);
    }

    TEST_CASE_FIXTURE(accounting, "the duration is the batch's life") {
        batch_scope b;
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        auto const r = b.end();
        CHECK(r.duration >= std::chrono::milliseconds(20));  // the clock is a coarse one
    }

    TEST_CASE_FIXTURE(accounting, "discard: also what was kept out of it and is still alive") {
        journal     log;
        batch_scope outer;
        auto const  own = outer.make<traced>(log, 0);
        batch_scope inner;
        inner.make<traced>(log, 1);
        auto const kept   = inner.keep(inner.make<traced>(log, 2));
        auto const plain  = inner.keep(inner.make<int>(3));
        auto const freed  = inner.keep(inner.make<traced>(log, 4));
        auto const passed = inner.keep(own);  // an ancestor's: not kept out of this batch
        outer.free(freed);
        batch_report const r = inner.discard();
        CHECK(r.status == batch_status::done);
        CHECK(log.ended == std::vector{4, 2, 1});
        CHECK_FALSE(kept.alive());
        CHECK_FALSE(plain.alive());
        CHECK(passed.alive());
        CHECK(outer.usage().objects == 1);
        CHECK(tenure::current_batch() == outer.id());
    }

    TEST_CASE_FIXTURE(accounting, "discard: through any number of keeps, and far more than one list holds") {
        batch_scope              top;
        batch_scope              middle;
        batch_scope              inner;
        std::vector<handle<int>> many;
        for (int i = 0; i < 10'000; ++i) many.push_back(inner.keep(inner.make<int>(i)));
        middle.keep(many);
        CHECK(top.usage().objects == 10'000);
        inner.discard();
        for (auto const& h : many) CHECK_FALSE(h.alive());
        CHECK(top.usage().objects == 0);
    }
}

TEST_SUITE("reaching") {
    TEST_CASE_FIXTURE(accounting, "resource: containers live in the batch") {
        batch_scope b;
        {
            std::pmr::vector<std::pmr::string> words{b.resource()};
            for (int i = 0; i < 1000; ++i) words.emplace_back("a word that is longer than a string holds within");
            CHECK(words.back().get_allocator().resource() == b.resource());
            CHECK(b.usage().bytes >= 1000 * (sizeof(std::pmr::string) + 49));
            CHECK(b.usage().objects == 0);  // none has a handle
        }
        CHECK(*b.resource() == *b.resource());
        batch_scope other;
        CHECK(*b.resource() != *other.resource());
    }

    TEST_CASE_FIXTURE(accounting, "resource: what was allocated last, and what is large, goes back at once") {
        batch_scope       b;
        auto* const       r     = b.resource();
        std::size_t const empty = b.usage().bytes;
        void* const       small = r->allocate(100);
        r->deallocate(small, 100);
        CHECK(b.usage().bytes == empty);
        void* const large = r->allocate(10'000'000, 4096);
        CHECK(reinterpret_cast<std::uintptr_t>(large) % 4096 == 0);
        std::memset(large, 1, 10'000'000);
        CHECK(b.usage().bytes >= 10'000'000);
        CHECK(b.usage().retained >= 10'000'000);
        r->deallocate(large, 10'000'000, 4096);
        CHECK(b.usage().bytes == empty);
        CHECK(b.usage().retained < 10'000'000);
        CHECK(b.usage().peak >= 10'000'000);
    }

    TEST_CASE_FIXTURE(accounting, "resource: every alignment") {
        batch_scope b;
        for (std::size_t alignment = 1; alignment <= 2u << 20; alignment *= 2) {
            for (std::size_t const bytes : {1u, 24u, 4096u, 70'000u}) {
                void* const p = b.resource()->allocate(bytes, alignment);
                CAPTURE(alignment);
                CHECK(reinterpret_cast<std::uintptr_t>(p) % alignment == 0);
                std::memset(p, 1, bytes);
            }
        }
    }

    TEST_CASE_FIXTURE(accounting, "resource: refusals are tenure's errors") {
        batch_scope b{{.name = "small", .limits = {.hard = 1000}}};
        check_throws(errc::limit_exceeded, {"'small'", "1000"}, [&] { (void)b.resource()->allocate(2000); });
        auto* const r = b.resource();
        b.end();
        check_throws(errc::batch_ended, {"'small'"}, [&] { (void)r->allocate(8); });
    }

    TEST_CASE_FIXTURE(accounting, "resource: what comes back after the end is another batch's by then") {
        batch_scope b;
        auto const  numbers = std::make_unique<std::pmr::vector<int>>(1000, 7, b.resource());
        b.end();
        batch_scope next;
        auto const  mine = next.make<int[]>(1000u);
        CHECK(numbers->data() == mine.unchecked());
        std::make_unique<std::pmr::vector<int>>(std::move(*numbers));  // gives it back
        for (int const i : mine.span()) CHECK(i == 0);
    }

    TEST_CASE_FIXTURE(accounting, "lane: another thread makes objects in the batch") {
        journal        log;
        batch_scope    b{{.name = "shared"}};
        auto           l = b.lane();
        handle<traced> theirs;
        std::thread([&, mine = std::move(l)]() mutable {
            theirs = mine.make<traced>(log, 1);
            CHECK(tenure::current_batch() == registry::global().root());
            CHECK(mine.make<int[]>(10).size() == 10);
            CHECK(mine.try_make<int>(3).has_value());
            std::pmr::vector<int> v({1, 2, 3}, mine.resource());
            CHECK(v.back() == 3);
        }).join();
        CHECK(theirs->number() == 1);
        CHECK(theirs.owner() == b.id());
        CHECK(b.usage().objects == 3);
        CHECK(b.end().freed == 3);
        CHECK(log.ended == std::vector{1});
    }

    TEST_CASE_FIXTURE(accounting, "lane: what it makes is freed and given away while it makes more") {
        batch_scope outer;
        batch_scope b;
        (void)b.lane().make<std::string>("from an earlier use of the same lane");
        auto                             l = b.lane();
        std::vector<handle<std::string>> made(2000);
        std::atomic<std::size_t>         n{0};
        std::thread                      worker([&] {
            for (auto& h : made) {
                h = l.make<std::string>("a text that is longer than a string holds within");
                ++n;
            }
        });
        for (std::size_t i = 0; i < made.size(); ++i) {
            while (n <= i) std::this_thread::yield();
            if (i % 3 == 0) b.free(made[i]);
            else if (i % 3 == 1) b.keep(made[i]);
        }
        worker.join();
        for (std::size_t i = 0; i < made.size(); ++i) CHECK(made[i].alive() == (i % 3 != 0));
        CHECK(outer.usage().objects == 667);
        CHECK(b.usage().objects == 667);
    }

    TEST_CASE_FIXTURE(accounting, "lane: while it is open an end only begins") {
        journal                     log;
        batch_scope                 b;
        std::optional<tenure::lane> l(b.lane());
        auto const                  h = l->make<traced>(log, 1);
        batch_report const          r = b.end();
        CHECK(r.status == batch_status::ending);
        CHECK(b.status() == batch_status::ending);
        CHECK(h.alive());
        check_throws(errc::batch_ended, {}, [&] { (void)l->make<int>(1); });
        CHECK(l->try_make<int>(1).error() == errc::batch_ended);
        l.reset();
        CHECK(b.status() == batch_status::done);
        CHECK(log.ended == std::vector{1});
        CHECK_FALSE(h.alive());
    }

    TEST_CASE_FIXTURE(accounting, "enter: the batch is current on another thread") {
        batch_scope b;
        auto const  h = std::make_shared<handle<int>>();
        std::thread([&] {
            batch_id const before = tenure::current_batch();
            {
                auto const guard = b.enter();
                CHECK(tenure::current_batch() == b.id());
                *h = tenure::make<int>(9);
                {
                    batch_scope inner;
                    CHECK(parent_of(inner) == b.id());
                    CHECK(tenure::current_batch() == inner.id());
                }
                CHECK(tenure::current_batch() == b.id());
            }
            CHECK(tenure::current_batch() == before);
        }).join();
        CHECK(**h == 9);
        CHECK(h->owner() == b.id());
    }

    TEST_CASE_FIXTURE(accounting, "enter: on the batch's own thread, and twice") {
        batch_scope outer;
        batch_scope inner;
        {
            auto const first = outer.enter();
            CHECK(tenure::current_batch() == outer.id());
            auto const second = inner.enter();
            CHECK(tenure::current_batch() == inner.id());
            auto const third = outer.enter();
            CHECK(tenure::make<int>(1).owner() == outer.id());
        }
        CHECK(tenure::current_batch() == inner.id());
    }

    TEST_CASE_FIXTURE(accounting, "detach: the guard lets go, and who holds the id ends the batch") {
        journal        log;
        batch_id       id;
        handle<traced> h;
        {
            batch_scope b{{.name = "let go"}};
            h                  = b.make<traced>(log, 1);
            batch_id const own = b.id();
            id                 = b.detach();
            CHECK(id == own);
            CHECK(b.id() == id);
            CHECK(tenure::current_batch() == registry::global().root());
            check_throws(errc::batch_ended, {}, [&] { (void)b.make<int>(1); });
            check_throws(errc::batch_ended, {}, [&] { (void)b.detach(); });
        }
        CHECK(h->number() == 1);
        CHECK(registry::global().status(id) == batch_status::active);
        std::thread([&] { registry::global().end_batch(id); }).join();
        CHECK(registry::global().status(id) == batch_status::done);
        CHECK(log.ended == std::vector{1});
        CHECK_FALSE(h.alive());
    }

    TEST_CASE_FIXTURE(accounting, "detach: one that was asked to stop ends, and what holds it goes on") {
        journal     log;
        batch_scope outer;
        batch_scope b;
        auto const  h = b.make<traced>(log, 1);
        std::thread([&] { registry::global().end_batch(b.id()); }).join();
        CHECK(h.alive());
        batch_id const id = b.detach();
        CHECK(registry::global().status(id) == batch_status::done);
        CHECK(log.ended == std::vector{1});
        CHECK(outer.end().status == batch_status::done);
    }

    TEST_CASE_FIXTURE(accounting, "detach: one that was ended by hand, whose record is the next guard's") {
        registry r;
        batch_id id;
        {
            batch_scope b(r, {.cleanup = tenure::cleanup::manual});
            r.end_batch(b.id());
            id = b.detach();
        }
        CHECK(r.status(id) == batch_status::retained);
        r.destroy_batch(id);
        journal    log;
        auto       next = std::make_unique<batch_scope>(r);
        auto const h    = next->make<traced>(log, 1);
        std::thread([&] { next.reset(); }).join();  // it can only be asked to stop there
        CHECK(h.alive());
        { batch_scope const passing(r); }
        CHECK(log.ended == std::vector{1});
        CHECK(tenure::current_batch() == registry::global().root());
    }

    TEST_CASE_FIXTURE(accounting, "detach: holds its ancestors until it is done") {
        journal     log;
        batch_scope outer;
        auto const  h = outer.make<traced>(log, 1);
        batch_id    id;
        {
            batch_scope inner;
            inner.make<traced>(log, 2);
            id = inner.detach();
        }
        CHECK(outer.end().status == batch_status::ending);
        CHECK(h.alive());
        CHECK(log.ended.empty());
        registry::global().end_batch(id);
        CHECK(log.ended == std::vector{2, 1});
        CHECK(outer.status() == batch_status::done);
    }
}

TEST_SUITE("with_batch") {
    TEST_CASE_FIXTURE(accounting, "a function that returns nothing") {
        journal log;
        tenure::with_batch([&](batch_scope& b) {
            CHECK(tenure::current_batch() == b.id());
            b.make<traced>(log, 1);
        });
        CHECK(log.ended == std::vector{1});
    }

    TEST_CASE_FIXTURE(accounting, "options, and a value that is no handle") {
        int const n = tenure::with_batch({.name = "counted"}, [](batch_scope& b) {
            CHECK(b.name() == "counted");
            return static_cast<int>(b.make<int[]>(12).size());
        });
        CHECK(n == 12);

        auto const text = tenure::with_batch([](batch_scope&) { return std::make_unique<std::string>("moved"); });
        CHECK(*text == "moved");

        std::string kept_elsewhere = "by reference";
        static_assert(std::is_same_v<std::string&, decltype(tenure::with_batch([&](batch_scope&) -> std::string& {
                                         return kept_elsewhere;
                                     }))>);
        CHECK(&tenure::with_batch([&](batch_scope&) -> std::string& { return kept_elsewhere; }) == &kept_elsewhere);
    }

    TEST_CASE_FIXTURE(accounting, "a handle is kept") {
        batch_scope outer;
        auto const  h = tenure::with_batch([](batch_scope& b) { return b.make<std::string>("kept"); });
        CHECK(*h == "kept");
        CHECK(h.owner() == outer.id());
        auto const a = tenure::with_batch([](batch_scope& b) { return b.make<int[]>(5); });
        CHECK(a.size() == 5);
        CHECK(a.owner() == outer.id());
    }

    TEST_CASE_FIXTURE(accounting, "a tuple, pair or array of them is kept, whatever else is in it") {
        batch_scope outer;
        auto const [number, text, plain] = tenure::with_batch(
            [](batch_scope& b) { return std::tuple(b.make<int>(1), b.make<std::string>("2"), 3); });
        CHECK(*number == 1);
        CHECK(*text == "2");
        CHECK(plain == 3);
        auto const [first, nested] = tenure::with_batch(
            [](batch_scope& b) { return std::pair(b.make<int>(4), std::tuple(std::vector{b.make<int>(5)})); });
        CHECK(*first == 4);
        CHECK(*std::get<0>(nested)[0] == 5);
        auto const array =
            tenure::with_batch([](batch_scope& b) { return std::array{b.make<int>(6), b.make<int>(7)}; });
        CHECK(*array[1] == 7);
        CHECK(outer.usage().objects == 6);
    }

    TEST_CASE_FIXTURE(accounting, "a range of them is kept") {
        batch_scope outer;
        auto const  many = tenure::with_batch([](batch_scope& b) {
            std::vector<handle<int>> out;
            for (int i = 0; i < 100; ++i) out.push_back(b.make<int>(i));
            b.make<int>(-1);
            return out;
        });
        CHECK(*many[99] == 99);
        CHECK(outer.usage().objects == 100);
    }

    TEST_CASE_FIXTURE(accounting,
                      "what can be reached through optionals, results, variants, maps and ranges is kept") {
        using tenure::with_batch;
        using some    = std::optional<handle<int>>;
        using one_of  = std::variant<int, handle<int>, std::array<handle<int>, 2>>;
        using triple  = std::tuple<int, handle<int>, std::pair<some, int>>;
        using by_name = std::map<std::string, handle<int> const>;
        batch_scope outer;
        CHECK(**with_batch([](batch_scope& b) { return b.try_make<int>(1); }) == 1);
        CHECK(*with_batch([](batch_scope& b) { return some(b.make<int>(2)); }).value() == 2);
        CHECK_FALSE(with_batch([](batch_scope&) { return some(); }).has_value());
        CHECK_FALSE(with_batch([](batch_scope&) {
                        return tenure::result<handle<int>>(make_error_code(errc::cancelled));
                    }).has_value());
        CHECK(*with_batch([](batch_scope& b) -> handle<int> const { return b.make<int>(3); }) == 3);

        auto const nested = with_batch([](batch_scope& b) {
            return std::vector<std::list<handle<int>>>{{}, {b.make<int>(4), b.make<int>(5)}};
        });
        CHECK(*nested[1].back() == 5);
        auto const map = with_batch([](batch_scope& b) { return by_name{{"six", b.make<int>(6)}}; });
        CHECK(*map.at("six") == 6);
        auto const set = with_batch([](batch_scope& b) {
            return std::unordered_map<handle<int>, some>{{b.make<int>(7), some(b.make<int>(8))}};
        });
        CHECK(*set.begin()->first + **set.begin()->second == 15);
        auto const tuples = with_batch(
            [](batch_scope& b) { return std::vector<triple>{{1, b.make<int>(9), {some(b.make<int>(10)), 1}}}; });
        CHECK(**std::get<2>(tuples[0]).first == 10);
        auto const variant =
            with_batch([](batch_scope& b) { return one_of(std::array{b.make<int>(11), b.make<int>(12)}); });
        CHECK(*std::get<2>(variant)[1] == 12);
        auto const all = with_batch([](batch_scope& b) {
            return tenure::result<std::optional<std::vector<one_of>>>(std::vector<one_of>{1, b.make<int>(13)});
        });
        CHECK(*std::get<1>(all.value()->at(1)) == 13);
        CHECK(outer.usage().objects == 13);
    }

    TEST_CASE_FIXTURE(accounting,
                      "a handle that names nothing passes; one that is stale, and all beside it, do not") {
        batch_scope outer;
        auto const  none = tenure::with_batch(
            [](batch_scope& b) { return std::pair(handle<int>(), std::vector{handle<int>(), b.make<int>(1)}); });
        CHECK_FALSE(none.first.alive());
        CHECK(*none.second[1] == 1);
        std::optional<handle<int>> good;
        check_throws(errc::stale_handle, {}, [&] {
            tenure::with_batch([&](batch_scope& b) {
                good             = b.make<int>(2);
                auto const stale = b.make<int>(3);
                b.free(stale);
                return std::tuple(*good, std::optional(stale));
            });
        });
        CHECK_FALSE(good->alive());  // none was kept
        CHECK(outer.usage().objects == 1);
    }

    TEST_CASE_FIXTURE(accounting, "a struct says where its handles are, and a type may hold itself") {
        batch_scope outer;
        auto const  a = tenure::with_batch([](batch_scope& b) {
            return std::optional(answers::answer{b.make<int>(1), {b.make<int>(2), b.make<int>(3)}});
        });
        CHECK(*a->best + *a->others[1] == 4);
        auto const t = tenure::with_batch([](batch_scope& b) {
            answers::tree leaf, tree;
            leaf.push_back(b.make<int>(5));
            tree.push_back(leaf);
            return tree;
        });
        CHECK(*std::get<0>(std::get<1>(t[0])[0]) == 5);
        CHECK(tenure::with_batch([](batch_scope&) { return std::filesystem::path("a/b"); }) == "a/b");
        CHECK(outer.usage().objects == 4);
    }

    TEST_CASE_FIXTURE(accounting, "keep() reaches as far, or keeps nothing") {
        batch_scope                             outer;
        batch_scope                             b;
        std::vector<std::optional<handle<int>>> some{b.make<int>(1), {}, b.make<int>(2)};
        CHECK(&b.keep(some) == &some);
        CHECK(some[2]->owner() == outer.id());
        std::map<int, std::pair<handle<int>, int>> const map{{1, {b.make<int>(3), 1}}};
        CHECK(b.try_keep(map).has_value());
        CHECK(map.at(1).first.owner() == outer.id());
        std::tuple const mixed(b.make<int>(4), std::vector{handle<int>()});
        check_throws(errc::stale_handle, {}, [&] { b.keep(mixed); });
        CHECK(std::get<0>(mixed).owner() == b.id());
        CHECK(b.try_keep(mixed).error() == errc::stale_handle);
    }

    TEST_CASE_FIXTURE(accounting, "an exception passes, and the batch ends as at a brace") {
        journal log;
        CHECK_THROWS_WITH(tenure::with_batch([&](batch_scope& b) {
                              b.make<traced>(log, 1);
                              throw std::runtime_error("mine");
                          }),
                          "mine");
        CHECK(log.ended == std::vector{1});
        CHECK(tenure::current_batch() == registry::global().root());
    }
}

TEST_SUITE("free functions") {
    TEST_CASE_FIXTURE(accounting, "act on the current batch, or on the root where none is open") {
        batch_scope outer;
        {
            batch_scope inner;
            auto const  h = tenure::make<int>(1);
            CHECK(h.owner() == inner.id());
            CHECK(*tenure::try_make<int>(2).value() == 2);
            CHECK(tenure::make<int[]>(3).size() == 3);
            CHECK(tenure::keep(h) == h);
            CHECK(h.owner() == outer.id());
            CHECK(tenure::transfer_ownership(h, inner.id()).owner() == inner.id());
            CHECK(*tenure::try_transfer_ownership(h, outer.id()) == h);
            CHECK(*tenure::try_keep(h) == h);
            CHECK(tenure::try_keep(handle<int>{}).error() == errc::stale_handle);
            CHECK(tenure::try_transfer_ownership(h, batch_id{}).error() == errc::no_such_batch);
            CHECK(tenure::current_batch() == inner.id());
        }
        outer.end();
        auto const h = tenure::make<int>(4);
        CHECK(h.owner() == registry::global().root());
        registry::global().free(h);
    }
}
