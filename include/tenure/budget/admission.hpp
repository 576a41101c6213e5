// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <tenure/error.hpp>

namespace tenure::detail {

/// Returns the sum, or the largest number if it is more.
constexpr std::size_t saturated_sum(std::size_t a, std::size_t b) noexcept { return a + std::min(b, ~a); }

/// What a budget has, and what is asked of it.
struct budget_amount {
    std::size_t bytes = 0;
    std::size_t cores = 0;

    friend bool operator==(budget_amount, budget_amount) = default;

    constexpr budget_amount& operator+=(budget_amount b) noexcept { return *this = *this + b; }
    constexpr budget_amount& operator-=(budget_amount b) noexcept {
        bytes -= b.bytes;
        cores -= b.cores;
        return *this;
    }
    friend constexpr budget_amount operator+(budget_amount a, budget_amount b) noexcept {
        return {a.bytes + b.bytes, a.cores + b.cores};
    }
};

/// Returns of each resource the smaller amount.
constexpr budget_amount smaller(budget_amount a, budget_amount b) noexcept {
    return {std::min(a.bytes, b.bytes), std::min(a.cores, b.cores)};
}

/// Returns of each resource the larger amount.
constexpr budget_amount larger(budget_amount a, budget_amount b) noexcept {
    return {std::max(a.bytes, b.bytes), std::max(a.cores, b.cores)};
}

/// Whether there is as much of each resource in `all`.
constexpr bool fits(budget_amount a, budget_amount all) noexcept { return a == smaller(a, all); }

/// The rules by which a budget admits, and nothing else: no lock, no clock, no memory.
///
/// A job starts when max(baseline + reserved, in use) + need <= capacity, and its cores are free. Those who wait
/// are served in this order: who has waited for `aging` or longer, by arrival; then who has room and needs more,
/// because only they can free what they have; then by priority and arrival. Whoever fits is served, and so may pass
/// others; but nobody passes one who has waited for `aging`. So each is served, if those before it end: room that
/// is freed is kept together for the one who has waited longest. Two exceptions, or all would wait for each other:
/// where that one does not fit beside the room of those who wait, they pass it; and where even all room is not
/// enough for it, because the process uses too much besides, others start once nobody has any.
///
/// Those who have room and wait for more can wait for each other. If none of them would fit even if all who do not
/// wait ended, here and, where capacity is a share, elsewhere, nobody will free what they need: then of those
/// whose end would help the one who came last to its room is refused with would_deadlock. Whoever has room and
/// waits in a way of which this knows nothing is taken to go on.
///
/// Cost: a grant is a few additions; when room is freed, for each that is served a step for each before it that is
/// not.
class admission_rules {
public:
    using time = std::chrono::steady_clock::time_point;

    /// Somebody who has room.
    struct holder {
        budget_amount has;
        std::uint64_t serial = 0;  ///< later ones have greater ones
        std::uint32_t waits  = 0;  ///< waiters that have this
    };

    /// Somebody who waits. It stays where it is until it was answered or has left.
    struct waiter {
        budget_amount        wants;
        int                  priority = 0;
        holder*              into     = nullptr;  ///< who gets it
        std::vector<holder*> has{};               ///< whose room it has meanwhile, each once
        time                 since{};
        std::uint64_t        serial = 0;  ///< 0: it does not wait yet
        std::optional<errc>  answer{};    ///< errc{}: granted
    };

    admission_rules(budget_amount capacity, std::chrono::nanoseconds aging) noexcept
        : capacity_(capacity), reach_(capacity), most_(capacity), aging_(aging) {}

    budget_amount capacity() const noexcept { return capacity_; }
    budget_amount most() const noexcept { return most_; }
    budget_amount reserved() const noexcept { return reserved_; }
    std::size_t   in_use() const noexcept { return in_use_; }
    std::size_t   baseline() const noexcept { return baseline_; }
    std::size_t   waiting() const noexcept { return waiting_.size(); }

    /// `reach`: what the capacity may become when jobs elsewhere end; `most`: without anybody's doing here.
    void set_capacity(budget_amount c, budget_amount reach, budget_amount most) noexcept {
        shrunk_   = shrunk_ || most.bytes < most_.bytes || most.cores < most_.cores;
        capacity_ = c;
        reach_    = larger(c, reach);
        most_     = most;
    }

