// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <tenure/arbiter.hpp>
#include <tenure/batch_scope.hpp>

#include "random/dice.hpp"
#include "small_cgroup.hpp"
#include "soon.hpp"
#include "temporary.hpp"
#include "throws.hpp"

namespace {

using namespace std::chrono_literals;
using tenure::budget_options;
using tenure::errc;
using tenure::machine_arbiter;
using tenure::machine_figures;
using tenure::memory_budget;
using tenure::memory_use;
using tenure::reservation;
using tenure::share_options;

constexpr std::size_t MiB = 1 << 20;

#if defined(__SANITIZE_THREAD__)
constexpr bool thread_sanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool thread_sanitizer = true;
#else
constexpr bool thread_sanitizer = false;
#endif
#else
constexpr bool thread_sanitizer = false;
#endif

/// A machine of 1,000 MiB and 8 cores, of which nobody uses any memory but what is reserved.
struct machine {
    temporary_directory where;
    machine_arbiter     arbiter{options()};

    tenure::arbiter_options options() const {
        return {.directory = where.path(), .bytes = 1000 * MiB, .cores = 8, .period = 5ms, .grace = 200ms};
    }
    static budget_options own() {
        budget_options o;
        o.sample_age = 1ms;
        o.in_use     = [] { return memory_use{}; };
        return o;
    }
    memory_budget budget(share_options const& mine = {}) const { return {arbiter, mine, own()}; }

    /// The same machine, in which others have more time to give something back.
    machine_arbiter with_grace(std::chrono::nanoseconds grace) const {
        tenure::arbiter_options o = options();
        o.grace                   = grace;
        return machine_arbiter(o);
    }

    std::size_t files() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(where.path()), {}));
    }
    machine_figures::member of(std::string const& job) const { return of(job, arbiter.figures()); }

    /// Of figures of one moment: those of two do not add up, while they change.
    static machine_figures::member of(std::string const& job, machine_figures const& all) {
        auto const found = std::ranges::find(all.members, job, &machine_figures::member::job);
        return found == all.members.end() ? machine_figures::member() : *found;
    }
};

/// Returns the code with which it fails.
std::error_code code_of(std::function<void()> const& f) {
    try {
        f();
    } catch (tenure::error const& e) {
        return e.code();
    }
    return {};
}

/// Room that is reserved in pieces of so many bytes.
struct rooms {
    memory_budget*           from;
    std::size_t              piece;
    std::vector<reservation> all{};

    /// Reserves one more. Returns false if there is no room for it by `timeout`.
    bool grow(std::chrono::nanoseconds timeout = 10s) {
        try {
            all.push_back(from->reserve({.kind = "piece", .bytes = piece, .timeout = timeout}));
            return true;
        } catch (tenure::error const& e) {
            if (e.code() != errc::timed_out) throw;
            return false;
        }
    }
};

/// Another process, which does it and then says so, and lives until it is killed or told to go.
class other_process {
public:
    explicit other_process(std::function<void()> const& work) {
        int ready[2], go[2];
        REQUIRE(::pipe(ready) == 0);
        REQUIRE(::pipe(go) == 0);
        pid_ = ::fork();
        if (pid_ == 0) {
            ::close(ready[0]);
            ::close(go[1]);
            char c = 'x';
            try {
                work();
            } catch (std::exception const& e) {
                std::fprintf(stderr, "other process: %s\n", e.what());
                c = 'e';
            }
            if (::write(ready[1], &c, 1) == 1) static_cast<void>(::read(go[0], &c, 1) == 1);
            ::_exit(0);
        }
        ::close(ready[1]);
        ::close(go[0]);
        char c = 'e';
        CHECK(::read(ready[0], &c, 1) == 1);
        CHECK(c == 'x');
        ::close(ready[0]);
        go_ = go[1];
    }
    ~other_process() { stop(SIGKILL); }
    other_process(other_process const&)            = delete;
    other_process& operator=(other_process const&) = delete;

    void stop(int signal) {
        if (pid_ <= 0) return;
        ::kill(pid_, signal);
        ::close(go_);
        ::waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }

private:
    ::pid_t pid_ = 0;
    int     go_  = -1;
};

}  // namespace

