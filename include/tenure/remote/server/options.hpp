// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include <tenure/remote/endpoint.hpp>
#include <tenure/remote/security.hpp>
#include <tenure/remote/server/holdings.hpp>
#include <tenure/remote/trust.hpp>

namespace tenure {

/// What one client may have; 0: as much as there is.
struct client_quota {
    std::uint64_t bytes     = 0;
    std::uint64_t buffers   = std::uint64_t{1} << 24;
    std::uint64_t batches   = std::uint64_t{1} << 20;
    std::uint32_t in_flight = 256;  ///< requests that are not settled
    std::uint32_t tickets   = 1024;
};

/// For the log: who, and what of it. Its text has no secrets in it.
struct server_event {
    enum class kind { opened, resumed, lost, ended, refused };

    kind            what;
    std::string     peer;    ///< unix uid=1000 pid=77, or an address and a port
    std::string     client;  ///< what the client calls itself, printable
    std::string     token;   ///< the name of the token it came with
    std::uint64_t   session = 0;
    std::uint64_t   bytes = 0, buffers = 0;  ///< that it has, or had
    std::error_code why;
};

struct server_options {
    /// A client that says nothing for so long is gone, and what it had is freed.
    std::chrono::milliseconds lease{30'000};
    /// For TLS's handshake and the first request.
    std::chrono::milliseconds hello_timeout{5'000};

    client_quota quota;

    /// If there are any, every client shows one; TCP demands that there are, or certificates.
    tenure::tokens tokens;
    /// Whose processes may use a Unix socket; empty: those of the server's own user.
    std::vector<::uid_t> users;
    /// For endpoints that begin with tls: a tls_server.
    std::shared_ptr<security> tls;

    /// Servers to which buffers may be sent, and what proves them; see tls_client.
    std::vector<endpoint>     peers;
    std::shared_ptr<security> peers_tls;

    /// Called from the executor's threads, one at a time; must not throw, nor call the server.
    std::function<void(server_event const&)> log;

    /// Makes a new block zeros, where the store has something faster than write(). Given a store that has
    /// fill(block, offset, byte, bytes), as a device_store, buffer_server sets it itself.
    std::function<result<void>(block)> clear;

    /// Called by the executor when the last client has left: a moment to give memory back. What malloc and a
    /// heap_store keep goes back in any case.
    std::function<void()> idle;
};

}  // namespace tenure
