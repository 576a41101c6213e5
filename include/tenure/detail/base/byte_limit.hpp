// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>

namespace tenure::detail {

/// Counts bytes in use, up to a limit. Thread-safe.
class byte_limit {
public:
    explicit byte_limit(std::size_t most) noexcept : most_(most) {}  ///< 0: no limit

    /// Adds `n` bytes. Returns false, and adds nothing, if that would exceed the limit.
    bool add(std::size_t n) noexcept {
        std::size_t const most = most_ ? most_ : ~std::size_t{0};
        std::size_t       used = used_.load(std::memory_order_relaxed);
        do {
            if (used > most || n > most - used) return false;
        } while (!used_.compare_exchange_weak(used, used + n, std::memory_order_relaxed));
        return true;
    }
    void take(std::size_t n) noexcept { used_.fetch_sub(n, std::memory_order_relaxed); }

    /// Adds bytes that were in use before the limit was set, even if they exceed it.
    void found(std::size_t n) noexcept { used_.fetch_add(n, std::memory_order_relaxed); }

    std::size_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
    std::size_t most() const noexcept { return most_; }

private:
    std::size_t const        most_;
    std::atomic<std::size_t> used_{0};
};

}  // namespace tenure::detail
