// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <boost/asio/io_context.hpp>

#include <tenure/remote/client/answers.hpp>
#include <tenure/remote/client/greeting.hpp>
#include <tenure/remote/client/inbox.hpp>
#include <tenure/remote/client/io_memory.hpp>
#include <tenure/remote/client/link.hpp>
#include <tenure/remote/client/options.hpp>
#include <tenure/remote/client/outbox.hpp>
#include <tenure/remote/client/pieces.hpp>

namespace tenure::detail::remote {

/// A client's side of a session: calls become requests, answers end calls, and connections come and go beneath.
/// Not thread-safe: all of it is who drives it, see driver.
///
///     down --- a call ---> linking ---> greeting ---> open
///      ^                    |   ^          |            |
///      |        it was over |   | retry    v            v  connection lost, or closed
///      +--------------------+- waiting <--------- winding up
///
/// Nobody touches a call's memory after the call is finished: so a call whose payload is under way when it is to
/// end early is finished once that has gone, or the connection has.
class session {
public:
    session(boost::asio::io_context& on, endpoint const& to, client_options const& options, stash& spare)
        : wire_(on),
          to_(to),
          options_(options),
          spare_(spare),
          window_(std::max(options.in_flight, 1u)),
          greeting_(options) {}
    session(session const&)            = delete;
    session& operator=(session const&) = delete;

    void accept(call& c) noexcept {
        auto at = active_.end();
        while (at != active_.begin() && std::prev(at)->deadline > c.deadline) --at;
        active_.insert(at, c);
        if (shut_) {
            if (c.what != protocol::operation::goodbye) c.failed(make_error_code(errc::store_closed));
            return finish(c);
        }
        if (c.what == protocol::operation::goodbye) {
            shut_ = true;
            if (stage_ != stage::open) return finish(c);
        } else if (pieces_.settles(c)) {
            return finish(c);
        }
        ready_.push_back(c);
        if (stage_ == stage::down) reach();
    }

    /// It ends with that error as soon as its memory is not in use.
    void end_early(call& c, std::error_code why) noexcept {
        if (c.ends_early || !c.active.is_linked()) return;
        c.ends_early = true;
        c.failed(why);
        ask_no_more(c);
        window_.for_each([&](request& r) {
            if (r.of == &c && &r != current_) release(r);
        });
        if (c.under_way == 0) finish(c);
    }

    /// Sends what can be sent. To be called after anything else.
    void pump() noexcept {
        if (std::exchange(farewell_, false)) end(make_error_code(errc::store_closed));
        if (stage_ != stage::open) return;
        if (writing_) return read();
        issue();
        write(out_.gather());
        read();
    }

    /// The next that is finished, or null.
    call* next_finished() noexcept {
        if (finished_.empty()) return nullptr;
        call& c = finished_.front();
        finished_.pop_front();
        return &c;
    }

    /// Whether something is expected of the server or the system.
    bool busy() const noexcept {
        return !active_.empty() || !finished_.empty() || !window_.empty() || stage_ == stage::linking ||
               stage_ == stage::greeting || stage_ == stage::winding_up;
    }

    /// When tick() is to be called at the latest.
    clock::time_point due() const noexcept {
        auto at = clock::time_point::max();
        if (!active_.empty()) at = active_.front().deadline;
        switch (stage_) {
        case stage::linking:
        case stage::greeting: return std::min(at, reach_by_);
        case stage::waiting: return std::min({at, retry_at_, lease_end_});
        case stage::open:
            if (!window_.empty()) at = std::min(at, heard_ + options_.timeout);
            return std::min(at, sent_ + lease_ / 3);
        default: return at;
        }
    }

    void tick(clock::time_point now) noexcept {
        while (!active_.empty() && active_.front().deadline <= now && !active_.front().ends_early)
            end_early(active_.front(), make_error_code(errc::timed_out));
        if (!active_.empty() && active_.front().ends_early && active_.front().deadline <= now)
            return lose(make_error_code(errc::timed_out));  // its memory is in use, and is to be no more
        switch (stage_) {
        case stage::linking:
            if (now < reach_by_) break;
            link_->cancel();
            link_.reset();
            not_reached(make_error_code(errc::timed_out));
            break;
        case stage::greeting:
            if (now >= reach_by_) lose(make_error_code(errc::timed_out));
            break;
        case stage::waiting:
            if (now >= lease_end_) over(make_error_code(errc::disconnected));
            else if (now >= retry_at_) reach();
            break;
        case stage::open:
            if (!window_.empty() && now >= heard_ + options_.timeout) return lose(make_error_code(errc::timed_out));
            if (now < sent_ + lease_ / 3) break;
            renew_ = true;
            spare_.sweep(false);
            break;
        default: break;
        }
    }

