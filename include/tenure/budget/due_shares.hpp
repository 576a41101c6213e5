// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include <tenure/budget/admission.hpp>
#include <tenure/budget/fair_shares.hpp>

namespace tenure::detail {

/// What is due to each of those who share a machine. Nobody gives back what is taken; what is left is divided so
/// that jobs start and end, for shares that are each too small for the next job would keep all from starting for
/// ever:
///  1. Jobs that have started and cannot end without more, if their user then has no more than its claims' shares.
///     They will give back what they have.
///  2. Those who can start their next job with their share: what that needs, and then the rest of their shares.
///  3. Other jobs that have started, if there is enough, also of what is kept for one that has not.
///  4. The rest: as much as the next job needs, to one after the other.
/// In 2 and 4 it goes in turn by user, to whose user has least; else, and then, to who has waited longest. For
/// the first for whom there is not enough, what there is is kept, until jobs that end make it enough. After it
/// only those begin who need nothing that it lacks.
class due_shares {
public:
    /// Returns what is due to each claim, `shares` being those of fair_shares. Its sum is not above the capacity,
    /// as long as that of what they have is not. Cost: O(n) for each turn.
    static std::vector<budget_amount> of(std::span<share_claim const> claims, budget_amount capacity,
                                         std::span<budget_amount const> shares) {
        due_shares all(claims, capacity, shares);
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
    due_shares(std::span<share_claim const> claims, budget_amount capacity, std::span<budget_amount const> shares)
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
            auto const first = std::ranges::min_element(some, {}, [&](std::size_t i) { return user_of(i).used; });
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

    static constexpr std::array fields{&budget_amount::bytes, &budget_amount::cores};

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

}  // namespace tenure::detail
