// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/batch_scope.hpp>
#include <tenure/buffer.hpp>
#include <tenure/registry.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/store/limited.hpp>
#include <tenure/store/retry.hpp>
#include <tenure/testing/faulty_store.hpp>

#include "stores/contents.hpp"
#include "stores/plain_store.hpp"

namespace {

using namespace tenure;

using faulty = faulty_store<plain_store<>>;
using retry  = retry_store<faulty>;

std::shared_ptr<faulty> make_faulty(std::size_t capacity = 0) {
    return std::make_shared<faulty>(std::make_shared<plain_store<>>(capacity));
}

/// Blocks of 100 bytes that can be made anew, in a store with room for three.
struct cache {
    std::shared_ptr<faulty>  base = make_faulty(300);
    std::vector<std::size_t> calls;
    std::vector<block>       held;
    retry                    store{base, [this](std::size_t bytes) {
                    calls.push_back(bytes);
                    return drop_last();
                }};

    cache() {
        for (int i = 0; i < 3; ++i) held.push_back(store.allocate(100, 1).value());
    }
    bool drop_last() {
        if (held.empty()) return false;
        block const b = held.back();
        held.pop_back();
        return store.deallocate({&b, 1}).has_value();
    }
};

}  // namespace

TEST_CASE("a refused allocation calls for room, and is tried once more") {
    cache c;
    CHECK(c.calls.empty());
    CHECK(c.store.allocate(60, 1).has_value());
    CHECK(c.calls == std::vector<std::size_t>{60});
    CHECK(c.store.allocate(40, 1).has_value());  // there is room
    CHECK(c.calls.size() == 1);
    CHECK(c.held.size() == 2);
    CHECK(c.store.describe() == "retry faulty plain store");
}

TEST_CASE("once: if there is still no room, that is the answer") {
    cache c;
    CHECK(c.store.allocate(150, 1).error() == errc::store_full);
    CHECK(c.calls == std::vector<std::size_t>{150});
    CHECK(c.held.size() == 2);
    CHECK(c.store.allocate(150, 1).has_value());  // asks again, and now there is
    CHECK(c.calls.size() == 2);
    CHECK(c.base->usage() == store_usage{250, 2, 300});
}

TEST_CASE("if the callback says no, the upstream is not asked again") {
    auto const base  = make_faulty(10);
    int        calls = 0;
    retry      s(base, [&](std::size_t) { return ++calls, false; });
    REQUIRE(s.allocate(10, 1).has_value());
    CHECK(s.allocate(10, 1).error() == errc::store_full);
    CHECK(calls == 1);
    CHECK(base->calls(store_operation::allocate) == 2);
}

TEST_CASE("errors that mean no room call for it, others do not") {
    auto const system = [](std::errc e) { return std::error_code(static_cast<int>(e), std::system_category()); };
    auto const called = [](std::error_code e) {
        auto const base  = make_faulty();
        int        calls = 0;
        retry      s(base, [&](std::size_t) { return ++calls, true; });
        base->inject({.on = store_operation::allocate, .how = faults::fails{e}});
        CAPTURE(e.message());
        result<block> const b = s.allocate(100, 1);
        CHECK(b.has_value() == (calls == 1));
        if (!b) CHECK(b.error() == e);
        return calls == 1;
    };
    CHECK(called(errc::store_full));
    CHECK(called(errc::memory_full));
    CHECK(called(errc::limit_exceeded));
    CHECK(called(system(std::errc::no_space_on_device)));
    CHECK(called(system(std::errc::not_enough_memory)));
    CHECK_FALSE(called(errc::bad_alignment));
    CHECK_FALSE(called(errc::device_unavailable));
    CHECK_FALSE(called(errc::store_closed));
    CHECK_FALSE(called(std::make_error_code(std::errc::io_error)));
}

TEST_CASE("nothing is given up for what can never be") {
    cache c;
    CHECK(c.store.allocate(301, 1).error() == errc::store_full);
    CHECK(c.store.allocate(~std::size_t{0}, 1).error() == errc::store_full);
    CHECK(c.calls.empty());
    CHECK(c.held.size() == 3);
    CHECK(c.store.allocate(300, 1).error() == errc::store_full);
    CHECK(c.calls.size() == 1);

    int   calls = 0;
    retry unknown(make_faulty(), [&](std::size_t) { return ++calls, true; });
    CHECK(unknown.allocate(~std::size_t{0}, 1).error() == errc::store_full);
    CHECK(calls == 0);
}

TEST_CASE("what the callback throws is dropped, and counts as no") {
    auto const base  = make_faulty(10);
    int        calls = 0;
    retry      s(base, [&](std::size_t n) -> bool {
        if (++calls == 1) throw std::runtime_error("no room for " + std::to_string(n));
        throw 7;
         });
    REQUIRE(s.allocate(10, 1).has_value());
    CHECK(s.allocate(1, 1).error() == errc::store_full);
    CHECK(s.allocate(1, 1).error() == errc::store_full);  // asked again: that it threw left no trace
    CHECK(calls == 2);
    CHECK(base->usage().blocks == 1);
}

