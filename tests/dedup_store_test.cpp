// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include "failing.hpp"  // first

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/store/counted.hpp>
#include <tenure/store/dedup.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/store/limited.hpp>
#include <tenure/testing/faulty_store.hpp>

#include "stores/contents.hpp"
#include "stores/plain_store.hpp"

namespace {

using namespace tenure;

/// Everything collides that begins with the same byte.
struct first_byte {
    bool update(std::span<std::byte const> piece) noexcept {
        if (!begun && !piece.empty()) first = static_cast<std::uint64_t>(piece.front());
        begun = begun || !piece.empty();
        return true;
    }
    content_hash digest() noexcept { return {first, 0}; }

    bool          begun = false;
    std::uint64_t first = 0;
};
static_assert(content_hasher<first_byte>);

/// One that never has memory.
struct no_hash {
    bool         update(std::span<std::byte const>) noexcept { return false; }
    content_hash digest() noexcept { return {}; }
};

using faulty = faulty_store<plain_store<>>;

template <class Hasher = xxh3_128>
struct fixture {
    std::shared_ptr<faulty>     base = std::make_shared<faulty>(std::make_shared<plain_store<>>());
    dedup_store<faulty, Hasher> store{base};

    /// Live blocks, and how many contents are stored for them.
    void expect(std::size_t blocks, std::size_t stored) const {
        dedup_figures const f = store.figures();
        CHECK(store.usage() == store_usage{f.bytes, f.blocks, 0});
        CHECK(f.blocks == blocks);
        CHECK(f.stored_blocks == stored);
        CHECK(base->usage() == store_usage{f.stored_bytes, f.stored_blocks, 0});
    }
    void expect_empty() const {
        expect(0, 0);
        CHECK(store.figures().left_behind == 0);
    }
};

}  // namespace

