// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace tenure::detail {

/// Bytes that grow at the end: a vector that does not clear new bytes. Not thread-safe.
class byte_row {
public:
    bool             empty() const noexcept { return size_ == 0; }
    std::size_t      size() const noexcept { return size_; }
    std::size_t      room() const noexcept { return room_; }
    std::byte const* data() const noexcept { return memory_.get(); }

    /// Appends `n` bytes, which the caller must fill, and returns them. Throws bad_alloc.
    std::span<std::byte> grow(std::size_t n) {
        if (n > room_ - size_) {
            std::size_t const more = std::max({std::size_t{4096}, 2 * room_, size_ + n});
            auto              next = std::make_unique_for_overwrite<std::byte[]>(more);
            if (size_) std::memcpy(next.get(), memory_.get(), size_);
            memory_ = std::move(next);
            room_   = more;
        }
        std::span<std::byte> const out(memory_.get() + size_, n);
        size_ += n;
        return out;
    }
    void append(std::span<std::byte const> bytes) {
        if (!bytes.empty()) std::memcpy(grow(bytes.size()).data(), bytes.data(), bytes.size());
    }

    void shrink(std::size_t size) noexcept { size_ = size; }

    /// Removes all bytes. Keeps the memory, up to most_kept bytes.
    void clear() noexcept {
        size_ = 0;
        if (room_ > most_kept) {
            memory_ = nullptr;
            room_   = 0;
        }
    }

private:
    static constexpr std::size_t most_kept = std::size_t{256} << 10;

    std::unique_ptr<std::byte[]> memory_;
    std::size_t                  size_ = 0, room_ = 0;
};

}  // namespace tenure::detail
