// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <version>

#include <doctest/doctest.h>

#include <tenure/error.hpp>
#include <tenure/result.hpp>

#include "throws.hpp"

namespace {

using tenure::errc;
using tenure::make_error_code;
using tenure::result;
using tenure::unexpected;

static_assert(std::is_trivially_copyable_v<result<int>> && std::is_trivially_copyable_v<result<void>>);
static_assert(sizeof(result<void>) <= sizeof(std::error_code) + alignof(std::error_code));
static_assert(std::is_copy_assignable_v<result<std::string>> &&
              std::is_nothrow_move_assignable_v<result<std::string>>);
static_assert(std::is_move_assignable_v<result<std::unique_ptr<int>>>);
static_assert(!std::is_copy_constructible_v<result<std::unique_ptr<int>>>);
static_assert(std::is_convertible_v<errc, result<int>> && std::is_convertible_v<std::error_code, result<void>>);
static_assert(std::is_convertible_v<result<int>, result<long>> &&
              !std::is_convertible_v<result<int>, result<void>>);
static_assert(!std::is_convertible_v<result<int>, bool> && std::is_constructible_v<bool, result<int>>);
static_assert(std::is_same_v<decltype(*std::declval<result<std::string>>()), std::string>);

/// One that counts its lives, and whose constructor throws when it is told to.
struct counted {
    static inline int  alive  = 0;
    static inline bool throws = false;

    explicit counted(int v) : value(v) { begin(); }
    counted(counted const& other) : value(other.value) { begin(); }
    counted& operator=(counted const&) = default;
    ~counted() { --alive; }

    int value;

private:
    static void begin() {
        if (throws) throw 7;
        ++alive;
    }
};

result<int> half(int n) {
    if (n % 2 != 0) return errc::out_of_range;
    return n / 2;
}

}  // namespace

TEST_CASE("a result is made of a value or of an error, and says which") {
    result<int> const value = half(4);
    CHECK(value.has_value());
    CHECK_FALSE(value.has_error());
    CHECK(value);
    CHECK(*value == 2);
    CHECK(value.value() == 2);
    CHECK_FALSE(value.error());
    CHECK(value == 2);

    result<int> const error = half(3);
    CHECK(error.has_error());
    CHECK_FALSE(error);
    CHECK(error.error() == errc::out_of_range);
    CHECK(error == errc::out_of_range);
    CHECK(error != value);
    CHECK(error.value_or(9) == 9);
    CHECK(value.value_or(9) == 2);
    CHECK(error.error_or(make_error_code(errc::expired)) == errc::out_of_range);
    CHECK(value.error_or(make_error_code(errc::expired)) == errc::expired);

    CHECK(result<std::string>(std::size_t{3}, 'x').value() == "xxx");
    CHECK(result<std::string>("text")->size() == 4);
    CHECK(result<std::string>().value().empty());
    CHECK(result<int>(unexpected(errc::expired)).error() == errc::expired);
    CHECK(result<void>());
    CHECK(result<void>(errc::expired).error() == errc::expired);
    CHECK(result<void>(std::error_code()).has_error());  // what was called an error is one
}

TEST_CASE("a result of a bool is its own value, whatever it is made of") {
    result<bool> no(false);
    result<bool> copy(no);
    CHECK(copy.has_value());
    CHECK_FALSE(*copy);
    CHECK(result<bool>(half(3).has_value()) == false);
}

TEST_CASE("value() of an error throws it, with its own message") {
    result<std::string> r = errc::stale_handle;
    check_throws(errc::stale_handle, {}, [&] { static_cast<void>(r.value()); });
    check_throws(errc::stale_handle, {}, [&] { static_cast<void>(std::as_const(r).value()); });
    check_throws(errc::stale_handle, {}, [&] { static_cast<void>(std::move(r).value()); });
    check_throws(errc::expired, {}, [] { result<void>(errc::expired).value(); });
    try {
        r.value();
        FAIL("it did not throw");
    } catch (std::system_error const& e) {
        CHECK(e.what() == make_error_code(errc::stale_handle).message());
    }
}

