// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <boost/unordered/unordered_flat_map.hpp>

#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server/answers.hpp>
#include <tenure/remote/server/holdings.hpp>
#include <tenure/remote/server/outbox.hpp>
#include <tenure/remote/server/sharing.hpp>

namespace tenure::detail {

/// What all sessions of a server have in common.
struct common {
    common(std::shared_ptr<served_store> s, std::uint64_t random) noexcept : store(std::move(s)), ids(random) {}

    std::shared_ptr<served_store> store;
    id_source                     ids;
    shared_names                  names;
    detail::tickets               tickets;
    std::chrono::milliseconds     ticket_life{30'000};
    std::uint32_t                 most_tickets = 1024;
    std::uint32_t                 in_flight    = 256;
    holding_limits                limits;
};

/// Where a long payload goes as it arrives.
struct landing {
    protocol::frame_header       header;
    answer                       said;
    bool                         repeated = false;  ///< the answer is recorded already
    std::span<std::byte>         where;             ///< empty: nowhere, it is dropped
    stay                         at;
    std::unique_ptr<std::byte[]> memory;  ///< if the store has no addresses; then
    block                        target;  ///< this is written afterwards
    std::size_t                  offset = 0;
};

/// What a server does for one client, request by request, without a socket: frames in, frames out. Requests are
/// done once; an answer is kept until it is settled. Not thread-safe.
class session_logic {
public:
    enum class next {
        done,   ///< the answer is in the outbox, or will come from somebody else
        later,  ///< nothing happened: call again once all is sent
        over,   ///< it said what makes no sense: the answer is in the outbox, and the session is to end
        bye     ///< as over, and in peace
    };
    /// Somebody else answers a request, later, through finish().
    using sender = std::function<std::error_code(std::uint64_t request, stay, block, protocol::send_request const&,
                                                 std::string_view endpoint)>;
    using teller = std::function<result<std::string>()>;  ///< status, as JSON

    session_logic(common& c, std::uint64_t number, std::uint64_t hello)
        : common_(c),
          number_(number),
          hello_(hello),
          next_(hello + 1),
          own_(c.store, c.ids, c.limits),
          said_(c.in_flight) {}

    /// Of a connection with a ticket.
    session_logic(common& c, std::uint64_t hello, ticket t) : session_logic(c, 0, hello) {
        opened_.emplace(t.what->id, t.what);
        only_ = std::move(t);
    }

    ~session_logic() { end(); }

    holdings const& own() const noexcept { return own_; }
    std::uint64_t   number() const noexcept { return number_; }

    sender send;    ///< null: it cannot
    teller status;  ///< null: this client may not

    /// The client is back, with that number.
    bool resume(std::uint64_t hello) noexcept {
        if (hello < next_) return false;
        hello_ = hello;
        return true;
    }

    /// Frees everything. Nothing is to be called afterwards.
    void end() noexcept {
        if (std::exchange(over_, true)) return;
        own_.clear(gone());
        opened_.clear();
        if (number_) common_.tickets.remove(number_);
    }
    bool over() const noexcept { return over_; }

