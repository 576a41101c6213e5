// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A server of buffers: lends the memory of this machine, or of its GPU, to other processes. Installed as
// tenure-buffer-server.
//
//     buffer_server --unix /run/user/1000/tenure.sock --capacity 8GiB
//     buffer_server --listen tls:0.0.0.0:7117 --cert server.pem --key server.key --token-file tokens
//     buffer_server --status unix:/run/user/1000/tenure.sock --token-file tokens

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/write.hpp>
#include <nlohmann/json.hpp>

#include <tenure/remote/server.hpp>
#include <tenure/remote/tls.hpp>

#include "demo/named_store.hpp"

namespace {

struct settings {
    std::vector<std::string> listen, unix_paths, peers;
    std::string              device   = "host", token_file, certificate, key, client_ca, peers_ca, status;
    std::uint64_t            capacity = 0;
    tenure::tenant_quota     each{};
    tenure::server_limits    all{};
    double                   lease = 30, drain = 10;
    unsigned                 threads = 1;
    bool                     quiet   = false;
};

/// One line a connection, at either end of it; and one for what was refused.
void log(tenure::server_event const& e) {
    static constexpr char const* what[] = {"opened", "resumed", "lost", "ended", "refused", "limited"};
    std::string                  line   = std::string(what[static_cast<int>(e.what)]) + ' ' + e.peer;
    if (e.session) line += " session=" + std::to_string(e.session);
    if (!e.client.empty()) line += " client=\"" + e.client + '"';
    if (!e.token.empty()) line += " token-of=\"" + e.token + '"';
    if (e.session) line += " buffers=" + std::to_string(e.buffers) + " bytes=" + std::to_string(e.bytes);
    if (e.why) line += ": " + e.why.message();
    if (e.left_out) line += " (and " + std::to_string(e.left_out) + " refusals before, too fast to list)";
    std::fprintf(stderr, "%s\n", line.c_str());
}

/// Only what was refused.
void log_refusals(tenure::server_event const& e) {
    using enum tenure::server_event::kind;
    if (e.what == refused || e.what == limited) log(e);
}

template <class Store>
int serve(settings const& s, std::shared_ptr<Store> store) {
    tenure::server_options o;
    o.lease  = std::chrono::milliseconds(static_cast<std::int64_t>(s.lease * 1000));
    o.quota  = s.each;
    o.limits = s.all;
    if (!s.token_file.empty()) o.tokens = tenure::tokens::from_file(s.token_file);
    if (!s.certificate.empty())
        o.tls = std::make_shared<tenure::tls_server>(tenure::tls_files{s.certificate, s.key, s.client_ca});
    for (std::string const& p : s.peers) o.peers.emplace_back(p);
    if (!s.peers.empty()) o.peers_tls = std::make_shared<tenure::tls_client>(tenure::tls_files{{}, {}, s.peers_ca});
    o.log = s.quiet ? log_refusals : log;

    boost::asio::io_context io(static_cast<int>(s.threads));
    tenure::buffer_server   server(io.get_executor(), std::move(store), std::move(o));
    for (std::string const& path : s.unix_paths)
        std::fprintf(stderr, "listening at %s\n",
                     server.listen(tenure::endpoint("unix:" + path)).to_text().c_str());
    for (std::string const& at : s.listen)
        std::fprintf(stderr, "listening at %s\n", server.listen(tenure::endpoint(at)).to_text().c_str());

    boost::asio::signal_set signals(io, SIGTERM, SIGINT);
    auto const              stop = [&](boost::system::error_code ec, int) {
        if (ec) return;
        std::fprintf(stderr, "no new clients; waiting up to %g s for %zu\n", s.drain,
                                  server.status().clients.size());
        server.drain(std::chrono::milliseconds(static_cast<std::int64_t>(s.drain * 1000)),
                                  [&] { signals.cancel(); });
        signals.async_wait([&](boost::system::error_code again, int) {
            if (!again) server.close(), io.stop();
        });
    };
    signals.async_wait(stop);

    std::vector<std::jthread> more;
    for (unsigned i = 1; i < s.threads; ++i) more.emplace_back([&] { io.run(); });
    io.run();
    return 0;
}

/// Asks a running server, over its Unix socket, as its owner; with the first token of its file, if it has one.
int show_status(std::string const& where, std::string const& token_file) {
    namespace protocol            = tenure::protocol;
    tenure::tokens const   tokens = token_file.empty() ? tenure::tokens() : tenure::tokens::from_file(token_file);
    tenure::endpoint const at(where);
    if (at.how != tenure::endpoint::kind::unix_socket)
        throw tenure::error(tenure::errc::access_denied, "--status needs the server's Unix socket");
    boost::asio::io_context                     io;
    boost::asio::local::stream_protocol::socket socket(io);
    socket.connect(boost::asio::local::stream_protocol::endpoint(at.where));

    auto const call = [&](std::uint64_t number, protocol::operation op, std::span<std::byte const> body) {
        protocol::frame_header h;
        h.body      = static_cast<std::uint32_t>(body.size());
        h.request   = number;
        h.settled   = number - 1;
        h.operation = static_cast<std::uint16_t>(op);
        boost::asio::write(socket, std::array{boost::asio::const_buffer(&h, sizeof h),
                                              boost::asio::const_buffer(body.data(), body.size())});
        boost::asio::read(socket, boost::asio::buffer(&h, sizeof h));
        std::string out(h.body, '\0');
        boost::asio::read(socket, boost::asio::buffer(out));
        if (h.status) throw tenure::error(protocol::error_of(h.status), where);
        return out;
    };
    protocol::hello_request hello;
    auto const              token = std::as_bytes(std::span(tokens.first()));
    hello.token_bytes             = static_cast<std::uint16_t>(token.size());
    std::vector<std::byte> greeting(protocol::bytes_of(hello).begin(), protocol::bytes_of(hello).end());
    greeting.insert(greeting.end(), token.begin(), token.end());
    call(1, protocol::operation::hello, greeting);
    auto const status = nlohmann::ordered_json::parse(call(2, protocol::operation::status, {}));
    call(3, protocol::operation::goodbye, {});
    std::printf("%s\n", status.dump(2).c_str());
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    settings s;
    CLI::App app("Lends buffers on this machine to other processes");
    app.add_option("--listen", s.listen, "Endpoints: tcp:localhost:7117, tls:0.0.0.0:7117");
    app.add_option("--unix", s.unix_paths, "Paths of Unix sockets, for processes of this user");
    app.add_option("--device", s.device, "Where the buffers are: host, cuda:0, opencl:0, opencl:PLATFORM:0")
        ->capture_default_str();
    app.add_option("--capacity", s.capacity, "Bytes in all buffers (1GiB); 0: what there is")
        ->transform(CLI::AsSizeValue(false));
    // A tenant is the holder of a token or of a certificate, else a Unix user, with all of its sessions.
    auto const limit = [&](char const* name, auto& value, char const* what) {
        app.add_option(name, value, what)->transform(CLI::AsSizeValue(false))->capture_default_str();
    };
    limit("--tenant-bytes,--client-bytes", s.each.bytes,
          "Bytes that one tenant (token, certificate or user) may have; 0: all");
    limit("--tenant-buffers", s.each.buffers, "Buffers of one tenant; 0, here and below: no limit");
    limit("--tenant-batches", s.each.batches, "Batches of one tenant");
    limit("--tenant-sessions", s.each.sessions, "Sessions of one tenant");
    limit("--tenant-names", s.each.names, "Names under which one tenant shares buffers");
    limit("--tenant-requests", s.each.requests, "Requests in flight of one tenant");
    limit("--tenant-queue", s.each.queued_bytes,
          "Bytes of one tenant's requests and answers under way, then one by one");
    limit("--tenant-memory", s.each.memory, "Bytes of bookkeeping for one tenant; 0: half of --memory");
    limit("--bytes", s.all.bytes,
          "Bytes of all buffers; 0: the capacity, else three quarters of this machine's memory");
    limit("--memory", s.all.memory, "Bytes of bookkeeping in all; 0: a sixteenth of this machine's memory");
    limit("--sessions", s.all.sessions, "Sessions in all");
    limit("--connections", s.all.connections, "Connections in all");
    limit("--visitors", s.all.visitors, "Connections that have not said who they are");
    limit("--queue", s.all.queued_bytes, "Bytes of all requests and answers under way");
    app.add_option("--token-file", s.token_file, "Tokens that clients show: one a line, token or name:token");
    auto* const cert = app.add_option("--cert", s.certificate, "The server's certificate chain, PEM");
    auto* const key  = app.add_option("--key", s.key, "Its private key, PEM")->needs(cert);
    cert->needs(key);
    app.add_option("--client-ca", s.client_ca, "Who vouches for clients, PEM")->needs(cert);
    app.add_option("--peer", s.peers, "Endpoints of servers that buffers may be sent to");
    app.add_option("--peer-ca", s.peers_ca, "Who vouches for them, PEM; the system's authorities if none");
    app.add_option("--lease", s.lease, "Seconds after which a silent client is gone")
        ->capture_default_str()
        ->check(CLI::Range(0.01, 86400.0));
    app.add_option("--drain", s.drain, "Seconds for clients to leave after SIGTERM")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 86400.0));
    app.add_option("--threads", s.threads, "That serve")->capture_default_str()->check(CLI::Range(1u, 256u));
    app.add_flag("--quiet", s.quiet, "No line for each connection, only for what is refused");
    app.add_option(
        "--status", s.status,
        "Show the clients of the server at unix:PATH, what tenants have, and all limits; with --token-file, "
        "if that has one");
    app.set_config("--config", "", "Options, one a line: lease = 10");
    CLI11_PARSE(app, argc, argv);
    try {
        if (!s.status.empty()) return show_status(s.status, s.token_file);
        if (s.listen.empty() && s.unix_paths.empty())
            throw std::runtime_error("nothing to listen at: give --unix PATH or --listen ENDPOINT");
        return demo::with_store(s.device, s.capacity, [&](auto store) { return serve(s, std::move(store)); });
    } catch (std::exception const& e) {
        std::fprintf(stderr, "buffer_server: %s\n", e.what());
        return 1;
    }
}
