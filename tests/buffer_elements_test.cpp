// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What one does with the elements of a buffer beyond read() and write(): buffers made of ranges, fills, parts,
// rows, other sizes. In every kind of store, with failures of each, with sizes that no buffer has.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <list>
#include <memory>
#include <ranges>
#include <span>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/device/host.hpp>
#include <tenure/device/store.hpp>
#include <tenure/store/counted.hpp>
#include <tenure/store/dedup.hpp>
#include <tenure/store/durable_mmap.hpp>
#include <tenure/store/limited.hpp>
#include <tenure/store/mmap.hpp>
#include <tenure/store/tiered.hpp>
#include <tenure/tenure.hpp>

#include "stores/lab_buffers.hpp"
#include "temporary.hpp"
#include "throws.hpp"

namespace {

using tenure::any_store;
using tenure::batch_scope;
using tenure::buffer;
using tenure::buffer_slice;
using tenure::errc;
using tenure::store_operation;
namespace faults = tenure::faults;

constexpr auto most = std::numeric_limits<std::size_t>::max();

template <class B>
concept can_fill = requires(B const& b) { b.fill(1); };

}  // namespace

TEST_SUITE("a buffer made of a range") {
    TEST_CASE_FIXTURE(lab, "has its elements, written in one call") {
        auto const  store = make_far();
        batch_scope b(r);
        auto const  v = numbers(1000);
        auto const  x = b.make_buffer(v, store);
        static_assert(std::is_same_v<decltype(x), buffer<int> const>);
        CHECK(store->calls(store_operation::allocate) == 1);
        CHECK(store->calls(store_operation::write) == 1);
        CHECK(store->calls(store_operation::any) == 2);
        CHECK(contents(x) == v);
        CHECK(b.usage().buffer_bytes == 4000);
        CHECK(stores_error(r, store) == "");
        CHECK(contents(b.make_buffer(std::span<int const>(v).subspan(10, 5))) == numbers(5, 11));
    }

    TEST_CASE_FIXTURE(lab, "which may be of any kind") {
        batch_scope  b(r, {.store = make_far()});
        int const    array[]{1, 2, 3};
        double const one[]{0.5};
        CHECK(contents(b.make_buffer(array)) == numbers(3));
        CHECK(contents(b.make_buffer(one)) == std::vector{0.5});
        CHECK(contents(b.make_buffer(std::array{1, 2})) == numbers(2));
        CHECK(contents(b.make_buffer(std::string("abc"))) == std::vector{'a', 'b', 'c'});
        CHECK(contents(b.make_buffer(std::deque{1, 2, 3})) == numbers(3));
        CHECK(contents(b.make_buffer(std::list{1, 2, 3})) == numbers(3));
        CHECK(contents(b.make_buffer(std::views::iota(1, 2001))) == numbers(2000));
        auto odd = numbers(10) | std::views::filter([](int i) { return i % 2; });
        CHECK(contents(b.make_buffer(odd)) == std::vector{1, 3, 5, 7, 9});
        std::istringstream words("1 2 3 4");
        CHECK(contents(b.make_buffer(std::ranges::subrange(std::istream_iterator<int>(words),
                                                           std::istream_iterator<int>()))) == numbers(4));
        auto const          bits = b.make_buffer(std::vector{true, false, true});
        std::array<bool, 3> read{};
        static_assert(std::is_same_v<decltype(bits), buffer<bool> const>);
        bits.read(0, read);
        CHECK(read == std::array{true, false, true});
        CHECK(contents(b.make_buffer(b.make<short[]>({7, 8}))) == std::vector<short>{7, 8});
    }

    TEST_CASE_FIXTURE(lab, "an empty one makes what make_buffer<T>(0) makes") {
        auto const  store = make_far();
        batch_scope b(r, {.store = store});
        auto const  x = b.make_buffer(std::vector<int>()), y = b.make_buffer(std::list<int>()),
                   z = b.make_buffer(std::span<int>());
        for (auto const& empty : {x, y, z}) {
            CHECK(empty.alive());
            CHECK(empty.size() == 0);
        }
        CHECK(store->usage().blocks == 3);
        CHECK(store->calls(store_operation::write) == 0);
    }

    TEST_CASE("is made by lanes, owners, and in the current batch, too") {
        accounting const books;
        auto const       store = make_far();
        batch_scope      b{{.store = store}};
        auto const       x = tenure::make_buffer(numbers(3));
        CHECK(x.owner() == b.id());
        CHECK(contents(tenure::try_make_buffer(numbers(4), make_near()).value()) == numbers(4));
        CHECK(contents(b.try_make_buffer(numbers(4)).value()) == numbers(4));
        std::jthread([lane = b.lane()]() mutable {
            CHECK(contents(lane.make_buffer(numbers(5))) == numbers(5));
        }).join();
        CHECK(store->usage().blocks == 3);
        tenure::batch_owner owner{tenure::batch_options{}};
        auto const          y = owner.make_buffer(std::list{1, 2}, store);
        CHECK(contents(y) == numbers(2));
        CHECK(y.owner() == owner.id());
    }

    TEST_CASE_FIXTURE(lab, "leaves nothing behind if it fails, whichever step it was") {
        auto const  store = make_far();
        batch_scope b(r, {.limits = {.hard = 4096}, .store = store});
        auto const  small  = b.make_buffer(numbers(1));
        auto const  before = b.usage();
        auto const  same   = [&] {
            CHECK(b.usage().buffers == before.buffers);
            CHECK(b.usage().buffer_bytes == before.buffer_bytes);
            CHECK(store->usage().bytes == 4);
            CHECK(stores_error(r, store) == "");
        };
        for (auto const on : {store_operation::allocate, store_operation::write}) {
            store->inject({.on = on});
            check_throws(io_error, {"store faulty far"}, [&] { b.make_buffer(numbers(100)); });
            same();
            store->inject({.on = on});
            CHECK(b.try_make_buffer(std::list{1, 2}).error() == io_error);
            same();
        }
        store->inject({.on = store_operation::write, .how = faults::shortens{.to = 10}});
        check_throws(io_error, {"write a new buffer to store faulty far"}, [&] { b.make_buffer(numbers(100)); });
        same();
        CHECK(b.try_make_buffer(numbers(2000)).error() == errc::limit_exceeded);
        same();
        for (int i = 0; i < 100; ++i) {  // what failed is not charged
            store->inject({.on = store_operation::write});
            CHECK(b.try_make_buffer(numbers(400)).error() == io_error);
        }
        CHECK(contents(b.make_buffer(numbers(400))) == numbers(400));
        CHECK(contents(small) == numbers(1));
    }

    TEST_CASE_FIXTURE(lab, "that throws, or is larger than memory, makes none") {
        auto const  store = make_far();
        batch_scope b(r, {.store = store});
        auto        bad = std::views::iota(0, 10) | std::views::transform([](int i) -> int {
                       if (i == 5) throw i;
                       return i;
                   });
        CHECK_THROWS_AS(b.make_buffer(bad), int);
        int one = 0;
        for (std::size_t const n : {most, most / 2, most / 4 + 1, most / 4 + 2, most / 8})
            CHECK(b.try_make_buffer(std::span<int>(&one, n)).error() == errc::store_full);
        CHECK(store->calls(store_operation::write) == 0);
        CHECK(store->usage().blocks == 0);
        CHECK(b.usage().buffers == 0);
    }

    TEST_CASE_FIXTURE(lab, "in a batch that is over says so") {
        batch_scope b(r);
        b.end();
        check_throws(errc::batch_ended, {"make a buffer"}, [&] { b.make_buffer(numbers(3)); });
    }
}

