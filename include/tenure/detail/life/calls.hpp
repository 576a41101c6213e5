// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include <tenure/detail/batch/deadlines.hpp>
#include <tenure/detail/batch/sharing_front.hpp>
#include <tenure/detail/life/entering.hpp>
#include <tenure/detail/life/public_calls.hpp>
#include <tenure/detail/objects/expiry.hpp>
#include <tenure/detail/objects/ownership_transfer.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Calls on batches and raw handles, of which batch_scope, lane and registry are made. They return a failure
/// instead of throwing. The only user code they run is on_soft callbacks and destructors.

struct found {
    batch_record* record = nullptr;  ///< null: no live batch of the registry has the id
    bool          known  = false;    ///< the id was given out; false for a live batch of another registry
};

/// Returns the batch of this registry with that id. It may be over the next moment, unless the caller prevents
/// that.
inline found find_batch(registry_core const& r, std::uint64_t id) noexcept {
    batch_record* const record = record_of(id);
    if (!record) return {};
    if (record->id.load(std::memory_order_acquire) == id) {
        bool const ours = record->registry.load(std::memory_order_relaxed) == &r;
        return {ours ? record : nullptr, ours};
    }
    std::uint64_t const generation = id >> record_bits;
    return {nullptr, generation != 0 && generation <= record->generation.load(std::memory_order_relaxed)};
}

/// Returns the batch of this registry with that id, or none if it is over. Throws no_such_batch, naming `call`.
inline found find_known(registry_core const& r, std::uint64_t id, char const* call) {
    found const f = find_batch(r, id);
    if (!f.known) raise(error(errc::no_such_batch, call + label_of(id)));
    return f;
}

/// Returns the batch with that id, of any registry; null if it is over or never was.
inline batch_record* find_anywhere(std::uint64_t id) noexcept {
    batch_record* const b = record_of(id);
    return b && b->id.load(std::memory_order_acquire) == id ? b : nullptr;
}

inline batch_status status_of(std::uint64_t state) noexcept {
    if (state & batch_flags::done) return batch_status::done;
    if (state & batch_flags::ended) return batch_status::ending;
    if (state & batch_flags::retained) return batch_status::retained;
    return state & batch_flags::stopping ? batch_status::ending : batch_status::active;
}

/// Returns the status of the batch with that id, whose record `b` is or was.
inline batch_status status_of(batch_record& b, std::uint64_t id) noexcept {
    std::uint64_t const s = b.state.load(std::memory_order_acquire);
    // Its state says last that it is stopped: until then objects can be made.
    errc cause = s & batch_flags::over ? b.cause.load(std::memory_order_acquire) : errc{};
    if (b.id.load(std::memory_order_acquire) != id || !same_batch(s, id)) {
        cause = expiry_of_batch(id);
        if (cause == errc{}) return batch_status::done;
    } else if (timing_used_anywhere.load(std::memory_order_relaxed)) {
        if (!(s & batch_flags::closed) && due_seen(b) && hold_or_root(b, id) && !is_root(b)) {
            if (is_overdue(b)) cause = errc::expired;
            release_hold_in_place(&b);
        }
    }
    if (cause == errc::expired) return batch_status::expired;
    return cause == errc::cancelled ? batch_status::cancelled : status_of(s);
}

/// Returns the id of the batch above this one; 0 for the root.
inline std::uint64_t parent_of(batch_record const& b) noexcept {
    for (;;) {
        batch_record const* const up = b.parent.load(std::memory_order_acquire);
        std::uint64_t const       id = up ? up->id.load(std::memory_order_acquire) : 0;
        if (b.parent.load(std::memory_order_acquire) == up) return id;  // else its record may be another's by now
    }
}

