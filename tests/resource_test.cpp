// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// resource() and what was made with it belong to one batch: neither leaves it, and neither gets at another one's
// memory.

#include <cstddef>
#include <future>
#include <list>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "throws.hpp"

namespace {

using namespace tenure;

constexpr char const* text = "a text that is too long for a string's own few bytes";

/// Takes memory by its first argument, and has no get_allocator() to be asked.
struct document {
    document(std::pmr::memory_resource* memory, std::size_t n) : words(n, text, memory) {}
    std::pmr::vector<std::pmr::string> words;
};
struct with_allocator {
    using allocator_type = std::pmr::polymorphic_allocator<>;
    explicit with_allocator(allocator_type const& memory) : words(100, text, memory) {}
    std::pmr::vector<std::pmr::string> words;
};
struct titled : std::pmr::string {
    using std::pmr::string::string;
};

/// Takes an allocator behind std::allocator_arg; counts what ends.
struct first_allocator {
    using allocator_type = std::pmr::polymorphic_allocator<>;
    first_allocator(std::allocator_arg_t, allocator_type const& memory, int times, int& end)
        : words(static_cast<std::size_t>(times), text, memory), ends(&end) {}
    ~first_allocator() { ++*ends; }
    first_allocator(first_allocator const&)            = delete;
    first_allocator& operator=(first_allocator const&) = delete;

    allocator_type                     get_allocator() const { return words.get_allocator(); }
    std::pmr::vector<std::pmr::string> words;
    int*                               ends;
};
/// Says that it takes an allocator, and has no constructor for one.
struct no_constructor {
    using allocator_type = std::pmr::polymorphic_allocator<>;
    explicit no_constructor(int n) : words(static_cast<std::size_t>(n), text) {}
    std::pmr::vector<std::pmr::string> words;
};

/// Counts what is out.
class counting_resource final : public std::pmr::memory_resource {
public:
    std::size_t pieces = 0;

private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        ++pieces;
        return std::pmr::new_delete_resource()->allocate(bytes, alignment);
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override {
        --pieces;
        std::pmr::new_delete_resource()->deallocate(p, bytes, alignment);
    }
    bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override { return this == &other; }
};

/// The default resource for a while.
struct counted_default {
    counted_default() : before(std::pmr::set_default_resource(&counted)) {}
    ~counted_default() { std::pmr::set_default_resource(before); }
    counted_default(counted_default const&)            = delete;
    counted_default& operator=(counted_default const&) = delete;

    counting_resource          counted;
    std::pmr::memory_resource* before;
};

template <class H>
void check_stays(batch_scope& b, batch_scope& outer, H h) {
    batch_usage const before = b.usage();
    check_throws(errc::not_self_contained, {"'inner'", "resource()", "copy it"}, [&] { b.keep(h); });
    check_throws(errc::not_self_contained, {"'inner'"}, [&] { b.keep(std::vector{h}); });
    check_throws(errc::not_self_contained, {"'inner'"}, [&] { transfer_ownership(h, outer.id()); });
    check_throws(errc::not_self_contained, {"'inner'"}, [&] { b.share(h, outer.id()); });
    CHECK(b.try_keep(h).error() == errc::not_self_contained);
    CHECK(b.usage() == before);
    CHECK(h.owner() == b.id());
    CHECK(h.alive());
}

}  // namespace