    /// Notes what the process uses. While nothing is reserved, that is what it uses besides jobs, which is never
    /// more.
    void note_use(std::size_t bytes) noexcept {
        in_use_ = bytes;
        if (holders_ == 0 || bytes < baseline_) baseline_ = bytes;
    }

    /// Whether it could be granted if all others ended.
    bool is_possible(budget_amount wants) const noexcept {
        return wants.bytes <= most_.bytes && wants.cores <= most_.cores;
    }

    /// Returns what holders have, or the process uses, and cannot give back at once.
    budget_amount taken() const noexcept {
        return {std::max(saturated_sum(baseline_, reserved_.bytes), in_use_), reserved_.cores};
    }

    /// Returns what of that would stay if all ended but those who wait.
    budget_amount held() const noexcept {
        return running_ == 0 ? taken() : smaller(taken(), {saturated_sum(baseline_, held_.bytes), held_.cores});
    }

    /// Returns the newest room of the one who is refused next if nobody gives anything back; null if somebody who
    /// has room and waits can still be served.
    holder const* stuck() const noexcept {
        waiter const* const w = in_vain();
        return w ? newest(*w) : nullptr;
    }

    /// Returns what the first in line wants.
    budget_amount first() const noexcept { return waiting_.empty() ? budget_amount{} : (*waiting_.begin())->wants; }

    /// Returns what has to be there for somebody to go on: of those who have room, for the one who wants least.
    budget_amount soonest(time now) const noexcept {
        if (waiting_.empty()) return {};
        if (!first_has_room()) return is_blocked(now) ? (*arrivals_.begin())->wants : first();
        budget_amount least = first();
        for (waiter const* const w : waiting_) {
            if (w->has.empty()) break;
            if (std::tie(w->wants.cores, w->wants.bytes) < std::tie(least.cores, least.bytes)) least = w->wants;
        }
        return least;
    }

    bool first_has_room() const noexcept { return !waiting_.empty() && !(*waiting_.begin())->has.empty(); }

    /// Returns what all that wait want, together.
    budget_amount wanted() const noexcept {
        budget_amount all;
        for (waiter const* const w : waiting_) {
            all.bytes = saturated_sum(all.bytes, w->wants.bytes);
            all.cores = saturated_sum(all.cores, w->wants.cores);
        }
        return all;
    }

    /// Whether it can be granted now.
    bool fits(budget_amount wants) const noexcept { return fits_beside(taken(), wants, capacity_); }

    /// Whether more bytes would be free if the process used less, and not just if jobs ended.
    bool is_short_of_memory() const noexcept { return in_use_ > saturated_sum(baseline_, reserved_.bytes); }

    /// Grants it to one who has nothing yet, if it fits and nobody who has waited long enough would be passed.
    /// `now`: tells the time, where it matters.
    template <class F>
    bool try_grant(holder& to, budget_amount wants, F now) noexcept {
        if (!fits(wants) || (!arrivals_.empty() && is_blocked(now()))) return false;
        begin(to);
        grant(to, wants);
        return true;
    }

    /// Grants more to one who has room, if it fits and nobody would be passed who need not be.
    template <class F>
    bool try_extend(holder& to, budget_amount wants, F now) noexcept {
        if (!fits(wants)) return false;
        if (!arrivals_.empty()) {
            time const          t       = now();
            budget_amount const waiting = to.waits ? held_ : held_ + to.has;
            for (waiter const* const w : arrivals_) {
                if (!is_aged(*w, t)) break;
                if (would_fit(*w, waiting)) return false;
            }
        }
        grant(to, wants);
        return true;
    }

    /// Begins to wait. Throws std::bad_alloc, with nothing done.
    void wait(waiter& w, time now) {
        w.since  = now;
        w.serial = ++last_serial_;
        struct guard {
            std::set<waiter*, by_order>* to;
            waiter*                      w;
            ~guard() {
                if (!to) return;
                to->erase(w);
                w->serial = 0;
            }
        } undo{&waiting_, &w};
        waiting_.insert(&w);
        arrivals_.insert(&w);
        undo.to = nullptr;
        for (holder* const h : w.has)
            if (h->waits++ == 0) {
                --running_;
                held_ += h->has;
            }
    }

