// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <tenure/budget.hpp>
#include <tenure/error.hpp>

namespace tenure::detail {

/// An operation that waits for room, and what it waits on.
struct async_wait final : budget_core::waiting {
    async_wait(std::shared_ptr<budget_core> of, reservation_request const& r, std::stop_token s)
        : core(std::move(of)),
          stop(std::move(s)),
          kind(r.kind),
          request(r),
          room(std::make_shared<lent_room>(core)),
          until(budget_core::deadline(r.timeout)) {
        request.kind    = kind;
        request.timeout = {};  // of makes that need more: on an executor, others may need the thread to go on
    }
    ~async_wait() {  // its executor goes, perhaps while it waits
        stopped.reset();
        core->give_up(*this);
    }
    async_wait(async_wait const&)            = delete;
    async_wait& operator=(async_wait const&) = delete;

    // NOLINTNEXTLINE(bugprone-exception-escape): where a lock cannot be had, the program ends
    void decided() noexcept override { timer->cancel(); }

    /// Has it look when it is asked to stop. No lock is held.
    void watch_stop() {
        if (stop.stop_possible()) stopped.emplace(stop, wake{this});
    }

    struct wake {
        async_wait* w;
        void        operator()() const noexcept { w->core->wake(*w); }
    };

    std::shared_ptr<budget_core>               core;
    std::stop_token                            stop;
    std::string                                kind;
    reservation_request                        request;
    std::shared_ptr<lent_room>                 room;
    budget_core::time                          until;
    std::unique_ptr<boost::asio::steady_timer> timer{};  ///< guarded by the budget's lock once it waits
    std::optional<errc>                        code{};
    std::exception_ptr                         thrown;
    std::optional<std::stop_callback<wake>>    stopped{};
};

struct reserve_operation {
    std::shared_ptr<async_wait> w;

    template <class Self>
    void operator()(Self& self, boost::system::error_code const& = {}) {
        auto const it    = w;  // `self` is moved from below
        bool const first = !it->timer;
        if (first) {
            self.reset_cancellation_state(boost::asio::enable_total_cancellation());
            it->timer =
                std::make_unique<boost::asio::steady_timer>(boost::asio::any_io_executor(self.get_executor()));
            it->thrown = thrown_by([&] { it->code = it->core->begin(*it->room, it->request, it.get()); });
            if (!it->thrown && !it->code) it->watch_stop();
        }
        if (!it->thrown && !it->code) {
            auto       lock = it->core->lock();
            auto const over = [&] {
                return self.cancelled() != boost::asio::cancellation_type::none || it->stop.stop_requested();
            };
            auto const code = it->core->next(*it, it->until, over, lock, [&](budget_core::time t) {
                it->timer->expires_at(t);
                it->timer->async_wait(std::move(self));
            });
            if (!code) return;  // once the lock is free, another thread may have come here
            it->code = code;
        }
        if (first) boost::asio::post(it->timer->get_executor(), std::move(self));
        else complete(self, *it);
    }

private:
    template <class Self>
    static void complete(Self& self, async_wait& it) {
        it.stopped.reset();
        if (!it.thrown && *it.code != errc{})
            it.thrown =
                std::make_exception_ptr(error(*it.code, it.core->asked(*it.room, it.request) + it.core->holders()));
        auto room = std::move(it.room);
        self.complete(it.thrown, it.thrown ? reservation() : reservation_access::make(std::move(room)));
    }
};

struct asio_reservations {
    template <class Token>
    static auto begin(std::shared_ptr<budget_core> const& core, reservation_request const& request,
                      std::stop_token stop, Token&& token) {
        return boost::asio::async_compose<Token, void(std::exception_ptr, reservation)>(
            reserve_operation{std::make_shared<async_wait>(core, request, std::move(stop))}, token);
    }
};

}  // namespace tenure::detail
