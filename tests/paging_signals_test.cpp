// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Paging has a handler of SIGSEGV: what becomes of other handlers, and of crashes. And what a forked child sees.

#include "slow_disk.hpp"

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <pthread.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "model_batch.hpp"

using tenure::errc;
using tenure::registry;

namespace {

/// What becomes of a process that does `f`.
struct fate {
    int         status = 0;
    std::string said;

    bool died_of(int signal) const { return WIFSIGNALED(status) && WTERMSIG(status) == signal; }
    bool left_with(int code) const { return WIFEXITED(status) && WEXITSTATUS(status) == code; }
};

/// Killed after half a minute, or `seconds` without SIGALRM.
template <class F>
fate in_a_process(F f, unsigned seconds = 0) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    std::fflush(nullptr);
    ::pid_t const pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        ::dup2(ends[1], 2);
        ::close(ends[0]);
        if (seconds) {  // this one's SIGALRM is its own
            ::pid_t const watched = ::getpid();
            if (::fork() == 0) {
                ::close(2);
                for (unsigned i = 0; i < seconds && ::getppid() == watched; ++i) ::sleep(1);
                if (::getppid() == watched) ::kill(watched, SIGKILL);
                ::_exit(0);
            }
        }
        ::rlimit const no_core{0, 0};
        ::setrlimit(RLIMIT_CORE, &no_core);
        ::signal(SIGALRM, SIG_DFL);
        if (!seconds) ::alarm(100);
        f();
        ::_exit(0);
    }
    ::close(ends[1]);
    fate out;
    char part[4096];
    for (ssize_t n; (n = ::read(ends[0], part, sizeof part)) > 0;)
        out.said.append(part, static_cast<std::size_t>(n));
    ::close(ends[0]);
    REQUIRE(::waitpid(pid, &out.status, 0) == pid);
    return out;
}

/// A page-out during which this thread writes to the batch.
bool survives(registry& r) {
    model_batch s(r, {}, MiB);
    writes.shut = true;
    std::thread pager([&] { static_cast<void>(try_page_out(r, s.id)); });
    while (writes.waiting == 0) std::this_thread::yield();
    std::thread opener([] {
        ::usleep(10'000);
        writes.shut = false;
    });
    s.large[5] = 15;
    pager.join();
    opener.join();
    return s.whole();
}

[[gnu::noinline]] void crash() {
    auto* volatile nowhere = reinterpret_cast<int*>(std::uintptr_t{4096 + 8});
    *nowhere               = 1;
}

/// Without a test framework's handlers, and with the sanitizer's.
[[maybe_unused]] bool const crashed_before_main = [] {
    if (!std::getenv("TENURE_TEST_CRASH")) return false;
    registry r;
    if (survives(r)) crash();
    return true;
}();

std::atomic<std::uintptr_t> told{0};
::sigjmp_buf                back;

void remember_and_leave(int, ::siginfo_t* info, void*) {
    told = reinterpret_cast<std::uintptr_t>(info->si_addr);
    ::_exit(told == 4096 + 8 ? 42 : 43);
}
void jump_back(int) { ::siglongjmp(back, 1); }

struct ::sigaction user_before{};
void               pass_it_on(int number, ::siginfo_t* info, void* context) {
    if (user_before.sa_flags & SA_SIGINFO) user_before.sa_sigaction(number, info, context);
    else std::signal(number, SIG_DFL);
}

void handle_with(void (*f)(int, ::siginfo_t*, void*), struct ::sigaction* before = nullptr) {
    struct ::sigaction a{};
    a.sa_sigaction = f;
    a.sa_flags     = SA_SIGINFO;
    ::sigaction(SIGSEGV, &a, before);
}

/// What a program's own handler of a signal writes to.
std::atomic<std::uint64_t volatile*> written_to{nullptr};
std::atomic<int>                     handled{0};

void write_there(int) {
    if (auto* const p = written_to.load()) *p = *p + 1;
    ++handled;
}

}  // namespace

