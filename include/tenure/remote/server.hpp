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
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include <tenure/remote/endpoint.hpp>
#include <tenure/remote/server/options.hpp>
#include <tenure/result.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure::detail {
class hub;
class listener;
}  // namespace tenure::detail

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
    buffer_server(boost::asio::any_io_executor executor, any_store store, server_options options = {});
    /// Makes a server of a store of any type. If the store has fill() and server_options::clear is not set, new
    /// blocks are cleared by fill().
    template <backing_store Store>
    buffer_server(boost::asio::any_io_executor executor, std::shared_ptr<Store> store, server_options options = {})
        : buffer_server(std::move(executor), any_store(store), with_fill(*store, std::move(options))) {}

    /// Closes the server: see close().
    ~buffer_server();
    buffer_server(buffer_server const&)            = delete;
    buffer_server& operator=(buffer_server const&) = delete;

    /// Listens at `where`, and returns the endpoint with its true port if any was asked for. Throws insecure where
    /// strangers could connect, store_closed after drain() or close(), and what the system says.
    endpoint listen(endpoint const& where);

    /// Lets no new client in; those that are connected go on. When the last client has left or been gone for a
    /// lease, or after `grace`, closes the server and calls `done`, on the executor.
    void drain(std::chrono::milliseconds grace, std::function<void()> done = {});

    /// Frees what all clients have, and cuts them off. The executor closes the sockets soon after.
    void close();

    /// Returns the server's clients, tenants and limits, which may be a moment old. O(clients + tenants).
    server_status status() const;

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

    void stop_listening();

    std::shared_ptr<detail::hub>                   hub_;
    std::mutex                                     lock_;
    bool                                           closed_ = false;
    std::vector<std::shared_ptr<detail::listener>> listeners_;
};

}  // namespace tenure

#ifndef TENURE_SEPARATE_REMOTE
#include <tenure/remote/impl/server.ipp>
#endif
