// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <utility>

#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/error.hpp>
#include <boost/system/error_code.hpp>

#include <tenure/remote/protocol.hpp>

namespace tenure::detail::remote {

/// Sends from server to server in two steps: one server grants a ticket, the other shows it. `grant(self)` begins
/// the first step, `send(self, ticket)` the second.
template <class Grant, class Send>
struct sending {
    Grant grant;
    Send  send;

    template <class Self>
    void operator()(Self& self) {
        self.reset_cancellation_state(boost::asio::enable_total_cancellation());
        grant(self);
    }
    template <class Self>
    void operator()(Self& self, boost::system::error_code why, protocol::key const& ticket) {
        bool const cancelled = self.cancelled() != boost::asio::cancellation_type::none;
        if (cancelled && !why) why = boost::asio::error::operation_aborted;
        if (why) return self.complete(why);
        auto next = send;  // `self` is moved, and this object with it
        next(self, ticket);
    }
    template <class Self>
    void operator()(Self& self, boost::system::error_code why) {
        self.complete(why);
    }
};
template <class Grant, class Send>
sending(Grant, Send) -> sending<Grant, Send>;

}  // namespace tenure::detail::remote
