// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>

#include <tenure/remote/endpoint.hpp>
#include <tenure/remote/server/connection.hpp>
#include <tenure/remote/server/hub.hpp>

namespace tenure::detail {

/// A listening socket, and the connections that it accepts. It lives until close().
class listener : public std::enable_shared_from_this<listener> {
    using protocol_type = boost::asio::generic::stream_protocol;
    using acceptor      = boost::asio::basic_socket_acceptor<protocol_type>;
    using socket        = plain_transport::socket;

public:
    /// Binds and listens. Throws insecure where strangers could come, and the system's errors.
    listener(std::shared_ptr<hub> h, endpoint where)
        : where_(std::move(where)),
          hub_(std::move(h)),
          strand_(boost::asio::make_strand(hub_->executor)),
          acceptor_(strand_),
          pause_(strand_) {
        try {
            if (where_.how == endpoint::kind::unix_socket) open_unix();
            else open_tcp();
        } catch (boost::system::system_error const& e) {
            throw error(std::error_code(e.code()), "listen at " + where_.to_text());
        }
    }
    ~listener() { close_now(); }

    /// Returns the endpoint as it is bound, with its port.
    endpoint const& where() const noexcept { return where_; }

    void start() {
        boost::asio::post(strand_, [self = shared_from_this()] { self->accept(); });
    }
    void close() {
        boost::asio::post(strand_, [self = shared_from_this()] { self->close_now(); });
    }

private:
    void open_unix() {
        ::sockaddr_un at{};
        at.sun_family = AF_UNIX;
        where_.where.copy(at.sun_path, sizeof at.sun_path - 1);
        protocol_type::endpoint const address(&at, sizeof at);
        acceptor_.open(protocol_type(AF_UNIX, 0));
        ::fchmod(acceptor_.native_handle(), 0600);  // Linux gives this mode to the file that bind() makes
        boost::system::error_code ec;
        acceptor_.bind(address, ec);
        if (ec == boost::asio::error::address_in_use && nobody_listens(address)) {
            ::unlink(where_.where.c_str());
            acceptor_.bind(address);
        } else if (ec) {
            throw boost::system::system_error(ec);
        }
        ::chmod(where_.where.c_str(),
                hub_->options.users.empty() ? 0600 : 0666);  // with `users`, take() asks the kernel who connects
        acceptor_.listen();
        made_file_ = true;
    }

    /// Returns whether the file is a socket without a listener: a server that was killed leaves one.
    bool nobody_listens(protocol_type::endpoint const& address) {
        struct ::stat about{};
        if (::lstat(where_.where.c_str(), &about) != 0 || !S_ISSOCK(about.st_mode)) return false;
        boost::asio::basic_stream_socket<protocol_type> s(strand_, protocol_type(AF_UNIX, 0));
        boost::system::error_code                       ec;
        s.connect(address, ec);
        return ec == boost::asio::error::connection_refused;
    }

    void open_tcp() {
        boost::asio::ip::tcp::resolver resolver(strand_);
        auto const                     found =
            resolver.resolve(where_.where, std::to_string(where_.port), boost::asio::ip::tcp::resolver::passive);
        auto const  tcp = found.begin()->endpoint();
        auto const& o   = hub_->options;
        bool const  tls = where_.how == endpoint::kind::tls, proven = tls && o.tls && o.tls->proves_peer();
        if (tls && !o.tls) throw error(errc::insecure, where_.to_text() + ": no certificate was given");
        if (!tls && !tcp.address().is_loopback())
            throw error(errc::insecure, where_.to_text() + " without TLS can be reached from other machines");
        if (o.tokens.empty() && !proven)
            throw error(errc::insecure, where_.to_text() + " needs a token" + (tls ? " or a client CA" : ""));
        acceptor_.open(protocol_type(tcp.protocol()));
        acceptor_.set_option(boost::asio::socket_base::reuse_address(true));
        acceptor_.bind(protocol_type::endpoint(tcp));
        acceptor_.listen();
        auto const                     bound = acceptor_.local_endpoint();
        boost::asio::ip::tcp::endpoint there;
        std::memcpy(there.data(), bound.data(), std::min(there.capacity(), bound.size()));
        where_.port = there.port();
    }

    void accept() {
        if (!acceptor_.is_open()) return;
        // A plain connection has a lock; TLS needs a strand.
        auto const one = where_.how == endpoint::kind::tls
                             ? boost::asio::any_io_executor(boost::asio::make_strand(hub_->executor))
                             : hub_->executor;
        acceptor_.async_accept(
            one, boost::asio::bind_executor(
                     strand_, [self = shared_from_this(), one](boost::system::error_code ec, socket s) {
                         if (!self->acceptor_.is_open()) return;
                         if (ec) return self->try_again();
                         try {
                             self->take(std::move(s));
                         } catch (std::exception const&) {
                             return self->try_again();  // memory is full: this one is closed
                         }
                         self->accept();
                     }));
    }

