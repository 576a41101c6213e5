// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace tenure::detail {

class chunk;

/// Pools memory for payloads to and from a store without addresses. Idle chunks are reused, and freed when the
/// last taken one comes back. Thread-safe.
class chunk_pool : public std::enable_shared_from_this<chunk_pool> {
public:
    static constexpr std::uint32_t chunk_bytes = std::uint32_t{1} << 20;

    /// Returns `n` bytes, at most chunk_bytes. Throws bad_alloc.
    chunk take(std::size_t n);

private:
    friend class chunk;
    static constexpr std::size_t most_idle = 8;
    static constexpr std::size_t small     = std::size_t{64} << 10;  ///< up to this, memory is not the pool's

    void put(std::unique_ptr<std::byte[]> memory) noexcept {
        std::scoped_lock const guard(lock_);
        if (--out_ == 0) idle_.clear();
        else if (idle_.size() < idle_.capacity()) idle_.push_back(std::move(memory));
    }

    std::mutex                                lock_;
    std::vector<std::unique_ptr<std::byte[]>> idle_;
    std::size_t                               out_ = 0;
};

/// Memory from a pool, returned to it by the destructor. Small memory is the chunk's own.
class chunk {
public:
    chunk() noexcept = default;
    chunk(std::shared_ptr<chunk_pool> pool, std::unique_ptr<std::byte[]> memory, std::size_t n) noexcept
        : pool_(std::move(pool)), memory_(std::move(memory)), bytes_(n) {}
    chunk(chunk&&) noexcept = default;
    chunk& operator=(chunk&& other) noexcept {
        chunk old(std::move(*this));
        pool_   = std::move(other.pool_);
        memory_ = std::move(other.memory_);
        bytes_  = other.bytes_;
        return *this;
    }
    ~chunk() {
        if (memory_ && pool_) pool_->put(std::move(memory_));
    }

    explicit             operator bool() const noexcept { return memory_ != nullptr; }
    std::span<std::byte> span() const noexcept { return {memory_.get(), bytes_}; }
    std::size_t          memory() const noexcept { return !memory_ ? 0 : pool_ ? chunk_pool::chunk_bytes : bytes_; }

private:
    std::shared_ptr<chunk_pool>  pool_;
    std::unique_ptr<std::byte[]> memory_;
    std::size_t                  bytes_ = 0;
};

inline chunk chunk_pool::take(std::size_t n) {
    if (n <= small) return chunk(nullptr, std::make_unique_for_overwrite<std::byte[]>(n), n);
    std::scoped_lock const       guard(lock_);
    std::unique_ptr<std::byte[]> memory;
    idle_.reserve(most_idle);
    if (idle_.empty()) {
        memory = std::make_unique_for_overwrite<std::byte[]>(chunk_bytes);
    } else {
        memory = std::move(idle_.back());
        idle_.pop_back();
    }
    ++out_;
    return chunk(shared_from_this(), std::move(memory), n);
}

}  // namespace tenure::detail