    /// The system refused memory to what runs on the context.
    void out_of_memory() noexcept {
        if (stage_ != stage::linking) return lose(make_error_code(errc::memory_full));
        if (link_) link_->cancel();
        link_.reset();
        not_reached(make_error_code(errc::memory_full));
    }

    /// Nobody waits any more.
    void abandon() noexcept {
        shut_ = true;
        end(make_error_code(errc::store_closed));
    }

    accounts const& held() const noexcept { return held_; }
    std::uint64_t   capacity() const noexcept { return capacity_.load(std::memory_order_relaxed); }
    std::error_code last_trouble() const noexcept { return trouble_; }  ///< for who could not connect

private:
    enum class stage { down, linking, greeting, open, winding_up, waiting };

    static constexpr std::size_t most_waiting = 2 << 20;   ///< bytes to send, beyond which calls wait in turn
    static constexpr std::size_t most_asked   = 16 << 20;  ///< bytes of large payloads to come
    static constexpr std::size_t large        = 64 << 10;

    // Calls -----------------------------------------------------------------------------------------------------

    void finish(call& c) noexcept {
        unlink<&call::active>(active_, c);
        unlink<&call::ready>(ready_, c);
        finished_.push_back(c);
        if (c.what == protocol::operation::goodbye) farewell_ = true;
    }

    void ask_no_more(call& c) noexcept {
        unlink<&call::ready>(ready_, c);
        c.all_asked = true;
        if (std::exchange(c.ask_usage, false)) ask_usage_ = true;
    }

    /// A request's call waits for it no more, and its memory is not to be touched, if that is possible now.
    void release(request& r) noexcept {
        using enum protocol::operation;
        if (out_.in_use(r)) return;
        --std::exchange(r.of, nullptr)->under_way;
        std::size_t const before = r.frame_bytes();
        if (r.begun) {
            if (r.operation() == deallocate || r.operation() == end_batch) ask_usage_ = true;
            pieces::empty(r);
        } else {
            if (r.operation() == allocate) spare_.failed(kind_of(r));
            asked_ -= r.expected;
            pieces::nothing(r);
        }
        if (r.is == request::state::written) out_.changed(before, r.frame_bytes());
    }

    // Requests --------------------------------------------------------------------------------------------------

    void commit(request& r) noexcept {
        if (window_.empty()) heard_ = clock::now();
        window_.commit();
        out_.written(r);
        asked_ += r.expected;
        if (r.of) ++r.of->under_way;
        using enum protocol::operation;
        if (r.operation() == usage) held_.asked(r.number());
        if (r.operation() == end_batch) forget(r.body_as<protocol::batch_request>().batch);
    }

    /// What nobody has asked for yet ends with the batch, too; and what is on its way.
    void forget(std::uint64_t batch) noexcept {
        spare_.drop(batch);
        window_.for_each([&](request& r) {
            if (r.operation() == protocol::operation::allocate && kind_of(r).batch == batch) r.no_surplus = true;
        });
    }

    static block_kind kind_of(request const& r) noexcept {
        auto const a = r.body_as<protocol::allocate_request>();
        return {a.batch, static_cast<std::size_t>(a.bytes), static_cast<std::size_t>(a.alignment)};
    }

    /// Calls take turns: so a small one waits for a piece of a large one, not for all of it.
    void issue() noexcept {
        call* waits = nullptr;
        while (!window_.full() && out_.waiting() < most_waiting) {
            if (issue_own()) continue;
            if (ready_.empty() || &ready_.front() == waits) return;
            call& c = ready_.front();
            ready_.pop_front();
            if (c.what == protocol::operation::read && c.length - c.done >= large && asked_ >= most_asked) {
                ready_.push_back(c);
                if (!waits) waits = &c;
                continue;
            }
            if (c.what == protocol::operation::hello) {
                finish(c);
                continue;
            }
            request& r = window_.fresh();
            if (!pieces_.make(c, r)) {
                if (c.under_way == 0) finish(c);
                continue;
            }
            commit(r);
            if (r.operation() == protocol::operation::end_batch) c.ask_usage = true;
            if (!c.all_asked || c.ask_usage) ready_.push_back(c);
        }
    }

