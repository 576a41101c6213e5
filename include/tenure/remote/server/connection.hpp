// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server/hub.hpp>
#include <tenure/remote/server/inbox.hpp>
#include <tenure/remote/server/outbox.hpp>
#include <tenure/remote/server/session.hpp>
#include <tenure/remote/transport.hpp>

namespace tenure::detail {

/// One connection: frames from its transport to the session, and what that answers back. Many small requests come
/// with one receive, their answers go with one send; a long payload goes straight between the socket and its block.
/// While `most_queued` bytes wait to be sent, nothing more is received. All of it runs on the transport's executor,
/// a strand; no memory is allocated for a request once buffers have grown.
class connection final : public line {
public:
    connection(std::shared_ptr<hub> h, std::shared_ptr<transport> t, peer who)
        : hub_(std::move(h)), transport_(std::move(t)), peer_(std::move(who)), timer_(transport_->get_executor()) {}

    void start() {
        hub_->add(shared_from_this());
        expire(hub_->options.hello_timeout);
        pump();
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

    template <class F>
    void soon(F f) {
        boost::asio::post(transport_->get_executor(), [self = me(), f] { f(*self); });
    }
    std::shared_ptr<connection> me() { return std::static_pointer_cast<connection>(shared_from_this()); }

    // ---- receiving and sending

    /// Whatever can go on, does.
    void pump() {
        if (closed_) return;
        if (!writing_ && !out_.empty()) write();
        if (ending_ && out_.empty()) return close();
        if (!reading_ && !ending_ && !paused_ && !waiting_ && out_.size() < most_queued) read();
    }

    void read() {
        std::array<boost::asio::mutable_buffer, 2> into;
        std::size_t                                n = 0;
        if (missing_) {
            if (!landing_.target.where.empty())
                into[n++] = boost::asio::buffer(
                    landing_.target.where.data() + landing_.target.where.size() - missing_, missing_);
        }
        into[n++] = in_.room();
        reading_  = true;
        transport_->async_read_some(std::span(into).first(n),
                                    [self = me()](boost::system::error_code ec, std::size_t bytes) {
                                        self->reading_ = false;
                                        self->received(ec, bytes);
                                    });
    }

    void received(boost::system::error_code ec, std::size_t bytes) {
        if (closed_ || ec) return close();
        if (ticket_) expire(hub_->options.lease);
        if (missing_ && !landing_.target.where.empty()) {
            std::size_t const part = std::min(missing_, bytes);
            missing_ -= part;
            bytes -= part;
        }
        in_.put(bytes);
        go_on();
    }

    void write() {
        writing_ = true;
        transport_->async_write_some(out_.next(), [self = me()](boost::system::error_code ec, std::size_t bytes) {
            self->writing_ = false;
            if (self->closed_ || ec) return self->close();
            self->out_.consume(bytes);
            if (self->out_.empty()) self->paused_ = false;
            if (self->session_) {
                std::scoped_lock const guard(self->session_->lock);
                self->session_->heard();
            }
            self->go_on();
        });
    }

    void go_on() {
        try {
            parse();
        } catch (std::bad_alloc const&) {
            return close();
        }
        pump();
    }

    // ---- frames

    void parse() {
        if (!session_ && !ticket_ && !parse_hello()) return;
        if (waiting_ || ending_) return;
        std::unique_lock<std::mutex> guard;
        if (session_) {
            guard = std::unique_lock(session_->lock);
            if (session_->logic.over() || session_->current() != this) return shut();
            session_->heard();
        }
        struct count_on_exit {
            session* s;
            ~count_on_exit() {
                if (s) s->count();
            }
        } const counted{session_.get()};  // before the lock is let go
        auto& logic = session_ ? session_->logic : *ticket_;
        while (out_.size() < most_queued) {
            if (landing_.said.request != 0) {
                if (landing_.target.where.empty()) {  // dropped
                    std::size_t const part = std::min(missing_, in_.size());
                    in_.take(part);
                    missing_ -= part;
                }
                if (missing_) return;
                if (!take(logic.end_write(landing_, out_))) return;
                continue;
            }
            auto const h = head();
            if (!h) return;
            std::size_t const before = sizeof(protocol::frame_header) + h->body;
            if (in_.size() < before) return in_.expect(before);
            auto const body  = in_.bytes().subspan(sizeof(protocol::frame_header), h->body);
            auto const after = in_.bytes().subspan(before);
            if (after.size() >= h->payload) {
                if (!take(logic.apply(*h, body, after.first(h->payload), out_))) return;
                in_.take(before + h->payload);
                continue;
            }
            if (before + h->payload <= inbox::usual / 2) return in_.expect(before + h->payload);
            if (!take(logic.begin_write(*h, body, landing_, out_))) return;
            missing_               = h->payload;
            std::size_t const part = std::min(missing_, after.size());
            if (!landing_.target.where.empty()) {
                std::memcpy(landing_.target.where.data(), after.data(), part);
                missing_ -= part;
                in_.take(before + part);
            } else {
                in_.take(before);
            }
        }
    }

    /// False: not now, or never.
    bool take(session_logic::next n) {
        switch (n) {
        case session_logic::next::done: return true;
        case session_logic::next::later: paused_ = true; return false;
        case session_logic::next::over: break;
        case session_logic::next::bye: break;
        }
        last_words();
        if (session_) session_->end(this);
        return false;
    }

    /// The next header. Null: it has not arrived, or makes no sense.
    std::optional<protocol::frame_header> head() {
        if (in_.size() < sizeof(protocol::frame_header)) {
            in_.expect(sizeof(protocol::frame_header));
            return std::nullopt;
        }
        auto const h = protocol::header(in_.bytes().first<sizeof(protocol::frame_header)>());
        if (h) return *h;
        protocol::frame_header raw;
        std::memcpy(&raw, in_.bytes().data(), sizeof raw);
        auto const number = std::max<std::uint64_t>(raw.request, 1);  // a reply's header makes sense
        out_.filling().reply(number, raw.operation, protocol::status_of(h.error()));
        take(session_logic::next::over);
        return std::nullopt;
    }

    // ---- hello

    /// True: there is a session.
    bool parse_hello() {
        if (waiting_ || ending_) return false;
        auto const h = head();
        if (!h) return false;
        auto const refuse = [&](std::error_code why) {
            out_.filling().reply(h->request, h->operation, protocol::status_of(why));
            hub_->log({server_event::kind::refused, peer_.text, {}, {}, 0, 0, 0, why});
            last_words();
            return false;
        };
        auto const violated = make_error_code(errc::protocol_error);
        if (h->operation != static_cast<std::uint16_t>(protocol::operation::hello) || h->status != 0 ||
            h->body > protocol::most_hello || h->payload != 0)
            return refuse(violated);
        if (in_.size() < sizeof *h + h->body) {
            in_.expect(sizeof *h + h->body);
            return false;
        }
        auto       body  = in_.bytes().subspan(sizeof *h, h->body);
        auto const hello = protocol::take<protocol::hello_request>(body);
        if (!hello || hello->magic != protocol::magic || hello->zero != 0 || hello->zero_too != 0 ||
            hello->purpose > 1 || hello->name_bytes > protocol::most_name ||
            hello->token_bytes > protocol::most_token ||
            body.size() != std::size_t{hello->name_bytes} + hello->token_bytes)
            return refuse(violated);
        std::string_view const name(reinterpret_cast<char const*>(body.data()), hello->name_bytes);
        for (;;) {
            auto w = hub_->hello(*hello, h->request, name, body.subspan(hello->name_bytes), peer_);
            if (!w) return refuse(w.error());
            hello_   = h->request;
            resumed_ = w->resumed;
            if (w->ticket) {
                in_.take(sizeof *h + h->body);
                ticket_ = std::move(w->ticket);
                say_hello();
                return false;
            }
            auto const                   s = std::move(w->session);
            std::unique_lock<std::mutex> guard(s->lock);
            if (s->logic.over()) continue;  // just now
            if (resumed_ && !s->logic.resume(hello_)) {
                s->end();
                guard.unlock();
                return refuse(violated);
            }
            in_.take(sizeof *h + h->body);
            if (!resumed_) hub_->equip(s, peer_);
            waiting_ = true;
            session_ = s;
            s->attach(shared_from_this());
            return false;
        }
    }

    void say_hello() {
        if (closed_) return;
        waiting_ = false;
        protocol::hello_reply r;
        r.version  = protocol::version;
        r.resumed  = resumed_;
        r.lease    = static_cast<std::uint32_t>(hub_->options.lease.count());
        r.instance = hub_->instance;
        if (session_) {
            std::scoped_lock const guard(session_->lock);
            r.session  = session_->logic.number();
            r.secret   = session_->secret;
            r.capacity = hub_->parts().capacity();
            note(resumed_ ? server_event::kind::resumed : server_event::kind::opened);
        }
        r.most_body    = protocol::most_body;
        r.most_payload = hub_->parts().most_payload();
        r.in_flight    = hub_->parts().in_flight;
        out_.filling().reply(hello_, static_cast<std::uint16_t>(protocol::operation::hello), 0,
                             protocol::bytes_of(r));
        if (session_) timer_.cancel();
        else expire(hub_->options.lease);
        go_on();
    }

    // ---- the end

    /// What is queued is sent, and nothing more is taken.
    void last_words() {
        ending_ = true;
        expire(hub_->options.hello_timeout);
    }

    void expire(std::chrono::milliseconds after) {
        timer_.expires_after(after);
        timer_.async_wait([self = me()](boost::system::error_code ec) {
            if (!ec) self->close();
        });
    }

    void close() {
        if (!std::exchange(closed_, true)) {
            transport_->close();
            timer_.cancel();
        }
        if (reading_ || writing_ || std::exchange(gone_, true)) return;
        // Nothing of the system's refers to a block any more.
        out_.clear();
        landing_ = {};
        ticket_  = nullptr;
        if (session_) {
            std::scoped_lock const guard(session_->lock);
            note(session_->logic.over() ? server_event::kind::ended : server_event::kind::lost);
            session_->detach(this);
        }
        hub_->remove(shared_from_this());
    }

    void note(server_event::kind what) {
        hub_->log({what,
                   peer_.text,
                   session_->client,
                   session_->token,
                   session_->logic.number(),
                   session_->logic.own().bytes(),
                   session_->logic.own().blocks(),
                   {}});
    }

    std::shared_ptr<hub>           hub_;
    std::shared_ptr<transport>     transport_;
    peer const                     peer_;
    boost::asio::steady_timer      timer_;
    inbox                          in_;
    outgoing                       out_;
    std::shared_ptr<session>       session_;
    std::unique_ptr<session_logic> ticket_;
    session_logic::arriving        landing_;
    std::size_t                    missing_ = 0;  ///< of the payload that is landing
    std::uint64_t                  hello_   = 0;
    bool                           reading_ = false, writing_ = false;
    bool                           resumed_ = false;
    bool                           waiting_ = false;  ///< for the session
    bool                           paused_  = false;  ///< until all is sent
    bool                           ending_ = false, closed_ = false, gone_ = false;
};

}  // namespace tenure::detail