    /// A whole frame, of a request that is no hello.
    next apply(protocol::frame_header const& h, std::span<std::byte const> body, std::span<std::byte const> payload,
               outgoing& out) {
        auto const op = static_cast<protocol::operation>(std::uint16_t{h.operation});
        if (over_) return next::over;
        if (!makes_sense(h) || (h.payload != 0 && op != protocol::operation::write)) return violated(h, out);
        answer* known = nullptr;
        if (!is_next(h.request) && !(known = said_.find(h.request))) return violated(h, out);
        if (known && known->operation != h.operation) return violated(h, out);
        if (known && !known->again) {
            if (!known->pending) repeat(*known, out);
            return next::done;
        }
        said_.settle(h.settled);
        if (!known && said_.full()) return violated(h, out);

        answer a;
        a.request   = h.request;
        a.operation = h.operation;
        switch (op) {
        case protocol::operation::read:
            a.again  = true;
            a.status = read(h, body, out);
            if (a.status == status_violated) return violated(h, out);
            if (!known) record(a);
            return next::done;
        case protocol::operation::status:
            a.again = true;
            tell(h, body, out);
            if (!known) record(a);
            return next::done;
        case protocol::operation::write: {
            auto const r = whole<protocol::range_request>(body);
            if (!r || r->length != payload.size()) return violated(h, out);
            auto const at = locate(r->block);
            if (at && at->held && out.refers_to(at->held)) return next::later;
            a.status = status_of(at ? why(write(*at, *r, payload)) : at.error());
            break;
        }
        case protocol::operation::copy: {
            auto const r = whole<protocol::copy_request>(body);
            if (!r) return violated(h, out);
            auto const from = locate(r->from);
            auto const to   = locate(r->to);
            if (to && to->held && out.refers_to(to->held)) return next::later;
            a.status = status_of(!from ? from.error() : !to ? to.error() : why(copy(*from, *to, *r)));
            break;
        }
        case protocol::operation::send: {
            auto const done = begin_send(h, body);
            if (done == violation()) return violated(h, out);
            a.status  = status_of(done);
            a.pending = !done;
            record(a);
            if (!a.pending) repeat(a, out);
            return next::done;
        }
        default:
            auto const done = small(op, body, a);
            if (done == violation()) return violated(h, out);
            a.status = status_of(done);
        }
        record(a);
        repeat(a, out);
        return op == protocol::operation::goodbye ? next::bye : next::done;
    }

    /// The begin of a write whose payload is still to come: where to. `later` and `over` as of apply().
    next begin_write(protocol::frame_header const& h, std::span<std::byte const> body, landing& l, outgoing& out) {
        auto const r = whole<protocol::range_request>(body);
        if (over_) return next::over;
        if (!makes_sense(h) || h.operation != static_cast<std::uint16_t>(protocol::operation::write) || !r ||
            r->length != h.payload)
            return violated(h, out);
        answer* known = nullptr;
        if (!is_next(h.request) && !(known = said_.find(h.request))) return violated(h, out);
        if (known && known->operation != h.operation) return violated(h, out);
        said_.settle(h.settled);
        if (!known && said_.full()) return violated(h, out);
        l        = landing();
        l.header = h;
        if (known) {
            l.said     = *known;
            l.repeated = true;
            return next::done;
        }
        l.said.request   = h.request;
        l.said.operation = h.operation;
        if (auto const why = land(*r, l, out)) {
            if (why == std::errc::resource_unavailable_try_again) return next::later;
            l.said.status = status_of(why);
        }
        return next::done;
    }

    /// All of it has arrived.
    next end_write(landing& l, outgoing& out) {
        if (over_) return next::over;
        if (!l.repeated) {
            if (l.memory)
                if (auto const done = common_.store->get().write(l.target, l.offset, l.where); !done)
                    l.said.status = status_of(done.error());
            record(l.said);
        }
        repeat(l.said, out);
        l = landing();
        return next::done;
    }

    /// Of a request that somebody else did. True: the answer is in the outbox, if there is one.
    void finish(std::uint64_t request, std::error_code why, outgoing* out) {
        answer* const a = over_ ? nullptr : said_.find(request);
        if (!a || !a->pending) return;
        a->pending = false;
        a->status  = status_of(why);
        if (out) repeat(*a, *out);
    }

private:
    static constexpr std::uint16_t status_violated = 1;

    /// What the client said is against the protocol; unlike what a store says of its own peer.
    static std::error_code violation() noexcept { return std::make_error_code(std::errc::protocol_error); }
    static std::uint16_t   status_of(std::error_code why) noexcept {
        return protocol::status_of(why == errc::protocol_error ? make_error_code(errc::device_unavailable) : why);
    }

    struct located {
        block       where;
        held_block* held = nullptr;  ///< if somebody else may be at it
        stay        at;              ///< of who does not own it
        bool        own = false;
    };

