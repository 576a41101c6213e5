// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A registry whose root takes nothing that is made.

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/store/counted.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "throws.hpp"

namespace {

using tenure::batch_id;
using tenure::batch_scope;
using tenure::errc;
using tenure::handle;
using tenure::registry;
using tenure::root_makes;

tenure::registry_options refusing() {
    tenure::registry_options o;
    o.root_makes = root_makes::refused;
    return o;
}

struct strict {
    registry   r{refusing()};
    accounting books{r};

    strict() { batch_scope(r).make<int>(1); }  // so that this thread has memory in stock
};

}  // namespace

TEST_SUITE("root_makes::refused") {
    TEST_CASE_FIXTURE(strict, "nothing of any kind is made there, and the message says what to do") {
        auto const in     = r.enter(r.root());
        auto const refuse = [](auto make) {
            check_throws(errc::root_refused, {"'root'", "open a batch first"}, make);
        };
        std::array<int, 4> mine{};
        for (int i = 0; i < 2; ++i) {
            refuse([] { tenure::make<int>(1); });
            refuse([] { tenure::make<std::string>("with a destructor"); });
            refuse([] { tenure::make<std::array<char, 100'000>>(); });
            refuse([] { tenure::make<int[]>(10u); });
            refuse([] { tenure::make_buffer<int>(10); });
            refuse([] { tenure::make_derived<int>(10, tenure::any_store{}, [](std::span<int>) {}); });
            refuse([&] { tenure::adopt_buffer(std::span<int>(mine), [](int*) {}); });
            refuse([] { tenure::open_buffer<int>("of another process"); });
            refuse([] { tenure::defer([] {}); });
            refuse([] { tenure::adopt(std::make_unique<int>(1)); });
            refuse([] { tenure::current_resource(); });
            CHECK(tenure::try_make<int>(1).error() == errc::root_refused);
            CHECK(tenure::try_make<std::array<char, 100'000>>().error() == errc::root_refused);
        }
        CHECK(r.usage(r.root()).objects == 0);
    }

    TEST_CASE("its store is not asked for a buffer") {
        auto const store =
            std::make_shared<tenure::counted_store<tenure::heap_store>>(std::make_shared<tenure::heap_store>());
        tenure::registry_options o = refusing();
        o.store                    = store;
        registry   r(o);
        accounting books(r);
        auto const in     = r.enter(r.root());
        auto const before = store->figures().blocks_made;
        CHECK(tenure::try_make_buffer<int>(10).error() == errc::root_refused);
        check_throws(errc::root_refused, {"make a derived buffer"},
                     [] { tenure::make_derived<int>(10, tenure::any_store{}, [](std::span<int>) {}); });
        CHECK(store->figures().blocks_made == before);
    }

    TEST_CASE_FIXTURE(strict, "batches are opened below it as ever, and what they keep is welcome there") {
        handle<std::string> kept, given;
        {
            batch_scope b(r);
            kept  = b.keep(b.make<std::string>("kept"));
            given = b.make<std::string>("given");
            r.transfer_ownership(given, r.root());
        }
        CHECK(*kept == "kept");
        CHECK(given.owner() == r.root());
        {
            batch_scope b(r);
            auto const  owned = b.detach(b.make<std::string>("detached"));
            CHECK(*owned == "detached");
        }
        batch_id const id = r.new_batch();
        {
            auto const in = r.enter(id);
            CHECK(tenure::make<int>(1).owner() == id);
        }
        r.end_batch(id);
        r.free(kept);
        r.free(given);
    }

    TEST_CASE_FIXTURE(strict, "threads come and go: none makes anything") {
        std::vector<std::thread> all;
        for (int t = 0; t < 3; ++t)
            all.emplace_back([&] {
                for (int i = 0; i < 1000; ++i) {
                    auto const in = r.enter(r.root());
                    CHECK(!tenure::try_make<int>(i));
                    batch_scope const b(r);
                    CHECK(tenure::try_make<int>(i));
                }
            });
        for (std::thread& t : all) t.join();
        CHECK(r.usage(r.root()).objects == 0);
        CHECK(r.usage(r.root()).retained == 0);
    }

    TEST_CASE_FIXTURE(strict, "in a destructor at the end of a batch below it, too") {
        struct last_words {
            explicit last_words(std::error_code& e) : said(e) {}
            ~last_words() { said = tenure::try_make<int>(1).error(); }
            std::error_code& said;
        };
        std::error_code below_root, below_another;
        {
            batch_scope outer(r);
            outer.make<last_words>(below_root);
            batch_scope inner;
            inner.make<last_words>(below_another);
        }
        CHECK(below_root == errc::root_refused);
        CHECK(!below_another);
    }

    TEST_CASE("it can be allowed, and refused again: what this thread had at hand is closed") {
        registry   r;
        accounting books(r);
        auto const in = r.enter(r.root());
        auto const h  = tenure::make<int>(1);
        r.set_root_makes(root_makes::refused);
        CHECK(tenure::try_make<int>(2).error() == errc::root_refused);
        CHECK(*h == 1);
        r.set_root_makes(root_makes::allowed);
        auto const more = tenure::make<int>(3);
        r.set_root_makes(root_makes::refused);
        CHECK(tenure::try_make<int>(4).error() == errc::root_refused);
        r.free(h);
        r.free(more);
        CHECK(tenure::try_make<int>(5).error() == errc::root_refused);  // nor where these were
    }

    TEST_CASE("of the global registry: what no batch is open for") {
        registry& r = registry::global();
        tenure::free(tenure::make<int>(1));
        r.set_root_makes(root_makes::refused);
        check_throws(errc::root_refused, {"make"}, [] { tenure::make<int>(1); });
        std::thread([] { check_throws(errc::root_refused, {"make"}, [] { tenure::make<int>(1); }); }).join();
        {
            batch_scope b;
            CHECK(b.make<int>(1).alive());
        }
        r.set_root_makes(root_makes::allowed);
        tenure::free(tenure::make<int>(1));
    }
}
