// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Arrays in stores: what one can do with them, who owns them, and that nothing that fails leaves one half moved or
// a block without an owner.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "stores/lab_buffers.hpp"
#include "throws.hpp"

namespace {

using tenure::any_store;
using tenure::batch_id;
using tenure::batch_options;
using tenure::batch_report;
using tenure::batch_scope;
using tenure::batch_status;
using tenure::buffer;
using tenure::cleanup;
using tenure::errc;
using tenure::fault;
using tenure::registry;
using tenure::store_operation;
namespace faults = tenure::faults;

/// Every call on it says so.
void check_stale(buffer<int> const& b, any_store const& other) {
    std::array<int, 1> one{};
    CHECK_FALSE(b.alive());
    CHECK(b.try_read(0, one).error() == errc::stale_handle);
    CHECK(b.try_write(0, one).error() == errc::stale_handle);
    for (auto const& call : std::initializer_list<std::function<void()>>{
             [&] { b.read(0, one); }, [&] { b.write(0, one); }, [&] { b.read(b.size() + 1, one); },
             [&] { (void)b.map(); }, [&] { b.copy_to(b); }, [&] { b.move_to(other); }, [&] { (void)b.stores(); },
             [&] { (void)b.owner(); }, [&] { (void)b.block(); }, [&] { b.persist("name"); }, [&] { b.sync(); },
             [&] { tenure::sync(std::vector{b}); }})
        check_throws(errc::stale_handle, {"stale handle"}, call);
}

}  // namespace

