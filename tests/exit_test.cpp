// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The end of a process: static and thread_local objects whose destructors use the global registry, threads that
// outlive main, quick_exit and _Exit. Each case is this program once more, which does the test case "child".

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <tenure/tenure.hpp>

namespace {

using tenure::batch_scope;
using tenure::handle;
using tenure::registry;

constexpr char const* variable = "TENURE_EXIT";

std::string_view scenario() {
    char const* const s = std::getenv(variable);
    return s ? s : "";
}

void say(std::string const& line) {
    std::fputs((line + "\n").c_str(), stdout);
    std::fflush(stdout);
}

handle<std::string> of_root;

/// Frees what was made just before it, and gives what was made before that to a batch which ends.
struct frees_its_neighbours {
    handle<std::string> first, second;

    ~frees_its_neighbours() {
        registry::global().free(second);
        batch_scope last{"last"};
        tenure::transfer_ownership(first, last);
    }
};

/// What a destructor may do with the global registry, before its end and after it.
bool works() {
    registry&   r = registry::global();
    batch_scope s{{.name = "in a destructor"}};
    auto const  text = s.make<std::string>(200u, 'x');
    auto const  kept = tenure::make<std::string>(100u, 'y');
    auto const  id   = r.new_batch({.reclaim = tenure::reclamation::background}, s.id());
    {
        auto const here = r.enter(id);
        tenure::make<std::string>(300u, 'z');
    }
    r.end_batch(id);
    r.drain();
    tenure::keep(kept);
    std::string what;
    try {
        (void)*handle<int>();
    } catch (tenure::error const& e) {
        what = e.what();
    }
    bool const found = r.snapshot().to_text().find("in a destructor") != std::string::npos;
    return *text == std::string(200, 'x') && *kept == std::string(100, 'y') && found &&
           what.find("stale handle") != std::string::npos;
}

class works_at_its_end {
public:
    explicit works_at_its_end(char const* name) : name_(name) {}
    ~works_at_its_end() {
        if (!scenario().empty()) say(name_ + (works() ? std::string(" works") : " does not work"));
    }
    works_at_its_end(works_at_its_end const&)            = delete;
    works_at_its_end& operator=(works_at_its_end const&) = delete;

private:
    std::string name_;
};
works_at_its_end const early("early");  // destroyed after whatever main's first use of tenure brings about

/// Of this thread; made by the first call.
void touch_thread_local() {
    thread_local works_at_its_end const of_thread("of thread");
    [[maybe_unused]] auto const* volatile touched = &of_thread;
}

/// Runs on, whatever main does.
void start_thread_that_goes_on() {
    static std::atomic<int> running{0};
    std::thread([] {
        for (;;) {
            batch_scope b;
            auto const  h = b.make<std::string>(100u, 'a');
            auto const  k = b.keep(tenure::make<std::string>(*h));
            registry::global().free(k);
            running = 1;
            running.notify_one();
        }
    }).detach();
    running.wait(0);
}

struct outcome {
    int         status;
    std::string output;

    bool has(std::string_view text) const { return output.find(text) != std::string::npos; }
};

outcome run_child(std::string const& what) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    ::posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    std::array<char*, 5> const arguments{const_cast<char*>("child"), const_cast<char*>("--no-skip"),
                                         const_cast<char*>("--no-intro"), const_cast<char*>("--test-case=child"),
                                         nullptr};
    ::setenv(variable, what.c_str(), 1);
    ::pid_t   pid    = 0;
    int const failed = ::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
    ::unsetenv(variable);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (failed) throw std::system_error(failed, std::generic_category(), "posix_spawn");
    outcome out{};
    char    part[4096];
    while (ssize_t const n = ::read(ends[0], part, sizeof part)) {
        if (n < 0 && errno != EINTR) break;
        if (n > 0) out.output.append(part, static_cast<std::size_t>(n));
    }
    ::close(ends[0]);
    ::waitpid(pid, &out.status, 0);
    INFO(what, " wrote:\n", out.output);
    CHECK(WIFEXITED(out.status));
    CHECK(WEXITSTATUS(out.status) == 0);
    return out;
}

}  // namespace

