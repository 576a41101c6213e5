// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// How a device's memory is cut into chunks when this process has no memory left for the books.

#include "failing.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <future>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/detail/base/os.hpp>
#include <tenure/device/store/device_chunks.hpp>

namespace {

using tenure::errc;
using tenure::result;

/// A driver that gives out numbers, and asks for the pool's lock whenever it takes one back.
struct numbers {
    using memory = std::size_t;

    std::set<memory>                        live;
    std::size_t                             next = 0, freed = 0, waited = 0;
    tenure::detail::device_chunks<numbers>* pool = nullptr;
    std::vector<std::jthread>               askers;

    result<memory> allocate(std::size_t, std::size_t) {
        failing::spared = true;
        live.insert(++next);
        failing::spared = false;
        return next;
    }
    result<void> free(memory m) noexcept {
        failing::spared = true;
        live.erase(m);
        ++freed;
        std::promise<void> asked;
        auto               answered = asked.get_future();
        askers.emplace_back([this, done = std::move(asked)]() mutable {
            failing::spared = true;
            static_cast<void>(pool->trim());  // as another thread that frees
            done.set_value();
        });
        // Without end, if the caller held the lock: that is the mistake, and the wait only ends the test.
        if (answered.wait_for(std::chrono::seconds(5)) != std::future_status::ready) ++waited;
        failing::spared = false;
        return {};
    }
};

}  // namespace

#if FAILING_ALLOCATIONS
TEST_CASE("memory that cannot be booked goes back to the driver, with no lock held") {
    numbers                                driver;
    tenure::detail::device_chunks<numbers> pool(driver, {});
    driver.pool          = &pool;
    std::size_t refusals = 0;
    for (long nth = 1; nth < 100; ++nth) {
        failing::arm(failing::allocation, nth);
        auto const r = pool.take(4096, 64);
        failing::disarm();
        if (r) {
            tenure::detail::device_chunks<numbers>::chunk* idle = nullptr;
            CHECK(driver.live.size() == 1);
            pool.put(std::array{*r}, idle);
            CHECK(pool.free_all(idle));
            break;
        }
        ++refusals;
        CHECK(r.error() == errc::memory_full);
        CHECK(driver.live.empty());
    }
    CHECK(refusals > 1);
    CHECK(driver.freed > 0);
    CHECK(driver.waited == 0);
}
#else
TEST_CASE("memory that cannot be booked") { MESSAGE("skipped: ThreadSanitizer's operator new cannot be replaced"); }
#endif
