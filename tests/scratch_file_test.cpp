// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A file without a name as a pool of extents.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include <sys/resource.h>

#include <doctest/doctest.h>

#include <tenure/detail/space/scratch_file.hpp>

#include "temporary.hpp"
#include "throws.hpp"

namespace {

using tenure::detail::extent_in_file;
using tenure::detail::extent_pool;
using tenure::detail::free_kind;
using tenure::detail::scratch_file;

constexpr std::uint64_t kib = 1024, mib = 1024 * kib;

/// A random program against a plain list of what is out.
void check_pool(unsigned seed) {
    std::mt19937                dice(seed);
    extent_pool                 pool(4096 * 1024);
    std::vector<extent_in_file> out;
    for (int step = 0; step < 2000; ++step) {
        if (dice() % 2 || out.empty()) {
            REQUIRE(pool.prepare());
            std::uint64_t const bytes     = 4096 * (1 + dice() % 20);
            std::uint64_t const alignment = std::uint64_t{4096} << dice() % 5;
            extent_in_file      e;
            for (free_kind const k : {free_kind::warm, free_kind::cold})
                if (!e.bytes) e = pool.take(k, bytes, alignment);
            if (!e.bytes) continue;
            CHECK(e.bytes == bytes);
            CHECK(e.offset % alignment == 0);
            CHECK(e.end() <= 4096 * 1024);
            for (extent_in_file const& o : out) CHECK((e.end() <= o.offset || o.end() <= e.offset));
            out.push_back(e);
        } else {
            std::size_t const i = dice() % out.size();
            pool.put(out[i], dice() % 2 ? free_kind::warm : free_kind::cold);
            out[i] = out.back();
            out.pop_back();
        }
        std::uint64_t held = 0;
        for (extent_in_file const& o : out) held += o.bytes;
        CHECK(held + pool.bytes(free_kind::warm) + pool.bytes(free_kind::cold) == 4096 * 1024);
    }
    for (extent_in_file const& o : out) pool.put(o, free_kind::cold);
    for (extent_in_file e; (e = pool.take_largest(free_kind::warm)).bytes;) pool.put(e, free_kind::cold);
    CHECK(pool.pieces() == 1);
}

}  // namespace

TEST_SUITE("free extents") {
    TEST_CASE("random programs") {
        for (unsigned seed = 0; seed < (TENURE_SANITIZED ? 3 : 10); ++seed) check_pool(seed);
    }

    TEST_CASE("a certain range") {
        extent_pool pool(1 << 20);
        REQUIRE(pool.prepare());
        CHECK(pool.take({8192, 4096}));
        REQUIRE(pool.prepare());
        CHECK_FALSE(pool.take({4096, 8192}));  // not all of it is free
        CHECK_FALSE(pool.take({8192, 4096}));
        CHECK_FALSE(pool.take({(1 << 20) - 4096, 8192}));
        CHECK(pool.take({0, 8192}));
        pool.put({8192, 4096}, free_kind::cold);
        pool.put({0, 8192}, free_kind::cold);
        CHECK(pool.pieces() == 1);
    }
}