TEST_CASE("child" * doctest::skip()) {
    std::string_view const what = scenario();
    if (what == "static") {
        of_root = tenure::make<std::string>(300u, 'r');
        static works_at_its_end const late("late");
        registry::global().new_batch({.name = "left behind"});
        tenure::make<works_at_its_end>("of root");
    } else if (what == "threads go on") {
        tenure::make<works_at_its_end>("of root");
        for (int i = 0; i < 3; ++i) start_thread_that_goes_on();
    } else if (what == "exit in a thread") {
        start_thread_that_goes_on();
        std::thread([] {
            touch_thread_local();
            batch_scope const open;
            std::exit(0);
        }).join();
    } else if (what == "quick_exit" || what == "_Exit") {
        batch_scope open;
        open.make<works_at_its_end>("of an open batch");
        registry::global().new_batch({.name = "left behind"});
        start_thread_that_goes_on();
        what == "_Exit" ? std::_Exit(0) : std::quick_exit(0);
    } else if (what == "thread_local") {
        touch_thread_local();  // before tenure has anything of the thread: destroyed after that
        tenure::make<std::string>(100u, 'm');
        for (int i = 0; i < 20; ++i) {
            std::thread([&] {
                if (i % 2) touch_thread_local();
                {
                    batch_scope b;
                    b.make<std::string>(100u, 't');
                    tenure::make<std::string>(100u, 'r');
                }
                touch_thread_local();
            }).join();
        }
    } else if (what == "neighbours") {
        for (int i = 0; i < 10; ++i) {
            auto const first = tenure::make<std::string>(100u, 'f'), second = tenure::make<std::string>(100u, 's');
            tenure::make<frees_its_neighbours>(first, second);
        }
        tenure::make<works_at_its_end>("of root");
    } else if (what == "background") {
        batch_scope b{{.reclaim = tenure::reclamation::background}};
        b.make<works_at_its_end>("in the background");
    } else if (what == "exit in the background") {
        struct last {
            ~last() { std::exit(0); }
        };
        batch_scope b{{.reclaim = tenure::reclamation::background}};
        b.make<last>();
        b.end();
        registry::global().drain();
    }
    CHECK_FALSE(what.empty());  // "first use": there is nothing to do before the exit
}

TEST_SUITE("the end of a process") {
    TEST_CASE("static objects use the global registry before its end and after, and its leak report still comes") {
        outcome const out = run_child("static");
        CHECK(out.has("late works"));
        CHECK(out.has("of root works"));
        CHECK(out.has("early works"));
        CHECK(out.output.find("late works") < out.output.find("of root works"));
        CHECK(out.output.find("of root works") < out.output.find("early works"));
        CHECK(out.has("batches that nobody ended"));
        CHECK(out.has("left behind"));
    }

    TEST_CASE("the first use is in the destructor of a static object") {
        CHECK(run_child("first use").has("early works"));
    }

    TEST_CASE("what ends with the root frees others that would have ended next") {
        outcome const out = run_child("neighbours");
        CHECK(out.has("of root works"));
        CHECK(out.has("early works"));
        CHECK_FALSE(out.has("corrupt"));
    }

    TEST_CASE("threads that outlive main go on, and what they may be at is left") {
        outcome const out = run_child("threads go on");
        CHECK(out.has("early works"));
        CHECK_FALSE(out.has("of root"));
    }

    TEST_CASE("exit() in another thread, with a batch open there") {
        outcome const out = run_child("exit in a thread");
        CHECK(out.has("of thread works"));
        CHECK(out.has("early works"));
    }

    TEST_CASE("quick_exit and _Exit end nothing and report nothing") {
        for (char const* const how : {"quick_exit", "_Exit"}) {
            outcome const out = run_child(how);
            CHECK_FALSE(out.has("works"));
            CHECK_FALSE(out.has("nobody ended"));
        }
    }

    TEST_CASE("thread_local objects, older and newer than what tenure has for their thread") {
        outcome const out = run_child("thread_local");
        std::size_t   n   = 0;
        for (std::size_t at = 0; (at = out.output.find("of thread works", at)) != std::string::npos; ++at) ++n;
        CHECK(n == 21);
        CHECK(out.has("early works"));
    }

    TEST_CASE("exit() in a destructor that runs in the background does not wait for itself") {
        CHECK(run_child("exit in the background").has("early works"));
    }

    TEST_CASE("what waits for the background is done before the registry's end") {
        outcome const out = run_child("background");
        CHECK(out.has("in the background works"));
        CHECK(out.output.find("in the background works") < out.output.find("early works"));
    }
}
