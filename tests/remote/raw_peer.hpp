// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <sys/socket.h>
#include <sys/time.h>

#include <tenure/remote/protocol.hpp>

#include "proxy.hpp"

/// One end of a connection that says what a test wants it to, true or not, and waits for answers: at most so long.
class raw_peer {
public:
    using bytes = std::vector<std::byte>;

    struct frame {
        tenure::protocol::frame_header header;
        bytes                          body, payload;

        std::error_code error() const { return tenure::protocol::error_of(header.status); }
    };

    /// Connects; `patience` is for each receive().
    explicit raw_peer(std::filesystem::path const& server, unsigned patience_s = 10)
        : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        ::sockaddr_un const a = unix_address(server);
        if (::connect(socket_.get(), reinterpret_cast<::sockaddr const*>(&a), sizeof a) != 0)
            throw std::system_error(errno, std::generic_category(), server.native());
        be_patient(patience_s);
    }
    /// Of a connection that was accepted.
    explicit raw_peer(owned_fd socket, unsigned patience_s = 10) : socket_(std::move(socket)) {
        be_patient(patience_s);
    }

    /// False: the other end is gone, or does not take it.
    bool send(std::span<std::byte const> all) {
        while (!all.empty()) {
            ::ssize_t const n = ::send(socket_.get(), all.data(), all.size(), MSG_NOSIGNAL);
            if (n <= 0) return false;
            all = all.subspan(static_cast<std::size_t>(n));
        }
        return true;
    }

    /// All that a frame is. The header's sizes are those of `body` and `payload`, whatever they were.
    static bytes whole(tenure::protocol::frame_header h, std::span<std::byte const> body,
                       std::span<std::byte const> payload = {}) {
        h.body    = static_cast<std::uint32_t>(body.size());
        h.payload = static_cast<std::uint32_t>(payload.size());
        bytes all(sizeof h);
        std::memcpy(all.data(), &h, sizeof h);
        all.insert(all.end(), body.begin(), body.end());
        all.insert(all.end(), payload.begin(), payload.end());
        return all;
    }

    /// The next request, which has this number from now on; nothing is settled unless `settle` says so.
    bool ask(tenure::protocol::operation what, std::span<std::byte const> body = {},
             std::span<std::byte const> payload = {}) {
        tenure::protocol::frame_header h;
        h.request   = ++asked;
        h.settled   = settled;
        h.operation = static_cast<std::uint16_t>(what);
        return send(whole(h, body, payload));
    }
    template <tenure::protocol::wire_type T>
    bool ask(tenure::protocol::operation what, T const& body, std::span<std::byte const> payload = {}) {
        return ask(what, tenure::protocol::bytes_of(body), payload);
    }

    /// Nothing: the other end closed, or said nothing for too long.
    std::optional<frame> receive() {
        frame f;
        if (!receive({reinterpret_cast<std::byte*>(&f.header), sizeof f.header})) return {};
        f.body.resize(f.header.body);
        f.payload.resize(f.header.payload);
        if (!receive(f.body) || !receive(f.payload)) return {};
        return f;
    }

    /// Asks, and waits for the answer, after which all is settled.
    template <class Body>
    std::optional<frame> call(tenure::protocol::operation what, Body const& body,
                              std::span<std::byte const> payload = {}) {
        if (!ask(what, body, payload)) return {};
        auto f = receive();
        if (f && f->header.request == asked) settled = asked;
        return f;
    }

    /// What the server says to a hello for a new session, or to go on with one.
    std::optional<tenure::protocol::hello_reply> hello(tenure::protocol::hello_request h     = {},
                                                       std::string_view                token = {}) {
        h.token_bytes = static_cast<std::uint16_t>(token.size());
        bytes body(sizeof h);
        std::memcpy(body.data(), &h, sizeof h);
        auto const extra = std::as_bytes(std::span(token));
        body.insert(body.end(), extra.begin(), extra.end());
        auto const f = call(tenure::protocol::operation::hello, std::span<std::byte const>(body));
        if (!f || f->header.status != 0) return {};
        auto const r = tenure::protocol::whole<tenure::protocol::hello_reply>(f->body);
        if (!r) return {};
        return *r;
    }

    /// Whether the other end closes before it has said anything more.
    bool is_closed() {
        char c = 0;
        return ::recv(socket_.get(), &c, 1, 0) == 0 || errno == ECONNRESET;
    }

    int fd() const { return socket_.get(); }

    std::uint64_t asked = 0, settled = 0;

private:
    void be_patient(unsigned s) {
        ::timeval const t{static_cast<::time_t>(s), 0};
        ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
        ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
    }
    bool receive(std::span<std::byte> into) {
        while (!into.empty()) {
            ::ssize_t const n = ::recv(socket_.get(), into.data(), into.size(), 0);
            if (n <= 0) return false;
            into = into.subspan(static_cast<std::size_t>(n));
        }
        return true;
    }

    owned_fd socket_;
};
