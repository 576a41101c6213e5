// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <tenure/remote/protocol.hpp>

namespace tenure::detail::remote {

/// Knows which blocks went with a session that is over. The upper 24 bits of an id are those of the server's
/// instance. A new session with the same instance has later ids than the old one. The last 64 instances are known;
/// of blocks from earlier ones the server says that there are none.
class epochs {
public:
    epochs() noexcept { lost_.fill(none); }

    /// Notes that blocks with these ids came. Returns false if they cannot be of the instance that gave the
    /// others.
    bool came(std::uint64_t first, std::uint64_t count) noexcept {
        std::uint64_t const last = first + (count - 1);
        if (first == 0 || count == 0 || last < first || of(first) != of(last)) return false;
        if (known_ && of(first) != current_) return false;
        if (!known_) {
            current_ = of(first);
            known_   = true;
            std::replace(lost_.begin(), lost_.end(), std::uint64_t{current_}, none);
        }
        highest_ = std::max(highest_, last);
        return true;
    }

    /// Ends the session, and with it the blocks that came in it.
    void over() noexcept {
        if (!known_) return;
        lost_[next_++ % lost_.size()] = current_;
        former_                       = current_;
        known_                        = false;
    }

    /// Begins a session, with the same instance as the one before or with another.
    void begin(bool same_instance) noexcept {
        if (same_instance && former_ != none) {
            std::replace(lost_.begin(), lost_.end(), former_, none);
            current_ = static_cast<std::uint32_t>(former_);
            known_   = true;
            floor_   = highest_ + 1;
        } else {
            floor_ = highest_ = 0;
        }
        former_ = none;
    }

    /// Returns whether the block is of an instance whose session is over.
    bool lost(std::uint64_t id) const noexcept {
        return std::find(lost_.begin(), lost_.end(), std::uint64_t{of(id)}) != lost_.end();
    }

    /// Returns whether a block that the server does not have went with an earlier session of the same instance.
    bool was_before(std::uint64_t id) const noexcept { return id < floor_ && known_ && of(id) == current_; }

private:
    static constexpr std::uint64_t none = ~std::uint64_t{0};

    static std::uint32_t of(std::uint64_t id) noexcept { return static_cast<std::uint32_t>(id >> 40); }

    std::array<std::uint64_t, 64> lost_;
    std::size_t                   next_    = 0;
    std::uint64_t                 former_  = none;
    std::uint64_t                 highest_ = 0, floor_ = 0;
    std::uint32_t                 current_ = 0;
    bool                          known_   = false;
};

/// Reads a list of blocks as runs, in its order: consecutive numbers, up or down, with equal bytes. Leaves out
/// blocks that went with an earlier session. Each run is made when it is read, so a list of any length needs no
/// memory.
class run_reader {
public:
    run_reader() = default;
    run_reader(std::span<block const> many, std::size_t from, epochs const& gone) noexcept
        : many_(many), at_(from), gone_(&gone) {}

    bool next(protocol::block_run& run) noexcept {
        while (at_ < many_.size() && gone_->lost(many_[at_].id)) ++at_;
        if (at_ == many_.size()) return false;
        // No run may end beyond the last number there is. No block has that number, nor 0.
        std::uint64_t const first = many_[at_].id == ~std::uint64_t{0} ? 0 : many_[at_].id;
        std::uint64_t const bytes = many_[at_].bytes;
        std::uint64_t       n     = 1;
        auto const          goes  = [&](std::uint64_t id) {
            return at_ + n < many_.size() && many_[at_ + n].id == id && many_[at_ + n].bytes == bytes;
        };
        bool const down = first > 1 && goes(first - 1);
        if (down)
            while (first > n && goes(first - n)) ++n;
        else
            while (first + n != ~std::uint64_t{0} && goes(first + n)) ++n;
        at_ += n;
        run = {down ? first - n + 1 : first, bytes, n};
        return true;
    }

    std::size_t at() const noexcept { return at_; }

private:
    std::span<block const> many_;
    std::size_t            at_   = 0;
    epochs const*          gone_ = nullptr;
};

}  // namespace tenure::detail::remote
