// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include <boost/asio/buffer.hpp>

#include <tenure/detail/base/secret.hpp>
#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server/outbox.hpp>
#include <tenure/remote/server/session_logic.hpp>

namespace tenure::detail {

/// Bytes that have arrived and are not taken yet: many small frames, or the beginning of a large one. It grows to
/// what expect() asks for, and shrinks once all is taken. Not thread-safe.
class inbox {
public:
    static constexpr std::size_t usual = std::size_t{64} << 10;
    static constexpr std::size_t least = std::size_t{8} << 10;  ///< enough for a hello

    inbox() : memory_(least) {}

    /// Grows to the usual size, for a client that is admitted.
    void widen() {
        if (memory_.size() < usual) memory_.resize(usual);
    }

    std::span<std::byte const> bytes() const noexcept { return std::span(memory_).subspan(begin_, size()); }
    std::size_t                size() const noexcept { return end_ - begin_; }
    void                       take(std::size_t n) noexcept { begin_ += n; }
    /// Takes as take() does, and overwrites what was there.
    void take_secret(std::size_t n) noexcept {
        wipe(memory_.data() + begin_, n);
        begin_ += n;
    }

    std::size_t memory() const noexcept { return memory_.size(); }

    /// Makes room for `n` bytes, which the caller needs in one piece.
    void expect(std::size_t n) {
        if (memory_.size() - begin_ >= n) return;
        to_front();
        if (memory_.size() < n) memory_.resize(n);
    }

    /// Returns the place for more bytes. It is empty only if what was expected is there already.
    boost::asio::mutable_buffer room() {
        if (begin_ == end_) {
            begin_ = end_ = 0;
            if (memory_.size() > usual) memory_ = std::vector<std::byte>(usual);
        } else if (begin_ > 0 && end_ == memory_.size()) {
            to_front();
        }
        return boost::asio::buffer(memory_.data() + end_, memory_.size() - end_);
    }
    void put(std::size_t n) noexcept { end_ += n; }

private:
    void to_front() noexcept {
        std::memmove(memory_.data(), memory_.data() + begin_, size());
        end_ -= begin_;
        begin_ = 0;
    }

    std::vector<std::byte> memory_;
    std::size_t            begin_ = 0, end_ = 0;
};

/// Cuts what arrives into frames and hands them to a session. A long payload arrives in the memory of its block.
/// Uses no sockets. Not thread-safe.
class intake {
public:
    /// Returns the buffers for the next bytes. If there are two, the first is for the rest of a payload.
    std::span<boost::asio::mutable_buffer const> room() {
        std::size_t n = 0;
        if (std::size_t const rest = landing_bytes()) {
            auto const where = landing_.target.where.last(rest);
            room_[n++]       = boost::asio::buffer(where.data(), where.size());
        }
        room_[n++] = in_.room();
        return std::span(room_).first(n);
    }

    void put(std::size_t n) noexcept {
        std::size_t const part = std::min(landing_bytes(), n);
        missing_ -= part;
        in_.put(n - part);
    }

    bool empty() const noexcept { return in_.size() == 0; }

    /// Returns the header of the next frame, or null if it is not there yet. Errors: protocol_error if it makes no
    /// sense.
    result<std::optional<protocol::frame_header>> head() {
        if (in_.size() < sizeof(protocol::frame_header)) {
            in_.expect(sizeof(protocol::frame_header));
            return std::optional<protocol::frame_header>();
        }
        auto const h = protocol::header(in_.bytes().first<sizeof(protocol::frame_header)>());
        if (!h) return h.error();
        return std::optional(*h);
    }

    void widen() { in_.widen(); }

    void limit(std::size_t most) noexcept { most_ = most; }
    /// Returns whether step() stopped because of limit().
    bool        crowded() const noexcept { return crowded_; }
    bool        wide() const noexcept { return in_.memory() > inbox::usual; }
    std::size_t memory() const noexcept { return in_.memory() + landing_.target.memory.memory(); }

    /// Returns the body of the frame with that header, or null if it is not all there.
    std::optional<std::span<std::byte const>> body(protocol::frame_header const& h) {
        std::size_t const all = sizeof h + h.body;
        if (in_.size() >= all) return in_.bytes().subspan(sizeof h, h.body);
        in_.expect(all);
        return std::nullopt;
    }
    /// Takes a hello, and overwrites the token in it.
    void take_hello(protocol::frame_header const& h) noexcept { in_.take_secret(sizeof h + h.body); }

    /// Handles one frame, or a part of one. Returns null if more has to arrive first.
    std::optional<session_logic::next> step(session_logic& logic, outgoing& out) {
        if (landing_.said.request != 0) {
            if (landing_.target.where.empty()) {  // dropped
                std::size_t const part = std::min(missing_, in_.size());
                in_.take(part);
                missing_ -= part;
            }
            if (missing_) return std::nullopt;
            return logic.end_write(landing_, out);
        }
        auto const next = head();
        if (!next) return answer_nonsense(out, next.error());
        std::optional<protocol::frame_header> const& whole = *next;
        if (!whole) return std::nullopt;
        protocol::frame_header const& h = *whole;
        crowded_                        = sizeof h + h.body > std::max(most_, in_.memory());
        if (crowded_) return session_logic::next::later;
        auto const said = body(h);
        if (!said) return std::nullopt;
        auto const after = in_.bytes().subspan(sizeof h + h.body);
        if (after.size() >= h.payload) {
            auto const done = logic.apply(h, *said, after.first(h.payload), out);
            if (done != session_logic::next::later) in_.take(sizeof h + h.body + h.payload);
            return done;
        }
        if (sizeof h + h.body + h.payload <= inbox::usual / 2) {
            in_.expect(sizeof h + h.body + h.payload);
            return std::nullopt;
        }
        auto const begun = logic.begin_write(h, *said, landing_, out);
        if (begun != session_logic::next::done) return begun;
        missing_               = h.payload;
        std::size_t const part = std::min(landing_bytes(), after.size());
        if (part) std::memcpy(landing_.target.where.data(), after.data(), part);
        missing_ -= part;
        in_.take(sizeof h + h.body + part);
        return session_logic::next::done;
    }

    /// Answers a header that makes no sense, under its request number, or 1 if that is 0.
    session_logic::next answer_nonsense(outgoing& out, std::error_code why) {
        protocol::frame_header raw;
        std::memcpy(&raw, in_.bytes().data(), sizeof raw);
        auto const number = std::max<std::uint64_t>(raw.request, 1);
        out.filling().reply(number, raw.operation, protocol::status_of(why));
        return session_logic::next::over;
    }

    /// Drops all that has arrived, which may be a hello, and overwrites it.
    void drop() noexcept { in_.take_secret(in_.size()); }

    /// Gives up the write that is arriving, so that nothing refers to a block any more.
    void clear() noexcept { landing_ = {}; }

private:
    std::size_t landing_bytes() const noexcept { return landing_.target.where.empty() ? 0 : missing_; }

    inbox                                      in_;
    session_logic::arriving                    landing_;
    std::size_t                                missing_ = 0;  ///< of a payload that is landing or dropped
    std::array<boost::asio::mutable_buffer, 2> room_;
    std::size_t                                most_    = 2 * std::size_t{protocol::most_body};
    bool                                       crowded_ = false;
};

}  // namespace tenure::detail
