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

/// Keeps the memory of blocks that something outside the store points into until that is over, even if they are
/// freed before. A store without pins pays one load. Thread-safe.
template <class Place>
class device_pins {
public:
    /// Returns whether any block is pinned. It is exact for a block that the caller may free, because then nobody
    /// is just pinning it.
    bool any() const noexcept { return count_.load(std::memory_order_acquire) != 0; }

    /// Adds a pin. Throws std::bad_alloc.
    void hold(std::uint64_t id) {
        std::scoped_lock const guard(mutex_);
        ++pins_[id].count;
        count_.store(pins_.size(), std::memory_order_release);
    }

    /// Notes that a block was freed. Returns true if it is pinned; its place goes with the last pin.
    bool defer(std::uint64_t id, Place const& p) noexcept {
        std::scoped_lock const guard(mutex_);
        auto const             i = pins_.find(id);
        if (i == pins_.end()) return false;
        i->second.freed = true;
        i->second.place = p;
        return true;
    }

    /// Removes a pin. Returns true if it was the last of a block that was freed; `p` is then the block's place.
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
