// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/batch/holding.hpp>
#include <tenure/detail/batch/release.hpp>
#include <tenure/detail/batch/sharing_front.hpp>
#include <tenure/detail/life/ending.hpp>
#include <tenure/detail/sharing/membership_list.hpp>

namespace tenure::detail {

/// Begins commons, lets batches join and leave them, and ends them.

/// Commons that are over, until this thread ends them: one after another, because the end of one may release the
/// next, and a long chain must not be a deep recursion.
struct commons_to_end {
    batch_record* first = nullptr;  ///< linked by next_along, which otherwise only loose batches use
    batch_record* last  = nullptr;
    bool          busy  = false;
};
TENURE_SHARED inline constinit thread_local commons_to_end over_here{};

inline void end_common(batch_record& c) noexcept {
    commons_to_end& all                            = over_here;
    c.next_along                                   = nullptr;
    (all.first ? all.last->next_along : all.first) = &c;
    all.last                                       = &c;
    if (std::exchange(all.busy, true)) return;
    while (batch_record* const next = all.first) {
        all.first = next->next_along;
        end_record(*next, next->id.load(std::memory_order_relaxed), true);
    }
    all.busy = false;
}

/// Adds a member to the common with that id. Returns false if the common is over.
inline bool add_member(batch_record& c, std::uint64_t id) noexcept {
    std::uint64_t n = c.members.load(std::memory_order_relaxed);
    do {
        if (!same_batch(n, id) || !(n & members_mask)) return false;
    } while (!c.members.compare_exchange_weak(n, n + 1, std::memory_order_acq_rel));
    return true;
}

/// Removes one member, or with `all` every member, from the common with that id. The common ends with its last
/// member. Does nothing if it is over.
inline void drop_member(std::uint64_t id, bool all = false) noexcept {
    batch_record& c = *record_of(id);
    std::uint64_t n = c.members.load(std::memory_order_relaxed), next = 0;
    do {
        if (!same_batch(n, id) || !(n & members_mask)) return;
        next = all ? n & ~members_mask : n - 1;
    } while (!c.members.compare_exchange_weak(n, next, std::memory_order_acq_rel));
    if (!(next & members_mask)) end_common(c);
}

inline bool is_over(std::uint64_t id) noexcept {
    batch_record const& c = *record_of(id);
    std::uint64_t const n = c.members.load(std::memory_order_relaxed);
    return !same_batch(n, id) || !(n & members_mask);
}

/// Takes over `larger`, adding the commons that are not over, and leaves the old list in it to be deleted. Called
/// under the batch's lock.
inline void grow(batch_record& b, membership_list::owned& larger) noexcept {
    membership_list::owned old(b.memberships);
    if (old)
        old->for_each([&](std::uint64_t id) {
            if (!is_over(id)) larger->add(id);
        });
    b.memberships = larger.release();
    larger        = std::move(old);
}

/// The outcome of joining a common. `full`: the batch has no list, or one without room.
enum class joining { full, joined, was_member, over, memory_full };

/// Joins a common if the batch's list has room. Called under the batch's lock.
inline joining join_listed(batch_record& b, batch_record& c, std::uint64_t id) noexcept {
    membership_list* const l = b.memberships;
    if (l && l->has(id)) return joining::was_member;
    if (!l || l->full()) return joining::full;
    if (!add_member(c, id)) return joining::over;
    l->add(id);
    return joining::joined;
}

/// Gives `b`, which is held, a share in the common. Cost: a lock, an increment, and an allocation if its list is
/// full.
inline joining join_common(batch_record& b, batch_record& c, std::uint64_t id) noexcept {
    for (;;) {
        std::size_t room = 0;
        {
            std::scoped_lock const guard(b.lock);
            if (joining const how = join_listed(b, c, id); how != joining::full) return how;
            if (b.memberships) room = b.memberships->live() * 2;
        }
        membership_list::owned more = membership_list::make(room);  // outside the lock, as is the old one's end
        if (!more) return joining::memory_full;
        std::scoped_lock const guard(b.lock);
        b.touch();
        if (membership_list const* const l = b.memberships; !l || (l->full() && l->live() < more->room()))
            grow(b, more);
        if (joining const how = join_listed(b, c, id); how != joining::full) return how;
    }
}

inline bool is_member(batch_record& b, std::uint64_t id) noexcept {
    std::scoped_lock const guard(b.lock);
    return b.memberships && b.memberships->has(id);
}

/// Gives up the batch's share in the common. Returns false if it had none.
inline bool leave_common(batch_record& b, std::uint64_t id) noexcept {
    {
        std::scoped_lock const guard(b.lock);
        if (!b.memberships || !b.memberships->remove(id)) return false;
    }
    drop_member(id);
    return true;
}

/// Leaves all commons at the end of a batch, the one joined last first.
inline void leave_commons(batch_record& b) noexcept {
    membership_list::owned all(std::exchange(b.memberships, nullptr));
    while (std::uint64_t const id = all->pop()) drop_member(id);
}

/// Makes a common that has no objects yet and one member: this guard.
class fresh_common {
public:
    /// Opens a common for an object of `owner`, with that batch's name and place. It goes out as that batch does,
    /// but never just because a thread left it. Throws std::bad_alloc.
    explicit fresh_common(registry_core& r, batch_record const& owner) {
        std::string const name = name_of(owner);
        batch_options     options{.name = name};
        if (owner.residency != tenure::residency::memory) options.residency = tenure::residency::automatic;
        options.priority = owner.rest.priority.load(std::memory_order_relaxed);
        common_          = open_batch(r, r.root, &options, false, owner.where.load(std::memory_order_relaxed));
        leave_loose(*common_.record);  // ends of other batches need not look at it
        common_.record->members.store(generation_tag(common_.id) | 1, std::memory_order_release);
        hold(*common_.record, common_.id);  // who frees the object at once ends the common, whoever its members are
    }
    ~fresh_common() {
        drop_member(common_.id);
        release_hold(common_.record);
    }
    fresh_common(fresh_common const&)            = delete;
    fresh_common& operator=(fresh_common const&) = delete;

    batch_record& operator*() const noexcept { return *common_.record; }
    std::uint64_t id() const noexcept { return common_.id; }

private:
    opened_batch common_;
};

}  // namespace tenure::detail
