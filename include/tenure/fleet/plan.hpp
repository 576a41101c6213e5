// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <tenure/fleet/report.hpp>
#include <tenure/fleet/view.hpp>
#include <tenure/raise.hpp>

namespace tenure {

/// What policies propose to in one cycle. Each proposal is judged at once, against what will be when all that was
/// accepted before is done. Without candidates every store is one; an empty list of them has none. Thread-safe;
/// each call is a short lock. Cost: O(copies x candidates) or, without candidates, O(copies + log(stores)), but
/// O(stores) if the emptiest ones have no room.
class plan {
public:
    plan(detail::fleet_core& core, cycle_report& report, std::size_t most_decisions)
        : core_(core), report_(report), most_decisions_(most_decisions) {}

    /// Proposes a further copy. It comes to the emptiest candidate that runs and has room, in percent of capacity.
    decision replicate(fleet_buffer const& b) { return copy_to(b, {}); }
    decision replicate(fleet_buffer const& b, std::span<store_id const> in) { return copy_to(b, in); }
    decision replicate(fleet_buffer const& b, std::initializer_list<store_id> in) {
        return copy_to(b, std::span(in));
    }

    /// Proposes to drop a copy: from a candidate that retires, else from a paused one, else from the fullest.
    decision drop(fleet_buffer const& b) { return drop_from(b, {}); }
    decision drop(fleet_buffer const& b, std::span<store_id const> in) { return drop_from(b, in); }
    decision drop(fleet_buffer const& b, std::initializer_list<store_id> in) { return drop_from(b, std::span(in)); }

    /// Proposes to copy what `from` has to a candidate, as replicate(), and to drop it when the copy is verified.
    decision move(fleet_buffer const& b, store_id from) { return move_to(b, from, {}); }
    decision move(fleet_buffer const& b, store_id from, std::span<store_id const> to) {
        return move_to(b, from, to);
    }
    decision move(fleet_buffer const& b, store_id from, std::initializer_list<store_id> to) {
        return move_to(b, from, std::span(to));
    }

    /// Says whose proposals come next: a number in cycle_report::policies.
    void next_policy(std::uint32_t number) noexcept { policy_ = number; }
    /// Returns what was accepted.
    detail::judge::orders& accepted() noexcept { return accepted_; }

private:
    using candidates = std::optional<std::span<store_id const>>;

    decision copy_to(fleet_buffer const& b, candidates in) {
        return judged(proposal::copy, b, in,
                      [&](auto among) { return core_.proposals.copy(b.number_, accepted_, among); });
    }
    decision drop_from(fleet_buffer const& b, candidates in) {
        return judged(proposal::drop, b, in,
                      [&](auto among) { return core_.proposals.drop(b.number_, accepted_, among); });
    }
    decision move_to(fleet_buffer const& b, store_id from, candidates to) {
        return judged(proposal::move, b, to, [&](auto among) {
            return core_.proposals.move(b.number_, static_cast<std::uint16_t>(from), accepted_, among);
        });
    }

    template <class F>
    decision judged(proposal what, fleet_buffer const& b, candidates in, F&& ask) {
        std::vector<std::uint16_t> numbers;
        std::scoped_lock const     guard(core_.planning);
        if (in)
            for (store_id const s : *in)
                if (s < store_id{core_.state.stores().size()}) numbers.push_back(static_cast<std::uint16_t>(s));
        detail::judge::stores among;
        if (in) among = numbers;
        detail::verdict const v = b.is_live() ? ask(among) : detail::verdict{refusal::gone};
        decision const        d{policy_, what, b, v.why, store_id{v.store}};
        policy_report&        of = report_.policies[policy_];
        if (v) {
            std::size_t const bytes = core_.state.table().buffer(b.number_).bytes();
            ++of.accepted[static_cast<std::size_t>(what)];
            if (what != proposal::drop) of.bytes_to_copy += bytes;
            if (what != proposal::copy) of.bytes_to_drop += bytes;
        } else {
            ++of.refused[static_cast<std::size_t>(v.why)];
        }
        if (report_.decisions.size() < most_decisions_)
            detail::memory_lasts([&] { report_.decisions.push_back(d); });  // else it tells of fewer
        return d;
    }

    detail::fleet_core& core_;
    cycle_report&       report_;
    std::size_t         most_decisions_;
    std::uint32_t       policy_ = 0;

    detail::judge::orders accepted_;
};

}  // namespace tenure
