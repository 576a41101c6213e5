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

#include "model_batch.hpp"
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

}  // namespace

TEST_SUITE("paging") {
    TEST_CASE("a whole batch goes out, and comes back where it is touched") {
        registry    r;
        model_batch s(r, {.name = "model"}, 16 * MiB);
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
        registry    r;
        model_batch s(r, {}, 8 * MiB);
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
        r.end_batch(id);
    }

    TEST_CASE("in use") {
        registry    r;
        model_batch s(r, {});
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
        registry    r;
        model_batch s(r, {.residency = residency::paged_when_left});
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
        model_batch    s(r, {});
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

    TEST_CASE("a debugging mode: who touches what is out faults") {
        registry    r({.access = tenure::paged_access::faults});
        model_batch s(r, {});
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

    TEST_CASE("memory that is handed on goes out with its new batch, any number of times") {
        registry       r;
        model_batch    s(r, {});
        batch_id const other = r.new_batch();
        auto const     large = s.large;
        auto const     right = [&](std::uint64_t seed) {
            bool all = true;
            for (std::size_t i = 0; i < large.size(); ++i) all = all && large[i] == i * 3 + seed;
            return all;
        };
        auto const change = [&](std::uint64_t seed) {
            for (std::size_t i = 0; i < large.size(); ++i) large[i] = i * 3 + seed;
        };
        r.page_out(s.id);
        r.transfer_ownership(large, other);
        CHECK(s.out() == 0);  // who changes what it owns has it in
        r.page_out(other);
        CHECK(right(0));
        SUBCASE("the first goes out again") { r.page_out(s.id); }
        SUBCASE("the first ends") { r.end_batch(s.id); }
        SUBCASE("the second goes out in between") {
            change(5);
            r.page_out(other);
            r.page_out(s.id);
            CHECK(right(5));
            change(0);
        }
        SUBCASE("it comes back to the first") {
            change(1);
            r.page_out(other);
            change(2);
            r.transfer_ownership(large, s.id);
            CHECK(right(2));
            r.page_out(s.id);
            CHECK(right(2));
            change(3);
            r.page_out(s.id);
            r.page_out(other);
            CHECK(right(3));
            r.transfer_ownership(large, other);
            change(0);
        }
        CHECK(right(0));
        change(7);
        for (std::uint64_t i = 8; i < 12; ++i) {
            r.page_out(other);
            CHECK(right(i - 1));
            change(i);
        }
        CHECK(right(11));
        r.end_batch(other);
        r.end_batch(s.id);
        CHECK(r.snapshot().paging.reserved == 0);
        CHECK(r.snapshot().paging.out == 0);
    }

    TEST_CASE("a large run that is freed while out is another batch's next") {
        registry    r;
        model_batch s(r, {}, 3 * MiB), other(r, {}, MiB, 100);
        void const* at = s.large.get();
        r.page_out(s.id);
        r.free(s.large);
        {
            auto const inside = r.enter(other.id);
            other.large       = tenure::make<std::uint64_t[]>(3 * MiB / 8);
            for (std::size_t i = 0; i < other.large.size(); ++i) other.large[i] = i * 3 + 100;
        }
        CHECK(other.large.get() == at);
        auto const rounds = [&] {
            for (int i = 0; i < 3; ++i) {
                r.page_out(other.id);
                CHECK(other.whole());
                r.page_out(s.id);
                CHECK(other.whole());
                other.write(200 + static_cast<std::uint64_t>(i));
            }
        };
        SUBCASE("the first goes on") { rounds(); }
        SUBCASE("the first ends") {
            r.end_batch(s.id);
            for (int i = 0; i < 3; ++i) {
                r.page_out(other.id);
                CHECK(other.whole());
                other.write(300 + static_cast<std::uint64_t>(i));
            }
        }
        for (std::size_t i = 0; i < s.small.size(); ++i)
            if (s.small[i].alive()) REQUIRE(*s.small[i] == i);
        r.end_batch(s.id);
        r.end_batch(other.id);
        CHECK(r.snapshot().paging.reserved == 0);
        CHECK(r.snapshot().paging.out == 0);
    }

    TEST_CASE("one kept object does not keep the rest from being dropped unread") {
        registry    r;
        model_batch s(r, {}, 16 * MiB);
        batch_id    other = r.new_batch();
        r.page_out(s.id);
        r.transfer_ownership(s.small[5], other);
        ::rusage before{}, after{};
        ::getrusage(RUSAGE_SELF, &before);
        r.end_batch(s.id);
        ::getrusage(RUSAGE_SELF, &after);
        if (!TENURE_SANITIZED) CHECK(after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt < 200);
        CHECK(*s.small[5] == 5);
        r.end_batch(other);
        CHECK(r.snapshot().paging.reserved == 0);
    }

    TEST_CASE("an early free costs the file no more than its own place") {
        registry                r;
        model_batch             s(r, {}, 8 * MiB);
        handle<std::uint64_t[]> more;
        {
            auto const inside = r.enter(s.id);
            more              = tenure::make<std::uint64_t[]>(MiB / 8);
        }
        r.page_out(s.id);
        auto const before = r.snapshot().paging;
        r.free(more);
        r.page_out(s.id);
        auto const after = r.snapshot().paging;
        CHECK(after.written - before.written <= 256 * 1024);
        CHECK(after.reserved <= before.reserved - MiB);
        CHECK(s.whole());
    }

    TEST_CASE("nothing is left of what was out") {
        registry                r;
        batch_id const          id = r.new_batch({.residency = residency::paged_when_left});
        handle<std::uint64_t[]> all;
        {
            auto const inside = r.enter(id);
            all               = tenure::make<std::uint64_t[]>(MiB / 8);
        }
        CHECK(r.usage(id).paged_out == MiB);
        r.free(all);
        CHECK(r.usage(id).retained == 0);
        CHECK(r.usage(id).paged_out == 0);
        CHECK(r.snapshot().paging.out == 0);
        CHECK(r.snapshot().paging.reserved == 0);
        r.end_batch(id);
    }

    TEST_CASE("cleanup::manual: what was retained goes out, too") {
        registry                r;
        batch_id                id{};
        handle<std::uint64_t[]> h;
        {
            tenure::batch_scope b(r, {.cleanup = tenure::cleanup::manual});
            id    = b.id();
            h     = b.make<std::uint64_t[]>(MiB / 8);
            h[77] = 77;
        }
        CHECK(r.status(id) == tenure::batch_status::retained);
        r.page_out(id);
        CHECK(r.usage(id).paged_out >= MiB);
        CHECK(h[77] == 77);
        r.page_in(id);
        CHECK(r.usage(id).paged_out == 0);
        r.page_out(id);
        r.destroy_batch(id);
        CHECK(r.status(id) == tenure::batch_status::done);
        CHECK(!h.alive());
        CHECK(r.snapshot().paging.out == 0);
        CHECK(r.snapshot().paging.reserved == 0);
    }

    TEST_CASE("destructors at the end of a batch that is out find their objects") {
        struct item {
            std::vector<int>* log;
            int               n;
            char              filling[3000]{};
            item(std::vector<int>& l, int i) : log(&l), n(i) {}
            item(item const&)            = delete;
            item& operator=(item const&) = delete;
            ~item() { log->push_back(n); }
        };
        for (auto const access : {tenure::paged_access::brings_back, tenure::paged_access::faults}) {
            std::vector<int> log;
            registry         r({.access = access});
            batch_id const   id    = r.new_batch();
            batch_id const   other = r.new_batch();
            handle<item>     some[2];
            {
                auto const inside = r.enter(id);
                for (int i = 0; i < 100; ++i) {
                    auto const h = tenure::make<item>(log, i);
                    if (i == 50 || i == 60) some[i == 60] = h;
                }
            }
            r.page_out(id);
            {
                auto const inside = r.enter(id);  // in the debugging mode they are touched just by being freed
                r.free(some[0]);
                r.transfer_ownership(some[1], other);
            }
            r.page_out(id);
            CHECK(log == std::vector<int>{50});
            r.end_batch(id);
            CHECK(log.size() == 99);
            for (std::size_t i = 2; i < log.size(); ++i) REQUIRE(log[i] < log[i - 1]);
            r.end_batch(other);
            CHECK(log.back() == 60);
            CHECK(r.snapshot().paging.reserved == 0);
        }
    }

    TEST_CASE("what a batch was given from another store stays in that store's memory") {
        auto const     store = std::make_shared<tenure::heap_store>();
        registry       r;
        batch_id const id   = r.new_batch();
        auto const     give = [&] {
            tenure::batch_scope b(r, {.store = store});
            auto const          h = b.make<int>(7);
            r.transfer_ownership(h, id);
            return h;
        };
        handle<int> const h = give();
        {
            auto const inside = r.enter(id);
            tenure::make<std::uint64_t[]>(MiB / 8);
        }
        r.page_out(id);
        CHECK(r.usage(id).retained == MiB + 65'536);
        CHECK(r.snapshot().paging.out == MiB);
        r.free(h);  // and with it the store's memory goes
        CHECK(store->usage().blocks == 0);
        CHECK(*give() == 7);
        r.page_out(id);
        r.end_batch(id);
        CHECK(r.snapshot().paging.reserved == 0);
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE("a registry closes while batches are out") {
        handle<std::uint64_t[]> h;
        {
            registry r({.on_leak = {}});
            for (int i = 0; i < 5; ++i) {
                batch_id const id = r.new_batch();
                {
                    auto const inside = r.enter(id);
                    h                 = tenure::make<std::uint64_t[]>(MiB / 8);
                    tenure::make<std::string>(std::size_t{1000}, 'x');
                }
                r.page_out(id);
            }
        }
        CHECK(!h.alive());
    }
}
