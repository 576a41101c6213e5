// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/budget/admission.hpp>

#include "random/dice.hpp"

namespace {

using namespace std::chrono_literals;
using tenure::errc;
using tenure::detail::admission_rules;
using tenure::detail::budget_amount;

constexpr auto aging = 100ms;

struct job : admission_rules::holder {
    admission_rules::waiter w{};
    std::string             name{};
};

/// A budget without threads, on time that the test sets.
struct office {
    admission_rules       rules;
    admission_rules::time now{};
    std::string    served{};  ///< names, in the order in which they got what they waited for; in brackets: refused
    std::list<job> jobs{};

    explicit office(budget_amount capacity) : rules(capacity, aging) {}

    void answer(bool final = true) {
        rules.answer(now, final, [&](admission_rules::waiter& w) {
            auto const& name = static_cast<job*>(w.into)->name;
            served += *w.answer == errc{} ? name : "(" + name + ")";
        });
    }
    job& arrive(std::string const& name, budget_amount wants, int priority = 0,
                std::vector<admission_rules::holder*> has = {}) {
        job& j = jobs.emplace_back();
        j.name = name;
        if (rules.try_grant(j, wants, [&] { return now; })) {
            served += name;
        } else {
            j.w.wants    = wants;
            j.w.priority = priority;
            j.w.into     = &j;
            j.w.has      = std::move(has);
            rules.wait(j.w, now);
        }
        return j;
    }
    void extend(job& j, std::size_t bytes) {
        if (rules.try_extend(j, {bytes, 0}, [&] { return now; })) return;
        j.w = {.wants = {bytes, 0}, .into = &j, .has = {&j}};
        rules.wait(j.w, now);
    }
    void end(job& j) {
        rules.release(j);
        answer();
    }
};

}  // namespace

