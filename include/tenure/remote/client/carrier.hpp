// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <boost/asio/error.hpp>

#include <tenure/remote/client/io_memory.hpp>
#include <tenure/remote/direct_io.hpp>
#include <tenure/remote/transport.hpp>

namespace tenure::detail::remote {

/// A connection, while there is one. I/O goes through Asio, one read and one write at a time; or, where possible
/// and when neither is under way, by the socket's own calls.
class carrier {
public:
    using code = boost::system::error_code;

    void begin(std::shared_ptr<transport> t) noexcept {
        transport_  = std::move(t);
        is_sending_ = false;
    }
    /// Ends the greeting. From now on the socket's own calls are used where possible.
    void settle() noexcept { socket_ = transport_->descriptor(); }

    /// Closes the connection. Operations under way end with an error; end() may be called once is_busy() is false.
    void close() noexcept {
        socket_ = -1;
        transport_->close();
    }
    void end() noexcept { transport_.reset(); }

    bool is_reading() const noexcept { return reading_; }
    bool is_writing() const noexcept { return writing_; }
    bool is_busy() const noexcept { return reading_ || writing_; }
    bool is_direct() const noexcept { return socket_ >= 0 && !is_busy(); }

    template <class F>
    void write(std::span<boost::asio::const_buffer const> from, F done) {
        writing_ = true;
        transport_->async_write_some(from, with_memory{&write_memory_, [this, done](code why, std::size_t n) {
                                                           writing_ = false;
                                                           done(why, n);
                                                       }});
    }
    template <class F>
    void read(std::span<boost::asio::mutable_buffer const> into, F done) {
        reading_ = true;
        transport_->async_read_some(into, with_memory{&read_memory_, [this, done](code why, std::size_t n) {
                                                          reading_ = false;
                                                          done(why, n);
                                                      }});
    }

    // write_now() and read_now() need is_direct(). They return false if the socket is not ready; else they have
    // called done(why, n).

    template <class F>
    bool write_now(std::span<boost::asio::const_buffer const> from, F done) {
        moved const m = send_now(socket_, from);
        is_sending_   = m.not_now();
        if (!is_sending_) done(code(m.why), amount(m));
        return !is_sending_;
    }
    template <class F>
    bool read_now(std::span<boost::asio::mutable_buffer const> into, F done) {
        moved const m = receive_now(socket_, into);
        if (m.not_now()) return false;
        done(m.bytes == 0 ? code(boost::asio::error::eof) : code(m.why), amount(m));
        return true;
    }
    int  socket() const noexcept { return socket_; }
    bool is_sending() const noexcept { return is_sending_; }  ///< waits until the socket can be written

private:
    static std::size_t amount(moved const& m) noexcept {
        return static_cast<std::size_t>(std::max(m.bytes, std::ptrdiff_t{0}));
    }

    std::shared_ptr<transport> transport_;
    int                        socket_  = -1;
    bool                       reading_ = false, writing_ = false, is_sending_ = false;
    io_memory                  read_memory_, write_memory_;
};

}  // namespace tenure::detail::remote
