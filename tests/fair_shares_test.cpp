// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/budget/admission.hpp>
#include <tenure/budget/due_shares.hpp>
#include <tenure/budget/fair_shares.hpp>
#include <tenure/budget/share_step.hpp>

#include "random/dice.hpp"

namespace {

using tenure::detail::budget_amount;
using tenure::detail::due_shares;
using tenure::detail::fair_shares;
using tenure::detail::share_claim;
using tenure::detail::share_step;
using claims = std::vector<share_claim>;

constexpr std::size_t no_cores = static_cast<std::size_t>(-1);

share_claim bytes(std::uint64_t user, std::size_t desired) { return {.user = user, .desired = {desired, 0}}; }

std::vector<std::size_t> bytes_of(claims const& all, std::size_t capacity) {
    std::vector<std::size_t> out;
    for (budget_amount const a : fair_shares::of(all, {capacity, no_cores})) out.push_back(a.bytes);
    return out;
}
using sizes = std::vector<std::size_t>;

std::size_t sum_of(std::vector<budget_amount> const& all) {
    std::size_t sum = 0;
    for (budget_amount const a : all) sum += a.bytes;
    return sum;
}

}  // namespace

TEST_SUITE("fair shares") {
    TEST_CASE("who wants little gets it, and the others divide the rest") {
        CHECK(bytes_of({}, 100).empty());
        CHECK(bytes_of({bytes(1, 30)}, 100) == sizes{30});
        CHECK(bytes_of({bytes(1, 300)}, 100) == sizes{100});
        CHECK(bytes_of({bytes(1, 10), bytes(2, 80), bytes(3, 80)}, 100) == sizes{10, 45, 45});
        CHECK(bytes_of({bytes(1, 80), bytes(2, 0), bytes(3, 80)}, 100) == sizes{50, 0, 50});
        CHECK(bytes_of({bytes(1, 40), bytes(2, 60)}, 100) == sizes{40, 60});
        CHECK(bytes_of({bytes(1, 40), bytes(2, 60)}, 0) == sizes{0, 0});
    }

    TEST_CASE("users come first, then what each of them runs") {
        CHECK(bytes_of({bytes(1, 100), bytes(2, 100), bytes(1, 100), bytes(1, 100)}, 120) == sizes{20, 60, 20, 20});
        CHECK(bytes_of({bytes(1, 10), bytes(2, 100), bytes(1, 10), bytes(1, 100)}, 120) == sizes{10, 60, 10, 40});
    }

    TEST_CASE("weights and floors count among what one user runs") {
        claims all{bytes(1, 100), bytes(1, 100), bytes(2, 100)};
        all[0].weight = 3;
        CHECK(bytes_of(all, 80) == sizes{30, 10, 40});
        all[2].weight = 1000;  // takes nothing from another user
        all[2].floor  = 1000;
        CHECK(bytes_of(all, 80) == sizes{30, 10, 40});
        all[1].floor = 25;
        CHECK(bytes_of(all, 80) == sizes{15, 25, 40});
        all[0].floor = 75;  // more than the user gets: in proportion
        CHECK(bytes_of(all, 80) == sizes{30, 10, 40});
        all[0].desired.bytes = 5;  // a floor is not wanted when nothing is
        CHECK(bytes_of(all, 80) == sizes{5, 35, 40});
    }

    TEST_CASE("of memory and cores, the larger part is made even") {
        // The example of Ghodsi et al., 4.1: 9 cores, 18 GB; A's tasks take <1, 4>, B's <3, 1>: 3 tasks and 2.
        claims const all{{.user = 1, .desired = {400, 100}}, {.user = 2, .desired = {100, 300}}};
        auto const   got = fair_shares::of(all, {18, 9});
        CHECK(got[0].bytes == 12);
        CHECK(got[0].cores == 3);
        CHECK(got[1].bytes == 2);
        CHECK(got[1].cores == 6);

        // Two thirds of the cores and of the memory.
        claims const more{{.user = 1, .desired = {100, 4}}, {.user = 2, .desired = {100, 0}}};
        auto const   rest = fair_shares::of(more, {100, 2});
        CHECK(rest[0].bytes == 33);
        CHECK(rest[1].bytes == 66);
        CHECK(rest[0].cores == 1);

        // Who does without what is used up goes on.
        claims const free{{.user = 1, .desired = {10, 40}}, {.user = 2, .desired = {10, 40}}, bytes(3, 1000)};
        auto const   others = fair_shares::of(free, {100, 10});
        CHECK(others[0].cores == 5);
        CHECK(others[1].cores == 5);
        CHECK(others[2].bytes == 97);

        // Evenly by user, too, however many claims one has.
        claims by_user{bytes(4, 1000), bytes(5, 1000), bytes(5, 1000)};
        for (std::uint64_t user = 1; user <= 3; ++user) by_user.push_back({.user = user, .desired = {0, 40}});
        auto const evenly = fair_shares::of(by_user, {200, 9});
        CHECK(evenly[0].bytes == 100);
        CHECK(evenly[1].bytes == 50);
        CHECK(evenly[2].bytes == 50);
        CHECK(evenly[3].cores == 3);

        CHECK(fair_shares::of(more, {100, 0})[0].bytes == 0);  // it cannot run
        CHECK(fair_shares::of(more, {100, 0})[1].bytes == 100);
    }

    TEST_CASE("what cannot be divided goes round") {
        auto const due = [](claims const& all, budget_amount capacity) {
            return due_shares::of(all, capacity, fair_shares::of(all, capacity));
        };
        auto const job = [](std::uint64_t user, std::size_t size, std::uint64_t since) {
            return share_claim{.user = user, .next = {size, 0}, .desired = {size, 0}, .since = since};
        };
        claims cores;
        for (std::uint64_t i = 0; i < 12; ++i)
            cores.push_back({.user = i % 3, .next = {0, 1}, .desired = {0, 1}, .since = 100 - i});
        auto const two = due(cores, {0, 2});
        for (std::size_t i = 0; i < 12; ++i) CHECK(two[i].cores == (i >= 10 ? 1 : 0));

        // Four of 40 in 100: a quarter would do for none.
        claims four{job(1, 40, 3), job(1, 40, 1), job(1, 40, 4), job(1, 40, 2)};
        auto   got = due(four, {100, no_cores});
        CHECK(got[1].bytes == 40);
        CHECK(got[3].bytes == 40);
        CHECK(got[0].bytes == 20);  // is kept for it
        CHECK(got[2].bytes == 0);

        four[1].taken = {40, 0};  // it has started, and has another to start
        four[1].next = four[1].desired = {80, 0};
        four[1].since                  = 5;
        got                            = due(four, {100, no_cores});
        CHECK(got[1].bytes == 40);
        CHECK(got[3].bytes == 40);
        CHECK(got[0].bytes == 20);

        four[0].taken = {10, 0};  // it has started, needs more, and comes before all
        four[0].next = four[0].desired = {35, 0};
        four[0].started                = true;
        four[0].since                  = 9;
        got                            = due(four, {100, no_cores});
        CHECK(got[0].bytes == 35);
        CHECK(got[1].bytes == 40);
        CHECK(got[3].bytes == 25);

        // By user first, and who can start with a share is left alone.
        claims users{job(1, 60, 1), job(1, 60, 2), job(2, 60, 3), bytes(3, 10)};
        got = due(users, {130, no_cores});
        CHECK(got[0].bytes == 60);
        CHECK(got[1].bytes == 0);
        CHECK(got[2].bytes == 60);
        CHECK(got[3].bytes == 10);

        claims few{job(1, 60, 1), job(1, 60, 2), job(2, 60, 3)};
        got = due(few, {119, no_cores});  // neither user's share would do for a job
        CHECK(got[0].bytes == 60);
        CHECK(got[1].bytes == 0);
        CHECK(got[2].bytes == 59);  // before the other one of the first user, which has waited longer

        // Who needs only what the first in turn does not lack passes it; and nobody hoards what it cannot use.
        auto const both = [](std::uint64_t user, budget_amount next, std::uint64_t since) {
            return share_claim{.user = user, .next = next, .desired = next, .since = since};
        };
        claims mixed{both(1, {60, 3}, 1), both(2, {60, 3}, 2), both(3, {60, 3}, 3), both(4, {70, 0}, 4)};
        got = due(mixed, {200, 5});
        CHECK(got[0] == budget_amount{60, 3});
        CHECK(got[1] == budget_amount{60, 2});
        CHECK(got[2] == budget_amount{0, 0});
        CHECK(got[3] == budget_amount{70, 0});

        // What is taken stays, whatever the share.
        claims over{job(1, 90, 1), job(2, 50, 2)};
        over[0].taken = {90, 0};
        got           = due(over, {100, no_cores});
        CHECK(got[0].bytes == 90);
        CHECK(got[1].bytes == 10);  // of its share of 50 what there is
        over[1].next = {4, 0};
        CHECK(due(over, {100, no_cores})[1].bytes == 10);  // though its next job needs less

        // Who is due its share comes before who needs more than that.
        claims line{job(1, 95, 1), job(2, 60, 2), job(3, 6, 3), job(4, 6, 4)};
        line[0].taken = {90, 0};
        got           = due(line, {100, no_cores});
        CHECK(got[1].bytes == 0);
        CHECK(got[2].bytes == 6);
        CHECK(got[3].bytes == 4);

        // Where others have taken more than their shares, jobs that cannot end without come before shares.
        auto const begun = [](std::uint64_t user, std::size_t taken, std::size_t next) {
            return share_claim{
                .user = user, .taken = {taken, 0}, .next = {next, 0}, .desired = {next, 0}, .started = true};
        };
        claims held{begun(1, 30, 32), begun(2, 30, 32), begun(3, 30, 32), job(1, 6, 1), job(2, 3, 2), job(3, 6, 3)};
        got = due(held, {100, no_cores});
        for (std::size_t i = 0; i < 3; ++i) CHECK(got[i].bytes == 32);
        CHECK(got[3].bytes == 4);  // is kept for it
        CHECK(got[4].bytes == 0);
        CHECK(got[5].bytes == 0);
        got = due(held, {104, no_cores});
        CHECK(got[3].bytes == 6);
        CHECK(got[4].bytes == 2);
        held[0].next = held[0].desired = {50, 0};  // for which there is not enough: the others will end
        got                            = due(held, {100, no_cores});
        CHECK(got[0].bytes == 30);
        CHECK(got[1].bytes == 32);
        CHECK(got[2].bytes == 32);
        CHECK(got[3].bytes == 6);  // its user's share is not for the other job

        // A job that wants more than its user's share keeps nobody from a share with which it can start.
        claims server{job(1, 50, 0), begun(2, 30, 90), job(3, 10, 1), job(3, 30, 2)};
        server[0].taken = {50, 0};
        got             = due(server, {100, no_cores});
        CHECK(got[1].bytes == 30);
        CHECK(got[2].bytes == 10);
        CHECK(got[3].bytes == 10);   // is kept for it
        server[3].next.bytes = 101;  // which there will never be
        got                  = due(server, {100, no_cores});
        CHECK(got[1].bytes == 40);
        CHECK(got[2].bytes == 10);
        CHECK(got[3].bytes == 0);
        server[1].next = server[1].desired = {40, 0};  // it can end, and the last of them cannot begin
        got                                = due(server, {100, no_cores});
        CHECK(got[1].bytes == 40);
        CHECK(got[2].bytes == 10);
        CHECK(got[3].bytes == 0);

        // Nor does one that says that it has all there is, which is not true.
        constexpr std::size_t all = static_cast<std::size_t>(-1);
        for (std::size_t const lie : {std::size_t{60}, std::size_t{100}, all}) {
            claims liar{begun(1, lie, all), job(2, 10, 2)};
            liar[0].has = {lie, 0};
            liar[1].has = liar[1].desired = {50, 0};
            CHECK(due(liar, {100, no_cores})[1].bytes == 50);
        }

        claims two_liars{begun(1, all, 0), begun(1, 0, 100), job(2, 50, 1)};
        two_liars[0].has = {all, 0};
        two_liars[2].has = {50, 0};
        CHECK(due(two_liars, {100, no_cores})[2].bytes == 50);

        // It need not be a lie: there may just have become less. Then who has started can still end.
        claims less{begun(1, 600, 601), job(2, 400, 1), job(3, 400, 2)};
        less[1].has = {200, 0};
        less[2].has = {201, 0};
        got         = due(less, {1000, no_cores});
        CHECK(got[0].bytes == 601);
        CHECK(got[2].bytes == 0);

        // What is left is kept for a job that has started and is within its user's share.
        claims small{begun(1, 10, 30), job(1, 30, 1), job(2, 59, 0), job(3, 10, 2), job(3, 10, 3), job(3, 10, 4)};
        small[2].taken = {59, 0};
        small[3].taken = small[4].taken = {10, 0};
        got                             = due(small, {100, no_cores});
        CHECK(got[0].bytes == 21);
        CHECK(got[5].bytes == 0);

        // Where cores are lacking, memory is not.
        claims cores_lack{both(1, {0, 2}, 1), both(2, {0, 1}, 2), both(3, {20, 0}, 3), begun(4, 40, 100)};
        cores_lack[0].taken         = {0, 2};
        cores_lack[2].desired.bytes = 50;
        got                         = due(cores_lack, {100, 2});
        CHECK(got[1] == budget_amount{0, 0});
        CHECK(got[2] == budget_amount{50, 0});
        CHECK(got[3] == budget_amount{40, 0});

        // Nor is it hoarded by who cannot start for want of cores.
        claims hoard{both(1, {61, 4}, 1), both(2, {20, 1}, 2), both(3, {40, 1}, 3)};
        hoard[0].taken   = {40, 4};
        hoard[0].started = true;
        CHECK(due(hoard, {100, 4})[0] == budget_amount{61, 4});
    }

    TEST_CASE("are never more than there is or than is wanted, leave nothing that is wanted, and envy nobody") {
        dice random(from_environment("TENURE_SEED", 1));
        for (int round = 0; round < 2000; ++round) {
            auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random.below(n)); };
            claims     all(1 + below(40));
            for (share_claim& c : all) {
                c.user    = below(4);
                c.desired = {below(3) ? below(std::size_t{1} << (1 + below(40))) : 0, below(3) ? below(20) : 0};
                c.floor   = below(4) ? 0 : below(std::size_t{1} << 30);
                c.weight  = below(2) ? 1 : 0.25 * static_cast<double>(1 + below(16));
                c.since   = below(1000);
            }
            bool const          with_cores = below(2);
            budget_amount const capacity{below(std::size_t{1} << (1 + below(42))),
                                         with_cores ? below(64) : no_cores};
            if (!with_cores)
                for (share_claim& c : all) c.desired.cores = 0;
            auto const got = fair_shares::of(all, capacity);
            for (share_claim& c : all) {
                c.next    = {below(c.desired.bytes + 1), below(c.desired.cores + 1)};
                c.taken   = {below(c.next.bytes / all.size() + 1), below(c.next.cores + 1) / all.size()};
                c.started = below(3) == 0;
            }
            budget_amount due_in_all{};
            for (budget_amount const a : due_shares::of(all, capacity, got)) {
                due_in_all.bytes += a.bytes;
                due_in_all.cores += a.cores;
            }
            std::size_t taken = 0, taken_cores = 0;
            for (share_claim const& c : all) taken += c.taken.bytes, taken_cores += c.taken.cores;
            if (taken <= capacity.bytes && taken_cores <= capacity.cores) {
                REQUIRE(due_in_all.bytes <= capacity.bytes);
                REQUIRE(due_in_all.cores <= capacity.cores);
            }
            REQUIRE((due_in_all.bytes <= capacity.bytes || due_in_all.bytes <= taken + sum_of(got)));
            budget_amount sum{}, lacked{};
            for (std::size_t i = 0; i < all.size(); ++i) {
                REQUIRE(got[i].bytes <= all[i].desired.bytes);
                REQUIRE(got[i].cores <= all[i].desired.cores);
                sum.bytes += got[i].bytes;
                sum.cores += got[i].cores;
                lacked.cores += all[i].desired.cores - got[i].cores;
                lacked.bytes += all[i].desired.bytes - got[i].bytes;
            }
            REQUIRE(sum.bytes <= capacity.bytes);
            REQUIRE(sum.cores <= capacity.cores);
            if (with_cores) continue;
            REQUIRE((lacked.bytes == 0 || sum.bytes + all.size() >= capacity.bytes));  // but for roundings
            // Of one user: nobody who lacks something has less for its weight than one who is above its floor.
            for (std::size_t i = 0; i < all.size(); ++i) {
                if (got[i].bytes + 1 >= all[i].desired.bytes) continue;
                for (std::size_t k = 0; k < all.size(); ++k) {
                    if (all[k].user != all[i].user || got[k].bytes <= all[k].floor + 1) continue;
                    double const mine  = static_cast<double>(got[i].bytes + 2) / all[i].weight;
                    double const yours = static_cast<double>(got[k].bytes - 1) / all[k].weight;
                    REQUIRE(mine * (1 + 1e-9) >= yours);
                }
            }
        }
    }
}

