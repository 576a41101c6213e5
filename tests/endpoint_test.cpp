// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Where a server is, as text: what is read, and what is refused with a reason.

#include <string>
#include <system_error>

#include <doctest/doctest.h>

#include <tenure/remote/endpoint.hpp>

#include "throws.hpp"

using tenure::endpoint;

TEST_CASE("an endpoint is what its text says, and is written as the same text") {
    struct {
        char const*    text;
        endpoint::kind how;
        char const*    where;
        unsigned       port;
    } const all[]{{"unix:/run/tenure.sock", endpoint::kind::unix_socket, "/run/tenure.sock", 0},
                  {"unix:[odd]:7", endpoint::kind::unix_socket, "[odd]:7", 0},
                  {"tcp:localhost:7117", endpoint::kind::tcp, "localhost", 7117},
                  {"tls:gpu7.example.org:65535", endpoint::kind::tls, "gpu7.example.org", 65'535},
                  {"tcp:[::1]:0", endpoint::kind::tcp, "::1", 0}};
    for (auto const& x : all) {
        endpoint const there(x.text);
        CHECK(there.how == x.how);
        CHECK(there.where == x.where);
        CHECK(there.port == x.port);
        CHECK(there.to_text() == x.text);
    }
    CHECK(endpoint("tcp:[localhost]:1").to_text() == "tcp:localhost:1");
}

TEST_CASE("what is no endpoint is refused with a reason") {
    struct {
        char const* text;
        char const* why;
    } const all[]{{"/run/tenure.sock", "no scheme"},
                  {"udp:localhost:1", "scheme"},
                  {"unix:", "no path"},
                  {"tcp:localhost", "no port"},
                  {"tcp:localhost:65536", "65535"},
                  {"tcp:localhost:", "65535"},
                  {"tcp::1", "no host"},
                  {"tcp:[]:1", "no host"},
                  {"tcp:::1:1", "stands in brackets"},
                  {"tcp:[[]]]]:7", "brackets"},
                  {"tcp:[::1:7", "stands in brackets"},
                  {"tcp:loc[al]host:7", "brackets"},
                  {"tcp:[[::1]]:7", "brackets"}};
    for (auto const& x : all)
        check_throws(std::make_error_code(std::errc::invalid_argument), {x.why}, [&] { endpoint const e(x.text); });
    check_throws(std::make_error_code(std::errc::invalid_argument), {"107"},
                 [] { endpoint const e("unix:" + std::string(108, 'x')); });
}
