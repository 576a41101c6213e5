// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <iterator>

#include <tenure/remote/client/call.hpp>

namespace tenure::detail::remote {

/// The unfinished calls in order of their deadlines; those of them that have something to ask, in turn; and the
/// finished ones, which the driving thread reports. Not thread-safe. O(1) if deadlines come in order.
class call_queue {
public:
    void enter(call& c) noexcept {
        auto at = active_.end();
        while (at != active_.begin() && std::prev(at)->deadline > c.deadline) --at;
        active_.insert(at, c);
    }
    void finish(call& c) noexcept {
        unlink<&call::active>(active_, c);
        unlink<&call::ready>(ready_, c);
        finished_.push_back(c);
    }

    /// Puts the call behind the others that have something to ask.
    void wants(call& c) noexcept {
        if (!c.ready.is_linked()) ready_.push_back(c);
    }
    /// Notes that the call has nothing to ask for now.
    void rests(call& c) noexcept { unlink<&call::ready>(ready_, c); }

    /// Returns the call whose turn it is to ask, or null.
    call* first() noexcept { return ready_.empty() ? nullptr : &ready_.front(); }

    /// Calls f(call&), which may finish the call, for each call that has something to ask.
    template <class F>
    void for_each_that_wants(F f) noexcept {
        for (auto at = ready_.begin(); at != ready_.end();) f(*at++);
    }

    /// Calls f(call&), which may finish the call, for each call that is out of time. Returns false if one is not
    /// finished.
    template <class F>
    bool late(clock::time_point now, F f) noexcept {
        for (auto at = active_.begin(); at != active_.end() && at->deadline <= now;) f(*at++);
        return active_.empty() || active_.front().deadline > now;
    }

    /// Takes out the next finished call; returns null if there is none.
    call* next_finished() noexcept {
        if (finished_.empty()) return nullptr;
        call& c = finished_.front();
        finished_.pop_front();
        return &c;
    }

    bool              empty() const noexcept { return active_.empty() && finished_.empty(); }
    clock::time_point deadline() const noexcept {
        return active_.empty() ? clock::time_point::max() : active_.front().deadline;
    }

private:
    call_list<&call::active> active_;
    call_list<&call::ready>  ready_, finished_;
};

}  // namespace tenure::detail::remote
