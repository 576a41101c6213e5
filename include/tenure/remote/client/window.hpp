// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <tenure/remote/client/call.hpp>
#include <tenure/remote/protocol.hpp>

namespace tenure::detail::remote {

/// One frame to the server, kept until its answer is in. Header and body are adjacent, so they are one buffer.
struct request {
    static constexpr std::size_t body_room = 80;

    enum class state : std::uint8_t { written, sent, answered };

    protocol::frame_header           header;
    std::array<std::byte, body_room> body;
    std::string                      tail;  ///< the rest of the body: a name, an endpoint, trims

    call*           of         = nullptr;  ///< the call; null: none waits for the answer (any more)
    state           is         = state::answered;
    bool            begun      = false;   ///< a server may know of it
    bool            early      = false;   ///< the answer is in, but not known yet: whether all of the frame is out
    bool            no_surplus = false;   ///< an allocation whose batch has ended since
    std::size_t     begin = 0, runs = 0;  ///< `runs` runs of of->many, from block `begin` on, end the body
    std::byte*      memory   = nullptr;   ///< the payload goes from here, or to here
    std::uint32_t   expected = 0;         ///< bytes of payload in the answer
    std::error_code outcome;              ///< what the answer says
    std::int64_t    bytes = 0, blocks = 0;  ///< what success adds to what the server holds

    std::uint64_t       number() const noexcept { return header.request; }
    protocol::operation operation() const noexcept {
        return static_cast<protocol::operation>(std::uint16_t{header.operation});
    }
    void set(protocol::operation what) noexcept { header.operation = static_cast<std::uint16_t>(what); }
    /// Empties the request, and gives it a number.
    void reset(std::uint64_t number) noexcept {
        header         = {};
        header.request = number;
        tail.clear();
        of    = nullptr;
        begun = early = no_surplus = false;
        outcome.clear();
        begin = runs = 0;
        memory       = nullptr;
        expected     = 0;
        bytes = blocks = 0;
    }
    /// Returns how many bytes of the body lie here.
    std::size_t inline_body() const noexcept {
        return header.body - tail.size() - runs * sizeof(protocol::block_run);
    }
    std::size_t frame_bytes() const noexcept { return sizeof header + header.body + header.payload; }

    std::span<std::byte const> head() const noexcept {
        return {reinterpret_cast<std::byte const*>(&header), sizeof header + inline_body()};
    }

    template <protocol::wire_type T>
    void put(T const& value) noexcept {
        std::memcpy(body.data() + header.body, &value, sizeof value);
        header.body += static_cast<std::uint32_t>(sizeof value);
    }
    template <protocol::wire_type T>
    T body_as() const noexcept {
        T out;
        std::memcpy(&out, body.data(), sizeof out);
        return out;
    }
};
static_assert(offsetof(request, body) == offsetof(request, header) + sizeof(protocol::frame_header));

/// The requests that are not settled, by number: a ring, allocated once.
class request_window {
public:
    /// Makes room for `most` requests, and for a hello besides.
    explicit request_window(std::uint32_t most) : ring_(std::bit_ceil(std::size_t{most} + 2)) {}

    /// Sets how many requests there may be: what the server allows, at most what there is room for.
    void limit(std::uint32_t n) noexcept { limit_ = std::min<std::uint64_t>(n, ring_.size() - 2); }

    std::uint64_t next() const noexcept { return next_; }
    std::uint64_t settled() const noexcept { return settled_; }
    bool          full() const noexcept { return next_ - settled_ > limit_; }
    bool          empty() const noexcept { return next_ - settled_ == 1; }
    bool          holds_hello() const noexcept { return next_ - settled_ < ring_.size(); }

    /// Returns a request that is not settled.
    request& operator[](std::uint64_t number) noexcept { return ring_[number & (ring_.size() - 1)]; }

    /// Returns the request if its answer may come: it was written, and has none. Else null.
    request* find(std::uint64_t number) noexcept {
        if (number <= settled_ || number >= next_) return nullptr;
        request& r = (*this)[number];
        return r.is == request::state::answered ? nullptr : &r;
    }

    /// Returns a new, empty request, which is not sent before commit(). Needs !full(), except for a hello.
    request& fresh() noexcept {
        request& r = (*this)[next_];
        r.reset(next_);
        r.is = request::state::written;
        return r;
    }
    void commit() noexcept { ++next_; }

    /// Notes that the request's answer is in, or never comes.
    void answered(request& r) noexcept {
        r.is = request::state::answered;
        r.of = nullptr;
        if (r.tail.capacity() > 1024) std::string().swap(r.tail);
        while (settled_ + 1 < next_ && (*this)[settled_ + 1].is == request::state::answered) ++settled_;
    }

    /// Calls f(request&) for each request that has no answer, in order.
    template <class F>
    void for_each(F f) {
        for (std::uint64_t n = settled_ + 1; n < next_; ++n)
            if (request& r = (*this)[n]; r.is != request::state::answered) f(r);
    }

    /// Calls f(request const&) for each answered request after that one, which is unanswered. An answered request
    /// stays as it was until those before it are settled.
    template <class F>
    void for_each_answered_after(std::uint64_t number, F f) noexcept {
        for (std::uint64_t n = number + 1; n < next_; ++n)
            if (request const& r = (*this)[n]; r.is == request::state::answered) f(r);
    }

private:
    std::vector<request> ring_;
    std::uint64_t        next_ = 1, settled_ = 0;
    std::uint64_t        limit_ = 1;
};

}  // namespace tenure::detail::remote
