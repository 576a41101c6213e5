// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Any T.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "journal.hpp"

namespace {

using tenure::batch_scope;
using tenure::handle;
using tenure::registry;

class later;  // defined at the end of this file

/// Holds, copies and passes on a handle to what it knows nothing of.
struct holder {
    handle<later> what;

    bool alive() const { return what.alive(); }
};
handle<later> make_later(batch_scope& b, journal& j);
int           number_of(later const& l);

bool aligned(void const* p, std::size_t alignment) { return reinterpret_cast<std::uintptr_t>(p) % alignment == 0; }

template <std::size_t Alignment, bool Ends>
struct over_aligned;

template <std::size_t Alignment>
struct alignas(Alignment) over_aligned<Alignment, false> {
    explicit over_aligned(journal&) {}
    char first = 'a';
};

template <std::size_t Alignment>
struct alignas(Alignment) over_aligned<Alignment, true> {
    explicit over_aligned(journal& j) : log(j) { ++log.alive; }
    over_aligned(over_aligned const&)            = delete;
    over_aligned& operator=(over_aligned const&) = delete;
    ~over_aligned() { --log.alive; }
    char     first = 'a';
    journal& log;
};

template <class T>
void check_over_aligned() {
    journal     log;
    batch_scope outer;
    handle<T>   kept;
    {
        batch_scope b;
        for (int i = 0; i < 5; ++i) {
            b.make<char>('x');  // what is in front is not aligned
            handle<T> const h = b.make<T>(log);
            CAPTURE(alignof(T));
            CHECK(aligned(h.get(), alignof(T)));
            CHECK(h->first == 'a');
            if (i == 2) kept = b.keep(h);
            if (i == 3) b.free(h);
        }
    }
    CHECK(aligned(kept.get(), alignof(T)));
    CHECK(kept->first == 'a');
    if constexpr (!std::is_trivially_destructible_v<T>) CHECK(log.alive == 1);
    outer.end();
    CHECK(log.alive == 0);
}

template <std::size_t... Alignment>
void check_alignments(std::index_sequence<Alignment...>) {
    (check_over_aligned<over_aligned<Alignment, false>>(), ...);
    (check_over_aligned<over_aligned<Alignment, true>>(), ...);
}

/// Throws from its nth constructor.
class fragile {
public:
    explicit fragile(journal& j) : log_(j) {
        if (log_.alive == 7) throw std::runtime_error("the eighth");
        ++log_.alive;
    }
    fragile() : fragile(*shared) {}
    fragile(fragile const&)            = delete;
    fragile& operator=(fragile const&) = delete;
    ~fragile() { --log_.alive; }

    static inline journal* shared = nullptr;

private:
    journal& log_;
    char     bytes_[200]{};
};

struct first_base {
    virtual ~first_base() = default;
    std::array<char, 3000> first{};
};
struct second_base {
    virtual ~second_base() = default;
    int second             = 2;
};
struct third_base {  // neither virtual nor polymorphic
    int third = 3;
};
struct derived : first_base, second_base, third_base {
    derived(journal& j, int number) : own(j, number) {}
    traced own;
};
struct huge_derived : derived {
    using derived::derived;
    std::array<char, 200'000> between{};
};
struct last_base {
    int last = 4;
};
struct far_derived : huge_derived, last_base {  // its last base is in another unit than its begin
    using huge_derived::huge_derived;
};
struct virtual_derived : virtual second_base, virtual third_base {
    virtual_derived(journal& j, int number) : own(j, number) {}
    traced own;
};
struct over_aligned_derived : second_base, third_base {  // how far it is from its entry depends on where it lies
    over_aligned_derived(journal& j, int number) : own(j, number) {}
    alignas(128) traced own;
};
struct low {
    int low = 5;
};
struct high {
    int high = 6;
};
struct middle : low, high {};  // `high` begins within the first 8 bytes
struct top : third_base, middle {
    double last = 7;
};

/// Makes Derived objects, some kept and some freed through Base.
template <class Derived, class Base>
void check_through_base() {
    journal     log;
    batch_scope outer;
    {
        batch_scope               inner;
        std::vector<handle<Base>> kept;
        std::vector<handle<Base>> freed;
        for (int i = 0; i < 60; ++i) {  // so that some lie across the boundary of a unit
            handle<Base> const h = inner.make<Derived>(log, i);
            CHECK(h.owner() == inner.id());
            (i % 3 == 0 ? kept : freed).push_back(h);
        }
        inner.keep(kept);
        for (auto const& h : kept) CHECK(h.owner() == outer.id());
        for (std::size_t i = 0; i < freed.size(); i += 2) inner.free(freed[i]);
        for (std::size_t i = 0; i < freed.size(); ++i) CHECK(freed[i].alive() == (i % 2 == 1));
        CHECK(log.alive == 40);
        auto const report = inner.end();
        CHECK(report.kept == 20);
        CHECK(report.freed == 40);
        for (auto const& h : freed) CHECK_FALSE(h.alive());
        CHECK(log.alive == 20);
        for (auto const& h : kept) CHECK(h.alive());
        registry::global().free(std::vector(kept.begin(), kept.begin() + 5));
        CHECK(log.alive == 15);
        auto const other = registry::global().new_batch();
        registry::global().transfer_ownership(kept.back(), other);
        CHECK(kept.back().owner() == other);
        registry::global().end_batch(other);
        CHECK(log.alive == 14);
    }
    outer.end();
    CHECK(log.alive == 0);
    CHECK(log.ended.size() == 60);
    CHECK(std::set(log.ended.begin(), log.ended.end()).size() == 60);  // each once
}

}  // namespace

