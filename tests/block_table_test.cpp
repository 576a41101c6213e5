// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What every store builds on: ids that name one block, once.

#include "failing.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/detail/blocks/block_table.hpp>

namespace {

using table = tenure::detail::block_table<int>;
using tenure::block;

std::vector<block> insert(table& t, int count) {
    std::vector<block> all;
    for (int i = 0; i < count; ++i) all.push_back({t.insert(i), 0});
    return all;
}

}  // namespace

TEST_SUITE("block_table") {
    TEST_CASE("finds what it was given, until it is erased") {
        table      t;
        auto const all = insert(t, 10'000);
        CHECK(t.size() == 10'000);
        for (int i = 0; i < 10'000; ++i) {
            int value = -1;
            if (!t.find(all[static_cast<std::size_t>(i)].id, value) || value != i) FAIL_CHECK(i);
        }
        *t.find(all[5].id) = 50;
        int value          = 0;
        CHECK(t.erase(all[5].id, value));
        CHECK(value == 50);
        CHECK_FALSE(t.erase(all[5].id, value));
        CHECK_FALSE(t.find(all[5].id, value));
        CHECK(t.find(all[5].id) == nullptr);
        CHECK(t.size() == 9'999);
        std::size_t seen = 0;
        t.for_each([&](std::uint64_t id, int& v) { seen += id == all[static_cast<std::size_t>(v)].id; });
        CHECK(seen == 9'999);
    }

    TEST_CASE("0 and made-up ids name nothing, in an empty table and in others") {
        for (int const count : {0, 1, 300}) {
            table      t;
            auto const all   = insert(t, count);
            int        value = 0;
            for (std::uint64_t const id :
                 {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
                CHECK_FALSE(t.find(id, value));
                CHECK_FALSE(t.erase(id, value));
                CHECK(t.find(id) == nullptr);
            }
        }
    }

    TEST_CASE("erases many at once: those that live, each once") {
        table t;
        auto  many = insert(t, 1000);
        many.push_back(many[3]);
        many.insert(many.begin(), many[7]);
        many.push_back({});
        many.push_back({12345, 0});
        std::vector<int> values(many.size());
        REQUIRE(t.erase(many, values) == 1000);
        std::ranges::sort(values.begin(), values.begin() + 1000);
        for (int i = 0; i < 1000; ++i) CHECK(values[static_cast<std::size_t>(i)] == i);
        CHECK(t.size() == 0);
        CHECK(t.erase(many, values) == 0);
    }

    TEST_CASE("ids are not used twice, nor by two tables") {
        std::vector<std::unique_ptr<table>> tables;
        std::vector<std::uint64_t>          ids;
        for (int i = 0; i < 100; ++i) {
            auto& t = *tables.emplace_back(std::make_unique<table>(static_cast<unsigned>(i) % table::numbers));
            for (int k = 0; k < 1000; ++k) {
                int                 value = 0;
                std::uint64_t const id    = ids.emplace_back(t.insert(k));
                CHECK(table::number_of(id) == static_cast<unsigned>(i) % table::numbers);
                if (k % 3 != 0) CHECK(t.erase(id, value));
            }
        }
        std::ranges::sort(ids);
        CHECK(std::ranges::adjacent_find(ids) == ids.end());
        CHECK(ids.front() != 0);
    }

    TEST_CASE("a table that gets no memory says so, and nothing else changes") {
        table t;
        failing::arm(failing::mapping, 1);
        CHECK(t.insert(1) == 0);
        failing::disarm();
        CHECK(t.size() == 0);
        auto const all = insert(t, 256);
        failing::arm(failing::mapping, 1);
        CHECK(t.insert(1) == 0);
        failing::disarm();
        CHECK(t.size() == 256);
        CHECK(t.insert(1) != 0);
        for (block const b : all) CHECK(t.find(b.id) != nullptr);
    }

    TEST_CASE("gives its memory back") {
        long const before = failing::now.mapped;
        {
            table t;
            insert(t, 100'000);
        }
        CHECK(failing::now.mapped == before);
    }

    TEST_CASE("threads") {
        table                    t;
        std::vector<std::thread> threads;
        std::array<int, 4>       wrong{};
        for (int n = 0; n < 4; ++n) {
            threads.emplace_back([&t, &wrong = wrong[static_cast<std::size_t>(n)], n] {
                for (int i = 0; i < 5000; ++i) {
                    std::uint64_t const a = t.insert(n), b = t.insert(n + 100);
                    int                 value = -1;
                    wrong += !t.find(a, value) || value != n;
                    wrong += !t.erase(a, value) || value != n;
                    wrong += t.find(a, value);
                    if (i % 2) wrong += !t.erase(b, value) || value != n + 100;
                }
            });
        }
        for (auto& each : threads) each.join();
        CHECK(wrong == std::array<int, 4>{});
        CHECK(t.size() == 4 * 2500);
    }

    // A mistake of the caller's that must not become one of the store's. ThreadSanitizer sees whether it is a race.
    TEST_CASE("a block that is freed while another thread looks for it is found whole, or not at all") {
        struct place {
            std::uint64_t a, b, c;
        };
        tenure::detail::block_table<place> t;
        std::atomic<std::uint64_t>         newest{0};
        std::atomic<bool>                  over{false};
        std::size_t                        torn = 0, looks = 0;
        std::thread                        reader([&] {
            do {
                place      p{};
                bool const found = t.find(newest.load(std::memory_order_relaxed), p);
                torn += found && (p.b != p.a + 1 || p.c != p.a + 2);
                ++looks;
            } while (!over.load(std::memory_order_relaxed));
        });
        for (std::uint64_t i = 0; i < (TENURE_SANITIZED ? 20'000u : 500'000u); ++i) {
            std::uint64_t const id = t.insert({i, i + 1, i + 2});  // in the place that was just freed
            newest.store(id, std::memory_order_relaxed);
            place p{};
            if (!t.erase(id, p) || p.a != i) FAIL_CHECK(i);
        }
        over.store(true, std::memory_order_relaxed);
        reader.join();
        CHECK(torn == 0);
        CHECK(looks > 0);
        CHECK(t.size() == 0);
    }
}
