// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A store at a server, through a socket.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <tenure/remote/client.hpp>
#include <tenure/remote/server.hpp>
#include <tenure/store/conformance.hpp>
#include <tenure/store/heap.hpp>

#include "temporary.hpp"

namespace {

/// A server in this process, on a thread of its own.
class serving {
public:
    explicit serving(tenure::endpoint const& at, tenure::server_options options = {})
        : server_(io_.get_executor(), std::make_shared<tenure::heap_store>(), std::move(options)),
          where_(server_.listen(at)), thread_([this] { io_.run(); }) {}
    ~serving() {
        server_.close();
        io_.stop();
    }
    tenure::endpoint const& where() const { return where_; }

private:
    boost::asio::io_context io_;
    tenure::buffer_server   server_;
    tenure::endpoint        where_;
    std::jthread            thread_;
};

}  // namespace

TEST_CASE("a remote store is a store") {
    temporary_directory dir;
    serving             s(tenure::endpoint("unix:" + (dir.path() / "socket").string()));

    tenure::conformance_options options;
    options.max_bytes = TENURE_SANITIZED ? 3 << 20 : 40 << 20;
    auto const report = tenure::check_store([&] { return tenure::remote_store::connect(s.where()); }, options);
    INFO(report.to_text());
    CHECK(report.ok());
}
