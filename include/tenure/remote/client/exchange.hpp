// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>
#include <utility>

#include <tenure/remote/client/answers.hpp>
#include <tenure/remote/client/inbox.hpp>
#include <tenure/remote/client/outbox.hpp>
#include <tenure/remote/client/pieces.hpp>

namespace tenure::detail::remote {

/// Turns calls into requests, and ends calls by their answers, whatever connection there is. Not thread-safe.
///
/// Nobody touches a call's memory after the call is finished. So a call that is to end early while one of its
/// payloads is under way is finished once the payload has gone, or the connection has.
class exchange {
public:
    /// The error of a goodbye without an answer. All else that ends then is closed, but nobody knows what the
    /// server did.
    inline static std::error_code const unheard = make_error_code(errc::disconnected);

    exchange(stash& spare, std::uint32_t in_flight) : spare_(spare), window_(in_flight) {}

    /// Accepts a call. Returns false if it is finished already.
    bool accept(call& c) noexcept {
        queue_.enter(c);
        if (c.error || pieces_.settles(c)) {
            queue_.finish(c);
            return false;
        }
        queue_.wants(c);
        return true;
    }

    /// Ends the call with that error as soon as its memory is not in use.
    void end_early(call& c, std::error_code why) noexcept {
        if (c.ends_early || !c.active.is_linked()) return;
        c.ends_early = true;
        c.failed(why);
        ask_no_more(c);
        if (c.under_way == 0) return queue_.finish(c);
        window_.for_each([&](request& r) {
            if (r.of == &c && &r != current_) release(r);
        });
    }

    /// Ends the calls whose deadlines have come. Returns false if the memory of one is still in use.
    bool end_late(clock::time_point now) noexcept {
        return queue_.late(now, [this](call& c) { end_early(c, make_error_code(errc::timed_out)); });
    }

    /// Fails the calls that wait for a request to be sent, with `why`.
    void fail_waiting(std::error_code why) noexcept {
        queue_.for_each_that_wants([&](call& c) {
            if (!pieces_.settles(c)) c.failed(c.what == protocol::operation::goodbye ? unheard : why);
            queue_.finish(c);
        });
    }

    void              finish(call& c) noexcept { queue_.finish(c); }
    call*             next_finished() noexcept { return queue_.next_finished(); }
    clock::time_point deadline() const noexcept { return queue_.deadline(); }
    bool              idle() const noexcept { return queue_.empty() && window_.empty(); }
    bool              expects() const noexcept { return !window_.empty(); }
    bool              expects_much() const noexcept { return asked_ >= large; }
    accounts const&   held() const noexcept { return held_; }
    reason&           limit() noexcept { return limit_; }
    reason const&     limit() const noexcept { return limit_; }

    // Sessions --------------------------------------------------------------------------------------------------

    /// Returns a number for a hello, or 0 if too many requests are not settled.
    std::uint64_t number() noexcept {
        if (!window_.holds_hello()) return 0;
        request& r = window_.fresh();
        window_.commit();
        window_.answered(r);
        return r.number();
    }
    std::uint64_t settled() const noexcept { return window_.settled(); }

    /// Sends the unanswered requests again, over a new connection.
    void resume(agreed most, std::uint32_t in_flight) noexcept {
        pieces_.most = most;
        window_.limit(in_flight);
        out_.restart();
    }

    /// Begins a session, after end() and a hello with that number. Nothing is held; unanswered calls go on as
    /// after resume().
    void begin(std::uint64_t hello, bool same_instance, agreed most, std::uint32_t in_flight) noexcept {
        ids_.begin(same_instance);
        held_.begin(hello);
        resume(most, in_flight);
        queue_.for_each_that_wants([&](call& c) {
            if (!pieces_.settles(c) && c.done == 0) return;
            if (c.names_blocks()) c.failed(make_error_code(errc::stale_handle));  // its blocks are gone
            queue_.finish(c);
        });
    }

    /// Notes that the connection is gone and that nobody touches any call's memory.
    void pause() noexcept {
        current_ = nullptr;
        out_.restart();
        window_.for_each([&](request& r) {
            r.early = false;
            if (r.of && r.of->ends_early) release(r);
        });
    }

