// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <tenure/fleet/replica_table.hpp>
#include <tenure/raise.hpp>

namespace tenure {

/// Whether a store of a group takes part.
enum class store_state : std::uint8_t {
    running,
    paused,    ///< receives nothing, and gives first
    retiring,  ///< as paused; and what it has goes elsewhere, until it is empty
    lost,      ///< it died, and what it had is gone
    removed,   ///< it retired, and belongs to the group no more
};

constexpr std::string_view name_of(store_state s) noexcept {
    switch (s) {
    case store_state::running: return "running";
    case store_state::paused: return "paused";
    case store_state::retiring: return "retiring";
    case store_state::lost: return "lost";
    case store_state::removed: return "removed";
    }
    return "?";
}

namespace detail {

/// Returns whether a store's name may be given to another.
constexpr bool is_over(store_state s) noexcept { return s == store_state::lost || s == store_state::removed; }

/// A store of a group: what there is in it, in bytes.
struct fleet_store {
    std::string   name;
    std::size_t   capacity;
    double        distance = 1;  ///< of two copies, a read takes the nearer
    std::size_t   used     = 0;  ///< by replicas
    std::size_t   others   = 0;  ///< by what is not the group's
    std::size_t   arriving = 0;  ///< set aside for copies
    std::size_t   leaving  = 0;  ///< of `used`
    store_state   state    = store_state::running;
    std::uint64_t late     = 0;  ///< the cycle up to which others are read, for it did not answer in time
    std::uint64_t refuses  = 0;  ///< the cycle up to which others receive, for it did not take what it had room for
    std::uint64_t since    = 0;  ///< the cycle in which it was added
    std::uint32_t unswept  = 0;  ///< how many of its replicas are yet to be looked at, since its state changed
    replicas_of_store replicas{};

    /// Returns what is in it, copies under way included.
    std::size_t taken() const noexcept { return others + used + arriving; }
    /// Returns how many bytes more it may get.
    std::size_t room() const noexcept { return taken() < capacity ? capacity - taken() : 0; }
    bool        has_room(std::size_t bytes) const noexcept { return taken() <= capacity && bytes <= room(); }

    /// Returns how full it will be when all that is under way is done: 1 is full.
    double fill() const noexcept { return static_cast<double>(taken() - leaving) / static_cast<double>(capacity); }
};

/// The stores of a group, and the running ones in order of how full they are. Not thread-safe.
class fleet_stores {
public:
    static constexpr std::uint16_t none = static_cast<std::uint16_t>(-1);

    std::uint16_t add(fleet_store s) {
        auto const n    = size();
        auto const fill = s.fill();
        stores_.push_back(std::move(s));
        if (!memory_lasts([&] { fills_.push_back({fill, {}}); })) {
            stores_.pop_back();
            raise(std::bad_alloc());
        }
        if (!memory_lasts([&] { emptiest_.emplace(fill, n); })) {
            fills_.pop_back();
            stores_.pop_back();
            raise(std::bad_alloc());
        }
        room_grew_ = true;
        ++version_;
        return n;
    }

    std::uint16_t      size() const noexcept { return static_cast<std::uint16_t>(stores_.size()); }
    fleet_store const& operator[](std::uint16_t s) const noexcept { return stores_[s]; }

    /// Returns the store of that name that is there, or none. Cost: O(stores).
    std::uint16_t find(std::string_view name) const noexcept {
        for (std::uint16_t s = 0; s < size(); ++s)
            if (stores_[s].name == name && !is_over(stores_[s].state)) return s;
        return none;
    }

    /// Returns the running stores, the emptiest first, as pairs of fill() and number.
    std::set<std::pair<double, std::uint16_t>> const& emptiest() const noexcept { return emptiest_; }

    /// Calls f(store) and puts the store where it belongs now. Cost: O(log(stores)); allocates nothing.
    template <class F>
    void change(std::uint16_t s, F&& f) {
        fleet_store&      it  = stores_[s];
        bool const        was = it.state == store_state::running;
        std::size_t const had = it.room();
        f(it);
        ++version_;
        bool const is = it.state == store_state::running;
        if (is && (!was || it.room() > had)) room_grew_ = true;
        double const fill = it.fill();
        auto& [at, spare] = fills_[s];
        if (was && is && fill == at) return;
        if (was) spare = emptiest_.extract({at, s});
        at = fill;
        if (!is) return;
        spare.value() = {fill, s};
        emptiest_.insert(std::move(spare));
    }

    /// Says what has nothing to do with how full the store is.
    void set_late(std::uint16_t s, std::uint64_t until) noexcept { stores_[s].late = until; }
    void set_refuses(std::uint16_t s, std::uint64_t until) noexcept { stores_[s].refuses = until; }
    void set_cursor(std::uint16_t s, std::uint32_t at) noexcept { stores_[s].replicas.cursor = at; }
    void set_round(std::uint16_t s, std::uint32_t at) noexcept { stores_[s].replicas.round = at; }

    /// Returns how often something was changed.
    std::uint64_t version() const noexcept { return version_; }

    /// Returns whether a running store has got room since the last call.
    bool room_grew() noexcept { return std::exchange(room_grew_, false); }

private:
    using ranking = std::set<std::pair<double, std::uint16_t>>;
    struct ranked {
        double             fill;   // as emptiest_ has it
        ranking::node_type spare;  // for when the store runs again
    };

    std::deque<fleet_store> stores_;
    std::deque<ranked>      fills_;
    ranking                 emptiest_;
    std::uint64_t           version_   = 0;
    bool                    room_grew_ = false;
};

}  // namespace detail
}  // namespace tenure
