// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>

#include <unistd.h>

namespace demo {

/// A bar on stderr where that is a terminal, else nothing. Gone when it goes out of scope.
class progress_bar {
public:
    progress_bar(std::string title, std::size_t total) : title_{std::move(title)}, total_{total} {}
    progress_bar(progress_bar const&)            = delete;
    progress_bar& operator=(progress_bar const&) = delete;

    ~progress_bar() {
        if (drawn_) std::fputs("\r\033[K", stderr);
    }

    void step() {
        ++done_;
        if (!terminal_) return;
        if (auto const now = clock::now(); now >= next_) {
            next_ = now + std::chrono::milliseconds{50};
            draw();
        }
    }

private:
    using clock = std::chrono::steady_clock;

    void draw() {
        constexpr std::size_t width  = 40;
        std::size_t const     filled = done_ * width / total_;
        std::fprintf(stderr, "\r%s [%s%s] %zu of %zu", title_.c_str(), std::string(filled, '#').c_str(),
                     std::string(width - filled, ' ').c_str(), done_, total_);
        std::fflush(stderr);
        drawn_ = true;
    }

    std::string       title_;
    std::size_t       total_;
    std::size_t       done_     = 0;
    bool              terminal_ = ::isatty(STDERR_FILENO) == 1;
    bool              drawn_    = false;
    clock::time_point next_     = clock::now();
};

}  // namespace demo