TEST_SUITE("a buffer") {
    TEST_CASE_FIXTURE(lab, "is an array in the batch's store") {
        auto const  store = make_far();
        batch_scope b(r, {.store = store});
        auto const  x = b.make_buffer<int>(10);
        CHECK(x.size() == 10);
        CHECK(x.alive());
        CHECK(x.owner() == b.id());
        CHECK(x.stores() == std::vector<any_store>{store});
        CHECK(x.block().bytes == 40);
        CHECK(store->usage().bytes == 40);

        x.write(0, numbers(10));
        x.write(3, std::array{-4, -5});
        CHECK(contents(x) == std::vector{1, 2, 3, -4, -5, 6, 7, 8, 9, 10});
        std::array<int, 2> two{};
        x.read(8, two);
        CHECK(two == std::array{9, 10});
        CHECK(b.usage().buffers == 1);
        CHECK(b.usage().buffer_bytes == 40);
        CHECK(b.usage().objects == 1);
        CHECK(stores_error(r, store) == "");

        auto const report = b.end();
        CHECK(report.made == 1);
        CHECK(report.freed == 1);
        CHECK(report.buffers == 1);
        CHECK(report.buffer_bytes == 40);
        CHECK(report.store_errors == 0);
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(lab, "is a value that refers to it") {
        static_assert(sizeof(buffer<int>) == 24 && std::is_trivially_copyable_v<buffer<int>>);
        batch_scope b(r);
        auto const  x = b.make_buffer<int>(3), y = b.make_buffer<int>(3);
        auto const  copy = x;
        CHECK(copy == x);
        CHECK(x != y);
        CHECK((x < y || y < x));
        copy.write(0, numbers(3));
        CHECK(contents(x) == numbers(3));
        CHECK(std::hash<buffer<int>>{}(copy) == std::hash<buffer<int>>{}(x));
        CHECK(std::hash<buffer<int>>{}(y) != std::hash<buffer<int>>{}(x));
    }

    TEST_CASE_FIXTURE(lab, "is in the registry's store unless it or its batch names one") {
        auto const  theirs = make_far("theirs"), its = make_far("its");
        batch_scope plain(r);
        CHECK(plain.make_buffer<int>(1).stores().front().describe() == "heap");
        batch_scope below(r, {.store = theirs});
        CHECK(below.make_buffer<int>(1).stores().front() == any_store(theirs));
        CHECK(below.make_buffer<int>(1, its).stores().front() == any_store(its));
        batch_scope inherits(r);
        CHECK(inherits.make_buffer<int>(1).stores().front() == any_store(theirs));
    }

    TEST_CASE_FIXTURE(lab, "can be mapped where the store is addressable, and nowhere else") {
        auto const  here      = make_near();
        auto const  elsewhere = make_far();
        batch_scope b(r);
        auto const  x = b.make_buffer<int>(100, here);
        x.write(0, numbers(100));
        std::span<int> const s = x.map();
        CHECK(std::ranges::equal(s, numbers(100)));
        CHECK(here->upstream()->holds(s.data()));
        s[7] = 70;
        CHECK(contents(x)[7] == 70);

        auto const y = b.make_buffer<int>(100, elsewhere);
        check_throws(errc::not_addressable, {"map", "store faulty far", "read() and write()"}, [&] { y.map(); });
    }

    TEST_CASE_FIXTURE(lab, "refuses what is out of range, and changes nothing") {
        auto const     store = make_far();
        batch_scope    b(r);
        auto const     x    = make_filled(b, 10, store);
        constexpr auto most = std::numeric_limits<std::size_t>::max();
        for (auto const& [offset, n] : {std::pair<std::size_t, std::size_t>{0, 11},
                                        {1, 10},
                                        {10, 1},
                                        {11, 0},
                                        {11, 1},
                                        {most, 1},
                                        {most, 0},
                                        {most - 1, 3},
                                        {most / 4, 1}}) {
            CAPTURE(offset);
            CAPTURE(n);
            std::vector<int> v(n, -1);
            CHECK(x.try_read(offset, v).error() == errc::out_of_range);
            CHECK(x.try_write(offset, v).error() == errc::out_of_range);
            CHECK(v == std::vector<int>(n, -1));
            check_throws(errc::out_of_range, {"read from store faulty far"}, [&] { x.read(offset, v); });
            check_throws(errc::out_of_range, {"write to store faulty far"}, [&] { x.write(offset, v); });
        }
        CHECK(contents(x) == numbers(10));
        x.read(10, {});
        x.write(10, {});
        CHECK(store->calls(store_operation::write) == 2);  // the first, and the empty one
    }

    TEST_CASE("that is null is stale from the start, on any thread") {
        check_stale({}, make_far());
        std::jthread([] { check_stale({}, make_far()); }).join();
    }

    TEST_CASE_FIXTURE(lab, "is stale once it is over, on any thread and for ever") {
        auto const               store = make_far();
        std::vector<buffer<int>> gone;
        {
            batch_scope b(r, {.store = store});
            for (int i = 0; i < 100; ++i) gone.push_back(b.make_buffer<int>(4));
            b.free(gone[50]);
            check_stale(gone[50], store);
            CHECK(gone[49].alive());
            check_throws(errc::stale_handle, {}, [&] { b.free(gone[50]); });
            check_throws(errc::stale_handle, {}, [&] { b.keep(gone[50]); });
        }
        batch_scope b(r, {.store = store});
        for (int i = 0; i < 100; ++i) b.make_buffer<int>(4);  // the same memory again
        for (auto const& x : gone) CHECK_FALSE(x.alive());
        check_stale(gone.front(), store);
        std::jthread([&] { check_stale(gone.back(), store); }).join();
        CHECK(b.try_keep(gone[1]).error() == errc::stale_handle);
        CHECK(r.try_transfer_ownership(gone[1], b.id()).error() == errc::stale_handle);
        CHECK(r.try_free(gone[1]).error() == errc::stale_handle);
    }

    TEST_CASE_FIXTURE(lab, "may be empty") {
        auto const  store = make_far();
        batch_scope b(r, {.store = store});
        auto const  x = b.make_buffer<int>(0), y = b.make_buffer<int>(0, make_device());
        CHECK(x.alive());
        CHECK(x.size() == 0);
        CHECK(store->usage().blocks == 1);
        x.read(0, {});
        x.write(0, {});
        CHECK(x.try_read(1, {}).error() == errc::out_of_range);
        x.copy_to(y);
        y.copy_to(x);
        x.copy_to(x);
        x.move_to(make_near());
        CHECK(x.map().empty());
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(lab, "has elements of any alignment") {
        struct alignas(64) line {
            char bytes[64];
        };
        struct alignas(4096) page {
            char bytes[4096];
        };
        batch_scope b(r);
        for (any_store const& store : {any_store(), any_store(make_near())}) {
            for (int i = 0; i < 10; ++i) {
                auto const aligned = [](auto const& x) {
                    return reinterpret_cast<std::uintptr_t>(x.map().data()) %
                               alignof(typename std::remove_cvref_t<decltype(x)>::element_type) ==
                           0;
                };
                CHECK(aligned(b.make_buffer<line>(3, store)));
                CHECK(aligned(b.make_buffer<page>(2, store)));
                CHECK(aligned(b.make_buffer<char>(1, store)));
                auto const moved = b.make_buffer<page>(1, make_far());
                moved.move_to(store ? store : any_store(make_near()));
                CHECK(aligned(moved));
            }
        }
    }

    TEST_CASE_FIXTURE(lab, "of more bytes than there are is refused, and nothing is held") {
        constexpr auto most  = std::numeric_limits<std::size_t>::max();
        auto const     store = make_far();
        batch_scope    b(r);
        for (std::size_t const n : {most, most / 4, most / 8 + 1, most / 2 + 2, std::size_t{1} << 61}) {
            CAPTURE(n);
            check_throws(errc::store_full, {"a negative number of them?, in store faulty far", "store full"},
                         [&] { b.make_buffer<std::uint64_t>(n, store); });
            CHECK(b.try_make_buffer<std::uint64_t>(n, store).error() == errc::store_full);
            check_throws(errc::memory_full, {"a negative number of them?, in store heap"},
                         [&] { b.make_buffer<int>(n); });
        }
        CHECK(b.usage().buffers == 0);
        CHECK(b.usage().objects == 0);
        CHECK(store->usage().blocks == 0);
        batch_scope limited(r, {.limits = {.hard = 1 << 20}});
        check_throws(errc::limit_exceeded, {}, [&] { limited.make_buffer<int>(most, store); });
        limited.make_buffer<int>(1000, store);
    }

    TEST_CASE_FIXTURE(lab, "in a batch that is over is refused") {
        auto const  store = make_far();
        batch_scope b(r, {.name = "over"});
        b.end();
        check_throws(errc::batch_ended, {"make a buffer in batch 'over'"}, [&] { b.make_buffer<int>(1, store); });
        CHECK(b.try_make_buffer<int>(1).error() == errc::batch_ended);
        CHECK(store->calls() == 0);
    }

    TEST_CASE_FIXTURE(lab, "says what its store said, and which store that is") {
        auto const  store = make_far();
        batch_scope b(r);
        auto const  x = make_filled(b, 1000, store);

        store->inject({.on = store_operation::allocate});
        check_throws(io_error, {"make a buffer in store faulty far"}, [&] { b.make_buffer<int>(5, store); });
        store->inject({.on = store_operation::read});
        check_throws(io_error, {"read from store faulty far"}, [&] { contents(x); });
        store->inject({.on = store_operation::write, .how = faults::shortens{.to = 100}});
        check_throws(io_error, {"write to store faulty far"}, [&] { x.write(0, numbers(1000, 5000)); });
        CHECK(contents(x)[24] == 5024);
        CHECK(contents(x)[25] == 26);
        CHECK(b.usage().buffers == 1);
        CHECK(b.usage().objects == 1);
        CHECK(stores_error(r, store) == "");
    }
}

TEST_SUITE("copy_to") {
    TEST_CASE_FIXTURE(lab, "stays inside a store that can copy") {
        auto const  store = make_device();
        batch_scope b(r, {.store = store});
        auto const  x = make_filled(b, 1000, store);
        auto const  y = make_filled(b, 1200, store, -5000);
        store->clear();
        x.copy_to(y);
        CHECK(store->calls(store_operation::copy) == 1);
        CHECK(store->calls() == 1);
        auto const all = contents(y);
        CHECK(std::ranges::equal(std::span(all).first(1000), numbers(1000)));
        CHECK(all[1000] == -4000);

        store->clear();
        x.copy_to(x);
        CHECK(store->calls() == 0);
        CHECK(contents(x) == numbers(1000));
    }

    TEST_CASE_FIXTURE(lab, "goes straight between a store and memory") {
        auto const  store  = make_far();
        auto const  memory = make_near();
        batch_scope b(r);
        auto const  x = make_filled(b, 1'000'000, store);
        auto const  y = b.make_buffer<int>(1'000'000, memory), z = b.make_buffer<int>(1'000'000, store);
        store->clear();
        memory->clear();
        x.copy_to(y);
        CHECK(store->calls(store_operation::read) == 1);
        CHECK(memory->calls(store_operation::write) == 0);
        y.copy_to(z);
        CHECK(store->calls(store_operation::write) == 1);
        CHECK(memory->calls(store_operation::read) == 0);
        CHECK(contents(z) == numbers(1'000'000));
    }

    TEST_CASE_FIXTURE(lab, "goes through this process in pieces where it must") {
        auto const  one = make_far("one"), two = make_far("two");
        batch_scope b(r);
        auto const  x = make_filled(b, 700'001, one);
        auto const  y = b.make_buffer<int>(700'001, two), z = b.make_buffer<int>(700'001, one);
        x.copy_to(y);
        CHECK(contents(y) == numbers(700'001));
        x.copy_to(z);  // the same store, but it cannot copy
        CHECK(contents(z) == numbers(700'001));
        CHECK(one->calls(store_operation::read) == 7);
    }

    TEST_CASE_FIXTURE(lab, "says which stores, and changes nothing where the other is shorter") {
        auto const  one = make_far("one"), two = make_far("two");
        batch_scope b(r);
        auto const  x = make_filled(b, 1000, one), y = make_filled(b, 999, two, 7);
        check_throws(errc::out_of_range, {"1000", "999"}, [&] { x.copy_to(y); });
        CHECK(contents(y) == numbers(999, 7));
        auto const z = b.make_buffer<int>(1000, two);
        one->inject({.on = store_operation::read});
        check_throws(io_error, {"copy a buffer from store faulty one to store faulty two"}, [&] { x.copy_to(z); });
        two->inject({.on = store_operation::write, .how = faults::shortens{.to = 10}});
        check_throws(io_error, {"copy a buffer from store faulty one to store faulty two"}, [&] { x.copy_to(z); });
        CHECK(contents(x) == numbers(1000));
        x.copy_to(z);
        CHECK(contents(z) == numbers(1000));
        b.free(y);
        check_throws(errc::stale_handle, {}, [&] { x.copy_to(y); });
        check_throws(errc::stale_handle, {}, [&] { y.copy_to(x); });
    }
}

TEST_SUITE("owners of buffers") {
    TEST_CASE_FIXTURE(lab, "one free call a store, whatever the number (rule 9)") {
        auto const        one = make_far("one");
        auto const        two = make_near("two");
        std::size_t const n   = TENURE_SANITIZED ? 20'000 : 100'000;
        batch_scope       outer(r), beside(r);
        batch_scope       inner(tenure::below(outer), {.store = one});

        std::vector<buffer<char>> all, kept, given, freed;
        for (std::size_t i = 0; i < n; ++i)
            all.push_back(i % 2 ? inner.make_buffer<char>(i % 7) : inner.make_buffer<char>(i % 7, two));
        for (std::size_t i = 0; i < n; ++i) {
            if (i % 100 == 3 || i % 100 == 8) kept.push_back(all[i]);
            if (i % 100 == 10 || i % 100 == 15) given.push_back(all[i]);
            if (i % 100 == 17 || i % 100 == 22) freed.push_back(all[i]);
        }
        for (std::size_t i = 0; i < kept.size() / 2; ++i) inner.keep(kept[i]);
        inner.keep(std::vector(kept.begin() + static_cast<std::ptrdiff_t>(kept.size() / 2), kept.end()));
        for (auto const& x : given) r.transfer_ownership(x, beside.id());
        r.free(freed);
        CHECK(inner.usage().buffers == n - kept.size() - given.size() - freed.size());
        CHECK(outer.usage().buffers == kept.size());
        CHECK(beside.usage().buffers == given.size());
        for (any_store const& s : {any_store(one), any_store(two)}) CHECK(stores_error(r, s) == "");

        one->clear();
        two->clear();
        auto const report = inner.end();
        CHECK(one->calls(store_operation::deallocate) == 1);
        CHECK(two->calls(store_operation::deallocate) == 1);
        CHECK(one->calls() + two->calls() == 2);
        CHECK(report.made == n);
        CHECK(report.kept == kept.size() + given.size());
        CHECK(report.freed == n - report.kept);
        CHECK(report.buffers == report.freed - freed.size());
        CHECK(one->usage().blocks + two->usage().blocks == kept.size() + given.size());
        for (any_store const& s : {any_store(one), any_store(two)}) CHECK(stores_error(r, s) == "");
        std::set<buffer<char>> const left = [&] {
            std::set<buffer<char>> s(kept.begin(), kept.end());
            s.insert(given.begin(), given.end());
            return s;
        }();
        for (auto const& x : all) CHECK(x.alive() == left.contains(x));
        outer.end();
        beside.end();
        CHECK(one->calls(store_operation::deallocate) == 3);
        CHECK(one->usage().blocks + two->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(lab, "change by keep, transfer and free, and bytes go along") {
        auto const  store = make_far();
        batch_scope outer(r, {.store = store});
        batch_scope inner(r);
        auto const  a = inner.make_buffer<int>(1), b = inner.make_buffer<int>(10), c = inner.make_buffer<int>(100);
        auto const  object = inner.make<std::string>("beside them");
        CHECK(inner.keep(a) == a);
        CHECK(a.owner() == outer.id());
        auto const [b2, o2] = inner.keep(b, object);
        CHECK(b2 == b);
        CHECK(*o2 == "beside them");
        CHECK(outer.usage().buffer_bytes == 44);
        CHECK(inner.usage().buffer_bytes == 400);
        CHECK(inner.keep(a) == a);  // no-op
        r.transfer_ownership(a, inner.id());
        CHECK(a.owner() == inner.id());
        CHECK(inner.usage().buffer_bytes == 404);
        CHECK(inner.usage().buffers == 2);
        inner.free(c);
        CHECK(store->usage().bytes == 44);
        CHECK(inner.usage().buffer_bytes == 4);
        check_throws(errc::not_owner, {}, [&] { inner.free(b); });
        CHECK(stores_error(r, store) == "");
        inner.end();
        CHECK(b.alive());
        CHECK(store->usage().bytes == 40);
    }

    TEST_CASE("free functions act on the current batch") {
        accounting const books;
        auto const       store = make_far();
        batch_scope      outer{{.store = store}};
        batch_scope      inner;
        auto const       x = tenure::make_buffer<int>(5);
        auto const       y = tenure::try_make_buffer<int>(6, store).value();
        CHECK(x.owner() == inner.id());
        CHECK(tenure::keep(x).owner() == outer.id());
        CHECK(tenure::try_keep(y).value().owner() == outer.id());
        CHECK(tenure::transfer_ownership(y, inner.id()).owner() == inner.id());
        CHECK(tenure::try_transfer_ownership(y, outer.id()).value().owner() == outer.id());
        check_throws(errc::no_such_block, {"open a buffer of store", "near-by"}, [] {
            auto const named = make_library("near-by");
            tenure::open_buffer<int>("nothing", named);
        });
    }

    TEST_CASE_FIXTURE(lab, "with_batch keeps what is returned") {
        auto const  store = make_far();
        batch_scope outer(r, {.store = store});
        auto const  one  = tenure::with_batch([](batch_scope& b) { return b.make_buffer<int>(1); });
        auto const  two  = tenure::with_batch([](batch_scope& b) {
            b.make_buffer<int>(1000);
            return std::tuple(b.make_buffer<int>(2), b.make<int>(7), b.make_buffer<char>(3));
        });
        auto const  many = tenure::with_batch({.name = "range"}, [](batch_scope& b) {
            std::vector<buffer<int>> v;
            for (int i = 0; i < 5; ++i) v.push_back(b.make_buffer<int>(10));
            b.make_buffer<int>(500);
            return v;
        });
        CHECK(one.owner() == outer.id());
        CHECK(std::get<0>(two).owner() == outer.id());
        CHECK(std::get<2>(two).owner() == outer.id());
        for (auto const& x : many) CHECK(x.owner() == outer.id());
        CHECK(store->usage().bytes == 4 + 8 + 3 + 5 * 40);
        CHECK(stores_error(r, store) == "");
    }

    TEST_CASE_FIXTURE(lab, "discard frees what was kept") {
        auto const  store = make_far();
        batch_scope outer(r);
        batch_scope inner(r);
        auto const  x = inner.make_buffer<int>(5, store), y = inner.make_buffer<int>(6, store);
        inner.keep(x);
        inner.keep(std::vector{y});
        inner.make_buffer<int>(7, store);
        auto const report = inner.discard();
        CHECK_FALSE(x.alive());
        CHECK_FALSE(y.alive());
        CHECK(report.buffers == 1);
        CHECK(store->usage().blocks == 0);
        CHECK(outer.usage().buffers == 0);
    }

    TEST_CASE_FIXTURE(lab, "a batch ended by hand keeps them until it is destroyed") {
        auto const  store = make_far();
        buffer<int> x;
        batch_id    id;
        {
            batch_scope b(r, {.cleanup = cleanup::manual, .store = store});
            x  = make_filled(b, 50, store);
            id = b.id();
            CHECK(b.end().buffers == 0);
        }
        CHECK(r.status(id) == batch_status::retained);
        CHECK(contents(x) == numbers(50));
        CHECK(r.usage(id).buffer_bytes == 200);
        auto const elsewhere = make_near();
        x.move_to(elsewhere);
        CHECK(contents(x) == numbers(50));
        r.destroy_batch(id);
        CHECK_FALSE(x.alive());
        CHECK(store->usage().blocks + elsewhere->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(lab, "a detached batch takes them along, and ends on another thread") {
        auto const  store = make_far();
        buffer<int> x;
        batch_id    id;
        {
            batch_scope b(r, {.store = store});
            x  = make_filled(b, 50, store);
            id = b.detach();
        }
        std::jthread([&] {
            CHECK(contents(x) == numbers(50));
            r.end_batch(id);
            CHECK_FALSE(x.alive());
        }).join();
        CHECK(store->usage().blocks == 0);
        CHECK(r.snapshot().stores.size() == 1);
    }

    TEST_CASE_FIXTURE(lab, "lanes and guests make them, too") {
        auto const  store = make_far();
        batch_scope outer(r, {.store = store});
        batch_scope b(r);

        std::vector<buffer<int>> theirs;
        std::jthread([&, lane = b.lane()]() mutable {
            for (int i = 0; i < 100; ++i) theirs.push_back(lane.make_buffer<int>(3));
        }).join();
        std::jthread([&] {
            auto const inside = b.enter();
            for (int i = 0; i < 100; ++i) theirs.push_back(tenure::make_buffer<int>(3));
        }).join();
        CHECK(b.usage().buffers == 200);
        b.keep(std::span(theirs).first(10));
        for (std::size_t i = 10; i < 20; ++i) b.free(theirs[i]);
        CHECK(stores_error(r, store) == "");
        store->clear();
        CHECK(b.end().buffers == 180);
        CHECK(store->calls(store_operation::deallocate) == 1);
        CHECK(outer.usage().buffers == 10);
    }

    TEST_CASE_FIXTURE(lab, "those that another thread gave away end with their new owner") {
        auto const  store = make_far();
        batch_scope mine(r);
        batch_scope b(r);

        std::vector<buffer<int>> all;
        auto                     lane = std::make_unique<tenure::lane>(b.lane());
        std::jthread([&] {
            for (int i = 0; i < 300; ++i) all.push_back(lane->make_buffer<int>(3, store));
        }).join();
        for (std::size_t i = 0; i < 100; ++i) b.keep(all[i]);
        for (std::size_t i = 100; i < 200; ++i) r.free(all[i]);
        CHECK(store->usage().blocks == 200);
        CHECK(stores_error(r, store) == "");
        mine.free(all[5]);
        lane.reset();
        b.end();
        CHECK(store->usage().blocks == 99);
        store->clear();
        CHECK(mine.end().buffers == 99);
        CHECK(store->calls(store_operation::deallocate) == 1);
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE("a registry that closes frees them all, and lets go of their stores") {
        auto const store = make_far(), kept_store = make_far("other");
        {
            registry r({.store = kept_store, .on_leak = [](std::string const&) {}});
            batch_scope(r, {.store = store}).detach();
            auto const id = r.new_batch({.store = store});
            {
                batch_scope b(r);
                auto const  x = b.make_buffer<int>(10, store), y = b.make_buffer<int>(10);
                CHECK(y.stores().front() == any_store(kept_store));
                r.transfer_ownership(x, id);
                r.transfer_ownership(y, r.root());
            }
            CHECK(store->usage().blocks == 1);
            CHECK(kept_store->usage().blocks == 1);
        }
        CHECK(store->usage().blocks + kept_store->usage().blocks == 0);
        CHECK(store.use_count() == 1);
        CHECK(kept_store.use_count() == 1);
    }

    TEST_CASE("a guard may outlive its registry, its end, and its store") {
        auto                         store = make_near();
        std::unique_ptr<batch_scope> open, ended;
        buffer<int>                  x;
        {
            registry r;
            open  = std::make_unique<batch_scope>(r, batch_options{.store = store});
            x     = open->make_buffer<int>(10);
            ended = std::make_unique<batch_scope>(r, batch_options{.store = store});
            ended->end();
        }
        CHECK_FALSE(x.alive());
        CHECK(store.use_count() == 1);
        store.reset();
        ended.reset();
        open.reset();
    }

    TEST_CASE_FIXTURE(lab, "a store lives as long as its blocks") {
        auto                store = make_near();
        std::weak_ptr<near> alive = store;
        batch_scope         outer(r);
        buffer<int>         x;
        {
            batch_scope inner(r);
            x = inner.keep(make_filled(inner, 20, std::move(store)));
            store.reset();
            CHECK_FALSE(alive.expired());
        }
        CHECK(contents(x) == numbers(20));
        outer.end();
        CHECK(alive.expired());
    }
}

TEST_SUITE("move_to") {
    TEST_CASE_FIXTURE(lab, "takes the contents along; every copy of it names it there") {
        batch_scope                  b(r);
        std::vector<any_store> const stores{make_far("one"), make_near(), make_device(), make_far("two"),
                                            std::make_shared<tenure::heap_store>()};
        auto const                   x    = make_filled(b, 300'000, stores.back());
        auto const                   copy = x;
        for (int round = 0; round < 2; ++round) {
            for (any_store const& to : stores) {
                any_store const from = x.stores().front();
                x.move_to(to);
                CHECK(copy.stores().front() == to);
                CHECK(contents(copy) == numbers(300'000));
                CHECK(from.usage().blocks == 0);
                CHECK(to.usage().bytes == 1'200'000);
                CHECK(b.usage().buffers == 1);
                CHECK(b.usage().buffer_bytes == 1'200'000);
                for (any_store const& s : stores) CHECK(stores_error(r, s) == "");
            }
        }
        CHECK(b.usage().objects == 1);
        auto const report = b.end();
        CHECK(report.buffers == 1);
        for (any_store const& s : stores) CHECK(s.usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(lab, "to where it is does nothing; to no store, to the batch's own") {
        auto const  store = make_far(), own = make_far("own");
        batch_scope b(r, {.store = own});
        auto const  x     = make_filled(b, 10, store);
        auto const  block = x.block();
        store->clear();
        x.move_to(store);
        CHECK(store->calls() == 0);
        CHECK(x.block() == block);
        x.move_to({});
        CHECK(x.stores().front() == any_store(own));
        auto const there = x.block();
        x.move_to({});
        CHECK(x.block() == there);
        CHECK(contents(x) == numbers(10));
    }

    TEST_CASE_FIXTURE(lab, "that fails leaves it whole and where it was, whichever step it was") {
        using op = store_operation;
        struct step {
            char const* what;
            bool        at_target;
            fault       how;
        };
        step const steps[]{{"allocate", true, {.on = op::allocate}},
                           {"read", false, {.on = op::read}},
                           {"read half-way", false, {.on = op::read, .how = faults::shortens{.to = 77}}},
                           {"second read", false, {.on = op::read, .nth = 2}},
                           {"write", true, {.on = op::write}},
                           {"write half-way", true, {.on = op::write, .how = faults::shortens{.to = 77}}},
                           {"second write", true, {.on = op::write, .nth = 2}},
                           {"write that says so afterwards", true, {.on = op::write, .how = faults::shortens{}}}};
        for (step const& s : steps) {
            CAPTURE(s.what);
            auto const  from = make_far("from"), to = make_far("to");
            batch_scope b(r);
            auto const  x     = make_filled(b, 600'000, from);  // 2.4 MB: three pieces
            auto const  block = x.block();
            from->clear();
            (s.at_target ? to : from)->inject(s.how);
            check_throws(io_error, {"move a buffer", "to store faulty to"}, [&] { x.move_to(to); });
            CHECK(x.block() == block);
            CHECK(x.stores().front() == any_store(from));
            CHECK(to->usage().blocks == 0);
            CHECK(from->usage().blocks == 1);
            CHECK(contents(x) == numbers(600'000));
            CHECK(stores_error(r, from) == "");
            CHECK(stores_error(r, to) == "");
            x.move_to(to);
            CHECK(contents(x) == numbers(600'000));
            CHECK(from->usage().blocks == 0);
            CHECK(b.end().store_errors == 0);
            CHECK(to->usage().blocks == 0);
        }
    }

    TEST_CASE_FIXTURE(lab, "whose old block cannot be freed has moved; the end tries again") {
        auto const  from = make_far("from"), to = make_far("to");
        batch_scope b(r);
        auto const  x = make_filled(b, 100, from);
        from->inject({.on = store_operation::deallocate});
        x.move_to(to);
        CHECK(contents(x) == numbers(100));
        CHECK(x.stores().front() == any_store(to));
        CHECK(from->usage().blocks == 1);
        CHECK(stores_error(r, from) == "");  // it is still the batch's
        CHECK(stores_error(r, to) == "");
        CHECK(b.end().store_errors == 0);
        CHECK(from->usage().blocks + to->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(lab, "whose new block cannot even be given back leaks nothing") {
        auto const  from = make_far("from"), to = make_far("to");
        batch_scope b(r);
        auto const  x = make_filled(b, 100, from);
        to->inject({.on = store_operation::write});
        to->inject({.on = store_operation::deallocate});
        check_throws(io_error, {"faulty to"}, [&] { x.move_to(to); });
        CHECK(contents(x) == numbers(100));
        CHECK(x.stores().front() == any_store(from));
        CHECK(to->usage().blocks == 1);
        CHECK(stores_error(r, to) == "");
        b.end();
        CHECK(from->usage().blocks + to->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(lab, "in a full store is refused with its name") {
        auto const  from = make_far("from"), to = make_far("to", 100);
        batch_scope b(r);
        auto const  x = make_filled(b, 100, from);
        check_throws(errc::store_full, {"move a buffer to store faulty to"}, [&] { x.move_to(to); });
        CHECK(contents(x) == numbers(100));
        CHECK(x.stores().front() == any_store(from));
    }
}

TEST_SUITE("a store that cannot free") {
    struct at_end : lab {
        std::shared_ptr<far> store = make_far("tired");

        /// A batch whose end it does not survive in peace.
        batch_report fail(std::size_t n = 10) {
            batch_scope b(r, {.store = store});
            for (std::size_t i = 0; i < n; ++i) b.make_buffer<int>(10);
            store->inject({.on = store_operation::deallocate});
            return b.end();
        }
        tenure::store_info info() const {
            for (auto const& s : r.snapshot().stores)
                if (s.name == "faulty tired") return s;
            return {};
        }
    };

    TEST_CASE_FIXTURE(at_end, "is in the report and in the snapshot") {
        batch_report const report = fail();
        CHECK(report.status == batch_status::done);
        CHECK(report.buffers == 10);
        CHECK(report.store_errors == 1);
        CHECK(report.store_error == io_error);
        CHECK(info().unfreed == 10);
        CHECK(info().unfreed_bytes == 400);
        CHECK(info().error == io_error);
        CHECK(info().buffers == 0);
        CHECK(stores_error(r, store) == "");
        std::string const text = r.snapshot().to_text();
        CHECK(text.find("store faulty tired: 0 buffers, 0 B, could not free 10 blocks, 400 B yet") != text.npos);
        CHECK(store->usage().blocks == 10);
        r.trim();
    }

    TEST_CASE_FIXTURE(at_end, "is asked again when it has freed others") {
        fail();
        batch_scope b(r);
        b.make_buffer<int>(5, store);
        store->clear();
        CHECK(b.end().store_errors == 0);
        CHECK(store->usage().blocks == 0);
        CHECK(store->calls(store_operation::deallocate) == 2);
        CHECK(info().unfreed == 0);
        CHECK(store.use_count() == 1);  // nobody else has it any more
    }

    TEST_CASE_FIXTURE(at_end, "is asked again by trim(), several of them") {
        auto const other = make_far("other");
        {
            batch_scope b(r, {.store = other});
            b.make_buffer<int>(3);
            other->inject({.on = store_operation::deallocate});
        }
        fail();
        fail(7);
        CHECK(info().unfreed == 17);
        r.trim();
        CHECK(store->usage().blocks == 0);
        CHECK(other->usage().blocks == 0);
        CHECK(r.snapshot().stores.size() == 1);
        CHECK(other.use_count() == 1);
    }

    TEST_CASE_FIXTURE(at_end, "and fails once more stays in the books") {
        fail();
        store->inject({.on = store_operation::deallocate, .times = 2});
        r.trim();
        CHECK(info().unfreed == 10);
        CHECK(fail(5).store_errors == 1);
        CHECK(info().unfreed == 15);
        CHECK(stores_error(r, store) == "");
        store->clear();
        r.trim();
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE("of the registry's own store is asked again by trim()") {
        auto const store = make_near();
        registry   apart({.store = store});
        {
            batch_scope b(apart);
            b.make_buffer<int>(10);
            store->inject({.on = store_operation::deallocate});
            CHECK(b.end().store_errors == 1);
        }
        std::size_t const before = store->usage().blocks;
        apart.trim();
        CHECK(store->usage().blocks == before - 1);
    }

    TEST_CASE("of objects' memory is asked again by trim()") {
        auto const store = make_near();
        registry   apart;
        {
            batch_scope b(apart, {.store = store});
            b.make<int>(10);
            store->inject({.on = store_operation::deallocate});
        }
        CHECK(store->usage().blocks == 1);
        CHECK(store.use_count() > 1);
        apart.trim();
        CHECK(store->usage().blocks == 0);
        CHECK(store.use_count() == 1);
    }

    TEST_CASE_FIXTURE(lab, "none is gone while destructors run, whichever is older") {
        struct reads {
            std::vector<buffer<int>> const& all;
            int&                            sum;
            ~reads() {
                for (buffer<int> const& b : all) {
                    std::array<int, 1> one{};
                    if (b.try_read(0, one)) sum += one[0];
                }
            }
        };
        std::vector<buffer<int>> all;
        int                      sum   = 0;
        auto const               store = make_far();
        {
            batch_scope b(r);
            all.push_back(make_filled(b, 1, any_store(store), 1));
            b.make<reads>(all, sum);
            all.push_back(make_filled(b, 1, any_store(store), 20));
        }
        CHECK(sum == 21);
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(at_end, "all of them but some has freed those") {
        batch_scope b(r, {.store = store});
        for (int i = 0; i < 10; ++i) b.make_buffer<int>(10);
        store->inject({.on = store_operation::deallocate, .how = faults::shortens{.to = 4}});
        CHECK(b.end().store_errors == 1);
        CHECK(store->usage().blocks == 6);
        r.trim();  // says no_such_block of four of them
        CHECK(store->usage().blocks == 0);
        CHECK(info().unfreed == 0);
    }

    TEST_CASE("is asked a last time by the registry that closes") {
        auto const store = make_far();
        {
            registry r;
            {
                batch_scope b(r, {.store = store});
                b.make_buffer<int>(3);
                store->inject({.on = store_operation::deallocate});
            }
            CHECK(store->usage().blocks == 1);
        }
        CHECK(store->usage().blocks == 0);
        CHECK(store.use_count() == 1);
        {
            registry r({.store = store});
            {
                batch_scope b(r);
                b.make_buffer<int>(3);
                store->inject({.on = store_operation::deallocate});
            }
            CHECK(store->usage().blocks == 1);
        }
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(at_end, "one buffer that is freed early is asked again at the batch's end") {
        batch_scope b(r, {.store = store});
        auto const  x = b.make_buffer<int>(10), y = b.make_buffer<int>(20);
        store->inject({.on = store_operation::deallocate});
        b.free(x);
        CHECK_FALSE(x.alive());
        CHECK(b.usage().objects == 1);
        CHECK(b.usage().buffer_bytes == 120);  // it is still there, and still this batch's
        CHECK(stores_error(r, store) == "");
        b.keep(y);
        CHECK(stores_error(r, store) == "");
        store->clear();
        auto const report = b.end();
        CHECK(report.store_errors == 0);
        CHECK(report.buffers == 1);
        CHECK(store->calls(store_operation::deallocate) == 1);
        CHECK(store->usage().bytes == 80);
        r.free(y);
        CHECK(store->usage().bytes == 0);
    }

    TEST_CASE_FIXTURE(at_end, "one that could not be made after all") {
        // The block is there, but the batch has no room for its record, and then the block cannot be given back.
        batch_scope b(r, {.limits = {.hard = 1000}, .store = store});
        store->inject({.on = store_operation::deallocate});
        check_throws(errc::limit_exceeded, {}, [&] { b.make_buffer<char>(1000); });
        CHECK(store->usage().blocks == 1);
        CHECK(b.usage().objects == 0);
        CHECK(stores_error(r, store) == "");
        b.make_buffer<char>(500);
        CHECK(b.end().store_errors == 0);
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(at_end, "does not stop a batch from freeing in its other stores") {
        auto const  fine = make_far("fine");
        batch_scope b(r, {.store = store});
        b.make_buffer<int>(1);
        b.make_buffer<int>(1, fine);
        b.make_buffer<int>(1, {});
        store->inject({.on = store_operation::deallocate});
        CHECK(b.end().store_errors == 1);
        CHECK(fine->usage().blocks == 0);
        CHECK(store->usage().blocks == 2);
        r.trim();
    }
}

TEST_SUITE("limits and buffers") {
    TEST_CASE_FIXTURE(lab, "their bytes count, through keep, transfer and free") {
        auto const  store = make_far();
        batch_scope outer(r, {.limits = {.hard = 10'000}});
        batch_scope inner{tenure::below(outer)};
        auto const  x = inner.make_buffer<char>(6000, store);
        check_throws(errc::limit_exceeded, {"make a buffer in batch", "limit 10000"},
                     [&] { inner.make_buffer<char>(6000, store); });
        CHECK(store->usage().blocks == 1);
        inner.keep(x);
        CHECK(outer.try_make_buffer<char>(6000, store).error() == errc::limit_exceeded);
        batch_id const elsewhere = r.new_batch();
        r.transfer_ownership(x, elsewhere);
        auto const y = outer.make_buffer<char>(6000, store);
        CHECK(r.try_transfer_ownership(x, inner.id()).error() == errc::limit_exceeded);
        CHECK(x.owner() == elsewhere);
        outer.free(y);
        r.transfer_ownership(x, inner.id());
        CHECK(outer.try_make_buffer<char>(6000, store).error() == errc::limit_exceeded);
        inner.end();
        outer.free(outer.make_buffer<char>(9000, store));
        outer.make_buffer<char>(9000, store);
        CHECK(stores_error(r, store) == "");
        r.end_batch(elsewhere);
    }

    TEST_CASE_FIXTURE(lab, "what failed is not charged") {
        auto const  store = make_far(), to = make_far("to");
        batch_scope b(r, {.limits = {.hard = 10'000}});
        for (int i = 0; i < 10; ++i) {
            store->inject({.on = store_operation::allocate});
            CHECK(b.try_make_buffer<char>(9000, store).error() == io_error);
            auto const x = b.make_buffer<char>(9000, store);
            x.move_to(to);
            to->inject({.on = store_operation::read});
            check_throws(io_error, {}, [&] { x.move_to(store); });
            b.free(x);
        }
    }

    TEST_CASE_FIXTURE(lab, "the soft limit is told once") {
        auto const  store = make_far();
        int         told  = 0;
        std::size_t said  = 0;
        batch_scope b(r, {.limits = {.soft    = 10'000,
                                     .on_soft = [&](batch_id, std::size_t in_use) { ++told, said = in_use; }}});
        auto const  x = b.make_buffer<char>(6000, store);
        CHECK(told == 0);
        auto const y = b.make_buffer<char>(6000, store);
        CHECK(told == 1);
        CHECK(said >= 12'000);
        b.make_buffer<char>(6000, store);
        CHECK(told == 1);
        b.free(x);
        b.free(y);
        b.make_buffer<char>(6000, store);
        CHECK(told == 2);
    }

    TEST_CASE_FIXTURE(lab, "a callback may throw, and may end the batch") {
        auto const store = make_far();
        {
            batch_scope b(r, {.limits = {.soft = 100, .on_soft = [](batch_id, std::size_t) { throw 7; }}});
            CHECK_THROWS_AS(b.make_buffer<char>(1000, store), int);
            CHECK(store->usage().blocks == 0);
            CHECK(b.usage().objects == 0);
        }
        auto const ends = [&](batch_id id, std::size_t) { r.end_batch(id); };
        {
            batch_scope outer(r, {.limits = {.hard = 1 << 20}});
            batch_scope b(tenure::below(outer), {.limits = {.soft = 100, .on_soft = ends}});
            check_throws(errc::batch_ended, {}, [&] { b.make_buffer<char>(1000, store); });
            CHECK(b.status() == batch_status::done);
            CHECK(store->usage().blocks == 0);
            outer.make_buffer<char>((1 << 20) - 1000, store);  // all was refunded, once
            CHECK(outer.try_make_buffer<char>(1000, store).error() == errc::limit_exceeded);
        }
        {
            batch_scope outer(r, {.limits = {.hard = 1 << 20}});
            batch_scope b(tenure::below(outer), {.limits = {.soft = 100, .on_soft = ends}});
            check_throws(errc::batch_ended, {}, [&] { b.make<char[]>(200'000); });  // a run of its own
            CHECK(b.status() == batch_status::done);
            CHECK(outer.usage().bytes == 0);
            outer.make<char[]>((1 << 20) - 1000);
            CHECK(outer.try_make_buffer<char>(1000, store).error() == errc::limit_exceeded);
        }
        CHECK(store.use_count() == 1);
    }
}

TEST_SUITE("buffers that a store keeps") {
    TEST_CASE_FIXTURE(lab, "outlive their batch, and are opened again by name") {
        auto const store = make_library();
        {
            batch_scope b(r, {.store = store});
            auto const  x = make_filled(b, 100, store);
            x.persist("weights");
            CHECK(x.alive());
            CHECK(contents(x) == numbers(100));
            CHECK(b.usage().buffer_bytes == 0);  // it is the store's
            CHECK(stores_error(r, store, 400) == "");
            x.write(0, std::array{-1});
            x.sync();
            auto const report = b.end();
            CHECK(report.buffers == 0);
            CHECK(report.freed == 1);
            CHECK_FALSE(x.alive());
        }
        CHECK(store->usage().bytes == 400);
        batch_scope b(r, {.store = store});
        auto const  x = b.open_buffer<int>("weights");
        CHECK(x.size() == 100);
        CHECK(contents(x)[0] == -1);
        CHECK(contents(x)[99] == 100);
        CHECK(x.map()[5] == 6);
        auto const y = b.open_buffer<std::uint64_t>("weights", store);
        CHECK(y.size() == 50);
        check_throws(errc::out_of_range, {"open a buffer of store faulty library"},
                     [&] { b.open_buffer<std::array<char, 3>>("weights"); });
        check_throws(errc::no_such_block, {"open a buffer of store faulty library"},
                     [&] { b.open_buffer<int>("biases"); });
        check_throws(errc::not_durable, {"open a buffer of store faulty far"},
                     [&] { b.open_buffer<int>("weights", make_far()); });
        b.free(x);  // ends this way to it only
        CHECK(contents(y).size() == 50);
        CHECK(stores_error(r, store, 400) == "");
    }

    TEST_CASE_FIXTURE(lab, "are lent wherever they go, and their store with them") {
        auto                store = make_lab<{.durable = true}>("archive");  // where no slab holds on to it
        std::weak_ptr<void> alive = store;
        batch_scope         outer(r, {.limits = {.hard = 5000}});
        buffer<int>         x, y;
        {
            batch_scope b(tenure::below(outer), {.store = store});
            x = make_filled(b, 1000, store);
            x.persist("one");
            y = b.open_buffer<int>("one");
            b.keep(x);
            r.transfer_ownership(y, outer.id());
            store.reset();
        }
        CHECK_FALSE(alive.expired());
        CHECK(contents(x) == numbers(1000));
        CHECK(contents(y) == numbers(1000));
        CHECK(outer.usage().buffers == 0);
        outer.make_buffer<char>(4000);  // what is lent is not charged
        outer.end();
        CHECK(alive.expired());
    }

    TEST_CASE_FIXTURE(lab, "that move are the batch's own again, and charged as such") {
        auto const  store = make_library(), other = make_library("other");
        batch_scope outer(r, {.limits = {.hard = 5000}});
        {
            batch_scope b{tenure::below(outer)};
            auto const  x = make_filled(b, 1000, store);
            x.persist("one");
            auto const room = b.make_buffer<char>(3000);  // so that it is no longer charged
            check_throws(errc::limit_exceeded, {"move a buffer"}, [&] { x.move_to(other); });
            CHECK(x.stores().front() == any_store(store));
            b.free(room);
            x.move_to(other);
            CHECK(contents(x) == numbers(1000));
            CHECK(b.usage().buffer_bytes == 4000);
            CHECK(b.try_make_buffer<char>(3000).error() == errc::limit_exceeded);
            CHECK(stores_error(r, store, 4000) == "");
            CHECK(stores_error(r, other) == "");
            CHECK(store->usage().bytes == 4000);  // still kept
            b.free(x);
            CHECK(other->usage().blocks == 0);
            b.make_buffer<char>(4000);
            CHECK(b.try_make_buffer<char>(1000).error() == errc::limit_exceeded);
        }
        CHECK(outer.open_buffer<int>("one", store).size() == 1000);
    }

    TEST_CASE_FIXTURE(lab, "twice under one name or two") {
        auto const  store = make_library();
        batch_scope b(r, {.store = store});
        auto const  x = make_filled(b, 10, store);
        x.persist("a");
        x.persist("b");
        CHECK(stores_error(r, store, 40) == "");
        CHECK(b.usage().buffers == 0);
        CHECK(contents(b.open_buffer<int>("b")) == numbers(10));
        check_throws(errc::no_such_block, {}, [&] { b.open_buffer<int>("a"); });
    }

    TEST_CASE_FIXTURE(lab, "sync of many is one call a store, and says which failed") {
        auto const               one = make_library("one"), two = make_library("two");
        batch_scope              b(r);
        std::vector<buffer<int>> all;
        for (int i = 0; i < 20; ++i) {
            all.push_back(make_filled(b, 10, i % 2 ? one : two, i));
            all.back().persist(std::to_string(i));
        }
        one->clear();
        two->clear();
        tenure::sync(all);
        CHECK(one->calls(store_operation::sync) == 1);
        CHECK(two->calls(store_operation::sync) == 1);
        two->inject({.on = store_operation::sync});
        check_throws(io_error, {"sync store faulty two"}, [&] { tenure::sync(all); });
        one->inject({.on = store_operation::sync});
        check_throws(io_error, {"sync store faulty one"}, [&] { all[1].sync(); });
        one->inject({.on = store_operation::keep});
        check_throws(io_error, {"persist a buffer in store faulty one"},
                     [&] { b.make_buffer<int>(1, one).persist("x"); });
        CHECK(stores_error(r, one, 400) == "");
        auto const elsewhere = b.make_buffer<int>(1, make_far());
        check_throws(errc::not_durable, {"persist a buffer in store faulty far"}, [&] { elsewhere.persist("x"); });
        check_throws(errc::not_durable, {"sync store faulty far"}, [&] { elsewhere.sync(); });
    }

    TEST_CASE("survive on their medium") {
        auto const disk = std::make_shared<plain_disk>();
        using drive     = named_store<{.addressable = true, .durable = true, .copyable = true}>;
        {
            registry    r;
            batch_scope b(r, {.store = std::make_shared<drive>("drive", disk)});
            make_filled(b, 100, {}).persist("kept");
            make_filled(b, 100, {});
        }
        registry    r;
        batch_scope b(r, {.store = std::make_shared<drive>("drive", disk)});
        CHECK(contents(b.open_buffer<int>("kept")) == numbers(100));
        CHECK(disk->files.size() == 1);
    }
}