    /// Leaves without an answer.
    void leave(waiter& w) noexcept {
        if (waiting_.erase(&w) == 0) return;  // in a forked child, all have left
        arrivals_.erase(&w);
        for (holder* const h : w.has)
            if (--h->waits == 0 && h->serial) {
                ++running_;
                held_ -= h->has;
            }
    }

    /// Returns the bytes that the first in line lacks, or one who has waited long enough.
    std::size_t missing(time now) const noexcept {
        std::size_t const wanted = std::max(first().bytes, is_blocked(now) ? (*arrivals_.begin())->wants.bytes : 0);
        return wanted - std::min(wanted, free_bytes());
    }

    /// Calls f(waiter) for all that wait.
    template <class F>
    void for_waiting(F f) const noexcept {
        for (waiter* const w : waiting_) f(*w);
    }

    /// Has all leave that wait: in a forked child, where their threads are not.
    void forget_waiting() noexcept {
        while (!waiting_.empty()) leave(**waiting_.begin());
    }

    /// Gives back what a holder has.
    void release(holder& h) noexcept {
        reserved_ -= h.has;
        if (h.waits == 0) --running_;
        else held_ -= h.has;
        h.has    = {};
        h.serial = 0;
        --holders_;
    }

    /// Answers all that can be answered, and calls tell(waiter) for each, which has left then. `final`: the process
    /// will not use less memory than it does without somebody ending.
    template <class F>
    void answer(time now, bool final, F tell) noexcept {
        auto const grant_to = [&](waiter& w) {
            leave(w);
            if (w.into->serial == 0) begin(*w.into);
            grant(*w.into, w.wants);
            w.answer = errc{};
            tell(w);
        };
        if (std::exchange(shrunk_, false)) refuse_impossible(tell);
        bool const nobody_has = holders_ == 0;
        while (waiter* const w = next(now, final, nobody_has)) grant_to(*w);
        if (waiter* const w = final ? in_vain() : nullptr) {
            leave(*w);
            w->answer = errc::would_deadlock;
            tell(*w);
        }
    }

private:
    struct by_order {
        bool operator()(waiter const* a, waiter const* b) const noexcept {
            return std::tuple(a->has.empty(), -std::int64_t{a->priority}, a->serial) <
                   std::tuple(b->has.empty(), -std::int64_t{b->priority}, b->serial);
        }
    };
    struct by_arrival {
        bool operator()(waiter const* a, waiter const* b) const noexcept { return a->serial < b->serial; }
    };

    std::size_t free_bytes() const noexcept { return capacity_.bytes - std::min(capacity_.bytes, taken().bytes); }

    /// What needs no memory does not wait for memory, and so for cores.
    static bool fits_beside(budget_amount taken, budget_amount wants, budget_amount all) noexcept {
        return (wants.bytes == 0 || wants.bytes <= all.bytes - std::min(all.bytes, taken.bytes)) &&
               (wants.cores == 0 || wants.cores <= all.cores - std::min(all.cores, taken.cores));
    }

    /// Whether it would fit if all here ended but those who wait, who have `held`.
    bool would_fit(waiter const& w, budget_amount held) const noexcept {
        return fits_beside({saturated_sum(baseline_, held.bytes), held.cores}, w.wants, capacity_);
    }

    /// Whether it will fit when all that do not wait have ended, here and elsewhere, if there are any.
    bool will_fit(waiter const& w) const noexcept {
        return (running_ > 0 || reach_ != capacity_) &&
               fits_beside({saturated_sum(baseline_, held_.bytes), held_.cores}, w.wants, reach_);
    }

    static holder const* newest(waiter const& w) noexcept {
        return *std::ranges::max_element(w.has, {}, &holder::serial);
    }

