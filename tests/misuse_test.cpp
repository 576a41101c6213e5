// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What callers do wrong: each has its errc and a message that says what to do, and harms nothing.

#include <array>
#include <csignal>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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

/// Calls `f` from its destructor.
class at_end {
public:
    explicit at_end(std::function<void()> f) : call_(std::move(f)) {}
    at_end(at_end const&)            = delete;
    at_end& operator=(at_end const&) = delete;
    ~at_end() { call_(); }

private:
    std::function<void()> call_;
};

std::string number(batch_scope const& b) { return to_text(b.id()); }

/// A batch's id, as the message names it.
batch_id ended_id() {
    batch_scope b;
    return b.id();
}

/// Opens `n` batches, each below the one before.
std::vector<std::unique_ptr<batch_scope>> nested(std::size_t n, journal& log) {
    std::vector<std::unique_ptr<batch_scope>> open;
    open.reserve(n);
    for (std::size_t i = 0; i < n; ++i) {
        open.push_back(std::make_unique<batch_scope>());
        if (i % 1000 == 0) open.back()->make<traced>(log, static_cast<int>(i / 1000));
        else open.back()->make<int>(1);
    }
    return open;
}

}  // namespace

TEST_SUITE("misuse") {
    TEST_CASE_FIXTURE(accounting, "a stale handle") {
        handle<std::string> h;
        {
            batch_scope b;
            h = b.make<std::string>("gone");
        }
        check_throws(errc::stale_handle, {"the object was freed", "keep() it", "alive()"},
                     [&] { (void)h->size(); });
        batch_scope b{{.name = "other"}};
        check_throws(errc::stale_handle, {"'other'", "keep() it"}, [&] { b.keep(h); });
        check_throws(errc::stale_handle, {"free"}, [&] { b.free(h); });
        check_throws(errc::stale_handle, {"free: stale"}, [&] { registry::global().free(h); });
        check_throws(errc::stale_handle, {"transfer ownership: stale"},
                     [&] { tenure::transfer_ownership(h, b.id()); });
        check_throws(errc::stale_handle, {}, [&] { tenure::keep(h); });
    }

    TEST_CASE_FIXTURE(accounting, "keep by a stranger") {
        batch_scope outer;
        batch_scope owner{tenure::below(outer), {.name = "owner"}};
        auto const  h = owner.make<int>(1);
        batch_scope stranger{tenure::below(outer), {.name = "stranger"}};
        auto const  own = stranger.make<int>(2);
        check_throws(errc::not_owner, {"'stranger'", number(stranger), "owner()"}, [&] { stranger.keep(h); });
        check_throws(errc::not_owner, {"'stranger'"}, [&] { stranger.keep(own, h); });
        check_throws(errc::not_owner, {"'stranger'"}, [&] { tenure::keep(h); });
        CHECK(stranger.try_keep(h).error() == errc::not_owner);
        CHECK(h.owner() == owner.id());
        CHECK(own.owner() == stranger.id());
    }

    TEST_CASE_FIXTURE(accounting, "keep by a parent of what is its child's") {
        batch_scope outer;
        batch_scope middle;
        batch_scope inner;
        auto const  h = inner.make<int>(1);
        check_throws(errc::not_owner, {number(middle)}, [&] { middle.keep(h); });
        CHECK(h.owner() == inner.id());
    }

    TEST_CASE_FIXTURE(accounting, "free by a stranger") {
        batch_scope owner;
        auto const  h = owner.make<int>(1);
        batch_scope stranger{{.name = "stranger"}};
        check_throws(errc::not_owner, {"'stranger'", "owner()"}, [&] { stranger.free(h); });
        CHECK(*h == 1);
    }

    TEST_CASE_FIXTURE(accounting, "objects of another registry") {
        registry    r;
        batch_scope b{r};
        batch_scope elsewhere{registry::global()};
        auto const  h = elsewhere.make<int>(1);
        check_throws(errc::not_owner, {}, [&] { b.keep(h); });
        check_throws(errc::not_owner, {}, [&] { b.free(h); });
        check_throws(errc::not_owner, {}, [&] { r.free(h); });
        check_throws(errc::not_owner, {}, [&] { r.transfer_ownership(h, b.id()); });
        check_throws(errc::no_such_batch, {}, [&] { registry::global().transfer_ownership(h, b.id()); });
        CHECK(h.owner() == elsewhere.id());
    }

    TEST_CASE_FIXTURE(accounting, "keep of a half-stale list keeps nothing") {
        journal     log;
        batch_scope outer;
        batch_scope b{{.name = "half"}};
        auto const  first = b.make<traced>(log, 1);
        auto const  gone  = b.make<traced>(log, 2);
        auto const  last  = b.make<int>(3);
        b.free(gone);
        auto const usage = b.usage();
        check_throws(errc::stale_handle, {"'half'", "keep() it"}, [&] { b.keep(first, gone, last); });
        check_throws(errc::stale_handle, {"'half'"}, [&] { b.keep(std::vector{first, gone}); });
        check_throws(errc::stale_handle, {"'half'"}, [&] { b.keep(std::vector{gone, first}); });
        check_throws(errc::stale_handle, {"'half'"}, [&] { b.keep(std::array{first, handle<traced>{}}); });
        check_throws(errc::stale_handle, {"'half'"}, [&] {
            tenure::with_batch(b.name().empty() ? tenure::batch_options{} : tenure::batch_options{.name = "half"},
                               [&](batch_scope&) { return std::tuple(gone); });
        });
        CHECK(first.owner() == b.id());
        CHECK(last.owner() == b.id());
        CHECK(b.usage() == usage);
        CHECK(outer.usage().objects == 0);
        CHECK(b.end().kept == 0);
        CHECK(log.ended == std::vector{2, 1});
    }

    TEST_CASE_FIXTURE(accounting, "ids that never existed") {
        registry&   r = registry::global();
        batch_scope b;
        auto const  h = b.make<int>(1);
        for (batch_id const id : {batch_id{}, batch_id{1}, batch_id{b.id().value + (std::uint64_t{1} << 40)},
                                  batch_id{~std::uint64_t{0}}, batch_id{std::uint64_t{1} << 25}}) {
            std::string const name = to_text(id);
            CAPTURE(name);
            check_throws(errc::no_such_batch, {name, "pass an id from"}, [&] { r.end_batch(id); });
            check_throws(errc::no_such_batch, {name}, [&] { r.destroy_batch(id); });
            check_throws(errc::no_such_batch, {name}, [&] { (void)r.status(id); });
            check_throws(errc::no_such_batch, {name}, [&] { (void)r.usage(id); });
            check_throws(errc::no_such_batch, {name}, [&] { r.set_current_batch(id); });
            check_throws(errc::no_such_batch, {"pass an id from"}, [&] { r.transfer_ownership(h, id); });
            if (id) check_throws(errc::no_such_batch, {name}, [&] { r.new_batch({}, id); });
        }
        CHECK(h.owner() == b.id());
        CHECK(tenure::current_batch() == b.id());
    }

    TEST_CASE_FIXTURE(accounting, "make in an ended batch") {
        batch_scope b{{.name = "over"}};
        b.make<int>(1);
        b.end();
        check_throws(errc::batch_ended, {"'over'", number(b), "still active"}, [&] { b.make<int>(1); });
        check_throws(errc::batch_ended, {"'over'"}, [&] { b.make<int[]>(1); });
        check_throws(errc::batch_ended, {"'over'"}, [&] { b.make<char[]>(1'000'000); });
        check_throws(errc::batch_ended, {"'over'"}, [&] { b.make<std::string>("text"); });
        int elsewhere = 1;
        check_throws(errc::batch_ended, {"'over'"}, [&] { b.adopt(&elsewhere, [](int*) {}); });
        check_throws(errc::batch_ended, {"'over'"}, [&] { b.defer([] {}); });
        check_throws(errc::batch_ended, {"'over'"}, [&] { (void)b.lane(); });
        check_throws(errc::batch_ended, {"'over'"}, [&] { (void)b.enter(); });
        check_throws(errc::batch_ended, {"'over'"}, [&] { (void)b.detach(); });
        check_throws(errc::batch_ended, {"'over'"}, [&] { batch_scope below{tenure::below(b)}; });
        check_throws(errc::batch_ended, {"'over'"}, [&] { registry::global().new_batch({}, b.id()); });
        CHECK(b.usage().objects == 0);
        CHECK(tenure::current_batch() == registry::global().root());
    }

    TEST_CASE_FIXTURE(accounting, "keep and transfer to an ended batch") {
        batch_scope inner;
        auto const  h = inner.make<int>(1);
        check_throws(errc::batch_ended, {"still active"}, [&] { tenure::transfer_ownership(h, ended_id()); });
        CHECK(h.owner() == inner.id());

        // A guard on another thread is asked to stop; what it has made stays until it closes.
        batch_id const id = registry::global().new_batch({.name = "parent"});
        std::thread([&] {
            batch_id const before = registry::global().set_current_batch(id);
            {
                batch_scope below;
                auto const  g = below.make<int>(2);
                std::thread([&] { registry::global().end_batch(id); }).join();
                check_throws(errc::batch_ended, {"still active"}, [&] { below.keep(g); });
                check_throws(errc::batch_ended, {"still active"}, [&] { below.make<int>(3); });
                CHECK(*g == 2);
            }
            registry::global().set_current_batch(before);
        }).join();
        CHECK(registry::global().status(id) == batch_status::done);
    }

    TEST_CASE_FIXTURE(accounting, "double end") {
        journal     log;
        batch_scope outer;
        {
            batch_scope b;
            b.make<traced>(log, 1);
            b.end();
            b.end();
            b.discard();
            registry::global().end_batch(b.id());
            registry::global().destroy_batch(b.id());
            CHECK(tenure::current_batch() == outer.id());
        }
        registry::global().end_batch(ended_id());
        CHECK(log.ended == std::vector{1});
        CHECK(tenure::current_batch() == outer.id());
    }

    TEST_CASE_FIXTURE(accounting, "double free") {
        journal     log;
        batch_scope b;
        auto const  with_end = b.make<traced>(log, 1);
        auto const  plain    = b.make<int>(2);
        auto const  array    = b.make<std::string[]>(3);
        auto const  large    = b.make<char[]>(100'000);
        auto const  adopted  = b.adopt(new int(3));
        auto const  again    = [&](auto const& h) {
            b.free(h);
            check_throws(errc::stale_handle, {"the object was freed"}, [&] { b.free(h); });
            check_throws(errc::stale_handle, {"the object was freed"}, [&] { registry::global().free(h); });
            check_throws(errc::stale_handle, {}, [&] { registry::global().free(std::vector{h}); });
        };
        again(with_end);
        again(plain);
        again(array);
        again(large);
        again(adopted);
        CHECK(log.ended == std::vector{1});
        CHECK(b.usage().objects == 0);
    }

    TEST_CASE_FIXTURE(accounting, "a detached guard") {
        batch_scope outer;
        batch_scope b{{.name = "let go"}};
        auto const  h  = b.make<int>(1);
        auto const  id = b.detach();
        check_throws(errc::batch_ended, {}, [&] { b.make<int>(1); });
        check_throws(errc::batch_ended, {}, [&] { b.make<char[]>(1'000'000); });
        check_throws(errc::batch_ended, {}, [&] { b.keep(h); });
        check_throws(errc::batch_ended, {}, [&] { b.free(h); });
        check_throws(errc::batch_ended, {}, [&] { b.defer([] {}); });
        check_throws(errc::batch_ended, {}, [&] { (void)b.resource()->allocate(8); });
        check_throws(errc::batch_ended, {}, [&] { (void)b.lane(); });
        check_throws(errc::batch_ended, {}, [&] { (void)b.enter(); });
        check_throws(errc::batch_ended, {}, [&] { batch_scope below{tenure::below(b)}; });
        CHECK(b.try_make<int>(1).error() == errc::batch_ended);
        b.end();  // not its to end
        b.discard();
        CHECK(*h == 1);
        CHECK(registry::global().status(id) == batch_status::active);
        registry::global().end_batch(id);
        CHECK_FALSE(h.alive());
    }

    TEST_CASE_FIXTURE(accounting, "the root") {
        registry& r = registry::global();
        check_throws(errc::not_owner, {"root"}, [&] { r.end_batch(r.root()); });
        check_throws(errc::not_owner, {"root"}, [&] { r.destroy_batch(r.root()); });
        auto const h = tenure::make<int>(1);
        check_throws(errc::not_owner, {"root"}, [&] { tenure::keep(h); });
        CHECK(*h == 1);
        r.free(h);
    }
}

TEST_SUITE("re-entry from a destructor of the batch that is ending") {
    TEST_CASE_FIXTURE(accounting, "make in what ends itself") {
        int         ran = 0;
        batch_scope outer;
        batch_scope b{{.name = "ending"}};
        b.make<at_end>([&] {
            CHECK(b.try_make<int>(1).error() == errc::batch_ended);
            CHECK(b.try_make<std::string>("text").error() == errc::batch_ended);
            CHECK(b.try_make<char[]>(1'000'000).error() == errc::batch_ended);
            check_throws(errc::batch_ended, {"'ending'", "still active"}, [&] { b.make<int>(1); });
            check_throws(errc::batch_ended, {"'ending'"}, [&] { b.defer([] {}); });
            check_throws(errc::batch_ended, {"'ending'"}, [&] { (void)b.resource()->allocate(8); });
            check_throws(errc::batch_ended, {"'ending'"}, [&] { batch_scope below{tenure::below(b)}; });
            ++ran;
        });
        b.end();
        CHECK(ran == 1);
        CHECK(b.usage().objects == 0);
        CHECK(outer.usage().objects == 0);
    }

    TEST_CASE_FIXTURE(accounting, "free and keep") {
        journal        log;
        batch_scope    outer;
        int            ran = 0;
        handle<traced> newer;
        {
            batch_scope b{{.name = "ending"}};
            auto const  older = b.make<traced>(log, 1);
            auto const  plain = b.make<int>(2);
            b.make<at_end>([&, older, plain] {
                CHECK_FALSE(newer.alive());  // newest first
                CHECK(older->number() == 1);
                CHECK(*plain == 2);
                check_throws(errc::batch_ended, {"'ending'"}, [&] { b.free(older); });
                check_throws(errc::batch_ended, {"'ending'"}, [&] { registry::global().free(plain); });
                check_throws(errc::batch_ended, {"'ending'", "still active"}, [&] { b.keep(older); });
                check_throws(errc::batch_ended, {"'ending'"}, [&] { b.keep(older, plain); });
                check_throws(errc::not_owner, {}, [&] { tenure::keep(plain); });
                check_throws(errc::stale_handle, {}, [&] { registry::global().free(newer); });
                CHECK(b.try_keep(older).error() == errc::batch_ended);
                check_throws(errc::batch_ended, {}, [&] { tenure::transfer_ownership(older, outer.id()); });
                CHECK(older.alive());
                ++ran;
            });
            newer = b.make<traced>(log, 3);
            b.end();
        }
        CHECK(ran == 1);
        CHECK(log.ended == std::vector{3, 1});
        CHECK(outer.usage().objects == 0);
    }

    TEST_CASE_FIXTURE(accounting, "its own handle is stale already") {
        batch_scope    b;
        handle<at_end> self;
        int            ran   = 0;
        auto const     check = [&] {
            CHECK_FALSE(self.alive());
            check_throws(errc::stale_handle, {}, [&] { registry::global().free(self); });
            check_throws(errc::stale_handle, {}, [&] { (void)*self; });
            ++ran;
        };
        self = b.make<at_end>(check);
        b.free(self);
        CHECK(ran == 1);
        self = b.make<at_end>(check);
        b.end();
        CHECK(ran == 2);
    }

    TEST_CASE_FIXTURE(accounting, "end, destroy and discard: no-ops") {
        journal     log;
        batch_scope outer;
        batch_scope b;
        b.make<traced>(log, 1);
        b.make<at_end>([&] {
            b.end();
            b.discard();
            registry::global().end_batch(b.id());
            registry::global().destroy_batch(b.id());
            check_throws(errc::batch_ended, {}, [&] { (void)b.detach(); });
            CHECK(log.ended == std::vector{2});
        });
        b.make<traced>(log, 2);
        b.end();
        CHECK(log.ended == std::vector{2, 1});
        CHECK(tenure::current_batch() == outer.id());
    }

    TEST_CASE_FIXTURE(accounting, "other batches are free to use") {
        journal     log;
        batch_scope outer;
        auto const  theirs = outer.make<traced>(log, 1);
        handle<int> made;
        {
            batch_scope b;
            b.make<at_end>([&] {
                made = outer.make<int>(5);
                outer.free(theirs);
                batch_scope beside{tenure::below(outer)};
                auto const  h = beside.make<std::string>("made while another ends");
                beside.keep(h);
                CHECK(tenure::current_batch() == beside.id());
            });
        }
        CHECK(*made == 5);
        CHECK(log.ended == std::vector{1});
        CHECK(outer.usage().objects == 2);
        CHECK(tenure::current_batch() == outer.id());
    }

    TEST_CASE_FIXTURE(accounting, "free from a destructor that free() runs") {
        journal     log;
        batch_scope b;
        auto const  other = b.make<traced>(log, 1);
        handle<int> made;
        auto const  h = b.make<at_end>([&] {
            b.free(other);
            made = b.make<int>(2);  // the batch is active
        });
        b.free(h);
        CHECK(log.ended == std::vector{1});
        CHECK(*made == 2);
        CHECK(b.usage().objects == 1);
    }

    TEST_CASE_FIXTURE(accounting, "the end of its parent") {
        journal log;
        {
            batch_scope top;
            {
                batch_scope outer;
                outer.make<traced>(log, 1);
                {
                    batch_scope inner;
                    inner.make<traced>(log, 2);
                    inner.make<at_end>([&] {
                        outer.end();
                        log.ended.push_back(3);
                    });
                }
                CHECK(outer.status() == batch_status::done);
                CHECK(tenure::current_batch() == top.id());
            }
            CHECK(tenure::current_batch() == top.id());
        }
        CHECK(log.alive == 0);
        CHECK(tenure::current_batch() == registry::global().root());
    }

    TEST_CASE_FIXTURE(accounting, "by id, on a thread that has no guard of it") {
        journal        log;
        registry&      r      = registry::global();
        batch_id const id     = r.new_batch({.name = "ending"});
        batch_id const before = r.set_current_batch(id);
        auto const     older  = tenure::make<traced>(log, 1);
        int            ran    = 0;
        tenure::make<at_end>([&] {
            CHECK(older.alive());
            check_throws(errc::batch_ended, {}, [&] { r.free(older); });
            check_throws(errc::batch_ended, {}, [&] { r.set_current_batch(id); });
            check_throws(errc::batch_ended, {}, [&] { r.new_batch({}, id); });
            check_throws(errc::batch_ended, {}, [&] { r.transfer_ownership(older, r.root()); });
            r.end_batch(id);
            r.destroy_batch(id);
            ++ran;
        });
        r.set_current_batch(before);
        r.end_batch(id);
        CHECK(ran == 1);
        CHECK(log.ended == std::vector{1});
    }
}

/// What a destructor may do as any callee does: open scopes, make in what is current, keep, look at what is
/// current. `where`: what has to be current there.
void work_as_a_callee(batch_id where) {
    CHECK(tenure::current_batch() == where);
    {
        batch_scope s{{.name = "inside a destructor"}};
        auto const  text = s.make<std::string>(100, 's');
        auto const  kept = tenure::make<std::string>(100, 'k');
        s.keep(kept);
        batch_scope deeper;
        CHECK(*deeper.keep(deeper.make<std::string>(*text)) == *text);
        CHECK(tenure::current_batch() == deeper.id());
    }
    CHECK(tenure::current_batch() == where);
    tenure::batch_owner own{tenure::batch_options{}};
    CHECK(*own.make<int>(3) == 3);
    CHECK(*tenure::with_batch([](batch_scope& s) { return s.make<int>(5); }) == 5);
    batch_id const before = registry::global().set_current_batch(own.id());
    CHECK(before == where);
    tenure::make<int>(4);
    registry::global().set_current_batch(before);
    CHECK(tenure::current_batch() == where);
    tenure::bind_batch([&] { CHECK(tenure::current_batch() == where); })();
    CHECK(tenure::try_make<int>(6).has_value());
}
constexpr std::size_t left_by_work = 3;  ///< objects, in the batch that is current: the kept text, the 5 and the 6

TEST_SUITE("while a batch ends, its nearest active ancestor is current") {
    TEST_CASE_FIXTURE(accounting, "at a brace, and by end()") {
        for (bool const by_brace : {true, false}) {
            batch_scope outer;
            int         ran = 0;
            {
                batch_scope b;
                b.make<at_end>([&] {
                    work_as_a_callee(outer.id());
                    ++ran;
                });
                b.defer([&] {
                    work_as_a_callee(outer.id());
                    ++ran;
                });
                b.adopt(new int(7), [&](int const* p) {
                    work_as_a_callee(outer.id());
                    delete p;
                    ++ran;
                });
                if (!by_brace) b.end();
                CHECK(tenure::current_batch() == (by_brace ? b.id() : outer.id()));
            }
            CHECK(ran == 3);
            CHECK(outer.usage().objects == 3 * left_by_work);
            CHECK(tenure::current_batch() == outer.id());
        }
    }

    TEST_CASE_FIXTURE(accounting, "by discard(), of what was kept, too") {
        batch_scope outer;
        int         ran = 0;
        batch_scope b;
        auto const  work = [&] {
            work_as_a_callee(outer.id());
            ++ran;
        };
        b.keep(b.make<at_end>(work));
        b.make<at_end>(work);
        b.discard();
        CHECK(ran == 2);
        CHECK(outer.usage().objects == 2 * left_by_work);
    }

    TEST_CASE_FIXTURE(accounting, "by rollback(): those above go on") {
        batch_scope outer;
        int         ran = 0;
        batch_scope b;
        auto const  older = b.make<int>(1);
        b.checkpoint();
        b.make<at_end>([&] {
            work_as_a_callee(outer.id());
            ++ran;
        });
        b.rollback();
        CHECK(ran == 1);
        CHECK(*older == 1);
        CHECK(outer.usage().objects == left_by_work);
        CHECK(tenure::current_batch() == b.id());
        CHECK(*tenure::make<int>(2) == 2);
        CHECK(b.usage().objects == 2);
    }

    TEST_CASE_FIXTURE(accounting, "where those between end, too: children first, while their parents are active") {
        batch_scope           outer;
        std::vector<batch_id> seen;
        auto const            note = [&] { seen.push_back(tenure::current_batch()); };
        batch_scope           first;
        first.make<at_end>(note);
        batch_scope second;
        second.make<at_end>(note);
        batch_scope third;
        third.make<at_end>(note);
        first.end();
        CHECK(seen == std::vector{second.id(), first.id(), outer.id()});
        CHECK(tenure::current_batch() == outer.id());
    }

    TEST_CASE("below one that was cancelled, and one whose time is up") {
        static std::uint64_t now = 0;
        registry             r({.clock = []() noexcept { return now; }});
        batch_scope          outer(r);
        int                  ran = 0;
        for (bool const in_time : {true, false}) {
            batch_scope b{{.timeout = std::chrono::nanoseconds(1000)}};
            {
                batch_scope below;
                batch_scope deeper;
                deeper.make<at_end>([&] {
                    CHECK(tenure::current_batch() == outer.id());
                    batch_scope s;
                    s.keep(s.make<int>(1));
                    tenure::make<int>(2);
                    ++ran;
                });
                if (in_time) b.cancel();
                else now += 2000;
            }
            CHECK(ran == (in_time ? 1 : 2));
        }
        CHECK(outer.usage().objects == 2);
    }

    TEST_CASE_FIXTURE(accounting, "by id, of batches without a guard: whichever is above, or the root") {
        registry&  r   = registry::global();
        int        ran = 0;
        auto const top = r.new_batch({.name = "top"});
        for (bool const destroy : {false, true}) {
            auto const id = r.new_batch({.name = "ends"}, top);
            {
                auto const here = r.enter(id);
                tenure::make<at_end>([&] {
                    work_as_a_callee(top);
                    ++ran;
                });
            }
            batch_scope elsewhere;  // which is current, and has nothing to do with it
            destroy ? r.destroy_batch(id) : r.end_batch(id);
            CHECK(tenure::current_batch() == elsewhere.id());
            CHECK(elsewhere.usage().objects == 0);
        }
        CHECK(r.usage(top).objects == 2 * left_by_work);
        std::size_t const before = r.usage(r.root()).objects;
        {
            auto const here = r.enter(top);
            tenure::make<at_end>([&] {
                work_as_a_callee(r.root());
                ++ran;
            });
        }
        r.end_batch(top);
        CHECK(ran == 3);
        CHECK(r.usage(r.root()).objects == before + left_by_work);
    }

    TEST_CASE_FIXTURE(accounting, "on another thread than the ancestor's") {
        batch_scope outer;
        int         ran = 0;
        auto const  id  = registry::global().new_batch({}, outer.id());
        {
            auto const here = registry::global().enter(id);
            tenure::make<at_end>([&] {
                work_as_a_callee(outer.id());
                ++ran;
            });
        }
        std::thread([&] {
            registry::global().end_batch(id);
            CHECK(tenure::current_batch() == registry::global().root());
        }).join();
        CHECK(ran == 1);
        CHECK(outer.usage().objects == left_by_work);
    }

    TEST_CASE_FIXTURE(accounting, "at the end of a thread that left a batch current") {
        registry&  r   = registry::global();
        int        ran = 0;
        auto const top = r.new_batch();
        std::thread([&] {
            auto const id = r.new_batch({}, top);
            r.set_current_batch(id);
            tenure::make<at_end>([&] {
                work_as_a_callee(top);
                ++ran;
            });
            r.end_batch(id);  // it is held until the thread leaves it, which it never does
        }).join();
        CHECK(ran == 1);
        CHECK(r.usage(top).objects == left_by_work);
        r.end_batch(top);
    }

    TEST_CASE_FIXTURE(accounting, "of what several share: what is current where the last lets go") {
        batch_scope outer;
        int         ran = 0;
        auto const  id  = registry::global().new_batch({}, outer.id());
        {
            batch_scope b;
            auto const  h = b.make<at_end>([&] {
                work_as_a_callee(outer.id());
                ++ran;
            });
            b.share(h, id);
        }
        CHECK(ran == 0);
        registry::global().end_batch(id);
        CHECK(ran == 1);
        CHECK(outer.usage().objects == left_by_work);
        {
            batch_scope one;
            batch_scope two;
            auto const  h = two.make<at_end>([&] {
                work_as_a_callee(outer.id());
                ++ran;
            });
            two.share(h, one.id());
        }
        CHECK(ran == 2);
    }

    TEST_CASE_FIXTURE(accounting, "for what a stop_token calls") {
        batch_scope outer;
        int         ran = 0;
        batch_scope b;
        auto const  call = [&] {
            work_as_a_callee(outer.id());
            ++ran;
        };
        std::stop_callback const on_stop(b.stop_token(), call);
        b.cancel();
        CHECK(ran == 1);
        CHECK(tenure::current_batch() == b.id());
        b.end();
        CHECK(outer.usage().objects == left_by_work);
    }

    TEST_CASE("in a registry of one's own: in its batches, and in its root at its end") {
        int ran = 0;
        {
            auto       owned = std::make_unique<registry>(tenure::registry_options{.on_leak = {}});
            registry&  r     = *owned;
            auto const work  = [&] {
                CHECK(tenure::current_batch() == r.root());
                batch_scope here;  // below what is current, in whichever registry
                batch_scope there(r);
                CHECK(*there.keep(here.make<std::string>(100, 'x')) == std::string(100, 'x'));
                CHECK(*tenure::make<int>(1) == 1);
                ++ran;
            };
            {
                batch_scope b(r);
                b.make<at_end>(work);
            }
            CHECK(ran == 1);
            auto const left  = r.new_batch({.name = "left", .cleanup = cleanup::manual});
            auto const enter = [&](batch_id id) {
                auto const here = r.enter(id);
                tenure::make<at_end>(work);
            };
            enter(left);
            enter(r.root());
            {
                auto const here = r.enter(r.root());
                // A destructor of the root makes what has a destructor, which still finds a root to work in.
                tenure::make<at_end>([&] { tenure::make<at_end>(work); });
            }
            r.end_batch(left);
            owned.reset();
        }
        CHECK(ran == 4);
    }

    TEST_CASE_FIXTURE(accounting, "and a scope that a destructor leaves open ends with what it is below") {
        journal     log;
        batch_scope outer;
        {
            std::unique_ptr<batch_scope> left;
            batch_scope                  top;
            {
                batch_scope b;
                b.make<at_end>([&] {
                    left = std::make_unique<batch_scope>();
                    left->make<traced>(log, 1);
                });
                top.end();
            }
            CHECK(log.ended == std::vector{1});
            CHECK(left->status() == batch_status::done);
        }
        CHECK(tenure::current_batch() == outer.id());
    }

    TEST_CASE_FIXTURE(accounting, "at every depth, in a random order") {
        std::mt19937 dice(11);
        auto const   roll = [&](unsigned n) { return static_cast<unsigned>(dice()) % n; };
        std::size_t  open = 0;
        std::size_t  ran  = 0;
        // Each destructor opens scopes, makes objects whose destructors do the same, keeps some, ends some early.
        std::function<void(int)> callee = [&](int depth) {
            ++ran;
            if (depth == 0) return;
            batch_id const before = tenure::current_batch();
            {
                batch_scope s{{.reclaim = tenure::reclamation::at_once}};
                ++open;
                for (unsigned i = roll(3); i > 0; --i) {
                    auto const h = tenure::make<at_end>([&, depth] { callee(depth - 1); });
                    switch (roll(4)) {
                    case 0: s.keep(h); break;
                    case 1: s.free(h); break;
                    case 2: s.end(); break;
                    default: break;
                    }
                    if (s.status() != batch_status::active) break;
                }
                tenure::make<std::string>(50, 'x');
            }
            --open;
            CHECK(tenure::current_batch() == before);
        };
        {
            registry r;  // whose root has what was kept up to there: it goes before what the destructors use
            for (int round = 0; round < 200; ++round) {
                batch_scope    outer(r);
                batch_id const loose = r.new_batch({}, outer.id());
                {
                    auto const here = r.enter(loose);
                    tenure::make<at_end>([&] { callee(5); });
                }
                batch_scope b;
                for (int i = 0; i < 3; ++i) b.make<at_end>([&] { callee(5); });
                if (roll(2)) r.end_batch(loose);
            }
        }
        CHECK(open == 0);
        CHECK(ran > 200 * 4);
    }
}

TEST_SUITE("a guard on the wrong thread") {
    TEST_CASE_FIXTURE(accounting, "its calls say so") {
        batch_scope b{{.name = "elsewhere"}};
        std::thread([&] {
            check_throws(errc::wrong_thread, {"'elsewhere'", "detach()", "lane()"}, [&] { b.end(); });
            check_throws(errc::wrong_thread, {"'elsewhere'"}, [&] { b.discard(); });
            check_throws(errc::wrong_thread, {"'elsewhere'"}, [&] { (void)b.detach(); });
        }).join();
        CHECK(b.status() == batch_status::active);
        CHECK(tenure::current_batch() == b.id());
    }

    TEST_CASE_FIXTURE(accounting,
                      "destroyed there: its objects go when its thread comes by, and the snapshot says so") {
        journal    log;
        registry   r;
        auto       b = std::make_unique<batch_scope>(r, tenure::batch_options{.name = "closed_elsewhere"});
        auto const h = b->make<traced>(log, 1);
        b->make<int>(2);
        std::thread([&] { b.reset(); }).join();
        CHECK(log.ended.empty());  // this thread might be making there
        CHECK(tenure::try_make<char[]>(100'000).error() == errc::batch_ended);
        { batch_scope comes_by(r); }
        CHECK(log.ended == std::vector{1});
        CHECK_FALSE(h.alive());
        tenure::snapshot const s = r.snapshot();
        CHECK(s.foreign_ends == 1);
        CHECK(s.batches.size() == 1);
        CHECK(s.memory.held == 0);
        CHECK(s.to_text().find("1 guards were destroyed on a thread that did not open them; detach()") !=
              std::string::npos);
    }

    TEST_CASE_FIXTURE(accounting, "destroyed there: the thread that opened it goes on in what was current before") {
        journal     log;
        batch_scope outer{{.name = "outer"}};
        auto        wanders = std::make_unique<batch_scope>(tenure::batch_options{.name = "closed_elsewhere"});
        wanders->make<traced>(log, 1);
        std::thread([&] { wanders.reset(); }).join();
        // Until it next opens or closes a batch it may be told, but it is never left in memory that is gone.
        auto const r = tenure::try_make<int>(1);
        if (r) CHECK(r->owner() == outer.id());
        else CHECK(r.error() == errc::batch_ended);
        {
            batch_scope next{tenure::below(outer)};
            CHECK(next.make<int>(1).owner() == next.id());
            CHECK(tenure::current_batch() == next.id());
        }
        outer.end();
        CHECK(tenure::current_batch() == registry::global().root());
        batch_scope afresh;
        CHECK(tenure::make<int>(2).owner() == afresh.id());
    }

    TEST_CASE_FIXTURE(accounting, "destroyed there, with children open where it was opened") {
        journal log;
        {
            auto        wanders = std::make_unique<batch_scope>(tenure::batch_options{.name = "closed_elsewhere"});
            auto const  h       = wanders->make<traced>(log, 1);
            batch_scope child{{.name = "child"}};
            child.make<traced>(log, 2);
            std::thread([&] { wanders.reset(); }).join();
            CHECK(child.status() != batch_status::done);
            (void)h;
        }
        CHECK(log.alive == 0);
        CHECK(log.ended.size() == 2);
        CHECK(tenure::current_batch() == registry::global().root());
    }

    TEST_CASE_FIXTURE(accounting, "destroyed after the thread that opened it is gone") {
        journal                      log;
        std::unique_ptr<batch_scope> left;
        std::thread([&] {
            left = std::make_unique<batch_scope>(tenure::batch_options{.name = "left behind"});
            left->make<traced>(log, 1);
        }).join();
        left.reset();
        CHECK(log.ended == std::vector{1});
        batch_scope b;
        CHECK(tenure::make<int>(1).owner() == b.id());
    }

    TEST_CASE_FIXTURE(accounting, "destroyed after that thread, outermost first: what is below ends with it") {
        journal                      log;
        std::unique_ptr<batch_scope> outer, middle, inner;
        batch_id                     below;
        std::thread([&] {
            outer = std::make_unique<batch_scope>(tenure::batch_options{.name = "outer"});
            outer->make<traced>(log, 1);
            middle = std::make_unique<batch_scope>(tenure::batch_options{.name = "middle"});
            inner  = std::make_unique<batch_scope>(tenure::batch_options{.name = "inner"});
            inner->make<traced>(log, 2);
            below = registry::global().new_batch({.name = "below"}, middle->id());
        }).join();
        CHECK(registry::global().snapshot().batches.size() == 5);
        auto const h = inner->make<int>(3);
        outer.reset();
        CHECK_FALSE(h.alive());
        CHECK(log.ended == std::vector{2, 1});
        CHECK(registry::global().status(below) == batch_status::done);
        batch_scope stranger;  // with the record of `outer`
        CHECK(inner->status() == batch_status::done);
        CHECK(inner->try_make<int>(1).error() == errc::batch_ended);
        inner.reset();
        middle.reset();
        CHECK(stranger.status() == batch_status::active);
        CHECK(stranger.usage().objects == 0);
    }

    TEST_CASE_FIXTURE(accounting, "destroyed elsewhere while its opener has others below it, and then ends") {
        journal                      log;
        std::unique_ptr<batch_scope> outer, inner;
        std::thread([&] {
            outer = std::make_unique<batch_scope>(tenure::batch_options{.name = "outer"});
            outer->make<traced>(log, 1);
            inner = std::make_unique<batch_scope>(tenure::batch_options{.name = "inner"});
            inner->make<traced>(log, 2);
            std::thread([&] { outer.reset(); }).join();
            CHECK(inner->status() == batch_status::ending);
        }).join();
        CHECK(log.ended == std::vector{2, 1});
        inner.reset();
        CHECK(registry::global().snapshot().batches.size() == 1);
    }

    TEST_CASE_FIXTURE(accounting,
                      "left behind after it, or what is above it, was asked to stop: ends with its thread") {
        for (bool const above : {false, true}) {
            CAPTURE(above);
            journal                      log;
            registry                     r;
            batch_id const               top = r.new_batch();
            std::unique_ptr<batch_scope> left;
            std::thread([&] {
                {
                    auto const in = r.enter(top);
                    left          = std::make_unique<batch_scope>(r, tenure::batch_options{.name = "left behind"});
                }
                left->make<traced>(log, 1);
                std::thread([&] { r.end_batch(above ? top : left->id()); }).join();
                CHECK(log.ended.empty());
            }).join();
            CHECK(log.ended == std::vector{1});
            CHECK(r.status(top) == (above ? batch_status::done : batch_status::active));
            left.reset();
            r.end_batch(top);
        }
    }

    TEST_CASE_FIXTURE(accounting, "left behind, and detached by another thread") {
        registry                     r;
        std::unique_ptr<batch_scope> left;
        std::thread([&] { left = std::make_unique<batch_scope>(r); }).join();
        batch_id const id = left->detach();
        left.reset();
        {
            batch_scope above(r);
            r.new_batch({}, above.id());
        }
        CHECK(r.status(id) == batch_status::active);
        r.end_batch(id);
        CHECK(r.snapshot().batches.size() == 1);
    }
}

TEST_SUITE("the current batch is never one that is gone") {
    TEST_CASE_FIXTURE(accounting, "guards that are not destroyed newest first") {
        batch_scope top;
        auto        a = std::make_unique<batch_scope>();
        auto        b = std::make_unique<batch_scope>(tenure::below(top));
        auto        c = std::make_unique<batch_scope>(tenure::below(top));
        a.reset();
        CHECK(tenure::current_batch() == c->id());
        c.reset();
        CHECK(tenure::current_batch() == b->id());
        b.reset();
        CHECK(tenure::current_batch() == top.id());
    }

    TEST_CASE_FIXTURE(accounting, "one that ended early, below one that goes on") {
        batch_scope top;
        batch_scope a;
        {
            batch_scope b{tenure::below(top)};
            a.end();
            CHECK(tenure::current_batch() == b.id());
        }
        CHECK(tenure::current_batch() == top.id());
        CHECK(tenure::make<int>(1).owner() == top.id());
    }

    TEST_CASE_FIXTURE(accounting, "one that was detached, below one that goes on") {
        batch_scope top;
        batch_id    id;
        {
            batch_scope a;
            batch_scope b{tenure::below(top)};
            id = a.detach();
            CHECK(tenure::current_batch() == b.id());
            b.end();
            CHECK(tenure::current_batch() == top.id());
        }
        CHECK(tenure::current_batch() == top.id());
        registry::global().end_batch(id);
    }

    TEST_CASE_FIXTURE(accounting, "one that was entered, left and ended") {
        registry&      r      = registry::global();
        batch_id const id     = r.new_batch();
        batch_id const before = r.set_current_batch(id);
        {
            batch_scope below;
            CHECK(tenure::current_batch() == below.id());
        }
        CHECK(tenure::current_batch() == id);
        r.set_current_batch(before);
        r.end_batch(id);
        CHECK(r.status(id) == batch_status::done);
        CHECK(tenure::current_batch() == before);
    }

    TEST_CASE_FIXTURE(accounting, "one that a thread left current when it ended") {
        registry& r = registry::global();
        for (bool const makes : {true, false}) {  // one that has made nothing has nothing else to return
            CAPTURE(makes);
            batch_id const id = r.new_batch();
            std::thread([&] {
                r.set_current_batch(id);
                if (makes) tenure::make<int>(1);
            }).join();
            r.end_batch(id);
            CHECK(r.status(id) == batch_status::done);
        }
    }

    TEST_CASE_FIXTURE(accounting, "one whose registry is gone") {
        auto r = std::make_unique<registry>(tenure::registry_options{.on_leak = nullptr});
        r->set_current_batch(r->new_batch());
        r.reset();
        CHECK(tenure::current_batch() == registry::global().root());
    }
}

TEST_SUITE("100,000 nested batches") {
    constexpr std::size_t depth = TENURE_SANITIZED ? 20'000 : 100'000;

    TEST_CASE_FIXTURE(accounting, "ended in order") {
        journal log;
        auto    open = nested(depth, log);
        while (!open.empty()) open.pop_back();
        CHECK(log.alive == 0);
        CHECK(log.ended.size() == depth / 1000);
        CHECK(log.ended.front() == depth / 1000 - 1);
        CHECK(tenure::current_batch() == registry::global().root());
    }

    TEST_CASE_FIXTURE(accounting, "by ending the outermost") {
        journal log;
        auto    open = nested(depth, log);
        open.front()->end();
        CHECK(log.alive == 0);
        CHECK(log.ended.size() == depth / 1000);
        CHECK(log.ended.front() == depth / 1000 - 1);  // newest first
        CHECK(open.back()->status() == batch_status::done);
        check_throws(errc::batch_ended, {}, [&] { open.back()->make<int>(1); });
        CHECK(tenure::current_batch() == registry::global().root());
    }

    TEST_CASE_FIXTURE(accounting, "by destroying the guards, outermost first") {
        journal log;
        auto    open = nested(depth, log);
        for (auto& b : open) b.reset();
        CHECK(log.alive == 0);
        CHECK(tenure::current_batch() == registry::global().root());
    }

    TEST_CASE_FIXTURE(accounting, "under the guard, by ids") {
        registry              r;
        std::vector<batch_id> ids;
        for (std::size_t i = 0; i < depth; ++i)
            ids.push_back(r.new_batch({}, ids.empty() ? batch_id{} : ids.back()));
        CHECK(r.snapshot().batches.size() == depth + 1);
        r.end_batch(ids.front());
        for (batch_id const id : ids) CHECK(r.status(id) == batch_status::done);
    }

    TEST_CASE_FIXTURE(accounting, "left to the registry's destructor") {
        registry r{{.on_leak = nullptr}};
        batch_id last;
        for (std::size_t i = 0; i < depth; ++i) last = r.new_batch({}, last);
    }
}

TEST_SUITE("a batch that another thread makes in without a lane") {
    /// What the other thread is told at the latest once it wants more memory, and in checked builds at once.
    template <class Make>
    void check_told(batch_scope & b, Make make) {
        tenure::batch_usage const before = b.usage();
        int                       made   = 0;
        std::thread([&] {
            check_throws(errc::wrong_thread, {"'another's'", "lane()", "enter()"}, [&] {
                for (; made < 1'000'000; ++made) make();
            });
        }).join();
        CHECK(made < 70'000);
        CHECK((TENURE_CHECKED ? made == 0 : true));
        CHECK(b.usage().objects <= before.objects + static_cast<std::size_t>(made));
        CHECK(*b.make<std::string>("own") == "own");
        tenure::lane l = b.lane();
        std::thread([&] { CHECK(*l.make<int>(1) == 1); }).join();
        auto const other = [&] {
            auto const in = b.enter();
            CHECK(*tenure::make<int>(2) == 2);
        };
        std::thread(other).join();
    }

    TEST_CASE_FIXTURE(accounting, "objects") {
        batch_scope b{{.name = "another's"}};
        SUBCASE("in an empty one") {
            check_told(b, [&] { b.make<std::string>("text"); });
        }
        SUBCASE("in one with objects") {
            b.make<int>(1);
            check_told(b, [&] { b.make<std::string>("text"); });
        }
        SUBCASE("without destructors") {
            check_told(b, [&] { b.make<int[]>(10); });
        }
        SUBCASE("large ones") {
            check_told(b, [&] { b.make<char[]>(100'000); });
        }
        SUBCASE("by try_make") {
            std::thread([&] { CHECK(b.try_make<char[]>(100'000).error() == errc::wrong_thread); }).join();
            CHECK(*b.make<int>(1) == 1);
        }
    }

    TEST_CASE("whose list of objects was corrupted so: its end says so and does not loop") {
        int ends[2];
        REQUIRE(::pipe(ends) == 0);
        ::pid_t const child = ::fork();
        if (child == 0) {
            ::dup2(ends[1], 2);
            ::close(ends[0]);
            ::close(ends[1]);
            struct ::rlimit const none{0, 0};
            ::setrlimit(RLIMIT_CORE, &none);
            std::signal(SIGABRT, SIG_DFL);
            batch_scope                           b{{.name = "corrupted"}};
            std::array<tenure::detail::entry*, 3> entries;
            for (auto& e : entries)
                e = reinterpret_cast<tenure::detail::entry*>(b.make<std::string>("text").get()) - 1;
            entries[1]->next = entries[2];  // as where two threads had the same address
            b.end();
            ::_exit(0);
        }
        ::close(ends[1]);
        std::string said;
        char        some[512];
        for (::ssize_t n = 0; (n = ::read(ends[0], some, sizeof some)) > 0;)
            said.append(some, static_cast<std::size_t>(n));
        ::close(ends[0]);
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CAPTURE(said);
        CHECK(WIFSIGNALED(status));
        CHECK(said.find("'corrupted'") != std::string::npos);
        CHECK(said.find("lane()") != std::string::npos);
    }
}

TEST_SUITE("guards of one thread that go before others below them") {
    TEST_CASE_FIXTURE(accounting, "are noticed, as where one lives across co_await") {
        registry   r;
        auto       first  = std::make_unique<batch_scope>(r, tenure::batch_options{.name = "first flow"});
        auto       second = std::make_unique<batch_scope>(r, tenure::batch_options{.name = "second flow"});
        auto const h      = second->make<std::string>("its own");
        first.reset();
        CHECK_FALSE(h.alive());
        CHECK(r.snapshot().unordered_ends == 1);
        CHECK(r.snapshot().to_text().find(
                  "1 guards were destroyed before others that were opened below them on the same thread") !=
              std::string::npos);
        CHECK(r.snapshot().to_text().find("batch_owner") != std::string::npos);
        second.reset();
        CHECK(r.snapshot().unordered_ends == 1);
    }

    TEST_CASE_FIXTURE(accounting, "are not counted where they end as they should, or by end()") {
        registry    r;
        batch_scope outer(r);
        {
            batch_scope inner;
            batch_scope innermost;
        }
        {
            batch_scope below;
            outer.end();
        }
        auto other  = std::make_unique<batch_scope>(r);
        auto beside = std::make_unique<batch_scope>(registry::global());  // below nobody here
        other.reset();
        beside.reset();
        CHECK(r.snapshot().unordered_ends == 0);
    }
}
