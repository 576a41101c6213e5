// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server/chunk_pool.hpp>
#include <tenure/remote/server/holdings.hpp>
#include <tenure/remote/server/places.hpp>
#include <tenure/remote/server/served_store.hpp>
#include <tenure/remote/server/sharing.hpp>

namespace tenure::detail {

/// What all sessions of a server have in common.
struct common {
    common(std::shared_ptr<served_store> s, std::uint64_t random)
        : store(std::move(s)), ids(random), pool(std::make_shared<chunk_pool>()) {}

    std::shared_ptr<served_store>     store;
    id_source                         ids;
    std::shared_ptr<chunk_pool> const pool;
    shared_names                      names;
    detail::tickets                   tickets;
    std::chrono::milliseconds         ticket_life{30'000};
    std::uint32_t                     most_tickets = 1024;
    std::uint32_t                     in_flight    = 256;
    holding_limits                    limits;

    /// Of one frame: without addresses it is copied, so it is less.
    std::uint32_t most_payload() const noexcept {
        return store->addressable() ? protocol::most_payload : chunk_pool::chunk_bytes;
    }

    /// Bytes that a client may have; 0: not known.
    std::uint64_t capacity() const noexcept {
        std::uint64_t const all = store->get().usage().capacity, each = limits.bytes;
        return !each ? all : !all ? each : std::min(all, each);
    }
};

}  // namespace tenure::detail
