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
#include <system_error>
#include <utility>

#include <boost/asio/io_context.hpp>

#include <tenure/remote/client/carrier.hpp>
#include <tenure/remote/client/exchange.hpp>
#include <tenure/remote/client/greeting.hpp>
#include <tenure/remote/client/options.hpp>
#include <tenure/remote/link.hpp>

namespace tenure::detail::remote {

/// A client's side of a session, beneath which connections come and go. Everything runs on the thread that drives
/// it, see driver. Not thread-safe; nothing waits.
///
///     down --- a call ---> linking ---> greeting ---> open
///      ^                    |   ^          |            |
///      |        it was over |   | retry    v            v  connection lost, or closed
///      +--------------------+- waiting <--------- winding up
class session {
public:
    session(boost::asio::io_context& on, endpoint const& to, client_options const& options, stash& spare)
        : context_(on),
          to_(to),
          options_(options),
          calls_(spare, std::max(options.in_flight, 1u)),
          greeting_(options) {}

    /// Sets the time that counts as now.
    void              at(clock::time_point t) noexcept { now_ = t; }
    clock::time_point now() const noexcept { return now_; }

    void accept(call& c) noexcept {
        bool const again = shut_;
        if (c.what == protocol::operation::goodbye) {
            shut_ = true;
            if (!again && stage_ == stage::open) return static_cast<void>(calls_.accept(c));
            // A server that has a session and is out of reach does not hear that it is over.
            if (!again && session_ != 0) c.error = exchange::unheard;
            return calls_.finish(c);
        }
        if (again) c.error = make_error_code(errc::store_closed);
        if (calls_.accept(c) && stage_ == stage::down) reach();
    }

    void  end_early(call& c, std::error_code why) noexcept { calls_.end_early(c, why); }
    call* next_finished() noexcept {
        call* const c = calls_.next_finished();
        if (c && c->what == protocol::operation::goodbye) end();
        return c;
    }

    /// Sends what can be sent. Must be called after any other function.
    void pump() noexcept {
        if (stage_ != stage::open) return;
        send();
        if (stage_ != stage::open) return;
        if (!std::exchange(expects_, calls_.expects()) && expects_) heard_ = now_;
        if (expects_ && !is_direct()) read();
    }

    /// Returns whether I/O goes without Asio. Then the driving thread waits for the socket instead of running
    /// Asio's context, and calls receive() when something has come.
    bool           is_direct() const noexcept { return stage_ == stage::open && wire_.is_direct(); }
    carrier const& connection() const noexcept { return wire_; }
    void           receive() noexcept {
        wire_.read_now(in_.where(calls_.expects_much()), [this](auto why, std::size_t n) { came(why, n); });
    }

    /// Returns whether something is expected of the server or the system.
    bool busy() const noexcept {
        return !calls_.idle() || stage_ == stage::linking || stage_ == stage::greeting ||
               stage_ == stage::winding_up;
    }

    /// Returns when tick() must be called at the latest.
    clock::time_point due() const noexcept {
        auto const at = calls_.deadline();
        switch (stage_) {
        case stage::linking:
        case stage::greeting: return std::min(at, reach_by_);
        case stage::waiting: return std::min({at, retry_at_, lease_end_});
        case stage::open: return std::min({at, sent_ + lease_ / 3, quiet_end()});
        default: return at;
        }
    }

    void tick() noexcept {
        auto const now = now_;
        if (!calls_.end_late(now)) lose(make_error_code(errc::timed_out));
        switch (stage_) {
        case stage::linking:
            if (now < reach_by_) break;
            stop_linking();
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
            if (now >= quiet_end()) lose(make_error_code(errc::timed_out));
            else if (now >= sent_ + lease_ / 3) calls_.renew();
            break;
        default: break;
        }
    }

    /// Handles that the system refused memory to what runs on the context.
    void out_of_memory() noexcept {
        auto const why = make_error_code(errc::memory_full);
        if (stage_ != stage::linking) return lose(why);
        stop_linking();
        not_reached(why);
    }

