// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// One object, several owners: whose it is then, who lets go of it how, and that it goes with the last of them.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/detail/batch/records.hpp>
#include <tenure/detail/life/calls.hpp>
#include <tenure/json.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "journal.hpp"
#include "random/dice.hpp"
#include "stores/lab_store.hpp"
#include "throws.hpp"

namespace {

using tenure::any_store;
using tenure::batch_id;
using tenure::batch_scope;
using tenure::batch_status;
using tenure::buffer;
using tenure::cleanup;
using tenure::errc;
using tenure::frozen;
using tenure::handle;
using tenure::registry;
using tenure::residency;

constexpr std::size_t fewer = TENURE_SANITIZED ? 10 : 1;

/// A registry of its own with a check of all its books at the end.
struct lab {
    registry   r;
    accounting books{r};
    journal    log;

    std::vector<batch_id> batches(std::size_t n) {
        std::vector<batch_id> ids(n);
        for (batch_id& id : ids) id = r.new_batch();
        return ids;
    }
    tenure::batch_info info(batch_id id) const {
        for (tenure::batch_info const& b : r.snapshot().batches)
            if (b.id == id) return b;
        FAIL("no such batch in the snapshot");
        return {};
    }
};

template <class B>
concept can_be_changed = requires(B const& b, any_store const& s) { b.write(0, std::array{1}); } ||
                         requires(B const& b, any_store const& s) { b.move_to(s); };

template <class H>
void check_stale(H const& h) {
    CHECK_FALSE(h.alive());
    check_throws(errc::stale_handle, {}, [&] { (void)h.owner(); });
}

}  // namespace