    /// What nobody waits for.
    bool issue_own() noexcept {
        using enum protocol::operation;
        request&                           r = window_.fresh();
        std::array<protocol::block_run, 3> runs;
        if (std::size_t const n = spare_.leaving(runs)) {
            r.header.operation = static_cast<std::uint16_t>(deallocate);
            for (std::size_t i = 0; i < n; ++i) {
                r.put(runs[i]);
                r.bytes -= static_cast<std::int64_t>(runs[i].bytes * runs[i].count);
                r.blocks -= static_cast<std::int64_t>(runs[i].count);
            }
        } else if (std::exchange(ask_usage_, false)) {
            r.header.operation = static_cast<std::uint16_t>(usage);
        } else if (std::exchange(renew_, false)) {
            r.header.operation = static_cast<std::uint16_t>(renew);
        } else {
            return false;
        }
        commit(r);
        return true;
    }

    // Answers ---------------------------------------------------------------------------------------------------

    /// False: the server makes no sense.
    bool understand() noexcept {
        while (stage_ == stage::open || stage_ == stage::greeting) {
            if (current_) {
                if (!in_.filled()) return true;
                request& r = *std::exchange(current_, nullptr);
                if (r.is == request::state::sent) complete(r);
                else r.early = true;
                continue;
            }
            auto const bytes = in_.bytes();
            if (bytes.size() < sizeof(protocol::frame_header)) return true;
            auto const h = protocol::header(bytes.first<sizeof(protocol::frame_header)>());
            if (!h || h->status == protocol::status_of(make_error_code(errc::protocol_error))) return false;
            auto body = bytes.subspan(sizeof *h);
            if (stage_ == stage::greeting) {
                if (h->body > sizeof(protocol::hello_reply)) return false;
                if (body.size() < h->body) return true;
                in_.skip(sizeof *h + h->body);
                if (!greeted(*h, body.first(h->body))) return false;
                continue;
            }
            request* const r = window_.find(h->request);
            if (!r || !is_answer(*h, *r) || (r->is == request::state::written && !out_.gathered(h->request)))
                return false;
            r->outcome = protocol::error_of(h->status);
            if (r->operation() == protocol::operation::status && !r->outcome) {
                in_.skip(sizeof *h);
                in_.expect(room_for_text(*r, h->body), h->body);
            } else {
                if (body.size() < h->body) return true;
                in_.skip(sizeof *h + h->body);
                if (!r->outcome && !reader_of_answers{ids_, held_, spare_}.take(*r, body.first(h->body)))
                    return false;
                in_.expect(r->memory, h->payload);
            }
            current_ = r;
        }
        return true;
    }

    static std::byte* room_for_text(request& r, std::size_t n) noexcept try {
        if (!r.of) return nullptr;
        r.of->text.resize(n);
        return reinterpret_cast<std::byte*>(r.of->text.data());
    } catch (std::bad_alloc const&) {
        r.outcome = make_error_code(errc::memory_full);
        return nullptr;
    }

    /// The answer is in and the request is out.
    void complete(request& r) noexcept {
        using enum protocol::operation;
        call* const           c       = r.of;
        std::error_code const outcome = r.outcome;
        auto const            what    = r.operation();
        asked_ -= r.expected;
        if (!outcome) held_.changed(r.number(), r.bytes, r.blocks);
        bool const more_than_one = what == allocate && r.body_as<protocol::allocate_request>().count > 1;
        if (outcome && more_than_one) spare_.failed(kind_of(r));
        if (outcome && what == deallocate) {
            if (c && !c->ends_early) c->ask_usage = true;
            else ask_usage_ = true;
        }
        window_.answered(r);
        if (!c) return;
        --c->under_way;
        if (outcome && what != usage && !c->ends_early) refused(*c, what, outcome, more_than_one);
        if (c->ask_usage || !c->all_asked) {
            if (!c->ready.is_linked()) ready_.push_back(*c);
        } else if (c->under_way == 0) {
            if (c->beyond && !c->error) c->error = make_error_code(errc::out_of_range);
            finish(*c);
        }
    }

    void refused(call& c, protocol::operation what, std::error_code why, bool more_than_one) noexcept {
        using enum protocol::operation;
        if (why == errc::no_such_block && went_before(c)) {
            if (what == deallocate) return;  // gone, as it is to be
            why = make_error_code(errc::stale_handle);
        }
        bool const no_room = why == errc::store_full || why == errc::limit_exceeded || why == errc::memory_full;
        if (what == allocate && no_room && !c.again && (more_than_one || spare_.blocks() != 0)) {
            spare_.sweep(true);
            c.again     = true;
            c.count     = 1;
            c.all_asked = false;
            return;
        }
        c.failed(why);
        c.all_asked = true;
        if (!c.ask_usage) unlink<&call::ready>(ready_, c);
    }

