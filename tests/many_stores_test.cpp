// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A batch, and a registry, with very many stores: each is found through an index, which does without memory.

#include "failing.hpp"  // first

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_set>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/detail/buffers/stored.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "stores/lab_store.hpp"
#include "throws.hpp"

namespace detail = tenure::detail;
using tenure::any_store;
using tenure::batch_scope;
using tenure::buffer;
using tenure::errc;
using tenure::registry;

namespace {

constexpr std::size_t many = TENURE_SANITIZED ? 300 : 1'000;

std::vector<any_store> heaps(std::size_t n) {
    std::vector<any_store> out(n);
    for (any_store& s : out) s = std::make_shared<tenure::heap_store>();
    return out;
}

detail::stored const* first_of(batch_scope const& b) {
    return detail::record_of(b.id().value)->stores.load(std::memory_order_relaxed);
}

/// What is wrong with how a batch finds its stores, which are those; empty where nothing is.
std::string finding_error(registry& r, batch_scope const& b, std::vector<any_store> const& stores) {
    detail::batch_record const&     record = *detail::record_of(b.id().value);
    std::set<detail::stored const*> listed, found;
    for (detail::stored const* at = first_of(b); at; at = at->next) {
        listed.insert(at);
        if (at != first_of(b) && at->all) return "another than the first has an index";
    }
    for (any_store const& s : stores) {
        detail::stored const* const in = detail::find_stored(record, s);
        if (!in || in->from->store != s || detail::find_stored(record, *in->from) != in)
            return "a store is not found";
        if (detail::find_supply(detail::core_of(r), s) != in->from) return "the registry does not find a store";
        found.insert(in);
    }
    if (found != listed) return "the list has others than are found";
    if (detail::find_stored(record, std::make_shared<tenure::heap_store>()))
        return "a store is found that is not there";
    return {};
}

struct world {
    registry   r;
    accounting books{r};
};

}  // namespace

TEST_CASE("copies of an any_store have one hash") {
    std::vector<any_store> const  stores = heaps(100);
    std::unordered_set<any_store> all(stores.begin(), stores.end());
    all.insert(stores.begin(), stores.end());
    CHECK(all.size() == stores.size());
    CHECK_FALSE(all.contains(std::make_shared<tenure::heap_store>()));
}

