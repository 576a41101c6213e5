// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Batches whose objects live in a store that they name, or that their registry names: what lives there, and that
// all of it goes back.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "stores/lab_store.hpp"
#include "throws.hpp"

namespace {

using tenure::any_store;
using tenure::batch_id;
using tenure::batch_options;
using tenure::batch_scope;
using tenure::batch_status;
using tenure::cleanup;
using tenure::errc;
using tenure::handle;
using tenure::registry;
using tenure::store_operation;

using mapped = lab_store<{.addressable = true}>;                     ///< as a file is
using arena  = lab_store<{.addressable = true, .anonymous = true}>;  ///< as a heap is
using bytes  = lab_store<>;

template <class Store>
auto make_store(std::string name = "named", std::size_t capacity = 0) {
    return make_lab<Store::traits>(std::move(name), capacity);
}

struct lab {
    registry   r;
    accounting books{r};

    void check_books() const { books.check_books(); }
};

struct noisy {
    explicit noisy(int& count) : ended(&count) {}
    noisy(noisy const&)            = delete;
    noisy& operator=(noisy const&) = delete;
    ~noisy() { ++*ended; }
    int* ended;
    char filling[100]{};
};

tenure::store_info info_of(registry const& r, any_store const& store) {
    for (auto const& s : r.snapshot().stores)
        if (s.name == store.describe()) return s;
    return {};
}

}  // namespace

