// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <tenure/remote/server/options.hpp>

/// What anybody can cause is bounded: guesses of tokens, lines in the log, connections that say nothing.
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

/// Tells a server's events to its log. Refusals and exceeded limits, which anybody can cause, are told a few times
/// a second at most; the next event that is told says how many were left out. Thread-safe.
class event_log {
public:
    using clock = token_bucket::clock;

    static constexpr token_bucket::rate refusals{20, 5};

    explicit event_log(std::function<void(server_event const&)> to) : to_(std::move(to)) {}

    void tell(server_event e, clock::time_point now = clock::now()) {
        if (!to_) return;
        std::scoped_lock const guard(lock_);
        bool const anybodys = e.what == server_event::kind::refused || e.what == server_event::kind::limited;
        if (anybodys && bucket_.take(refusals, now).count() != 0) {
            ++left_out_;
            return;
        }
        e.left_out = std::exchange(left_out_, 0);
        to_(e);
    }

private:
    std::function<void(server_event const&)> const to_;
    std::mutex                                     lock_;
    token_bucket                                   bucket_;
    std::uint64_t                                  left_out_ = 0;
};

/// Limits the connections that have not said hello yet, which anybody can make: `most` in all (0: no limit), and a
/// quarter of those from one place. If there are as many already, a new one from a place that has fewer takes the
/// place of the oldest one from the place that has most. So a few addresses never keep everybody else out.
/// Thread-safe.
class visitors : public std::enable_shared_from_this<visitors> {
public:
    explicit visitors(std::size_t most) noexcept : most_(most) {}

    /// A visitor's entry, until it has said hello.
    class visit {
    public:
        explicit operator bool() const noexcept { return at_ != nullptr; }

        /// Sets the function that hangs up. It is called once, from any thread, if the visitor has to make room:
        /// later, or now if it had to already.
        void when_evicted(std::function<void()> go) {
            if (at_ && !at_->remember(at_.get_deleter(), go)) go();
        }

    private:
        friend class visitors;
        struct leaver {
            std::shared_ptr<visitors> at;
            std::string               from;
            std::uint64_t             number;
            void                      operator()(visitors* v) const noexcept { v->leave(*this); }
        };
        std::unique_ptr<visitors, leaver> at_;
    };

    /// Lets a visitor in. The visit is null if there are too many. Throws bad_alloc.
    visit enter(std::string const& from) {
        visit v;  // which leaves if anything throws
        v.at_ = {this, {shared_from_this(), from, 0}};
        std::function<void()> go;
        std::uint64_t&        number = v.at_.get_deleter().number;
        number                       = come(from, go);
        if (go) go();
        return number ? std::move(v) : visit();
    }

    std::size_t count() const noexcept {
        std::scoped_lock const guard(lock_);
        return all_;
    }

private:
    /// Returns the number of the visit, or 0 if there is no room. `go`: hangs up the visitor that makes room.
    std::uint64_t come(std::string const& from, std::function<void()>& go) {
        std::scoped_lock const guard(lock_);
        auto&                  here = by_place_[from];
        bool const             full = most_ != 0 && all_ >= most_;
        if (most_ != 0 && here.size() >= (most_ + 3) / 4) return 0;
        auto const fullest =
            full ? std::max_element(by_place_.begin(), by_place_.end(), goes_later) : by_place_.end();
        if (full && fullest->second.size() <= here.size()) return 0;
        here.emplace(++made_, nullptr);
        ++all_;
        if (full) {
            go = std::move(fullest->second.begin()->second);
            erase(fullest, fullest->second.begin()->first);
        }
        return made_;
    }

    bool remember(visit::leaver const& who, std::function<void()>& go) {
        std::scoped_lock const guard(lock_);
        auto const             at = by_place_.find(who.from);
        if (at == by_place_.end()) return false;
        auto const it = at->second.find(who.number);
        if (it == at->second.end()) return false;
        it->second = std::move(go);
        return true;
    }

    void leave(visit::leaver const& who) noexcept {
        std::scoped_lock const guard(lock_);
        if (auto const at = by_place_.find(who.from); at != by_place_.end()) erase(at, who.number);
    }

    /// The visitors of a place, oldest first, each with the function that hangs it up.
    using place = std::map<std::uint64_t, std::function<void()>>;
    using map   = std::unordered_map<std::string, place>;

    static bool goes_later(map::value_type const& a, map::value_type const& b) noexcept {
        if (a.second.size() != b.second.size()) return a.second.size() < b.second.size();
        return !a.second.empty() && a.second.begin()->first > b.second.begin()->first;
    }

    void erase(map::iterator at, std::uint64_t number) noexcept {
        all_ -= at->second.erase(number);
        if (at->second.empty()) by_place_.erase(at);
    }

    std::size_t const  most_;
    mutable std::mutex lock_;
    map                by_place_;
    std::size_t        all_  = 0;
    std::uint64_t      made_ = 0;
};

}  // namespace tenure::detail