TEST_SUITE("any type") {
    TEST_CASE_FIXTURE(accounting, "over-aligned, up to a page") {
        check_alignments(std::index_sequence<8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096>{});
    }

    TEST_CASE_FIXTURE(accounting, "over-aligned, beyond a slab") {
        check_alignments(std::index_sequence<8192, 32'768, 65'536, 131'072>{});
    }

    TEST_CASE_FIXTURE(accounting, "over-aligned, as a huge page") {
        check_alignments(std::index_sequence<2u << 20>{});
    }

    TEST_CASE_FIXTURE(accounting, "arrays of over-aligned elements") {
        batch_scope b;
        struct alignas(256) element {
            char byte = 'e';
        };
        for (std::size_t const n : {0u, 1u, 3u, 1000u}) {
            b.make<char>();
            auto const a = b.make<element[]>(n);
            CHECK(aligned(a.get(), 256));
            for (element const& e : a.span()) CHECK(e.byte == 'e');
        }
    }

    TEST_CASE_FIXTURE(accounting, "every size about that of a slab, and beyond") {
        batch_scope outer;
        batch_scope b;
        std::size_t held = 0, kept = 0;
        for (std::size_t const size : {8184u, 8185u, 32'768u, 65'000u, 65'512u, 65'528u, 65'529u, 65'536u, 65'537u,
                                       131'072u, 1'000'000u, 20'000'000u}) {
            auto const a = b.make<std::byte[]>(size);
            a[0] = a[size - 1] = std::byte{1};
            auto const k       = b.make<std::byte[]>(size);
            k[0] = k[size - 1] = std::byte{2};
            CHECK(b.usage().bytes >= held + 2 * size);
            b.keep(k);
            CHECK(k.owner() == outer.id());
            CHECK(outer.usage().bytes >= (kept += size));
            if (size % 2) b.free(a);
            else held += size;
            CHECK(a.alive() == (size % 2 == 0));
            CHECK(k[size - 1] == std::byte{2});
        }
    }

    TEST_CASE_FIXTURE(accounting, "larger than a slab, with a destructor") {
        struct large {
            large(journal& j, int n) : last(j, n) {}
            std::array<char, 300'000> bytes{};
            traced                    last;
        };
        journal     log;
        batch_scope outer;
        {
            batch_scope b;
            b.make<large>(log, 1);
            auto const kept  = b.keep(b.make<large>(log, 2));
            auto const freed = b.make<large>(log, 3);
            b.free(freed);
            CHECK(log.ended == std::vector{3});
            CHECK(kept->last.number() == 2);
        }
        CHECK(log.ended == std::vector{3, 1});
        outer.end();
        CHECK(log.ended == std::vector{3, 1, 2});
    }

    TEST_CASE_FIXTURE(accounting, "neither copyable nor movable") {
        batch_scope            outer;
        batch_scope            b;
        auto const             m = b.make<std::mutex>();
        auto const             a = b.make<std::atomic<int>>(3);
        auto const             l = b.make<std::mutex[]>(4);
        std::scoped_lock const both(*m, l[3]);
        b.keep(a);
        CHECK(a->fetch_add(1) == 3);
    }

    TEST_CASE_FIXTURE(accounting, "const") {
        batch_scope                     b;
        handle<int const> const         n = b.make<int const>(3);
        handle<std::string const> const s = b.make<std::string const>("text");
        handle<int const[]> const       a = b.make<int const[]>(3);
        static_assert(std::is_same_v<decltype(*s), std::string const&>);
        CHECK(*n == 3);
        CHECK(*s == "text");
        CHECK(a[2] == 0);
        b.free(s);
        CHECK_FALSE(s.alive());
    }

    TEST_CASE_FIXTURE(accounting, "aggregates, enumerations, pointers, functions, variants") {
        struct point {
            int x, y;
        };
        enum class color { red, green };
        batch_scope b;
        CHECK(b.make<point>(1, 2)->y == 2);
        CHECK(b.make<point>()->x == 0);
        CHECK(*b.make<color>(color::green) == color::green);
        int value = 5;
        CHECK(**b.make<int*>(&value) == 5);
        CHECK(*b.make<void*>(nullptr) == nullptr);
        CHECK((*b.make<std::function<int()>>([&] { return value; }))() == 5);
        CHECK((*b.make<int (*)()>([] { return 6; }))() == 6);
        using either = std::variant<int, std::string>;
        CHECK(std::get<std::string>(*b.make<either>("text")) == "text");
        CHECK(b.make<std::vector<handle<point>>>(3u, b.make<point>(3, 4))->back()->y == 4);
    }

    TEST_CASE_FIXTURE(accounting, "with operators of its own for new and &") {
        struct odd {
            static void* operator new(std::size_t)        = delete;
            static void* operator new(std::size_t, void*) = delete;
            odd*         operator&() { return nullptr; }
            odd()                      = default;
            odd(odd const&)            = delete;
            odd& operator=(odd const&) = delete;
            ~odd() { text.clear(); }
            std::string text = "odd";
        };
        batch_scope b;
        CHECK(b.make<odd>()->text == "odd");
        CHECK(b.make<odd[]>(3)[2].text == "odd");
    }

    TEST_CASE_FIXTURE(accounting, "empty") {
        struct nothing {};
        struct ends {
            explicit ends(int& n) { ++n; }
            ends() = default;
        };
        static_assert(std::is_empty_v<nothing> && std::is_empty_v<ends>);
        batch_scope           b;
        std::set<void const*> places;
        for (int i = 0; i < 100; ++i) places.insert(b.make<nothing>().get());
        CHECK(places.size() == 100);  // as objects have addresses of their own
        auto const h = b.make<nothing>(), g = b.make<nothing>();
        b.free(h);
        CHECK_FALSE(h.alive());
        CHECK(g.alive());
        CHECK(b.usage().objects == 101);
        int made = 0;
        b.make<ends>(made);
        CHECK(made == 1);
        CHECK(b.make<nothing[]>(1000).size() == 1000);
    }

    TEST_CASE_FIXTURE(accounting, "arrays of length zero") {
        batch_scope outer;
        batch_scope b;
        auto const  plain = b.make<int[]>(0), next = b.make<int[]>(0);
        auto const  ends = b.make<std::string[]>(0);
        CHECK(plain.alive());
        CHECK(plain.size() == 0);
        CHECK(plain.span().empty());
        CHECK(plain != next);
        CHECK(ends.span().empty());
        CHECK_THROWS_AS((void)plain[0], tenure::error);
        b.keep(plain, ends);
        b.free(next);
        CHECK_FALSE(next.alive());
        b.end();
        CHECK(plain.alive());
        CHECK(ends.owner() == outer.id());
    }

    TEST_CASE_FIXTURE(accounting, "arrays of what has a destructor: last element first") {
        static journal log;
        log = {};
        struct element {
            element() : number(log.alive++) {}
            element(element const&)            = delete;
            element& operator=(element const&) = delete;
            ~element() {
                --log.alive;
                log.ended.push_back(number);
            }
            int number;
        };
        batch_scope outer;
        {
            batch_scope b;
            b.make<element[]>(3);
            b.keep(b.make<element[]>(2));
            auto const large = b.make<element[]>(50'000);
            CHECK(log.alive == 50'005);
            b.free(large);
            CHECK(log.alive == 5);
            log.ended.clear();
        }
        CHECK(log.ended == std::vector{2, 1, 0});
        log.ended.clear();
        outer.end();
        CHECK(log.ended == std::vector{4, 3});
    }

    TEST_CASE_FIXTURE(accounting, "a length that no memory has is refused") {
        batch_scope b;
        for (std::size_t const n :
             {std::size_t{1} << 44, std::size_t{1} << 50, ~std::size_t{0} / 8, ~std::size_t{0}}) {
            CAPTURE(n);
            CHECK(b.try_make<double[]>(n).error() == tenure::errc::memory_full);
            CHECK(b.try_make<std::string[]>(n).error() == tenure::errc::memory_full);
        }
        CHECK_THROWS_AS(b.make<char[]>(~std::size_t{0}), tenure::error);
        CHECK_THROWS_AS((void)b.resource()->allocate(~std::size_t{0} - 5), tenure::error);
        CHECK(b.usage().objects == 0);
        CHECK(b.make<char[]>(3).alive());
    }

    TEST_CASE_FIXTURE(accounting, "whose constructor throws: nothing is registered") {
        journal     log;
        batch_scope b;
        for (int i = 0; i < 7; ++i) b.make<fragile>(log);
        std::size_t const bytes = b.usage().bytes;
        for (int i = 0; i < 1000; ++i) CHECK_THROWS_WITH(b.make<fragile>(log), "the eighth");
        CHECK(b.usage().objects == 7);
        CHECK(b.usage().bytes == bytes);
        CHECK_THROWS_WITH((void)b.try_make<fragile>(log), "the eighth");  // not tenure's own
        b.end();
        CHECK(log.alive == 0);
    }

    TEST_CASE_FIXTURE(accounting, "whose constructor throws in the middle of an array") {
        journal log;
        fragile::shared = &log;
        batch_scope b;
        CHECK_THROWS_WITH(b.make<fragile[]>(8), "the eighth");
        CHECK(log.alive == 0);
        CHECK_THROWS_WITH(b.make<fragile[]>(1'000'000), "the eighth");
        CHECK(log.alive == 0);
        CHECK(b.usage().objects == 0);
        CHECK(b.usage().bytes == 0);
        CHECK(b.make<fragile[]>(7).size() == 7);
    }

    TEST_CASE_FIXTURE(accounting, "whose constructor makes others, and then throws") {
        struct nested {
            nested(batch_scope& b, journal& j, int others, std::size_t bytes) {
                for (int i = 0; i < others; ++i) b.make<traced>(j, i);
                b.make<char[]>(bytes);
                throw std::runtime_error("late");
            }
            char pad[100];
        };
        struct large_nested : nested {
            using nested::nested;
            std::array<char, 100'000> more;
        };
        for (int const others : {0, 1, 3000}) {  // 3000: into further runs
            for (std::size_t const bytes : {8u, 200'000u}) {
                journal     log;
                batch_scope b;
                CHECK_THROWS_WITH(b.make<nested>(b, log, others, bytes), "late");
                CHECK(b.usage().objects == static_cast<std::size_t>(others) + 1);
                CHECK_THROWS_WITH(b.make<large_nested>(b, log, others, bytes), "late");
                CHECK(b.usage().objects == 2 * static_cast<std::size_t>(others) + 2);
                CHECK(log.alive == 2 * others);  // they have handles of their own, and stay
                auto const report = b.end();
                CHECK(report.freed == 2 * static_cast<std::size_t>(others) + 2);
                CHECK(log.alive == 0);
            }
        }
    }

    TEST_CASE_FIXTURE(accounting, "incomplete where its handle is used") {
        journal     log;
        batch_scope outer;
        holder      h;
        CHECK_FALSE(h.alive());
        {
            batch_scope b;
            h.what            = make_later(b, log);
            holder const copy = h;
            CHECK(copy.alive());
            CHECK(copy.what == h.what);
            CHECK(copy.what.owner() == b.id());
            b.keep(h.what);
        }
        CHECK(number_of(*h.what) == 11);
        outer.free(h.what);
        CHECK_FALSE(h.alive());
        CHECK(log.ended == std::vector{11});
    }
}

TEST_SUITE("polymorphic") {
    TEST_CASE_FIXTURE(accounting, "handle<Derived> to handle<Base>: the same object") {
        journal             log;
        batch_scope         b;
        auto const          d      = b.make<derived>(log, 1);
        handle<first_base>  first  = d;
        handle<second_base> second = d;
        handle<third_base>  third  = d;
        CHECK(first.get() == d.get());
        CHECK(second.get() == d.get());
        CHECK(static_cast<void*>(second.get()) != static_cast<void*>(d.get()));
        CHECK(second->second == 2);
        CHECK(third->third == 3);
        CHECK(dynamic_cast<derived*>(second.get()) == d.get());
        b.free(third);
        CHECK_FALSE(d.alive());
        CHECK_FALSE(first.alive());
        CHECK_FALSE(second.alive());
        CHECK(log.ended == std::vector{1});
    }

    TEST_CASE_FIXTURE(accounting, "keep, free and transfer through a first base") {
        check_through_base<derived, first_base>();
        check_through_base<derived, derived const>();
    }
    TEST_CASE_FIXTURE(accounting, "... a second one, which is elsewhere in the object") {
        check_through_base<derived, second_base>();
    }
    TEST_CASE_FIXTURE(accounting, "... one that is not polymorphic") { check_through_base<derived, third_base>(); }
    TEST_CASE_FIXTURE(accounting, "... a virtual one") {
        check_through_base<virtual_derived, second_base>();
        check_through_base<virtual_derived, third_base>();
    }
    TEST_CASE_FIXTURE(accounting, "... one of an object larger than a slab") {
        check_through_base<huge_derived, second_base>();
        check_through_base<far_derived, last_base>();
    }

    TEST_CASE_FIXTURE(accounting, "... one of an object with an alignment of its own") {
        check_through_base<over_aligned_derived, second_base>();
        check_through_base<over_aligned_derived, third_base>();
    }
    TEST_CASE_FIXTURE(accounting, "... one that does not begin at a multiple of 8 bytes") {
        batch_scope outer;
        batch_scope inner;
        for (int i = 0; i < 20; ++i) {  // wherever it lies between the boundaries of lines
            auto const         h       = inner.make<top>();
            handle<high> const direct  = h;
            handle<high> const by_step = handle<middle>(h);
            CHECK(direct == by_step);
            CHECK(direct->high == 6);
            if (i % 2) inner.free(direct);
            else inner.keep(by_step);
            CHECK(h.alive() == (i % 2 == 0));
        }
        auto const report = inner.end();
        CHECK(report.kept == 10);
        CHECK(report.freed == 10);
        CHECK(outer.usage().objects == 10);
        CHECK(outer.usage().bytes == 10 * 24);
    }

    TEST_CASE_FIXTURE(accounting, "adopted, and then through a base") {
        journal     log;
        batch_scope outer;
        {
            batch_scope         b;
            handle<second_base> kept  = b.adopt(std::make_unique<derived>(log, 1));
            handle<third_base>  freed = b.adopt(std::make_unique<derived>(log, 2));
            b.adopt(std::make_unique<derived>(log, 3));
            b.keep(kept);
            CHECK(kept.owner() == outer.id());
            b.free(freed);
            CHECK(log.ended == std::vector{2});
            CHECK_FALSE(freed.alive());
        }
        CHECK(log.ended == std::vector{2, 3});
        outer.end();
        CHECK(log.ended == std::vector{2, 3, 1});
    }
}

namespace {

class later {
public:
    explicit later(journal& j) : own_(j, 11) {}
    int number() const { return own_.number(); }

private:
    traced own_;
};
handle<later> make_later(batch_scope& b, journal& j) { return b.make<later>(j); }
int           number_of(later const& l) { return l.number(); }

}  // namespace
