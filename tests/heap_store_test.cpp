// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// heap_store: what the contract says, and what it says itself: where memory comes from, and that it goes back.

#include "failing.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/store/any_store.hpp>
#include <tenure/store/conformance.hpp>
#include <tenure/store/heap.hpp>

#include <fcntl.h>
#include <unistd.h>

#include "random/dice.hpp"

namespace {

using tenure::block;
using tenure::errc;
using tenure::heap_store;

constexpr std::size_t mib = std::size_t{1} << 20;

static_assert(heap_store::traits == tenure::store_traits{.addressable = true, .anonymous = true, .copyable = true});

std::byte* address(heap_store& s, block b) { return s.address(b).value(); }

bool aligned(void const* p, std::size_t alignment) { return reinterpret_cast<std::uintptr_t>(p) % alignment == 0; }

/// Bytes that tell blocks apart, and places in them.
void fill(std::byte* p, std::size_t bytes, std::uint64_t seed) {
    for (std::size_t i = 0; i < bytes; ++i) p[i] = static_cast<std::byte>(seed * 31 + i * 7);
}
bool is_filled(std::byte const* p, std::size_t bytes, std::uint64_t seed) {
    for (std::size_t i = 0; i < bytes; ++i) {
        if (p[i] != static_cast<std::byte>(seed * 31 + i * 7)) return false;
    }
    return true;
}

std::size_t resident_bytes() {
    std::size_t total = 0, resident = 0;
    std::ifstream{"/proc/self/statm"} >> total >> resident;
    return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// mincore fails where nothing is mapped.
bool is_mapped(void const* p) {
    unsigned char in_core = 0;
    return ::mincore(const_cast<void*>(p), 1, &in_core) == 0;
}

std::vector<block> allocate(heap_store& s, std::size_t count, std::size_t bytes, std::size_t alignment = 16) {
    std::vector<block> all(count);
    for (block& b : all) b = s.allocate(bytes, alignment).value();
    return all;
}

}  // namespace

TEST_SUITE("heap_store") {
    TEST_CASE("slots: enough, and not much more") {
        std::size_t most_wasted = 0;
        for (std::size_t n = 1; n <= tenure::detail::largest_slot; ++n) {
            std::size_t const slot = tenure::detail::slot_bytes(tenure::detail::slot_size_of(n));
            if (slot < n || (n > 128 && (slot - n) * 5 >= slot)) FAIL_CHECK(n);
            most_wasted = std::max(most_wasted, slot - n);
        }
        CHECK(most_wasted < tenure::detail::largest_slot / 5);
    }

    TEST_CASE("every size and alignment") {
        heap_store s;
        struct held {
            block         b;
            std::uint64_t seed;
        };
        constexpr std::size_t some = 10'000;
        std::vector<held>     all;
        std::size_t           bytes = 0;
        for (std::size_t const size : {0ul, 1ul, 7ul, 8ul, 15ul, 16ul, 17ul, 100ul, 128ul, 129ul, 4096ul, 5000ul,
                                       65'536ul, 100'000ul, mib - 1, mib, mib + 1, 2 * mib, 3 * mib + 5}) {
            for (std::size_t alignment = 1; alignment <= 4 * mib; alignment *= 4) {
                for (int i = 0; i < 3; ++i) {
                    block const b = s.allocate(size, alignment).value();
                    CHECK(b.bytes == size);
                    CHECK(b.id != 0);
                    REQUIRE(address(s, b) != nullptr);
                    if (!aligned(address(s, b), alignment)) FAIL_CHECK(size << ' ' << alignment);
                    fill(address(s, b), std::min(size, some), all.size());
                    all.push_back({b, all.size()});
                    bytes += size;
                }
            }
        }
        CHECK(s.usage() == tenure::store_usage{bytes, all.size(), 0});
        for (held const& h : all) CHECK(is_filled(address(s, h.b), std::min(h.b.bytes, some), h.seed));
        std::vector<block> blocks;
        for (held const& h : all) blocks.push_back(h.b);
        auto ids = blocks;
        std::ranges::sort(ids);
        CHECK(std::ranges::adjacent_find(ids, {}, &block::id) == ids.end());
        CHECK(s.deallocate(blocks));
        CHECK(s.usage() == tenure::store_usage{});
    }

    TEST_CASE("alignments that are none") {
        heap_store s;
        for (std::size_t const a : {0ul, 3ul, 24ul, ~0ul}) CHECK(s.allocate(8, a).error() == errc::bad_alignment);
        CHECK(s.usage().blocks == 0);
    }

    TEST_CASE("sizes and alignments that no memory has") {
        heap_store s;
        for (std::size_t const n : {~0ul, ~0ul - 1, ~0ul - 4096, ~0ul / 2, ~0ul / 2 + 1, 1ul << 62, 1ul << 48}) {
            CHECK(s.allocate(n, 1).error() == errc::memory_full);
            CHECK(s.allocate(n, 1 << 20).error() == errc::memory_full);
        }
        CHECK(s.allocate(1, 1ul << 63).error() == errc::memory_full);
        CHECK(s.allocate(~0ul, 1ul << 63).error() == errc::memory_full);
        CHECK(s.usage() == tenure::store_usage{});
        heap_store limited{{.capacity = 100}};
        CHECK(limited.allocate(~0ul, 1).error() == errc::store_full);
    }

    TEST_CASE("reads, writes and copies, and their bounds") {
        heap_store                s;
        block const               a = s.allocate(100, 1).value(), b = s.allocate(100, 1).value();
        std::array<std::byte, 40> in{}, out{};
        fill(in.data(), in.size(), 5);
        CHECK(s.write(a, 60, in));
        CHECK(s.read(a, 60, out));
        CHECK(in == out);
        CHECK(std::memcmp(address(s, a) + 60, in.data(), in.size()) == 0);
        CHECK(s.copy(a, 60, b, 10, 40));
        CHECK(std::memcmp(address(s, b) + 10, in.data(), in.size()) == 0);
        CHECK(s.copy(b, 10, b, 50, 40));
        CHECK(std::memcmp(address(s, b) + 50, in.data(), in.size()) == 0);

        CHECK(s.read(a, 61, out).error() == errc::out_of_range);
        CHECK(s.write(a, 61, in).error() == errc::out_of_range);
        CHECK(s.read(a, ~0ul - 10, out).error() == errc::out_of_range);
        CHECK(s.write(a, 101, {}).error() == errc::out_of_range);
        CHECK(s.copy(a, 61, b, 0, 40).error() == errc::out_of_range);
        CHECK(s.copy(a, 0, b, 61, 40).error() == errc::out_of_range);
        CHECK(s.copy(a, 1, b, 0, ~0ul).error() == errc::out_of_range);
        CHECK(s.read(a, 100, {}));
        CHECK(s.write(a, 0, {}));
        CHECK(s.copy(a, 100, b, 100, 0));

        block const nothing = s.allocate(0, 1).value();
        CHECK(s.read(nothing, 0, {}));
        CHECK(s.read(nothing, 0, out).error() == errc::out_of_range);
    }

    TEST_CASE("what is not live is refused, everywhere") {
        heap_store               s, other;
        std::array<std::byte, 1> byte{};
        block const              a = s.allocate(10, 1).value(), freed = s.allocate(10, 1).value();
        block const              foreign = other.allocate(10, 1).value();
        CHECK(s.deallocate({&freed, 1}));
        for (block const b : {freed, foreign, block{}, block{1, 10}, block{~0ull, 10}, block{a.id ^ 1ull << 63, 10},
                              block{a.id + 1, 10}, block{a.id ^ 1u << 30, 10}, block{a.id, 11}, block{a.id, 0}}) {
            CHECK(s.address(b).error() == errc::no_such_block);
            CHECK(s.read(b, 0, byte).error() == errc::no_such_block);
            CHECK(s.write(b, 0, byte).error() == errc::no_such_block);
            CHECK(s.copy(a, 0, b, 0, 1).error() == errc::no_such_block);
            CHECK(s.copy(b, 0, a, 0, 1).error() == errc::no_such_block);
            CHECK(s.deallocate({&b, 1}).error() == errc::no_such_block);
        }
        CHECK(s.usage() == tenure::store_usage{10, 1, 0});
        CHECK(other.usage() == tenure::store_usage{10, 1, 0});
    }

    TEST_CASE("many stores, each with its own blocks") {
        std::vector<std::unique_ptr<heap_store>> stores;
        std::vector<block>                       blocks;
        for (int i = 0; i < 100; ++i) {
            stores.push_back(std::make_unique<heap_store>());
            blocks.push_back(stores.back()->allocate(10, 1).value());
        }
        for (std::size_t i = 0; i < stores.size(); ++i) {
            for (std::size_t k = 0; k < blocks.size(); ++k)
                CHECK(stores[i]->address(blocks[k]).has_value() == (i == k));
        }
    }

    TEST_CASE("a deallocate frees all that it can") {
        heap_store         s;
        std::vector<block> all = allocate(s, 1000, 24);
        std::vector<block> many;
        for (std::size_t i = 0; i < all.size(); ++i) {
            many.push_back(all[i]);
            if (i % 3 == 0) many.push_back(all[i / 2]);  // twice
            if (i % 5 == 0) many.push_back({i, 24});     // never
        }
        CHECK(s.deallocate(many).error() == errc::no_such_block);
        CHECK(s.usage() == tenure::store_usage{});
        CHECK(s.deallocate(many).error() == errc::no_such_block);
        CHECK(s.deallocate({}));
        CHECK(s.usage() == tenure::store_usage{});
    }

    TEST_CASE("ids are never used twice") {
        heap_store                 s;
        std::vector<std::uint64_t> ids;
        for (int i = 0; i < 50'000; ++i) {
            block const b = s.allocate(16, 1).value();
            ids.push_back(b.id);
            REQUIRE(s.deallocate({&b, 1}));
        }
        std::ranges::sort(ids);
        CHECK(std::ranges::adjacent_find(ids) == ids.end());
    }

    TEST_CASE("capacity, to the byte") {
        heap_store  s{{.capacity = 1000}};
        block const a = s.allocate(600, 1).value();
        CHECK(s.allocate(401, 1).error() == errc::store_full);
        CHECK(s.usage() == tenure::store_usage{600, 1, 1000});
        block const b = s.allocate(400, 1).value();
        CHECK(s.allocate(1, 1).error() == errc::store_full);
        CHECK(s.allocate(0, 1).has_value());
        CHECK(s.usage() == tenure::store_usage{1000, 3, 1000});
        CHECK(s.deallocate({&a, 1}));
        CHECK(s.deallocate({&a, 1}).error() == errc::no_such_block);
        CHECK(s.allocate(601, 1).error() == errc::store_full);
        CHECK(s.allocate(600, 1).has_value());
        CHECK(s.deallocate({&b, 1}));
        CHECK(s.usage() == tenure::store_usage{600, 2, 1000});
    }

    TEST_CASE("large blocks are fresh zeros that cost nothing until touched, however often") {
        heap_store s;
        for (int round = 0; round < 3; ++round) {
            std::size_t const before = resident_bytes();
            block const       b      = s.allocate(256 * mib, 2 * mib).value();
            std::byte* const  p      = address(s, b);
            CHECK(aligned(p, 2 * mib));
            if (!TENURE_SANITIZED) CHECK(resident_bytes() < before + 64 * mib);
            for (std::size_t i = 0; i < 256 * mib; i += mib) CHECK(p[i] == std::byte{0});
            p[0] = p[256 * mib - 1] = std::byte{1};
            CHECK(s.deallocate({&b, 1}));
            CHECK_FALSE(is_mapped(p));
            CHECK_FALSE(is_mapped(p + 256 * mib - 1));
        }
    }

    TEST_CASE("a large block goes with all that was mapped over it") {
        heap_store        s;
        std::size_t const page = tenure::detail::page_bytes();
        block const       b    = s.allocate(8 * mib, 2 * mib).value();
        std::byte* const  p    = address(s, b);
        fill(p, 8 * mib, 3);
        std::string path = "/tmp/tenure_heap_store_XXXXXX";
        int const   file = ::mkstemp(path.data());
        REQUIRE(file >= 0);
        ::unlink(path.c_str());
        REQUIRE(::write(file, p + 2 * mib, 2 * mib) == static_cast<ssize_t>(2 * mib));
        REQUIRE(::mmap(p + 2 * mib, 2 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0) ==
                static_cast<void*>(p + 2 * mib));
        REQUIRE(::madvise(p + 5 * mib, page, MADV_DONTNEED) == 0);
        ::close(file);
        std::array<std::byte, 16> out{};
        CHECK(s.read(b, 3 * mib, out));
        CHECK(std::memcmp(out.data(), p + 3 * mib, out.size()) == 0);
        CHECK(is_filled(p, 2 * mib, 3));
        CHECK(p[5 * mib] == std::byte{0});
        CHECK(s.deallocate({&b, 1}));
        for (std::size_t i = 0; i < 8 * mib; i += page) {
            if (is_mapped(p + i)) FAIL_CHECK(i);
        }
        failing::now.mapped -= static_cast<long>(2 * mib);  // mapped twice, unmapped once
    }

    TEST_CASE("places among live blocks are used again") {
        heap_store         s;
        auto const         all  = allocate(s, 4096, 4096);
        long const         full = failing::now.mapped;
        std::vector<block> every;  // third
        for (std::size_t i = 0; i < all.size(); i += 3) every.push_back(all[i]);
        CHECK(s.deallocate(every));
        allocate(s, every.size(), 4096);
        CHECK(failing::now.mapped == full);
    }

    TEST_CASE("memory goes back by trim()") {
        if (TENURE_SANITIZED) {
            MESSAGE("skipped: a sanitizer's own memory is counted, too");
            return;
        }
        heap_store        s;
        std::size_t const before = resident_bytes();
        auto              all    = allocate(s, 16'384, 4096);
        for (block const b : all) *address(s, b) = std::byte{1};
        CHECK(resident_bytes() > before + 60 * mib);
        block const one = all.back();
        all.pop_back();
        CHECK(s.deallocate(all));
        CHECK(resident_bytes() > before + 60 * mib);  // for the next ones
        CHECK(s.trim() >= 60 * mib);
        CHECK(resident_bytes() < before + 6 * mib);
        CHECK(*address(s, one) == std::byte{1});
        CHECK(s.trim() == 0);
        CHECK(s.deallocate({&one, 1}));
        CHECK(s.trim() == 2 * mib);
    }

    TEST_CASE("memory that is used again does not go, what is free for long goes by itself") {
        using namespace std::chrono_literals;
        auto const start = std::chrono::steady_clock::now();
        heap_store s{{.decay = 50ms}};
        auto const count = [&] { return failing::now.mapped.load(); };
        long const empty = count();
        CHECK(s.deallocate(allocate(s, 4096, 4096)));
        long const full = count();
        CHECK(full >= empty + static_cast<long>(16 * mib));
        while (count() > empty + static_cast<long>(3 * mib) && std::chrono::steady_clock::now() - start < 60s) {
            std::this_thread::sleep_for(1ms);
            CHECK(s.deallocate(allocate(s, 1, 4096)));  // one span is used again and again
        }
        CHECK(count() <= empty + static_cast<long>(3 * mib));
        CHECK(std::chrono::steady_clock::now() - start >= 50ms);
    }

    TEST_CASE("small blocks do not cost a span each") {
        if (TENURE_SANITIZED) {
            MESSAGE("skipped: a sanitizer's own memory is counted, too");
            return;
        }
        heap_store        s;
        std::size_t const before = resident_bytes();
        for (std::size_t size = 16; size <= 65'536; size *= 2)
            *address(s, s.allocate(size, 16).value()) = std::byte{1};
        CHECK(resident_bytes() < before + mib);
    }

    TEST_CASE("every failure of the system is memory_full, and nothing is lost by it") {
        long const blocks_before = failing::now.blocks, mapped_before = failing::now.mapped;
        {
            heap_store s;
            long       failures = 0;
            for (std::size_t const size : {10ul, 5000ul, mib, 3 * mib}) {
                for (std::size_t const alignment : {16ul, 4 * mib}) {
                    (void)s.trim();
                    for (long nth = 1;; ++nth) {
                        auto const before = s.usage();
                        failing::arm(failing::allocation | failing::mapping, nth);
                        auto const b = s.allocate(size, alignment);
                        failing::disarm();
                        if (b) {
                            CHECK(s.usage().blocks == before.blocks + 1);
                            *address(s, b.value()) = std::byte{1};
                            CHECK(s.deallocate({&b.value(), 1}));
                            if (!failing::now.failed) break;
                        } else {
                            ++failures;
                            CHECK(b.error() == errc::memory_full);
                        }
                        CHECK(s.usage() == before);
                    }
                }
            }
            CHECK(failures >= 4 + (FAILING_ALLOCATIONS ? 2 : 0));
        }
        CHECK(failing::now.blocks == blocks_before);
        CHECK(failing::now.mapped == mapped_before);
    }

    TEST_CASE("deallocate allocates nothing, and works when nothing else does") {
        heap_store         s;
        std::vector<block> all;
        for (std::size_t size = 0; size < 4 * mib; size = size * 3 / 2 + 1) {
            for (int i = 0; i < 20; ++i) all.push_back(s.allocate(size, 8).value());
        }
        long const allocations = failing::now.allocations, mappings = failing::now.mappings;
        CHECK(s.deallocate(all));
        CHECK(failing::now.allocations == allocations);
        CHECK(failing::now.mappings == mappings);
        CHECK(s.usage() == tenure::store_usage{});
    }

    TEST_CASE("the destructor frees what is still live") {
        long const blocks_before = failing::now.blocks, mapped_before = failing::now.mapped;
        {
            heap_store s;
            for (std::size_t size = 0; size < 4 * mib; size = size * 2 + 1) allocate(s, 5, size);
        }
        CHECK(failing::now.blocks == blocks_before);
        CHECK(failing::now.mapped == mapped_before);
    }

    TEST_CASE("100,000 blocks in one call, in any order") {
        heap_store        s;
        std::size_t const count = TENURE_SANITIZED ? 20'000 : 100'000;
        auto              all   = allocate(s, count, 4096);
        dice              roll{7};
        for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[roll.below(i)]);
        CHECK(s.usage() == tenure::store_usage{count * 4096, count, 0});
        CHECK(s.deallocate(all));
        CHECK(s.usage() == tenure::store_usage{});
        CHECK(s.deallocate(all).error() == errc::no_such_block);
    }

    TEST_CASE("threads: each its own, and each what others made") {
        constexpr std::size_t threads = 8;
        heap_store            s{{.capacity = 1000 * mib}};
        std::size_t const     rounds = TENURE_SANITIZED ? 20 : 200;

        std::array<std::vector<block>, threads> made;
        std::atomic<int>                        wrong{0};
        auto const                              each = [&](auto f) {
            std::vector<std::thread> all;
            for (std::size_t t = 0; t < threads; ++t) all.emplace_back([f, t] { f(t); });
            for (auto& t : all) t.join();
        };
        each([&](std::size_t t) {
            dice roll{t};
            for (std::size_t r = 0; r < rounds; ++r) {
                std::vector<block> mine;
                for (int i = 0; i < 50; ++i) {
                    block const b = s.allocate(roll.below(roll.one_in(50) ? 2 * mib : 3000), 8).value();
                    fill(address(s, b), b.bytes, b.id);
                    mine.push_back(b);
                }
                for (block const b : mine) wrong += !is_filled(address(s, b), b.bytes, b.id);
                made[t].push_back(mine.back());
                mine.pop_back();
                if (!s.deallocate(mine)) ++wrong;
            }
        });
        std::size_t bytes = 0;
        for (auto const& m : made) {
            for (block const b : m) {
                bytes += b.bytes;
                wrong += !is_filled(address(s, b), b.bytes, b.id);
            }
        }
        CHECK(s.usage() == tenure::store_usage{bytes, threads * rounds, 1000 * mib});
        std::atomic<int> refused{0};
        each([&](std::size_t t) {  // two threads at the same blocks: one of them frees each
            refused += !s.deallocate(made[(t + 3) % threads / 2 * 2]);
            refused += !s.deallocate(made[(t + 3) % threads / 2 * 2 + 1]);
        });
        CHECK(refused >= 4 * 2);
        CHECK(wrong == 0);
        CHECK(s.usage() == tenure::store_usage{0, 0, 1000 * mib});
    }

    TEST_CASE("a random program does what a plain model does") {
        std::uint64_t const seed  = from_environment("TENURE_SEED", 1);
        std::uint64_t const steps = from_environment("TENURE_STEPS", TENURE_SANITIZED ? 20'000 : 200'000);
        CAPTURE(seed);
        dice                  roll{seed};
        constexpr std::size_t capacity = 64 * mib;
        heap_store            s{{.capacity = capacity, .decay = std::chrono::milliseconds(1)}};
        std::vector<std::pair<block, std::uint64_t>> live;  // with what they are filled
        std::vector<block>                           dead;
        std::map<std::byte*, std::size_t>            places;
        std::size_t                                  bytes = 0;

        auto const free_some = [&](std::size_t n) {
            std::vector<block> many;
            bool               expected = true;
            for (std::size_t i = 0; i < n && !live.empty(); ++i) {
                std::swap(live[roll.below(live.size())], live.back());
                auto const [b, fill_seed] = live.back();
                live.pop_back();
                if (!is_filled(address(s, b), std::min<std::size_t>(b.bytes, 4096), fill_seed)) FAIL("contents");
                places.erase(address(s, b));
                bytes -= b.bytes;
                many.push_back(b);
                if (dead.size() < 10'000) dead.push_back(b);
            }
            if (!dead.empty() && roll.one_in(5)) {
                many.push_back(dead[roll.below(dead.size())]);
                expected = false;
            }
            if (s.deallocate(many).has_value() != expected) FAIL("deallocate");
        };
        for (std::uint64_t step = 0; step < steps; ++step) {
            switch (roll.below(8)) {
            case 0: free_some(roll.one_in(20) ? roll.below(500) : roll.below(8)); break;
            case 1:
                if (!dead.empty() && s.address(dead[roll.below(dead.size())])) FAIL("a dead block has an address");
                break;
            case 2:
                if (roll.one_in(100)) (void)s.trim();
                break;
            default: {
                std::size_t const size      = roll.below(std::size_t{1} << roll.below(22));
                std::size_t const alignment = std::size_t{1} << roll.below(roll.one_in(20) ? 22 : 8);
                auto const        b         = s.allocate(size, alignment);
                if (b.has_value() != (bytes + size <= capacity)) FAIL("capacity");
                if (!b) {
                    free_some(live.size() / 2);
                    break;
                }
                std::byte* const p = address(s, *b);
                if (!aligned(p, alignment)) FAIL("alignment");
                auto const next = places.lower_bound(p);
                if (next != places.end() && p + std::max<std::size_t>(size, 1) > next->first) FAIL("overlap");
                if (next != places.begin()) {
                    auto const before = std::prev(next);
                    if (before->first + std::max<std::size_t>(before->second, 1) > p) FAIL("overlap");
                }
                places[p] = size;
                fill(p, std::min<std::size_t>(size, 4096), step);
                live.emplace_back(*b, step);
                bytes += size;
            }
            }
            if (step % 64 == 0 && s.usage() != tenure::store_usage{bytes, live.size(), capacity}) FAIL("usage");
        }
        free_some(live.size());
        CHECK(s.usage() == tenure::store_usage{0, 0, capacity});
    }

    TEST_CASE("through any_store") {
        tenure::any_store s{std::make_shared<heap_store>()};
        CHECK(s.capabilities().anonymous);
        CHECK(s.describe() == "heap");
        block const b = s.allocate(100, 8).value();
        CHECK(s.try_address(b).has_value());
        CHECK(s.get_if<heap_store>() != nullptr);
        CHECK(s.deallocate({&b, 1}));
    }

    TEST_CASE("passes the suite") {
        constexpr tenure::conformance_options less{
            .max_bytes = 1 << 20, .free_count = 2'000, .threads = 4, .steps = 300};
        constexpr tenure::conformance_options amount = TENURE_SANITIZED ? less : tenure::conformance_options{};
        auto const report = tenure::check_store([] { return std::make_shared<heap_store>(); }, amount);
        INFO(report.to_text());
        CHECK(report.ok());
        auto const limited = tenure::check_store(
            [] { return std::make_shared<heap_store>(tenure::heap_options{.capacity = mib}); }, amount);
        INFO(limited.to_text());
        CHECK(limited.ok());
    }

#if TENURE_ASAN
    TEST_CASE("AddressSanitizer knows what lives") {
        heap_store s;
        for (std::size_t const size : {0ul, 24ul, 5000ul, 3 * mib + 8}) {
            block const      b = s.allocate(size, 8).value();
            std::byte* const p = address(s, b);
            CHECK(__asan_region_is_poisoned(p, size) == nullptr);
            CHECK(__asan_address_is_poisoned(p + size));
            CHECK(s.deallocate({&b, 1}));
            if (size <= mib) CHECK(__asan_address_is_poisoned(p));
        }
    }

    TEST_CASE("LeakSanitizer sees what is named in a block only") {
        static heap_store* const for_ever = new heap_store;
        for (std::size_t const size : {8ul, 3 * mib}) {
            auto const n = new int(5);
            CHECK(for_ever->write(for_ever->allocate(size, 8).value(), 0, std::as_bytes(std::span(&n, 1))));
        }
    }
#endif
}
