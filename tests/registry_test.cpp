// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The calls under the guard, by ids: for library writers, and for ends elsewhere.

#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <list>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "journal.hpp"
#include "throws.hpp"

namespace {

using tenure::batch_id;
using tenure::batch_scope;
using tenure::batch_status;
using tenure::cleanup;
using tenure::errc;
using tenure::handle;
using tenure::registry;

/// A registry of its own.
struct own_registry : accounting {
    registry   r;
    accounting books{r};
};

/// Runs f on a thread on which no recursion gets deep.
template <class F>
void with_small_stack(F f) {
    pthread_attr_t how;
    REQUIRE(pthread_attr_init(&how) == 0);
    REQUIRE(pthread_attr_setstacksize(&how, std::size_t{256} << 10) == 0);
    pthread_t  thread;
    auto const run = [](void* it) -> void* { return (*static_cast<F*>(it))(), nullptr; };
    REQUIRE(pthread_create(&thread, &how, run, &f) == 0);
    REQUIRE(pthread_join(thread, nullptr) == 0);
    REQUIRE(pthread_attr_destroy(&how) == 0);
}

}  // namespace

static_assert(!std::is_copy_constructible_v<registry> && !std::is_move_constructible_v<registry>);

TEST_SUITE("registry") {
    TEST_CASE_FIXTURE(own_registry, "a batch has nothing of the unusual one that had its record before") {
        constexpr std::uint64_t record = (std::uint64_t{1} << tenure::detail::record_bits) - 1;

        batch_id   visited{};
        auto const scope_with = [&](tenure::batch_options const& how) { return batch_scope{how}.id(); };
        std::vector<std::function<batch_id()>> const kinds{
            [&] {
                batch_id const id = scope_with({.cleanup = cleanup::manual});
                CHECK(r.status(id) == batch_status::retained);
                r.destroy_batch(id);
                return id;
            },
            [&] { return scope_with({.limits = {.hard = 100}}); },
            [&] { return scope_with({.timeout = std::chrono::hours(1)}); },
            [&] { return scope_with({.store = std::make_shared<tenure::heap_store>()}); },
            [&] { return scope_with({.reclaim = tenure::reclamation::background}); },
            [&] { return scope_with({.residency = tenure::residency::paged_when_left}); },
            [&] { return scope_with({.on_exception = tenure::on_exception::rollback}); },
            [&] {
                batch_scope    left;
                batch_id const id = left.detach();
                r.end_batch(id);
                return id;
            },
            [&] {
                batch_id const id = r.new_batch();
                r.end_batch(id);
                return id;
            },
            [&] {
                visited                 = r.new_batch();
                batch_id const previous = r.set_current_batch(visited);
                batch_id const id       = batch_scope{}.id();  // it notes that the thread was visiting
                r.set_current_batch(previous);
                return id;
            },
        };
        for (std::size_t k = 0; k < kinds.size(); ++k) {
            CAPTURE(k);
            batch_scope    outer{r};
            batch_id const before = kinds[k]();
            batch_scope    inner;
            REQUIRE((inner.id().value & record) == (before.value & record));
            auto const h = inner.make<int>(1);
            auto const a = inner.make<char[]>(100'000);
            CHECK(inner.keep(inner.make<int>(2)).owner() == outer.id());
            std::thread([&] { r.end_batch(outer.id()); }).join();
            CHECK(r.status(inner.id()) == batch_status::ending);
            check_throws(errc::batch_ended, {}, [&] { inner.make<int>(3); });
            inner.end();
            outer.end();
            CHECK_FALSE(h.alive());
            CHECK_FALSE(a.alive());
            CHECK(r.status(inner.id()) == batch_status::done);
            CHECK(r.status(outer.id()) == batch_status::done);
        }
        r.end_batch(visited);
    }

    TEST_CASE_FIXTURE(own_registry, "the global one is one, and others are apart from it") {
        CHECK(&registry::global() == &registry::global());
        CHECK(r.root() != registry::global().root());
        CHECK(r.status(r.root()) == batch_status::active);
        batch_id const mine = r.new_batch();
        check_throws(errc::no_such_batch, {"pass an id from"}, [&] { registry::global().end_batch(mine); });
        r.end_batch(mine);
    }

    TEST_CASE_FIXTURE(own_registry, "a batch without a guard is active until its id is ended") {
        batch_id const previous = tenure::current_batch();
        batch_id const id       = r.new_batch({.name = "unguarded"});
        CHECK(r.status(id) == batch_status::active);
        CHECK(tenure::current_batch() == previous);  // only set_current_batch makes it that
        r.end_batch(id);
        CHECK(r.status(id) == batch_status::done);
        CHECK(r.usage(id) == tenure::batch_usage{});
    }

    TEST_CASE_FIXTURE(own_registry, "new_batch: below a given one, which ends it") {
        batch_id const parent = r.new_batch();
        batch_id const child  = r.new_batch({}, parent);
        batch_id const other  = r.new_batch();
        for (tenure::batch_info const& b : r.snapshot().batches) {
            if (b.id == child) CHECK(b.parent == parent);
            if (b.id == other) CHECK(b.parent == r.root());
        }
        r.end_batch(parent);
        CHECK(r.status(parent) == batch_status::done);
        CHECK(r.status(child) == batch_status::done);
        CHECK(r.status(other) == batch_status::active);
        check_throws(errc::batch_ended, {to_text(parent)}, [&] { r.new_batch({}, parent); });
        r.end_batch(other);
    }

    TEST_CASE_FIXTURE(own_registry,
                      "parent, is_ancestor: of scopes, of what has no guard, of the root, of what is over") {
        batch_scope    a(r), b(r);
        batch_id const c = r.new_batch({}, b), beside = r.new_batch();
        CHECK(r.parent(c) == b.id());
        CHECK(r.parent(b) == a.id());
        CHECK(r.parent(a) == r.root());
        CHECK(r.parent(r.root()) == batch_id());
        for (batch_id const above : {b.id(), a.id(), r.root()}) {
            CHECK(r.is_ancestor(above, c));
            CHECK(!r.is_ancestor(above, r.root()));
            CHECK(!r.is_ancestor(c, above));
        }
        CHECK(!r.is_ancestor(b, b));
        CHECK(!r.is_ancestor(a, beside));
        CHECK(!r.is_ancestor(beside, c));
        r.end_batch(c);
        CHECK(r.parent(c) == batch_id());
        CHECK(!r.is_ancestor(a, c));

        registry const other;
        for (batch_id const stranger : {batch_id(), other.root()}) {
            check_throws(errc::no_such_batch, {"look above batch"}, [&] { r.parent(stranger); });
            check_throws(errc::no_such_batch, {"look below batch"}, [&] { r.is_ancestor(stranger, b); });
            check_throws(errc::no_such_batch, {"look above batch"}, [&] { r.is_ancestor(a, stranger); });
        }
        r.end_batch(beside);
    }

    TEST_CASE_FIXTURE(own_registry, "parent: the root's, once a scope with manual cleanup has ended") {
        batch_scope    above(r);
        auto           scope = std::make_unique<batch_scope>(r, tenure::batch_options{.cleanup = cleanup::manual});
        batch_id const id    = scope->id();
        CHECK(r.parent(id) == above.id());
        scope.reset();
        CHECK(r.parent(id) == r.root());
        r.destroy_batch(id);
        CHECK(r.parent(id) == batch_id());
    }

    TEST_CASE_FIXTURE(own_registry, "set_current_batch: says what was, so that a try/finally can put it back") {
        batch_id const id = r.new_batch({.name = "job"});
        handle<int>    h;
        auto const     work = [&](bool fail) {
            struct finally {
                registry& in;
                batch_id  previous;
                ~finally() { in.set_current_batch(previous); }
            } const restore{r, r.set_current_batch(id)};
            CHECK(tenure::current_batch() == id);
            h = tenure::make<int>(5);
            if (fail) throw std::runtime_error("half way");
        };
        batch_id const before = tenure::current_batch();
        CHECK(before == registry::global().root());
        work(false);
        CHECK(tenure::current_batch() == before);
        CHECK_THROWS_AS(work(true), std::runtime_error);
        CHECK(tenure::current_batch() == before);
        CHECK(h.owner() == id);
        CHECK(r.usage(id).objects == 2);
        r.end_batch(id);
        CHECK_FALSE(h.alive());
    }

    TEST_CASE_FIXTURE(own_registry, "set_current_batch: nested, and over an open guard") {
        batch_scope    guard{r};
        batch_id const one = r.new_batch(), two = r.new_batch();
        CHECK(r.set_current_batch(one) == guard.id());
        CHECK(r.set_current_batch(two) == one);
        {
            batch_scope inner;  // of the batch that is current
            CHECK(tenure::current_batch() == inner.id());
        }
        CHECK(tenure::current_batch() == two);
        CHECK(r.set_current_batch(guard.id()) == two);
        CHECK(tenure::make<int>(1).owner() == guard.id());
        r.end_batch(one);
        r.end_batch(two);
    }

    TEST_CASE_FIXTURE(own_registry,
                      "set_current_batch: a batch that is current on a thread is not freed before it is left") {
        batch_id const id       = r.new_batch();
        batch_id const previous = r.set_current_batch(id);
        auto const     h        = tenure::make<int>(1);
        std::thread([&] { r.end_batch(id); }).join();
        CHECK(r.status(id) == batch_status::ending);
        CHECK(*h == 1);
        check_throws(errc::batch_ended, {}, [] { (void)tenure::make<int>(2); });
        registry::global().set_current_batch(previous);
        CHECK(r.status(id) == batch_status::done);
        CHECK_FALSE(h.alive());
    }

    TEST_CASE_FIXTURE(own_registry, "end_batch: from any thread, and once more is a no-op") {
        journal        log;
        batch_id const id       = r.new_batch();
        batch_id const previous = r.set_current_batch(id);
        tenure::make<traced>(log, 1);
        tenure::make<traced>(log, 2);
        registry::global().set_current_batch(previous);
        std::thread([&] { r.end_batch(id); }).join();
        CHECK(log.ended == std::vector{2, 1});
        r.end_batch(id);
        r.destroy_batch(id);
        CHECK(log.ended == std::vector{2, 1});
    }

    TEST_CASE_FIXTURE(own_registry, "end_batch: of another thread's guard asks the scopes below it to stop, too") {
        batch_scope b(r);
        batch_scope below;
        batch_scope deepest;
        batch_scope apart(r, {});
        auto const  token = deepest.stop_token();
        std::thread([&] { r.end_batch(b.id()); }).join();
        CHECK(token.stop_requested());
        for (auto* const s : {&b, &below, &deepest, &apart})
            check_throws(errc::batch_ended, {}, [&] { s->make<int>(1); });
        CHECK(r.status(deepest.id()) == batch_status::ending);
    }

    TEST_CASE_FIXTURE(own_registry, "cleanup::manual: the end of the scope frees nothing, destroy_batch does") {
        journal        log;
        handle<traced> h;
        batch_id       id;
        {
            batch_scope b{r, {.name = "by hand", .cleanup = cleanup::manual}};
            id = b.id();
            h  = b.make<traced>(log, 1);
            CHECK(r.status(id) == batch_status::active);
        }
        CHECK(r.status(id) == batch_status::retained);
        CHECK(h->number() == 1);
        CHECK(h.owner() == id);
        CHECK(r.usage(id).objects == 1);
        check_throws(errc::batch_ended, {"#"}, [&] { r.set_current_batch(id); });
        r.end_batch(id);  // it has ended already
        CHECK(h.alive());
        r.destroy_batch(id);
        CHECK(r.status(id) == batch_status::done);
        CHECK(log.ended == std::vector{1});
        CHECK_FALSE(h.alive());
    }

    TEST_CASE_FIXTURE(own_registry, "cleanup::manual: the guard may be destroyed on another thread") {
        journal    log;
        auto       b  = std::make_unique<batch_scope>(r, tenure::batch_options{.cleanup = cleanup::manual});
        auto const id = b->id();
        b->make<traced>(log, 1);
        std::thread([&] { b.reset(); }).join();
        batch_scope const mine(r);  // this thread comes by, and closes it
        CHECK(log.alive == 1);
        CHECK(r.status(id) == batch_status::retained);
        r.destroy_batch(id);
        CHECK(log.alive == 0);
    }

    TEST_CASE_FIXTURE(own_registry, "cleanup::manual: many that hold each other leave when the innermost ends") {
        std::vector<batch_id> all;
        batch_id              above = r.root();
        for (int i = 0; i < 4'000; ++i) {
            auto const  inside = r.enter(above);
            batch_scope below{{.cleanup = cleanup::manual}};
            all.push_back(above = below.detach());
        }
        with_small_stack([&] {
            for (batch_id const id : all) r.end_batch(id);
        });
        CHECK(r.status(all.front()) == batch_status::retained);
        for (batch_id const id : all) r.destroy_batch(id);
        CHECK(r.status(all.front()) == batch_status::done);
    }

    TEST_CASE_FIXTURE(own_registry, "cleanup::manual: end() reports it, free and transfer still work") {
        journal     log;
        batch_scope outer{r};
        batch_scope b{r, {.cleanup = cleanup::manual}};
        auto const  freed = b.make<traced>(log, 1);
        auto const  moved = b.make<traced>(log, 2);
        auto const  left  = b.make<traced>(log, 3);
        auto const  end   = b.end();
        CHECK(end.status == batch_status::retained);
        CHECK(end.freed == 0);
        CHECK(tenure::current_batch() == outer.id());
        check_throws(errc::batch_ended, {}, [&] { (void)b.make<int>(1); });
        r.free(freed);
        r.transfer_ownership(moved, outer.id());
        outer.end();
        CHECK(log.ended == std::vector{1, 2});
        CHECK(left.alive());
        r.destroy_batch(b.id());
        CHECK(log.ended == std::vector{1, 2, 3});
    }

    TEST_CASE_FIXTURE(own_registry, "destroy_batch: also what is active") {
        journal     log;
        batch_scope b{r, {.cleanup = cleanup::manual}};
        b.make<traced>(log, 1);
        r.destroy_batch(b.id());
        CHECK(log.ended == std::vector{1});
        CHECK(b.status() == batch_status::done);
    }

    TEST_CASE_FIXTURE(own_registry, "transfer_ownership: to any batch") {
        journal        log;
        batch_id const sink = r.new_batch({.name = "sink"});
        batch_scope    outer{r};
        batch_scope    inner{r};
        auto const     traced_one = inner.make<traced>(log, 1);
        auto const     plain      = inner.make<int>(2);
        auto const     array      = inner.make<std::string[]>(3);
        auto const     large      = inner.make<char[]>(1'000'000);
        CHECK(r.transfer_ownership(traced_one, sink) == traced_one);
        CHECK(*r.try_transfer_ownership(plain, sink) == plain);
        r.transfer_ownership(array, sink);
        r.transfer_ownership(large, sink);
        CHECK(traced_one.owner() == sink);
        CHECK(r.transfer_ownership(plain, sink) == plain);  // it is there already
        inner.end();
        CHECK(traced_one->number() == 1);
        CHECK(*plain == 2);
        CHECK(r.usage(sink).objects == 4);
        r.transfer_ownership(traced_one, outer.id());
        r.end_batch(sink);
        CHECK_FALSE(plain.alive());
        CHECK_FALSE(array.alive());
        CHECK_FALSE(large.alive());
        CHECK(log.ended.empty());
        outer.end();
        CHECK(log.ended == std::vector{1});
    }

    TEST_CASE_FIXTURE(own_registry, "try_transfer_ownership: an error_code") {
        batch_scope    b{r};
        auto const     h     = b.make<int>(1);
        batch_id const ended = r.new_batch();
        r.end_batch(ended);
        CHECK(r.try_transfer_ownership(h, ended).error() == errc::batch_ended);
        CHECK(r.try_transfer_ownership(h, batch_id{}).error() == errc::no_such_batch);
        CHECK(r.try_transfer_ownership(handle<int>{}, b.id()).error() == errc::stale_handle);
        batch_scope elsewhere{registry::global()};
        CHECK(r.try_transfer_ownership(elsewhere.make<int>(1), b.id()).error() == errc::not_owner);
        CHECK(h.owner() == b.id());
    }

    TEST_CASE_FIXTURE(own_registry, "free: one, and a range of any batches' objects, from any thread") {
        journal                     log;
        batch_scope                 outer{r};
        batch_scope                 inner{r};
        std::vector<handle<traced>> many;
        for (int i = 0; i < 10; ++i) many.push_back((i % 2 ? outer : inner).make<traced>(log, i));
        r.free(many.back());
        CHECK(log.ended == std::vector{9});
        many.pop_back();
        std::thread([&] { r.free(std::list(many.begin(), many.begin() + 4)); }).join();
        many.erase(many.begin(), many.begin() + 4);
        CHECK(log.ended.size() == 5);
        many.push_back(many.front());  // named twice
        r.free(many);
        CHECK(log.ended.size() == 10);
        CHECK(log.alive == 0);
        for (auto const& h : many) CHECK_FALSE(h.alive());
        CHECK(inner.usage().objects == 0);
        CHECK(inner.end().freed == 5);
    }

    TEST_CASE_FIXTURE(own_registry, "free: of a range with one that is stale frees none") {
        journal     log;
        batch_scope b{r};
        auto const  one = b.make<traced>(log, 1), two = b.make<traced>(log, 2), three = b.make<traced>(log, 3);
        b.free(two);
        check_throws(errc::stale_handle, {}, [&] { r.free(std::vector{one, two, three}); });
        CHECK(one.alive());
        CHECK(three.alive());
        CHECK(log.ended == std::vector{2});
    }

    TEST_CASE_FIXTURE(own_registry, "usage: what batches hold, and what is ready for the next") {
        CHECK(r.usage().held == 0);
        {
            batch_scope b{r};
            b.make<char[]>(10'000'000);
            CHECK(b.usage().retained >= 10'000'000);
            CHECK(r.usage().held == b.usage().retained);
            CHECK(r.usage().mapped >= r.usage().held);
        }
        CHECK(r.usage().held == 0);
        CHECK(r.usage().cached >= 10'000'000);
        CHECK(r.trim() >= 8'000'000);
        CHECK(r.usage().cached < 10'000'000);
        CHECK(r.trim() == 0);
    }

    TEST_CASE_FIXTURE(own_registry, "free memory joins what is free beside it, in whichever order it became free") {
        for (int const order : {0, 1, 2}) {
            CAPTURE(order);
            registry                    apart;
            batch_scope                 b{apart};
            std::vector<handle<char[]>> all;
            all.push_back(b.make<char[]>(1'500'000));
            std::size_t const mapped = apart.usage().mapped;
            while (apart.usage().held + 2'000'000 < mapped) all.push_back(b.make<char[]>(1'500'000));
            CHECK(apart.usage().mapped == mapped);
            std::size_t const n = all.size();
            for (std::size_t i = 0; i < n; ++i) {
                std::size_t const k = order == 0   ? i
                                      : order == 1 ? n - 1 - i
                                      : i * 2 < n  ? i * 2
                                                   : (n - 1 - i) * 2 + 1;
                b.free(all[k]);
            }
            b.make<char[]>(mapped * 3 / 4);
            CHECK(apart.usage().mapped == mapped);
        }
    }

    TEST_CASE_FIXTURE(accounting, "memory that stays free goes back to the system, a little at a time") {
        registry r{{.decay = std::chrono::milliseconds(1)}};
        {
            batch_scope b{r};
            b.make<std::array<char, 100'000'000>>();
        }
        CHECK(r.usage().cached >= 100'000'000);
        std::size_t visits = 0;
        for (; r.usage().cached > 10'000'000 && visits < 1000; ++visits) {
            batch_scope b{r};
            b.make<std::array<char, 1'500'000>>();
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        CHECK(visits > 5);
        CHECK(visits < 1000);
    }

    TEST_CASE_FIXTURE(accounting,
                      "its destructor ends what is open, and says what detached and manual batches held") {
        journal     log;
        std::string leaks;
        int const   detached_line = __LINE__ + 4;
        {
            registry r{{.on_leak = [&](std::string const& report) { leaks += report; }}};
            {
                batch_scope b{r, {.name = "forgotten"}};
                b.make<traced>(log, 1);
                b.detach();
            }
            {
                batch_scope b{r, {.name = "by hand", .cleanup = cleanup::manual}};
                b.make<traced>(log, 2);
            }
            CHECK(r.leak_report().find("forgotten") != std::string::npos);
        }
        CAPTURE(leaks);
        CHECK(leaks.find("forgotten #") != std::string::npos);
        CHECK(leaks.find("by hand #") != std::string::npos);
        CHECK(leaks.find("registry_test.cpp:" + std::to_string(detached_line)) != std::string::npos);
        CHECK(leaks.find("1 objects") != std::string::npos);
        CHECK(leaks.find("retained") != std::string::npos);
        CHECK(log.alive == 0);
        CHECK(log.ended.size() == 2);
    }

    TEST_CASE("its destructor survives what on_leak throws, of any type, and tells the report itself") {
        std::FILE* const said = std::tmpfile();
        REQUIRE(said);
        int const before = ::dup(STDERR_FILENO);
        std::fflush(stderr);
        ::dup2(::fileno(said), STDERR_FILENO);
        int told = 0;
        for (int i = 0; i < 3; ++i) {
            registry r{{.on_leak = [&](std::string const&) {
                ++told;
                if (i == 0) throw std::runtime_error("the log is closed");
                if (i == 1) throw 5;
                throw std::bad_alloc();
            }}};
            batch_scope(r, {.name = "left " + std::to_string(i)}).detach();
        }
        std::fflush(stderr);
        ::dup2(before, STDERR_FILENO);
        ::close(before);
        CHECK(told == 3);
        std::string text(4096, '\0');
        std::rewind(said);
        text.resize(std::fread(text.data(), 1, text.size(), said));
        std::fclose(said);
        CAPTURE(text);
        for (char const* const name : {"left 0 #", "left 1 #", "left 2 #"})
            CHECK(text.find(name) != std::string::npos);
        CHECK(text.find("on_leak threw") != std::string::npos);
    }

    TEST_CASE("guards may outlive it: nested, with timeouts, ended before; here, and on another thread") {
        using scope = std::unique_ptr<batch_scope>;
        scope above, between, below, ended, far;
        {
            registry r({.on_leak = nullptr});
            above   = std::make_unique<batch_scope>(r, tenure::batch_options{.timeout = std::chrono::hours(1)});
            between = std::make_unique<batch_scope>(r);
            below   = std::make_unique<batch_scope>(r, tenure::batch_options{.timeout = std::chrono::minutes(1)});
            far     = std::make_unique<batch_scope>(r);
            ended   = std::make_unique<batch_scope>(r, tenure::batch_options{.timeout = std::chrono::minutes(1)});
            below->make<std::string>(50u, 'x');
            ended->end();
        }
        between.reset();
        ended.reset();
        std::thread([&] { far.reset(); }).join();
        above.reset();
        below.reset();
        batch_scope const one, two;
        CHECK(registry::current_batch() == two.id());
    }

    TEST_CASE("guards may outlive it where another thread destroys it") {
        auto r = std::make_unique<registry>(tenure::registry_options{.on_leak = nullptr});
        {
            batch_scope above(*r), below(*r);
            std::thread([&] { r.reset(); }).join();
        }
        batch_scope const one, two;
        CHECK(registry::current_batch() == two.id());
    }

    TEST_CASE("a destructor that its end runs opens a batch that would end in the background") {
        journal log;
        {
            registry    r({.on_leak = nullptr});
            batch_scope b(r);
            b.defer([&] {
                batch_scope late(r, {.reclaim = tenure::reclamation::background});
                late.make<traced>(log, 1);
            });
            b.detach();
        }
        CHECK(log.ended.size() == 1);
    }

    TEST_CASE_FIXTURE(accounting, "leak_report on demand; empty where nothing leaks") {
        registry    r;
        batch_scope open{r, {.name = "open"}};
        open.make<int>(1);
        CHECK(r.leak_report() == "");
        batch_id const id = r.new_batch({.name = "nobody's"});
        CHECK(r.leak_report().find("nobody's") != std::string::npos);
        CHECK(r.leak_report().find("open #") == std::string::npos);
        r.end_batch(id);
        CHECK(r.leak_report() == "");
    }

    TEST_CASE_FIXTURE(accounting, "leak reports say nothing of what is meant to live long, and of that alone") {
        std::string report;
        {
            registry       r({.on_leak = [&](std::string_view text) { report = text; }});
            batch_id const cache = r.new_batch({.name = "cache", .long_lived = true});
            r.new_batch({.name = "below it"}, cache);
            CHECK(r.leak_report().find("cache #") == std::string::npos);
        }
        CHECK(report.find("cache #") == std::string::npos);
        CHECK(report.find("below it") != std::string::npos);
        registry r({.on_leak = nullptr});
        r.end_batch(r.new_batch({.long_lived = true}));
        r.new_batch({.name = "in the same record"});
        CHECK(r.leak_report().find("in the same record") != std::string::npos);
    }
}
