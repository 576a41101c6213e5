// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <thread>

#include <tenure/tenure.hpp>

// Memory that was freed last is still in a cache, so it is used first. What is counted here is how many places a
// program touches that makes and ends the same batch again and again; time plays no part.

namespace {

using tenure::batch_scope;
using tenure::registry;

constexpr int rounds = 200;

struct places {
    std::set<std::uintptr_t> seen;

    void        touch(void* p) { seen.insert(reinterpret_cast<std::uintptr_t>(p)); }
    std::size_t count() const { return seen.size(); }
};

constexpr std::size_t sizes[] = {1'000,   65'000,  65'536,    70'000,    100'000,   131'072,  150'000,
                                 200'000, 262'144, 1'000'000, 1'048'576, 1'500'000, 3'000'000};

}  // namespace

TEST_SUITE("warm memory") {
    TEST_CASE("a batch a round with one object uses one place, whatever its size") {
        for (std::size_t const bytes : sizes) {
            CAPTURE(bytes);
            registry r;
            places   all;
            for (int i = 0; i < rounds; ++i) {
                batch_scope b(r);
                all.touch(b.make<std::byte[]>(bytes).get());
            }
            CHECK(all.count() == 1);
        }
    }

    TEST_CASE("a large batch that is made again takes no more memory than the first") {
        registry    r;
        std::size_t first = 0;
        for (int i = 0; i < 3; ++i) {
            batch_scope b(r);
            for (std::size_t made = 0; made < 1'000'000'000; made += 4'000)
                b.make_for_overwrite<std::byte[]>(4'000);  // nothing touches these
            auto const now = r.usage();
            if (i == 0) first = now.held + now.cached;
            CHECK(now.held + now.cached == first);
        }
    }

    TEST_CASE("one object a round that is freed early, too, in a batch that goes on") {
        for (std::size_t const bytes : sizes) {
            if (bytes < 70'000) continue;  // small ones are left in their holes until the batch ends
            CAPTURE(bytes);
            registry    r;
            places      all;
            batch_scope b(r);
            for (int i = 0; i < rounds; ++i) {
                auto const object = b.make<std::byte[]>(bytes);
                all.touch(object.get());
                b.free(object);
            }
            CHECK(all.count() == 1);
        }
    }

    TEST_CASE("pieces of resource(), too") {
        for (std::size_t const bytes : sizes) {
            CAPTURE(bytes);
            registry r;
            places   all;
            for (int i = 0; i < rounds; ++i) {
                batch_scope b(r);
                all.touch(b.resource()->allocate(bytes, 8));
            }
            CHECK(all.count() == 1);
        }
    }

    TEST_CASE("ten objects a round of several sizes use ten places or so") {
        registry r;
        places   all;
        for (int i = 0; i < rounds; ++i) {
            batch_scope b(r);
            for (std::size_t const bytes : {70'000u, 100'000u, 131'072u, 200'000u, 250'000u})
                for (int k = 0; k < 2; ++k) all.touch(b.make<std::byte[]>(bytes).get());
        }
        CHECK(all.count() <= 20);
    }

    TEST_CASE("what another thread ends comes back to the thread that made it") {
        registry r;
        places   all;
        for (int i = 0; i < rounds; ++i) {
            tenure::batch_id id;
            {
                batch_scope b(r);
                all.touch(b.make<std::byte[]>(100'000).get());
                id = b.detach();
            }
            std::jthread([&] { r.end_batch(id); });
        }
        CHECK(all.count() == 1);
    }
}
