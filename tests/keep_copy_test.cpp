// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// keep_copy and keep_to: what is kept is a copy.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "throws.hpp"

namespace {

using tenure::batch_id;
using tenure::batch_owner;
using tenure::batch_scope;
using tenure::errc;
using tenure::handle;
using tenure::registry;

struct answer {
    std::array<std::uint64_t, 12> words{};
};

/// Counts those that live, and where their copies were made.
struct counted {
    explicit counted(int n) : number(n) { ++alive; }
    counted(counted const& other) : number(other.number), copied_in(tenure::current_batch()) {
        if (throws) throw std::runtime_error("not copied");
        ++alive;
    }
    counted& operator=(counted const&) = delete;
    ~counted() { --alive; }

    int                number;
    batch_id           copied_in{};
    static inline int  alive  = 0;
    static inline bool throws = false;
};

struct base {
    virtual ~base() = default;
    virtual int number() const { return 1; }
};
struct last final : base {
    explicit last(int n) : n_(n) {}
    int number() const override { return n_; }

private:
    int n_;
};

using text = std::pmr::string;

constexpr char const* long_text = "long enough that no string has it in itself, so some resource has";

}  // namespace

TEST_SUITE("keep_copy") {
    TEST_CASE("the copy is the parent's; the object stays with its batch") {
        registry         r;
        accounting const books(r);
        batch_scope      parent(r);
        handle<answer>   object, copy;
        {
            batch_scope child;
            object           = child.make<answer>();
            object->words[3] = 7;
            SUBCASE("of a scope") { copy = child.keep_copy(object); }
            SUBCASE("by the try_ form") { copy = *child.try_keep_copy(object); }
            SUBCASE("of the current batch") { copy = tenure::keep_copy(object); }
            SUBCASE("of that, by the try_ form") { copy = *tenure::try_keep_copy(object); }
            CHECK(copy != object);
            CHECK(copy.owner() == parent.id());
            CHECK(object.owner() == child.id());
            object->words[3] = 8;
            CHECK(tenure::current_batch() == child.id());
        }
        CHECK_FALSE(object.alive());
        CHECK(copy->words[3] == 7);
        CHECK(parent.usage().objects == 1);
        parent.free(copy);
    }

    TEST_CASE("of an array, all elements") {
        registry         r;
        accounting const books(r);
        batch_scope      parent(r);
        for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{1'000}, std::size_t{100'000}}) {
            CAPTURE(n);
            handle<int[]>         numbers;
            handle<int const[]>   the_same;
            handle<std::string[]> texts;
            {
                batch_scope child(r);
                auto const  made = child.make<int[]>(n);
                std::iota(made.span().begin(), made.span().end(), 5);
                numbers        = child.keep_copy(made);
                the_same       = child.keep_copy(handle<int const[]>(made));
                auto const all = child.make<std::string[]>(n % 5'000);
                for (std::string& s : all.span()) s = long_text;
                texts = child.keep_copy(all);
            }
            REQUIRE(numbers.size() == n);
            REQUIRE(the_same.size() == n);
            CHECK(numbers.span().size() == n);
            for (std::size_t i = 0; i < n; i += 1 + n / 9) CHECK(numbers[i] == static_cast<int>(i) + 5);
            for (std::size_t i = 0; i < n; i += 1 + n / 9) CHECK(the_same[i] == static_cast<int>(i) + 5);
            for (std::string const& s : texts.span()) CHECK(s == long_text);
        }
    }

    TEST_CASE("destructors, exceptions: as with make, in the parent") {
        registry         r;
        accounting const books(r);
        batch_scope      parent(r);
        {
            batch_scope child(r);
            auto const  object = child.make<counted>(4);
            counted::throws    = true;
            CHECK_THROWS_WITH(child.keep_copy(object), "not copied");
            CHECK_THROWS_WITH((void)child.try_keep_copy(object), "not copied");  // not tenure's own
            CHECK_THROWS_WITH(tenure::keep_to(parent, object), "not copied");
            counted::throws = false;
            CHECK(tenure::current_batch() == child.id());
            CHECK(parent.usage().objects == 0);
            CHECK(parent.usage().bytes == 0);
            auto const copy = child.keep_copy(object);
            CHECK(copy->copied_in == parent.id());
            CHECK(counted::alive == 2);
            child.end();
            CHECK(counted::alive == 1);
            CHECK(copy->number == 4);
        }
        parent.end();
        CHECK(counted::alive == 0);
    }

    TEST_CASE("whose object it is does not matter") {
        registry         r, other;
        accounting const books(r), others(other);
        batch_scope      stranger(other);
        batch_scope      parent(r);
        auto const       foreign = stranger.make<int>(1);
        auto const       own     = parent.make<int>(2);
        auto const       adopted = parent.adopt(new int(3));
        batch_scope      child(tenure::below{parent});
        CHECK(*child.keep_copy(foreign) == 1);
        CHECK(child.keep_copy(own) != own);
        CHECK(*child.keep_copy(adopted) == 3);
        CHECK(*child.keep_copy(handle<int const>(own)) == 2);
        CHECK(parent.usage().objects == 6);
        CHECK(*tenure::keep_to(stranger, own) == 2);
        CHECK(stranger.usage().objects == 2);
    }

    TEST_CASE("a final class is copied whole") {
        registry     r;
        batch_scope  parent(r);
        handle<last> copy;
        {
            batch_scope child(r);
            copy = child.keep_copy(child.make<last>(5));
        }
        CHECK(handle<base>(copy)->number() == 5);
    }

    TEST_CASE("fails as keep and make do, and then nothing is kept") {
        registry         r;
        accounting const books(r);
        batch_scope      parent(r, {.limits = {.hard = 1000}});
        batch_scope      child;
        handle<int>      stale = child.make<int>();
        child.free(stale);
        check_throws(errc::stale_handle, {"keep() it"}, [&] { child.keep_copy(stale); });
        check_throws(errc::stale_handle, {"null handle"}, [&] { tenure::keep_to(parent, handle<int>()); });
        CHECK(child.try_keep_copy(stale).error() == errc::stale_handle);
        CHECK(child.try_keep_copy(handle<int[]>()).error() == errc::stale_handle);
        CHECK(tenure::try_keep_to(parent.id(), stale).error() == errc::stale_handle);

        auto const half = child.make<std::array<char, 400>>();
        check_throws(errc::limit_exceeded, {"limit 1000"}, [&] {
            for (;;) child.keep_copy(half);
        });
        CHECK(child.try_keep_copy(half).error() == errc::limit_exceeded);

        check_throws(errc::no_such_batch, {"keep a copy"}, [&] { tenure::keep_to(batch_id{}, half); });
        CHECK(tenure::try_keep_to(batch_id{~std::uint64_t{0}}, half).error() == errc::no_such_batch);
        batch_id const over = r.new_batch();
        r.end_batch(over);
        check_throws(errc::batch_ended, {"keep a copy"}, [&] { tenure::keep_to(over, half); });
        batch_id const cancelled = r.new_batch({.timeout = std::chrono::hours(1)});
        r.cancel(cancelled);
        CHECK(tenure::try_keep_to(cancelled, half).error() == errc::cancelled);
        CHECK(half.alive());
        std::pmr::set_default_resource(std::pmr::null_memory_resource());
        auto const heap = child.make<text>(long_text, std::pmr::new_delete_resource());
        CHECK(tenure::try_keep_to(r.root(), heap).error() == errc::memory_full);
        std::pmr::set_default_resource(nullptr);
        child.end();
        CHECK(child.try_keep_copy(stale).error() == errc::batch_ended);
    }

    TEST_CASE("in the root there is nowhere to go; below it there is") {
        registry    r;
        batch_scope child(r);
        auto const  copy = child.keep_copy(child.make<int>(3));
        CHECK(copy.owner() == r.root());
        child.end();
        CHECK(*copy == 3);
        auto const inside = r.enter(r.root());
        CHECK(tenure::try_keep_copy(copy).error() == errc::not_owner);
        r.free(copy);
    }

    TEST_CASE("a container gets the parent's resource, if that serves this thread") {
        registry         r;
        accounting const books(r);
        batch_scope      parent(r);
        batch_owner      cache(r);
        handle<text>     copy, cached;
        {
            batch_scope child;
            auto const  made = child.make<text>(long_text, child.resource());
            CHECK(child.try_keep(made).error() == errc::not_self_contained);
            copy           = child.keep_copy(made);
            cached         = tenure::keep_to(cache, made);
            auto const all = child.make<std::pmr::vector<text>>(child.resource());
            all->emplace_back(long_text);
            CHECK(child.keep_copy(all)->front().get_allocator().resource() == parent.resource());
        }
        CHECK(*copy == long_text);
        CHECK(*cached == long_text);
        CHECK(copy->get_allocator().resource() == parent.resource());
        CHECK(cached->get_allocator().resource() == std::pmr::get_default_resource());
        copy->append(1'000, '.');
        cached->append(1'000, '.');
        std::jthread([&] { cached->append(1'000, '.'); });
        CHECK(r.usage(cache.id()).objects == 1);
    }

    TEST_CASE("to a batch by its id, its scope, its owner; on any thread") {
        registry         r;
        accounting const books(r);
        batch_scope      top(r);
        batch_owner      owned(r);
        batch_id const   id = r.new_batch();
        std::jthread([&] {
            batch_scope request(r);
            auto const  made = request.make<int>(6);
            CHECK(tenure::keep_to(top, made).owner() == top.id());
            CHECK(tenure::keep_to(owned, made).owner() == owned.id());
            CHECK(tenure::keep_to(id, made).owner() == id);
            CHECK(tenure::keep_to(request, made).owner() == request.id());
            CHECK(tenure::keep_to(r.root(), made).owner() == r.root());
            CHECK(tenure::keep_to(registry::global().root(), made).owner() == registry::global().root());
            auto const inside = owned.enter();
            CHECK(**tenure::try_keep_to(owned, made) == 6);
        });
        CHECK(top.usage().objects == 1);
        CHECK(r.usage(owned.id()).objects == 2);
        CHECK(r.usage(id).objects == 1);
        r.end_batch(id);
        batch_scope below_top;
        tenure::keep_to(owned, below_top.make<int>(1));
        CHECK(tenure::current_batch() == below_top.id());
    }

    TEST_CASE("the parent's guard is on another thread, which makes there, too") {
        constexpr int     rounds = TENURE_SANITIZED ? 300 : 3'000;
        registry          r;
        accounting const  books(r);
        batch_scope       parent(r);
        std::atomic<bool> done{false};
        std::atomic<int>  wrong{0};
        {
            std::vector<std::jthread> all;
            for (int t = 0; t < 2; ++t)
                all.emplace_back([&, t] {
                    for (int i = 0; i < rounds; ++i) {
                        batch_scope child(tenure::below{parent});
                        auto const  s    = child.make<std::string>(long_text + std::to_string(i));
                        auto const  n    = child.make<int>(i * 2 + t);
                        auto const  text = child.keep_copy(s);
                        auto const  copy = child.keep_copy(n);
                        child.end();
                        if (*copy != i * 2 + t || *text != long_text + std::to_string(i)) ++wrong;
                    }
                    done = true;
                });
            while (!done) {
                auto const own = parent.make<int>(1);
                if (*own != 1) ++wrong;
                parent.free(own);
            }
        }
        CHECK(wrong == 0);
        CHECK(parent.usage().objects == 4 * rounds);
    }

    TEST_CASE("copies hold their own bytes, however much the requests made") {
        constexpr int               requests = 5'000;
        registry                    r;
        accounting const            books(r);
        batch_owner                 cache(r);
        std::vector<handle<answer>> kept;
        for (std::uint64_t i = 0; i < requests; ++i) {
            batch_scope request(r);
            for (int k = 0; k < 300; ++k) request.make<answer>();
            auto const one = request.make<answer>();
            one->words[0]  = i;
            kept.push_back(tenure::keep_to(cache, one));
        }
        for (std::uint64_t i = 0; i < requests; ++i) CHECK(kept[i]->words[0] == i);
        CHECK(r.usage(cache.id()).retained <= requests * sizeof(answer) * 5 / 4);
        CHECK(r.usage().held <= requests * sizeof(answer) * 5 / 4 + (std::size_t{1} << 20));
    }
}
