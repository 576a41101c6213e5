// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>

#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server/options.hpp>
#include <tenure/remote/server/sender.hpp>
#include <tenure/remote/server/session.hpp>
#include <tenure/remote/server/strangers.hpp>
#include <tenure/remote/server/tenant.hpp>

namespace tenure::detail {

/// The other side of a connection, as far as the system knows it.
struct peer {
    std::string text;               ///< for people
    bool        local     = false;  ///< a process of this machine, whose user the kernel told
    bool        owner     = false;  ///< that user is the server's own
    bool        certified = false;
    std::string place;   ///< the address or the user, by which wrong tokens and visitors are counted
    std::string tenant;  ///< the tenant if no token is shown: the user, or the certificate's subject
};

/// The sessions of a server, and their admission: shared by its connections. Thread-safe.
class hub : public std::enable_shared_from_this<hub> {
public:
    hub(boost::asio::any_io_executor e, any_store store, server_options o)
        : executor(std::move(e)),
          options(std::move(o)),
          limits(resolved(options.limits, store)),
          instance(std::uint64_t{random_bytes<protocol::u64>()}),
          attempts_({options.wrong_tokens.at_once, options.wrong_tokens.a_second},
                    {options.wrong_tokens.all_at_once, options.wrong_tokens.all_a_second}),
          strangers_(std::make_shared<visitors>(limits.visitors)),
          users_(std::make_shared<visitors>(limits.visitors)),
          log_(options.log),
          shared_(std::make_shared<common>(std::make_shared<served_store>(std::move(store), options.clear),
                                           std::uint64_t{random_bytes<protocol::u64>()},
                                           amounts_of(options.quota, limits), amounts_of(limits))) {
        shared_->ticket_life = options.lease;
        shared_->in_flight   = options.quota.in_flight;
        shared_->told_bytes  = options.limits.bytes;
    }

    boost::asio::any_io_executor const executor;
    server_options const               options;
    server_limits const                limits;
    std::uint64_t const                instance;

    common& parts() noexcept { return *shared_; }

    /// The answer to a hello: a new or a resumed session, the right to use a ticket, or a wait.
    struct welcome {
        std::shared_ptr<detail::session> session{};
        std::unique_ptr<session_logic>   ticket{};
        bool                             resumed = false;
        attempts::clock::duration        wait{};  ///< too many tokens were guessed: call hello() again after it
    };

    /// Admits a client. Errors: access_denied; newer_format; a limit; store_closed, if no new session is let in
    /// any more.
    result<welcome> hello(greeting const& g, std::uint64_t request, peer const& who) {
        protocol::hello_request const& h = g.hello;
        if (h.oldest > protocol::version || h.newest < h.oldest || h.newest < protocol::oldest_version)
            return make_error_code(errc::newer_format);
        auto const known = resumable(h);
        bool const shown = !g.token.empty() || h.purpose != 0 || (!options.tokens.empty() && !who.certified);
        if (!known && shown) {
            if (auto const wait = attempts_.begin(who.place, attempts::clock::now()); wait.count() != 0)
                return welcome{.wait = wait};
        }
        auto const right = [&] {
            if (!known && shown) attempts_.right(who.place);
        };
        if (h.purpose == static_cast<std::uint16_t>(protocol::purpose::ticket)) {
            auto t = shared_->tickets.take(h.secret);
            if (!t) return make_error_code(errc::access_denied);
            right();
            auto a = admission::to(t->of, shared_->in_flight);
            if (!a) return a.error();
            return welcome{.ticket =
                               std::make_unique<session_logic>(*shared_, std::move(*a), request, std::move(*t))};
        }
        auto const token = options.tokens.index_of(g.token);
        if (!token && !who.certified && (!options.tokens.empty() || !who.local))
            return make_error_code(errc::access_denied);
        if (token || options.tokens.empty()) right();
        std::string const name  = token ? options.tokens.name(*token) : std::string();
        std::string const whose = !token          ? who.tenant
                                  : !name.empty() ? "token \"" + name + '"'
                                                  : "token " + std::to_string(*token + 1);
        if (known) {  // the secret alone is not enough: the tenant must be the same
            if (known->logic.whose()->name != whose) return make_error_code(errc::access_denied);
            return welcome{.session = known, .resumed = true};
        }

        std::scoped_lock const guard(lock_);
        if (draining_) return make_error_code(errc::store_closed);
        auto a = admission::to(tenant_of(whose), shared_->in_flight);
        if (!a) return a.error();
        std::uint64_t const number = ++made_;
        auto s   = std::make_shared<session>(shared_, std::move(*a), executor, options.lease, number, request,
                                             printable(g.name));
        s->peer  = who.text;
        s->token = name;
        s->ended = [self = weak_from_this(), number] {
            if (auto const here = self.lock()) here->forget(number);
        };
        s->watch();  // its lease runs whatever happens to the connection
        sessions_.emplace(number, s);
        return welcome{.session = std::move(s)};
    }

