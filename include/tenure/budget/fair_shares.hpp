// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
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

    /// Returns what is due to each. Nobody gives back what is taken; what is left is divided so that jobs start and
    /// end, for shares that are each too small for the next job would keep all from starting for ever:
    ///  1. Jobs that have started and cannot end without more, if their user then has no more than the shares of
    ///  its
    ///     claims. They will give back what they have.
    ///  2. Those who can start their next job with their share: what that needs, and then the rest of their shares.
    ///  3. Other jobs that have started, if there is enough, also of what is kept for one that has not.
    ///  4. The rest: as much as the next job needs, to one after the other.
    /// In 2 and 4 it goes in turn by user, to whose user has least; else, and then, to who has waited longest. For
    /// the first for whom there is not enough, what there is is kept, until jobs that end make it enough. After it
    /// only those begin who need nothing that it lacks. What is due to all is not more than the capacity, as long
    /// as what they have is not. Cost: O(n) for each turn.
    static std::vector<budget_amount> in_turn(std::span<share_claim const> claims, budget_amount capacity,
                                              std::span<budget_amount const> shares) {
        line       all(claims, capacity, shares);
        auto const shared = [&](std::size_t i) { return fits(claims[i].next, shares[i]); };
        all.serve_started_in_share();
        all.serve(shared);
        all.fill([&](std::size_t i) { return shared(i) && all.can_go_on(i); });
        all.serve_started();
        all.fill(shared);
        all.serve([&](std::size_t i) { return !shared(i) && fits(claims[i].next, capacity); });
        return all.due();
    }