TEST_SUITE("with many stores") {
    TEST_CASE_FIXTURE(world, "a batch has an index of them, in which each is found") {
        std::vector<any_store> const stores = heaps(many);
        {
            batch_scope b{r};
            for (std::size_t i = 0; i < many; ++i) {
                b.make_buffer<char>(1, stores[i]);
                bool const indexed = i >= detail::many_stores;
                REQUIRE((first_of(b)->all != nullptr) == indexed);
                if (indexed) REQUIRE(first_of(b)->all->size() == i + 1);
                if (indexed) REQUIRE(first_of(b)->all->room() > i);
            }
            CHECK(finding_error(r, b, stores) == "");
            CHECK(detail::core_of(r).by_store.size() == many);
            CHECK(detail::core_of(r).by_store.room() >= many);
        }
        CHECK(detail::core_of(r).by_store.size() == 0);
        CHECK(detail::core_of(r).supplies == nullptr);
        for (any_store const& s : stores) CHECK(s.usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(world, "buffers are kept, transferred, moved and freed, and the end is one call to each") {
        using lab = std::shared_ptr<lab_store<>>;
        std::vector<lab>       labs;
        std::vector<any_store> stores;
        for (std::size_t i = 0; i < 100; ++i) stores.push_back(labs.emplace_back(make_lab(std::to_string(i))));
        batch_scope               outer{r}, beside{r}, inner{tenure::below(outer)};
        std::vector<buffer<char>> all;
        for (std::size_t i = 0; i < 10 * stores.size(); ++i)
            all.push_back(inner.make_buffer<char>(i % 7, stores[i * 37 % stores.size()]));
        std::vector<buffer<char>> kept, freed;
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (i / 100 % 5 == 0) kept.push_back(all[i]);
            if (i / 100 % 5 == 1) r.transfer_ownership(all[i], beside.id());
            if (i / 100 % 5 == 2) freed.push_back(all[i]);
            if (i / 100 % 5 == 3) all[i].move_to(stores[(i + 1) % stores.size()]);
        }
        inner.keep(kept);
        r.free(freed);
        CHECK(outer.usage().buffers == 200);
        CHECK(beside.usage().buffers == 200);
        CHECK(inner.usage().buffers == 400);
        for (batch_scope* const b : {&outer, &beside, &inner}) CHECK(finding_error(r, *b, stores) == "");
        for (any_store const& s : stores) CHECK(stores_error(r, s) == "");
        for (batch_scope* const b : {&inner, &beside, &outer}) {
            for (lab const& s : labs) s->clear();
            b->end();
            std::size_t once = 0;
            for (lab const& s : labs) once += s->calls(tenure::store_operation::deallocate) == 1 && s->calls() == 1;
            CHECK(once == labs.size());
        }
        for (any_store const& s : stores) CHECK(s.usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(world, "cancelled from inside, a batch frees what it has in each, in one call") {
        using lab = std::shared_ptr<lab_store<>>;
        std::vector<lab> labs(100);
        batch_scope      b{r};
        for (std::size_t i = 0; i < labs.size(); ++i) labs[i] = make_lab(std::to_string(i));
        for (std::size_t i = 0; i < 10 * labs.size(); ++i) b.make_buffer<char>(8, labs[i % labs.size()]);
        for (lab const& s : labs) s->clear();
        b.cancel();
        std::size_t once = 0, empty = 0;
        for (lab const& s : labs) {
            once += s->calls(tenure::store_operation::deallocate) == 1;
            empty += s->usage().blocks == 0;
        }
        CHECK(once == labs.size());
        CHECK(empty == labs.size());
    }

    TEST_CASE_FIXTURE(world, "sync is one call to each, in the order of their first buffers") {
        using library = lab_store<{.addressable = true, .durable = true, .copyable = true}>;
        std::vector<std::shared_ptr<library>> labs(100);
        for (std::size_t i = 0; i < labs.size(); ++i)
            labs[i] = make_lab<{.addressable = true, .durable = true, .copyable = true}>(std::to_string(i));
        batch_scope               b{r};
        std::vector<buffer<char>> all;
        for (std::size_t i = 0; i < 3 * labs.size(); ++i) {
            all.push_back(b.make_buffer<char>(8, labs[i * 7 % labs.size()]));
            all.back().persist(std::to_string(i));
        }
        for (auto const& s : labs) s->clear();
        tenure::sync(all);
        for (auto const& s : labs) CHECK(s->calls() == 1);
        labs[14]->inject({.on = tenure::store_operation::sync});
        labs[1]->inject({.on = tenure::store_operation::sync});
        check_throws(std::make_error_code(std::errc::io_error), {"sync store faulty 14"},
                     [&] { tenure::sync(all); });
        tenure::sync(std::vector<buffer<char>>{});
    }

    TEST_CASE_FIXTURE(world, "threads that make buffers in one batch find each store, and none twice") {
        std::vector<any_store> const stores = heaps(200);
        auto const                   batch  = r.new_batch();
        constexpr std::size_t        order[]{1, 3, 7, 9};  // with no divisor of 200
        std::vector<std::thread>     threads;
        for (std::size_t t = 0; t < 4; ++t)
            threads.emplace_back([&, t] {
                auto const here = r.enter(batch);
                for (std::size_t i = 0; i < 2 * stores.size(); ++i)
                    tenure::make_buffer<char>(1, stores[(i * order[t] + t) % stores.size()]);
            });
        for (std::thread& t : threads) t.join();
        CHECK(r.usage(batch).buffers == 8 * stores.size());
        tenure::snapshot const s = r.snapshot();
        REQUIRE(s.batches.back().stores.size() == stores.size());
        for (any_store const& in : stores) CHECK(in.usage().blocks == 8);
        r.end_batch(batch);
        for (any_store const& in : stores) CHECK(in.usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(world, "stores that come and go are looked at in any order") {
        std::vector<any_store> const stores = heaps(30);
        for (std::size_t step : {1u, 7u, 11u}) {
            std::vector<tenure::batch_id> open;
            for (std::size_t i = 0; i < stores.size(); ++i)
                open.push_back(r.new_batch({.store = stores[i * step % stores.size()]}));
            CHECK(detail::core_of(r).by_store.size() == stores.size());
            for (std::size_t i = 0; i < open.size(); ++i) {
                r.end_batch(open[i * 17 % open.size()]);
                CHECK(detail::core_of(r).by_store.size() == open.size() - i - 1);
                if (i == 10) r.trim();
            }
        }
        CHECK(detail::core_of(r).supplies == nullptr);
    }

    TEST_CASE_FIXTURE(world, "a store that keeps its slabs for now is found again") {
        using arena      = lab_store<{.addressable = true}>;
        auto const store = std::make_shared<arena>(std::make_shared<named_store<{.addressable = true}>>("arena"));
        {
            batch_scope b{r, {.store = store}};
            b.make<int>(1);
            store->inject({.on = tenure::store_operation::deallocate});
        }
        REQUIRE(detail::find_supply(detail::core_of(r), store) != nullptr);
        CHECK(r.trim() == 0);
        CHECK(detail::find_supply(detail::core_of(r), store) == nullptr);
        CHECK(store->usage().blocks == 0);
    }

#if FAILING_ALLOCATIONS
    TEST_CASE_FIXTURE(world, "one more is made whole or not at all, whichever allocation fails") {
        for (std::size_t before :
             {detail::many_stores - 1, detail::many_stores, std::size_t{32}, std::size_t{33}}) {
            bool failed = true;
            for (long nth = 1; failed; ++nth) {
                std::vector<any_store> stores = heaps(before + 1);
                batch_scope            b{r};
                for (std::size_t i = 0; i < before; ++i) b.make_buffer<char>(1, stores[i]);
                failing::arm(failing::allocation, nth);
                auto const made = b.try_make_buffer<char>(1, stores.back());
                failing::disarm();
                failed = failing::now.failed;
                if (!made) {
                    CHECK(made.error() == errc::memory_full);
                    CHECK(b.usage().buffers == before);
                    b.make_buffer<char>(1, stores.back());
                }
                CHECK(b.usage().buffers == before + 1);
                CHECK(finding_error(r, b, stores) == "");
            }
        }
    }

    TEST_CASE_FIXTURE(world, "without memory for an index, each is found") {
        std::vector<any_store> const stores = heaps(200);
        batch_scope                  b{r};
        detail::batch_record&        record = *detail::record_of(b.id().value);
        for (std::size_t i = 0; i < stores.size(); ++i) {
            if (i < detail::many_stores) {
                b.make_buffer<char>(1, stores[i]);
                continue;
            }
            detail::supply& s = *detail::join_supply(detail::core_of(r), stores[i]);
            failing::arm(failing::allocation, 2);  // the list of blocks comes first
            detail::stored const* const in = detail::promise(record, s);
            failing::disarm();
            CHECK(in == first_of(b));
            CHECK(failing::now.failed);
            CHECK(first_of(b)->all == nullptr);
            detail::release_promise(record, s);
            detail::leave_supply(s);
        }
        CHECK(finding_error(r, b, stores) == "");
    }

    TEST_CASE_FIXTURE(world, "freeing allocates nothing") {
        std::vector<any_store> const stores = heaps(100);
        auto                         b      = std::make_unique<batch_scope>(r);
        std::vector<buffer<char>>    all;
        for (std::size_t i = 0; i < 300; ++i) all.push_back(b->make_buffer<char>(1, stores[i % stores.size()]));
        long const before = failing::now.allocations;
        for (std::size_t i = 0; i < 50; ++i) r.free(all[i]);
        b->end();
        CHECK(failing::now.allocations == before);
        CHECK(detail::core_of(r).by_store.size() == 0);
    }
#endif
}

TEST_CASE("a thread forgets the registries that are gone") {
    registry lasting;
    for (int i = 0; i < 100; ++i) {
        registry    r;
        batch_scope here{r}, there{lasting};
        here.make<int>(1);
        there.make<int>(1);
    }
    auto const& known = detail::on_thread_exit.caches;
    CHECK(known.size() <= 8);
    auto const is_lasting = [&](auto const& k) { return k.uid == detail::core_of(lasting).own.uid; };
    CHECK(std::count_if(known.begin(), known.end(), is_lasting) == 1);
}
