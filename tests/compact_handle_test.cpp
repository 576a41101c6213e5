// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "throws.hpp"

namespace {

using tenure::batch_scope;
using tenure::compact_handle;
using tenure::errc;
using tenure::handle;

struct node {
    explicit node(std::uint64_t v, compact_handle<node> n = nullptr) : value(v), next(n) {}  // itself incomplete

    std::uint64_t        value;
    compact_handle<node> next;
};

/// Its edges are in its batch's memory, so it cannot leave that.
struct bound_node {
    explicit bound_node(std::pmr::polymorphic_allocator<> a) : edges(a) {}

    std::pmr::vector<compact_handle<bound_node>> edges;
};

struct animal {
    std::uint64_t legs = 4;
};
struct dog : animal {
    std::uint64_t tails = 1;
};

/// Both say the same of an object, and lead to the same place.
template <class T>
bool agree(handle<T> const& h, compact_handle<T> const& c) {
    if (h.alive() != c.alive() || h.get() != c.get()) return false;
    return !h.alive() || (c.expand() == h && c.owner() == h.owner());
}

}  // namespace

static_assert(sizeof(compact_handle<node>) == 8 && sizeof(node) == 16);
static_assert(std::is_trivially_copyable_v<compact_handle<node>>);
static_assert(std::is_trivially_destructible_v<compact_handle<node>>);
static_assert(std::totally_ordered<compact_handle<node>>);
static_assert(std::is_convertible_v<handle<node>, compact_handle<node>>);
static_assert(std::is_convertible_v<compact_handle<node>, handle<node>>);
static_assert(std::is_convertible_v<compact_handle<node>, compact_handle<node const>>);
static_assert(!std::is_convertible_v<compact_handle<node const>, compact_handle<node>>);
static_assert(!std::is_convertible_v<compact_handle<dog>, compact_handle<animal>>);

