// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/store/counted.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/testing/faulty_store.hpp>

#include "stores/contents.hpp"
#include "stores/plain_store.hpp"

using namespace tenure;

TEST_CASE("bytes, blocks, peaks and sizes") {
    counted_store      s(std::make_shared<heap_store>());
    std::vector<block> live;
    for (std::size_t const n : {0u, 1u, 2u, 3u, 4u, 1000u, 1024u}) live.push_back(s.allocate(n, 1).value());
    REQUIRE(s.deallocate(std::span(live).first(6)));
    live.front() = s.allocate(5, 1).value();

    counted_figures const f = s.figures();
    CHECK(f.bytes == 1029);
    CHECK(f.blocks == 2);
    CHECK(f.peak_bytes == 2034);
    CHECK(f.peak_blocks == 7);
    CHECK(f.bytes_made == 2039);
    CHECK(f.blocks_made == 8);
    CHECK(f.bytes_freed == 1010);
    CHECK(f.blocks_freed == 6);
    CHECK(f.sizes[0] == 1);   // 0
    CHECK(f.sizes[1] == 1);   // 1
    CHECK(f.sizes[2] == 2);   // 2, 3
    CHECK(f.sizes[3] == 2);   // 4, 5
    CHECK(f.sizes[10] == 1);  // 1000
    CHECK(f.sizes[11] == 1);  // 1024
    CHECK(f.allocate == counted_calls{8, 0});
    CHECK(f.deallocate == counted_calls{1, 0});
    CHECK(s.usage() == s.upstream()->usage());
}

