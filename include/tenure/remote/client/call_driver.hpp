// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <boost/asio/io_context.hpp>

#include <tenure/remote/client/call.hpp>

namespace tenure::detail::remote {

/// What asynchronous calls, whose handlers have types of the user's own, need of the driver, which need not be
/// compiled with them.
class call_driver {
public:
    /// Ends the call with operation_canceled as soon as possible, unless it is finished. Any thread; `c` must
    /// live.
    virtual void cancel(call& c) noexcept = 0;
    /// Makes cancel() of this call do nothing from now on.
    virtual void is_past(call& c) noexcept = 0;

    /// Returns the context that runs handlers on the store's own thread.
    virtual boost::asio::io_context& handlers() noexcept = 0;
    /// Makes that thread look at it.
    virtual void handlers_wait() noexcept = 0;

    call_driver()                              = default;
    call_driver(call_driver const&)            = delete;
    call_driver& operator=(call_driver const&) = delete;

protected:
    ~call_driver() = default;
};

}  // namespace tenure::detail::remote
