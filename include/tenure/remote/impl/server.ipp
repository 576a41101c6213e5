// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <tenure/remote/impl/config.hpp>
#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server.hpp>
#include <tenure/remote/server/hub.hpp>
#include <tenure/remote/server/listener.hpp>
#include <tenure/remote/server/resources.hpp>

namespace tenure::detail {

inline std::vector<server_status::figure> figures_of(meter const& m) {
    std::vector<server_status::figure> out;
    for (std::size_t i = 0; i < resources; ++i) {
        auto const r = static_cast<resource>(i);
        out.push_back({std::string(resource_names[i]), m.used(r), m.most(r)});
    }
    return out;
}

/// Returns the status of a server, with so many clients and tenants at most.
TENURE_REMOTE_DECL server_status status_of(hub& h, std::size_t clients, std::size_t tenants) {
    constexpr std::size_t most_name = 255;  // of a tenant's name; those from certificates can be long

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
        if (out.clients.size() == clients) break;
        auto const& own = s->figures;
        out.clients.push_back({s->number, s->client, s->peer, s->token, s->logic.whose()->name.substr(0, most_name),
                               own.connected, own.bytes, own.buffers, own.batches});
    }
    for (auto const& t : h.tenants()) {
        if (out.tenants.size() == tenants) break;
        out.tenants.push_back({t->name.substr(0, most_name), figures_of(t->own())});
    }
    return out;
}

inline std::string as_json(std::string const& s) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string           out      = "\"";
    for (char const c : s) {
        auto const u = static_cast<unsigned char>(c);
        if (u >= ' ' && u < 127 && c != '"' && c != '\\') out += c;
        else (out += "\\u00") += {digits[u >> 4], digits[u & 15]};
    }
    return out + '"';
}

inline std::string as_json(std::vector<server_status::figure> const& all) {
    std::string out = "{";
    for (server_status::figure const& f : all) {
        if (&f != all.data()) out += ',';
        out +=
            as_json(f.what) + ":{\"used\":" + std::to_string(f.used) + ",\"most\":" + std::to_string(f.most) + '}';
    }
    return out + '}';
}

}  // namespace tenure::detail

namespace tenure {

TENURE_REMOTE_DECL std::string server_status::to_json() const {
    using detail::as_json;
    std::string out = "{\"store\":" + as_json(store) + ",\"instance\":" + std::to_string(instance) +
                      ",\"connections\":" + std::to_string(connections) + ",\"bytes\":" + std::to_string(bytes) +
                      ",\"buffers\":" + std::to_string(buffers) + ",\"capacity\":" + std::to_string(capacity) +
                      ",\"unfreed\":" + std::to_string(unfreed) + ",\"clients\":[";
    for (client const& c : clients) {
        if (&c != clients.data()) out += ',';
        out += "{\"session\":" + std::to_string(c.session) + ",\"name\":" + as_json(c.name) +
               ",\"peer\":" + as_json(c.peer) + ",\"token\":" + as_json(c.token) +
               ",\"tenant\":" + as_json(c.tenant) + ",\"connected\":" + (c.connected ? "true" : "false") +
               ",\"bytes\":" + std::to_string(c.bytes) + ",\"buffers\":" + std::to_string(c.buffers) +
               ",\"batches\":" + std::to_string(c.batches) + '}';
    }
    out += "],\"all\":" + as_json(figures) + ",\"tenants\":[";
    for (tenant const& t : tenants) {
        if (&t != tenants.data()) out += ',';
        out += "{\"name\":" + as_json(t.name) + ",\"has\":" + as_json(t.figures) + '}';
    }
    return out + "]}";
}

TENURE_REMOTE_DECL buffer_server::buffer_server(boost::asio::any_io_executor executor, any_store store,
                                                server_options options)
    : hub_(std::make_shared<detail::hub>(std::move(executor), std::move(store), std::move(options))) {
    hub_->status = [h = std::weak_ptr(hub_)]() -> result<std::string> {
        constexpr std::size_t most_clients = 700, most_tenants = 300;
        auto const            self = h.lock();
        if (!self) return make_error_code(errc::store_closed);
        for (std::size_t part = 1;; part *= 2) {  // shorter lists, until they fit in a frame
            auto text = detail::status_of(*self, most_clients / part, most_tenants / part).to_json();
            if (text.size() <= protocol::most_body || part > most_clients) return text;
        }
    };
}

// NOLINTNEXTLINE(bugprone-exception-escape): Asio may throw where memory is out, and then this ends the program
TENURE_REMOTE_DECL buffer_server::~buffer_server() { close(); }

TENURE_REMOTE_DECL endpoint buffer_server::listen(endpoint const& where) {
    auto const             l = std::make_shared<detail::listener>(hub_, where);
    std::scoped_lock const guard(lock_);
    if (closed_) throw error(errc::store_closed, "listen at " + where.to_text());
    listeners_.push_back(l);
    l->start();
    return l->where();
}

TENURE_REMOTE_DECL void buffer_server::drain(std::chrono::milliseconds grace, std::function<void()> done) {
    stop_listening();
    auto const timer = std::make_shared<boost::asio::steady_timer>(hub_->executor, grace);
    timer->async_wait([timer, h = hub_, done = std::move(done)](boost::system::error_code) {
        h->close();
        if (done) done();
    });
    hub_->drain([timer] { boost::asio::post(timer->get_executor(), [timer] { timer->cancel(); }); });
}

TENURE_REMOTE_DECL void buffer_server::close() {
    stop_listening();
    hub_->close();
}

TENURE_REMOTE_DECL server_status buffer_server::status() const {
    return detail::status_of(*hub_, static_cast<std::size_t>(-1), static_cast<std::size_t>(-1));
}

TENURE_REMOTE_DECL void buffer_server::stop_listening() {
    std::scoped_lock const guard(lock_);
    closed_ = true;
    for (auto const& l : std::exchange(listeners_, {})) l->close();
}

}  // namespace tenure
