// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

/// Programs run in a process of their own: those that fail mostly crash, or are stopped by a sanitizer, and a
/// shrinker in the same process (as of every library that we know) would go down with the first of them.
namespace apart {

enum class noise { heard, muted };

/// Runs f() in a child process. Empty: it came to its end; else what it threw or died of.
template <class F>
std::string run(noise n, unsigned seconds, F f) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    std::fflush(nullptr);
    pid_t const child = ::fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (child == 0) {
        ::close(ends[0]);
        for (int const s : {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE}) std::signal(s, SIG_DFL);  // not the runner's
        if (n == noise::muted)
            if (int const nowhere = ::open("/dev/null", O_WRONLY); nowhere >= 0) ::dup2(nowhere, STDERR_FILENO);
        ::alarm(seconds);
        std::string why;
        try {
            f();
        } catch (std::exception const& e) {
            why = e.what();
            if (why.empty()) why = "an exception that says nothing";
        }
        std::size_t const size = std::min<std::size_t>(why.size(), 60'000);  // what a pipe takes without a reader
        bool const        said = ::write(ends[1], why.data(), size) == static_cast<ssize_t>(size);
        std::fflush(nullptr);
        ::_exit(said && size == 0 ? 0 : 1);
    }
    ::close(ends[1]);
    std::string why;
    char        piece[4096];
    for (ssize_t got = 0; (got = ::read(ends[0], piece, sizeof piece)) > 0;)
        why.append(piece, static_cast<std::size_t>(got));
    ::close(ends[0]);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (!why.empty()) return why;
    if (WIFSIGNALED(status))
        return WTERMSIG(status) == SIGALRM ? "did not end"
                                           : std::string("died of ") + ::strsignal(WTERMSIG(status));
    if (WEXITSTATUS(status) != 0) return "ended with exit status " + std::to_string(WEXITSTATUS(status));
    return {};
}

/// The shortest program found that still fails: what can be left out is left out, large pieces first (delta
/// debugging: Zeller and Hildebrandt, 2002), for at most `time`.
template <class Program, class Fails>
Program shrink(Program p, std::chrono::seconds time, Fails fails) {
    auto const stop = std::chrono::steady_clock::now() + time;
    for (bool better = true; better;) {
        better = false;
        for (std::size_t piece = std::max<std::size_t>(p.size() / 2, 1); piece > 0; piece /= 2) {
            for (std::size_t at = 0; at < p.size();) {
                if (std::chrono::steady_clock::now() > stop) return p;
                auto const  first = p.begin() + static_cast<std::ptrdiff_t>(at);
                std::size_t n     = std::min(piece, p.size() - at);
                Program     less(p.begin(), first);
                less.insert(less.end(), first + static_cast<std::ptrdiff_t>(n), p.end());
                if (fails(less)) {
                    p      = std::move(less);
                    better = true;
                } else {
                    at += n;
                }
            }
        }
    }
    return p;
}

}  // namespace apart
