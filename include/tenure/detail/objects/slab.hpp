// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <mutex>
#include <string>

#include <tenure/detail/base/barrier.hpp>
#include <tenure/detail/base/sizes.hpp>
#include <tenure/detail/checkpoints/checkpoint_record.hpp>
#include <tenure/detail/objects/batch_figures.hpp>
#include <tenure/detail/objects/lane_resources.hpp>
#include <tenure/detail/objects/recycle.hpp>
#include <tenure/detail/objects/runs.hpp>
#include <tenure/detail/paging/residency.hpp>

namespace tenure::detail {

/// Returns the units of a lane's next run: half of what the lane has. So a batch's memory is at most 1.5 times its
/// objects while it is small, and 1 % more once it is large (runs stop growing at 16 MiB).
inline std::size_t next_run_units(lane const& l, std::size_t needed) noexcept {
    auto const        have   = static_cast<std::size_t>(l.units.load(std::memory_order_relaxed));
    std::size_t const grown  = have < 4 ? 1 : std::min<std::size_t>(std::bit_floor(have / 2), 256);
    std::size_t const at_all = needed > unit_bytes / 4 ? 4 : 1;  // else the end of a run is often too short
    return std::max(grown, at_all);
}

/// Leaves the lane's run. The unused end of the run has no owner, and can be recycled once objects around it end.
inline void leave_run(lane& l) noexcept {
    if (l.in_hole) return leave_hole(l);
    std::uintptr_t const at = l.cursor.load(std::memory_order_relaxed) & cursor_address;
    if (!l.runs || at == l.run_end) return;
    l.runs->used_end.store(at, std::memory_order_relaxed);
    for_units(at, l.run_end, [](place p, std::uintptr_t begin, std::uintptr_t end) {
        std::scoped_lock const guard(p.u->lock);
        if (p.u->tracked.load(std::memory_order_relaxed)) set(p.track().dead, begin, end);
    });
    l.run_end = at;
}

inline bool aim_at_new_run(lane& l, std::size_t needed) noexcept {
    supply&           from  = *l.batch->slabs;
    std::size_t       n     = next_run_units(l, needed);
    std::size_t const least = needed > unit_bytes / 4 ? 2 : 1;
    unit*             u     = has_room(*l.batch, n << unit_shift) ? take_run(from, n, least) : nullptr;
    if (!u && n > least && has_room(*l.batch, least << unit_shift)) u = take_run(from, least, least);
    if (!u) return false;
    n = u->length;
    own_run(u, *l.batch, l);
    close_window(l);  // making room may have ended a batch, whose destructors may have made objects here
    leave_run(l);
    u->next = l.runs;
    l.runs  = u;
    add_relaxed<std::uint64_t>(l.units, n);
    aim(l, u->address, u->address + (n << unit_shift), generation_of(table_word(u->address).load()));
    return true;
}

/// Opens a window for the maker, unless another thread meanwhile asked the batch to stop. This stores the window,
/// then reads the state; that thread changes the state, then clears the window in stop_lanes(), whose heavy
/// barrier pairs with the light one here. So one of the two sees the other.
inline void open_window(lane& l, std::uint64_t top) noexcept {
    l.window_top = top;
    l.window_end.store(top, std::memory_order_relaxed);
    light_barrier();
    if (l.batch->state.load(std::memory_order_relaxed) & batch_flags::closed)
        l.window_end.store(0, std::memory_order_relaxed);
}

/// Gives a lane its first run, from this thread's cache: what most batches need, and all that small ones do.
/// Returns false if the lane has a run, the cache is empty, or refill() has more to consider.
inline bool aim_at_first_run(lane& l, std::size_t needed) noexcept {
    batch_record& b = *l.batch;
    if (b.closed()) return false;  // asked before anything that its reclaimer may be changing
    if (l.run_end != 0 || l.queue.load(std::memory_order_relaxed) || b.limited) return false;
    if (needed > unit_bytes / 4 || !may_make_in(l)) return false;
    run_cache* const c = cache_of(*b.slabs);
    unit* const      u = c ? c->runs[0] : nullptr;
    if (!u) return false;
    c->runs[0] = u->next;
    c->units.store(c->units.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    own_run(u, b, l);
    u->next = nullptr;
    l.runs  = u;
    l.thread.store(&this_thread, std::memory_order_relaxed);
    l.word = table_word(u->address).load(std::memory_order_relaxed);
    l.units.store(1, std::memory_order_relaxed);
    l.run_end = u->address + unit_bytes;
    {
        moving_guard const moving(l);
        l.window_begin.store(u->address, std::memory_order_relaxed);
        l.cursor.store(u->address, std::memory_order_release);
    }
    open_window(l, l.run_end);
    return true;
}

/// Makes room for `needed` bytes at the lane's cursor. Called by the lane's own thread. May call on_soft, whose
/// exceptions pass. Errors: batch_ended, wrong_thread, memory_full or what the store says, limit_exceeded.
TENURE_SLOW inline failure refill(lane& l, std::size_t needed) {
    batch_record& b = *l.batch;
    if (b.closed()) [[unlikely]]
        return {b.why_closed(), &b};  // asked before anything that its reclaimer may be changing
    if (!may_make_in(l)) [[unlikely]]
        return {errc::wrong_thread, &b};
    if (b.limited && notice_deadline(b)) return {b.why_closed(), &b};
    l.thread.store(&this_thread, std::memory_order_relaxed);
    close_window(l);

    std::uint64_t at = l.cursor.load(std::memory_order_relaxed) & cursor_address;
    if (l.run_end - at < needed) {
        bool const any_holes =
            l.holes || l.queue.load(std::memory_order_relaxed) || l.remote.load(std::memory_order_relaxed);
        if ((!any_holes || !aim_at_hole(l, needed)) && !aim_at_new_run(l, needed))
            return {b.slabs->slabs.refusal(), &b, needed};
        at = l.cursor.load(std::memory_order_relaxed) & cursor_address;
    }
    std::uint64_t size = std::min<std::uint64_t>(l.run_end - at, window_bytes);
    if (b.limited) {
        std::uint64_t const offered = size;
        size                        = minds_the_clock(b) ? needed : charge_ahead(b.limited, needed, offered);
        if (would_pass(b.limited, size)) {
            settle_windows();
            size = std::min(size, charge_ahead(b.limited, needed, offered));
        }
        failure const why = charge(b.limited, nullptr, size);
        if (why) return why;
        b.own_charge.fetch_add(size, std::memory_order_relaxed);
    }
    open_window(l, at + size);
    if (b.limited) tell_soft_limits(b.limited);
    return {};
}

/// The bytes of an object, with its entry and the padding before it.
struct bytes_at {
    std::uintptr_t begin = 0;  ///< 0: there is no room
    std::size_t    bytes = 0;
};

constexpr std::uintptr_t align_up(std::uintptr_t a, std::size_t alignment) noexcept {
    return (a + alignment - 1) & ~std::uintptr_t{alignment - 1};
}

/// Returns the address of the object in the bytes that bump() gave.
constexpr std::uintptr_t object_at(std::uintptr_t begin, std::size_t before, std::size_t alignment) noexcept {
    return alignment <= 8 ? begin + before : align_up(begin + before, alignment);
}

/// Takes `bytes`, a rounded extent, from the window; `before` of them lie before an address that is a multiple of
/// `alignment`. `Count` is one_object or 0. Returns `begin` 0 if there is no room.
template <std::uint64_t Count>
[[gnu::always_inline]] inline bytes_at bump(lane& l, std::size_t before, std::size_t bytes,
                                            std::size_t alignment) noexcept {
    std::uint64_t const cursor = l.cursor.load(std::memory_order_relaxed);
    std::uint64_t const at     = cursor & cursor_address;
    if (alignment > 8) bytes = round_extent(object_at(at, before, alignment) - at + bytes - before);
    if (at + bytes > l.window_end.load(std::memory_order_relaxed)) [[unlikely]]
        return {};
    l.cursor.store(cursor + bytes + Count, std::memory_order_relaxed);
    return {at, bytes};
}

/// Reports a refusal in the caller's failure.
struct report_to {
    failure& why;

    bool refill(lane& l, std::size_t needed) const { return !(why = detail::refill(l, needed)); }
    void refuse(failure const& f) const noexcept { why = f; }
};
/// Reports a refusal by an exception.
struct throw_it {
    bool refill(lane& l, std::size_t needed) const {
        if (failure const why = detail::refill(l, needed)) throw_failure(why, "make in batch ");
        return true;
    }
    [[noreturn]] void refuse(failure const& f) const { throw_failure(f, "make in batch "); }
};

template <std::uint64_t Count, class Refusal>
TENURE_SLOW bytes_at bump_after_refill(lane& l, std::size_t before, std::size_t bytes, std::size_t alignment,
                                       Refusal refusal) {
    std::size_t const needed = alignment <= 8 ? bytes : round_extent(bytes + alignment - 8);
    if (aim_at_first_run(l, needed)) [[likely]] {
        if (bytes_at const b = bump<Count>(l, before, bytes, alignment); b.begin) [[likely]]
            return b;
    }
    while (refusal.refill(l, needed))
        if (bytes_at const b = bump<Count>(l, before, bytes, alignment); b.begin) return b;
    return {};
}

/// Takes bytes as bump() does, and refills the window if need be. Returns `begin` 0 if refused; `refusal` has the
/// failure then.
template <std::uint64_t Count, class Refusal>
[[gnu::always_inline]] inline bytes_at bump_or(lane& l, std::size_t before, std::size_t bytes,
                                               std::size_t alignment, Refusal refusal) {
    if (bytes_at const b = bump<Count>(l, before, bytes, alignment); b.begin) [[likely]]
        return b;
    return bump_after_refill<Count>(l, before, bytes, alignment, refusal);
}

/// Rounds a piece of resource() up to whole granules, at least one: none would fit into a closed window.
constexpr std::size_t round_piece(std::size_t bytes) noexcept {
    return (bytes + (bytes == 0) + 7) & ~std::size_t{7};
}

/// Returns whether a piece of resource() has a run of its own: the same when it is allocated and when it comes
/// back.
constexpr bool is_large_piece(std::size_t rounded, std::size_t alignment) noexcept {
    return rounded + alignment > largest_small;
}

/// Allocates bytes without a handle. Returns null if refused, with the reason in `why`.
inline void* allocate_bytes(lane& l, std::size_t bytes, std::size_t alignment, failure& why) {
    if (!is_alignment(alignment) || bytes > largest_object) {
        why = {is_alignment(alignment) ? errc::memory_full : errc::bad_alignment, l.batch, bytes};
        return nullptr;
    }
    std::size_t const rounded = round_piece(bytes);
    void*             p       = nullptr;
    if (is_large_piece(rounded, alignment)) {
        if (unit* const u = take_large(*l.batch, l, 0, rounded, alignment, 0, why))
            p = to_pointer(u->address + u->large_offset.load(std::memory_order_relaxed));
    } else {
        bytes_at const b = bump_or<0>(l, 0, rounded, alignment, report_to{why});
        if (b.begin) p = to_pointer(object_at(b.begin, 0, alignment));
    }
    if (p) unpoison(p, bytes);
    return p;
}

TENURE_SLOW inline void* allocate_or_throw(lane& l, std::size_t bytes, std::size_t alignment) {
    failure     why;
    void* const p = allocate_bytes(l, bytes, alignment, why);
    if (!p) throw_failure(why, "allocate from resource() of batch ");
    return p;
}

TENURE_COLD inline void refuse_over(std::uint64_t serial) {
    std::uint64_t const id = serial >> 63 ? 0 : serial;  // a lane's own number is no batch's id
    raise(error(errc::batch_ended,
                "allocate from resource() of batch " + (id ? '#' + std::to_string(id) : "that is over")));
}

/// Allocates for lane_resource. Throws what allocate_bytes() reports.
[[gnu::always_inline]] inline void* allocate_from(lane& l, std::size_t bytes, std::size_t alignment) {
    if (bytes - 1 < largest_small - 64 && is_alignment(alignment, 64)) [[likely]] {  // 0 bytes: slow path
        std::size_t const rounded = (bytes + 7) & ~std::size_t{7};
        if (bytes_at const b = bump<0>(l, 0, rounded, alignment); b.begin) [[likely]] {
            void* const p = to_pointer(object_at(b.begin, 0, alignment));
            unpoison(p, bytes);
            return p;
        }
    }
    return allocate_or_throw(l, bytes, alignment);
}

/// Frees a large piece of resource() with its run.
inline void free_large_piece(batch_record& b, unit* u) noexcept {
    std::size_t const bytes = u->large_bytes.load(std::memory_order_relaxed);
    note_peak(b);
    unlink_large(b, u);
    b.books.add(&ledger::freed, 0, bytes, b.is_here());
    refund_use(b, bytes);
    give_large(u);
}

/// Frees a large piece of resource(), on any thread that runs a destructor. Leaves it to the end of the batch if
/// that goes on elsewhere. Only marks a piece that a checkpoint covers as given up.
TENURE_SLOW inline void deallocate_large(std::uint64_t id, std::uintptr_t at) {
    batch_record&      b    = *record_of(id);
    bool const         ours = b.is_here() || b.busy_thread.load(std::memory_order_acquire) == &this_thread;
    bool const         held = !ours && hold(b, id, unless_over);
    read_section const here;
    region* const      r = ours || held ? find_region(at) : nullptr;
    unit* const        u = r ? r->at(at)->head.load(std::memory_order_relaxed) : nullptr;
    if (u && b.id.load(std::memory_order_relaxed) == id && u->home.load(std::memory_order_relaxed) == &b) {
        if (held) be_in(b);
        if (has_checkpoint(b) && is_under_checkpoint(b, u->address)) give_up_large(b, u);
        else free_large_piece(b, u);
    }
    if (held) release_hold(&b);
}

/// Frees a large piece of resource(), or what the lane's thread allocated last. The rest goes with the batch.
inline void deallocate_to(lane& l, std::uint64_t id, void* p, std::size_t bytes, std::size_t alignment) {
    std::size_t const    rounded = round_piece(bytes);
    std::uintptr_t const at      = to_address(p);
    if (is_large_piece(rounded, alignment)) [[unlikely]]
        return deallocate_large(id, at);
    // A closed batch's bytes may be another's; a rollback needs those under a checkpoint.
    if (TENURE_ASAN && !l.batch->closed() && !is_under_checkpoint(*l.batch, at)) poison(p, bytes);
    std::uint64_t const cursor = l.cursor.load(std::memory_order_relaxed);
    if ((cursor & cursor_address) != at + rounded || l.window_begin.load(std::memory_order_relaxed) > at) return;
    if (l.thread.load(std::memory_order_relaxed) != &this_thread) return;  // that thread may be making objects
    note_peak(*l.batch);
    l.cursor.store(cursor - rounded, std::memory_order_relaxed);
}

}  // namespace tenure::detail
