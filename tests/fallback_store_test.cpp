// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include "failing.hpp"  // first

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/store/counted.hpp>
#include <tenure/store/fallback.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/store/limited.hpp>
#include <tenure/testing/faulty_store.hpp>

#include "stores/contents.hpp"
#include "stores/plain_store.hpp"

namespace {

using namespace tenure;

/// Plain stores number their blocks from 1 on: both have the same ids.
using plain    = plain_store<{.addressable = true, .copyable = true}>;
using faulty   = faulty_store<plain>;
using fallback = fallback_store<faulty, faulty>;

using able = plain_store<{.addressable = true, .anonymous = true, .durable = true, .copyable = true}>;
static_assert(fallback::traits == plain::traits);
static_assert(fallback_store<able, able>::traits ==
              store_traits{.addressable = true, .anonymous = true, .copyable = true});
static_assert(fallback_store<able, plain_store<>>::traits == store_traits{});
static_assert(backing_store<fallback_store<able, able>>);
static_assert(backing_store<fallback_store<plain_store<>, able>>);

/// Room for 300 bytes in the first store and for 500 in the second.
struct fixture {
    std::shared_ptr<faulty> first  = std::make_shared<faulty>(std::make_shared<plain>(std::size_t{300}));
    std::shared_ptr<faulty> second = std::make_shared<faulty>(std::make_shared<plain>(std::size_t{500}));
    fallback                store{first, second};

    std::vector<block> make(std::size_t n) {
        std::vector<block> out;
        for (std::size_t i = 0; i < n; ++i) out.push_back(made(store, pattern(i, 100)));
        return out;
    }
    void expect(std::size_t in_first, std::size_t in_second) const {
        CHECK(first->usage() == store_usage{100 * in_first, in_first, 300});
        CHECK(second->usage() == store_usage{100 * in_second, in_second, 500});
        CHECK(store.usage() == store_usage{100 * (in_first + in_second), in_first + in_second, 800});
    }
};

}  // namespace

TEST_CASE("what the first store has no room for is in the second, and stays there") {
    fixture                  f;
    std::vector<block> const b = f.make(5);
    f.expect(3, 2);
    for (std::size_t i = 0; i < 5; ++i) CHECK(contents(f.store, b[i]) == pattern(i, 100));
    REQUIRE(f.store.deallocate(std::vector{b[0], b[1], b[2]}));
    f.expect(0, 2);
    CHECK(contents(f.store, b[4]) == pattern(4, 100));
    f.expect(0, 2);
    f.make(1);
    f.expect(1, 2);
    CHECK(f.store.describe() == "faulty plain store, else faulty plain store");
}

TEST_CASE("both full is store_full, and nothing is held") {
    fixture f;
    f.make(8);
    f.expect(3, 5);
    CHECK(f.store.allocate(100, 1).error() == errc::store_full);
    CHECK(f.store.allocate(501, 1).error() == errc::store_full);
    f.expect(3, 5);
}

TEST_CASE("errors that mean no room lead to the second store, others do not") {
    auto const system = [](std::errc e) { return std::error_code(static_cast<int>(e), std::system_category()); };
    for (std::error_code const e : {make_error_code(errc::store_full), make_error_code(errc::memory_full),
                                    make_error_code(errc::limit_exceeded), system(std::errc::no_space_on_device),
                                    system(std::errc::not_enough_memory)}) {
        fixture f;
        f.first->inject({.on = store_operation::allocate, .how = faults::fails{e}});
        CAPTURE(e.message());
        CHECK(f.store.allocate(100, 1).has_value());
        f.expect(0, 1);
    }
    for (std::error_code const e : {make_error_code(errc::device_unavailable), make_error_code(errc::bad_alignment),
                                    make_error_code(errc::store_closed), make_error_code(std::errc::io_error)}) {
        fixture f;
        f.first->inject({.on = store_operation::allocate, .how = faults::fails{e}});
        CAPTURE(e.message());
        CHECK(f.store.allocate(100, 1).error() == e);
        CHECK(f.second->calls(store_operation::allocate) == 0);
        f.expect(0, 0);
    }
    fixture f;
    f.second->inject({.on = store_operation::allocate});
    CHECK(f.store.allocate(400, 1).error() == std::errc::io_error);
    CHECK(f.store.allocate(10, 3).error() == errc::bad_alignment);
    f.expect(0, 0);
}

