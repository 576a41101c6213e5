// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <csignal>
#include <initializer_list>

#include <pthread.h>
#include <signal.h>

namespace tenure::detail {

/// Returns all signals that come from outside. A signal that a thread raises by its own instructions is not among
/// them, because it cannot be put off; a page that comes back from the page file raises one.
inline ::sigset_t signals_from_outside() noexcept {
    ::sigset_t most;
    sigfillset(&most);
    for (int const own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&most, own);
    return most;
}

/// Keeps signals from outside from interrupting this thread while it lives: they go to other threads, or wait.
/// Costs two system calls.
class signals_blocked {
public:
    signals_blocked() noexcept {
        ::sigset_t const most = signals_from_outside();
        ::pthread_sigmask(SIG_BLOCK, &most, &before_);
    }
    ~signals_blocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    signals_blocked(signals_blocked const&)            = delete;
    signals_blocked& operator=(signals_blocked const&) = delete;

private:
    ::sigset_t before_;
};

}  // namespace tenure::detail