TEST_SUITE("scratch file") {
    TEST_CASE("has no name") {
        temporary_directory here;
        scratch_file        f(here.path());
        CHECK(f.reserve(10 * kib).has_value());
        CHECK(here.empty());
        CHECK(f.directory() == here.path());
    }

    TEST_CASE("extents keep what is written, and do not overlap") {
        temporary_directory         here;
        scratch_file                f(here.path());
        std::vector<extent_in_file> all;
        for (std::uint64_t i = 0; i < 100; ++i) {
            auto const e = f.reserve(i * 1000).value();
            CHECK(e.bytes >= std::max<std::uint64_t>(i * 1000, 1));
            CHECK(e.bytes % 4096 == 0);
            std::vector<std::byte> const bytes(e.bytes, static_cast<std::byte>(i));
            REQUIRE(tenure::detail::write_whole(f.fd(), e.offset, bytes));
            all.push_back(e);
        }
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < all.size(); ++i) {
            sum += all[i].bytes;
            std::vector<std::byte> bytes(all[i].bytes);
            REQUIRE(tenure::detail::read_whole(f.fd(), all[i].offset, bytes));
            CHECK(std::ranges::all_of(bytes, [&](std::byte b) { return b == static_cast<std::byte>(i); }));
        }
        CHECK(f.bytes_reserved() == sum);
        f.release(all);
        CHECK(f.bytes_reserved() == 0);
    }

    TEST_CASE("alignment") {
        temporary_directory here;
        scratch_file        f(here.path());
        for (std::uint64_t a = 1; a <= 4 * mib; a *= 2) {
            CHECK(f.reserve(3 * kib, a).value().offset % a == 0);
            CHECK(f.reserve(2 * mib, a).value().offset % a == 0);
        }
    }

    TEST_CASE("what is reserved has its blocks, and freed ones go back") {
        temporary_directory here;
        scratch_file        f(here.path(), {.keep_warm = 1 * mib});
        auto const          a = f.reserve(20 * mib).value();
        auto const          b = f.reserve(20 * mib).value();
        if (f.bytes_on_disk() == 0) {
            MESSAGE("skipped: the file system does not count blocks");
            return;
        }
        CHECK(f.bytes_on_disk() >= 40 * mib);
        f.release(a);
        CHECK(f.bytes_on_disk() < 22 * mib);
        auto const small = f.reserve(100 * kib).value();
        f.release(small);
        f.release(b);
        CHECK(f.bytes_warm() <= 1 * mib);
        CHECK(f.bytes_on_disk() <= 2 * mib);
        f.trim(0);
        CHECK(f.bytes_warm() == 0);
        CHECK(f.bytes_on_disk() < 100 * kib);
    }

    TEST_CASE("of many that are freed no more than told keep their blocks") {
        temporary_directory         here;
        scratch_file                f(here.path(), {.keep_warm = 1 * mib});
        std::vector<extent_in_file> all;
        for (int i = 0; i < 100; ++i) all.push_back(f.reserve(64 * kib).value());
        for (std::size_t i = 0; i < all.size(); i += 2) {  // no two of them join
            f.release(all[i]);
            CHECK(f.bytes_warm() <= 1 * mib);
        }
    }

    TEST_CASE("freed one by one in any order: holes join") {
        temporary_directory         here;
        scratch_file                f(here.path(), {.keep_warm = 0});
        std::vector<extent_in_file> all;
        for (int i = 0; i < 500; ++i) all.push_back(f.reserve(4 * kib).value());
        std::shuffle(all.begin(), all.end(), std::mt19937(7));
        for (extent_in_file const& e : all) f.release(e);
        CHECK(f.bytes_on_disk() < 100 * kib);
        CHECK(f.reserve(500 * 4 * kib).value().offset == 0);
    }

    TEST_CASE("a full disk is store_full, and what is freed can be had again") {
        small_disk disk(4 * mib);
        if (!disk) {
            MESSAGE("skipped: this user may not mount a small file system");
            return;
        }
        scratch_file f(disk.path());
        CHECK(f.on_tmpfs());
        CHECK(f.reserve(5 * mib).error() == tenure::errc::store_full);
        CHECK(f.reserve(std::uint64_t{1} << 60).error() == tenure::errc::store_full);
        CHECK(f.bytes_on_disk() == 0);
        std::vector<extent_in_file> all;
        for (;;) {
            auto const e = f.reserve(64 * kib);
            if (!e) {
                CHECK(e.error() == tenure::errc::store_full);
                CHECK(e.error() == std::errc::no_space_on_device);
                break;
            }
            all.push_back(*e);
        }
        CHECK(all.size() == 64);
        f.release(std::span(all).first(32));
        CHECK(f.bytes_warm() == 2 * mib);       // ...
        CHECK(f.reserve(2 * mib).has_value());  // ... in one piece, and also
        f.release(std::span(all).subspan(32));
        for (std::size_t i = 32; i < 64; i += 2) CHECK(f.reserve(64 * kib).has_value());
        CHECK(f.reserve(1 * mib).has_value());
    }

    TEST_CASE("warm pieces that fit nobody are given up when the disk is full") {
        small_disk disk(4 * mib);
        if (!disk) {
            MESSAGE("skipped: this user may not mount a small file system");
            return;
        }
        scratch_file                f(disk.path());
        std::vector<extent_in_file> all;
        for (int i = 0; i < 64; ++i) all.push_back(f.reserve(64 * kib).value());
        for (std::size_t i = 0; i < 64; i += 2) f.release(all[i]);
        CHECK(f.reserve(1 * mib).has_value());  // 2 MiB are free, no two of them neighbours
        CHECK(f.reserve(2 * mib).error() == tenure::errc::store_full);
    }

    TEST_CASE("a limit on the size of files is store_full, and no signal") {
        temporary_directory here;
        scratch_file        f(here.path());
        ::rlimit            before{};
        REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
        ::rlimit limit = before;
        limit.rlim_cur = 1 << 20;
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
        auto const too_much = f.reserve(2 * mib);
        auto const enough   = f.reserve(512 * kib);
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
        CHECK(too_much.error() == tenure::errc::store_full);
        CHECK(enough.has_value());
    }

    TEST_CASE("a directory that will not do is named, with the reason") {
        temporary_directory here;
        auto const          fails = [](std::filesystem::path const& p, std::errc code, std::string_view why) {
            try {
                scratch_file f(p);
                FAIL_CHECK("nothing was thrown");
            } catch (tenure::error const& e) {
                std::string_view const what = e.what();
                CAPTURE(what);
                CHECK(e.code() == code);
                CHECK(what.find(p.string()) != what.npos);
                CHECK(what.find(why) != what.npos);
            }
        };
        fails(here.path() / "missing", std::errc::no_such_file_or_directory, "no such directory");
        std::ofstream(here.path() / "file") << "x";
        fails(here.path() / "file", std::errc::not_a_directory, "not a directory");
        small_disk disk(1 * mib);
        if (!disk || !disk.make_read_only()) {
            MESSAGE("skipped in part: this user may not mount a read-only file system");
            return;
        }
        fails(disk.path(), std::errc::read_only_file_system, "read-only");
    }

    TEST_CASE("threads") {
        temporary_directory      here;
        scratch_file             f(here.path(), {.keep_warm = 256 * kib});
        std::vector<std::thread> threads;
        std::atomic<int>         wrong = 0;
        for (unsigned t = 0; t < 4; ++t)
            threads.emplace_back([&, t] {
                std::mt19937                dice(t);
                std::vector<extent_in_file> mine;
                for (int i = 0; i < (TENURE_SANITIZED ? 300 : 2000); ++i) {
                    if (dice() % 2 || mine.empty()) {
                        auto const e = f.reserve(1 + dice() % 100'000);
                        if (!e) {
                            ++wrong;
                            continue;
                        }
                        std::uint64_t const mark = std::uint64_t{t} << 32 | e->offset;
                        (void)tenure::detail::write_whole(f.fd(), e->offset, std::as_bytes(std::span(&mark, 1)));
                        mine.push_back(*e);
                    } else {
                        extent_in_file const e    = mine.back();
                        std::uint64_t        mark = 0;
                        (void)tenure::detail::read_whole(f.fd(), e.offset,
                                                         std::as_writable_bytes(std::span(&mark, 1)));
                        if (mark != (std::uint64_t{t} << 32 | e.offset)) ++wrong;
                        mine.pop_back();
                        f.release(e);
                    }
                }
                f.release(mine);
            });
        for (auto& t : threads) t.join();
        CHECK(wrong == 0);
        CHECK(f.bytes_reserved() == 0);
    }
}