TEST_CASE("blocks of both stores in one call, in any order, one call to each store") {
    fixture            f;
    std::vector<block> b = f.make(7);
    std::swap(b[0], b[6]);
    std::swap(b[2], b[4]);
    std::uint64_t const first  = f.first->calls(store_operation::deallocate),
                        second = f.second->calls(store_operation::deallocate);
    REQUIRE(f.store.deallocate(b));
    CHECK(f.first->calls(store_operation::deallocate) == first + 1);
    CHECK(f.second->calls(store_operation::deallocate) == second + 1);
    f.expect(0, 0);
    CHECK(f.store.deallocate(b).error() == errc::no_such_block);
    CHECK(f.first->calls(store_operation::deallocate) == first + 1);  // neither is asked again
    CHECK(f.second->calls(store_operation::deallocate) == second + 1);
}

TEST_CASE("ids do not repeat, though those of the upstreams do; an upstream's id names nothing here") {
    fixture                    f;
    std::vector<block> const   b = f.make(8);
    std::vector<std::uint64_t> ids;
    for (block const x : b) ids.push_back(x.id);
    std::ranges::sort(ids);
    CHECK(std::ranges::adjacent_find(ids) == ids.end());
    for (std::uint64_t id = 1; id <= 5; ++id)
        CHECK(f.store.deallocate(std::vector{block{id, 100}}).error() == errc::no_such_block);
    f.expect(3, 5);
}

TEST_CASE("addresses are the upstream's; copies go inside a store and from one to the other") {
    fixture                  f;
    std::vector<block> const b = f.make(5);
    for (std::size_t i = 0; i < 5; ++i)
        CHECK(std::ranges::equal(std::span(f.store.address(b[i]).value(), 100), pattern(i, 100)));

    std::uint64_t const first  = f.first->calls(store_operation::copy),
                        second = f.second->calls(store_operation::copy);
    REQUIRE(f.store.copy(b[0], 10, b[1], 20, 30));
    REQUIRE(f.store.copy(b[3], 10, b[4], 20, 30));
    CHECK(f.first->calls(store_operation::copy) == first + 1);
    CHECK(f.second->calls(store_operation::copy) == second + 1);
    REQUIRE(f.store.copy(b[2], 5, b[4], 60, 40));
    REQUIRE(f.store.copy(b[3], 7, b[0], 0, 9));

    auto const part = [&](std::size_t i, std::size_t from, byte_vector const& of, std::size_t begin,
                          std::size_t n) {
        byte_vector const now = contents(f.store, b[i]);
        return std::ranges::equal(std::span(now).subspan(from, n), std::span(of).subspan(begin, n));
    };
    CHECK(part(1, 20, pattern(0, 100), 10, 30));
    CHECK(part(1, 0, pattern(1, 100), 0, 20));
    CHECK(part(4, 20, pattern(3, 100), 10, 30));
    CHECK(part(4, 60, pattern(2, 100), 5, 40));
    CHECK(part(0, 0, pattern(3, 100), 7, 9));
    CHECK(part(0, 9, pattern(0, 100), 9, 91));

    byte_vector const before = contents(f.store, b[4]);
    CHECK(f.store.copy(b[0], 61, b[4], 0, 40).error() == errc::out_of_range);
    CHECK(f.store.copy(b[0], 0, b[4], 61, 40).error() == errc::out_of_range);
    CHECK(f.store.copy(b[0], ~std::size_t{0}, b[4], 0, 2).error() == errc::out_of_range);
    CHECK(f.store.copy(b[0], 0, block{b[4].id, 99}, 0, 1).error() == errc::no_such_block);
    CHECK(f.store.copy(block{b[0].id, 99}, 0, b[4], 0, 1).error() == errc::no_such_block);
    CHECK(contents(f.store, b[4]) == before);
}

