// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What one does with the elements of a buffer beyond read() and write(): buffers made of ranges, fills, parts,
// rows, other sizes. In every kind of store, with failures of each, with sizes that no buffer has.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
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
#include <type_traits>
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
using tenure::store_operation;
namespace faults = tenure::faults;

constexpr auto most = std::numeric_limits<std::size_t>::max();

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
