// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <tenure/remote/trust.hpp>

namespace tenure {

class security;

/// Options of a remote_store. All have defaults.
struct client_options {
    /// The client's name, for people who look at the server; cut after 255 bytes.
    std::string name{};

    /// What lets the client in: tokens::from_file(path). The first token is shown.
    tenure::tokens tokens{};

    /// A tls_client, from remote/tls.hpp, for endpoints that begin with "tls:".
    std::shared_ptr<security> tls{};

    /// The longest that an operation takes, even one of many gigabytes. Then it ends, if need be with
    /// errc::timed_out.
    std::chrono::milliseconds timeout{30'000};

    /// The part of `timeout` that it may take to find the server's address, reach it, shake hands and be greeted.
    std::chrono::milliseconds connect_timeout{5'000};

    /// The most requests without an answer. The server may allow less.
    std::uint32_t in_flight = 256;

    /// The most bytes that one request reads or writes; longer reads and writes are several, which go side by
    /// side. The server may allow less.
    std::uint32_t piece = 1 << 20;

    /// The most bytes of small blocks of one kind that are fetched before they are asked for; 0: none are.
    std::size_t ahead = 1 << 20;
};

}  // namespace tenure