TEST_CASE("100,000 blocks are freed in one call") {
    counted_store      s(std::make_shared<heap_store>());
    std::vector<block> live;
    for (int i = 0; i < 100'000; ++i) live.push_back(s.allocate(16, 1).value());
    REQUIRE(s.deallocate(live));
    CHECK(s.figures().deallocate == counted_calls{1, 0});
    CHECK(s.figures().blocks_freed == 100'000);
    CHECK(s.figures().bytes == 0);
}

TEST_CASE("calls, errors, and bytes of those that succeeded") {
    using able = plain_store<{.addressable = true, .durable = true, .copyable = true}>;
    counted_store s(std::make_shared<able>(std::make_shared<plain_disk>()));
    block const   a = made(s, pattern(1, 100));
    block const   b = s.allocate(50, 1).value();
    byte_vector   out(30);
    CHECK(s.read(a, 0, out));
    CHECK_FALSE(s.read(b, 40, out));
    CHECK_FALSE(s.write(b, 40, out));
    CHECK(s.address(a).has_value());
    CHECK_FALSE(s.address({}).has_value());
    CHECK(s.copy(a, 0, b, 0, 20));
    CHECK_FALSE(s.copy(a, 0, b, 0, 51));
    CHECK(s.keep(b, "name"));
    CHECK(s.find("name").value() == b);
    CHECK_FALSE(s.find("no such name").has_value());
    CHECK(s.sync(std::vector{b}));
    CHECK_FALSE(s.deallocate(std::vector{a, a}));
    CHECK(s.close());

    counted_figures const f = s.figures();
    CHECK(f.read == counted_calls{2, 1});
    CHECK(f.bytes_read == 30);
    CHECK(f.write == counted_calls{2, 1});
    CHECK(f.bytes_written == 100);
    CHECK(f.address == counted_calls{2, 1});
    CHECK(f.copy == counted_calls{2, 1});
    CHECK(f.bytes_copied == 20);
    CHECK(f.keep == counted_calls{1, 0});
    CHECK(f.find == counted_calls{2, 1});
    CHECK(f.sync == counted_calls{1, 0});
    CHECK(f.deallocate == counted_calls{1, 1});
    CHECK(f.close == counted_calls{1, 0});
    CHECK(f.blocks == 1);  // the kept one was found, and had been made here
    CHECK(f.blocks_made == 2);
    CHECK(f.blocks_freed == 1);

    std::string const text = f.to_text();
    CHECK(
        text.starts_with("live 50 bytes in 1 blocks, at most 150 bytes in 2 blocks\n"
                         "made 150 bytes in 2 blocks, freed 100 bytes in 1 blocks\n"));
    CHECK(text.find("read: 2 calls, 30 bytes, 1 errors\n") != text.npos);
    CHECK(text.find("from 64 bytes: 1\n") != text.npos);
    CHECK(s.describe() == "counted plain store");
}

TEST_CASE("a deallocation that fails half-way counts what was freed") {
    auto const         base = std::make_shared<faulty_store<heap_store>>(std::make_shared<heap_store>());
    counted_store      s(base);
    std::vector<block> live;
    for (int i = 0; i < 10; ++i) live.push_back(s.allocate(10, 1).value());
    base->inject({.on = store_operation::deallocate, .how = faults::shortens{.to = 4}});
    CHECK_FALSE(s.deallocate(live));
    CHECK(s.figures().blocks == 6);
    CHECK(s.figures().bytes_freed == 40);
    CHECK_FALSE(s.deallocate(live));
    CHECK(s.figures().blocks == 0);
    CHECK(s.figures().bytes == 0);
    CHECK(s.figures().deallocate == counted_calls{2, 2});
}

TEST_CASE("made = live + freed, on threads") {
    counted_store s(std::make_shared<heap_store>());
    {
        std::vector<std::jthread> threads;
        for (std::uint64_t t = 0; t < 4; ++t)
            threads.emplace_back([&, t] {
                dice               d(t);
                std::vector<block> live;
                for (int i = 0; i < 2'000; ++i) {
                    live.push_back(s.allocate(d.below(100), 1).value());
                    if (d.one_in(50)) {
                        s.deallocate(live).value();
                        live.clear();
                    }
                }
            });
    }
    counted_figures const f = s.figures();
    CHECK(f.blocks_made == 8'000);
    CHECK(f.blocks_made == f.blocks + f.blocks_freed);
    CHECK(f.bytes_made == f.bytes + f.bytes_freed);
    CHECK(f.bytes == s.usage().bytes);
    CHECK(f.blocks == s.usage().blocks);
    CHECK(f.peak_bytes >= f.bytes);
}

TEST_CASE("a section counts what passes between a push and its pop") {
    using able = plain_store<{.addressable = true, .durable = true, .copyable = true}>;
    counted_store s(std::make_shared<able>(std::make_shared<plain_disk>()));
    block const   before = made(s, pattern(1, 100));
    byte_vector   out(30);

    s.push();
    block const a = made(s, pattern(2, 40));
    block const b = s.allocate(50, 1).value();
    CHECK(s.read(before, 0, out));
    CHECK_FALSE(s.read(b, 40, out));
    CHECK(s.copy(a, 0, b, 0, 20));
    CHECK(s.deallocate({&a, 1}));
    counted_figures const f = s.pop();

    CHECK(f.bytes == 50);
    CHECK(f.blocks == 1);
    CHECK(f.peak_bytes == 90);
    CHECK(f.peak_blocks == 2);
    CHECK(f.bytes_made == 90);
    CHECK(f.blocks_made == 2);
    CHECK(f.bytes_freed == 40);
    CHECK(f.blocks_freed == 1);
    CHECK(f.bytes_written == 40);
    CHECK(f.bytes_read == 30);
    CHECK(f.bytes_copied == 20);
    CHECK(f.allocate == counted_calls{2, 0});
    CHECK(f.read == counted_calls{2, 1});
    CHECK(f.write == counted_calls{1, 0});
    CHECK(f.deallocate == counted_calls{1, 0});
    CHECK(f.sizes[6] == 2);  // 40, 50
    CHECK(f.sizes[7] == 0);  // 100, before

    counted_figures const all = s.figures();
    CHECK(all.bytes == 150);
    CHECK(all.peak_bytes == 190);
    CHECK(all.blocks_made == 3);
    CHECK(all.bytes_written == 140);
    CHECK(all.allocate == counted_calls{3, 0});
}

TEST_CASE("sections nest: the outer one counts what the inner one does") {
    counted_store s(std::make_shared<heap_store>());
    auto const    hold = [&](std::size_t n) {
        block const b = s.allocate(n, 1).value();
        CHECK(s.deallocate({&b, 1}));
    };
    hold(1'000);
    s.push();
    hold(10);
    block const b = s.allocate(5, 1).value();
    s.push();
    CHECK(s.figures().peak_bytes == 1'000);  // of all times, whatever is pushed
    hold(100);
    counted_figures const inner = s.pop();
    hold(20);
    s.push();
    hold(7);
    CHECK(s.pop().peak_bytes == 7);
    counted_figures const outer = s.pop();

    CHECK(inner.bytes_made == 100);
    CHECK(inner.blocks_made == 1);
    CHECK(inner.peak_bytes == 100);
    CHECK(inner.peak_blocks == 1);
    CHECK(inner.bytes == 0);
    CHECK(outer.bytes_made == 142);
    CHECK(outer.blocks_made == 5);
    CHECK(outer.peak_bytes == 105);
    CHECK(outer.peak_blocks == 2);
    CHECK(outer.bytes == 5);
    CHECK(s.figures().peak_bytes == 1'000);
    hold(2'000);
    CHECK(s.figures().peak_bytes == 2'005);
    CHECK(s.deallocate({&b, 1}));
}

TEST_CASE("a section that frees more than it made leaves none") {
    counted_store s(std::make_shared<heap_store>());
    block const   b = s.allocate(100, 1).value();
    s.push();
    CHECK(s.deallocate({&b, 1}));
    counted_figures const f = s.pop();
    CHECK(f.bytes == 0);
    CHECK(f.blocks == 0);
    CHECK(f.bytes_freed == 100);
    CHECK(f.peak_bytes == 0);
    s.push();
    CHECK(s.pop() == counted_figures{});
}

TEST_CASE("a pop without a push is a mistake") {
    counted_store s(std::make_shared<heap_store>());
    CHECK_THROWS_AS(s.pop(), std::logic_error);
    s.push();
    s.pop();
    CHECK_THROWS_AS(s.pop(), std::logic_error);
}

TEST_CASE("sections while other threads allocate") {
    counted_store     s(std::make_shared<heap_store>());
    std::atomic<bool> over{false};
    {
        std::vector<std::jthread> threads;
        for (std::uint64_t t = 0; t < 3; ++t)
            threads.emplace_back([&, t] {
                dice d(t);
                while (!over) {
                    block const b = s.allocate(d.below(100), 1).value();
                    s.deallocate({&b, 1}).value();
                }
            });
        std::uint64_t most = 0;
        for (int i = 0; i < 2'000; ++i) {
            s.push();
            block const           b = s.allocate(1'000, 1).value();
            counted_figures const f = s.pop();
            CHECK(f.blocks_made >= 1);
            CHECK(f.peak_bytes >= 1'000 - 300);
            CHECK(f.peak_bytes <= 1'300);
            CHECK(f.peak_blocks <= 4);
            s.deallocate({&b, 1}).value();
            std::uint64_t const now = s.figures().peak_bytes;
            CHECK(now >= most);
            most = now;
        }
        over = true;
    }
    CHECK(s.figures().blocks == 0);
    CHECK(s.figures().peak_bytes <= 1'300);
}
