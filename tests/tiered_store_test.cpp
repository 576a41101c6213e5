// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include "failing.hpp"  // first

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/store/counted.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/store/limited.hpp>
#include <tenure/store/tiered.hpp>
#include <tenure/testing/faulty_store.hpp>

#include "stores/contents.hpp"
#include "stores/gated_store.hpp"
#include "stores/plain_store.hpp"

namespace {

using namespace tenure;

using faulty = faulty_store<plain_store<>>;
using tiered = tiered_store<faulty, faulty>;

std::shared_ptr<faulty> make_faulty() { return std::make_shared<faulty>(std::make_shared<plain_store<>>()); }

/// Room for three blocks of 100 bytes in the fast tier.
struct fixture {
    std::shared_ptr<faulty> fast = make_faulty(), slow = make_faulty();
    tiered                  store;

    explicit fixture(std::size_t room = 300) : store(fast, slow, {.fast_bytes = room}) {}

    std::vector<block> make(std::size_t n) {
        std::vector<block> out;
        for (std::size_t i = 0; i < n; ++i) out.push_back(made(store, pattern(i, 100)));
        return out;
    }
    void expect(std::size_t in_fast, std::size_t in_slow) const {
        tiered_figures const f = store.figures();
        CHECK(f.fast.blocks == in_fast);
        CHECK(f.slow.blocks == in_slow);
        CHECK(store.usage().blocks == in_fast + in_slow);
        CHECK(store.usage().bytes == f.fast.bytes + f.slow.bytes);
    }
    /// And the tiers agree.
    void expect_exact(std::size_t in_fast, std::size_t in_slow) const {
        expect(in_fast, in_slow);
        tiered_figures const f = store.figures();
        CHECK(fast->usage() == store_usage{f.fast.bytes, f.fast.blocks, 0});
        CHECK(slow->usage() == store_usage{f.slow.bytes, f.slow.blocks, 0});
    }
    void expect_empty() const {
        expect_exact(0, 0);
        CHECK(store.figures().left_behind == 0);
    }
    void calm() const {
        fast->clear();
        slow->clear();
    }
    bool struck() const { return fast->struck() + slow->struck() != 0; }
};

/// Whether a read of it asks the fast tier alone. Where it does not, it may be promoted.
bool in_fast(tiered& s, block b) {
    std::uint64_t const before = s.slow()->calls(store_operation::read);
    byte_vector         one(1);
    s.read(b, 0, one).value();
    return s.slow()->calls(store_operation::read) == before;
}

}  // namespace

TEST_CASE("new blocks are in the fast tier; the least recently used go") {
    fixture            f;
    std::vector<block> b = f.make(3);
    f.expect_exact(3, 0);
    contents(f.store, b[0]);  // now b[1] is the oldest
    b.push_back(made(f.store, pattern(3, 100)));
    f.expect_exact(3, 1);
    CHECK(f.store.figures().demotions == 1);
    CHECK_FALSE(in_fast(f.store, b[1]));  // and so b[2] went
    f.expect_exact(3, 1);
    CHECK(f.store.figures().promotions == 1);
    CHECK_FALSE(in_fast(f.store, b[2]));
    for (std::size_t i = 0; i < b.size(); ++i) CHECK(contents(f.store, b[i]) == pattern(i, 100));
    REQUIRE(f.store.deallocate(b));
    f.expect_empty();
}

TEST_CASE("a write promotes, too, and what was written is there after the next move") {
    fixture                  f;
    std::vector<block> const b    = f.make(6);
    byte_vector              want = pattern(0, 100);
    byte_vector const        in   = pattern(77, 10);
    REQUIRE(f.store.write(b[0], 40, in));
    std::ranges::copy(in, want.begin() + 40);
    for (std::size_t i = 1; i < 6; ++i) CHECK(contents(f.store, b[i]) == pattern(i, 100));
    CHECK(contents(f.store, b[0]) == want);
    f.expect_exact(3, 3);
}

