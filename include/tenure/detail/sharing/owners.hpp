// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/life/public_calls.hpp>
#include <tenure/detail/sharing/share_transfer.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// How an object gets one more owner.

/// A batch that gets a share. Its end gives the share up.
struct batch_as_owner {
    batch_record& batch;

    bool    owns(batch_record const& owner) const noexcept { return &owner == &batch; }
    joining join(batch_record& common, std::uint64_t id) noexcept { return join_common(batch, common, id); }
    void    leave(std::uint64_t id) noexcept { leave_common(batch, id); }
};

/// An owner that is no batch. It remembers the common in which it must give up its share.
struct other_owner {
    std::uint64_t common = 0;

    static bool owns(batch_record const&) noexcept { return false; }
    joining     join(batch_record& c, std::uint64_t id) noexcept {
        if (!add_member(c, id)) return joining::over;
        common = id;
        return joining::joined;
    }
    static void leave(std::uint64_t id) noexcept { drop_member(id); }
};

inline failure failure_of(joining how, batch_record const* to) noexcept {
    switch (how) {
    case joining::over: return {errc::stale_handle};
    case joining::memory_full: return {errc::memory_full, to, sizeof(membership_list)};
    default: return {};
    }
}

template <class Owner>
failure make_common_or_throw(registry_core& r, batch_record& owner, raw_handle h, extent const& x, Owner& other) {
    known_sharing.store(&shares_here, std::memory_order_release);
    fresh_common const common(r, owner);
    batch_as_owner     first{owner};
    if (failure const why = failure_of(first.join(*common, common.id()), &owner)) return why;
    struct guard {
        batch_as_owner* first;
        Owner*          other;
        std::uint64_t   id;
        ~guard() {
            if (first) first->leave(id);
            if (other) other->leave(id);
        }
    } undo{&first, nullptr, common.id()};
    if (failure const why = failure_of(other.join(*common, common.id()), &owner)) return why;
    undo.other = &other;
    buffers_among      buffers;
    lane_claim const   list(listing_lane(h, x, owner));
    lane_claim const   other_list(&(*common).primary);
    ownership_transfer g(owner, *common, buffers);
    if (failure const why = g.prepare(h)) return why;
    if (!g.commit(h)) return {errc::stale_handle};
    undo.first = nullptr;
    undo.other = nullptr;
    return {};
}

/// Shares an object for the first time: transfers it from its owner, which is held, to a new common of both
/// owners. Errors: stale_handle if another thread was faster, memory_full, and those of prepare().
template <class Owner>
TENURE_COLD failure make_common(registry_core& r, batch_record& owner, raw_handle h, extent const& x,
                                Owner& other) {
    return run_or<std::bad_alloc>(
        [&] { return make_common_or_throw(r, owner, h, x, other); },
        [&](auto const&) { return failure{errc::memory_full, &owner, sizeof(batch_record)}; });
}

struct share_result {
    bool    known  = true;  ///< false: it is not shared, or just ceases to be; nothing was done
    bool    joined = false;
    failure why{};
};

/// Shares an object that is shared already, the usual case. Holds nothing, because there is only a common to join.
/// Errors: stale_handle, memory_full.
template <class Owner>
share_result share_quickly(registry_core const& r, raw_handle h, Owner& to) noexcept {
    read_section const here;
    auto const [owner, id] = find_owner(h);
    if (!owner) return {.why = {errc::stale_handle}};
    if (!is_common(*owner) || owner->registry.load(std::memory_order_relaxed) != &r) return {false};
    joining const how = to.join(*owner, id);
    if (how == joining::over) return {false};
    if (how == joining::joined && find_owner(h).id != id) {  // the object has just left it
        to.leave(id);
        return {false};
    }
    return {true, how == joining::joined, failure_of(how, nullptr)};
}

