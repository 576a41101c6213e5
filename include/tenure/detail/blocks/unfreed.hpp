// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <mutex>
#include <system_error>
#include <utility>

#include <tenure/detail/base/spin_lock.hpp>
#include <tenure/detail/blocks/block_list.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure::detail {

/// Blocks that a store failed to free. The store is asked again whenever it has freed other blocks, and a last
/// time when the registry closes. Thread-safe; no lock is held while the store is asked.
class unfreed {
public:
    struct figures {
        std::size_t     blocks = 0, bytes = 0;
        std::error_code why;  ///< of the last refusal since this was made
    };

    unfreed() = default;
    ~unfreed() {
        while (lists_) owned_block_list(std::exchange(lists_, lists_->next));
    }
    unfreed(unfreed const&)            = delete;
    unfreed& operator=(unfreed const&) = delete;

    /// Adds a list that the store failed to free. After no_such_block, all that can be freed is free, so nothing
    /// is retried.
    void add(owned_block_list list, std::error_code why) noexcept {
        std::scoped_lock const guard(lock_);
        sum_.why = why;
        if (why != errc::no_such_block) push(list.release());
    }

    void retry(any_store& store) noexcept {
        block_list* all = nullptr;
        {
            std::scoped_lock const guard(lock_);
            all         = std::exchange(lists_, nullptr);
            sum_.blocks = sum_.bytes = 0;
        }
        while (all) {
            owned_block_list list(std::exchange(all, all->next));
            auto const       done = store.deallocate(list->blocks());
            if (done || done.error() == errc::no_such_block) continue;
            std::scoped_lock const guard(lock_);
            sum_.why = done.error();
            push(list.release());
        }
    }

    bool empty() const noexcept { return usage().blocks == 0; }

    figures usage() const noexcept {
        std::scoped_lock const guard(lock_);
        return sum_;
    }

    /// Locks for fork(). See fork_list.hpp.
    void lock_for_fork() noexcept { lock_.lock(); }
    void unlock_after_fork() noexcept { lock_.unlock(); }

private:
    void push(block_list* l) noexcept {
        l->next = lists_;
        lists_  = l;
        sum_.blocks += l->count;
        sum_.bytes += l->bytes();
    }

    mutable spin_lock lock_;
    block_list*       lists_ = nullptr;
    figures           sum_;
};

}  // namespace tenure::detail