TEST_CASE("a block larger than the fast tier is at home in the slow one") {
    fixture     f;
    auto const  small = f.make(3);
    block const b     = made(f.store, pattern(1, 301));
    CHECK(contents(f.store, b) == pattern(1, 301));
    f.expect_exact(3, 1);
    CHECK(f.store.figures().demotions == 0);
    CHECK(f.store.figures().promotions == 0);
    CHECK(f.fast->calls(store_operation::allocate) == 3);
}

TEST_CASE("the fast tier's own limits count") {
    using limited     = limited_store<plain_store<>>;
    auto const   fast = std::make_shared<limited>(std::make_shared<plain_store<>>(), store_limits{.blocks = 2});
    tiered_store s(fast, std::make_shared<plain_store<>>());
    std::vector<block> live;
    for (std::uint64_t i = 0; i < 10; ++i) live.push_back(made(s, pattern(i, 10 * i)));
    CHECK(s.figures().fast.blocks == 2);
    for (std::uint64_t i = 0; i < 10; ++i) CHECK(contents(s, live[i]) == pattern(i, 10 * i));
    CHECK(fast->usage().blocks == 2);

    auto const known = std::make_shared<plain_store<>>(std::size_t{1000});
    CHECK(tiered_store(known, known).usage().capacity == 2000);
    CHECK(tiered_store(known, known, {.fast_bytes = 10}).usage().capacity == 1010);
    CHECK(tiered_store(fast, known).usage().capacity == 0);
}

TEST_CASE("a fast tier may say in the system's words that it is full") {
    fixture f;
    f.fast->inject(
        {.on = store_operation::allocate, .how = faults::fails{std::error_code(ENOSPC, std::system_category())}});
    CHECK(f.store.allocate(100, 1).has_value());
    f.expect_exact(0, 1);
    f.fast->inject({.on = store_operation::allocate});
    CHECK(f.store.allocate(100, 1).error() == std::errc::io_error);
}

TEST_CASE("both full is store_full") {
    tiered_store       s(std::make_shared<plain_store<>>(std::size_t{100}),
                         std::make_shared<plain_store<>>(std::size_t{250}));
    std::vector<block> live;
    for (int i = 0; i < 3; ++i) live.push_back(s.allocate(100, 1).value());
    CHECK(s.allocate(100, 1).error() == errc::store_full);
    CHECK(s.allocate(251, 1).error() == errc::store_full);
    CHECK(s.usage().blocks == 3);
    byte_vector out(100);
    for (block const b : live) CHECK(s.read(b, 0, out));
    CHECK(s.figures().failed_promotions == 0);
}

TEST_CASE("pinned blocks stay") {
    fixture                  f;
    std::vector<block> const b = f.make(3);
    {
        auto                             first  = f.store.pin(b[0]).value();
        std::optional<tiered::pin_guard> second = f.store.pin(b[0]).value();
        auto const                       other  = f.store.pin(b[1]).value();
        auto const                       more   = f.make(3);
        CHECK(in_fast(f.store, b[0]));
        CHECK(in_fast(f.store, b[1]));
        f.expect_exact(3, 3);

        auto const third = f.store.pin(more[2]).value();  // everything is pinned: nothing more comes in
        CHECK(contents(f.store, b[2]) == pattern(2, 100));
        CHECK(contents(f.store, made(f.store, pattern(9, 100))) == pattern(9, 100));
        f.expect_exact(3, 4);
        CHECK(f.store.figures().failed_promotions == 0);

        tiered::pin_guard moved = std::move(first);
        second.reset();
        f.make(1);
        CHECK(in_fast(f.store, b[0]));
        moved = {};
        f.make(1);
        CHECK_FALSE(in_fast(f.store, b[0]));
    }
    auto const pinned = f.store.pin(b[1]).value();
    REQUIRE(f.store.deallocate(b));  // a pin is no obstacle to that, and may end later
    CHECK(f.store.pin(b[1]).error() == errc::no_such_block);
}

TEST_CASE("pin promotes; what has no room is held where it is") {
    fixture                  f;
    std::vector<block> const b = f.make(4);
    auto const               p = f.store.pin(b[0]).value();
    CHECK(in_fast(f.store, b[0]));
    block const large = made(f.store, pattern(5, 500));
    auto const  q     = f.store.pin(large).value();
    CHECK(contents(f.store, large) == pattern(5, 500));
}