TEST_SUITE("a shared object") {
    TEST_CASE_FIXTURE(lab, "is freed with the last of its owners, in whatever order they end") {
        std::array<std::size_t, 3> order{0, 1, 2};
        do {
            auto const     ids = batches(3);
            handle<traced> h;
            {
                batch_scope first(r);
                h = first.make<traced>(log, 1);
                for (batch_id const id : ids) CHECK(first.share(h, id) == h);
            }
            for (std::size_t const i : order) {
                CHECK(h->number() == 1);
                CHECK(log.alive == 1);
                r.end_batch(ids[i]);
            }
            check_stale(h);
            CHECK(log.alive == 0);
        } while (std::next_permutation(order.begin(), order.end()));
        CHECK(log.ended.size() == 6);
    }

    TEST_CASE_FIXTURE(lab, "belongs to its owner so far, too") {
        batch_scope first(r);
        auto const  h = first.make<traced>(log, 1);
        {
            batch_scope second(r);
            first.share(h, second.id());
        }
        CHECK(h.alive());
        first.end();
        CHECK_FALSE(h.alive());
        CHECK(log.ended == std::vector{1});
    }

    TEST_CASE_FIXTURE(lab, "may be small, large, an array, adopted, a part of something, without a destructor") {
        struct base {
            virtual ~base() = default;
            int number      = 7;
        };
        struct derived : base {
            std::string text = "a text too long to be kept inside of the string";
        };
        auto const id = r.new_batch();
        struct {
            handle<int>                     small;
            handle<std::array<char, 10000>> medium;
            handle<char[]>                  large;
            handle<std::string[]>           strings;
            handle<traced>                  adopted;
            handle<base>                    part;
            buffer<int>                     buf;
        } all;
        auto const each = [&](auto f) {
            f(all.small), f(all.medium), f(all.large), f(all.strings), f(all.adopted), f(all.part), f(all.buf);
        };
        {
            batch_scope b(r);
            all = {b.make<int>(1),
                   b.make<std::array<char, 10000>>(),
                   b.make<char[]>(300'000),
                   b.make<std::string[]>(10'000),
                   b.adopt(std::make_unique<traced>(log, 2)),
                   b.make<derived>(),
                   b.make_buffer<int>(100)};
            each([&](auto const& h) { r.share(h, id); });
            b.make<std::array<char, 300>>();
        }
        each([&](auto const& h) { CHECK(h.alive()); });
        CHECK(*all.small == 1);
        CHECK(all.large[299'999] == 0);
        CHECK(all.strings[9'999].empty());
        CHECK(all.adopted->number() == 2);
        CHECK(all.part->number == 7);
        CHECK(all.buf.map().size() == 100);
        books.check_books();
        r.end_batch(id);
        each([&](auto const& h) { CHECK_FALSE(h.alive()); });
        CHECK(log.ended == std::vector{2});
    }

    TEST_CASE_FIXTURE(lab, "says whose it is by an id that is no ordinary batch's") {
        batch_scope first{r, {.name = "first"}};
        auto const  h = first.make<int>(1);
        CHECK(h.owner() == first.id());
        batch_id const second = r.new_batch();
        first.share(h, second);
        batch_id const common = h.owner();
        CHECK(common != first.id());
        CHECK(common != second);
        CHECK(r.status(common) == batch_status::active);
        CHECK(info(common).shared_by == 2);
        CHECK(info(common).name == "first");
        CHECK(info(common).parent == r.root());
        CHECK(info(first.id()).shared_by == 0);
        CHECK(r.snapshot().to_text().find("shared by 2") != std::string::npos);
        CHECK(r.snapshot().to_json().find("\"shared_by\": 2") != std::string::npos);

        check_throws(errc::not_owner, {"several batches share", "ends with the last"},
                     [&] { r.end_batch(common); });
        check_throws(errc::not_owner, {}, [&] { r.destroy_batch(common); });
        check_throws(errc::no_such_batch, {"share"}, [&] { first.share(first.make<int>(), common); });
        first.end();
        CHECK(info(common).shared_by == 1);
        r.end_batch(second);
        CHECK(r.status(common) == batch_status::done);
        check_throws(errc::stale_handle, {}, [&] { (void)h.owner(); });
    }

    TEST_CASE_FIXTURE(lab, "is no leak of the registry's") {
        batch_scope b(r);
        auto const  h = r.share(b.make<int>(), r.root());
        b.end();
        CHECK(r.leak_report() == "");
        r.unshare(h, r.root());
    }

    TEST_CASE_FIXTURE(lab, "is shared with the same batch once") {
        batch_scope    b(r);
        batch_id const other = r.new_batch();
        auto const     h     = b.make<traced>(log, 1);
        b.share(h, b.id());
        CHECK(h.owner() == b.id());  // it has it alone
        for (int i = 0; i < 5; ++i) b.share(h, other), b.share(h, b.id());
        CHECK(info(h.owner()).shared_by == 2);
        r.end_batch(other);
        CHECK(info(h.owner()).shared_by == 1);
        b.share(h, b.id());
        b.end();
        CHECK_FALSE(h.alive());
    }

    TEST_CASE_FIXTURE(lab, "not with a batch that is over, or never was, nor when it is stale itself") {
        batch_scope    b{r, {.name = "giver"}};
        batch_id const over = r.new_batch();
        r.end_batch(over);
        auto const h = b.make<int>();
        for (int shared = 0; shared < 2; ++shared) {
            check_throws(errc::batch_ended, {"share"}, [&] { b.share(h, over); });
            check_throws(errc::no_such_batch, {"share"}, [&] { b.share(h, {~std::uint64_t{0}}); });
            check_throws(errc::no_such_batch, {}, [&] { b.share(h, {}); });
            CHECK(r.try_share(h, over).error() == errc::batch_ended);
            b.share(h, r.root());
        }
        registry other;
        check_throws(errc::not_owner, {}, [&] { other.share(h, other.root()); });
        check_throws(errc::no_such_batch, {}, [&] { r.share(h, other.root()); });
        r.free(h);
        check_throws(errc::stale_handle, {"share"}, [&] { b.share(h, r.root()); });
        check_throws(errc::stale_handle, {"share"}, [&] { b.share(handle<int>{}, r.root()); });
        b.detach();
        check_throws(errc::batch_ended, {"share"}, [&] { b.share(h, r.root()); });
        r.end_batch(b.id());
    }

    TEST_CASE_FIXTURE(lab, "of a batch that ends with cleanup::manual stays until that is destroyed") {
        batch_id const manual = r.new_batch({.cleanup = cleanup::manual});
        handle<traced> h;
        {
            batch_scope b(r);
            h = b.share(b.make<traced>(log, 1), manual);
        }
        r.end_batch(manual);
        CHECK(h.alive());
        CHECK(r.status(manual) == batch_status::retained);
        CHECK(r.try_share(h, manual).error() == errc::batch_ended);
        r.destroy_batch(manual);
        CHECK_FALSE(h.alive());
    }

    TEST_CASE_FIXTURE(lab, "of a batch that is still waited for stays as long") {
        batch_id const up = r.new_batch();
        handle<traced> h;
        {
            batch_scope b(r);
            h = b.share(b.make<traced>(log, 1), up);
        }
        {
            auto const inside = r.enter(up);
            r.end_batch(up);
            CHECK(r.status(up) == batch_status::ending);
            CHECK(h.alive());
            CHECK(r.try_share(h, up).error() == errc::batch_ended);
        }
        CHECK_FALSE(h.alive());
    }

    TEST_CASE_FIXTURE(lab, "has its destructor run after those of its last owner's own objects, and newest first") {
        handle<traced> a, b;
        {
            batch_scope last(r);
            {
                batch_scope first(r);
                a = first.make<traced>(log, 1);
                b = first.make<traced>(log, 2);
                first.share(a, last.id());
                first.share(b, last.id());
            }
            last.make<traced>(log, 3);
            CHECK(log.ended.empty());
        }
        CHECK(log.ended == std::vector{3, 2, 1});
    }

    TEST_CASE_FIXTURE(lab, "may own other batches' shares: a long chain of ends is no deep recursion") {
        // Each object's destructor ends a batch that is the last to have a share in the next.
        struct link {
            registry* r;
            batch_id  next;
            int*      alive;
            link(registry& in, batch_id n, int& count) : r(&in), next(n), alive(&count) { ++count; }
            ~link() {
                --*alive;
                if (next) r->end_batch(next);
            }
        };
        int               alive = 0;
        std::size_t const n     = 2'000;
        batch_id          next{};
        for (std::size_t i = 0; i < n; ++i) {
            batch_id const holder = r.new_batch();
            batch_scope    b(r);
            b.share(b.make<link>(r, next, alive), holder);
            next = holder;
        }
        CHECK(alive == static_cast<int>(n));
        r.end_batch(next);
        CHECK(alive == 0);
    }

    TEST_CASE("goes with its registry, whoever has a share") {
        journal        log;
        handle<traced> h, left;
        {
            registry    r({.on_leak = {}});
            batch_scope b(r);
            h    = r.share(b.make<traced>(log, 1), r.root());
            left = r.share(b.make<traced>(log, 2), r.new_batch());
            b.end();
            CHECK(log.alive == 2);
        }
        CHECK(log.alive == 0);
        CHECK_FALSE(h.alive());
        CHECK_FALSE(left.alive());
    }
}

TEST_SUITE("letting go") {
    TEST_CASE_FIXTURE(lab, "what another registry's batches share is not for this one's") {
        registry          ours;
        batch_scope       x(r), y(r), s(ours);
        handle<int> const h = x.share(x.make<int>(1), y.id());
        check_throws(errc::not_owner, {}, [&] { s.free(h); });
        check_throws(errc::not_owner, {}, [&] { s.keep(h); });
        check_throws(errc::not_owner, {}, [&] { ours.unshare(h, s.id()); });
        CHECK(*h == 1);
    }

    TEST_CASE_FIXTURE(lab, "by free() ends that batch's share only") {
        batch_scope a(r);
        auto const  h = a.make<traced>(log, 1);
        {
            batch_scope b(r);
            a.share(h, b.id());
            b.free(h);
            CHECK(h.alive());
            check_throws(errc::not_owner, {}, [&] { b.free(h); });
            b.share(h, b.id());  // and can be had again
            a.free(h);
            CHECK(h.alive());
            CHECK(a.try_free(h).error() == errc::not_owner);
            b.free(h);
            check_stale(h);
            CHECK(log.alive == 0);
        }
    }

    TEST_CASE_FIXTURE(lab, "by unshare() likewise, by the batch's id") {
        auto const     ids = batches(2);
        handle<traced> h;
        {
            batch_scope b(r);
            h = b.share(b.make<traced>(log, 1), ids[0]);
            b.share(h, ids[1]);
        }
        r.unshare(h, ids[0]);
        check_throws(errc::not_owner, {}, [&] { r.unshare(h, ids[0]); });
        check_throws(errc::no_such_batch, {}, [&] { r.unshare(h, {}); });
        r.unshare(h, ids[1]);
        check_throws(errc::stale_handle, {}, [&] { r.unshare(h, ids[1]); });
        {
            auto const own = [&] {
                auto const inside = r.enter(ids[0]);
                return tenure::make<traced>(log, 2);
            }();
            check_throws(errc::not_owner, {}, [&] { r.unshare(own, ids[1]); });
            r.unshare(own, ids[0]);  // what is its alone is freed
            CHECK_FALSE(own.alive());
        }
        for (batch_id const id : ids) r.end_batch(id);
        check_throws(errc::batch_ended, {}, [&] { r.unshare(h, ids[0]); });
    }

    TEST_CASE_FIXTURE(lab, "registry::free frees it for all") {
        auto const  ids = batches(3);
        batch_scope b(r);
        auto const  h = b.make<traced>(log, 1);
        b.broadcast(h, ids);
        batch_id const common = h.owner();
        r.free(h);
        check_stale(h);
        CHECK(log.alive == 0);
        CHECK(r.status(common) == batch_status::done);  // with nothing in it, it does not wait for its members
        for (batch_id const id : ids) r.end_batch(id);
    }

    TEST_CASE_FIXTURE(lab, "what it leaves in its record does not come true when the generations come round") {
        batch_scope    first(r);
        batch_id const second = r.new_batch();
        auto const     h      = first.share(first.make<int>(1), second);
        batch_id const common = h.owner();
        auto* const    record = tenure::detail::record_of(common.value);
        r.free(h);
        REQUIRE(r.status(common) == batch_status::done);
        record->generation += (std::uint64_t{1} << 30) - 1;
        batch_id again;
        do again = r.new_batch();
        while (tenure::detail::record_of(again.value) != record);
        handle<int> own;
        {
            auto const inside = r.enter(again);
            own               = tenure::make<int>(1);
        }
        CHECK(*r.share(own, first.id()) == 1);
        CHECK(info(own.owner()).shared_by == 2);
        CHECK(info(again).shared_by == 0);
        r.end_batch(again);
        r.end_batch(second);
    }

    TEST_CASE_FIXTURE(lab, "a batch that shares and lets go for ever keeps nothing of it") {
        batch_scope    b(r);
        batch_id const other = r.new_batch();
        for (std::size_t i = 0; i < 10'000 / fewer; ++i) {
            auto const h = b.share(b.make<traced>(log, 1), other);
            if (i % 3 == 0) r.free(h);
            else if (i % 3 == 1) b.free(h), r.unshare(h, other);
            else r.unshare(h, other), b.free(h);
            log.ended.clear();
        }
        CHECK(log.alive == 0);
        CHECK(r.snapshot().batches.size() == 3);
        CHECK(b.usage().retained <= 4 * 65'536);
        r.end_batch(other);
    }

    TEST_CASE_FIXTURE(lab, "transfer_ownership gives it to one batch alone") {
        auto const  ids = batches(2);
        batch_scope b(r);
        auto const  h = b.make<traced>(log, 1);
        b.share(h, ids[0]);
        batch_id const common = h.owner();
        r.transfer_ownership(h, ids[1]);
        CHECK(h.owner() == ids[1]);
        CHECK(r.status(common) == batch_status::done);
        check_throws(errc::not_owner, {}, [&] { b.free(h); });
        r.end_batch(ids[0]);
        b.end();
        CHECK(h.alive());
        r.end_batch(ids[1]);
        CHECK_FALSE(h.alive());
    }
}

TEST_SUITE("keeping what is shared") {
    TEST_CASE_FIXTURE(lab, "gives the share to the parent") {
        batch_id const other = r.new_batch();
        batch_scope    outer(r);
        handle<traced> h;
        {
            batch_scope inner(r);
            h = inner.share(inner.make<traced>(log, 1), other);
            CHECK(inner.keep(h) == h);
            check_throws(errc::not_owner, {}, [&] { inner.free(h); });
        }
        CHECK(info(h.owner()).shared_by == 2);
        r.end_batch(other);
        CHECK(h.alive());
        outer.end();
        CHECK_FALSE(h.alive());
    }

    TEST_CASE_FIXTURE(lab, "ends the share where the parent has one") {
        batch_scope outer(r);
        batch_scope inner(r);
        auto const  h = inner.share(inner.make<traced>(log, 1), outer.id());
        inner.keep(h);
        CHECK(info(h.owner()).shared_by == 1);
        inner.end();
        CHECK(h.alive());
        outer.free(h);
        CHECK_FALSE(h.alive());
    }

    TEST_CASE_FIXTURE(lab, "is a no-op where one above has a share, and not_owner where none has") {
        batch_id const other = r.new_batch();
        batch_scope    top(r);
        batch_scope    middle(r);
        batch_scope    inner(r);
        auto const     h = top.share(top.make<traced>(log, 1), other);
        inner.keep(h);
        CHECK(info(h.owner()).shared_by == 2);
        top.free(h);
        check_throws(errc::not_owner, {}, [&] { inner.keep(h); });
        r.end_batch(other);
    }

    TEST_CASE_FIXTURE(lab, "a list is kept whole or not at all") {
        batch_id const other = r.new_batch();
        batch_scope    stranger(r);
        auto const     strange = stranger.share(stranger.make<traced>(log, 9), other);
        stranger.free(strange);
        batch_scope outer(r);
        {
            batch_scope inner(r);
            auto const  mine = inner.make<traced>(log, 1), both = inner.make<traced>(log, 2);
            inner.share(both, other);
            check_throws(errc::not_owner, {}, [&] { inner.keep(both, mine, strange); });
            CHECK(mine.owner() == inner.id());
            CHECK(info(both.owner()).shared_by == 2);
            r.unshare(both, other);
            inner.keep(both, mine, both, both);
            CHECK(mine.owner() == outer.id());
            inner.end();
            CHECK(mine.alive());
            CHECK(both.alive());
        }
        outer.end();
        CHECK(log.alive == 1);
        r.end_batch(other);
    }

    TEST_CASE_FIXTURE(lab, "discard() takes back the share that it gave, and leaves the others' alone") {
        batch_id const other = r.new_batch();
        batch_scope    outer(r);
        auto const     both = outer.make<traced>(log, 4);
        handle<traced> kept, later, own;
        {
            batch_scope inner(r);
            kept  = inner.keep(inner.share(inner.make<traced>(log, 1), other));
            later = inner.keep(inner.make<traced>(log, 2));
            own   = inner.keep(inner.share(inner.make<traced>(log, 3), outer.id()));  // outer had it before
            outer.share(later, other);
            inner.keep(outer.share(both, inner.id()));
            inner.discard();
        }
        CHECK(info(kept.owner()).shared_by == 1);
        CHECK(info(later.owner()).shared_by == 1);
        CHECK(own.alive());
        CHECK(both.alive());
        r.end_batch(other);
        CHECK_FALSE(kept.alive());
        CHECK_FALSE(later.alive());
    }
}

TEST_SUITE("broadcast") {
    TEST_CASE_FIXTURE(lab, "shares one copy with all") {
        auto const        ids = batches(1000 / fewer);
        handle<char[]>    h;
        std::size_t const held = 1 << 20;
        {
            batch_scope b(r);
            h = b.make<char[]>(held);
            b.broadcast(h, ids);
            std::size_t bytes = 0;
            for (auto const& i : r.snapshot().batches) bytes += i.usage.bytes;
            CHECK(bytes < held + 1000);
        }
        CHECK(info(h.owner()).shared_by == ids.size());
        CHECK(info(h.owner()).usage.bytes >= held);
        CHECK(r.usage(ids[0]).bytes == 0);
        for (batch_id const id : ids) {
            CHECK(h.alive());
            r.end_batch(id);
        }
        CHECK_FALSE(h.alive());
    }

    TEST_CASE_FIXTURE(lab, "is whole or not at all") {
        auto       ids  = batches(5);
        auto const over = r.new_batch();
        r.end_batch(over);
        ids.push_back(over);
        batch_scope b(r);
        auto const  h = b.make<traced>(log, 1);
        b.share(h, ids[0]);
        check_throws(errc::batch_ended, {"broadcast"}, [&] { b.broadcast(h, ids); });
        CHECK(info(h.owner()).shared_by == 2);  // ids[0] had it before
        CHECK_THROWS_AS(tenure::broadcast(b.make<int>(), std::array{ids[0], over}), tenure::error);
        ids.pop_back();
        r.broadcast(h, ids);
        CHECK(info(h.owner()).shared_by == 6);
        r.broadcast(h, std::set<batch_id>{});
        for (batch_id const id : ids) r.end_batch(id);
    }

    TEST_CASE_FIXTURE(lab, "finds the object wherever it is by then") {
        auto const     ids   = batches(20);
        batch_id const other = r.new_batch();
        batch_scope    b(r);
        auto const     h       = b.make<traced>(log, 1);
        auto const     halfway = [&](auto act) {  // while the ids are read, which comes first
            return std::views::transform(ids, [act, n = std::make_shared<int>(0)](batch_id id) {
                if (++*n == 10) act();
                return id;
            });
        };

        r.broadcast(h, halfway([&] { r.transfer_ownership(h, other); }));
        auto const with = info(h.owner()).shared_by;
        CHECK(with == ids.size() + 1);  // all of them, and `other`
        CHECK(r.usage(other).objects + r.usage(ids[0]).objects == 0);

        check_throws(errc::stale_handle, {"broadcast"}, [&] { r.broadcast(h, halfway([&] { r.free(h); })); });
        CHECK_FALSE(h.alive());
        for (batch_id const id : ids) r.end_batch(id);
        r.end_batch(other);
    }

    TEST_CASE_FIXTURE(lab, "one batch may have a share in very many") {
        batch_id const              to = r.new_batch();
        std::vector<handle<traced>> all;
        {
            batch_scope b(r);
            for (int i = 0; i < 1000; ++i) all.push_back(b.share(b.make<traced>(log, i), to));
            for (std::size_t i = 0; i < all.size(); i += 3) r.unshare(all[i], to);
            for (std::size_t i = 0; i < all.size(); ++i) {
                auto const again = r.try_share(all[i], to);
                CHECK(again.has_value());
                CHECK(info(all[i].owner()).shared_by == 2);
                if (i % 100) ++i, ++i;
            }
        }
        int const left = log.alive;
        CHECK(left >= 666);
        r.end_batch(to);
        CHECK(log.alive == 0);
    }
}

TEST_SUITE("receivers") {
    TEST_CASE_FIXTURE(lab, "get const access by frozen()") {
        batch_scope b(r);
        auto const  h = b.make<std::string>("text");
        auto const  a = b.make<int[]>(3);
        auto const  x = b.make_buffer<int>(3);
        x.write(0, std::array{1, 2, 3});
        static_assert(std::is_same_v<decltype(frozen(h)), handle<std::string const>>);
        static_assert(std::is_same_v<decltype(frozen(a)), handle<int const[]>>);
        static_assert(std::is_same_v<decltype(frozen(frozen(h))), handle<std::string const>>);
        static_assert(can_be_changed<buffer<int>> && !can_be_changed<tenure::frozen_buffer<int>>);
        static_assert(std::is_same_v<decltype(frozen(x).map()), std::span<int const>>);
        static_assert(std::is_same_v<decltype(frozen(frozen(x))), tenure::frozen_buffer<int>>);
        static_assert(std::is_trivially_copyable_v<tenure::frozen_buffer<int>>);
        CHECK(*frozen(h) == "text");
        CHECK(frozen(a)[2] == 0);
        auto const         f = frozen(x);
        std::array<int, 2> two{};
        f.read(1, two);
        CHECK(two == std::array{2, 3});
        CHECK(f.try_read(2, two).error() == errc::out_of_range);
        CHECK(f.map()[0] == 1);
        CHECK(f.size() == 3);
        CHECK(f.owner() == b.id());
        CHECK(f.stores() == x.stores());
        CHECK(f == frozen(x));
        CHECK(f);
        CHECK_FALSE(tenure::frozen_buffer<int>());
        CHECK(tenure::to_text(f) == "buffer of 3");
        CHECK(std::hash<tenure::frozen_buffer<int>>{}(f) == std::hash<tenure::frozen_buffer<int>>{}(frozen(x)));
        auto const y = b.make_buffer<int>(3);
        f.copy_to(y);
        CHECK(y.map()[2] == 3);

        batch_id const other = r.new_batch();
        b.share(f, other);  // what it refers to is owned like any buffer
        b.share(frozen(h), other);
        b.end();
        CHECK(f.map()[2] == 3);
        CHECK(h->size() == 4);
        r.end_batch(other);
        check_stale(f);
    }

    TEST_CASE_FIXTURE(lab, "take a copy to have one of their own") {
        auto const  store = make_lab<{.copyable = true}>("device");
        batch_scope giver(r);
        auto const  h = giver.make<std::string>("text");
        auto const  a = giver.make<std::string[]>(2);
        a[1]          = "one";
        auto const x  = giver.make_buffer<int>(3, store);
        x.write(0, std::array{1, 2, 3});
        {
            batch_scope taker(r);
            auto const  mine = tenure::copy(frozen(h));
            static_assert(std::is_same_v<decltype(mine), handle<std::string> const>);
            CHECK(mine.owner() == taker.id());
            *mine += " of mine";
            auto const array = tenure::copy(frozen(a));
            array[0]         = "zero";
            auto const reads = store->calls(tenure::store_operation::read);
            auto const buf   = tenure::copy(frozen(x));
            CHECK(store->calls(tenure::store_operation::copy) == 1);
            CHECK(store->calls(tenure::store_operation::read) == reads);
            CHECK(buf.stores() == x.stores());
            CHECK(buf.owner() == taker.id());
            CHECK(array[1] == "one");
            buf.write(0, std::array{9});
            CHECK(tenure::copy(buf).owner() == taker.id());
        }
        CHECK(*h == "text");
        CHECK(a[0].empty());
        std::array<int, 1> one{};
        x.read(0, one);
        CHECK(one[0] == 1);
        giver.end();
        check_throws(errc::stale_handle, {}, [&] { tenure::copy(h); });
        check_throws(errc::stale_handle, {}, [&] { tenure::copy(x); });
    }
}

TEST_SUITE("accounts of what is shared") {
    TEST_CASE_FIXTURE(lab, "no owner's limits count it, and it counts again for who has it alone") {
        batch_scope b{r, {.limits = {.hard = 10'000}}};
        batch_id    full = r.new_batch({.limits = {.hard = 100}});
        auto const  h    = b.make<std::array<char, 8000>>();
        auto const  x    = b.make_buffer<char>(1000);
        CHECK(b.try_make<std::array<char, 2000>>().error() == errc::limit_exceeded);
        b.share(h, full);
        b.share(x, full);
        CHECK(b.try_make<std::array<char, 9000>>().has_value());
        CHECK(r.try_transfer_ownership(h, full).error() == errc::limit_exceeded);
        CHECK(info(h.owner()).shared_by == 2);
        CHECK(r.try_transfer_ownership(h, b.id()).error() == errc::limit_exceeded);
        r.end_batch(full);
        b.end();
        CHECK_FALSE(h.alive());
    }

    TEST_CASE_FIXTURE(lab, "a report counts it as kept") {
        batch_id const other = r.new_batch();
        batch_scope    b(r);
        b.share(b.make<traced>(log, 1), other);
        b.make<int>();
        auto const report = b.end();
        CHECK(report.made == 2);
        CHECK(report.kept == 1);
        CHECK(report.freed == 1);
        r.end_batch(other);
    }

    TEST_CASE_FIXTURE(lab, "a buffer in a store is one copy, freed in one call") {
        auto const  store = make_lab<>("far");
        auto const  ids   = batches(100);
        buffer<int> x;
        {
            batch_scope b(r);
            x = b.make_buffer<int>(1000, store);
            b.broadcast(x, ids);
        }
        CHECK(store->usage().bytes == 4000);
        CHECK(store->calls(tenure::store_operation::write) == 0);
        CHECK(info(x.owner()).usage.buffer_bytes == 4000);
        CHECK(stores_error(r, store) == "");
        store->inject({.on = tenure::store_operation::deallocate});
        for (batch_id const id : ids) r.end_batch(id);
        CHECK(store->calls(tenure::store_operation::deallocate) == 1);
        CHECK(stores_error(r, store) == "");  // it is the registry's to try again
        CHECK(store->usage().blocks == 1);
        r.trim();
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(lab, "a large one goes to the page file once, and need not come back to be shared or freed") {
        auto const        ids = batches(50);
        handle<char[]>    h;
        std::size_t const n = 8 << 20;
        {
            batch_scope b(r);
            h = b.make<char[]>(n);
            std::fill_n(&h[0], n, 'x');
            b.share(h, ids[0]);
        }
        batch_id const common = h.owner();
        r.page_out(common);
        CHECK(r.usage(common).paged_out >= n);
        r.broadcast(h, ids);
        CHECK(r.usage(common).paged_out >= n);
        CHECK(h[n - 1] == 'x');
        for (std::size_t i = 1; i < ids.size(); ++i) r.end_batch(ids[i]);
        CHECK(h[0] == 'x');
        r.end_batch(ids[0]);
        CHECK_FALSE(h.alive());
        CHECK(r.snapshot().paging.out == 0);
    }

    TEST_CASE_FIXTURE(lab, "goes out by itself if its first owner might have") {
        handle<char[]> h;
        batch_id const other = r.new_batch();
        batch_id const b     = r.new_batch({.residency = residency::automatic});
        {
            auto const inside = r.enter(b);
            h                 = tenure::make<char[]>(1 << 20);
        }
        r.share(h, other);
        r.end_batch(b);
        CHECK(h.alive());
        CHECK(r.usage(h.owner()).paged_out == 0);
        r.end_batch(other);
    }
}

TEST_SUITE("random") {
    /// What is alive by plain counting: an object is, as long as somebody has it.
    class program {
    public:
        explicit program(std::uint64_t seed) : roll_(seed) {}

        void run(std::size_t steps) {
            steps_ = steps;
            while (steps_ > 0) scope(0);
            for (loose_batch const& b : loose_) r_.end_batch(b.id);
            while (!loose_.empty()) model_end(loose_.front().id);
            check();
            CHECK(alive_ == 0);
        }

    private:
        struct loose_batch {
            batch_id id, parent;
        };
        struct object {
            handle<int>         plain;
            handle<std::string> text;
            handle<char[]>      large;
            buffer<int>         buf;
            std::set<batch_id>  owners;

            bool alive() const { return plain.alive() || text.alive() || large.alive() || buf.alive(); }
            template <class F>
            auto with(F f) const {
                if (plain != handle<int>{}) return f(plain);
                if (text != handle<std::string>{}) return f(text);
                if (large != handle<char[]>{}) return f(large);
                return f(buf);
            }
        };
        struct counted {
            int& n;
            explicit counted(int& count) : n(count) { ++n; }
            ~counted() { --n; }
        };

        /// A block with a guard, in which things happen; and more blocks.
        void scope(std::size_t depth) {
            batch_scope b(r_);
            open_.push_back(b.id());
            for (std::size_t n = roll_.below(30); n > 0 && steps_ > 0; --n) {
                --steps_;
                if (depth < 5 && roll_.one_in(6)) scope(depth + 1);
                else step(b);
                if (steps_ % 16 == 0) check();
            }
            b.end();
            open_.pop_back();
            model_end(b.id());
            check();
        }

        void step(batch_scope& b) {
            batch_id const me = b.id();
            if (objects_.empty() || roll_.one_in(4)) return make(b);
            object&        o      = objects_[roll_.below(objects_.size())];
            bool const     alive  = !o.owners.empty();
            bool const     mine   = o.owners.contains(me);
            batch_id const target = any_batch();
            switch (roll_.below(8)) {
            case 0:
            case 1:
            case 2: {
                auto const done = o.with([&](auto h) { return share(h, target); });
                CHECK(done == (alive ? errc{} : errc::stale_handle));
                if (alive) o.owners.insert(target);
                break;
            }
            case 3: {
                errc const done = o.with([&](auto h) { return code(b.try_free(h)); });
                CHECK(done == (!alive ? errc::stale_handle : mine ? errc{} : errc::not_owner));
                o.owners.erase(me);
                break;
            }
            case 4: {
                errc const done  = o.with([&](auto h) { return code(b.try_keep(h)); });
                batch_id   up    = open_.size() > 1 ? open_[open_.size() - 2] : r_.root();
                bool const above = o.owners.contains(r_.root()) ||
                                   std::any_of(open_.begin(), open_.end(),
                                               [&](batch_id id) { return id != me && o.owners.contains(id); });
                CHECK(done == (!alive ? errc::stale_handle : mine || above ? errc{} : errc::not_owner));
                if (mine) o.owners.erase(me), o.owners.insert(up);
                break;
            }
            case 5:
                if (roll_.one_in(3)) {
                    errc const done = o.with([&](auto h) { return code(r_.try_transfer_ownership(h, target)); });
                    CHECK(done == (alive ? errc{} : errc::stale_handle));
                    if (alive) o.owners = {target};
                } else if (roll_.one_in(3)) {
                    errc const done = o.with([&](auto h) { return code(r_.try_free(h)); });
                    CHECK(done == (alive ? errc{} : errc::stale_handle));
                    o.owners.clear();
                }
                break;
            case 6:
                if (loose_.size() < 12) {
                    batch_id const up = loose_.empty() || roll_.one_in(2) ? r_.root() : any_loose();
                    loose_.push_back({r_.new_batch({}, up), up});
                }
                break;
            case 7:
                if (!loose_.empty() && roll_.one_in(3)) {
                    batch_id const id = any_loose();
                    r_.end_batch(id);
                    model_end(id);
                }
                break;
            }
        }

        void make(batch_scope& b) {
            object o;
            switch (roll_.below(8)) {
            case 0: o.large = b.make<char[]>(100'000); break;
            case 1: o.buf = b.make_buffer<int>(roll_.below(100), store_); break;
            case 2:
            case 3: o.plain = b.make<int>(1); break;
            default: o.text = b.make<std::string>(roll_.below(60), 'x');
            }
            if (roll_.one_in(4)) b.make<counted>(alive_);
            o.owners = {b.id()};
            if (objects_.size() < 200) objects_.push_back(o);
            else objects_[roll_.below(objects_.size())] = o;
        }

        template <class R>
        static errc code(R const& r) {
            return r ? errc{} : static_cast<errc>(r.error().value());
        }
        template <class H>
        errc share(H h, batch_id to) {
            return code(r_.try_share(h, to));
        }

        batch_id any_loose() { return loose_[roll_.below(loose_.size())].id; }
        batch_id any_batch() {
            std::size_t const at = roll_.below(open_.size() + loose_.size() + 1);
            if (at < open_.size()) return open_[at];
            return at < open_.size() + loose_.size() ? loose_[at - open_.size()].id : r_.root();
        }

        /// With those below it.
        void model_end(batch_id id) {
            for (object& o : objects_) o.owners.erase(id);
            std::erase_if(loose_, [&](loose_batch const& b) { return b.id == id; });
            for (;;) {
                auto const below = std::find_if(loose_.begin(), loose_.end(),
                                                [&](loose_batch const& b) { return b.parent == id; });
                if (below == loose_.end()) return;
                model_end(below->id);
            }
        }

        void check() {
            std::size_t wrong = 0;
            for (object const& o : objects_) wrong += o.alive() != !o.owners.empty();
            CHECK(wrong == 0);
            CHECK(books_error(r_.snapshot()) == "");
            CHECK(stores_error(r_, any_store(store_)) == "");
        }

        std::shared_ptr<lab_store<>> store_ = make_lab<>("far");
        registry                     r_;
        dice                         roll_;
        std::size_t                  steps_ = 0;
        std::vector<batch_id>        open_;
        std::vector<loose_batch>     loose_;
        std::vector<object>          objects_;
        int                          alive_ = 0;
    };

    TEST_CASE("shares, lets-go and ends: as plain sets of owners have it") {
        std::uint64_t const seed  = from_environment("TENURE_SEED", 1);
        std::size_t const   steps = from_environment("TENURE_STEPS", 2'000 / fewer);
        for (std::uint64_t i = 0; i < 20; ++i) {
            CAPTURE(seed + i);
            program(seed + i).run(steps);
        }
    }
}

TEST_SUITE("threads") {
    TEST_CASE_FIXTURE(lab, "end its owners at the same time: it goes once, with the last") {
        for (std::size_t round = 0; round < 300 / fewer; ++round) {
            auto const       ids = batches(8);
            std::atomic<int> freed{0};
            struct counts {
                std::atomic<int>& n;
                int               value = 1;
                ~counts() { ++n; }
            };
            handle<counts> h;
            {
                batch_scope b(r);
                h = b.make<counts>(freed);
                b.broadcast(h, ids);
            }
            auto const end = [&](std::size_t from) {
                for (std::size_t i = from; i < ids.size(); i += 4) {
                    CHECK(h->value == 1);  // this thread's own share holds it
                    r.end_batch(ids[i]);
                }
            };
            std::vector<std::thread> all;
            for (std::size_t t = 1; t < 4; ++t) all.emplace_back(end, t);
            end(0);
            for (std::thread& t : all) t.join();
            CHECK(freed == 1);
            CHECK_FALSE(h.alive());
        }
    }

    TEST_CASE_FIXTURE(lab, "share it for the first time at the same time: it is in one common") {
        for (std::size_t round = 0; round < 300 / fewer; ++round) {
            auto const     ids = batches(4);
            handle<traced> h;
            std::size_t    owners = 0;
            {
                batch_scope              b(r);
                auto const               x = b.make_buffer<int>(4);
                std::vector<std::thread> all;
                h = b.make<traced>(log, 1);
                for (std::size_t t = 0; t < 4; ++t)
                    all.emplace_back([&, t] {
                        r.share(h, ids[t]);
                        r.share(x, ids[t]);
                    });
                for (std::thread& t : all) t.join();
                owners = info(h.owner()).shared_by;
                CHECK(info(x.owner()).shared_by == 5);
            }
            CHECK(owners == 5);
            CHECK(info(h.owner()).shared_by == 4);
            for (batch_id const id : ids) r.end_batch(id);
            CHECK(log.alive == 0);
            log.ended.clear();
        }
    }

    TEST_CASE_FIXTURE(lab, "share, let go, transfer and free at random: each time one of the answers that may be") {
        auto const               ids = batches(6);
        std::atomic<std::size_t> done{0};
        auto const               work = [&](std::uint64_t seed, std::vector<handle<int>> const& all) {
            dice roll(seed);
            for (std::size_t i = 0; i < 5'000 / fewer; ++i) {
                auto const      h  = all[roll.below(all.size())];
                batch_id const  id = ids[roll.below(ids.size())];
                std::error_code why;
                switch (roll.below(16)) {
                case 0: why = r.try_transfer_ownership(h, id).error(); break;
                case 1: why = r.try_free(h).error(); break;
                case 2:
                case 3:
                case 4:
                case 5: try { r.unshare(h, id);
                    } catch (tenure::error const& e) {
                        why = e.code();
                    }
                    break;
                default: why = r.try_share(h, id).error();
                }
                done += !why;
                bool const may =
                    !why || why == errc::stale_handle || why == errc::not_owner || why == errc::batch_ended;
                if (!may) FAIL_CHECK(why.message());
            }
        };
        for (std::size_t round = 0; round < 20 / fewer; ++round) {
            std::vector<handle<int>> all;
            batch_scope              b(r);
            for (int i = 0; i < 200; ++i) all.push_back(b.make<int>(i));
            std::vector<std::thread> threads;
            for (std::uint64_t t = 0; t < 4; ++t) threads.emplace_back(work, round * 4 + t, all);
            for (std::thread& t : threads) t.join();
            b.end();
            books.check_books();
        }
        CHECK(done > 0);
        for (batch_id const id : ids) r.end_batch(id);
    }
}
