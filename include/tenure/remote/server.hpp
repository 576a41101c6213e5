// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <tenure/remote/endpoint.hpp>
#include <tenure/remote/server/hub.hpp>
#include <tenure/remote/server/listener.hpp>
#include <tenure/remote/server/options.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure {

/// Exports a store to other processes; remote/client.hpp is the other side, docs/protocol.md the protocol. A
/// client's blocks are its own, and zeros when it gets them. If a client is gone for a lease, its blocks are
/// freed, all of a batch with one call of the store. server_options limits what a tenant, and all tenants
/// together, may have. Nothing happens unless a thread runs the executor; several threads may. They make the
/// store's calls.
///
///     boost::asio::io_context io;
///     tenure::buffer_server   server(io.get_executor(), store);
///     server.listen(tenure::endpoint("unix:/run/user/1000/tenure.sock"));
///     io.run();
///
/// Thread-safe. The store is kept until nothing refers to its blocks any more.
class buffer_server {
public:
    /// Makes a server of `store`, which listens nowhere yet: see listen().
    buffer_server(boost::asio::any_io_executor executor, any_store store, server_options options = {})
        : hub_(std::make_shared<detail::hub>(std::move(executor), std::move(store), std::move(options))) {
        hub_->status = [h = std::weak_ptr(hub_)]() -> result<std::string> {
            auto const self = h.lock();
            if (!self) return make_error_code(errc::store_closed);
            for (std::size_t part = 1;; part *= 2) {  // shorter lists, until they fit in a frame
                auto text = status_of(*self, most_clients / part, most_tenants / part).to_json();
                if (text.size() <= protocol::most_body || part > most_clients) return text;
            }
        };
    }
    /// Makes a server of a store of any type. If the store has fill() and server_options::clear is not set, new
    /// blocks are cleared by fill().
    template <backing_store Store>
    buffer_server(boost::asio::any_io_executor executor, std::shared_ptr<Store> store, server_options options = {})
        : buffer_server(std::move(executor), any_store(store), with_fill(*store, std::move(options))) {}

    /// Closes the server: see close().
    // NOLINTNEXTLINE(bugprone-exception-escape): Asio may throw where memory is out, and then this ends the program
    ~buffer_server() { close(); }
    buffer_server(buffer_server const&)            = delete;
    buffer_server& operator=(buffer_server const&) = delete;

    /// Listens at `where`, and returns the endpoint with its true port if any was asked for. Throws insecure where
    /// strangers could connect, store_closed after drain() or close(), and what the system says.
    endpoint listen(endpoint const& where) {
        auto const             l = std::make_shared<detail::listener>(hub_, where);
        std::scoped_lock const guard(lock_);
        if (closed_) throw error(errc::store_closed, "listen at " + where.to_text());
        listeners_.push_back(l);
        l->start();
        return l->where();
    }

    /// Lets no new client in; those that are connected go on. When the last client has left or been gone for a
    /// lease, or after `grace`, closes the server and calls `done`, on the executor.
    void drain(std::chrono::milliseconds grace, std::function<void()> done = {}) {
        stop_listening();
        auto const timer = std::make_shared<boost::asio::steady_timer>(hub_->executor, grace);
        timer->async_wait([timer, h = hub_, done = std::move(done)](boost::system::error_code) {
            h->close();
            if (done) done();
        });
        hub_->drain([timer] { boost::asio::post(timer->get_executor(), [timer] { timer->cancel(); }); });
    }

    /// Frees what all clients have, and cuts them off. The executor closes the sockets soon after.
    void close() {
        stop_listening();
        hub_->close();
    }

    /// Returns the server's clients, tenants and limits, which may be a moment old. O(clients + tenants).
    server_status status() const {
        return status_of(*hub_, static_cast<std::size_t>(-1), static_cast<std::size_t>(-1));
    }

private:
    /// Sets options.clear to the store's fill(), if it has one. The reference stays valid: the store is kept as
    /// long as it is asked for blocks.
    template <class Store>
    static server_options with_fill(Store& store, server_options options) {
        if constexpr (requires(block b) {
                          { store.fill(b, b.bytes, std::byte{}, b.bytes) } -> std::same_as<result<void>>;
                      }) {
            if (!options.clear)
                options.clear = [&store](block b) { return store.fill(b, 0, std::byte{}, b.bytes); };
        }
        return options;
    }

    static constexpr std::size_t most_clients = 700, most_tenants = 300;  ///< in a client's server_status()
    static constexpr std::size_t most_name = 255;  ///< of a tenant's name; those from certificates can be long

    static std::vector<server_status::figure> figures_of(detail::meter const& m) {
        std::vector<server_status::figure> out;
        for (std::size_t i = 0; i < detail::resources; ++i) {
            auto const r = static_cast<detail::resource>(i);
            out.push_back({std::string(detail::resource_names[i]), m.used(r), m.most(r)});
        }
        return out;
    }

    static server_status status_of(detail::hub& h, std::size_t most, std::size_t tenants) {
        server_status out;
        auto const&   store = h.parts().store;
        auto const    used  = store->get().usage();
        out.store           = store->get().describe();
        out.instance        = h.instance;
        out.connections     = h.connections();
        out.bytes           = used.bytes;
        out.buffers         = used.blocks;
        out.capacity        = used.capacity;
        out.unfreed         = store->unfreed_blocks().blocks;
        out.figures         = figures_of(*h.parts().all);
        for (auto const& s : h.sessions()) {
            if (out.clients.size() == most) break;
            auto const& own = s->figures;
            out.clients.push_back({s->number, s->client, s->peer, s->token,
                                   s->logic.whose()->name.substr(0, most_name), own.connected, own.bytes,
                                   own.buffers, own.batches});
        }
        for (auto const& t : h.tenants()) {
            if (out.tenants.size() == tenants) break;
            out.tenants.push_back({t->name.substr(0, most_name), figures_of(t->own())});
        }
        return out;
    }

    void stop_listening() {
        std::scoped_lock const guard(lock_);
        closed_ = true;
        for (auto const& l : std::exchange(listeners_, {})) l->close();
    }

    std::shared_ptr<detail::hub>                   hub_;
    std::mutex                                     lock_;
    bool                                           closed_ = false;
    std::vector<std::shared_ptr<detail::listener>> listeners_;
};

}  // namespace tenure
