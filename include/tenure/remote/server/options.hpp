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
#include <tenure/remote/trust.hpp>
#include <tenure/store/concept.hpp>

namespace tenure {

class security;

/// The limits of one tenant, over all its sessions. A tenant is the holder of a token, else of a TLS client
/// certificate, else a user of this machine. 0 is as much as the server has, unless noted.
struct tenant_quota {
    std::uint64_t bytes        = 0;  ///< of buffers, as the store holds them
    std::uint64_t buffers      = std::uint64_t{1} << 22;
    std::uint64_t batches      = std::uint64_t{1} << 20;
    std::uint32_t in_flight    = 256;  ///< unsettled requests of one session; 0 is taken as 1
    std::uint32_t tickets      = 1024;
    std::uint32_t sessions     = 256;
    std::uint64_t requests     = std::uint64_t{1} << 16;   ///< in_flight of all sessions together
    std::uint64_t names        = std::uint64_t{1} << 16;   ///< of shared buffers
    std::uint64_t queued_bytes = std::uint64_t{64} << 20;  ///< beyond it, a session takes one request at a time
    std::uint64_t memory       = 0;  ///< bytes of the server's bookkeeping; 0: half of server_limits::memory
};

/// The limits of all tenants together. 0 is no limit, except for `bytes` and `memory`. `bytes` is then the store's
/// capacity, or three quarters of the machine's memory if the store takes that and has no capacity. `memory` is
/// then a sixteenth of the machine's memory, at least 32 MiB.
struct server_limits {
    std::uint64_t bytes        = 0;  ///< of buffers, as the store holds them
    std::uint64_t memory       = 0;  ///< bytes to know of buffers, batches, names
    std::uint32_t sessions     = 1024;
    std::uint32_t connections  = 2048;
    std::uint32_t visitors     = 1024;  ///< without a hello, a quarter from one address; as many by Unix sockets
    std::uint64_t queued_bytes = std::uint64_t{256} << 20;
};

/// Rates at which wrong tokens and tickets are checked: some at once, then some a second. A client that shows more
/// waits, and is closed at the hello timeout. A place that has sent a right token waits only for its own wrong
/// ones. A rate of 0 is no limit.
struct wrong_token_limits {
    double at_once = 10, a_second = 1;            ///< from one address (of IPv6: its /64 network) or Unix user
    double all_at_once = 200, all_a_second = 20;  ///< from all together
};

/// An event for the log. Its text contains no secrets.
struct server_event {
    /// opened, resumed: a connection has a session. lost: the connection is gone, and the session waits for its
    /// client. ended: both are gone. refused: a client was not let in. limited: a request would have exceeded a
    /// limit.
    enum class kind { opened, resumed, lost, ended, refused, limited };

    kind            what;
    std::string     peer;    ///< "unix uid=1000 pid=77", or an address and a port
    std::string     client;  ///< what the client calls itself, printable
    std::string     token;   ///< name of the token that it showed
    std::uint64_t   session = 0;
    std::uint64_t   bytes = 0, buffers = 0;  ///< what the client has, or had
    std::error_code why;                     ///< of refused: the error; of limited: which limit
    std::uint64_t   left_out = 0;            ///< earlier events, refused or limited, that came too fast to be told
};

/// Limits, trust and callbacks of a buffer_server.
struct server_options {
    /// Time after which a silent client counts as gone, and everything that it had is freed.
    std::chrono::milliseconds lease{30'000};
    /// Time for the TLS handshake, for the first request after it, and for the last answers of a connection that
    /// ends.
    std::chrono::milliseconds hello_timeout{5'000};

    tenant_quota       quota{};
    server_limits      limits{};
    wrong_token_limits wrong_tokens{};

    /// If there are any, every client without a certificate shows one. Listening on TCP demands tokens, or TLS
    /// with client certificates.
    tenure::tokens tokens{};
    /// Users whose processes may use a Unix socket; empty: the server's own user.
    std::vector<::uid_t> users{};
    /// A tls_server, for endpoints that begin with tls.
    std::shared_ptr<security> tls{};

    /// Servers to which buffers may be sent; peers_tls proves who they are, see tls_client.
    std::vector<endpoint>     peers{};
    std::shared_ptr<security> peers_tls{};

    /// Called from the executor's threads, one call at a time. It must neither throw nor call the server. Refusals
    /// and exceeded limits, which anybody can cause, are told a few times a second at most.
    std::function<void(server_event const&)> log{};

    /// Fills a new block with zeros, where the store has something faster than write(). If the store has
    /// fill(block, offset, byte, bytes), as device_store has, buffer_server sets this itself.
    std::function<result<void>(block)> clear{};

    /// Called on the executor when the last session has ended, to give memory back. What malloc and a heap_store
    /// keep goes back in any case.
    std::function<void()> idle{};
};

/// The state of a server at one moment.
struct server_status {
    /// A session: its client and its holdings.
    struct client {
        std::uint64_t session = 0;
        std::string   name, peer, token, tenant;  ///< token: its name; tenant: whose limits apply
        bool          connected = false;
        std::uint64_t bytes = 0, buffers = 0, batches = 0;
    };

    /// The use of one resource; `most` is the limit, 0 for none.
    struct figure {
        std::string   what;  ///< bytes, buffers, batches, sessions, names, ...
        std::uint64_t used = 0, most = 0;
    };
    /// The holdings of one tenant.
    struct tenant {
        std::string         name;  ///< token "ann", token 2, user 1000, certificate CN=...
        std::vector<figure> figures;
    };

    std::string         store;
    std::uint64_t       instance    = 0;
    std::size_t         connections = 0;
    std::uint64_t       bytes = 0, buffers = 0, capacity = 0;  ///< of the store
    std::uint64_t       unfreed = 0;  ///< blocks that the store refused to free; it is asked again
    std::vector<client> clients;
    std::vector<figure> figures;  ///< of all tenants together
    std::vector<tenant> tenants;  ///< those that have something here

    /// Returns the status as one line of JSON, for programs.
    std::string to_json() const;
};

}  // namespace tenure