TEST_SUITE("admission") {
    TEST_CASE("starts what fits in beside the baseline, what is reserved and what is in use") {
        office o({100, 4});
        o.rules.note_use(20);
        CHECK(o.rules.baseline() == 20);
        job& a = o.arrive("a", {50, 1});
        CHECK(o.rules.reserved().bytes == 50);
        CHECK(o.rules.fits({30, 3}));
        CHECK_FALSE(o.rules.fits({31, 0}));
        CHECK_FALSE(o.rules.fits({1, 4}));
        o.rules.note_use(90);  // more than was reserved
        CHECK(o.rules.baseline() == 20);
        CHECK(o.rules.is_short_of_memory());
        CHECK_FALSE(o.rules.fits({11, 0}));
        CHECK(o.rules.fits({10, 0}));
        CHECK(o.rules.fits({0, 3}));
        o.rules.note_use(200);
        CHECK_FALSE(o.rules.fits({1, 0}));
        CHECK(o.rules.fits({0, 3}));
        o.rules.note_use(30);
        o.end(a);
        CHECK(o.rules.fits({70, 4}));
        o.rules.note_use(25);
        CHECK(o.rules.baseline() == 25);
        CHECK_FALSE(o.rules.is_possible({101, 0}));
        CHECK_FALSE(o.rules.is_possible({0, 5}));
        CHECK(o.rules.is_possible({100, 4}));
        std::size_t const most = static_cast<std::size_t>(-1);
        CHECK_FALSE(o.rules.fits({most, most}));
        CHECK(o.served == "a");
    }

    TEST_CASE("serves by priority, then by arrival") {
        office o({100, 0});
        job&   all = o.arrive("0", {100, 0});
        o.arrive("a", {40, 0});
        o.arrive("b", {40, 0}, 1);
        o.arrive("c", {40, 0}, 1);
        o.arrive("d", {20, 0}, -1);
        o.end(all);
        CHECK(o.served == "0bcd");  // d fits where a does not
        o.end(*std::next(o.jobs.begin(), 2));
        CHECK(o.served == "0bcda");
    }

    TEST_CASE("lets nobody pass one that has waited long enough, whatever its priority") {
        office o({100, 0});
        job&   one   = o.arrive("0", {50, 0});
        job&   other = o.arrive("1", {50, 0});
        o.arrive("a", {90, 0}, -5);
        o.now += aging - 1ns;
        o.end(one);
        job& small = o.arrive("b", {10, 0});
        CHECK(o.served == "01b");
        o.now += 1ns;
        o.arrive("c", {10, 0}, 9);
        o.answer();
        CHECK(o.served == "01b");
        CHECK(o.rules.waiting() == 2);
        o.end(small);
        o.end(other);
        CHECK(o.served == "01bac");
    }

    TEST_CASE("lets others start while there is not enough for one even alone") {
        office o({100, 0});
        o.rules.note_use(20);
        o.arrive("a", {90, 0});
        o.now += aging;
        job& b = o.arrive("b", {50, 0});
        o.answer(false);  // the process may use less soon
        CHECK(o.served.empty());
        o.answer();
        CHECK(o.served == "b");
        job& c = o.arrive("c", {10, 0});
        o.answer();
        CHECK(o.served == "b");  // a waits for those that run
        o.end(b);
        CHECK(o.served == "bc");
        job& d = o.arrive("d", {10, 0});
        o.rules.note_use(5);
        o.end(c);
        CHECK(o.served == "bca");
        CHECK(d.w.answer == std::nullopt);
        CHECK(o.rules.waiting() == 1);
    }

    TEST_CASE("gives more first to those that have room, also past one that has waited long") {
        office o({100, 0});
        job&   a = o.arrive("a", {50, 0});
        job&   b = o.arrive("b", {40, 0});
        o.arrive("c", {60, 0});
        o.now += aging;
        o.extend(a, 10);
        CHECK(a.has.bytes == 60);
        o.extend(a, 20);
        CHECK(a.has.bytes == 60);
        CHECK(o.rules.waiting() == 2);
        o.end(b);
        CHECK(a.has.bytes == 80);
        CHECK(o.served == "aba");
        o.end(a);
        CHECK(o.served == "abac");
    }

    TEST_CASE("goes on with who has room and needs least, whoever is first") {
        office o({100, 4});
        job&   a = o.arrive("a", {50, 1});
        job&   b = o.arrive("b", {45, 1});
        CHECK(o.rules.soonest(o.now) == budget_amount{});
        o.arrive("c", {6, 0});
        CHECK(o.rules.soonest(o.now) == budget_amount{6, 0});
        o.arrive("d", {7, 0}, 1);  // is before it
        CHECK(o.rules.soonest(o.now) == budget_amount{7, 0});
        o.now += aging;  // and does not pass it now
        CHECK(o.rules.soonest(o.now) == budget_amount{6, 0});
        o.extend(a, 30);
        o.extend(b, 8);
        CHECK(o.rules.first().bytes == 30);
        CHECK(o.rules.soonest(o.now).bytes == 8);
    }

    TEST_CASE("refuses the youngest of those that wait for each other, once nothing else can help") {
        office o({100, 0});
        job&   a = o.arrive("a", {50, 0});
        job&   b = o.arrive("b", {50, 0});
        o.extend(b, 10);
        o.answer();
        CHECK(o.served == "ab");  // a goes on, and may end
        o.extend(a, 10);
        o.answer(false);
        CHECK(o.served == "ab");
        o.answer(true);
        CHECK(o.served == "ab(b)");
        o.answer(true);
        CHECK(o.served == "ab(b)");  // b goes on
        o.end(b);
        CHECK(o.served == "ab(b)a");
    }

    TEST_CASE("finds a cycle through a job that waits for a second room") {
        office o({100, 0});
        job&   a = o.arrive("a", {50, 0});
        job&   b = o.arrive("b", {40, 0});
        job&   c = o.arrive("c", {50, 0}, 0, {&a});
        o.answer();
        CHECK(o.served == "ab");
        job& d = o.arrive("d", {30, 0}, 0, {&b});
        o.answer();
        CHECK(o.served == "ab(d)");
        CHECK(d.serial == 0);
        o.end(b);
        CHECK(o.served == "ab(d)c");
        CHECK(c.serial != 0);
    }

    TEST_CASE("refuses one whose own thread alone could free what it waits for, and then nobody else") {
        office o({100, 0});
        job&   a = o.arrive("a", {60, 0});
        job&   b = o.arrive("b", {40, 0});
        job&   c = o.arrive("c", {50, 0}, 0, {&a});
        o.answer(false);
        CHECK(o.served == "ab");
        o.answer();
        CHECK(o.served == "ab(c)");
        CHECK(c.serial == 0);
        job& d = o.arrive("d", {30, 0}, 0, {&b});
        o.answer();
        CHECK(o.served == "ab(c)");  // a goes on, and may end
        o.end(a);
        CHECK(o.served == "ab(c)d");
        CHECK(d.serial != 0);
    }

    TEST_CASE("refuses one whose end helps another, though a newer one waits, too") {
        office o({100, 0});
        o.arrive("a", {40, 0});
        job& b = o.arrive("b", {40, 0});
        job& c = o.arrive("c", {10, 0});
        o.extend(*o.jobs.begin(), 40);
        o.extend(b, 40);
        o.extend(c, 30);
        CHECK(o.rules.stuck() == &b);
        o.answer();
        CHECK(o.served == "abc(b)");
        o.end(b);
        CHECK(o.served == "abc(b)a");
        CHECK_FALSE(c.w.answer);
        o.end(*o.jobs.begin());
        CHECK(o.served == "abc(b)ac");
    }

    TEST_CASE("leaves a job that has room in line, where another waits for its own") {
        office o({100, 0});
        job&   a = o.arrive("a", {60, 0});
        job&   d = o.arrive("d", {10, 0});
        job&   c = o.arrive("c", {20, 0});
        o.arrive("n", {50, 0}, 0, {&a});
        o.extend(c, 25);
        o.extend(d, 20);  // which would fit without c, too
        o.answer();
        CHECK(o.served == "adc(n)");
        o.answer();
        CHECK(o.served == "adc(n)");
        o.end(a);
        CHECK(o.served == "adc(n)cd");
    }

    TEST_CASE("keeps what one with room has waited for, though another before it does not fit at all") {
        office o({100, 0});
        job&   h = o.arrive("h", {10, 0});
        job&   r = o.arrive("r", {35, 0});
        job&   x = o.arrive("x", {15, 0});
        o.arrive("f", {95, 0});
        o.extend(h, 50);
        o.now += aging;
        CHECK_FALSE(o.rules.try_extend(r, {20, 0}, [&] { return o.now; }));
        o.end(x);
        CHECK(o.served == "hrxh");
    }

    TEST_CASE("frees memory for one who has waited long, whoever is first") {
        office o({100, 0});
        o.rules.note_use(60);
        o.arrive("f", {90, 0});
        o.arrive("p", {50, 0}, 1);
        CHECK(o.rules.missing(o.now) == 10);
        o.now += aging;
        CHECK(o.rules.missing(o.now) == 50);
    }

    TEST_CASE("finds a cycle beside one who goes on and cannot help") {
        office o({100, 4});
        job&   idle = o.arrive("i", {10, 1});
        job&   a    = o.arrive("a", {45, 1});
        job&   b    = o.arrive("b", {45, 1});
        o.extend(a, 11);
        o.extend(b, 10);
        o.answer();
        CHECK(o.served == "iab");  // b fits when i ends
        o.rules.leave(b.w);
        o.extend(b, 11);
        o.answer(false);
        CHECK(o.served == "iab");
        o.answer();
        CHECK(o.served == "iab(b)");
        o.answer();
        CHECK(o.served == "iab(b)");  // b goes on
        o.end(b);
        CHECK(o.served == "iab(b)a");
        CHECK(idle.serial != 0);
    }

    TEST_CASE("lets no new job pass one that has room and has waited long for more") {
        office o({100, 4});
        job&   a = o.arrive("a", {40, 0});
        job&   b = o.arrive("b", {40, 0});
        o.extend(a, 30);
        job& small = o.arrive("s", {10, 0});
        CHECK(o.served == "abs");
        o.now += aging;
        job& late = o.arrive("t", {10, 0}, 9);
        o.answer();
        CHECK(o.served == "abs");
        CHECK(late.serial == 0);
        o.end(small);
        CHECK(o.served == "abs");
        o.end(b);
        CHECK(o.served == "absat");
    }

    TEST_CASE("lets those who have room pass one that has waited long only where it needs what they have") {
        office o({100, 0});
        job&   a = o.arrive("a", {15, 0});
        job&   b = o.arrive("b", {15, 0});
        o.arrive("l", {80, 0});
        o.now += aging;
        CHECK_FALSE(o.rules.try_extend(a, {1, 0}, [&] { return o.now; }));
        job& nested = o.arrive("n", {10, 0}, 0, {&a});  // l fits beside a, once b ends
        o.answer();
        CHECK(o.served == "ab");
        job& other = o.arrive("m", {10, 0}, 0, {&b});  // but not beside both
        o.answer();
        CHECK(o.served == "abn");
        CHECK(other.serial == 0);  // while a goes on
        o.end(nested);
        CHECK(o.served == "abn");
        job& again = o.arrive("o", {10, 0}, 0, {&a});
        o.answer();
        CHECK(o.served == "abnm");
        o.end(other);
        o.end(b);
        CHECK(o.served == "abnml");
        CHECK(again.serial == 0);
    }

    TEST_CASE("does not count a room that ends while its thread waits") {
        office o({100, 0});
        job&   a = o.arrive("a", {50, 0});
        job&   b = o.arrive("b", {50, 0});
        job&   c = o.arrive("c", {60, 0}, 0, {&a});
        o.rules.release(a);  // by another thread
        o.rules.leave(c.w);
        o.extend(b, 60);
        o.answer();
        CHECK(o.served == "ab(b)");
        o.rules.note_use(60);  // too much for what would fit
        o.extend(b, 45);
        o.answer();
        CHECK(o.served == "ab(b)(b)");
    }

    TEST_CASE("waits for jobs elsewhere that go on, where capacity is a share") {
        office o({40, 0});
        o.rules.set_capacity({40, 0}, {90, 0}, {100, 0});
        o.arrive("l", {80, 0});
        o.now += aging;
        job& s = o.arrive("s", {10, 0});
        o.answer();
        CHECK(o.served.empty());  // what they give back is for l
        o.rules.set_capacity({40, 0}, {}, {100, 0});
        o.answer();
        CHECK(o.served == "s");  // nobody gives anything back
        o.extend(s, 40);
        o.answer(false);
        CHECK(o.rules.stuck() == &s);
        o.rules.set_capacity({40, 0}, {50, 0}, {100, 0});
        CHECK(o.rules.stuck() == nullptr);
        o.answer();
        CHECK(o.served == "s");
        o.rules.set_capacity({40, 0}, {49, 0}, {100, 0});
        o.answer();
        CHECK(o.served == "s(s)");
    }

    TEST_CASE("tells what would stay if all ended but those who wait") {
        office o({100, 4});
        o.rules.note_use(5);
        job& a = o.arrive("a", {30, 1});
        CHECK(o.rules.held() == budget_amount{5, 0});
        job& b = o.arrive("b", {40, 2});
        o.extend(a, 50);
        CHECK(o.rules.taken() == budget_amount{75, 3});
        CHECK(o.rules.held() == budget_amount{35, 1});
        o.rules.note_use(90);
        o.extend(b, 50);
        CHECK(o.rules.held() == budget_amount{90, 3});  // nobody will use less
    }

    TEST_CASE("counts what a job got while another of its threads waits") {
        office o({100, 0});
        job&   a = o.arrive("a", {40, 0});
        job&   b = o.arrive("b", {30, 0});
        job&   n = o.arrive("n", {35, 0}, 0, {&a});
        o.answer();
        CHECK(o.served == "ab");
        o.extend(a, 30);
        CHECK(a.has.bytes == 70);
        o.answer();
        CHECK(o.served == "ab(n)");  // it does not fit, though b ended
        CHECK(n.serial == 0);
        o.end(a);
        o.end(b);
        CHECK(o.rules.fits({100, 0}));
    }

    TEST_CASE("forgets who waited, not who has room") {
        office o({100, 0});
        job&   a = o.arrive("a", {60, 0});
        o.extend(a, 50);
        o.arrive("b", {70, 0});
        o.rules.forget_waiting();
        CHECK(o.rules.waiting() == 0);
        o.rules.leave(a.w);  // as what waited without a thread does in a forked child
        CHECK(o.rules.held() == budget_amount{});
        CHECK(o.rules.reserved().bytes == 60);
        o.arrive("c", {40, 0});
        o.end(a);
        CHECK(o.served == "ac");
        CHECK(o.rules.held() == budget_amount{});
    }

    TEST_CASE("goes on with a clock that jumps") {
        office o({100, 0});
        o.now     = admission_rules::time(10s);
        job& a    = o.arrive("a", {60, 0});
        job& late = o.arrive("l", {90, 0});
        o.now     = admission_rules::time(-10s);
        job& s    = o.arrive("s", {20, 0});  // nobody has waited long
        o.answer();
        CHECK(o.served == "as");
        o.end(a);
        o.end(s);
        CHECK(o.served == "asl");
        job& m = o.arrive("m", {20, 0});
        o.now  = admission_rules::time(100000h);
        job& n = o.arrive("n", {5, 0});  // though it would fit
        o.answer();
        CHECK(o.served == "asl");
        o.end(late);
        CHECK(o.served == "aslmn");
        CHECK(m.serial < n.serial);
    }

    // A job of nine tenths of the memory, among small ones of which there are always more.
    TEST_CASE("starts a large job within its aging bound, and keeps memory in use until then") {
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
            CAPTURE(seed);
            dice   random(seed);
            office o({1000, 0});
            using ending = std::pair<admission_rules::time, job*>;
            std::priority_queue<ending, std::vector<ending>, std::greater<>> running;
            job*                                                             large = nullptr;
            admission_rules::time                                            came{};
            double                                                           used = 0;
            auto const      small = [&] { return &o.arrive("s", {1 + random.below(20), 0}); };
            auto const      start = [&](job* j) { running.emplace(o.now + 1us + 1us * random.below(4000), j); };
            std::list<job*> lines;
            while (!large || !large->serial) {
                while (lines.size() < 50) lines.push_back(small());
                std::erase_if(lines, [&](job* j) {
                    if (j->serial) start(j);
                    return j->serial != 0;
                });
                if (!large && o.now > admission_rules::time(50ms)) {
                    came  = o.now;
                    large = &o.arrive("l", {900, 0});
                }
                REQUIRE(!running.empty());
                REQUIRE(o.now < admission_rules::time(10s));
                auto const [when, who] = running.top();
                running.pop();
                if (large)
                    used +=
                        static_cast<double>(o.rules.reserved().bytes) * static_cast<double>((when - o.now).count());
                o.now = when;
                o.end(*who);
            }
            CHECK(o.now - came >= aging);
            CHECK(o.now - came <= aging + 5ms);  // which is what the small ones take
            CHECK(used / static_cast<double>((o.now - came).count()) >= 950);
        }
    }

    // Two jobs that never end have one piece after the other done in a room of its own; so does a stream of others.
    TEST_CASE("starts one that has waited long in spite of streams, with room and without") {
        for (bool const has_room : {false, true}) {
            for (std::uint64_t seed = 0; seed < 20; ++seed) {
                CAPTURE(has_room);
                CAPTURE(seed);
                dice   random(seed);
                office o({1000, 0});
                job&   x     = o.arrive("x", {10, 0});
                job&   y     = o.arrive("y", {10, 0});
                using ending = std::pair<admission_rules::time, job*>;
                std::priority_queue<ending, std::vector<ending>, std::greater<>> running;
                std::vector<std::pair<job*, admission_rules::holder*>> lines(40);  // and who has them done
                for (std::size_t i = 0; i < lines.size(); ++i)
                    lines[i].second = has_room ? nullptr : i % 2 ? &x : &y;
                admission_rules::time came{};
                job*                  large = nullptr;
                while (!large || large->has.bytes < 900) {
                    for (auto& [j, by] : lines)
                        if (!j) {
                            std::vector<admission_rules::holder*> has;
                            if (by) has.push_back(by);
                            j = &o.arrive("s", {20 + random.below(30), 0}, 0, has);
                        }
                    o.answer();
                    for (auto& [j, by] : lines)
                        if (j->serial)
                            running.emplace(o.now + 1us + 1us * random.below(4000), std::exchange(j, nullptr));
                    if (!large && o.now > admission_rules::time(20ms)) {
                        came  = o.now;
                        large = has_room ? &x : &o.arrive("l", {900, 0});
                        if (has_room) o.extend(x, 900);
                    }
                    REQUIRE(o.now < admission_rules::time(10s));
                    if (running.empty()) continue;
                    auto const [when, who] = running.top();
                    running.pop();
                    o.now = when;
                    o.end(*who);
                }
                CHECK(y.serial != 0);
                CHECK(o.now - came <= aging + 5ms);
            }
        }
    }
}

