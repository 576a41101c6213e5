// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server/common.hpp>
#include <tenure/remote/server/outbox.hpp>
#include <tenure/remote/server/reach.hpp>

namespace tenure::detail {

/// The work of a server for one client, request by request, without sockets: frames in, frames out. Each request
/// is done once, and its answer is kept until it is settled. Not thread-safe.
class session_logic {
public:
    enum class next {
        done,   ///< the answer is in the outbox, or follows by finish()
        later,  ///< nothing happened: call again once all is sent, or finish() was called
        over,   ///< the request makes no sense: the answer is in the outbox, and the session must end
        bye     ///< the client said goodbye: the answer is in the outbox, and the session must end
    };
    /// Begins to send a block to another server. Returns an error, or finish() is called later.
    using sender_type = std::function<std::error_code(std::uint64_t request, stay, block,
                                                      protocol::send_request const&, std::string_view endpoint)>;
    using teller_type = std::function<result<std::string>()>;  ///< returns the server's status as JSON

    session_logic(common& c, admission a, std::uint64_t number, std::uint64_t hello,
                  std::optional<ticket> only = {})
        : common_(c),
          admission_(std::move(a)),
          window_(admission_.window()),
          hello_(hello),
          next_(hello + 1),
          reach_(c, admission_.of, number, std::move(only)),
          said_(window_) {}
    session_logic(common& c, admission a, std::uint64_t hello, ticket t)
        : session_logic(c, std::move(a), 0, hello, std::optional(std::move(t))) {}
    ~session_logic() { end(); }

    holdings const& own() const noexcept { return reach_.own(); }

    std::shared_ptr<tenant> const& whose() const noexcept { return admission_.of; }
    std::uint32_t                  window() const noexcept { return window_; }

    std::uint16_t version = protocol::version;  ///< of the protocol that the client speaks

    /// Returns which limit, of the tenant or of the server, has refused a request since the last call, if any.
    std::error_code last_limit() noexcept { return std::exchange(limit_, {}); }

    sender_type send;    ///< null: access_denied
    teller_type status;  ///< null: this client may not ask

    /// Resumes the session by a hello of that number. Returns false if the number was used already.
    bool resume(std::uint64_t hello) noexcept {
        if (hello < next_) return false;
        hello_ = hello;
        return true;
    }

    void end() noexcept {
        if (std::exchange(over_, true)) return;
        reach_.clear();
        admission_.give_back();
    }
    bool over() const noexcept { return over_; }

    /// Does a request whose frame has wholly arrived and that is no hello.
    next apply(protocol::frame_header const& h, std::span<std::byte const> body, std::span<std::byte const> payload,
               outgoing& out) {
        answer* known = nullptr;
        if (!admit(h, known)) return violated(h, out);
        if (known && !known->again) {
            if (!known->pending) repeat(*known, out);
            return next::done;
        }
        answer a   = answer_to(h);
        auto   why = apply(static_cast<protocol::operation>(a.operation), body, payload, a, out);
        if (why == violation()) return violated(h, out);
        if (why == not_now()) return next::later;
        a.status = status_of(why);
        if (is_limit(why)) a.limit = limit_ = why;
        if (!known) record(a);
        if (!a.pending && !(a.again && a.status == 0)) repeat(a, out);
        return a.operation == static_cast<std::uint16_t>(protocol::operation::goodbye) ? next::bye : next::done;
    }

    /// A write whose payload is still to come.
    struct arriving {
        reach::landing target;
        answer         said;              ///< its request is 0 if no write is arriving
        bool           repeated = false;  ///< the answer is recorded already
    };

    /// Begins a write, and sets where its payload goes. If that is nowhere, the payload must be dropped.
    next begin_write(protocol::frame_header const& h, std::span<std::byte const> body, arriving& w, outgoing& out) {
        auto const r     = protocol::whole<protocol::range_request>(body);
        answer*    known = nullptr;
        if (!admit(h, known) || !r || r->length != h.payload) return violated(h, out);
        w.repeated = known;
        w.said     = known ? *known : answer_to(h);
        if (known) return next::done;
        auto at = reach_.locate(r->block);
        if (at && busy(*at, out)) {
            w = arriving();
            return next::later;
        }
        w.said.status = status_of(at ? reach_.land(*at, *r, w.target) : at.error());
        return next::done;
    }

