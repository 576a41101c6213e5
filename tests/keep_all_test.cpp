// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "journal.hpp"
#include "model_batch.hpp"
#include "throws.hpp"

using tenure::batch_id;
using tenure::batch_scope;
using tenure::errc;
using tenure::handle;
using tenure::registry;

namespace {

struct own_registry : accounting {
    registry   r;
    accounting books{r};
};

constexpr char const* long_text = "so long that it is not in the string itself";

/// Some of all kinds: plain, with an end, an array, large ones with and without an end, a buffer, a container.
struct some {
    explicit some(batch_scope& b, journal& log)
        : number(b.make<int>(7)),
          first(b.make<traced>(log, 1)),
          text(b.make<std::string>(long_text)),
          array(b.make<std::string[]>(3, long_text)),
          large(b.make<std::array<int, 50'000>>()),
          texts(b.make<std::string[]>(4000, long_text)),
          buffer(b.make_buffer(std::vector{1, 2, 3})),
          list(b.make<std::pmr::vector<int>>(100u, 5, b.resource())),
          second(b.make<traced>(log, 2)) {
        (*large)[49'999] = 9;
    }

    void check() const {
        CHECK(*number == 7);
        CHECK(first->number() == 1);
        CHECK(*text == long_text);
        for (std::string const& s : array.span()) CHECK(s == long_text);
        CHECK((*large)[49'999] == 9);
        CHECK(texts[3999] == long_text);
        std::array<int, 3> read{};
        buffer.read(0, read);
        CHECK(read == std::array{1, 2, 3});
        CHECK(*list == std::pmr::vector<int>(100, 5));
        CHECK(second->number() == 2);
    }
    std::array<batch_id, 9> owners() const {
        return {number.owner(), first.owner(),  text.owner(), array.owner(), large.owner(),
                texts.owner(),  buffer.owner(), list.owner(), second.owner()};
    }

    handle<int>                     number;
    handle<traced>                  first;
    handle<std::string>             text;
    handle<std::string[]>           array;
    handle<std::array<int, 50'000>> large;
    handle<std::string[]>           texts;
    tenure::buffer<int>             buffer;
    handle<std::pmr::vector<int>>   list;
    handle<traced>                  second;
};

/// Makes a batch large: it has more units than are shared one by one.
std::vector<handle<std::uint64_t>> fill(batch_scope& b, std::size_t n = 100'000) {
    std::vector<handle<std::uint64_t>> all;
    for (std::uint64_t i = 0; i < n; ++i) all.push_back(b.make<std::uint64_t>(i));
    return all;
}
bool is_filled(std::vector<handle<std::uint64_t>> const& all) {
    for (std::uint64_t i = 0; i < all.size(); ++i)
        if (*all[i] != i) return false;
    return true;
}

/// Runs f while another thread has `id` current and has made something there.
template <class F>
void with_another_inside(registry& r, batch_id id, F f) {
    std::atomic<int> step{0};
    std::jthread     other([&] {
        auto const in = r.enter(id);
        tenure::make<int>(1);
        step = 1;
        step.notify_all();
        step.wait(1);
    });
    step.wait(0);
    f();
    step = 2;
    step.notify_all();
}

}  // namespace

TEST_SUITE("keep_all") {
    TEST_CASE_FIXTURE(own_registry, "all of it is the parent's, and lives as long; the batch goes on, empty") {
        for (std::size_t const more : {0u, 100'000u}) {
            CAPTURE(more);
            journal     log;
            batch_scope parent(r, {.name = "parent"});
            {
                batch_scope b(r, {.name = "draft"});
                some const  all(b, log);
                auto const  numbers = fill(b, more);
                auto const  before  = b.usage();
                b.keep_all();
                for (batch_id const id : all.owners()) CHECK(id == parent.id());
                all.check();
                CHECK(is_filled(numbers));
                CHECK(b.usage().objects == 0);
                CHECK(b.usage().bytes == 0);
                CHECK(b.usage().retained == 0);
                CHECK(b.usage().buffers == 0);
                CHECK(parent.usage().objects == before.objects);
                CHECK(parent.usage().bytes == before.bytes);
                CHECK(parent.usage().buffers == 1);
                CHECK(parent.usage().buffer_bytes == before.buffer_bytes);
                books.check_books();

                auto const later = b.make<std::string>(long_text);
                auto const r1    = b.end();
                CHECK(r1.made == before.objects + 1);
                CHECK(r1.kept == before.objects);
                CHECK(r1.freed == 1);
                CHECK(!later.alive());
                all.check();
                CHECK(is_filled(numbers));
            }
            auto const own = parent.make<traced>(log, 3);
            parent.end();
            CHECK(!own.alive());
            CHECK(log.ended == std::vector{3, 2, 1});
        }
    }

    TEST_CASE_FIXTURE(own_registry, "what was deferred runs at the parent's end, in its place") {
        std::vector<int> ran;
        {
            batch_scope parent(r);
            parent.defer([&] { ran.push_back(1); });
            batch_scope b(r);
            b.defer([&] { ran.push_back(2); });
            b.defer([&] { ran.push_back(3); });
            b.keep_all();
            b.defer([&] { ran.push_back(4); });
            b.end();
            CHECK(ran == std::vector{4});
            parent.defer([&] { ran.push_back(5); });
        }
        CHECK(ran == std::vector{4, 5, 3, 2, 1});
    }

    TEST_CASE_FIXTURE(own_registry, "again and again: rounds of makes, keeps, frees, in parent and child") {
        journal                                                      log;
        batch_scope                                                  parent(r);
        batch_scope                                                  b(r);
        std::vector<handle<std::string>>                             texts;
        std::vector<std::pair<handle<std::uint64_t>, std::uint64_t>> numbers;
        for (std::uint64_t round = 0; round < 300; ++round) {
            std::uint64_t const n = round % 7 == 0 ? 30'000 : round % 5 * 50;
            for (std::uint64_t i = 0; i < n; ++i) {
                auto const h = b.make<std::uint64_t>(round + i);
                if (i % 3 == 0) b.free(h);
                else if (i % 100 == 1) numbers.emplace_back(h, round + i);
            }
            texts.push_back(b.make<std::string>(long_text + std::to_string(round)));
            if (round % 2) b.keep(texts.back());
            if (round % 3 == 0) b.keep_all();
            texts.push_back(parent.make<std::string>(long_text + std::to_string(round)));
            if (round % 4 == 3) {
                parent.free(texts[texts.size() - 2]);
                texts.erase(texts.end() - 2);
            }
        }
        b.keep_all();
        for (auto const& [h, value] : numbers) CHECK(*h == value);
        for (auto const h : texts) CHECK(h->starts_with(long_text));
        CHECK(b.usage().objects == 0);
        books.check_books();
    }

    TEST_CASE_FIXTURE(own_registry, "what is freed before is not in the way, be it the oldest or the newest") {
        journal     log;
        batch_scope parent(r);
        parent.make<traced>(log, 1);
        batch_scope b(r);
        auto const  oldest = b.make<traced>(log, 2);
        b.make<traced>(log, 3);
        auto const newest = b.make<traced>(log, 4);
        b.free(oldest);
        b.free(newest);
        b.keep_all();
        b.make<traced>(log, 5);
        b.keep_all();
        b.end();
        CHECK(log.ended == std::vector{2, 4});
        parent.end();
        CHECK(log.ended == std::vector{2, 4, 5, 3, 1});
    }

    TEST_CASE_FIXTURE(own_registry, "what another thread gave away before, and frees later, is in neither's list") {
        journal     log;
        batch_scope parent(r);
        auto const  id = r.new_batch();
        for (std::size_t const more : {0u, 100'000u}) {
            batch_scope                 b(r);
            std::vector<handle<traced>> theirs;
            for (int i = 0; i < 10; ++i) {
                b.make<traced>(log, 1);
                theirs.push_back(b.make<traced>(log, 2));
            }
            fill(b, more);
            std::jthread([&] {
                for (auto const h : theirs) r.transfer_ownership(h, id);
            }).join();
            b.keep_all();
            std::jthread([&] {
                for (auto const h : theirs) r.free(h);
            }).join();
            CHECK(log.ended == std::vector(10, 2));
            fill(b, 20'000);
            b.end();
            fill(parent, 20'000);
            log.ended.clear();
        }
        parent.end();
        CHECK(log.ended == std::vector(20, 1));
        r.end_batch(id);
    }

    TEST_CASE_FIXTURE(own_registry, "what others gave goes along; what it gave to others stays with them") {
        journal     log;
        batch_scope far(r), parent(r);
        auto const  came  = far.make<traced>(log, 1);
        auto const  plain = far.make<int>(2);
        auto const  mine  = far.make<std::string>(long_text);
        batch_scope b(r);
        r.transfer_ownership(came, b);
        r.transfer_ownership(plain, b);
        r.share(mine, b);
        auto const lent = b.make<std::string>(long_text);
        r.share(lent, far);
        auto const gone = b.make<std::string>(long_text);
        r.transfer_ownership(gone, far);
        handle<traced> below;
        {
            batch_scope c(r);
            below = c.keep(c.make<traced>(log, 3));
        }
        b.keep_all();
        b.end();
        CHECK(came.owner() == parent.id());
        CHECK(plain.owner() == parent.id());
        CHECK(below.owner() == parent.id());
        CHECK(gone.owner() == far.id());
        far.free(mine);
        CHECK(*mine == long_text);  // the parent has its share
        parent.end();
        CHECK(!mine.alive());
        CHECK(lent.alive());
        CHECK(*gone == long_text);
        CHECK(log.ended == std::vector{3, 1});
    }

    TEST_CASE_FIXTURE(own_registry, "small batches leave room for others: what is kept holds about what it is") {
        batch_scope                               cache(r);
        std::vector<handle<std::string>>          texts;
        std::vector<handle<std::array<char, 96>>> answers;
        for (int i = 0; i < 20'000; ++i) {
            batch_scope request(r);
            answers.push_back(request.make<std::array<char, 96>>());
            if (i % 4 == 0) texts.push_back(request.make<std::string>("short"));
            request.keep_all();
        }
        CHECK(cache.usage().retained < 2 * cache.usage().bytes);
        CHECK(cache.usage().objects == 25'000);
        for (auto const h : texts) CHECK(*h == "short");
    }

    TEST_CASE_FIXTURE(own_registry, "containers go on in the parent, and their memory with them") {
        batch_scope                   parent(r);
        std::pmr::vector<int>         parents(10, 1, parent.resource());
        handle<std::pmr::vector<int>> list;
        std::pmr::memory_resource*    memory = nullptr;
        for (int round = 0; round < 3; ++round) {
            batch_scope b(r);
            memory = b.resource();
            list   = b.make<std::pmr::vector<int>>(1000u, round, memory);
            std::pmr::string text(5000, 'x', memory);
            b.keep_all();
            CHECK(b.resource() != memory);
            text.append(100'000, 'y');  // in the parent
            list->resize(40'000, round);
            CHECK(b.usage().bytes == 0);
            b.end();
            CHECK(text.find('y') == 5000);
            list->push_back(9);
            CHECK(list->front() == round);
        }
        parents.resize(50'000, 2);
        CHECK(parents.front() == 1);
        parent.end();
        check_throws(errc::batch_ended, {"allocate from a former resource() of batch #"},
                     [&] { static_cast<void>(memory->allocate(100)); });
        parents = {};
    }

    TEST_CASE_FIXTURE(own_registry, "limits: the receiver's count, and refuse") {
        batch_scope outer(r, {.limits = {.hard = 1 << 20}});
        batch_scope parent(r, {.limits = {.hard = 300'000}});
        batch_scope b(r, {.limits = {.hard = 1 << 19}});
        auto const  small = fill(b, 10'000);
        b.keep_all();  // what counts below it counts already
        CHECK(is_filled(small));
        auto const bytes = parent.usage().bytes;
        auto const id    = r.new_batch({.limits = {.hard = 1000}}, outer.id());
        auto const more  = fill(b, 1000);
        check_throws(errc::limit_exceeded, {}, [&] { r.transfer_all(b, id); });
        CHECK(is_filled(more));
        CHECK(more.front().owner() == b.id());
        CHECK(b.usage().objects == 1000);
        r.transfer_all(b, outer);
        CHECK(more.front().owner() == outer.id());
        CHECK(parent.usage().bytes == bytes);
        // What went is no longer counted here: as much fits again as did at first.
        auto const again = fill(b, (300'000 - bytes) / sizeof(std::uint64_t) - 100);
        CHECK(is_filled(again));
        check_throws(errc::limit_exceeded, {}, [&] { fill(b, 1000); });
        r.end_batch(id);
    }

    TEST_CASE_FIXTURE(own_registry, "stores: objects stay in the one where they are") {
        auto const                         near = tenure::any_store(std::make_shared<tenure::heap_store>());
        journal                            log;
        batch_scope                        parent(r);
        std::vector<handle<std::uint64_t>> numbers;
        {
            batch_scope b(r, {.store = near});
            some const  all(b, log);
            numbers = fill(b);
            b.keep_all();
            b.end();
            all.check();
            for (batch_id const id : all.owners()) CHECK(id == parent.id());
        }
        CHECK(is_filled(numbers));
        CHECK(near.usage().blocks > 0);
        parent.end();
        r.trim();
        CHECK(near.usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(own_registry, "to a batch of another thread, and to one without a guard") {
        journal     log;
        auto const  id = r.new_batch({.name = "published"});
        batch_scope b(r);
        for (std::size_t const more : {0u, 100'000u}) {
            auto const text    = b.make<std::string>(long_text);
            auto const traced_ = b.make<traced>(log, static_cast<int>(more));
            auto const large   = b.make<std::string[]>(4000, long_text);
            auto const buffer  = b.make_buffer<int>(5);
            auto const numbers = fill(b, more);
            with_another_inside(r, id, [&] { r.transfer_all(b, id); });
            CHECK(b.usage().objects == 0);
            for (batch_id const owner : {text.owner(), traced_.owner(), large.owner(), buffer.owner()})
                CHECK(owner == id);
            CHECK(is_filled(numbers));
            auto const alone = b.make<std::string>(long_text);
            r.transfer_all(b, id);
            CHECK(alone.owner() == id);
            CHECK(*text == long_text);
            CHECK(large[3999] == long_text);
            r.free(text);
            CHECK(*alone == long_text);
            auto const in = r.enter(id);
            tenure::make<int>(1);
            books.check_books();
        }
        r.end_batch(id);
        CHECK(log.ended == std::vector{100'000, 0});
    }

    TEST_CASE_FIXTURE(own_registry, "to a batch in which nothing was made so far") {
        auto const  id = r.new_batch();
        batch_scope b(r);
        auto const  numbers = fill(b);
        r.transfer_all(b, id);
        batch_scope(r).make<int>(1);  // so that the thread has a unit in stock
        auto const in = r.enter(id);
        tenure::make<int>(1);
        books.check_books();
        CHECK(is_filled(numbers));
        r.end_batch(id);
    }

    TEST_CASE_FIXTURE(own_registry, "with a resource() only to where this thread makes") {
        auto const            id = r.new_batch({.name = "elsewhere"});
        batch_scope           b(r, {.name = "draft"});
        std::pmr::vector<int> list(100, 1, b.resource());
        with_another_inside(r, id, [&] {
            check_throws(errc::not_self_contained, {"transfer all of batch 'draft'"},
                         [&] { r.transfer_all(b, id); });
        });
        list.resize(200, 2);
        CHECK(b.usage().bytes > 0);
        r.transfer_all(b, id);
        CHECK(b.usage().bytes == 0);
        list.resize(300, 3);
        CHECK(list.front() == 1);
        CHECK(r.try_transfer_all(id, id));
        list = {};
        r.end_batch(id);
    }

    TEST_CASE_FIXTURE(own_registry, "what cannot be given is refused, and nothing was done") {
        batch_scope parent(r, {.name = "parent"});
        batch_scope b(r, {.name = "draft"});
        auto const  text    = b.make<std::string>(long_text);
        auto const  refused = [&](errc why) {
            check_throws(why, {"keep all of batch "}, [&] { b.keep_all(); });
            CHECK(b.try_keep_all().error() == why);
            CHECK(text.owner() == b.id());
            CHECK(b.usage().objects == 1);
        };
        {
            batch_scope const below(r);
            refused(errc::batch_in_use);
        }
        {
            tenure::lane const lane = b.lane();
            refused(errc::batch_in_use);
        }
        {
            auto const held = tenure::pin(text);
            refused(errc::batch_in_use);
        }
        {
            batch_scope user(r);
            user.borrow(text);
            user.detach();
        }
        refused(errc::batch_in_use);
        for (auto const& info : r.snapshot().batches)
            if (info.parent == b.id()) r.end_batch(info.id);
        with_another_inside(r, b.id(), [&] { check_throws(errc::batch_in_use, {}, [&] { b.keep_all(); }); });
        std::jthread([&] { check_throws(errc::wrong_thread, {"batch 'draft'"}, [&] { b.keep_all(); }); }).join();
        check_throws(errc::not_owner, {}, [&] { r.transfer_all(r.root(), b); });
        check_throws(errc::no_such_batch, {}, [&] { r.transfer_all(b, batch_id{~std::uint64_t{0} >> 1}); });
        batch_id const over = batch_scope(r).id();
        check_throws(errc::batch_ended, {}, [&] { r.transfer_all(b, over); });
        CHECK(text.owner() == b.id());
        b.end();
        check_throws(errc::batch_ended, {"batch 'draft'"}, [&] { b.keep_all(); });
    }

    TEST_CASE_FIXTURE(own_registry, "under the parent's checkpoint nothing comes") {
        batch_scope parent(r);
        parent.checkpoint();
        batch_scope b(r);
        b.make<int>(1);
        CHECK(b.try_keep_all().error() == errc::not_restorable);
        b.clear();
        parent.commit();
        auto const h = b.make<int>(2);
        b.checkpoint();
        CHECK(b.try_keep_all().error() == errc::not_restorable);
        CHECK(h.owner() == b.id());
        b.commit();
        b.keep_all();
        CHECK(h.owner() == parent.id());
        parent.checkpoint();
        parent.make<std::string>(long_text);
        parent.rollback();
        CHECK(*h == 2);
    }

    TEST_CASE_FIXTURE(own_registry, "discard() does not take it back, but what was kept one by one") {
        batch_scope parent(r);
        batch_scope b(r);
        auto const  one = b.keep(b.make<std::string>(long_text));
        auto const  all = b.make<std::string>(long_text);
        b.keep_all();
        b.make<int>(1);
        b.discard();
        CHECK(!one.alive());
        CHECK(*all == long_text);
    }

    TEST_CASE_FIXTURE(own_registry, "what has gone is no longer kept from the batch") {
        batch_scope parent(r);
        batch_scope b(r);
        auto const  a = b.make<int>(1), c = b.make<int>(2), d = b.make<int>(3);
        b.keep(a);
        b.keep(c);
        b.keep_all();
        b.keep(d);  // it is the parent's already
        CHECK(d.owner() == parent.id());
        CHECK(parent.usage().objects == 3);
        parent.free(d);
        CHECK(!d.alive());
        CHECK(parent.usage().objects == 2);
        books.check_books();
    }

    TEST_CASE("a batch that was in the page file") {
        registry r;
        for (std::size_t const many : {1000u, 200'000u}) {
            batch_scope parent(r);
            auto const  id = r.new_batch({.residency = tenure::residency::paged_when_left}, parent.id());
            std::vector<handle<std::uint64_t>> all;
            {
                auto const in = r.enter(id);
                for (std::uint64_t i = 0; i < many; ++i) all.push_back(tenure::make<std::uint64_t>(i));
            }
            r.page_out(id);
            r.transfer_all(id, parent);
            for (std::uint64_t i = 0; i < many; ++i) *all[i] = i + 1;
            std::vector<handle<std::uint64_t>> later;
            {
                auto const in = r.enter(id);
                for (std::uint64_t i = 0; i < many; ++i) later.push_back(tenure::make<std::uint64_t>(i));
            }
            r.page_out(id);
            {
                auto const in = r.enter(id);
                CHECK(is_filled(later));
            }
            for (std::uint64_t i = 0; i < many; ++i) CHECK(*all[i] == i + 1);
            r.end_batch(id);
            for (std::uint64_t i = 0; i < many; ++i) CHECK(*all[i] == i + 1);
            CHECK(all.back().owner() == parent.id());
        }
        CHECK(r.snapshot().batches.size() == 1);
    }

    TEST_CASE("memory in which nothing was made does not go out with a batch that has given all") {
        registry               r;
        batch_scope            full(r, {.limits = {.hard = 0}});
        tenure::batch_id const id = r.new_batch({.residency = tenure::residency::paged_when_left}, full.id());
        {
            auto const in = r.enter(id);
            CHECK(!tenure::try_make<int>(1));
        }
        CHECK(r.usage(id).retained > 0);
        r.transfer_all(id, full.id());
        r.page_out(id);
        CHECK(r.usage(id).retained == 0);
        CHECK(r.usage(id).paged_out == 0);
        r.end_batch(id);
    }

    TEST_CASE_FIXTURE(own_registry, "a share of what is the receiver's own memory falls to that") {
        // The parent fills a unit in which the child owns something: an object of a batch that has ended.
        for (std::size_t const more : {0u, 100'000u}) {
            batch_scope parent(r);
            batch_scope b(r);
            auto const  gone = r.new_batch();
            auto const  far  = r.new_batch();
            handle<int> left, others;
            {
                auto const in = r.enter(gone);
                left          = tenure::make<int>(1);
                tenure::make<std::array<char, 20'000>>();
                others = tenure::make<int>(2);
                tenure::make<std::array<char, 20'000>>();
                r.transfer_ownership(left, b);
                r.transfer_ownership(others, far);
            }
            r.end_batch(gone);
            auto const before = r.snapshot().memory.held;
            auto const filled = parent.make<std::array<char, 4000>>();
            CHECK(r.snapshot().memory.held == before);  // in the same unit
            fill(b, more);
            b.keep_all();
            b.end();
            CHECK(left.owner() == parent.id());
            CHECK(filled.alive());
            parent.end();
            CHECK(!left.alive());
            CHECK(*others == 2);
            r.end_batch(far);
        }
    }

    TEST_CASE_FIXTURE(own_registry, "a large batch gives what it uses, and the rest of its last unit can be used") {
        batch_scope parent(r);
        batch_scope b(r);
        fill(b, 150'000);
        CHECK(b.usage().retained > b.usage().bytes + 2 * 65'536);
        b.keep_all();
        CHECK(parent.usage().retained < parent.usage().bytes + 65'536);
        auto const retained = parent.usage().retained;
        while (parent.usage().bytes + 8'192 < retained) parent.make<std::array<char, 100>>();
        CHECK(parent.usage().retained == retained);
    }

    TEST_CASE_FIXTURE(own_registry, "what other threads give in the meantime goes along") {
        batch_scope                      parent(r);
        batch_scope                      b(r);
        auto const                       id = r.new_batch();
        std::vector<handle<std::string>> theirs;
        {
            auto const in = r.enter(id);
            for (int i = 0; i < 10; ++i) theirs.push_back(tenure::make<std::string>(long_text));
        }
        b.make<std::string>(long_text);
        std::jthread([&] {
            for (auto const h : theirs) r.transfer_ownership(h, b);
        }).join();
        b.keep_all();
        b.end();
        r.end_batch(id);
        for (auto const h : theirs) CHECK(*h == long_text);
        CHECK(theirs.front().owner() == parent.id());
    }

    TEST_CASE_FIXTURE(own_registry, "other threads free and transfer what came from the batch, meanwhile") {
        batch_scope parent(r);
        auto const  id = r.new_batch({.name = "others'"}, parent.id());
        for (int round = 0; round < 50; ++round) {
            batch_scope                      b(r);
            std::vector<handle<std::string>> theirs, ours;
            for (int i = 0; i < 400; ++i) {
                ours.push_back(b.make<std::string>(long_text));
                theirs.push_back(b.make<std::string>(long_text));
                if (round % 2) fill(b, 200);
            }
            std::jthread([&] {
                for (auto const h : theirs) r.transfer_ownership(h, id);
            }).join();
            std::jthread other([&] {
                for (auto const h : theirs) r.free(h);
            });
            while (!b.try_keep_all()) std::this_thread::yield();
            b.end();
            other.join();
            for (auto const h : ours) CHECK(*h == long_text);
            for (auto const h : theirs) CHECK(!h.alive());
            std::jthread([&] {
                for (std::size_t i = 0; i < ours.size(); i += 2) r.free(ours[i]);
            }).join();
            for (std::size_t i = 1; i < ours.size(); i += 2) CHECK(ours[i].owner() == parent.id());
        }
        r.end_batch(id);
    }
}