TEST_SUITE("a handler of the program's that writes to a batch") {
    TEST_CASE("on the thread that pages it out") {
        auto const came_through = in_a_process([] {
            registry    r;
            model_batch s(r, {}, MiB);
            auto const  value = s.large[7];
            written_to        = reinterpret_cast<std::uint64_t volatile*>(&s.large[7]);
            ::signal(SIGUSR1, write_there);
            writes.shut = true;
            std::thread pager([&] { static_cast<void>(try_page_out(r, s.id)); });
            while (writes.waiting == 0) std::this_thread::yield();
            ::pthread_kill(pager.native_handle(), SIGUSR1);
            ::usleep(10'000);
            writes.shut = false;
            pager.join();
            if (handled != 1 || s.large[7] != value + 1) ::_exit(1);
            ::_exit(50);
        });
        CHECK(came_through.left_with(50));
    }

    TEST_CASE("under a checkpoint, while the page is just copied") {
        auto const came_through = in_a_process(
            [] {
                constexpr std::size_t pages = 4'000, words = 512;
                registry              r;
                tenure::batch_scope   b(r);
                auto const            a = b.make<std::uint64_t[]>(pages * words);
                ::signal(SIGALRM, write_there);
                ::itimerval const often{{0, 50}, {0, 50}}, never{};
                for (int round = 0; round < 5; ++round) {
                    b.checkpoint();
                    ::setitimer(ITIMER_REAL, &often, nullptr);
                    for (std::size_t i = 0; i < pages; ++i) {
                        written_to = &a[i * words + 8];
                        a[i * words] += 1;
                    }
                    ::setitimer(ITIMER_REAL, &never, nullptr);
                    b.rollback();
                    for (std::size_t i = 0; i < pages; ++i)
                        if (a[i * words] != 0) ::_exit(1);
                }
                ::_exit(51);
            },
            60);
        CHECK(came_through.left_with(51));
    }

    TEST_CASE("that cannot be put off is a fault, which says why") {
        auto const died = in_a_process([] {
            ::signal(SIGSEGV, SIG_DFL);
            registry    r;
            model_batch s(r, {}, MiB);
            written_to       = reinterpret_cast<std::uint64_t volatile*>(&s.large[7]);
            writes.meanwhile = [] { write_there(0); };
            static_cast<void>(try_page_out(r, s.id));
        });
        CHECK(died.died_of(SIGSEGV));
        CHECK(died.said.find("would wait for itself") != std::string::npos);
    }
}

TEST_SUITE("signals") {
    TEST_CASE("a crash is a crash") {
        auto const plain = in_a_process([] {
            ::setenv("TENURE_TEST_CRASH", "1", 1);
            ::execl("/proc/self/exe", "paging_signals_test", nullptr);
        });
        CAPTURE(plain.said);
        if (TENURE_SANITIZED) {
            CHECK(plain.status != 0);
            CHECK(plain.said.find("SEGV on unknown address 0x000000001008") != std::string::npos);
        } else {
            CHECK(plain.died_of(SIGSEGV));
        }
    }

    TEST_CASE("a handler from before is told of crashes as ever") {
        auto const with_info = in_a_process([] {
            handle_with(remember_and_leave);
            registry r;
            if (survives(r)) crash();
        });
        CHECK(with_info.left_with(42));
        auto const without = in_a_process([] {
            ::signal(SIGSEGV, [](int) { ::_exit(44); });
            registry r;
            if (survives(r)) crash();
        });
        CHECK(without.left_with(44));
    }

    TEST_CASE("a handler that was put over ours") {
        auto const unaware = in_a_process([] {
            registry r;
            if (!survives(r)) ::_exit(1);
            handle_with(remember_and_leave);
            if (survives(r)) crash();
        });
        CHECK(unaware.left_with(42));
        auto const chained = in_a_process([] {
            handle_with(remember_and_leave);
            registry r;
            if (!survives(r)) ::_exit(1);
            handle_with(pass_it_on, &user_before);
            if (survives(r) && survives(r)) crash();
        });
        CHECK(chained.left_with(42));
    }

    TEST_CASE("a handler that jumps") {
        auto const jumps = in_a_process([] {
            struct ::sigaction a{};
            a.sa_handler = jump_back;
            a.sa_flags   = SA_NODEFER;
            ::sigaction(SIGSEGV, &a, nullptr);
            registry r;
            if (!survives(r)) ::_exit(1);
            static int volatile n = 0;
            if (sigsetjmp(back, 1)) n = n + 1;
            if (n < 5) crash();
            ::_exit(survives(r) ? 45 : 46);
        });
        CHECK(jumps.left_with(45));
    }

    TEST_CASE("one that is sent, not faulted") {
        auto const sent = in_a_process([] {
            ::signal(SIGSEGV, SIG_DFL);
            registry r;
            if (!survives(r)) ::_exit(1);
            ::kill(::getpid(), SIGSEGV);
            ::usleep(1'000'000);
        });
        CHECK(sent.died_of(SIGSEGV));
        auto const ignored = in_a_process([] {
            ::signal(SIGSEGV, SIG_IGN);
            registry r;
            if (!survives(r)) ::_exit(1);
            ::kill(::getpid(), SIGSEGV);
            ::usleep(10'000);
            ::_exit(survives(r) ? 47 : 48);
        });
        CHECK(ignored.left_with(47));
    }
}

TEST_SUITE("fork") {
    TEST_CASE("a child sees what was out, and leaves the parent's file alone") {
        registry    r;
        model_batch s(r, {}, 2 * MiB), in(r, {}, MiB);
        r.page_out(s.id);
        auto const child = in_a_process([&] {
            if (!s.whole()) ::_exit(1);
            if (try_page_out(r, in.id) != errc::not_pageable) ::_exit(2);
            if (try_page_out(r, s.id) != errc::not_pageable) ::_exit(3);
            {
                auto const inside = r.enter(s.id);
                s.write(5);
            }
            if (!s.whole()) ::_exit(4);
            r.end_batch(s.id);
            r.end_batch(in.id);
            if (r.snapshot().paging.out) ::_exit(5);
            registry own;  // which opens a file of its own
            if (!survives(own)) ::_exit(6);
            ::_exit(49);
        });
        CHECK(child.left_with(49));
        CHECK(s.whole());
        r.page_out(in.id);
        CHECK(in.whole());
        CHECK(s.whole());
    }
}
