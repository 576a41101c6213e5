// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdio>
#include <exception>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include "disk.hpp"
#include "support.hpp"

namespace bench {

/// A process of its own that does `f`, and is killed when this goes or the bench does: the other side of a socket.
/// Made while this process has one thread.
class child {
public:
    template <class F>
    explicit child(F f) : pid_{::fork()} {
        check(pid_ >= 0, "fork");
        if (pid_ != 0) return;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        try {
            f();
            ::_exit(0);
        } catch (std::exception const& e) {
            std::fprintf(stderr, "bench: the other side: %s\n", e.what());
        }
        ::_exit(1);
    }
    ~child() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    child(child const&)            = delete;
    child& operator=(child const&) = delete;

    std::size_t resident_bytes() const { return bench::resident_bytes(pid_); }
    ::pid_t     pid() const noexcept { return pid_; }

private:
    ::pid_t pid_;
};

}  // namespace bench
