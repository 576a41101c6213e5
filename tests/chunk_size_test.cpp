// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/chunk_size.hpp>

#include "random/dice.hpp"

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using tenure::chunk_size;

/// Work that takes so long, by a virtual clock.
struct work {
    nanoseconds a_chunk, an_item;  ///< to hand out
    nanoseconds working;           ///< an item
    double      noise = 0;         ///< times, up to so much more or less
    dice        random{1};

    nanoseconds about(double ns) {
        double const by = 1 + noise * (static_cast<double>(random.below(2001)) / 1000 - 1);
        return nanoseconds(static_cast<long long>(ns * by));
    }
    void step(chunk_size& c) {
        std::size_t const n     = c.items();
        auto const        items = static_cast<double>(n);
        c.note(n, about(static_cast<double>(a_chunk.count()) + items * static_cast<double>(an_item.count())),
               about(items * static_cast<double>(working.count())));
    }
    /// Returns after how many steps the size is within a factor of two of `right`, and stays there.
    std::size_t steps_to(chunk_size& c, double right) {
        std::size_t last_wrong = 0;
        for (std::size_t i = 1; i <= 200; ++i) {
            step(c);
            auto const n = static_cast<double>(c.items());
            if (n > 2 * right || n < right / 2) last_wrong = i;
        }
        return last_wrong + 1;
    }
};

}  // namespace

TEST_SUITE("chunk_size") {
    TEST_CASE("begins as it is told, and has its site") {
        chunk_size const c("scan", 100);
        CHECK(c.items() == 100);
        CHECK(c.site() == "scan");
        CHECK(chunk_size("none", 0).items() == 1);
        CHECK(chunk_size("much", ~std::size_t{0}).items() == std::size_t{1} << 24);
        CHECK(chunk_size("own", 5, {.least = 10, .most = 20}).items() == 10);
        CHECK(chunk_size("own", 50, {.least = 10, .most = 20}).items() == 20);
    }

    TEST_CASE("comes to where handing out takes a twentieth of the work, within four steps") {
        for (std::size_t const first : {1u, 100u, 2000u, 100'000u, 10'000'000u}) {
            CAPTURE(first);
            work       w{.a_chunk = 1ms, .an_item = 0ns, .working = 10us};
            chunk_size c("c", first);
            CHECK(w.steps_to(c, 2000) <= 4);
        }
        work       w{.a_chunk = 1ms, .an_item = 0ns, .working = 10us};
        chunk_size tenth("tenth", 1, {.overhead = 0.1});
        CHECK(w.steps_to(tenth, 1000) <= 4);
    }

    TEST_CASE("does not grow for what larger chunks do not save") {
        work       w{.a_chunk = 1ms, .an_item = 5us, .working = 10us};  // half of the work, whatever the size
        chunk_size c("c", 10);
        CHECK(w.steps_to(c, 2000) <= 6);
        work       only{.a_chunk = 0ns, .an_item = 5us, .working = 10us};
        chunk_size d("d", 1000);
        for (int i = 0; i < 20; ++i) only.step(d);
        CHECK(d.items() < 10'000);
    }

    TEST_CASE("stays put while times vary, and one that is odd does not move it") {
        work       w{.a_chunk = 1ms, .an_item = 100ns, .working = 10us, .noise = 0.3};
        chunk_size c("c", 1);
        CHECK(w.steps_to(c, 2000) <= 20);
        std::size_t changes = 0, last = c.items();
        for (int i = 0; i < 10'000; ++i) {
            w.step(c);
            if (i % 20 == 0) c.note(c.items(), 10s, 1us);
            if (c.items() != last) last = c.items(), ++changes;
        }
        CHECK(changes <= 2);
    }

    TEST_CASE("follows when the work changes") {
        work       w{.a_chunk = 1ms, .an_item = 0ns, .working = 10us};
        chunk_size c("c", 2000);
        w.steps_to(c, 2000);
        w.working = 1us;
        CHECK(w.steps_to(c, 20'000) <= 15);
        w.a_chunk = 10us;
        CHECK(w.steps_to(c, 200) <= 20);
    }

    TEST_CASE("takes whatever times it is told") {
        chunk_size c("c", 100, {.least = 2, .most = 5000});
        c.note(0, 1s, 1s);
        CHECK(c.items() == 100);
        for (nanoseconds const out : {nanoseconds::min(), -1ns, 0ns, 1ns, nanoseconds::max()})
            for (nanoseconds const in : {nanoseconds::min(), -1ns, 0ns, 1ns, nanoseconds::max()})
                for (std::size_t const n : {std::size_t{1}, std::size_t{100}, ~std::size_t{0}}) {
                    c.note(n, out, in);
                    CHECK(c.items() >= 2);
                    CHECK(c.items() <= 5000);
                }
    }

    TEST_CASE("threads note together") {
        chunk_size               c("c", 1);
        std::vector<std::thread> all;
        for (int t = 0; t < 4; ++t)
            all.emplace_back([&] {
                work w{.a_chunk = 1ms, .an_item = 0ns, .working = 10us};
                for (int i = 0; i < 500; ++i) w.step(c);
            });
        for (std::thread& t : all) t.join();
        CHECK(c.items() > 1000);
        CHECK(c.items() < 4000);
    }
}
