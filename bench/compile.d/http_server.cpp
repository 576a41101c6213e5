// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// An HTTP server of one file on Boost.Beast: it counts the words of what is posted to it. WITH_TENURE: what a
// request needs lives in a batch of its own.

#include <cstdlib>
#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#ifdef WITH_TENURE
#include <tenure/tenure.hpp>
#endif

namespace asio = boost::asio;
namespace http = boost::beast::http;
using tcp      = asio::ip::tcp;
using request  = http::request<http::string_body>;
using response = http::response<http::string_body>;

struct word_counts {
    explicit word_counts(std::pmr::memory_resource* memory) : of(memory) {}

    void add(std::string_view text) {
        while (!text.empty()) {
            auto const end = std::min(text.find(' '), text.size());
            if (end != 0) ++of[text.substr(0, end)];
            text.remove_prefix(std::min(end + 1, text.size()));
        }
    }

    std::pmr::map<std::string_view, int> of;
};

response answer(request const& asked) {
#ifdef WITH_TENURE
    tenure::batch_scope here{"request"};
    auto const          counts = here.make<word_counts>(here.resource());
#else
    auto const counts = std::make_unique<word_counts>(std::pmr::get_default_resource());
#endif
    counts->add(asked.body());

    response given{http::status::ok, asked.version()};
    given.set(http::field::content_type, "text/plain");
    given.keep_alive(asked.keep_alive());
    for (auto const& [word, count] : counts->of) given.body().append(word) += ' ' + std::to_string(count) + '\n';
    given.prepare_payload();
    return given;
}

asio::awaitable<void> serve(tcp::socket peer) {
    boost::beast::flat_buffer read_ahead;
    try {
        for (bool more = true; more;) {
            request asked;
            co_await http::async_read(peer, read_ahead, asked, asio::use_awaitable);
            response given = answer(asked);
            more           = given.keep_alive();
            co_await http::async_write(peer, given, asio::use_awaitable);
        }
    } catch (boost::system::system_error const&) {  // the peer is gone
    }
}

asio::awaitable<void> listen(tcp::acceptor acceptor) {
    for (;;) {
        auto peer = co_await acceptor.async_accept(asio::use_awaitable);
        asio::co_spawn(acceptor.get_executor(), serve(std::move(peer)), asio::detached);
    }
}

int main(int argc, char** argv) {
    auto const       port = static_cast<asio::ip::port_type>(argc > 1 ? std::atoi(argv[1]) : 8080);
    asio::io_context io{1};
    asio::co_spawn(io, listen({io, {asio::ip::address_v4::loopback(), port}}), asio::detached);
    io.run();
}