private:
    using amounts = std::array<double, 2>;  ///< bytes and cores

    static constexpr std::array<std::size_t budget_amount::*, 2> fields{&budget_amount::bytes,
                                                                        &budget_amount::cores};

    static constexpr double rounding = 1e-3;  ///< more than the error of all these sums, and less than a byte

    /// Those who wait, and what is left for them.
    class line {
    public:
        line(std::span<share_claim const> claims, budget_amount capacity, std::span<budget_amount const> shares)
            : claims_(claims), shares_(shares), capacity_(capacity), left_(capacity), due_(claims.size()) {
            std::vector<std::uint64_t> ids;
            for (share_claim const& c : claims) ids.push_back(c.user);
            std::ranges::sort(ids);
            ids.erase(std::ranges::unique(ids).begin(), ids.end());
            users_.resize(ids.size());
            for (share_claim const& c : claims)
                user_.push_back(static_cast<std::size_t>(std::ranges::lower_bound(ids, c.user) - ids.begin()));
            budget_amount had{};
            for (std::size_t i = 0; i < claims.size(); ++i) {
                add(user_of(i).share, shares[i]);
                add(had, larger(claims[i].has, claims[i].taken));
            }
            // Where they say that they have more than there is, that takes away nobody's share.
            bool const true_sum = fits(had, capacity);
            for (std::size_t i = 0; i < claims.size(); ++i) {
                budget_amount const taken = claims[i].taken;
                budget_amount const sure  = true_sum ? taken : smaller(taken, shares[i]);
                give(i, taken);
                take(left_, sure);
                add(doubtful_, {taken.bytes - sure.bytes, taken.cores - sure.cores});
                if (!fits(claims[i].next, due_[i])) waiting_.push_back(i);
            }
            auto const since = [&](std::size_t i) { return claims[i].since ? claims[i].since : ~std::uint64_t{0}; };
            std::ranges::sort(waiting_, {}, [&](std::size_t i) { return std::pair(since(i), i); });
        }

        /// Whether its next job can start, or the one that has started can end.
        bool can_go_on(std::size_t i) const noexcept { return fits(claims_[i].next, due_[i]); }

        /// Serves jobs that have started whose users have no more then than the shares of their claims.
        void serve_started_in_share() {
            for (std::size_t const i : waiting_) {
                budget_amount room = user_of(i).share;
                take(room, user_of(i).due);
                if (claims_[i].started && fits(lacks(i, claims_[i].next), room)) serve_one(i);
            }
        }

        /// Serves jobs that have started, as long as there is enough, also of what is kept for another.
        void serve_started() {
            take(left_, std::exchange(doubtful_, {}));
            for (std::size_t const i : waiting_) {
                budget_amount const missing = lacks(i, claims_[i].next);
                budget_amount       all     = left_;
                add(all, kept_);
                if (!claims_[i].started || !fits(missing, all)) continue;
                give(i, missing);
                take(all, missing);
                kept_ = smaller(kept_, all);
                left_ = all;
                take(left_, kept_);
            }
        }

        /// Serves some in turn.
        template <class F>
        void serve(F which) {
            std::vector<std::size_t> some;
            std::ranges::copy_if(waiting_, std::back_inserter(some), which);
            while (!some.empty()) {
                auto const first =
                    std::ranges::min_element(some, {}, [&](std::size_t i) { return user_of(i).used; });
                serve_one(*first);
                some.erase(first);
            }
        }

        /// Gives some the rest of their shares, as far as it is there.
        template <class F>
        void fill(F which) {
            for (std::size_t i = 0; i < claims_.size(); ++i) {
                if (!which(i) || i == kept_for_) continue;
                budget_amount const more = smaller(lacks(i, shares_[i]), left_);
                give(i, more);
                take(left_, more);
            }
        }

        std::vector<budget_amount> due() {
            if (kept_for_ < claims_.size()) give(kept_for_, std::exchange(kept_, {}));
            return std::move(due_);
        }

    private:
        struct user {
            budget_amount share{}, due{};  ///< of all its claims
            double        used = 0;        ///< the larger part, of memory or cores
        };

        static void add(budget_amount& to, budget_amount more) noexcept {
            for (auto const amount : fields) to.*amount = saturated_sum(to.*amount, more.*amount);
        }
        static void take(budget_amount& from, budget_amount less) noexcept {
            for (auto const amount : fields) from.*amount -= std::min(from.*amount, less.*amount);
        }

        user& user_of(std::size_t i) noexcept { return users_[user_[i]]; }

        budget_amount lacks(std::size_t i, budget_amount of) const noexcept {
            take(of, due_[i]);
            return of;
        }

        void serve_one(std::size_t i) noexcept {
            budget_amount const missing = lacks(i, claims_[i].next);
            if (fits(missing, left_)) {
                give(i, missing);
                take(left_, missing);
            } else if (kept_for_ == claims_.size()) {
                kept_for_ = i;
                kept_     = smaller(missing, left_);
                take(left_, kept_);
            }
        }

        void give(std::size_t i, budget_amount gets) noexcept {
            add(due_[i], gets);
            user& u = user_of(i);
            add(u.due, gets);
            auto const part = [&](std::size_t budget_amount::* amount) {
                double const all = static_cast<double>(capacity_.*amount);
                return all > 0 ? static_cast<double>(u.due.*amount) / all : 0;
            };
            u.used = std::max(part(&budget_amount::bytes), part(&budget_amount::cores));
        }

        std::span<share_claim const>   claims_;
        std::span<budget_amount const> shares_;
        budget_amount                  capacity_, left_;
        std::vector<budget_amount>     due_;
        std::vector<user>              users_{};
        std::vector<std::size_t>       user_{};     ///< of each claim, which of them
        std::vector<std::size_t>       waiting_{};  ///< the oldest first
        std::size_t                    kept_for_ = claims_.size();
        budget_amount                  kept_{};
        budget_amount                  doubtful_{};  ///< taken, if it is true
    };

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

/// What a process does with its share. Nobody takes: who has more than it should gives some back, and then the
/// others grow, by what nobody has.
struct share_step {
    budget_amount fair{};      ///< its share
    budget_amount due{};       ///< what it should have: see fair_shares::in_turn()
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
        auto const due    = fair_shares::in_turn(claims, capacity, shares);
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
            std::size_t const aim =
                wanted > all ? out.due.*amount : saturated_sum(me.desired.*amount, lack ? 0 : slack);
            out.keeps.*amount    = lack ? std::min(has, std::max(out.due.*amount, me.taken.*amount)) : has;
            out.grows_to.*amount = std::max(out.keeps.*amount, std::min(aim, room));
            out.others_lack      = out.others_lack || lack;
            slack                = 0;  // of cores
        }
        return out;
    }
};

}  // namespace tenure::detail
