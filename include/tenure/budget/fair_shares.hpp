// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tenure/budget/admission.hpp>

namespace tenure::detail {

/// What a process asks of a machine that it shares with others.
struct share_claim {
    std::uint64_t user = 0;  ///< whose process it is
    budget_amount has{};
    budget_amount taken{};  ///< of that, what it cannot give back at once
    budget_amount next{};   ///< what it has to have for its next job to start
    budget_amount desired{};
    std::size_t   floor   = 0;      ///< bytes that it gets in any case, as far as its user's share goes
    double        weight  = 1;      ///< against the other claims of its user; above 0
    std::uint64_t since   = 0;      ///< when it began to want more than it has, or a job of it started since; or 0
    bool          started = false;  ///< `next` is for a job that has started, and cannot end without
};

/// Fair shares: max-min fair by user, and within what a user gets by claim. Who wants little gets it; what is left
/// is divided among those who want more. With memory and cores, what is made even is the dominant share: the
/// larger of the parts of all memory and of all cores that somebody gets (dominant resource fairness, Ghodsi et
/// al., NSDI 2011), each in the proportion that it asks for.
///
/// A pure function: processes that see the same claims come to the same shares, in whatever order they see them,
/// but for a byte of rounding.
class fair_shares {
public:
    /// Returns what each claim gets, in whole bytes and cores; their sum is at most the capacity. Cost: O(n log n).
    static std::vector<budget_amount> of(std::span<share_claim const> claims, budget_amount capacity) {
        std::vector<part>        parts;
        std::vector<std::size_t> users;  // each user's first claim in `order`
        std::vector<std::size_t> order(claims.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(claims[i].user, i); });
        amounts const all{static_cast<double>(capacity.bytes), static_cast<double>(capacity.cores)};
        for (std::size_t const i : order) {
            share_claim const& c = claims[i];
            part               p;
            p.wants  = {static_cast<double>(c.desired.bytes), static_cast<double>(c.desired.cores)};
            p.weight = c.weight;
            p.least  = p.wants[0] > 0 ? std::min(1., static_cast<double>(c.floor) / p.wants[0]) : 0;
            if (users.empty() || claims[order[users.back()]].user != c.user) users.push_back(parts.size());
            parts.push_back(p);
        }
        users.push_back(parts.size());

        std::vector<part> of_user(users.size() - 1);
        for (std::size_t u = 0; u < of_user.size(); ++u)
            for (std::size_t i = users[u]; i < users[u + 1]; ++i)
                for (std::size_t r = 0; r < 2; ++r) of_user[u].wants[r] += parts[i].wants[r];
        fill(of_user, all, all);
        for (std::size_t u = 0; u < of_user.size(); ++u)
            fill(std::span(parts).subspan(users[u], users[u + 1] - users[u]), of_user[u].gets(), all);

        // What a user's claims cannot use, because they want memory and cores in other proportions than their sum.
        std::vector<part> rest = parts;
        amounts           left = all;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            amounts const got = parts[i].gets();
            for (std::size_t r = 0; r < 2; ++r) {
                rest[i].wants[r] -= got[r];
                left[r] = std::max(0., left[r] - got[r]);
            }
            rest[i].least = 0;
        }
        fill(rest, left, all);

        std::vector<budget_amount> out(claims.size());
        for (std::size_t i = 0; i < parts.size(); ++i) {
            amounts const first = parts[i].gets(), more = rest[i].gets();
            for (std::size_t r = 0; r < 2; ++r) {
                auto const        amount = fields[r];
                double const      gets   = first[r] + more[r] + rounding;
                std::size_t const most   = std::min(claims[order[i]].desired.*amount, capacity.*amount);
                std::size_t const whole  = gets < static_cast<double>(most) ? static_cast<std::size_t>(gets) : most;
                out[order[i]].*amount    = whole;
                capacity.*amount -= whole;
            }
        }
        return out;
    }

