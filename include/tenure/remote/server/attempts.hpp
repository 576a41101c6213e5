// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace tenure::detail {

/// A token bucket: gives some at once, then some a second. Not thread-safe.
class token_bucket {
public:
    using clock = std::chrono::steady_clock;

    struct rate {
        double at_once = 0, a_second = 0;  ///< a_second 0: no limit
    };

    /// Takes one and returns zero, or returns how long it takes until there is one.
    clock::duration take(rate const& r, clock::time_point now) noexcept {
        if (r.a_second <= 0) return {};
        double const after = std::max(spent(r, now), 0.0) + 1;
        if (after <= std::max(r.at_once, 1.0)) {
            spent_ = after;
            since_ = now;
            return {};
        }
        auto const wait = std::chrono::duration<double>((after - std::max(r.at_once, 1.0)) / r.a_second);
        return std::chrono::duration_cast<clock::duration>(wait) + clock::duration(1);
    }
    void give_back() noexcept { spent_ -= 1; }

    /// Returns whether the bucket is as if nothing had ever been taken.
    bool is_full(rate const& r, clock::time_point now) const noexcept { return spent(r, now) <= 0; }

private:
    double spent(rate const& r, clock::time_point now) const noexcept {
        return spent_ - std::chrono::duration<double>(now - since_).count() * r.a_second;
    }

    double            spent_ = 0;
    clock::time_point since_{};
};

/// Slows down clients that guess tokens: limits the rate at which wrong tokens from one place are checked, and
/// from all places together. A place that has sent a right token waits only for its own wrong ones. A waiting
/// client costs no thread. Thread-safe; its memory is bounded.
class attempts {
public:
    using clock = token_bucket::clock;

    static constexpr std::size_t most_places = 4096;

    attempts(token_bucket::rate from_one, token_bucket::rate from_all) noexcept
        : from_one_(from_one), from_all_(from_all) {}

    /// Returns zero if a token from `place` may be checked now; it counts as wrong until right() is called. Else
    /// returns the time after which to ask again. Throws bad_alloc.
    clock::duration begin(std::string const& place, clock::time_point now) {
        std::scoped_lock const guard(lock_);
        auto                   at = places_.find(place);
        if (at == places_.end()) {
            if (places_.size() >= most_places) forget(now);
            at = places_.try_emplace(place).first;
        }
        if (auto const wait = at->second.take(from_one_, now); wait.count() != 0) return wait;
        if (trusted_.contains(place)) return {};
        auto const wait = all_.take(from_all_, now);
        if (wait.count() != 0) at->second.give_back();
        return wait;
    }

    void right(std::string const& place) noexcept {
        std::scoped_lock const guard(lock_);
        if (auto const at = places_.find(place); at != places_.end()) at->second.give_back();
        if (trusted_.contains(place)) return;
        all_.give_back();
        try {
            if (trusted_.size() >= most_places) trusted_.erase(trusted_.begin());
            trusted_.insert(place);
        } catch (std::bad_alloc const&) {
            return;  // the place waits as others do, until its next right token
        }
    }

    std::size_t places() const noexcept {
        std::scoped_lock const guard(lock_);
        return places_.size();
    }

private:
    /// Forgets places that sent nothing wrong for a while. If too many remain, forgets any: the limit for all
    /// places still holds.
    void forget(clock::time_point now) noexcept {
        std::erase_if(places_, [&](auto const& p) { return p.second.is_full(from_one_, now); });
        while (places_.size() >= most_places / 4 * 3) places_.erase(places_.begin());
    }

    token_bucket::rate const                      from_one_, from_all_;
    mutable std::mutex                            lock_;
    std::unordered_map<std::string, token_bucket> places_;
    std::unordered_set<std::string>               trusted_;  ///< places that have sent a right token
    token_bucket                                  all_;
};

}  // namespace tenure::detail
