// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include <tenure/remote/server/attempts.hpp>
#include <tenure/remote/server/options.hpp>

namespace tenure::detail {

/// Tells a server's events to its log. Refusals and exceeded limits, which anybody can cause, are told a few times
/// a second at most; the next event that is told says how many were left out. Thread-safe.
class event_log {
public:
    using clock = token_bucket::clock;

    static constexpr token_bucket::rate refusals{20, 5};

    explicit event_log(std::function<void(server_event const&)> to) : to_(std::move(to)) {}

    void tell(server_event e, clock::time_point now = clock::now()) {
        if (!to_) return;
        std::scoped_lock const guard(lock_);
        bool const anybodys = e.what == server_event::kind::refused || e.what == server_event::kind::limited;
        if (anybodys && bucket_.take(refusals, now).count() != 0) {
            ++left_out_;
            return;
        }
        e.left_out = std::exchange(left_out_, 0);
        to_(e);
    }

private:
    std::function<void(server_event const&)> const to_;
    std::mutex                                     lock_;
    token_bucket                                   bucket_;
    std::uint64_t                                  left_out_ = 0;
};

}  // namespace tenure::detail
