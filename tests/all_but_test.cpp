// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "journal.hpp"
#include "throws.hpp"

using tenure::batch_scope;
using tenure::errc;
using tenure::handle;
using tenure::registry;

namespace {

constexpr char const* long_text = "so long that it is not in the string itself";

enum class rest { kept, cleared };

/// A scope below a parent, with some of all kinds of objects, and a call under test.
struct all_but_fixture {
    registry    r;
    accounting  books{r};
    journal     log;
    batch_scope parent{r, {.name = "parent"}};

    template <class R>
    static void all_but(rest what, batch_scope& b, R&& staying) {
        if (what == rest::kept) b.keep_all_but(staying);
        else b.clear_but(staying);
    }
    template <class R>
    static std::error_code try_all_but(rest what, batch_scope& b, R&& staying) {
        auto const done = what == rest::kept ? b.try_keep_all_but(staying) : b.try_clear_but(staying);
        return done ? std::error_code() : done.error();
    }
};

struct some {
    some(batch_scope& b, journal& log, int first)
        : number(b.make<int>(first)),
          traced_one(b.make<traced>(log, first)),
          text(b.make<std::string>(long_text)),
          large(b.make<std::array<int, 50'000>>()),
          texts(b.make<std::string[]>(4000, long_text)),
          buffer(b.make_buffer(std::vector{first, 2, 3})) {
        (*large)[49'999] = first;
    }

    auto all() const { return std::tuple(number, traced_one, text, large, texts, buffer); }

    void check(int first, tenure::batch_id owner) const {
        CHECK(*number == first);
        CHECK(traced_one->number() == first);
        CHECK(*text == long_text);
        CHECK((*large)[49'999] == first);
        CHECK(texts[3999] == long_text);
        std::array<int, 3> read{};
        buffer.read(0, read);
        CHECK(read == std::array{first, 2, 3});
        std::apply([&](auto const&... h) { CHECK(((h.owner() == owner) && ...)); }, all());
    }
    bool gone() const {
        return std::apply([](auto const&... h) { return (!h.alive() && ...); }, all());
    }

    handle<int>                     number;
    handle<traced>                  traced_one;
    handle<std::string>             text;
    handle<std::array<int, 50'000>> large;
    handle<std::string[]>           texts;
    tenure::buffer<int>             buffer;
};

/// A range that throws at its 150th handle.
struct throwing_range {
    struct iterator : std::vector<handle<int>>::const_iterator {
        using base = std::vector<handle<int>>::const_iterator;

        base end{};

        reference operator*() const {
            if (end - *this < 50) throw std::runtime_error("no more");
            return base::operator*();
        }
        iterator& operator++() {
            base::operator++();
            return *this;
        }
        iterator operator++(int) { return {base::operator++(0), end}; }
    };
    iterator begin() const { return {handles.begin(), handles.end()}; }
    iterator end() const { return {handles.end(), handles.end()}; }

    std::vector<handle<int>> handles;
};

constexpr std::array both{rest::kept, rest::cleared};

}  // namespace

TEST_SUITE("all but some") {
    TEST_CASE_FIXTURE(all_but_fixture, "what is named stays, the rest goes up or is freed; the batch goes on") {
        for (rest const what : both)
            for (std::size_t const more : {0u, 100'000u}) {
                CAPTURE(more);
                batch_scope                        b(r, {.name = "b"});
                some const                         stays(b, log, 1), goes(b, log, 2);
                std::vector<handle<std::uint64_t>> fill, every_tenth;
                for (std::uint64_t i = 0; i < more; ++i) {
                    fill.push_back(b.make<std::uint64_t>(i));
                    if (i % 10 == 0) every_tenth.push_back(fill.back());
                }
                auto const before = b.usage();
                all_but(what, b, std::tuple(stays.all(), every_tenth));

                stays.check(1, b.id());
                if (what == rest::kept) goes.check(2, parent.id());
                else CHECK(goes.gone());
                for (std::uint64_t i = 0; i < more; ++i) {
                    bool const here = i % 10 == 0;
                    if (!here && what == rest::cleared) CHECK(!fill[i].alive());
                    else {
                        CHECK(*fill[i] == i);
                        CHECK(fill[i].owner() == (here ? b.id() : parent.id()));
                    }
                }
                auto const now = b.usage();
                CHECK(now.objects == 6 + every_tenth.size());
                CHECK(now.buffers == 1);
                CHECK(now.buffer_bytes == 12);
                if (what == rest::kept) CHECK(parent.usage().objects == before.objects - now.objects);
                books.check_books();
                CHECK(r.snapshot().batches.size() == 3);

                auto const later  = b.make<std::string>(long_text);
                auto const report = b.end();
                CHECK(later.alive() == false);
                CHECK(stays.gone());
                if (what == rest::kept) {
                    CHECK(report.made == before.objects + 1);
                    CHECK(report.kept == before.objects - now.objects);
                    goes.check(2, parent.id());
                    CHECK(log.ended == std::vector{1});
                } else {
                    CHECK(report.made == 1);
                    CHECK(report.kept == 0);
                    CHECK(log.ended == std::vector{2, 1});
                }
                CHECK(report.freed == now.objects + 1);
                books.check_books();
                parent.clear();
                CHECK(goes.gone());
                log.ended.clear();
            }
    }

    TEST_CASE_FIXTURE(all_but_fixture, "handles are found as by keep(range): one, none, nested, in optionals") {
        for (rest const what : both) {
            batch_scope b(r);
            auto const  one = b.make<int>(1), two = b.make<int>(2), three = b.make<int>(3);
            all_but(what, b, std::vector{std::optional(one), std::optional<handle<int>>(), std::optional(two)});
            CHECK(one.owner() == b.id());
            CHECK(two.owner() == b.id());
            if (what == rest::kept) CHECK(three.owner() == parent.id());
            else CHECK(!three.alive());
            all_but(what, b, two);
            CHECK(two.owner() == b.id());
            all_but(what, b, std::vector<handle<int>>{});
            CHECK(b.usage().objects == 0);
            all_but(what, b, std::vector<handle<int>>{});
            CHECK(b.usage().objects == 0);
        }
    }

    TEST_CASE_FIXTURE(all_but_fixture, "rounds: what stays does so for many, and memory does not grow") {
        for (rest const what : both) {
            batch_scope                      b(r);
            std::vector<handle<std::string>> table;
            std::size_t                      held = 0;
            for (int round = 0; round < 200; ++round) {
                for (int i = 0; i < 50; ++i) b.make<std::string>(long_text);
                table.push_back(b.make<std::string>(std::to_string(round)));
                if (table.size() > 20) table.erase(table.begin());
                all_but(what, b, table);
                CHECK(b.usage().objects == table.size());
                for (auto const& h : table) CHECK(h.owner() == b.id());
                CHECK(*table.back() == std::to_string(round));
                if (round == 50) held = b.usage().retained;
                if (round > 50) CHECK(b.usage().retained <= held + (std::size_t{1} << 16));
                if (what == rest::kept)
                    CHECK(parent.usage().objects ==
                          std::size_t{51} * (static_cast<std::size_t>(round) + 1) - table.size());
            }
        }
    }

    TEST_CASE_FIXTURE(all_but_fixture,
                      "refused with nothing done: what is named is stale, a stranger's, not self-contained") {
        for (rest const what : both) {
            batch_scope b(r, {.name = "refuses"});
            some const  all(b, log, 1);
            auto const  freed = b.make<int>(1);
            b.free(freed);
            batch_scope beside(r, {.name = "beside"});
            auto const  stranger = beside.make<int>(2);
            beside.end();
            batch_scope other{tenure::below(parent)};
            auto const  theirs = other.make<int>(3);
            auto const  own    = other.resource();
            auto const  list   = b.make<std::pmr::vector<int>>(100u, 5, b.resource());
            auto const  before = b.usage();
            CHECK(own != nullptr);
            auto const check = [&](errc why, auto const& named) {
                check_throws(why, {"refuses"}, [&] { all_but(what, b, named); });
                CHECK(try_all_but(what, b, named) == why);
                all.check(1, b.id());
                CHECK(list->at(99) == 5);
                CHECK(b.usage().objects == before.objects);
                CHECK(b.usage().bytes == before.bytes);
                CHECK(r.snapshot().batches.size() == 4);
                books.check_books();
            };
            check(errc::stale_handle, std::tuple(all.text, freed));
            check(errc::stale_handle, std::tuple(all.text, stranger));
            check(errc::not_owner, std::tuple(all.all(), theirs));
            check(errc::not_self_contained, std::tuple(all.text, list));
            list->push_back(6);
            other.end();
            auto const report = b.end();
            CHECK(report.kept == 0);
            CHECK(report.made == before.objects + 1);
        }
    }

    TEST_CASE_FIXTURE(all_but_fixture, "what is above stays where it is, named or not") {
        auto const above = parent.make<int>(1);
        for (rest const what : both) {
            batch_scope b(r);
            auto const  h = b.make<int>(2);
            all_but(what, b, std::tuple(above, h, h));
            CHECK(above.owner() == parent.id());
            CHECK(h.owner() == b.id());
        }
    }

    TEST_CASE_FIXTURE(all_but_fixture,
                      "refused with nothing done: threads, batches below, pins, checkpoints, ends") {
        for (rest const what : both) {
            batch_scope b(r, {.name = "refuses"});
            auto const  h = b.make<int>(1), staying = b.make<int>(2);
            auto const  check = [&](errc why) {
                check_throws(why, {"refuses"}, [&] { all_but(what, b, staying); });
                CHECK(try_all_but(what, b, staying) == why);
                CHECK(h.owner() == b.id());
                CHECK(b.usage().objects == 2);
            };
            std::thread([&] { check(errc::wrong_thread); }).join();
            {
                batch_scope const below(r);
                check(errc::batch_in_use);
            }
            {
                auto const lane = b.lane();
                check(errc::batch_in_use);
            }
            {
                batch_scope const user{tenure::below(parent)};
                auto const        pinned = tenure::pin(h);
                check(errc::batch_in_use);
            }
            b.checkpoint();
            check(errc::not_restorable);
            b.commit();
            if (what == rest::kept) {
                parent.checkpoint();
                check_throws(errc::not_restorable, {"parent"}, [&] { all_but(what, b, staying); });
                parent.commit();
            }
            CHECK(h.owner() == b.id());
            b.cancel();
            check_throws(errc::cancelled, {"refuses"}, [&] { all_but(what, b, staying); });
            CHECK(h.alive());
        }
    }

    TEST_CASE_FIXTURE(all_but_fixture, "an exception on the way through what is named passes, with nothing done") {
        for (rest const what : both) {
            batch_scope b(r);
            some const  all(b, log, 1);
            CHECK_THROWS_AS(all_but(what, b, throwing_range{std::vector(200u, all.number)}), std::runtime_error);
            all.check(1, b.id());
            CHECK(b.usage().objects == 6);
            CHECK(r.snapshot().batches.size() == 3);
            CHECK(b.end().kept == 0);
        }
    }

    TEST_CASE_FIXTURE(all_but_fixture, "limits: what stays counts here, the rest above, or is refused there") {
        batch_scope roomy(r, {.name = "roomy", .limits = {.hard = 1 << 20}});
        {
            batch_scope b(r, {.limits = {.hard = 1 << 19}});
            auto const  stays = b.make<std::array<char, 100'000>>();
            b.make<std::array<char, 100'000>>();
            auto const large = b.make<std::array<char, 200'000>>();
            b.clear_but(stays);
            CHECK(!large.alive());
            CHECK(b.usage().objects == 1);
            for (int i = 0; i < 4; ++i) b.make<std::array<char, 100'000>>();
            CHECK(b.try_make<std::array<char, 100'000>>().error() == errc::limit_exceeded);
            b.keep_all_but(stays);
            CHECK(stays.owner() == b.id());
            for (int i = 0; i < 4; ++i) b.make<std::array<char, 100'000>>();
            CHECK(b.try_make<std::array<char, 100'000>>().error() == errc::limit_exceeded);
        }
        CHECK(roomy.usage().bytes >= 400'000u);
        for (int i = 0; i < 6; ++i) roomy.make<std::array<char, 100'000>>();
        CHECK(roomy.try_make<std::array<char, 100'000>>().error() == errc::limit_exceeded);
    }

    TEST_CASE_FIXTURE(all_but_fixture, "what is shared stays if it is named, and goes with the rest if not") {
        for (rest const what : both) {
            batch_scope other{tenure::below(parent), {.name = "other"}};
            batch_scope b{tenure::below(parent), {.name = "b"}};
            auto const  stays = b.share(b.make<std::string>("stays"), other);
            auto const  goes  = b.share(b.make<std::string>("goes"), other);
            all_but(what, b, stays);
            other.end();
            CHECK(*stays == "stays");
            CHECK(goes.alive() == (what == rest::kept));
            b.end();
            CHECK(!stays.alive());
            CHECK(goes.alive() == (what == rest::kept));
            if (what == rest::kept) parent.clear();
            CHECK(!goes.alive());
        }
    }

    TEST_CASE_FIXTURE(all_but_fixture, "what is deferred goes with the rest: at once, or at the parent's end") {
        for (rest const what : both) {
            std::vector<int> calls;
            batch_scope      b(r);
            auto const       stays = b.defer([&] { calls.push_back(1); });
            b.defer([&] { calls.push_back(2); });
            b.defer([&] { calls.push_back(3); }, tenure::release_phase::before);
            all_but(what, b, stays);
            CHECK(calls == (what == rest::kept ? std::vector<int>{} : std::vector{3, 2}));
            calls.clear();
            b.end();
            CHECK(calls == std::vector{1});
            parent.clear();
            CHECK(calls == (what == rest::kept ? std::vector{1, 3, 2} : std::vector{1}));
        }
    }

    TEST_CASE_FIXTURE(all_but_fixture, "destructors that clear_but() runs: what they make lands in the batch") {
        struct maker {
            handle<int>& out;
            ~maker() { out = tenure::make<int>(5); }
        };
        handle<int> made;
        batch_scope b(r);
        b.make<maker>(made);
        auto const stays = b.make<int>(1);
        b.clear_but(stays);
        CHECK(made.owner() == b.id());
        CHECK(b.usage().objects == 2);
    }

    TEST_CASE_FIXTURE(all_but_fixture,
                      "discard() after clear_but() leaves what was kept before; after keep_all_but() it does not") {
        for (rest const what : both) {
            batch_scope b(r);
            auto const  kept  = b.keep(b.make<std::string>("kept"));
            auto const  stays = b.make<std::string>("stays");
            all_but(what, b, stays);
            b.discard();
            CHECK(kept.alive() == (what == rest::cleared));
            CHECK(!stays.alive());
        }
    }

    TEST_CASE_FIXTURE(all_but_fixture, "a batch beside the newest, and the current one stays what it was") {
        for (rest const what : both) {
            batch_scope b{tenure::below(parent)};
            batch_scope newest{tenure::below(parent)};
            auto const  stays = b.make<int>(1), goes = b.make<int>(2);
            all_but(what, b, stays);
            CHECK(tenure::current_batch() == newest.id());
            CHECK(stays.owner() == b.id());
            CHECK(goes.alive() == (what == rest::kept));
        }
    }
}
