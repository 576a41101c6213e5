// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include <tenure/error.hpp>

namespace tenure {

/// The address of a server: "unix:/run/tenure.sock", "tcp:localhost:7117", "tls:gpu7.example.org:7117",
/// "tcp:[::1]:7117". A server that listens at port 0 gets any port that is free.
struct endpoint {
    enum class kind { unix_socket, tcp, tls };

    kind          how = kind::unix_socket;
    std::string   where;  ///< a path, or a host's name or address without brackets
    std::uint16_t port = 0;

    /// Reads an endpoint from its text. Throws std::errc::invalid_argument; the message says what is wrong.
    explicit endpoint(std::string_view text) {
        auto const fail = [&](char const* why) {
            throw error(make_error_code(std::errc::invalid_argument),
                        "endpoint \"" + std::string(text) + "\": " + why +
                            "; write unix:PATH, tcp:HOST:PORT or tls:HOST:PORT");
        };
        std::size_t const colon  = text.find(':');
        auto const        scheme = text.substr(0, colon);
        if (colon == text.npos) fail("it has no scheme");
        if (text.find('\0') != text.npos) fail("it has a zero byte");  // where the system would end it
        std::string_view rest = text.substr(colon + 1);
        if (scheme == "unix") {
            if (rest.empty()) fail("it has no path");
            if (rest.size() > 107) fail("the path is longer than the 107 bytes that a socket's may have");
            where = rest;
            return;
        }
        if (scheme == "tcp") how = kind::tcp;
        else if (scheme == "tls") how = kind::tls;
        else fail("its scheme is none of these");
        std::size_t const last = rest.rfind(':');
        if (last == rest.npos) fail("it has no port");
        std::string_view const number = rest.substr(last + 1);
        auto const [end, ec]          = std::from_chars(number.data(), number.data() + number.size(), port);
        if (ec != std::errc() || end != number.data() + number.size())
            fail("its port is no number from 0 to 65535");
        rest = rest.substr(0, last);
        if (rest.size() > 1 && rest.front() == '[' && rest.back() == ']') rest = rest.substr(1, rest.size() - 2);
        else if (rest.find(':') != rest.npos) fail("an IPv6 address stands in brackets");
        if (rest.find_first_of("[]") != rest.npos) fail("brackets stand around an IPv6 address alone");
        if (rest.empty()) fail("it has no host");
        where = rest;
    }

    /// Returns the text that the constructor reads.
    std::string to_text() const {
        if (how == kind::unix_socket) return "unix:" + where;
        std::string const host = where.find(':') == where.npos ? where : '[' + where + ']';
        return (how == kind::tcp ? "tcp:" : "tls:") + host + ':' + std::to_string(port);
    }

    friend bool operator==(endpoint const&, endpoint const&) = default;
};

}  // namespace tenure
