// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server/chunk_pool.hpp>
#include <tenure/remote/server/held_block.hpp>
#include <tenure/remote/server/places.hpp>
#include <tenure/remote/server/served_store.hpp>
#include <tenure/remote/server/tenant.hpp>
#include <tenure/remote/trust.hpp>

namespace tenure::detail {

/// The shared blocks, by name. Thread-safe.
class shared_names {
public:
    static constexpr std::size_t most_names = 64;  ///< of one block

    static constexpr std::uint64_t cost = 256;  ///< bytes to know one, beside twice its length

    /// Gives a block a name. Errors: access_denied if another live block has it, limit_exceeded if the block has
    /// too many, a limit of its owner or of the server. Throws bad_alloc.
    result<void> add(std::string_view name, std::shared_ptr<held_block> const& what) {
        std::scoped_lock const guard(lock_);
        auto const             at = all_.find(name);
        if (at != all_.end() && at->second.what == what) return {};
        if (at != all_.end() && at->second.what->alive()) return make_error_code(errc::access_denied);
        if (what->names.size() >= most_names) return make_error_code(errc::limit_exceeded);
        auto one = tenant_claim::take(what->of, resource::names, 1);
        if (!one) return one.error();
        auto memory = tenant_claim::take(what->of, resource::memory, cost + 2 * name.size());
        if (!memory) return memory.error();
        what->names.emplace_back(name);
        try {
            all_.insert_or_assign(std::string(name), entry{what, std::move(*one), std::move(*memory)});
        } catch (...) {
            what->names.pop_back();
            throw;
        }
        return {};
    }

    std::shared_ptr<held_block> find(std::string_view name) const noexcept {
        std::scoped_lock const guard(lock_);
        auto const             at = all_.find(name);
        return at == all_.end() || !at->second.what->alive() ? nullptr : at->second.what;
    }

    void remove(std::string_view name) noexcept {
        std::scoped_lock const guard(lock_);
        auto const             at = all_.find(name);
        if (at == all_.end()) return;
        std::erase(at->second.what->names, name);
        all_.erase(at);
    }

    /// Removes the names of a block that was freed.
    void remove(held_block& what) noexcept {
        std::scoped_lock const guard(lock_);
        for (std::string const& name : what.names) {
            auto const at = all_.find(name);
            if (at != all_.end() && at->second.what.get() == &what) all_.erase(at);
        }
        what.names.clear();
    }

private:
    struct entry {
        std::shared_ptr<held_block> what;
        tenant_claim                name, memory;
    };

    mutable std::mutex                        lock_;
    std::map<std::string, entry, std::less<>> all_;
};

/// The right to write a range of a block, once.
struct ticket {
    using clock = std::chrono::steady_clock;

    std::shared_ptr<held_block> what;
    std::uint64_t               offset = 0, length = 0;
    std::uint64_t               session = 0;  ///< that granted it
    clock::time_point           until;
    std::shared_ptr<tenant>     of;  ///< the tenant of that session
    tenant_claim                taken;
};

/// The tickets that are not used yet. Thread-safe.
class tickets {
public:
    /// Adds a ticket and returns its key. Errors: a limit, if the tenant has granted as many as it may. Throws
    /// bad_alloc.
    result<protocol::key> add(ticket t) {
        std::scoped_lock const guard(lock_);
        auto const             now = ticket::clock::now();
        std::erase_if(all_, [&](auto const& e) { return e.second.until <= now || !e.second.what->alive(); });
        auto taken = tenant_claim::take(t.of, resource::tickets, 1);
        if (!taken) return taken.error();
        t.taken        = std::move(*taken);
        auto const key = random_bytes<protocol::key>();
        all_.emplace(key, std::move(t));
        return key;
    }

    /// Removes and returns a ticket, which can be used once. Null: no ticket has that key, or its time is up.
    std::optional<ticket> take(protocol::key const& key) noexcept {
        std::scoped_lock const guard(lock_);
        auto const             at = all_.find(key);
        if (at == all_.end()) return std::nullopt;
        ticket t = std::move(at->second);
        all_.erase(at);
        if (t.until <= ticket::clock::now()) return std::nullopt;
        return t;
    }

    void remove(std::uint64_t session) noexcept {
        std::scoped_lock const guard(lock_);
        std::erase_if(all_, [&](auto const& e) { return e.second.session == session; });
    }

private:
    std::mutex                      lock_;
    std::map<protocol::key, ticket> all_;
};

/// The parts that all sessions of a server share.
struct common {
    /// `each`: limits of each tenant; `together`: of all together.
    common(std::shared_ptr<served_store> s, std::uint64_t random, amounts const& each = {},
           amounts const& together = {})
        : store(std::move(s)),
          ids(random),
          pool(std::make_shared<chunk_pool>()),
          each_tenant(each),
          all(std::make_shared<meter>(together)) {}

    std::shared_ptr<served_store>     store;
    id_source                         ids;
    std::shared_ptr<chunk_pool> const pool;
    shared_names                      names;
    detail::tickets                   tickets;
    std::chrono::milliseconds         ticket_life{30'000};
    std::uint32_t                     in_flight = 256;
    amounts const                     each_tenant;
    std::shared_ptr<meter> const      all;
    std::uint64_t                     told_bytes = 0;  ///< the owner's limit for all; 0: a default, not told

    /// Returns the most payload bytes of a frame: fewer for a store without addresses, where payloads are copied.
    std::uint32_t most_payload() const noexcept {
        return store->addressable() ? protocol::most_payload : chunk_pool::chunk_bytes;
    }

    /// Returns how many bytes a client may have; 0: not known.
    std::uint64_t capacity(tenant const& of) const noexcept {
        std::uint64_t out = store->get().usage().capacity;
        for (std::uint64_t const most : {of.own().most(resource::bytes), told_bytes})
            if (most) out = out ? std::min(out, most) : most;
        return out;
    }
};

}  // namespace tenure::detail
