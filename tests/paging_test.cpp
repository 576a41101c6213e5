// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Batches that go out to the page file and come back.

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <fstream>
#include <memory_resource>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tenure/tenure.hpp>

#include "throws.hpp"

using tenure::batch_id;
using tenure::errc;
using tenure::handle;
using tenure::registry;
using tenure::residency;

namespace {

std::size_t resident() {
    std::ifstream in("/proc/self/statm");
    std::size_t   all = 0, here = 0;
    in >> all >> here;
    return here * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

constexpr std::size_t MiB = std::size_t{1} << 20;

/// A batch with a bit of everything, and what must be in it.
struct specimen {
    registry&                          r;
    batch_id                           id;
    std::vector<handle<std::uint64_t>> small;
    handle<std::pmr::vector<int>>      container;
    handle<std::uint64_t[]>            large;
    handle<std::vector<std::string>>   on_heap;

    specimen(registry& in, tenure::batch_options const& options, std::size_t large_bytes = 4 * MiB)
        : r(in), id(in.new_batch(options)) {
        auto const inside = r.enter(id);
        fill(large_bytes);
    }
    ~specimen() { r.end_batch(id); }
    specimen(specimen const&)            = delete;
    specimen& operator=(specimen const&) = delete;

    void fill(std::size_t large_bytes) {
        small.clear();
        for (std::uint64_t i = 0; i < 10'000; ++i) small.push_back(tenure::make<std::uint64_t>(i));
        large     = tenure::make<std::uint64_t[]>(large_bytes / 8);
        container = tenure::make<std::pmr::vector<int>>();
        on_heap   = tenure::make<std::vector<std::string>>(100, std::string(100, 'x'));
        for (int i = 0; i < 1000; ++i) container->push_back(i);
        for (std::size_t i = 0; i < large.size(); ++i) large[i] = i * 3;
    }
    bool whole() const {
        bool all = true;
        for (std::uint64_t i = 0; i < small.size(); ++i) all = all && *small[i] == i;
        for (std::size_t i = 0; i < large.size(); ++i) all = all && large[i] == i * 3;
        for (int i = 0; i < 1000; ++i) all = all && (*container)[static_cast<std::size_t>(i)] == i;
        for (auto const& s : *on_heap) all = all && s == std::string(100, 'x');
        return all;
    }
    std::size_t out() const { return r.usage(id).paged_out; }
};

}  // namespace

TEST_SUITE("paging") {
    TEST_CASE("a whole batch goes out, and comes back where it is touched") {
        registry    r;
        specimen    s(r, {.name = "model"}, 16 * MiB);
        auto const  before = resident();
        std::size_t kept   = r.usage(s.id).retained;
        r.page_out(s.id);
        CHECK(s.out() == kept);
        if (!TENURE_SANITIZED) CHECK(resident() + 15 * MiB < before);
        CHECK(s.whole());  // by handle, nobody inside
        {
            auto const inside = r.enter(s.id);
            CHECK(s.out() == 0);
            CHECK(s.whole());
            s.fill(MiB);
            CHECK(s.whole());
        }
        r.page_out(s.id);
        r.page_in(s.id);
        CHECK(s.out() == 0);
        CHECK(s.whole());
        r.page_out(s.id);
        r.end_batch(s.id);
        CHECK(!s.large.alive());
        CHECK(r.snapshot().paging.out == 0);
        CHECK(r.snapshot().paging.reserved == 0);
    }

    TEST_CASE("what did not change is not written again") {
        registry r;
        specimen s(r, {}, 8 * MiB);
        r.page_out(s.id);
        auto const first = r.snapshot().paging.written;
        CHECK(first >= 8 * MiB);
        r.page_in(s.id);
        CHECK(s.whole());
        r.page_out(s.id);
        CHECK(r.snapshot().paging.written == first);
        {
            auto const inside = r.enter(s.id);
            s.large[0]        = 0;
            s.large[600'000]  = 600'000 * 3;
        }
        r.page_out(s.id);
        CHECK(r.snapshot().paging.written <= first + 4 * 4096);
        CHECK(r.snapshot().paging.written >= first + 2 * 4096);
        CHECK(s.whole());
    }

    TEST_CASE("a batch that ends while out is not read") {
        registry                r;
        batch_id                id = r.new_batch();
        handle<std::uint64_t[]> big;
        {
            auto const inside = r.enter(id);
            big               = tenure::make<std::uint64_t[]>(4 * MiB);
        }
        r.page_out(id);
        ::rusage before{}, after{};
        ::getrusage(RUSAGE_SELF, &before);
        r.end_batch(id);
        ::getrusage(RUSAGE_SELF, &after);
        if (!TENURE_SANITIZED) CHECK(after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt < 100);
        CHECK(!big.alive());
    }

    TEST_CASE("who writes while it goes out waits, and loses nothing") {
        registry                r;
        batch_id                id = r.new_batch();
        handle<std::uint64_t[]> all;
        {
            auto const inside = r.enter(id);
            all               = tenure::make<std::uint64_t[]>(MiB);
        }
        std::uint64_t* const       p = all.get();
        std::atomic<bool>          stop{false};
        std::atomic<std::uint64_t> rounds{0};
        std::thread                writer([&] {
            while (!stop) {
                for (std::size_t i = 0; i < MiB; i += 512) ++p[i];
                ++rounds;
            }
        });
        while (rounds < 2) std::this_thread::yield();
        for (int i = 0; i < 100; ++i) r.page_out(id);
        stop = true;
        writer.join();
        bool right = true;
        for (std::size_t i = 0; i < MiB; ++i) right = right && p[i] == (i % 512 ? 0 : rounds.load());
        CHECK(right);
    }

    TEST_CASE("in use") {
        registry r;
        specimen s(r, {});
        {
            auto const inside = r.enter(s.id);
            check_throws(errc::batch_in_use, {"batch"}, [&] { r.page_out(s.id); });
        }
        batch_id const child = r.new_batch({}, s.id);
        check_throws(errc::batch_in_use, {"batch"}, [&] { r.page_out(s.id); });
        r.end_batch(child);
        r.page_out(s.id);
        check_throws(errc::not_pageable, {"batch"}, [&] { r.page_out(r.root()); });
        check_throws(errc::no_such_batch, {"batch"}, [&] { r.page_out(batch_id{12345678}); });
        r.end_batch(s.id);
        check_throws(errc::batch_ended, {"batch"}, [&] { r.page_out(s.id); });
        tenure::batch_scope open(r);
        check_throws(errc::batch_in_use, {"batch"}, [&] { r.page_out(open.id()); });
    }

    TEST_CASE("paged when left") {
        registry r;
        specimen s(r, {.residency = residency::paged_when_left});
        CHECK(s.out() > 0);
        {
            auto const inside = r.enter(s.id);
            CHECK(s.out() == 0);
            CHECK(s.whole());
        }
        CHECK(s.out() > 0);
        batch_id left{};
        {
            tenure::batch_scope guarded(r, {.residency = residency::paged_when_left});
            guarded.make<int[]>(1'000'000);
            CHECK(guarded.usage().paged_out == 0);
            left = guarded.detach();
        }
        CHECK(r.usage(left).paged_out > 0);
        r.end_batch(left);
    }

    TEST_CASE("what others own in its memory stays theirs") {
        registry       r;
        specimen       s(r, {});
        batch_id const other = r.new_batch();
        auto const     kept  = s.small[77];
        r.page_out(s.id);
        r.transfer_ownership(kept, other);     // a small object, out of memory that is out
        r.transfer_ownership(s.large, other);  // and a run of its own
        auto const lasting = s.large;
        CHECK(*kept == 77);
        SUBCASE("the batch ends while out") { r.end_batch(s.id); }
        SUBCASE("it goes out once more") {
            r.page_out(s.id);
            r.page_out(other);
            r.end_batch(s.id);
        }
        SUBCASE("the other one goes out, too") {
            r.page_out(other);
            r.end_batch(s.id);
        }
        CHECK(*kept == 77);
        bool all = true;
        for (std::size_t i = 0; i < lasting.size(); ++i) all = all && lasting[i] == i * 3;
        CHECK(all);
        CHECK(!s.small[78].alive());
        r.end_batch(other);
        CHECK(r.snapshot().paging.reserved == 0);
    }

    TEST_CASE("a limit: idle batches go out, least recently entered first") {
        registry             r({.memory_limit = {.high = 64 * MiB, .low = 48 * MiB}});
        std::deque<specimen> all;
        for (int i = 0; i < 20; ++i)
            all.emplace_back(r, tenure::batch_options{.residency = residency::automatic}, 8 * MiB);
        for (specimen const& s : all) CHECK(s.whole());
        CHECK(all[0].out() > 0);
        CHECK(all[19].out() == 0);
        CHECK(r.usage().held <= 64 * MiB + r.snapshot().paging.out);
    }

    TEST_CASE("nothing can go out") {
        registry            r({.memory_limit = {.high = 32 * MiB}});
        specimen            s(r, {.name = "held in memory"}, 24 * MiB);
        tenure::batch_scope b(r, {.name = "wants"});
        try {
            b.make<char[]>(16 * MiB);
            FAIL("there is no room");
        } catch (tenure::error const& e) {
            CHECK(e.code() == errc::memory_full);
            CHECK(std::string(e.what()).find("held in memory") != std::string::npos);
        }
        CHECK(s.whole());
        b.make<char[]>(2 * MiB);
    }

    TEST_CASE("a debugging mode: who touches what is out faults") {
        registry r({.access = tenure::paged_access::faults});
        specimen s(r, {});
        r.page_out(s.id);
        ::pid_t const child = ::fork();
        if (child == 0) {
            ::signal(SIGSEGV, SIG_DFL);
            ::_exit(*s.small[5] == 5 ? 0 : 1);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        CHECK((WIFSIGNALED(status) || WEXITSTATUS(status) > 1));
        auto const inside = r.enter(s.id);
        CHECK(s.whole());
    }
}