TEST_SUITE("a machine that is shared") {
    TEST_CASE_FIXTURE(machine, "one alone has what it wants, up to all there is") {
        memory_budget b    = budget({.job = "alone"});
        auto          room = b.reserve({.kind = "most", .bytes = 900 * MiB, .cores = 7, .timeout = 10s});
        CHECK(room.bytes() == 900 * MiB);
        CHECK(of("alone").has >= 900 * MiB);
        CHECK(of("alone").has <= 1000 * MiB);
        CHECK(of("alone").cores >= 7);
        CHECK(arbiter.figures().bytes == 1000 * MiB);
        check_throws(errc::limit_exceeded, {"1048576 more than there are"},
                     [&] { b.reserve({.kind = "more", .bytes = 1001 * MiB}); });
        check_throws(errc::limit_exceeded, {"9 cores", "of 8"}, [&] { b.reserve({.kind = "cores", .cores = 9}); });
    }

    TEST_CASE_FIXTURE(machine, "what one does not use goes to another who wants it, at once") {
        memory_budget a = budget({.job = "a"});
        a.reserve({.kind = "most", .bytes = 900 * MiB, .timeout = 10s}).release();
        CHECK(of("a").has >= 900 * MiB);  // in hand, while nobody lacks it
        memory_budget b    = budget({.job = "b"});
        auto          room = b.reserve({.kind = "most", .bytes = 950 * MiB, .timeout = 10s});
        CHECK(of("b").has >= 950 * MiB);
        CHECK(of("a").has <= 50 * MiB);
        room.release();
        auto back = a.reserve({.kind = "most", .timeout = 10s});
        CHECK(of("a").has >= 900 * MiB);
    }

    TEST_CASE_FIXTURE(machine, "who tries without waiting comes to have it, too") {
        memory_budget a = budget({.job = "a"}), b = budget({.job = "b"});
        a.reserve({.kind = "all", .bytes = 1000 * MiB, .timeout = 10s}).release();
        std::optional<reservation> room;
        CHECK(soon([&] {
            auto r = b.try_reserve({.kind = "most", .bytes = 900 * MiB});
            if (r) room = *r;
            return r.has_value();
        }));
    }

    TEST_CASE_FIXTURE(machine, "two that want all come to have half each, as what one has becomes free") {
        memory_budget a = budget({.job = "a"}), b = budget({.job = "b"});
        rooms         of_a{&a, 100 * MiB}, of_b{&b, 100 * MiB};
        for (int i = 0; i < 9; ++i) REQUIRE(of_a.grow());
        std::atomic<std::size_t> got{0};
        std::atomic<bool>        stop{false};
        std::thread              hungry([&] {
            while (!stop)
                if (of_b.grow(50ms)) ++got;
        });
        CHECK(soon([&] { return of("b").has >= 90 * MiB; }));
        std::atomic<bool> a_wants{true};
        std::thread       also([&] {
            rooms more{&a, 100 * MiB};
            while (a_wants) more.grow(20ms), more.all.clear();
        });
        for (int i = 0; i < 4; ++i) of_a.all.pop_back(), std::this_thread::sleep_for(20ms);
        CHECK(soon([&] { return got >= 4; }));
        std::this_thread::sleep_for(50ms);
        CHECK(got <= 5);
        a_wants = false;
        also.join();
        of_a.all.clear();  // and all, when the other wants nothing
        CHECK(soon([&] { return got >= 9; }));
        stop = true;
        hungry.join();
    }

    TEST_CASE_FIXTURE(machine, "a job has its weight and its floor against others of its user") {
        memory_budget a = budget({.job = "a", .weight = 3}), b = budget({.job = "b", .floor = 400 * MiB});
        rooms         of_a{&a, 50 * MiB}, of_b{&b, 50 * MiB};
        auto const    fill = [](rooms& r, std::atomic<bool>& stop) {
            while (!stop) r.grow(20ms);
        };
        std::atomic<bool>       stop{false};
        std::thread             first([&] { fill(of_a, stop); }), second([&] { fill(of_b, stop); });
        machine_figures::member x, y;
        CHECK(soon([&] {
            machine_figures const now = arbiter.figures();
            x = of("a", now), y = of("b", now);
            return x.has + y.has > 950 * MiB;
        }));
        stop = true;
        first.join();
        second.join();
        CHECK(y.fair >= std::min<std::size_t>(y.desired, 400 * MiB));
        CHECK(x.fair + y.fair <= 1000 * MiB);
        CHECK(code_of([&] { budget({.weight = 0}); }) == std::errc::invalid_argument);
        CHECK(code_of([&] { budget({.weight = -1}); }) == std::errc::invalid_argument);
        CHECK(code_of([&] { budget({.weight = std::numeric_limits<double>::quiet_NaN()}); }) ==
              std::errc::invalid_argument);
    }

    TEST_CASE_FIXTURE(machine, "others that lack memory have a budget give back what it can") {
        std::atomic<std::size_t> asked{0}, used{900 * MiB};
        budget_options           o = own();
        o.in_use                   = [&] { return memory_use{.in_use = used}; };
        o.relieve                  = [&](std::size_t bytes) {
            asked = bytes;
            used  = 100 * MiB;
        };
        memory_budget a{arbiter, {.job = "a"}, o};
        CHECK(soon([&] { return of("a").has >= 900 * MiB; }));
        memory_budget b    = budget({.job = "b"});
        auto const    room = b.reserve({.kind = "half", .bytes = 500 * MiB, .timeout = 10s});
        CHECK(asked >= 400 * MiB - 1);
        CHECK(of("a").has <= 500 * MiB);
    }

    TEST_CASE_FIXTURE(machine, "a budget that has too much grants nothing, and keeps what its jobs have") {
        memory_budget a = budget({.job = "a"});
        rooms         of_a{&a, 100 * MiB};
        for (int i = 0; i < 9; ++i) REQUIRE(of_a.grow());
        memory_budget     b = budget({.job = "b"});
        std::atomic<bool> stop{false};
        std::thread       hungry([&] {
            rooms of_b{&b, 400 * MiB};
            while (!stop && !of_b.grow(50ms)) {}
        });
        CHECK(soon([&] { return a.figures().capacity <= 901 * MiB; }));
        CHECK(a.try_reserve({.kind = "small", .bytes = 2 * MiB}).error() == errc::timed_out);
        for (int i = 0; i < 20; ++i) {  // what its jobs have is still its
            CHECK(of("a").has >= 900 * MiB);
            std::this_thread::sleep_for(5ms);
        }
        stop = true;
        hungry.join();
    }

    TEST_CASE("a share does not shrink below what was granted in between") {
        auto const core = std::make_shared<tenure::detail::budget_core>(machine::own());
        auto const room = std::make_shared<tenure::detail::lent_room>(core);
        REQUIRE(core->begin(*room, {.kind = "in between", .bytes = 100 * MiB, .cores = 2}, nullptr) == errc{});
        CHECK(core->shrink_share({10 * MiB, 1}) == tenure::detail::budget_amount{100 * MiB, 2});
        CHECK(core->shrink_share({300 * MiB, 3}) == tenure::detail::budget_amount{100 * MiB, 2});  // nor grow
        core->set_share({.has = {10 * MiB, 1}, .most = {300 * MiB, 3}});
        CHECK(core->shrink_share({50 * MiB, 1}) == tenure::detail::budget_amount{10 * MiB, 1});
    }

    TEST_CASE("a share never becomes more than the others were told, though jobs use more than that") {
        std::size_t    used = 0;
        budget_options o    = machine::own();
        o.in_use            = [&] { return memory_use{.in_use = used}; };
        auto const core     = std::make_shared<tenure::detail::budget_core>(o);
        auto const room     = std::make_shared<tenure::detail::lent_room>(core);
        core->set_share({.has = {500 * MiB, 2}, .most = {1000 * MiB, 2}});
        REQUIRE(core->begin(*room, {.kind = "grows", .bytes = 500 * MiB, .cores = 2}, nullptr) == errc{});
        used = 600 * MiB;
        REQUIRE(soon([&] { return core->figures().in_use == used; }));
        CHECK(core->shrink_share({400 * MiB, 1}) == tenure::detail::budget_amount{500 * MiB, 2});
    }

    TEST_CASE("what a job's end gave back to others stays theirs when a round goes by what was before") {
        struct source final : tenure::detail::capacity_source {
            source() { set_others_lack(true); }
            void wake() noexcept override {}
        };
        auto const core = std::make_shared<tenure::detail::budget_core>(machine::own());
        auto const room = std::make_shared<tenure::detail::lent_room>(core);
        core->take_share(std::make_unique<source>());
        tenure::detail::capacity_share const all{
            .has = {900 * MiB, 2}, .most = {1000 * MiB, 2}, .stays = {450 * MiB, 2}};
        core->set_share(all);
        REQUIRE(core->begin(*room, {.kind = "most", .bytes = 900 * MiB}, nullptr) == errc{});
        CHECK(core->demands().taken.bytes == 900 * MiB);
        core->end(*room, 0);
        CHECK(core->figures().capacity == 450 * MiB);
        core->set_share(all);
        CHECK(core->figures().capacity == 450 * MiB);
        CHECK(core->demands().taken.bytes == 0);
        core->set_share(all);
        CHECK(core->figures().capacity == 900 * MiB);
    }

    TEST_CASE_FIXTURE(machine, "cores are shared as memory is") {
        memory_budget a = budget({.job = "a"}), b = budget({.job = "b"});
        auto          all = a.reserve({.kind = "all", .cores = 8, .timeout = 10s});
        std::thread   free([&] {
            std::this_thread::sleep_for(20ms);
            all.release();
        });
        auto const    most = b.reserve({.kind = "most", .cores = 6, .timeout = 10s});
        free.join();
        auto const rest = a.reserve({.kind = "rest", .cores = 2, .timeout = 10s});
        CHECK(a.try_reserve({.kind = "one", .cores = 1}).error() == errc::timed_out);
        machine_figures now;
        CHECK(tenure::detail::share_directory(where.path()).alone([&] { now = arbiter.figures(); }, 10s));
        CHECK(of("a", now).cores + of("b", now).cores <= 8);
    }

    TEST_CASE_FIXTURE(machine, "one core goes round among all who want it") {
        tenure::arbiter_options o = options();
        o.cores                   = 1;
        machine_arbiter const one(o);
        std::atomic<int>      turns[3]{};
        std::atomic<bool>     stop{false};
        {
            std::vector<std::jthread> all;
            for (std::atomic<int>& mine : turns)
                all.emplace_back([&] {
                    memory_budget b{one, {.job = "job"}, own()};
                    while (!stop) {
                        auto const core = b.try_reserve({.kind = "turn", .cores = 1});
                        if (core) ++mine;
                        std::this_thread::sleep_for(1ms);
                    }
                });
            CHECK(soon([&] { return std::ranges::all_of(turns, [](auto& n) { return n >= 5; }); }));
            stop = true;
        }
    }

    TEST_CASE_FIXTURE(machine, "jobs that are larger than a share start in turn, and all get on") {
        std::atomic<int>          turns[4]{};
        std::atomic<bool>         stop{false};
        std::vector<std::jthread> all;
        for (std::atomic<int>& mine : turns)
            all.emplace_back([&] {
                memory_budget b = budget({.job = "job"});
                while (!stop) {
                    rooms r{&b, 600 * MiB};
                    if (r.grow(100ms)) ++mine;
                }
            });
        auto const all_have = [&](int n) {
            return soon([&] { return std::ranges::all_of(turns, [&](auto& t) { return t >= n; }); });
        };
        CHECK(all_have(1));
        for (std::atomic<int>& n : turns) n = 0;  // the first was alone for a while
        CHECK(all_have(20));
        int most = 0;
        for (std::atomic<int>& n : turns) most = std::max<int>(most, n);
        CHECK(most <= 2000);
        stop = true;
    }

    TEST_CASE_FIXTURE(machine, "a job for which there will never be enough keeps nobody from starting") {
        auto const using_bytes = [&](char const* job, std::size_t bytes) {
            budget_options o = own();
            o.in_use         = [=] { return memory_use{.in_use = bytes}; };
            return memory_budget{arbiter, {.job = job}, o};
        };
        memory_budget a = using_bytes("a", 40 * MiB), b = using_bytes("b", 60 * MiB),
                      c = using_bytes("c", 60 * MiB);
        std::jthread const never([&](std::stop_token stop) {
            CHECK(code_of([&] {
                      static_cast<void>(a.reserve({.kind = "most", .bytes = 980 * MiB, .timeout = 60s}, stop));
                  }) == errc::cancelled);
        });
        CHECK(soon([&] { return of("a").desired == 1000 * MiB; }));
        auto const start = [](memory_budget& in) {
            CHECK(in.reserve({.kind = "less", .bytes = 400 * MiB, .timeout = 10s}).bytes() == 400 * MiB);
        };
        std::thread other([&] { start(c); });
        start(b);
        other.join();
    }

    TEST_CASE_FIXTURE(machine, "who tries without waiting comes to its turn among others that wait") {
        memory_budget     a = budget({.job = "a"}), b = budget({.job = "b"}), c = budget({.job = "c"});
        std::atomic<bool> stop{false};
        auto const        run = [&](memory_budget& in) {
            while (!stop) {
                auto const room = in.reserve({.kind = "job", .bytes = 400 * MiB, .timeout = 10s});
                std::this_thread::sleep_for(5ms);
            }
        };
        std::thread of_b([&] { run(b); }), of_c([&] { run(c); });
        bool        had = false;
        for (int i = 0; i < 100 && !had; ++i) {
            std::this_thread::sleep_for(20ms);
            had = a.try_reserve({.kind = "job", .bytes = 400 * MiB}).has_value();
        }
        stop = true;
        of_b.join();
        of_c.join();
        CHECK(had);
    }

    TEST_CASE_FIXTURE(machine,
                      "who tries without waiting keeps its turn once it has enough, until it tries again") {
        memory_budget a = budget({.job = "a"}), b = budget({.job = "b"}), c = budget({.job = "c"});
        auto          all = c.reserve({.kind = "all", .bytes = 700 * MiB, .timeout = 10s});
        // Nobody's next job fits into its share, so it goes by who has waited longest: a.
        auto const try_it = [&] { return a.try_reserve({.kind = "job", .bytes = 400 * MiB}); };
        CHECK(!try_it());
        CHECK(soon([&] { return of("a").desired >= 400 * MiB; }));
        auto const more = [&](memory_budget& in) {
            return std::jthread([&] {
                auto const room = in.reserve({.kind = "more", .bytes = 650 * MiB, .timeout = 10s});
                std::this_thread::sleep_for(500ms);
            });
        };
        std::jthread const of_b = more(b), of_c = more(c);
        CHECK(soon([&] {
            static_cast<void>(try_it());  // it still wants it
            return of("b").desired >= 650 * MiB && of("c").desired >= 1000 * MiB;
        }));
        all.release();
        CHECK(soon([&] { return of("a").has >= 400 * MiB; }));
        std::this_thread::sleep_for(50ms);  // ten rounds; that it tried counts for 100
        CHECK(try_it());
    }

    TEST_CASE_FIXTURE(machine, "a job that needs more to end comes before one that has not started") {
        memory_budget      a = budget({.job = "a"}), b = budget({.job = "b"}), c = budget({.job = "c"});
        auto               mine = a.reserve({.kind = "mine", .bytes = 600 * MiB, .timeout = 10s});
        auto               hold = c.reserve({.kind = "hold", .bytes = 300 * MiB, .timeout = 10s});
        std::jthread const waits([&] { b.reserve({.kind = "large", .bytes = 700 * MiB, .timeout = 10s}); });
        CHECK(soon([&] { return of("b").has >= 90 * MiB; }));  // kept for it
        tenure::batch_scope const job{{.reservation = mine}};
        auto const                more = a.reserve({.kind = "more", .bytes = 50 * MiB, .timeout = 10s});
        CHECK(more.bytes() == 50 * MiB);
        mine.release();
        hold.release();
    }

    TEST_CASE_FIXTURE(machine, "the least of what members say is there counts") {
        memory_budget           a = budget();
        tenure::arbiter_options o = options();
        o.bytes                   = 300 * MiB;
        machine_arbiter const less(o);
        memory_budget         b{less, {.job = "b"}, own()};
        CHECK(soon([&] {
            return !a.try_reserve({.kind = "x", .bytes = 301 * MiB}) &&
                   a.try_reserve({.kind = "x", .bytes = 301 * MiB}).error() == errc::limit_exceeded;
        }));
        CHECK(a.reserve({.kind = "y", .bytes = 290 * MiB, .timeout = 10s}).bytes() == 290 * MiB);
    }

    TEST_CASE_FIXTURE(machine,
                      "jobs that wait for each other are told when others had time to end, and not before") {
        memory_budget a = budget({.job = "a"}), b = budget({.job = "b"});
        auto          theirs = b.reserve({.kind = "theirs", .bytes = 500 * MiB, .timeout = 10s});
        auto          mine   = a.reserve({.kind = "mine", .bytes = 400 * MiB, .timeout = 10s});
        {
            tenure::batch_scope const job{{.reservation = mine}};
            std::thread               end([&] {
                std::this_thread::sleep_for(50ms);
                theirs.release();
            });
            auto const                more = a.reserve({.kind = "more", .bytes = 300 * MiB, .timeout = 10s});
            CHECK(more.bytes() == 300 * MiB);
            end.join();
        }
        theirs = b.reserve({.kind = "theirs", .bytes = 500 * MiB, .timeout = 10s});
        std::this_thread::sleep_for(20ms);  // the clock that says who is younger is a coarse one
        mine = a.reserve({.kind = "mine", .bytes = 400 * MiB, .timeout = 10s});
        std::jthread const waits([&] {
            tenure::batch_scope const other{{.reservation = theirs}};
            CHECK(b.reserve({.kind = "more", .bytes = 300 * MiB, .timeout = 10s}).bytes() == 300 * MiB);
        });
        CHECK(soon([&] { return b.figures().waiting == 1; }));
        tenure::batch_scope const job{{.reservation = std::move(mine)}};
        check_throws(errc::would_deadlock, {},
                     [&] { a.reserve({.kind = "more", .bytes = 300 * MiB, .timeout = 10s}); });
    }

    TEST_CASE_FIXTURE(machine, "a job that needs more waits while others give back what none of their jobs has") {
        std::atomic<std::size_t> used{600 * MiB};
        budget_options           o = own();
        o.in_use                   = [&] { return memory_use{.in_use = used}; };
        o.relieve                  = [&](std::size_t) {
            std::this_thread::sleep_for(50ms);
            used = 100 * MiB;
        };
        machine_arbiter const patient = with_grace(3s);
        memory_budget         b{patient, {.job = "b"}, o};
        memory_budget         a{patient, {.job = "a"}, own()};
        auto                  mine = a.reserve({.kind = "mine", .bytes = 300 * MiB, .timeout = 10s});
        CHECK(soon([&] { return of("b").has >= 600 * MiB; }));
        tenure::batch_scope const job{{.reservation = std::move(mine)}};
        CHECK(a.reserve({.kind = "more", .bytes = 400 * MiB, .timeout = 10s}).bytes() == 400 * MiB);
    }

    TEST_CASE_FIXTURE(machine, "a job that waits for one elsewhere, which goes on, is not told of a deadlock") {
        memory_budget             a = budget({.job = "a"}), b = budget({.job = "b"});
        auto const                theirs = b.reserve({.kind = "theirs", .bytes = 500 * MiB, .timeout = 10s});
        auto const                mine   = a.reserve({.kind = "mine", .bytes = 400 * MiB, .timeout = 10s});
        tenure::batch_scope const job{{.reservation = mine}};
        auto const                before = std::chrono::steady_clock::now();
        check_throws(errc::timed_out, {},
                     [&] { a.reserve({.kind = "more", .bytes = 300 * MiB, .timeout = 5 * options().grace}); });
        CHECK(std::chrono::steady_clock::now() - before >= 5 * options().grace);
    }

    TEST_CASE_FIXTURE(machine, "one that has long waited for another is not told when that begins to wait, too") {
        machine_arbiter const patient = with_grace(1s);
        memory_budget         old{patient, {.job = "old"}, own()}, young{patient, {.job = "young"}, own()};
        auto                  of_old = old.reserve({.kind = "holds", .bytes = 500 * MiB, .timeout = 10s});
        std::this_thread::sleep_for(20ms);  // the clock that says who is younger is a coarse one
        auto               of_young = young.reserve({.kind = "holds", .bytes = 400 * MiB, .timeout = 10s});
        std::jthread const waits([&] {
            tenure::batch_scope const job{{.reservation = std::move(of_old)}};
            CHECK(old.reserve({.kind = "more", .bytes = 300 * MiB, .timeout = 20s}).bytes() == 300 * MiB);
        });
        std::this_thread::sleep_for(2500ms);
        tenure::batch_scope const job{{.reservation = std::move(of_young)}};
        CHECK(young.reserve({.kind = "little", .bytes = 50 * MiB, .timeout = 10s}).bytes() == 50 * MiB);  // fits
        check_throws(errc::would_deadlock, {},
                     [&] { young.reserve({.kind = "more", .bytes = 300 * MiB, .timeout = 20s}); });
    }

    TEST_CASE_FIXTURE(machine, "a job is not told of a deadlock while another of its process goes on") {
        memory_budget a = budget({.job = "a"}), b = budget({.job = "b"});
        auto          waits_in_b = b.reserve({.kind = "holds", .bytes = 400 * MiB, .timeout = 10s});
        std::this_thread::sleep_for(20ms);
        auto               waits_in_a = a.reserve({.kind = "holds", .bytes = 400 * MiB, .timeout = 10s});
        auto               goes_on    = a.reserve({.kind = "goes on", .bytes = 100 * MiB, .timeout = 10s});
        std::jthread const other([&] {
            tenure::batch_scope const job{{.reservation = std::move(waits_in_b)}};
            CHECK(b.reserve({.kind = "more", .bytes = 190 * MiB, .timeout = 10s}).bytes() == 190 * MiB);
        });
        std::jthread const end([&] {
            std::this_thread::sleep_for(8 * options().grace);
            goes_on.release();
        });
        CHECK(soon([&] { return b.figures().waiting == 1; }));
        tenure::batch_scope const job{{.reservation = std::move(waits_in_a)}};
        CHECK(a.reserve({.kind = "more", .bytes = 190 * MiB, .timeout = 10s}).bytes() == 190 * MiB);
    }

    TEST_CASE_FIXTURE(machine,
                      "of jobs of several processes that wait for each other, the youngest alone is told") {
        memory_budget             idle    = budget({.job = "idle"});
        auto const                goes_on = idle.reserve({.kind = "small", .bytes = 10 * MiB, .timeout = 10s});
        machine_arbiter const     patient = with_grace(1s);
        std::deque<memory_budget> all;
        std::vector<reservation>  rooms;
        for (std::size_t i = 0; i < 3; ++i) {
            all.emplace_back(patient, share_options{.job = "waits"}, own());
            rooms.push_back(all[i].reserve({.kind = "holds", .bytes = 325 * MiB, .timeout = 10s}));
            std::this_thread::sleep_for(20ms);  // the clock that says who is younger is a coarse one
        }
        std::array<std::error_code, 3> got;
        {
            std::vector<std::jthread> jobs;
            for (std::size_t const i : {2u, 0u, 1u})
                jobs.emplace_back([&, i] {
                    tenure::batch_scope const job{{.reservation = std::move(rooms[i])}};
                    got[i] = code_of([&] { all[i].reserve({.kind = "more", .bytes = 100 * MiB, .timeout = 10s}); });
                });
        }
        CHECK(got[0] == std::error_code());
        CHECK(got[1] == std::error_code());
        CHECK(got[2] == errc::would_deadlock);
    }
}

