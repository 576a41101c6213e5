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
#include <vector>

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

}  // namespace tenure::detail
