// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Buffers of memory that was made elsewhere: used as any buffer, and ended once, whoever ends them.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "stores/lab_buffers.hpp"
#include "throws.hpp"

namespace {

using tenure::any_store;
using tenure::batch_scope;
using tenure::buffer;
using tenure::errc;

/// Memory from malloc(), with numbers from 1 on, and how often it was ended. What is never ended leaks, and what is
/// used after that is seen by AddressSanitizer.
class foreign {
public:
    std::span<int> make(std::size_t n) {
        auto* const first = static_cast<int*>(std::malloc(n ? n * sizeof(int) : 1));
        std::ranges::copy(numbers(n), first);
        return {first, n};
    }
    auto deleter() {
        return [this](int* p) {
            std::free(p);
            ++ended;
        };
    }
    buffer<int> adopt(batch_scope& in, std::size_t n) { return in.adopt_buffer(make(n), deleter()); }

    std::atomic<int> ended = 0;
};

struct world : lab {
    foreign memory;
};

}  // namespace

TEST_SUITE("an adopted buffer") {
    TEST_CASE_FIXTURE(world, "is that memory, and ends with its batch") {
        batch_scope b(r);
        auto const  all = memory.make(1000);
        auto const  x   = b.adopt_buffer(all, memory.deleter());
        CHECK(x.size() == 1000);
        CHECK(x.owner() == b.id());
        CHECK(x.map().data() == all.data());
        CHECK(contents(x) == numbers(1000));
        x.write(0, std::array{-1});
        CHECK(all[0] == -1);
        all[1] = -2;
        x.slice(2, 998).fill(5);
        CHECK(contents(x)[1] == -2);
        CHECK(all[999] == 5);
        CHECK(x.try_read(999, std::span(all).first(2)).error() == errc::out_of_range);
        CHECK(x.stores().front().describe() == "adopted memory");
        CHECK(x.stores().front().usage().bytes == 4000);
        CHECK(b.usage().buffer_bytes == 4000);
        auto const y = b.make_buffer<int>(1000, make_far());
        x.copy_to(y);
        y.copy_to(x);
        CHECK(contents(y) == contents(x));
        CHECK(memory.ended == 0);
        auto const report = b.end();
        CHECK(memory.ended == 1);
        CHECK(report.buffers == 2);
        CHECK(report.store_errors == 0);
        CHECK_FALSE(x.alive());
        CHECK(x.try_fill(1).error() == errc::stale_handle);
    }

    TEST_CASE_FIXTURE(world, "is freed, kept and given away as others are") {
        batch_scope outer(r);
        buffer<int> kept;
        {
            batch_scope b(r);
            auto const  x = memory.adopt(b, 3), y = memory.adopt(b, 0);
            kept = b.keep(memory.adopt(b, 5));
            r.transfer_ownership(y, r.root());
            b.free(x);
            CHECK(memory.ended == 1);
            CHECK_FALSE(x.alive());
            memory.adopt(b, 7);
            b.end();
            CHECK(memory.ended == 2);
            CHECK(y.alive());
            CHECK(y.map().empty());
            r.free(y);
            CHECK(memory.ended == 3);
        }
        CHECK(contents(kept) == numbers(5));
        std::jthread([&] { r.free(kept); }).join();
        CHECK(memory.ended == 4);
        tenure::share(kept = memory.adopt(outer, 5), r.root());
        outer.end();
        CHECK(contents(kept) == numbers(5));
        CHECK(memory.ended == 4);
        r.unshare(kept, r.root());
        CHECK(memory.ended == 5);
        for (int i = 0; i < 100; ++i) {
            batch_scope b(r);
            r.free(r.transfer_ownership(memory.adopt(b, 1), r.root()));
        }
        CHECK(memory.ended == 105);
        CHECK(r.snapshot().stores.size() == 2);  // a batch that goes on remembers one store, and not each memory
    }

    TEST_CASE_FIXTURE(world, "many of one batch, in a batch that is cancelled, and in one that is discarded") {
        {
            batch_scope b(r);
            for (int i = 0; i < 300; ++i) memory.adopt(b, 1);
        }
        CHECK(memory.ended == 300);
        batch_scope b(r);
        auto const  x  = memory.adopt(b, 1);
        auto const  at = x.map();
        b.cancel();
        CHECK(x.try_fill(3).error() == errc::cancelled);
        CHECK(at[0] == 1);  // whoever has the address may still be using it
        CHECK(memory.ended == 300);
        b.end();
        CHECK(memory.ended == 301);
        auto const  other = memory.make(1);
        batch_scope c(r);
        c.adopt_buffer(other, memory.deleter());  // never mapped; its maker has the address all the same
        c.cancel();
        CHECK(other[0] == 1);
        c.discard();
        CHECK(memory.ended == 302);
    }

    TEST_CASE_FIXTURE(world, "that moves to another store is ended then") {
        auto const  store = make_far();
        batch_scope b(r, {.store = store});
        auto const  x = memory.adopt(b, 10);
        store->inject({.on = tenure::store_operation::write});
        check_throws(io_error, {"move a buffer from store adopted memory to store faulty far"},
                     [&] { x.move_to(store); });
        CHECK(memory.ended == 0);
        CHECK(contents(x) == numbers(10));
        x.move_to({});
        CHECK(memory.ended == 1);
        CHECK(x.stores().front() == any_store(store));
        CHECK(contents(x) == numbers(10));
        CHECK(contents(x.resize(20))[9] == 10);
        CHECK(stores_error(r, store) == "");
        b.end();
        CHECK(memory.ended == 1);
    }

    TEST_CASE_FIXTURE(world, "says what it cannot, and stays") {
        batch_scope b(r);
        auto const  x = memory.adopt(b, 10);
        check_throws(errc::store_full, {"adopted memory"}, [&] { (void)x.resize(11); });
        CHECK(x.try_resize(10).error() == errc::store_full);
        check_throws(errc::store_full, {"adopted memory"}, [&] { tenure::copy(x); });
        check_throws(errc::not_durable, {"adopted memory"}, [&] { x.persist("name"); });
        check_throws(errc::not_restorable, {"adopted memory"}, [&] { b.checkpoint(); });
        CHECK(contents(x) == numbers(10));
        {
            auto const held = tenure::pin(x);
            check_throws(errc::object_pinned, {}, [&] { tenure::evict(x); });
        }
        CHECK(memory.ended == 0);
        tenure::evict(x);
        CHECK(memory.ended == 1);
        CHECK(x.try_fill(0, 1, 3).error() == errc::evicted);
        check_throws(errc::store_full, {"adopted memory"}, [&] { x.fill(3); });
        b.end();
        CHECK(memory.ended == 1);
    }

    TEST_CASE_FIXTURE(world, "that a rollback takes back is ended") {
        batch_scope b(r);
        b.checkpoint();
        auto const x = memory.adopt(b, 10);
        b.rollback();
        CHECK_FALSE(x.alive());
        CHECK(memory.ended == 1);
    }

    TEST_CASE_FIXTURE(world, "that cannot be made leaves the memory with the caller") {
        constexpr auto most = std::numeric_limits<std::size_t>::max();
        auto const     all  = memory.make(2000);
        auto const     own  = std::unique_ptr<int, decltype(&std::free)>(all.data(), &std::free);
        batch_scope    unlimited(r);
        for (std::size_t const n : {most, most / 2, most / 4 + 1, most / 4 + 2})
            check_throws(errc::store_full, {"adopted memory"},
                         [&] { unlimited.adopt_buffer(std::span<int>(all.data(), n), memory.deleter()); });
        unlimited.end();
        check_throws(errc::batch_ended, {}, [&] { unlimited.adopt_buffer(all.first(1), memory.deleter()); });
        batch_scope b(r, {.limits = {.hard = 4096}});
        check_throws(errc::limit_exceeded, {}, [&] { b.adopt_buffer(all, memory.deleter()); });
        check_throws(errc::bad_address, {"adopt a buffer"},
                     [&] { b.adopt_buffer(std::span<int>(), memory.deleter()); });
        check_throws(errc::bad_address, {}, [&] {
            b.adopt_buffer(std::span<int>(reinterpret_cast<int*>(reinterpret_cast<char*>(all.data()) + 1), 1),
                           memory.deleter());
        });
        for (std::size_t const n : {most, most / 2, most / 4 + 1, most / 4 + 2})
            check_throws(errc::limit_exceeded, {},
                         [&] { b.adopt_buffer(std::span<int>(all.data(), n), memory.deleter()); });
        CHECK(memory.ended == 0);
        CHECK(b.usage().buffers == 0);
        CHECK(all[1999] == 2000);
        auto const fits = memory.make(1000);
        b.adopt_buffer(fits, memory.deleter());
        CHECK(b.usage().buffer_bytes == 4000);
        b.end();
        CHECK(memory.ended == 1);
    }

    TEST_CASE_FIXTURE(world, "of an array, by the current batch; of a unique_ptr") {
        accounting const   global;
        std::array<int, 3> array{1, 2, 3};
        int                ended = 0;
        {
            batch_scope b;
            auto const  x = tenure::adopt_buffer(std::span(array), [&](int* p) { ended += p == array.data(); });
            CHECK(contents(x) == numbers(3));
            auto       owner = std::make_unique<long[]>(5);
            auto const y     = b.adopt_buffer(std::span(owner.get(), 5), owner.get_deleter());
            static_cast<void>(owner.release());
            CHECK(y.map()[4] == 0);
        }
        CHECK(ended == 1);
    }

    TEST_CASE_FIXTURE(world, "of several threads, in batches that are cancelled meanwhile") {
        std::atomic<int> taken = 0;
        auto const       adopt = [&] {
            auto const one = memory.make(1);
            try {
                tenure::adopt_buffer(one, memory.deleter());
                ++taken;
            } catch (tenure::error const&) {
                std::free(one.data());
            }
        };
        for (int round = 0; round < (TENURE_SANITIZED ? 100 : 1000); ++round) {
            batch_scope               b(r);
            std::vector<std::jthread> threads;
            for (int t = 0; t < 2; ++t)
                threads.emplace_back([&] {
                    try {
                        auto const inside = b.enter();
                        for (int i = 0; i < 5; ++i) adopt();
                    } catch (tenure::error const& e) {
                        CHECK(e.code() == errc::cancelled);
                    }
                });
            if (round % 2) adopt();
            b.cancel();
            threads.clear();
            b.end();
            REQUIRE(memory.ended == taken);
        }
    }

    TEST_CASE("ends with a registry that closes") {
        foreign memory;
        {
            tenure::registry r({.on_leak = [](std::string const&) {}});
            batch_scope      b(r);
            memory.adopt(b, 5);
            b.detach();
        }
        CHECK(memory.ended == 1);
    }
}