TEST_CASE("what a store does not free lives on, and is freed later") {
    for (bool const in_first : {true, false}) {
        for (std::size_t to = 0; to <= 3; ++to) {
            CAPTURE(in_first);
            CAPTURE(to);
            fixture                  f;
            std::vector<block> const b = f.make(6);
            (in_first ? f.first : f.second)
                ->inject({.on = store_operation::deallocate, .how = faults::shortens{.to = to}});
            CHECK(f.store.deallocate(b).error() == std::errc::io_error);
            f.expect(in_first ? 3 - to : 0, in_first ? 0 : 3 - to);
            std::size_t const begin = in_first ? 0 : 3;
            for (std::size_t i = begin + to; i < begin + 3; ++i) CHECK(contents(f.store, b[i]) == pattern(i, 100));
            CHECK(f.store.deallocate(b).error() == errc::no_such_block);  // of the others
            f.expect(0, 0);
        }
    }
}

TEST_CASE("the store's error tells more than no_such_block") {
    fixture                  f;
    std::vector<block> const b = f.make(4);
    f.first->inject({.on = store_operation::deallocate});
    CHECK(f.store.deallocate(std::vector{block{1, 1}, b[0], b[3], b[3]}).error() == std::errc::io_error);
    f.expect(3, 0);
    f.second->inject({.on = store_operation::deallocate, .how = faults::fails{errc::disconnected}});
    block const more = f.store.allocate(400, 1).value();
    CHECK(f.store.deallocate(std::vector{b[0], b[0], more}).error() == errc::disconnected);
    CHECK(f.store.deallocate(std::vector{b[0], more}).error() == errc::no_such_block);
    f.expect(2, 0);
}

TEST_CASE("what is not known to be freed counts until it is") {
    fixture                  f;
    std::vector<block> const b = f.make(5);
    f.second->inject({.on = store_operation::deallocate, .how = faults::shortens{}});  // all freed, and an error
    f.second->inject({.on = store_operation::read, .times = 2});                       // and no answer
    CHECK_FALSE(f.store.deallocate(b));
    CHECK(f.store.usage() == store_usage{200, 2, 800});
    CHECK(f.store.deallocate(b).error() == errc::no_such_block);
    f.expect(0, 0);
}