/// Makes `to` an owner of any object of the registry. `h` is resolved. Errors: those of with_owner() and
/// make_common(); batch_ended if the last owner just lets the object go.
template <class Owner>
share_result share_among(registry_core& r, raw_handle h, Owner& to) {
    share_result done = share_quickly(r, h, to);
    if (done.known) return done;
    done     = {};
    done.why = with_owner(r, h, nullptr, [&](batch_record& owner, extent const& x) -> failure {
        if (to.owns(owner)) return {};
        if (!is_common(owner)) {
            failure const why = make_common(r, owner, h, x, to);
            done.joined       = !why;
            return why;
        }
        share_result const again = share_quickly(r, h, to);
        done.joined              = again.joined;
        if (again.known) return again.why;
        if (members_of(owner)) return {errc::stale_handle};  // another thread has just transferred it: again
        return {errc::batch_ended, &owner};                  // the last owner with a share has given it up
    });
    return done;
}

/// Makes the batch `to_id` an owner of an object, too. `*joined`: whether it was not one before. `common`: the one
/// that had the object a moment ago, or 0; joining it saves a look at the object. A thread that has just taken the
/// object out of it counts as later than this call. Errors: no_such_batch, over_failure(), and those of
/// share_among().
inline failure share_with(registry_core& r, raw_handle h, std::uint64_t to_id, bool* joined = nullptr,
                          std::uint64_t common = 0) {
    found const to = find_batch(r, to_id);
    if (!to.known || (to.record && is_common(*to.record))) return {errc::no_such_batch};
    if (!to.record) return over_failure(to_id);
    kept_open const target(*to.record, to_id);
    if (!target) return over_failure(to_id);
    batch_as_owner owner{*to.record};
    if (common) {
        joining const how = owner.join(*record_of(common), common);
        if (joined) *joined = how == joining::joined;
        if (how == joining::joined || how == joining::memory_full) return failure_of(how, to.record);
    }
    share_result const done = share_among(r, resolve(h), owner);
    if (joined) *joined = done.joined;
    return done.why;
}

/// Frees an object of the batch `id`, or its share, as batch_scope::free does. Errors: no_such_batch,
/// over_failure(), and those of free_one().
inline failure unshare_with(registry_core& r, raw_handle h, std::uint64_t id) {
    found const from = find_batch(r, id);
    if (!from.known) return {errc::no_such_batch};
    if (!from.record) return over_failure(id);
    kept_open const batch(*from.record, id, unless_over);
    if (!batch) return over_failure(id);
    return free_one(r, h, from.record);
}

/// Prefetches the parts of a batch that joining a common touches.
inline void expect(std::uint64_t id) noexcept {
    batch_record const* const b = record_of(id);
    if (!b) return;
    for (void const* const part : {static_cast<void const*>(&b->state), static_cast<void const*>(&b->lock),
                                   static_cast<void const*>(&b->memberships)})
        __builtin_prefetch(part, 1);
}

inline failure broadcast_or_throw(registry_core& r, raw_handle h, each_id with) {
    std::vector<std::uint64_t> ids, joined;
    with([&](std::uint64_t id) {
        ids.push_back(id);
        return true;
    });
    joined.reserve(ids.size());
    std::uint64_t common = 0;
    std::size_t   next   = 0;
    while (next < std::min<std::size_t>(4, ids.size())) expect(ids[next++]);
    for (std::uint64_t const to : ids) {
        if (next < ids.size()) expect(ids[next++]);
        bool fresh = false;
        if (failure const why = share_with(r, h, to, &fresh, common)) {
            common = common_of(resolve(h));
            for (std::uint64_t const id : joined) {
                batch_record* const b = find_anywhere(id);
                if (!b || !common) continue;
                kept_open const target(*b, id);
                if (target) leave_common(*b, common);
            }
            return why;
        }
        if (fresh) joined.push_back(to);
        if (!common) common = common_of(resolve(h));
    }
    return {};
}

}  // namespace tenure::detail
