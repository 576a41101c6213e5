// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What the adaptors are made of.

#include "failing.hpp"  // first

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/detail/base/hash_index.hpp>
#include <tenure/detail/blocks/gather_space.hpp>
#include <tenure/store/adaptor.hpp>
#include <tenure/store/adaptor/parts.hpp>

#include "random/dice.hpp"
#include "stores/plain_store.hpp"

using namespace tenure;
using detail::gather_space;

namespace {

struct node {
    std::uint64_t index_key  = 0;
    node*         index_next = nullptr;
    node*         newer      = nullptr;
    node*         older      = nullptr;
    bool          ordered    = false;
    int           number     = 0;
};

/// Hides one operation, as a user's adaptor would.
struct shouting_store : store_adaptor<plain_store<{.durable = true}>> {
    using store_adaptor::store_adaptor;
    std::string describe() const { return "A PLAIN STORE"; }
};
static_assert(backing_store<shouting_store>);

using able = plain_store<{.addressable = true, .durable = true, .copyable = true}>;
static_assert(store_adaptor<able>::traits == able::traits);
static_assert(backing_store<store_adaptor<able>>);
static_assert(!detail::names_address<store_adaptor<plain_store<>>>);
static_assert(!detail::names_keep<store_adaptor<plain_store<>>>);
static_assert(!detail::names_copy<store_adaptor<plain_store<>>>);

}  // namespace

TEST_CASE("an adaptor passes on what it does not hide") {
    shouting_store s(std::make_shared<plain_store<{.durable = true}>>(std::make_shared<plain_disk>()));
    block const    b = s.allocate(10, 1).value();
    CHECK(s.keep(b, "name"));
    CHECK(s.upstream()->find("name").value() == b);
    CHECK(s.usage() == store_usage{10, 1, 0});
    CHECK(any_store(std::make_shared<shouting_store>(s.upstream())).describe() == "A PLAIN STORE");
    CHECK(s.deallocate({&b, 1}));
}

