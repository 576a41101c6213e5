// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <compare>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "throws.hpp"

namespace {

using tenure::batch_scope;
using tenure::errc;
using tenure::handle;

struct animal {
    int legs = 4;
};
struct dog : animal {};

}  // namespace

static_assert(sizeof(handle<int>) == 16);
static_assert(sizeof(handle<int[]>) == 24);
static_assert(std::is_trivially_copyable_v<handle<std::string>>);
static_assert(std::is_trivially_copyable_v<handle<std::string[]>>);
static_assert(std::is_trivially_destructible_v<handle<std::string>>);
static_assert(std::is_nothrow_default_constructible_v<handle<int>>);
static_assert(std::totally_ordered<handle<int>> && std::three_way_comparable<handle<int>>);
static_assert(noexcept(handle<int>{}.get()) && noexcept(handle<int>{}.alive()) &&
              noexcept(handle<int>{}.unchecked()));

static_assert(std::is_convertible_v<handle<dog>, handle<animal>>);
static_assert(std::is_convertible_v<handle<int>, handle<int const>>);
static_assert(std::is_convertible_v<handle<int[]>, handle<int const[]>>);
static_assert(!std::is_convertible_v<handle<animal>, handle<dog>>);
static_assert(!std::is_convertible_v<handle<int const>, handle<int>>);
static_assert(!std::is_convertible_v<handle<int>, handle<long>>);
static_assert(!std::is_convertible_v<handle<dog[]>, handle<animal[]>>, "an element's size would be wrong");
static_assert(!std::is_convertible_v<handle<int[]>, handle<int>>);
static_assert(!std::is_convertible_v<int*, handle<int>>);

TEST_SUITE("handle") {
    TEST_CASE_FIXTURE(accounting, "alive: every access reaches the object") {
        batch_scope b;
        auto const  h = b.make<std::string>("text");
        CHECK(h.alive());
        CHECK(*h == "text");
        CHECK(h->size() == 4);
        CHECK(h.get() == &*h);
        CHECK(h.unchecked() == &*h);
        CHECK(h.owner() == b.id());
        *h = "changed";  // a handle is const as a pointer is
        CHECK(*h == "changed");
    }

    TEST_CASE_FIXTURE(accounting, "stale: every checked access says so") {
        batch_scope b;
        auto const  h = b.make<std::string>("text");
        auto const  a = b.make<int[]>(3);
        auto* const p = h.unchecked();
        b.free(h);
        b.free(a);
        CHECK_FALSE(h.alive());
        CHECK(h.get() == nullptr);
        CHECK(h.unchecked() == p);
        check_throws(errc::stale_handle, {"stale", "keep() it", "alive()"}, [&] { (void)*h; });
        check_throws(errc::stale_handle, {"stale"}, [&] { (void)h->size(); });
        check_throws(errc::stale_handle, {"stale"}, [&] { (void)h.owner(); });
        CHECK_FALSE(a.alive());
        CHECK(a.get() == nullptr);
        CHECK(a.size() == 3);  // the length is the handle's own
        check_throws(errc::stale_handle, {"stale"}, [&] { (void)a[0]; });
        check_throws(errc::stale_handle, {"stale"}, [&] { (void)a[3]; });
        check_throws(errc::stale_handle, {"stale"}, [&] { (void)a.span(); });
        check_throws(errc::stale_handle, {"stale"}, [&] { (void)a.owner(); });
    }

    TEST_CASE_FIXTURE(accounting, "null: stale from the start") {
        handle<int>   h;
        handle<int[]> a;
        CHECK_FALSE(h.alive());
        CHECK(h.get() == nullptr);
        CHECK(a.size() == 0);
        check_throws(errc::stale_handle, {"null handle"}, [&] { (void)*h; });
        check_throws(errc::stale_handle, {"null handle"}, [&] { (void)h.owner(); });
        check_throws(errc::stale_handle, {"null handle"}, [&] { (void)a[0]; });
        check_throws(errc::stale_handle, {"null handle"}, [&] { (void)a.span(); });
        batch_scope b;
        check_throws(errc::stale_handle, {}, [&] { b.keep(h); });
        check_throws(errc::stale_handle, {}, [&] { b.free(h); });
        CHECK(h == handle<int>{});
    }

    TEST_CASE_FIXTURE(accounting, "copies are the same handle") {
        batch_scope b;
        auto const  h    = b.make<int>(1);
        auto const  copy = h;
        CHECK(copy == h);
        *copy = 2;
        CHECK(*h == 2);
        b.free(copy);
        CHECK_FALSE(h.alive());
        CHECK(copy == h);
    }

    TEST_CASE_FIXTURE(accounting, "hashable and ordered; the next object at the same address is another") {
        batch_scope                     outer;
        std::unordered_set<handle<int>> hashed;
        std::set<handle<int>>           ordered;
        for (int round = 0; round < 100; ++round) {
            batch_scope b;
            for (int i = 0; i < 10; ++i) {
                auto const h = b.make<int>(i);
                CHECK(hashed.insert(h).second);
                CHECK(ordered.insert(h).second);
            }
        }
        CHECK(hashed.size() == 1000);
        CHECK(std::unordered_set{outer.make<int[]>(3), outer.make<int[]>(3)}.size() == 2);
        CHECK(ordered.size() == 1000);
        auto const a = outer.make<int>(1), b = outer.make<int>(2);
        CHECK(a != b);
        CHECK((a < b) != (b < a));
        CHECK(hashed.count(a) == 0);
    }

    TEST_CASE_FIXTURE(accounting, "converts as pointers do") {
        batch_scope          b;
        handle<dog> const    d     = b.make<dog>();
        handle<animal> const any   = d;
        handle<dog const>    fixed = d;
        CHECK(any->legs == 4);
        CHECK(any.get() == d.get());
        CHECK(any.owner() == b.id());
        CHECK(any == d);
        handle<int const[]> const numbers = b.make<int[]>(3);
        CHECK(numbers.size() == 3);
        CHECK(numbers[2] == 0);
        b.free(any);
        CHECK_FALSE(d.alive());
        CHECK_FALSE(fixed.alive());
    }
}

TEST_SUITE("errors") {
    TEST_CASE("are std::system_error of one category, and compare with errc") {
        static_assert(std::is_base_of_v<std::system_error, tenure::error>);
        static_assert(std::is_error_code_enum_v<errc>);
        tenure::error const e(errc::stale_handle, "somewhere");
        CHECK(e.code() == errc::stale_handle);
        CHECK(&e.code().category() == &tenure::error_category());
        CHECK(std::string(e.code().category().name()) == "tenure");
        CHECK(std::string(e.what()).starts_with("somewhere: "));
        CHECK(std::error_code(errc::not_owner) != std::error_code(errc::stale_handle));
        CHECK(std::error_code(errc::memory_full) == std::errc::not_enough_memory);
    }

    TEST_CASE("each says what to do") {
        auto const says = [](errc e, char const* what) {
            CAPTURE(what);
            CHECK(std::error_code(e).message().find(what) != std::string::npos);
        };
        says(errc::stale_handle, "keep() it before its batch ends");
        says(errc::batch_ended, "that is still active");
        says(errc::no_such_batch, "pass an id from");
        says(errc::not_owner, "call this on its owner()");
        says(errc::limit_exceeded, "free something");
        says(errc::memory_full, "end batches");
        says(errc::out_of_range, "below size()");
        says(errc::wrong_thread, "use detach()");
        says(errc::bad_address, "takes a pointer");
        CHECK(std::error_code(999, tenure::error_category()).message() == "unknown tenure error");
    }
}
