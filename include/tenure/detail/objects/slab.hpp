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
#include <tenure/detail/batch/checkpoint.hpp>
#include <tenure/detail/batch/paging.hpp>
#include <tenure/detail/batch/release.hpp>
#include <tenure/detail/objects/batch_figures.hpp>
#include <tenure/detail/objects/bump.hpp>
#include <tenure/detail/objects/lane_resource.hpp>
#include <tenure/detail/objects/recycle.hpp>
#include <tenure/detail/objects/resource_chunks.hpp>
#include <tenure/detail/objects/runs.hpp>
#include <tenure/detail/objects/throwing.hpp>

namespace tenure::detail {

/// Returns the units of a lane's next run: half of what the lane has. So a batch's memory is at most 1.5 times its
/// objects while it is small, and 1 % more once it is large (runs stop growing at 16 MiB).
inline std::size_t next_run_units(lane const& l, std::size_t needed) noexcept {
    auto const        have   = static_cast<std::size_t>(l.units.load(std::memory_order_relaxed));
    std::size_t const grown  = have < 4 ? 1 : std::min<std::size_t>(std::bit_floor(have / 2), 256);
    std::size_t const at_all = needed > unit_bytes / 4 ? 4 : 1;  // else the end of a run is often too short
    return std::max(grown, at_all);
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

/// Opens a window of the batch's lane for its maker, unless another thread meanwhile asked the batch to stop. This
/// stores the window, then reads the state; that thread changes the state, then clears the window in stop_lanes(),
/// whose heavy barrier pairs with the light one here. So one of the two sees the other.
inline void open_window(lane& l, batch_record const& b, std::uintptr_t top) noexcept {
    l.window_top = top;
    l.window_end.store(cursor_at(top) | most_objects, std::memory_order_relaxed);
    light_barrier();
    if (b.state.load(std::memory_order_relaxed) & batch_flags::closed)
        l.window_end.store(0, std::memory_order_relaxed);
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
        bytes_at const b = bump_or<0>(l, 0, rounded, alignment, nullptr, report_to{why});
        if (b.begin) p = to_pointer(object_at(b.begin, 0, alignment));
        if (p) shut_if_recorded(l);  // no object is made in what was for the alignment
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

TENURE_COLD inline void refuse_over(std::uint64_t id) {
    raise(error(errc::batch_ended, "allocate from a former resource() of batch " + label_of(id)));
}

/// Allocates for lane_resource. Throws what allocate_bytes() reports.
[[gnu::always_inline]] inline void* allocate_from(lane& l, std::size_t bytes, std::size_t alignment) {
    if (bytes - 1 < largest_small - 64 && is_alignment(alignment, 64)) [[likely]] {  // 0 bytes: slow path
        std::size_t const rounded = (bytes + 7) & ~std::size_t{7};
        if (bytes_at const b = bump(l, 0, rounded, alignment, 0); b.begin) [[likely]] {
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
    b.add(&ledger::freed, 0, bytes, b.is_here());
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
    if (TENURE_ASAN && !l.batch->closed() && !is_under_checkpoint(*l.batch, at)) poison(p, bytes);
    std::uint64_t const cursor = l.cursor.load(std::memory_order_relaxed);
    if (address_in(cursor) != at + rounded || l.window_begin.load(std::memory_order_relaxed) > at) return;
    if (l.thread.load(std::memory_order_relaxed) != &this_thread) return;  // that thread may be making objects
    note_peak(*l.batch);
    l.cursor.store(cursor - cursor_at(rounded), std::memory_order_relaxed);
}

}  // namespace tenure::detail