TEST_CASE("hash_index against a multimap, with and without memory for its buckets") {
    for (bool const memory : {true, false}) {
        dice                                d(1);
        detail::hash_index<node>            index;
        std::multimap<std::uint64_t, node*> model;  // equal keys in the order of insertion, too
        std::vector<std::unique_ptr<node>>  nodes;
        for (int i = 0; i < (memory ? 3'000 : 300); ++i) {
            if (!model.empty() && d.one_in(3)) {
                auto const at = std::next(model.begin(), static_cast<long>(d.below(model.size())));
                index.erase(*at->second);
                model.erase(at);
            } else {
                std::uint64_t const key = d.below(500);
                nodes.push_back(std::make_unique<node>());
                model.emplace(key, nodes.back().get());
                if (!memory && FAILING_ALLOCATIONS) failing::arm(failing::allocation, 1);
                index.insert(key, *nodes.back());
                failing::disarm();
            }
            REQUIRE(index.size() == model.size());
            std::uint64_t const key = d.below(500);
            auto [at, end]          = model.equal_range(key);
            for (node* n = index.first(key); n; n = index.next(*n), ++at) {
                REQUIRE(at != end);
                REQUIRE(at->second == n);
            }
            REQUIRE(at == end);
        }
        std::size_t drained = 0;
        index.drain([&](node&) { ++drained; });
        CHECK(drained == model.size());
        CHECK(index.size() == 0);
    }
}

TEST_CASE("hash_index with buckets of its own is filled without an allocation") {
    std::array<node, 70>     nodes;
    detail::hash_index<node> index;
    CHECK(index.room() == 1);
    REQUIRE(index.reserve(65));
    CHECK(index.room() == 128);
    long const before = failing::now.allocations;
    for (std::size_t i = 0; i < nodes.size(); ++i) index.insert_as_it_is(i, nodes[i]);
    CHECK(failing::now.allocations == before);
    for (std::size_t i = 0; i < nodes.size(); ++i) CHECK(index.first(i) == &nodes[i]);

    std::array<node, 200>    others;
    detail::hash_index<node> full;  // has one bucket, and keeps it
    for (std::size_t i = 0; i < others.size(); ++i) full.insert_as_it_is(i, others[i]);
    CHECK(full.room() == 1);
    CHECK(full.size() == others.size());
    for (std::size_t i = 0; i < others.size(); ++i) CHECK(full.first(i) == &others[i]);
#if FAILING_ALLOCATIONS
    detail::hash_index<node> none;
    failing::arm(failing::allocation, 1);
    CHECK_FALSE(none.reserve(65));
    failing::disarm();
    CHECK(none.room() == 1);
#endif
}

TEST_CASE("use_order") {
    node                    a, b, c;
    detail::use_order<node> order;
    CHECK(order.oldest() == nullptr);
    order.touch(a);
    order.touch(b);
    order.touch(c);
    CHECK(order.oldest() == &a);
    order.touch(a);
    CHECK(order.oldest() == &b);
    order.remove(b);
    order.remove(b);
    CHECK(order.oldest() == &c);
    CHECK(c.newer == &a);
    order.remove(a);
    order.remove(c);
    CHECK(order.oldest() == nullptr);
}

TEST_CASE("use_order against a list") {
    dice                    d(1);
    std::array<node, 20>    nodes;
    std::list<node*>        model;  // the oldest first
    detail::use_order<node> order;
    for (int i = 0; i < 20'000; ++i) {
        node& n = nodes[d.below(nodes.size())];
        model.remove(&n);
        if (d.one_in(2)) {
            order.touch(n);
            model.push_back(&n);
        } else {
            order.remove(n);
        }
        node const* at = order.oldest();
        for (node const* const expected : model) {
            REQUIRE(at == expected);
            at = at->newer;
        }
        REQUIRE(at == nullptr);
    }
}

TEST_CASE("gather_space: ranges lie apart, and two always fit") {
    dice         d(3);
    gather_space space;
    std::size_t  room = 0;
    // What is live: the ranges taken, and those names which no range has.
    std::vector<std::unique_ptr<gather_space::range>> taken;
    std::size_t                                       in_use = 0;
    for (int i = 0; i < 20'000; ++i) {
        if (d.one_in(50)) {
            room += d.below(100);
            REQUIRE(space.reserve(room));
        }
        if (!taken.empty() && d.one_in(2)) {
            std::size_t const n = d.below(taken.size());
            in_use -= taken[n]->blocks().size();
            std::swap(taken[n], taken.back());
            taken.pop_back();
        } else if (room > in_use) {
            std::size_t const want = 1 + d.below(room - in_use);
            taken.push_back(std::make_unique<gather_space::range>(space, want));
            std::size_t const got = taken.back()->blocks().size();
            REQUIRE(got > 0);
            REQUIRE(got <= want);
            if (taken.size() <= 2) REQUIRE(got == want);
            in_use += got;
        }
        block const*                        last = nullptr;
        std::map<block const*, std::size_t> all;
        for (auto const& r : taken) REQUIRE(all.emplace(r->blocks().data(), r->blocks().size()).second);
        for (auto const& [begin, size] : all) {
            REQUIRE(begin >= last);
            last = begin + size;
        }
    }
    gather_space::range const none(space, 0);
    CHECK(none.blocks().empty());
}

TEST_CASE("gather_space: where all room is taken, a range is empty, and later ones lie apart all the same") {
    gather_space space;
    {
        gather_space::range const none(space, 5);
        CHECK(none.blocks().empty());
        REQUIRE(space.reserve(100));
    }
    auto const        first = std::make_unique<gather_space::range>(space, 100);
    auto              rest  = std::make_unique<gather_space::range>(space, 1'000);
    std::size_t const room  = rest->blocks().size();
    CHECK(first->blocks().size() == 100);
    CHECK(room >= 100);
    gather_space::range const empty(space, 10);
    CHECK(empty.blocks().empty());
    gather_space::range const again(space, 10);
    CHECK(again.blocks().empty());
    rest.reset();
    gather_space::range const after(space, room);
    CHECK(after.blocks().size() == room);
    CHECK(after.blocks().data() == first->blocks().data() + 100);
}
