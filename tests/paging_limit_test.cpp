// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Batches that go out by themselves: at the registry's memory limit, and when they are left.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/paging/residency.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "model_batch.hpp"
#include "throws.hpp"

using tenure::batch_id;
using tenure::batch_options;
using tenure::batch_scope;
using tenure::errc;
using tenure::handle;
using tenure::registry;
using tenure::residency;

namespace {

constexpr std::size_t unit = 64 * 1024;

/// A batch that has `bytes` of memory and nothing else.
batch_id hoard(registry& r, batch_options const& options, std::size_t bytes) {
    batch_id const id     = r.new_batch(options);
    auto const     inside = r.enter(id);
    auto const     h      = tenure::make<std::uint64_t[]>(bytes / 8);
    for (std::size_t i = 0; i < h.size(); i += 512) h[i] = i;
    return id;
}

bool is_out(registry& r, batch_id id) { return r.usage(id).paged_out > 0; }

/// Which of some batches are out, by their index.
template <class Ids>
std::string out_of(registry& r, Ids const& ids) {
    std::string which;
    for (std::size_t i = 0; i < std::size(ids); ++i)
        if (is_out(r, ids[i])) which += std::to_string(i);
    return which;
}

/// Makes something of so many bytes elsewhere, so that others must go.
void press(registry& r, std::size_t bytes) {
    batch_scope b(r);
    b.make<char[]>(bytes);
}

}  // namespace

TEST_SUITE("page_out_idle") {
    TEST_CASE("idle batches go out in the order of the policy, as many as it takes, also without a limit") {
        registry   r({.eviction = tenure::lowest_priority_first{}});
        auto const automatic = [](int priority) {
            return batch_options{.residency = residency::automatic, .priority = priority};
        };
        std::array<batch_id, 5> const ids{hoard(r, automatic(3), MiB), hoard(r, automatic(1), MiB),
                                          hoard(r, automatic(2), MiB), hoard(r, {}, MiB),
                                          hoard(r, automatic(0), MiB)};
        CHECK(r.page_out_idle(0) == 0);
        CHECK(out_of(r, ids).empty());
        {
            auto const  inside = r.enter(ids[4]);  // so it stays
            std::size_t gone   = r.page_out_idle(MiB + 1);
            CHECK(gone >= 2 * MiB);
            CHECK(gone <= 2 * MiB + 4 * unit);
            CHECK(out_of(r, ids) == "12");
        }
        CHECK(r.page_out_idle(100 * MiB) >= 2 * MiB);
        CHECK(out_of(r, ids) == "0124");
        CHECK(r.page_out_idle(1) == 0);
        for (batch_id const id : ids) r.end_batch(id);
    }
}

