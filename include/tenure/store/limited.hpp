// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/blocks/block_ledger.hpp>
#include <tenure/store/adaptor.hpp>

namespace tenure {

/// The limits of a limited_store. The largest number is no limit.
struct store_limits {
    std::size_t bytes  = std::numeric_limits<std::size_t>::max();  ///< as requested
    std::size_t blocks = std::numeric_limits<std::size_t>::max();
};

/// A store with at most so many bytes and blocks. Beyond, allocate() returns store_full without asking the
/// upstream. Exact under concurrency: room is reserved before the upstream is asked, and given back only when the
/// upstream has really freed the block, also after a failure half-way.
///
/// Blocks and capabilities are the upstream's. Only blocks allocated here count, and those of a durable upstream
/// once they are found here, even beyond the limit, since they exist.
///
/// Thread-safe. Beyond the upstream's own cost, allocate() takes two short locks and a small allocation,
/// deallocate() a lock and another for each block. A failed deallocate() asks the upstream whether each block is
/// still there.
template <backing_store Upstream>
class limited_store : public store_adaptor<Upstream> {
public:
    using store_adaptor<Upstream>::traits;
    using store_adaptor<Upstream>::upstream;

    /// `over` must not be null.
    limited_store(std::shared_ptr<Upstream> over, store_limits limits) noexcept
        : store_adaptor<Upstream>(std::move(over)), limits_(limits) {}

    /// Allocates. Returns store_full also while other calls have reserved room that they may not get.
    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        detail::block_ledger::room place;
        if (!place) return make_error_code(errc::memory_full);
        if (!reserve(bytes)) return make_error_code(errc::store_full);
        result<block> const b = upstream()->allocate(bytes, alignment);
        if (b) ledger_.enter(std::move(place), *b);
        else refund(bytes, 1);
        return b;
    }

    result<void> deallocate(std::span<block const> many) noexcept {
        result<void> const outcome = upstream()->deallocate(many);
        std::size_t        bytes = 0, blocks = 0;
        ledger_.settle(*upstream(), many, outcome, [&](std::size_t n) { bytes += n, ++blocks; });
        refund(bytes, blocks);
        return outcome;
    }

    result<block> find(std::string_view name)
        requires(traits.durable)
    {
        detail::block_ledger::room place;
        if (!place) return make_error_code(errc::memory_full);
        result<block> const b = upstream()->find(name);
        if (b && ledger_.enter(std::move(place), *b)) {
            std::scoped_lock const guard(lock_);
            bytes_ += b->bytes;
            ++blocks_;
        }
        return b;
    }

    /// The capacity is the limit or the upstream's, whichever is less.
    store_usage usage() const noexcept {
        std::size_t const      room = upstream()->usage().capacity;
        std::size_t const      most = limits_.bytes == store_limits{}.bytes ? 0 : limits_.bytes;
        std::scoped_lock const guard(lock_);
        return {bytes_, blocks_, room && most ? std::min(room, most) : std::max(room, most)};
    }

    store_limits limits() const noexcept { return limits_; }
    std::string  describe() const { return "limited " + detail::name_of(*upstream()); }

private:
    bool reserve(std::size_t bytes) noexcept {
        std::scoped_lock const guard(lock_);
        if (blocks_ >= limits_.blocks || bytes_ > limits_.bytes || bytes > limits_.bytes - bytes_) return false;
        bytes_ += bytes;
        ++blocks_;
        return true;
    }

    void refund(std::size_t bytes, std::size_t blocks) noexcept {
        std::scoped_lock const guard(lock_);
        bytes_ -= bytes;
        blocks_ -= blocks;
    }

    store_limits const         limits_;
    mutable detail::fork_mutex lock_;  ///< guards both members below, which change together
    std::size_t                bytes_  = 0;
    std::size_t                blocks_ = 0;
    detail::block_ledger       ledger_;
};

static_assert(backing_store<limited_store<any_store>>);

}  // namespace tenure
