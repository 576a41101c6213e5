// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tenure/store/concept.hpp>

namespace tenure::detail::remote {

/// What the server holds for this client, from the answers: without a word kept per block. Where an answer does not
/// say how much was freed (the end of a batch, a list with dead blocks in it) the server is asked. It takes
/// requests in the order of their numbers, so what it says has in it all requests before that one and none after.
///
/// Changed by who drives the connection; read by all.
class accounts {
public:
    /// The answer to this request: so much more or less is held.
    void changed(std::uint64_t request, std::int64_t bytes, std::int64_t blocks) noexcept {
        if (request < since_) return;  // the server has told with that in it
        add(bytes_, bytes);
        add(blocks_, blocks);
        if (request > asked_) {
            later_bytes_ += bytes;
            later_blocks_ += blocks;
        }
    }

    /// The server is asked, by this request.
    void asked(std::uint64_t request) noexcept {
        asked_       = request;
        later_bytes_ = later_blocks_ = 0;
    }

    /// And answers. Only the latest answer counts.
    void told(std::uint64_t request, std::uint64_t bytes, std::uint64_t blocks) noexcept {
        if (request != asked_) return;
        since_ = request;
        bytes_.store(static_cast<std::int64_t>(bytes) + later_bytes_, std::memory_order_relaxed);
        blocks_.store(static_cast<std::int64_t>(blocks) + later_blocks_, std::memory_order_relaxed);
    }

    /// A new session, of which this was the first request: nothing is held.
    void begin(std::uint64_t request) noexcept {
        since_ = asked_ = request;
        later_bytes_ = later_blocks_ = 0;
        bytes_.store(0, std::memory_order_relaxed);
        blocks_.store(0, std::memory_order_relaxed);
    }

    std::int64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
    std::int64_t blocks() const noexcept { return blocks_.load(std::memory_order_relaxed); }

private:
    static void add(std::atomic<std::int64_t>& to, std::int64_t n) noexcept {
        to.store(to.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }

    std::atomic<std::int64_t> bytes_{0}, blocks_{0};
    std::uint64_t             since_ = 0, asked_ = 0;
    std::int64_t              later_bytes_ = 0, later_blocks_ = 0;
};

}  // namespace tenure::detail::remote