TEST_SUITE("the memory limit") {
    TEST_CASE("idle batches go out, least recently entered first, and all stays as it was") {
        registry                r({.memory_limit = {.high = 64 * MiB, .low = 48 * MiB}});
        std::deque<model_batch> all;
        for (int i = 0; i < 20; ++i)
            all.emplace_back(r, batch_options{.residency = residency::automatic}, 8 * MiB, i * 1000);
        CHECK(all[0].out() > 0);
        CHECK(all[19].out() == 0);
        CHECK(in_memory(r) <= 64 * MiB);
        for (model_batch const& b : all) CHECK(b.whole());
        CHECK(r.snapshot().paging.failures == 0);
    }

    TEST_CASE("the order is the policy's") {
        auto const options = [](int priority) {
            return batch_options{.residency = residency::automatic, .priority = priority};
        };
        auto const which = [&](tenure::any_eviction_policy policy) {
            registry       r({.memory_limit = {.high = 16 * MiB, .low = 11 * MiB}, .eviction = std::move(policy)});
            batch_id const ids[] = {hoard(r, options(3), MiB), hoard(r, options(1), 4 * MiB),
                                    hoard(r, options(2), 2 * MiB), hoard(r, options(1), 3 * MiB)};
            { auto const inside = r.enter(ids[0]); }
            press(r, 6 * MiB + 100'000);  // 5 MiB and some must go
            std::string const out = out_of(r, ids);
            for (batch_id const id : ids) r.end_batch(id);
            return out;
        };
        CHECK(which(tenure::least_recently_entered{}) == "12");
        CHECK(which(tenure::largest_first{}) == "13");
        CHECK(which(tenure::lowest_priority_first{}) == "13");
        CHECK(which([](auto const& a, auto const& b) { return a.bytes < b.bytes; }) == "023");
        CHECK(which([](auto const& a, auto const& b) { return a.entered > b.entered; }) == "023");
    }

    TEST_CASE("what a policy sees") {
        std::vector<tenure::eviction_candidate> seen;
        registry                                r(
            {.memory_limit = {.high = 8 * MiB, .low = 6 * MiB}, .eviction = [&](auto const& a, auto const& b) {
                 seen.push_back(a);
                 seen.push_back(b);
                 return a.id < b.id;
             }});
        batch_id const first  = hoard(r, {.residency = residency::automatic, .priority = 5}, 2 * MiB);
        batch_id const second = hoard(r, {.residency = residency::paged_when_left, .priority = 6}, MiB);
        batch_id const third  = hoard(r, {.residency = residency::automatic, .priority = 7}, MiB);
        batch_id const plain  = hoard(r, {}, MiB);
        CHECK(out_of(r, std::array{first, second, third, plain}) == "1");
        press(r, 5 * MiB);
        CHECK(out_of(r, std::array{first, second, third, plain}) == "012");
        REQUIRE(!seen.empty());
        for (auto const& c : seen) {
            CHECK((c.id == first || c.id == third));
            CHECK(c.bytes == r.usage(c.id).retained);
            CHECK(c.priority == (c.id == first ? 5 : 7));
        }
        auto const entered = [&](batch_id id) {
            return std::find_if(seen.begin(), seen.end(), [&](auto const& c) { return c.id == id; })->entered;
        };
        CHECK(entered(first) < entered(third));
        for (batch_id const id : {first, second, third, plain}) r.end_batch(id);
    }

    TEST_CASE("two numbers: out goes down to the lower, and then nothing until the higher") {
        registry              r({.memory_limit = {.high = 32 * MiB, .low = 16 * MiB}});
        std::vector<batch_id> ids;
        auto const            more = [&] {
            ids.push_back(hoard(r, {.residency = residency::automatic}, MiB - 4096));
            return r.snapshot().paging.out;
        };
        int times = 0;
        for (std::size_t before = 0, now = 0; ids.size() < 100; before = now) {
            now = more();
            if (now == before) continue;
            ++times;
            CHECK(now - before >= 15 * MiB);
            CHECK(in_memory(r) <= 17 * MiB);
        }
        CHECK(times <= 100 / 16 + 1);
        CHECK(times >= 4);
        for (batch_id const id : ids) r.end_batch(id);
        CHECK(r.snapshot().paging.out == 0);
        CHECK(in_memory(r) == 0);
    }

    TEST_CASE("the lower number is 7/8 of the higher by default") {
        registry              r({.memory_limit = {.high = 16 * MiB}});
        std::vector<batch_id> ids;
        while (r.snapshot().paging.out == 0) ids.push_back(hoard(r, {.residency = residency::automatic}, unit));
        CHECK(in_memory(r) <= 14 * MiB + unit);
        CHECK(in_memory(r) >= 13 * MiB);
        for (batch_id const id : ids) r.end_batch(id);
    }

    TEST_CASE("what is entered, held or meant to stay is never touched") {
        registry       r({.memory_limit = {.high = 32 * MiB}});
        model_batch    entered(r, {.name = "entered", .residency = residency::automatic}, 4 * MiB);
        model_batch    parent(r, {.name = "parent", .residency = residency::automatic}, 4 * MiB);
        model_batch    stays(r, {.name = "stays"}, 4 * MiB);
        model_batch    idle(r, {.name = "idle", .residency = residency::automatic}, 4 * MiB);
        batch_id const child  = r.new_batch({.residency = residency::automatic}, parent.id);
        auto const     inside = r.enter(entered.id);
        batch_scope    open(r, {.name = "open", .residency = residency::automatic});
        auto const     mine = open.make<char[]>(4 * MiB);
        press(r, 12 * MiB);
        CHECK(idle.out() > 0);
        check_throws(errc::memory_full, {"'parent'", "limit 32.0 MiB"}, [&] { press(r, 24 * MiB); });
        CHECK(entered.out() + parent.out() + stays.out() + open.usage().paged_out == 0);
        r.end_batch(child);
        press(r, 16 * MiB);
        CHECK(parent.out() > 0);
        for (auto* b : {&entered, &parent, &stays, &idle}) CHECK(b->whole());
        CHECK(mine[77] == 0);
    }

    TEST_CASE("where nothing can go, make says who has the memory, and nothing else breaks") {
        registry    r({.memory_limit = {.high = 32 * MiB}});
        accounting  books(r);
        batch_scope wants(r, {.name = "wants"});
        {
            model_batch large(r, {.name = "largest of all"}, 16 * MiB), next(r, {.name = "next to it"}, 8 * MiB);
            check_throws(
                errc::memory_full,
                {"'wants'", "MiB of slab memory in use, limit 32.0 MiB", "'largest of all'", "'next to it'"},
                [&] { wants.make<char[]>(16 * MiB); });
            CHECK(wants.try_make<char[]>(16 * MiB).error() == errc::memory_full);
            CHECK_THROWS_AS(static_cast<void>(wants.resource()->allocate(16 * MiB, 8)), tenure::error);
            CHECK(wants.usage().objects == 0);
            CHECK(large.whole());
            CHECK(next.whole());
            auto const h = wants.make<char[]>(MiB);
            CHECK(h[5] == 0);

            // Small objects come to the limit, too, and stop there.
            std::size_t n = 0;
            while (wants.try_make<std::array<char, 1000>>()) ++n;
            CHECK(n > 1000);
            CHECK(n < 32'000);
            CHECK(in_memory(r) <= 32 * MiB);
            wants.free(h);
        }
        wants.make<char[]>(16 * MiB)[1] = 1;
    }

    TEST_CASE("who enters what is out has others go instead") {
        registry                r({.memory_limit = {.high = 20 * MiB, .low = 16 * MiB}});
        std::deque<model_batch> all;
        for (int i = 0; i < 10; ++i)
            all.emplace_back(r, batch_options{.residency = residency::automatic}, 3 * MiB, i);
        for (int round = 1; round < 4; ++round)
            for (model_batch& b : all) {
                auto const inside = r.enter(b.id);
                CHECK(b.out() == 0);
                CHECK(in_memory(r) <= 20 * MiB);
                CHECK(b.whole());
                b.write(static_cast<std::uint64_t>(round) * 100);
            }
        for (model_batch& b : all) {
            r.page_in(b.id);
            CHECK(in_memory(r) <= 20 * MiB);
            CHECK(b.whole());
        }
    }

    TEST_CASE("what goes out by request, comes back, ends, is freed or given away: the books are right") {
        registry r({.memory_limit = {.high = 64 * MiB}});
        {
            accounting  books(r);
            model_batch a(r, {}, 8 * MiB), b(r, {}, 4 * MiB);
            auto const  all = in_memory(r);
            auto const  a_s = r.usage(a.id).retained, b_s = r.usage(b.id).retained;
            auto const  check = [&](std::size_t out) {
                CHECK(r.snapshot().paging.out == out);
                CHECK(tenure::detail::memory_in_use(
                          *tenure::detail::find_anywhere(r.root().value)->registry.load()) >= in_memory(r));
                CHECK(r.usage(a.id).paged_out + r.usage(b.id).paged_out == out);
            };
            check(0);
            r.page_out(a.id);
            check(a_s);
            CHECK(in_memory(r) == all - a_s);
            r.page_out(a.id);
            check(a_s);
            r.page_out(b.id);
            check(a_s + b_s);
            { auto const inside = r.enter(a.id); }
            check(b_s);
            r.page_in(b.id);
            check(0);
            r.page_out(a.id);
            r.transfer_ownership(a.large, b.id);
            check(0);
            r.page_out(a.id);
            r.page_out(b.id);
            check(r.usage(a.id).retained + r.usage(b.id).retained);
            r.free(a.large);
            check(r.usage(a.id).paged_out);
            r.page_out(b.id);
            r.end_batch(a.id);
            check(r.usage(b.id).retained);
            r.end_batch(b.id);
            check(0);
            CHECK(in_memory(r) == 0);
        }
        CHECK(r.snapshot().paging.reserved == 0);
    }

    TEST_CASE("batches in a store of their own do not count") {
        registry          r({.memory_limit = {.high = 8 * MiB}});
        tenure::any_store own(std::make_shared<tenure::heap_store>());
        batch_id const    big = hoard(r, {.residency = residency::automatic, .store = own}, 32 * MiB);
        press(r, 6 * MiB);
        CHECK(!is_out(r, big));
        r.page_out(big);  // but may go
        CHECK(is_out(r, big));
        check_throws(errc::memory_full, {}, [&] { press(r, 12 * MiB); });
        r.end_batch(big);
    }

    TEST_CASE("a destructor that runs while room is made may make something in the same batch") {
        // The batch is ended while a thread moves it out: that thread then frees it, in the middle of its own make.
        registry   r({.memory_limit = {.high = 8 * MiB, .low = MiB}});
        accounting books(r);
        struct maker {
            ~maker() {
                for (int i = 0; i < 1000; ++i)
                    if (!tenure::try_make<int>(i)) return;  // what the batch has itself still counts
            }
        };
        for (int i = 0; i < (TENURE_SANITIZED ? 20 : 200); ++i) {
            batch_scope    here(r);
            batch_id const id = r.new_batch({.residency = residency::automatic}, here.id());
            {
                auto const inside = r.enter(id);
                tenure::make<maker>();
                tenure::make<char[]>(6 * MiB);
            }
            std::thread other([&] { r.end_batch(id); });
            for (int k = 0; k < 3000; ++k)
                while (!tenure::try_make<std::array<char, 1000>>()) std::this_thread::yield();  // it is just ending
            other.join();
            auto const made = here.usage().objects;
            CHECK(made >= 3000);
            CHECK(made <= 4000);
        }
    }
}

TEST_SUITE("paged when left") {
    TEST_CASE("the last who leaves sends it out") {
        registry    r;
        model_batch s(r, {.residency = residency::paged_when_left});
        CHECK(s.out() > 0);
        {
            auto const one = r.enter(s.id);
            CHECK(s.out() == 0);
            std::optional<int> done;
            std::thread        other([&] {
                auto const two = r.enter(s.id);
                done           = s.whole();
            });
            other.join();
            CHECK(done == 1);
            CHECK(s.out() == 0);
        }
        CHECK(s.out() > 0);
        batch_id const child = r.new_batch({}, s.id);
        { auto const one = r.enter(s.id); }
        CHECK(s.out() == 0);  // the one below holds it
        r.end_batch(child);
        CHECK(s.out() > 0);
        r.page_in(s.id);
        CHECK(s.out() == 0);  // as it was asked, until it is entered and left
        CHECK(s.whole());
    }

    TEST_CASE("what is given to it, or freed there, sends it out again") {
        registry    r;
        model_batch s(r, {.residency = residency::paged_when_left});
        batch_scope here(r);
        auto const  h = here.make<std::uint64_t[]>(MiB / 8);
        h[3]          = 4;
        r.transfer_ownership(h, s.id);
        CHECK(s.out() >= 5 * MiB);
        CHECK(h[3] == 4);
        r.free(h);
        CHECK(s.out() > 0);
        CHECK(s.out() < 5 * MiB);
        CHECK(s.whole());
    }

    TEST_CASE("threads that leave at one time") {
        registry    r;
        model_batch s(r, {.residency = residency::paged_when_left}, 64 * 1024);
        for (int round = 0; round < (TENURE_SANITIZED ? 50 : 500); ++round) {
            std::atomic<int>         ready{0};
            std::vector<std::thread> some;
            for (int t = 0; t < 3; ++t)
                some.emplace_back([&] {
                    auto const inside = r.enter(s.id);
                    ++ready;
                    while (ready < 3) std::this_thread::yield();
                });
            for (auto& t : some) t.join();
            REQUIRE(s.out() > 0);
        }
        CHECK(s.whole());
    }
}

TEST_SUITE("many threads") {
    TEST_CASE("memory that went back to a thread which is busy elsewhere is not lost to the others") {
        registry              r({.memory_limit = {.high = 32 * MiB}});
        std::vector<batch_id> ids;
        for (int i = 0; i < 100; ++i) ids.push_back(hoard(r, {}, unit / 2));
        std::thread([&] {
            r.end_batch(hoard(r, {}, unit / 2));
            for (batch_id const id : ids) r.end_batch(id);
            CHECK_NOTHROW(r.end_batch(hoard(r, {}, 24 * MiB)));
        }).join();
    }

    /// Threads enter batches at random, check what is there and change it; others end and open them, look at
    /// snapshots, page out and in by request, and give objects to one another.
    void crowd(residency how, std::size_t limit) {
        std::size_t const batches = 1000, threads = 4, turns = TENURE_SANITIZED ? 400 : 3000;
        struct slot {
            std::atomic<bool>        busy{false};
            batch_id                 id{};
            handle<std::uint64_t[]>  data;
            handle<std::vector<int>> entry;
            std::uint64_t            seed = 0;
        };
        registry                   r({.memory_limit = {.high = limit, .low = limit / 4 * 3}});
        std::vector<slot>          slots(batches);
        std::atomic<std::uint64_t> wrong{0}, refused{0};
        std::atomic<bool>          stop{false};
        auto const                 open = [&](slot& s, std::uint64_t seed) {
            s.id              = r.new_batch({.residency = how});
            s.seed            = seed;
            auto const inside = r.enter(s.id);
            s.data            = tenure::make<std::uint64_t[]>(seed % 7 == 0 ? 24'000 : 2'000);
            s.entry = tenure::make<std::vector<int>>(std::size_t{10}, static_cast<int>(seed));
            for (std::size_t i = 0; i < s.data.size(); ++i) s.data[i] = seed + i;
        };
        auto const check = [&](slot const& s) {
            for (std::size_t i = 0; i < s.data.size(); ++i) wrong += s.data[i] != s.seed + i;
            for (int const x : *s.entry) wrong += x != static_cast<int>(s.seed);
        };
        for (std::size_t i = 0; i < batches; ++i) open(slots[i], i);

        auto const work = [&](unsigned number) {
            std::mt19937 dice(number);
            for (std::size_t turn = 0; turn < turns; ++turn) {
                slot& s = slots[dice() % batches];
                if (s.busy.exchange(true)) continue;
                try {
                    switch (dice() % 16) {
                    case 0:
                        r.end_batch(s.id);
                        open(s, dice() % 100'000);
                        break;
                    case 1: check(s); break;  // without entering
                    case 2:
                        if (auto const ec = [&]() -> std::error_code {
                                try {
                                    r.page_out(s.id);
                                } catch (tenure::error const& e) {
                                    return e.code();
                                }
                                return {};
                            }();
                            ec && ec != errc::batch_in_use)
                            ++wrong;
                        break;
                    case 3: r.page_in(s.id); break;
                    case 4: {
                        batch_id const fresh = r.new_batch({.residency = how});
                        r.transfer_ownership(s.data, fresh);
                        r.transfer_ownership(s.entry, fresh);
                        r.end_batch(s.id);
                        s.id = fresh;
                        check(s);
                        break;
                    }
                    case 5: {
                        r.free(s.data);
                        auto const inside = r.enter(s.id);
                        s.data            = tenure::make<std::uint64_t[]>(3'000);
                        for (std::size_t i = 0; i < s.data.size(); ++i) s.data[i] = s.seed + i;
                        break;
                    }
                    default: {
                        auto const inside = r.enter(s.id);
                        check(s);
                        if (dice() % 2) {
                            s.seed = dice() % 100'000;
                            for (std::size_t i = 0; i < s.data.size(); ++i) s.data[i] = s.seed + i;
                            for (int& x : *s.entry) x = static_cast<int>(s.seed);
                        }
                    }
                    }
                } catch (tenure::error const& e) {
                    if (e.code() != errc::memory_full) throw;
                    ++refused;  // others are inside so many that nothing could go: the slot is as it is
                    if (!s.data.alive()) {
                        r.end_batch(s.id);
                        s.id    = r.new_batch({.residency = how});
                        s.data  = {};
                        s.entry = {};
                        continue;  // and stays busy
                    }
                }
                s.busy = false;
            }
        };
        std::vector<std::thread> crowd;
        for (unsigned t = 0; t < threads; ++t) crowd.emplace_back(work, t + 1);
        std::thread watcher([&] {
            while (!stop) {
                auto const s = r.snapshot();
                wrong += s.paging.failures;
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            }
        });
        for (auto& t : crowd) t.join();
        stop = true;
        watcher.join();
        CHECK(wrong == 0);
        CHECK(refused == 0);
        for (slot const& s : slots)
            if (s.data.alive()) check(s);
        CHECK(wrong == 0);
        auto const s = r.snapshot();
        CHECK(s.paging.written > 0);
        CHECK(books_error(s) == "");
        std::size_t out = 0;
        for (auto const& b : s.batches) out += b.usage.paged_out;
        CHECK(s.paging.out == out);
        if (how == residency::paged_when_left) CHECK(out > 0);
        for (slot const& each : slots) r.end_batch(each.id);
        CHECK(r.snapshot().paging.out == 0);
        CHECK(r.snapshot().paging.reserved == 0);
        CHECK(in_memory(r) == 0);
    }

    TEST_CASE("1,000 batches under a low limit") { crowd(residency::automatic, 24 * MiB); }
    TEST_CASE("1,000 batches that go out when left") { crowd(residency::paged_when_left, tenure::no_limit); }
    TEST_CASE("both") { crowd(residency::paged_when_left, 24 * MiB); }
}
