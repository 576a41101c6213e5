// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "journal.hpp"
#include "throws.hpp"

using tenure::batch_scope;
using tenure::deferred_call;
using tenure::errc;
using tenure::handle;
using tenure::registry;
using tenure::release_phase;

namespace {

struct own_registry : accounting {
    registry   r;
    accounting books{r};
};

struct base {
    virtual ~base() = default;
    int number      = 1;
};
struct other_base {
    virtual ~other_base() = default;
    int more              = 2;
};
struct derived : base, other_base {};

/// Writes down its own end, and that of the call or the deleter that it is part of.
struct ends_noted {
    std::shared_ptr<int> copies = std::make_shared<int>();  // its use_count is the number of those that live
};

}  // namespace

TEST_SUITE("release") {
    TEST_CASE_FIXTURE(own_registry, "gives an adopted object back as unique_ptr::release does: unfreed") {
        int                          deleted = 0;
        auto const                   deleter = [&](std::string* p) { ++deleted, delete p; };
        auto* const                  made    = new std::string("made elsewhere");
        handle<std::string>          h;
        std::unique_ptr<std::string> back;
        {
            batch_scope b(r);
            h = b.adopt(made, deleter);
            CHECK(b.usage().objects == 1);
            back.reset(b.release(h));
            CHECK(back.get() == made);
            CHECK(!h.alive());
            CHECK(b.usage().objects == 0);
            CHECK(b.usage().bytes == 0);
            check_throws(errc::stale_handle, {"release from batch"}, [&] { b.release(h); });
            CHECK(b.end().freed == 1);
        }
        CHECK(deleted == 0);
        CHECK(*back == "made elsewhere");

        batch_scope again(r);  // and it can be adopted anew
        CHECK(*again.adopt(back.release(), deleter) == "made elsewhere");
        again.end();
        CHECK(deleted == 1);
    }

    TEST_CASE_FIXTURE(own_registry, "ends the deleter, which does not run") {
        ends_noted const noted;
        int              ran = 0, thing = 0;
        batch_scope      b(r);
        auto const       h = b.adopt(&thing, [noted, &ran](int*) { ++ran; });
        CHECK(noted.copies.use_count() == 2);
        CHECK(b.release(h) == &thing);
        CHECK(noted.copies.use_count() == 1);
        b.end();
        CHECK(ran == 0);
    }

    TEST_CASE_FIXTURE(own_registry, "of a unique_ptr, a base, a const, a FILE") {
        batch_scope                 b(r);
        handle<other_base> const    h = b.adopt(std::make_unique<derived>());
        std::unique_ptr<other_base> back(b.release(h));
        CHECK(back->more == 2);

        int const  five     = 5;
        auto const constant = b.adopt(&five, [](int const*) { FAIL_CHECK("deleted"); });
        CHECK(b.release(constant) == &five);

        auto const file = b.adopt(std::tmpfile(), [](std::FILE* f) { std::fclose(f); });
        CHECK(std::fclose(b.release(file)) == 0);
    }

    TEST_CASE_FIXTURE(own_registry, "whichever batch owns it by now: kept, transferred by another thread") {
        int         deleted = 0;
        auto const  deleter = [&](int*) { ++deleted; };
        int         things[3]{};
        batch_scope outer(r);
        handle<int> kept, moved;
        {
            batch_scope inner(r);
            kept  = inner.keep(inner.adopt(&things[0], deleter));
            moved = inner.adopt(&things[1], deleter);
            check_throws(errc::not_owner, {"release from batch"}, [&] { inner.release(kept); });
            CHECK(outer.try_release(moved).error() == errc::not_owner);
            std::thread([&] { r.transfer_ownership(moved, outer); }).join();  // its entry stays in inner's list
            std::thread([&] { CHECK(r.release(moved) == &things[1]); }).join();
            CHECK(!moved.alive());
        }
        CHECK(tenure::release(kept) == &things[0]);
        auto const last = tenure::adopt(&things[2], deleter);
        CHECK(tenure::try_release(last).value() == &things[2]);
        CHECK(tenure::try_release(last).error() == errc::stale_handle);
        outer.end();
        CHECK(deleted == 0);
    }

    TEST_CASE_FIXTURE(own_registry, "is refused for what was made, and nothing happens then") {
        journal     log;
        batch_scope b(r, {.name = "maker"});
        auto const  plain = b.make<int>(7);
        auto const  ends  = b.make<traced>(log, 1);
        auto const  large = b.make<std::array<int, 100'000>>();
        check_throws(errc::not_adopted, {"release from batch 'maker'", "detach()"}, [&] { b.release(plain); });
        check_throws(errc::not_adopted, {"maker"}, [&] { r.release(ends); });
        CHECK(r.try_release(large).error() == errc::not_adopted);
        for (bool const alive : {plain.alive(), ends.alive(), large.alive()}) CHECK(alive);
        CHECK(log.alive == 1);
        CHECK(b.usage().objects == 3);

        {
            batch_scope other(r);
            std::thread([&] { r.transfer_ownership(ends, other); }).join();  // behind a proxy now
            CHECK(other.try_release(ends).error() == errc::not_adopted);
            other.keep(ends);
        }
        CHECK(ends.alive());
        b.end();
        check_throws(errc::stale_handle, {}, [&] { r.release(plain); });
    }

    TEST_CASE_FIXTURE(own_registry, "what is pinned, borrowed or shared") {
        int         deleted = 0, thing = 0;
        auto const  deleter = [&](int*) { ++deleted; };
        batch_scope b(r), user(r);
        auto const  h = b.adopt(&thing, deleter);
        {
            auto const pinned = tenure::pin(h);
            check_throws(errc::object_pinned, {}, [&] { b.release(h); });
        }
        user.borrow(h);
        CHECK(r.try_release(h).error() == errc::object_pinned);
        user.end();
        r.share(h, r.root());
        check_throws(errc::not_owner, {}, [&] { b.release(h); });
        CHECK(*h == 0);
        CHECK(r.release(h) == &thing);  // of all its owners at once, as registry::free
        CHECK(!h.alive());
        b.end();
        CHECK(deleted == 0);
    }

    TEST_CASE_FIXTURE(own_registry, "under a checkpoint, in a batch that is paged out, cancelled or over") {
        int         deleted = 0, things[4]{};
        auto const  deleter = [&](int*) { ++deleted; };
        auto const  id      = r.new_batch({.name = "idle"});
        handle<int> h, late;
        {
            auto const in = r.enter(id);
            h             = tenure::adopt(&things[0], deleter);
        }
        r.page_out(id);
        CHECK(r.release(h) == &things[0]);
        r.checkpoint(id);
        {
            auto const in = r.enter(id);
            h             = tenure::adopt(&things[1], deleter);
            late          = tenure::adopt(&things[2], deleter);
        }
        CHECK(r.release(h) == &things[1]);
        r.rollback(id);
        CHECK(deleted == 1);  // `late`, as what was made since
        CHECK(r.try_release(late).error() == errc::stale_handle);
        r.end_batch(id);

        batch_scope b(r, {.name = "stops"});
        h = b.adopt(&things[3], deleter);
        b.cancel();
        CHECK(b.release(h) == &things[3]);
        b.end();
        CHECK(b.try_release(h).error() == errc::stale_handle);
        CHECK(deleted == 1);
    }

    TEST_CASE_FIXTURE(own_registry, "and an end that comes at the same time: one of them has it") {
        for (int round = 0; round < 200; ++round) {
            int         deleted = 0, thing = 0;
            auto const  id = r.new_batch();
            handle<int> h;
            {
                auto const in = r.enter(id);
                h             = tenure::adopt(&thing, [&](int*) { ++deleted; });
            }
            int         released = 0;
            std::thread other([&] { released = r.try_release(h).has_value(); });
            r.end_batch(id);
            other.join();
            CHECK(released + deleted == 1);
        }
    }
}

