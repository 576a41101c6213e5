// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Checkpoints, and the way back to them.

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/store/mmap.hpp>
#include <tenure/tenure.hpp>
#include <tenure/testing/faulty_store.hpp>

#include "accounting.hpp"
#include "journal.hpp"
#include "stores/plain_store.hpp"
#include "temporary.hpp"
#include "throws.hpp"

using tenure::batch_id;
using tenure::batch_scope;
using tenure::buffer;
using tenure::errc;
using tenure::handle;
using tenure::registry;

namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

/// Its destructor says so; what it has lies in itself.
struct noted {
    journal* where;
    int      number;

    noted(journal& j, int n) : where(&j), number(n) { ++j.alive; }
    ~noted() {
        --where->alive;
        where->ended.push_back(number);
    }
    noted(noted const&)            = delete;
    noted& operator=(noted const&) = delete;
};

using numbers = std::pmr::vector<std::uint64_t>;

numbers& make_numbers(batch_scope& b) { return *b.make<numbers>(b.resource()); }

std::vector<std::uint64_t> contents(buffer<std::uint64_t> const& b) {
    std::vector<std::uint64_t> out(b.size());
    b.read(0, out);
    return out;
}

/// Its destructor is whatever a test wants.
struct calls_at_end {
    std::function<void()>& f;

    explicit calls_at_end(std::function<void()>& g) : f(g) {}
    ~calls_at_end() { f(); }
    calls_at_end(calls_at_end const&)            = delete;
    calls_at_end& operator=(calls_at_end const&) = delete;
};

/// A hang is an end of the program, with a reason, after half a minute.
class deadline {
public:
    explicit deadline(char const* what) : thread_([this, what] { watch(what); }) {}
    ~deadline() {
        {
            std::scoped_lock const guard(mutex_);
            over_ = true;
        }
        bell_.notify_one();
        thread_.join();
    }
    deadline(deadline const&)            = delete;
    deadline& operator=(deadline const&) = delete;

private:
    void watch(char const* what) {
        std::unique_lock guard(mutex_);
        if (bell_.wait_for(guard, std::chrono::seconds(30), [&] { return over_; })) return;
        std::fprintf(stderr, "a hang: %s\n", what);
        std::abort();
    }

    std::mutex              mutex_;
    std::condition_variable bell_;
    bool                    over_ = false;
    std::thread             thread_;
};

}  // namespace

template <>
inline constexpr bool tenure::restorable<noted> = true;