TEST_SUITE("fill") {
    TEST_CASE_FIXTURE(lab, "makes elements copies of a value, in any store") {
        struct three {
            char a[3];
            bool operator==(three const&) const = default;
        };
        batch_scope b(r);
        for (any_store const& store : {any_store(make_far()), any_store(make_near()), any_store(make_device()),
                                       any_store(make_library()), any_store()}) {
            CAPTURE(b.make_buffer<int>(0, store).stores().front().describe());
            auto const x = make_filled(b, 1000, store);
            x.fill(10, 5, -7);
            auto expected = numbers(1000);
            for (std::size_t i = 10; i < 15; ++i) expected[i] = -7;
            CHECK(contents(x) == expected);
            x.fill(999, 1, -8);
            x.fill(0, 1, -9);
            x.fill(1000, 0, 1);
            CHECK(contents(x).front() == -9);
            CHECK(contents(x).back() == -8);
            CHECK(contents(x)[998] == 999);
            x.fill(4);
            CHECK(contents(x) == std::vector(1000, 4));
            CHECK(x.try_fill(5));
            CHECK(x.try_fill(1, 998, 6));
            CHECK(contents(x)[0] == 5);
            CHECK(contents(x)[998] == 6);
            CHECK(contents(x)[999] == 5);
            for (std::size_t const n :
                 std::initializer_list<std::size_t>{1, 2, 3, 1000, 400'000}) {  // with no size that divides another
                auto const y = b.make_buffer<three>(n, store);
                y.fill({'x', 'y', 'z'});
                CHECK(contents(y) == std::vector<three>(n, {'x', 'y', 'z'}));
            }
            b.make_buffer<int>(0, store).fill(3);
        }
    }

    TEST_CASE_FIXTURE(lab, "takes a value from the buffer itself") {
        batch_scope b(r);
        auto const  x = b.make_buffer(numbers(100'000));
        x.fill(x.map()[54'321]);
        CHECK(contents(x) == std::vector(100'000, 54'322));
    }

    TEST_CASE_FIXTURE(lab, "writes pieces of bounded size, and none where memory has an address") {
        auto const  store = make_far(), large = make_far();
        auto const  here = make_near();
        batch_scope b(r);
        auto const  x = b.make_buffer<int>(700'001, store), y = b.make_buffer<int>(700'001, here);
        x.fill(3);
        y.fill(3);
        CHECK(contents(x) == std::vector(700'001, 3));
        CHECK(contents(y) == contents(x));
        CHECK(store->calls(store_operation::write) == 3);
        CHECK(here->calls(store_operation::write) == 0);
        struct huge {
            std::array<char, 3'000'000> all;
        };
        auto const value      = std::make_unique<huge>();
        value->all[2'999'999] = 'z';
        auto const z          = b.make_buffer<huge>(2, large);
        z.fill(*value);
        CHECK(large->calls(store_operation::write) == 2);
        auto const read = std::make_unique<huge>();
        z.read(1, {read.get(), 1});
        CHECK(read->all == value->all);
    }

    TEST_CASE_FIXTURE(lab, "refuses what is out of range, and changes nothing") {
        batch_scope b(r);
        for (any_store const& store : {any_store(make_far()), any_store(make_near())}) {
            auto const x = make_filled(b, 10, store);
            for (auto const& [offset, n] : {std::pair<std::size_t, std::size_t>{0, 11},
                                            {1, 10},
                                            {10, 1},
                                            {11, 0},
                                            {most, 1},
                                            {most, 0},
                                            {1, most},
                                            {most, most},
                                            {0, most},
                                            {most / 4, 1},
                                            {0, most / 4 + 2},
                                            {most / 2 + 1, most / 2 + 1}}) {
                CAPTURE(offset);
                CAPTURE(n);
                CHECK(x.try_fill(offset, n, 1).error() == errc::out_of_range);
                check_throws(errc::out_of_range, {"fill a buffer of store"}, [&] { x.fill(offset, n, 1); });
            }
            CHECK(contents(x) == numbers(10));
        }
    }

    TEST_CASE_FIXTURE(lab, "says what the store said") {
        auto const  store = make_far();
        batch_scope b(r);
        auto const  x = make_filled(b, 700'001, store);
        for (std::uint64_t nth = 1; nth <= 3; ++nth) {
            store->inject({.on = store_operation::write, .nth = nth});
            check_throws(io_error, {"fill a buffer of store faulty far"}, [&] { x.fill(1); });
            store->inject({.on = store_operation::write, .nth = nth});
            CHECK(x.try_fill(1).error() == io_error);
        }
        CHECK(x.try_fill(1));
    }

    TEST_CASE_FIXTURE(lab, "of all elements makes evicted ones anew; of some, brings the others back first") {
        auto const  store = make_far();
        batch_scope b(r, {.store = store});
        int         runs    = 0;
        auto const  derived = tenure::make_derived<int>(10, [&](std::span<int> out) {
            ++runs;
            std::ranges::copy(numbers(10), out.begin());
        });
        derived.fill(3);
        CHECK(runs == 0);
        CHECK(contents(derived) == std::vector(10, 3));
        tenure::evict(derived);
        derived.slice(2, 3).fill(3);
        CHECK(runs == 1);
        CHECK(contents(derived) == std::vector{1, 2, 3, 3, 3, 6, 7, 8, 9, 10});
        tenure::evict(derived);
        CHECK(derived.slice(0, 10).try_fill(4));
        CHECK(runs == 1);
        auto const plain = make_filled(b, 10, store);
        tenure::evict(plain);
        CHECK(plain.try_fill(0, 9, 1).error() == errc::evicted);
        check_throws(errc::evicted, {}, [&] { plain.fill(1, 9, 1); });
        store->inject({.on = store_operation::write});
        check_throws(io_error, {"store faulty far"}, [&] { plain.fill(5); });
        CHECK(store->usage().bytes == 40);
        plain.fill(5);
        CHECK(contents(plain) == std::vector(10, 5));
        CHECK(b.usage().buffer_bytes == 80);
        CHECK(stores_error(r, store) == "");
    }
}

TEST_SUITE("a copy of a part") {
    TEST_CASE_FIXTURE(lab, "goes from anywhere to anywhere, and touches nothing else") {
        batch_scope                  b(r);
        std::vector<any_store> const stores{make_far("one"), make_far("two"), make_near(), make_device(),
                                            any_store(std::make_shared<tenure::heap_store>())};
        for (any_store const& from : stores) {
            for (any_store const& to : stores) {
                auto const x = make_filled(b, 100, from), y = make_filled(b, 50, to, 1001);
                x.copy_to(y, {.from = 90, .to = 5, .count = 10});
                auto expected = numbers(50, 1001);
                for (int i = 0; i < 10; ++i) expected[5 + static_cast<std::size_t>(i)] = 91 + i;
                CHECK(contents(y) == expected);
                CHECK(contents(x) == numbers(100));
                CHECK(x.try_copy_to(y, {.from = 0, .to = 49, .count = 1}));
                expected[49] = 1;
                CHECK(contents(y) == expected);
                x.copy_to(y, {.from = 100, .to = 50, .count = 0});
                CHECK(contents(y) == expected);
                frozen(x).copy_to(y, {.from = 3, .count = 1});
                CHECK(contents(y).front() == 4);
            }
        }
    }

    TEST_CASE_FIXTURE(lab, "takes no detour") {
        auto const  store = make_device();
        auto const  away  = make_far();
        auto const  here  = make_near();
        batch_scope b(r);
        auto const  x = make_filled(b, 100, store), y = make_filled(b, 100, store),
                   far_x = make_filled(b, 100, away), near_x = make_filled(b, 100, here);
        for (auto const& s : {store}) s->clear();
        away->clear();
        here->clear();
        x.copy_to(y, {.from = 1, .to = 2, .count = 3});
        x.copy_to(x, {.from = 0, .to = 50, .count = 50});  // they do not overlap
        CHECK(store->calls(store_operation::copy) == 2);
        CHECK(store->calls() == 2);
        far_x.copy_to(near_x, {.from = 1, .to = 2, .count = 3});
        CHECK(away->calls(store_operation::read) == 1);
        near_x.copy_to(far_x, {.from = 1, .to = 2, .count = 3});
        CHECK(away->calls(store_operation::write) == 1);
        CHECK(away->calls() == 2);
        CHECK(here->calls(store_operation::read) + here->calls(store_operation::write) == 0);
    }

    TEST_CASE_FIXTURE(lab, "is right where the parts overlap") {
        batch_scope b(r);
        for (any_store const& store : {any_store(make_far()), any_store(make_near()), any_store(make_device()),
                                       any_store(std::make_shared<tenure::heap_store>())}) {
            CAPTURE(store.describe());
            for (std::size_t const n : std::initializer_list<std::size_t>{20, 900'000})
                for (auto const& [from, to, less] : {std::tuple<std::size_t, std::size_t, std::size_t>{0, 1, 1},
                                                     {1, 0, 1},
                                                     {0, 7, 7},
                                                     {7, 0, 7},
                                                     {2, 2, 5},
                                                     {3, 4, 9},
                                                     {4, 3, 9}}) {
                    auto const x        = make_filled(b, n, store);
                    auto       expected = numbers(static_cast<std::size_t>(n));
                    std::memmove(expected.data() + to, expected.data() + from, (n - less) * sizeof(int));
                    x.copy_to(x, {.from = from, .to = to, .count = n - less});
                    CHECK(contents(x) == expected);
                    b.free(x);
                }
        }
        auto const gpu = make_device();  // stores copy only what does not overlap
        auto const y   = make_filled(b, 20, gpu);
        y.copy_to(y, {.from = 0, .to = 1, .count = 19});
        y.copy_to(y, {.from = 1, .to = 0, .count = 2});
        CHECK(gpu->calls(store_operation::copy) == 0);
        y.copy_to(y, {.from = 0, .to = 10, .count = 10});
        CHECK(gpu->calls(store_operation::copy) == 1);
        auto const shelf = make_library();  // two buffers of one block
        b.make_buffer(numbers(20), shelf).persist("twenty");
        auto const one = b.open_buffer<int>("twenty", shelf), two = b.open_buffer<int>("twenty", shelf);
        one.copy_to(two, {.from = 0, .to = 1, .count = 19});
        CHECK(contents(two)[19] == 19);
        CHECK(contents(two)[1] == 1);
    }

    TEST_CASE_FIXTURE(lab, "is refused where either side has no such part, and says what the stores said") {
        auto const  one = make_far("one"), two = make_far("two");
        batch_scope b(r);
        auto const  x = make_filled(b, 10, one), y = make_filled(b, 20, two, 7);
        for (tenure::copied_part const& p : {tenure::copied_part{.from = 0, .to = 0, .count = 11},
                                             {.from = 10, .to = 0, .count = 1},
                                             {.from = 0, .to = 20, .count = 1},
                                             {.from = 0, .to = 15, .count = 6},
                                             {.from = most, .to = 0, .count = 2},
                                             {.from = 0, .to = most, .count = 2},
                                             {.from = 1, .to = 1, .count = most},
                                             {.from = most, .to = most, .count = most},
                                             {.from = 11, .to = 0, .count = 0}}) {
            check_throws(errc::out_of_range, {"a part of", "elements from", "in a buffer of"},
                         [&] { x.copy_to(y, p); });
            CHECK(x.try_copy_to(y, p).error() == errc::out_of_range);
        }
        CHECK(contents(y) == numbers(20, 7));
        one->inject({.on = store_operation::read});
        check_throws(io_error, {"copy a buffer from store faulty one to store faulty two"},
                     [&] { x.copy_to(y, {.count = 5}); });
        two->inject({.on = store_operation::write});
        CHECK(x.try_copy_to(y, {.count = 5}).error() == io_error);
        CHECK(contents(x) == numbers(10));
        b.free(y);
        check_throws(errc::stale_handle, {}, [&] { x.copy_to(y, {.count = 5}); });
        CHECK(y.try_copy_to(x, {.count = 5}).error() == errc::stale_handle);
        CHECK(y.try_copy_to(x, {.count = 50}).error() == errc::stale_handle);
        CHECK(x.try_copy_to(y).error() == errc::stale_handle);
    }
}

TEST_SUITE("a slice") {
    TEST_CASE_FIXTURE(lab, "does with its elements what the buffer does with all") {
        static_assert(std::is_trivially_copyable_v<buffer_slice<int>> && sizeof(buffer_slice<int>) == 32);
        static_assert(std::is_convertible_v<buffer_slice<int>, buffer_slice<int const>>);
        static_assert(!std::is_convertible_v<buffer_slice<int const>, buffer_slice<int>>);
        static_assert(!std::is_convertible_v<tenure::frozen_buffer<int>, buffer_slice<int>>);
        static_assert(!std::is_convertible_v<buffer<int>, buffer_slice<unsigned>>);
        auto const  store = make_near();
        batch_scope b(r, {.store = store});
        auto const  x = make_filled(b, 100, store);
        auto const  s = x.slice(10, 20);
        CHECK(s.size() == 20);
        CHECK(s.offset() == 10);
        CHECK(s.alive());
        CHECK(s.owner() == b.id());
        CHECK(s.stores() == x.stores());
        std::array<int, 2> two{};
        s.read(18, two);
        CHECK(two == std::array{29, 30});
        s.write(0, std::array{-1, -2});
        CHECK(contents(x)[10] == -1);
        CHECK(contents(x)[11] == -2);
        CHECK(contents(x)[9] == 10);
        s.slice(5, 10).slice(5, 5).fill(0);
        CHECK(s.slice(5, 10).slice(5, 5).offset() == 20);
        for (std::size_t i = 0; i < 100; ++i) CHECK((contents(x)[i] == 0) == (i >= 20 && i < 25));
        CHECK(s.map().data() == x.map().data() + 10);
        CHECK(s.map().size() == 20);
        auto const y = make_filled(b, 30, make_far(), 1001);
        s.copy_to(y);
        CHECK(contents(y)[0] == -1);
        CHECK(contents(y)[20] == 1021);
        y.copy_to(x.slice(70, 30));
        CHECK(contents(x)[99] == 1030);
        y.slice(1, 2).copy_to(s.slice(18, 2));
        s.read(18, two);
        CHECK(two == std::array{-2, 13});
        buffer_slice<int> const whole = x;
        CHECK(whole == x.slice(0, 100));
        CHECK(whole != s);
        buffer_slice<int const> const read_only = frozen(x);
        read_only.slice(0, 2).read(0, two);
        CHECK(two == std::array{1, 2});
        CHECK(frozen(x).slice(1, 2).map().front() == 2);
        static_assert(std::is_same_v<decltype(read_only.map()), std::span<int const>>);
        static_assert(can_fill<buffer_slice<int>> && !can_fill<buffer_slice<int const>> &&
                      !can_fill<tenure::frozen_buffer<int>>);
    }

    TEST_CASE_FIXTURE(lab, "ends where it ends") {
        batch_scope b(r);
        for (any_store const& store : {any_store(make_far()), any_store(make_near())}) {
            auto const         x = make_filled(b, 100, store);
            auto const         s = x.slice(10, 20);
            std::array<int, 2> two{};
            CHECK(s.try_read(19, two).error() == errc::out_of_range);
            CHECK(s.try_write(20, std::array{1}).error() == errc::out_of_range);
            CHECK(s.try_fill(19, 2, 1).error() == errc::out_of_range);
            CHECK(s.try_read(most, two).error() == errc::out_of_range);
            CHECK(s.try_read(most - 9, two).error() == errc::out_of_range);
            check_throws(errc::out_of_range, {}, [&] { x.copy_to(s); });
            check_throws(errc::out_of_range, {}, [&] { s.copy_to(x.slice(0, 19)); });
            for (auto const& [offset, n] : {std::pair<std::size_t, std::size_t>{0, 21},
                                            {20, 1},
                                            {21, 0},
                                            {most, 1},
                                            {most, most},
                                            {0, most},
                                            {most - 9, 10}})
                check_throws(errc::out_of_range, {"a part of"}, [&] { s.slice(offset, n); });
            CHECK(s.slice(20, 0).size() == 0);
            CHECK(contents(x) == numbers(100));
        }
        check_throws(errc::stale_handle, {"null"}, [] { buffer<int>().slice(0, 1); });
        CHECK(buffer<int>().slice(0, 0).try_read(0, {}).error() == errc::stale_handle);
        CHECK_FALSE(buffer_slice<int>().alive());
    }

    TEST_CASE_FIXTURE(lab, "is stale when its buffer is, and goes where that goes") {
        auto const        store = make_far();
        batch_scope       outer(r);
        buffer_slice<int> kept, gone;
        {
            batch_scope b(r, {.store = store});
            auto const  x = make_filled(b, 10, store), y = make_filled(b, 10, store);
            kept = b.keep(x).slice(5, 5), gone = y.slice(5, 5);
            x.move_to(make_near());
        }
        std::array<int, 1> one{};
        kept.read(4, one);
        CHECK(one[0] == 10);
        CHECK(kept.map()[0] == 6);
        CHECK_FALSE(gone.alive());
        auto const check = [&] {
            std::array<int, 1> none{};
            CHECK(gone.try_read(0, none).error() == errc::stale_handle);
            CHECK(gone.try_write(0, none).error() == errc::stale_handle);
            CHECK(gone.try_fill(1).error() == errc::stale_handle);
            CHECK(gone.try_fill(9, 9, 1).error() == errc::stale_handle);
            CHECK(gone.try_read_rows({.count = 1, .stride = 1}, none).error() == errc::stale_handle);
            CHECK(gone.try_write_rows({.offset = most, .count = 1, .stride = 1}, none).error() ==
                  errc::stale_handle);
            CHECK(gone.try_copy_to(kept).error() == errc::stale_handle);
            CHECK(kept.try_copy_to(gone).error() == errc::stale_handle);
            for (auto const& call : std::initializer_list<std::function<void()>>{
                     [&] { gone.read(0, none); }, [&] { gone.write(0, none); }, [&] { gone.fill(1); },
                     [&] { (void)gone.map(); }, [&] { gone.slice(9, 9); }, [&] { (void)gone.owner(); },
                     [&] { (void)gone.stores(); }, [&] { gone.copy_to(kept); },
                     [&] { gone.read_rows({.count = 1, .stride = 1}, none); },
                     [&] { gone.write_rows({.count = 1, .stride = 1}, none); }})
                check_throws(errc::stale_handle, {"stale handle"}, call);
        };
        check();
        std::jthread(check).join();
        CHECK(gone.slice(0, 5).size() == 5);  // says nothing of the buffer
    }
}

TEST_SUITE("rows") {
    TEST_CASE_FIXTURE(lab, "of a matrix are read and written in any store") {
        batch_scope b(r);
        for (any_store const& store :
             {any_store(make_far()), any_store(make_near()), any_store(make_device()), any_store()}) {
            auto const       x = make_filled(b, 60, store);  // 6 rows of 10
            std::vector<int> got(12);
            x.read_rows({.offset = 22, .count = 3, .stride = 10}, got);
            CHECK(got == std::vector{23, 24, 25, 33, 34, 35, 43, 44, 45, 53, 54, 55});
            x.write_rows({.offset = 27, .count = 3, .stride = 10}, got);
            auto expected = numbers(60);
            for (std::size_t row = 0; row < 4; ++row)
                for (std::size_t i = 0; i < 3; ++i) expected[27 + 10 * row + i] = got[3 * row + i];
            CHECK(contents(x) == expected);
            std::vector<int> column(6), all(60);
            CHECK(x.try_read_rows({.offset = 9, .count = 1, .stride = 10}, column));
            CHECK(column == std::vector{10, 20, 25, 35, 45, 55});
            CHECK(x.try_read_rows({.count = 10, .stride = 10}, all));
            CHECK(all == expected);
            CHECK(x.try_write_rows({.offset = 50, .count = 10, .stride = most}, std::span(all).first(10)));
            expected.resize(50);
            expected.insert(expected.end(), all.begin(), all.begin() + 10);
            CHECK(contents(x) == expected);
            auto const s = x.slice(10, 20);
            s.read_rows({.offset = 1, .count = 2, .stride = 17}, std::span(got).first(4));
            CHECK(std::vector(got.begin(), got.begin() + 4) == std::vector{12, 13, expected[28], expected[29]});
            frozen(x).read_rows({.count = 2, .stride = 2}, std::span(got).first(4));
            CHECK(std::vector(got.begin(), got.begin() + 4) == numbers(4));
            x.read_rows({.offset = 60, .count = 3, .stride = 10}, {});
            x.write_rows({}, {});
        }
    }

    TEST_CASE_FIXTURE(lab, "are a call each, none where memory has an address, one if nothing is between them") {
        auto const  store = make_far();
        auto const  here  = make_near();
        batch_scope b(r);
        auto const  x = make_filled(b, 60, store), y = make_filled(b, 60, here);
        store->clear();
        here->clear();
        std::vector<int> got(18);
        x.read_rows({.count = 3, .stride = 10}, got);
        CHECK(store->calls(store_operation::read) == 6);
        x.write_rows({.count = 3, .stride = 10}, got);
        CHECK(store->calls(store_operation::write) == 6);
        x.read_rows({.count = 3, .stride = 3}, got);
        CHECK(store->calls(store_operation::read) == 7);
        y.read_rows({.count = 3, .stride = 10}, got);
        y.write_rows({.count = 3, .stride = 10}, got);
        CHECK(here->calls(store_operation::read) + here->calls(store_operation::write) == 0);
    }

    TEST_CASE_FIXTURE(lab, "that the buffer does not have are refused, and change nothing") {
        batch_scope b(r);
        for (any_store const& store : {any_store(make_far()), any_store(make_near())}) {
            auto const       x = make_filled(b, 60, store);
            std::vector<int> got(12, -1);
            for (tenure::row_layout const& rows : {tenure::row_layout{.offset = 28, .count = 3, .stride = 10},
                                                   {.offset = 0, .count = 3, .stride = 20},
                                                   {.offset = 0, .count = 5, .stride = 10},
                                                   {.offset = 0, .count = 0, .stride = 10},
                                                   {.offset = 0, .count = 13, .stride = 13},
                                                   {.offset = 0, .count = 3, .stride = 2},
                                                   {.offset = 0, .count = 12, .stride = 0},
                                                   {.offset = 0, .count = 3, .stride = most},
                                                   {.offset = 0, .count = 3, .stride = most / 3 + 1},
                                                   {.offset = 0, .count = 6, .stride = most - 5},
                                                   {.offset = most, .count = 3, .stride = 10},
                                                   {.offset = most - 32, .count = 3, .stride = 10},
                                                   {.offset = 30, .count = 4, .stride = most / 2 + 1},
                                                   {.offset = 0, .count = most, .stride = most},
                                                   {.offset = 49, .count = 12, .stride = 12}}) {
                CAPTURE(rows.offset);
                CAPTURE(rows.count);
                CAPTURE(rows.stride);
                CHECK(x.try_read_rows(rows, got).error() == errc::out_of_range);
                CHECK(x.try_write_rows(rows, got).error() == errc::out_of_range);
                check_throws(errc::out_of_range, {"read rows from store"}, [&] { x.read_rows(rows, got); });
                check_throws(errc::out_of_range, {"write rows to store"}, [&] { x.write_rows(rows, got); });
            }
            CHECK(x.try_read_rows({.offset = 61, .count = 1, .stride = 1}, {}).error() == errc::out_of_range);
            CHECK(got == std::vector(12, -1));
            CHECK(contents(x) == numbers(60));
        }
    }

    TEST_CASE_FIXTURE(lab, "say what the store said, and bring back what was evicted") {
        auto const  store = make_far();
        batch_scope b(r, {.store = store});
        auto const  x =
            tenure::make_derived<int>(60, [&](std::span<int> out) { std::ranges::copy(numbers(60), out.begin()); });
        std::vector<int> got(6);
        x.read_rows({.count = 1, .stride = 10}, got);
        CHECK(got == std::vector{1, 11, 21, 31, 41, 51});
        tenure::evict(x);
        CHECK(x.try_write_rows({.count = 1, .stride = 10}, numbers(6)));
        CHECK(contents(x)[50] == 6);
        CHECK(contents(x)[51] == 52);
        tenure::evict(x);
        CHECK(x.try_write_rows({.count = 10, .stride = 10}, numbers(60, 2)));
        CHECK(contents(x) == numbers(60, 2));
        for (std::uint64_t nth = 1; nth <= 6; ++nth) {
            store->inject({.on = store_operation::read, .nth = nth});
            check_throws(io_error, {"read rows from store faulty far"},
                         [&] { x.read_rows({.count = 1, .stride = 10}, got); });
            store->inject({.on = store_operation::write, .nth = nth});
            CHECK(x.try_write_rows({.count = 1, .stride = 10}, got).error() == io_error);
        }
    }
}

TEST_SUITE("resize") {
    TEST_CASE_FIXTURE(lab, "makes one that is longer or shorter, and the old one is stale") {
        batch_scope outer(r);
        for (any_store const& store : {any_store(make_far()), any_store(make_near()), any_store(make_device()),
                                       any_store(std::make_shared<tenure::heap_store>())}) {
            batch_scope b{tenure::below(outer)};
            auto const  x = make_filled(b, 100, store);
            auto const  s = x.slice(0, 1);
            auto const  y = x.resize(1000);
            CHECK(y.size() == 1000);
            CHECK_FALSE(x.alive());
            CHECK_FALSE(s.alive());
            CHECK(x.try_fill(1).error() == errc::stale_handle);
            CHECK(y.owner() == b.id());
            CHECK(y.stores().front() == store);
            auto all = contents(y);
            all.resize(100);
            CHECK(all == numbers(100));
            auto const z = y.try_resize(10).value();
            CHECK(contents(z) == numbers(10));
            CHECK(b.usage().buffers == 1);
            CHECK(b.usage().buffer_bytes == 40);
            CHECK(store.usage().bytes == 40);
            auto const none = z.resize(0);
            CHECK(none.size() == 0);
            CHECK(none.alive());
            CHECK(none.resize(5).resize(5).size() == 5);
            CHECK(b.usage().buffers == 1);
            CHECK(stores_error(r, store) == "");
            auto const report = b.end();
            CHECK(report.buffers == 1);
            CHECK(report.made == report.freed);
        }
    }

    TEST_CASE_FIXTURE(lab, "stays in its batch, whichever thread it is and whatever is current") {
        auto const  store = make_far();
        batch_scope outer(r, {.store = store});
        auto const  x = make_filled(outer, 10, store);
        buffer<int> y;
        {
            batch_scope inner(r);
            y = x.resize(20);
        }
        CHECK(y.alive());
        CHECK(y.owner() == outer.id());
        std::jthread([&] { y = y.resize(5); }).join();
        CHECK(contents(y) == numbers(5));
        CHECK(y.owner() == outer.id());
        auto const detached = [&] {
            batch_scope b{tenure::below(outer)};
            y = b.make_buffer(numbers(3));
            return b.detach();
        }();
        y = y.resize(2);
        CHECK(contents(y) == numbers(2));
        CHECK(y.owner() == detached);
        r.end_batch(detached);
        CHECK_FALSE(y.alive());
        CHECK(stores_error(r, store) == "");
        y = r.transfer_ownership(outer.make_buffer(numbers(3)), r.root()).resize(4);
        CHECK(y.owner() == r.root());
        r.free(y);
    }

    TEST_CASE_FIXTURE(lab, "that fails leaves all as it was, whichever step it was") {
        auto const  store = make_far();
        batch_scope b(r, {.limits = {.hard = 8192}, .store = store});
        auto const  x      = b.make_buffer(numbers(100));
        auto const  before = b.usage();
        auto const  same   = [&] {
            CHECK(contents(x) == numbers(100));
            CHECK(b.usage().buffers == 1);
            CHECK(b.usage().buffer_bytes == before.buffer_bytes);
            CHECK(store->usage().bytes == 400);
            CHECK(stores_error(r, store) == "");
        };
        for (auto const on : {store_operation::allocate, store_operation::read, store_operation::write}) {
            store->inject({.on = on});
            check_throws(io_error, {"store faulty far"}, [&] { (void)x.resize(200); });
            same();
            store->inject({.on = on});
            CHECK(x.try_resize(50).error() == io_error);
            same();
        }
        CHECK(x.try_resize(1990).error() == errc::limit_exceeded);
        same();
        for (std::size_t const n : {most, most / 4, most / 4 + 2, most / 2 + 1}) {
            CHECK(x.try_resize(n).error() == errc::limit_exceeded);
            same();
        }
        {
            auto const held = tenure::pin(x);
            check_throws(errc::object_pinned, {}, [&] { (void)x.resize(5); });
            same();
        }
        auto const y = x.resize(1000);  // both fit; then 4000 bytes are left
        auto const z = b.make_buffer<int>(500);
        CHECK(b.usage().buffer_bytes == 6000);
        CHECK(y.alive());
        CHECK(z.alive());
        store->inject({.on = store_operation::deallocate});  // freed later: it is resized all the same
        auto const w = z.resize(1);
        CHECK(w.alive());
        CHECK_FALSE(z.alive());
        CHECK(store->usage().bytes == 4000 + 2000 + 4);
        b.end();
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(lab, "of a stale, a shared, or a kept one, and in a batch that is over") {
        auto const  store = make_library();
        batch_scope outer(r);
        batch_scope b(r, {.cleanup = tenure::cleanup::manual, .store = store});
        check_throws(errc::stale_handle, {"stale handle"}, [] { (void)buffer<int>().resize(1); });
        auto const x = b.make_buffer(numbers(5)), shared = b.make_buffer(numbers(5)),
                   named = b.make_buffer(numbers(5));
        tenure::share(shared, outer.id());
        CHECK(shared.try_resize(6).error() == errc::not_owner);
        CHECK(contents(shared) == numbers(5));
        named.persist("five");
        auto const more = named.resize(6);
        CHECK_FALSE(named.alive());
        CHECK(b.open_buffer<int>("five").size() == 5);
        CHECK(more.size() == 6);
        b.free(x);
        CHECK(x.try_resize(6).error() == errc::stale_handle);
        std::jthread([&] { CHECK(x.try_resize(most).error() == errc::stale_handle); }).join();
        auto const id = b.id();
        b.end();
        CHECK(more.try_resize(7).error() == errc::batch_ended);
        CHECK(more.alive());
        r.destroy_batch(id);
        CHECK(stores_error(r, store, 20) == "");
    }

    TEST_CASE_FIXTURE(lab, "of one that is older than a checkpoint waits for its end") {
        auto const  store = make_device();
        batch_scope b(r);
        auto const  x = b.make_buffer(numbers(5), store);
        b.checkpoint();
        check_throws(errc::not_restorable, {}, [&] { (void)x.resize(6); });
        auto const younger = b.make_buffer(numbers(3), store).resize(4);
        b.rollback();
        CHECK_FALSE(younger.alive());
        CHECK(contents(x) == numbers(5));
        CHECK(x.resize(6).alive());
        CHECK(store->usage().bytes == 24);
        CHECK(stores_error(r, store) == "");
    }

    TEST_CASE_FIXTURE(lab, "brings back what was evicted, and leaves the derivation behind") {
        batch_scope b(r, {.store = make_far()});
        auto const  x =
            tenure::make_derived<int>(5, [](std::span<int> out) { std::ranges::copy(numbers(5), out.begin()); });
        auto const y = x.resize(4);
        CHECK(contents(y) == numbers(4));
        tenure::evict(y);
        CHECK(y.try_resize(3).error() == errc::evicted);
        CHECK(y.alive());
    }
}

TEST_SUITE("elements of buffers") {
    TEST_CASE_FIXTURE(lab, "in every store of ours") {
        temporary_directory const    dir;
        auto const                   heap = std::make_shared<tenure::heap_store>();
        auto const                   disk = std::make_shared<tenure::mmap_store>(dir.path());
        std::vector<any_store> const all{
            heap,
            disk,
            tenure::mmap_store::open(dir.path() / "durable"),
            std::make_shared<tenure::tiered_store<tenure::heap_store, tenure::mmap_store>>(
                heap, disk, tenure::tiered_options{.fast_bytes = 1'000'000}),
            std::make_shared<tenure::dedup_store<tenure::heap_store>>(heap),
            std::make_shared<tenure::limited_store<tenure::heap_store>>(heap,
                                                                        tenure::store_limits{.bytes = 4 << 20}),
            std::make_shared<tenure::counted_store<tenure::mmap_store>>(disk),
            std::make_shared<tenure::device_store<tenure::host_device>>(std::make_shared<tenure::host_device>()),
        };
        for (any_store const& store : all) {
            CAPTURE(store.describe());
            batch_scope b(r);
            CHECK(elements_error(b, store) == "");
            CHECK(b.usage().buffer_bytes == 0);
            CHECK(store.usage().bytes == 0);
        }
    }
}
