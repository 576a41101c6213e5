// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <tenure/remote/endpoint.hpp>
#include <tenure/remote/protocol.hpp>

/// A server that says what a test has it say, one frame at a time, and waits for each. Throws where the client does
/// not say what the test expects.
class scripted_server {
public:
    using operation = tenure::protocol::operation;

    struct frame {
        tenure::protocol::frame_header header;
        std::vector<std::byte>         body, payload;

        operation     what() const { return static_cast<operation>(std::uint16_t{header.operation}); }
        std::uint64_t number() const { return header.request; }
        template <class T>
        T as() const {
            if (body.size() < sizeof(T)) throw std::runtime_error("a body is too short");
            T out;
            std::memcpy(&out, body.data(), sizeof out);
            return out;
        }
    };

    explicit scripted_server(std::string const& path) : where_("unix:" + path), acceptor_(io_, path), peer_(io_) {}

    tenure::endpoint const& where() const { return where_; }

    void accept() {
        peer_.close();
        acceptor_.accept(peer_);
    }
    void cut() { peer_.close(); }

    frame next() {
        frame f;
        boost::asio::read(peer_, boost::asio::buffer(&f.header, sizeof f.header));
        f.body.resize(f.header.body);
        f.payload.resize(f.header.payload);
        boost::asio::read(peer_, std::array{boost::asio::buffer(f.body), boost::asio::buffer(f.payload)});
        return f;
    }
    /// What the client asks next; that it is still there, which depends on how fast it is, is answered besides.
    frame next(operation what) {
        frame f = next();
        while (f.what() == operation::renew && what != operation::renew) {
            answer(f);
            f = next();
        }
        if (f.what() != what)
            throw std::runtime_error("operation " + std::to_string(f.header.operation) + " came, not " +
                                     std::to_string(static_cast<int>(what)));
        return f;
    }

    void send(std::span<std::byte const> bytes) {
        boost::asio::write(peer_, boost::asio::buffer(bytes.data(), bytes.size()));
    }

    void answer(frame const& to, tenure::errc why) {
        answer(to, {}, {}, tenure::protocol::status_of(make_error_code(why)));
    }
    void answer(frame const& to, std::span<std::byte const> body = {}, std::span<std::byte const> payload = {},
                std::uint16_t status = 0) {
        tenure::protocol::frame_header h;
        h.body      = static_cast<std::uint32_t>(body.size());
        h.payload   = static_cast<std::uint32_t>(payload.size());
        h.request   = to.header.request;
        h.operation = static_cast<std::uint16_t>(to.header.operation | tenure::protocol::is_reply);
        h.status    = status;
        std::vector<std::byte> all(sizeof h + body.size() + payload.size());
        std::memcpy(all.data(), &h, sizeof h);
        if (!body.empty()) std::memcpy(all.data() + sizeof h, body.data(), body.size());
        if (!payload.empty()) std::memcpy(all.data() + sizeof h + body.size(), payload.data(), payload.size());
        send(all);
    }

    /// Of the next hello.
    tenure::protocol::hello_reply offer() const {
        tenure::protocol::hello_reply r;
        r.version      = 1;
        r.lease        = 30'000;
        r.instance     = 77;
        r.session      = 5;
        r.secret       = {1, 2, 3};
        r.most_body    = 1 << 20;
        r.most_payload = 1 << 20;
        r.in_flight    = 64;
        return r;
    }
    frame greet(tenure::protocol::hello_reply const& reply) {
        accept();
        frame f = next(operation::hello);
        answer(f, tenure::protocol::bytes_of(reply));
        return f;
    }
    frame greet() { return greet(offer()); }

    /// The client is about to go.
    void part() { answer(next(operation::goodbye)); }

    /// Answers an allocation with these.
    void give(frame const& to, std::uint64_t first) {
        auto const                  asked = to.as<tenure::protocol::allocate_request>();
        tenure::protocol::block_run run;
        run.first = first;
        run.bytes = asked.bytes;
        run.count = asked.count;
        answer(to, tenure::protocol::bytes_of(run));
    }

private:
    tenure::endpoint                              where_;
    boost::asio::io_context                       io_;
    boost::asio::local::stream_protocol::acceptor acceptor_;
    boost::asio::local::stream_protocol::socket   peer_;
};
