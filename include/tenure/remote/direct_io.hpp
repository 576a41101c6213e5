// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <new>
#include <span>
#include <system_error>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>

#include <tenure/error.hpp>

namespace tenure::detail::remote {

/// A plain socket's own calls, without the reactor's: a round trip by one thread is a send, a wait and a receive.
/// None of them waits but wait().

/// Bytes that went, or -1 and why.
struct moved {
    std::ptrdiff_t  bytes;
    std::error_code why;

    bool not_now() const noexcept { return bytes < 0 && (why.value() == EAGAIN || why.value() == EINTR); }
};

template <class Buffer, class F>
moved move_bytes(std::span<Buffer const> buffers, F call) noexcept {
    std::array<::iovec, 64> parts;
    std::size_t const       n = std::min(buffers.size(), parts.size());
    for (std::size_t i = 0; i < n; ++i)
        parts[i] = {const_cast<void*>(static_cast<void const*>(buffers[i].data())), buffers[i].size()};
    ::msghdr m{};
    m.msg_iov                  = parts.data();
    m.msg_iovlen               = n;
    std::ptrdiff_t const bytes = call(&m);
    return {bytes, bytes < 0 ? std::error_code(errno, std::system_category()) : std::error_code()};
}

inline moved send_now(int socket, std::span<boost::asio::const_buffer const> from) noexcept {
    return move_bytes(from, [&](::msghdr* m) { return ::sendmsg(socket, m, MSG_NOSIGNAL | MSG_DONTWAIT); });
}
inline moved receive_now(int socket, std::span<boost::asio::mutable_buffer const> into) noexcept {
    return move_bytes(into, [&](::msghdr* m) { return ::recvmsg(socket, m, MSG_DONTWAIT); });
}

/// What ends a wait of another thread.
class wake_up {
public:
    /// Throws what the system says.
    wake_up() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        if (fd_ < 0) throw error(std::error_code(errno, std::system_category()), "eventfd");
    }
    ~wake_up() { ::close(fd_); }
    wake_up(wake_up const&)            = delete;
    wake_up& operator=(wake_up const&) = delete;

    // Neither can fail: its number stays small.
    void set() noexcept { [[maybe_unused]] int const done = ::eventfd_write(fd_, 1); }
    void clear() noexcept {
        std::uint64_t              n;
        [[maybe_unused]] int const done = ::eventfd_read(fd_, &n);
    }

    /// For so long, or until the socket can be read, or written if that is `wanted`, or somebody calls set(). True:
    /// it can be read.
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
