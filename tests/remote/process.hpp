// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

/// This test program once more, in a process of its own, where it does the one test case of that name, with
/// TENURE_CHILD set to `argument`; the case is marked skip(), so that it is left out otherwise. Not a fork: threads
/// and sanitizers go on as they should. Killed when this goes.
class process {
public:
    process(std::string const& test_case, std::string const& argument) {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
        std::vector<std::string> words = {"child", "--no-skip", "--no-intro", "--test-case=" + test_case};
        std::vector<std::string> names = {"TENURE_CHILD=" + argument};
        for (char** e = environ; *e; ++e) names.emplace_back(*e);
        std::vector<char*> arguments, environment;
        for (auto& w : words) arguments.push_back(w.data());
        for (auto& n : names) environment.push_back(n.data());
        arguments.push_back(nullptr);
        environment.push_back(nullptr);

        ::posix_spawn_file_actions_t actions;
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawn_file_actions_adddup2(&actions, ends[1], 3);
        int const failed =
            ::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments.data(), environment.data());
        ::posix_spawn_file_actions_destroy(&actions);
        ::close(ends[1]);
        told_ = ends[0];
        if (failed) throw std::system_error(failed, std::generic_category(), "posix_spawn");
    }
    ~process() {
        if (pid_ > 0) kill();
        ::close(told_);
    }
    process(process const&)            = delete;
    process& operator=(process const&) = delete;

    /// In the child: the argument it was given.
    static std::string argument() {
        char const* const a = std::getenv("TENURE_CHILD");
        return a ? a : "";
    }
    /// In the child: a byte that await() waits for.
    static void tell() {
        if (::write(3, "!", 1) != 1) std::_Exit(3);
    }

    /// Until the child tells. False: it is gone.
    bool await() const {
        char c = 0;
        return ::read(told_, &c, 1) == 1;
    }

    void kill() {
        ::kill(pid_, SIGKILL);
        wait();
    }
    /// Its exit status; -1: a signal ended it.
    int wait() {
        int status = 0;
        ::waitpid(std::exchange(pid_, -1), &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    ::pid_t id() const { return pid_; }

private:
    ::pid_t pid_  = -1;
    int     told_ = -1;
};
