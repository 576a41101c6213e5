// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <system_error>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <tenure/error.hpp>

namespace tenure::detail::remote {

/// An eventfd by which one thread ends the wait of another.
class wake_up {
public:
    /// Throws what the system says.
    wake_up() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        if (fd_ < 0) throw error(std::error_code(errno, std::system_category()), "eventfd");
    }
    ~wake_up() { ::close(fd_); }
    wake_up(wake_up const&)            = delete;
    wake_up& operator=(wake_up const&) = delete;

    // set() and clear() cannot fail, because the number stays small.
    void set() noexcept { [[maybe_unused]] int const done = ::eventfd_write(fd_, 1); }
    void clear() noexcept {
        std::uint64_t              n;
        [[maybe_unused]] int const done = ::eventfd_read(fd_, &n);
    }

    /// Waits until the socket can be read (or written, if `wanted`), another thread calls set(), or `patience` is
    /// over. Returns whether the socket can be read.
    bool wait(int socket, bool wanted, std::chrono::nanoseconds patience) noexcept {
        ::pollfd which[] = {{socket, static_cast<short>(wanted ? POLLIN | POLLOUT : POLLIN), 0}, {fd_, POLLIN, 0}};
        auto const       s = std::chrono::duration_cast<std::chrono::seconds>(patience);
        ::timespec const time{std::max<std::time_t>(s.count(), 0), std::max<long>((patience - s).count(), 0)};
        return ::ppoll(which, 2, &time, nullptr) > 0 && (which[0].revents & ~POLLOUT) != 0;
    }

private:
    int const fd_;
};

}  // namespace tenure::detail::remote
