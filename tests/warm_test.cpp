// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// registry::warm and registry_options::warm: memory that is there before it is needed. What is counted here are the
// page faults of a request; time plays no part.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <tenure/detail/base/available_memory.hpp>
#include <tenure/store/mmap.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "temporary.hpp"
#include "throws.hpp"

namespace {

using tenure::batch_scope;
using tenure::errc;
using tenure::registry;

constexpr std::size_t MiB = std::size_t{1} << 20;

struct object {
    explicit object(std::uint64_t n) noexcept : words{n} {}
    std::uint64_t words[8];
};

/// One large request: objects of `bytes` in all, which it writes.
void serve(registry& r, std::size_t bytes) {
    batch_scope b(r);
    for (std::size_t i = 0; i < bytes / sizeof(object); ++i) b.make<object>(i);
}

/// What `f` faults in on this thread, in pages.
template <class F>
long faults_of(F f) {
    rusage before{}, after{};
    REQUIRE(::getrusage(RUSAGE_THREAD, &before) == 0);
    f();
    REQUIRE(::getrusage(RUSAGE_THREAD, &after) == 0);
    return after.ru_minflt - before.ru_minflt;
}

/// The most pages that a request on warm memory may fault in, for what is beside its objects: records, stocks,
/// code; the shadow memory of AddressSanitizer. That of ThreadSanitizer is larger than the objects, and is not
/// warm.
constexpr long few = TENURE_TSAN ? 1'000'000 : TENURE_SANITIZED ? 2'000 : 40;

/// As a std::stop_token, but requested after it was looked at a number of times.
struct stops_after {
    int mutable left;

    bool stop_requested() const noexcept { return left-- <= 0; }
};

}  // namespace

