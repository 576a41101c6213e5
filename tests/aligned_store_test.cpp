// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <cstdint>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include <tenure/store/aligned.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/testing/faulty_store.hpp>

#include "stores/contents.hpp"
#include "stores/plain_store.hpp"

namespace {

using namespace tenure;

std::size_t left_over(heap_store& s, block b, std::size_t alignment) {
    return reinterpret_cast<std::uintptr_t>(s.address(b).value()) % alignment;
}

}  // namespace

TEST_CASE("each block is aligned so at least; sizes stay") {
    auto const    heap = std::make_shared<heap_store>();
    aligned_store s(heap, 256);
    for (std::size_t const n : {0u, 1u, 100u, 257u, 5'000u}) {
        for (std::size_t const a : {1u, 8u, 256u, 4096u}) {
            block const b = s.allocate(n, a).value();
            CHECK(b.bytes == n);
            CHECK(left_over(*heap, b, 256) == 0);
            CHECK(left_over(*heap, b, a) == 0);
            CHECK(s.deallocate({&b, 1}));
        }
    }
    CHECK(s.usage() == store_usage{});
    CHECK(s.alignment() == 256);
    CHECK(s.describe() == "heap aligned to 256");
}

TEST_CASE("an alignment that is no power of two is refused: the store's when it is made, a block's later") {
    auto const heap   = std::make_shared<heap_store>();
    auto const expect = [&](std::size_t alignment, char const* advice) {
        try {
            aligned_store const s(heap, alignment);
            FAIL("made");
        } catch (error const& e) {
            CHECK(e.code() == errc::bad_alignment);
            CHECK(std::string(e.what()).find(advice) != std::string::npos);
        }
    };
    expect(100, "100 is not a power of two, as 64 would be");
    expect(0, "0 is not a power of two, as 1 would be");
    expect(~std::size_t{0}, "as 9223372036854775808 would be");

    aligned_store s(heap, 64);
    for (std::size_t const a : {std::size_t{0}, std::size_t{3}, std::size_t{48}, ~std::size_t{0}})
        CHECK(s.allocate(10, a).error() == errc::bad_alignment);
    CHECK(s.usage().blocks == 0);
}

TEST_CASE("more than the upstream can give is bad_alignment") {
    auto const    disk = std::make_shared<plain_store<>>();
    aligned_store s(disk, std::size_t{1} << 31);
    CHECK(s.allocate(10, 1).error() == errc::bad_alignment);
}

TEST_CASE("names and errors are the upstream's") {
    using durable      = plain_store<{.durable = true}>;
    using faulty       = faulty_store<durable>;
    auto const    base = std::make_shared<faulty>(std::make_shared<durable>(std::make_shared<plain_disk>()));
    aligned_store s(base, 64);
    block const   b = made(s, pattern(1, 50));
    REQUIRE(s.keep(b, "name"));
    CHECK(s.find("name").value() == b);
    CHECK(base->find("name").value() == b);
    base->inject({.on = store_operation::allocate});
    CHECK(s.allocate(10, 1).error() == std::errc::io_error);
    CHECK(s.sync({&b, 1}));
    CHECK(s.close());
}
