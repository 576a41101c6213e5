// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tenure {

/// The state of a server at one moment.
struct server_status {
    /// A session: its client and its holdings.
    struct client {
        std::uint64_t session = 0;
        std::string   name, peer, token, tenant;  ///< token: its name; tenant: whose limits apply
        bool          connected = false;
        std::uint64_t bytes = 0, buffers = 0, batches = 0;
    };

    /// The use of one resource; `most` is the limit, 0 for none.
    struct figure {
        std::string   what;  ///< bytes, buffers, batches, sessions, names, ...
        std::uint64_t used = 0, most = 0;
    };
    /// The holdings of one tenant.
    struct tenant {
        std::string         name;  ///< token "ann", token 2, user 1000, certificate CN=...
        std::vector<figure> figures;
    };

    std::string         store;
    std::uint64_t       instance    = 0;
    std::size_t         connections = 0;
    std::uint64_t       bytes = 0, buffers = 0, capacity = 0;  ///< of the store
    std::uint64_t       unfreed = 0;  ///< blocks that the store refused to free; it is asked again
    std::vector<client> clients;
    std::vector<figure> figures;  ///< of all tenants together
    std::vector<tenant> tenants;  ///< those that have something here

    /// Returns the status as one line of JSON, for programs.
    std::string to_json() const {
        std::string out = "{\"store\":" + quoted(store) + ",\"instance\":" + std::to_string(instance) +
                          ",\"connections\":" + std::to_string(connections) +
                          ",\"bytes\":" + std::to_string(bytes) + ",\"buffers\":" + std::to_string(buffers) +
                          ",\"capacity\":" + std::to_string(capacity) + ",\"unfreed\":" + std::to_string(unfreed) +
                          ",\"clients\":[";
        for (client const& c : clients) {
            if (&c != clients.data()) out += ',';
            out += "{\"session\":" + std::to_string(c.session) + ",\"name\":" + quoted(c.name) +
                   ",\"peer\":" + quoted(c.peer) + ",\"token\":" + quoted(c.token) +
                   ",\"tenant\":" + quoted(c.tenant) + ",\"connected\":" + (c.connected ? "true" : "false") +
                   ",\"bytes\":" + std::to_string(c.bytes) + ",\"buffers\":" + std::to_string(c.buffers) +
                   ",\"batches\":" + std::to_string(c.batches) + '}';
        }
        out += "],\"all\":" + to_json(figures) + ",\"tenants\":[";
        for (tenant const& t : tenants) {
            if (&t != tenants.data()) out += ',';
            out += "{\"name\":" + quoted(t.name) + ",\"has\":" + to_json(t.figures) + '}';
        }
        return out + "]}";
    }

private:
    static std::string to_json(std::vector<figure> const& all) {
        std::string out = "{";
        for (figure const& f : all) {
            if (&f != all.data()) out += ',';
            out += quoted(f.what) + ":{\"used\":" + std::to_string(f.used) + ",\"most\":" + std::to_string(f.most) +
                   '}';
        }
        return out + '}';
    }

    static std::string quoted(std::string const& s) {
        static constexpr char digits[] = "0123456789abcdef";
        std::string           out      = "\"";
        for (char const c : s) {
            auto const u = static_cast<unsigned char>(c);
            if (u >= ' ' && u < 127 && c != '"' && c != '\\') out += c;
            else (out += "\\u00") += {digits[u >> 4], digits[u & 15]};
        }
        return out + '"';
    }
};

}  // namespace tenure
