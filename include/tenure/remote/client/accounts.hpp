// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tenure/store/concept.hpp>

namespace tenure::detail::remote {

/// What the server holds for this client, from the answers: without a word kept per block. Where what was asked for
/// does not say how much it frees (the end of a batch, a list with dead blocks in it) the server says what is left.
/// It takes requests in the order of their numbers, so that has in it all requests before that one and none after.
///
/// Changed by who drives the connection; read by all.
class accounts {
public:
    /// The answer to this request: so much more or less is held.
    void changed(std::uint64_t request, std::int64_t bytes, std::int64_t blocks) noexcept {
        if (request < since_) return;  // the server has told with that in it
        add(bytes_, bytes);
        add(blocks_, blocks);
    }

    /// The answer to this request says what is held, to which was added what answers to later ones have changed.
    void told(std::uint64_t request, std::uint64_t bytes, std::uint64_t blocks) noexcept {
        if (request < since_) return;
        since_ = request;
        bytes_.store(bytes, std::memory_order_relaxed);
        blocks_.store(blocks, std::memory_order_relaxed);
    }

    /// A new session, of which this was the first request: nothing is held.
    void begin(std::uint64_t request) noexcept {
        since_ = request;
        bytes_.store(0, std::memory_order_relaxed);
        blocks_.store(0, std::memory_order_relaxed);
    }

    std::int64_t bytes() const noexcept { return at_least_none(bytes_); }
    std::int64_t blocks() const noexcept { return at_least_none(blocks_); }

private:
    // Unsigned, as a server may say any number.
    using number = std::atomic<std::uint64_t>;

    static void add(number& to, std::int64_t n) noexcept {
        to.store(to.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(n), std::memory_order_relaxed);
    }
    static std::int64_t at_least_none(number const& n) noexcept {
        return std::max<std::int64_t>(static_cast<std::int64_t>(n.load(std::memory_order_relaxed)), 0);
    }

    number        bytes_{0}, blocks_{0};
    std::uint64_t since_ = 0;
};

}  // namespace tenure::detail::remote