TEST_SUITE("a deferred call") {
    TEST_CASE_FIXTURE(own_registry, "can be cancelled, as apr_pool_cleanup_kill does") {
        ends_noted const noted;
        std::vector<int> ran;
        batch_scope      b(r, {.name = "caller"});
        b.defer([&] { ran.push_back(1); });
        handle<deferred_call> const call = b.defer([&, noted] { ran.push_back(2); });
        b.defer([&] { ran.push_back(3); });
        CHECK(call.alive());
        CHECK(call.owner() == b.id());
        CHECK(noted.copies.use_count() == 2);
        b.cancel(call);
        CHECK(noted.copies.use_count() == 1);  // what it held is gone
        CHECK(!call.alive());
        check_throws(errc::stale_handle, {"cancel a deferred call"}, [&] { b.cancel(call); });
        CHECK(b.usage().objects == 2);
        b.end();
        CHECK(ran == std::vector{3, 1});
    }

    TEST_CASE_FIXTURE(own_registry, "free() makes it now, as apr_pool_cleanup_run does") {
        int         ran = 0;
        batch_scope b(r);
        auto const  call = b.defer([&] { ++ran; });
        b.free(call);
        CHECK(ran == 1);
        CHECK(b.try_cancel(call).error() == errc::stale_handle);
        b.end();
        CHECK(ran == 1);
    }

    TEST_CASE_FIXTURE(own_registry, "goes along with keep() and transfer_ownership()") {
        std::string said;
        batch_scope outer(r);
        {
            batch_scope inner(r);
            auto const  kept      = inner.keep(inner.defer([&] { said += 'k'; }));
            auto const  cancelled = inner.keep(inner.defer([&] { said += 'c'; }));
            auto const  moved     = inner.defer([&] { said += 'm'; });
            inner.defer([&] { said += 'i'; });
            r.transfer_ownership(moved, outer);
            CHECK(kept.owner() == outer.id());
            CHECK(inner.try_cancel(cancelled).error() == errc::not_owner);
            tenure::cancel(inner.defer([] { FAIL_CHECK("called"); }));
            r.cancel(cancelled);
        }
        CHECK(said == "i");
        outer.end();
        CHECK(said == "imk");
    }

    TEST_CASE_FIXTURE(own_registry, "is over when it begins") {
        batch_scope           b(r);
        handle<deferred_call> call;
        bool                  alive = true;
        auto                  why   = std::error_code{};
        call                        = b.defer([&] {
            alive = call.alive();
            why   = r.try_cancel(call).error();
        });
        b.end();
        CHECK(!alive);
        CHECK(why == errc::stale_handle);
    }

    TEST_CASE_FIXTURE(own_registry, "is pinned, and under a checkpoint") {
        int         ran = 0;
        batch_scope b(r);
        auto const  call = b.defer([&] { ++ran; });
        {
            auto const pinned = tenure::pin(call);
            CHECK(b.try_cancel(call).error() == errc::object_pinned);
        }
        b.cancel(call);
        b.checkpoint();
        auto const late = b.defer([&] { ++ran; });
        tenure::defer([&] { ran += 10; });
        b.cancel(late);
        b.rollback();
        CHECK(ran == 10);
    }
}

