// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <memory>
#include <system_error>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/batch_scope.hpp>
#include <tenure/buffer.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/store/segregated.hpp>
#include <tenure/testing/faulty_store.hpp>

#include "stores/contents.hpp"
#include "stores/plain_store.hpp"

namespace {

using namespace tenure;

using faulty     = faulty_store<plain_store<>>;
using segregated = segregated_store<faulty, faulty>;

std::shared_ptr<faulty> make_faulty(std::size_t capacity = 0) {
    return std::make_shared<faulty>(std::make_shared<plain_store<>>(capacity));
}

}  // namespace

TEST_CASE("blocks up to the threshold are in the one store, larger ones in the other") {
    auto const  small = make_faulty(), large = make_faulty();
    segregated  s(small, large, 64);
    block const b[] = {made(s, pattern(0, 0)), made(s, pattern(1, 1)), made(s, pattern(2, 64)),
                       made(s, pattern(3, 65)), made(s, pattern(4, 5'000))};
    CHECK(small->usage() == store_usage{65, 3, 0});
    CHECK(large->usage() == store_usage{5'065, 2, 0});
    CHECK(s.usage() == store_usage{5'130, 5, 0});
    for (std::uint64_t i = 0; i < 5; ++i) CHECK(contents(s, b[i]) == pattern(i, b[i].bytes));
    CHECK(s.deallocate(std::vector{b[3], b[0], b[4], b[2], b[1]}));
    CHECK(small->calls(store_operation::deallocate) == 1);
    CHECK(large->calls(store_operation::deallocate) == 1);
    CHECK(s.usage() == store_usage{});
    CHECK(small->usage().blocks + large->usage().blocks == 0);
    CHECK(s.threshold() == 64);
    CHECK(s.describe() == "faulty plain store up to 64 bytes, then faulty plain store");
}

TEST_CASE("if one is full, the other does not help out") {
    auto const small = make_faulty(100), large = make_faulty(1'000);
    segregated s(small, large, 64);
    CHECK(s.usage().capacity == 1'100);
    block const b[] = {s.allocate(60, 1).value(), s.allocate(900, 1).value()};
    CHECK(s.allocate(60, 1).error() == errc::store_full);
    CHECK(s.allocate(101, 1).error() == errc::store_full);
    large->inject({.on = store_operation::allocate});
    CHECK(s.allocate(70, 1).error() == std::errc::io_error);
    CHECK(s.usage() == store_usage{960, 2, 1'100});
    CHECK(s.deallocate(b));
}

TEST_CASE("thresholds at the ends") {
    auto const a = make_faulty(), b = make_faulty();
    segregated none(a, b, 0), all(a, b, ~std::size_t{0});
    REQUIRE(none.allocate(0, 1).has_value());
    REQUIRE(none.allocate(1, 1).has_value());
    CHECK(a->usage().blocks == 1);
    CHECK(b->usage().blocks == 1);
    REQUIRE(all.allocate(1'000'000, 1).has_value());
    CHECK(a->usage().blocks == 2);
}

TEST_CASE("a batch's objects and buffers") {
    using store_type = segregated_store<heap_store, heap_store>;
    auto const small = std::make_shared<heap_store>(), large = std::make_shared<heap_store>();
    {
        auto const  s = std::make_shared<store_type>(small, large, 1'000);
        batch_scope b{{.store = s}};
        auto const  object = b.make<int>(7);
        auto const  few    = b.make_buffer<int>(10);
        auto const  many   = b.make_buffer<int>(10'000);
        CHECK(*object == 7);
        CHECK(small->usage() == store_usage{40, 1, 0});
        CHECK(large->usage().bytes > 40'000);  // and the objects' memory
        few.write(0, std::vector{1, 2, 3});
        many.write(9'997, std::vector{1, 2, 3});
        few.copy_to(b.make_buffer<int>(10));
    }
    CHECK(small->usage().blocks == 0);
}
