// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// make_for_overwrite: as make, but default-initialised.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "journal.hpp"
#include "throws.hpp"

namespace {

using tenure::batch_owner;
using tenure::batch_scope;
using tenure::errc;
using tenure::handle;
using tenure::registry;

struct plain {
    std::uint64_t words[8];
};

/// Its constructor writes one of its members.
struct half {
    half() : written(1) {}

    int written;
    int left[15];
};

/// Its constructor writes nothing, but it has a destructor.
struct ends {
    ends() {}  // NOLINT(modernize-use-equals-default): no part of it is to be initialised
    ~ends() { ++ended; }

    std::uint64_t     words[8];
    static inline int ended = 0;
};

struct fragile {
    fragile() {
        if (++made == 3) throw std::runtime_error("the third");
        ++alive;
    }
    ~fragile() { --alive; }

    static inline int made = 0, alive = 0;
};

constexpr unsigned char before = 0xAB;

/// Has a batch of the registry leave `bytes` full of `before` where the next batch makes its objects.
void const* fill(registry& r, std::size_t bytes) {
    batch_scope b(r);
    auto const  all = b.make<unsigned char[]>(bytes);
    std::ranges::fill(all.span(), before);
    return all.get();
}

/// Whether all bytes are as fill() left them. The compiler does not know where `p` comes from, so it may not think
/// that the bytes are indeterminate.
bool untouched(void const* p, std::size_t bytes) {
    asm volatile("" : "+r"(p) : : "memory");
    auto const* const at = static_cast<unsigned char const*>(p);
    return std::all_of(at, at + bytes, [](unsigned char c) { return c == before; });
}

constexpr std::size_t elements[] = {1, 100, 1'000, 20'000, 500'000};

}  // namespace

TEST_SUITE("make_for_overwrite") {
    TEST_CASE("writes no byte of what has no constructor") {
        registry         r;
        accounting const books(r);
        SUBCASE("an object") {
            void const* const at = fill(r, sizeof(plain));
            batch_scope       b(r);
            handle<plain>     h;
            SUBCASE("of a scope") { h = b.make_for_overwrite<plain>(); }
            SUBCASE("by the try_ form") { h = *b.try_make_for_overwrite<plain>(); }
            SUBCASE("of the current batch") { h = tenure::make_for_overwrite<plain>(); }
            SUBCASE("of that, by the try_ form") { h = *tenure::try_make_for_overwrite<plain>(); }
            CHECK(h.get() == at);
            CHECK(untouched(h.get(), sizeof(plain)));
            CHECK(b.usage().objects == 1);
            b.end();
            CHECK_FALSE(h.alive());
        }
        SUBCASE("an array") {
            for (std::size_t const n : elements) {
                CAPTURE(n);
                void const* const at = fill(r, n * sizeof(plain));
                batch_scope       b(r);
                handle<plain[]>   h;
                SUBCASE("of a scope") { h = b.make_for_overwrite<plain[]>(n); }
                SUBCASE("by the try_ form") { h = *b.try_make_for_overwrite<plain[]>(n); }
                SUBCASE("of the current batch") { h = tenure::make_for_overwrite<plain[]>(n); }
                SUBCASE("of that, by the try_ form") { h = *tenure::try_make_for_overwrite<plain[]>(n); }
                CHECK(h.size() == n);
                CHECK(h.get() == at);
                CHECK(untouched(h.get(), n * sizeof(plain)));
                CHECK(b.usage().objects == 1);
            }
        }
        SUBCASE("through an owner, and in a lane") {
            void const* const at = fill(r, 100 * sizeof(plain));
            batch_owner       b(r);
            auto const        one = b.make_for_overwrite<plain>();
            CHECK(one.get() == at);
            CHECK(untouched(one.get(), sizeof(plain)));
            auto const some = b.make_for_overwrite<plain[]>(10);
            CHECK(untouched(some.get(), 10 * sizeof(plain)));
            auto const   inside = b.enter();
            batch_scope  child(r);
            tenure::lane l    = child.lane();
            auto const   more = l.make_for_overwrite<plain>();
            auto const   most = *l.try_make_for_overwrite<plain[]>(7);
            CHECK(more.owner() == child.id());
            CHECK(most.size() == 7);
        }
    }

    TEST_CASE("runs the constructors of what has some") {
        registry         r;
        accounting const books(r);
        fill(r, 16'000);
        batch_scope b(r);
        auto const  one = b.make_for_overwrite<half>();
        CHECK(one->written == 1);
        CHECK(untouched(one->left, sizeof(one->left)));
        auto const some = b.make_for_overwrite<half[]>(100);
        CHECK(std::ranges::all_of(some.span(), [](half const& h) { return h.written == 1; }));
        CHECK(untouched(some[99].left, sizeof(some[99].left)));
        CHECK(b.make_for_overwrite<std::string>()->empty());
        CHECK(b.make_for_overwrite<std::vector<int>[]>(3)[2].empty());
        CHECK(b.make_for_overwrite<int const>().alive());
    }

    TEST_CASE("runs the destructors of what has some") {
        registry         r;
        accounting const books(r);
        fill(r, 16'000);
        ends::ended = 0;
        {
            batch_scope b(r);
            auto const  one  = b.make_for_overwrite<ends>();
            auto const  some = b.make_for_overwrite<ends[]>(10);
            CHECK(untouched(one->words, sizeof(one->words)));
            CHECK(untouched(some.get(), 10 * sizeof(ends)));
        }
        CHECK(ends::ended == 11);
    }

    TEST_CASE("registers nothing if a constructor throws") {
        registry         r;
        accounting const books(r);
        batch_scope      b(r);
        for (int i = 0; i < 3; ++i) {
            fragile::made = 0;
            CHECK_THROWS_WITH(b.make_for_overwrite<fragile[]>(5), "the third");
            fragile::made = 2;
            CHECK_THROWS_WITH(b.make_for_overwrite<fragile>(), "the third");
        }
        CHECK(fragile::alive == 0);
        CHECK(b.usage().objects == 0);
        CHECK(b.usage().bytes == 0);
    }

    TEST_CASE("fails as make does") {
        registry         r;
        accounting const books(r);
        batch_scope      b(r, {.limits = {.hard = 1000}});
        CHECK(b.try_make_for_overwrite<char[]>(2000).error() == errc::limit_exceeded);
        check_throws(errc::limit_exceeded, {"raise"}, [&] { b.make_for_overwrite<plain[]>(100); });
        CHECK(b.try_make_for_overwrite<plain[]>(~std::size_t{0} / 64 + 2).error() == errc::memory_full);
        CHECK(b.try_make_for_overwrite<ends[]>(~std::size_t{0} / 64 + 2).error() == errc::memory_full);
        CHECK(b.try_make_for_overwrite<plain[]>(0).has_value());
        b.end();
        CHECK(b.try_make_for_overwrite<plain>().error() == errc::batch_ended);
        check_throws(errc::batch_ended, {}, [&] { b.make_for_overwrite<plain>(); });
    }
}
