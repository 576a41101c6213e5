// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What requests keep, in caches that outlive them, holds about what it is: others make their objects around it.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <tenure/detail/objects/recycle.hpp>
#include <tenure/store/mmap.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"

namespace {

using tenure::batch_id;
using tenure::batch_scope;
using tenure::below;
using tenure::errc;
using tenure::handle;
using tenure::registry;

constexpr std::size_t unit_size    = 65'536;
constexpr std::size_t request_size = 58 * 1024;

template <std::size_t Bytes>
struct sized {
    explicit sized(std::uint64_t n) noexcept { std::ranges::fill(words, n); }
    bool is(std::uint64_t n) const {
        return std::ranges::all_of(words, [&](std::uint64_t w) { return w == n; });
    }
    std::array<std::uint64_t, Bytes / 8> words;
};
using answer = sized<96>;

/// Has a destructor, and memory elsewhere.
struct text {
    explicit text(std::uint64_t n) : value(told(n)) { ++alive; }
    ~text() { --alive; }
    text(text const&)            = delete;
    text& operator=(text const&) = delete;

    bool is(std::uint64_t n) const { return value == told(n); }

    static std::string told(std::uint64_t n) {
        return "answer number " + std::to_string(n) + ", told at some length";
    }

    static inline std::atomic<int> alive{0};
    std::string                    value;
};

/// Makes what a request makes, and returns one of it: the `which`-th.
template <class T>
handle<T> make_all(batch_scope& request, std::uint64_t number, std::size_t which) {
    handle<T> kept;
    for (std::size_t i = 0, n = request_size / sizeof(T); i < n; ++i) {
        auto const h = request.make<T>(number);
        if (i == which % n) kept = h;
    }
    return kept;
}

template <class T>
std::size_t held_for(std::size_t requests, std::size_t which) {
    registry               r;
    batch_scope            server(r);
    batch_scope            cache{below(server)};
    std::vector<handle<T>> answers;
    for (std::uint64_t i = 0; i < requests; ++i) {
        batch_scope request{below(server)};
        answers.push_back(make_all<T>(request, i, which));
        r.transfer_ownership(answers.back(), cache.id());
    }
    for (std::uint64_t i = 0; i < requests; ++i) CHECK(answers[i]->is(i));
    return r.usage().held;
}

/// Makes objects in `b` until one lies in the 64 KiB of `p`, or 16 MiB are made. Returns whether one does.
bool comes_beside(batch_scope& b, void const* p) {
    auto const unit_of = [](void const* at) { return reinterpret_cast<std::uintptr_t>(at) / unit_size; };
    for (std::size_t i = 0; i < (std::size_t{16} << 20) / sizeof(answer); ++i)
        if (unit_of(b.make<answer>(i).get()) == unit_of(p)) return true;
    return false;
}

/// An answer in a batch that lives on, and in whose 64 KiB there is room.
template <class T = answer>
handle<T> make_kept(registry& r, batch_scope& owner, std::uint64_t number = 1) {
    batch_scope request(r);
    auto const  h = request.make<T>(number);
    request.make<answer>(2u);
    r.transfer_ownership(h, owner.id());
    return h;
}

}  // namespace

