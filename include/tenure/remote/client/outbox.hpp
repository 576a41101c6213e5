// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <boost/asio/buffer.hpp>

#include <tenure/remote/client/epochs.hpp>
#include <tenure/remote/client/window.hpp>

namespace tenure::detail::remote {

/// The requests that go out next: many frames in one gathering write, payloads from where they lie. A list of runs
/// that does not fit into its request is made while it is sent, some runs at a time.
class outbox {
public:
    outbox(request_window& window, epochs const& gone) noexcept : window_(window), gone_(gone) {}

    /// Returns the bytes of frames that have not wholly left, including what has left of the first.
    std::size_t waiting() const noexcept { return waiting_; }
    void        written(request const& r) noexcept { waiting_ += r.frame_bytes(); }

    /// Returns what goes next. Valid until wrote() or restart(), and as long as the requests' memory is.
    std::span<boost::asio::const_buffer const> gather() noexcept {
        count_           = 0;
        std::size_t skip = offset_;
        for (end_ = next_; end_ < window_.next() && count_ + 4 <= buffers_.size(); ++end_) {
            request& r = window_[end_];
            if (r.is == request::state::answered) continue;  // before the connection was lost; or a hello
            r.begun          = true;
            r.header.settled = std::min(window_.settled(), r.number() - 1);
            add(r.head(), skip);
            add(std::as_bytes(std::span(r.tail)), skip);
            if (r.runs != 0) {
                add_runs(r, skip);
                ++end_;
                break;
            }
            add({r.memory, r.header.payload}, skip);
        }
        return std::span(buffers_).first(count_);
    }

    /// Returns whether the last gather() took the request: a write under way may read from it.
    bool gathered(std::uint64_t number) const noexcept { return number >= next_ && number < end_; }

    /// Notes that `n` bytes of the last gather() are out. Calls sent(request&) for each request that is out
    /// wholly.
    template <class F>
    void wrote(std::size_t n, F sent) noexcept {
        for (offset_ += n; next_ < window_.next(); ++next_) {
            request& r = window_[next_];
            if (r.is == request::state::answered) continue;
            std::size_t const whole = r.frame_bytes();
            if (offset_ < whole) break;
            offset_ -= whole;
            waiting_ -= whole;
            r.is = request::state::sent;
            sent(r);
        }
        end_ = next_;
    }

    /// Starts over for a new connection: all that is not answered goes again.
    void restart() noexcept {
        next_ = end_ = window_.settled() + 1;
        offset_      = 0;
        chunk_of_    = 0;
        waiting_     = 0;
        window_.for_each([&](request& r) {
            r.is = request::state::written;
            waiting_ += r.frame_bytes();
        });
    }

    /// Returns whether some of the request is out, or is being read: then it must go as it is.
    bool in_use(request const& r) const noexcept {
        if (r.is != request::state::written) return false;
        return gathered(r.number()) || (r.number() == next_ && offset_ != 0);
    }
    /// Notes that a request, not in use, has changed from `before` to `now` bytes.
    void changed(std::size_t before, std::size_t now) noexcept { waiting_ = waiting_ - before + now; }

private:
    void add(std::span<std::byte const> bytes, std::size_t& skip) noexcept {
        std::size_t const n = std::min(skip, bytes.size());
        skip -= n;
        if (n != bytes.size()) buffers_[count_++] = boost::asio::buffer(bytes.data() + n, bytes.size() - n);
    }

    /// Adds the next of the request's runs. Nothing may follow them in this write, because there is one chunk.
    void add_runs(request const& r, std::size_t skip) noexcept {
        if (chunk_of_ != r.number()) {
            chunk_of_   = r.number();
            reader_     = run_reader(r.of->many, r.begin, gone_);
            chunk_from_ = chunk_to_ = 0;
        }
        while (skip >= chunk_to_) {
            std::size_t const left = r.runs - chunk_to_ / sizeof(protocol::block_run);
            std::size_t const n    = std::min(left, chunk_.size());
            for (std::size_t i = 0; i < n; ++i)
                if (!reader_.next(chunk_[i])) chunk_[i] = {};  // the list was changed meanwhile: no such block
            chunk_from_ = chunk_to_;
            chunk_to_ += n * sizeof(protocol::block_run);
        }
        auto const* const chunk = reinterpret_cast<std::byte const*>(chunk_.data());
        buffers_[count_++]      = boost::asio::buffer(chunk + (skip - chunk_from_), chunk_to_ - skip);
    }

    request_window& window_;
    epochs const&   gone_;
    std::uint64_t   next_ = 1, end_ = 1;  ///< requests: the first that is not out, and behind the last gathered
    std::size_t     offset_  = 0;         ///< bytes of the first that are out
    std::size_t     waiting_ = 0;

    std::array<boost::asio::const_buffer, 64> buffers_;
    std::size_t                               count_ = 0;

    std::array<protocol::block_run, 1024> chunk_;  ///< bytes [chunk_from_, chunk_to_) of the runs
    std::uint64_t                         chunk_of_   = 0;
    std::size_t                           chunk_from_ = 0, chunk_to_ = 0;
    run_reader                            reader_;
};

}  // namespace tenure::detail::remote
