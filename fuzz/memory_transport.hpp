// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <tenure/remote/transport.hpp>

#include "input.hpp"

namespace fuzz {

/// What the far end of a memory_transport sees of it, and does to it.
struct wire {
    std::vector<std::byte> to_read;              ///< by who has the transport
    std::vector<std::byte> written;              ///< by it
    std::size_t            at_once   = 1 << 20;  ///< as many bytes a read or a write, at most
    bool                   ended     = false;    ///< nothing more comes after `to_read`
    bool                   closed    = false;    ///< by who has the transport
    void*                  transport = nullptr;  ///< while it lives
};

/// A connection that is nothing but two rows of bytes: what is said over it happens when the input says so, and
/// never anything else.
class memory_transport final : public tenure::transport {
public:
    memory_transport(boost::asio::io_context& context, std::shared_ptr<wire> w)
        : context_(context), wire_(std::move(w)) {
        wire_->transport = this;
    }
    ~memory_transport() override {
        close();
        wire_->transport = nullptr;
    }

    boost::asio::any_io_executor get_executor() override { return context_.get_executor(); }

    void async_read_some(std::span<boost::asio::mutable_buffer const> into, handler done) override {
        require(!reading_, "one read at a time");
        into_.assign(into.begin(), into.end());
        reading_.swap(done);  // its move assignment calls itself in Boost 1.81
        go_on();
    }

    void async_write_some(std::span<boost::asio::const_buffer const> from, handler done) override {
        if (wire_->closed || wire_->ended) return complete(std::move(done), boost::asio::error::broken_pipe, 0);
        std::size_t n = 0;
        for (auto const& b : from) {
            auto const bytes = std::span(static_cast<std::byte const*>(b.data()), b.size())
                                   .first(std::min(b.size(), wire_->at_once - n));
            wire_->written.insert(wire_->written.end(), bytes.begin(), bytes.end());
            n += bytes.size();
        }
        complete(std::move(done), {}, n);
    }

    void close() noexcept override {
        wire_->closed = true;
        go_on();
    }

    /// What has come, if somebody waits for it.
    void go_on() {
        if (!reading_) return;
        if (wire_->closed) return complete(std::move(reading_), boost::asio::error::operation_aborted, 0);
        if (wire_->to_read.empty()) {
            if (wire_->ended) complete(std::move(reading_), boost::asio::error::eof, 0);
            return;
        }
        std::size_t n = 0;
        for (auto const& b : into_) {
            std::size_t const part = std::min({b.size(), wire_->to_read.size() - n, wire_->at_once - n});
            std::copy_n(wire_->to_read.begin() + static_cast<std::ptrdiff_t>(n), part,
                        static_cast<std::byte*>(b.data()));
            n += part;
        }
        wire_->to_read.erase(wire_->to_read.begin(), wire_->to_read.begin() + static_cast<std::ptrdiff_t>(n));
        complete(std::move(reading_), {}, n);
    }

private:
    void complete(handler done, boost::system::error_code why, std::size_t n) {
        boost::asio::post(context_, [done = std::move(done), why, n]() mutable { std::move(done)(why, n); });
    }

    boost::asio::io_context&                 context_;
    std::shared_ptr<wire>                    wire_;
    std::vector<boost::asio::mutable_buffer> into_;
    handler                                  reading_;
};

/// Bytes for who has the transport.
inline void give(wire& w, std::span<std::byte const> bytes) {
    if (w.closed || w.ended || !w.transport) return;
    w.to_read.insert(w.to_read.end(), bytes.begin(), bytes.end());
    static_cast<memory_transport*>(w.transport)->go_on();
}

/// The far end goes away.
inline void end(wire& w) {
    w.ended = true;
    if (w.transport) static_cast<memory_transport*>(w.transport)->go_on();
}

}  // namespace fuzz