namespace {

/// Every step of `what` fails once, in each tier, with nothing or half of it done: each time all blocks are whole,
/// and nothing is lost in the tiers.
template <class What>
void fail_everywhere(What what) {
    for (bool const in_fast_tier : {true, false}) {
        for (std::uint64_t const times : {1u, 2u, 3u, 1000u}) {
            for (int const how : {0, 1, 2}) {
                for (std::uint64_t nth = 1;; ++nth) {
                    CAPTURE(in_fast_tier);
                    CAPTURE(times);
                    CAPTURE(how);
                    CAPTURE(nth);
                    fixture            f;
                    std::vector<block> b = f.make(5);
                    fault              x{.nth = nth, .times = times};
                    if (how == 1) x.how = faults::shortens{.to = 10};
                    if (how == 2) x.how = faults::shortens{};  // done, and yet an error
                    (in_fast_tier ? f.fast : f.slow)->inject(x);
                    what(f, b);
                    bool const struck = f.struck();
                    f.calm();
                    f.expect(f.store.figures().fast.blocks, b.size() - f.store.figures().fast.blocks);
                    for (std::size_t i = 0; i < b.size(); ++i) CHECK(contents(f.store, b[i]) == pattern(i, 100));
                    REQUIRE(f.store.deallocate(b));
                    CHECK(f.store.deallocate({}));
                    f.expect_empty();
                    if (!struck) break;
                }
            }
        }
    }
}

}  // namespace

TEST_CASE("a demotion that fails leaves the block where it was, whole") {
    fail_everywhere([](fixture& f, std::vector<block>& b) {
        auto const more = f.store.allocate(100, 1);
        if (!more) return;
        f.calm();
        f.store.write(*more, 0, pattern(b.size(), 100)).value();
        b.push_back(*more);
    });
    fixture                  f;
    std::vector<block> const b = f.make(3);
    f.slow->inject({.on = store_operation::write, .times = 1});
    REQUIRE(f.store.allocate(100, 1).has_value());  // it went to the slow tier itself
    f.expect_exact(3, 1);
    CHECK(f.store.figures().failed_demotions == 1);
    CHECK(f.store.figures().last_error == std::errc::io_error);
    CHECK(f.store.figures().to_text().find("demoted 0, failed 1") != std::string::npos);
    for (block const x : b) CHECK(in_fast(f.store, x));
}

TEST_CASE("a promotion that fails leaves the block where it was, whole, and the read is served there") {
    fail_everywhere([](fixture& f, std::vector<block>& b) {
        byte_vector out(100);
        if (f.store.read(b[0], 0, out)) CHECK(out == pattern(0, 100));
    });
    fixture                  f;
    std::vector<block> const b = f.make(4);
    f.fast->inject({.on = store_operation::write});
    CHECK(contents(f.store, b[0]) == pattern(0, 100));
    CHECK(f.store.figures().failed_promotions == 1);
    f.expect_exact(2, 2);  // room had been made
    f.fast->inject(
        {.on = store_operation::allocate, .how = faults::fails{make_error_code(errc::device_unavailable)}});
    CHECK(contents(f.store, b[0]) == pattern(0, 100));
    CHECK(f.store.figures().last_error == errc::device_unavailable);
}

TEST_CASE("a write that fails on its way to the block changes no other") {
    fail_everywhere([](fixture& f, std::vector<block>& b) {
        if (f.store.write(b[1], 0, pattern(1, 100))) return;
        f.calm();
        f.store.write(b[1], 0, pattern(1, 100)).value();
    });
}

TEST_CASE("where nobody can say whether the old copy is there, the new one counts") {
    fixture                  f;
    std::vector<block> const b = f.make(3);
    f.fast->inject({.on = store_operation::deallocate, .times = 1, .how = faults::shortens{}});  // it is gone
    f.fast->inject({.on = store_operation::read, .nth = 2, .times = 2});                         // and no answer
    CHECK(f.store.allocate(100, 1).has_value());
    f.calm();
    for (std::size_t i = 0; i < 3; ++i) CHECK(contents(f.store, b[i]) == pattern(i, 100));
}

