// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The least that serves buffers.

#include <memory>

#include <boost/asio/io_context.hpp>

#include <tenure/remote/server.hpp>
#include <tenure/store/heap.hpp>

int main() {
    boost::asio::io_context io;
    tenure::buffer_server   server(io.get_executor(), std::make_shared<tenure::heap_store>());
    server.listen(tenure::endpoint("unix:tenure.sock"));
    io.run();
}
