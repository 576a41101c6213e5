// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>

#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server/greeting.hpp>
#include <tenure/remote/server/options.hpp>
#include <tenure/remote/server/sender.hpp>
#include <tenure/remote/server/session.hpp>

namespace tenure::detail {

/// Who is at the other side of a connection, as far as the system knows.
struct peer {
    std::string text;               ///< for people
    bool        local     = false;  ///< a process here, whose user the kernel told
    bool        owner     = false;  ///< and that is the server's
    bool        certified = false;
};

/// What the connections of a server share: its sessions, and who may have one. Thread-safe.
class hub : public std::enable_shared_from_this<hub> {
public:
    hub(boost::asio::any_io_executor e, any_store store, server_options o)
        : executor(std::move(e)),
          options(std::move(o)),
          instance(std::uint64_t{random_bytes<protocol::u64>()}),
          shared_(std::make_shared<common>(std::make_shared<served_store>(std::move(store), options.clear),
                                           std::uint64_t{random_bytes<protocol::u64>()})) {
        shared_->ticket_life  = options.lease;
        shared_->most_tickets = options.quota.tickets;
        shared_->in_flight    = options.quota.in_flight;
        shared_->limits       = {options.quota.bytes, options.quota.buffers, options.quota.batches};
    }

    boost::asio::any_io_executor const executor;
    server_options const               options;
    std::uint64_t const                instance;

    common& parts() noexcept { return *shared_; }

    /// What a hello gets: a session that was there or a new one, or the right to use a ticket.
    struct welcome {
        std::shared_ptr<detail::session> session;
        std::unique_ptr<session_logic>   ticket;
        bool                             resumed = false;
    };

    /// access_denied, newer_format; store_closed, where nobody is let in any more.
    result<welcome> hello(greeting const& g, std::uint64_t request, peer const& who) {
        protocol::hello_request const& h = g.hello;
        if (h.oldest > protocol::version || h.newest < h.oldest) return make_error_code(errc::newer_format);
        if (h.newest < protocol::version) return make_error_code(errc::newer_format);
        if (h.purpose == static_cast<std::uint16_t>(protocol::purpose::ticket)) {
            auto t = shared_->tickets.take(h.secret);
            if (!t) return make_error_code(errc::access_denied);
            return welcome{nullptr, std::make_unique<session_logic>(*shared_, request, std::move(*t)), false};
        }
        std::string const* const whose = options.tokens.find(g.token);
        if (!whose && (!options.tokens.empty() && !who.certified)) return make_error_code(errc::access_denied);
        if (!whose && !who.local && !who.certified) return make_error_code(errc::access_denied);

        std::scoped_lock const guard(lock_);
        if (h.session != 0 && h.instance == instance) {
            auto const at = sessions_.find(h.session);
            if (at != sessions_.end() &&
                same_secret(std::as_bytes(std::span(at->second->secret)), std::as_bytes(std::span(h.secret))))
                return welcome{at->second, nullptr, true};
        }
        if (draining_) return make_error_code(errc::store_closed);
        std::uint64_t const number = ++made_;
        auto s   = std::make_shared<session>(shared_, executor, options.lease, number, request, printable(g.name));
        s->peer  = who.text;
        s->token = whose ? *whose : std::string();
        s->ended = [self = weak_from_this(), number] {
            if (auto const here = self.lock()) here->forget(number);
        };
        sessions_.emplace(number, s);
        return welcome{std::move(s), nullptr, false};
    }

    /// Null: a ticket was shown.
    protocol::hello_reply answer_to_hello(session const* s, bool resumed) const noexcept {
        protocol::hello_reply r;
        r.version      = protocol::version;
        r.resumed      = resumed;
        r.lease        = static_cast<std::uint32_t>(options.lease.count());
        r.instance     = instance;
        r.most_body    = protocol::most_body;
        r.most_payload = shared_->most_payload();
        r.in_flight    = shared_->in_flight;
        if (!s) return r;
        r.session  = s->number;
        r.secret   = s->secret;
        r.capacity = shared_->capacity();
        return r;
    }