    /// The blocks were those of a session that is over.
    bool went_before(call const& c) const noexcept {
        if (!c.many.empty())
            return std::ranges::all_of(c.many,
                                       [&](block const& b) { return ids_.was_before(b.id) || ids_.lost(b.id); });
        return ids_.was_before(c.b.id) || ids_.was_before(c.to.id);
    }

    // The connection --------------------------------------------------------------------------------------------

    void reach() noexcept {
        stage_    = stage::linking;
        reach_by_ = clock::now() + options_.connect_timeout;
        try {
            link_ = link::start(wire_, to_, options_.tls,
                                [this](boost::system::error_code why, std::shared_ptr<transport> t) {
                                    link_.reset();
                                    if (why) return not_reached(why);
                                    transport_ = std::move(t);
                                    greet();
                                });
        } catch (std::bad_alloc const&) {
            not_reached(make_error_code(errc::memory_full));
        } catch (boost::system::system_error const& e) {
            not_reached(e.code());
        }
    }

    void not_reached(std::error_code why) noexcept {
        trouble_ = why;
        if (session_ != 0 && !shut_) return wait();
        over(why.category() == error_category() ? why : make_error_code(errc::device_unavailable));
    }

    /// For the next attempt.
    void wait() noexcept {
        stage_    = stage::waiting;
        retry_at_ = clock::now() + patience_;
        patience_ = std::min<clock::duration>(
            std::max<clock::duration>(patience_ * 2, std::chrono::milliseconds(5)), std::chrono::seconds(1));
    }

    void greet() noexcept {
        if (hello_ == 0) {
            if (!window_.holds_hello()) end_session(make_error_code(errc::disconnected));
            request& r = window_.fresh();
            hello_     = r.number();
            window_.commit();
            window_.answered(r);
        }
        stage_ = stage::greeting;
        greeting_.begin(hello_, std::min(window_.settled(), hello_ - 1));
        in_.clear();
        write(greeting_.left());
        read();
    }

    /// False: it makes no sense.
    bool greeted(protocol::frame_header const& h, std::span<std::byte const> body) noexcept {
        if (!greeting_.is_answer(h, hello_)) return false;
        if (h.status != 0) {
            lose(protocol::error_of(h.status), true);
            return true;
        }
        auto const reply = protocol::whole<protocol::hello_reply>(body);
        if (!reply || !greeting_.is_sound(*reply)) return false;
        if (reply->resumed == 0) {
            bool const same = greeting_.instance() == reply->instance;
            end_session(make_error_code(errc::disconnected));
            ids_.begin(same);
            held_.begin(hello_);
        }
        greeting_.keep(*reply);
        session_ = reply->session;
        lease_   = std::chrono::milliseconds(reply->lease);
        window_.limit(reply->in_flight);
        pieces_.most = {std::min<std::uint32_t>(reply->most_body, protocol::most_body),
                        std::min<std::uint32_t>(reply->most_payload, options_.piece)};
        capacity_.store(reply->capacity, std::memory_order_relaxed);
        hello_    = 0;
        patience_ = {};
        heard_ = sent_ = clock::now();
        stage_         = stage::open;
        out_.restart();
        if (reply->resumed == 0) check_ready();
        return true;
    }

    /// Blocks may have gone.
    void check_ready() noexcept {
        for (auto at = ready_.begin(); at != ready_.end();) {
            call& c = *at++;
            if (c.done != 0 && c.under_way == 0 && !c.all_asked) c.failed(make_error_code(errc::disconnected));
            if (c.error || pieces_.settles(c)) finish(c);
        }
    }

    void write(std::span<boost::asio::const_buffer const> what) noexcept {
        if (what.empty() || writing_) return;
        writing_ = true;
        transport_->async_write_some(what, with_memory{&write_memory_, [this](boost::system::error_code why,
                                                                              std::size_t n) { wrote(why, n); }});
    }

    void wrote(boost::system::error_code why, std::size_t n) noexcept {
        writing_ = false;
        if (stage_ == stage::winding_up) return wound_up();
        if (why) return lose(why);
        sent_ = clock::now();
        if (!greeting_.is_out()) {  // even if the server has answered it
            greeting_.wrote(n);
            return write(greeting_.left());
        }
        out_.wrote(n, [&](request& r) {
            if (r.early) complete(r);
            else if (r.of && r.of->ends_early) {
                call& c = *r.of;
                release(r);
                if (c.under_way == 0) finish(c);
            }
        });
    }

