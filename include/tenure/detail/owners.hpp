// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <new>
#include <vector>

#include <tenure/detail/calls.hpp>

namespace tenure::detail {

/// Objects that get one more owner.

/// Keeps a batch from ending for the time of a call that does not touch its memory: if that is out, it stays there.
class kept_open {
public:
    kept_open(batch_record& b, std::uint64_t id, std::uint64_t unless = batch_flags::closed) noexcept
        : batch_(is_root(b) || hold(b, id, unless) ? &b : nullptr) {}
    ~kept_open() {
        if (batch_ && !is_root(*batch_)) let_go_in_place(batch_);
    }
    kept_open(kept_open const&)            = delete;
    kept_open& operator=(kept_open const&) = delete;

    explicit operator bool() const noexcept { return batch_; }

private:
    batch_record* batch_;
};

inline failure failure_of(joining how, batch_record const& to) noexcept {
    switch (how) {
    case joining::over: return {errc::stale_handle};
    case joining::memory_full: return {errc::memory_full, &to, sizeof(membership_list)};
    default: return {};
    }
}

/// The first share: the object goes from its owner into a common of both. stale_handle: another thread was faster.
/// Both are held.
TENURE_COLD inline failure make_common(registry_core& r, batch_record& owner, raw_handle h, extent const& x,
                                       batch_record& to) try {
    fresh_common const common(r, owner);
    struct guard {
        batch_record* owner;
        batch_record* to;
        std::uint64_t id;
        ~guard() {
            if (!owner) return;
            leave_common(*owner, id);
            leave_common(*to, id);
        }
    } undo{&owner, &to, common.id()};
    for (batch_record* b : {&owner, &to})
        if (failure const why = failure_of(join_common(*b, *common, common.id()), *b)) return why;
    telling          stores(owner, *common);
    lane_claim const list(listing_lane(h, x, owner));
    lane_claim const other_list(&(*common).primary);
    giving           g(owner, *common, stores);
    if (failure const why = g.prepare(h)) return why;
    if (!g.commit(h)) return {errc::stale_handle};
    undo.owner = nullptr;
    return {};
} catch (std::bad_alloc const&) {
    return {errc::memory_full, &owner, sizeof(batch_record)};
}

/// The usual share: of what is shared already. Nothing is held, for joining is all there is to do. False: it is
/// not, or just ceases to be.
inline bool share_quickly(registry_core const& r, raw_handle h, batch_record& to, failure& why,
                          bool* joined) noexcept {
    onlooker const here(h);
    if (!is_alive(h)) {
        why = {errc::stale_handle};
        return true;
    }
    extent const        x     = extent_of(h);
    batch_record* const owner = owner_of(x);
    if (!owner || !is_common(*owner) || owner->registry.load(std::memory_order_relaxed) != &r) return false;
    std::uint64_t const id  = owner->id.load(std::memory_order_acquire);
    joining const       how = join_common(to, *owner, id);
    if (how == joining::over) return false;
    if (how == joining::joined && !(is_alive(h) && owner_of(x) == owner)) {  // it has just left it
        leave_common(to, id);
        return false;
    }
    if (how == joining::joined && joined) *joined = true;
    why = failure_of(how, to);
    return true;
}

/// The object belongs to that batch, too. `joined`: set if it did not before.
inline failure share_with(registry_core& r, raw_handle h, std::uint64_t to_id, bool* joined = nullptr) {
    found const to = find_batch(r, to_id);
    if (!to.known || (to.record && is_common(*to.record))) return {errc::no_such_batch};
    if (!to.record) return {errc::batch_ended};
    kept_open const target(*to.record, to_id);
    if (!target) return {errc::batch_ended, to.record};
    h = resolve(h);
    failure why;
    if (share_quickly(r, h, *to.record, why, joined)) return why;
    return with_owner(r, h, nullptr, [&](batch_record& owner, extent const& x) -> failure {
        if (&owner == to.record) return {};
        if (!is_common(owner)) {
            why = make_common(r, owner, h, x, *to.record);
            if (!why && joined) *joined = true;
            return why;
        }
        if (share_quickly(r, h, *to.record, why, joined)) return why;
        if (members_of(owner)) return {errc::stale_handle};  // another thread has just given it away: once more
        return {errc::batch_ended, &owner};                  // the last that had a share has let it go
    });
}

/// As batch_scope::free, for who knows the batch by its id.
inline failure unshare_with(registry_core& r, raw_handle h, std::uint64_t id) {
    found const from = find_batch(r, id);
    if (!from.known) return {errc::no_such_batch};
    if (!from.record) return {errc::batch_ended};
    kept_open const batch(*from.record, id, unless_over);
    if (!batch) return {errc::batch_ended, from.record};
    return free_one(r, h, from.record);
}

/// What can be gone through more than once, with ids in it.
template <class R>
concept id_range = requires(R const& r) {
    { *std::begin(r) } -> std::convertible_to<batch_id>;
    std::end(r);
};

/// To all of them, or to none that had it not before.
template <id_range Ids>
failure broadcast_to(registry_core& r, raw_handle h, Ids const& ids) try {
    std::vector<std::uint64_t> joined;
    joined.reserve(static_cast<std::size_t>(std::distance(std::begin(ids), std::end(ids))));
    for (batch_id const to : ids) {
        bool fresh = false;
        if (failure const why = share_with(r, h, to.value, &fresh)) {
            std::uint64_t const common = common_of(resolve(h));
            for (std::uint64_t const id : joined) {
                batch_record* const b = find_anywhere(id);
                if (!b || !common) continue;
                kept_open const target(*b, id);
                if (target) leave_common(*b, common);
            }
            return why;
        }
        if (fresh) joined.push_back(to.value);
    }
    return {};
} catch (std::bad_alloc const&) {
    return {errc::memory_full};
}

}  // namespace tenure::detail
