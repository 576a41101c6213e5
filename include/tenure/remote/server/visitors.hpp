// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace tenure::detail {

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
        visit() noexcept = default;
        visit(std::shared_ptr<visitors> at, std::string from) noexcept
            : at_(std::move(at)), from_(std::move(from)) {}
        visit(visit&&) noexcept = default;
        visit& operator=(visit&& other) noexcept {
            visit old(std::move(*this));
            at_     = std::move(other.at_);
            from_   = std::move(other.from_);
            number_ = other.number_;
            return *this;
        }
        ~visit() {
            if (at_) at_->leave(from_, number_);
        }

        explicit operator bool() const noexcept { return at_ != nullptr; }

        /// Sets the function that hangs up. It is called once, from any thread, if the visitor has to make room:
        /// later, or now if it had to already.
        void when_evicted(std::function<void()> go) {
            if (at_ && !at_->remember(from_, number_, go)) go();
        }

    private:
        friend class visitors;
        std::shared_ptr<visitors> at_;
        std::string               from_;
        std::uint64_t             number_ = 0;
    };

    /// Lets a visitor in. The visit is null if there are too many. Throws bad_alloc.
    visit enter(std::string const& from) {
        visit                 v(shared_from_this(), from);
        std::function<void()> go;
        v.number_ = come(from, go);
        if (go) go();
        if (v.number_ == 0) return {};
        return v;
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

    /// Keeps the function that hangs up a visitor. Returns false if the visitor had to make room already.
    bool remember(std::string const& from, std::uint64_t number, std::function<void()>& go) {
        std::scoped_lock const guard(lock_);
        auto const             at = by_place_.find(from);
        if (at == by_place_.end()) return false;
        auto const it = at->second.find(number);
        if (it == at->second.end()) return false;
        it->second = std::move(go);
        return true;
    }

    void leave(std::string const& from, std::uint64_t number) noexcept {
        std::scoped_lock const guard(lock_);
        if (auto const at = by_place_.find(from); at != by_place_.end()) erase(at, number);
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