TEST_SUITE("what requests keep") {
    TEST_CASE("holds about what it is, wherever in the request it was made") {
        constexpr std::size_t n = TENURE_SANITIZED ? 1'000 : 10'000;
        for (std::size_t const which : {0u, 300u, 600u})
            CHECK(held_for<answer>(n, which) < n * 96 * 5 / 2 + 4 * unit_size);
        CHECK(held_for<text>(n, 0) < n * 64 * 3 + 4 * unit_size);
        CHECK(held_for<sized<16>>(n, 0) < n * 64 * 2 + 4 * unit_size);
        CHECK(held_for<sized<1024>>(n, 0) < n * 1024 * 2 + 4 * unit_size);
        CHECK(held_for<sized<4096>>(n / 4, 0) < n / 4 * 4096 * 2 + 4 * unit_size);
    }

    TEST_CASE("stays what it is, and the rest stays stale, whatever is freed when") {
        registry         r;
        accounting const books(r);
        batch_scope      cache(r);
        std::mt19937     roll(5);

        struct known {
            handle<answer> h;
            std::uint64_t  number;
        };
        std::vector<known>          kept;
        std::vector<handle<answer>> stale;
        std::size_t                 most = 0;
        for (std::uint64_t i = 0; i < (TENURE_SANITIZED ? 600u : 6'000u); ++i) {
            batch_scope       request(r);
            std::size_t const n = roll() % 1'000;
            for (std::size_t k = 0; k < n; ++k) {
                auto const h = request.make<answer>(i);
                switch (roll() % 300) {
                case 0:
                    r.transfer_ownership(h, cache.id());
                    kept.push_back({h, i});
                    break;
                case 1: stale.push_back(h); break;
                case 2:
                    request.free(h);
                    stale.push_back(h);
                    break;
                default: break;
                }
            }
            while (kept.size() > 300) {
                std::swap(kept[roll() % kept.size()], kept.back());
                CHECK(kept.back().h->is(kept.back().number));
                cache.free(kept.back().h);
                stale.push_back(kept.back().h);
                kept.pop_back();
            }
            if (i % 100 == 0) {
                books.check_books();
                most = std::max(most, r.usage().held);
            }
            if (stale.size() > 3'000) stale.erase(stale.begin(), stale.begin() + 1'000);
            std::size_t alive = 0;
            for (auto const& k : kept) alive += k.h.alive();
            CHECK(alive == kept.size());
        }
        for (auto const& k : kept) CHECK(k.h->is(k.number));
        for (auto const& h : stale) CHECK(!h.alive());
        CHECK(most < 40 * unit_size);
        for (auto const& k : kept) cache.free(k.h);
        CHECK(r.usage().held <= unit_size);
    }

    TEST_CASE_TEMPLATE("is whole, wherever its granules lie", Object, sized<8>, sized<24>, sized<48>, sized<200>,
                       sized<256>, sized<264>, sized<3000>) {
        batch_scope                 outer;
        batch_scope                 inner;
        std::vector<handle<Object>> all;
        for (std::uint64_t i = 0; i < 300; ++i) all.push_back(inner.make<Object>(i));
        for (std::size_t i = 0; i < all.size(); i += 3) inner.keep(all[i]);
        CHECK(outer.usage().objects == 100);
        CHECK(outer.usage().bytes == 100 * sizeof(Object));
        CHECK(inner.end().kept == 100);
        for (std::size_t i = 0; i < all.size(); ++i) {
            CHECK(all[i].alive() == (i % 3 == 0));
            if (all[i].alive()) CHECK(all[i]->is(i));
        }
        batch_scope others;
        for (int i = 0; i < 20'000; ++i) others.make<sized<64>>(~std::uint64_t{0});  // also between what was kept
        for (std::size_t i = 0; i < all.size(); i += 3) CHECK(all[i]->is(i));
    }

    TEST_CASE_TEMPLATE("is a whole list, of any length, or nothing of it", Object, sized<24>, sized<264>, text) {
        for (std::size_t const n :
             std::initializer_list<std::size_t>{1, 2, 63, 64, 65, 127, 128, 129, 300, 3'000}) {
            CAPTURE(n);
            registry                    r;
            accounting const            books(r);
            batch_scope                 outer(r);
            batch_scope                 inner{below(outer)};
            std::vector<handle<Object>> all{outer.make<Object>(7u)};  // it stays where it is
            for (std::uint64_t i = 0; i < n; ++i) all.push_back(inner.make<Object>(i));
            all.push_back(all[n / 2 + 1]);
            auto const stale = inner.make<Object>(8u);
            all.push_back(stale);
            inner.free(stale);
            CHECK(inner.try_keep(all).error() == errc::stale_handle);
            CHECK(outer.usage().objects == 1);
            for (std::size_t i = 1; i <= n; ++i) CHECK(all[i].owner() == inner.id());

            all.pop_back();
            inner.keep(all);
            CHECK(outer.usage().objects == n + 1);
            CHECK(inner.usage().objects == 0);
            inner.keep(all);
            CHECK(inner.end().kept == n);
            CHECK(outer.usage().objects == n + 1);
            for (auto const& h : all) CHECK(h.owner() == outer.id());
        }
    }

    TEST_CASE_TEMPLATE("of a long list goes with discard()", Object, sized<24>, text) {
        registry                    r;
        batch_scope                 outer(r);
        batch_scope                 inner{below(outer)};
        std::vector<handle<Object>> all;
        for (std::uint64_t i = 0; i < 1'000; ++i) all.push_back(inner.make<Object>(i));
        for (std::size_t i = 0; i < 10; ++i) inner.keep(all[i * 100]);
        inner.keep(all);
        for (std::uint64_t i = 0; i < 10; ++i) all.push_back(inner.keep(inner.make<Object>(i)));
        CHECK(outer.usage().objects == all.size());
        inner.discard();
        for (auto const& h : all) CHECK(!h.alive());
        CHECK(outer.usage().objects == 0);
    }

    TEST_CASE("ends in the order of the list, the last first") {
        struct numbered {
            std::vector<std::size_t>* ended;
            std::size_t               number;
            ~numbered() { ended->push_back(number); }
        };
        std::vector<std::size_t> ended;
        {
            batch_scope                   outer;
            batch_scope                   inner{below(outer)};
            std::vector<handle<numbered>> all;
            for (std::size_t i = 0; i < 500; ++i) all.push_back(inner.make<numbered>(&ended, i));
            inner.keep(all);
            inner.end();
            CHECK(ended.empty());
        }
        CHECK(ended.size() == 500);
        CHECK(std::ranges::is_sorted(ended, std::ranges::greater()));
    }

    TEST_CASE("is whole, however long") {
        registry                           r;
        batch_scope                        cache(r);
        std::vector<handle<sized<20'000>>> kept;
        for (std::uint64_t i = 0; i < 50; ++i) {
            batch_scope request(r);
            auto const  small = request.make<answer>(i);
            kept.push_back(request.make<sized<20'000>>(i));
            request.make<sized<8'000>>(~i);
            r.transfer_ownership(kept.back(), cache.id());
            r.transfer_ownership(small, cache.id());
            for (std::uint64_t k = 0; k < 600; ++k) request.make<answer>(~k);
        }
        for (std::uint64_t i = 0; i < 50; ++i) CHECK(kept[i]->is(i));
    }

    TEST_CASE("lies beside what a batch makes that has nothing to do with it") {
        registry    r;
        batch_scope cache(r);
        auto const  h = make_kept(r, cache);
        batch_scope other(r);
        CHECK(comes_beside(other, h.get()));
        CHECK(h->is(1));
    }

    TEST_CASE("goes while others make beside it, and they stay") {
        registry                   r;
        accounting const           books(r);
        std::optional<batch_scope> cache(std::in_place, r);
        auto const                 number = cache->id();
        auto const                 h      = make_kept(r, *cache);
        tenure::batch_owner        other(r, {});
        handle<answer>             mine;
        {
            auto const in = other.enter();
            do mine = tenure::make<answer>(7u);
            while (reinterpret_cast<std::uintptr_t>(mine.get()) / unit_size !=
                   reinterpret_cast<std::uintptr_t>(h.get()) / unit_size);
        }
        cache.reset();
        CHECK(r.status(number) == tenure::batch_status::done);
        CHECK(!h.alive());
        CHECK(mine->is(7));
        books.check_books();
    }

    TEST_CASE("stands in its owner's list, wherever else the owner makes objects") {
        {
            registry                  r;
            batch_scope               cache(r);
            std::vector<handle<text>> kept, made;
            std::binary_semaphore     freed(0), half(0);
            for (std::uint64_t i = 0; i < 50; ++i) kept.push_back(make_kept<text>(r, cache, i));
            std::jthread maker([&] {
                tenure::lane here = cache.lane();
                for (std::uint64_t i = 0; i < 6'000; ++i) {
                    made.push_back(here.make<text>(i));
                    if (i != 1'000) continue;
                    half.release();
                    freed.acquire();
                }
            });
            half.acquire();
            for (std::uint64_t i = 50; i-- > 0;) {  // the newest first, which is the first in the list
                CHECK(kept[i]->is(i));
                cache.free(kept[i]);
            }
            freed.release();
            maker.join();
            for (std::uint64_t i = 0; i < 6'000; ++i) CHECK(made[i]->is(i));
        }
        CHECK(text::alive == 0);
    }

    TEST_CASE("is left alone while its batch is in the page file") {
        registry                    r;
        tenure::batch_owner         cache(r, {});
        std::vector<handle<answer>> kept;
        for (std::uint64_t i = 0; i < 5; ++i) {
            batch_scope request(r);
            kept.push_back(make_all<answer>(request, i, 0));
            r.transfer_ownership(kept.back(), cache.id());
        }
        r.page_out(cache.id());
        REQUIRE(r.usage(cache.id()).paged_out > 0);
        {
            batch_scope other(r);
            CHECK(!comes_beside(other, kept[0].get()));
        }
        CHECK(r.usage(cache.id()).paged_out > 0);
        r.page_in(cache.id());
        for (std::uint64_t i = 0; i < 5; ++i) CHECK(kept[i]->is(i));
        batch_scope other(r);
        CHECK(comes_beside(other, kept[0].get()));
        for (std::uint64_t i = 0; i < 5; ++i) CHECK(kept[i]->is(i));
    }

    TEST_CASE("is left alone while its batch has a checkpoint, and comes back with it") {
        registry       r;
        batch_scope    cache(r);
        auto const     before = make_kept(r, cache);
        handle<answer> h;
        cache.checkpoint();
        before->words[3] = 9;
        {
            batch_scope other(r);
            CHECK(!comes_beside(other, before.get()));
        }
        h = make_kept(r, cache, 5);
        cache.rollback();
        CHECK(before->is(1));
        CHECK(!h.alive());
        batch_scope other(r);
        CHECK(comes_beside(other, before.get()));
        CHECK(before->is(1));
    }

    TEST_CASE("is rolled back beside what another batch makes there meanwhile") {
        registry                    r;
        batch_scope                 cache(r);
        auto const                  before = make_kept(r, cache);
        tenure::batch_owner         other(r, {});
        std::vector<handle<answer>> made;
        auto const                  make = [&] {
            auto const in = other.enter();
            for (int i = 0; i < 100; ++i) made.push_back(tenure::make<answer>(3u));
        };
        do make();
        while (std::ranges::none_of(made, [&](handle<answer> m) {
            return reinterpret_cast<std::uintptr_t>(m.get()) / unit_size ==
                   reinterpret_cast<std::uintptr_t>(before.get()) / unit_size;
        }));
        cache.checkpoint();
        before->words[3] = 9;
        make();
        made.front()->words[0] = 4;
        cache.rollback();
        CHECK(before->is(1));
        CHECK(made.front()->words[0] == 4);
        for (std::size_t i = 1; i < made.size(); ++i) CHECK(made[i]->is(3));
    }

    TEST_CASE("is not touched by the checkpoints of who makes beside it") {
        registry    r;
        batch_scope cache(r);
        for (bool const taken_before : {true, false}) {
            auto const                  h = make_kept(r, cache);
            batch_scope                 other(r);
            std::vector<handle<answer>> made, newer;
            if (taken_before) REQUIRE(comes_beside(other, h.get()));
            for (std::uint64_t i = 0; i < 100; ++i) made.push_back(other.make<answer>(i));
            other.checkpoint();
            h->words[2] = 8;
            for (std::uint64_t i = 0; i < 2'000; ++i) newer.push_back(other.make<answer>(i));
            r.transfer_ownership(newer[5], cache.id());
            other.rollback();
            for (std::uint64_t i = 0; i < 100; ++i) CHECK(made[i]->is(i));
            for (std::uint64_t i = 0; i < 2'000; ++i) CHECK(newer[i].alive() == (i == 5));
            CHECK(newer[5]->is(5));
            CHECK(h->words[2] == 8);
            for (std::uint64_t i = 0; i < 3'000; ++i) newer.push_back(other.make<answer>(i));
            CHECK(h->words[2] == 8);
            CHECK(newer[5]->is(5));
        }
    }

    TEST_CASE("lies in lines that no pass gives out twice") {
        using line = sized<64>;
        registry     r;
        batch_scope  cache(r);
        handle<line> kept;
        {
            batch_scope request(r);
            for (std::uint64_t i = 0; i < 1'024; ++i) {
                auto const made = request.make<line>(1u);
                if (i == 10) kept = made;
                if (i == 10 || i == 1'000) r.transfer_ownership(made, cache.id());
            }
        }
        auto const   first = reinterpret_cast<std::uintptr_t>(kept.get()) / unit_size * unit_size;
        batch_scope  other(r);
        handle<line> before, last;  // what fills the hole in front of `kept`, from the last whole 256 bytes on
        do {
            last = other.make<line>(2u);
            if (reinterpret_cast<std::uintptr_t>(last.get()) == first + 8 * 64) before = last;
        } while (reinterpret_cast<std::uintptr_t>(last.get()) != first + 9 * 64);
        other.free(before);
        other.free(last);
        cache.free(kept);
        for (int i = 0; i < 100; ++i) other.make<line>(3u);
        CHECK(!before.alive());
        CHECK(!last.alive());
        CHECK(!kept.alive());
    }

    TEST_CASE("leaves its room to small objects, when a large one finds none there") {
        registry                    r;
        batch_scope                 cache(r), server(r);
        std::vector<handle<answer>> rest;
        for (std::uint64_t i = 0; i < 100; ++i) {
            batch_scope request(r);
            for (std::uint64_t k = 0; k < 600; ++k) {
                auto const made = request.make<answer>(k);
                r.transfer_ownership(made, cache.id());
                if (k % 60) rest.push_back(made);
            }
        }
        for (auto const& h : rest) cache.free(h);
        server.make<sized<8'000>>(1u);
        CHECK(server.usage().retained <= 4 * unit_size);
        std::size_t const before = r.usage().held;
        batch_scope       request(r);
        for (std::uint64_t k = 0; k < 25'000; ++k) request.make<answer>(k);
        CHECK(r.usage().held <= before + 4 * unit_size);
    }

    TEST_CASE("is recycled again after a batch that looked for more room there than there was") {
        registry    r;
        batch_scope cache(r);
        auto const  h = make_kept(r, cache);
        {
            batch_scope other(r);
            REQUIRE(comes_beside(other, h.get()));
            std::vector<handle<answer>> made;
            for (std::uint64_t i = 0; i < 500; ++i) made.push_back(other.make<answer>(i));
            for (std::size_t i = 0; i < 200; i += 2) other.free(made[i]);
            other.make<sized<8'000>>(1u);
            for (std::uint64_t i = 0; i < 20; ++i) other.make<sized<8'000>>(i);
        }
        batch_scope third(r);
        REQUIRE(comes_beside(third, h.get()));
        int beside = 0;
        for (std::uint64_t i = 0; i < 2'000; ++i) {
            auto const at = reinterpret_cast<std::uintptr_t>(third.make<answer>(i).get());
            beside += at / unit_size == reinterpret_cast<std::uintptr_t>(h.get()) / unit_size;
        }
        CHECK(beside > 600);
    }

    TEST_CASE("leaves an outer checkpoint what was there, when an inner one is rolled back") {
        registry                       r;
        batch_scope                    b(r);
        std::vector<handle<sized<64>>> older;
        for (std::uint64_t i = 0; i < 8; ++i) older.push_back(b.make<sized<64>>(i));
        b.free(older.back());
        older.pop_back();
        b.checkpoint();
        std::size_t const bytes = b.usage().bytes;
        b.checkpoint();
        b.make<answer>(1u);
        b.rollback();
        auto const newer = b.make<sized<64>>(2u);
        b.rollback();
        CHECK(!newer.alive());
        CHECK(b.usage().bytes == bytes);
        for (std::uint64_t i = 0; i < 7; ++i) CHECK(older[i]->is(i));
    }

    TEST_CASE("stays in the store in which it was made") {
        registry                r;
        tenure::any_store const store(std::make_shared<tenure::mmap_store>(std::filesystem::temp_directory_path()));
        batch_scope             cache(r, {.store = store});
        std::vector<handle<answer>> kept;
        for (std::uint64_t i = 0; i < 1'000; ++i) {
            batch_scope request{below(cache)};
            kept.push_back(make_all<answer>(request, i, 0));
            request.keep(kept.back());
        }
        CHECK(cache.usage().retained < 1'000 * 96 * 5 / 2 + 2 * unit_size);
        auto const [low, high] = std::ranges::minmax(kept, {}, [](handle<answer> h) { return h.get(); });
        batch_scope plain(r);
        for (std::uint64_t i = 0; i < 50'000; ++i) {
            answer const* const at = plain.make<answer>(i).get();
            if (low.get() <= at && at <= high.get()) FAIL("in the store of another batch");
        }
        for (std::uint64_t i = 0; i < 1'000; ++i) CHECK(kept[i]->is(i));
    }

    TEST_CASE("leaves who comes beside it an end of its own, which its handles tell") {
        registry       r;
        batch_scope    cache(r);
        auto const     h = make_kept(r, cache);
        handle<answer> late;
        {
            batch_scope other(r);
            REQUIRE(comes_beside(other, h.get()));
            late = other.make<answer>(1u);
            r.cancel(other.id());
        }
        CHECK(!late.alive());
        CHECK(r.try_free(late).error() == make_error_code(errc::cancelled));
        CHECK(h.alive());
    }

    TEST_CASE("is recycled in a forked child") {
        registry                    r;
        batch_scope                 cache(r);
        std::vector<handle<answer>> kept;
        for (std::uint64_t i = 0; i < 100; ++i) kept.push_back(make_kept(r, cache, i));
        ::pid_t const child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            ::alarm(60);
            std::size_t const before = r.usage().held;
            for (std::uint64_t i = 0; i < 1'000; ++i) kept.push_back(make_kept(r, cache, i));
            bool right = r.usage().held < before + 1'000 * 96 * 3;
            for (std::uint64_t i = 0; i < 1'100; ++i) right = right && kept[i]->is(i < 100 ? i : i - 100);
            ::_exit(right ? 0 : 1);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }

    TEST_CASE("rests once its numbers are used up, until what is older than all of them is gone") {
        using namespace tenure::detail;
        registry          r;
        batch_scope       cache(r);
        auto const        older = make_kept(r, cache);
        void const* const at    = older.get();
        place const       p     = place_at(reinterpret_cast<std::uintptr_t>(at));
        auto const        pass  = [&] {
            batch_scope other(r);
            return comes_beside(other, at);
        };
        CHECK(pass());
        handle<answer> younger;
        {
            batch_scope other(r);
            while (younger == handle<answer>() ||
                   reinterpret_cast<std::uintptr_t>(younger.get()) / unit_size != p.base / unit_size)
                younger = other.make<answer>(4u);
            r.transfer_ownership(younger, cache.id());
        }
        // As if it had had all but one of its generations since `older` was made.
        word_t const now = generation_of(p.word().load()) + last_pass - p.rest().passes - 1;
        auto const   gap = static_cast<std::uint32_t>(now - generation_of(p.word().load()));
        for (auto& line : p.track().pass)  // all but the line of `older` are of today
            if (&line != &p.track().pass[(reinterpret_cast<std::uintptr_t>(at) % unit_size) / line_bytes] &&
                &line != &p.track().pass[(reinterpret_cast<std::uintptr_t>(at) % unit_size) / line_bytes + 1])
                line.store(line.load() + gap);
        p.word().store(now << generation_shift);
        p.rest().passes = last_pass - 1;
        CHECK(older.alive());
        CHECK(pass());
        CHECK(older.alive());
        CHECK(p.rest().passes == last_pass);
        CHECK(!pass());
        CHECK(!pass());
        CHECK(older->is(1));
        cache.free(older);
        {
            std::scoped_lock const guard(p.u->lock);
            offer_holes(p);  // as once an eighth of it was freed
        }
        CHECK(pass());
        CHECK(p.rest().passes < 1'000);
        CHECK(!older.alive());
    }

    TEST_CASE("comes and goes on many threads") {
        registry         r;
        accounting const books(r);
        batch_id const   caches[] = {r.new_batch({.name = "one"}), r.new_batch({.name = "other"})};
        {
            std::vector<std::jthread> threads;
            for (unsigned t = 0; t < 4; ++t)
                threads.emplace_back([&, t] {
                    std::mt19937                                        roll(t);
                    std::vector<std::pair<handle<text>, std::uint64_t>> mine;
                    for (std::uint64_t i = 0; i < (TENURE_SANITIZED ? 300u : 3'000u); ++i) {
                        batch_scope request(r);
                        for (auto k = roll() % 300; k > 0; --k) request.make<text>(i);
                        auto const h = request.make<text>(i);
                        r.transfer_ownership(h, caches[roll() % 2]);
                        mine.emplace_back(h, i);
                        if (mine.size() < 40) continue;
                        std::swap(mine[roll() % mine.size()], mine.back());
                        if (!mine.back().first->is(mine.back().second)) FAIL_CHECK("changed");
                        r.free(mine.back().first);
                        mine.pop_back();
                    }
                    for (auto const& [h, n] : mine)
                        if (!h->is(n)) FAIL_CHECK("changed");
                });
        }
        books.check_books();
        CHECK(r.usage().held < 100 * unit_size);
        for (batch_id const id : caches) r.end_batch(id);
        CHECK(r.usage().held == 0);
    }
}
