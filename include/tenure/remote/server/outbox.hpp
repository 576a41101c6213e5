// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>

#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server/chunk_pool.hpp>
#include <tenure/remote/server/held_block.hpp>

namespace tenure::detail {

/// The answer to a request, kept while the client may ask again.
struct answer {
    std::uint64_t             request   = 0;
    std::uint16_t             operation = 0;
    std::uint16_t             status    = 0;
    std::uint8_t              size      = 0;
    bool                      pending   = false;  ///< there is no answer yet
    bool                      again     = false;  ///< if repeated, the request is done again (read, status)
    std::array<std::byte, 24> body{};
    std::error_code           limit;  ///< the limit that refused the request, if one did

    std::span<std::byte const> bytes() const noexcept { return std::span(body).first(size); }
    void                       say(std::span<std::byte const> what) noexcept {
        size = static_cast<std::uint8_t>(what.size());
        std::memcpy(body.data(), what.data(), what.size());
    }
};

/// The answers that are not settled, in the order of their requests: a ring, allocated once. Not thread-safe.
class answers {
public:
    explicit answers(std::size_t most) : ring_(most) {}

    bool full() const noexcept { return count_ == ring_.size(); }

    void settle(std::uint64_t up_to) noexcept {
        while (count_ && at(0).request <= up_to) {
            first_ = (first_ + 1) % ring_.size();
            --count_;
        }
    }

    /// Appends an answer whose request is above all others. The ring must not be full.
    void add(answer const& a) noexcept { at(count_++) = a; }

    answer* find(std::uint64_t request) noexcept {
        std::size_t low = 0, high = count_;
        while (low < high) {
            std::size_t const middle = low + (high - low) / 2;
            if (at(middle).request < request) low = middle + 1;
            else high = middle;
        }
        return low < count_ && at(low).request == request ? &at(low) : nullptr;
    }

private:
    answer& at(std::size_t i) noexcept { return ring_[(first_ + i) % ring_.size()]; }

    std::vector<answer> ring_;
    std::size_t         first_ = 0, count_ = 0;
};

/// Frames to be sent, one after the other in a row of bytes. Long payloads between them are sent from where they
/// lie. Two outboxes take turns, so that one is filled while the other is sent. Its memory is reused.
class outbox {
public:
    /// Payloads up to this many bytes are copied into the row. That is cheaper than a buffer of their own and a
    /// stay at the block.
    static constexpr std::size_t copied = 2 << 10;

    bool        empty() const noexcept { return bytes_.empty(); }
    std::size_t size() const noexcept { return bytes_.size() + outside_; }

    /// Returns the bytes that it takes up, except those in blocks.
    std::size_t memory() const noexcept { return bytes_.capacity() + chunks_; }

    /// Appends a reply with its body. The caller appends the payload.
    void reply(std::uint64_t request, std::uint16_t operation, std::uint16_t status,
               std::span<std::byte const> body = {}, std::size_t payload = 0) {
        protocol::frame_header h;
        h.body      = static_cast<std::uint32_t>(body.size());
        h.payload   = static_cast<std::uint32_t>(payload);
        h.request   = request;
        h.operation = static_cast<std::uint16_t>(operation | protocol::is_reply);
        h.status    = status;
        append(protocol::bytes_of(h));
        append(body);
    }

    void append(std::span<std::byte const> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

    /// Appends `n` bytes for a payload, which the caller fills at once.
    std::span<std::byte> room(std::size_t n) {
        bytes_.resize(bytes_.size() + n);
        return std::span(bytes_).last(n);
    }

    /// Goes back to what it was when size() was `size`. No long payload may have been added since.
    void shrink(std::size_t size) noexcept { bytes_.resize(size - outside_); }

    /// Appends a payload that is sent from where it lies. `s` keeps its block.
    void outside(std::span<std::byte const> payload, stay s) {
        parts_.push_back({bytes_.size(), payload, std::move(s), pooled_chunk()});
        outside_ += payload.size();
    }
    /// Appends a payload that is sent from `memory`, and keeps that.
    void outside(pooled_chunk memory) {
        std::span<std::byte const> const payload = memory.span();
        parts_.push_back({bytes_.size(), payload, stay(), std::move(memory)});
        outside_ += payload.size();
        chunks_ += parts_.back().memory.memory();
    }

    bool refers_to(held_block const* h) const noexcept {
        return std::ranges::any_of(parts_, [&](part const& p) { return p.from.get() == h; });
    }

    /// Fills `into` with buffers of the bytes from `sent` on, as many as fit, and returns their number.
    std::size_t gather(std::size_t sent, std::span<boost::asio::const_buffer> into) const noexcept {
        std::size_t n = 0, at = 0, row = 0;
        auto const  add = [&](std::byte const* p, std::size_t size) {
            std::size_t const skip = at < sent ? std::min(sent - at, size) : 0;
            if (size > skip && n < into.size()) into[n++] = boost::asio::const_buffer(p + skip, size - skip);
            at += size;
        };
        for (part const& p : parts_) {
            if (n == into.size()) return n;
            add(bytes_.data() + row, p.after - row);
            add(p.payload.data(), p.payload.size());
            row = p.after;
        }
        add(bytes_.data() + row, bytes_.size() - row);
        return n;
    }

    /// Removes everything. Keeps the memory, up to most_kept bytes.
    void clear() noexcept {
        bytes_.clear();
        if (bytes_.capacity() > most_kept) bytes_.shrink_to_fit();
        parts_.clear();
        outside_ = chunks_ = 0;
    }

private:
    struct part {
        std::size_t                after;  ///< bytes of the row before it
        std::span<std::byte const> payload;
        stay                       from;
        pooled_chunk               memory;
    };

    static constexpr std::size_t most_kept = std::size_t{256} << 10;

    std::vector<std::byte> bytes_;
    std::vector<part>      parts_;
    std::size_t            outside_ = 0, chunks_ = 0;
};

/// The bytes that a connection has to send. Not thread-safe.
class outgoing {
public:
    /// Returns the outbox in which replies are put.
    outbox& filling() noexcept { return boxes_[1 - sending_]; }

    std::size_t size() const noexcept { return boxes_[0].size() + boxes_[1].size() - sent_; }
    bool        empty() const noexcept { return size() == 0; }
    std::size_t memory() const noexcept { return boxes_[0].memory() + boxes_[1].memory(); }

    bool refers_to(held_block const* h) const noexcept { return boxes_[0].refers_to(h) || boxes_[1].refers_to(h); }

    /// Returns the buffers to send next. The list is valid until another function is called.
    std::span<boost::asio::const_buffer const> next() noexcept {
        if (boxes_[sending_].empty()) sending_ = 1 - sending_;
        return std::span(list_).first(boxes_[sending_].gather(sent_, list_));
    }

    void consume(std::size_t n) noexcept {
        sent_ += n;
        if (sent_ < boxes_[sending_].size()) return;
        boxes_[sending_].clear();
        sent_ = 0;
    }

    void clear() noexcept {
        for (outbox& b : boxes_) b.clear();
        sent_ = 0;
    }

private:
    std::array<outbox, 2>                     boxes_;
    unsigned                                  sending_ = 0;
    std::size_t                               sent_    = 0;  ///< bytes of boxes_[sending_]
    std::array<boost::asio::const_buffer, 64> list_;
};

}  // namespace tenure::detail