    template <class T>
    static result<T> whole(std::span<std::byte const> body) noexcept {
        return protocol::whole<T>(body);
    }

    bool makes_sense(protocol::frame_header const& h) const noexcept {
        using enum protocol::operation;
        auto const op = static_cast<protocol::operation>(std::uint16_t{h.operation});
        if (h.status != 0 || h.payload > most_payload() || op <= hello || op > protocol::operation::status)
            return false;
        return !only_ || op == protocol::operation::write || op == renew || op == goodbye;
    }

    /// New, and in order: what a hello of the client's took is left out.
    bool is_next(std::uint64_t request) const noexcept { return request >= next_ && request != hello_; }

    next violated(protocol::frame_header const& h, outgoing& out) {
        out.filling().reply(h.request, h.operation, status_violated);
        return next::over;
    }

    void record(answer const& a) noexcept {
        said_.add(a);
        next_ = a.request + 1;
    }

    static void repeat(answer const& a, outgoing& out) {
        out.filling().reply(a.request, a.operation, a.status, a.status ? std::span<std::byte const>() : a.bytes());
    }

    /// Who hears of a block that is freed and that others may know.
    struct leaver {
        shared_names& names;
        void          operator()(held_block& h) const noexcept { names.remove(h); }
    };
    leaver gone() noexcept { return {common_.names}; }

    result<located> locate(protocol::block_name const& name) noexcept {
        if (auto const mine = own_.find(name)) return located{*mine, own_.held(name.id), stay(), true};
        auto const at = opened_.find(name.id);
        if (at == opened_.end() || at->second->where.bytes != name.bytes)
            return make_error_code(errc::no_such_block);
        if (!at->second->enter()) {
            opened_.erase(at);
            return make_error_code(errc::no_such_block);
        }
        return located{at->second->where, at->second.get(), stay(at->second), false};
    }

    /// Somebody is at it for longer than this call.
    result<stay> stay_at(located& l, protocol::block_name const& name) noexcept {
        if (!l.own) return std::move(l.at);
        auto const h = own_.hold(name, l.where);
        if (!h || !h->enter()) return make_error_code(errc::memory_full);
        return stay(h);
    }

    /// Which range may be touched.
    std::error_code check(located const& l, std::uint64_t offset, std::uint64_t length) const noexcept {
        if (length > l.where.bytes || offset > l.where.bytes - length) return make_error_code(errc::out_of_range);
        return {};
    }

    std::error_code check_write(located const& l, std::uint64_t offset, std::uint64_t length) const noexcept {
        if (auto const why = check(l, offset, length)) return why;
        if (only_ && (offset < only_->offset || offset + length > only_->offset + only_->length))
            return make_error_code(errc::out_of_range);
        return {};
    }

    std::uint16_t read(protocol::frame_header const& h, std::span<std::byte const> body, outgoing& out) {
        auto const r = whole<protocol::range_request>(body);
        if (!r) return status_violated;
        auto const why = read(h, *r, out.filling());
        if (why) out.filling().reply(h.request, h.operation, status_of(why));
        return status_of(why);
    }

    std::error_code read(protocol::frame_header const& h, protocol::range_request const& r, outbox& out) {
        auto at = locate(r.block);
        if (!at) return at.error();
        if (auto const why = check(*at, r.offset, r.length)) return why;
        std::size_t const length = r.length, offset = r.offset;
        if (length > most_payload()) return make_error_code(errc::limit_exceeded);
        any_store&        store  = common_.store->get();
        std::size_t const before = out.size();
        if (length <= outbox::copied) {
            out.reply(h.request, h.operation, 0, {}, length);
            auto const done = store.read(at->where, offset, out.room(length));
            if (!done) out.shrink(before);
            return done ? std::error_code() : done.error();
        }
        if (!common_.store->addressable()) {
            auto       memory = std::make_unique_for_overwrite<std::byte[]>(length);
            auto const done   = store.read(at->where, offset, {memory.get(), length});
            if (!done) return done.error();
            out.reply(h.request, h.operation, 0, {}, length);
            out.outside(length, std::move(memory));
            return {};
        }
        auto const address = store.try_address(at->where);
        if (!address) return address.error();
        auto s = stay_at(*at, r.block);
        if (!s) return s.error();
        out.reply(h.request, h.operation, 0, {}, length);
        out.outside({*address + offset, length}, std::move(*s));
        return {};
    }

