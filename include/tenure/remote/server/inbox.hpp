// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include <boost/asio/buffer.hpp>

namespace tenure::detail {

/// Bytes that have arrived and are not taken yet: many small frames, or the beginning of a large one. It grows to
/// what expect() asks for, and shrinks once all is taken. Not thread-safe.
class inbox {
public:
    static constexpr std::size_t usual = std::size_t{64} << 10;
    static constexpr std::size_t least = std::size_t{8} << 10;  ///< enough for a hello

    inbox() : memory_(least) {}

    /// Grows to the usual size, for a client that is admitted.
    void widen() {
        if (memory_.size() < usual) memory_.resize(usual);
    }

    std::span<std::byte const> bytes() const noexcept { return std::span(memory_).subspan(begin_, size()); }
    std::size_t                size() const noexcept { return end_ - begin_; }
    void                       take(std::size_t n) noexcept { begin_ += n; }

    std::size_t memory() const noexcept { return memory_.size(); }

    /// Makes room for `n` bytes, which the caller needs in one piece.
    void expect(std::size_t n) {
        if (memory_.size() - begin_ >= n) return;
        to_front();
        if (memory_.size() < n) memory_.resize(n);
    }

    /// Returns the place for more bytes. It is empty only if what was expected is there already.
    boost::asio::mutable_buffer room() {
        if (begin_ == end_) {
            begin_ = end_ = 0;
            if (memory_.size() > usual) memory_ = std::vector<std::byte>(usual);
        } else if (begin_ > 0 && end_ == memory_.size()) {
            to_front();
        }
        return boost::asio::buffer(memory_.data() + end_, memory_.size() - end_);
    }
    void put(std::size_t n) noexcept { end_ += n; }

private:
    void to_front() noexcept {
        std::memmove(memory_.data(), memory_.data() + begin_, size());
        end_ -= begin_;
        begin_ = 0;
    }

    std::vector<std::byte> memory_;
    std::size_t            begin_ = 0, end_ = 0;
};

}  // namespace tenure::detail
