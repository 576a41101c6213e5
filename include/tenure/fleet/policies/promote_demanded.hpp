// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include <tenure/fleet/plan.hpp>
#include <tenure/fleet/view.hpp>

namespace tenure {

/// Makes a copy where a buffer is read often, and drops it when it is not read there any more. Cost: what was
/// demanded, and the copies that it has made.
class promote_demanded {
public:
    struct options {
        std::size_t   reads = 8;   ///< at a store in one cycle, for a copy there
        std::uint64_t fade  = 20;  ///< cycles without a read there, after which the copy goes
    };

    promote_demanded() noexcept : promote_demanded(options{}) {}
    explicit promote_demanded(options o) noexcept : options_(o) {}

    void propose(fleet_view const& view, plan& proposals) {
        if (!view.dry()) return look(view, proposals);
        promote_demanded as_it_would_be = *this;
        as_it_would_be.look(view, proposals);
    }

private:
    using place = std::pair<fleet_buffer, store_id>;

    void look(fleet_view const& view, plan& proposals) {
        std::uint64_t const          now = view.cycle();
        std::map<place, std::size_t> reads;
        for (fleet_view::demand const& d : view.demanded()) ++reads[{d.buffer, d.at}];
        for (auto const& [at, n] : reads) {
            auto const made = last_read_.find(at);
            if (made != last_read_.end()) made->second = now;
            if (n < options_.reads || !proposals.replicate(at.first, {at.second}) || made != last_read_.end())
                continue;
            last_read_.emplace(at, now);
            looks_.emplace(now + options_.fade, at);
        }
        while (!looks_.empty() && looks_.begin()->first <= now) {
            auto const made = last_read_.find(looks_.begin()->second);
            looks_.erase(looks_.begin());
            if (std::uint64_t const until = made->second + options_.fade; until > now) {
                looks_.emplace(until, made->first);
            } else {
                refusal const why = proposals.drop(made->first.first, {made->first.second}).why;
                if (why == refusal::in_use || why == refusal::just_acquired) looks_.emplace(now + 1, made->first);
                else last_read_.erase(made);
            }
        }
    }

    options                                   options_;
    std::map<place, std::uint64_t>            last_read_;  // in which cycle, of copies that this policy made
    std::set<std::pair<std::uint64_t, place>> looks_;      // in which cycle to look at them again
};

}  // namespace tenure