TEST_CASE("100,000 blocks are freed in one call a store, without an allocation") {
    using counted                           = counted_store<heap_store>;
    using limited                           = limited_store<counted>;
    auto const                       first  = std::make_shared<counted>(std::make_shared<heap_store>());
    auto const                       second = std::make_shared<counted>(std::make_shared<heap_store>());
    fallback_store<limited, counted> s(std::make_shared<limited>(first, store_limits{.blocks = 30'000}), second);
    std::vector<block>               live;
    for (int i = 0; i < 100'000; ++i) live.push_back(s.allocate(10, 1).value());
    long const before = failing::now.allocations;
    CHECK(s.deallocate(live));
    CHECK(failing::now.allocations == before);
    CHECK(first->figures().blocks_freed == 30'000);
    CHECK(second->figures().blocks_freed == 70'000);
    CHECK(first->figures().deallocate.calls == 1);
    CHECK(second->figures().deallocate.calls == 1);
    CHECK(s.usage().blocks == 0);
}

TEST_CASE("more made-up blocks than there is room to gather") {
    fixture            f;
    std::vector<block> many(1'000, block{77, 77});
    CHECK(f.store.deallocate(many).error() == errc::no_such_block);
    many.insert(many.begin() + 500, f.make(1).front());
    CHECK(f.store.deallocate(many).error() == errc::no_such_block);
    f.expect(0, 0);
}

TEST_CASE("the destructor frees what is live, in one call a store") {
    auto const first  = std::make_shared<faulty>(std::make_shared<plain>(std::size_t{300})),
               second = std::make_shared<faulty>(std::make_shared<plain>());
    {
        fallback           s(first, second);
        std::vector<block> b;
        for (int i = 0; i < 10; ++i) b.push_back(s.allocate(100, 1).value());
        REQUIRE(s.deallocate(std::vector{b[1], b[5]}));
    }
    CHECK(first->usage().blocks == 0);
    CHECK(second->usage().blocks == 0);
    CHECK(first->calls(store_operation::deallocate) == 2);
    CHECK(second->calls(store_operation::deallocate) == 2);
    { fallback const unused(first, second); }
    CHECK(first->calls(store_operation::deallocate) == 2);
}

TEST_CASE("a third store, and one store twice") {
    auto const     a = std::make_shared<plain_store<>>(std::size_t{100});
    auto const     b = std::make_shared<plain_store<>>(std::size_t{100});
    auto const     c = std::make_shared<plain_store<>>();
    fallback_store s(a, std::make_shared<fallback_store<plain_store<>, plain_store<>>>(b, c));
    block const    x[] = {s.allocate(100, 1).value(), s.allocate(100, 1).value(), s.allocate(100, 1).value()};
    CHECK(a->usage().blocks == 1);
    CHECK(b->usage().blocks == 1);
    CHECK(c->usage().blocks == 1);
    CHECK(s.usage() == store_usage{300, 3, 0});
    CHECK(s.deallocate(x));
    CHECK(s.usage() == store_usage{});

    fallback_store twice(c, c);
    block const    y = made(twice, pattern(1, 10));
    CHECK(contents(twice, y) == pattern(1, 10));
    CHECK(twice.deallocate({&y, 1}));
}

TEST_CASE("without memory nothing is lost; freeing needs none") {
    auto const first  = std::make_shared<heap_store>(heap_options{.capacity = 1'000}),
               second = std::make_shared<heap_store>();
    for (long nth = 1; FAILING_ALLOCATIONS; ++nth) {
        fallback_store     s(first, second);
        std::vector<block> live;
        live.reserve(300);
        failing::arm(failing::allocation | failing::mapping, nth);
        while (live.size() < 300) {
            auto const b = s.allocate(10, 1);
            if (!b) break;
            live.push_back(*b);
        }
        failing::disarm();
        bool const done = !failing::now.failed;
        CHECK(s.usage().blocks == live.size());
        CHECK(first->usage().blocks + second->usage().blocks == live.size());
        long const before = failing::now.allocations;
        CHECK(s.deallocate(live));
        CHECK(failing::now.allocations == before);
        CHECK(first->usage().blocks + second->usage().blocks == 0);
        if (done) break;
    }
}

TEST_CASE("threads that free the same blocks free each once") {
    auto const first  = std::make_shared<heap_store>(heap_options{.capacity = 5'000}),
               second = std::make_shared<heap_store>();
    fallback_store   s(first, second);
    std::atomic<int> had{0};
    for (int round = 0; round < 20; ++round) {
        std::vector<block> all;
        for (int i = 0; i < 1'000; ++i) all.push_back(s.allocate(10, 1).value());
        {
            std::vector<std::jthread> threads;
            for (int i = 0; i < 4; ++i) threads.emplace_back([&] { had += s.deallocate(all).has_value(); });
        }
        CHECK(s.usage() == store_usage{});
        CHECK(first->usage().blocks + second->usage().blocks == 0);
    }
    CHECK(had <= 20);
}

TEST_CASE("threads, with blocks of their own and a first store that is always full") {
    auto const first  = std::make_shared<heap_store>(heap_options{.capacity = 3'000}),
               second = std::make_shared<heap_store>();
    {
        fallback_store            s(first, second);
        std::vector<std::jthread> threads;
        std::atomic<int>          wrong{0};
        for (std::uint64_t t = 0; t < 4; ++t)
            threads.emplace_back([&, t] {
                dice                                       d(t);
                std::vector<std::pair<block, byte_vector>> live;
                for (std::uint64_t i = 0; i < (TENURE_SANITIZED ? 2'000u : 20'000u); ++i) {
                    if (live.size() < 40) {
                        byte_vector const in = pattern(t << 32 | i, d.below(100));
                        live.emplace_back(made(s, in), in);
                    }
                    auto const& [b, want] = live[d.below(live.size())];
                    if (contents(s, b) != want) ++wrong;
                    if (d.one_in(20)) {
                        std::vector<block> many;
                        for (auto const& x : live) many.push_back(x.first);
                        if (!s.deallocate(many)) ++wrong;
                        live.clear();
                    }
                }
            });
        threads.clear();
        CHECK(wrong == 0);
        CHECK(s.usage().blocks == first->usage().blocks + second->usage().blocks);
        CHECK(s.usage().bytes == first->usage().bytes + second->usage().bytes);
    }
    CHECK(first->usage().blocks + second->usage().blocks == 0);
}
