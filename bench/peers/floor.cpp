// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What no allocator can beat: one pointer that moves through warm memory.

#include <utility>

#include "themes.hpp"

namespace {

class floor_peer {
public:
    static constexpr char const* name = "floor";
    using strictly_nested             = void;

    class batch {
    public:
        explicit batch(floor_peer& peer) : peer_{peer}, start_{peer.at_} {}
        batch(floor_peer& peer, batch&) : batch{peer} {}
        ~batch() { peer_.at_ = start_; }
        batch(batch const&)            = delete;
        batch& operator=(batch const&) = delete;

        void* allocate(std::size_t bytes) { return std::exchange(peer_.at_, peer_.at_ + bytes); }

    private:
        floor_peer& peer_;
        std::byte*  start_;
    };

    explicit floor_peer(bench::capacity c) : buffer_{c.bytes * c.depth}, at_{buffer_.data()} {}

private:
    bench::warm_buffer buffer_;
    std::byte*         at_;
};

auto const registered = bench::register_peer<floor_peer>();

}  // namespace
