// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>

namespace tenure::detail {

/// Bytes in use, and the most that may be. Thread-safe.
class byte_limit {
public:
    explicit byte_limit(std::size_t most) noexcept : most_(most) {}  ///< 0: any number

    /// False: that would be too many, and nothing is added.
    bool add(std::size_t n) noexcept {
        std::size_t const most = most_ ? most_ : ~std::size_t{0};
        std::size_t       used = used_.load(std::memory_order_relaxed);
        do {
            if (used > most || n > most - used) return false;
        } while (!used_.compare_exchange_weak(used, used + n, std::memory_order_relaxed));
        return true;
    }
    void take(std::size_t n) noexcept { used_.fetch_sub(n, std::memory_order_relaxed); }

    /// What was there before there was a limit.
    void found(std::size_t n) noexcept { used_.fetch_add(n, std::memory_order_relaxed); }

    std::size_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
    std::size_t most() const noexcept { return most_; }

private:
    std::size_t const        most_;
    std::atomic<std::size_t> used_{0};
};

}  // namespace tenure::detail
