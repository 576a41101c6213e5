// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server/hub.hpp>
#include <tenure/remote/server/intake.hpp>
#include <tenure/remote/server/outbox.hpp>
#include <tenure/remote/server/session.hpp>
#include <tenure/remote/server/tenant.hpp>
#include <tenure/remote/transport.hpp>

namespace tenure::detail {

/// One connection: takes frames from its transport to the session, and sends the answers back. Many small requests
/// come with one receive, and their answers go with one send. A long payload goes straight between the socket and
/// its block. While `most_queued` bytes wait to be sent, nothing more is received. If the tenant's or the server's
/// queue is full, each connection takes one request at a time, and only one connection of the tenant takes long
/// ones. Everything runs on the transport's executor, one handler at a time. Once the buffers have grown, a
/// request allocates no memory.
class connection final : public line {
public:
    connection(std::shared_ptr<hub> h, std::shared_ptr<transport> t, peer who, hub::entrance e = {})
        : hub_(std::move(h)),
          transport_(std::move(t)),
          peer_(std::move(who)),
          entrance_(std::move(e)),
          timer_(transport_->get_executor()),
          pause_(transport_->get_executor()) {}
    ~connection() override { end_turn(); }

    void start() {
        entrance_.visit.when_evicted([w = std::weak_ptr(me())] {
            if (auto const self = w.lock())
                self->soon([](connection& c) {
                    if (!c.session_ && !c.ticket_) c.close();  // it has said no hello since
                });
        });
        soon([](connection& c) {
            c.hub_->add(c.me());
            if (c.closed_) return;
            c.expire(c.hub_->options.hello_timeout);
            c.pump();
        });
    }

    void shut() override {
        soon([](connection& c) { c.close(); });
    }
    void attached() override {
        soon([](connection& c) { c.say_hello(); });
    }
    void finish(std::uint64_t request, std::error_code why) override {
        soon([=](connection& c) {
            if (!c.session_) return;
            {
                std::scoped_lock const guard(c.session_->lock);
                c.session_->logic.finish(request, why, c.closed_ ? nullptr : &c.out_);
            }
            c.paused_ = false;
            if (!c.closed_) c.go_on();
        });
    }

private:
    static constexpr std::size_t most_queued = std::size_t{4} << 20;
    static constexpr std::size_t most_long   = std::size_t{2} * protocol::most_body;
    static constexpr std::size_t queue_unit  = std::size_t{64} << 10;  ///< queues are counted in multiples of it

    template <class F>
    void soon(F f) {
        boost::asio::post(transport_->get_executor(), [self = me(), f] { self->handle(f); });
    }
    /// Runs a handler. If it throws, because memory is full, this connection ends and the server does not.
    template <class F>
    void handle(F f) {
        std::scoped_lock const guard(lock_);
        try {
            f(*this);
        } catch (std::exception const&) {
            close();
        }
    }
    std::shared_ptr<connection> me() { return std::static_pointer_cast<connection>(shared_from_this()); }

    // ---- receiving and sending

    /// Starts the next send and the next receive if they are possible. Shuts the transport down once the last
    /// words are sent.
    void pump() {
        if (closed_) return;
        if (!writing_ && !out_.empty()) write();
        if (ending_ && out_.empty() && !finished_ && !(finished_ = transport_->finish())) return close();
        if (!reading_ && finished_) {  // drops what comes until the peer closes, or its time is up
            in_.drop();
            return read();
        }
        if (!reading_ && !ending_ && !paused_ && !waiting_ && out_.size() < allowed()) read();
    }

    // ---- the size of its queues

    /// Counts the queues for the tenant. Returns how many bytes may wait to be sent before requests must wait.
    std::size_t allowed() {
        if (!queued_) return most_queued;
        queued_->settle(resource::queued, (in_.memory() + out_.memory()) / queue_unit * queue_unit);
        bool const full = whose().full(resource::queued);
        in_.limit(full && !has_turn_ ? inbox::usual : most_long);
        return full ? 1 : most_queued;
    }
    /// After the hello.
    tenant& whose() noexcept { return *queued_->of(); }  // NOLINT(bugprone-unchecked-optional-access)

    /// Takes the tenant's turn for long requests. Returns false if this or another connection has it.
    bool take_turn() noexcept {
        if (has_turn_ || !whose().take_turn()) return false;
        has_turn_ = true;
        in_.limit(most_long);
        return true;
    }
    void end_turn() noexcept {
        if (std::exchange(has_turn_, false)) whose().end_turn();
    }