namespace {

/// A thread that has rooms, each in the one before, and waits or goes on.
struct actor {
    std::vector<std::unique_ptr<job>> rooms{};
    job*                              waits = nullptr;
    std::uint64_t                     steps = 0;  ///< left
};

}  // namespace

TEST_SUITE("admission: random") {
    TEST_CASE("of jobs that hold and wait, none hangs, and none is refused while another can go on") {
        std::uint64_t const schedules = from_environment("TENURE_STEPS", TENURE_SANITIZED ? 2'000 : 20'000);
        std::uint64_t const first     = from_environment("TENURE_SEED", 1);
        std::uint64_t       refused = 0, granted = 0;
        for (std::uint64_t seed = first; seed < first + schedules; ++seed) {
            dice                  random(seed);
            std::size_t const     capacity = 100, cores = 4;
            bool const            with_cores = random.one_in(2);
            admission_rules       rules({capacity, cores}, 10ms);
            admission_rules::time now{};
            std::size_t const     baseline = random.below(20);
            rules.note_use(baseline);
            std::vector<actor> actors(2 + random.below(5));
            for (actor& a : actors) a.steps = 1 + random.below(12);
            bool sound = true;

            auto const has_any  = [](actor const& a) { return !a.rooms.empty() && a.rooms.front()->serial != 0; };
            auto const all_wait = [&] {
                return std::ranges::all_of(actors, [&](actor const& a) { return a.waits || !has_any(a); });
            };
            auto const all_wait_but = [&](actor const& one) {
                return std::ranges::all_of(actors,
                                           [&](actor const& a) { return &a == &one || a.waits || !has_any(a); });
            };
            /// Whether one fits once all have ended but those who wait, and `too`, who has just stopped to wait and
            /// got so much.
            auto const would_fit = [&](actor const& w, actor const* too = nullptr, budget_amount got = {}) {
                budget_amount held{rules.baseline(), 0};
                for (actor const& a : actors)
                    if (a.waits || &a == too)
                        for (auto const& j : a.rooms) held += j->has;
                held -= got;
                budget_amount const wants = w.waits->w.wants;  // what needs none of something does not wait for it
                return (wants.bytes == 0 || held.bytes + wants.bytes <= capacity) &&
                       (wants.cores == 0 || held.cores + wants.cores <= cores);
            };
            auto const has_aged = [&](actor const& a) { return a.waits && now - a.waits->w.since >= 10ms; };
            auto const is_older = [](actor const& a, admission_rules::waiter const& b) {
                return a.waits->w.serial < b.serial;
            };
            /// Nobody is before it that has waited as long, or it has room.
            auto const in_turn = [&](actor const& x) {
                return !x.waits->w.has.empty() || std::ranges::none_of(actors, [&](actor const& a) {
                    return has_aged(a) && is_older(a, x.waits->w);
                });
            };
            // Those who are refused give up all they have.
            auto const answer = [&](bool final) {
                actor* gives_up = nullptr;
                do {
                    gives_up = nullptr;
                    rules.answer(now, final, [&](admission_rules::waiter& w) {
                        auto const waits_so = [&](actor const& a) { return a.waits && &a.waits->w == &w; };
                        actor&     who      = *std::ranges::find_if(actors, waits_so);
                        who.waits           = nullptr;
                        ++(*w.answer == errc{} ? granted : refused);
                        if (*w.answer == errc{}) {
                            bool const none = final && all_wait_but(who);
                            for (actor const& a : actors)  // nobody passes one who has waited long and has a turn
                                if (has_aged(a) && is_older(a, w) && !rules.fits(a.waits->w.wants) && in_turn(a))
                                    sound = sound && (!would_fit(a, &who, w.wants) || none);
                            return;
                        }
                        who.waits      = who.rooms.back().get();
                        sound          = sound && final && *w.answer == errc::would_deadlock;
                        bool const all = all_wait();
                        for (actor const& a : actors)
                            if (a.waits && !a.waits->w.has.empty())
                                sound = sound && !rules.fits(a.waits->w.wants) && (all || !would_fit(a));
                        who.waits = nullptr;
                        gives_up  = &who;
                    });
                    while (gives_up && !gives_up->rooms.empty()) {
                        if (gives_up->rooms.back()->serial) rules.release(*gives_up->rooms.back());
                        gives_up->rooms.pop_back();
                    }
                } while (gives_up);
                // Of those who wait with room, none could be served and is not, and none waits for what never
                // comes.
                bool any = false, hope = false;
                for (actor const& x : actors) {
                    if (!x.waits || x.waits->w.has.empty()) continue;
                    bool const kept = std::ranges::any_of(actors, [&](actor const& a) {
                        return has_aged(a) && is_older(a, x.waits->w) && would_fit(a);
                    });
                    sound           = sound && (!rules.fits(x.waits->w.wants) || kept);
                    any             = true;
                    hope            = hope || would_fit(x);
                }
                sound = sound && (!final || !any || hope);
            };
            auto const step = [&](actor& a) {
                bool const          last  = --a.steps == 0;
                auto const          some  = with_cores ? random.below(cores + 1) : 0;
                auto const          bytes = some && random.one_in(3) ? 0 : 1 + random.below(capacity - baseline);
                budget_amount const wants{bytes, some};
                bool const          nest  = a.rooms.size() < 3 && random.one_in(2);
                auto const          holds = [&] {
                    std::vector<admission_rules::holder*> has;
                    for (auto const& j : a.rooms) has.push_back(j.get());
                    return has;
                };
                if (last || (!a.rooms.empty() && random.one_in(4))) {
                    do {
                        rules.release(*a.rooms.back());
                        a.rooms.pop_back();
                    } while (last && !a.rooms.empty());
                } else if (a.rooms.empty() || nest) {
                    auto has = holds();
                    job& j   = *a.rooms.emplace_back(std::make_unique<job>());
                    if (rules.try_grant(j, wants, [&] { return now; })) return;
                    j.w = {.wants = wants, .into = &j, .has = std::move(has)};
                    rules.wait(j.w, now);
                    a.waits = &j;
                } else {
                    job& j = *a.rooms.back();
                    if (!rules.is_possible({j.has.bytes + bytes, 0}) ||
                        rules.try_extend(j, {bytes, 0}, [&] { return now; }))
                        return;
                    j.w = {.wants = {bytes, 0}, .into = &j, .has = holds()};
                    rules.wait(j.w, now);
                    a.waits = &j;
                }
            };

            for (int idle = 0; idle < 2 && sound;) {
                now += 1ms * random.below(4);
                if (random.one_in(3)) rules.note_use(random.below(capacity));
                std::vector<actor*> can;
                for (actor& a : actors)
                    if (!a.waits && a.steps > 0) can.push_back(&a);
                if (can.empty()) {
                    if (std::ranges::all_of(actors, [](actor const& a) { return a.steps == 0; })) break;
                    rules.note_use(rules.reserved().bytes + baseline);  // all that nobody uses is given back
                    answer(true);
                    idle = std::ranges::any_of(actors, [](actor const& a) { return !a.waits && a.steps > 0; })
                               ? 0
                               : idle + 1;
                    continue;
                }
                actor& a = *can[random.below(can.size())];
                if (a.steps == 1 && a.rooms.empty()) a.steps = 0;
                else step(a);
                answer(random.one_in(2));

                budget_amount has;
                for (actor const& x : actors)
                    for (auto const& j : x.rooms) has += j->has;
                sound = sound && has == rules.reserved() && has.bytes + baseline <= capacity + baseline &&
                        has.cores <= cores;
            }
            bool const ended = std::ranges::all_of(actors, [](actor const& a) { return a.steps == 0; });
            CAPTURE(seed);
            REQUIRE(sound);
            REQUIRE(ended);
        }
        CHECK(granted > schedules);
        CHECK(refused > schedules / 20);
    }
}