namespace {

/// Processes that step one after another in periods of a virtual clock, each by what all have told.
struct machine {
    claims                     all;
    std::vector<budget_amount> needs;  ///< what they cannot give back at once
    budget_amount              capacity;
    std::size_t                slack = 0;

    budget_amount taken() const {
        budget_amount sum;
        for (share_claim const& c : all) sum += c.has;
        return sum;
    }
    void step(std::size_t i) {
        all[i].taken       = needs[i];
        share_step const s = share_step::of(all, i, capacity, slack);
        all[i].has         = s.keeps;
        auto const grown   = share_step::of(all, i, capacity, slack);
        all[i].has         = grown.grows_to;
    }
    void period() {
        for (std::size_t i = 0; i < all.size(); ++i) step(i);
    }
    /// Whether each has what it should, and no more where others lack it.
    bool is_fair() const {
        auto const    fair = fair_shares::of(all, capacity);
        budget_amount wanted;
        for (share_claim const& c : all) wanted += c.desired;
        for (auto const amount : {&budget_amount::bytes, &budget_amount::cores})
            for (std::size_t i = 0; i < all.size(); ++i) {
                std::size_t const has = all[i].has.*amount, should = fair[i].*amount;
                if (has < should || (wanted.*amount > capacity.*amount && has != should)) return false;
            }
        return true;
    }
};

}  // namespace