    void read() {
        reading_        = true;
        auto const into = in_.room();
        if (!in_.wide()) end_turn();
        transport_->async_read_some(into, [self = me()](boost::system::error_code ec, std::size_t bytes) {
            self->handle([=](connection& c) { c.received(ec, bytes); });
        });
    }

    void received(boost::system::error_code ec, std::size_t bytes) {
        reading_ = false;
        if (closed_ || ec) return close();
        if (finished_) return pump();
        if (ticket_) expire(hub_->options.lease);
        if (session_) session_->heard();
        in_.put(bytes);
        go_on();
    }

    void write() {
        writing_ = true;
        transport_->async_write_some(out_.next(), [self = me()](boost::system::error_code ec, std::size_t bytes) {
            self->handle([=](connection& c) { c.written(ec, bytes); });
        });
    }

    void written(boost::system::error_code ec, std::size_t bytes) {
        writing_ = false;
        if (closed_ || ec) return close();
        out_.consume(bytes);
        if (out_.empty()) paused_ = false;
        if (session_) session_->heard();
        if (!in_.empty()) go_on();
        else pump();
    }

    void go_on() {
        do parse();
        while (send_now());
        pump();
    }

    /// Sends what the socket takes at once, without a turn of the executor, and leaves the rest to write(). If
    /// there is much, leaves all of it, because other connections wait for their turn. Returns whether everything
    /// is sent and parsing, which had to wait for that, may go on.
    bool send_now() {
        constexpr std::size_t much = std::size_t{512} << 10;
        if (closed_ || writing_ || out_.empty() || out_.size() > much || transport_->descriptor() < 0) return false;
        bool const had_to_wait = paused_ || full_;
        while (!out_.empty()) {
            auto const sent = remote::send_now(transport_->descriptor(), out_.next());
            if (sent.not_now()) return false;
            if (sent.bytes < 0) {
                close();
                return false;
            }
            out_.consume(static_cast<std::size_t>(sent.bytes));
        }
        paused_ = false;
        if (session_) session_->heard();
        return had_to_wait;
    }

    // ---- frames

    void parse() {
        full_ = false;
        if (!session_ && !ticket_) return parse_hello();
        if (waiting_ || ending_) return;
        std::unique_lock<std::mutex> guard;
        if (session_) {
            guard = std::unique_lock(session_->lock);
            if (session_->logic.over() || session_->current() != this) return shut();
        }
        auto& logic = session_ ? session_->logic : *ticket_;
        for (full_ = true; out_.size() < allowed();) {
            auto const done = in_.step(logic, out_);
            if (in_.crowded() && take_turn()) continue;
            full_ = done && take(*done);
            if (!full_) break;
        }
        if (!session_) return;
        session_->count();
        if (auto const why = logic.last_limit()) note(server_event::kind::limited, why);
    }

    bool take(session_logic::next n) {
        if (n == session_logic::next::done) return true;
        if (n == session_logic::next::later) {
            paused_ = true;
            if (in_.crowded()) {  // the client is alive: it is the server that does not read
                if (session_) session_->heard();
                later(std::chrono::milliseconds(5));
            }
            return false;
        }
        last_words();
        if (session_) session_->end(this);
        return false;
    }

    void later(std::chrono::nanoseconds wait) {
        pause_.expires_after(wait);
        pause_.async_wait([self = me()](boost::system::error_code ec) {
            if (ec) return;
            self->handle([](connection& c) {
                c.paused_ = c.waiting_ = false;
                if (!c.closed_) c.go_on();
            });
        });
    }

    // ---- hello

