// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <source_location>
#include <utility>

#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/uses/pin_guard.hpp>
#include <tenure/detail/uses/registry_uses.hpp>

namespace tenure::detail {

/// A pin, or why there is none. `moved`: the object is another batch's by now.
struct pin_attempt {
    failure     why{};
    bool        moved = false;
    pin_record* pin   = nullptr;
};

/// Pins an object that was `owner`'s a moment ago, when that batch had this id.
inline pin_attempt pin_of(batch_record& user, batch_record& owner, std::uint64_t id, raw_handle h, extent const& x,
                          bool borrowed, std::source_location where) noexcept {
    registry_uses* const in = uses_of(*user.registry.load(std::memory_order_relaxed));
    if (!in) return {{errc::no_feature, &user}};
    use_graph&       uses = in->graph;
    std::unique_lock graph(uses.mutex);
    if (user.closed()) return {{user.why_closed(), &user}};
    pinned_object* o = uses.find(x.begin);
    pin_attempt    done{{errc::memory_full, &user, sizeof(pin_record)}};
    if (o) {
        if (!is_alive(h)) return {{errc::stale_handle, &user}};
        if (borrowed && uses.is_borrowed(user, *o)) return {};
    } else {
        // Sets the owner's flag, then takes the object's lock. A thread that frees or transfers the object takes
        // the lock, then reads the flag. So one of the two sees the other.
        if (!uses.hold(owner, id)) return {{}, true};
        o = uses.add(x.begin, owner);
        if (o) {
            object_lock const guard(x);
            if (!still_owned(h, x, owner)) done = {{}, true};
        }
    }
    if (pin_record* const p = !o || done.moved ? nullptr : uses.add(user, *o, borrowed, where)) {
        batch_record& now = *o->owner;
        if (now.paging.load(std::memory_order_acquire) != paging_state::in) [[unlikely]] {
            now.state.fetch_add(1, std::memory_order_acq_rel);
            graph.unlock();
            be_in(now);
            release_hold(&now);
        }
        return {{}, false, p};
    }
    if (o) uses.remove(*o);
    in->leave(std::move(graph));
    return done;
}

/// Returns why `user` has no pin of `owner`'s object. `ours`: both are in one registry; if not, `user` may be
/// over, and its record another registry's.
TENURE_COLD inline failure not_pinned(batch_record const& user, batch_record const& owner, bool ours) noexcept {
    if (ours) return {owner.why_closed(), &owner};
    if (user.closed()) return {user.why_closed(), &user};
    return {errc::not_owner, &owner};
}

/// Pins the object for `user`, which cannot go meanwhile. Any thread may call this.
inline pin_attempt pin_for(batch_record& user, raw_handle h, bool borrowed, std::source_location where) noexcept {
    registry_core const* const r = user.registry.load(std::memory_order_relaxed);
    if (!r) return {{user.why_closed(), &user}};
    look_at_the_clock(user, user.id.load(std::memory_order_relaxed));
    h = resolve(h);
    read_section const here;
    for (;;) {
        if (!is_alive(h)) return {{stale_because(h), &user}};
        extent const        x     = extent_of(h);
        batch_record* const owner = owner_of(x);
        if (!owner) continue;  // it is just ending
        std::uint64_t const id   = owner->id.load(std::memory_order_acquire);
        bool const          ours = owner->registry.load(std::memory_order_relaxed) == r;
        if (ours) {
            pin_attempt const done = pin_of(user, *owner, id, h, x, borrowed, where);
            if (!done.moved) return done;
        }
        if (std::uint64_t const s = owner->state.load(std::memory_order_acquire);
            ours && same_batch(s, id) && s & batch_flags::undoing) {
            if (!await_checkpointing(*owner, true)) return {{errc::batch_in_use, owner}};
            continue;  // also if the checkpoint was over before this thread looked
        }
        if (is_alive(h) && owner_of(x) == owner && owner->id.load(std::memory_order_acquire) == id)
            return {not_pinned(user, *owner, ours)};
    }
}

/// Borrows an object as pin_for() does, for a batch known by its id.
inline failure borrow_for(registry_core& r, std::uint64_t user, raw_handle h, std::source_location where) noexcept {
    found const by = find_batch(r, user);
    if (!by.known) return {errc::no_such_batch};
    if (!by.record) return over_failure(user);
    held_batch const held(*by.record, user, batch_flags::closed);
    return held ? pin_for(*by.record, h, true, where).why : over_failure(user);
}

TENURE_DECL pin_guard::pin_guard(lane const& user, raw_handle h, std::source_location where,
                                 failure& why) noexcept {
    pin_attempt const done = pin_for(*user.batch, h, false, where);
    why                    = done.why;
    if (why) return;
    pin_    = done.pin;
    user_   = user.batch;
    serial_ = done.pin->serial.load(std::memory_order_relaxed);
}

TENURE_DECL void pin_guard::release_pin() noexcept {
    read_section const here;  // the batch may end, and its record go to a registry that closes
    if (holds()) {
        registry_uses& in = *uses_of(*static_cast<batch_record*>(user_)->registry.load(std::memory_order_relaxed));
        std::unique_lock graph(in.graph.mutex);
        if (holds()) in.graph.release(*pin_);
        in.leave(std::move(graph));
    }
    pin_ = nullptr;
}

}  // namespace tenure::detail