TEST_SUITE("what was made with its batch's own resource()") {
    TEST_CASE_FIXTURE(accounting, "is not kept, transferred or shared, whatever it is") {
        batch_scope outer;
        batch_scope b{{.name = "inner"}};
        auto* const memory = b.resource();
        SUBCASE("a container") { check_stays(b, outer, b.make<std::pmr::string>(text, memory)); }
        SUBCASE("one by an allocator") {
            check_stays(
                b, outer,
                b.make<std::pmr::vector<int>>(std::size_t{100}, 1, std::pmr::polymorphic_allocator<int>(memory)));
        }
        SUBCASE("one of something with a destructor") {
            check_stays(b, outer, b.make<std::pmr::vector<std::string>>(std::size_t{10}, text, memory));
        }
        SUBCASE("one that was moved into it") {
            std::pmr::vector<int> local(100, 1, memory);
            check_stays(b, outer, b.make<std::pmr::vector<int>>(std::move(local)));
        }
        SUBCASE("by a lane's") {
            auto const l = std::make_unique<lane>(b.lane());
            check_stays(b, outer, b.make<std::pmr::string>(text, l->resource()));
        }
        SUBCASE("a type that takes memory") { check_stays(b, outer, b.make<document>(memory, std::size_t{10})); }
        SUBCASE("a type that takes an allocator") { check_stays(b, outer, b.make<with_allocator>(memory)); }
        SUBCASE("through a base") { check_stays(b, outer, handle<std::pmr::string>(b.make<titled>(text, memory))); }
        SUBCASE("in a list: then nothing of it is") {
            auto const plain = b.make<int>(1);
            auto const bound = b.make<std::pmr::string>(text, memory);
            CHECK(b.try_keep(plain, bound).error() == errc::not_self_contained);
            CHECK(plain.owner() == b.id());
        }
    }

    TEST_CASE_FIXTURE(accounting, "is not returned from with_batch") {
        batch_scope outer;
        auto const  numbers = [](std::pmr::memory_resource* from) { return std::pmr::vector<int>(100, 7, from); };
        check_throws(errc::not_self_contained, {"'inner'", "resource()"}, [&] {
            static_cast<void>(with_batch({.name = "inner"}, [&](batch_scope& b) { return numbers(b.resource()); }));
        });
        CHECK(with_batch([&](batch_scope&) { return numbers(outer.resource()); }).back() == 7);
    }

    TEST_CASE_FIXTURE(accounting, "is known by what it was made from, before that is moved from") {
        struct source {
            std::unique_ptr<std::pmr::memory_resource*> memory;
            std::pmr::memory_resource*                  resource() const noexcept { return *memory; }
        };
        struct taking {
            explicit taking(source&& s) : from(std::move(s)) {}
            source from;
        };
        batch_scope outer;
        batch_scope b(batch_options{.name = "inner"});
        check_stays(b, outer, b.make<taking>(source{std::make_unique<std::pmr::memory_resource*>(b.resource())}));
        b.keep(
            b.make<taking>(source{std::make_unique<std::pmr::memory_resource*>(std::pmr::new_delete_resource())}));
    }

    TEST_CASE_FIXTURE(accounting, "is an object like others in its batch") {
        batch_scope b;
        auto const  s = b.make<std::pmr::string>(text, b.resource());
        auto const  d = b.make<document>(b.resource(), std::size_t{100});
        CHECK(b.usage().objects == 2);
        {
            batch_scope user;
            user.borrow(s);
            CHECK(*pin(d)->words.begin() == text);
            CHECK(b.try_free(s).error() == errc::object_pinned);
        }
        b.free(s);
        b.free(d);
        CHECK_FALSE(s.alive());
        CHECK_FALSE(d.alive());
        CHECK(b.usage().objects == 0);
        for (int i = 0; i < 1000; ++i) {
            auto const x = b.make<std::pmr::string>(text, b.resource());
            auto const y = b.make<int>(i);
            CHECK(*x == text);
            CHECK(*y == i);
            if (i % 3 == 0) b.free(x);
        }
    }

    TEST_CASE_FIXTURE(accounting, "gives a piece out again at once, but not if another thread gave it back") {
        batch_scope b;
        auto* const from  = b.resource();
        void* const first = from->allocate(64);
        from->deallocate(first, 64);
        CHECK(from->allocate(64) == first);
        std::thread([&] { from->deallocate(first, 64); }).join();  // while this one might be allocating
        CHECK(from->allocate(64) != first);
    }
}