    /// Ends the session: what it had is gone at the server, too. Calls under way fail with `why`, except those
    /// that free. `told`: a server said so, and calls that name blocks fail with stale_handle.
    void end(std::error_code why, bool told) noexcept {
        ids_.over();
        spare_.drop_all();
        window_.for_each([&](request& r) {
            using enum protocol::operation;
            call* const c     = r.of;
            bool const  freed = r.operation() == deallocate || r.operation() == end_batch;
            window_.answered(r);
            if (!c) return;
            --c->under_way;
            if (r.operation() == goodbye) c->failed(unheard);
            else if (told && c->names_blocks()) c->failed(make_error_code(errc::stale_handle));
            else if (!freed && r.operation() != usage) c->failed(why);
            ask_no_more(*c);
            if (c->under_way == 0) queue_.finish(*c);
        });
        asked_     = 0;
        ask_usage_ = renew_ = false;
        held_.begin(window_.next() - 1);
        out_.restart();
    }

    void trims(bool knows) noexcept { spare_.round(knows); }

    void renew() noexcept {
        renew_ = true;
        spare_.sweep(false);
    }

    std::span<boost::asio::const_buffer const> gather() noexcept {
        issue();
        return out_.gather();
    }
    void wrote(std::size_t n) noexcept {
        out_.wrote(n, [&](request& r) {
            if (r.early) complete(r);
            else if (r.of && r.of->ends_early) release(r);
        });
    }

    enum class understood { all, more, nonsense };

    /// Reads the next answer from the inbox, header first. Returns `more` if it is not all there.
    understood take(inbox& in) noexcept {
        using enum understood;
        if (!current_) {
            auto const bytes = in.bytes();
            if (bytes.size() < sizeof(protocol::frame_header)) return more;
            auto const h = protocol::header(bytes.first<sizeof(protocol::frame_header)>());
            if (!h || h->status == protocol::status_of(make_error_code(errc::protocol_error))) return nonsense;
            request* const r   = window_.find(h->request);
            bool const     out = r && (r->is == request::state::sent || out_.gathered(h->request));
            if (!out || !is_answer(*h, *r)) return nonsense;
            r->outcome      = protocol::error_of(h->status);
            auto const body = bytes.subspan(sizeof *h);
            if (r->operation() == protocol::operation::status && !r->outcome) {
                in.skip(sizeof *h);
                in.expect(room_for_text(*r, h->body), h->body);
            } else {
                if (body.size() < h->body) return more;
                in.skip(sizeof *h + h->body);
                if (h->status != 0 && h->body != 0) limit_.say(body.first(h->body));
                if (!r->outcome && !reader_of_answers{ids_, held_, spare_, window_}.take(*r, body.first(h->body)))
                    return nonsense;
                in.expect(r->memory, h->payload);
            }
            current_ = r;
        }
        if (!in.filled()) return more;
        request& r = *std::exchange(current_, nullptr);
        if (r.is == request::state::sent) complete(r);
        else r.early = true;
        return all;
    }

private:
    static constexpr std::size_t most_waiting = 2 << 20;   ///< bytes to send, beyond which calls wait their turn
    static constexpr std::size_t most_asked   = 16 << 20;  ///< bytes to come, beyond which large reads wait
    static constexpr std::size_t large        = 64 << 10;

    void ask_no_more(call& c) noexcept {
        c.ready.unlink();
        c.all_asked = true;
        if (std::exchange(c.ask_usage, false)) ask_usage_ = true;
    }

    /// Detaches a request from its call, which is to end early and whose memory must not be touched any more. Does
    /// nothing while that is in use.
    void release(request& r) noexcept {
        using enum protocol::operation;
        if (out_.in_use(r)) return;
        call&             c      = *std::exchange(r.of, nullptr);
        std::size_t const before = r.frame_bytes();
        if (r.begun) {
            if (r.operation() == deallocate) ask_usage_ = true;
            pieces::empty(r);
        } else {
            if (r.operation() == allocate) spare_.failed(kind_of(r));
            asked_ -= r.expected;
            pieces::nothing(r);
        }
        if (r.is == request::state::written) out_.changed(before, r.frame_bytes());
        if (--c.under_way == 0) queue_.finish(c);
    }

    void commit(request& r) noexcept {
        using enum protocol::operation;
        window_.commit();
        out_.written(r);
        asked_ += r.expected;
        if (r.of) ++r.of->under_way;
        if (r.operation() != end_batch) return;
        // Blocks that nobody has asked for yet end with the batch, too, and so do those on their way.
        std::uint64_t const batch = r.body_as<protocol::batch_request>().batch;
        spare_.drop(batch);
        window_.for_each([&](request& other) {
            if (other.operation() == allocate && kind_of(other).batch == batch) other.no_surplus = true;
        });
    }

