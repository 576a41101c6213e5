// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Blocks that outlive the process.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <tenure/store/any_store.hpp>
#include <tenure/store/conformance.hpp>
#include <tenure/store/durable_mmap.hpp>

#include "temporary.hpp"
#include "throws.hpp"

namespace {

using tenure::block;
using tenure::durable_mmap_store;
using tenure::errc;
using tenure::mmap_store;
using store = std::shared_ptr<durable_mmap_store>;
using bytes = std::vector<std::byte>;

constexpr std::size_t kib = 1024, mib = 1024 * kib;

bytes pattern(std::uint64_t seed, std::size_t n) {
    std::mt19937_64 dice(seed);
    bytes           all(n);
    for (auto& b : all) b = static_cast<std::byte>(dice());
    return all;
}

block keep(store const& s, std::string_view name, bytes const& contents) {
    block const b = s->allocate(contents.size(), 1).value();
    REQUIRE(s->write(b, 0, contents).has_value());
    REQUIRE(s->keep(b, name).has_value());
    return b;
}

bytes contents(store const& s, std::string_view name) {
    block const b = s->find(name).value();
    bytes       out(b.bytes);
    REQUIRE(s->read(b, 0, out).has_value());
    return out;
}

void sync(store const& s, std::vector<block> const& many) { REQUIRE(s->sync(many).has_value()); }

/// What a crash would leave now.
void copy_store(std::filesystem::path const& from, std::filesystem::path const& to) {
    std::filesystem::create_directories(to);
    for (char const* const file : {"data", "catalog"})
        std::filesystem::copy_file(from / file, to / file, std::filesystem::copy_options::overwrite_existing);
}

std::uint64_t on_disk(std::filesystem::path const& file) {
    struct ::stat about{};
    return ::stat(file.c_str(), &about) == 0 ? static_cast<std::uint64_t>(about.st_blocks) * 512 : 0;
}

void flip(std::filesystem::path const& file, std::uint64_t at, unsigned bit) {
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(static_cast<std::streamoff>(at));
    char const c = static_cast<char>(f.get() ^ (1 << bit));
    f.seekp(static_cast<std::streamoff>(at));
    f.put(c);
}

template <class T>
void overwrite(std::filesystem::path const& file, std::uint64_t at, T const& value) {
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(static_cast<std::streamoff>(at));
    f.write(reinterpret_cast<char const*>(&value), sizeof value);
}

}  // namespace