    /// Returns who is to be refused, if nobody who has room and waits can be served any more: of those who wait for
    /// what they have themselves, or else without whom another could be served, or else of all, the newest.
    waiter* in_vain() const noexcept {
        waiter* last = nullptr;
        int     best = 0;
        for (waiter* const w : waiting_) {
            if (w->has.empty()) break;
            if (will_fit(*w)) return nullptr;
        }
        for (waiter* const w : waiting_) {
            if (w->has.empty()) break;
            int const helps = is_its_own_obstacle(*w) ? 2 : is_obstacle(*w) ? 1 : 0;
            if (last && helps < best) continue;
            if (!last || helps > best || newest(*w)->serial > newest(*last)->serial) last = w;
            best = helps;
        }
        return last;
    }

    /// Whether it would not fit beside what it has, even if all others ended.
    bool is_its_own_obstacle(waiter const& w) const noexcept {
        budget_amount own{baseline_, 0};
        for (holder const* const h : w.has) own += h->has;
        return !fits_beside(own, w.wants, reach_);
    }

    /// Whether another could be served if it ended.
    bool is_obstacle(waiter const& one) const noexcept {
        budget_amount held = held_;
        for (holder const* const h : one.has)
            if (h->waits == 1) held -= h->has;
        held.bytes = saturated_sum(held.bytes, baseline_);
        return std::ranges::any_of(waiting_, [&](waiter const* w) {
            return w != &one && !w->has.empty() && fits_beside(held, w->wants, reach_);
        });
    }

    /// Whether one has waited so long that nobody passes it.
    bool is_blocked(time now) const noexcept { return !arrivals_.empty() && is_aged(**arrivals_.begin(), now); }

    bool is_aged(waiter const& w, time now) const noexcept { return now - w.since >= aging_; }

    void begin(holder& h) noexcept {
        h.serial = ++last_serial_;
        ++holders_;
        ++running_;
    }
    void grant(holder& h, budget_amount wants) noexcept {
        h.has += wants;
        reserved_ += wants;
        if (h.waits) held_ += wants;
    }

    /// Returns whose turn it is, of those who fit, or null. `nobody_has`: any room, when this round began.
    waiter* next(time now, bool final, bool nobody_has) const noexcept {
        waiter const* first      = nullptr;                 // of those who have waited long enough and do not fit
        bool const    nobody_can = running_ == 0 && final;  // give anything back
        auto const    has_a_turn = [&](waiter const& w) { return !nobody_can && would_fit(w, held_); };
        auto const    may_pass   = [&](waiter const& w) {
            return !first ||
                   (!has_a_turn(*first) && (!w.has.empty() || (nobody_has && final && !will_fit(*first))));
        };
        for (waiter* const w : arrivals_) {
            if (!is_aged(*w, now)) break;
            if (!may_pass(*w)) continue;
            if (fits(w->wants)) return w;
            if (!first || has_a_turn(*w)) first = w;
        }
        for (waiter* const w : waiting_)
            if (!is_aged(*w, now) && may_pass(*w) && fits(w->wants)) return w;
        return nullptr;
    }

    /// Refuses those that want more than there is by now, with limit_exceeded.
    template <class F>
    void refuse_impossible(F& tell) noexcept {
        for (auto i = waiting_.begin(); i != waiting_.end();) {
            waiter&             w   = **i++;
            budget_amount const has = w.into->has;
            if (is_possible({saturated_sum(has.bytes, w.wants.bytes), saturated_sum(has.cores, w.wants.cores)}))
                continue;
            leave(w);
            w.answer = errc::limit_exceeded;
            tell(w);
        }
    }

    budget_amount                 capacity_;
    budget_amount                 reach_;
    budget_amount                 most_;
    bool                          shrunk_ = false;  ///< `most_`, since the last answer
    std::chrono::nanoseconds      aging_;
    budget_amount                 reserved_{};
    budget_amount                 held_{};  ///< of that, by those who wait
    std::size_t                   in_use_      = 0;
    std::size_t                   baseline_    = 0;
    std::uint64_t                 holders_     = 0;
    std::uint64_t                 running_     = 0;  ///< holders that wait for nothing
    std::uint64_t                 last_serial_ = 0;
    std::set<waiter*, by_order>   waiting_;
    std::set<waiter*, by_arrival> arrivals_;  ///< the same
};

}  // namespace tenure::detail
