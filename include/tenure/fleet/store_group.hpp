// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <tenure/detail/base/fork_list.hpp>
#include <tenure/error.hpp>
#include <tenure/fleet/group_core.hpp>
#include <tenure/fleet/view.hpp>
#include <tenure/raise.hpp>
#include <tenure/store/any_store.hpp>
#include <tenure/store/concept.hpp>

namespace tenure {

/// How a store takes part in a group.
struct member_options {
    std::size_t capacity = 0;  ///< bytes that the group may have there; 0: what the store says
    double      distance = 1;  ///< of two copies, a read takes the nearer
};

namespace detail {

class group_store;

/// A store of a group, to make buffers in. They are the group's: so a batch frees all of them together.
class group_place {
public:
    static constexpr store_traits traits{};

    group_place(group_store& group, group_core& core, std::uint16_t number, std::string name)
        : group_(group), core_(core), number_(number), name_(std::move(name)) {}

    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        return core_.allocate(bytes, alignment, number_);
    }
    result<void> deallocate(std::span<block const> many) noexcept { return core_.deallocate(many); }
    result<void> read(block b, std::size_t offset, std::span<std::byte> out) { return core_.read(b, offset, out); }
    result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        return core_.write(b, offset, in);
    }
    store_usage usage() const noexcept { return core_.usage(); }
    std::string describe() const { return name_ + " of " + core_.describe(); }
    any_store   whole() const noexcept;

    std::uint16_t number() const noexcept { return number_; }

private:
    group_store&  group_;
    group_core&   core_;
    std::uint16_t number_;
    std::string   name_;
};

/// A store_group as a store: each of its blocks is in one or several of the group's stores.
class group_store : public std::enable_shared_from_this<group_store> {
public:
    static constexpr store_traits traits{};

    /// Errors: as store_group::add().
    void add(std::string name, any_store store, std::size_t capacity, double distance) {
        std::scoped_lock const guard(adding_);
        places_.emplace_back(*this, core_, static_cast<std::uint16_t>(places_.size()), name);
        if (std::exception_ptr const wrong =
                thrown_by([&] { core_.add(std::move(name), std::move(store), capacity, distance); })) {
            places_.pop_back();
            std::rethrow_exception(wrong);
        }
    }
    any_store place(std::uint16_t number) {
        std::scoped_lock const guard(adding_);
        return std::shared_ptr<group_place>(shared_from_this(), &places_[number]);
    }

    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        return core_.allocate(bytes, alignment, {});
    }
    result<void> deallocate(std::span<block const> many) noexcept { return core_.deallocate(many); }
    result<void> read(block b, std::size_t offset, std::span<std::byte> out) { return core_.read(b, offset, out); }
    result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        return core_.write(b, offset, in);
    }
    store_usage usage() const noexcept { return core_.usage(); }
    std::string describe() const { return core_.describe(); }

    group_core& core() noexcept { return core_; }

private:
    group_core              core_;
    mutable fork_mutex      adding_;
    std::deque<group_place> places_;  // by number
};

inline any_store group_place::whole() const noexcept { return group_.shared_from_this(); }

}  // namespace detail

/// Several stores under names, of which a buffer can have a copy in each: in processes, on devices, on servers. The
/// group is a store, and so is each place in it: make_buffer<float>(n, fleet["gpu0"]). A read takes the nearest
/// copy that answers. A write makes the copy that it writes the only one. A batch's end is one call to each store,
/// however many copies there are. See replicate(), and memory_manager for who makes and drops copies by itself.
///
/// A store that is gone (disconnected, device_unavailable, store_closed) is `lost` from the first call on that says
/// so: buffers with another copy go on, others say store_lost. If it comes back, add() it again.
///
/// Copies of a store_group name the same group. Thread-safe; on one buffer only reads may overlap. Cost beyond the
/// stores' own: two short locks a call. Memory: 100 bytes a copy.
class store_group {
public:
    store_group() : group_(std::make_shared<detail::group_store>()) {}

    /// Adds a store, which nobody else should fill: of what others put there, the group knows nothing. Errors:
    /// std::errc::invalid_argument for an empty name, one that the group has, no capacity where the store does not
    /// say it either, and a distance that is negative or no number; limit_exceeded for the 65,536th store.
    void add(std::string name, any_store store, member_options const& options = {}) const {
        if (!store)
            raise(error(std::make_error_code(std::errc::invalid_argument), "store '" + name + "': there is none"));
        std::size_t const capacity = options.capacity ? options.capacity : store.usage().capacity;
        group_->add(std::move(name), std::move(store), capacity, options.distance);
    }

    /// Returns a store, for buffers to be made in. Errors: no_such_name, with the names that there are.
    any_store operator[](std::string_view name) const { return group_->place(number_of(name)); }

    /// Returns the group as a store: buffers go to the emptiest store that runs.
    operator any_store() const noexcept { return group_; }  // NOLINT(google-explicit-constructor): it is a store

    /// Lets a store receive nothing for now, and give before others; or run again. Errors: no_such_name.
    void pause(std::string_view name) const { set_state(name, store_state::paused); }
    void resume(std::string_view name) const { set_state(name, store_state::running); }
    /// Says that a store is gone, with all that it has, before a call finds that out. Errors: no_such_name.
    void lose(std::string_view name) const { set_state(name, store_state::lost); }

    /// Returns what there is in the stores that are not lost.
    std::vector<store_status> stores() const {
        std::deque<fleet_buffer> const       nothing;
        std::deque<fleet_view::demand> const none;
        return fleet_view(group_->core().fleet(), nothing, none, true).stores();
    }

    friend bool operator==(store_group const& a, store_group const& b) noexcept { return a.group_ == b.group_; }

private:
    friend class memory_manager;

    std::uint16_t number_of(std::string_view name) const {
        detail::fleet_core&    fleet = group_->core().fleet();
        std::scoped_lock const guard(fleet.mutex);
        return fleet.state.find_store(name);
    }
    void set_state(std::string_view name, store_state to) const {
        detail::fleet_core&    fleet = group_->core().fleet();
        std::scoped_lock const guard(fleet.mutex);
        fleet.state.set_state(fleet.state.find_store(name), to);
    }

    std::shared_ptr<detail::group_store> group_;
};

}  // namespace tenure