    /// A connection's entrance. It counts as a connection while `present` lives, and as a visitor until hello.
    struct entrance {
        visitors::visit             visit;
        std::shared_ptr<void const> present;
    };
    /// Lets a connection in; without a visit if too many connections or visitors are there. Users of this machine,
    /// whom the kernel names, do not wait behind strangers.
    entrance enter(peer const& who) {
        if (limits.connections != 0 && connections() >= limits.connections) return {};
        return {(who.local ? users_ : strangers_)->enter(who.place), present_};
    }

    /// Returns the tenants that have something here, or had it a moment ago.
    std::vector<std::shared_ptr<tenant>> tenants() const {
        std::scoped_lock const               guard(lock_);
        std::vector<std::shared_ptr<tenant>> out;
        for (auto const& [name, known] : tenants_)
            if (auto t = known.lock()) out.push_back(std::move(t));
        return out;
    }

    protocol::hello_reply answer_to_hello(session const* s, bool resumed, std::uint16_t version) const noexcept {
        protocol::hello_reply r;
        r.version      = version;
        r.resumed      = resumed;
        r.lease        = static_cast<std::uint32_t>(options.lease.count());
        r.instance     = instance;
        r.most_body    = protocol::most_body;
        r.most_payload = shared_->most_payload();
        r.in_flight    = shared_->in_flight;
        if (!s) return r;
        r.session   = s->number;
        r.secret    = s->secret;
        r.in_flight = s->logic.window();
        r.capacity  = shared_->capacity(*s->logic.whose());
        return r;
    }

    /// Gives the session the operations that not every client has: `status` for the server's owner, who may have
    /// been somebody else before it was resumed; `send` if there are peers.
    void equip(std::shared_ptr<session> const& s, peer const& who) {
        s->logic.status = who.owner ? status : nullptr;
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

    /// Lets in no new sessions. Calls `empty` when none is left.
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

    /// Returns the number of connections, those that still shake hands included.
    std::size_t connections() const noexcept { return static_cast<std::size_t>(present_.use_count() - 1); }

    void log(server_event const& e) { log_.tell(e); }
    void log_refusal(peer const& who, std::error_code why) {
        log_.tell({server_event::kind::refused, who.text, {}, {}, 0, 0, 0, why, 0});
    }

    std::function<result<std::string>()> status;  ///< returns the server's status as JSON

private:
    /// Returns the session that the hello names together with its secret, or null.
    std::shared_ptr<session> resumable(protocol::hello_request const& h) const {
        if (h.session == 0 || h.instance != instance || h.purpose != 0) return nullptr;
        std::scoped_lock const guard(lock_);
        auto const             at = sessions_.find(h.session);
        bool const same = at != sessions_.end() && same_secret(std::as_bytes(std::span(at->second->secret)),
                                                               std::as_bytes(std::span(h.secret)));
        return same ? at->second : nullptr;
    }

    /// Returns the tenant of that name, which it makes if needed. The caller holds the lock.
    std::shared_ptr<tenant> tenant_of(std::string const& whose) {
        if (auto const at = tenants_.find(whose); at != tenants_.end())
            if (auto t = at->second.lock()) return t;
        std::erase_if(tenants_, [](auto const& t) { return t.second.expired(); });
        auto t = std::make_shared<tenant>(whose, shared_->each_tenant, shared_->all);
        tenants_.insert_or_assign(whose, t);
        return t;
    }

    std::error_code send(std::weak_ptr<session> const& whose, std::uint64_t request, stay at, block from,
                         protocol::send_request const& what, std::string_view where) {
        auto const to = std::find_if(options.peers.begin(), options.peers.end(),
                                     [&](endpoint const& e) { return e.to_text() == where; });
        if (to == options.peers.end()) return make_error_code(errc::access_denied);
        auto const asks = whose.lock();
        if (!asks) return make_error_code(errc::store_closed);
        auto memory = tenant_claim::take(asks->logic.whose(), resource::queued, sender::memory);
        if (!memory) return memory.error();
        std::make_shared<sender>(
            executor, shared_->store, options.peers_tls, *to, std::move(at), from, what,
            [whose, request, kept = std::make_shared<tenant_claim>(std::move(*memory))](std::error_code why) {
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

    /// Returns a stranger's name with '?' for all that cannot stand in a line of a log.
    static std::string printable(std::string_view name) {
        std::string out;
        for (char const c : name) out += c >= ' ' && c <= '~' && c != '"' && c != '\\' ? c : '?';
        return out;
    }

    attempts                                          attempts_;
    std::shared_ptr<visitors>                         strangers_, users_;  ///< over TCP; over Unix sockets
    std::shared_ptr<void const> const                 present_ = std::make_shared<char>();
    event_log                                         log_;
    std::shared_ptr<common>                           shared_;
    mutable std::mutex                                lock_;
    std::map<std::uint64_t, std::shared_ptr<session>> sessions_;
    std::set<std::shared_ptr<line>>                   lines_;
    std::map<std::string, std::weak_ptr<tenant>>      tenants_;
    std::uint64_t                                     made_     = 0;
    bool                                              draining_ = false, closed_ = false;
    std::function<void()>                             empty_;
};

}  // namespace tenure::detail
