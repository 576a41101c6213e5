// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include <tenure/budget/admission.hpp>
#include <tenure/budget/due_shares.hpp>
#include <tenure/budget/fair_shares.hpp>

namespace tenure::detail {

/// What a process does with its share. Nobody takes: who has more than it should gives some back, and then the
/// others grow, by what nobody has.
struct share_step {
    budget_amount fair{};      ///< its share
    budget_amount due{};       ///< what it should have: see due_shares
    budget_amount keeps{};     ///< what it has once it gave back what others lack
    budget_amount grows_to{};  ///< what it may have, if nobody grows at the same time
    budget_amount stays{};     ///< of what it has when a job ends and others lack some, until the next step
    bool          others_lack = false;  ///< something that it has, and that nobody else can give

    /// `slack`: bytes to have in hand while nobody lacks them.
    static share_step of(std::span<share_claim const> claims, std::size_t mine, budget_amount capacity,
                         std::size_t slack) {
        share_step out;
        auto const shares = fair_shares::of(claims, capacity);
        out.fair          = shares[mine];
        auto const due    = due_shares::of(claims, capacity, shares);
        out.due           = due[mine];
        bool asked        = false;  // by a job elsewhere that could end with what is due to it
        for (std::size_t i = 0; i < claims.size(); ++i)
            asked = asked || (i != mine && claims[i].started && fits(claims[i].next, due[i]) &&
                              !fits(claims[i].next, claims[i].has));
        if (!asked && fits(out.fair, out.due)) out.stays = out.fair;
        for (auto const amount : {&budget_amount::bytes, &budget_amount::cores}) {
            std::size_t const  all   = capacity.*amount;
            std::size_t        taken = 0, wanted = 0, lacked = 0;  // all of them, and what others want besides
            share_claim const& me = claims[mine];
            for (share_claim const& c : claims) {
                wanted = saturated_sum(wanted, c.desired.*amount);
                if (&c == &me) continue;
                taken  = saturated_sum(taken, c.has.*amount);
                lacked = saturated_sum(lacked, c.desired.*amount - std::min(c.desired.*amount, c.has.*amount));
            }
            std::size_t const has = me.has.*amount, room = all - std::min(all, taken);
            bool const        lack = lacked > room - std::min(room, has) || has > room;
            std::size_t const own = me.desired.*amount, beside = saturated_sum(own, lacked);
            std::size_t const in_hand = lack ? 0 : std::min(slack, room - std::min(room, beside));
            std::size_t const aim     = wanted > all ? out.due.*amount : saturated_sum(own, in_hand);
            out.keeps.*amount         = lack ? std::min(has, std::max(out.due.*amount, me.taken.*amount)) : has;
            out.grows_to.*amount      = std::max(out.keeps.*amount, std::min(aim, room));
            out.others_lack           = out.others_lack || lack;
            slack                     = 0;  // of cores
        }
        return out;
    }
};

}  // namespace tenure::detail
