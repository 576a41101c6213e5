// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>

#include <tenure/remote/endpoint.hpp>
#include <tenure/remote/link.hpp>
#include <tenure/remote/protocol.hpp>
#include <tenure/remote/security.hpp>
#include <tenure/remote/server/held_block.hpp>
#include <tenure/remote/transport.hpp>

namespace tenure::detail {

/// Writes a range of a block of this server to a block of another server: says hello with the ticket, and then
/// sends one frame after the other. Calls `done` once, on its strand, after `patience` at the latest.
class sender : public std::enable_shared_from_this<sender> {
public:
    static constexpr std::uint64_t memory = std::uint64_t{1} << 20;  ///< bytes that one sender needs at most

    sender(boost::asio::any_io_executor const& e, std::shared_ptr<served_store> store,
           std::shared_ptr<security> tls, endpoint to, stay s, block from, protocol::send_request const& what,
           std::function<void(std::error_code)> done)
        : strand_(boost::asio::make_strand(e)),
          store_(std::move(store)),
          tls_(std::move(tls)),
          to_(std::move(to)),
          stay_(std::move(s)),
          from_(from),
          what_(what),
          done_(std::move(done)),
          timer_(strand_) {}

    void start(std::chrono::milliseconds patience) {
        boost::asio::post(strand_, [self = shared_from_this(), patience] {
            self->handle([=](sender& s) {
                s.timer_.expires_after(patience);
                s.timer_.async_wait([self](boost::system::error_code ec) {
                    if (!ec) self->finish(make_error_code(errc::timed_out));
                });
                s.dial();
            });
        });
    }

private:
    void finish(std::error_code why) {
        if (!done_) return;
        std::exchange(done_, nullptr)(why);
        timer_.cancel();
        if (auto const l = link_.lock()) l->cancel();
        if (transport_) transport_->close();
    }
    /// Runs a handler. If it throws, because memory is full, this sender ends and the server does not.
    template <class F>
    void handle(F const& f) {
        try {
            f(*this);
        } catch (std::exception const&) {
            finish(make_error_code(errc::memory_full));
        }
    }
    void dial() {
        if (to_.how == endpoint::kind::tls && !tls_) return finish(make_error_code(errc::insecure));
        link_ = remote::link::start(
            strand_, to_, tls_, [self = shared_from_this()](std::error_code why, std::shared_ptr<transport> t) {
                if (!why) {
                    self->transport_ = std::move(t);
                    return self->handle([](sender& s) { s.hello(); });
                }
                if (why != errc::memory_full)
                    why = make_error_code(self->link_.lock()->reached() ? errc::access_denied
                                                                        : errc::device_unavailable);
                self->finish(why);
            });
    }

    void hello() {
        protocol::hello_request h;
        h.purpose = static_cast<std::uint16_t>(protocol::purpose::ticket);
        h.secret  = what_.ticket;
        ask(protocol::operation::hello, protocol::bytes_of(h), {}, sizeof(protocol::hello_reply), [this] {
            protocol::hello_reply r;
            std::memcpy(&r, answer_.data() + sizeof(protocol::frame_header), sizeof r);
            piece_ =
                std::min<std::uint32_t>(r.most_payload, store_->addressable() ? protocol::most_payload : 1 << 20);
            if (piece_ == 0) return finish(make_error_code(errc::protocol_error));
            write();
        });
    }

    void write() {
        std::size_t const n = std::min<std::uint64_t>(piece_, what_.from.length - sent_);
        if (n == 0) return finish({});
        std::span<std::byte const> payload;
        if (store_->addressable()) {
            auto const at = store_->get().try_address(from_);
            if (!at) return finish(at.error());
            payload = {*at + what_.from.offset + sent_, n};
        } else {
            memory_.resize(n);
            if (auto const r = store_->get().read(from_, what_.from.offset + sent_, memory_); !r)
                return finish(r.error());
            payload = memory_;
        }
        protocol::range_request const r{what_.to, what_.to_offset + sent_, n};
        ask(protocol::operation::write, protocol::bytes_of(r), payload, 0, [this, n] {
            sent_ += n;
            write();
        });
    }

    /// Sends one frame and receives its answer, with a body of `size` bytes. Then calls `then`.
    void ask(protocol::operation op, std::span<std::byte const> body, std::span<std::byte const> payload,
             std::size_t size, std::function<void()> then) {
        protocol::frame_header h;
        h.body      = static_cast<std::uint32_t>(body.size());
        h.payload   = static_cast<std::uint32_t>(payload.size());
        h.request   = ++request_;
        h.settled   = request_ - 1;
        h.operation = static_cast<std::uint16_t>(op);
        question_.assign(protocol::bytes_of(h).begin(), protocol::bytes_of(h).end());
        question_.insert(question_.end(), body.begin(), body.end());
        answer_.resize(sizeof h + size);
        then_    = std::move(then);
        outward_ = {boost::asio::buffer(question_), boost::asio::buffer(payload.data(), payload.size())};
        push();
    }

    void push() {
        if (outward_[0].size() + outward_[1].size() == 0) return pull(0);
        transport_->async_write_some(outward_,
                                     [self = shared_from_this()](boost::system::error_code ec, std::size_t n) {
                                         if (ec) return self->finish(make_error_code(errc::disconnected));
                                         self->handle([n](sender& s) { s.pushed(n); });
                                     });
    }

    void pushed(std::size_t n) {
        for (auto& b : outward_) {
            std::size_t const part = std::min(n, b.size());
            b += part;
            n -= part;
        }
        push();
    }

    void pull(std::size_t have) {
        boost::asio::mutable_buffer const into(answer_.data() + have, answer_.size() - have);
        transport_->async_read_some(std::span(&into, 1),
                                    [self = shared_from_this(), have](boost::system::error_code ec, std::size_t n) {
                                        if (ec) return self->finish(make_error_code(errc::disconnected));
                                        self->handle([=](sender& s) { s.pulled(have + n); });
                                    });
    }

    void pulled(std::size_t have) {
        protocol::frame_header h;
        if (have >= sizeof h) {
            std::memcpy(&h, answer_.data(), sizeof h);
            if (h.request != request_) return finish(make_error_code(errc::protocol_error));
            if (h.status) return finish(protocol::error_of(h.status));
            if (h.body != answer_.size() - sizeof h || h.payload != 0)
                return finish(make_error_code(errc::protocol_error));
        }
        if (have < answer_.size()) return pull(have);
        std::exchange(then_, nullptr)();
    }

    boost::asio::strand<boost::asio::any_io_executor> strand_;
    std::shared_ptr<served_store>                     store_;
    std::shared_ptr<security>                         tls_;
    endpoint const                                    to_;
    stay                                              stay_;
    block const                                       from_;
    protocol::send_request const                      what_;
    std::function<void(std::error_code)>              done_;
    boost::asio::steady_timer                         timer_;
    std::weak_ptr<remote::link>                       link_;  ///< which holds this sender until it is done
    std::shared_ptr<transport>                        transport_;
    std::vector<std::byte>                            question_, answer_, memory_;
    std::array<boost::asio::const_buffer, 2>          outward_;
    std::function<void()>                             then_;
    std::uint64_t                                     request_ = 0, sent_ = 0;
    std::size_t                                       piece_ = 0;
};

}  // namespace tenure::detail
