// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <functional>
#include <memory>
#include <string>

#include <tenure/remote/transport.hpp>

namespace tenure {

/// Makes a transport of a connected socket: one side of TLS. This is only the interface, so that a server and a
/// client are compiled without OpenSSL; tls.hpp has the rest. Thread-safe.
class security {
public:
    using socket = plain_transport::socket;
    /// Takes the error, or the transport and the name in the peer's certificate (empty if the peer showed none).
    using handler =
        std::function<void(boost::system::error_code, std::shared_ptr<transport>, std::string const& peer)>;

    security()                           = default;
    virtual ~security()                  = default;
    security(security const&)            = delete;
    security& operator=(security const&) = delete;

    /// Shakes hands over `s`, on the socket's executor. `host`: of a client, the host that must be at the other
    /// side.
    virtual void async_secure(socket s, std::string const& host, handler done) = 0;

    /// Returns whether a peer needs a certificate that this side trusts: without it there is no transport.
    virtual bool proves_peer() const noexcept = 0;
};

}  // namespace tenure
