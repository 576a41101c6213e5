// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <tenure/asio.hpp>
#include <tenure/tenure.hpp>

#include "package_graph/graph.hpp"
#include "package_graph/memory.hpp"
#include "package_graph/query.hpp"
#include "request.hpp"
#include "sockets.hpp"

namespace query_server {

using package_graph::graph;
using package_graph::query_options;
using package_graph::tenure_memory;

struct server_options {
    query_options             how;
    std::chrono::milliseconds timeout{6000};
    std::size_t               request_limit = std::size_t{64} << 20;   ///< bytes of one request
    std::size_t               limit         = std::size_t{512} << 20;  ///< and of all
    std::size_t               workers       = 2;
};

/// What became of requests, and how many there were at one time.
struct server_figures {
    std::size_t ok = 0, refused = 0, expired = 0, cancelled = 0, wrong = 0;
    std::size_t now = 0, most = 0;
};

/// Queries that nobody uses at the moment: each has a scoreboard as large as the graph.
class spare_queries {
public:
    using query = package_graph::query<tenure_memory>;

    spare_queries(graph const& g, query_options const& how) : graph_{g}, how_{how} {}

    /// Calls `f` with one that is this call's alone.
    template <class F>
    auto with(F f) {
        std::unique_ptr<query> mine = take();
        struct giver {
            spare_queries&          to;
            std::unique_ptr<query>& q;
            ~giver() {
                std::scoped_lock const guard{to.mutex_};
                to.spare_.push_back(std::move(q));
            }
        } const back{*this, mine};
        return f(*mine);
    }

private:
    std::unique_ptr<query> take() {
        std::scoped_lock const guard{mutex_};
        spare_.reserve(++most_);  // so that giving back cannot fail
        if (spare_.empty()) return std::make_unique<query>(graph_, how_);
        auto q = std::move(spare_.back());
        spare_.pop_back();
        return q;
    }

    graph const&                        graph_;
    query_options                       how_;
    std::mutex                          mutex_;
    std::vector<std::unique_ptr<query>> spare_;
    std::size_t                         most_ = 0;
};

/// A coroutine a connection, on the io_context's one thread; a batch a request, from its arrival to its answer.
/// Queries run on threads of their own, with the request's batch current: whatever they make lands there. A request
/// ends early when its time is up, when it has too much memory, and when its client hangs up.
class server {
public:
    server(asio::io_context& io, tenure::registry& registry, graph const& g, server_options const& o)
        : io_{io},
          registry_{registry},
          graph_{g},
          options_{o},
          plain_{g, o.how},
          replacing_{g, with_replacement(o.how)},
          requests_{registry, {.name = "requests", .limits = {.hard = o.limit}}},
          pool_{o.workers} {}

    /// Serves until close(), and then those that are still connected.
    void listen(tenure::endpoint const& at) {
        acceptor_.emplace(listen_at(io_, at));
        asio::co_spawn(io_, accept(), rethrow);
    }

    /// From the io_context's thread, as the next.
    void close() { acceptor_->close(); }

    /// All at once: whatever is asked is cancelled, whoever is connected is not any more.
    void stop() {
        close();
        for (socket* const s : connected_) s->close();
        registry_.cancel(requests_.id());
    }

    server_figures const& figures() const noexcept { return figures_; }

private:
    static void rethrow(std::exception_ptr e) {
        if (e) std::rethrow_exception(e);
    }
    static query_options with_replacement(query_options how) {
        how.replace = true;
        return how;
    }

    asio::awaitable<void> accept() {
        constexpr auto token = asio::as_tuple(asio::use_awaitable);
        for (;;) {
            auto [error, client] = co_await acceptor_->async_accept(token);
            if (error == asio::error::operation_aborted || !acceptor_->is_open()) co_return;
            if (error) {  // no descriptors, say: those that are connected will give some back
                asio::steady_timer soon{io_, std::chrono::milliseconds{10}};
                co_await soon.async_wait(token);
            } else {
                asio::co_spawn(io_, converse(std::move(client)), rethrow);
            }
        }
    }

    asio::awaitable<void> converse(socket client) try {
        struct listed {
            std::set<socket*>& in;
            socket*            s;
            listed(std::set<socket*>& all, socket& client) : in{all}, s{&client} { in.insert(s); }
            ~listed() { in.erase(s); }
            listed(listed const&)            = delete;
            listed& operator=(listed const&) = delete;
        } const here{connected_, client};
        for (std::string in;;) {
            auto const length =
                co_await asio::async_read_until(client, asio::dynamic_buffer(in, 4096), '\n', asio::use_awaitable);
            std::string const line = in.substr(0, length - 1);
            in.erase(0, length);
            auto const answered = co_await answer(client, line);
            if (!answered) co_return;
            co_await asio::async_write(client, asio::buffer(*answered), asio::use_awaitable);
        }
    } catch (boost::system::system_error const&) {
        co_return;  // it hung up between two requests, or in its answer
    }

