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

/// Pools memory for payloads to and from a store without addresses. Idle chunks are reused, and freed when the
/// last taken one comes back. Thread-safe.
class chunk_pool : public std::enable_shared_from_this<chunk_pool> {
    struct giver {
        std::shared_ptr<chunk_pool> pool;  ///< null: the memory is the chunk's own

        void operator()(std::byte* p) const noexcept {
            std::unique_ptr<std::byte[]> memory(p);
            if (pool) pool->put(std::move(memory));
        }
    };

public:
    static constexpr std::uint32_t chunk_bytes = std::uint32_t{1} << 20;

    /// Memory from a pool, returned to it by the destructor. Small memory is the chunk's own.
    class chunk {
    public:
        explicit             operator bool() const noexcept { return memory_ != nullptr; }
        std::span<std::byte> span() const noexcept { return {memory_.get(), bytes_}; }
        std::size_t          memory() const noexcept {
            return !memory_ ? 0 : memory_.get_deleter().pool ? chunk_bytes : bytes_;
        }

    private:
        friend class chunk_pool;
        std::unique_ptr<std::byte[], giver> memory_;
        std::size_t                         bytes_ = 0;
    };

    /// Returns `n` bytes, at most chunk_bytes. Throws bad_alloc.
    chunk take(std::size_t n) {
        chunk out;
        out.bytes_ = n;
        if (n <= small) {
            out.memory_.reset(new std::byte[n]);
            return out;
        }
        std::scoped_lock const guard(lock_);
        idle_.reserve(most_idle);
        if (idle_.empty()) idle_.push_back(std::make_unique_for_overwrite<std::byte[]>(chunk_bytes));
        out.memory_ = {idle_.back().release(), {shared_from_this()}};
        idle_.pop_back();
        ++out_;
        return out;
    }

private:
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

using pooled_chunk = chunk_pool::chunk;

}  // namespace tenure::detail