    /// Handles the hello, if all of it has arrived. say_hello() goes on with the frames after it.
    void parse_hello() {
        if (waiting_ || ending_) return;
        auto const head = in_.head();
        if (!head) {
            in_.answer_nonsense(out_, head.error());
            return last_words();
        }
        std::optional<protocol::frame_header> const& whole = *head;
        if (!whole) return;
        protocol::frame_header const& h            = *whole;
        bool                          knows_limits = false;
        auto const                    refuse       = [&](std::error_code why) {
            auto const reason = is_limit(why) && knows_limits ? why.message() : std::string();
            out_.filling().reply(h.request, h.operation, protocol::status_of(outward(why)),
                                                          std::as_bytes(std::span(reason)));
            hub_->log_refusal(peer_, why);
            in_.drop();  // there may be a token in it, and nothing more is read
            last_words();
        };
        auto const violated = make_error_code(errc::protocol_error);
        if (!may_greet(h)) return refuse(violated);
        auto const body = in_.body(h);
        if (!body) return;
        auto const said = read_greeting(*body);
        if (!said) return refuse(said.error());
        knows_limits = said->hello.newest >= 2;
        for (;;) {
            auto w = hub_->hello(*said, h.request, peer_);
            if (!w) return refuse(w.error());
            if (w->wait.count() != 0) {
                waiting_ = true;
                return later(w->wait);
            }
            entrance_.visit = {};
            version_        = std::min<std::uint16_t>(said->hello.newest, protocol::version);
            hello_          = h.request;
            resumed_        = w->resumed;
            if (w->ticket) {
                in_.take_hello(h);
                in_.widen();
                ticket_ = std::move(w->ticket);
                queued_.emplace(ticket_->whose());
                return say_hello();
            }
            auto const                   s = std::move(w->session);
            std::unique_lock<std::mutex> guard(s->lock);
            if (s->logic.over()) continue;  // it has just ended
            if (resumed_ && !s->logic.resume(hello_)) {
                s->end();
                guard.unlock();
                return refuse(violated);
            }
            s->logic.version = version_;
            in_.take_hello(h);
            in_.widen();
            hub_->equip(s, peer_);
            waiting_ = true;
            session_ = s;
            queued_.emplace(s->logic.whose());
            return s->attach(shared_from_this());
        }
    }

    void say_hello() {
        if (closed_) return;
        waiting_     = false;
        auto const r = hub_->answer_to_hello(session_.get(), resumed_, version_);
        out_.filling().reply(hello_, static_cast<std::uint16_t>(protocol::operation::hello), 0,
                             protocol::bytes_of(r));
        if (session_) {
            std::scoped_lock const guard(session_->lock);
            note(resumed_ ? server_event::kind::resumed : server_event::kind::opened);
            timer_.cancel();
        } else {
            expire(hub_->options.lease);
        }
        go_on();
    }

    // ---- the end

    /// Sends the queued answers and takes no more requests, for the hello timeout at most.
    void last_words() {
        ending_ = true;
        expire(hub_->options.hello_timeout);
    }

    void expire(std::chrono::milliseconds after) {
        timer_.expires_after(after);
        timer_.async_wait([self = me()](boost::system::error_code ec) {
            if (!ec) self->handle([](connection& c) { c.close(); });
        });
    }

    void close() {
        if (!std::exchange(closed_, true)) {
            transport_->close();
            timer_.cancel();
            pause_.cancel();
        }
        if (reading_ || writing_ || std::exchange(gone_, true)) return;
        // No read or write is under way, so the system no longer refers to a block.
        out_.clear();
        in_.clear();
        if (!session_ && !ticket_) in_.drop();  // a hello that nobody took
        end_turn();
        queued_.reset();
        ticket_ = nullptr;
        if (session_) {
            std::scoped_lock const guard(session_->lock);
            note(session_->logic.over() ? server_event::kind::ended : server_event::kind::lost);
            session_->detach(this);
        }
        hub_->remove(shared_from_this());
    }

    void note(server_event::kind what, std::error_code why = {}) {
        session const& s = *session_;
        hub_->log(
            {what, peer_.text, s.client, s.token, s.number, s.logic.own().bytes(), s.logic.own().blocks(), why, 0});
    }

    std::mutex                     lock_;  ///< one handler at a time; a strand costs each a turn of the executor
    std::shared_ptr<hub>           hub_;
    std::shared_ptr<transport>     transport_;
    peer const                     peer_;
    hub::entrance                  entrance_;  ///< with a visit until the client has said hello
    boost::asio::steady_timer      timer_, pause_;
    intake                         in_;
    outgoing                       out_;
    std::shared_ptr<session>       session_;
    std::unique_ptr<session_logic> ticket_;
    std::uint64_t                  hello_   = 0;
    std::uint16_t                  version_ = protocol::version;
    std::optional<account>         queued_;  ///< bytes of the queues, since the client is admitted
    bool                           reading_ = false, writing_ = false;
    bool                           resumed_ = false, has_turn_ = false;
    bool                           waiting_ = false;  ///< for the session, or to show a token
    bool                           paused_  = false;  ///< until all is sent, finish() is called or a pause is over
    bool                           full_    = false;  ///< parsing stopped because too much waits to be sent
    bool                           ending_ = false, finished_ = false, closed_ = false, gone_ = false;
};

}  // namespace tenure::detail
