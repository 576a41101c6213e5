// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#include <tenure/remote/server.hpp>

#include <memory>
#include <system_error>

#include <boost/asio/system_executor.hpp>

#include <tenure/store/heap.hpp>

// With and without tenure::remote.
int main() {
    tenure::buffer_server server(boost::asio::system_executor(), std::make_shared<tenure::heap_store>());
    server.close();
    try {
        server.listen(tenure::endpoint("unix:/nonexistent/tenure.sock"));
    } catch (std::system_error const&) {  // of no such folder, or of a server that is closed
        return server.status().clients.empty() && server.status().to_json().starts_with("{\"store\":") ? 0 : 1;
    }
    return 2;
}
