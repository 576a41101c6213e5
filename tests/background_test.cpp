// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// reclamation::background: the end returns at once, the destructors run on a thread of the registry.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/json.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "throws.hpp"

namespace {

using tenure::batch_id;
using tenure::batch_options;
using tenure::batch_scope;
using tenure::batch_status;
using tenure::cleanup;
using tenure::errc;
using tenure::handle;
using tenure::registry;

constexpr auto background = tenure::reclamation::background;

/// What destructors wait at, so that one can look at batches that wait.
class gate {
public:
    void open() {
        open_ = true;
        open_.notify_all();
    }
    void shut() { open_ = false; }
    void pass() const { open_.wait(false); }

private:
    std::atomic<bool> open_{false};
};

/// What destructors write down, on whichever thread.
class diary {
public:
    void add(int n) {
        std::scoped_lock const guard(mutex_);
        numbers_.push_back(n);
        threads_.push_back(std::this_thread::get_id());
    }
    std::vector<int> numbers() const {
        std::scoped_lock const guard(mutex_);
        return numbers_;
    }
    bool all_elsewhere() const {
        std::scoped_lock const guard(mutex_);
        for (std::thread::id const t : threads_)
            if (t == std::this_thread::get_id() || t != threads_.front()) return false;
        return true;
    }

private:
    mutable std::mutex           mutex_;
    std::vector<int>             numbers_;
    std::vector<std::thread::id> threads_;
};

struct noted {
    diary& in;
    int    number;
    noted(diary& d, int n) : in(d), number(n) {}
    ~noted() { in.add(number); }
    noted(noted const&)            = delete;
    noted& operator=(noted const&) = delete;
};

struct gated {
    gate const& at;
    explicit gated(gate const& g) : at(g) {}
    ~gated() { at.pass(); }
    gated(gated const&)            = delete;
    gated& operator=(gated const&) = delete;
};

template <class F>
struct on_end {
    F call;
    explicit on_end(F f) : call(std::move(f)) {}
    ~on_end() { call(); }
    on_end(on_end const&)            = delete;
    on_end& operator=(on_end const&) = delete;
};

std::atomic<std::uint64_t> now{1'000'000'000};  ///< for timeouts

struct with_gate {
    gate     g;
    registry r{{.clock = []() noexcept { return now.load(); }}};
    diary    log;

    ~with_gate() {
        g.open();
        r.drain();
        CHECK(books_error(r.snapshot()) == "");
        CHECK(r.snapshot().batches.size() == 1);
    }

    /// A batch that waits until the gate opens, or keeps the thread busy meanwhile.
    batch_id hold_up() {
        batch_scope b{r, {.name = "at the gate", .reclaim = background}};
        b.make<gated>(g);
        return b.id();
    }
    tenure::batch_info info(batch_id id) const {
        for (tenure::batch_info const& b : r.snapshot().batches)
            if (b.id == id) return b;
        return {};
    }
};

struct point {
    double x, y;
};

std::string text(std::size_t i) { return "text number " + std::to_string(i) + " that no string keeps inside"; }

}  // namespace

TEST_SUITE("background") {
    TEST_CASE_FIXTURE(with_gate,
                      "the end returns at once; batches go in the order of their ends, each newest first") {
        hold_up();
        std::vector<handle<noted>> all;
        for (int i = 0; i < 10; ++i) {
            batch_scope b{r, {.reclaim = background}};
            for (int k = 0; k < 5; ++k) all.push_back(b.make<noted>(log, 10 * i + k));
        }
        CHECK(log.numbers().empty());
        for (auto const& h : all) {
            CHECK_FALSE(h.alive());
            CHECK(h.get() == nullptr);
        }
        check_throws(errc::stale_handle, {}, [&] { (void)all[0].owner(); });
        g.open();
        r.drain();
        std::vector<int> expected;
        for (int i = 0; i < 10; ++i)
            for (int k = 5; k-- > 0;) expected.push_back(10 * i + k);
        CHECK(log.numbers() == expected);
        CHECK(log.all_elsewhere());
    }

    TEST_CASE_FIXTURE(with_gate, "report, status and snapshot tell of it; it is no leak") {
        batch_id const first = hold_up();
        batch_scope    b{r, {.name = "later", .reclaim = background}};
        b.make<noted>(log, 1);
        b.make<noted>(log, 2);
        b.make<point>();
        b.free(b.make<noted>(log, 3));
        auto const end = b.end();
        CHECK(end.made == 4);
        CHECK(end.freed == 1);
        CHECK(end.status == batch_status::ending);
        CHECK(b.status() == batch_status::ending);
        CHECK(r.status(b.id()) == batch_status::ending);
        check_throws(errc::batch_ended, {"later"}, [&] { b.make<point>(); });
        CHECK(b.end().made == 0);

        tenure::snapshot const s = r.snapshot();
        CHECK(s.background.batches == 2);
        CHECK(s.background.bytes >= 2 * 65'536);
        CHECK(s.to_text().find("in the background 2 batches") != std::string::npos);
        CHECK(s.to_text().find("ending in the background, 3 objects") != std::string::npos);
        CHECK(s.to_json().find("\"in_background\": true") != std::string::npos);
        CHECK(info(b.id()).in_background);
        CHECK(info(b.id()).usage.objects == 3);
        CHECK(info(b.id()).usage.retained == 65'536);
        CHECK(books_error(s) == "");
        CHECK(r.leak_report() == "");

        g.open();
        r.drain();
        CHECK(b.status() == batch_status::done);
        CHECK(r.status(first) == batch_status::done);
        CHECK(r.snapshot().background.batches == 0);
        CHECK(r.snapshot().background.bytes == 0);
        CHECK(r.usage().held == 0);
        CHECK(log.numbers() == std::vector{3, 2, 1});
    }

    TEST_CASE_FIXTURE(with_gate, "where there are no destructors, there is nothing to wait for") {
        hold_up();
        handle<point> h;
        batch_id      id;
        {
            batch_scope b{r, {.reclaim = background}};
            id = b.id();
            for (int i = 0; i < 10'000; ++i) h = b.make<point>();
        }
        CHECK_FALSE(h.alive());
        CHECK(r.status(id) == batch_status::done);
        CHECK(r.snapshot().background.batches == 1);
    }

    TEST_CASE_FIXTURE(with_gate, "all kinds of objects are stale at once, kept ones are not") {
        hold_up();
        batch_scope home{r};
        batch_scope stranger{r, {.name = "stranger"}};
        batch_scope b{tenure::below(home), {.reclaim = background}};

        // In one unit: what stays and what goes, with and without destructors.
        std::vector<handle<std::string>> kept, left;
        std::vector<handle<point>>       kept_points, left_points;
        for (std::size_t i = 0; i < 1000; ++i) {
            (i % 3 ? left : kept).push_back(b.make<std::string>(text(i)));
            (i % 3 ? left_points : kept_points).push_back(b.make<point>(1.0 * static_cast<double>(i), 2.0));
        }
        b.keep(kept);
        b.keep(kept_points);
        // What others made and gave.
        auto const given       = stranger.make<std::string>(text(1));
        auto const given_point = stranger.make<point>(3.0, 4.0);
        auto const not_given   = stranger.make<point>(5.0, 6.0);
        r.transfer_ownership(given, b.id());
        r.transfer_ownership(given_point, b.id());
        // Large ones, arrays, what was adopted, a buffer.
        auto const large      = b.make<std::array<char, 300'000>>();
        auto const large_kept = b.keep(b.make<std::array<char, 300'000>>());
        auto const array      = b.make<std::string[]>(100);
        auto const vast       = b.make<std::string[]>(10'000);
        auto const adopted    = b.adopt(std::make_unique<std::string>(text(2)));
        auto const also_kept  = b.keep(b.adopt(std::make_unique<std::string>(text(3))));
        auto const buffer     = b.make_buffer<int>(1000);

        b.end();
        auto const look = [&] {
            for (auto const& h : left) CHECK_FALSE(h.alive());
            for (auto const& h : left_points) CHECK_FALSE(h.alive());
            for (std::size_t i = 0; i < kept.size(); ++i) CHECK(*kept[i] == text(3 * i));
            for (std::size_t i = 0; i < kept.size(); ++i) CHECK(kept_points[i]->x == 3.0 * static_cast<double>(i));
            CHECK_FALSE(given.alive());
            CHECK_FALSE(given_point.alive());
            CHECK(not_given->x == 5.0);
            CHECK_FALSE(large.alive());
            CHECK(large_kept.alive());
            CHECK_FALSE(array.alive());
            CHECK_FALSE(vast.alive());
            CHECK_FALSE(adopted.alive());
            CHECK(*also_kept == text(3));
            CHECK_FALSE(buffer.alive());
            check_throws(errc::stale_handle, {}, [&] { r.free(left[0]); });
            check_throws(errc::stale_handle, {}, [&] { r.free(adopted); });
            check_throws(errc::stale_handle, {}, [&] { r.transfer_ownership(given, home.id()); });
            check_throws(errc::stale_handle, {}, [&] { stranger.keep(given_point); });
        };
        look();
        r.free(kept.back());  // its unit is another batch's, which waits
        kept.pop_back();
        kept_points.pop_back();
        std::thread(look).join();
        g.open();
        r.drain();
        look();
        CHECK(stranger.usage().objects == 1);
        home.end();
        CHECK_FALSE(kept[0].alive());
        CHECK_FALSE(also_kept.alive());
    }

    TEST_CASE_FIXTURE(with_gate, "whoever takes what was kept may be over before, or after") {
        for (bool const before : {true, false}) {
            CAPTURE(before);
            g.shut();
            hold_up();
            batch_scope b{r, {.reclaim = background}};
            batch_scope c{r};
            auto const  h = c.make<std::string>(text(1)), i = b.make<std::string>(text(2));
            r.transfer_ownership(h, b.id());
            r.transfer_ownership(i, c.id());
            c.end();  // b's child: its units are held by b's shares now
            CHECK(*h == text(1));
            CHECK_FALSE(i.alive());
            if (before) r.free(h);
            b.end();
            CHECK_FALSE(h.alive());
            g.open();
            r.drain();
            CHECK(r.usage().held == 0);
        }
    }

    TEST_CASE_FIXTURE(with_gate, "a container that outlives its batch is harmless meanwhile") {
        hold_up();
        auto                  b = std::make_unique<batch_scope>(r, batch_options{.reclaim = background});
        std::pmr::vector<int> small(100, b->resource()), large(100'000, b->resource());
        b->make<noted>(log, 1);
        b.reset();
        small.resize(50);
        small = std::pmr::vector<int>();
        CHECK_THROWS_AS(large.resize(200'000), tenure::error);
        large = std::pmr::vector<int>();
        CHECK(r.snapshot().background.batches == 2);
    }
}

TEST_SUITE("destructors in the background") {
    TEST_CASE_FIXTURE(with_gate, "find the root current, and of their batch what is older than they") {
        std::atomic<int> seen{0};
        {
            batch_scope b{r, {.reclaim = background}};
            auto const  id      = b.id();
            auto const  older   = b.make<std::string>(text(1));
            auto const  adopted = b.adopt(std::make_unique<std::string>(text(2)));
            auto const  freed   = b.make<std::string>(text(3));
            auto const  in      = std::make_shared<handle<std::string>>();
            auto const  look    = [&, this, id, older, adopted, freed, in] {
                CHECK(tenure::current_batch() == r.root());
                CHECK(*older == text(1));
                CHECK(*adopted == text(2));
                CHECK_FALSE(freed.alive());
                CHECK_FALSE(in->alive());  // newer
                CHECK(*tenure::make<int>(1) == 1);
                batch_scope s;
                CHECK(*s.keep(s.make<std::string>(text(5))) == text(5));
                CHECK(r.try_free(older).error() == errc::batch_ended);
                CHECK(r.status(id) == batch_status::ending);
                r.drain();  // would wait for itself
                ++seen;
            };
            b.make<on_end<decltype(look)>>(look);
            *in = b.make<std::string>(text(4));
            b.free(freed);
        }
        r.drain();
        CHECK(seen == 1);
    }

    TEST_CASE_FIXTURE(with_gate, "make, transfer and free in other batches, and put back what was current") {
        batch_id const home = r.new_batch({.name = "home"});
        handle<int>    old;
        {
            batch_id const before = r.set_current_batch(home);
            old                   = tenure::make<int>(1);
            r.set_current_batch(before);
        }
        handle<std::string> made;
        {
            batch_scope b{r, {.reclaim = background}};
            auto const  work = [&, this] {
                batch_id const previous = r.set_current_batch(home);
                made                    = tenure::make<std::string>(text(5));
                for (int i = 0; i < 100; ++i) tenure::make<noted>(log, i);
                r.free(old);
                r.set_current_batch(previous);
            };
            b.make<on_end<decltype(work)>>(work);
            auto const leave_it = [&, this] { r.set_current_batch(home); };  // and forget to
            b.make<on_end<decltype(leave_it)>>(leave_it);
        }
        r.drain();
        CHECK(*made == text(5));
        CHECK_FALSE(old.alive());
        CHECK(r.usage(home).objects == 101);
        r.end_batch(home);
        CHECK(r.status(home) == batch_status::done);  // the thread has left it
        CHECK(log.numbers().size() == 100);
    }

    TEST_CASE_FIXTURE(with_gate, "open and end batches, also such that go in the background") {
        std::atomic<int> ends{0};
        {
            batch_scope b{r, {.reclaim = background}};
            auto const  nested = [&, this] {
                batch_id const other  = r.new_batch({.reclaim = background});
                batch_id const before = r.set_current_batch(other);
                auto const     count  = [&] { ++ends; };
                tenure::make<on_end<decltype(count)>>(count);
                r.set_current_batch(before);
                r.end_batch(other);
            };
            for (int i = 0; i < 100; ++i) b.make<on_end<decltype(nested)>>(nested);
        }
        r.drain();
        CHECK(ends == 100);
    }
}

TEST_SUITE("memory that waits") {
    TEST_CASE("is bounded: past the limit who ends a batch does it") {
        gate  g;
        diary log;
        {
            registry   r{{.background_limit = 400'000}};
            auto const end_one = [&](std::size_t bytes, int n) {
                batch_scope b{r, {.reclaim = background}};
                b.make<gated>(g);
                b.make<char[]>(bytes);
                b.make<noted>(log, n);
            };
            end_one(10'000'000, 1);  // one may have more
            CHECK(r.snapshot().background.batches == 1);
            g.open();
            r.drain();
            g.shut();
            for (int i = 0; i < 4; ++i) end_one(10'000, 10 + i);  // a unit and a record each
            CHECK(r.snapshot().background.batches == 4);
            CHECK(r.snapshot().background.bytes <= 400'000);
            g.open();
            end_one(200'000, 20);
            r.drain();
            CHECK(log.numbers().size() == 6);

            // As many as come: what waits stays below, whoever frees them.
            g.shut();
            std::size_t most = 0;
            {
                std::jthread const opener([&] {
                    std::this_thread::sleep_for(std::chrono::milliseconds(20));
                    g.open();
                });
                for (int i = 0; i < 200; ++i) {
                    end_one(10'000, 100 + i);
                    most = std::max(most, r.snapshot().background.bytes);
                }
            }
            CHECK(most <= 400'000);
            r.drain();
            CHECK(log.numbers().size() == 206);
            CHECK(r.usage().held == 0);
        }
    }

    TEST_CASE("0: nothing waits but one") {
        gate       g;
        diary      log;
        registry   r{{.background_limit = 0}};
        auto const end_one = [&](int n, bool shut) {
            batch_scope b{r, {.reclaim = background}};
            b.make<noted>(log, n);
            if (shut) b.make<gated>(g);
        };
        end_one(1, true);
        end_one(2, false);
        CHECK(log.numbers().back() == 2);
        g.open();
        r.drain();
        CHECK(log.numbers().size() == 2);
    }

    TEST_CASE("goes by itself: where there was work of late, and where there was none for long") {
        std::atomic<int> ends{0};
        auto const       count = [&] {
            ++ends;
            ends.notify_all();
        };
        registry r;
        for (int i = 0; i < 4; ++i) {
            if (i == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1300));
            batch_scope{r, {.reclaim = background}}.make<on_end<decltype(count)>>(count);
            ends.wait(i);
        }
        CHECK(ends == 4);
    }

    TEST_CASE("goes with its registry, destructors and all") {
        std::atomic<int> ends{0};
        {
            registry   r{{.on_leak = [](std::string const& report) { FAIL_CHECK(report); }}};
            auto const count = [&] { ++ends; };
            for (int i = 0; i < 100; ++i) {
                batch_scope b{r, {.reclaim = background}};
                for (int k = 0; k < 100; ++k) b.make<on_end<decltype(count)>>(count);
            }
        }
        CHECK(ends == 10'000);
    }
}

TEST_SUITE("ends in the background and other batches") {
    TEST_CASE_FIXTURE(with_gate, "the batch above does not wait for it") {
        batch_id parent, child;
        {
            batch_scope p{r};
            parent = p.id();
            hold_up();
            batch_scope b{tenure::below(p), {.reclaim = background}};
            child = b.id();
            b.make<noted>(log, 1);
            p.make<noted>(log, 2);
        }
        CHECK(r.status(parent) == batch_status::done);
        CHECK(r.status(child) == batch_status::ending);
        CHECK(log.numbers() == std::vector{2});
        CHECK(info(child).parent == r.root());

        batch_id const loose = r.new_batch();
        batch_id const below = r.new_batch({.reclaim = background}, loose);
        batch_id const top   = r.set_current_batch(below);
        tenure::make<noted>(log, 3);
        r.set_current_batch(top);
        r.end_batch(loose);
        CHECK(r.status(loose) == batch_status::done);
        CHECK(r.status(below) == batch_status::ending);
    }

    TEST_CASE_FIXTURE(with_gate, "but for one with limits, which get their charges back") {
        batch_id parent;
        {
            batch_scope p{r, {.limits = {.hard = 1'000'000}}};
            parent = p.id();
            {
                batch_scope b{tenure::below(p), {.reclaim = background}};
                b.make<gated>(g);
                b.make<char[]>(800'000);
            }
            CHECK(p.try_make<char[]>(800'000).error() == errc::limit_exceeded);  // it is still there
            g.open();
            r.drain();
            CHECK(p.try_make<char[]>(800'000).has_value());
            g.shut();
            batch_scope b{tenure::below(p), {.reclaim = background, .limits = {.hard = 100'000}}};
            b.make<gated>(g);
        }
        CHECK(r.status(parent) == batch_status::ending);
        g.open();
        r.drain();
        CHECK(r.status(parent) == batch_status::done);
    }

    TEST_CASE_FIXTURE(with_gate, "and one that goes in the background, too, which goes after it") {
        hold_up();
        batch_id parent;
        {
            batch_scope p{r, {.reclaim = background}};
            parent           = p.id();
            auto const above = p.make<std::string>(text(1));
            p.make<noted>(log, 3);
            for (int i = 1; i <= 2; ++i) {
                batch_scope b{tenure::below(p), {.reclaim = background}};
                auto const  use = [this, above, i] {
                    CHECK(*above == text(1));  // whose destructors run later
                    log.add(i);
                };
                b.make<on_end<decltype(use)>>(use);
            }
        }
        CHECK(r.status(parent) == batch_status::ending);
        g.open();
        r.drain();
        CHECK(log.numbers() == std::vector{1, 2, 3});
    }

    TEST_CASE_FIXTURE(with_gate, "ended by its id, from any thread; detached; by hand; with children") {
        hold_up();
        batch_scope outer{r};
        batch_id    detached, manual, asked;
        {
            batch_scope b{tenure::below(outer), {.reclaim = background}};
            b.make<noted>(log, 1);
            detached = b.detach();
        }
        {
            batch_scope b{tenure::below(outer), {.cleanup = cleanup::manual, .reclaim = background}};
            b.make<noted>(log, 2);
            manual = b.id();
        }
        CHECK(r.status(manual) == batch_status::retained);
        std::thread([&] {
            CHECK(r.end_with_report(detached).made == 1);
            r.destroy_batch(manual);
        }).join();
        CHECK(r.status(detached) == batch_status::ending);
        CHECK(r.status(manual) == batch_status::ending);
        {
            batch_scope b{tenure::below(outer), {.reclaim = background}};
            b.make<noted>(log, 4);
            asked = b.id();
            std::thread([&] { r.end_batch(asked); }).join();  // its guard is asked to stop
            CHECK(r.snapshot().background.batches == 3);
        }
        outer.end();
        CHECK(outer.status() == batch_status::done);
        CHECK(log.numbers().empty());
        g.open();
        r.drain();
        CHECK(log.numbers() == std::vector{1, 2, 4});
    }

    TEST_CASE_FIXTURE(with_gate,
                      "cancelled or expired: handles say so at once, and one that ended in time was not late") {
        hold_up();
        batch_id const cancelled = r.new_batch({.reclaim = background});
        batch_id const late      = r.new_batch({.reclaim = background, .timeout = std::chrono::seconds(1)});
        batch_id const in_time   = r.new_batch({.reclaim = background, .timeout = std::chrono::seconds(1)});
        std::vector<handle<noted>> all;
        batch_id const             before = tenure::current_batch();
        for (batch_id const id : {cancelled, late, in_time}) {
            r.set_current_batch(id);
            all.push_back(tenure::make<noted>(log, static_cast<int>(all.size())));
        }
        r.set_current_batch(before);
        r.cancel(cancelled);
        r.end_batch(in_time);
        now += 2'000'000'000;
        CHECK(r.expire_overdue() == tenure::no_timeout);
        CHECK(log.numbers().empty());
        auto const look = [&] {
            check_throws(errc::cancelled, {}, [&] { (void)all[0]->number; });
            check_throws(errc::expired, {}, [&] { (void)all[1]->number; });
            check_throws(errc::stale_handle, {}, [&] { (void)all[2]->number; });
        };
        look();
        g.open();
        r.drain();
        look();
        CHECK(log.numbers() == std::vector{0, 2, 1});
    }

    TEST_CASE_FIXTURE(with_gate, "while a thread is inside it, it is not even put off") {
        batch_id const id = r.new_batch({.reclaim = background});
        handle<noted>  h;
        {
            auto const inside = r.enter(id);
            h                 = tenure::make<noted>(log, 1);
            r.end_batch(id);
            CHECK(h.alive());
            CHECK(r.snapshot().background.batches == 0);
        }
        CHECK_FALSE(h.alive());
        r.drain();
        CHECK(log.numbers() == std::vector{1});
        CHECK(log.all_elsewhere());
    }

    TEST_CASE_FIXTURE(with_gate, "guards on a thread that is gone, or other than their own") {
        auto b = std::make_unique<batch_scope>(r, batch_options{.reclaim = background});
        b->make<noted>(log, 1);
        std::thread([&] { b.reset(); }).join();
        batch_scope const next{r};  // comes by
        r.drain();
        CHECK(log.numbers() == std::vector{1});
    }
}

namespace {

/// Objects of one random run, counted.
struct census {
    std::atomic<long> made{0}, ended{0};
};

struct counted {
    census*             in;
    std::string         words = text(7);
    handle<std::string> brother{};

    explicit counted(census& c) : in(&c) { ++c.made; }
    ~counted() {
        if (brother.alive()) CHECK(brother->starts_with("text number"));
        ++in->ended;
    }
    counted(counted const&)            = delete;
    counted& operator=(counted const&) = delete;
};

}  // namespace

TEST_CASE("random ends from several threads, in the background and not") {
    constexpr int threads = 4, rounds = TENURE_SANITIZED ? 150 : 2'000;
    census        c;
    {
        registry                   r{{.background_limit = 2'000'000}};
        batch_id const             common = r.new_batch({.name = "common"});
        std::mutex                 mutex;
        std::vector<batch_id>      open;
        std::vector<std::jthread>  crew;
        std::atomic<std::uint64_t> stale{0};
        for (unsigned t = 0; t < threads; ++t)
            crew.emplace_back([&, t] {
                std::mt19937 random(t);
                auto const   one_of = [&](unsigned n) { return random() % n; };
                for (int i = 0; i < rounds; ++i) {
                    batch_scope b{r, {.reclaim = one_of(4) ? background : tenure::reclamation::at_once}};
                    std::vector<handle<counted>> mine;
                    std::size_t const            n = one_of(16) == 0 ? 2'000 : one_of(40);
                    for (std::size_t k = 0; k < n; ++k) {
                        mine.push_back(b.make<counted>(c));
                        if (k % 3 == 0) mine.back()->brother = b.make<std::string>(text(k));
                    }
                    for (auto const& h : mine) {
                        switch (one_of(12)) {
                        case 0: b.free(h); break;
                        case 1: r.transfer_ownership(h, common); break;
                        case 2: b.keep(h); break;  // to the root: until the registry goes
                        }
                    }
                    if (one_of(3) == 0) {
                        batch_scope inner{tenure::below(b), {.reclaim = background}};
                        for (int k = 0; k < 5; ++k) inner.keep(inner.make<counted>(c));
                        for (int k = 0; k < 5; ++k) inner.make<counted>(c);
                        if (one_of(2)) b.end();
                    }
                    std::scoped_lock const guard(mutex);
                    if (b.status() == batch_status::active && one_of(4) == 0) open.push_back(b.detach());
                    if (open.size() > 10) {
                        std::swap(open[one_of(10)], open.back());
                        r.end_batch(open.back());
                        open.pop_back();
                    }
                    if (!mine.empty() && b.status() != batch_status::active) stale += mine[0].alive() ? 0 : 1;
                }
            });
        crew.clear();
        for (batch_id const id : open) r.end_batch(id);
        r.end_batch(common);
        r.drain();
        CHECK(books_error(r.snapshot()) == "");
        CHECK(r.snapshot().batches.size() == 1);
        CHECK(r.usage(r.root()).objects == static_cast<std::size_t>(c.made - c.ended));
    }
    CHECK(c.made == c.ended);
    CHECK(c.made > threads * rounds);
}
