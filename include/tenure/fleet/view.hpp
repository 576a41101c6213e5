// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenure/fleet/core.hpp>

namespace tenure {

/// A store of a group, by number: what policies name it by. A number is never used again.
enum class store_id : std::uint16_t {};

/// What there is in a store of a group.
struct store_status {
    store_id      id{};
    std::string   name;
    store_state   state{};
    std::size_t   capacity = 0;  ///< bytes
    std::size_t   bytes    = 0;  ///< when all that is under way is done
    std::size_t   copies   = 0;  ///< of the group's buffers, those under way included
    std::uint64_t since    = 0;  ///< the cycle in which it was added

    /// Returns how full it will be: 1 is full.
    double fill() const noexcept { return static_cast<double>(bytes) / static_cast<double>(capacity); }
};

/// A buffer in a group, as policies see it. May be kept from cycle to cycle: one that was freed is not live. Calls
/// are thread-safe; each is a short lock.
class fleet_buffer {
public:
    fleet_buffer(detail::fleet_core& core, std::uint32_t number, std::uint32_t generation) noexcept
        : core_(&core), number_(number), generation_(generation) {}

    bool live() const {
        return ask(false, [](auto const&) { return true; });
    }
    std::size_t bytes() const {
        return ask(std::size_t{0}, [&](auto const& f) { return f.table().buffer(number_).bytes(); });
    }
    /// Returns the stores that have it or get it, but for copies that leave.
    std::vector<store_id> replicas() const {
        return ask(std::vector<store_id>{}, [&](auto const& f) {
            std::vector<store_id> out;
            f.table().for_each(number_, [&](std::uint32_t r) {
                auto const& it = f.table()[r];
                if (f.stores()[it.store].state != store_state::lost &&
                    (it.state == detail::replica_state::here || it.state == detail::replica_state::arriving))
                    out.push_back(store_id{it.store});
            });
            return out;
        });
    }
    /// Returns how many copies will be there to stay: replicas() without those in stores that retire.
    std::size_t copies() const {
        return ask(std::size_t{0}, [&](auto const& f) {
            std::size_t n = 0;
            f.table().for_each(number_, [&](std::uint32_t r) {
                auto const& it = f.table()[r];
                n += f.stays(it) || (it.state == detail::replica_state::arriving && f.takes_part(it.store));
            });
            return n;
        });
    }
    /// Returns how many copies it has to have, or 0 if nobody said so.
    std::size_t declared() const {
        return ask(std::size_t{0}, [&](auto const& f) {
            return f.table().buffer(number_).declared ? f.needed(number_) : std::size_t{0};
        });
    }
    /// Returns whether it was asked to be in every store.
    bool everywhere() const {
        return ask(false, [&](auto const& f) { return f.table().buffer(number_).declared == f.everywhere; });
    }

    /// Lets the buffer be among those that changed, once more.
    void mark() const {
        std::scoped_lock const guard(core_->planning);
        if (is_live()) core_->state.mark(number_);
    }

    /// Notes that somebody wants to read it at a store.
    void note_demand(store_id at) const {
        std::scoped_lock const guard(core_->planning);
        if (is_live()) core_->state.note_demand(number_, static_cast<std::uint16_t>(at));
    }

    friend auto operator<=>(fleet_buffer const&, fleet_buffer const&) = default;

private:
    friend class plan;

    template <class T, class F>
    T ask(T freed, F&& of) const {
        std::scoped_lock const guard(core_->planning);
        return is_live() ? T(of(core_->state)) : std::move(freed);
    }
    bool is_live() const noexcept {
        auto const& table = core_->state.table();
        return table.has_buffer(number_) && table.buffer(number_).generation == generation_;
    }

    detail::fleet_core* core_;
    std::uint32_t       number_, generation_;
};

/// What policies see of a group in one cycle. Thread-safe. No lock is held while a policy runs: what it asks twice
/// may have changed between.
class fleet_view {
public:
    struct demand {
        fleet_buffer buffer;
        store_id     at;
    };

    fleet_view(detail::fleet_core& core, std::deque<fleet_buffer> const& changed, std::deque<demand> const& demands,
               bool dry) noexcept
        : core_(core), changed_(changed), demands_(demands), dry_(dry) {}

    /// Returns whether all that is accepted will be taken back: a policy that remembers something forgets it then.
    bool dry() const noexcept { return dry_; }

    /// Returns the buffers that were made, written, copied or dropped since the last cycle, whose store's state
    /// changed, or for which something was refused that may be possible now.
    std::deque<fleet_buffer> const& changed() const noexcept { return changed_; }
    /// Returns the reads since the last cycle that were asked for at a store, 65,536 at most.
    std::deque<demand> const& demanded() const noexcept { return demands_; }

    /// Returns the number of this cycle, from 1 on.
    std::uint64_t cycle() const {
        std::scoped_lock const guard(core_.planning);
        return core_.state.cycle();
    }
    /// Returns a number that differs when something in a store, or of it, has changed.
    std::uint64_t version() const {
        std::scoped_lock const guard(core_.planning);
        return core_.state.stores().version();
    }

    /// Returns the stores that are there, in the order in which they were added. Cost: O(stores), 256 a lock.
    std::vector<store_status> stores() const {
        std::vector<store_status> out;
        for (std::size_t s = 0;;) {
            std::scoped_lock const guard(core_.planning);
            auto const&            all = core_.state.stores();
            for (std::size_t const end = std::min<std::size_t>(s + 256, all.size()); s < end; ++s) {
                auto const& it = all[static_cast<std::uint16_t>(s)];
                if (detail::is_over(it.state)) continue;
                out.push_back({store_id{static_cast<std::uint16_t>(s)}, it.name, it.state, it.capacity,
                               it.taken() - it.leaving, it.replicas.count, it.since});
            }
            if (s == all.size()) return out;
        }
    }
    /// Returns the store of that name. Errors: no_such_name, with the names that there are.
    store_id store(std::string_view name) const {
        std::scoped_lock const guard(core_.planning);
        return store_id{core_.state.find_store(name)};
    }

    /// Looks at the next `part` copies in a store, going round from call to call, and returns the buffers of those
    /// that are there already.
    static constexpr std::size_t part = 256;
    std::vector<fleet_buffer>    some_in(store_id s) const {
        std::vector<fleet_buffer> out;
        out.reserve(part);
        std::scoped_lock const guard(core_.planning);
        core_.state.go_round(static_cast<std::uint16_t>(s), part, [&](std::uint32_t b) {
            out.emplace_back(core_, b, core_.state.table().buffer(b).generation);
        });
        return out;
    }

private:
    detail::fleet_core&             core_;
    std::deque<fleet_buffer> const& changed_;
    std::deque<demand> const&       demands_;
    bool                            dry_;
};

}  // namespace tenure