TEST_CASE("a batch is freed in one call a tier, without an allocation") {
    auto const         fast = std::make_shared<counted_store<heap_store>>(std::make_shared<heap_store>());
    auto const         slow = std::make_shared<counted_store<heap_store>>(std::make_shared<heap_store>());
    tiered_store       s(fast, slow, {.fast_bytes = 100'000});
    std::vector<block> live;
    for (int i = 0; i < 20'000; ++i) live.push_back(s.allocate(10, 1).value());
    CHECK(s.figures().slow.blocks == 10'000);
    auto const before_fast = fast->figures().deallocate.calls, before_slow = slow->figures().deallocate.calls;
    long const before = failing::now.allocations;
    CHECK(s.deallocate(live));
    CHECK(failing::now.allocations == before);
    CHECK(fast->figures().deallocate.calls == before_fast + 1);
    CHECK(slow->figures().deallocate.calls == before_slow + 1);
    CHECK(fast->figures().blocks == 0);
    CHECK(slow->figures().blocks == 0);
}

TEST_CASE("a batch of which a tier frees a part: the rest lives on") {
    for (std::size_t to = 0; to <= 3; ++to) {
        fixture                  f;
        std::vector<block> const b = f.make(6);
        f.fast->inject({.on = store_operation::deallocate, .how = faults::shortens{.to = to}});
        auto const outcome = f.store.deallocate(b);
        CHECK(outcome.has_value() == (to == 3));
        f.expect_exact(3 - to, 0);
        std::size_t whole = 0;
        for (std::size_t i = 0; i < 6; ++i) {
            byte_vector out(100);
            if (f.store.read(b[i], 0, out)) whole += out == pattern(i, 100);
        }
        CHECK(whole == 3 - to);
        if (to < 3) CHECK(f.store.deallocate(b).error() == errc::no_such_block);
        f.expect_empty();
    }
}

TEST_CASE("the destructor frees what is live") {
    auto const fast = make_faulty(), slow = make_faulty();
    {
        tiered s(fast, slow, {.fast_bytes = 300});
        for (int i = 0; i < 10; ++i) s.allocate(100, 1).value();
    }
    CHECK(fast->usage() == store_usage{});
    CHECK(slow->usage() == store_usage{});
    CHECK(fast->calls(store_operation::deallocate) == 8);  // seven moves
    CHECK(slow->calls(store_operation::deallocate) == 1);
}

namespace {

using gated = gated_store<plain_store<>>;

/// A demotion of the block `oldest`, which hangs in the slow tier.
struct hanging {
    std::shared_ptr<plain_store<>>     fast = std::make_shared<plain_store<>>();
    std::shared_ptr<gated>             slow = std::make_shared<gated>(std::make_shared<plain_store<>>());
    tiered_store<plain_store<>, gated> store{fast, slow, {.fast_bytes = 300}};
    block                              oldest = made(store, pattern(0, 100));
    std::vector<block>                 others;
    std::future<result<block>>         mover;

    hanging() {
        for (std::uint64_t i = 1; i < 3; ++i) others.push_back(made(store, pattern(i, 100)));
        slow->close_gate();
        mover = std::async(std::launch::async, [&] { return store.allocate(100, 1); });
        slow->await_write();
    }
    block finish() {
        slow->open_gate();
        return mover.get().value();
    }
    void expect_all_gone(std::vector<block> const& rest) {
        CHECK(store.deallocate(rest));
        CHECK(store.usage() == store_usage{});
        CHECK(fast->usage() == store_usage{});
        CHECK(slow->usage() == store_usage{});
    }
};

}  // namespace

TEST_CASE("while a block is moved the others are used and freed") {
    hanging h;
    CHECK(contents(h.store, h.others[0]) == pattern(1, 100));
    CHECK(h.store.write(h.others[1], 0, pattern(7, 100)));
    CHECK(h.store.deallocate(h.others));
    block const more = h.store.allocate(50, 1).value();
    CHECK(h.store.usage().blocks == 2);
    CHECK(h.store.usage().bytes == 150);
    block const last = h.finish();
    CHECK(contents(h.store, h.oldest) == pattern(0, 100));
    h.expect_all_gone({h.oldest, more, last});
}

TEST_CASE("a block that is moved can be freed, and nobody waits") {
    hanging h;
    CHECK(h.store.deallocate(std::vector{h.others[0], h.oldest}));
    CHECK(h.store.read(h.oldest, 0, {}).error() == errc::no_such_block);
    CHECK(h.store.deallocate(std::vector{h.oldest}).error() == errc::no_such_block);
    CHECK(h.store.usage().blocks == 1);
    block const last = h.finish();
    CHECK(h.fast->usage().blocks == 2);  // buried by the mover
    CHECK(h.slow->usage().blocks == 0);
    h.expect_all_gone({h.others[1], last});
}

TEST_CASE("who reads a block that is moved waits for it, and gets it whole") {
    hanging h;
    auto    reader = std::async(std::launch::async, [&] { return contents(h.store, h.oldest); });
    CHECK(reader.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
    block const last = h.finish();
    CHECK(reader.get() == pattern(0, 100));
    h.expect_all_gone({h.oldest, h.others[0], h.others[1], last});
}

TEST_CASE("without memory nothing is lost") {
    auto const base = std::make_shared<heap_store>();
    for (long nth = 1; FAILING_ALLOCATIONS; ++nth) {
        tiered_store       s(base, base, {.fast_bytes = 1'000});
        std::vector<block> live;
        live.reserve(300);
        failing::arm(failing::allocation | failing::mapping, nth);
        while (live.size() < 300) {
            auto const b = s.allocate(10, 1);
            if (!b) break;
            live.push_back(*b);
        }
        failing::disarm();
        CHECK(s.usage().blocks == live.size());
        CHECK(base->usage().blocks == live.size());
        CHECK(s.deallocate(live));
        CHECK(base->usage().blocks == 0);
        if (!failing::now.failed) break;
    }
}

namespace {

/// A random program against a plain model; with faults, if they are wanted.
void run_program(std::uint64_t seed, std::uint64_t steps, bool with_faults) {
    struct known {
        block       b;
        byte_vector contents;
        bool        sure = true;  ///< a write that failed leaves bytes unspecified
    };
    CAPTURE(seed);
    dice                                                     d(seed);
    fixture                                                  f(2'000);
    std::vector<known>                                       live;
    std::size_t                                              held = 0;
    std::vector<std::pair<std::uint64_t, tiered::pin_guard>> pins;

    for (std::uint64_t step = 0; step < steps; ++step) {
        CAPTURE(step);
        if (with_faults && d.one_in(10)) {
            fault x{.nth = 1 + d.below(5), .times = 1 + d.below(3)};
            if (d.one_in(2)) x.how = faults::shortens{.to = d.below(200)};
            (d.one_in(2) ? f.fast : f.slow)->inject(x);
        } else if (d.one_in(10)) {
            f.calm();
        }
        known* const k = live.empty() ? nullptr : &live[d.below(live.size())];
        switch (d.below(8)) {
        case 0:
        case 1: {
            std::size_t const n = d.one_in(20) ? d.below(3'000) : d.below(300);
            auto const        b = f.store.allocate(n, 1);
            if (!b) REQUIRE(with_faults);
            else live.push_back({*b, byte_vector(n), n == 0}), held += n;
            break;
        }
        case 2:
            if (!k) break;
            {
                byte_vector in = pattern(step, k->b.bytes);
                k->sure        = f.store.write(k->b, 0, in).has_value();
                k->contents    = std::move(in);
                if (!k->sure) REQUIRE(with_faults);
            }
            break;
        case 3:
            if (!k) break;
            {
                std::size_t const at = d.below(k->b.bytes + 1);
                byte_vector const in = pattern(step, d.below(k->b.bytes - at + 1));
                if (f.store.write(k->b, at, in)) std::ranges::copy(in, k->contents.begin() + static_cast<long>(at));
                else k->sure = false;
            }
            break;
        case 4:
        case 5: {
            if (!k) break;
            byte_vector out(k->b.bytes);
            if (!f.store.read(k->b, 0, out)) REQUIRE(with_faults);
            else if (k->sure) REQUIRE(out == k->contents);
            break;
        }
        case 6: {
            std::vector<block> many;
            for (std::size_t n = d.one_in(20) ? live.size() : d.below(std::min<std::size_t>(live.size(), 4) + 1);
                 n--;) {
                std::swap(live[d.below(live.size())], live.back());
                many.push_back(live.back().b);
                held -= live.back().b.bytes;
                live.pop_back();
            }
            if (auto const r = f.store.deallocate(many); !r) {
                REQUIRE(with_faults);
                REQUIRE(r.error() != errc::no_such_block);
                f.calm();
                f.store.deallocate(many);
            }
            break;
        }
        case 7:
            if (!k || d.one_in(2)) {
                if (!pins.empty()) pins.pop_back();
            } else if (pins.size() < 3) {
                if (auto p = f.store.pin(k->b)) pins.emplace_back(k->b.id, std::move(*p));
            }
            break;
        }
        REQUIRE(f.store.usage().bytes == held);
        REQUIRE(f.store.usage().blocks == live.size());
        tiered_figures const now = f.store.figures();
        REQUIRE(now.fast.bytes <= 2'000);
        REQUIRE(f.fast->usage().bytes <= 2'000 + (with_faults ? held : 0));
        if (!with_faults) REQUIRE(f.fast->usage().bytes == now.fast.bytes);
        if (!with_faults) REQUIRE(f.slow->usage().bytes == now.slow.bytes);
    }
    f.calm();
    std::vector<block> rest;
    for (known const& k : live) {
        if (k.sure) REQUIRE(contents(f.store, k.b) == k.contents);
        rest.push_back(k.b);
    }
    REQUIRE(f.store.deallocate(rest));
    REQUIRE(f.store.deallocate({}));
    f.expect_empty();
}

}  // namespace

TEST_CASE("random programs") {
    std::uint64_t const steps = from_environment("TENURE_STEPS", TENURE_SANITIZED ? 4'000 : 40'000);
    std::uint64_t const seed  = from_environment("TENURE_SEED", 1);
    for (std::uint64_t i = 0; i < 4; ++i) {
        run_program(seed + i, steps / 8, false);
        run_program(seed + i, steps / 8, true);
    }
}

TEST_CASE("threads, with blocks of their own and too little room") {
    auto const fast = make_faulty(), slow = make_faulty();
    {
        tiered                    s(fast, slow, {.fast_bytes = 2'000});
        std::vector<std::jthread> threads;
        std::atomic<int>          wrong{0};
        for (std::uint64_t t = 0; t < 4; ++t)
            threads.emplace_back([&, t] {
                dice                                       d(t);
                std::vector<std::pair<block, byte_vector>> live;
                for (std::uint64_t i = 0; i < (TENURE_SANITIZED ? 1'000u : 5'000u); ++i) {
                    if (live.size() < 20) {
                        byte_vector const in = pattern(t << 32 | i, d.below(300));
                        live.emplace_back(made(s, in), in);
                    }
                    auto& [b, want] = live[d.below(live.size())];
                    if (contents(s, b) != want) ++wrong;
                    if (d.one_in(4)) {
                        want = pattern(i, want.size());
                        s.write(b, 0, want).value();
                    }
                    if (d.one_in(8)) auto const held = s.pin(b).value();
                    if (d.one_in(20)) {
                        std::vector<block> many;
                        for (auto const& x : live) many.push_back(x.first);
                        if (!s.deallocate(many)) ++wrong;
                        live.clear();
                    }
                }
            });
        threads.clear();
        CHECK(wrong == 0);
        tiered_figures const f = s.figures();
        CHECK(fast->usage() == store_usage{f.fast.bytes, f.fast.blocks, 0});
        CHECK(slow->usage() == store_usage{f.slow.bytes, f.slow.blocks, 0});
        CHECK(f.fast.bytes <= 2'000);
        CHECK(f.failed_demotions + f.failed_promotions + f.left_behind == 0);
    }
    CHECK(fast->usage() == store_usage{});
    CHECK(slow->usage() == store_usage{});
}
