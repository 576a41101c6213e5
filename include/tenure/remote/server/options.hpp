// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <sys/types.h>

#include <tenure/remote/endpoint.hpp>
#include <tenure/remote/security.hpp>
#include <tenure/remote/trust.hpp>
#include <tenure/store/concept.hpp>

namespace tenure {

/// What one tenant may have, over all its sessions: a tenant is the holder of a token or of a TLS client
/// certificate, else a user of this machine. 0: as much as the server has.
struct tenant_quota {
    std::uint64_t bytes        = 0;  ///< of buffers, as the store holds them
    std::uint64_t buffers      = std::uint64_t{1} << 22;
    std::uint64_t batches      = std::uint64_t{1} << 20;
    std::uint32_t in_flight    = 256;  ///< requests of one session that are not settled
    std::uint32_t tickets      = 1024;
    std::uint32_t sessions     = 256;
    std::uint64_t requests     = std::uint64_t{1} << 16;   ///< in_flight of all sessions together
    std::uint64_t names        = std::uint64_t{1} << 16;   ///< under which buffers are shared
    std::uint64_t queued_bytes = std::uint64_t{64} << 20;  ///< beyond that a session takes one request at a time
    std::uint64_t memory       = 0;  ///< of the server's bookkeeping, in bytes; 0: half of server_limits::memory
};

/// What a server holds in all, for all its tenants together. 0: see each.
struct server_limits {
    std::uint64_t bytes    = 0;  ///< of buffers; 0: what the store has, else three quarters of the machine's memory
    std::uint64_t memory   = 0;  ///< bytes to know of buffers, batches, names; 0: a sixteenth of the machine's
    std::uint32_t sessions = 1024;  ///< 0: no limit, and so for the others
    std::uint32_t connections  = 2048;
    std::uint32_t visitors     = 1024;  ///< without a hello, a quarter from one address; as many by Unix sockets
    std::uint64_t queued_bytes = std::uint64_t{256} << 20;
};

/// How many wrong tokens are looked at: so many at once, then so many a second. Whoever shows more waits, and is
/// closed at the hello timeout; where a right one came from, only its own count. A rate of 0 is no limit.
struct wrong_token_limits {
    double at_once = 10, a_second = 1;            ///< from one address (of IPv6: the network, /64) or Unix user
    double all_at_once = 200, all_a_second = 20;  ///< from all together
};

/// For the log: who, and what of it. Its text has no secrets in it.
struct server_event {
    enum class kind { opened, resumed, lost, ended, refused, limited };

    kind            what;
    std::string     peer;    ///< unix uid=1000 pid=77, or an address and a port
    std::string     client;  ///< what the client calls itself, printable
    std::string     token;   ///< the name of the token it came with
    std::uint64_t   session = 0;
    std::uint64_t   bytes = 0, buffers = 0;  ///< that it has, or had
    std::error_code why;                     ///< of refused; of limited: which limit
    std::uint64_t   left_out = 0;            ///< refused and limited before this that came too fast to be told
};

struct server_options {
    /// A client that says nothing for so long is gone, and what it had is freed.
    std::chrono::milliseconds lease{30'000};
    /// For TLS's handshake and the first request.
    std::chrono::milliseconds hello_timeout{5'000};

    tenant_quota       quota{};
    server_limits      limits{};
    wrong_token_limits wrong_tokens{};

    /// If there are any, every client shows one; TCP demands that there are, or certificates.
    tenure::tokens tokens{};
    /// Whose processes may use a Unix socket; empty: those of the server's own user.
    std::vector<::uid_t> users{};
    /// For endpoints that begin with tls: a tls_server.
    std::shared_ptr<security> tls{};

    /// Servers to which buffers may be sent, and what proves them; see tls_client.
    std::vector<endpoint>     peers{};
    std::shared_ptr<security> peers_tls{};

    /// Called from the executor's threads, one at a time; must not throw, nor call the server. Refusals, which
    /// anybody can cause, are told a few times a second at most.
    std::function<void(server_event const&)> log{};

    /// Makes a new block zeros, where the store has something faster than write(). Given a store that has
    /// fill(block, offset, byte, bytes), as a device_store, buffer_server sets it itself.
    std::function<result<void>(block)> clear{};

    /// Called by the executor when the last client has left: a moment to give memory back. What malloc and a
    /// heap_store keep goes back in any case.
    std::function<void()> idle{};
};

}  // namespace tenure
