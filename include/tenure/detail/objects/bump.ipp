// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <tenure/detail/batch/deadlines.hpp>
#include <tenure/detail/batch/finalizer.hpp>
#include <tenure/detail/batch/loans.hpp>
#include <tenure/detail/batch/object_recorder.hpp>
#include <tenure/detail/objects/bump.hpp>
#include <tenure/detail/objects/slab.hpp>

namespace tenure::detail {

/// Gives a lane of this thread its first run, from the thread's cache: what most batches need, and all that small
/// ones do. Returns false if the lane has a run, the cache is empty, or refill() has more to consider. Calls
/// nothing.
[[gnu::always_inline]] inline bool aim_at_first_run(lane& l, std::size_t bytes) noexcept {
    constexpr auto        relaxed = std::memory_order_relaxed;
    thread_context const& me      = this_thread;
    batch_record&         b       = *l.batch;
    if (b.refuses()) return false;  // before anything that its reclaimer may be changing
    if (l.run_end != 0 || b.limited || bytes > unit_bytes / 4 || l.thread.load(relaxed) != &me) return false;
    run_cache* const c = me.cache;
    if (!c || me.cache_uid != b.slabs->uid || under_valgrind) return false;
    unit* const u = c->runs[0];
    if (!u) return false;
    c->runs[0] = u->next;
    c->units.store(c->units.load(relaxed) - 1, relaxed);
    u->home.store(&b, std::memory_order_release);
    u->maker.store(&l, std::memory_order_release);
    u->taken_for(b.id.load(relaxed));
    u->origin = c;
    u->next   = nullptr;
    l.runs    = u;
    l.units.store(1, relaxed);
    std::uintptr_t const at  = u->address;
    std::uintptr_t const end = at + unit_bytes;
    l.word                   = table_word(at).load(relaxed);
    l.run_end                = end;
    {
        moving_guard const moving(l);
        l.window_begin.store(at, relaxed);
        l.cursor.store(cursor_at(at), std::memory_order_release);
    }
    open_window(l, b, end);
    shut_if_recorded(l);
    return true;
}

TENURE_COLD inline void note(object_recorder& in, lane const& l, bytes_at at, finalizer const& what,
                             void const* caller) noexcept {
    std::size_t const before = before_object(what), alignment = what.alignment();
    void* const       object = to_pointer(object_at(at.begin, before, alignment));
    in.note({{object, word_of_small(l, at, before, alignment)}, at.begin, at.bytes, what}, caller);
}

/// Makes room at the lane's cursor, as make_room(), which `caller` called. Where objects are recorded there is room
/// for this one alone. Errors as make_room().
TENURE_SLOW inline failure refill(lane& l, std::size_t bytes, finalizer const* what, void const* caller) {
    batch_record&     b      = *l.batch;
    std::size_t const needed = what ? room_for(bytes, what->alignment()) : bytes;
    if (b.refuses()) [[unlikely]]
        return {b.why_closed(), &b};  // before anything that its reclaimer may be changing
    if (!may_make_in(l)) [[unlikely]]
        return {errc::wrong_thread, &b};
    if (b.limited && notice_deadline(b)) return {b.why_closed(), &b};
    l.thread.store(&this_thread, std::memory_order_relaxed);
    close_window(l);

    std::uintptr_t at = address_in(l.cursor.load(std::memory_order_relaxed));
    if (object_recorder* const r = former_recorder_of(b))
        if (at < l.run_end) r->forget(at);  // a make that came to nothing
    if (l.run_end - at < needed) {
        bool const any_holes =
            l.holes || l.queue.any() || l.remote.load(std::memory_order_relaxed) || b.slabs->recyclable.any();
        if ((!any_holes || !aim_at_hole(l, needed)) && !aim_at_new_run(l, needed))
            return {b.slabs->slabs.refusal(), &b, needed};
        at = address_in(l.cursor.load(std::memory_order_relaxed));
    }
    object_recorder* const recorder = recorder_of(b);
    std::uint64_t          size     = std::min<std::uint64_t>(l.run_end - at, window_bytes);
    if (recorder) size = what ? extent_at(at, before_object(*what), bytes, what->alignment()) : bytes;
    if (b.limited) {
        std::uint64_t const offered = size;
        size = recorder ? size : minds_the_clock(b) ? needed : charge_ahead(b.limited, needed, offered);
        if (would_pass(b.limited, size)) {
            settle_windows();
            size = std::min(size, charge_ahead(b.limited, needed, offered));
        }
        if (failure const why = charge_or_borrow(b, [&] { return charge(b.limited, nullptr, size); })) return why;
        b.own_charge.fetch_add(size, std::memory_order_relaxed);
    }
    open_window(l, b, at + size);
    if (!recorder) {
        shut_if_recorded(l);  // since a moment ago
        if (b.limited) tell_soft_limits(b.limited);
        return {};
    }
    if (b.limited) {
        shut_if_recorded(l);  // what on_soft makes here comes here, too
        tell_soft_limits(b.limited);
        if (l.window_top != at + size || address_in(l.cursor.load(std::memory_order_relaxed)) != at) return {};
        open_window(l, b, at + size);
    }
    if (what) note(*recorder, l, {at, size}, *what, caller);
    return {};
}

TENURE_SLOW inline bool refill_or_refuse(lane& l, std::size_t bytes, finalizer const* what, void const* caller,
                                         failure& why) {
    why = refill(l, bytes, what, caller);
    return !why;
}

TENURE_SLOW inline void refill_or_throw(lane& l, std::size_t bytes, finalizer const* what, void const* caller) {
    if (failure const refused = refill(l, bytes, what, caller)) throw_failure(refused, "make in batch ");
}

TENURE_SLOW TENURE_DECL bool make_room(lane& l, std::size_t bytes, finalizer const* what, failure& why) {
    return aim_at_first_run(l, bytes) || refill_or_refuse(l, bytes, what, __builtin_return_address(0), why);
}

TENURE_SLOW TENURE_DECL void make_room_or_throw(lane& l, std::size_t bytes, finalizer const* what) {
    if (!aim_at_first_run(l, bytes)) refill_or_throw(l, bytes, what, __builtin_return_address(0));
}

}  // namespace tenure::detail