TEST_CASE("10,000 copies of 100 different blocks are stored as 100") {
    constexpr std::size_t    size = 4096;
    auto const               base = std::make_shared<counted_store<heap_store>>(std::make_shared<heap_store>());
    dedup_store              s(base);
    std::vector<block>       live;
    std::vector<byte_vector> distinct;
    for (std::uint64_t i = 0; i < 100; ++i) distinct.push_back(pattern(i, size));
    for (std::size_t i = 0; i < 10'000; ++i) live.push_back(made(s, distinct[i % 100]));

    CHECK(s.usage() == store_usage{10'000 * size, 10'000, 0});
    CHECK(base->usage().bytes * 100 <= 100 * size * 105);
    CHECK(base->usage().blocks == 100);
    CHECK(base->figures().peak_bytes == 100 * size);
    CHECK(base->figures().bytes_written == 100 * size);
    CHECK(s.figures().merged == 9'900);
    MESSAGE(s.figures().to_text());
    for (std::size_t i = 0; i < live.size(); i += 7) CHECK(contents(s, live[i]) == distinct[i % 100]);

    long const before = failing::now.allocations;
    CHECK(s.deallocate(live));
    CHECK(failing::now.allocations == before);
    CHECK(base->figures().deallocate == counted_calls{1, 0});
    CHECK(base->usage() == store_usage{});
    CHECK(s.usage() == store_usage{});
}

TEST_CASE_TEMPLATE("copies written piece by piece", Base, heap_store, plain_store<>) {
    auto const         base = std::make_shared<Base>();
    dedup_store        s(base);
    byte_vector const  want = pattern(1, 200'000);
    std::vector<block> live;
    for (std::size_t const piece : {200'000u, 100'000u, 70'001u, 4'096u}) {
        live.push_back(s.allocate(want.size(), 1).value());
        for (std::size_t at = 0; at < want.size(); at += piece)
            REQUIRE(s.write(live.back(), at, std::span(want).subspan(at, std::min(piece, want.size() - at))));
        CHECK(base->usage().blocks == 1);
    }
    for (block const b : live) CHECK(contents(s, b) == want);
    CHECK(s.figures().merged == 3);
}

TEST_CASE("writing to a shared block gives it its own bytes") {
    fixture           f;
    byte_vector const one = pattern(1, 1'000);
    block const       a = made(f.store, one), b = made(f.store, one), c = made(f.store, one);
    f.expect(3, 1);
    byte_vector       two = one;
    byte_vector const in  = pattern(2, 100);
    std::ranges::copy(in, two.begin() + 500);
    REQUIRE(f.store.write(b, 500, in));
    f.expect(3, 2);
    CHECK(f.store.figures().parted == 1);
    CHECK(contents(f.store, a) == one);
    CHECK(contents(f.store, b) == two);
    CHECK(contents(f.store, c) == one);

    REQUIRE(f.store.write(c, 500, in));  // not compared, as it did not reach the end
    f.expect(3, 3);
    CHECK(f.store.seal(b));
    CHECK(f.store.seal(c));
    f.expect(3, 2);
    CHECK(contents(f.store, c) == two);

    REQUIRE(f.store.write(b, 0, one));  // back to what it was
    REQUIRE(f.store.write(c, 900, std::span(one).subspan(900)));
    f.expect(3, 2);
    REQUIRE(f.store.write(c, 500, std::span(one).subspan(500)));
    f.expect(3, 1);
    REQUIRE(f.store.deallocate(std::vector{a, b}));
    CHECK(contents(f.store, c) == one);
    REQUIRE(f.store.deallocate(std::vector{c}));
    f.expect_empty();
}

TEST_CASE("a block that was changed is no longer found by what it was") {
    fixture           f;
    byte_vector const one = pattern(1, 100), two = pattern(2, 100);
    block const       a = made(f.store, one);
    REQUIRE(f.store.write(a, 0, std::span(two).first(1)));
    block const b = made(f.store, one);
    f.expect(2, 2);
    CHECK(contents(f.store, b) == one);
    REQUIRE(f.store.write(a, 0, two));
    block const c = made(f.store, two);
    f.expect(3, 2);
    REQUIRE(f.store.write(a, 0, two));  // the same again
    f.expect(3, 2);
    CHECK(contents(f.store, c) == two);
}

TEST_CASE("what was not written takes no room, and reads as zeros") {
    fixture     f;
    block const a = f.store.allocate(1'000, 1).value();
    CHECK(contents(f.store, a) == byte_vector(1'000));
    CHECK(f.store.seal(a));
    f.expect(1, 0);
    CHECK(f.store.usage().bytes == 1'000);
    REQUIRE(f.store.deallocate({&a, 1}));
    CHECK(f.store.seal(a).error() == errc::no_such_block);
    CHECK(f.base->calls() == 0);
}

TEST_CASE("sizes differ, blocks differ") {
    fixture f;
    for (std::size_t n = 0; n < 50; ++n) made(f.store, byte_vector(n));
    f.expect(50, 49);
}

TEST_CASE("a collision does not merge") {
    fixture<first_byte>      f;
    std::vector<byte_vector> distinct;
    for (std::uint64_t i = 0; i < 20; ++i) {
        byte_vector x = pattern(i, 10'000);
        x[0]          = std::byte{7};
        distinct.push_back(x);
    }
    distinct.push_back(distinct.back());
    distinct.back().back() ^= std::byte{1};  // the very last byte
    std::vector<block> live;
    for (int round = 0; round < 3; ++round)
        for (auto const& x : distinct) live.push_back(made(f.store, x));
    f.expect(63, 21);
    CHECK(f.store.figures().collisions > 0);
    for (std::size_t i = 0; i < live.size(); ++i) CHECK(contents(f.store, live[i]) == distinct[i % 21]);
    for (std::size_t i = 0; i < live.size(); i += 2) REQUIRE(f.store.deallocate({&live[i], 1}));
    for (std::size_t i = 1; i < live.size(); i += 2) CHECK(contents(f.store, live[i]) == distinct[i % 21]);
}

TEST_CASE("without a hash blocks are merely stored twice") {
    fixture<no_hash> f;
    block const      a = made(f.store, pattern(1, 100)), b = made(f.store, pattern(1, 100));
    REQUIRE(f.store.write(a, 50, pattern(2, 50)));
    CHECK(contents(f.store, b) == pattern(1, 100));
    f.expect(2, 2);
}

TEST_CASE("XXH3-128 of the pieces is that of the whole") {
    byte_vector all;
    for (int i = 0; i < 256; ++i) all.push_back(static_cast<std::byte>(i));
    xxh3_128 whole, pieces;
    REQUIRE(whole.update(all));
    for (std::byte const& b : all) REQUIRE(pieces.update({&b, 1}));
    CHECK(whole.digest() == pieces.digest());
    XXH128_hash_t const h = XXH3_128bits(all.data(), all.size());
    CHECK(whole.digest() == content_hash{h.low64, h.high64});
}

TEST_CASE("too little room: the write says so, and the block is as it was") {
    auto const base =
        std::make_shared<limited_store<heap_store>>(std::make_shared<heap_store>(), store_limits{.bytes = 250});
    dedup_store s(base);
    block const a = made(s, pattern(1, 100)), b = made(s, pattern(1, 100)), c = made(s, pattern(2, 100));
    CHECK(s.allocate(251, 1).error() == errc::store_full);
    CHECK(s.write(b, 10, pattern(3, 10)).error() == errc::store_full);
    CHECK(s.write(b, 0, pattern(3, 100)).error() == errc::store_full);
    CHECK(contents(s, a) == pattern(1, 100));
    CHECK(contents(s, b) == pattern(1, 100));
    CHECK(s.write(c, 0, pattern(1, 100)));
    CHECK(s.write(b, 0, pattern(3, 100)));
    CHECK(base->usage().bytes == 200);
    CHECK(s.allocate(1, 3).error() == errc::bad_alignment);
}

TEST_CASE("a write to a shared block that fails anywhere leaves all blocks as they were") {
    byte_vector const one = pattern(1, 100'000), two = pattern(2, 100'000);
    for (bool const whole : {false, true}) {
        for (std::uint64_t const times : {1u, 2u, 1000u}) {
            for (int const how : {0, 1, 2}) {
                for (std::uint64_t nth = 1;; ++nth) {
                    CAPTURE(whole);
                    CAPTURE(times);
                    CAPTURE(how);
                    CAPTURE(nth);
                    fixture     f;
                    block const a = made(f.store, one), b = made(f.store, one), c = made(f.store, two);
                    fault       x{.nth = nth, .times = times};
                    if (how == 1) x.how = faults::shortens{.to = 10};
                    if (how == 2) x.how = faults::shortens{};  // done, and yet an error
                    f.base->clear();
                    f.base->inject(x);
                    byte_vector now = one;
                    bool const  ok  = whole ? f.store.write(b, 0, two).has_value()
                                            : f.store.write(b, 50'000, std::span(two).subspan(50'000)).has_value();
                    if (ok)
                        std::ranges::copy(std::span(two).subspan(whole ? 0 : 50'000),
                                          now.begin() + (whole ? 0 : 50'000));
                    bool const struck = f.base->struck() != 0;
                    f.base->clear();
                    CHECK(contents(f.store, a) == one);
                    CHECK(contents(f.store, b) == now);
                    CHECK(contents(f.store, c) == two);
                    CHECK(f.store.usage().blocks == 3);
                    REQUIRE(f.store.deallocate(std::vector{b, a, c}));
                    REQUIRE(f.store.deallocate({}));
                    f.expect_empty();
                    if (!struck) break;
                }
            }
        }
    }
}

TEST_CASE("a batch of which a part is freed: the rest lives on, and is found") {
    for (std::size_t to = 0; to <= 5; ++to) {
        fixture            f;
        std::vector<block> live;
        for (std::uint64_t i = 0; i < 15; ++i) live.push_back(made(f.store, pattern(i % 5, 100)));
        f.base->inject({.on = store_operation::deallocate, .how = faults::shortens{.to = to}});
        CHECK(f.store.deallocate(live).has_value() == (to == 5));
        f.expect(5 - to, 5 - to);  // of each content the last block
        for (std::uint64_t i = 0; i < 15; ++i) {
            byte_vector out(100);
            if (f.store.read(live[i], 0, out)) CHECK(out == pattern(i % 5, 100));
        }
        std::vector<block> more;
        for (std::uint64_t i = 0; i < 5; ++i) more.push_back(made(f.store, pattern(i, 100)));
        f.expect(10 - to, 5);
        if (to < 5) CHECK(f.store.deallocate(live).error() == errc::no_such_block);
        CHECK(f.store.deallocate(more));
        f.expect_empty();
    }
}

TEST_CASE("the destructor frees what is live") {
    auto const base = std::make_shared<counted_store<heap_store>>(std::make_shared<heap_store>());
    {
        dedup_store s(base);
        for (std::uint64_t i = 0; i < 100; ++i) made(s, pattern(i % 10, 100));
    }
    CHECK(base->usage() == store_usage{});
    CHECK(base->figures().deallocate == counted_calls{1, 0});
}

TEST_CASE("without memory nothing is lost") {
    auto const                                   base = std::make_shared<heap_store>();
    std::vector<std::pair<block, std::uint64_t>> live;
    live.reserve(300);
    std::vector<byte_vector> distinct;
    for (std::uint64_t i = 0; i < 150; ++i) distinct.push_back(pattern(i, 10));
    for (long nth = 1; FAILING_ALLOCATIONS; ++nth) {
        dedup_store s(base);
        failing::arm(failing::allocation | failing::mapping, nth);
        for (std::uint64_t i = 0; i < 300; ++i) {
            auto const b = s.allocate(10, 1);
            if (!b) continue;
            if (s.write(*b, 0, distinct[i % 150])) live.emplace_back(*b, i % 150);
            else s.deallocate({&*b, 1}).value();
        }
        failing::disarm();
        CHECK(s.usage().blocks == live.size());
        CHECK(live.size() >= 298);
        for (auto const& [b, i] : live) CHECK(contents(s, b) == distinct[i]);
        for (auto const& [b, i] : live) CHECK(s.deallocate({&b, 1}));
        CHECK(base->usage() == store_usage{});
        live.clear();
        if (!failing::now.failed) break;
    }
}

namespace {

/// A random program against a plain model; with faults, if they are wanted.
template <class Hasher>
void run_program(std::uint64_t seed, std::uint64_t steps, bool with_faults) {
    struct known {
        block       b;
        byte_vector contents;
        bool        sure = true;  ///< a write that failed may leave bytes unspecified
    };
    CAPTURE(seed);
    dice               d(seed);
    fixture<Hasher>    f;
    std::vector<known> live;
    std::size_t        held  = 0;
    auto const         drawn = [&](std::size_t n) { return pattern(d.below(4), n); };

    for (std::uint64_t step = 0; step < steps; ++step) {
        CAPTURE(step);
        if (with_faults && d.one_in(10)) {
            fault x{.nth = 1 + d.below(5), .times = 1 + d.below(3)};
            if (d.one_in(2)) x.how = faults::shortens{.to = d.below(200)};
            f.base->inject(x);
        } else if (d.one_in(10)) {
            f.base->clear();
        }
        known* const k = live.empty() ? nullptr : &live[d.below(live.size())];
        switch (d.below(8)) {
        case 0: {
            static constexpr std::size_t sizes[] = {0, 1, 100, 100, 5'000};
            std::size_t const            n       = sizes[d.below(5)];
            live.push_back({f.store.allocate(n, 1).value(), byte_vector(n)});
            held += n;
            break;
        }
        case 1:
        case 2:
        case 3: {
            if (!k) break;
            byte_vector in = drawn(k->b.bytes);
            if (f.store.write(k->b, 0, in)) k->contents = std::move(in), k->sure = true;
            else k->sure = false;
            if (!k->sure) REQUIRE(with_faults);
            break;
        }
        case 4: {
            if (!k) break;
            bool const        fresh = k->b.bytes && !k->sure;
            std::size_t const at    = d.below(k->b.bytes + 1);
            std::size_t const n     = d.one_in(2) ? k->b.bytes - at : d.below(k->b.bytes - at + 1);
            byte_vector const all   = drawn(k->b.bytes);
            auto const        in    = std::span(all).subspan(at, n);
            bool const blank = std::ranges::all_of(k->contents, [](std::byte x) { return x == std::byte{0}; });
            if (f.store.write(k->b, at, in)) {
                std::ranges::copy(in, k->contents.begin() + static_cast<long>(at));
                if (blank && n != k->b.bytes && n != 0) k->sure = false;  // unspecified around what was written
            } else {
                REQUIRE(with_faults);
                k->sure = false;
            }
            if (fresh && n != k->b.bytes) k->sure = false;
            break;
        }
        case 5: {
            if (!k) break;
            byte_vector out(k->b.bytes);
            if (!f.store.read(k->b, 0, out)) REQUIRE(with_faults);
            else if (k->sure) REQUIRE(out == k->contents);
            break;
        }
        case 6:
            if (k) REQUIRE(f.store.seal(k->b));
            break;
        case 7: {
            if (live.size() < 20 && !d.one_in(4)) break;
            std::vector<block> many;
            for (std::size_t n = d.one_in(20) ? live.size() : d.below(std::min<std::size_t>(live.size(), 6) + 1);
                 n--;) {
                std::swap(live[d.below(live.size())], live.back());
                many.push_back(live.back().b);
                held -= live.back().b.bytes;
                live.pop_back();
            }
            if (auto const r = f.store.deallocate(many); !r) {
                REQUIRE(with_faults);
                REQUIRE(r.error() != errc::no_such_block);
                f.base->clear();
                f.store.deallocate(many);
            }
            break;
        }
        }
        REQUIRE(f.store.usage().bytes == held);
        REQUIRE(f.store.usage().blocks == live.size());
        if (!with_faults) REQUIRE(f.base->usage().blocks == f.store.figures().stored_blocks);
    }
    f.base->clear();
    std::set<byte_vector> distinct;
    for (known& k : live) {
        if (k.sure) REQUIRE(contents(f.store, k.b) == k.contents);
        if (k.b.bytes == 0) continue;
        byte_vector in = drawn(k.b.bytes);
        REQUIRE(f.store.write(k.b, 0, in));
        distinct.insert(std::move(in));
    }
    REQUIRE(f.store.deallocate({}));
    REQUIRE(f.base->usage().blocks == distinct.size());
    std::vector<block> rest;
    for (known const& k : live) rest.push_back(k.b);
    REQUIRE(f.store.deallocate(rest));
    REQUIRE(f.store.deallocate({}));
    f.expect_empty();
}

}  // namespace

TEST_CASE_TEMPLATE("random programs", Hasher, xxh3_128, first_byte) {
    std::uint64_t const steps = from_environment("TENURE_STEPS", TENURE_SANITIZED ? 8'000 : 80'000);
    std::uint64_t const seed  = from_environment("TENURE_SEED", 1);
    for (std::uint64_t i = 0; i < 4; ++i) {
        run_program<Hasher>(seed + i, steps / 16, false);
        run_program<Hasher>(seed + i, steps / 16, true);
    }
}

TEST_CASE_TEMPLATE("threads that write the same contents", Hasher, xxh3_128, first_byte) {
    auto const base = std::make_shared<plain_store<>>();
    {
        dedup_store<plain_store<>, Hasher> s(base);
        std::vector<byte_vector>           contents_of;
        for (std::uint64_t i = 0; i < 8; ++i) contents_of.push_back(pattern(i, 1'000));
        for (auto& x : contents_of) x[0] = std::byte{};  // so that they collide
        std::atomic<int>                wrong{0};
        std::vector<std::vector<block>> kept(4);
        {
            std::vector<std::jthread> threads;
            for (std::uint64_t t = 0; t < 4; ++t)
                threads.emplace_back([&, t] {
                    dice                                       d(t);
                    std::vector<std::pair<block, std::size_t>> live;
                    for (int i = 0; i < (TENURE_SANITIZED ? 500 : 5'000); ++i) {
                        std::size_t const n = d.below(8);
                        if (live.size() < 20) live.emplace_back(made(s, contents_of[n]), n);
                        auto& [b, what] = live[d.below(live.size())];
                        if (contents(s, b) != contents_of[what]) ++wrong;
                        if (d.one_in(3)) {
                            what                   = n;
                            std::size_t const half = d.below(1'000);
                            s.write(b, 0, std::span(contents_of[n]).first(half)).value();
                            s.write(b, half, std::span(contents_of[n]).subspan(half)).value();
                        }
                        if (d.one_in(20)) {
                            std::vector<block> many;
                            for (auto const& x : live) many.push_back(x.first);
                            if (!s.deallocate(many)) ++wrong;
                            live.clear();
                        }
                    }
                    for (auto const& x : live) kept[t].push_back(x.first);
                    kept[t].push_back(made(s, contents_of[t]));
                });
        }
        CHECK(wrong == 0);
        dedup_figures const f = s.figures();
        CHECK(base->usage() == store_usage{f.stored_bytes, f.stored_blocks, 0});
        CHECK(f.stored_blocks <= 8);
        CHECK(f.left_behind == 0);
        for (auto const& many : kept) CHECK(s.deallocate(many));
    }
    CHECK(base->usage() == store_usage{});
}
