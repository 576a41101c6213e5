// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/uio.h>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>

namespace tenure {

/// A connected stream of bytes, whatever carries it. So code that talks over it is compiled once, and only
/// programs that use TLS need OpenSSL. One read and one write may be under way at a time. Not thread-safe:
/// everything runs on the executor, which must be a strand if several threads run it.
class transport {
public:
    /// Takes the error, or none, and how many bytes went.
    using handler = boost::asio::any_completion_handler<void(boost::system::error_code, std::size_t)>;

    transport()                            = default;
    virtual ~transport()                   = default;
    transport(transport const&)            = delete;
    transport& operator=(transport const&) = delete;

    virtual boost::asio::any_io_executor get_executor() = 0;

    /// Reads at least one byte, or reports an error. The list of buffers is read before the call returns; the
    /// memory that it refers to must stay until the handler is called.
    virtual void async_read_some(std::span<boost::asio::mutable_buffer const> into, handler done) = 0;
    /// Writes at least one byte, or reports an error. For the buffers see async_read_some().
    virtual void async_write_some(std::span<boost::asio::const_buffer const> from, handler done) = 0;

    /// Ends the sending, and tells the peer. The caller can then read and drop what the peer still sends: if that
    /// were unread at close(), TCP would make the peer lose the bytes that it was sent last. Returns false if the
    /// transport cannot do this.
    virtual bool finish() noexcept { return false; }

    /// Closes the socket at once. Operations under way end with an error.
    virtual void close() noexcept = 0;

    /// Returns the socket if the bytes that go over it are just those of the transport; a caller with no read or
    /// write under way may then use it without the executor. Else returns -1.
    virtual int descriptor() noexcept { return -1; }
};

/// A Unix or TCP socket.
class plain_transport final : public transport {
public:
    using socket = boost::asio::generic::stream_protocol::socket;

    explicit plain_transport(socket s) noexcept : socket_(std::move(s)) {}

    boost::asio::any_io_executor get_executor() override { return socket_.get_executor(); }

    void async_read_some(std::span<boost::asio::mutable_buffer const> into, handler done) override {
        reading_.assign(into.begin(), into.end());
        socket_.async_read_some(std::span(reading_), here{std::move(done)});
    }
    void async_write_some(std::span<boost::asio::const_buffer const> from, handler done) override {
        writing_.assign(from.begin(), from.end());
        socket_.async_write_some(std::span(writing_), here{std::move(done)});
    }
    bool finish() noexcept override {
        boost::system::error_code ec;
        socket_.shutdown(socket::shutdown_send, ec);
        return !ec;
    }
    void close() noexcept override {
        boost::system::error_code ignored;
        socket_.close(ignored);  // the descriptor is gone in any case
    }
    int descriptor() noexcept override { return socket_.native_handle(); }

private:
    /// Hides the executor of a handler, which runs on the socket's. If Asio asked the type-erased handler for it,
    /// that would cost as much as everything else it does.
    struct here {
        using allocator_type = handler::allocator_type;

        handler done;

        allocator_type get_allocator() const noexcept { return done.get_allocator(); }
        void           operator()(boost::system::error_code why, std::size_t n) { std::move(done)(why, n); }
    };

    // Kept because Asio reads the list again when the socket is ready.
    std::vector<boost::asio::mutable_buffer> reading_;
    std::vector<boost::asio::const_buffer>   writing_;
    socket                                   socket_;
};

}  // namespace tenure

/// Calls on a transport's descriptor() itself, without Asio's reactor. None of them waits.
namespace tenure::detail::remote {

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
