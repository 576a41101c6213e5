// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/uses/registry_uses.hpp>
#include <tenure/json.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "journal.hpp"
#include "throws.hpp"

namespace {

using tenure::batch_id;
using tenure::batch_scope;
using tenure::batch_status;
using tenure::buffer;
using tenure::errc;
using tenure::handle;
using tenure::pinned;
using tenure::registry;

using ids = std::vector<batch_id>;

struct fixture : accounting {
    registry&             r = registry::global();
    std::vector<batch_id> open;

    ~fixture() {
        for (batch_id const b : open) r.destroy_batch(b);
    }

    batch_id batch(tenure::batch_options const& options = {}, batch_id parent = {}) {
        return open.emplace_back(r.new_batch(options, parent));
    }
    template <class T, class... Args>
    handle<T> make(batch_id in, Args&&... args) {
        auto const here = r.enter(in);
        return tenure::make<T>(std::forward<Args>(args)...);
    }
    bool is(batch_id b, batch_status s) const { return r.status(b) == s; }
};

/// What was done so far for all uses, in edges looked at and steps from one batch to the next.
std::uint64_t steps() {
    return tenure::detail::uses_of(*tenure::detail::current_lane().batch->registry.load())->graph.steps();
}

/// `n` batches, each with one object; each uses the one before it.
struct row {
    row(registry& in, std::size_t n, bool ring) : r(in) {
        for (std::size_t i = 0; i < n; ++i) {
            batches.push_back(r.new_batch());
            auto const here = r.enter(batches[i]);
            objects.push_back(tenure::make<std::size_t>(i));
            if (i > 0) tenure::borrow(objects[i - 1]);
        }
        if (ring) r.borrow(batches[0], objects[n - 1]);
    }

    std::size_t alive() const {
        return static_cast<std::size_t>(
            std::count_if(objects.begin(), objects.end(), [](auto& h) { return h.alive(); }));
    }

    registry&                        r;
    std::vector<batch_id>            batches;
    std::vector<handle<std::size_t>> objects;
};

/// Nanoseconds; only a test makes them pass.
std::atomic<std::uint64_t> virtual_now{1};

/// A registry on virtual time, whose batches are over before their end: their time is up, or they are cancelled.
struct short_lived {
    explicit short_lived(bool expiry) : by_time(expiry) {}

    static tenure::registry_options on_virtual_time() {
        tenure::registry_options o;
        o.clock = []() noexcept { return virtual_now.load(); };
        return o;
    }

    tenure::batch_options options() const {
        return {.timeout = by_time ? std::chrono::milliseconds(1) : tenure::no_timeout};
    }
    void cut(batch_id b, std::uint64_t after = 1'000'000) {
        if (!by_time) return r.cancel(b);
        virtual_now += after;
        r.expire_overdue();
    }
    handle<traced> make(batch_id in, int number) {
        auto const here = r.enter(in);
        return tenure::make<traced>(j, number);
    }
    bool is_cut(batch_id b) const {
        return r.status(b) == (by_time ? batch_status::expired : batch_status::cancelled);
    }

    bool const by_time;
    errc const why = by_time ? errc::expired : errc::cancelled;
    journal    j;
    registry   r{on_virtual_time()};
    accounting books{r};
};

}  // namespace

