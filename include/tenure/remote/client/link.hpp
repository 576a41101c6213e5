// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include <tenure/remote/endpoint.hpp>
#include <tenure/remote/security.hpp>
#include <tenure/remote/transport.hpp>

namespace tenure::detail::remote {

/// One attempt to reach a server: finds its address, connects, and shakes hands for TLS.
class link : public std::enable_shared_from_this<link> {
public:
    using handler = std::function<void(boost::system::error_code, std::shared_ptr<transport>)>;

    /// Starts an attempt. Calls `done` on the context, unless cancel() comes first. Throws std::bad_alloc and
    /// boost::system::system_error.
    static std::shared_ptr<link> start(boost::asio::io_context& on, endpoint const& to,
                                       std::shared_ptr<security> const& tls, handler done) {
        auto const l = std::make_shared<link>(on, to, tls, std::move(done));
        if (to.how == endpoint::kind::unix_socket) l->go_unix();
        else l->resolve();
        return l;
    }

    link(boost::asio::io_context& on, endpoint const& to, std::shared_ptr<security> tls, handler done)
        : to_(to), tls_(std::move(tls)), done_(std::move(done)), resolver_(on), tcp_(on), local_(on) {}

    /// Ends the attempt. `done` is not called any more.
    void cancel() noexcept {
        done_ = nullptr;
        boost::system::error_code ignored;  // the sockets are closed in any case
        resolver_.cancel();
        tcp_.close(ignored);
        local_.close(ignored);
    }

private:
    using tcp   = boost::asio::ip::tcp;
    using local = boost::asio::local::stream_protocol;

    void go_unix() {
        local_.async_connect(local::endpoint(to_.where),
                             [self = shared_from_this()](boost::system::error_code why) {
                                 self->connected(why, [&] { return security::socket(std::move(self->local_)); });
                             });
    }

    void resolve() {
        boost::system::error_code no_address;
        auto const                address = boost::asio::ip::make_address(to_.where, no_address);
        if (!no_address) {  // no name needs to be looked up
            tcp_.async_connect({address, to_.port}, [self = shared_from_this()](boost::system::error_code why) {
                self->connected(why, [&] { return self->tcp_socket(); });
            });
            return;
        }
        resolver_.async_resolve(
            to_.where, std::to_string(to_.port), tcp::resolver::numeric_service,
            [self = shared_from_this()](boost::system::error_code why, tcp::resolver::results_type const& found) {
                if (why || !self->done_) return self->finish(why, nullptr);
                boost::asio::async_connect(self->tcp_, found,
                                           [self](boost::system::error_code bad, tcp::endpoint const&) {
                                               self->connected(bad, [&] { return self->tcp_socket(); });
                                           });
            });
    }

    /// Returns the TCP socket with TCP_NODELAY set, so that small requests do not wait for others.
    security::socket tcp_socket() {
        boost::system::error_code ignored;  // without the option they wait
        tcp_.set_option(tcp::no_delay(true), ignored);
        return security::socket(std::move(tcp_));
    }

    template <class MakeSocket>
    void connected(boost::system::error_code why, MakeSocket make) {
        if (why || !done_) return finish(why, nullptr);
        if (to_.how != endpoint::kind::tls) return finish(why, std::make_shared<plain_transport>(make()));
        tls_->async_secure(make(), to_.where,
                           [self = shared_from_this()](boost::system::error_code bad, std::shared_ptr<transport> t,
                                                       std::string const&) { self->finish(bad, std::move(t)); });
    }

    void finish(boost::system::error_code why, std::shared_ptr<transport> t) {
        if (auto const done = std::exchange(done_, nullptr)) done(why, std::move(t));
        else if (t) t->close();
    }

    endpoint const                  to_;
    std::shared_ptr<security> const tls_;
    handler                         done_;
    tcp::resolver                   resolver_;
    tcp::socket                     tcp_;
    local::socket                   local_;
};

}  // namespace tenure::detail::remote