TEST_SUITE("warm") {
    TEST_CASE("a first request on warm memory faults no more than a later one") {
        registry          r;
        accounting const  books(r);
        std::size_t const bytes = 100 * MiB;
        CHECK(r.warm(bytes + bytes / 16) >= bytes);
        CHECK(faults_of([&] { serve(r, bytes); }) <= few);
        CHECK(faults_of([&] { serve(r, bytes); }) <= few);
    }

    TEST_CASE("a large object lies on warm memory, too") {
        registry         r;
        accounting const books(r);
        CHECK(r.warm(64 * MiB) == 64 * MiB);
        batch_scope b(r);
        auto const  all = b.make_for_overwrite<std::byte[]>(60 * MiB);
        CHECK(faults_of([&] { std::ranges::fill(all.span(), std::byte{1}); }) <= few);
    }

    TEST_CASE("what is ready is counted, and enough is enough") {
        registry         r;
        accounting const books(r);
        CHECK(r.usage().cached == 0);
        CHECK(r.warm(0) == 0);
        CHECK(r.usage().cached == 0);
        CHECK(r.warm(10 * MiB) == 10 * MiB);
        CHECK(r.usage().cached == 10 * MiB);
        CHECK(r.usage().held == 0);
        CHECK(r.warm(10 * MiB) == 0);
        CHECK(*r.try_warm(5 * MiB) == 0);
        CHECK(r.warm(12 * MiB) == 2 * MiB);
        CHECK(r.warm(12 * MiB + 1) == 2 * MiB);  // whole huge pages
        {
            batch_scope b(r);
            b.make_for_overwrite<std::byte[]>(8 * MiB);
            CHECK(r.usage().held == 8 * MiB);
            CHECK(r.usage().cached == 6 * MiB);
            CHECK(r.warm(12 * MiB) == 6 * MiB);
            CHECK(r.usage().held == 8 * MiB);
        }
        CHECK(r.usage().cached == 20 * MiB);
        CHECK(r.trim() == 20 * MiB);
        CHECK(r.usage().cached == 0);
        CHECK(r.warm(10 * MiB) == 10 * MiB);  // the same addresses
    }

    TEST_CASE("memory in pieces gets warm, too") {
        registry         r;
        accounting const books(r);
        {
            std::vector<tenure::handle<std::byte[]>> all;
            batch_scope                              b(r);
            for (int i = 0; i < 300; ++i) all.push_back(b.make_for_overwrite<std::byte[]>(70'000));
            for (std::size_t i = 0; i < all.size(); i += 2) b.free(all[i]);
            r.trim();  // what lies between two objects stays; the rest of the region is cold
            std::size_t const before = r.usage().cached;
            CHECK(r.warm(before + 30 * MiB) >= 30 * MiB);
            CHECK(r.usage().cached >= before + 30 * MiB);
            r.trim();
        }
        r.trim();
        std::size_t const all = r.warm(200 * MiB);
        CHECK(all >= 200 * MiB);
        CHECK(r.usage().cached == all);
    }

    TEST_CASE("decay leaves it until trim() is called") {
        using namespace std::chrono_literals;
        registry         r({.decay = 1ns});
        accounting const books(r);
        auto const       go_on = [&] {
            for (int i = 0; i < 50; ++i) {
                std::this_thread::sleep_for(5ms);  // a tick of the coarse clock
                batch_scope b(r);
                b.make_for_overwrite<std::byte[]>(3 * MiB);
            }
        };
        r.warm(20 * MiB);
        { batch_scope(r).make<std::byte[]>(40 * MiB); }
        go_on();
        CHECK(r.usage().held + r.usage().cached >= 20 * MiB);
        CHECK(r.usage().held + r.usage().cached <= 30 * MiB);
        r.trim();
        go_on();
        CHECK(r.usage().cached <= 8 * MiB);
    }

    TEST_CASE("stops when asked to, and goes on later") {
        registry         r;
        accounting const books(r);
        CHECK(r.warm(100 * MiB, stops_after{0}) == 0);
        CHECK(r.usage().cached == 0);
        CHECK(r.warm(100 * MiB, stops_after{2}) == 64 * MiB);
        CHECK(r.usage().cached == 64 * MiB);
        std::stop_source stop;
        stop.request_stop();
        CHECK(*r.try_warm(100 * MiB, stop.get_token()) == 0);
        CHECK(*r.try_warm(100 * MiB, std::stop_token{}) == 36 * MiB);
    }

    TEST_CASE("what the system does not have is refused before anything is done") {
        registry         r;
        accounting const books(r);
        for (std::size_t const bytes : {std::size_t{1} << 45, std::size_t{1} << 47, ~std::size_t{0}}) {
            CAPTURE(bytes);
            check_throws(errc::memory_full, {"warm", "leaves"}, [&] { r.warm(bytes); });
            CHECK(r.try_warm(bytes).error() == errc::memory_full);
        }
        CHECK(r.usage().cached == 0);
        CHECK(r.usage().mapped == 0);
        CHECK(tenure::detail::available_memory() > 0);
        CHECK(tenure::detail::available_memory() < std::size_t{1} << 45);
    }

    TEST_CASE("what control groups leave: the least of all above, without pages of files that nobody uses") {
        temporary_directory const where;
        auto const put = [&](char const* file, char const* text) { std::ofstream(where.path() / file) << text; };
        std::filesystem::create_directories(where.path() / "jobs/one");
        std::string const                  root = where.path().string();
        tenure::detail::cgroup_files const names{root.c_str(), "memory.max", "memory.current", "inactive_file "};
        auto const left = [&](std::string path) { return left_in_cgroup(names, path.data()); };
        CHECK(left("/jobs/one") == tenure::detail::any_amount);
        put("jobs/one/memory.max", "max\n");
        put("jobs/one/memory.current", "500\n");
        CHECK(left("/jobs/one") == tenure::detail::any_amount);
        put("jobs/memory.max", "1000\n");
        put("jobs/memory.current", "600\n");
        CHECK(left("/jobs/one") == 400);
        put("jobs/memory.stat", "anon 450\ninactive_file 100\nactive_file 50\n");
        CHECK(left("/jobs/one") == 500);
        put("jobs/one/memory.max", "600\n");
        CHECK(left("/jobs/one") == 100);
        CHECK(left("/jobs") == 500);
        CHECK(left("/") == tenure::detail::any_amount);
        put("memory.max", "10\n");
        put("memory.current", "11\n");
        CHECK(left("/jobs/one") == 0);
        CHECK(left("") == 0);
    }

    TEST_CASE("keeps within the registry's memory_limit") {
        registry         r({.memory_limit = {.high = 64 * MiB}});
        accounting const books(r);
        check_throws(errc::memory_full, {"warm 65.0 MiB", "memory_limit leaves 64.0 MiB"},
                     [&] { r.warm(65 * MiB); });
        batch_scope b(r);
        b.make_for_overwrite<std::byte[]>(16 * MiB);
        check_throws(errc::memory_full, {"memory_limit leaves 48.0 MiB"}, [&] { r.warm(49 * MiB); });
        CHECK(r.warm(48 * MiB) == 48 * MiB);
        CHECK(b.try_make<std::byte[]>(30 * MiB).has_value());
        CHECK_THROWS_AS(registry({.memory_limit = {.high = 64 * MiB}, .warm = 65 * MiB}), tenure::error);
        CHECK_THROWS_AS(registry({.warm = ~std::size_t{0}}), tenure::error);
    }

    TEST_CASE("in the background from the start") {
        registry         r({.warm = 80 * MiB});
        accounting const books(r);
        r.drain();
        CHECK(r.usage().cached == 80 * MiB);
        CHECK(r.snapshot().background.batches == 0);
        CHECK(faults_of([&] { serve(r, 70 * MiB); }) <= few);
        CHECK(r.warm(60 * MiB) == 0);
        tenure::batch_options const later{.reclaim = tenure::reclamation::background};
        for (int i = 0; i < 100; ++i)
            batch_scope(r, later).make<std::vector<int>>(std::size_t{100});  // its thread goes on
        r.drain();
    }

    TEST_CASE("in the background: a registry that goes does not wait for it") {
        for (int i = 0; i < 20; ++i) {
            auto r = std::make_unique<registry>(tenure::registry_options{.warm = 512 * MiB});
            if (i % 2) serve(*r, 3 * MiB);
            if (i % 3) std::this_thread::sleep_for(std::chrono::milliseconds(i));
        }
    }

    TEST_CASE("in the background: what waits for its destructors comes first") {
        registry                    r({.warm = 512 * MiB});
        accounting const            books(r);
        std::atomic<bool>           ended{false};
        tenure::batch_options const later{.reclaim = tenure::reclamation::background};
        {
            batch_scope b(r, later);
            b.defer([&] {
                ended = true;
                ended.notify_all();
            });
        }
        ended.wait(false);
        r.drain();
        CHECK(r.usage().cached + r.usage().held >= 512 * MiB);
    }

    TEST_CASE("in the background: a forked child has neither the thread nor what it was at") {
        registry    r({.warm = 256 * MiB});
        pid_t const child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            r.drain();
            bool const ready = r.try_warm(16 * MiB).has_value();
            serve(r, 10 * MiB);
            std::_Exit(ready ? 0 : 1);
        }
        int status = -1;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CHECK(status == 0);
        r.drain();
        CHECK(r.usage().cached == 256 * MiB);
    }

    TEST_CASE("while others make, end and trim") {
        registry         r;
        accounting const books(r);
        {
            std::vector<std::jthread> all;
            for (int t = 0; t < 2; ++t)
                all.emplace_back([&] {
                    for (int i = 0; i < 20; ++i) serve(r, 5 * MiB);
                });
            all.emplace_back([&] {
                for (int i = 0; i < 20; ++i) r.warm(40 * MiB);
            });
            all.emplace_back([&](std::stop_token const& stop) { r.warm(1'000 * MiB, stop); });
            for (int i = 0; i < 20; ++i) {
                r.trim();
                std::this_thread::yield();
            }
        }
        r.trim();
        CHECK(r.usage().held == 0);
    }

    TEST_CASE("of a store with a file, within that") {
        temporary_directory const where;
        auto const                disk = std::make_shared<tenure::mmap_store>(where.path());
        registry                  r({.store = disk});
        accounting const          books(r);
        CHECK(r.warm(20 * MiB) == 20 * MiB);
        CHECK(r.usage().cached == 20 * MiB);
        batch_scope b(r);
        auto const  all  = b.make_for_overwrite<std::byte[]>(16 * MiB);
        long const  half = 16 * MiB / 4096 / 2;  // the system may have begun to write pages to the file
        CHECK(faults_of([&] { std::ranges::fill(all.span(), std::byte{1}); }) <= std::max(few, half));
    }
}