    /// Accepts again after a while: descriptors may have run out, and others may be closed meanwhile.
    void try_again() {
        pause_.expires_after(std::chrono::milliseconds(50));
        pause_.async_wait([self = shared_from_this()](boost::system::error_code ec) {
            if (!ec) self->accept();
        });
    }

    void take(socket s) {
        peer                      who;
        boost::system::error_code ec;
        if (where_.how == endpoint::kind::unix_socket) {
            ::ucred     user{};
            ::socklen_t size = sizeof user;
            if (::getsockopt(s.native_handle(), SOL_SOCKET, SO_PEERCRED, &user, &size) != 0) return;
            who.text    = "unix uid=" + std::to_string(user.uid) + " pid=" + std::to_string(user.pid);
            who.place   = "user " + std::to_string(user.uid);
            who.tenant  = who.place;
            who.owner   = user.uid == ::geteuid();
            who.local   = true;
            auto& users = hub_->options.users;
            if (users.empty() ? !who.owner : std::find(users.begin(), users.end(), user.uid) == users.end())
                return hub_->log_refusal(who, make_error_code(errc::access_denied));
        } else {
            s.set_option(boost::asio::ip::tcp::no_delay(true), ec);
            auto const                     remote = s.remote_endpoint(ec);
            boost::asio::ip::tcp::endpoint there;
            std::memcpy(there.data(), remote.data(), std::min(there.capacity(), remote.size()));
            who.text  = there.address().to_string(ec) + ':' + std::to_string(there.port());
            who.place = place_of(there.address());
        }
        auto entrance = hub_->enter(who);
        if (!entrance.visit) return hub_->log_refusal(who, limit_error(resource::sessions, true));
        auto const strand = s.get_executor();
        if (where_.how != endpoint::kind::tls)
            return begin(std::make_shared<plain_transport>(std::move(s)), who, std::move(entrance));

        // A TLS handshake. Its socket is shut down if it is late, or has to make room for other visitors.
        struct handshake {
            explicit handshake(boost::asio::any_io_executor const& e) : timer(e) {}
            void give_up() const noexcept {
                if (!done) ::shutdown(fd, SHUT_RDWR);
            }
            void end() {
                done = true;
                timer.cancel();
            }
            boost::asio::steady_timer timer;
            hub::entrance             entrance;
            int                       fd   = -1;
            bool                      done = false;
        };
        auto const h = std::make_shared<handshake>(strand);
        h->entrance  = std::move(entrance);
        h->fd        = s.native_handle();
        h->entrance.visit.when_evicted([strand, w = std::weak_ptr(h)] {
            boost::asio::post(strand, [w] {
                if (auto const late = w.lock()) late->give_up();
            });
        });
        boost::asio::post(strand, [self = shared_from_this(), h, who, s = std::make_shared<socket>(std::move(s))] {
            try {
                h->timer.expires_after(self->hub_->options.hello_timeout);
                h->timer.async_wait([h](boost::system::error_code) { h->give_up(); });
                self->hub_->options.tls->async_secure(
                    std::move(*s), {},
                    [self, h, who](boost::system::error_code failed, std::shared_ptr<transport> const& t,
                                   std::string const& name) mutable {
                        h->end();
                        try {
                            if (failed) return self->hub_->log_refusal(who, std::error_code(failed));
                            who.certified = !name.empty();
                            if (who.certified) who.text += " (" + name + ")";
                            who.tenant = "certificate " + name;
                            self->begin(t, who, std::move(h->entrance));
                        } catch (std::exception const&) {  // memory is full: this one is closed
                            if (t) t->close();
                        }
                    });
            } catch (std::exception const&) {
                h->end();
            }
        });
    }

    void begin(std::shared_ptr<transport> t, peer const& who, hub::entrance e) {
        std::make_shared<connection>(hub_, std::move(t), who, std::move(e))->start();
    }

    /// Returns the address as text; of IPv6 the network, because the owner of one address has all of its
    /// addresses.
    static std::string place_of(boost::asio::ip::address const& at) {
        if (at.is_v4()) return at.to_string();
        if (at.to_v6().is_v4_mapped())
            return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, at.to_v6()).to_string();
        auto bytes = at.to_v6().to_bytes();
        std::fill(bytes.begin() + 8, bytes.end(), static_cast<unsigned char>(0));
        return boost::asio::ip::address_v6(bytes).to_string() + "/64";
    }

    // NOLINTNEXTLINE(bugprone-exception-escape): Asio may throw where memory is out, and then this ends the program
    void close_now() noexcept {
        boost::system::error_code ignored;
        if (std::exchange(made_file_, false)) ::unlink(where_.where.c_str());
        acceptor_.close(ignored);
        pause_.cancel();
    }

    endpoint                                          where_;
    std::shared_ptr<hub>                              hub_;
    boost::asio::strand<boost::asio::any_io_executor> strand_;
    acceptor                                          acceptor_;
    boost::asio::steady_timer                         pause_;
    bool                                              made_file_ = false;
};

}  // namespace tenure::detail