TEST_SUITE("compact_handle") {
    TEST_CASE_FIXTURE(accounting, "alive: every access reaches the object, and the handle comes back") {
        batch_scope                       b;
        handle<std::string> const         h = b.make<std::string>("text");
        compact_handle<std::string> const c = h;
        CHECK(c.alive());
        CHECK(*c == "text");
        CHECK(c->size() == 4);
        CHECK(c.get() == h.get());
        CHECK(c.unchecked() == h.unchecked());
        CHECK(c.owner() == b.id());
        CHECK(c.expand() == h);
        CHECK(tenure::compact(h) == c);
        CHECK(tenure::try_compact(h).value() == c);
        compact_handle<std::string const> const constant = c;
        CHECK(constant.get() == h.get());
        handle<std::string> const again = c;
        CHECK(again == h);
    }

    TEST_CASE_FIXTURE(accounting, "null") {
        compact_handle<node> const none, also = nullptr;
        CHECK_FALSE(none);
        CHECK(none == nullptr);
        CHECK(none == also);
        CHECK_FALSE(none.alive());
        CHECK(none.get() == nullptr);
        CHECK(none.unchecked() == nullptr);
        CHECK(none.expand() == nullptr);
        CHECK(compact_handle<node>(handle<node>()) == none);
        check_throws(errc::stale_handle, {"null handle"}, [&] { (void)*none; });
        check_throws(errc::stale_handle, {"null handle"}, [&] { (void)none.owner(); });
        CHECK(tenure::detail::compact_reach.base != 0);
        CHECK(tenure::detail::table_word(tenure::detail::compact_reach.base).load() == 0);
    }

    TEST_CASE_FIXTURE(accounting, "stale: every access says so, however the object went") {
        compact_handle<node>        ended;
        compact_handle<std::string> freed;
        {
            batch_scope b;
            ended = b.make<node>(1u);
            freed = b.make<std::string>("text");
            CHECK(*freed == "text");
            b.free(freed.expand());
            CHECK_FALSE(freed.alive());
            CHECK(ended->value == 1);
        }
        for (int round = 0; round < 100; ++round) {  // the memory is used again
            batch_scope b;
            auto const  h = b.make<node>(2u);
            CHECK_FALSE(ended.alive());
            CHECK_FALSE(freed.alive());
            CHECK(h.unchecked()->value == 2);
            CHECK(compact_handle<node>(h) != ended);
        }
        CHECK(ended);
        CHECK(ended.get() == nullptr);
        CHECK_FALSE(ended.expand().alive());
        check_throws(errc::stale_handle, {"stale"}, [&] { (void)*ended; });
        check_throws(errc::stale_handle, {"stale"}, [&] { (void)freed->size(); });
        check_throws(errc::stale_handle, {"stale"}, [&] { (void)ended.owner(); });
    }

    TEST_CASE_FIXTURE(accounting, "kept, transferred, freed at random: it says what the handle says") {
        std::mt19937                                                             random{14};
        batch_scope                                                              outer;
        std::vector<std::pair<handle<node>, compact_handle<node>>>               plain;
        std::vector<std::pair<handle<std::string>, compact_handle<std::string>>> ending;

        auto const all_agree = [&] {
            bool all = true;
            for (auto const& [h, c] : plain) all = all && agree(h, c);
            for (auto const& [h, c] : ending) all = all && agree(h, c);
            return all;
        };
        for (int round = 0; round < 60; ++round) {
            batch_scope b;
            for (std::uint64_t i = 0; i < 300; ++i) {
                auto const n = b.make<node>(i);
                auto const s = b.make<std::string>(i % 20, 'x');
                plain.emplace_back(n, n);
                ending.emplace_back(s, s);
                if (random() % 20 == 0) b.keep(plain.back().second.expand());
                if (random() % 20 == 0) b.keep(ending.back().second.expand());
                else if (random() % 10 == 0) b.free(s);
            }
            for (int i = 0; i < 20; ++i) {
                auto const& [h, c] = ending[random() % ending.size()];
                if (h.alive() && h.owner() == outer.id()) outer.free(c.expand());
            }
            CHECK(all_agree());
        }
        outer.end();
        CHECK(all_agree());
    }

    TEST_CASE_FIXTURE(accounting, "nodes whose edges lie in their batch stay bound to it") {
        batch_scope                             outer;
        batch_scope                             b;
        std::pmr::polymorphic_allocator<> const in(b.resource());
        handle<bound_node> const                h = b.make<bound_node>(in);
        compact_handle<bound_node> const        c = h;
        c->edges.push_back(c);
        CHECK(c->edges[0].expand() == h);
        check_throws(errc::not_self_contained, {}, [&] { b.keep(c.expand()); });
        handle<std::pmr::string> const text = b.make<std::pmr::string>("in the batch's memory, of course", in);
        handle<std::pmr::string> const free =
            b.make<std::pmr::string>("with a destructor of its own, this one", std::pmr::get_default_resource());
        compact_handle<std::pmr::string> const of_text = text, of_free = free;
        CHECK(of_text.expand() == text);
        CHECK(of_free.expand() == free);
        check_throws(errc::not_self_contained, {}, [&] { b.keep(of_text.expand()); });
        CHECK(b.keep(of_free.expand()).owner() == outer.id());
        CHECK(agree(free, of_free));
    }

    TEST_CASE_FIXTURE(accounting, "large objects") {
        struct large {
            char bytes[100'000];
        };
        struct large_with_end {
            std::string name;
            char        bytes[100'000];
        };
        batch_scope                          outer;
        batch_scope                          b;
        auto const                           l    = b.make<large>();
        auto const                           e    = b.make<large_with_end>();
        compact_handle<large> const          of_l = l;
        compact_handle<large_with_end> const of_e = e;
        CHECK(agree(l, of_l));
        CHECK(agree(e, of_e));
        b.keep(of_e.expand());
        b.free(of_l.expand());
        CHECK(agree(l, of_l));
        CHECK_FALSE(of_l.alive());
        CHECK(agree(e, of_e));
        b.end();
        CHECK(of_e.alive());
    }

    TEST_CASE_FIXTURE(accounting, "what it cannot name is refused, with advice") {
        batch_scope          b;
        int                  elsewhere = 1;
        handle<int> const    adopted   = b.adopt(&elsewhere, [](int*) {});
        handle<animal> const base      = b.make<dog>();
        check_throws(errc::not_compactable, {"adopted", "use a handle"},
                     [&] { (void)compact_handle<int>(adopted); });
        check_throws(errc::not_compactable, {"another type"}, [&] { (void)tenure::compact(base); });
        CHECK(tenure::try_compact(adopted).error() == errc::not_compactable);
        CHECK(tenure::try_compact(base).error() == errc::not_compactable);
        CHECK(tenure::try_compact(b.make<dog>()).has_value());
        CHECK(tenure::try_compact(b.make<animal>()).has_value());

        // An object that lies outside of the window cannot be had at will: a handle of one can.
        auto const           made   = b.make<node>(1u);
        auto const           raw    = tenure::detail::handle_access::raw(made);
        std::uintptr_t const window = tenure::detail::compact_reach.base;
        for (std::uintptr_t const at : {window - 8, window + tenure::detail::compact_bytes}) {
            auto const far =
                tenure::detail::handle_access::make(static_cast<node*>(tenure::detail::to_pointer(at)), raw.word);
            check_throws(errc::not_compactable, {"outside the 32 GiB"}, [&] { (void)tenure::compact(far); });
        }
        for (std::uintptr_t const at : {window + 8, window + tenure::detail::compact_bytes - 8}) {
            auto const near =
                tenure::detail::handle_access::make(static_cast<node*>(tenure::detail::to_pointer(at)), raw.word);
            CHECK(tenure::compact(near).unchecked() == near.unchecked());
        }
    }

    TEST_CASE_FIXTURE(accounting, "the generation comes round after 2^31 ends, and not before") {
        using namespace tenure::detail;
        handle<node>         h;
        compact_handle<node> c;
        {
            batch_scope b;
            h = b.make<node>(1u);
            c = h;
        }
        auto&        word = table_word(to_address(h.unchecked()));
        word_t const seen = word.load();
        word_t const made = generation_of(handle_access::raw(h).word);
        for (word_t const ends : {word_t{1}, word_t{2}, word_t{1} << 30, (word_t{1} << 31) - 1}) {
            CAPTURE(ends);
            word.store(whole_word(made + ends));
            CHECK_FALSE(c.alive());
            CHECK(c.get() == nullptr);
            CHECK(c.expand() == h);
        }
        word.store(whole_word(made + (word_t{1} << 31)));
        CHECK(c.alive());  // as its documentation says
        CHECK_FALSE(h.alive());
        CHECK(c.expand() != h);
        word.store(seen);
    }

    TEST_CASE_FIXTURE(accounting, "hashable and ordered; the next object at the same address is another") {
        std::unordered_set<compact_handle<node>> hashed;
        std::set<compact_handle<node>>           ordered;
        for (int round = 0; round < 100; ++round) {
            batch_scope b;
            for (unsigned i = 0; i < 10; ++i) {
                compact_handle<node> const c = b.make<node>(i);
                CHECK(hashed.insert(c).second);
                CHECK(ordered.insert(c).second);
                CHECK_FALSE(hashed.insert(c).second);
            }
        }
        CHECK(hashed.size() == 1000);
        CHECK(ordered.size() == 1000);
    }

    TEST_CASE_FIXTURE(accounting, "any thread uses any copy") {
        batch_scope                       b;
        std::vector<compact_handle<node>> nodes;
        for (unsigned i = 0; i < 1000; ++i) nodes.emplace_back(b.make<node>(i, i ? nodes.back() : nullptr));
        auto const walk = [&] {
            std::uint64_t sum = 0;
            for (auto at = nodes.back(); at; at = at->next) sum += at->value;
            return sum;
        };
        std::uint64_t there = 0;
        std::thread([&] {
            batch_scope own;
            for (unsigned i = 0; i < 10; ++i) CHECK(compact_handle<node>(own.make<node>(i))->value == i);
            there = walk();
        }).join();
        CHECK(there == walk());
        CHECK(there == 999 * 1000 / 2);
    }
}