TEST_SUITE("rollback") {
    TEST_CASE_FIXTURE(accounting, "brings back what objects were") {
        batch_scope b;
        auto const  small = b.make<int>(1);
        auto const  array = b.make<int[]>(100'000);  // a run of its own
        array[99'999]     = 7;
        b.checkpoint();
        *small        = 2;
        array[0]      = 3;
        array[99'999] = 8;
        b.rollback();
        CHECK(*small == 1);
        CHECK(array[0] == 0);
        CHECK(array[99'999] == 7);
    }

    TEST_CASE_FIXTURE(accounting, "brings back containers of all kinds on the batch's own memory") {
        batch_scope b;
        auto* const memory   = b.resource();
        auto const  deque    = b.make<std::pmr::deque<int>>(memory);
        auto const  list     = b.make<std::pmr::list<int>>(memory);
        auto const  forward  = b.make<std::pmr::forward_list<int>>(memory);
        auto const  set      = b.make<std::pmr::set<int>>(memory);
        auto const  multiset = b.make<std::pmr::multiset<int>>(memory);
        auto const  map      = b.make<std::pmr::map<int, std::pmr::string>>(memory);
        auto const  multimap = b.make<std::pmr::multimap<int, int>>(memory);
        auto const  hashed   = b.make<std::pmr::unordered_map<int, std::pmr::vector<int>>>(memory);
        auto const  hashes   = b.make<std::pmr::unordered_multimap<int, int>>(memory);
        auto const  bag      = b.make<std::pmr::unordered_set<int>>(memory);
        auto const  bags     = b.make<std::pmr::unordered_multiset<int>>(memory);
        auto const  add      = [&](int from, int to) {
            for (int i = from; i < to; ++i) {
                deque->push_back(i);
                list->push_front(i);
                forward->push_front(i);
                set->insert(i);
                multiset->insert(i / 2);
                map->emplace(i, std::string(static_cast<std::size_t>(i), 'x'));
                multimap->emplace(i / 2, i);
                (*hashed)[i].assign(static_cast<std::size_t>(i), i);
                hashes->emplace(i / 2, i);
                bag->insert(i);
                bags->insert(i / 2);
            }
        };
        add(0, 100);
        auto const all = [&] {
            return std::tuple(*deque, *list, *forward, *set, *multiset, *map, *multimap, *hashed, *hashes, *bag,
                              *bags);
        };
        auto const before = all();
        b.checkpoint();
        add(100, 1000);
        set->erase(7);
        map->at(50) = "other";
        hashed->clear();
        CHECK(all() != before);
        b.rollback();
        CHECK(all() == before);
        add(100, 300);  // and they go on
        CHECK(map->size() == 300);
        CHECK(bags->size() == 300);
    }

    TEST_CASE_FIXTURE(accounting, "frees what was made since, newest first, and its handles are stale for ever") {
        journal     j;
        batch_scope b;
        auto const  old    = b.make<noted>(j, 0);
        auto const  before = b.usage();
        b.checkpoint();
        auto const made  = b.make<int>(5);
        auto const large = b.make<char[]>(MiB);
        b.make<noted>(j, 1);
        b.make<noted>(j, 2);
        std::vector<handle<std::array<char, 1000>>> many;
        for (int i = 0; i < 1000; ++i) many.push_back(b.make<std::array<char, 1000>>());
        b.rollback();
        CHECK(j.ended == std::vector{2, 1});
        CHECK(old.alive());
        CHECK_FALSE(made.alive());
        CHECK_FALSE(large.alive());
        for (auto const& h : many) REQUIRE_FALSE(h.alive());
        CHECK(b.usage().objects == before.objects);
        CHECK(b.usage().bytes == before.bytes);
        for (int i = 0; i < 5000; ++i) b.make<int>(i);
        CHECK_FALSE(made.alive());
        for (auto const& h : many) REQUIRE_FALSE(h.alive());
        auto const report = b.end();
        CHECK(report.made + report.received == report.kept + report.freed);
        CHECK(j.ended == std::vector{2, 1, 0});
    }

    TEST_CASE_FIXTURE(accounting, "while destructors run, what is older is still there, and what is newer is not") {
        struct looks {
            handle<looks> other;
            bool*         alive;

            looks(handle<looks> o, bool* a) : other(o), alive(a) {}
            ~looks() {
                if (alive) *alive = other.alive();
            }
        };
        bool        older = false, newer = true;
        batch_scope b;
        b.checkpoint();
        auto const first  = b.make<looks>(handle<looks>{}, &newer);
        auto const second = b.make<looks>(first, &older);
        first->other      = second;
        b.rollback();
        CHECK(older);
        CHECK_FALSE(newer);
    }

    TEST_CASE_FIXTURE(accounting, "a destructor finds the batch as it finds one that ends") {
        struct meddles {
            batch_scope* b;
            handle<int>  old;
            errc*        made;
            errc*        freed;

            ~meddles() {
                *made  = static_cast<errc>(b->try_make<int>(1).error().value());
                *freed = static_cast<errc>(b->try_free(old).error().value());
            }
        };
        errc        made{}, freed{};
        batch_scope b;
        auto const  old = b.make<int>(1);
        b.checkpoint();
        b.make<meddles>(&b, old, &made, &freed);
        b.rollback();
        CHECK(made == errc::batch_ended);
        CHECK(freed == errc::batch_ended);
        CHECK(*b.make<int>(2) == 2);
    }

    TEST_CASE_FIXTURE(accounting, "containers on resource() are as they were, however they grew") {
        batch_scope b;
        auto&       v = make_numbers(b);
        auto const  name =
            b.make<std::pmr::string>("a name that is too long for a string's own few bytes", b.resource());
        for (std::uint64_t i = 0; i < 20'000; ++i) v.push_back(i);  // has a large piece
        std::vector<std::uint64_t> const was(v.begin(), v.end());
        auto const                       before = b.usage();
        b.checkpoint();
        for (std::uint64_t i = 0; i < 100'000; ++i) v.push_back(i);  // gives that back, and gets others
        v[3] = 0;
        *name += " and more";
        b.rollback();
        CHECK(std::vector<std::uint64_t>(v.begin(), v.end()) == was);
        CHECK(*name == "a name that is too long for a string's own few bytes");
        CHECK(b.usage().bytes == before.bytes);
        v.assign(50'000, 1);
        CHECK(v[49'999] == 1);

        b.checkpoint();
        v.assign(200'000, 2);
        v.shrink_to_fit();
        b.commit();
        CHECK(v[199'999] == 2);
    }

    TEST_CASE_FIXTURE(accounting, "what a container gave back is freed at commit") {
        batch_scope b;
        auto&       v = make_numbers(b);
        v.resize(100'000);
        auto const before = b.usage();
        b.checkpoint();
        b.checkpoint();
        v = numbers(b.resource());
        CHECK(b.usage().bytes == before.bytes);
        b.commit();
        CHECK(b.usage().bytes == before.bytes);
        b.commit();
        CHECK(b.usage().bytes < 1000);
    }

    TEST_CASE_FIXTURE(accounting, "what was received since goes, what was given away since stays where it is") {
        journal       j;
        batch_scope   outer;
        batch_scope   b;
        handle<int>   early, late, mine;
        handle<noted> with_end;
        {
            batch_scope inner;
            early = inner.make<int>(1);
            late  = inner.make<int>(2);
            inner.keep(early);
            b.checkpoint();
            with_end = inner.make<noted>(j, 7);
            inner.keep(late);
            inner.keep(with_end);
            mine = b.make<int>(3);
            b.keep(mine);
            *early = 10;
            *late  = 20;
            *mine  = 30;
            b.rollback();
            CHECK(*early == 1);
            CHECK_FALSE(late.alive());
            CHECK_FALSE(with_end.alive());
            CHECK(j.ended == std::vector{7});
            CHECK(*mine == 30);
            CHECK(mine.owner() == outer.id());
            auto const other = inner.make<int>(4);
            CHECK(*other == 4);
        }
        CHECK(*early == 1);
        b.checkpoint();
        *early = 2;
        b.rollback();
        CHECK(*early == 1);
    }

    TEST_CASE_FIXTURE(accounting,
                      "what another thread gave away before stays in its list until it is gone there, too") {
        registry&   r = registry::global();
        journal     j;
        batch_scope outer;
        {
            batch_scope b;
            for (bool const has_more : {false, true})
                for (bool const ends_before : {false, true}) {
                    CAPTURE(has_more);
                    CAPTURE(ends_before);
                    batch_id const other = r.new_batch({}, outer.id());
                    handle<noted>  given;
                    handle<int>    own;
                    {
                        batch_scope inner;
                        given = inner.make<noted>(j, 1);
                        own   = inner.make<int>(5);
                        inner.keep(given);
                        if (has_more) inner.keep(own);
                    }
                    std::jthread([&] { r.transfer_ownership(given, other); }).join();
                    b.checkpoint();
                    if (ends_before) r.end_batch(other);
                    b.rollback();
                    if (!ends_before) {
                        CHECK(given->number == 1);
                        r.end_batch(other);
                    }
                    CHECK_FALSE(given.alive());
                    check_books();
                    for (int i = 0; i < 20'000; ++i) b.make<std::uint64_t>(~std::uint64_t{0});  // in every hole
                    if (has_more) CHECK(*own == 5);
                }
        }
        CHECK(j.ended == std::vector{1, 1, 1, 1});
        outer.end();
    }

    TEST_CASE_FIXTURE(accounting, "what others own between its objects is left alone") {
        batch_scope              outer;
        batch_scope              b;
        std::vector<handle<int>> all;
        for (int i = 0; i < 30'000; ++i) all.push_back(b.make<int>(i));
        for (std::size_t i = 0; i < all.size(); i += 3) b.keep(all[i]);
        b.checkpoint();
        for (auto const& h : all) *h = -1;
        b.rollback();
        for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(*all[i] == (i % 3 ? static_cast<int>(i) : -1));
    }

    TEST_CASE_FIXTURE(accounting, "in holes that were filled") {
        batch_scope              b;
        std::vector<handle<int>> kept;
        for (int round = 0; round < 20; ++round) {
            batch_scope inner;
            for (int i = 0; i < 5000; ++i) {
                auto const h = inner.make<int>(i);
                if (i % 1000 == 0) kept.push_back(inner.keep(h));
            }
        }
        for (int i = 0; i < 2000; ++i) kept.push_back(b.make<int>(i));  // in holes
        std::vector<int> was;
        for (auto const& h : kept) was.push_back(*h);
        for (int round = 0; round < 3; ++round) {
            b.checkpoint();
            for (auto const& h : kept) *h = -1;
            std::vector<handle<int>> newer;
            for (int i = 0; i < 5000; ++i) newer.push_back(b.make<int>(i));
            b.rollback();
            for (std::size_t i = 0; i < kept.size(); ++i) REQUIRE(*kept[i] == was[i]);
            for (auto const& h : newer) REQUIRE_FALSE(h.alive());
            for (int i = 0; i < 2000; ++i) {
                kept.push_back(b.make<int>(i));
                was.push_back(i);
            }
        }
    }

    TEST_CASE_FIXTURE(accounting, "of what a lane made, too") {
        batch_scope b;
        auto const  make_in_lane = [&](int n) {
            auto        l = b.lane();
            handle<int> out;
            std::thread([&] {
                out = l.make<int>(n);
                for (int i = 0; i < 20'000; ++i) l.make<int>(i);
            }).join();
            return out;
        };
        auto const old = make_in_lane(1);
        b.checkpoint();
        auto const newer = make_in_lane(2);
        *old             = 3;
        b.rollback();
        CHECK(*old == 1);
        CHECK_FALSE(newer.alive());
        CHECK(*make_in_lane(4) == 4);
    }

    TEST_CASE_FIXTURE(accounting, "of the bytes of buffers, in their stores") {
        temporary_directory here;
        batch_scope         b;
        for (tenure::any_store const& store :
             {tenure::any_store(), tenure::any_store(std::make_shared<tenure::mmap_store>(here.path()))}) {
            auto const old = b.make_buffer<std::uint64_t>(10'000, store);
            old.write(0, std::vector<std::uint64_t>(10'000, 1));
            auto const before = b.usage();
            b.checkpoint();
            old.write(5000, std::vector<std::uint64_t>(10, 2));
            auto const newer = b.make_buffer<std::uint64_t>(100, store);
            b.rollback();
            CHECK(contents(old) == std::vector<std::uint64_t>(10'000, 1));
            CHECK_FALSE(newer.alive());
            CHECK(b.usage().buffers == before.buffers);
            CHECK(b.usage().buffer_bytes == before.buffer_bytes);
        }
    }

    TEST_CASE_FIXTURE(accounting, "a store that cannot bring a buffer back says so, and is asked again") {
        auto const store =
            std::make_shared<tenure::faulty_store<tenure::heap_store>>(std::make_shared<tenure::heap_store>());
        journal     j;
        batch_scope b;
        auto const  value = b.make<int>(1);
        auto const  data  = b.make_buffer<std::uint64_t>(2, store);
        data.write(0, {{1, 1}});
        store->inject({.on = tenure::store_operation::copy});
        CHECK_THROWS_AS(b.checkpoint(), tenure::error);
        check_throws(errc::no_checkpoint, {}, [&] { b.commit(); });
        b.checkpoint();
        *value = 2;
        data.write(0, {{2, 2}});
        auto const newer = b.make<noted>(j, 1);
        store->inject({.on = tenure::store_operation::copy});
        check_throws(std::make_error_code(std::errc::io_error), {"roll back a buffer"}, [&] { b.rollback(); });
        CHECK(*value == 2);
        CHECK_FALSE(newer.alive());
        b.rollback();
        CHECK(*value == 1);
        CHECK(contents(data) == std::vector<std::uint64_t>{1, 1});
        CHECK(j.ended == std::vector{1});
        CHECK(b.usage().objects == 2);
        b.end();
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(accounting, "counts towards limits") {
        batch_scope b{{.limits = {.hard = MiB}}};
        b.make<char[]>(100 * KiB);
        for (int i = 0; i < 50; ++i) {
            b.checkpoint();
            b.make<char[]>(400 * KiB);
            b.make_buffer<char>(300 * KiB);
            for (int k = 0; k < 1000; ++k) b.make<std::array<char, 64>>();
            CHECK_THROWS_AS(b.make<char[]>(400 * KiB), tenure::error);
            b.rollback();
        }
        CHECK_NOTHROW(b.make<char[]>(900 * KiB));
    }

    TEST_CASE_FIXTURE(accounting, "again and again: memory does not grow") {
        batch_scope b;
        auto const  h = b.make<int>(0);
        for (int i = 0; i < 1000; ++i) {
            b.checkpoint();
            for (int k = 0; k < 100; ++k) b.make<int>(k);
            if (i % 2) b.commit();
            else b.rollback();
            if (i % 2) *h = i;
        }
        CHECK(b.usage().objects == 1 + 50'000);
        CHECK(b.usage().retained <= 2 * b.usage().bytes);
    }

    TEST_CASE("in a store that batches name, where pages cannot be taken") {
        temporary_directory here;
        batch_scope         b{{.store = std::make_shared<tenure::mmap_store>(here.path())}};
        auto const          h = b.make<int>(1);
        auto const          a = b.make<int[]>(100'000);
        b.checkpoint();
        *h    = 2;
        a[10] = 2;
        b.rollback();
        CHECK(*h == 1);
        CHECK(a[10] == 0);
    }
}

TEST_SUITE("nested checkpoints") {
    TEST_CASE_FIXTURE(accounting, "each goes back to its own") {
        batch_scope b;
        auto const  h = b.make<int[]>(50'000);
        h[0] = h[20'000] = h[40'000] = 1;
        b.checkpoint();
        h[0]          = 2;
        auto const in = b.make<int>(2);
        b.checkpoint();
        h[0] = h[20'000] = 3;
        *in              = 3;
        auto const inner = b.make<int>(3);
        b.rollback();
        CHECK(h[0] == 2);
        CHECK(h[20'000] == 1);
        CHECK(*in == 2);
        CHECK_FALSE(inner.alive());
        h[20'000] = h[40'000] = 4;
        b.rollback();
        CHECK(h[0] == 1);
        CHECK(h[20'000] == 1);
        CHECK(h[40'000] == 1);
        CHECK_FALSE(in.alive());
        check_throws(errc::no_checkpoint, {"roll back"}, [&] { b.rollback(); });
        check_throws(errc::no_checkpoint, {"commit"}, [&] { b.commit(); });
    }

    TEST_CASE_FIXTURE(accounting, "what an inner one commits, the outer one takes back") {
        batch_scope b;
        auto const  h = b.make<int[]>(50'000);
        b.checkpoint();
        b.checkpoint();
        h[0] = h[40'000] = 1;
        auto const made  = b.make<int>(1);
        b.commit();
        CHECK(*made == 1);
        h[20'000] = 1;
        b.rollback();
        CHECK(h[0] == 0);
        CHECK(h[20'000] == 0);
        CHECK(h[40'000] == 0);
        CHECK_FALSE(made.alive());
    }
}

TEST_SUITE("an open checkpoint") {
    TEST_CASE_FIXTURE(accounting, "what was there is not freed, given away or moved; what is newer may be") {
        batch_scope outer;
        batch_scope b;
        registry&   r    = registry::global();
        auto const  old  = b.make<int>(1);
        auto const  data = b.make_buffer<int>(10);
        b.checkpoint();
        auto const newer = b.make<int>(2), other = b.make<int>(3);
        check_throws(errc::not_restorable, {"free"}, [&] { b.free(old); });
        check_throws(errc::not_restorable, {"free"}, [&] { r.free(old); });
        check_throws(errc::not_restorable, {"keep"}, [&] { b.keep(old); });
        check_throws(errc::not_restorable, {"keep"}, [&] { b.keep(newer, old); });
        check_throws(errc::not_restorable, {"transfer"}, [&] { r.transfer_ownership(old, outer.id()); });
        check_throws(errc::not_restorable, {"move"}, [&] { data.move_to(std::make_shared<tenure::heap_store>()); });
        CHECK(newer.owner() == b.id());
        b.free(newer);
        b.keep(other);
        CHECK_FALSE(newer.alive());
        b.commit();
        b.free(old);
        CHECK_FALSE(old.alive());
    }

    TEST_CASE_FIXTURE(accounting, "is over when the batch ends") {
        handle<int> h;
        {
            batch_scope b;
            h = b.make<int>(1);
            b.checkpoint();
            *h = 2;
            b.checkpoint();
            *h = 3;
        }
        CHECK_FALSE(h.alive());
        batch_scope b;
        for (int i = 0; i < 10'000; ++i) *b.make<int>(i) = 0;  // the same memory: nothing watches it any more
    }

    TEST_CASE("keeps the batch in memory") {
        registry    r;
        auto const  id = r.new_batch({.residency = tenure::residency::paged_when_left});
        handle<int> h;
        {
            auto const inside = r.enter(id);
            h                 = tenure::make<int>(1);
            r.checkpoint(id);
            *h = 2;
        }
        CHECK(r.usage(id).paged_out == 0);
        check_throws(errc::batch_in_use, {"page out"}, [&] { r.page_out(id); });
        r.rollback(id);
        CHECK(*h == 1);
        CHECK(r.usage(id).paged_out > 0);  // left by the last who was at it
        r.checkpoint(id);
        *h = 3;
        r.commit(id);
        CHECK(*h == 3);
        r.end_batch(id);
    }
}

TEST_SUITE("refused") {
    TEST_CASE_FIXTURE(accounting, "with the name of what could not come back") {
        batch_scope b;
        auto const  checkpoint = [&] { b.checkpoint(); };
        auto const  text       = b.make<std::string>("on the heap");
        check_throws(errc::not_restorable, {"string"}, checkpoint);
        b.free(text);
        auto const strings = b.make<std::string[]>(3);
        check_throws(errc::not_restorable, {"string", "[]"}, checkpoint);
        b.free(strings);
        auto const vector = b.make<numbers>(std::pmr::get_default_resource());
        check_throws(errc::not_restorable, {"vector"}, checkpoint);
        b.free(vector);
        auto const file = b.adopt(std::tmpfile(), [](std::FILE* f) { std::fclose(f); });
        check_throws(errc::not_restorable, {"adopted", "FILE"}, checkpoint);
        b.free(file);
        {
            batch_scope other;
            other.defer([] {});
            check_throws(errc::not_restorable, {"deferred"}, [&] { other.checkpoint(); });
        }
        auto const data = b.make_buffer<int>(10, std::make_shared<plain_store<>>());
        check_throws(errc::not_restorable, {"buffer", "plain"}, checkpoint);
        b.free(data);
        b.checkpoint();
        b.commit();
    }

    TEST_CASE_FIXTURE(accounting, "where somebody else is inside") {
        registry&   r  = registry::global();
        auto const  id = r.new_batch();
        handle<int> h;
        {
            auto const inside = r.enter(id);
            h                 = tenure::make<int>(1);
            r.checkpoint(id);  // by who is inside alone
        }
        std::atomic<int> stage{0};
        std::thread      other([&] {
            auto const inside = r.enter(id);
            stage             = 1;
            while (stage == 1) std::this_thread::yield();
        });
        while (stage == 0) std::this_thread::yield();
        check_throws(errc::batch_in_use, {"checkpoint"}, [&] { r.checkpoint(id); });
        check_throws(errc::batch_in_use, {"roll back"}, [&] { r.rollback(id); });
        check_throws(errc::batch_in_use, {"commit"}, [&] { r.commit(id); });
        stage = 2;
        other.join();
        *h = 2;
        r.rollback(id);
        CHECK(*h == 1);
        auto const below = r.new_batch({}, id);
        check_throws(errc::batch_in_use, {"checkpoint"}, [&] { r.checkpoint(id); });
        r.end_batch(below);
        r.end_batch(id);
        check_throws(errc::batch_ended, {}, [&] { r.checkpoint(id); });
        check_throws(errc::no_such_batch, {}, [&] { r.rollback({1}); });
        check_throws(errc::batch_in_use, {}, [&] { r.checkpoint(r.root()); });
    }

    TEST_CASE("nobody comes in between: who frees, gives, makes and looks waits, or is refused") {
        registry                 r;
        auto const               id = r.new_batch({.name = "watched"}), elsewhere = r.new_batch();
        handle<int>              old;
        std::vector<handle<int>> many;
        {
            auto const inside = r.enter(id);
            old               = tenure::make<int>(1);
        }
        std::atomic<bool> over{false};
        std::atomic<int>  freed{0}, given{0};
        auto const        meddle = [&](int what) {
            while (!over) {
                handle<int> h;
                {
                    auto const inside = r.enter(what == 0 ? id : elsewhere);
                    h                 = tenure::make<int>(2);
                }
                if (what == 1) {
                    given += r.try_transfer_ownership(h, id).has_value();
                } else {
                    auto const done = r.try_free(h);
                    freed += done.has_value();
                    if (!done) CHECK((done.error() == errc::stale_handle || done.error() == errc::not_restorable));
                }
                static_cast<void>(r.snapshot());
            }
        };
        std::thread one([&] { meddle(0); }), other([&] { meddle(1); });
        auto const  until_it_can = [&](auto f) {
            for (;;) try {
                    return f();
                } catch (tenure::error const& e) {
                    REQUIRE(e.code() == errc::batch_in_use);
                }
        };
        constexpr int rounds = TENURE_SANITIZED ? 50 : 500;
        auto const    late   = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        auto const    idle = [&] { return (freed == 0 || given == 0) && std::chrono::steady_clock::now() < late; };
        for (int i = 0; i < rounds || idle(); ++i) {
            until_it_can([&] { r.checkpoint(id); });
            *old = i;
            if (i % 3) until_it_can([&] { r.commit(id); });
            else until_it_can([&] { r.rollback(id); });
            CHECK(*old == (i % 3 ? i : (i ? i - 1 : 1)));
        }
        over = true;
        one.join();
        other.join();
        CHECK(freed > 0);
        CHECK(given > 0);
        r.end_batch(id);
        r.end_batch(elsewhere);
        for (tenure::batch_info const& b : r.snapshot().batches) CHECK(b.usage.objects == 0);
    }

    TEST_CASE(
        "a destructor that runs in the rollback lets another thread pin, borrow and page out: refused at once") {
        registry              r;
        auto const            id = r.new_batch({.name = "watched"}), user = r.new_batch();
        handle<int>           old;
        std::atomic<bool>     asked{false};
        std::atomic<errc>     said{};
        std::function<void()> meanwhile = [&] {
            std::thread([&] {
                auto const done = r.try_borrow(user, old);
                if (!done && done.error().category() == tenure::error_category())
                    said = static_cast<errc>(done.error().value());
                check_throws(errc::batch_in_use, {"watched"}, [&] { r.page_out(id); });
                {
                    auto const here = r.enter(user);
                    check_throws(errc::batch_in_use, {"watched"}, [&] { static_cast<void>(tenure::pin(old)); });
                }
                asked = true;
            }).join();
        };
        {
            auto const inside = r.enter(id);
            old               = tenure::make<int>(1);
            r.checkpoint(id);
            *old = 2;
            static_cast<void>(tenure::make<calls_at_end>(meanwhile));
        }
        {
            deadline const here("rollback");
            r.rollback(id);
        }
        CHECK(asked);
        CHECK(said == errc::batch_in_use);
        CHECK(*old == 1);
        r.borrow(user, old);
        check_throws(errc::batch_in_use, {}, [&] { r.checkpoint(id); });
        r.end_batch(user);
        r.end_batch(id);
    }

    TEST_CASE("a destructor on another thread, which the rollback waits for, does not wait for that") {
        registry              r;
        auto const            id = r.new_batch(), other = r.new_batch();
        handle<int>           old;
        handle<calls_at_end>  given;
        std::atomic<bool>     began{false};
        std::error_code       said;
        std::thread           frees;
        std::function<void()> asks = [&] {
            began           = true;
            auto const done = r.try_free(old);  // of the batch that is just brought back
            if (!done) said = done.error();
        };
        std::function<void()> meanwhile = [&] {
            frees = std::thread([&] { CHECK(r.try_free(given).has_value()); });
            while (!began) std::this_thread::yield();
        };
        {
            auto const inside = r.enter(id);
            old               = tenure::make<int>(1);
            r.checkpoint(id);
            given = tenure::make<calls_at_end>(asks);  // stays in this thread's list when another gives it away
            static_cast<void>(tenure::make<calls_at_end>(meanwhile));
            std::thread([&] { r.transfer_ownership(given, other); }).join();
        }
        {
            deadline const here("rollback");
            r.rollback(id);
            frees.join();
        }
        CHECK(said == errc::batch_ended);
        CHECK(old.alive());
        r.end_batch(id);
        r.end_batch(other);
    }

    TEST_CASE("who asks to stop on another thread, which the rollback waits for, does not wait for that") {
        registry              r;
        batch_scope           above(r), b;
        auto const            old = b.make<int>(1);
        std::atomic<bool>     began{false};
        std::error_code       said;
        std::thread           ends;
        std::function<void()> meanwhile = [&] {
            ends = std::thread([&] { r.end_batch(above.id()); });
            while (!began) std::this_thread::yield();
        };
        auto const asks = [&] {
            began           = true;
            auto const done = r.try_free(old);  // of the batch that is just brought back
            if (!done) said = done.error();
        };
        std::stop_callback const asked(b.stop_token(), asks);
        b.checkpoint();
        static_cast<void>(b.make<calls_at_end>(meanwhile));
        {
            deadline const here("rollback");
            b.rollback();
            ends.join();
        }
        CHECK(said == errc::batch_ended);
        CHECK(old.alive());
    }

    TEST_CASE("two rollbacks whose destructors ask for each other's batch do not wait for each other") {
        registry         r;
        std::atomic<int> here{0}, asked{0};
        struct side {
            batch_id              id;
            handle<int>           old;
            std::error_code       said;
            std::function<void()> asks;
        };
        std::array<side, 2> sides;
        for (std::size_t i = 0; i < 2; ++i) {
            side &mine = sides[i], &others = sides[1 - i];
            mine.id   = r.new_batch();
            mine.asks = [&] {
                ++here;
                while (here < 2) std::this_thread::yield();
                auto const done = r.try_free(others.old);
                if (!done) mine.said = done.error();
                ++asked;
                while (asked < 2) std::this_thread::yield();  // neither is back before both have asked
            };
            auto const inside = r.enter(mine.id);
            mine.old          = tenure::make<int>(1);
            r.checkpoint(mine.id);
            static_cast<void>(tenure::make<calls_at_end>(mine.asks));
        }
        {
            deadline const now("two rollbacks");
            std::thread    other([&] { r.rollback(sides[1].id); });
            r.rollback(sides[0].id);
            other.join();
        }
        for (side const& s : sides) {
            CHECK(s.old.alive());
            CHECK(s.said == errc::batch_ended);
            r.end_batch(s.id);
        }
    }

    TEST_CASE("a deadline that comes while the batch goes back is acted on afterwards") {
        static std::atomic<std::uint64_t> now{1};
        registry                          r({.clock = +[]() noexcept { return now.load(); }});
        batch_scope                       b(r, {.timeout = std::chrono::seconds(1)});
        std::stop_token const             token = b.stop_token();
        std::function<void()>             late  = [&] {
            now += 2'000'000'000;
            r.expire_overdue();
        };
        b.checkpoint();
        static_cast<void>(b.make<calls_at_end>(late));
        b.rollback();
        now += 2'000'000;
        r.expire_overdue();
        CHECK(token.stop_requested());
        CHECK(r.status(b.id()) == tenure::batch_status::expired);
    }

    TEST_CASE("threads that write to what is watched need not be inside") {
        constexpr std::size_t each = 100'000, threads = 4;
        batch_scope           b;
        auto const            a = b.make<std::uint32_t[]>(each * threads);
        for (int round = 0; round < 3; ++round) {
            b.checkpoint();
            std::vector<std::thread> all;
            for (std::size_t t = 0; t < threads; ++t)  // neighbours on each page are different threads'
                all.emplace_back([&, t] {
                    for (std::size_t i = t; i < a.size(); i += threads) a[i] = static_cast<std::uint32_t>(i);
                });
            for (auto& t : all) t.join();
            for (std::size_t i = 0; i < a.size(); ++i) REQUIRE(a[i] == i);
            b.rollback();
            for (std::size_t i = 0; i < a.size(); ++i) REQUIRE(a[i] == 0);
        }
    }

    TEST_CASE_FIXTURE(accounting, "in a guard's batch by another thread") {
        batch_scope b;
        std::thread([&] {
            check_throws(errc::batch_in_use, {"checkpoint"}, [&] { registry::global().checkpoint(b.id()); });
        }).join();
    }
}

TEST_SUITE("on_exception") {
    TEST_CASE("the batch goes back before it ends") {
        registry    r;
        batch_id    id;
        handle<int> old, newer;
        try {
            batch_scope b{r, {.cleanup = tenure::cleanup::manual, .on_exception = tenure::on_exception::rollback}};
            id  = b.id();
            old = b.make<int>(1);
            b.checkpoint();
            *old = 2;
            b.checkpoint();
            *old  = 3;
            newer = b.make<int>(4);
            throw std::runtime_error("in the middle");
        } catch (std::runtime_error const&) {}
        CHECK(*old == 1);
        CHECK_FALSE(newer.alive());
        check_throws(errc::no_checkpoint, {}, [&] { r.commit(id); });
        r.destroy_batch(id);
    }

    TEST_CASE("not at the closing brace, and not without the option") {
        registry   r;
        auto const run = [&](tenure::on_exception what, bool throws) {
            batch_id    id;
            handle<int> old;
            try {
                batch_scope b{r, {.cleanup = tenure::cleanup::manual, .on_exception = what}};
                id  = b.id();
                old = b.make<int>(1);
                b.checkpoint();
                *old = 2;
                if (throws) throw std::runtime_error("in the middle");
            } catch (std::runtime_error const&) {}
            int const is = *old;
            r.destroy_batch(id);
            return is;
        };
        CHECK(run(tenure::on_exception::rollback, true) == 1);
        CHECK(run(tenure::on_exception::rollback, false) == 2);
        CHECK(run(tenure::on_exception::end, true) == 2);
        CHECK(run(tenure::on_exception::end, false) == 2);
    }

    TEST_CASE("a rollback that a store prevents is counted, and the batch ends as it is") {
        auto const store =
            std::make_shared<tenure::faulty_store<tenure::heap_store>>(std::make_shared<tenure::heap_store>());
        registry    r;
        batch_id    id;
        handle<int> value;
        try {
            batch_scope b{r, {.cleanup = tenure::cleanup::manual, .on_exception = tenure::on_exception::rollback}};
            id              = b.id();
            value           = b.make<int>(1);
            auto const data = b.make_buffer<std::uint64_t>(2, store);
            b.checkpoint();
            *value = 2;
            data.write(0, {{2, 2}});
            store->inject({.on = tenure::store_operation::copy});
            throw std::runtime_error("in the middle");
        } catch (std::runtime_error const&) {}
        CHECK(*value == 2);
        CHECK(r.snapshot().failed_rollbacks == 1);
        CHECK(r.snapshot().to_text().find("1 batches that an exception left could not be rolled back") !=
              std::string::npos);
        r.destroy_batch(id);
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE("an exception that was on its way before is none") {
        registry r;
        struct in_a_destructor {
            registry& r;
            int*      is;
            ~in_a_destructor() {
                handle<int> h;
                batch_id    id;
                {
                    batch_scope b{
                        r, {.cleanup = tenure::cleanup::manual, .on_exception = tenure::on_exception::rollback}};
                    id = b.id();
                    h  = b.make<int>(1);
                    b.checkpoint();
                    *h = 2;
                }
                *is = *h;
                r.destroy_batch(id);
            }
        };
        int is = 0;
        try {
            in_a_destructor const d{r, &is};
            throw std::runtime_error("on its way");
        } catch (std::runtime_error const&) {}
        CHECK(is == 2);
    }
}

// ---- random programs against a plain model
// -------------------------------------------------------------------------

namespace {

/// A batch with a parent and a child, and what must be in it.
class program {
public:
    explicit program(std::uint64_t seed) : dice_(seed) {}

    void run(int steps) {
        for (int i = 0; i < steps; ++i) {
            step();
            if (dice_() % 64 == 0) check();
        }
        check();
        while (!saved_.empty()) back();
        check();
    }

private:
    using array = std::array<std::uint64_t, 40>;

    /// An object of any kind, and what it should hold.
    struct thing {
        handle<std::uint64_t>   small;
        handle<array>           middle;
        handle<std::uint64_t[]> large;
        handle<numbers>         container;
        handle<noted>           ends;
        buffer<std::uint64_t>   data;
        std::uint64_t           value = 0;
        std::size_t             size  = 0;

        bool alive() const {
            return small.alive() || middle.alive() || large.alive() || container.alive() || ends.alive() ||
                   data.alive();
        }
        void write(std::uint64_t v, std::size_t n) {
            value = v;
            if (small.alive()) *small = v;
            if (middle.alive()) middle->back() = v;
            if (large.alive()) large[v % size] = large[0] = v;
            if (ends.alive()) ends->number = static_cast<int>(v % 1000);
            if (data.alive()) data.write(0, {{v, v + 1}});
            if (container.alive()) {
                container->assign(n, v);
                size = n;
                if (n % 3 == 0) container->shrink_to_fit();
            }
        }
        void check() const {
            if (small.alive()) CHECK(*small == value);
            if (middle.alive()) CHECK(middle->back() == value);
            if (large.alive()) CHECK((large[0] == value && large[value % size] == value));
            if (ends.alive()) CHECK(ends->number == static_cast<int>(value % 1000));
            if (container.alive()) CHECK((*container == numbers(size, value)));
            if (data.alive()) {
                std::array<std::uint64_t, 2> is{};
                data.read(0, is);
                CHECK((is[0] == value && is[1] == value + 1));
            }
        }
    };
    using things = std::map<int, thing>;

    struct point {
        things      mine;
        std::size_t objects, bytes, buffer_bytes;
    };

    thing make(batch_scope& in, bool plain) {
        thing t;
        t.size = 1;
        switch (dice_() % (plain ? 2 : 12)) {
        case 0: t.middle = in.make<array>(); break;
        case 1:
        case 2:
        case 3:
        case 4: t.small = in.make<std::uint64_t>(); break;
        case 5:
            t.size  = 8'000 + dice_() % 10'000;
            t.large = in.make<std::uint64_t[]>(t.size);
            break;
        case 6:
        case 7: t.container = in.make<numbers>(in.resource()); break;
        case 8:
        case 9: t.ends = in.make<noted>(journal_, 0); break;
        default: t.data = in.make_buffer<std::uint64_t>(2 + dice_() % 3); break;
        }
        t.write(dice_(), dice_() % 20);
        return t;
    }

    template <class F>
    void with_handle(thing const& t, F f) {
        if (t.small.alive()) f(t.small);
        else if (t.middle.alive()) f(t.middle);
        else if (t.large.alive()) f(t.large);
        else if (t.ends.alive()) f(t.ends);
        else if (t.data.alive()) f(t.data);
    }

    bool is_old(int name) const { return !saved_.empty() && saved_.back().mine.contains(name); }

    void step() {
        auto const pick = [&](things& from) {
            return std::next(from.begin(), static_cast<long>(dice_() % from.size()));
        };
        switch (dice_() % 24) {
        case 0:
            if (saved_.size() > 3) break;
            b_.checkpoint();
            saved_.push_back({mine_, b_.usage().objects, b_.usage().bytes, b_.usage().buffer_bytes});
            break;
        case 1:
            if (!saved_.empty() && dice_() % 2) back();
            break;
        case 2:
            if (saved_.empty()) break;
            b_.commit();
            saved_.pop_back();
            break;
        case 3:
        case 4: {  // freed, where that can be
            if (mine_.empty()) break;
            auto const it   = pick(mine_);
            bool const old  = is_old(it->first);
            bool       gone = false;
            with_handle(it->second, [&](auto h) {
                auto const done = b_.try_free(h);
                CHECK(done.has_value() != old);
                if (old) CHECK(done.error() == errc::not_restorable);
                gone = done.has_value();
            });
            if (gone) mine_.erase(it);
            break;
        }
        case 5: {  // kept
            if (mine_.empty()) break;
            auto const it   = pick(mine_);
            bool const old  = is_old(it->first);
            bool       gone = false;
            with_handle(it->second, [&](auto h) {
                auto const done = b_.try_keep(h);
                CHECK(done.has_value() != old);
                gone = done.has_value();
            });
            if (gone) above_.insert(mine_.extract(it));
            break;
        }
        case 6: {  // received from a batch that ends, or goes on
            if (dice_() % 4 == 0) below_.reset();
            if (!below_) below_.emplace(tenure::below(b_));
            for (int i = 0; i < 50; ++i) {
                thing const t = make(*below_, true);
                if (dice_() % 8) continue;
                with_handle(t, [&](auto h) { below_->keep(h); });
                mine_.emplace(++last_, t);
            }
            break;
        }
        case 7:
        case 8:
        case 9:
            if (!above_.empty()) pick(above_)->second.write(dice_(), dice_() % 20);
            break;
        case 10:
        case 11:
        case 12:
        case 13:
        case 14:
        case 15:
        case 16:
            if (!mine_.empty()) pick(mine_)->second.write(dice_(), dice_() % (dice_() % 16 ? 30 : 20'000));
            break;
        default:
            for (std::uint64_t n = dice_() % 30; n-- > 0;) mine_.emplace(++last_, make(b_, false));
        }
    }

    void back() {
        things const now = mine_;
        b_.rollback();
        mine_ = saved_.back().mine;
        CHECK(b_.usage().objects == saved_.back().objects);
        CHECK(b_.usage().bytes == saved_.back().bytes);
        CHECK(b_.usage().buffer_bytes == saved_.back().buffer_bytes);
        saved_.pop_back();
        for (auto const& [name, t] : now)
            if (!mine_.contains(name)) REQUIRE_FALSE(t.alive());
    }

    void check() {
        for (auto const& [name, t] : mine_) {
            REQUIRE(t.alive());
            t.check();
        }
        for (auto const& [name, t] : above_) {
            REQUIRE(t.alive());
            t.check();
        }
        CHECK(books_error(registry::global().snapshot()) == "");
    }

    std::mt19937_64            dice_;
    journal                    journal_;
    batch_scope                above_scope_;
    batch_scope                b_{{.limits = {.hard = 1024 * MiB}}};
    std::optional<batch_scope> below_;
    things                     mine_, above_;
    std::vector<point>         saved_;
    int                        last_ = 0;
};

}  // namespace

TEST_CASE_FIXTURE(accounting, "random programs") {
    char const* const asked     = std::getenv("TENURE_STEPS");
    char const* const seeded    = std::getenv("TENURE_SEED");
    int const         steps     = asked ? std::atoi(asked) : TENURE_SANITIZED ? 2000 : 20'000;
    std::uint64_t     seed      = seeded ? std::strtoull(seeded, nullptr, 10) : 1;
    constexpr int     a_program = 1000;
    for (int done = 0; done < steps; done += a_program, ++seed) {
        INFO("TENURE_SEED=" << seed);
        program(seed).run(a_program);
    }
}
