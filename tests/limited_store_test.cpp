// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include "failing.hpp"  // first

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/store/heap.hpp>
#include <tenure/store/limited.hpp>
#include <tenure/testing/faulty_store.hpp>

#include "stores/contents.hpp"
#include "stores/plain_store.hpp"

namespace {

using namespace tenure;

using faulty  = faulty_store<heap_store>;
using limited = limited_store<faulty>;

struct fixture {
    std::shared_ptr<faulty> base = std::make_shared<faulty>(std::make_shared<heap_store>());
    limited                 store;

    explicit fixture(store_limits l = {}) : store(base, l) {}

    std::vector<block> make(std::size_t n, std::size_t size) {
        std::vector<block> out;
        for (std::size_t i = 0; i < n; ++i) out.push_back(store.allocate(size, 1).value());
        return out;
    }
    void expect(std::size_t bytes, std::size_t blocks) const {
        CHECK(store.usage().bytes == bytes);
        CHECK(store.usage().blocks == blocks);
    }
};

}  // namespace

TEST_CASE("what would be too many bytes is store_full, and the upstream is not asked") {
    fixture f({.bytes = 100});
    f.make(2, 50);
    CHECK(f.store.allocate(1, 1).error() == errc::store_full);
    CHECK(f.store.allocate(static_cast<std::size_t>(-1), 1).error() == errc::store_full);
    CHECK(f.base->calls(store_operation::allocate) == 2);
    CHECK(f.store.allocate(0, 1).has_value());
    CHECK(f.store.usage() == store_usage{100, 3, 100});
}

TEST_CASE("what would be too many blocks is store_full") {
    fixture                  f({.blocks = 3});
    std::vector<block> const live = f.make(3, 0);
    CHECK(f.store.allocate(0, 1).error() == errc::store_full);
    REQUIRE(f.store.deallocate({live.data(), 1}));
    CHECK(f.store.allocate(1000, 1).has_value());
    CHECK(f.store.usage() == store_usage{1000, 3, 0});
}

TEST_CASE("the capacity is the lesser of the two") {
    auto const base = std::make_shared<heap_store>(heap_options{.capacity = 1000});
    CHECK(limited_store(base, {.bytes = 10}).usage().capacity == 10);
    CHECK(limited_store(base, {.bytes = 10'000}).usage().capacity == 1000);
    CHECK(limited_store(base, {.blocks = 1}).usage().capacity == 1000);
    CHECK(limited_store(base, {.blocks = 1}).describe() == "limited " + base->describe());
}

TEST_CASE("an allocation that the upstream refuses costs nothing") {
    fixture f({.bytes = 100, .blocks = 1});
    f.base->inject({.on = store_operation::allocate, .nth = 1, .times = 5});
    for (int i = 0; i < 5; ++i) CHECK(f.store.allocate(100, 1).error() == std::errc::io_error);
    f.expect(0, 0);
    CHECK(f.store.allocate(100, 1).has_value());
}

TEST_CASE("a deallocation that fails half-way gives back what was freed, and no more") {
    for (std::size_t to = 0; to <= 10; ++to) {
        fixture                  f;
        std::vector<block> const live = f.make(10, 7);
        f.base->inject({.on = store_operation::deallocate, .how = faults::shortens{.to = to}});
        CHECK(f.store.deallocate(live).error() == std::errc::io_error);
        f.expect(7 * (10 - to), 10 - to);
        CHECK(f.store.usage().blocks == f.base->usage().blocks);
        CHECK(f.store.deallocate(live).has_value() == (to == 0));
        f.expect(0, 0);
    }
}

TEST_CASE("what is not known to be freed counts until it is") {
    fixture                  f;
    std::vector<block> const live = f.make(10, 7);
    f.base->inject({.on = store_operation::deallocate, .how = faults::shortens{}});  // all freed, and an error
    f.base->inject({.on = store_operation::read, .times = 10});                      // and no answer
    CHECK_FALSE(f.store.deallocate(live));
    f.expect(70, 10);
    CHECK(f.store.deallocate(live).error() == errc::no_such_block);
    f.expect(0, 0);
}

TEST_CASE("what the limited store does not know gives nothing back") {
    fixture     f;
    block const other = f.base->allocate(30, 1).value();
    block const own   = f.store.allocate(10, 1).value();
    CHECK(f.store.deallocate(std::vector{own, own, block{own.id, 11}}).error() == errc::no_such_block);
    f.expect(0, 0);
    CHECK(f.store.deallocate({&other, 1}));
    f.expect(0, 0);
    block const named = f.store.allocate(10, 1).value();
    CHECK_FALSE(f.store.deallocate(std::vector{block{named.id, 9}}));
    f.expect(10, 1);
    CHECK(f.base->deallocate({&named, 1}));  // behind its back
    CHECK_FALSE(f.store.deallocate({&named, 1}));
    f.expect(0, 0);
}

TEST_CASE("blocks of a durable store count when they are found") {
    auto const disk = std::make_shared<plain_disk>();
    using durable   = plain_store<{.durable = true}>;
    {
        durable     d(disk);
        block const b = made(d, pattern(1, 50));
        REQUIRE(d.keep(b, "name"));
        REQUIRE(d.close());
    }
    limited_store s(std::make_shared<durable>(disk), {.bytes = 60});
    CHECK(s.usage().blocks == 0);
    block const b = s.find("name").value();
    CHECK(s.find("name").value() == b);
    CHECK(s.usage() == store_usage{50, 1, 60});
    CHECK(s.allocate(11, 1).error() == errc::store_full);
    REQUIRE(s.deallocate({&b, 1}));
    CHECK(s.usage() == store_usage{0, 0, 60});
}

TEST_CASE("exact when threads meet at the limit") {
    constexpr std::size_t    most = 500;
    fixture                  f({.bytes = most * 10, .blocks = most});
    std::atomic<std::size_t> had{0};
    for (int round = 0; round < 3; ++round) {
        std::vector<std::vector<block>> live(4);
        {
            std::vector<std::jthread> threads;
            for (auto& mine : live)
                threads.emplace_back([&] {
                    while (auto const b = f.store.allocate(10, 1)) mine.push_back(*b);
                });
        }
        std::vector<block> all;
        for (auto const& mine : live) all.insert(all.end(), mine.begin(), mine.end());
        CHECK(all.size() == most);
        f.expect(most * 10, most);
        {
            std::vector<std::jthread> threads;  // all of them free the same blocks
            for (int i = 0; i < 4; ++i) threads.emplace_back([&] { had += f.store.deallocate(all).has_value(); });
        }
        f.expect(0, 0);
    }
    CHECK(had <= 3);
}

TEST_CASE("without memory nothing is lost; freeing needs none") {
    fixture            f;
    std::vector<block> live;
    live.reserve(300);
    for (long nth = 1; FAILING_ALLOCATIONS; ++nth) {
        failing::arm(failing::allocation | failing::mapping, nth);
        while (live.size() < 300) {
            auto const b = f.store.allocate(10, 1);
            if (!b) break;
            live.push_back(*b);
        }
        failing::disarm();
        bool const done = !failing::now.failed;
        f.expect(10 * live.size(), live.size());
        CHECK(f.base->usage().blocks == live.size());
        long const before = failing::now.allocations;
        CHECK(f.store.deallocate(live));
        CHECK(failing::now.allocations == before);
        f.expect(0, 0);
        live.clear();
        if (done) break;
    }
}