    /// None: the client has gone. What goes to the socket is the connection's own, not the batch's: a request may
    /// expire while its client is slow to read.
    asio::awaitable<std::optional<std::string>> answer(socket& client, std::string const& line) {
        using namespace asio::experimental::awaitable_operators;
        counted const       one{figures_};
        tenure::batch_owner batch{
            registry_,
            {.name = "request", .timeout = options_.timeout, .limits = {.hard = options_.request_limit}},
            requests_.id()};
        auto const first = co_await (work(batch, line) || hang_up(client, batch));
        if (first.index() == 1) {
            ++figures_.cancelled;
            co_return std::nullopt;
        }
        co_return std::get<0>(first);
    }

    /// Until there is something to read where nothing should be. Then it is nobody's request any more: the query's
    /// next make throws.
    static asio::awaitable<void> hang_up(socket& client, tenure::batch_owner& batch) {
        co_await client.async_wait(socket::wait_read, asio::use_awaitable);
        batch.cancel();
    }

    asio::awaitable<std::string> work(tenure::batch_owner& batch, std::string const& line) {
        // What stops it is its batch. Asio's own cancellation would reach out for the thread that thinks.
        co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation{});
        std::string why;
        try {
            auto const ask   = request::from_line(line);
            auto const start = graph_.find(ask.package);
            if (!start) throw std::invalid_argument{"no package is called " + ask.package};
            if (ask.wait.count()) co_await pause(batch, ask.wait);
            auto const  there = tenure::bind_batch(pool_.get_executor(), batch);
            std::string text  = co_await asio::co_spawn(there, think(*start, ask.replace), asio::use_awaitable);
            ++figures_.ok;
            co_return text;
        } catch (tenure::error const& e) {
            why = refusal(e);
        } catch (std::exception const& e) {
            ++figures_.wrong;
            why = std::string{"error "} + e.what();
        }
        co_return why + "\n\n";
    }

    /// For as long, unless the batch is over before.
    asio::awaitable<void> pause(tenure::batch_owner& batch, std::chrono::milliseconds time) {
        auto const               timer = std::make_shared<asio::steady_timer>(io_, time);
        std::stop_callback const wake{batch.stop_token(),
                                      [timer] { asio::post(timer->get_executor(), [timer] { timer->cancel(); }); }};
        co_await timer->async_wait(asio::as_tuple(asio::use_awaitable));
    }

    /// On a thread of the pool, the request's batch current. No co_await, so batch_scopes may be opened.
    asio::awaitable<std::string> think(package_graph::node_id start, bool replace) {
        tenure::batch_scope caller{{.name = "query"}};
        co_return (replace ? replacing_ : plain_).with([&](spare_queries::query& q) {
            std::string text = "ok\n";
            for (auto const& r : q(caller, start))
                text += graph_.name(r->package) + ' ' + std::to_string(r->score) + '\n';
            return text + '\n';
        });
    }

    /// Nothing but its limits, its time and its client stops a request; and the client does not hear of it.
    std::string refusal(tenure::error const& e) {
        if (e.code() == tenure::errc::limit_exceeded || e.code() == tenure::errc::memory_full) {
            ++figures_.refused;
            return std::string{"refused "} + e.what();
        }
        if (e.code() == tenure::errc::cancelled) return "cancelled";
        ++figures_.expired;
        return "expired after " + std::to_string(options_.timeout.count()) + " ms";
    }

    /// A request, while it lasts.
    class counted {
    public:
        explicit counted(server_figures& f) : figures_{f} {
            figures_.most = std::max(figures_.most, ++figures_.now);
        }
        ~counted() { --figures_.now; }
        counted(counted const&)            = delete;
        counted& operator=(counted const&) = delete;

    private:
        server_figures& figures_;
    };

    asio::io_context&       io_;
    tenure::registry&       registry_;
    graph const&            graph_;
    server_options          options_;
    spare_queries           plain_;
    spare_queries           replacing_;
    tenure::batch_owner     requests_;
    server_figures          figures_;
    std::optional<acceptor> acceptor_;
    std::set<socket*>       connected_;
    asio::thread_pool       pool_;
};

}  // namespace query_server