TEST_SUITE("processes that share a machine") {
    TEST_CASE_FIXTURE(machine, "one that is killed gives its share back at once") {
        std::optional<memory_budget> theirs;
        std::optional<reservation>   held;
        other_process                p([&] {
            theirs.emplace(arbiter, share_options{.job = "theirs"}, own());
            held = theirs->reserve({.kind = "most", .bytes = 900 * MiB, .timeout = 10s});
        });
        memory_budget                b = budget({.job = "b"});
        CHECK(soon([&] { return of("theirs").has >= 900 * MiB; }));
        CHECK(b.try_reserve({.kind = "most", .bytes = 900 * MiB}).error() == errc::timed_out);
        p.stop(SIGKILL);
        CHECK(b.reserve({.kind = "most", .bytes = 900 * MiB, .timeout = 10s}).bytes() == 900 * MiB);
        CHECK(files() == 1);  // what it left is swept
    }

    TEST_CASE_FIXTURE(machine, "one that is killed has no share, though another waits to lock its file") {
        std::optional<memory_budget> theirs;
        other_process                p([&] { theirs.emplace(arbiter, share_options{.job = "theirs"}, own()); });
        CHECK(soon([&] { return of("theirs").job == "theirs"; }));
        REQUIRE(files() == 1);
        std::string const file = std::filesystem::directory_iterator(where.path())->path().string();
        int const         fd   = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
        REQUIRE(fd >= 0);
        std::thread waits([&] {
            struct ::flock l{};
            l.l_type   = F_RDLCK;
            l.l_whence = SEEK_SET;
            CHECK(::fcntl(fd, F_OFD_SETLKW, &l) == 0);
        });
        p.stop(SIGKILL);
        waits.join();  // it has the lock now
        CHECK(of("theirs").job.empty());
        memory_budget b = budget({.job = "b"});
        CHECK(soon([&] { return files() == 1 && !std::filesystem::exists(file); }));
        ::close(fd);
    }

    TEST_CASE_FIXTURE(machine, "a child has no share, and does not keep its parent's") {
        if (thread_sanitizer) {
            MESSAGE("skipped: under the thread sanitizer a child of many threads cannot start any");
            return;
        }
        std::optional<memory_budget> theirs;
        std::optional<reservation>   held;
        int                          of_child[2], of_test[2];
        REQUIRE(::pipe(of_child) == 0);
        REQUIRE(::pipe(of_test) == 0);
        other_process p([&] {
            theirs.emplace(arbiter, share_options{.job = "theirs"}, own());
            held = theirs->reserve({.kind = "most", .bytes = 900 * MiB, .timeout = 10s});
            ::close(of_test[1]);
            auto const file = std::filesystem::directory_iterator(where.path())->path();
            if (::fork() == 0) {
                bool const stays = std::filesystem::exists(file);  // it is the parent's
                bool const none =
                    stays && theirs->try_reserve({.kind = "x", .bytes = 1}).error() == errc::limit_exceeded;
                memory_budget own_one{arbiter, {.job = "child"}, own()};
                char          c = none && own_one.reserve({.kind = "x", .bytes = 1, .timeout = 10s}) ? 'y' : 'n';
                static_cast<void>(::write(of_child[1], &c, 1) == 1);
                static_cast<void>(::read(of_test[0], &c, 1) == 1);  // until the test closes its end
                held.reset();
                theirs.reset();
                static_cast<void>(::write(of_child[1], &c, 1) == 1);
                ::_exit(0);
            }
        });
        char          c = 0;
        CHECK(::read(of_child[0], &c, 1) == 1);
        CHECK(c == 'y');
        CHECK(of("child").job == "child");
        CHECK(of("theirs").has >= 900 * MiB);
        p.stop(SIGKILL);
        memory_budget b = budget({.job = "b"});
        CHECK(b.reserve({.kind = "most", .bytes = 900 * MiB, .timeout = 10s}).bytes() == 900 * MiB);
        ::close(of_test[1]);
        CHECK(::read(of_child[0], &c, 1) == 1);
        CHECK(of("b").has >= 900 * MiB);
        for (int const fd : {of_child[0], of_child[1], of_test[0]}) ::close(fd);
    }

    TEST_CASE_FIXTURE(machine, "processes of other PID namespaces, which have one number, share as others do") {
        if (thread_sanitizer) {
            MESSAGE("skipped: under the thread sanitizer a child of many threads cannot start any");
            return;
        }
        ::pid_t const tries = ::fork();
        if (tries == 0) ::_exit(::unshare(CLONE_NEWPID) == 0 ? 0 : 1);
        int status = 1;
        ::waitpid(tries, &status, 0);
        if (status != 0) {
            MESSAGE("skipped: a test may not make a PID namespace here");
            return;
        }
        std::optional<memory_budget> theirs;
        std::optional<reservation>   held;
        auto const                   first_of_a_namespace = [&](char const* job) {
            int ready[2];
            if (::unshare(CLONE_NEWPID) != 0 || ::pipe(ready) != 0) throw std::runtime_error("no PID namespace");
            if (::fork() == 0) {
                ::prctl(PR_SET_PDEATHSIG, SIGKILL);
                theirs.emplace(arbiter, share_options{.job = job}, own());
                held = theirs->reserve({.kind = "most", .bytes = 450 * MiB, .timeout = 10s});
                char const c = ::getpid() == 1 ? 'x' : 'e';
                static_cast<void>(::write(ready[1], &c, 1) == 1);
                for (;;) ::pause();
            }
            char c = 'e';
            if (::read(ready[0], &c, 1) != 1 || c != 'x') throw std::runtime_error("is not its first process");
        };
        other_process one([&] { first_of_a_namespace("one"); });
        other_process two([&] { first_of_a_namespace("two"); });
        CHECK(soon([&] { return of("one").has >= 450 * MiB && of("two").has >= 450 * MiB; }));
        memory_budget b = budget({.job = "b"});
        CHECK(b.try_reserve({.kind = "most", .bytes = 450 * MiB}).error() == errc::timed_out);
        one.stop(SIGKILL);
        CHECK(b.reserve({.kind = "most", .bytes = 450 * MiB, .timeout = 10s}).bytes() == 450 * MiB);
        CHECK(of("two").has >= 450 * MiB);
    }

    TEST_CASE_FIXTURE(machine, "many that come, want, end and are killed never have more than there is") {
        constexpr std::size_t count  = 6;
        std::uint64_t const   rounds = from_environment("TENURE_STEPS", TENURE_SANITIZED ? 10 : 40);
        dice                  random(from_environment("TENURE_SEED", 1));
        std::vector<::pid_t>  all(count, 0);
        auto const            start = [&](std::uint64_t seed) {
            ::pid_t const pid = ::fork();
            if (pid != 0) return pid;
            dice          d(seed);
            memory_budget b{arbiter, {.job = "worker"}, own()};
            for (;;) {
                auto const room = b.try_reserve({.kind = "r", .bytes = (1 + d.below(500)) * MiB});
                if (!room) {
                    rooms r{&b, (1 + d.below(500)) * MiB};
                    r.grow(20ms);
                }
                std::this_thread::sleep_for(std::chrono::milliseconds(d.below(4)));
            }
        };
        for (::pid_t& p : all) p = start(random());
        for (std::uint64_t i = 0; i < rounds; ++i) {
            std::this_thread::sleep_for(10ms);
            std::size_t                     sum = 0;
            tenure::detail::share_directory here(where.path());
            CHECK(here.alone(
                [&] {  // nobody grows while it is read
                    for (auto const& m : here.read().members) sum += m.status.has.bytes;
                },
                10s));
            CHECK(sum <= 1000 * MiB);
            ::pid_t& p = all[random.below(count)];
            ::kill(p, SIGKILL);
            ::waitpid(p, nullptr, 0);
            p = start(random());
        }
        memory_budget b = budget({.job = "last"});
        CHECK(b.reserve({.kind = "some", .bytes = 100 * MiB, .timeout = 10s}).bytes() == 100 * MiB);
        for (::pid_t const p : all) ::kill(p, SIGKILL);
        for (::pid_t const p : all) ::waitpid(p, nullptr, 0);
        CHECK(b.reserve({.kind = "all", .bytes = 890 * MiB, .timeout = 10s}).bytes() == 890 * MiB);
    }

    TEST_CASE_FIXTURE(machine, "what is reserved while a budget waits for its turn to grow stays its share") {
        memory_budget a = budget({.job = "a"}), b = budget({.job = "b"});
        int           tried = 0;
        for (int i = 0; i < 20 && tried < 10; ++i) {
            static_cast<void>(a.reserve({.kind = "most", .bytes = 900 * MiB, .timeout = 10s}));
            auto        room = tenure::result<reservation>(errc::timed_out);
            std::thread hungry;
            CHECK(tenure::detail::share_directory(where.path()).alone([&] {
                std::ofstream(where.path() / "share-of_a_dead_one");  // which all want to sweep, alone
                std::this_thread::sleep_for(2ms);
                room   = a.try_reserve({.kind = "most", .bytes = 900 * MiB});
                hungry = std::thread([&] {
                    if (!room) return;  // another lacked something still
                    rooms of_b{&b, 500 * MiB};
                    CHECK(!of_b.grow(20ms));
                });
                std::this_thread::sleep_for(2ms);
            }));
            std::size_t least = 1000 * MiB;
            for (auto const until = std::chrono::steady_clock::now() + 10ms;
                 std::chrono::steady_clock::now() < until;)
                least = std::min(least, a.figures().capacity);
            hungry.join();
            if (!room) continue;
            CHECK(least >= 900 * MiB);
            ++tried;
        }
        CHECK(tried > 0);
    }

    TEST_CASE_FIXTURE(machine, "processes of one cgroup count each what is its own") {
        if (TENURE_SANITIZED) {
            MESSAGE("skipped: a sanitizer has memory of its own, for which there is no room in the cgroup");
            return;
        }
        small_cgroup const group(400 * MiB);
        if (!group) {
            MESSAGE("skipped: a test may not make a cgroup here");
            return;
        }
        std::vector<char>   held;
        other_process const neighbour([&] {
            if (!group.join()) throw std::runtime_error("cannot join the cgroup");
            held.assign(200 * MiB, 1);
        });
        other_process const here([&] {
            auto const must = [](bool good, char const* what) {
                if (!good) throw std::runtime_error(what);
            };
            must(group.join(), "cannot join the cgroup");
            must(machine_arbiter({.directory = where.path()}).figures().bytes == 400 * MiB / 8 * 7,
                 "the cgroup's limit is not what there is");
            machine_arbiter const of_300({.directory = where.path(), .bytes = 300 * MiB});
            memory_budget         b{of_300, {.job = "here"}};
            reservation const     room = b.reserve({.kind = "x", .bytes = 200 * MiB, .timeout = 5s});
            must(b.figures().in_use < 150 * MiB, "the neighbour's memory counts");
        });
    }

    TEST_CASE("what is lost with one of fifty that are killed is soon in others' hands") {
        using clock                      = std::chrono::steady_clock;
        constexpr std::size_t      count = TENURE_SANITIZED ? 10 : 50;
        std::chrono::seconds const time(from_environment("TENURE_SECONDS", TENURE_SANITIZED ? 1 : 2));
        dice                       random(from_environment("TENURE_SEED", 1));
        temporary_directory const  where;
        machine_arbiter const arbiter({.directory = where.path(), .bytes = 1000 * MiB, .cores = 8, .period = 20ms});
        tenure::detail::share_directory here(where.path());
        auto const                      sum = [&](std::string_view job = {}) {
            std::size_t all = 0;
            for (auto const& m : here.read().members)
                if (job.empty() || job == m.status.job.data()) all += m.status.has.bytes;
            return all;
        };
        // Nobody grows meanwhile. Otherwise what one gives back and another takes may be counted twice.
        auto const alone = [&](auto f) { REQUIRE(here.alone(f, 10s)); };
        // Each wants sixty pieces, which only some can have, for half a second at most.
        auto const name  = [](std::size_t i) { return "worker " + std::to_string(i); };
        auto const start = [&](std::size_t i, std::uint64_t seed) {
            ::pid_t const pid = ::fork();
            if (pid != 0) return pid;
            dice          d(seed);
            memory_budget b{arbiter, {.job = name(i)}, machine::own()};
            for (;;) {
                rooms r{&b, (1 + d.below(10)) * MiB};
                while (r.all.size() < 60 && r.grow(100ms)) {}
                std::this_thread::sleep_for(std::chrono::milliseconds(50 + d.below(400)));
            }
        };
        std::vector<::pid_t> all(count, 0);
        for (std::size_t i = 0; i < count; ++i) all[i] = start(i, random());
        REQUIRE(soon([&] { return sum() >= 950 * MiB; }));

        std::vector<double> took;  // milliseconds
        auto const          end = clock::now() + time;
        auto const goes_on      = [&] { return clock::now() < end || (took.empty() && clock::now() < end + 60s); };
        for (; goes_on(); std::this_thread::sleep_for(100ms)) {
            std::size_t const i    = random.below(count);
            std::size_t       lost = 0, enough = 0;
            alone([&] {
                lost   = sum(name(i));
                enough = sum() - lost / 4;
            });
            ::kill(all[i], SIGKILL);
            ::waitpid(all[i], nullptr, 0);
            auto const killed = clock::now();
            CHECK(soon([&] {
                bool is_back = sum() >= enough;
                if (is_back) alone([&] { is_back = sum() >= enough; });
                return is_back;
            }));
            if (lost >= 4 * MiB)
                took.push_back(std::chrono::duration<double, std::milli>(clock::now() - killed).count());
            all[i] = start(i, random());
            alone([&] { CHECK(sum() <= 1000 * MiB); });
        }
        for (::pid_t const p : all) ::kill(p, SIGKILL);
        for (::pid_t const p : all) ::waitpid(p, nullptr, 0);
        REQUIRE(!took.empty());
        std::ranges::sort(took);
        MESSAGE(took.size() << " killed; most of what they had was used again after " << took[took.size() / 2]
                            << " ms, " << took[took.size() * 99 / 100] << " for 99 of 100, " << took.back()
                            << " at most");
    }
}