TEST_SUITE("processes that share a machine") {
    TEST_CASE("come to the exact shares within three periods of any change, a thousand of them") {
        dice              random(from_environment("TENURE_SEED", 1));
        auto const        below = [&](std::size_t n) { return static_cast<std::size_t>(random.below(n)); };
        std::size_t const count = TENURE_SANITIZED ? 100 : 1000;
        std::size_t       cores = no_cores, most_cores = 1;
        SUBCASE("memory") {}
        SUBCASE("memory and cores") { cores = 2 * count, most_cores = 8; }
        machine     m{claims(count), std::vector<budget_amount>(count), {std::size_t{64} << 30, cores}};
        std::size_t worst = 0;
        for (int change = 0; change < 12; ++change) {
            for (std::size_t i = 0; i < count; ++i)
                if (change == 0 || below(3) == 0) {
                    m.all[i].user    = i % 7;
                    m.all[i].desired = {below(std::size_t{1} << (20 + below(10))), below(most_cores)};
                    m.all[i].weight  = static_cast<double>(1 + below(4));
                }
            if (change % 4 == 3) m.all[below(count)] = {};  // a crash
            std::size_t periods = 0;
            do {
                m.period();
                REQUIRE(fits(m.taken(), m.capacity));
                ++periods;
            } while (!m.is_fair() && periods < 10);
            worst = std::max(worst, periods);
        }
        CHECK(worst <= 3);
    }

    TEST_CASE("give back what they have in hand where that is more than there is together") {
        claims all{bytes(1, 100), bytes(2, 100)};
        all[0].has = all[1].has = {900, 0};
        CHECK(share_step::of(all, 0, {1000, no_cores}, 0).keeps.bytes == 100);
        all[1].has = {100, 0};
        CHECK(share_step::of(all, 0, {1000, no_cores}, 0).keeps.bytes == 900);
    }

    TEST_CASE("have nothing in hand that others lack, also once they gave it back") {
        claims all{bytes(1, 50), bytes(2, 50)};
        all[0].has = {70, 0};
        all[1].has = {30, 0};
        CHECK(share_step::of(all, 0, {100, no_cores}, 20).keeps.bytes == 50);
        all[0].has                        = {50, 0};
        share_step const before_it_is_his = share_step::of(all, 0, {100, no_cores}, 20);
        CHECK(before_it_is_his.grows_to.bytes == 50);
        CHECK(share_step::of(all, 0, {105, no_cores}, 20).grows_to.bytes == 55);
    }

    TEST_CASE("keep their shares when a job ends, unless one elsewhere has started and lacks something") {
        claims all{bytes(1, 100),
                   {.user = 2, .has = {40, 0}, .taken = {40, 0}, .next = {50, 0}, .desired = {50, 0}}};
        all[0].has = {60, 0};
        CHECK(share_step::of(all, 0, {100, no_cores}, 0).stays.bytes == 50);
        all[1].started = true;
        CHECK(share_step::of(all, 0, {100, no_cores}, 0).stays == budget_amount{});
        all[1].next = {1000, 0};  // which it will not get
        CHECK(share_step::of(all, 0, {100, no_cores}, 0).stays.bytes == 50);
        all[1].next = all[1].has = {50, 0};
        CHECK(share_step::of(all, 0, {100, no_cores}, 0).stays.bytes == 50);
        all[1].taken = {70, 0};  // so that there is less for it than its share
        all[1].has   = {70, 0};
        all[0].has   = {30, 0};
        all[0].next  = {45, 0};
        CHECK(share_step::of(all, 0, {100, no_cores}, 0).stays == budget_amount{});
    }

    TEST_CASE("get on as long as there is enough for somebody, and never have more than there is") {
        dice              random(from_environment("TENURE_SEED", 1));
        auto const        below = [&](std::size_t n) { return static_cast<std::size_t>(random.below(n)); };
        std::size_t const games = from_environment("TENURE_GAMES", TENURE_SANITIZED ? 30 : 300);
        std::size_t       ended = 0;
        for (std::size_t game = 0; game < games; ++game) {
            std::size_t const count = 2 + below(12);
            std::size_t const cores = below(2) * 6;  // or they want none
            machine           m{claims(count), std::vector<budget_amount>(count), {1000, cores}, below(2) * 20};
            std::uint64_t     now = 0;
            // A job begins with `next` bytes, and then ends or asks for some more, and so on.
            auto const waits_from_now = [&](std::size_t i, budget_amount taken, budget_amount more) {
                m.needs[i]       = taken;
                m.all[i].started = taken.bytes > 0;
                m.all[i].since   = ++now;
                m.all[i].taken   = taken;
                m.all[i].next = m.all[i].desired = taken + more;
            };
            auto const some    = [&](std::size_t n) { return cores ? below(n) : 0; };
            auto const new_job = [&](std::size_t i) {
                waits_from_now(i, {}, {1 + below(below(2) ? 300 : 40), some(4)});
            };
            for (std::size_t i = 0; i < count; ++i) {
                m.all[i].user = i % 3;
                new_job(i);
            }
            std::size_t still = 0;
            for (int period = 0; period < 200; ++period) {
                for (std::size_t n = 0; n < 2 * count; ++n) m.step(below(count));
                for (std::size_t i = 0; i < count; ++i) m.step(i);
                REQUIRE(fits(m.taken(), m.capacity));
                bool moved = false;
                for (std::size_t i = 0; i < count; ++i) {
                    budget_amount const next = m.all[i].next;
                    if (!fits(next, m.all[i].has)) continue;
                    moved = true;
                    if (below(2)) waits_from_now(i, next, {1 + below(30), some(2)});
                    else new_job(i), ++ended;
                }
                budget_amount left = m.capacity;
                for (budget_amount const taken : m.needs) left -= taken;
                // What is left is kept for a job that has started; if there is enough for none, only a refusal
                // helps.
                bool const begun    = std::ranges::any_of(m.all, &share_claim::started);
                bool const can_move = std::ranges::any_of(m.all, [&](share_claim const& c) {
                    return c.started == begun && fits(c.next, c.taken + left);
                });
                still               = moved || !can_move ? 0 : still + 1;
                if (still > 3) FAIL("all wait for each other in game ", game, ", period ", period);
                if (!can_move) break;  // a budget tells one that it would be a deadlock
            }
        }
        CHECK(ended > games);
    }

    TEST_CASE("never have more than there is, whatever they need and whenever they step") {
        dice       random(from_environment("TENURE_SEED", 1));
        auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random.below(n)); };
        machine    m{claims(8), std::vector<budget_amount>(8), {1000, 40}, 50};
        for (std::size_t i = 0; i < 8; ++i) m.all[i].user = i % 3;
        std::size_t const steps = from_environment("TENURE_STEPS", TENURE_SANITIZED ? 20'000 : 200'000);
        for (std::size_t n = 0; n < steps; ++n) {
            std::size_t const i = below(8);
            switch (below(6)) {
            case 0: m.all[i].desired = {below(700), below(30)}; break;
            case 1: m.needs[i] = {below(m.all[i].has.bytes + 1), below(m.all[i].has.cores + 1)}; break;
            case 2: m.all[i].weight = static_cast<double>(1 + below(3)); break;
            case 3:
                if (below(100) == 0) m.all[i] = {.user = m.all[i].user}, m.needs[i] = {};
                break;
            default: m.step(i);
            }
            m.needs[i] = smaller(m.needs[i], m.all[i].has);
            if (!fits(m.taken(), m.capacity)) FAIL("more than there is, after step ", n);
        }
    }
}
