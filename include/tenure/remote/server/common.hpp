// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server/chunk_pool.hpp>
#include <tenure/remote/server/places.hpp>
#include <tenure/remote/server/served_store.hpp>
#include <tenure/remote/server/sharing.hpp>
#include <tenure/remote/server/tenant.hpp>

namespace tenure::detail {

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
