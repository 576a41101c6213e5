// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <list>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/// A descriptor that is closed.
class owned_fd {
public:
    owned_fd() = default;
    explicit owned_fd(int fd) : fd_(fd) {
        if (fd < 0) throw std::system_error(errno, std::generic_category(), "proxy");
    }
    owned_fd(owned_fd&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
    owned_fd& operator=(owned_fd&& o) noexcept {
        std::swap(fd_, o.fd_);
        return *this;
    }
    ~owned_fd() {
        if (fd_ >= 0) ::close(fd_);
    }
    int get() const { return fd_; }

private:
    int fd_ = -1;
};

inline ::sockaddr_un unix_address(std::filesystem::path const& path) {
    ::sockaddr_un a{};
    a.sun_family = AF_UNIX;
    if (path.native().size() >= sizeof a.sun_path) throw std::length_error("proxy: " + path.native());
    std::memcpy(a.sun_path, path.c_str(), path.native().size());
    return a;
}

/// Stands between clients and a server on Unix sockets, and is the bad network: it passes on what comes, exactly as
/// many bytes as it was told to, and then cuts or stalls. Counts are of all connections together, from the last
/// call of a function that sets something on. One thread; its functions may be called from any.
class proxy {
public:
    enum direction { to_server, to_client };

    proxy(std::filesystem::path own, std::filesystem::path server)
        : own_(std::move(own)), server_(std::move(server)) {
        ::sockaddr_un const a = unix_address(own_);
        if (::bind(listening_.get(), reinterpret_cast<::sockaddr const*>(&a), sizeof a) != 0 ||
            ::listen(listening_.get(), 128) != 0)
            throw std::system_error(errno, std::generic_category(), own_.native());
        thread_ = std::jthread([this](std::stop_token over) { run(over); });
    }
    ~proxy() {
        thread_.request_stop();
        wake();
    }
    proxy(proxy const&)            = delete;
    proxy& operator=(proxy const&) = delete;

    /// Once so many bytes have passed that way, the connection that brought the last of them is closed. Once.
    void cut_after(direction d, std::uint64_t bytes) {
        change([&] { plan_[d].cut = bytes; });
    }
    /// After so many bytes nothing passes that way any more, and nobody is told.
    void stall_after(direction d, std::uint64_t bytes) {
        change([&] { plan_[d].stall = bytes; });
    }
    /// Each byte by itself.
    void trickle() {
        change([&] { trickles_ = true; });
    }
    /// All connections are closed now, and new ones at once until `heal`.
    void refuse() {
        change([&] { refuses_ = cuts_all_ = true; });
    }
    void cut() {
        change([&] { cuts_all_ = true; });
    }
    /// Passes everything on from now on.
    void heal() {
        change([&] {
            plan_     = {};
            trickles_ = refuses_ = false;
        });
    }

    std::uint64_t passed(direction d) const {
        std::scoped_lock const guard(lock_);
        return passed_[d];
    }
    /// Connections taken since the begin.
    std::size_t connections() const {
        std::scoped_lock const guard(lock_);
        return taken_;
    }

private:
    struct limits {
        std::optional<std::uint64_t> cut, stall;
    };

    /// One way of a connection: bytes that were read and not yet written.
    struct lane {
        std::vector<char> waiting;
        bool              ended = false, told = false;  ///< the sender sends no more; the receiver knows
    };
    struct link {
        owned_fd            ends[2];  ///< the server's, the client's: lane d goes to ends[d]
        std::array<lane, 2> lanes;
        bool                broken = false;
    };

    template <class F>
    void change(F f) {
        {
            std::scoped_lock const guard(lock_);
            passed_ = {};
            f();
        }
        wake();
    }
    void wake() const {
        std::uint64_t const one = 1;
        if (::write(wake_.get(), &one, sizeof one) != sizeof one) std::abort();
    }