private:
    using amounts = std::array<double, 2>;  ///< bytes and cores

    static constexpr std::array<std::size_t budget_amount::*, 2> fields{&budget_amount::bytes,
                                                                        &budget_amount::cores};

    static constexpr double rounding = 1e-3;  ///< more than the error of all these sums, and less than a byte

    struct part {
        amounts wants{};
        double  weight = 1;
        double  least  = 0;  ///< the fraction of what it wants that it gets in any case
        double  gets_  = 0;  ///< the fraction that it gets

        amounts gets() const noexcept { return {wants[0] * gets_, wants[1] * gets_}; }

        /// Returns the level at which it has all that it wants: its dominant share by its weight.
        double full(amounts const& machine) const noexcept {
            double most = 0;
            for (std::size_t r = 0; r < 2; ++r)
                if (wants[r] > 0) most = std::max(most, wants[r] / machine[r]);
            return most / weight;
        }
    };

    /// Fills all parts to one level, as water fills vessels, until something is used up or all have enough; then
    /// those who do without that, further. Sets `gets_`.
    static void fill(std::span<part> parts, amounts room, amounts const& machine) {
        scale_least(parts, room);
        struct vessel {
            part*  p;
            double begins, ends;  ///< levels
        };
        std::vector<vessel> open;
        for (part& p : parts) {
            p.gets_        = 0;
            bool const any = p.wants[0] > 0 || p.wants[1] > 0;
            bool const can = (p.wants[0] <= 0 || room[0] > 0) && (p.wants[1] <= 0 || room[1] > 0);
            if (!any || !can) continue;
            double const full = p.full(machine);
            open.push_back({&p, p.least * full, full});
        }
        while (!open.empty()) {
            auto [level, used_up] = level_of(open, room);
            std::vector<vessel> next;
            for (vessel const& v : open) {
                v.p->gets_       = std::clamp(level / v.ends, v.p->least, 1.);
                bool const stops = v.ends <= level || (used_up < 2 && v.p->wants[used_up] > 0);
                if (!stops) next.push_back(v);
                else
                    for (std::size_t r = 0; r < 2; ++r) room[r] = std::max(0., room[r] - v.p->gets()[r]);
            }
            if (next.size() == open.size()) return;
            open = std::move(next);
        }
    }

    /// Returns the level to which all can be filled, and what is used up then; 2 if all are full.
    template <class V>
    static std::pair<double, std::size_t> level_of(std::vector<V> const& open, amounts const& room) {
        struct turn {
            double  at;
            amounts slope;  ///< what is used more, from here on, for each unit of the level
        };
        std::vector<turn> turns;
        amounts           used{};
        for (V const& v : open) {
            for (std::size_t r = 0; r < 2; ++r) used[r] += v.p->wants[r] * v.p->least;
            amounts const slope{v.p->wants[0] / v.ends, v.p->wants[1] / v.ends};
            turns.push_back({v.begins, slope});
            turns.push_back({v.ends, {-slope[0], -slope[1]}});
        }
        std::ranges::sort(turns, {}, &turn::at);
        amounts slope{};
        double  level = 0;
        for (turn const& t : turns) {
            double      reach   = t.at;
            std::size_t used_up = 2;
            for (std::size_t r = 0; r < 2; ++r) {
                if (slope[r] <= 0) continue;
                double const until = level + std::max(0., room[r] - used[r]) / slope[r];
                if (until < reach) reach = until, used_up = r;
            }
            if (used_up < 2) return {reach, used_up};
            for (std::size_t r = 0; r < 2; ++r) used[r] += slope[r] * (reach - level), slope[r] += t.slope[r];
            level = reach;
        }
        return {level, 2};
    }

    /// Where there is less than all get in any case, all get less in proportion.
    static void scale_least(std::span<part> parts, amounts const& room) noexcept {
        double scale = 1;
        for (std::size_t r = 0; r < 2; ++r) {
            double sum = 0;
            for (part const& p : parts) sum += p.wants[r] * p.least;
            if (sum > room[r]) scale = std::min(scale, room[r] / sum);
        }
        for (part& p : parts) p.least *= scale;
    }
};

}  // namespace tenure::detail
