// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Runs the test cases of a program once for each of many schedules, each in a process of its own.
//
//   TENURE_SECONDS=60       begin new ones for so long (20)
//   TENURE_SCHEDULES=100    so many instead
//   TENURE_SEED=1           the first (1); TENURE_STEPS and the like reach the tests as ever
//   TENURE_SCHEDULE=17      this one alone, in this process: what a failure says to run, for a debugger

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schedule.hpp"

namespace {

std::uint64_t number(char const* name, std::uint64_t otherwise) {
    char const* const text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

/// Threads that take turns do so faster on one core.
void stay_on_one_core() {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
    sched_setaffinity(0, sizeof one, &one);
}

int run(int argc, char** argv, std::uint64_t seed) {
    setenv("TENURE_SEED", std::to_string(seed).c_str(), 1);
    stay_on_one_core();
    doctest::Context context(argc, argv);
    explore::begin(seed);
    int const failed = context.run();
    std::fprintf(stderr, "%llu steps\n", (unsigned long long)explore::steps());
    explore::end();
    return failed;
}

void show(int fd) {
    char text[4096];
    lseek(fd, 0, SEEK_SET);
    for (ssize_t n = 0; (n = read(fd, text, sizeof text)) > 0;)
        std::fwrite(text, 1, static_cast<std::size_t>(n), stderr);
}

/// False: it failed.
bool run_in_child(int argc, char** argv, std::uint64_t seed) {
    int const   output = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    pid_t const child  = fork();
    if (child == 0) {
        dup2(output, 1);
        dup2(output, 2);
        int const failed = run(argc, argv, seed);
        std::fflush(nullptr);
        _exit(failed ? 1 : 0);
    }
    int status = 0;
    for (int ms = 0; waitpid(child, &status, WNOHANG) == 0; ++ms) {
        if (ms == 120'000) kill(child, SIGABRT);
        poll(nullptr, 0, 1);
    }
    bool const good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!good) {
        show(output);
        std::fprintf(
            stderr, "explore: failed (%s %d) in the schedule of seed %llu. Again: TENURE_SCHEDULE=%llu %s\n",
            WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
            static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed), argv[0]);
    }
    close(output);
    return good;
}

}  // namespace

int main(int argc, char** argv) {
    if (!(personality(0xffff'ffff) & ADDR_NO_RANDOMIZE)) {  // so that a schedule meets the same addresses again
        if (personality(personality(0xffff'ffff) | ADDR_NO_RANDOMIZE) != -1) execv("/proc/self/exe", argv);
        std::fputs("explore: addresses cannot be fixed here; schedules may not repeat\n", stderr);
    }
    if (std::getenv("TENURE_SCHEDULE")) return run(argc, argv, number("TENURE_SCHEDULE", 1));

    using clock                   = std::chrono::steady_clock;
    std::uint64_t const first     = number("TENURE_SEED", 1);
    std::uint64_t const schedules = number("TENURE_SCHEDULES", 0);
    std::uint64_t const seconds   = number("TENURE_SECONDS", 20);
    auto const          until     = clock::now() + std::chrono::seconds(seconds);
    std::uint64_t       done      = 0;
    for (; schedules ? done < schedules : clock::now() < until; ++done)
        if (!run_in_child(argc, argv, first + done)) return 1;
    std::printf("explore: %llu schedules from seed %llu, none failed\n", static_cast<unsigned long long>(done),
                static_cast<unsigned long long>(first));
}
