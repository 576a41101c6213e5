// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Blocks in a mapped scratch file.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <doctest/doctest.h>

#include <tenure/store/any_store.hpp>
#include <tenure/store/conformance.hpp>
#include <tenure/store/mmap.hpp>

#include "temporary.hpp"

namespace {

using tenure::block;
using tenure::mmap_store;

constexpr std::size_t kib = 1024, mib = 1024 * kib;

bool aligned(std::byte const* p, std::size_t a) { return reinterpret_cast<std::uintptr_t>(p) % a == 0; }

}  // namespace

TEST_SUITE("scratch mmap_store") {
    TEST_CASE("keeps the contract") {
        constexpr tenure::conformance_options less{
            .max_bytes = 1 << 20, .free_count = 2'000, .threads = 4, .steps = 300};
        temporary_directory here;
        auto const          r = tenure::check_store([&] { return std::make_shared<mmap_store>(here.path()); },
                                           TENURE_SANITIZED ? less : tenure::conformance_options{});
        INFO(r.to_text());
        CHECK(r.ok());
        auto const limited = tenure::check_store(
            [&] { return std::make_shared<mmap_store>(here.path(), tenure::mmap_options{.capacity = 1 << 20}); },
            TENURE_SANITIZED ? less : tenure::conformance_options{});
        INFO(limited.to_text());
        CHECK(limited.ok());
        CHECK(here.empty());
    }

    TEST_CASE("alignments, up to huge pages and beyond") {
        temporary_directory here;
        mmap_store          s(here.path());
        for (std::size_t a = 1; a <= 1024 * mib; a *= 2) {
            for (std::size_t const n : {0u, 1u, 5000u, 100'000u}) {
                block const b = s.allocate(n, a).value();
                CHECK(aligned(s.address(b).value(), a));
                std::memset(s.address(b).value(), 1, n);
            }
        }
        CHECK(s.allocate(1, 2048 * mib).error() == tenure::errc::bad_alignment);
        for (std::size_t const n : {2 * mib, 6 * mib, 64 * mib}) {  // as slabs are taken
            block const b = s.allocate(n, 2 * mib).value();
            std::byte*  p = s.address(b).value();
            CHECK(aligned(p, 2 * mib));
            p[0] = p[n - 1] = std::byte{7};
            std::byte last[1];
            CHECK(s.read(b, n - 1, last).has_value());
            CHECK(last[0] == std::byte{7});
        }
    }

    TEST_CASE("few bytes share pages") {
        temporary_directory here;
        mmap_store          s(here.path());
        for (int i = 0; i < 10'000; ++i) CHECK(s.allocate(20, 4).has_value());
        CHECK(s.bytes_on_disk() < 2 * mib);  // in pages of their own: 40
    }

    TEST_CASE("freed space goes back to the file system") {
        temporary_directory here;
        mmap_store          s(here.path(), {.keep_warm = 1 * mib});
        std::vector<block>  all;
        for (std::size_t i = 0; i < 5'000; ++i) {
            all.push_back(s.allocate(i % 10 == 0 ? 70 * kib : 4 * kib, 1).value());
            *s.address(all.back()).value() = std::byte{1};
        }
        if (s.bytes_on_disk() == 0) {
            MESSAGE("skipped: the file system does not count blocks");
            return;
        }
        CHECK(s.bytes_on_disk() >= 50 * mib);
        std::ranges::shuffle(all, std::mt19937(5));
        CHECK(s.deallocate(all).has_value());
        CHECK(s.bytes_on_disk() <= 2 * mib);
        s.trim();
        CHECK(s.bytes_on_disk() <= 200 * kib);
        CHECK(s.usage() == tenure::store_usage{});
    }

    TEST_CASE("larger than what was there before") {
        temporary_directory here;
        mmap_store          s(here.path());
        block const         b = s.allocate(3 * 1024 * mib, 4096).value();
        std::byte* const    p = s.address(b).value();
        for (std::size_t at : {std::size_t{0}, 1024 * mib, 3 * 1024 * mib - 1}) p[at] = std::byte{9};
        CHECK(s.address(b).value() == p);
        CHECK(s.deallocate({{b}}).has_value());
    }

    TEST_CASE("a full disk is store_full at allocate, and what was allocated can be written") {
        small_disk disk(8 * mib);
        if (!disk) {
            MESSAGE("skipped: this user may not mount a small file system");
            return;
        }
        mmap_store s(disk.path());
        CHECK(s.on_tmpfs());
        CHECK(s.describe().find("tmpfs") != std::string::npos);
        std::vector<block> all;
        std::size_t        held = 0;
        for (std::size_t i = 0;; ++i) {
            std::size_t const n = i % 20 == 0 ? 100 * kib : 3000;
            auto const        b = s.allocate(n, 1);
            if (!b) {
                CHECK(b.error() == tenure::errc::store_full);
                break;
            }
            held += n;
            all.push_back(*b);
        }
        CHECK(held > 6 * mib);
        CHECK(s.usage().bytes == held);
        for (block const& b : all) std::memset(s.address(b).value(), 1, b.bytes);  // no SIGBUS
        CHECK(s.allocate(100 * kib, 1).error() == tenure::errc::store_full);
        CHECK(s.deallocate(all).has_value());
        CHECK(s.allocate(7 * mib, 1).has_value());
    }

    TEST_CASE("a directory that will not do is named") {
        temporary_directory here;
        std::string const   missing = (here.path() / "missing").string();
        CHECK_THROWS_WITH_AS(mmap_store{missing},
                             doctest::Contains((missing + ": there is no such directory").c_str()), tenure::error);
        std::ofstream(here.path() / "file") << "x";
        CHECK_THROWS_WITH_AS(mmap_store{here.path() / "file"}, doctest::Contains("not a directory"), tenure::error);
    }

    TEST_CASE("nothing is left when the process is killed") {
        temporary_directory here;
        ::pid_t const       child = ::fork();
        if (child == 0) {
            mmap_store  s(here.path());
            block const b = s.allocate(10 * mib, 1).value();
            std::memset(s.address(b).value(), 1, b.bytes);
            ::kill(::getpid(), SIGKILL);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status));
        CHECK(here.empty());
    }

    TEST_CASE("a forked child's copy of the store frees nothing of its parent's") {
        temporary_directory here;
        auto                s = std::make_unique<mmap_store>(here.path(), tenure::mmap_options{.keep_warm = 0});
        block const         b = s->allocate(1 * mib, 1).value();
        std::memset(s->address(b).value(), 0x5a, b.bytes);
        ::pid_t const child = ::fork();
        if (child == 0) {
            s.reset();
            ::_exit(0);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CHECK(status == 0);
        std::byte const* const p = s->address(b).value();
        CHECK(std::all_of(p, p + b.bytes, [](std::byte x) { return x == std::byte{0x5a}; }));
    }

    TEST_CASE("100,000 blocks of 4 KiB against a file each") {
        using clock = std::chrono::steady_clock;
        temporary_directory here;
        constexpr int       n = TENURE_SANITIZED ? 2'000 : 100'000;
        mmap_store          s(here.path());
        double              best = 1e9;
        for (int round = 0; round < 3; ++round) {
            auto const         start = clock::now();
            std::vector<block> all;
            for (int i = 0; i < n; ++i) {
                all.push_back(s.allocate(4096, 1).value());
                *s.address(all.back()).value() = std::byte{1};
            }
            CHECK(s.deallocate(all).has_value());
            best = std::min(best, std::chrono::duration<double, std::micro>(clock::now() - start).count() / n);
        }
        MESSAGE("a block: " << best << " us");
        CHECK(s.usage().blocks == 0);
    }

    TEST_CASE("threads, with frees of others' blocks") {
        temporary_directory             here;
        mmap_store                      s(here.path(), {.keep_warm = 1 * mib});
        std::atomic<std::uint64_t>      wrong = 0;
        std::vector<std::thread>        threads;
        std::vector<std::vector<block>> handed(4);
        for (unsigned t = 0; t < 4; ++t)
            threads.emplace_back([&, t] {
                std::mt19937 dice(t);
                for (int i = 0; i < (TENURE_SANITIZED ? 200 : 3000); ++i) {
                    auto const b = s.allocate(1 + dice() % (dice() % 8 ? 5000 : 200'000), 1);
                    if (!b) {
                        ++wrong;
                        continue;
                    }
                    std::byte* const p = s.address(*b).value();
                    std::memset(p, static_cast<int>(t), b->bytes);
                    if (dice() % 2) {
                        handed[t].push_back(*b);
                    } else {
                        if (p[b->bytes - 1] != static_cast<std::byte>(t)) ++wrong;
                        if (!s.deallocate({&*b, 1})) ++wrong;
                    }
                }
            });
        for (auto& t : threads) t.join();
        threads.clear();
        for (unsigned t = 0; t < 4; ++t)
            threads.emplace_back([&, t] {
                auto const& others = handed[(t + 1) % 4];
                for (block const& b : others)
                    if (*s.address(b).value() != static_cast<std::byte>((t + 1) % 4)) ++wrong;
                if (!s.deallocate(others)) ++wrong;
            });
        for (auto& t : threads) t.join();
        CHECK(wrong == 0);
        CHECK(s.usage() == tenure::store_usage{});
    }
}