    /// Only if something is to come: and after the question is out, so that a read that is too early costs time in
    /// which there is only waiting to do.
    void read() noexcept {
        if (reading_ || (window_.empty() && stage_ == stage::open)) return;
        reading_ = true;
        transport_->async_read_some(
            in_.where(asked_ >= large),
            with_memory{&read_memory_, [this](boost::system::error_code why, std::size_t n) { came(why, n); }});
    }

    void came(boost::system::error_code why, std::size_t n) noexcept {
        reading_ = false;
        if (stage_ == stage::winding_up) return wound_up();
        if (why) return lose(why);
        heard_ = clock::now();
        in_.came(n);
        if (!understand()) lose(make_error_code(errc::protocol_error), true);
        else if (stage_ == stage::greeting) read();
    }

    /// The connection is to go, and with it the session if `for_good`.
    void lose(std::error_code why, bool for_good = false) noexcept {
        if (stage_ != stage::greeting && stage_ != stage::open) return;
        trouble_  = why;
        for_good_ = for_good;
        was_open_ = stage_ == stage::open;
        stage_    = stage::winding_up;
        transport_->close();
        wound_up();
    }

    /// Nobody is at the calls' memory any more, once Asio has said so.
    void wound_up() noexcept {
        if (reading_ || writing_) return;
        transport_.reset();
        current_ = nullptr;
        out_.restart();
        window_.for_each([&](request& r) {
            r.early = false;
            if (!r.of || !r.of->ends_early) return;
            call& c = *r.of;
            release(r);
            if (c.under_way == 0) finish(c);
        });
        if (for_good_ || shut_) return over(trouble_);
        if (session_ == 0) return not_reached(trouble_);
        if (was_open_) lease_end_ = clock::now() + lease_;
        wait();
    }

    // The end of a session --------------------------------------------------------------------------------------

    /// What it had is gone at the server, too.
    void end_session(std::error_code why) noexcept {
        session_ = 0;
        greeting_.forget();
        ids_.over();
        spare_.drop_all();
        window_.for_each([&](request& r) {
            using enum protocol::operation;
            call* const c     = r.of;
            bool const  freed = r.operation() == deallocate || r.operation() == end_batch;
            window_.answered(r);
            if (!c) return;
            --c->under_way;
            if (!freed && r.operation() != usage) c->failed(why);
            ask_no_more(*c);
            if (c->under_way == 0) finish(*c);
        });
        asked_     = 0;
        ask_usage_ = renew_ = false;
        held_.begin(window_.next() - 1);
        out_.restart();
    }

    /// Nor is there another one: who waits for it hears why.
    void over(std::error_code why) noexcept {
        if (shut_) why = make_error_code(errc::store_closed);
        end_session(why);
        hello_ = 0;
        stage_ = stage::down;
        while (!ready_.empty()) {
            call& c = ready_.front();
            if (!pieces_.settles(c)) c.failed(why);
            finish(c);
        }
    }

    /// The user's wish.
    void end(std::error_code why) noexcept {
        if (stage_ == stage::linking) {
            link_->cancel();
            link_.reset();
        }
        if (stage_ == stage::open || stage_ == stage::greeting) lose(why, true);
        else if (stage_ != stage::winding_up) over(why);
    }

    boost::asio::io_context& wire_;
    endpoint const&          to_;
    client_options const&    options_;
    stash&                   spare_;

    stage stage_ = stage::down;
    bool  shut_ = false, for_good_ = false, was_open_ = false;
    bool  ask_usage_ = false, renew_ = false, farewell_ = false;

    call_list<&call::active> active_;
    call_list<&call::ready>  ready_, finished_;

    epochs                     ids_;
    accounts                   held_;
    std::atomic<std::uint64_t> capacity_{0};
    request_window             window_;
    outbox                     out_{window_, ids_};
    pieces                     pieces_{ids_};
    inbox                      in_;
    request*                   current_ = nullptr;  ///< its payload is coming in
    std::size_t                asked_   = 0;        ///< bytes of payload that are to come

    std::shared_ptr<link>      link_;
    std::shared_ptr<transport> transport_;
    bool                       reading_ = false, writing_ = false;
    io_memory                  read_memory_, write_memory_;
    std::error_code            trouble_;

    greeting          greeting_;
    std::uint64_t     session_ = 0, hello_ = 0;  ///< 0: none; hello_: the number that is set aside for it
    clock::duration   lease_{}, patience_{};
    clock::time_point reach_by_, retry_at_, lease_end_, sent_, heard_;
};

}  // namespace tenure::detail::remote