    /// What the session may do beside the usual.
    void equip(std::shared_ptr<session> const& s, peer const& who) {
        if (who.owner) s->logic.status = status;
        if (options.peers.empty()) return;
        s->logic.send = [self = weak_from_this(), to = std::weak_ptr(s)](std::uint64_t request, stay at, block from,
                                                                         protocol::send_request const& what,
                                                                         std::string_view              where) {
            auto const here = self.lock();
            return here ? here->send(to, request, std::move(at), from, what, where)
                        : make_error_code(errc::store_closed);
        };
    }

    void add(std::shared_ptr<line> const& l) {
        std::scoped_lock const guard(lock_);
        if (closed_) return l->shut();
        lines_.insert(l);
    }
    void remove(std::shared_ptr<line> const& l) {
        std::scoped_lock const guard(lock_);
        lines_.erase(l);
    }

    /// No new sessions; `empty` is called when there are none left.
    void drain(std::function<void()> empty) {
        {
            std::scoped_lock const guard(lock_);
            draining_ = true;
            if (!sessions_.empty()) {
                empty_ = std::move(empty);
                return;
            }
        }
        if (empty) empty();
    }

    /// Ends all sessions and shuts all lines.
    void close() {
        std::set<std::shared_ptr<line>> lines;
        {
            std::scoped_lock const guard(lock_);
            draining_ = closed_ = true;
            lines               = lines_;
        }
        for (auto const& s : sessions()) {
            std::scoped_lock const guard(s->lock);
            s->end();
        }
        for (auto const& l : lines) l->shut();
    }

    std::vector<std::shared_ptr<session>> sessions() const {
        std::scoped_lock const                guard(lock_);
        std::vector<std::shared_ptr<session>> out;
        out.reserve(sessions_.size());
        for (auto const& [number, s] : sessions_) out.push_back(s);
        return out;
    }

    std::size_t connections() const {
        std::scoped_lock const guard(lock_);
        return lines_.size();
    }

    void log(server_event const& e) {
        if (!options.log) return;
        std::scoped_lock const guard(log_lock_);
        options.log(e);
    }

    std::function<result<std::string>()> status;  ///< as JSON

private:
    std::error_code send(std::weak_ptr<session> const& whose, std::uint64_t request, stay at, block from,
                         protocol::send_request const& what, std::string_view where) {
        auto const to = std::find_if(options.peers.begin(), options.peers.end(),
                                     [&](endpoint const& e) { return e.to_text() == where; });
        if (to == options.peers.end()) return make_error_code(errc::access_denied);
        std::make_shared<sender>(executor, shared_->store, options.peers_tls, *to, std::move(at), from, what,
                                 [whose, request](std::error_code why) {
                                     if (auto const s = whose.lock()) s->finish(request, why);
                                 })
            ->start(options.lease / 2);
        return {};
    }

    void forget(std::uint64_t number) {
        std::function<void()> empty;
        {
            std::scoped_lock const guard(lock_);
            sessions_.erase(number);
            if (sessions_.empty()) {
                empty = std::exchange(empty_, nullptr);
                boost::asio::post(executor, [parts = shared_, idle = options.idle] {
                    parts->store->give_back();
                    if (idle) idle();
                });
            }
        }
        if (empty) empty();
    }

    /// Of what a stranger says, what can stand in a line of a log.
    static std::string printable(std::string_view name) {
        std::string out;
        for (char const c : name) out += c >= ' ' && c <= '~' && c != '"' && c != '\\' ? c : '?';
        return out;
    }

    std::shared_ptr<common>                           shared_;
    mutable std::mutex                                lock_;
    std::map<std::uint64_t, std::shared_ptr<session>> sessions_;
    std::set<std::shared_ptr<line>>                   lines_;
    std::uint64_t                                     made_     = 0;
    bool                                              draining_ = false, closed_ = false;
    std::function<void()>                             empty_;
    std::mutex                                        log_lock_;
};

}  // namespace tenure::detail
