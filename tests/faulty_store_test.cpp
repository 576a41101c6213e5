// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A store that fails when it is told to.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/store/conformance.hpp>
#include <tenure/testing/faulty_store.hpp>

#include "stores/plain_store.hpp"

namespace {

using tenure::block;
using tenure::errc;
using tenure::fault;
using tenure::store_operation;
namespace faults = tenure::faults;

using plain = plain_store<{.addressable = true, .durable = true, .copyable = true}>;
using store = tenure::faulty_store<plain>;
static_assert(tenure::backing_store<store>);
static_assert(tenure::backing_store<tenure::faulty_store<plain_store<>>>);
static_assert(store::traits == plain::traits);
static_assert(!tenure::addressable<tenure::faulty_store<plain_store<>>>);

constexpr tenure::conformance_options less{.max_bytes = 1 << 20, .free_count = 2'000, .threads = 4, .steps = 300};
constexpr tenure::conformance_options amount = TENURE_SANITIZED ? less : tenure::conformance_options{};

struct fixture {
    std::shared_ptr<plain>     upstream = std::make_shared<plain>();
    store                      s{upstream};
    std::array<std::byte, 100> ones{};
    fixture() { ones.fill(std::byte{1}); }

    std::ptrdiff_t ones_in(block b) {
        std::vector<std::byte> all(b.bytes);
        CHECK(upstream->read(b, 0, all));
        return std::ranges::count(all, std::byte{1});
    }
};

auto const io_error = std::make_error_code(std::errc::io_error);

}  // namespace

TEST_CASE("without faults it is a store like its upstream") {
    auto const r = tenure::check_store(
        [] { return std::make_shared<store>(std::make_shared<plain>(std::make_shared<plain_disk>())); },
        [](std::shared_ptr<store> s) {
            auto const disk = s->upstream()->disk();
            s.reset();
            return std::make_shared<store>(std::make_shared<plain>(disk));
        },
        amount);
    CAPTURE(r.to_text());
    CHECK(r.ok());
    CHECK(r.store == "faulty plain store");
}

TEST_CASE("it owns its upstream") {
    auto                   upstream = std::make_shared<plain>();
    std::weak_ptr<plain>   seen     = upstream;
    std::unique_ptr<store> s        = std::make_unique<store>(std::move(upstream));
    CHECK_FALSE(seen.expired());
    s.reset();
    CHECK(seen.expired());
}

TEST_CASE_FIXTURE(fixture, "the nth call fails, and has done nothing") {
    s.inject({.on = store_operation::allocate, .nth = 3, .how = faults::fails{errc::store_full}});
    CHECK(s.allocate(1, 1).has_value());
    CHECK(s.allocate(1, 1).has_value());
    CHECK(s.allocate(1, 1).error() == errc::store_full);
    CHECK(upstream->usage().blocks == 2);
    CHECK(s.allocate(1, 1).has_value());
    CHECK(s.calls(store_operation::allocate) == 4);
    CHECK(s.calls() == 4);
    CHECK(s.struck() == 1);
}

TEST_CASE_FIXTURE(fixture, "several calls in a row, and those in between that are not counted") {
    block const b = *s.allocate(100, 1);
    s.inject({.on = store_operation::write, .nth = 2, .times = 2});
    CHECK(s.write(b, 0, ones));
    CHECK(s.write(b, 0, ones).error() == io_error);
    CHECK(s.read(b, 0, ones));
    CHECK(s.write(b, 0, ones).error() == io_error);
    CHECK(s.write(b, 0, ones));
    CHECK(s.struck() == 2);
}

TEST_CASE_FIXTURE(fixture, "any call") {
    s.inject({.nth = 2});
    block const b = *s.allocate(100, 1);
    CHECK(s.read(b, 0, ones).error() == io_error);
    CHECK(s.read(b, 0, ones));
    CHECK(s.calls() == 3);
    s.inject({});
    CHECK(s.address(b).error() == io_error);
}

TEST_CASE_FIXTURE(fixture, "each operation") {
    block const                b = *s.allocate(100, 1);
    std::array<std::byte, 100> out{};
    s.inject({.times = 9});
    CHECK(s.allocate(1, 1).error() == io_error);
    CHECK(s.read(b, 0, out).error() == io_error);
    CHECK(s.write(b, 0, ones).error() == io_error);
    CHECK(s.address(b).error() == io_error);
    CHECK(s.keep(b, "b").error() == io_error);
    CHECK(s.find("b").error() == io_error);
    CHECK(s.sync(std::array{b}).error() == io_error);
    CHECK(s.copy(b, 0, b, 50, 50).error() == io_error);
    CHECK(s.deallocate(std::array{b}).error() == io_error);
    CHECK(s.struck() == 9);
    CHECK(upstream->usage() == tenure::store_usage{100, 1, 0});
    CHECK(upstream->find("b").error() == errc::no_such_block);
    CHECK(ones_in(b) == 0);
    s.inject({.on = store_operation::close});
    CHECK(s.close().error() == io_error);
    CHECK(s.close());
}

TEST_CASE_FIXTURE(fixture, "writes, reads and copies stop half-way") {
    block const b = *s.allocate(100, 1), c = *s.allocate(100, 1);
    s.inject({.on = store_operation::write, .how = faults::shortens{.to = 30}});
    CHECK(s.write(b, 0, ones).error() == io_error);
    CHECK(ones_in(b) == 30);
    CHECK(s.write(b, 0, ones));

    std::array<std::byte, 100> out{};
    s.inject({.on = store_operation::read, .how = faults::shortens{40, errc::device_unavailable}});
    CHECK(s.read(b, 0, out).error() == errc::device_unavailable);
    CHECK(std::ranges::count(out, std::byte{1}) == 40);

    s.inject({.on = store_operation::copy, .how = faults::shortens{.to = 50}});
    CHECK(s.copy(b, 0, c, 0, 100).error() == io_error);
    CHECK(ones_in(c) == 50);
}

TEST_CASE_FIXTURE(fixture, "frees and syncs stop half-way; the call may be repeated") {
    std::vector<block> many;
    for (int i = 0; i < 10; ++i) many.push_back(*s.allocate(10, 1));
    s.inject({.on = store_operation::deallocate, .how = faults::shortens{.to = 4}});
    CHECK(s.deallocate(many).error() == io_error);
    CHECK(upstream->usage().blocks == 6);
    CHECK(s.deallocate(many).error() == errc::no_such_block);
    CHECK(upstream->usage().blocks == 0);
}

TEST_CASE_FIXTURE(fixture, "all is done, and yet an error comes back") {
    block const b = *s.allocate(100, 1);
    s.inject({.on = store_operation::write, .how = faults::shortens{}});
    CHECK(s.write(b, 0, ones).error() == io_error);
    CHECK(ones_in(b) == 100);
}

TEST_CASE_FIXTURE(fixture, "what the upstream refuses is not begun") {
    block const b = *s.allocate(50, 1);
    s.inject({.on = store_operation::write, .how = faults::shortens{.to = 10}});
    CHECK(s.write(b, 0, ones).error() == errc::out_of_range);
    CHECK(ones_in(b) == 0);
}

TEST_CASE_FIXTURE(fixture, "delays, alone and with an error") {
    using namespace std::chrono_literals;
    s.inject({.on = store_operation::allocate, .how = faults::delays{20ms}});
    auto begin = std::chrono::steady_clock::now();
    CHECK(s.allocate(1, 1).has_value());
    CHECK(std::chrono::steady_clock::now() - begin >= 20ms);
    s.inject({.on = store_operation::allocate, .how = faults::delays{10ms}});
    s.inject({.on = store_operation::allocate, .how = faults::fails{errc::memory_full}});
    s.inject({.on = store_operation::allocate, .how = faults::fails{errc::store_full}});
    s.inject({.on = store_operation::allocate, .how = faults::delays{10ms}});
    begin = std::chrono::steady_clock::now();
    CHECK(s.allocate(1, 1).error() == errc::memory_full);
    CHECK(std::chrono::steady_clock::now() - begin >= 20ms);
    CHECK(s.struck() == 2);
}

TEST_CASE_FIXTURE(fixture, "clear, and faults that never come") {
    s.inject({.nth = 5});
    CHECK(s.allocate(1, 1).has_value());
    s.clear();
    CHECK(s.calls() == 0);
    for (int i = 0; i < 10; ++i) CHECK(s.allocate(1, 1).has_value());
    CHECK(s.struck() == 0);
    CHECK_THROWS_AS(s.inject({.nth = 0}), std::invalid_argument);
    CHECK_THROWS_AS(s.inject({.times = 0}), std::invalid_argument);
}

TEST_CASE_FIXTURE(fixture, "fail at step 1, 2, 3 ... until nothing fails") {
    std::uint64_t n = 1;
    for (;; ++n) {
        s.clear();
        s.inject({.nth = n});
        auto const b  = s.allocate(100, 1);
        bool       ok = b.has_value();
        if (ok) ok = s.write(*b, 0, ones).has_value();
        if (ok) ok = s.keep(*b, "b").has_value();
        CHECK(ok == (s.struck() == 0));
        if (b) CHECK(upstream->deallocate(std::array{*b}));
        CHECK(upstream->usage().blocks == 0);
        if (ok) break;
    }
    CHECK(n == 4);
}

TEST_CASE_FIXTURE(fixture, "counts are exact under concurrency") {
    s.inject({.on = store_operation::allocate, .nth = 10, .times = 50});
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([this] {
            for (int k = 0; k < 100; ++k) (void)s.allocate(1, 1);
        });
    }
    threads.clear();
    CHECK(s.calls(store_operation::allocate) == 400);
    CHECK(s.struck() == 50);
    CHECK(upstream->usage().blocks == 350);
}
