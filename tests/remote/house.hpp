// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <tenure/remote/server.hpp>
#include <tenure/store/heap.hpp>

/// A server in this process, with a thread that runs it.
template <class Store = tenure::heap_store>
class house {
public:
    explicit house(std::filesystem::path const& socket, tenure::server_options options = {},
                   std::shared_ptr<Store> s = std::make_shared<Store>())
        : house(tenure::endpoint("unix:" + socket.native()), std::move(options), std::move(s)) {}
    explicit house(tenure::endpoint const& at, tenure::server_options options = {},
                   std::shared_ptr<Store> s = std::make_shared<Store>())
        : store(std::move(s)),
          server(io_.get_executor(), store, std::move(options)),
          where(server.listen(at)),
          path(where.where),
          thread_([this] { io_.run(); }) {}
    ~house() {
        server.close();
        work_.reset();
    }
    house(house const&)            = delete;
    house& operator=(house const&) = delete;

    /// Whether nothing is left in the store; it may take a lease and a bit.
    bool is_empty_within(std::chrono::milliseconds patience) const {
        auto const end = std::chrono::steady_clock::now() + patience;
        while (store->usage() != tenure::store_usage{0, 0, store->usage().capacity}) {
            if (std::chrono::steady_clock::now() > end) return false;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return true;
    }

    /// Whether the server forgets all clients by then; it may still know one that had nothing.
    bool has_no_clients_within(std::chrono::milliseconds patience) const {
        auto const end = std::chrono::steady_clock::now() + patience;
        while (!server.status().clients.empty()) {
            if (std::chrono::steady_clock::now() > end) return false;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return true;
    }

    std::shared_ptr<Store> const store;

private:
    boost::asio::io_context                                                  io_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};

public:
    tenure::buffer_server       server;
    tenure::endpoint const      where;
    std::filesystem::path const path;  ///< of a Unix socket

private:
    std::jthread thread_;
};