TEST_SUITE("a pin") {
    TEST_CASE_FIXTURE(fixture, "keeps the object of a batch that ends, and the batch whole") {
        batch_id const owner = batch();
        auto const     a = make<int>(owner, 1), b = make<int>(owner, 2);
        {
            batch_scope user{{.name = "user"}};
            auto const  p = tenure::pin(a);
            r.end_batch(owner);
            CHECK(is(owner, batch_status::ending));
            CHECK(r.waits_for(owner) == ids{user.id()});
            CHECK(*p == 1);
            CHECK(p.get() == a.get());
            CHECK(*b == 2);
            CHECK_THROWS_AS(auto const e = r.enter(owner), tenure::error);
        }
        CHECK(is(owner, batch_status::done));
        CHECK(!a.alive());
        CHECK(!b.alive());
    }

    TEST_CASE_FIXTURE(fixture, "ends with its guard, by release(), and moves from guard to guard") {
        batch_id const owner = batch();
        auto const     h     = make<int>(owner, 1);
        batch_scope    user;
        {
            pinned<int> first = tenure::pin(h), second;
            CHECK(!second);
            check_throws(errc::stale_handle, {}, [&] { *second; });
            second = std::move(first);
            CHECK(!first);
            CHECK(first.get() == nullptr);
            r.end_batch(owner);
            first.release();
            CHECK(h.alive());
            pinned<int> third(std::move(second));
            second = {};
            CHECK(*third == 1);
            third = tenure::pin(h);  // one more, of a batch that has ended, before the other goes
            CHECK(*third == 1);
            third.release();
            CHECK(!third);
            third.release();
        }
        CHECK(!h.alive());
    }

    TEST_CASE_FIXTURE(fixture, "forbids free, free of a range, and discard; not keep and transfer") {
        batch_scope outer;
        batch_scope inner;
        auto const  h = inner.make<int>(7), other = inner.make<int>(8);
        inner.keep(h);
        auto p = tenure::pin(h);  // inner's, which is no hindrance to its own end
        check_throws(errc::object_pinned, {"release the pin"}, [&] { outer.free(h); });
        CHECK(outer.try_free(h).error() == errc::object_pinned);
        check_throws(errc::object_pinned, {}, [&] { r.free(h); });
        check_throws(errc::object_pinned, {}, [&] { r.free(std::vector{other, h}); });
        CHECK(other.alive());

        batch_id const third = batch();
        r.borrow(third, h);
        check_throws(errc::object_pinned, {"discard"}, [&] { inner.discard(); });
        CHECK(inner.status() == batch_status::active);
        CHECK(*p == 7);
        r.transfer_ownership(h, third);  // whose own pin it is now
        CHECK(h.owner() == third);
        r.transfer_ownership(h, outer.id());
        r.end_batch(third);
        CHECK(is(third, batch_status::done));
        auto const report = inner.discard();
        CHECK(report.status == batch_status::done);
        CHECK(report.pins_held == 1);
        CHECK(!h.alive());
        CHECK(!p);
    }

    TEST_CASE_FIXTURE(fixture, "goes with the batch that took it, which reports it") {
        batch_id const owner = batch();
        auto const     h     = make<int>(owner, 7);
        batch_scope    user;
        tenure::borrow(h);
        std::vector<pinned<int>> guards;
        for (int i = 0; i < 6; ++i) guards.push_back(tenure::pin(h));
        unsigned const line = __LINE__ - 1;
        guards.erase(guards.begin());
        auto const report = user.end();
        CHECK(report.pins_held == 5);
        for (auto const& where : report.pins) {
            CHECK(where.line() == line);
            CHECK(std::string(where.file_name()).ends_with("pins_test.cpp"));
        }
        for (auto const& p : guards) {
            CHECK(!p);
            check_throws(errc::stale_handle, {}, [&] { *p; });
        }
        CHECK(*h == 7);
        CHECK(user.end().pins_held == 0);
        check_throws(errc::batch_ended, {}, [&] { user.borrow(h); });
        r.free(h);
    }

    TEST_CASE_FIXTURE(fixture, "is refused for what is stale, another registry's, or for a batch that has ended") {
        batch_scope user;
        auto const  h = user.make<int>(1);
        user.free(h);
        check_throws(errc::stale_handle, {}, [&] { auto const p = tenure::pin(h); });
        check_throws(errc::stale_handle, {}, [&] { auto const p = tenure::pin(handle<int>{}); });
        CHECK(tenure::try_pin(h).error() == errc::stale_handle);
        CHECK(tenure::try_borrow(h).error() == errc::stale_handle);
        registry    other;
        batch_scope there(other);
        auto const  stranger = there.make<int>(2);
        check_throws(errc::not_owner, {}, [&] { user.borrow(stranger); });
        check_throws(errc::no_such_batch, {}, [&] { r.borrow({~std::uint64_t{0}}, stranger); });
        CHECK(*tenure::pin(stranger) == 2);
        there.end();
        batch_id const over = r.new_batch();
        r.end_batch(over);
        check_throws(errc::batch_ended, {}, [&] { r.borrow(over, user.make<int>(3)); });
        CHECK(user.try_borrow(user.make<int>(4)).has_value());  // its own: fine, and no reason to wait
    }

    TEST_CASE_FIXTURE(fixture, "holds arrays, bases, what was adopted and what is large") {
        struct base {
            int n;
        };
        struct derived : base {
            std::array<char, 100'000> much;
        };
        batch_id const owner        = batch();
        auto const     array        = make<int[]>(owner, 3u);
        auto const     large        = make<derived>(owner);
        large->n                    = 9;
        handle<base> const  as_base = large;
        handle<std::string> adopted;
        {
            batch_scope in_owner{};
            adopted = in_owner.adopt(new std::string("elsewhere"));
            r.transfer_ownership(adopted, owner);
        }
        batch_scope user;
        auto const  p = tenure::pin(array);
        array[2]      = 5;
        CHECK(p[2] == 5);
        CHECK(p.size() == 3);
        CHECK(p.span().size() == 3);
        check_throws(errc::out_of_range, {}, [&] { p[3]; });
        auto const q = tenure::pin(as_base);
        auto const s = tenure::pin(adopted);
        CHECK(r.try_free(large).error() == errc::object_pinned);  // by whichever name
        CHECK(r.try_free(adopted).error() == errc::object_pinned);
        r.end_batch(owner);
        CHECK(q->n == 9);
        CHECK(*s == "elsewhere");
        user.end();
        CHECK(!p);
        CHECK(p.get() == nullptr);
        check_throws(errc::stale_handle, {}, [&] { p.span(); });
        CHECK(!adopted.alive());
    }

    TEST_CASE_FIXTURE(fixture, "keeps a buffer in its store") {
        batch_scope             owner;
        auto const              b     = owner.make_buffer<int>(100);
        tenure::any_store const store = std::make_shared<tenure::heap_store>();
        {
            batch_scope               user;
            pinned<buffer<int>> const p = tenure::pin(b);
            CHECK(p->size() == 100);
            check_throws(errc::object_pinned, {}, [&] { b.move_to(store); });
            check_throws(errc::object_pinned, {}, [&] { owner.free(b); });
            CHECK(b.stores() != std::vector{store});
            user.end();
            CHECK(!p);
            check_throws(errc::stale_handle, {}, [&] { p->size(); });
        }
        b.move_to(store);
        CHECK(b.stores() == std::vector{store});
    }

    TEST_CASE_FIXTURE(fixture, "keeps the bytes of a buffer, which evict() would drop") {
        batch_scope user;
        auto const  mine = user.make_buffer<int>(10);
        {
            auto const p = tenure::pin(mine);
            check_throws(errc::object_pinned, {}, [&] { tenure::evict(mine); });
        }
        tenure::evict(mine);
        int one = 0;
        check_throws(errc::evicted, {}, [&] { mine.read(0, {&one, 1}); });
    }

    TEST_CASE_FIXTURE(fixture, "forbids a checkpoint of the owner, and a rollback") {
        batch_scope owner;
        auto const  h = owner.make<int>(1);
        owner.checkpoint();
        *h = 2;
        {
            batch_scope user;
            auto const  p = tenure::pin(h);
            check_throws(errc::batch_in_use, {}, [&] { owner.checkpoint(); });
            check_throws(errc::batch_in_use, {}, [&] { owner.rollback(); });
        }
        CHECK(*h == 2);
        owner.rollback();
        CHECK(*h == 1);
    }

    TEST_CASE_FIXTURE(fixture, "of what is shared is what the last of its owners waits for") {
        batch_id const first = batch(), second = batch();
        auto const     h = make<int>(first, 7);
        {
            batch_scope user;
            auto const  p = tenure::pin(h);
            r.share(h, second);
            r.end_batch(first);
            r.end_batch(second);
            CHECK(is(first, batch_status::done));
            CHECK(is(second, batch_status::done));
            CHECK(*p == 7);
            CHECK(h.alive());
        }
        CHECK_FALSE(h.alive());
    }

    TEST_CASE_FIXTURE(fixture, "keeps its batch from being paged out") {
        batch_id const owner = batch({.name = "pages"});
        auto const     h     = make<std::array<char, 10'000>>(owner);
        {
            batch_scope user;
            tenure::borrow(h);
            check_throws(errc::batch_in_use, {"pages"}, [&] { r.page_out(owner); });
        }
        r.page_out(owner);
        CHECK(r.usage(owner).paged_out > 0);
        batch_scope user;
        auto const  p = tenure::pin(h);
        (*p)[9'999]   = 'x';
        check_throws(errc::batch_in_use, {}, [&] { r.page_out(owner); });
    }

    TEST_CASE_FIXTURE(fixture, "of a batch that goes out whenever it is left is what it waits for") {
        batch_id const owner = batch({.residency = tenure::residency::paged_when_left});
        batch_scope    user;
        pinned<int>    p;
        {
            auto const here = r.enter(owner);
            auto const h    = tenure::make<int>(5);
            auto const back = r.set_current_batch(user.id());
            p               = tenure::pin(h);
            r.set_current_batch(back);
        }
        CHECK(r.usage(owner).paged_out == 0);
        CHECK(*p == 5);
        p.release();
        CHECK(r.usage(owner).paged_out > 0);
    }
}

TEST_SUITE("pins of what expires or is cancelled") {
    TEST_CASE("keep the objects of a batch that nobody is in, whole, until the last of them is released") {
        for (bool const by_time : {false, true}) {
            CAPTURE(by_time);
            short_lived    w(by_time);
            batch_id const owner = w.r.new_batch(w.options());
            auto const     used = w.make(owner, 1), other = w.make(owner, 2);
            batch_scope    user(w.r);
            auto           p = tenure::pin(used), q = tenure::pin(used);
            w.cut(owner);
            CHECK(w.j.ended.empty());
            CHECK(p->number() == 1);
            CHECK(other->number() == 2);  // for a batch goes whole
            CHECK(w.is_cut(owner));
            CHECK(w.r.waits_for(owner) == ids{user.id()});
            check_throws(w.why, {"enter"}, [&] { auto const e = w.r.enter(owner); });
            check_throws(w.why, {}, [&] { w.r.transfer_ownership(user.make<int>(1), owner); });
            p.release();
            CHECK(w.j.ended.empty());
            CHECK(w.r.waits_for(owner) == ids{user.id()});
            q.release();
            CHECK(w.j.ended == std::vector{2, 1});
            CHECK(w.is_cut(owner));
            CHECK(w.r.waits_for(owner).empty());
            check_throws(w.why, {"access"}, [&] { used->number(); });
            check_throws(w.why, {"access"}, [&] { other->number(); });
        }
    }

    TEST_CASE("by a borrow, until the batch that borrowed ends, or is cut itself") {
        for (bool const by_time : {false, true}) {
            for (bool const user_is_cut : {false, true}) {
                CAPTURE(by_time);
                CAPTURE(user_is_cut);
                short_lived    w(by_time);
                batch_id const owner = w.r.new_batch(w.options());
                auto const     h     = w.make(owner, 1);
                virtual_now += 500'000;  // so the user has that much longer
                batch_id const user = w.r.new_batch(user_is_cut ? w.options() : tenure::batch_options{});
                w.r.borrow(user, h);
                w.cut(owner, 500'000);
                CHECK(h->number() == 1);
                CHECK(w.r.waits_for(owner) == ids{user});
                if (user_is_cut) w.cut(user, 500'000);
                else w.r.end_batch(user);
                CHECK(w.j.alive == 0);
                CHECK(w.is_cut(owner));
                check_throws(w.why, {"access"}, [&] { h->number(); });
            }
        }
    }

    TEST_CASE("are let go of by a batch that took them and that nobody is in: what only waited for it goes") {
        for (bool const by_time : {false, true}) {
            CAPTURE(by_time);
            short_lived    w(by_time);
            batch_id const pins = w.r.new_batch(), borrows = w.r.new_batch(), lives = w.r.new_batch();
            auto const     a = w.make(pins, 1), b = w.make(borrows, 2), c = w.make(lives, 3);
            batch_id const user = w.r.new_batch(w.options());
            w.make(user, 4);
            pinned<traced> p, q;
            {
                auto const here = w.r.enter(user);
                p               = tenure::pin(a);
                q               = tenure::pin(c);
                tenure::borrow(b);
            }
            w.r.end_batch(pins);
            w.r.end_batch(borrows);
            CHECK(w.r.waits_for(pins) == ids{user});
            CHECK(w.r.waits_for(borrows) == ids{user});
            w.cut(user);
            CHECK(!p);
            CHECK(p.get() == nullptr);
            check_throws(errc::stale_handle, {}, [&] { p->number(); });
            CHECK(!q);
            CHECK(w.is_cut(user));
            CHECK(w.r.status(pins) == batch_status::done);
            CHECK(w.r.status(borrows) == batch_status::done);
            REQUIRE(w.j.ended.size() == 3);
            CHECK(w.j.ended[0] == 4);  // users go before what they use
            check_throws(errc::stale_handle, {}, [&] { a->number(); });
            CHECK(c->number() == 3);
            w.r.free(c);  // no longer forbidden
            w.r.end_batch(lives);
            p.release();
        }
    }

    TEST_CASE("stay with a guard that is open, until it closes") {
        for (bool const by_time : {false, true}) {
            CAPTURE(by_time);
            short_lived    w(by_time);
            batch_id const owner = w.r.new_batch();
            auto const     a = w.make(owner, 1), b = w.make(owner, 2);
            pinned<traced> p;
            batch_id       id;
            {
                batch_scope user(w.r, w.options());
                id = user.id();
                p  = tenure::pin(a);
                tenure::borrow(b);
                w.r.end_batch(owner);
                w.cut(id);
                CHECK(w.is_cut(id));
                CHECK(user.try_make<int>(1).error() == w.why);
                CHECK(p->number() == 1);
                CHECK(b->number() == 2);
                CHECK(w.r.status(owner) == batch_status::ending);
                CHECK(w.r.waits_for(owner) == ids{id});
                CHECK(!tenure::try_pin(b));
                CHECK(w.j.ended.empty());
            }
            CHECK(!p);
            CHECK(w.j.ended == std::vector{2, 1});
            CHECK(w.r.status(owner) == batch_status::done);
            CHECK(w.is_cut(id));
        }
    }

    TEST_CASE(
        "of a batch that is cut between a user and what it uses itself: all three are there till the user is "
        "done") {
        for (bool const by_time : {false, true}) {
            CAPTURE(by_time);
            short_lived    w(by_time);
            batch_id const used = w.r.new_batch(), middle = w.r.new_batch(w.options());
            auto const     a = w.make(used, 1), b = w.make(middle, 2);
            w.r.borrow(middle, a);
            batch_scope user(w.r);
            auto        p = tenure::pin(b);
            w.r.end_batch(used);
            w.cut(middle);
            CHECK(p->number() == 2);
            CHECK(a->number() == 1);  // which the destructor of what is pinned may want
            CHECK(w.r.waits_for(middle) == ids{user.id()});
            CHECK(w.r.waits_for(used) == ids{middle});
            p.release();
            CHECK(w.j.ended == std::vector{2, 1});
        }
    }
}

TEST_SUITE("batches that use each other") {
    TEST_CASE_FIXTURE(fixture, "wait for each other, however many there are between") {
        row              chain(r, 5, false);
        tenure::batch_id last = chain.batches[4];
        for (std::size_t const i : {2u, 0u, 3u, 1u}) r.end_batch(chain.batches[i]);
        CHECK(chain.alive() == 5);
        for (std::size_t i = 0; i < 4; ++i) CHECK(r.waits_for(chain.batches[i]) == ids{chain.batches[i + 1]});
        CHECK(r.waits_for(last).empty());
        r.end_batch(last);
        CHECK(chain.alive() == 0);
        for (batch_id const b : chain.batches) CHECK(is(b, batch_status::done));
    }

    TEST_CASE_FIXTURE(fixture,
                      "go together where they wait for each other in a ring, in whichever order they ended") {
        std::array<std::size_t, 4> order{0, 1, 2, 3};
        do {
            row ring(r, 4, true);
            for (std::size_t i = 0; i < 4; ++i) {
                CHECK(ring.alive() == 4);
                r.end_batch(ring.batches[order[i]]);
            }
            CHECK(ring.alive() == 0);
        } while (std::next_permutation(order.begin(), order.end()));
    }

    TEST_CASE_FIXTURE(fixture, "in a ring wait for who uses one of them, and what they use waits for them") {
        row            ring(r, 3, true);
        batch_id const user = batch(), used = batch();
        r.borrow(user, ring.objects[1]);
        auto const h = make<int>(used, 1);
        r.borrow(ring.batches[2], h);
        r.end_batch(used);
        for (batch_id const b : ring.batches) r.end_batch(b);
        CHECK(ring.alive() == 3);
        ids const for_whom = r.waits_for(ring.batches[1]);  // and for the next in the ring, perhaps
        CHECK(std::count(for_whom.begin(), for_whom.end(), user) == 1);
        CHECK(r.waits_for(used) == ids{ring.batches[2]});
        r.end_batch(user);
        CHECK(ring.alive() == 0);
        CHECK(is(used, batch_status::done));
    }

    TEST_CASE_FIXTURE(fixture, "users are freed before what they use") {
        journal j;
        row     chain(r, 1, false);
        struct watcher {
            handle<traced> what;
            journal&       j;
            int            seen = 0;
            ~watcher() { j.ended.push_back(100 + what->number()); }
        };
        batch_id const a = batch(), b = batch(), c = batch();
        auto const     used = make<traced>(a, j, 1);
        r.borrow(b, used);
        auto const between = make<watcher>(b, watcher{used, j});
        j.ended.clear();
        r.borrow(c, between);
        r.end_batch(a);
        r.end_batch(b);
        CHECK(j.ended.empty());
        r.end_batch(c);
        CHECK(j.ended == std::vector{101, 1});
        r.end_batch(chain.batches[0]);
    }

    TEST_CASE_FIXTURE(fixture, "the delay follows an object to its new owner") {
        batch_id const from = batch(), to = batch();
        auto const     h = make<int>(from, 1);
        make<int>(from, 2);
        batch_scope user;
        auto        p = tenure::pin(h);
        r.transfer_ownership(h, to);
        r.end_batch(from);
        CHECK(is(from, batch_status::done));
        r.end_batch(to);
        CHECK(r.waits_for(to) == ids{user.id()});
        CHECK(*p == 1);
        p.release();
        CHECK(is(to, batch_status::done));

        handle<int> kept;
        {
            batch_scope inner;
            kept = inner.make<int>(3);
            for (int i = 0; i < 3; ++i)
                inner.keep(inner.make<int>(i));  // by the quick way, if it were not for pins
            r.borrow(batch(), kept);
            inner.keep(kept);
        }
        CHECK(*kept == 3);
        auto const report = user.end();
        CHECK(report.status == batch_status::ending);
        r.end_batch(open.back());
        CHECK(user.status() == batch_status::done);
        CHECK(!kept.alive());
    }

    TEST_CASE_FIXTURE(fixture, "a parent that uses its child's object keeps it until it is over itself") {
        handle<int> h;
        batch_id    inner_id;
        {
            batch_scope outer;
            {
                batch_scope inner;
                inner_id = inner.id();
                h        = inner.make<int>(1);
                outer.borrow(h);
            }
            CHECK(*h == 1);
            CHECK(r.waits_for(inner_id) == ids{outer.id()});
            CHECK(outer.status() == batch_status::active);
        }
        CHECK(!h.alive());
        CHECK(is(inner_id, batch_status::done));
    }

    TEST_CASE_FIXTURE(fixture, "a child in use by a sibling holds its ancestors, and rings go through them") {
        batch_id const outer = batch(), used = batch({}, outer), user = batch();
        auto const     h = make<int>(used, 1), in_user = make<int>(user, 2);
        r.borrow(user, h);
        r.borrow(outer, in_user);
        r.end_batch(outer);
        CHECK(is(used, batch_status::ending));
        CHECK(r.waits_for(outer) == ids{used});
        CHECK(r.waits_for(used) == ids{user});
        r.end_batch(user);
        for (batch_id const b : {outer, used, user}) CHECK(is(b, batch_status::done));
    }

    TEST_CASE_FIXTURE(fixture, "limits are those of batches that are there as long as what they limit") {
        batch_id const outer = batch({.limits = {.hard = 100'000}}), inner = batch({}, outer);
        auto const     h    = make<std::array<char, 1000>>(inner);
        auto const     mine = make<int>(outer, 1);
        r.borrow(outer, h);
        r.borrow(inner, mine);
        r.end_batch(inner);
        r.end_batch(outer);
        CHECK(is(outer, batch_status::done));
        CHECK(is(inner, batch_status::done));
        batch_id const next = batch({.limits = {.hard = 1008}});
        CHECK(make<std::array<char, 1000>>(next).alive());
    }

    TEST_CASE_FIXTURE(fixture, "cleanup::manual: what it owns and what it uses stays until it is destroyed") {
        batch_id const manual = batch({.cleanup = tenure::cleanup::manual}), owner = batch(), user = batch();
        auto const     h = make<int>(manual, 1), used = make<int>(owner, 2);
        r.borrow(manual, used);
        r.borrow(user, h);
        r.end_batch(manual);
        CHECK(is(manual, batch_status::retained));
        r.end_batch(owner);
        CHECK(*used == 2);
        r.destroy_batch(manual);
        CHECK(is(manual, batch_status::ending));
        CHECK(*used == 2);
        r.end_batch(user);
        for (batch_id const b : {manual, owner}) CHECK(is(b, batch_status::done));
    }

    TEST_CASE_FIXTURE(fixture, "are shown in a snapshot, with whom they wait for") {
        batch_id const owner = batch({.name = "owner"}), user = batch({.name = "user"});
        r.borrow(user, make<int>(owner, 1));
        r.end_batch(owner);
        auto const s = r.snapshot();
        for (auto const& b : s.batches) CHECK(b.waits_for == (b.id == owner ? ids{user} : ids{}));
        CHECK(s.to_text().find("ending, 1 objects") != std::string::npos);
        CHECK(s.to_text().find("waits for " + to_text(user)) != std::string::npos);
        CHECK(s.to_json().find("\"waits_for\": [\n        \"" + to_text(user)) != std::string::npos);
    }

    TEST_CASE("a registry that closes frees what waits, too, and guards that outlive it are empty") {
        journal     j;
        pinned<int> left;
        {
            registry    r({.on_leak = nullptr});
            row         ring(r, 3, true);
            batch_scope user(r);
            auto const  h = user.make<int>(1);
            left          = tenure::pin(h);
            {
                batch_scope inner;
                user.borrow(inner.make<traced>(j, 1));
            }
            r.end_batch(ring.batches[0]);
            r.borrow(r.root(), h);
            user.end();
            CHECK(user.status() == batch_status::ending);
            CHECK(j.alive == 1);
        }
        CHECK(j.alive == 0);
        CHECK(!left);
    }
}

TEST_SUITE("two callers of a long-lived object") {
    TEST_CASE_FIXTURE(fixture, "in turn, and ended in either order") {
        for (bool const first_ends_first : {true, false}) {
            for (bool const owner_before : {true, false}) {
                batch_id const owner = batch(), one = batch(), two = batch();
                auto const     log  = make<std::vector<int>>(owner);
                auto const     call = [&](batch_id caller, int n) {
                    batch_id const before = r.set_current_batch(caller);
                    tenure::borrow(log)->push_back(n);
                    auto const p = tenure::pin(log);
                    CHECK(p->back() == n);
                    r.set_current_batch(before);
                };
                for (int i = 0; i < 6; ++i) call(i % 2 ? two : one, i);
                if (owner_before) r.end_batch(owner);
                call(one, 6);  // what has ended can be used as long as it is there
                r.end_batch(first_ends_first ? one : two);
                CHECK(log->size() == 7);
                CHECK(r.try_free(log).error() == (owner_before ? errc::batch_ended : errc::object_pinned));
                r.end_batch(first_ends_first ? two : one);
                CHECK(log.alive() == !owner_before);
                CHECK(is(one, batch_status::done));
                CHECK(is(two, batch_status::done));
                r.end_batch(owner);
                CHECK(!log.alive());
            }
        }
    }
}

TEST_SUITE("bounded work") {
    constexpr std::size_t many = TENURE_SANITIZED ? 1000 : 10'000;

    /// Every edge is looked at twice at most, and asking for a root takes some logarithm: 14 for 10,000.
    constexpr std::uint64_t a_batch = 4 * 14;

    TEST_CASE_FIXTURE(fixture, "chains and rings, from either side, from both, and in any order") {
        for (bool const ring : {false, true}) {
            for (int const order : {0, 1, 2, 3}) {
                CAPTURE(ring);
                CAPTURE(order);
                row                 all(r, many, ring);
                std::uint64_t const before = steps();
                for (std::size_t i = 0; i < many; ++i) {
                    std::size_t const odd = i * 7919 % many;  // a prime: each once
                    std::size_t const n   = order == 0   ? i
                                            : order == 1 ? many - 1 - i
                                            : order == 2 ? (i % 2 ? many - 1 - i / 2 : i / 2)
                                                         : odd;
                    r.end_batch(all.batches[n]);
                    if (i == many / 2 && ring) CHECK(all.alive() == many);
                }
                CHECK(all.alive() == 0);
                CHECK(steps() - before <= many * a_batch);
            }
        }
    }

    TEST_CASE_FIXTURE(fixture, "a long chain that hangs on one user after the other") {
        row                   chain(r, many, false);
        batch_id              user = r.new_batch();
        std::vector<batch_id> after;
        r.borrow(user, chain.objects[many - 1]);
        for (batch_id const b : chain.batches) r.end_batch(b);
        std::uint64_t const before = steps();
        for (std::size_t i = 0; i < many; ++i) {
            batch_id const next = r.new_batch();
            r.borrow(next, chain.objects[i * 7919 % many]);
            r.borrow(next, chain.objects[many - 1]);
            r.end_batch(user);
            user = next;
        }
        CHECK(chain.alive() == many);
        CHECK(steps() - before <= many * a_batch);
        r.end_batch(user);
        CHECK(chain.alive() == 0);
    }

    TEST_CASE_FIXTURE(fixture, "each with a user of its own, which end one after the other, from the top") {
        row                   chain(r, many, false);
        std::vector<batch_id> users;
        for (auto const& h : chain.objects) {
            users.push_back(r.new_batch());
            r.borrow(users.back(), h);
        }
        std::vector<batch_id> leaves;  // each asks for the root of the far end when it is over
        for (std::size_t i = 0; i < many; ++i) {
            leaves.push_back(r.new_batch());
            r.borrow(chain.batches[0], make<int>(leaves[i], 1));
        }
        for (batch_id const b : chain.batches) r.end_batch(b);
        std::uint64_t const before = steps();
        std::size_t         right  = 0;
        for (std::size_t i = many; i-- > 0;) {
            r.end_batch(leaves[i]);
            r.end_batch(users[i]);
            right += !chain.objects[i].alive() && (i == 0 || chain.objects[i - 1].alive());
        }
        CHECK(right == many);
        CHECK(steps() - before <= many * a_batch);
    }

    TEST_CASE_FIXTURE(fixture, "1,000 callers of one object, in turn") {
        constexpr std::size_t callers = 1000, rounds = 20;
        batch_id const        owner  = batch();
        auto const            object = make<std::size_t>(owner, 0u);
        std::vector<batch_id> all;
        for (std::size_t i = 0; i < callers; ++i) all.push_back(r.new_batch());
        std::uint64_t const before = steps();
        for (std::size_t k = 0; k < rounds; ++k)
            for (batch_id const b : all) ++*r.borrow(b, object);
        r.end_batch(owner);
        CHECK(*object == callers * rounds);
        CHECK(r.waits_for(owner).size() == callers);
        for (std::size_t i = 0; i < callers; ++i) {
            CHECK(object.alive());
            r.end_batch(all[i * 7 % callers]);
        }
        CHECK(!object.alive());
        CHECK(steps() - before <= callers * a_batch);
    }
}

TEST_SUITE("threads") {
    /// Writes over itself when it goes.
    struct cell {
        explicit cell(std::uint64_t n) : value(n) {}
        ~cell() { value = 0; }
        std::atomic<std::uint64_t> value;
    };

    TEST_CASE_FIXTURE(fixture, "open, use each other's objects, give, free and end, all at once") {
        constexpr std::size_t threads = 4, rounds = TENURE_SANITIZED ? 600 : 6000;

        struct slot {
            tenure::detail::spin_lock lock;
            handle<cell>              h;
            batch_id                  owner;
        };
        std::array<slot, 32>     shared;
        std::atomic<std::size_t> used{0}, wrong{0};
        {
            std::vector<std::jthread> workers;
            for (std::size_t t = 0; t < threads; ++t)
                workers.emplace_back([&, t] {
                    std::uint64_t state = t + 1;
                    auto const    roll  = [&](std::size_t n) {
                        state = state * 6364136223846793005 + 1442695040888963407;
                        return static_cast<std::size_t>(state >> 33) % n;
                    };
                    auto const look = [&] {
                        slot&                  s = shared[roll(shared.size())];
                        std::scoped_lock const guard(s.lock);
                        return std::pair(s.h, s.owner);
                    };
                    std::vector<batch_id> detached;
                    for (std::size_t i = 0; i < rounds; ++i) {
                        std::optional<batch_scope> scope(r);
                        std::vector<pinned<cell>>  pins;
                        slot&                      mine = shared[roll(shared.size())];
                        {
                            auto const             h = scope->make<cell>(i + 1);
                            std::scoped_lock const guard(mine.lock);
                            mine.h     = h;
                            mine.owner = scope->id();
                        }
                        for (std::size_t k = roll(6); k-- > 0;) {
                            auto const [h, owner] = look();
                            if (auto p = tenure::try_pin(h)) {
                                ++used;
                                if ((*p)->value == 0) ++wrong;
                                if (roll(2)) pins.push_back(std::move(*p));
                            }
                            if (tenure::try_borrow(look().first)) ++used;
                            if (roll(4) == 0) static_cast<void>(r.try_free(look().first));
                            if (roll(4) == 0)
                                static_cast<void>(r.try_transfer_ownership(look().first, look().second));
                            if (roll(8) == 0 && owner && owner != scope->id()) r.end_batch(owner);
                        }
                        for (auto const& p : pins)
                            if (cell const* const c = p.get(); c && c->value == 0) ++wrong;
                        switch (roll(3)) {
                        case 0:
                            if (scope->status() == batch_status::active) detached.push_back(scope->detach());
                            break;
                        case 1: pins.clear(); break;
                        default: break;
                        }
                        scope.reset();
                        if (detached.size() < 8) continue;
                        std::swap(detached[roll(detached.size())], detached.back());
                        r.end_batch(detached.back());
                        detached.pop_back();
                    }
                    for (batch_id const b : detached) r.end_batch(b);
                });
        }
        CHECK(wrong == 0);
        CHECK(used > rounds);
    }
}