    /// Makes requests of calls. Calls take turns, so a small one waits for one piece of a large one, not for all
    /// of it.
    void issue() noexcept {
        using enum protocol::operation;
        call* waits = nullptr;
        while (!window_.full() && out_.waiting() < most_waiting) {
            if (issue_own()) continue;
            call* const next = queue_.first();
            if (!next || next == waits) return;
            call& c = *next;
            c.ready.unlink();
            if (c.what == read && c.length - c.done >= large && asked_ >= most_asked) {
                queue_.wants(c);
                if (!waits) waits = &c;
                continue;
            }
            request& r = window_.fresh();
            if (c.what == hello || !pieces_.make(c, r)) {  // a hello only waits for a session
                if (c.under_way == 0) queue_.finish(c);
                continue;
            }
            commit(r);
            if (!c.all_asked) queue_.wants(c);
        }
    }

    /// Makes a request for which no call waits. Returns false if none is due.
    bool issue_own() noexcept {
        using enum protocol::operation;
        request&                           r = window_.fresh();
        std::array<protocol::block_run, 3> runs;
        // Trims go first, because any other request may name these blocks. The end of their batch makes trims
        // needless.
        call* const next = queue_.first();
        if (spare_.has_trims() && next && next->what == end_batch) spare_.forget_trims(next->batch);
        if (spare_.has_trims() && (next || renew_ || spare_.has_many_trims()) && pieces::tell_trims(r, spare_)) {
            commit(r);
            return true;
        }
        window_.fresh();
        if (std::size_t const n = spare_.leaving(runs)) {
            pieces::give_back(r, std::span(runs).first(n));
        } else if (std::exchange(ask_usage_, false)) {
            r.set(usage);
        } else if (std::exchange(renew_, false)) {
            r.set(protocol::operation::renew);
        } else {
            return false;
        }
        commit(r);
        return true;
    }

    /// Completes a request whose answer is in and whose frame is out.
    void complete(request& r) noexcept {
        using enum protocol::operation;
        call* const           c       = r.of;
        std::error_code const outcome = r.outcome;
        auto const            what    = r.operation();
        bool const            several = what == allocate && r.body_as<protocol::allocate_request>().count > 1;
        asked_ -= r.expected;
        if (what == trim) spare_.trimmed(-r.bytes);
        if (!outcome) held_.changed(r.number(), r.bytes, r.blocks);
        else if (several) spare_.failed(kind_of(r));
        else if (what == deallocate || what == end_batch || what == trim)
            (c && !c->ends_early ? c->ask_usage : ask_usage_) = true;
        window_.answered(r);
        if (!c) return;
        --c->under_way;
        if (outcome && what != usage && !c->ends_early) refused(*c, what, outcome, several);
        if (c->ask_usage || !c->all_asked) {
            queue_.wants(*c);
        } else if (c->under_way == 0) {
            if (c->beyond) c->failed(make_error_code(errc::out_of_range));
            queue_.finish(*c);
        }
    }

    void refused(call& c, protocol::operation what, std::error_code why, bool several) noexcept {
        using enum protocol::operation;
        if (why == errc::no_such_block && went_before(c)) {
            if (what == deallocate) return;  // the blocks are gone, as was asked
            why = make_error_code(errc::stale_handle);
        }
        bool const no_room = why == errc::store_full || why == errc::limit_exceeded || why == errc::memory_full;
        if (what == allocate && no_room && !c.again && (several || spare_.blocks() != 0)) {
            spare_.sweep(true);  // then there may be room for this block
            c.again     = true;
            c.count     = 1;
            c.room      = c.length;
            c.all_asked = false;
            return;
        }
        c.failed(why);
        c.all_asked = true;
        if (!c.ask_usage) c.ready.unlink();
    }

    bool went_before(call const& c) const noexcept {
        auto const gone = [&](block const& b) { return ids_.was_before(b.id) || ids_.lost(b.id); };
        return c.many.empty() ? gone(c.b) || gone(c.to) : std::ranges::all_of(c.many, gone);
    }

    stash&         spare_;
    epochs         ids_;
    accounts       held_;
    reason         limit_;
    request_window window_;
    outbox         out_{window_, ids_};
    pieces         pieces_{ids_};
    request*       current_   = nullptr;  ///< the request whose payload is coming in
    std::size_t    asked_     = 0;        ///< bytes of payload that are to come
    bool           ask_usage_ = false, renew_ = false;

    call_queue queue_;
};

}  // namespace tenure::detail::remote