/// Holds a batch other than the root during one call, unless its state has one of the flags `unless`. `brings_in`:
/// first brings the batch in if it is paged out, for a call that touches its memory.
template <bool brings_in>
class call_hold {
public:
    call_hold(batch_record& b, std::uint64_t id, std::uint64_t unless = batch_flags::closed) noexcept
        : batch_(hold_or_root(b, id, unless) ? &b : nullptr) {
        if constexpr (brings_in)
            if (batch_) be_in(b);
    }
    ~call_hold() {
        if (!batch_ || is_root(*batch_)) return;
        if constexpr (brings_in) release_hold(batch_);
        else release_hold_in_place(batch_);
    }
    call_hold(call_hold const&)            = delete;
    call_hold& operator=(call_hold const&) = delete;

    explicit operator bool() const noexcept { return batch_; }

private:
    batch_record* batch_;
};
using held_batch = call_hold<true>;
using kept_open  = call_hold<false>;

/// Calls f(owner, extent) while it holds the object's owner, which must be `expected` if that is not null. If f
/// returns stale_handle for a live object, another thread has just transferred it: f is then called for the next
/// owner. Errors: stale_because(), not_owner, the owner's why_closed(), and those of f.
template <class F>
failure with_owner(registry_core& r, raw_handle h, batch_record const* expected, F f) {
    read_section const here;
    for (;;) {
        if (!is_alive(h)) return {stale_because(h)};
        extent const        x     = extent_of(h);
        batch_record* const owner = owner_of(x);
        if (!owner) continue;  // it is just ending
        std::uint64_t const id = owner->id.load(std::memory_order_acquire);
        bool const ours = expected ? owner == expected : owner->registry.load(std::memory_order_relaxed) == &r;
        if (ours) {  // a hold would not keep another registry from closing
            held_batch const held(*owner, id, unless_over);
            if (held) {
                failure const why = f(*owner, x);
                if (why.code != errc::stale_handle) return why;
                continue;
            }
        }
        if (is_alive(h) && owner_of(x) == owner && owner->id.load(std::memory_order_acquire) == id)
            return {ours ? owner->why_closed() : errc::not_owner, expected ? expected : owner};
    }
}

/// Whether the batch of a live buffer is neither cancelled nor expired, as far as a look tells: false also if
/// nobody watches deadlines, for then only the clock tells.
inline bool is_surely_in_time(registry_core const& r, raw_handle h) noexcept {
    if (!r.timing || !r.timing->used.load(std::memory_order_relaxed)) [[likely]]
        return true;
    if (!r.timing->watched.load(std::memory_order_relaxed)) return false;
    read_section const        here;
    batch_record const* const owner = is_alive(h) ? owner_of(extent_of(h)) : nullptr;
    return owner && owner->cause.load(std::memory_order_acquire) == errc{};
}

/// Returns why a buffer must not be used: it is freed, or its batch is cancelled or expired; errc{} if it may be.
inline errc refusal_of(registry_core& r, raw_handle h) {
    if (!is_alive(h)) return stale_because(h);
    if (is_surely_in_time(r, h)) [[likely]]
        return {};
    return with_owner(r, h, nullptr,
                      [](batch_record& owner, extent const&) -> failure {
                          if (owner.limited) notice_deadline(owner);
                          return {owner.cause.load(std::memory_order_acquire)};
                      })
        .code;
}

/// Returns the lane whose list has the object's entry, for a lane_claim; null if there is none, or `owner`, which
/// is held, has lost the object.
inline lane* listing_lane(raw_handle h, extent const& x, batch_record& owner) noexcept {
    if (!x.header) return nullptr;
    object_lock const guard(x);
    return still_owned(h, x, owner) ? lane_of(x, &owner) : nullptr;
}