TEST_SUITE("what is kept") {
    TEST_CASE_FIXTURE(accounting, "has the memory of the batch that it is kept in") {
        batch_scope              outer;
        handle<std::pmr::string> s;
        handle<document>         d;
        handle<std::pmr::string> copy;
        {
            batch_scope b;
            s = b.keep(b.make<std::pmr::string>(text, outer.resource()));
            d = b.keep(b.make<document>(outer.resource(), std::size_t{20}));
            copy =
                b.keep(b.make<std::pmr::string>(*b.make<std::pmr::string>(text, b.resource()), outer.resource()));
        }
        {
            batch_scope other;
            other.make<char[]>(50'000);
        }
        CHECK(*s == text);
        CHECK(d->words.back() == text);
        CHECK(*copy == text);
    }
}

TEST_SUITE("a resource that outlives its batch") {
    TEST_CASE_FIXTURE(accounting, "says so, and takes no memory of a stranger with the same record") {
        std::pmr::memory_resource* old = nullptr;
        {
            batch_scope b;
            old = b.resource();
            CHECK(old == b.resource());
            CHECK(old->is_equal(*b.resource()));
        }
        check_throws(errc::batch_ended, {"resource() of batch #"}, [&] { (void)old->allocate(8); });
        for (int i = 0; i < 5000; ++i) {
            batch_scope stranger;
            REQUIRE(stranger.resource() != old);
            auto const        x      = stranger.make<int>(1);
            batch_usage const before = stranger.usage();
            for (std::size_t const n : {std::size_t{8}, std::size_t{1'000'000}})
                check_throws(errc::batch_ended, {}, [&] { (void)old->allocate(n); });
            old->deallocate(x.get(), 4);
            old->deallocate(x.get(), 1'000'000);
            REQUIRE(stranger.usage() == before);
            CHECK(*x == 1);
        }
    }

    TEST_CASE_FIXTURE(accounting, "and containers that do, by chance in the same place") {
        batch_scope outer;
        for (int i = 0; i < 100; ++i) {
            std::unique_ptr<std::pmr::vector<int>> left;
            {
                batch_scope b;
                left = std::make_unique<std::pmr::vector<int>>(100, 7, b.resource());
            }
            batch_scope stranger;
            auto const  there = stranger.make<int[]>(100);
            check_throws(errc::batch_ended, {}, [&] { left->resize(10'000); });
            left.reset();
            auto const next = stranger.make<int[]>(100);
            CHECK(next.get() != there.get());
            CHECK(stranger.usage().objects == 2);
        }
    }

    TEST_CASE_FIXTURE(accounting, "a lane's, and one of a batch without a guard") {
        std::pmr::memory_resource *of_lane = nullptr, *of_owner = nullptr;
        {
            batch_scope b;
            lane        l = b.lane();
            of_lane       = l.resource();
            CHECK(of_lane != b.resource());
            (void)of_lane->allocate(100);
        }
        batch_owner owner{batch_options{}};
        {
            auto in  = owner.enter();
            of_owner = in.resource();
        }
        {
            auto in = owner.enter();
            CHECK(in.resource() == of_owner);
            (void)of_owner->allocate(100);
        }
        owner.end();
        batch_scope b;
        lane        l = b.lane();
        for (auto* const old : {of_lane, of_owner}) {
            check_throws(errc::batch_ended, {}, [&] { (void)old->allocate(8); });
            check_throws(errc::batch_ended, {}, [&] { (void)old->allocate(1'000'000); });
        }
        CHECK(l.resource() != of_lane);
    }

    TEST_CASE_FIXTURE(accounting, "is never another batch's, on any thread, and costs no memory for ever") {
        constexpr int                        n = TENURE_SANITIZED ? 20'000 : 400'000;
        std::set<std::pmr::memory_resource*> seen;
        auto const                           run = [&](bool look) {
            for (int i = 0; i < n; ++i) {
                batch_scope b;
                auto* const r = b.resource();
                (void)r->allocate(16);
                if (look && i % 10 == 0) REQUIRE(seen.insert(r).second);
            }
        };
        std::thread other([&] { run(false); });
        run(true);
        other.join();
        for (int i = 0; i < 100; ++i) std::thread([] { (void)batch_scope().resource(); }).join();
        CHECK(seen.size() == n / 10);
    }

    TEST_CASE_FIXTURE(accounting, "cannot be had from a batch that is over") {
        batch_scope b{{.name = "over"}};
        auto* const before = b.resource();
        b.end();
        check_throws(errc::batch_ended, {"'over'"}, [&] { (void)b.resource()->allocate(8); });
        check_throws(errc::batch_ended, {}, [&] { (void)before->allocate(8); });
    }
}

TEST_SUITE("a type that takes a polymorphic_allocator, and is given none") {
    TEST_CASE_FIXTURE(accounting, "is made with its batch's own resource()") {
        counted_default const elsewhere;
        int                   ends = 0;
        {
            batch_scope outer;
            batch_scope b{{.name = "inner"}};
            auto const  v = b.make<std::pmr::vector<int>>(std::size_t{100}, 7);
            CHECK(v->get_allocator().resource() == b.resource());
            CHECK(v->size() == 100);
            check_stays(b, outer, v);

            auto const empty = b.make<std::pmr::string>();
            empty->assign(text);
            check_stays(b, outer, empty);

            auto const nested = b.make<std::pmr::vector<std::pmr::string>>(std::size_t{10}, text);
            CHECK(nested->back().get_allocator().resource() == b.resource());

            auto const with_ends = b.make<first_allocator>(3, ends);
            CHECK(with_ends->get_allocator().resource() == b.resource());
            check_stays(b, outer, with_ends);

            check_stays(b, outer, b.make<with_allocator>());

            handle<std::pmr::string const> const constant = b.make<std::pmr::string const>(text);
            CHECK(constant->get_allocator().resource() == b.resource());

            auto const tried = b.try_make<std::pmr::set<int>>();
            REQUIRE(tried);
            CHECK((*tried)->get_allocator().resource() == b.resource());
            CHECK(make<std::pmr::string>(text)->get_allocator().resource() == b.resource());
            CHECK(elsewhere.counted.pieces == 0);
        }
        CHECK(ends == 1);
    }

    TEST_CASE_FIXTURE(accounting, "and is copied into that; one that is moved keeps its memory") {
        counted_default const elsewhere;
        batch_scope           outer;
        batch_scope           b;
        std::pmr::string      local(text);
        char const* const     at = local.data();
        CHECK(elsewhere.counted.pieces == 1);
        auto const copy  = b.make<std::pmr::string>(local);
        auto const moved = b.make<std::pmr::string>(std::move(local));
        CHECK(*copy == *moved);
        CHECK(copy->get_allocator().resource() == b.resource());
        CHECK(moved->data() == at);
        b.keep(moved);
        std::pmr::list<std::mutex> immovable(2);
        b.make<std::pmr::list<std::mutex>>(std::move(immovable));
        CHECK(elsewhere.counted.pieces == 3);
    }

    // std::uses_allocator is true of these, too.
    TEST_CASE_FIXTURE(accounting, "is not one that has no memory, or shares it") {
        batch_scope      outer;
        std::future<int> answer;
        {
            batch_scope b;
            CHECK(b.keep(b.make<std::tuple<int, std::string>>(1, text)).owner() == outer.id());
            auto const promise = b.make<std::promise<int>>();
            answer             = promise->get_future();
            promise->set_value(42);
        }
        batch_scope const next;
        make<char[]>(10'000);
        CHECK(answer.get() == 42);
    }

    TEST_CASE_FIXTURE(accounting, "keeps what it was told") {
        counted_default const elsewhere;
        counting_resource     mine;
        int                   ends = 0;
        {
            batch_scope outer;
            batch_scope b{{.name = "inner"}};
            CHECK(b.make<std::pmr::string>(text, &mine)->get_allocator().resource() == &mine);
            std::pmr::polymorphic_allocator<int> const of_mine(&mine);
            auto const v = b.make<std::pmr::vector<int>>(std::size_t{3}, 7, of_mine);
            CHECK(v->get_allocator().resource() == &mine);
            auto const f = b.make<first_allocator>(std::allocator_arg, &mine, 3, ends);
            CHECK(f->get_allocator().resource() == &mine);
            b.keep(b.make<std::pmr::string>(text, std::pmr::get_default_resource()));
            CHECK(elsewhere.counted.pieces == 1);
            b.keep(b.make<no_constructor>(1));
        }
        CHECK(ends == 1);
        CHECK(mine.pieces == 0);
        CHECK(elsewhere.counted.pieces == 0);
    }

    TEST_CASE_FIXTURE(accounting, "and can leave as a copy, which has its memory where it is") {
        counted_default const    elsewhere;
        batch_scope              outer;
        handle<std::pmr::string> kept;
        {
            batch_scope b;
            kept = b.keep_copy(b.make<std::pmr::string>(text));
        }
        CHECK(*kept == text);
        CHECK(kept->get_allocator().resource() == outer.resource());
        CHECK(elsewhere.counted.pieces == 0);
    }

    // There the lane may be another thread's the next moment, or the batch may live for years, with what is freed.
    TEST_CASE_FIXTURE(accounting, "takes the default resource where no guard of its thread is open") {
        counted_default const elsewhere;
        auto const            check = [&](auto make_one, auto free_it) {
            auto const h = make_one();
            CHECK(h->get_allocator().resource() == &elsewhere.counted);
            CHECK(elsewhere.counted.pieces == 1);
            free_it(h);
            CHECK(elsewhere.counted.pieces == 0);
        };
        registry          r;
        batch_owner const owner(r, {.name = "cache"});
        SUBCASE("in a root") {
            check([] { return make<std::pmr::string>(text); }, [](auto h) { free(h); });
            int        ends = 0;
            auto const f    = make<first_allocator>(3, ends);
            CHECK(f->get_allocator().resource() == &elsewhere.counted);
            free(f);
            CHECK(ends == 1);
        }
        SUBCASE("where it is entered") {
            auto const inside = owner.enter();
            check([] { return make<std::pmr::string>(text); }, [](auto h) { free(h); });
        }
        SUBCASE("in a lane") {
            batch_scope b;
            lane        l = b.lane();
            check([&] { return l.make<std::pmr::string>(text); }, [&](auto h) { b.free(h); });
        }
        SUBCASE("as an element") {
            batch_scope outer, b;
            auto const  h = b.make<std::pmr::string[]>(3, text);
            CHECK(h[2].get_allocator().resource() == &elsewhere.counted);
            b.keep(h);
        }
    }

    TEST_CASE_FIXTURE(accounting, "is refused where its batch is over") {
        batch_scope b{{.name = "inner"}};
        b.cancel();
        CHECK(b.try_make<std::pmr::string>(text).error() == errc::cancelled);
        check_throws(errc::cancelled, {"'inner'"}, [&] { b.make<std::pmr::string>(text); });
    }
}