    /// Ends the session. No call waits any more, nor will one.
    void abandon() noexcept {
        shut_ = true;
        end();
    }

    accounts const& held() const noexcept { return calls_.held(); }
    reason const&   limit() const noexcept { return calls_.limit(); }
    std::uint64_t   capacity() const noexcept { return capacity_.load(std::memory_order_relaxed); }
    std::error_code last_trouble() const noexcept { return trouble_; }  ///< why there is no connection

private:
    enum class stage { down, linking, greeting, open, winding_up, waiting };

    /// Returns when the server has said nothing for too long.
    clock::time_point quiet_end() const noexcept {
        return expects_ ? heard_ + options_.timeout : clock::time_point::max();
    }

    // To a connection -------------------------------------------------------------------------------------------

    void reach() noexcept {
        stage_    = stage::linking;
        reach_by_ = now_ + options_.connect_timeout;
        try {
            link_ = link::start(context_.get_executor(), to_, options_.tls,
                                [this](std::error_code why, std::shared_ptr<transport> t) {
                                    link_.reset();
                                    if (why) return not_reached(why);
                                    wire_.begin(std::move(t));
                                    greet();
                                });
        } catch (std::bad_alloc const&) {
            not_reached(make_error_code(errc::memory_full));
        } catch (boost::system::system_error const& e) {
            not_reached(e.code());
        }
    }

    void stop_linking() noexcept {
        link_->cancel();
        link_.reset();
    }

    void not_reached(std::error_code why) noexcept {
        trouble_ = why;
        if (session_ != 0 && !shut_) return wait();
        over(why.category() == error_category() ? why : make_error_code(errc::device_unavailable));
    }

    void wait() noexcept {
        stage_    = stage::waiting;
        retry_at_ = now_ + patience_;
        patience_ =
            std::clamp<clock::duration>(patience_ * 2, std::chrono::milliseconds(5), std::chrono::seconds(1));
    }

    void greet() noexcept {
        if (hello_ == 0) hello_ = calls_.number();
        if (hello_ == 0) {  // too many connections were lost before one answer came
            end_session(make_error_code(errc::disconnected));
            hello_ = calls_.number();
        }
        stage_ = stage::greeting;
        greeting_.begin(hello_, std::min(calls_.settled(), hello_ - 1));
        in_.clear();
        say_hello();
        read();
    }

    void say_hello() noexcept {
        auto const left = greeting_.left();
        write(std::span(&left, 1));
    }

    // What comes over it ----------------------------------------------------------------------------------------

    void send() noexcept {
        while (stage_ == stage::open && !wire_.is_writing()) {
            auto const what = calls_.gather();
            if (what.empty()) return;
            if (!is_direct()) return write(what);
            if (!wire_.write_now(what, [this](auto why, std::size_t n) { wrote(why, n); })) return;
        }
    }

    void write(std::span<boost::asio::const_buffer const> what) noexcept {
        wire_.write(what, [this](auto why, std::size_t n) { wrote(why, n); });
    }

    void wrote(boost::system::error_code why, std::size_t n) noexcept {
        if (stage_ == stage::winding_up) return wound_up();
        if (why) return lose(why);
        sent_ = now_;
        if (greeting_.is_out()) return calls_.wrote(n);
        greeting_.wrote(n);  // even if the server has answered already
        if (!greeting_.is_out()) say_hello();
    }

    /// Begins a read, when something is to come and the question is out. A read that is too early costs only time
    /// in which there is nothing to do but wait.
    void read() noexcept {
        if (wire_.is_reading()) return;
        wire_.read(in_.where(calls_.expects_much()), [this](auto why, std::size_t n) { came(why, n); });
    }

