// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include <tenure/remote/endpoint.hpp>

namespace query_server {

namespace asio = boost::asio;

using socket   = asio::generic::stream_protocol::socket;
using acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

/// Where unix:PATH or tcp:HOST:PORT is. Throws boost::system::system_error.
inline asio::generic::stream_protocol::endpoint address_of(asio::io_context& io, tenure::endpoint const& at) {
    if (at.how == tenure::endpoint::kind::unix_socket) return asio::local::stream_protocol::endpoint{at.where};
    asio::ip::tcp::resolver resolver{io};
    return resolver.resolve(at.where, std::to_string(at.port)).begin()->endpoint();
}

/// A path of a former server would be in the way.
inline acceptor listen_at(asio::io_context& io, tenure::endpoint const& at) {
    if (at.how == tenure::endpoint::kind::unix_socket) ::unlink(at.where.c_str());
    auto const address = address_of(io, at);
    acceptor   a{io};
    a.open(address.protocol());
    if (at.how != tenure::endpoint::kind::unix_socket) a.set_option(acceptor::reuse_address{true});
    a.bind(address);
    a.listen(4096);
    return a;
}

/// As many connections as the system grants this process descriptors for, at two each: both ends are here.
inline std::size_t most_connections() {
    ::rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = std::min<::rlim_t>(files.rlim_max, 1 << 20);
    ::setrlimit(RLIMIT_NOFILE, &files);
    ::getrlimit(RLIMIT_NOFILE, &files);
    return files.rlim_cur > 128 ? (files.rlim_cur - 64) / 2 : 32;
}

}  // namespace query_server
