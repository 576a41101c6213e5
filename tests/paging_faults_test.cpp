// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Page-outs that fail at any step, that take long, that are ended, entered or written to meanwhile.

#include "failing.hpp"
#include "slow_disk.hpp"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "model_batch.hpp"
#include "temporary.hpp"
#include "throws.hpp"

using tenure::batch_id;
using tenure::batch_scope;
using tenure::errc;
using tenure::handle;
using tenure::registry;
using tenure::residency;

namespace {

/// A batch in several pieces, for another has memory between them.
struct scattered {
    registry&                            r;
    batch_id                             id, between;
    std::vector<handle<std::uint64_t[]>> parts;

    scattered(registry& in, tenure::batch_options const& options, std::size_t n, std::size_t bytes)
        : r(in), id(in.new_batch(options)), between(in.new_batch()) {
        for (std::size_t i = 0; i < n; ++i) {
            {
                auto const inside = r.enter(id);
                parts.push_back(tenure::make<std::uint64_t[]>(bytes / 8));
            }
            auto const inside = r.enter(between);
            tenure::make<std::uint64_t[]>(100'000 / 8);
        }
        write(0);
    }
    ~scattered() {
        r.end_batch(id);
        r.end_batch(between);
    }
    scattered(scattered const&)            = delete;
    scattered& operator=(scattered const&) = delete;

    void write(std::uint64_t seed) const {
        for (auto const& p : parts)
            for (std::size_t i = 0; i < p.size(); ++i) p[i] = seed + i;
    }
    bool whole(std::uint64_t seed) const {
        bool all = true;
        for (auto const& p : parts)
            for (std::size_t i = 0; i < p.size(); ++i) all = all && p[i] == seed + i;
        return all;
    }
};

tenure::batch_info info_of(registry& r, batch_id id) {
    for (auto const& b : r.snapshot().batches)
        if (b.id == id) return b;
    return {};
}

/// As many mappings as there may be, but for `left`; gone with this.
class many_mappings {
public:
    explicit many_mappings(std::size_t left) {
        std::size_t there = 0, most = 0;
        std::ifstream("/proc/sys/vm/max_map_count") >> most;
        std::ifstream maps("/proc/self/maps");
        for (std::string line; std::getline(maps, line);) ++there;
        if (most < there + left || most > 1'000'000) return;
        pages_  = most - there - left;
        memory_ = ::mmap(nullptr, pages_ * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        REQUIRE(memory_ != MAP_FAILED);
        bool all = true;
        for (std::size_t i = 1; i < pages_; i += 2)
            all = ::mprotect(static_cast<char*>(memory_) + i * 4096, 4096, PROT_READ) == 0 && all;
        REQUIRE(all);
    }
    ~many_mappings() {
        if (memory_) ::munmap(memory_, pages_ * 4096);
    }
    many_mappings(many_mappings const&)            = delete;
    many_mappings& operator=(many_mappings const&) = delete;

    explicit operator bool() const { return memory_; }

private:
    void*       memory_ = nullptr;
    std::size_t pages_  = 0;
};

}  // namespace

TEST_SUITE("page-outs near vm.max_map_count") {
    TEST_CASE("leave mappings to threads, and say why") {
        registry              r;
        std::vector<batch_id> out;
        constexpr std::size_t batches = 600;
        for (std::size_t i = 0; i < batches; ++i) {
            batch_id const id     = out.emplace_back(r.new_batch({.name = "small"}));
            auto const     inside = r.enter(id);
            tenure::make<int>(1);
        }
        std::size_t refused = 0;
        {
            many_mappings const others(400);
            if (!others) {
                MESSAGE("skipped: vm.max_map_count is too large, or reached");
                return;
            }
            for (std::size_t i = 0; i < batches && refused < 5; i += 2)  // so that no two are one mapping
                if (std::error_code const why = try_page_out(r, out[i])) {
                    CHECK(why == errc::mappings_full);
                    CHECK(info_of(r, out[i]).page_error == errc::mappings_full);
                    ++refused;
                }
            CHECK(refused == 5);
            CHECK(r.snapshot().to_text().find("could not be paged out (mappings full") != std::string::npos);
            std::vector<std::thread> all;
            CHECK_NOTHROW([&] {
                for (int i = 0; i < 50; ++i) all.emplace_back([] {});
            }());
            for (auto& t : all) t.join();
        }
        for (std::size_t i = 0; i < batches; i += 2) {
            r.page_out(out[i]);
            CHECK(!info_of(r, out[i]).page_error);
        }
        for (batch_id const id : out) r.end_batch(id);
    }
}

TEST_SUITE("a page-out that fails") {
    void check_disk(registry & r, std::function<void(bool)> const& full) {
        accounting books(r);
        {
            scattered s(r, {.residency = residency::automatic}, 4, 2 * MiB);
            full(true);
            check_throws(errc::store_full, {"page out batch #", r.snapshot().paging.directory},
                         [&] { r.page_out(s.id); });
            CHECK(s.whole(0));
            CHECK(r.usage(s.id).paged_out == 0);
            CHECK(info_of(r, s.id).page_error == errc::store_full);
            auto const text = r.snapshot().to_text();
            CHECK(text.find("could not be paged out (store full") != std::string::npos);
            auto const before = r.snapshot().paging;
            CHECK(before.failures == 1);
            CHECK(before.reserved == 0);

            // Now by itself: once, and then no more until something changed.
            scattered more(r, {.residency = residency::automatic}, 4, 2 * MiB);
            for (int i = 0; i < 20; ++i) {
                batch_scope b(r);
                CHECK(b.try_make<char[]>(40 * MiB).error() == errc::memory_full);
            }
            CHECK(r.snapshot().paging.failures == 2);
            full(false);
            r.page_out(s.id);
            CHECK(r.usage(s.id).paged_out > 0);
            CHECK(!info_of(r, s.id).page_error);
            batch_scope b(r);
            b.make<char[]>(50 * MiB);
            CHECK(r.usage(more.id).paged_out > 0);
            CHECK(s.whole(0));
            CHECK(more.whole(0));
        }
        CHECK(r.snapshot().paging.reserved == 0);
    }

    TEST_CASE("the disk is full") {
        small_disk disk(21 * MiB);
        if (!disk) {
            MESSAGE("skipped: this user may not mount a file system");
            return;
        }
        registry          r({.memory_limit = {.high = 56 * MiB}, .page_file = disk.path().string()});
        std::string const other = disk.path().string() + "/other";
        check_disk(r, [&](bool full) {
            if (!full) return std::filesystem::resize_file(other, 0);
            auto* const f = std::fopen(other.c_str(), "w");
            REQUIRE(f);
            REQUIRE(::posix_fallocate(::fileno(f), 0, 16 * MiB) == 0);
            std::fclose(f);
        });
    }

    TEST_CASE("the process may not write such large files") {
        small_disk disk(64 * MiB);  // where nobody else frees anything meanwhile
        if (!disk) {
            MESSAGE("skipped: this user may not mount a file system");
            return;
        }
        registry r({.memory_limit = {.high = 56 * MiB}, .page_file = disk.path().string()});
        ::signal(SIGXFSZ, SIG_IGN);
        ::rlimit before{};
        ::getrlimit(RLIMIT_FSIZE, &before);
        check_disk(r, [&](bool full) {
            ::rlimit const now{full ? 5 * MiB : before.rlim_cur, before.rlim_max};
            REQUIRE(::setrlimit(RLIMIT_FSIZE, &now) == 0);
            if (!full) {  // no disk has more room than before, and so one who tried in vain is told by an end
                batch_id const id = r.new_batch();
                {
                    auto const inside = r.enter(id);
                    tenure::make<char[]>(100'000);
                }
                r.page_out(id);
                r.end_batch(id);
            }
        });
        ::signal(SIGXFSZ, SIG_DFL);
    }

    TEST_CASE("no such directory, or not to be written to") {
        for (std::string const& at : {std::string("/nonexistent/directory"), std::string("/proc/self/status")}) {
            registry    r({.page_file = at});
            model_batch s(r, {.residency = residency::paged_when_left}, MiB);
            CHECK(info_of(r, s.id).page_error);
            CHECK(r.snapshot().paging.failures == 1);
            for (int i = 0; i < 3; ++i) {
                auto const inside = r.enter(s.id);
            }
            CHECK(r.snapshot().paging.failures == 1);
            try {
                r.page_out(s.id);
                FAIL("it went out to where nothing is");
            } catch (tenure::error const& e) {
                CHECK(std::string(e.what()).find(at) != std::string::npos);
                bool const not_there = e.code() == std::errc::no_such_file_or_directory;
                CHECK((not_there || e.code() == std::errc::not_a_directory));
            }
            CHECK(s.whole());
            CHECK(r.end_with_report(s.id).page_error);
        }
        small_disk disk(MiB);
        if (!disk || !disk.make_read_only()) {
            MESSAGE("skipped in part: this user may not mount a file system");
            return;
        }
        registry    r({.page_file = disk.path().string()});
        model_batch s(r, {}, MiB);
        try {
            r.page_out(s.id);
            FAIL("it went out to where nothing may be written");
        } catch (tenure::error const& e) {
            CHECK(std::string(e.what()).find(disk.path().string()) != std::string::npos);
            CHECK(e.code() == std::errc::read_only_file_system);
        }
        CHECK(s.whole());
        CHECK(!r.end_with_report(s.id).store_error);
    }

    TEST_CASE("a write fails in the middle") {
        registry  r;
        scattered s(r, {}, 5, MiB);
        for (int const why : {ENOSPC, EIO}) {
            for (long n = 1;; ++n) {
                writes.why    = why;
                writes.failed = false;
                writes.left   = n;
                auto const ec = try_page_out(r, s.id);
                writes.left   = 0;
                if (!writes.failed) {
                    CHECK(!ec);
                    break;
                }
                CHECK(ec == (why == EIO ? std::error_code(EIO, std::system_category())
                                        : tenure::make_error_code(errc::store_full)));
                CHECK(s.whole(why == EIO && n > 0 ? 9 : 0));
                CHECK(r.usage(s.id).paged_out == 0);
            }
            CHECK(r.usage(s.id).paged_out > 0);
            s.write(9);
        }
        CHECK(s.whole(9));
        r.end_batch(s.id);
        CHECK(r.snapshot().paging.reserved == 0);
    }

    /// Failure at the 1st, 2nd, 3rd ... mapping or allocation of a life of page-outs.
    void fail_at_each(unsigned kinds) {
        long n = 1;
        for (;; n += TENURE_SANITIZED ? 3 : 1) {
            CAPTURE(n);
            failing::disarm();
            registry r({.memory_limit = {.high = 256 * MiB}});
            {
                accounting     books(r);
                scattered      s(r, {}, 3, MiB);
                model_batch    m(r, {}, MiB);
                batch_id const other = r.new_batch();
                auto const     small = m.small[77];
                auto const     part  = s.parts[1];
                auto const     check = [&](std::uint64_t seed) {
                    unsigned const on = failing::now.kinds.exchange(0);
                    REQUIRE(s.whole(seed));
                    REQUIRE(m.whole());
                    std::size_t out = 0;
                    for (auto const& b : r.snapshot().batches) out += b.usage.paged_out;
                    REQUIRE(out == r.snapshot().paging.out);
                    failing::now.kinds = on;
                };
                auto const attempt = [&](auto f) {
                    try {
                        f();
                    } catch (tenure::error const& e) {
                        if (e.code() != errc::memory_full) FAIL_CHECK(std::string(e.what()));
                        CHECK(failing::now.failed);
                    } catch (std::bad_alloc const&) {
                        CHECK(failing::now.failed);
                    }
                };
                failing::arm(kinds, n);
                attempt([&] { r.page_out(s.id); });
                check(0);
                attempt([&] { r.page_out(m.id); });
                check(0);
                s.write(1);
                attempt([&] { r.page_out(s.id); });
                check(1);
                attempt([&] { r.transfer_ownership(small, other); });
                attempt([&] { r.transfer_ownership(part, other); });
                attempt([&] { r.page_out(other); });
                check(1);
                s.write(2);
                attempt([&] { r.page_out(s.id); });
                attempt([&] { r.page_out(m.id); });
                attempt([&] { r.page_out(other); });
                check(2);
                attempt([&] { auto const inside = r.enter(s.id); });
                attempt([&] { r.page_in(m.id); });
                check(2);
                s.write(3);
                attempt([&] { r.page_out(s.id); });
                check(3);
                r.end_batch(s.id);
                auto const value = *small;
                r.end_batch(m.id);
                failing::disarm();
                CHECK(value == 77);
                if (small.owner() == other) CHECK(*small == 77);
                if (part.alive())
                    for (std::size_t i = 0; i < part.size(); ++i) REQUIRE(part[i] == 3 + i);
                r.end_batch(other);
            }
            CHECK(r.snapshot().paging.out == 0);
            CHECK(r.snapshot().paging.reserved == 0);
            CHECK(in_memory(r) == 0);
            if (!failing::now.failed) break;
        }
        MESSAGE((n - 1) << " places to fail");
        CHECK(n > 10);
    }

    TEST_CASE("a mapping fails, at each step") { fail_at_each(failing::mapping); }
#if FAILING_ALLOCATIONS
    TEST_CASE("an allocation fails, at each step") { fail_at_each(failing::allocation); }
#else
    TEST_CASE("an allocation fails") { MESSAGE("skipped: ThreadSanitizer's operator new cannot be replaced"); }
#endif
}

TEST_SUITE("while a batch goes out") {
    /// A thread that is just writing a batch to the file, until this goes.
    class going_out {
    public:
        going_out(registry& r, batch_id id) {
            writes.shut = true;
            thread_     = std::thread([this, &r, id] { result = try_page_out(r, id); });
            while (writes.waiting == 0) std::this_thread::yield();
        }
        ~going_out() { done(); }
        going_out(going_out const&)            = delete;
        going_out& operator=(going_out const&) = delete;

        void done() {
            writes.shut = false;
            if (thread_.joinable()) thread_.join();
        }
        std::error_code result;

    private:
        std::thread thread_;
    };

    TEST_CASE("all others go on") {
        registry    r({.memory_limit = {.high = 256 * MiB}});
        model_batch s(r, {.name = "slow"}, 8 * MiB);
        model_batch other(r, {}, MiB, 5);
        going_out   now(r, s.id);
        for (int i = 0; i < 100; ++i) {
            batch_scope b(r);
            b.make<char[]>(200'000);
            b.make<std::string>("a text that is longer than a string holds within");
            auto const inside = r.enter(other.id);
            r.free(other.small[static_cast<std::size_t>(i)]);
            other.small[static_cast<std::size_t>(i)] = tenure::make<std::uint64_t>();
            auto const seen                          = r.snapshot();
            CHECK(seen.to_text().find("slow") != std::string::npos);
            CHECK(r.usage(s.id).paged_out == 0);
            CHECK(r.status(s.id) == tenure::batch_status::active);
        }
        CHECK(s.whole());  // reading does not wait
        batch_id const large = r.new_batch();
        r.end_batch(large);
        CHECK(writes.waiting == 1);  // all of that went on while it was held up
        now.done();
        CHECK(!now.result);
        CHECK(s.whole());
    }

    TEST_CASE("who enters, writes, frees, gives or asks again waits") {
        registry                 r;
        model_batch              s(r, {}, MiB);
        batch_id const           other = r.new_batch();
        going_out                now(r, s.id);
        std::atomic<int>         through{0};
        std::vector<std::thread> some;
        auto const               start = [&](auto f) {
            some.emplace_back([&through, f] {
                f();
                ++through;
            });
        };
        start([&] {
            auto const inside = r.enter(s.id);
            tenure::make<int>(1);
        });
        start([&] { *s.small[9'999] = 9'999; });
        start([&] { s.large[1] = 3; });
        start([&] { r.free(s.small[1]); });
        start([&] { r.transfer_ownership(s.small[2], other); });
        start([&] { static_cast<void>(try_page_out(r, s.id)); });
        start([&] { r.page_in(s.id); });
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        CHECK(through == 0);
        CHECK(!r.snapshot().batches.empty());
        now.done();
        for (auto& t : some) t.join();
        CHECK(*s.small[2] == 2);
        CHECK(!s.small[1].alive());
        s.small.erase(s.small.begin() + 1);
        for (std::size_t i = 1; i < s.small.size(); ++i) REQUIRE(*s.small[i] == i + 1);
        r.end_batch(other);
        r.end_batch(s.id);
        CHECK(r.snapshot().paging.reserved == 0);
        CHECK(r.snapshot().paging.out == 0);
    }

    TEST_CASE("its end is its end, once it is out") {
        registry r;
        {
            accounting  books(r);
            model_batch s(r, {}, MiB);
            going_out   now(r, s.id);
            r.end_batch(s.id);
            CHECK(r.status(s.id) == tenure::batch_status::ending);
            CHECK(s.large.alive());
            now.done();
            CHECK(!now.result);
            CHECK(r.status(s.id) == tenure::batch_status::done);
            CHECK(!s.large.alive());
        }
        CHECK(r.snapshot().paging.out == 0);
        CHECK(r.snapshot().paging.reserved == 0);
        CHECK(in_memory(r) == 0);
    }
}
