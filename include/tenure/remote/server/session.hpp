// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <tenure/error.hpp>
#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server/options.hpp>
#include <tenure/remote/server/session_logic.hpp>
#include <tenure/remote/trust.hpp>
#include <tenure/result.hpp>

namespace tenure::detail {

/// A client's first message. It refers to the bytes of the frame.
struct greeting {
    protocol::hello_request    hello;
    std::string_view           name;
    std::span<std::byte const> token;
};

/// Returns whether a stranger's first frame may have this header. Checked before the body is received.
inline bool may_greet(protocol::frame_header const& h) noexcept {
    return h.operation == static_cast<std::uint16_t>(protocol::operation::hello) && h.status == 0 &&
           h.body <= protocol::most_hello && h.payload == 0;
}

/// Reads the body of a hello. Errors: protocol_error if it makes no sense.
inline result<greeting> read_greeting(std::span<std::byte const> body) noexcept {
    auto const h = protocol::take<protocol::hello_request>(body);
    if (!h || h->magic != protocol::magic || h->zero != 0 || h->zero_too != 0 ||
        h->purpose > static_cast<std::uint16_t>(protocol::purpose::ticket) || h->name_bytes > protocol::most_name ||
        h->token_bytes > protocol::most_token || body.size() != std::size_t{h->name_bytes} + h->token_bytes)
        return make_error_code(errc::protocol_error);
    return greeting{*h, {reinterpret_cast<char const*>(body.data()), h->name_bytes}, body.subspan(h->name_bytes)};
}

class session;

/// A connection, as its session sees it.
class line : public std::enable_shared_from_this<line> {
public:
    virtual ~line() = default;

    virtual void shut()                                             = 0;  ///< closes it soon; from any thread
    virtual void attached()                                         = 0;  ///< has the session now: goes on soon
    virtual void finish(std::uint64_t request, std::error_code why) = 0;  ///< sends that request's answer soon
};

/// A client's session: its holdings, its line, and how long it lives without one. Thread-safe, by a lock that a
/// line holds while it handles what has arrived.
class session : public std::enable_shared_from_this<session> {
public:
    using clock = std::chrono::steady_clock;

    session(std::shared_ptr<common> c, admission a, boost::asio::any_io_executor const& executor,
            std::chrono::milliseconds lease, std::uint64_t n, std::uint64_t hello, std::string name)
        : common_(std::move(c)),
          lease_(lease),
          timer_(executor),
          heard_(clock::now()),
          number(n),
          secret(random_bytes<protocol::key>()),
          client(std::move(name)),
          logic(*common_, std::move(a), n, hello) {}

    /// Figures as of the last request, for readers without the lock.
    struct {
        std::atomic<std::uint64_t> bytes{0}, buffers{0}, batches{0};
        std::atomic<bool>          connected{false};
    } figures;

    void count() noexcept {
        figures.bytes.store(logic.own().bytes(), std::memory_order_relaxed);
        figures.buffers.store(logic.own().blocks(), std::memory_order_relaxed);
        figures.batches.store(logic.own().batches(), std::memory_order_relaxed);
        figures.connected.store(line_ != nullptr, std::memory_order_relaxed);
    }

    std::mutex lock;  ///< guards all that follows, and `logic`

    /// Makes `l` the client's line as soon as the line before it is silent, and then calls its attached().
    void attach(std::shared_ptr<line> l) {
        heard();
        if (!line_) {
            line_ = std::move(l);
            count();
            line_->attached();
            return;
        }
        if (successor_) successor_->shut();
        successor_ = std::move(l);
        line_->shut();
    }

    /// Detaches `l`, which is silent for ever. A line that waits takes its place.
    void detach(line const* l) {
        if (successor_.get() == l) successor_ = nullptr;
        if (line_.get() != l) return;
        line_ = nullptr;
        heard();
        count();
        if (successor_ && !logic.over()) attach(std::exchange(successor_, nullptr));
    }

    /// Notes that the client lives. Needs no lock.
    void heard() noexcept { heard_.store(clock::now(), std::memory_order_relaxed); }

    /// Frees everything. Shuts the line, unless that is `speaking`, which still has something to send.
    // NOLINTNEXTLINE(bugprone-exception-escape): Asio may throw where memory is out, and then this ends the program
    void end(line const* speaking = nullptr) noexcept {
        logic.end();
        count();
        timer_.cancel();
        if (line_ && line_.get() != speaking) line_->shut();
        line_ = nullptr;  // else line and session would keep each other alive
        if (auto const s = std::exchange(successor_, nullptr)) s->shut();
        if (ended) std::exchange(ended, nullptr)();
    }

    line* current() const noexcept { return line_.get(); }

    void finish(std::uint64_t request, std::error_code why) {
        std::scoped_lock const guard(lock);
        if (line_ && !logic.over()) line_->finish(request, why);
        else logic.finish(request, why, nullptr);
    }

    /// Ends the session after a lease in which nothing was heard of the client. The hub calls it once, as soon as
    /// it has made the session. The timer is set again only when it fires, and not with every frame.
    void watch() {
        timer_.expires_at(heard_.load(std::memory_order_relaxed) + lease_);
        timer_.async_wait([self = shared_from_this()](boost::system::error_code) {
            std::scoped_lock const guard(self->lock);
            if (self->logic.over()) return;
            if (clock::now() - self->heard_.load(std::memory_order_relaxed) >= self->lease_) self->end();
            else self->watch();
        });
    }

private:
    std::shared_ptr<common>         common_;
    std::chrono::milliseconds const lease_;
    boost::asio::steady_timer       timer_;
    std::atomic<clock::time_point>  heard_;
    std::shared_ptr<line>           line_, successor_;

public:
    std::uint64_t const   number;
    protocol::key const   secret;
    std::string const     client;
    std::string           peer, token;
    std::function<void()> ended;
    session_logic         logic;
};

}  // namespace tenure::detail
