// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

// Include this before anything of tenure: from then on the writes of page-outs, which os.hpp makes by syscall(),
// can be made to fail, or to wait.

#include <atomic>
#include <cerrno>

#include <sys/syscall.h>
#include <unistd.h>

/// Writes to the page file, which os.hpp makes by syscall(): the nth can be made to fail, or all to wait.
struct page_writes {
    std::atomic<long> left{0};
    std::atomic<int>  why{0};
    std::atomic<bool> failed{false};
    std::atomic<bool> shut{false};
    std::atomic<int>  waiting{0};

    std::atomic<void (*)()> meanwhile{nullptr};  ///< called by who writes
};
inline constinit page_writes writes;

template <class... Args>
long passed_on(long number, Args... args) noexcept {
    if (number == SYS_pwrite64) {
        if (writes.left > 0 && writes.left.fetch_sub(1) == 1) {
            writes.failed = true;
            errno         = writes.why;
            return -1;
        }
        ++writes.waiting;
        if (auto* const f = writes.meanwhile.load()) f();
        while (writes.shut) ::usleep(100);
        --writes.waiting;
    }
    return ::syscall(number, args...);
}

#define syscall passed_on