    result<void> write(located const& at, protocol::range_request const& r, std::span<std::byte const> payload) {
        if (auto const why = check_write(at, r.offset, r.length)) return why;
        return common_.store->get().write(at.where, r.offset, payload);
    }

    std::error_code land(protocol::range_request const& r, landing& l, outgoing& out) {
        auto at = locate(r.block);
        if (!at) return at.error();
        if (at->held && out.refers_to(at->held)) return make_error_code(std::errc::resource_unavailable_try_again);
        if (auto const why = check_write(*at, r.offset, r.length)) return why;
        auto s = stay_at(*at, r.block);
        if (!s) return s.error();
        if (common_.store->addressable()) {
            auto const address = common_.store->get().try_address(at->where);
            if (!address) return address.error();
            l.where = {*address + r.offset, r.length};
        } else {
            l.memory = std::make_unique_for_overwrite<std::byte[]>(r.length);
            l.where  = {l.memory.get(), r.length};
            l.target = at->where;
            l.offset = r.offset;
        }
        l.at = std::move(*s);
        return {};
    }

    result<void> copy(located const& from, located const& to, protocol::copy_request const& r) {
        return common_.store->copy(from.where, r.from_offset, to.where, r.to_offset, r.length);
    }

    void tell(protocol::frame_header const& h, std::span<std::byte const> body, outgoing& out) {
        auto const why = !body.empty() || !status ? make_error_code(errc::access_denied) : std::error_code();
        if (why) return out.filling().reply(h.request, h.operation, status_of(why));
        auto const text = status();
        if (!text) return out.filling().reply(h.request, h.operation, status_of(text.error()));
        out.filling().reply(h.request, h.operation, 0, std::as_bytes(std::span(*text)));
    }

    /// Those whose answer is small.
    std::error_code small(protocol::operation op, std::span<std::byte const> body, answer& a) {
        using enum protocol::operation;
        auto const violated = violation();
        switch (op) {
        case renew:
        case goodbye: return body.empty() ? std::error_code() : violated;
        case allocate: {
            auto const r = whole<protocol::allocate_request>(body);
            if (!r || r->count == 0) return violated;
            auto const first = own_.allocate(r->batch, r->bytes, r->alignment, r->count);
            if (!first) return first.error();
            protocol::block_run run;
            run.first = *first;
            run.bytes = r->bytes;
            run.count = r->count;
            a.say(protocol::bytes_of(run));
            return {};
        }
        case deallocate: {
            auto const runs = protocol::list<protocol::block_run>(body);
            return runs ? why(own_.deallocate(*runs, gone())) : violated;
        }
        case transfer: {
            auto const to   = protocol::take<protocol::batch_request>(body);
            auto const runs = protocol::list<protocol::block_run>(body);
            return to && runs ? why(own_.transfer(*runs, to->batch)) : violated;
        }
        case end_batch: {
            auto const r = whole<protocol::batch_request>(body);
            return r ? why(own_.end_batch(r->batch, gone())) : violated;
        }
        case usage: {
            if (!body.empty()) return violated;
            protocol::usage_reply u;
            u.bytes    = own_.bytes();
            u.blocks   = own_.blocks();
            u.capacity = capacity();
            a.say(protocol::bytes_of(u));
            return {};
        }
        case share: {
            auto const b = protocol::take<protocol::block_name>(body);
            if (!b || !is_name(body)) return violated;
            auto const mine = own_.find(*b);
            if (!mine) return mine.error();
            auto const h = own_.hold(*b, *mine);
            return h ? why(common_.names.add(text(body), h)) : make_error_code(errc::memory_full);
        }
        case open: {
            if (!is_name(body)) return violated;
            auto const h = common_.names.find(text(body));
            if (!h) return make_error_code(errc::no_such_name);
            protocol::block_name b;
            b.id    = h->id;
            b.bytes = h->where.bytes;
            if (!own_.find(b)) {
                if (!has_room()) return make_error_code(errc::limit_exceeded);
                opened_.insert_or_assign(h->id, h);
            }
            a.say(protocol::bytes_of(b));
            return {};
        }
        case unshare: {
            if (!is_name(body)) return violated;
            auto const h = common_.names.find(text(body));
            if (!h) return make_error_code(errc::no_such_name);
            if (own_.held(h->id) != h.get()) return make_error_code(errc::access_denied);
            common_.names.remove(text(body));
            return {};
        }
        case grant: {
            auto const r = whole<protocol::range_request>(body);
            if (!r) return violated;
            auto at = locate(r->block);
            if (!at) return at.error();
            if (auto const no = check(*at, r->offset, r->length)) return no;
            auto const h = at->own ? own_.hold(r->block, at->where) : opened_.at(r->block.id);
            if (!h) return make_error_code(errc::memory_full);
            auto const key =
                common_.tickets.add({h, r->offset, r->length, number_, ticket::clock::now() + common_.ticket_life},
                                    common_.most_tickets);
            if (!key) return key.error();
            a.say(std::as_bytes(std::span(*key)));
            return {};
        }
        default: return violated;
        }
    }