    next end_write(arriving& w, outgoing& out) {
        if (!w.repeated) {
            if (auto const why = reach_.landed(w.target)) w.said.status = status_of(why);
            record(w.said);
        }
        repeat(w.said, out);
        w = arriving();
        return next::done;
    }

    /// Ends a request that another server did. Puts the answer into `out`, unless that is null.
    void finish(std::uint64_t request, std::error_code why, outgoing* out) {
        answer* const a = over_ ? nullptr : said_.find(request);
        if (!a || !a->pending) return;
        a->pending = false;
        a->status  = status_of(why);
        std::erase_if(sending_, [&](auto const& s) { return s.first == request; });
        if (out) repeat(*a, *out);
    }

private:
    // Errors for use in this class only. They are not of tenure's category, so an errc::protocol_error of a store
    // is not taken for a violation.
    static std::error_code violation() noexcept { return std::make_error_code(std::errc::protocol_error); }
    static std::error_code not_now() noexcept { return std::make_error_code(std::errc::operation_would_block); }

    /// Returns the status of an error. A protocol_error comes from another server behind the store, and this
    /// client did nothing wrong: it is told device_unavailable.
    static std::uint16_t status_of(std::error_code why) noexcept {
        return protocol::status_of(why == errc::protocol_error ? make_error_code(errc::device_unavailable)
                                                               : outward(why));
    }

    static answer answer_to(protocol::frame_header const& h) noexcept {
        answer a;
        a.request   = h.request;
        a.operation = h.operation;
        return a;
    }

    /// Returns whether the request may come now: numbers grow, and those of hellos are left out. `known`: its
    /// answer, if it has one.
    bool admit(protocol::frame_header const& h, answer*& known) noexcept {
        using enum protocol::operation;
        auto const op = static_cast<protocol::operation>(std::uint16_t{h.operation});
        if (over_ || h.status != 0 || h.payload > common_.most_payload()) return false;
        if (op <= hello || op > (version < 2 ? protocol::operation::status : trim) ||
            (h.payload != 0 && op != write))
            return false;
        if (reach_.by_ticket() && op != write && op != renew && op != goodbye) return false;
        if (h.request < next_ || h.request == hello_) {
            known = said_.find(h.request);
            return known && known->operation == h.operation;
        }
        said_.settle(h.settled);
        return !said_.full();
    }

    next violated(protocol::frame_header const& h, outgoing& out) {
        out.filling().reply(h.request, h.operation, protocol::status_of(make_error_code(errc::protocol_error)));
        return next::over;
    }

    void record(answer const& a) noexcept {
        said_.add(a);
        next_ = a.request + 1;
    }

    /// Sends an answer. Names the limit to clients that know of that (version 2).
    void repeat(answer const& a, outgoing& out) const {
        if (a.limit && version >= 2) {
            auto const text = admission_.of->explain(a.limit);
            return out.filling().reply(a.request, a.operation, a.status, std::as_bytes(std::span(text)));
        }
        out.filling().reply(a.request, a.operation, a.status, a.status ? std::span<std::byte const>() : a.bytes());
    }

    /// Returns whether bytes of the block are still to be sent as they were when they were read. The block must
    /// not be written meanwhile.
    bool busy(reach::located const& l, outgoing const& out) const noexcept {
        if (!l.held) return false;
        return out.refers_to(l.held) ||
               std::any_of(sending_.begin(), sending_.end(), [&](auto const& s) { return s.second == l.held; });
    }