TEST_SUITE("the directory of a machine") {
    TEST_CASE("must be one that nobody else can empty") {
        temporary_directory const where;
        auto const open = [&](std::filesystem::path const& p) { machine_arbiter const a({.directory = p}); };
        REQUIRE(::chmod(where.path().c_str(), 0777) == 0);
        check_throws(errc::insecure, {"chmod +t"}, [&] { open(where.path()); });
        REQUIRE(::chmod(where.path().c_str(), 01777) == 0);
        open(where.path());
        CHECK(code_of([&] { open(where.path() / "none"); }) == std::errc::no_such_file_or_directory);
        std::ofstream(where.path() / "file") << "text";
        CHECK(code_of([&] { open(where.path() / "file"); }) == std::errc::not_a_directory);
    }

    TEST_CASE("is the user's own if none is named") {
        temporary_directory const where;
        ::setenv("XDG_RUNTIME_DIR", where.path().c_str(), 1);
        machine_arbiter const a;
        CHECK(std::filesystem::is_directory(where.path() / "tenure"));
        CHECK(a.figures().bytes > 0);
        CHECK(a.figures().members.empty());
        std::filesystem::remove(where.path() / "tenure");
        std::filesystem::create_symlink("/", where.path() / "tenure");
        check_throws(errc::insecure, {"is not a directory of this user's"}, [] { machine_arbiter const b; });
        ::unsetenv("XDG_RUNTIME_DIR");
    }

    TEST_CASE("that is full, or cannot be written, is told when a process joins") {
        small_disk const disk(64 * 1024);
        if (!disk) {
            MESSAGE("skipped: a test may not mount a file system here");
            return;
        }
        machine_arbiter const a({.directory = disk.path()});
        std::ofstream(disk.path() / "filler") << std::string(1 << 20, 'x');
        check_throws(errc::store_full, {"write a file in"}, [&] { memory_budget const b(a, {}); });
        CHECK(std::distance(std::filesystem::directory_iterator(disk.path()), {}) == 1);
    }

    TEST_CASE("that one may not write is told when a process joins") {
        if (::geteuid() != 0) {
            MESSAGE("skipped: only root can become one who may not");
            return;
        }
        temporary_directory const where;
        REQUIRE(::chmod(where.path().c_str(), 0755) == 0);
        REQUIRE(::seteuid(12345) == 0);
        std::error_code code;
        std::string     what;
        try {
            machine_arbiter const a({.directory = where.path(), .bytes = 100 * MiB});
            memory_budget const   b(a, {});
        } catch (tenure::error const& e) {
            code = e.code(), what = e.what();
        }
        REQUIRE(::seteuid(0) == 0);
        CHECK(code == std::errc::permission_denied);
        CHECK(what.find("write a file in " + where.path().string()) != what.npos);
    }

    TEST_CASE_FIXTURE(machine, "may hold anything: what makes no sense does not count, and one can read why") {
        std::filesystem::path const d    = where.path();
        memory_budget               a    = budget({.job = "a"});
        std::string const           mine = std::filesystem::directory_iterator(d)->path().filename().string();
        std::string                 whole;
        {
            std::ifstream in(d / mine, std::ios::binary);
            whole.assign(std::istreambuf_iterator<char>(in), {});
        }
        std::vector<int>                      locked;
        tenure::detail::share_directory const here(d);
        using layout   = tenure::detail::share_file_layout;
        using status   = tenure::detail::share_status;
        auto const put = [&](std::string const& name, std::string text, bool lives) {
            if (text.size() == whole.size() && text[0] == whole[0])  // else it says less than its name
                name.copy(
                    std::fill_n(text.data() + offsetof(layout, head.name), sizeof(layout::header::name), '\0') -
                        sizeof(layout::header::name),
                    sizeof(layout::header::name) - 1);
            REQUIRE(here.alone(
                [&] {  // or it would be swept before it lives
                    std::ofstream(d / name, std::ios::binary) << text;
                    if (!lives) return;
                    int const      fd = ::open((d / name).c_str(), O_RDWR);
                    struct ::flock l{};
                    l.l_type   = F_WRLCK;
                    l.l_whence = SEEK_SET;
                    REQUIRE(::fcntl(fd, F_OFD_SETLK, &l) == 0);
                    locked.push_back(fd);
                },
                10s));
        };
        auto const with = [&](std::size_t at, auto value) {
            std::string s = whole;
            std::memcpy(s.data() + at, &value, sizeof value);
            return s;
        };
        std::size_t const in =
            offsetof(layout, status) + (whole[offsetof(layout, head.serial)] & 1 ? sizeof(status) : 0);
        put("share-empty", "", true);
        put("share-short", whole.substr(0, 60), true);
        put("share-text", std::string(whole.size(), 'x'), true);
        put("share-nan", with(in + offsetof(status, weight), std::numeric_limits<double>::quiet_NaN()), true);
        put("share-weight", with(in + offsetof(status, weight), -1.0), true);
        put("share-much", with(in + offsetof(status, has), ~std::uint64_t{0}), true);
        put("share-machine", with(in + offsetof(status, capacity), std::uint64_t{0}), true);
        std::string endless = whole;
        std::fill_n(endless.begin() + static_cast<std::ptrdiff_t>(in + offsetof(status, job)), sizeof(status::job),
                    'j');
        put("share-endless", endless, true);
        std::filesystem::create_hard_link(d / mine, d / "share-hard");  // a name that is not its own
        REQUIRE(::mkfifo((d / "share-pipe").c_str(), 0600) == 0);
        std::filesystem::create_directory(d / "share-directory");
        std::filesystem::create_symlink(mine, d / "share-link");  // to what counts already
        put("share-moved", whole, true);
        std::filesystem::rename(d / "share-moved", d / "elsewhere");
        std::filesystem::create_symlink("elsewhere", d / "share-moved");
        put("share-dead", whole, false);
        bool const stranger = ::geteuid() == 0;  // who may give files away
        if (stranger) {                          // says that there is little for all, and that it comes first
            std::string s = with(in + offsetof(status, capacity), std::uint64_t{MiB});
            std::memset(s.data() + in + offsetof(status, has), 0, sizeof(status::has));
            double const heavy = 1000;
            std::memcpy(s.data() + in + offsetof(status, weight), &heavy, sizeof heavy);
            put("share-stranger", s, true);
            REQUIRE(::chown((d / "share-stranger").c_str(), 12345, 12345) == 0);
        }
        put("other", "text", true);

        machine_figures const f = arbiter.figures();
        CHECK(f.bytes == 1000 * MiB);
        CHECK(f.members.size() == (stranger ? 2 : 1));
        std::vector<std::string> ignored;
        for (auto const& r : f.ignored) {
            CHECK(!r.why.empty());
            ignored.push_back(r.file);
        }
        std::ranges::sort(ignored);
        CHECK(ignored == std::vector<std::string>{"share-directory", "share-empty", "share-endless", "share-hard",
                                                  "share-link", "share-machine", "share-moved", "share-much",
                                                  "share-nan", "share-pipe", "share-short", "share-text",
                                                  "share-weight"});
        CHECK(a.reserve({.kind = "most", .bytes = 900 * MiB, .timeout = 10s}).bytes() == 900 * MiB);
        CHECK(soon([&] { return !std::filesystem::exists(d / "share-dead"); }));
        for (int const fd : locked) ::close(fd);
    }

    TEST_CASE("is read as it is, with few files open, however many come and go") {
        temporary_directory const       where;
        tenure::detail::share_directory here(where.path());
        tenure::detail::share_status    status;
        status.capacity   = {1000, 1};
        auto const open   = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
        auto const before = open();
        {
            std::deque<tenure::detail::share_file> all;
            for (std::size_t i = 1; i <= 200; ++i) {
                all.emplace_back(here, status);
                CHECK(here.read().members.size() == i);
            }
            CHECK(open() - before <= 200 + 128);
            CHECK(open() - before >= 200 + 100);
            status.has = {7, 0};
            for (auto& f : all) CHECK(f.tell(status));
            for (auto const& m : here.read().members) CHECK(m.status.has.bytes == 7);
        }
        CHECK(here.read().members.empty());
        CHECK(open() == before);
        for (int i = 0; i < 500; ++i) std::ofstream(where.path() / ("share-" + std::to_string(i)));
        ::rlimit all{};
        REQUIRE(::getrlimit(RLIMIT_NOFILE, &all) == 0);
        ::rlimit const some{.rlim_cur = static_cast<::rlim_t>(before) + 50, .rlim_max = all.rlim_max};
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &some) == 0);
        CHECK(here.read().dead.size() == 500);
        CHECK(open() == before);
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &all) == 0);
    }

    TEST_CASE("is read by what the system tells has changed, and that is what is there") {
        using tenure::detail::share_directory;
        using tenure::detail::share_file;
        temporary_directory const where;
        dice                      random(from_environment("TENURE_SEED", 1));
        auto const                below = [&](std::size_t n) { return static_cast<std::size_t>(random.below(n)); };
        auto const                path_of = [&](share_file const& f) { return where.path() / f.name(); };
        share_directory           in(where.path()), watched(where.path());
        watched.watch();
        if (watched.events() < 0) {
            MESSAGE("skipped: inotify is not to be had here");
            return;
        }
        auto const is_as_read = [&] {
            share_directory       other(where.path());
            share_directory::view v = watched.read_changed(), all = other.read();
            REQUIRE(v.members.size() == all.members.size());
            for (std::size_t i = 0; i < v.members.size(); ++i) {
                REQUIRE(v.members[i].file == all.members[i].file);
                REQUIRE(v.members[i].user == all.members[i].user);
                REQUIRE(v.members[i].status == all.members[i].status);
            }
            REQUIRE(v.dead == all.dead);
            auto const names = [](auto const& refused) {
                std::vector<std::string> out;
                for (auto const& r : refused) out.push_back(r.file + ": " + r.why);
                return out;
            };
            REQUIRE(names(v.others) == names(all.others));
        };
        tenure::detail::share_status status;
        status.capacity = {1'000'000, 1};
        std::deque<share_file> all;
        for (std::size_t step = 0; step < 1000; ++step) {
            auto const junk = [&] { return where.path() / ("share-" + std::to_string(below(5))); };
            if (all.empty() || (all.size() < 200 && below(3) == 0)) all.emplace_back(in, status);
            status.has = {step, 0};
            switch (below(10)) {
            case 0: all.pop_front(); break;
            case 1: std::ofstream(junk()) << "text"; break;
            case 2: std::filesystem::remove(junk()); break;
            case 3:
                if (auto const from = path_of(all.front()); std::filesystem::exists(from))
                    std::filesystem::rename(from, junk());
                break;
            case 4:
                for (share_file& f : all) REQUIRE(f.tell(status));
                break;
            default: REQUIRE(all[below(all.size())].tell(status));
            }
            if (below(3) == 0) is_as_read();
        }
        REQUIRE(!all.empty());
        for (std::size_t i = 0; i < 20'000; ++i) REQUIRE(all[i % all.size()].tell(status));  // more than is noted
        all.emplace_back(in, status);
        is_as_read();
        all.clear();
        is_as_read();
    }

    TEST_CASE("is watched for who goes, though that is told before its lock is gone") {
        using tenure::detail::share_directory;
        temporary_directory const where;
        share_directory           in(where.path()), watched(where.path());
        watched.watch();
        if (watched.events() < 0) {
            MESSAGE("skipped: inotify is not to be had here");
            return;
        }
        tenure::detail::share_status status;
        status.capacity = {1000, 1};
        std::filesystem::path one;
        {
            tenure::detail::share_file const file(in, status);
            one = where.path() / file.name();
            CHECK(watched.read_changed().members.size() == 1);
            ::close(::open(one.c_str(), O_RDWR));  // as if it went
            CHECK(watched.read_changed().doubtful);
            CHECK(soon([&] { return !watched.read_changed().doubtful; }));
            CHECK(watched.read_changed().members.size() == 1);
            std::filesystem::copy_file(one, where.path() / "kept");
        }
        std::filesystem::copy_file(where.path() / "kept", one);
        int const      fd = ::open(one.c_str(), O_RDWR);
        struct ::flock l{};
        l.l_type   = F_WRLCK;
        l.l_whence = SEEK_SET;
        REQUIRE(::fcntl(fd, F_OFD_SETLK, &l) == 0);
        CHECK(watched.read_changed().members.size() == 1);
        ::close(::open(one.c_str(), O_RDWR));
        CHECK(watched.read_changed().members.size() == 1);
        l.l_type = F_UNLCK;
        REQUIRE(::fcntl(fd, F_OFD_SETLK, &l) == 0);
        CHECK(watched.read_changed().dead.size() == 1);
        ::close(fd);
    }

    TEST_CASE("is read whole once a second, and where nothing tells what has changed") {
        using tenure::detail::share_directory;
        temporary_directory const where;
        share_directory           in(where.path()), watched(where.path());
        watched.watch();
        tenure::detail::share_status status;
        status.capacity = {1000, 1};
        tenure::detail::share_file file(in, status);
        CHECK(in.read_changed().members.size() == 1);
        CHECK(watched.read_changed().members.size() == 1);
        status.has = {7, 0};
        CHECK(file.tell(status));
        CHECK(in.read_changed().members[0].status.has.bytes == 7);
        // Through a mapping, which nobody is told of.
        int const fd = ::open((where.path() / file.name()).c_str(), O_RDWR);
        void*     bytes =
            ::mmap(nullptr, sizeof(tenure::detail::share_file_layout), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        REQUIRE(bytes != MAP_FAILED);
        auto const has = [&] { return watched.read_changed().members.at(0).status.has.bytes; };
        CHECK(has() == 7);
        auto* const       layout = static_cast<std::byte*>(bytes);
        auto const        head   = *static_cast<tenure::detail::share_file_layout::header*>(bytes);
        std::size_t const there =
            offsetof(tenure::detail::share_file_layout, status) + sizeof(status) * (head.serial % 2);
        std::size_t const nine = 9;
        std::memcpy(layout + there + offsetof(tenure::detail::share_status, has), &nine, sizeof nine);
        CHECK(soon([&] { return has() == 9; }));
        ::munmap(bytes, sizeof(tenure::detail::share_file_layout));
        ::close(fd);
    }

    TEST_CASE_FIXTURE(machine, "may be cleaned up: who is a member comes back") {
        memory_budget a    = budget({.job = "a"});
        auto const    room = a.reserve({.kind = "r", .bytes = 500 * MiB, .timeout = 10s});
        for (auto const& e : std::filesystem::directory_iterator(where.path())) std::filesystem::remove(e.path());
        CHECK(soon([&] { return of("a").has >= 500 * MiB; }));
        CHECK(files() == 1);
    }

    TEST_CASE_FIXTURE(machine, "that another locks for ever lets nobody grow, and nobody hangs") {
        memory_budget a  = budget({.job = "a"});
        int const     fd = ::open(where.path().c_str(), O_RDONLY | O_DIRECTORY);
        REQUIRE(::flock(fd, LOCK_EX) == 0);
        rooms r{&a, 500 * MiB};
        CHECK_FALSE(r.grow(50ms));
        CHECK(code_of([&] { budget({.job = "b"}); }) == std::errc::device_or_resource_busy);
        ::close(fd);
        CHECK(r.grow());
    }
}