TEST_SUITE("objects in a named store") {
    TEST_CASE_TEMPLATE("all kinds of them live there", Store, mapped, arena) {
        lab        l;
        auto const store = make_store<Store>();
        int        ended = 0;
        auto const there = [&](void const* p) { return store->upstream()->holds(p); };
        {
            batch_scope b(l.r, {.store = store});
            CHECK(store->usage().blocks == 0);  // it costs nothing before something is made
            CHECK(there(b.make<int>(7).get()));
            CHECK(there(b.make<noisy>(ended).get()));
            CHECK(there(b.make<char[]>(50'000).get()));
            auto const large = b.make<std::uint64_t[]>(1'000'000);
            CHECK(there(large.get()));
            CHECK(there(&large[999'999]));
            auto const many = b.make<std::array<char, 1000>[]>(3000);
            CHECK(there(&many[2999]));

            std::pmr::vector<std::pmr::string> words{b.resource()};
            for (int i = 0; i < 2000; ++i)
                words.emplace_back("a word that is longer than a string holds within " + std::to_string(i));
            CHECK(there(words.data()));
            CHECK(there(words.front().data()));
            CHECK(there(words.back().data()));
            void* const piece = b.resource()->allocate(300'000);
            CHECK(there(piece));
            b.resource()->deallocate(piece, 300'000);

            CHECK_FALSE(there(b.adopt(new int(3)).get()));
            auto const x = b.make_buffer<int>(100);
            CHECK(there(x.map().data()));
            CHECK(stores_error(l.r, store) == "");
            CHECK(info_of(l.r, store).slabs > 8'000'000);
            CHECK(l.r.usage().held == b.usage().retained);
            l.books.check_books();
        }
        CHECK(ended == 1);
        CHECK(store->usage().blocks == 0);
        CHECK(store->usage().bytes == 0);
        CHECK(store.use_count() == 1);
        CHECK(l.r.snapshot().stores.size() == 1);
    }

    TEST_CASE_FIXTURE(lab, "children inherit it, unless they name another") {
        auto const  store = make_store<mapped>(), other = make_store<mapped>("other");
        batch_scope outer(r, {.store = store});
        {
            batch_scope inner(r);
            batch_scope below(tenure::below(inner), {.name = "below"});
            CHECK(store->upstream()->holds(below.make<int>(1).get()));
            batch_scope elsewhere(r, {.store = other});
            CHECK(other->upstream()->holds(elsewhere.make<int>(1).get()));
            CHECK_FALSE(store->upstream()->holds(elsewhere.make<int>(1).get()));
            batch_scope back(tenure::below(elsewhere), {.store = store});
            CHECK(store->upstream()->holds(back.make<int>(1).get()));
            CHECK(r.snapshot().stores.size() == 3);
            check_books();
        }
        CHECK(other->usage().blocks == 0);
        CHECK(other.use_count() == 1);
        auto const id     = r.new_batch({}, outer.id());
        auto const before = r.set_current_batch(id);
        CHECK(store->upstream()->holds(tenure::make<int>(1).get()));
        r.set_current_batch(before);
        r.end_batch(id);
        outer.end();
        CHECK(store->usage().blocks == 0);
        CHECK(store.use_count() == 1);
    }

    TEST_CASE_FIXTURE(lab, "lanes and guests make them there, too") {
        auto const  store = make_store<mapped>();
        batch_scope b(r, {.store = store});
        auto        l    = b.lane();
        auto const  work = [&](auto make) {
            for (int i = 0; i < 100; ++i) CHECK(store->upstream()->holds(make().get()));
        };
        std::jthread([&] { work([&] { return l.make<std::array<char, 3000>>(); }); }).join();
        std::jthread([&] {
            auto const inside = b.enter();
            work([] { return tenure::make<std::array<char, 3000>>(); });
        }).join();
    }

    TEST_CASE_FIXTURE(lab,
                      "stay valid when they are kept where other memory is, and give theirs back when they go") {
        auto const                 store = make_store<mapped>();
        std::vector<handle<int>>   plain;
        std::vector<handle<noisy>> noisy_ones;
        handle<int[]>              large;
        int                        ended = 0;
        batch_scope                outer(r);
        {
            batch_scope inner(r, {.store = store});
            for (int i = 0; i < 5000; ++i) {
                auto const h = inner.make<int>(i);
                auto const n = inner.make<noisy>(ended);
                if (i % 100) continue;
                plain.push_back(inner.keep(h));
                noisy_ones.push_back(inner.keep(n));
            }
            large = inner.keep(inner.make<int[]>(100'000));
        }
        CHECK(ended == 5000 - 50);
        CHECK(store->usage().blocks > 0);
        check_books();
        CHECK(outer.usage().objects == 101);
        for (std::size_t i = 0; i < plain.size(); ++i) {
            CHECK(*plain[i] == static_cast<int>(i) * 100);
            CHECK(store->upstream()->holds(plain[i].get()));
            CHECK(*noisy_ones[i]->ended == 4950);
        }

        // What their new owner makes is in its own memory, not in the holes around them.
        for (int i = 0; i < 20'000; ++i) REQUIRE_FALSE(store->upstream()->holds(outer.make<noisy>(ended).get()));

        r.free(plain);
        r.free(noisy_ones);
        CHECK(store->usage().blocks > 0);
        outer.free(large);
        CHECK(ended == 5000);
        CHECK(store->usage().blocks == 0);
        CHECK(store.use_count() == 1);
        check_books();
    }

    TEST_CASE_FIXTURE(lab, "made elsewhere and transferred here stay elsewhere") {
        auto const  store = make_store<mapped>();
        batch_scope named(r, {.store = store});
        {
            auto const               id     = r.new_batch();
            auto const               before = r.set_current_batch(id);
            std::vector<handle<int>> all;
            for (int i = 0; i < 20'000; ++i) all.push_back(tenure::make<int>(i));
            r.set_current_batch(before);
            for (std::size_t i = 0; i < all.size(); i += 500) r.transfer_ownership(all[i], named.id());
            r.end_batch(id);
            for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i].alive() == (i % 500 == 0));
            for (int i = 0; i < 5000; ++i) REQUIRE(store->upstream()->holds(named.make<std::string>().get()));
            for (std::size_t i = 0; i < all.size(); i += 500) CHECK(*all[i] == static_cast<int>(i));
        }
        named.end();
        CHECK(store->usage().blocks == 0);
        CHECK(store.use_count() == 1);
    }

    TEST_CASE_FIXTURE(lab, "the store goes back with the last of batch and object, whichever that is") {
        auto const  store = make_store<mapped>();
        auto const  home  = r.new_batch();
        batch_id    manual, detached;
        handle<int> kept;
        {
            batch_scope a(r, {.cleanup = cleanup::manual, .store = store});
            a.make<int>(1);
            manual = a.id();
            batch_scope b(r, {.store = store});
            kept = b.make<int>(2);
            r.transfer_ownership(kept, home);
            batch_scope c(r, {.store = store});
            c.make<int>(3);
            detached = c.detach();
        }
        CHECK(store.use_count() == 2);
        r.destroy_batch(manual);
        std::jthread([&] { r.end_batch(detached); }).join();
        CHECK(store->usage().blocks > 0);
        CHECK(*kept == 2);
        r.end_batch(home);
        CHECK_FALSE(kept.alive());
        CHECK(store->usage().blocks == 0);
        CHECK(store.use_count() == 1);
    }

    TEST_CASE_FIXTURE(lab, "outlive the user's pointer to the store") {
        auto                store = make_store<mapped>();
        std::weak_ptr<void> alive = store;
        handle<std::string> kept;
        batch_scope         outer(r);
        {
            batch_scope inner(r, {.store = std::move(store)});
            store.reset();
            kept = inner.keep(inner.make<std::string>("longer than a string holds within itself"));
        }
        CHECK_FALSE(alive.expired());
        CHECK(*kept == "longer than a string holds within itself");
        outer.free(kept);
        CHECK(alive.expired());
    }

    TEST_CASE_FIXTURE(lab, "many batches, one after the other, leave nothing") {
        auto const store = make_store<mapped>();
        for (int i = 0; i < 200; ++i) {
            batch_scope b(r, {.store = store});
            auto const  h = b.make<std::array<char, 1000>>();
            b.make<std::string>("x");
            if (i % 3 == 0) b.free(h);
            b.make_buffer<int>(10);
        }
        CHECK(store->usage().blocks == 0);
        CHECK(r.usage().held == 0);
        check_books();
    }
}

TEST_SUITE("a store that refuses") {
    TEST_CASE_FIXTURE(lab, "makes that fail, says which it is, and breaks nothing") {
        auto const  store = make_store<mapped>("small", std::size_t{6} << 20);
        batch_scope outer(r);
        batch_scope b(r, {.name = "tight", .store = store});

        std::vector<handle<std::array<char, 1000>>> all;
        auto const                                  fill = [&] {
            for (;;) {
                auto const h = b.try_make<std::array<char, 1000>>();
                if (!h) return h.error();
                all.push_back(*h);
            }
        };
        CHECK(fill() == errc::store_full);
        CHECK(all.size() > 4000);
        check_throws(errc::store_full, {"make in batch 'tight'", "faulty small"},
                     [&] { b.make<std::array<char, 60'000>>(); });
        check_throws(errc::store_full, {"make in batch 'tight'", "faulty small"},
                     [&] { b.make<char[]>(3'000'000); });
        check_throws(errc::store_full, {"make a buffer in store faulty small"},
                     [&] { b.make_buffer<char>(3'000'000); });
        check_throws(errc::store_full, {"resource() of batch 'tight'"},
                     [&] { static_cast<void>(b.resource()->allocate(3'000'000)); });
        outer.make<std::string>("others go on");
        for (auto const& h : all) h->fill('x');
        for (auto const& h : all) CHECK(h.alive());
        CHECK(b.usage().objects == all.size());
        check_books();

        for (std::size_t i = 0; i < all.size(); i += 2) b.free(all[i]);  // and there is room again
        CHECK(b.try_make<std::array<char, 200>>().has_value());
        b.end();
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(lab, "at once") {
        for (auto const operation : {store_operation::allocate, store_operation::address}) {
            auto const  store = make_store<mapped>();
            batch_scope b(r, {.store = store});
            store->inject({.on = operation, .times = 2});
            check_throws(errc::memory_full, {"make in batch"}, [&] { b.make<int>(1); });
            CHECK(store->usage().blocks == 0);
            CHECK(*b.make<int>(1) == 1);
            check_books();
        }
    }

    TEST_CASE_FIXTURE(lab, "to take its slabs back is asked again") {
        auto const store = make_store<mapped>();
        {
            batch_scope b(r, {.store = store});
            b.make<int>(1);
            store->inject({.on = store_operation::deallocate});
        }
        r.trim();
        CHECK(store->usage().blocks == 0);
        CHECK(store.use_count() == 1);
    }

    TEST_CASE_FIXTURE(lab, "limits of the batch hold there as anywhere") {
        auto const  store = make_store<mapped>();
        batch_scope b(r, {.limits = {.hard = 100'000}, .store = store});
        check_throws(errc::limit_exceeded, {}, [&] {
            for (;;) b.make<std::array<char, 1000>>();
        });
        CHECK(b.usage().bytes <= 100'000);
        CHECK(b.usage().bytes > 90'000);
    }
}

TEST_SUITE("a store without addresses") {
    TEST_CASE_FIXTURE(lab, "takes a batch's buffers, and its objects are where those above it are") {
        auto const  memory = make_store<mapped>("memory");
        auto const  store  = make_store<bytes>();
        batch_scope outer(r, {.store = memory});
        batch_scope b(r, {.store = store});
        CHECK(memory->upstream()->holds(b.make<int>(1).get()));
        CHECK(b.make_buffer<int>(1).stores().front() == any_store(store));
        batch_scope inner(r);
        CHECK(memory->upstream()->holds(inner.make<int>(1).get()));
        CHECK(inner.make_buffer<int>(1).stores().front() == any_store(store));
        CHECK(store->usage().blocks == 2);
        outer.end();
        CHECK(store->usage().blocks + memory->usage().blocks == 0);
        CHECK(store.use_count() == 1);
        CHECK(memory.use_count() == 1);
    }
}

TEST_SUITE("the registry's store") {
    TEST_CASE("has all its objects and buffers") {
        auto const store = make_store<mapped>();
        {
            registry         r({.store = store});
            accounting const books(r);
            batch_scope      b(r);
            for (int i = 0; i < 1000; ++i) CHECK(store->upstream()->holds(b.make<std::array<char, 500>>().get()));
            CHECK(store->upstream()->holds(b.make<char[]>(5'000'000).get()));
            CHECK(b.make_buffer<int>(5).stores().front() == any_store(store));
            CHECK(stores_error(r, store) == "");
            CHECK(r.snapshot().stores.size() == 1);
            {
                batch_scope same(r, {.store = store});
                CHECK(store->upstream()->holds(same.make<int>(1).get()));
                CHECK(r.snapshot().stores.size() == 1);
            }
        }
        CHECK(store->usage().blocks == 0);
        CHECK(store.use_count() == 1);
    }

    TEST_CASE("that is not addressable has the buffers only") {
        auto const store = make_store<bytes>();
        {
            registry         r({.store = store});
            accounting const books(r);
            batch_scope      b(r);
            b.make<int>(1);
            b.make<char[]>(5'000'000);
            CHECK(store->usage().blocks == 0);
            auto const x = b.make_buffer<int>(5);
            CHECK(x.stores().front() == any_store(store));
            CHECK(stores_error(r, store) == "");
            CHECK(r.root() != batch_id{});
            r.transfer_ownership(x, r.root());
            b.end();
            CHECK(x.alive());
        }
        CHECK(store->usage().blocks == 0);
        CHECK(store.use_count() == 1);
    }

    TEST_CASE("may be shared by several") {
        auto const store = make_store<mapped>();
        {
            registry    one({.store = store}), two({.store = store}), three;
            batch_scope a(one), b(two), c(three, {.store = store});
            for (int i = 0; i < 1000; ++i) {
                CHECK(store->upstream()->holds(a.make<int>(i).get()));
                CHECK(store->upstream()->holds(b.make<int>(i).get()));
                CHECK(store->upstream()->holds(c.make<int>(i).get()));
            }
        }
        CHECK(store->usage().blocks == 0);
        CHECK(store.use_count() == 1);
    }
}

TEST_SUITE("threads and named stores") {
    TEST_CASE_FIXTURE(lab, "each with batches of its own in one store") {
        auto const store = std::make_shared<tenure::heap_store>();
        {
            std::vector<std::jthread> threads;
            for (int t = 0; t < 4; ++t)
                threads.emplace_back([&] {
                    for (int i = 0; i < (TENURE_SANITIZED ? 100 : 500); ++i) {
                        batch_scope outer(r);
                        batch_scope b(r, {.store = store});
                        auto const  h = b.keep(b.make<std::string>("longer than a string holds within itself"));
                        auto const  x = b.keep(b.make_buffer<int>(100));
                        b.make<char[]>(100'000);
                        b.end();
                        CHECK(h->size() == 40);
                        CHECK(x.alive());
                    }
                });
        }
        CHECK(store->usage().blocks == 0);
        CHECK(store.use_count() == 1);
    }

    // A handle is stale for ever, on any thread: also in the moment in which the memory behind it goes back to its
    // store. What others ask, keep, transfer or free then must not follow a pointer into it.
    TEST_CASE_FIXTURE(lab, "handles are asked while their store's memory goes") {
        auto const store                                     = std::make_shared<tenure::heap_store>();
        using text                                           = std::string;
        std::atomic<bool>                               over = false;
        std::vector<handle<text>>                       none;
        std::array<std::atomic<handle<text> const*>, 8> shown{};

        std::vector<std::unique_ptr<handle<text>[]>> lists;
        std::vector<std::jthread>                    threads;
        auto const                                   home = r.new_batch();
        for (unsigned t = 0; t < 2; ++t)
            threads.emplace_back([&, t] {
                batch_scope above(r);
                batch_scope mine(r);
                for (unsigned i = t; !over; ++i) {
                    handle<text> const* const list = shown[i % shown.size()].load();
                    if (!list) continue;
                    for (unsigned k = 0; k < 8; ++k) {
                        handle<text> const h = list[k];
                        switch (i / 8 % 4) {
                        case 0: h.alive(); break;
                        case 1: static_cast<void>(r.try_free(h)); break;
                        case 2: static_cast<void>(r.try_transfer_ownership(h, mine.id())); break;
                        default: static_cast<void>(mine.try_keep(h)); break;
                        }
                    }
                }
            });
        std::size_t const rounds = TENURE_SANITIZED ? 2000 : 10'000;
        for (std::size_t i = 0; i < rounds; ++i) {
            auto list = std::make_unique<handle<text>[]>(8);
            {
                batch_scope b(r, {.store = store});
                for (unsigned k = 0; k < 8; ++k) list[k] = b.make<text>("longer than a string holds within itself");
                for (unsigned k = 0; k < 8; k += 2) r.transfer_ownership(list[k], home);
                shown[i % shown.size()] = list.get();
            }
            for (unsigned k = 0; k < 8; k += 2) static_cast<void>(r.try_free(list[k]));
            lists.push_back(std::move(list));
        }
        over = true;
        threads.clear();
        r.end_batch(home);
        CHECK(store->usage().blocks == 0);
        CHECK(store.use_count() == 1);
    }
}
