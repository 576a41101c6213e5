// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include <boost/asio/buffer.hpp>

namespace tenure::detail::remote {

/// Bytes that have come and are not understood yet. One read takes many small answers; the rest of a long payload
/// goes from the socket straight to where it belongs.
class inbox {
public:
    inbox() : buffer_(std::make_unique_for_overwrite<std::byte[]>(room)) {}

    void clear() noexcept {
        begin_ = end_ = 0;
        left_         = 0;
    }

    /// Returns where the next bytes go. `little`: payloads are about to come, and only their heads should be read.
    std::span<boost::asio::mutable_buffer const> where(bool little) noexcept {
        if (begin_ != 0) {
            std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
            end_ -= begin_;
            begin_ = 0;
        }
        // A payload that is under way has already taken all that was in the buffer.
        direct_ = left_ != 0 && into_ && left_ >= least_direct;
        if (direct_) {
            parts_ = {boost::asio::buffer(into_, left_), boost::asio::buffer(buffer_.get(), head)};
            return parts_;
        }
        std::size_t const most = little && left_ == 0 ? std::max(head, end_ + 1) : room;
        parts_[0]              = boost::asio::buffer(buffer_.get() + end_, most - end_);
        return std::span(parts_).first(1);
    }

    void came(std::size_t n) noexcept {
        if (direct_) {
            std::size_t const part = std::min(n, left_);
            into_ += part;
            left_ -= part;
            n -= part;
        }
        end_ += n;
    }

    /// Returns the bytes in the buffer that were not skipped.
    std::span<std::byte const> bytes() const noexcept { return {buffer_.get() + begin_, end_ - begin_}; }
    void                       skip(std::size_t n) noexcept { begin_ += n; }

    /// Announces a payload of `n` bytes, which comes next. It is thrown away if `into` is null.
    void expect(std::byte* into, std::size_t n) noexcept {
        into_ = into;
        left_ = n;
    }

    /// Gives the payload what the buffer has of it. Returns whether the payload is complete.
    bool filled() noexcept {
        std::size_t const n = std::min(left_, end_ - begin_);
        if (into_ && n != 0) {
            std::memcpy(into_, buffer_.get() + begin_, n);
            into_ += n;
        }
        begin_ += n;
        left_ -= n;
        return left_ == 0;
    }

private:
    static constexpr std::size_t room = 64 << 10, head = 4 << 10, least_direct = 16 << 10;

    std::unique_ptr<std::byte[]>               buffer_;
    std::size_t                                begin_ = 0, end_ = 0;
    std::byte*                                 into_   = nullptr;
    std::size_t                                left_   = 0;
    bool                                       direct_ = false;
    std::array<boost::asio::mutable_buffer, 2> parts_;
};

}  // namespace tenure::detail::remote