TEST_SUITE("release phases") {
    TEST_CASE_FIXTURE(own_registry, "as PostgreSQL's: before, in order, after; newest first in each") {
        std::string said;
        {
            batch_scope b(r);
            b.defer([&] { said += 'A'; }, release_phase::after);
            b.defer([&] { said += 'B'; }, release_phase::before);
            b.defer([&] { said += '1'; }, release_phase::in_order);
            b.adopt(&said, [](std::string* s) { *s += '2'; });
            tenure::defer([&] { said += 'b'; }, release_phase::before);
            tenure::defer([&] { said += 'a'; }, release_phase::after);
            b.defer([&] { said += '3'; });
        }
        CHECK(said == "bB321aA");
    }

    TEST_CASE_FIXTURE(own_registry, "see everything before, and buffers and plain objects after") {
        journal     log;
        std::string said;
        {
            batch_scope b(r);
            auto const  plain = b.make<int>(7);
            auto const  bytes = b.make_buffer(std::vector{1, 2, 3});
            b.defer(
                [&, plain, bytes] {
                    int second = 0;
                    bytes.read(1, {&second, 1});
                    if (log.alive == 0 && *plain == 7 && second == 2) said += "after";
                },
                release_phase::after);
            auto const ends = b.make<traced>(log, 1);
            b.defer([&, ends] { said += ends->number() == 1 && log.alive == 2 ? "before " : ""; },
                    release_phase::before);
            b.make<traced>(log, 2);
        }
        CHECK(said == "before after");
    }

    TEST_CASE_FIXTURE(own_registry, "of a batch come when those below it are over") {
        std::string said;
        {
            batch_scope outer(r);
            outer.defer([&] { said += 'O'; }, release_phase::before);
            batch_scope inner{tenure::below(outer)};
            inner.defer([&] { said += 'a'; }, release_phase::after);
            inner.defer([&] { said += 'b'; }, release_phase::before);
            outer.end();
        }
        CHECK(said == "baO");
    }

    TEST_CASE_FIXTURE(own_registry, "are the same for what lanes and other threads made and gave") {
        std::string said;
        batch_scope b(r);
        b.defer([&] { said += 'A'; }, release_phase::after);
        std::thread([&] {
            auto const in = b.enter();
            tenure::defer([&] { said += 'B'; }, release_phase::before);
            tenure::defer([&] { said += 'i'; });
            batch_scope other(r);
            auto const  before = other.defer([&] { said += 'b'; }, release_phase::before);
            auto const  after  = other.defer([&] { said += 'a'; }, release_phase::after);
            auto const  order  = other.defer([&] { said += 'o'; });
            r.transfer_ownership(std::vector{before, after, order}, b);
        }).join();
        b.end();
        CHECK(said.substr(0, 2) == "bB");
        CHECK(said.substr(4) == "aA");
        CHECK(said.size() == 6);
    }

    TEST_CASE_FIXTURE(own_registry, "go along with keep(), and end with cancel() and free()") {
        std::string said;
        batch_scope outer(r);
        {
            batch_scope inner(r);
            for (auto const phase : {release_phase::before, release_phase::after}) {
                inner.keep(inner.defer([&, phase] { said += phase == release_phase::before ? 'b' : 'a'; }, phase));
                inner.cancel(inner.defer([&] { said += 'x'; }, phase));
                inner.free(inner.defer([&] { said += 'f'; }, phase));
            }
        }
        CHECK(said == "ff");
        outer.defer([&] { said += 'o'; });
        outer.end();
        CHECK(said == "ffboa");
    }

    TEST_CASE_FIXTURE(own_registry, "in every way that a batch goes") {
        std::string said;
        auto const  fill = [&] {
            tenure::defer([&] { said += 'a'; }, release_phase::after);
            tenure::defer([&] { said += 'b'; }, release_phase::before);
            tenure::defer([&] { said += 'o'; });
        };
        auto const expect = [&](char const* how) {
            CAPTURE(how);
            CHECK(said == "boa");
            said.clear();
        };
        auto const nothing_else = [&](auto begin, auto end) {
            for (auto const phase : {release_phase::before, release_phase::after}) {
                begin();
                tenure::defer([&] { said += 'p'; }, phase);
                end();
                CHECK(std::exchange(said, {}) == "p");
            }
        };
        {
            batch_scope b(r);
            fill();
            b.clear();
            expect("clear");
            nothing_else([] {}, [&] { b.clear(); });
            b.checkpoint();
            fill();
            b.rollback();
            expect("rollback");
            nothing_else([&] { b.checkpoint(); }, [&] { b.rollback(); });
            fill();
            b.discard();
            expect("discard");
        }
        auto const id = r.new_batch({.reclaim = tenure::reclamation::background});
        {
            auto const in = r.enter(id);
            fill();
        }
        r.end_batch(id);
        r.drain();
        expect("background");
        for (auto const phase : {release_phase::before, release_phase::after}) {
            auto const more = r.new_batch({.reclaim = tenure::reclamation::background});
            auto const call = [&] {
                auto const in = r.enter(more);
                return tenure::defer([&] { said += std::to_string(tenure::current_batch() == r.root()); }, phase);
            }();
            r.end_batch(more);
            CHECK(!call.alive());  // as all of a batch that waits for the background
            r.drain();
            CHECK(std::exchange(said, {}) == "1");
        }
        {
            registry   own;
            auto const in = own.enter(own.root());
            fill();
        }
        expect("end of the registry");
    }

    TEST_CASE_FIXTURE(own_registry, "are in the way of a checkpoint, as all calls are") {
        for (auto const phase : {release_phase::before, release_phase::in_order, release_phase::after}) {
            batch_scope b(r);
            b.defer([] {}, phase);
            check_throws(errc::not_restorable, {"deferred"}, [&] { b.checkpoint(); });
        }
    }
}
