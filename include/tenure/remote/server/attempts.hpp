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

/// So many at once, and then so many a second.
class token_bucket {
public:
    using clock = std::chrono::steady_clock;

    struct rate {
        double at_once = 0, a_second = 0;  ///< a_second 0: no limit
    };

    /// Zero: one was taken. Else how long it takes until there is one.
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

    /// As if nothing had ever been taken.
    bool is_full(rate const& r, clock::time_point now) const noexcept { return spent(r, now) <= 0; }

private:
    double spent(rate const& r, clock::time_point now) const noexcept {
        return spent_ - std::chrono::duration<double>(now - since_).count() * r.a_second;
    }

    double            spent_ = 0;
    clock::time_point since_{};
};

/// Holds back whoever guesses tokens: after some wrong ones, those from the same place are looked at one by one,
/// and those from all places, too, but for a place from which a right one came: what others guess does not hold
/// that up. What waits costs no thread. Thread-safe; its memory is bounded.
class attempts {
public:
    using clock = token_bucket::clock;

    static constexpr std::size_t most_places = 4096;

    attempts(token_bucket::rate from_one, token_bucket::rate from_all) noexcept
        : from_one_(from_one), from_all_(from_all) {}

    /// Zero: a token from there may be looked at, and is taken for wrong until right() is called. Else when to ask
    /// again. Throws bad_alloc.
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
            return;  // it waits as others do, until it shows the next right one
        }
    }

    std::size_t places() const noexcept {
        std::scoped_lock const guard(lock_);
        return places_.size();
    }

private:
    /// Those from which nothing wrong came for a while; any, if there are none such: the limit of all still holds.
    void forget(clock::time_point now) noexcept {
        std::erase_if(places_, [&](auto const& p) { return p.second.is_full(from_one_, now); });
        while (places_.size() >= most_places / 4 * 3) places_.erase(places_.begin());
    }

    token_bucket::rate const                      from_one_, from_all_;
    mutable std::mutex                            lock_;
    std::unordered_map<std::string, token_bucket> places_;
    std::unordered_set<std::string>               trusted_;  ///< places from which right ones came
    token_bucket                                  all_;
};

}  // namespace tenure::detail
