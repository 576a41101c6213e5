// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>

#include <tenure/remote/transport.hpp>

namespace tenure {

/// What makes a transport of a connected socket: TLS, of one side. Here only its face, so that a server and a
/// client are compiled without OpenSSL; tls.hpp has the rest. Thread-safe.
class security {
public:
    using socket = plain_transport::socket;
    /// Why it failed, or the transport, and the name in the certificate that the peer showed, if it showed one.
    using handler =
        std::function<void(boost::system::error_code, std::shared_ptr<transport>, std::string const& peer)>;

    security()                           = default;
    virtual ~security()                  = default;
    security(security const&)            = delete;
    security& operator=(security const&) = delete;

    /// Shakes hands over `s`, on the socket's executor. `host`: who must be at the other side, of a client.
    virtual void async_secure(socket s, std::string const& host, handler done) = 0;

    /// A peer without a certificate that it trusts gets no transport.
    virtual bool proves_peer() const noexcept = 0;
};

}  // namespace tenure