    void came(boost::system::error_code why, std::size_t n) noexcept {
        if (stage_ == stage::winding_up) return wound_up();
        if (why) return lose(why);
        heard_ = now_;
        in_.came(n);
        auto said = stage_ == stage::greeting ? take_greeting() : exchange::understood::all;
        while (stage_ == stage::open && said == exchange::understood::all) said = calls_.take(in_);
        if (said == exchange::understood::nonsense) lose(make_error_code(errc::protocol_error), true);
        else if (stage_ == stage::greeting) read();
    }

    exchange::understood take_greeting() noexcept {
        using enum exchange::understood;
        auto const said = greeting_.take(in_, hello_);
        if (!said.whole) return said.sound ? more : nonsense;
        if (!said.reason.empty()) calls_.limit().say(said.reason);
        if (said.refused) lose(said.refused, true);
        else greeted(said.reply);
        return all;
    }

    void greeted(protocol::hello_reply const& reply) noexcept {
        agreed const most{std::min<std::uint32_t>(reply.most_body, protocol::most_body),
                          std::min<std::uint32_t>(reply.most_payload, std::max(options_.piece, 1u))};
        if (reply.resumed) {
            calls_.resume(most, reply.in_flight);
        } else {
            bool const same = greeting_.instance() == reply.instance;
            end_session(make_error_code(errc::disconnected), true);
            calls_.begin(hello_, same, most, reply.in_flight);
        }
        calls_.trims(reply.version >= 2);
        greeting_.keep(reply);
        session_ = reply.session;
        lease_   = std::chrono::milliseconds(reply.lease);
        hello_   = 0;
        heard_ = sent_ = now_;
        patience_      = {};
        stage_         = stage::open;
        wire_.settle();
        capacity_.store(reply.capacity, std::memory_order_relaxed);
    }

    // Its end ---------------------------------------------------------------------------------------------------

    /// Closes the connection; `for_good` ends the session with it.
    void lose(std::error_code why, bool for_good = false) noexcept {
        if (stage_ != stage::greeting && stage_ != stage::open) return;
        trouble_  = why;
        for_good_ = for_good;
        if (stage_ == stage::open) lease_end_ = now_ + lease_;
        stage_   = stage::winding_up;
        expects_ = false;
        wire_.close();
        wound_up();
    }

    /// Ends the connection once Asio has reported that nobody touches the calls' memory any more.
    void wound_up() noexcept {
        if (wire_.is_busy()) return;
        wire_.end();
        calls_.pause();
        if (for_good_ || shut_) return over(trouble_);
        if (session_ == 0) return not_reached(trouble_);
        wait();
    }

    void end_session(std::error_code why, bool told = false) noexcept {
        session_ = 0;
        greeting_.forget();
        calls_.end(why, told);
    }

    /// Ends the session without a next one: calls that wait for one fail with `why`.
    void over(std::error_code why) noexcept {
        if (shut_) why = make_error_code(errc::store_closed);
        end_session(why);
        calls_.fail_waiting(why);
        hello_ = 0;
        stage_ = stage::down;
    }

    /// Ends the session at the user's request.
    void end() noexcept {
        auto const why = make_error_code(errc::store_closed);
        if (stage_ == stage::linking) stop_linking();
        if (stage_ == stage::open || stage_ == stage::greeting) lose(why, true);
        else if (stage_ == stage::winding_up) for_good_ = true;
        else over(why);
    }

    boost::asio::io_context& context_;
    endpoint const&          to_;
    client_options const&    options_;

    stage                      stage_ = stage::down;
    bool                       shut_ = false, for_good_ = false, expects_ = false;
    exchange                   calls_;
    std::atomic<std::uint64_t> capacity_{0};

    std::shared_ptr<link> link_;
    carrier               wire_;
    inbox                 in_;
    std::error_code       trouble_;

    greeting          greeting_;
    std::uint64_t     session_ = 0, hello_ = 0;  ///< 0: none; hello_: the number set aside for the next hello
    clock::duration   lease_{}, patience_{};
    clock::time_point now_, reach_by_, retry_at_, lease_end_, sent_, heard_;
};

}  // namespace tenure::detail::remote