    void run(std::stop_token const& over) {
        std::list<link>       links;
        std::vector<::pollfd> polled;
        while (!over.stop_requested()) {
            polled.clear();
            polled.push_back({wake_.get(), POLLIN, 0});
            polled.push_back({listening_.get(), POLLIN, 0});
            {
                std::scoped_lock const guard(lock_);
                for (link const& l : links) {
                    for (direction const d : {to_server, to_client}) {
                        short const in  = l.lanes[1 - d].waiting.empty() && !l.lanes[1 - d].ended &&
                                                 room(static_cast<direction>(1 - d)) != 0
                                              ? POLLIN
                                              : 0;
                        short const out = !l.lanes[d].waiting.empty() ? POLLOUT : 0;
                        // Nothing asked of it: then a hangup must not keep poll() from waiting.
                        polled.push_back({in || out ? l.ends[d].get() : -1, static_cast<short>(in | out), 0});
                    }
                }
            }
            ::poll(polled.data(), polled.size(), -1);
            if (polled[0].revents) {
                std::uint64_t ignored = 0;
                if (::read(wake_.get(), &ignored, sizeof ignored) < 0 && errno != EAGAIN) std::abort();
            }
            std::scoped_lock const guard(lock_);
            if (std::exchange(cuts_all_, false)) links.clear();
            for (link& l : links)
                for (direction const d : {to_server, to_client}) pass(l, d);
            std::erase_if(links, [](link const& l) { return l.broken; });
            if (polled[1].revents) take(links);
        }
    }

    void take(std::list<link>& links) {
        int const fd = ::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) return;
        ++taken_;
        owned_fd client(fd);
        if (refuses_) return;
        owned_fd            server(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        ::sockaddr_un const a = unix_address(server_);
        if (::connect(server.get(), reinterpret_cast<::sockaddr const*>(&a), sizeof a) != 0) return;
        ::fcntl(server.get(), F_SETFL, O_NONBLOCK);
        link& l           = links.emplace_back();
        l.ends[to_server] = std::move(server);
        l.ends[to_client] = std::move(client);
    }

    /// How much may be read that goes this way.
    std::uint64_t room(direction d) const {
        std::uint64_t n = trickles_ ? 1 : 1 << 16;
        if (plan_[d].cut) n = std::min(n, *plan_[d].cut - std::min(*plan_[d].cut, passed_[d]));
        if (plan_[d].stall) n = std::min(n, *plan_[d].stall - std::min(*plan_[d].stall, passed_[d]));
        return n;
    }

    void pass(link& l, direction d) {
        if (l.broken) return;
        lane& way = l.lanes[d];
        if (std::uint64_t const n = room(d); way.waiting.empty() && !way.ended && n != 0) {
            way.waiting.resize(n);
            ::ssize_t const got = ::recv(l.ends[1 - d].get(), way.waiting.data(), n, 0);
            if (got < 0 && errno != EAGAIN && errno != EINTR) l.broken = true;
            if (got == 0) way.ended = true;
            way.waiting.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
            passed_[d] += way.waiting.size();
        }
        if (!way.waiting.empty()) {
            ::ssize_t const put = ::send(l.ends[d].get(), way.waiting.data(), way.waiting.size(), MSG_NOSIGNAL);
            if (put < 0 && errno != EAGAIN && errno != EINTR) l.broken = true;
            if (put > 0) way.waiting.erase(way.waiting.begin(), way.waiting.begin() + put);
        }
        if (way.waiting.empty() && way.ended && !std::exchange(way.told, true))
            ::shutdown(l.ends[d].get(), SHUT_WR);
        if (way.waiting.empty() && plan_[d].cut && passed_[d] == *plan_[d].cut) {
            plan_[d].cut.reset();
            l.broken = true;
        }
        if (l.lanes[0].told && l.lanes[1].told) l.broken = true;
    }

    std::filesystem::path const  own_, server_;
    owned_fd                     wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    owned_fd                     listening_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    mutable std::mutex           lock_;
    std::array<limits, 2>        plan_{};
    std::array<std::uint64_t, 2> passed_{};
    bool                         trickles_ = false, refuses_ = false, cuts_all_ = false;
    std::size_t                  taken_ = 0;
    std::jthread                 thread_;
};
