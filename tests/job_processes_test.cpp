// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What jobs use in other processes: children, and what they name.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <tenure/budget.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "soon.hpp"
#include "temporary.hpp"

namespace {

using namespace std::chrono_literals;
using tenure::batch_scope;
using tenure::budget_options;
using tenure::memory_budget;
using tenure::reservation;
using tenure::detail::named_use;
using tenure::detail::other_processes;

constexpr std::size_t MiB = 1 << 20;

/// A child that executes what this process does, and has so many bytes of its own until it is ended.
class forked_child {
public:
    explicit forked_child(std::size_t bytes) {
        std::array<int, 2> ready{};
        REQUIRE(::pipe(ready.data()) == 0);
        pid_ = ::fork();
        if (pid_ == 0) {
            void* const own = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            std::memset(own, 1, bytes);
            [[maybe_unused]] auto const told = ::write(ready[1], "", 1);
            for (;;) ::pause();
        }
        ::close(ready[1]);
        char byte = 1;
        CHECK(::read(ready[0], &byte, 1) == 1);
        ::close(ready[0]);
    }
    ~forked_child() { end(); }
    forked_child(forked_child const&)            = delete;
    forked_child& operator=(forked_child const&) = delete;

    pid_t pid() const noexcept { return pid_; }
    void  end() noexcept {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }

private:
    pid_t pid_ = 0;
};

/// A shell below which another program holds 48 MiB: tail keeps a line that does not end. It is of a session of its
/// own, so that all of it can be ended.
class piped_child {
public:
    piped_child() {
        std::array<char*, 4> const words{const_cast<char*>("sh"), const_cast<char*>("-c"),
                                         const_cast<char*>("(head -c 48M /dev/zero; sleep 100) | tail -n 1; true"),
                                         nullptr};
        posix_spawnattr_t          how;
        ::posix_spawnattr_init(&how);
        ::posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);
        ::posix_spawnattr_setpgroup(&how, 0);
        REQUIRE(::posix_spawn(&pid_, "/bin/sh", nullptr, &how, words.data(), environ) == 0);
        ::posix_spawnattr_destroy(&how);
    }
    ~piped_child() {
        ::kill(-pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    piped_child(piped_child const&)            = delete;
    piped_child& operator=(piped_child const&) = delete;

    pid_t pid() const noexcept { return pid_; }

private:
    pid_t pid_ = 0;
};

budget_options quick() {
    budget_options o;
    o.sample_age  = 1ms;
    o.watch_every = 2ms;
    o.relieve     = [](std::size_t) {};
    return o;
}

/// As quick(), where only reservations count, and what is outside.
budget_options of_100_mib() {
    budget_options o = quick();
    o.capacity       = 100 * MiB;
    o.in_use         = [] { return tenure::memory_use{}; };
    return o;
}

/// What the one job of a kind that declared 1 MiB used at its highest.
std::size_t learned(memory_budget const& budget, char const* kind) { return 2 * budget.estimate(kind) - MiB; }

/// Whether the budget asks the process itself, not its cgroup, which has a limit on some machines.
bool counts_itself() { return tenure::detail::process_memory().group().empty(); }

/// The bytes of a process and of all below it.
std::size_t tree(other_processes const& all, pid_t top) {
    std::size_t     sum = 0;
    std::set<pid_t> seen;
    all.for_tree(top, seen, [&](pid_t pid) { sum += all.memory_of(pid); });
    return sum;
}

/// A /proc of a test's.
struct small_proc {
    temporary_directory where;

    void write(std::string const& file, std::string const& text) const {
        std::filesystem::path const at = std::filesystem::path(where.path()) / file;
        std::filesystem::create_directories(at.parent_path());
        std::ofstream(at) << text;
    }
    void process(int pid, std::string const& name, char state, int parent, unsigned flags,
                 std::string const& status, std::string const& children) const {
        std::string const p = std::to_string(pid);
        write(p + "/stat", p + " (" + name + ") " + state + " " + std::to_string(parent) + " 1 1 0 -1 " +
                               std::to_string(flags) + " 0 0 0 0 1 2 0 0 20 0 1 0 7" + p +
                               " 4096 1 18446744073709551615\n");
        write(p + "/status", status);
        write(p + "/task/" + p + "/children", children);
    }
    other_processes all() const { return other_processes(where.path()); }
};

}  // namespace

TEST_SUITE("what the kernel tells of processes") {
    TEST_CASE("is read whatever they call themselves") {
        small_proc const p;
        p.process(10, "a) Z 1 (b", 'S', 4, 0x400040,
                  "RssAnon:\t 8 kB\nRssFile:\t 99 kB\nRssShmem:\t 4 kB\nVmSwap:\t 2 kB\n", "");
        auto const state = p.all().state_of(10);
        REQUIRE(state);
        CHECK(state->parent == 4);
        CHECK(state->started == 710);
        CHECK(state->forked);
        CHECK(!state->ended);
        CHECK(tree(p.all(), 10) == 14 * 1024);  // it has no smaps_rollup
        p.write("10/smaps_rollup", "Rss: 100 kB\nPrivate_Clean: 3 kB\nPrivate_Dirty: 5 kB\nSwap: 1 kB\n");
        CHECK(tree(p.all(), 10) == 6 * 1024);  // and now what it shares is not counted
        p.process(11, "x", 'Z', 10, 0, "RssAnon: 8 kB\n", "");
        CHECK(p.all().state_of(11)->ended);
        CHECK(tree(p.all(), 11) == 0);
    }

    TEST_CASE("is summed along the tree, whatever that looks like") {
        small_proc const p;
        p.process(1000, "top", 'S', 1, 0, "RssAnon: 1 kB\n", "1001 1002 ");
        p.write("1000/task/1007/children", "1003 ");
        p.process(1001, "one", 'S', 1000, 0, "RssAnon: 2 kB\n", "1002 1001 1000 ");  // numbers that were used again
        p.process(1002, "two", 'S', 1000, 0, "RssAnon: 4 kB\n", "77777 -5 x 99999999999999999999");
        p.process(1003, "three", 'S', 1000, 0, "RssAnon: 8 kB\n", "");
        CHECK(tree(p.all(), 1000) == 15 * 1024);
        std::vector<std::pair<int, int>> seen;
        p.all().for_children(1000, [&](pid_t thread, pid_t child) { seen.emplace_back(thread, child); });
        std::ranges::sort(seen);
        CHECK(seen == std::vector<std::pair<int, int>>{{1000, 1001}, {1000, 1002}, {1007, 1003}});
        std::set<pid_t> but{1002};
        std::size_t     sum = 0;
        p.all().for_tree(1000, but, [&](pid_t pid) { sum += p.all().memory_of(pid); });
        CHECK(sum == 11 * 1024);
    }

    TEST_CASE("may be nothing") {
        small_proc const p;
        CHECK(!p.all().state_of(10));
        CHECK(tree(p.all(), 10) == 0);
        for (char const* const text :
             {"", "10", "10 (x", "10 (x)", "10 (x) S 1 2 3", ")", "10 (x) S 1 1 1 0 -1 0 0 0"}) {
            p.write("10/stat", text);
            CHECK(!p.all().state_of(10));
        }
        CHECK(other_processes().state_of(::getpid())->parent == ::getppid());
        CHECK(!other_processes().state_of(-1));
    }
}

TEST_SUITE("children") {
    TEST_CASE("are part of what the process uses, and what a fork shares is not") {
        if (!counts_itself()) {
            MESSAGE("skipped: a cgroup limits this process, and counts for its children");
            return;
        }
        std::vector<char> const shared(64 * MiB, 1);
        memory_budget           budget(quick());
        std::size_t const       before = budget.figures().in_use;
        forked_child            child(32 * MiB);
        CHECK(soon([&] { return budget.figures().in_use >= before + 32 * MiB; }));
        if (!TENURE_SANITIZED) CHECK(budget.figures().in_use < before + 60 * MiB);
        child.end();
        CHECK(soon([&] { return budget.figures().in_use < before + 16 * MiB; }));
    }

    TEST_CASE("teach the kind of the job whose thread started them, with all below them") {
        accounting const books;
        memory_budget    budget(of_100_mib());
        {
            batch_scope const job({.name = "job", .reservation = budget.reserve({.kind = "spawns", .bytes = MiB})});
            piped_child const child;
            other_processes const all;
            REQUIRE(soon([&] { return tree(all, child.pid()) >= 48 * MiB; }));
            std::this_thread::sleep_for(200ms);  // nothing calls the budget meanwhile
        }
        CHECK(learned(budget, "spawns") >= 40 * MiB);
        CHECK(learned(budget, "spawns") < 200 * MiB);
    }

    TEST_CASE("of other threads, and of jobs before, are not the job's") {
        accounting const            books;
        memory_budget               budget(of_100_mib());
        forked_child const          earlier(32 * MiB);
        std::optional<forked_child> other;
        std::this_thread::sleep_for(30ms);  // a process's begin is told in hundredths of a second
        {
            batch_scope const job({.name = "job", .reservation = budget.reserve({.kind = "plain", .bytes = MiB})});
            std::jthread([&] {
                other.emplace(32 * MiB);
                for (int i = 0; i < 10; ++i) {
                    std::this_thread::sleep_for(5ms);
                    budget.figures();
                }
                other.reset();
            }).join();
        }
        CHECK(learned(budget, "plain") < 16 * MiB);
    }

    TEST_CASE("that have not executed anything yet, in their parent's memory, are nothing") {
        std::vector<char> const large(64 * MiB, 1);
        other_processes const   all;
        std::size_t             most = 0;
        std::atomic<bool>       over{false};
        std::jthread const      starts([&] {
            std::array<char*, 2> const words{const_cast<char*>("true"), nullptr};
            while (!over) {
                pid_t pid = 0;
                if (::posix_spawn(&pid, "/bin/true", nullptr, nullptr, words.data(), environ) == 0)
                    ::waitpid(pid, nullptr, 0);
            }
        });
        for (int i = 0; i < 300; ++i)
            all.for_children(::getpid(), [&](pid_t, pid_t child) { most = std::max(most, all.memory_of(child)); });
        over = true;
        CHECK(most < 32 * MiB);
    }

    TEST_CASE("are the newest job's of those that their thread has opened") {
        memory_budget budget(of_100_mib());
        batch_scope   outer({.name = "outer", .reservation = budget.reserve({.kind = "outer", .bytes = MiB})});
        {
            batch_scope const inner(
                {.name = "inner", .reservation = budget.reserve({.kind = "inner", .bytes = MiB})});
            forked_child const child(32 * MiB);
            CHECK(soon([&] { return budget.figures().holders[0].outside >= 32 * MiB; }));
            CHECK(budget.figures().holders[1].outside == 0);
        }
    }

    TEST_CASE("do not count where nobody is to watch") {
        budget_options o = of_100_mib();
        o.watch_every    = 0ns;
        memory_budget budget(o);
        {
            batch_scope const  job({.name = "job", .reservation = budget.reserve({.kind = "plain", .bytes = MiB})});
            forked_child const child(32 * MiB);
            for (int i = 0; i < 10; ++i) {
                std::this_thread::sleep_for(5ms);
                budget.figures();
            }
        }
        CHECK(learned(budget, "plain") < 16 * MiB);
    }

    TEST_CASE("are not watched by a thread that never sleeps") {
        budget_options o = of_100_mib();
        o.watch_every    = 0ns;
        memory_budget     budget(o);
        reservation const room = budget.reserve({.kind = "has", .bytes = 90 * MiB});
        room.add_process(::getppid());
        CHECK_THROWS(budget.reserve({.kind = "waits", .bytes = 90 * MiB, .timeout = 20ms}));
        std::clock_t const begin = std::clock();
        std::this_thread::sleep_for(200ms);
        CHECK(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC < 0.1);
    }

    TEST_CASE("keep others from starting, as long as they have the memory") {
        if (!counts_itself()) {
            MESSAGE("skipped: a cgroup limits this process, and counts for its children");
            return;
        }
        budget_options o = quick();
        memory_budget  measure(o);
        o.capacity = measure.figures().in_use + 60 * MiB;
        memory_budget budget(o);
        forked_child  child(40 * MiB);
        REQUIRE(soon([&] { return budget.figures().in_use > o.capacity - 40 * MiB; }));
        CHECK(!budget.try_reserve({.kind = "job", .bytes = 40 * MiB}));
        std::jthread const later([&] {
            std::this_thread::sleep_for(30ms);
            child.end();
        });
        CHECK(budget.reserve({.kind = "job", .bytes = 40 * MiB, .timeout = 20s}));
    }
}

TEST_SUITE("what a job names") {
    TEST_CASE("counts for it as long as it lives") {
        accounting const            books;
        memory_budget               budget(of_100_mib());
        std::optional<forked_child> helper(std::in_place, 32 * MiB);  // before the job, so not one of its own
        std::this_thread::sleep_for(30ms);
        {
            reservation       room = budget.reserve({.kind = "names", .bytes = MiB});
            batch_scope const job({.name = "job", .reservation = room});
            room.add_process(helper->pid());
            room.add_process(helper->pid());  // once
            CHECK(soon([&] { return budget.figures().holders[0].outside >= 32 * MiB; }));
            helper.reset();
            CHECK(soon([&] { return budget.figures().holders[0].outside == 0; }));
        }
        CHECK(learned(budget, "names") >= 32 * MiB);
        if (!TENURE_SANITIZED) CHECK(learned(budget, "names") < 60 * MiB);  // whose forks write much themselves
    }

    TEST_CASE("counts once if it is a child of the job's") {
        memory_budget      budget(of_100_mib());
        reservation        room = budget.reserve({.kind = "names", .bytes = MiB});
        batch_scope const  job({.name = "job", .reservation = room});
        forked_child const helper(32 * MiB);
        CHECK(soon([&] { return budget.figures().holders[0].outside >= 32 * MiB; }));
        std::size_t const alone = budget.figures().holders[0].outside;
        room.add_process(helper.pid());
        for (int i = 0; i < 10; ++i) {
            std::this_thread::sleep_for(10ms);
            CHECK(budget.figures().holders[0].outside < alone + 16 * MiB);
        }
    }

    TEST_CASE("counts without a batch, too, and for the process") {
        if (!counts_itself()) {
            MESSAGE("skipped: a cgroup limits this process");
            return;
        }
        temporary_directory const where;
        std::string const         group = where.path();
        std::ofstream(group + "/memory.current") << 300 * MiB << "\n";
        std::ofstream(group + "/memory.stat") << "anon 5\ninactive_file " << 100 * MiB << "\n";
        memory_budget     budget(quick());
        std::size_t const before = budget.figures().in_use;
        {
            reservation const room = budget.reserve({.kind = "group", .bytes = MiB});
            room.add_cgroup(group);
            CHECK(soon([&] { return budget.figures().in_use >= before + 200 * MiB; }));
            CHECK(budget.figures().in_use < before + 250 * MiB);
            std::ofstream(group + "/memory.current") << 50 * MiB << "\n";
            CHECK(soon([&] { return budget.figures().in_use < before + 80 * MiB; }));
        }
        CHECK(learned(budget, "group") >= 150 * MiB);
    }

    TEST_CASE("of version 1, too") {
        temporary_directory const where;
        std::ofstream(std::string(where.path()) + "/memory.usage_in_bytes") << 30 * MiB << "\n";
        memory_budget budget(of_100_mib());
        {
            reservation const room = budget.reserve({.kind = "old", .bytes = MiB});
            room.add_cgroup(where.path());
        }
        CHECK(learned(budget, "old") >= 30 * MiB);
    }

    TEST_CASE("is another process if that has its number later") {
        small_proc const p;
        p.process(10, "x", 'S', 1, 0, "RssAnon: 1024 kB\n", "");
        p.write("10/cgroup", "5:memory:/here/below\n0::/\n");
        named_use const it{.pid = 10, .started = 710};
        auto const      look = [&](std::vector<named_use> const& named, std::string_view group = {}) {
            tenure::detail::job_watch   watch(p.where.path());
            tenure::detail::job_outside job{.named = {it}};
            auto&                       seen = watch.look(named, group);
            seen.divide([&](auto f) { f(job); });
            return std::pair(job.peak, seen.besides());
        };
        CHECK(look({it, it}) == std::pair(MiB, MiB));
        CHECK(look({it}, "/sys/fs/cgroup/memory/here") == std::pair(MiB, std::size_t{0}));  // whose figure has it
        CHECK(look({it}, "/sys/fs/cgroup/memory/he") == std::pair(MiB, MiB));
        CHECK(look({it}, "/sys/fs/cgroup/memory/here/below/more") == std::pair(MiB, MiB));
        p.write("10/cgroup", "0::/elsewhere\n");
        CHECK(look({it}, "/sys/fs/cgroup/memory/here") == std::pair(MiB, MiB));
        CHECK(look({it}, "/sys/fs/cgroup/") == std::pair(MiB, std::size_t{0}));
        // Who names a cgroup has it all, and what is in it counts for nobody else.
        CHECK(look({it, {.cgroup = "/sys/fs/cgroup/elsewhere"}}).first == 0);
        p.process(11, "y", 'S', 10, 0, "RssAnon: 1024 kB\n", "");
        p.write("10/task/10/children", "11");
        CHECK(look({it, {.pid = 11, .started = 711}}) == std::pair(2 * MiB, 2 * MiB));  // each once
        p.write("10/stat", "10 (x) S 1 1 1 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 999 4096 1\n");
        CHECK(look({it}) == std::pair(std::size_t{0}, std::size_t{0}));
    }

    TEST_CASE("must be there") {
        memory_budget             budget(of_100_mib());
        reservation               room = budget.reserve({.kind = "job", .bytes = MiB});
        temporary_directory const empty;
        auto const                code = [](auto f) {
            try {
                f();
            } catch (std::system_error const& e) {
                return e.code();
            }
            return std::error_code();
        };
        pid_t gone = 0;
        {
            forked_child const child(MiB);
            gone = child.pid();
        }
        CHECK(code([&] { room.add_process(gone); }) == std::errc::no_such_process);
        CHECK(code([&] { room.add_process(-1); }) == std::errc::no_such_process);
        CHECK(code([&] { room.add_process(0); }) == std::errc::no_such_process);
        CHECK(code([&] { room.add_cgroup(empty.path()); }) == std::errc::no_such_file_or_directory);
        CHECK(code([&] { room.add_cgroup("/no/such/directory"); }) == std::errc::no_such_file_or_directory);
        CHECK(code([&] { reservation().add_process(::getpid()); }) == std::errc::invalid_argument);
    }
}
