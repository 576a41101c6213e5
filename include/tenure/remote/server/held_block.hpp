// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tenure/remote/server/served_store.hpp>
#include <tenure/remote/server/tenant.hpp>

namespace tenure::detail {

/// A block that others beside its owner may use: a socket that its bytes go to or come from, a client that found
/// it by name, one that holds a ticket. It lives until its owner gives it up. Its memory goes back to the store
/// when nobody uses it any more. Thread-safe, without locks.
class held_block {
public:
    held_block(std::shared_ptr<served_store> store, std::shared_ptr<tenant> owner, block b, std::size_t n,
               std::uint64_t number) noexcept
        : id(number), where(b), bytes(n), of(std::move(owner)), store_(std::move(store)) {}

    /// Begins a use. Returns false if the owner has given the block up.
    bool enter() noexcept {
        std::uint32_t now = state_.load(std::memory_order_relaxed);
        do {
            if (!(now & live)) return false;
        } while (!state_.compare_exchange_weak(now, now + 1, std::memory_order_acquire, std::memory_order_relaxed));
        return true;
    }

    /// Ends a use. The last user of a block that was given up frees it; the block counts for its tenant until
    /// then. An error of the store is dropped, because nobody is left to hear it.
    void leave() noexcept {
        if (state_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
        static_cast<void>(store_->free({&where, 1}));
        of->give_back(resource::bytes, where.bytes);
    }

    /// Gives the block up. Returns true if nobody uses it: the caller then frees it.
    bool give_up() noexcept { return state_.fetch_and(~live, std::memory_order_acq_rel) == live; }

    bool alive() const noexcept { return state_.load(std::memory_order_acquire) & live; }

    std::uint64_t const           id;     ///< the server's number of it
    block const                   where;  ///< the store's name of it
    std::size_t const             bytes;  ///< as the client knows it
    std::shared_ptr<tenant> const of;
    std::vector<std::string>      names;  ///< under which it is shared; guarded by the lock of shared_names

private:
    static constexpr std::uint32_t live = std::uint32_t{1} << 31;

    std::shared_ptr<served_store> store_;
    std::atomic<std::uint32_t>    state_{live};  ///< `live`, and the number of users
};

/// A use of a held_block, ended by the destructor.
class stay {
public:
    stay() noexcept = default;
    /// Takes over a use that enter() has begun.
    explicit stay(std::shared_ptr<held_block> const& h) noexcept : held_(h.get(), {h}) {}

    explicit    operator bool() const noexcept { return held_ != nullptr; }
    held_block* get() const noexcept { return held_.get(); }

private:
    struct leaver {
        std::shared_ptr<held_block> held;
        void                        operator()(held_block* h) const noexcept { h->leave(); }
    };
    std::unique_ptr<held_block, leaver> held_;
};

}  // namespace tenure::detail
