// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tenure/store/concept.hpp>

namespace tenure::detail::remote {

/// What the server holds for this client, computed from its answers: no word is kept per block. If a request does
/// not say how much it frees (the end of a batch, a list with dead blocks in it), the server reports what is left.
/// It takes requests in the order of their numbers, so the report counts all requests before that one and none
/// after.
///
/// Changed by the thread that drives the connection; read by all threads.
class accounts {
public:
    /// Adds what the answer to this request changed: more, or less if negative.
    void changed(std::uint64_t request, std::int64_t bytes, std::int64_t blocks) noexcept {
        if (request < since_) return;  // the server's report counts it already
        add(bytes_, bytes);
        add(blocks_, blocks);
    }

    /// Sets what is held to the report in the answer to this request, to which the caller has added what answers
    /// to later ones changed.
    void told(std::uint64_t request, std::uint64_t bytes, std::uint64_t blocks) noexcept {
        if (request < since_) return;
        since_ = request;
        bytes_.store(bytes, std::memory_order_relaxed);
        blocks_.store(blocks, std::memory_order_relaxed);
    }

    /// Begins a new session, with nothing held. Its first request has this number.
    void begin(std::uint64_t request) noexcept {
        since_ = request;
        bytes_.store(0, std::memory_order_relaxed);
        blocks_.store(0, std::memory_order_relaxed);
    }

    std::int64_t bytes() const noexcept { return at_least_none(bytes_); }
    std::int64_t blocks() const noexcept { return at_least_none(blocks_); }

private:
    // Unsigned, because a server may say any number.
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
