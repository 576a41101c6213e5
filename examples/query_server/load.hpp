// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "package_graph/graph.hpp"
#include "package_graph/sample.hpp"
#include "request.hpp"
#include "sockets.hpp"

namespace query_server {

using clock = std::chrono::steady_clock;

struct load_options {
    std::size_t               connections = 3000;
    std::chrono::milliseconds time{15'000};
    std::chrono::milliseconds timeout{6000};  ///< the server's, to know what is slow
    std::uint64_t             seed = 1;
};

struct load_figures {
    std::size_t         ok = 0, refused = 0, expired = 0, killed = 0, wrong = 0;
    std::size_t         slow      = 0;  ///< asked for longer than the server's timeout
    std::size_t         too_early = 0;  ///< of those killed: before there can have been an answer
    std::vector<double> ms;             ///< of the ordinary ones, without what they asked the server to wait
};

/// Clients that ask, wait for the answer, pause, and ask again, until the time is up: most for a random package; a
/// few for more than a request may have, for longer than it may take, or until they lose patience and hang up.
class load {
public:
    load(package_graph::graph const& g, tenure::endpoint const& at, load_options const& o)
        : graph_{g}, options_{o}, at_{address_of(io_, at)}, until_{clock::now() + o.time} {}

    /// Returns when all have their answers.
    load_figures run() {
        for (std::uint32_t n = 0; n < options_.connections; ++n)
            asio::co_spawn(io_, client(n), [](std::exception_ptr e) {
                if (e) std::rethrow_exception(e);
            });
        io_.run();
        return std::move(figures_);
    }

private:
    enum class kind { ordinary, greedy, slow, impatient };

    asio::awaitable<void> client(std::uint32_t n) {
        package_graph::random_stream random{options_.seed, n, 1};
        socket                       s{io_};
        for (co_await pause(below(random, 0.3)); clock::now() < until_; co_await pause(below(random, 0.3))) {
            if (!s.is_open()) co_await s.async_connect(at_, asio::use_awaitable);
            request    ask;
            kind const what = choose(random, ask);
            auto const sent = clock::now();
            co_await asio::async_write(s, asio::buffer(ask.to_line()), asio::use_awaitable);
            if (what == kind::impatient) {
                co_await pause(below(random, 0.2));
                s.close();
                ++figures_.killed;
                figures_.too_early += clock::now() - sent < ask.wait;
                continue;
            }
            figures_.slow += what == kind::slow;
            note(what, co_await answer(s), clock::now() - sent - ask.wait);
        }
    }

    kind choose(package_graph::random_stream& random, request& ask) {
        ask.package      = graph_.name(random.below(static_cast<std::uint32_t>(graph_.packages())));
        ask.wait         = below(random, 0.75);
        auto const share = random.below(100);
        if (share < 2) {
            ask.replace = true;
            return kind::greedy;
        }
        if (share < 6) {
            ask.wait = options_.timeout * 2;
            return kind::slow;
        }
        return share < 14 ? kind::impatient : kind::ordinary;
    }

    /// Up to such a share of the server's timeout.
    std::chrono::milliseconds below(package_graph::random_stream& random, double share) const {
        return std::chrono::milliseconds{
            random.below(1 + static_cast<std::uint32_t>(static_cast<double>(options_.timeout.count()) * share))};
    }

    asio::awaitable<void> pause(std::chrono::milliseconds time) {
        asio::steady_timer timer{io_, time};
        co_await timer.async_wait(asio::use_awaitable);
    }

    static asio::awaitable<std::string> answer(socket& s) {
        std::string in;
        auto const  end =
            co_await asio::async_read_until(s, asio::dynamic_buffer(in, 1 << 16), "\n\n", asio::use_awaitable);
        in.resize(end);
        co_return in;
    }

    void note(kind what, std::string_view answer, clock::duration took) {
        if (answer.starts_with("ok")) {
            ++figures_.ok;
            if (what == kind::ordinary)
                figures_.ms.push_back(std::chrono::duration<double, std::milli>(took).count());
        } else if (answer.starts_with("refused")) {
            ++figures_.refused;
        } else if (answer.starts_with("expired")) {
            ++figures_.expired;
        } else {
            ++figures_.wrong;
        }
    }

    package_graph::graph const&              graph_;
    load_options                             options_;
    asio::io_context                         io_{1};
    asio::generic::stream_protocol::endpoint at_;
    clock::time_point                        until_;
    load_figures                             figures_;
};

}  // namespace query_server
