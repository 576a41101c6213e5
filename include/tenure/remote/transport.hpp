// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/post.hpp>

namespace tenure {

/// A connected stream of bytes, whatever carries it: so that what is said over it is compiled once, and only who
/// asks for TLS needs OpenSSL. One read and one write may be under way at a time. Not thread-safe: all of it runs
/// on the executor, a strand where several threads run that.
class transport {
public:
    /// Why it failed, or null; and how many bytes went.
    using handler = boost::asio::any_completion_handler<void(boost::system::error_code, std::size_t)>;

    transport()                            = default;
    virtual ~transport()                   = default;
    transport(transport const&)            = delete;
    transport& operator=(transport const&) = delete;

    virtual boost::asio::any_io_executor get_executor() = 0;

    /// At least a byte, or an error. The list of buffers is looked at before the call returns; what it refers to
    /// stays until the handler is called.
    virtual void async_read_some(std::span<boost::asio::mutable_buffer const> into, handler done) = 0;
    virtual void async_write_some(std::span<boost::asio::const_buffer const> from, handler done)  = 0;

    /// Nothing more will be sent, and the peer is told. What it has sent meanwhile can be read and dropped: were it
    /// lying there at close(), TCP would have the peer lose what it was sent last. False: there is no such thing.
    virtual bool finish() noexcept { return false; }

    /// Ends what is under way, with an error. The socket is closed at once.
    virtual void close() noexcept = 0;

    /// The socket, if the bytes that go over it are just these: who has no read or write under way may then use it
    /// without the executor. Else -1.
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
        socket_.close(ignored);  // whatever it says, the descriptor is gone
    }
    int descriptor() noexcept override { return socket_.native_handle(); }

private:
    /// A handler that says nothing of an executor: it runs on the socket's, and to be told so by a type that hides
    /// it costs Asio as much as all else that it does.
    struct here {
        using allocator_type = handler::allocator_type;

        handler done;

        allocator_type get_allocator() const noexcept { return done.get_allocator(); }
        void           operator()(boost::system::error_code why, std::size_t n) { std::move(done)(why, n); }
    };

    // Asio looks at the list again when the socket is ready.
    std::vector<boost::asio::mutable_buffer> reading_;
    std::vector<boost::asio::const_buffer>   writing_;
    socket                                   socket_;
};

}  // namespace tenure
