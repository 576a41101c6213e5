// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tenure/fleet/refusal.hpp>
#include <tenure/fleet/view.hpp>

namespace tenure {

/// What a policy can propose.
enum class proposal : std::uint8_t { copy, drop, move };

/// What was said to one proposal.
struct decision {
    std::uint32_t policy = 0;  ///< in cycle_report::policies
    proposal      what{};
    fleet_buffer  buffer;
    refusal       why = refusal::none;
    store_id      store{};  ///< the one that was chosen, if it was accepted

    explicit operator bool() const noexcept { return why == refusal::none; }
};

/// What one policy did in a cycle.
struct policy_report {
    std::string                       name;
    std::array<std::size_t, 3>        accepted{};  ///< by `proposal`
    std::array<std::size_t, refusals> refused{};   ///< by `refusal`; the first is 0
    std::size_t                       bytes_to_copy = 0;
    std::size_t                       bytes_to_drop = 0;  ///< at once or, of moves, when they are done
    std::string                       error;  ///< what it threw, in this cycle or before: it is not asked any more

    std::size_t proposals() const noexcept {
        std::size_t n = 0;
        for (std::size_t const a : accepted) n += a;
        for (std::size_t const r : refused) n += r;
        return n;
    }
};

/// What a cycle came to.
struct cycle_report {
    std::uint64_t              cycle   = 0;
    std::size_t                changed = 0;  ///< how many buffers were looked at
    std::vector<policy_report> policies;
    std::vector<decision>      decisions;  ///< the first of them, as many as were asked for
    std::chrono::nanoseconds   time{};     ///< that deciding took

    // What was carried out; of a dry run nothing.
    std::size_t copied       = 0;  ///< copies that are there now
    std::size_t failed       = 0;  ///< copies that are not: a store died or is full, or they are needed no more
    std::size_t dropped      = 0;  ///< copies
    std::size_t bytes_copied = 0;
    std::chrono::nanoseconds copying{};  ///< that copying took or, of a dry run, would take as fast as before

    std::size_t bytes_to_copy() const noexcept {
        std::size_t n = 0;
        for (policy_report const& p : policies) n += p.bytes_to_copy;
        return n;
    }
};

}  // namespace tenure
