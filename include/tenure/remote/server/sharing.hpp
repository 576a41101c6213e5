// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenure/error.hpp>
#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server/held_block.hpp>
#include <tenure/remote/trust.hpp>

namespace tenure::detail {

/// What is shared, by name. Thread-safe.
class shared_names {
public:
    static constexpr std::size_t most_names = 64;  ///< of one block

    /// access_denied: another block has it. limit_exceeded: the block has too many.
    result<void> add(std::string_view name, std::shared_ptr<held_block> const& what) {
        std::scoped_lock const guard(lock_);
        auto const             at = all_.find(name);
        if (at != all_.end() && at->second == what) return {};
        if (at != all_.end() && at->second->alive()) return make_error_code(errc::access_denied);
        if (what->names.size() >= most_names) return make_error_code(errc::limit_exceeded);
        what->names.emplace_back(name);
        try {
            all_.insert_or_assign(std::string(name), what);
        } catch (...) {
            what->names.pop_back();
            throw;
        }
        return {};
    }

    std::shared_ptr<held_block> find(std::string_view name) const noexcept {
        std::scoped_lock const guard(lock_);
        auto const             at = all_.find(name);
        return at == all_.end() || !at->second->alive() ? nullptr : at->second;
    }

    void remove(std::string_view name) noexcept {
        std::scoped_lock const guard(lock_);
        auto const             at = all_.find(name);
        if (at == all_.end()) return;
        std::erase(at->second->names, name);
        all_.erase(at);
    }

    /// The block was freed.
    void remove(held_block& what) noexcept {
        std::scoped_lock const guard(lock_);
        for (std::string const& name : what.names) {
            auto const at = all_.find(name);
            if (at != all_.end() && at->second.get() == &what) all_.erase(at);
        }
        what.names.clear();
    }

private:
    mutable std::mutex                                              lock_;
    std::map<std::string, std::shared_ptr<held_block>, std::less<>> all_;
};

/// The right to write a range of a block, once.
struct ticket {
    using clock = std::chrono::steady_clock;

    std::shared_ptr<held_block> what;
    std::uint64_t               offset = 0, length = 0;
    std::uint64_t               session = 0;  ///< that gave it
    clock::time_point           until;
};

/// Thread-safe.
class tickets {
public:
    /// limit_exceeded: the session has given as many as it may.
    result<protocol::key> add(ticket t, std::uint32_t most) {
        std::scoped_lock const guard(lock_);
        auto const             now = ticket::clock::now();
        std::erase_if(all_, [&](auto const& e) { return e.second.until <= now || !e.second.what->alive(); });
        auto const given =
            std::count_if(all_.begin(), all_.end(), [&](auto const& e) { return e.second.session == t.session; });
        if (most && static_cast<std::uint64_t>(given) >= most) return make_error_code(errc::limit_exceeded);
        auto const key = random_bytes<protocol::key>();
        all_.emplace(key, std::move(t));
        return key;
    }

    /// It is used now.
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

}  // namespace tenure::detail
