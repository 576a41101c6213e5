// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/asio/io_context.hpp>

#include <tenure/asio.hpp>

int main() {
    boost::asio::io_context io;
    tenure::registry        requests;
    tenure::supervisor      in_time(io.get_executor(), requests);
    return requests.root() ? 0 : 1;
}