TEST_CASE("the callback may allocate here; if that is refused, it is not called within itself") {
    auto const         base = make_faulty(300);
    std::vector<block> held;
    int                calls = 0, inner = 0;
    retry*             self = nullptr;
    retry              s(base, [&](std::size_t) {
        ++calls;
        if (self->allocate(100, 1)) ++inner;  // refused
        block const b = held.back();
        held.pop_back();
        CHECK(self->deallocate({&b, 1}));
        if (auto const copy = self->allocate(30, 1)) ++inner, held.push_back(*copy);
        return true;
    });
    self = &s;
    for (int i = 0; i < 3; ++i) held.push_back(s.allocate(100, 1).value());
    CHECK(s.allocate(70, 1).has_value());
    CHECK(calls == 1);
    CHECK(inner == 1);
    CHECK(s.usage() == store_usage{300, 4, 300});
}

TEST_CASE("the callback of one store may need that of another") {
    auto const below = make_faulty(100), above = make_faulty(100);
    int        calls_below = 0, calls_above = 0;
    block      in_below, in_above;
    retry      disk(below, [&](std::size_t) { return ++calls_below, disk.deallocate({&in_below, 1}).has_value(); });
    retry      memory(above, [&](std::size_t n) {
        ++calls_above;
        return disk.allocate(n, 1).has_value() && memory.deallocate({&in_above, 1}).has_value();
    });
    in_below = disk.allocate(100, 1).value();
    in_above = memory.allocate(100, 1).value();
    CHECK(memory.allocate(50, 1).has_value());
    CHECK(calls_above == 1);
    CHECK(calls_below == 1);
}

TEST_CASE("on threads: each calls for itself, and nothing is lost") {
    auto const         base = std::make_shared<heap_store>(heap_options{.capacity = 1'000});
    std::mutex         lock;
    std::vector<block> cached;
    std::atomic<int>   calls{0}, got{0};
    {
        retry_store<heap_store>   s(base, [&](std::size_t) {
            ++calls;
            std::vector<block> many;
            {
                std::scoped_lock const guard(lock);
                many.swap(cached);
            }
            return !many.empty() && s.deallocate(many).has_value();
        });
        std::vector<std::jthread> threads;
        for (std::uint64_t t = 0; t < 4; ++t)
            threads.emplace_back([&, t] {
                dice d(t);
                for (int i = 0; i < (TENURE_SANITIZED ? 2'000 : 20'000); ++i) {
                    auto const b = s.allocate(1 + d.below(100), 1);
                    if (!b) continue;
                    ++got;
                    std::scoped_lock const guard(lock);
                    cached.push_back(*b);
                }
            });
        threads.clear();
        CHECK(calls > 0);
        CHECK(got > 0);
        CHECK(s.usage().blocks == cached.size());
        CHECK(s.deallocate(cached));
    }
    CHECK(base->usage().blocks == 0);
}

TEST_CASE("names are the upstream's") {
    using durable = plain_store<{.durable = true}>;
    retry_store s(std::make_shared<durable>(std::make_shared<plain_disk>()), [](std::size_t) { return false; });
    block const b = made(s, pattern(1, 50));
    REQUIRE(s.keep(b, "name"));
    CHECK(s.find("name").value() == b);
    CHECK(s.sync({&b, 1}));
    CHECK(s.close());
}

TEST_CASE("a callback ends batches that can be made anew") {
    using limited = limited_store<heap_store>;
    auto const base =
        std::make_shared<limited>(std::make_shared<heap_store>(), store_limits{.bytes = std::size_t{64} << 20});
    registry              r;
    std::vector<batch_id> cached;
    auto const            store = std::make_shared<retry_store<limited>>(base, [&](std::size_t) {
        if (cached.empty()) return false;
        for (batch_id const id : std::exchange(cached, {})) r.end_batch(id);
        r.trim();
        return true;
    });
    SUBCASE("buffers") {
        for (int i = 0; i < 1'000; ++i) {
            batch_id const id     = r.new_batch({.store = store});
            auto const     inside = r.enter(id);
            make_buffer<char>(1 << 20);
            cached.push_back(id);
        }
        CHECK(cached.size() <= 64);
        CHECK(base->usage().bytes <= std::size_t{64} << 20);
    }
    SUBCASE("objects") {
        for (int i = 0; i < 1'000; ++i) {
            batch_id const id        = r.new_batch({.store = store});
            auto const     inside    = r.enter(id);
            make<char[]>(5 << 20)[0] = 'x';
            make<int>(i);
            cached.push_back(id);
        }
        CHECK(cached.size() <= 13);
    }
    for (batch_id const id : cached) r.end_batch(id);
}
