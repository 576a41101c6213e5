// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <system_error>

#include <sys/socket.h>
#include <sys/uio.h>

#include <boost/asio/buffer.hpp>

namespace tenure::detail::remote {

/// Calls on a plain socket itself, without Asio's reactor. None of them waits.

/// How many bytes went, or -1 and the error.
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

}  // namespace tenure::detail::remote
