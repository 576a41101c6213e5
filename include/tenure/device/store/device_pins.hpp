// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace tenure::detail {

/// Blocks that something outside of the store points into: their memory stays until that is over, though they be
/// freed before. Who has pinned nothing pays a load. Thread-safe.
template <class Place>
class device_pins {
public:
    /// Whether any block is pinned. Of one that the caller may free, and so nobody is just pinning, it is exact.
    bool any() const noexcept { return count_.load(std::memory_order_acquire) != 0; }

    /// One pin more. Throws std::bad_alloc.
    void hold(std::uint64_t id) {
        std::scoped_lock const guard(mutex_);
        ++pins_[id].count;
        count_.store(pins_.size(), std::memory_order_release);
    }

    /// The block was freed. True: it is pinned, and its place is taken care of.
    bool defer(std::uint64_t id, Place const& p) noexcept {
        std::scoped_lock const guard(mutex_);
        auto const             i = pins_.find(id);
        if (i == pins_.end()) return false;
        i->second.freed = true;
        i->second.place = p;
        return true;
    }

    /// One pin less. True: the block was freed, and that was its last; then `p` is where it was.
    bool drop(std::uint64_t id, Place& p) noexcept {
        std::scoped_lock const guard(mutex_);
        auto const             i = pins_.find(id);
        if (--i->second.count != 0) return false;
        bool const freed = i->second.freed;
        if (freed) p = i->second.place;
        pins_.erase(i);
        count_.store(pins_.size(), std::memory_order_release);
        return freed;
    }

private:
    struct pin {
        std::size_t count = 0;
        bool        freed = false;
        Place       place{};
    };

    std::mutex                             mutex_;
    std::unordered_map<std::uint64_t, pin> pins_;
    std::atomic<std::size_t>               count_{0};
};

}  // namespace tenure::detail