TEST_SUITE("durable mmap_store") {
    TEST_CASE("keeps the contract") {
        constexpr tenure::conformance_options less{
            .max_bytes = 1 << 20, .free_count = 1'000, .threads = 4, .steps = 200};
        temporary_directory here;
        int                 made = 0;
        auto const          r =
            tenure::check_store([&] { return mmap_store::open(here.path() / std::to_string(made++)); },
                                [](store s) {
                                    std::string const text = s->describe();
                                    auto const        path = text.substr(text.find('/'));
                                    s.reset();
                                    return mmap_store::open(path);
                                },
                                TENURE_SANITIZED ? less : tenure::conformance_options{.max_bytes = 16 << 20});
        INFO(r.to_text());
        CHECK(r.ok());
    }

    TEST_CASE("names and contents survive, and nothing else does") {
        temporary_directory here;
        bytes const         a = pattern(1, 100), b = pattern(2, 300 * kib);
        {
            auto const s = mmap_store::open(here.path() / "new");
            keep(s, "a", a);
            keep(s, "dir/b", b);
            CHECK(s->allocate(5 * mib, 1).has_value());
            CHECK(s->names() == std::vector<std::string>{"a", "dir/b"});
            CHECK(s->close().has_value());
        }
        auto const s = mmap_store::open(here.path() / "new");
        CHECK(s->names() == std::vector<std::string>{"a", "dir/b"});
        CHECK(s->usage() == tenure::store_usage{100 + 300 * kib, 2, 0});
        CHECK(contents(s, "a") == a);
        CHECK(contents(s, "dir/b") == b);
        CHECK(std::memcmp(s->address(s->find("a").value()).value(), a.data(), 100) == 0);
        CHECK(on_disk(here.path() / "new" / "data") < 400 * kib);
    }

    TEST_CASE("a synced version stays until the next sync") {
        temporary_directory here, crashed;
        auto const          s   = mmap_store::open(here.path(), {.keep_warm = 0});
        bytes const         one = pattern(1, 20'000), two = pattern(2, 20'000), three = pattern(3, 20'000);
        block const         b = keep(s, "x", one);
        std::byte* const    p = s->address(b).value();
        sync(s, {b});
        auto const after_a_crash = [&] {
            copy_store(here.path(), crashed.path());
            return contents(mmap_store::open(crashed.path()), "x");
        };
        CHECK(after_a_crash() == one);
        std::ranges::copy(two, p);
        CHECK(contents(s, "x") == two);
        CHECK(after_a_crash() == one);
        CHECK(s->address(b).value() == p);
        sync(s, {b});
        CHECK(after_a_crash() == two);
        CHECK(std::memcmp(p, two.data(), two.size()) == 0);
        for (int i = 0; i < 6; ++i) {  // to and fro between two places
            bytes const& now = i % 2 ? three : one;
            bytes const& old = i == 0 ? two : i % 2 ? one : three;
            CHECK(s->write(b, 0, now).has_value());
            CHECK(after_a_crash() == old);
            sync(s, {b});
            CHECK(after_a_crash() == now);
            CHECK(contents(s, "x") == now);
            CHECK(s->address(b).value() == p);
        }
        CHECK(on_disk(here.path() / "data") < 100 * kib);
    }

    TEST_CASE("replacing a name") {
        temporary_directory here, crashed;
        auto const          s   = mmap_store::open(here.path());
        bytes const         one = pattern(1, 5000), two = pattern(2, 6000);
        block const         a = keep(s, "x", one);
        sync(s, {a});
        block const b = keep(s, "x", two);
        CHECK(s->read(a, 0, {}).error() == errc::no_such_block);
        CHECK(contents(s, "x") == two);
        block const other = keep(s, "other", one);
        sync(s, {other});
        copy_store(here.path(), crashed.path());
        CHECK(contents(mmap_store::open(crashed.path()), "x") == one);
        sync(s, {b});
        copy_store(here.path(), crashed.path());
        CHECK(contents(mmap_store::open(crashed.path()), "x") == two);
        CHECK(s->usage().blocks == 2);
    }

    TEST_CASE("another name for a block: found under the one or the other") {
        temporary_directory here, crashed;
        auto const          s   = mmap_store::open(here.path());
        bytes const         one = pattern(1, 5000), two = pattern(2, 6000);
        block const         a = keep(s, "x", one);
        sync(s, {a});
        CHECK(s->keep(a, "y").has_value());
        CHECK(s->find("x").error() == errc::no_such_block);
        block const b = keep(s, "x", two);
        copy_store(here.path(), crashed.path());
        CHECK(contents(mmap_store::open(crashed.path()), "x") == one);
        sync(s, {b});  // and with it that one is "y" now
        copy_store(here.path(), crashed.path());
        auto const c = mmap_store::open(crashed.path());
        CHECK(contents(c, "x") == two);
        CHECK(contents(c, "y") == one);
        CHECK(c->usage().blocks == 2);
        CHECK(s->keep(b, "z").has_value());
        sync(s, {});
        copy_store(here.path(), crashed.path() / "2");
        CHECK(mmap_store::open(crashed.path() / "2")->names() == std::vector<std::string>{"y", "z"});
    }

    TEST_CASE("what is freed is gone after the next sync, and its space is back") {
        temporary_directory here, crashed;
        auto const          s = mmap_store::open(here.path(), {.keep_warm = 0});
        std::vector<block>  all;
        for (std::uint64_t i = 0; i < 50; ++i) all.push_back(keep(s, std::to_string(i), pattern(i, 64 * kib)));
        sync(s, all);
        CHECK(on_disk(here.path() / "data") > 3 * mib);
        CHECK(s->deallocate(std::span(all).first(40)).has_value());
        CHECK(s->usage() == tenure::store_usage{10 * 64 * kib, 10, 0});
        block const fresh = keep(s, "fresh", pattern(99, 64 * kib));  // not where a crash would look
        copy_store(here.path(), crashed.path());
        {
            auto const c = mmap_store::open(crashed.path());
            CHECK(c->usage().blocks == 50);
            for (std::uint64_t i = 0; i < 50; ++i) CHECK(contents(c, std::to_string(i)) == pattern(i, 64 * kib));
        }
        sync(s, {});
        CHECK(on_disk(here.path() / "data") < 1 * mib);
        CHECK(s->deallocate({{fresh}}).has_value());
        copy_store(here.path(), crashed.path() / "2");
        CHECK(mmap_store::open(crashed.path() / "2")->usage().blocks == 10);
    }

    TEST_CASE("a block that is written anew takes its own room, not that of its older contents") {
        temporary_directory here;
        auto const          s = mmap_store::open(here.path(), {.keep_warm = 0});
        block const         b = keep(s, "one", pattern(0, 1 * mib));
        for (std::uint64_t i = 1; i < 5; ++i) {
            sync(s, {b});
            CHECK(on_disk(here.path() / "data") < mib + mib / 2);
            CHECK(s->write(b, 0, pattern(i, 1 * mib)).has_value());
        }
    }

    TEST_CASE("a full disk: a block that a sync has begun with and not finished leaves a place that can be used") {
        small_disk disk(8 * mib);
        if (!disk) {
            MESSAGE("skipped: this user may not mount a small file system");
            return;
        }
        auto        s     = mmap_store::open(disk.path() / "store");
        block const older = keep(s, "older", pattern(1, 1 * mib));
        sync(s, {older});
        block const begun = keep(s, "begun", pattern(2, 1 * mib));
        while (s->allocate(1 * mib, 1)) {}
        CHECK(s->write(older, 0, pattern(3, 1 * mib)).has_value());
        std::vector<block> const both{begun, older};
        CHECK(s->sync(both).error() == errc::store_full);  // `older` finds no room; `begun` is private by then
        CHECK(s->deallocate({{begun}}).has_value());
        block const next     = s->allocate(1 * mib, 1).value();
        bytes const expected = pattern(4, 1 * mib);
        std::memcpy(s->address(next).value(), expected.data(), expected.size());
        CHECK(s->keep(next, "next").has_value());
        sync(s, {next});
        CHECK(contents(s, "next") == expected);
        s.reset();
        s = mmap_store::open(disk.path() / "store");
        CHECK(contents(s, "next") == expected);
        CHECK(contents(s, "older") == pattern(1, 1 * mib));
    }

    TEST_CASE("a full disk: nothing of what was synced is lost") {
        small_disk disk(8 * mib);
        if (!disk) {
            MESSAGE("skipped: this user may not mount a small file system");
            return;
        }
        bytes const        one = pattern(1, 1 * mib);
        std::vector<block> all;
        auto               s = mmap_store::open(disk.path() / "store");
        for (int i = 0;; ++i) {
            auto const b = s->allocate(1 * mib, 1);
            if (!b) {
                CHECK(b.error() == errc::store_full);
                break;
            }
            CHECK(s->write(*b, 0, one).has_value());
            CHECK(s->keep(*b, std::to_string(i)).has_value());
            all.push_back(*b);
        }
        CHECK(all.size() >= 6);
        sync(s, all);
        bytes const two = pattern(2, 1 * mib);
        for (block const& b : all) CHECK(s->write(b, 0, two).has_value());
        CHECK(s->sync(all).error() == errc::store_full);  // no room for new versions
        CHECK(s->deallocate(std::span(all).first(2)).has_value());
        CHECK(s->allocate(1 * mib, 1).has_value());  // syncs the removals for it
        CHECK(s->sync(std::span(all).subspan(2, 1)).has_value());
        s.reset();
        s = mmap_store::open(disk.path() / "store");
        CHECK(s->find("0").error() == errc::no_such_block);
        CHECK(contents(s, "2") == two);
        for (std::size_t i = 3; i < all.size(); ++i) {
            bytes const now = contents(s, std::to_string(i));
            CHECK((now == one || now == two));
        }
    }

    TEST_CASE("a store on a full disk opens: what is there can be read, and freed") {
        small_disk disk(8 * mib);
        if (!disk) {
            MESSAGE("skipped: this user may not mount a small file system");
            return;
        }
        auto const where = disk.path() / "store";
        auto       s     = mmap_store::open(where);
        auto const b     = s->allocate(1 * mib, 1).value();
        CHECK(s->write(b, 0, pattern(1, 1 * mib)).has_value());
        CHECK(s->keep(b, "one").has_value());
        sync(s, {b});
        s.reset();
        std::filesystem::resize_file(where / "lock", 0);  // no room to say who writes, either
        std::ofstream rest(disk.path() / "rest");
        for (std::string const piece(512, 'x'); rest.write(piece.data(), 512).flush();) {}
        s = mmap_store::open(where);
        CHECK(contents(s, "one") == pattern(1, 1 * mib));
        CHECK(s->deallocate({{s->find("one").value()}}).has_value());
    }

    TEST_CASE("names: any bytes, of some length") {
        temporary_directory here;
        auto const          s = mmap_store::open(here.path());
        block const         b = s->allocate(1, 1).value();
        CHECK(s->keep(b, "").error() == std::errc::invalid_argument);
        CHECK(s->keep(b, std::string(501, 'x')).error() == std::errc::filename_too_long);
        CHECK(s->keep(b, std::string(500, 'x')).has_value());
        block const c = s->allocate(1, 1).value();
        CHECK(s->keep(c, std::string_view("\0\xff\n", 3)).has_value());
        sync(s, {b, c});
        CHECK(s->find(std::string_view("\0\xff\n", 3)).value() == c);
    }

    TEST_CASE("many names: the catalog grows") {
        temporary_directory here;
        constexpr int       n = TENURE_SANITIZED ? 3'000 : 30'000;
        {
            auto const         s = mmap_store::open(here.path());
            std::vector<block> all;
            for (int i = 0; i < n; ++i) {
                all.push_back(s->allocate(8, 1).value());
                std::memcpy(s->address(all.back()).value(), &i, sizeof i);
                CHECK(s->keep(all.back(), "a rather long name for a block of eight bytes " + std::to_string(i)));
            }
            sync(s, all);
            CHECK(s->deallocate(std::span(all).first(static_cast<std::size_t>(n) / 3)).has_value());
        }
        auto const s = mmap_store::open(here.path());
        CHECK(s->usage().blocks == static_cast<std::size_t>(n - n / 3));
        for (int i = n / 3; i < n; i += 7) {
            auto const b = s->find("a rather long name for a block of eight bytes " + std::to_string(i));
            REQUIRE(b.has_value());
            int k = 0;
            CHECK(s->read(*b, 0, std::as_writable_bytes(std::span(&k, 1))).has_value());
            CHECK(k == i);
        }
    }

    TEST_CASE("the second opener is told who has it") {
        temporary_directory here;
        auto const          s = mmap_store::open(here.path());
        check_throws(errc::store_in_use, {here.path().string(), std::to_string(::getpid())},
                     [&] { (void)mmap_store::open(here.path()); });
        CHECK(s->close().has_value());
        CHECK_NOTHROW((void)mmap_store::open(here.path()));
    }

    TEST_CASE("readers beside the writer have what was synced when they opened") {
        temporary_directory here;
        bytes const         one = pattern(1, 50'000), two = pattern(2, 50'000);
        auto const          s = mmap_store::open(here.path(), {.keep_warm = 0});
        block const         b = keep(s, "x", one);
        sync(s, {b});
        auto r = mmap_store::open(here.path(), {.read_only = true});
        CHECK(r->names() == std::vector<std::string>{"x"});
        for (int i = 0; i < 4; ++i) {
            CHECK(s->write(b, 0, i % 2 ? one : two).has_value());
            sync(s, {b});
        }
        CHECK(s->deallocate({{b}}).has_value());
        sync(s, {});
        for (std::uint64_t i = 0; i < 20; ++i) sync(s, {keep(s, std::to_string(i), pattern(i, 50'000))});
        CHECK(contents(r, "x") == one);
        block const mine = r->find("x").value();
        CHECK(std::memcmp(r->address(mine).value(), one.data(), one.size()) == 0);
        CHECK(r->write(mine, 0, two).error() == errc::read_only);
        CHECK(r->allocate(1, 1).error() == errc::read_only);
        CHECK(r->deallocate({{mine}}).error() == errc::read_only);
        CHECK(r->keep(mine, "y").error() == errc::read_only);
        CHECK(r->sync({}).error() == errc::read_only);
        CHECK(r->describe().find("read-only") != std::string::npos);
        std::uint64_t const held = on_disk(here.path() / "data");
        CHECK(r->close().has_value());
        sync(s, {keep(s, "last", one)});
        CHECK(on_disk(here.path() / "data") < held);  // nobody looks there now
        CHECK(mmap_store::open(here.path(), {.read_only = true})->usage().blocks == 21);
    }

    TEST_CASE("readers while a writer commits") {
        temporary_directory here;
        auto const          s = mmap_store::open(here.path());
        sync(s, {keep(s, "x", pattern(0, 1000))});
        std::atomic<bool> stop  = false;
        std::atomic<int>  wrong = 0, opened = 0;
        std::thread       reader([&] {
            while (!stop) {
                auto const  r = mmap_store::open(here.path(), {.read_only = true, .address_space = 1u << 30});
                block const b = r->find("x").value();
                bytes       out(b.bytes);
                if (!r->read(b, 0, out)) ++wrong;
                ++opened;
                opened.notify_all();
            }
        });
        for (std::uint64_t i = 1; i < (TENURE_SANITIZED ? 20 : 60); ++i)
            sync(s, {keep(s, "x", pattern(i, 1000 + i)), keep(s, std::to_string(i), pattern(i, 10))});
        opened.wait(0);
        stop = true;
        reader.join();
        CHECK(wrong == 0);
    }

    TEST_CASE("threads keep, sync, free and read") {
        temporary_directory here;
        std::atomic<int>    wrong = 0;
        {
            auto const               s = mmap_store::open(here.path());
            std::vector<std::thread> threads;
            for (int t = 0; t < 4; ++t)
                threads.emplace_back([&, t] {
                    std::mt19937       dice(static_cast<unsigned>(t));
                    std::vector<block> mine;
                    for (int i = 0; i < (TENURE_SANITIZED ? 20 : 60); ++i) {
                        auto const b = s->allocate(1 + dice() % 30'000, 1).value();
                        std::memset(s->address(b).value(), t, b.bytes);
                        if (!s->keep(b, std::to_string(t) + "/" + std::to_string(dice() % 20))) ++wrong;
                        mine.push_back(b);
                        if (dice() % 4 == 0) {
                            auto const end = std::remove_if(mine.begin(), mine.end(),
                                                            [&](block x) { return !s->read(x, 0, {}); });
                            mine.erase(end, mine.end());  // whose names went to others
                            if (!s->sync(mine)) ++wrong;
                        }
                        if (dice() % 5 == 0 && mine.back() == b) {
                            if (!s->deallocate({{b}})) ++wrong;
                            mine.pop_back();
                        }
                    }
                });
            for (auto& t : threads) t.join();
        }
        auto const s = mmap_store::open(here.path());
        for (auto const& name : s->names()) {
            bytes const all = contents(s, name);
            for (std::byte const x : all)
                if (x != static_cast<std::byte>(name[0] - '0')) ++wrong;
        }
        CHECK(wrong == 0);
    }

    TEST_CASE("who writes to a block that another one's sync takes along loses nothing") {
        temporary_directory   here;
        constexpr std::size_t size   = 2 * mib;
        constexpr unsigned    last   = 200;
        auto                  s      = mmap_store::open(here.path());
        block const           b      = keep(s, "name", bytes(size));
        std::atomic<bool>     done   = false;
        std::atomic<unsigned> failed = 0;
        sync(s, {b});
        std::thread writer([&] {
            for (unsigned i = 1; i <= last; ++i)
                if (!s->write(b, 0, bytes(size, static_cast<std::byte>(i)))) ++failed;
            done = true;
        });
        for (unsigned i = 0; !done; ++i) {
            // Its name goes to another, which is synced: so it is, under the name that it has now.
            std::string const other = "other " + std::to_string(i),
                              name  = i ? "other " + std::to_string(i - 1) : "name";
            REQUIRE(s->keep(b, other).has_value());
            sync(s, {keep(s, name, bytes(100))});
        }
        writer.join();
        CHECK(failed == 0);
        bytes now(size);
        REQUIRE(s->read(b, 0, now).has_value());
        CHECK(now == bytes(size, static_cast<std::byte>(last)));
        std::string const name = [&] {
            for (auto const& n : s->names())
                if (s->find(n).value().id == b.id) return n;
            return std::string();
        }();
        copy_store(here.path(), here.path() / "after a crash");
        auto const then = contents(mmap_store::open(here.path() / "after a crash"), name);
        CHECK(std::ranges::count(then, then[0]) == std::ssize(then));
    }

    TEST_CASE("1,000 blocks of 64 KiB in one sync, against write and fdatasync") {
        using clock             = std::chrono::steady_clock;
        constexpr std::size_t n = TENURE_SANITIZED ? 20 : 1'000, size = 64 * kib;
        temporary_directory   here;
        bytes const           one   = pattern(1, size);
        double                plain = 1e9, durable = 1e9;
        for (int round = 0; round < (TENURE_SANITIZED ? 1 : 3); ++round) {
            auto const         s = mmap_store::open(here.path() / std::to_string(round));
            std::vector<block> all;
            for (std::size_t i = 0; i < n; ++i) {
                all.push_back(s->allocate(size, 1).value());
                REQUIRE(s->write(all.back(), 0, one).has_value());
            }
            auto const start = clock::now();
            for (std::size_t i = 0; i < n; ++i) REQUIRE(s->keep(all[i], std::to_string(i)).has_value());
            sync(s, all);
            durable = std::min(durable, std::chrono::duration<double, std::milli>(clock::now() - start).count());

            auto const begin = clock::now();
            int const  fd = ::open((here.path() / "plain").c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
            for (std::size_t i = 0; i < n; ++i)
                REQUIRE(::write(fd, one.data(), one.size()) == static_cast<ssize_t>(one.size()));
            REQUIRE(::fdatasync(fd) == 0);
            ::close(fd);
            plain = std::min(plain, std::chrono::duration<double, std::milli>(clock::now() - begin).count());
        }
        MESSAGE("keep and sync " << durable << " ms, write and fdatasync " << plain << " ms");
    }
}

TEST_SUITE("what is not as it was written") {
    TEST_CASE("a flipped bit in the data is corrupt, and nothing else is") {
        temporary_directory here;
        bytes const         one = pattern(1, 70'000), two = pattern(2, 10);
        {
            auto const s = mmap_store::open(here.path());
            keep(s, "a", one);
            keep(s, "b", two);
        }
        std::uint64_t at = 0;
        {
            std::ifstream     f(here.path() / "data", std::ios::binary);
            std::string const all(std::istreambuf_iterator<char>(f), {});
            at = all.find(std::string(reinterpret_cast<char const*>(one.data()), 100));
            REQUIRE(at != std::string::npos);
        }
        flip(here.path() / "data", at + 69'999, 3);
        for (bool const read_only : {false, true}) {
            auto const  s = mmap_store::open(here.path(), {.read_only = read_only});
            block const b = s->find("a").value();
            std::byte   out[1];
            CHECK(s->address(b).error() == errc::corrupt);
            CHECK(s->read(b, 0, out).error() == errc::corrupt);
            CHECK(s->address(b).error() == errc::corrupt);
            CHECK(contents(s, "b") == two);
        }
        auto const s = mmap_store::open(here.path());
        CHECK(s->deallocate({{s->find("a").value()}}).has_value());
        CHECK(s->close().has_value());
    }

    TEST_CASE("truncated data") {
        temporary_directory here;
        {
            auto const s = mmap_store::open(here.path());
            keep(s, "a", pattern(1, 70'000));
        }
        for (std::uint64_t const size : {50'000u, 8'192u, 5'000u, 100u, 0u}) {
            std::filesystem::resize_file(here.path() / "data", size);
            check_throws(errc::corrupt, {(here.path() / "data").string()},
                         [&] { (void)mmap_store::open(here.path()); });
        }
        std::filesystem::remove(here.path() / "data");
        check_throws(errc::corrupt, {(here.path() / "data").string()},
                     [&] { (void)mmap_store::open(here.path()); });
    }

    TEST_CASE("a truncated, missing or foreign catalog") {
        temporary_directory here, other;
        {
            auto const s = mmap_store::open(here.path());
            for (std::uint64_t i = 0; i < 200; ++i) keep(s, std::to_string(i), pattern(i, 10));
            auto const t = mmap_store::open(other.path());
            keep(t, "x", pattern(1, 10));
        }
        auto const refused = [&](tenure::errc code = errc::corrupt) {
            check_throws(code, {(here.path() / "catalog").string()}, [&] { (void)mmap_store::open(here.path()); });
        };
        std::filesystem::copy_file(here.path() / "catalog", here.path() / "good");
        auto const size = std::filesystem::file_size(here.path() / "good");
        for (std::uintmax_t n = 0; n < size; n += 1000) {
            std::filesystem::copy_file(here.path() / "good", here.path() / "catalog",
                                       std::filesystem::copy_options::overwrite_existing);
            std::filesystem::resize_file(here.path() / "catalog", n);
            try {
                auto const s = mmap_store::open(here.path(), {.read_only = true});
                CHECK(s->usage().blocks == 200);  // what was cut off is free
            } catch (tenure::error const& e) {
                CHECK(e.code() == errc::corrupt);
            }
        }
        std::filesystem::remove(here.path() / "catalog");
        refused();
        std::ofstream(here.path() / "catalog") << std::string(20'000, 'x');
        refused();
        std::filesystem::copy_file(other.path() / "catalog", here.path() / "catalog",
                                   std::filesystem::copy_options::overwrite_existing);
        refused();
    }

    TEST_CASE("any bit of the catalog") {
        temporary_directory here;
        {
            auto const s = mmap_store::open(here.path());
            for (std::uint64_t i = 0; i < 120; ++i) keep(s, std::to_string(i), pattern(i, 10));
            CHECK(s->sync({}).has_value());
            for (std::uint64_t i = 0; i < 20; ++i)
                CHECK(s->deallocate({{s->find(std::to_string(i * 3)).value()}}).has_value());
        }
        copy_store(here.path(), here.path() / "good");
        bytes good(std::filesystem::file_size(here.path() / "catalog"));
        std::ifstream(here.path() / "catalog", std::ios::binary)
            .read(reinterpret_cast<char*>(good.data()), static_cast<std::streamsize>(good.size()));

        using namespace tenure::detail;
        catalog_contents expected;
        std::uint64_t    transaction = 0;
        REQUIRE(parse_catalog(good, expected, transaction));
        REQUIRE(expected.blocks.size() == 100);
        std::vector<std::pair<std::size_t, unsigned>> passed;  // these LMDB will see
        int                                           refused = 0, older = 0;
        for (std::size_t at = 0; at < good.size(); at += at % 4096 < 200 && at < 8192 ? 1
                                                         : TENURE_SANITIZED           ? 23
                                                                                      : 5) {
            for (unsigned bit = 0; bit < 8; ++bit) {
                good[at] ^= static_cast<std::byte>(1u << bit);
                catalog_contents out;
                bool const       parsed = parse_catalog(good, out, transaction);
                good[at] ^= static_cast<std::byte>(1u << bit);
                if (!parsed) {
                    ++refused;
                } else if (out.header.sequence < expected.header.sequence) {
                    ++older;  // the other meta page: the data file knows better
                } else {
                    bool same =
                        out.header.sum == expected.header.sum && out.blocks.size() == expected.blocks.size();
                    for (std::size_t i = 0; same && i < out.blocks.size(); ++i)
                        same = out.blocks[i].name == expected.blocks[i].name &&
                               out.blocks[i].record.hash == expected.blocks[i].record.hash;
                    if (!same) FAIL_CHECK("another catalog, by bit " << bit << " of byte " << at);
                    passed.emplace_back(at, bit);
                }
            }
        }
        MESSAGE(refused << " refused, " << older << " older, " << passed.size() << " without consequence");
        CHECK(refused > 1000);
        CHECK(passed.size() > 300);
        std::mt19937 dice(3);
        for (int i = 0; i < (TENURE_SANITIZED ? 5 : 20); ++i) {
            auto const [at, bit] = passed[i % 2 ? dice() % passed.size() : dice() % 300];
            copy_store(here.path() / "good", here.path());
            flip(here.path() / "catalog", at, bit);
            CAPTURE(at);
            auto const s = mmap_store::open(here.path(), {.address_space = 1u << 30});
            CHECK(s->usage() == tenure::store_usage{1000, 100, 0});
            for (std::uint64_t k = 61; k < 120; k += 7) CHECK(contents(s, std::to_string(k)) == pattern(k, 10));
            block const b = keep(s, "more", pattern(1, 10));
            CHECK(s->sync({{b}}).has_value());
            CHECK(s->deallocate({{s->find("119").value()}}).has_value());
            CHECK(s->close().has_value());
            CHECK(mmap_store::open(here.path(), {.read_only = true})->usage().blocks == 100);
        }
    }

    TEST_CASE("a later version, of either file") {
        temporary_directory here;
        CHECK(mmap_store::open(here.path())->close().has_value());
        tenure::detail::data_header h;
        h.version = 2;
        overwrite(here.path() / "data", 4096, h);
        check_throws(errc::newer_format, {(here.path() / "data").string(), "version 2"},
                     [&] { (void)mmap_store::open(here.path()); });

        temporary_directory there;
        CHECK(mmap_store::open(there.path())->close().has_value());
        std::string all;
        {
            std::ifstream f(there.path() / "catalog", std::ios::binary);
            all.assign(std::istreambuf_iterator<char>(f), {});
        }
        for (std::size_t at = 0; (at = all.find("tenure C", at)) != std::string::npos; ++at) all[at + 8] = 7;
        std::ofstream(there.path() / "catalog", std::ios::binary) << all;
        check_throws(errc::newer_format, {(there.path() / "catalog").string(), "version 7"},
                     [&] { (void)mmap_store::open(there.path()); });
    }

    TEST_CASE("an older catalog beside newer data") {
        temporary_directory here;
        {
            auto const s = mmap_store::open(here.path());
            sync(s, {keep(s, "a", pattern(1, 10))});
            std::filesystem::copy_file(here.path() / "catalog", here.path() / "old");
            sync(s, {keep(s, "b", pattern(1, 10))});
        }
        std::filesystem::rename(here.path() / "old", here.path() / "catalog");
        check_throws(errc::corrupt, {(here.path() / "catalog").string(), "older"},
                     [&] { (void)mmap_store::open(here.path()); });
    }

    TEST_CASE("directories that will not do") {
        temporary_directory here;
        std::ofstream(here.path() / "file") << "x";
        for (auto const& path : {here.path() / "file", here.path() / "missing" / "deeper"}) {
            CHECK_THROWS_WITH_AS((void)mmap_store::open(path), doctest::Contains(path.c_str()), tenure::error);
            CHECK_THROWS_WITH_AS((void)mmap_store::open(path, {.read_only = true}), doctest::Contains(path.c_str()),
                                 tenure::error);
        }
        CHECK_THROWS_WITH_AS((void)mmap_store::open(here.path(), {.read_only = true}), doctest::Contains("data"),
                             tenure::error);
        CHECK(std::filesystem::remove(here.path() / "file"));
        CHECK(here.empty());
    }

    TEST_CASE("an interrupted beginning is begun again") {
        temporary_directory here;
        CHECK(mmap_store::open(here.path())->close().has_value());
        std::filesystem::remove(here.path() / "catalog");
        tenure::detail::data_header h;  // as of before the first commit
        h.store = {1, 2};
        h.check = h.expected_check();
        overwrite(here.path() / "data", 0, h);
        overwrite(here.path() / "data", 4096, h);
        std::ofstream(here.path() / "data.new") << "half";
        auto const s = mmap_store::open(here.path());
        sync(s, {keep(s, "a", pattern(1, 10))});
        CHECK(s->names().size() == 1);
    }
}

TEST_SUITE("format") {
    // TENURE_WRITE_GOLDEN=DIRECTORY makes such a store. What is committed stays as it is.
    TEST_CASE("a store of version 1 can be read") {
        if (char const* const to = std::getenv("TENURE_WRITE_GOLDEN")) {
            auto const s = mmap_store::open(to);
            for (std::uint64_t i = 0; i < 3; ++i) keep(s, "block " + std::to_string(i), pattern(i, i * 3000));
            CHECK(s->sync({}).has_value());
            CHECK(s->close().has_value());
        }
        temporary_directory here;
        copy_store(std::filesystem::path(TENURE_TESTS) / "golden" / "durable-v1", here.path());
        for (bool const read_only : {true, false}) {
            auto const s = mmap_store::open(here.path(), {.read_only = read_only});
            CHECK(s->names() == std::vector<std::string>{"block 0", "block 1", "block 2"});
            for (std::uint64_t i = 0; i < 3; ++i)
                CHECK(contents(s, "block " + std::to_string(i)) == pattern(i, i * 3000));
        }
    }
}