/// Transfers an object to the batch `to_id` of the registry, from any thread. `expected`, if not null, must own
/// it. Errors: no_such_batch, over_failure(), and those of with_owner() and prepare().
inline failure transfer_to(registry_core& r, raw_handle h, std::uint64_t to_id,
                           batch_record const* expected = nullptr) {
    found const to = find_batch(r, to_id);
    if (!to.known) return {errc::no_such_batch};
    if (!to.record) return over_failure(to_id);
    held_batch const target(*to.record, to_id, batch_flags::closed);
    if (!target) return over_failure(to_id);
    h                    = resolve(h);
    std::uint64_t common = 0;
    failure const why    = with_owner(r, h, expected, [&](batch_record& from, extent const& x) -> failure {
        if (&from == to.record) return {};
        buffers_among      buffers;
        lane_claim const   list(listing_lane(h, x, from));
        lane_claim const   other_list(&to.record->primary);
        ownership_transfer g(from, *to.record, buffers);
        if (failure const refused = g.prepare(h)) return refused;
        if (!g.commit(h)) return {errc::stale_handle};
        if (is_common(from)) common = from.id.load(std::memory_order_relaxed);
        return {};
    });
    if (common) front_of_sharing().end_if_empty(common);
    return why;
}

/// Keeps one object of `from`, which is held, in its parent, from any thread. An object that the parent or a batch
/// above it already owns stays there. Errors: those of transfer_to() and of
/// share_transfer_front.
inline failure keep_from(batch_record& from, raw_handle h) {
    batch_record&  up  = *from.parent.load(std::memory_order_acquire);
    registry_core& r   = *from.registry.load(std::memory_order_relaxed);
    failure const  own = transfer_to(r, h, up.id.load(std::memory_order_relaxed), &from);
    if (own.code != errc::not_owner) return own;
    read_section const here;
    h                      = resolve(h);
    auto const [owner, id] = find_owner(h);
    if (!owner) return {stale_because(h), &from};
    if (!is_common(*owner)) return owner == &up || is_above(*owner, up) ? failure{} : own;
    auto const shared = front_of_sharing().begin(from, up);
    if (!shared) return {errc::memory_full, &up, sizeof(std::uint64_t)};
    failure const why = shared->prepare(id, h);
    if (!why) shared->commit([](raw_handle) {});
    return why;
}

/// Returns the id of the common that has the object; 0 if the object is not shared or not alive.
inline std::uint64_t common_of(raw_handle h) noexcept {
    read_section const here;
    owner_seen const   o = find_owner(h);
    return o.record && is_common(*o.record) ? o.id : 0;
}

/// Frees one object, from any thread. `expected`, if not null, must own it; if that batch has a share, gives up
/// only the share, unless the object is to be dropped. Errors: those of with_owner(), not_restorable,
/// object_pinned, not_adopted.
inline failure free_one(registry_core& r, raw_handle h, batch_record* expected = nullptr,
                        end_of_object how = by_destroying) {
    h                    = resolve(h);
    std::uint64_t common = 0;
    failure const why    = with_owner(r, h, expected, [&](batch_record& owner, extent const& x) -> failure {
        if (has_checkpoint(owner) && is_under_checkpoint(owner, x.begin)) return {errc::not_restorable, &owner};
        lane_claim const list(listing_lane(h, x, owner));
        if (errc const refused = free_object(owner, h, how); refused != errc{}) return {refused, &owner};
        if (is_common(owner)) common = owner.id.load(std::memory_order_relaxed);
        return {};
    });
    if (common) front_of_sharing().end_if_empty(common);
    if (why.code != errc::not_owner || !expected || how == by_dropping) return why;
    common = common_of(h);
    return common && front_of_sharing().leave(*expected, common) ? failure{} : why;
}

inline lane* lane_of_root(registry_core& r) {
    thread_context& me = this_thread;
    if (me.root_lane) return me.root_lane;
    return_at_exit();
    return me.root_lane = enter_lane(*r.root, false);
}

/// Leaves every lane that set_current_batch has entered on this thread. Called when the thread ends.
inline void leave_visited() noexcept {
    former_current f = suspend_for(nullptr);
    leave(f);
    for (batch_record* b = this_thread.newest; b; b = b->older) leave(b->previous);
}

/// Makes `to` current on this thread, and leaves the lane that was if it was visited. `visited`: the caller has
/// entered `to`, and the next call leaves it.
inline void switch_to(lane* to, bool visited) noexcept {
    former_current before = suspend_for(to);
    this_thread.visiting  = visited;
    leave(before);
}

}  // namespace tenure::detail