    /// Does a request. If `a.again` is set and there is no error, the reply is in `out` already.
    std::error_code apply(protocol::operation op, std::span<std::byte const> body,
                          std::span<std::byte const> payload, answer& a, outgoing& out) {
        using enum protocol::operation;
        switch (op) {
        case renew:
        case goodbye: return body.empty() ? std::error_code() : violation();
        case allocate: return allocated(body, a);
        case deallocate: {
            auto const runs = protocol::list<protocol::block_run>(body);
            return runs ? reach_.own().deallocate(*runs) : violation();
        }
        case transfer: {
            auto const to   = protocol::take<protocol::batch_request>(body);
            auto const runs = protocol::list<protocol::block_run>(body);
            return to && runs ? reach_.own().transfer(*runs, to->batch) : violation();
        }
        case trim: {
            auto const runs = protocol::list<protocol::block_run>(body);
            return runs ? reach_.own().trim(*runs) : violation();
        }
        case end_batch: {
            auto const r = protocol::whole<protocol::batch_request>(body);
            if (!r) return violation();
            auto const why = reach_.own().end_batch(r->batch);
            if (!why) say_usage(a);
            return why;
        }
        case read: {
            auto const r = protocol::whole<protocol::range_request>(body);
            a.again      = true;
            return r ? reach_.read(a.request, *r, out.filling()) : violation();
        }
        case write: {
            auto const r = protocol::whole<protocol::range_request>(body);
            if (!r || r->length != payload.size()) return violation();
            auto const at = reach_.locate(r->block);
            if (!at) return at.error();
            return busy(*at, out) ? not_now() : reach_.write(*at, *r, payload);
        }
        case copy: {
            auto const r = protocol::whole<protocol::copy_request>(body);
            if (!r) return violation();
            auto const from = reach_.locate(r->from), to = reach_.locate(r->to);
            if (!from || !to) return from ? to.error() : from.error();
            return busy(*to, out) ? not_now() : reach_.copy(*from, *to, *r);
        }
        case usage:
            if (!body.empty()) return violation();
            say_usage(a);
            return {};
        case protocol::operation::status: {
            if (!body.empty()) return violation();
            a.again = true;
            if (!this->status) return make_error_code(errc::access_denied);
            auto const text = this->status();
            if (text) out.filling().reply(a.request, a.operation, 0, std::as_bytes(std::span(*text)));
            return text.error();
        }
        case protocol::operation::send: return begin_send(body, a);
        default: return named(op, body, a);
        }
    }

    std::error_code allocated(std::span<std::byte const> body, answer& a) {
        auto const r = protocol::whole<protocol::allocate_request>(body);
        if (!r || r->count == 0) return violation();
        auto const first = reach_.own().allocate(r->batch, r->bytes, r->alignment, r->count);
        if (first) a.say(protocol::bytes_of(protocol::block_run{*first, r->bytes, r->count}));
        return first.error();
    }

    void say_usage(answer& a) const noexcept {
        a.say(protocol::bytes_of(
            protocol::usage_reply{own().bytes(), own().blocks(), common_.capacity(*admission_.of)}));
    }

    /// Does the operations that make a block known to others, or no longer known.
    std::error_code named(protocol::operation op, std::span<std::byte const> body, answer& a) {
        if (op == protocol::operation::grant) {
            auto const r = protocol::whole<protocol::range_request>(body);
            if (!r) return violation();
            auto const key = reach_.grant(*r);
            if (key) a.say(std::as_bytes(std::span(*key)));
            return key.error();
        }
        protocol::block_name b;
        if (op == protocol::operation::share) {
            auto const given = protocol::take<protocol::block_name>(body);
            if (!given) return violation();
            b = *given;
        }
        if (body.empty() || body.size() > protocol::most_name) return violation();
        if (op == protocol::operation::share) return reach_.share(b, text(body));
        if (op == protocol::operation::unshare) return reach_.unshare(text(body));
        auto const found = reach_.open(text(body));
        if (found) a.say(protocol::bytes_of(*found));
        return found.error();
    }

    std::error_code begin_send(std::span<std::byte const> body, answer& a) {
        auto const r = protocol::take<protocol::send_request>(body);
        if (!r || body.empty()) return violation();
        if (!send) return make_error_code(errc::access_denied);
        auto at = reach_.locate(r->from.block);
        if (!at) return at.error();
        if (auto const why = reach::check(*at, r->from)) return why;
        auto s = reach_.stay_at(*at, r->from.block);
        if (!s) return s.error();
        held_block const* const held = s->get();
        if (auto const why = send(a.request, std::move(*s), at->where, *r, text(body))) return why;
        sending_.emplace_back(a.request, held);
        a.pending = true;
        return {};
    }

    static std::string_view text(std::span<std::byte const> b) noexcept {
        return {reinterpret_cast<char const*>(b.data()), b.size()};
    }

    common&                                                  common_;
    admission                                                admission_;
    std::uint32_t const                                      window_;
    std::uint64_t                                            hello_;  ///< number of the last hello
    std::uint64_t                                            next_;   ///< lowest number of a new request
    bool                                                     over_ = false;
    reach                                                    reach_;
    answers                                                  said_;
    std::vector<std::pair<std::uint64_t, held_block const*>> sending_;  ///< requests under way at other servers
    std::error_code                                          limit_;
};

}  // namespace tenure::detail