    std::error_code begin_send(protocol::frame_header const& h, std::span<std::byte const> body) {
        auto const r = protocol::take<protocol::send_request>(body);
        if (!r || body.empty()) return violation();
        if (!send) return make_error_code(errc::access_denied);
        auto at = locate(r->from.block);
        if (!at) return at.error();
        if (auto const why = check(*at, r->from.offset, r->from.length)) return why;
        auto s = stay_at(*at, r->from.block);
        if (!s) return s.error();
        return send(h.request, std::move(*s), at->where, *r, text(body));
    }

    static std::error_code  why(result<void> const& r) noexcept { return r ? std::error_code() : r.error(); }
    static std::string_view text(std::span<std::byte const> b) noexcept {
        return {reinterpret_cast<char const*>(b.data()), b.size()};
    }
    static bool is_name(std::span<std::byte const> b) noexcept {
        return !b.empty() && b.size() <= protocol::most_name;
    }

public:
    /// Of one frame: without addresses it is copied, so it is less.
    static std::uint32_t most_payload(served_store const& s) noexcept {
        return s.addressable() ? protocol::most_payload : 1 << 20;
    }
    std::uint32_t most_payload() const noexcept { return most_payload(*common_.store); }

    /// Bytes that this client may have; 0: not known.
    std::uint64_t capacity() const noexcept {
        std::uint64_t const all = common_.store->get().usage().capacity, mine = common_.limits.bytes;
        return !mine ? all : !all ? mine : std::min(all, mine);
    }

private:
    bool has_room() {
        std::uint64_t const most = std::max<std::uint64_t>(common_.limits.blocks, 1);
        if (common_.limits.blocks == 0 || opened_.size() < most) return true;
        erase_if(opened_, [](auto const& e) { return !e.second->alive(); });
        return opened_.size() < most;
    }

    common&                                                               common_;
    std::uint64_t const                                                   number_;
    std::uint64_t                                                         hello_;  ///< number of the last hello
    std::uint64_t                                                         next_;   ///< request
    bool                                                                  over_ = false;
    holdings                                                              own_;
    answers                                                               said_;
    std::optional<ticket>                                                 only_;
    boost::unordered_flat_map<std::uint64_t, std::shared_ptr<held_block>> opened_;
};

}  // namespace tenure::detail
