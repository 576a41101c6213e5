// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include <tenure/error.hpp>
#include <tenure/remote/endpoint.hpp>
#include <tenure/remote/security.hpp>
#include <tenure/remote/transport.hpp>

namespace tenure::detail::remote {

/// One attempt to reach a server: finds its address, connects, and shakes hands for TLS. Everything runs on the
/// executor, one handler at a time.
class link : public std::enable_shared_from_this<link> {
public:
    /// Takes the error (memory_full, or what the system or TLS says), or the transport.
    using handler = std::function<void(std::error_code, std::shared_ptr<transport>)>;

    /// Starts an attempt. Calls `done` on the executor, unless cancel() comes first. Throws std::bad_alloc and
    /// boost::system::system_error.
    static std::shared_ptr<link> start(boost::asio::any_io_executor const& on, endpoint const& to,
                                       std::shared_ptr<security> const& tls, handler done) {
        auto const l = std::make_shared<link>(on, to, tls, std::move(done));
        l->find();
        return l;
    }

    link(boost::asio::any_io_executor const& on, endpoint const& to, std::shared_ptr<security> tls, handler done)
        : to_(to), tls_(std::move(tls)), done_(std::move(done)), resolver_(on), socket_(on) {}

    /// Returns whether the server was reached, though it may have failed to prove who it is.
    bool reached() const noexcept { return reached_; }

    /// Ends the attempt. `done` is not called any more.
    void cancel() noexcept {
        done_ = nullptr;
        resolver_.cancel();
        boost::system::error_code ignored;  // the socket is closed in any case
        socket_.close(ignored);
    }

private:
    using tcp     = boost::asio::ip::tcp;
    using address = security::socket::protocol_type::endpoint;

    void find() {
        if (to_.how == endpoint::kind::unix_socket)
            return connect({boost::asio::local::stream_protocol::endpoint(to_.where)});
        boost::system::error_code no_address;
        auto const                ip = boost::asio::ip::make_address(to_.where, no_address);
        if (!no_address) return connect({tcp::endpoint(ip, to_.port)});  // no name needs to be looked up
        resolver_.async_resolve(
            to_.where, std::to_string(to_.port), tcp::resolver::numeric_service,
            [self = shared_from_this()](boost::system::error_code why, tcp::resolver::results_type const& found) {
                self->go_on(why, [&] {
                    std::vector<address> all;
                    for (auto const& e : found) all.emplace_back(e.endpoint());
                    self->connect(all);
                });
            });
    }

    void connect(std::vector<address> const& all) {
        boost::asio::async_connect(socket_, all,
                                   [self = shared_from_this()](boost::system::error_code why, address const&) {
                                       self->go_on(why, [&] { self->secure(); });
                                   });
    }

    void secure() {
        reached_ = true;
        boost::system::error_code ignored;  // without the option small requests wait for others
        if (to_.how != endpoint::kind::unix_socket) socket_.set_option(tcp::no_delay(true), ignored);
        if (to_.how != endpoint::kind::tls)
            return finish({}, std::make_shared<plain_transport>(std::move(socket_)));
        tls_->async_secure(std::move(socket_), to_.where,
                           [self = shared_from_this()](boost::system::error_code why, std::shared_ptr<transport> t,
                                                       std::string const&) { self->finish(why, std::move(t)); });
    }

    template <class F>
    void go_on(boost::system::error_code why, F next) {
        if (why || !done_) return finish(why, nullptr);
        try {
            next();
        } catch (std::exception const&) {
            finish(make_error_code(errc::memory_full), nullptr);
        }
    }

    void finish(std::error_code why, std::shared_ptr<transport> t) {
        if (auto const done = std::exchange(done_, nullptr)) done(why, std::move(t));
        else if (t) t->close();
    }

    endpoint const                  to_;
    std::shared_ptr<security> const tls_;
    handler                         done_;
    tcp::resolver                   resolver_;
    security::socket                socket_;
    bool                            reached_ = false;
};

}  // namespace tenure::detail::remote