TEST_CASE("what is taken out of a temporary is a value, which a loop can go through") {
    auto const  words = [] { return result<std::list<std::string>>(std::list<std::string>{"a", "b"}); };
    std::string all;
    for (auto const& w : *words()) all += w;
    for (auto const& w : words().value()) all += w;
    CHECK(all == "abab");
    auto made = [] { return result<std::unique_ptr<int>>(std::make_unique<int>(3)); };
    CHECK(*made().value() == 3);
    std::unique_ptr<int> const taken = *made();
    CHECK(*taken == 3);
}

TEST_CASE("results are copied, moved and assigned with what they hold, and end it once") {
    counted::alive = 0;
    {
        result<counted> a(counted(1)), b(errc::expired), c(a), d(b);
        CHECK(counted::alive == 2);
        c = a;
        CHECK(c->value == 1);
        d = a;
        CHECK(d->value == 1);
        CHECK(counted::alive == 3);
        a = b;
        CHECK(a.error() == errc::expired);
        CHECK(counted::alive == 2);
        a = std::move(d);
        CHECK(a->value == 1);
        b = errc::cancelled;
        CHECK(b.error() == errc::cancelled);
        b.emplace(5);
        CHECK(b->value == 5);
        auto& same = b;
        b          = same;
        CHECK(b->value == 5);
    }
    CHECK(counted::alive == 0);
}

TEST_CASE("a constructor that throws leaves the error as it was") {
    counted::alive = 0;
    {
        result<counted> const from(counted(1));
        result<counted>       into(errc::expired);
        counted::throws = true;
        CHECK_THROWS_AS(into = from, int);
        CHECK_THROWS_AS(into.emplace(2), int);
        counted::throws = false;
        CHECK(into.error() == errc::expired);
        into.emplace(3);
        counted::throws = true;
        CHECK_THROWS_AS(into.emplace(4), int);
        counted::throws = false;
        CHECK(into.has_error());
    }
    CHECK(counted::alive == 0);
}

TEST_CASE("what follows a value is not called for an error, and the other way round") {
    auto const text  = [](int n) { return std::to_string(n); };
    auto const seven = [](std::error_code) { return result<int>(7); };
    auto const said  = [](std::error_code e) { return e.message(); };

    CHECK(half(8).and_then(half).and_then(half) == 1);
    CHECK(half(6).and_then(half) == errc::out_of_range);
    CHECK(half(8).transform(text) == std::string("4"));
    CHECK(half(7).transform(text).error() == errc::out_of_range);
    CHECK(half(8).or_else(seven) == 4);
    CHECK(half(7).or_else(seven) == 7);
    CHECK(half(8).transform_error(said) == 4);
    CHECK(half(7).transform_error(said).error() == make_error_code(errc::out_of_range).message());

    int                calls = 0;
    result<void> const done  = half(8).transform([&](int) { ++calls; });
    CHECK(done);
    CHECK(done.transform([&] { return ++calls; }) == 2);
    CHECK_FALSE(result<void>(errc::expired).transform([&] { return ++calls; }));
    CHECK(done.and_then([] { return result<int>(errc::expired); }).error() == errc::expired);
    CHECK(result<void>(errc::expired).or_else([](std::error_code) { return result<void>(); }));
    CHECK(calls == 2);

    result<std::unique_ptr<int>> owner = std::make_unique<int>(5);
    CHECK(std::move(owner).transform([](std::unique_ptr<int> p) { return *p; }) == 5);
    result<int> changed(1);
    static_cast<void>(changed.transform([](int& n) { return ++n; }));
    CHECK(changed == 2);
}

#ifdef __cpp_lib_expected
TEST_CASE("results become std::expected and come back") {
    std::expected<int, std::error_code> const there = half(8);
    CHECK(there == 4);
    result<int> const back = there;
    CHECK(back == 4);
    result<void> const error = std::unexpected(make_error_code(errc::expired));
    CHECK(std::expected<void, std::error_code>(error).error() == errc::expired);
    result<std::unique_ptr<int>> const moved =
        std::expected<std::unique_ptr<int>, std::error_code>(std::make_unique<int>(3));
    CHECK(**moved == 3);
}
#endif
