// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory_resource>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/word.hpp>
#include <tenure/detail/unit/hole_list.hpp>

namespace tenure::detail {

struct batch_record;
struct entry;
struct lane;
struct thread_context;
struct kept_log;
struct unit;

/// The parts of lane::cursor: an address and, below it, a number of objects.
inline constexpr unsigned      cursor_shift = 16;
inline constexpr std::uint64_t most_objects = (std::uint64_t{1} << cursor_shift) - 1;
inline constexpr std::uint64_t one_object   = 1;
inline constexpr std::size_t   window_bytes = most_objects * 8;  ///< so a window never has more objects

constexpr std::uint64_t  cursor_at(std::uintptr_t address) noexcept { return address << cursor_shift; }
constexpr std::uintptr_t address_in(std::uint64_t cursor) noexcept { return cursor >> cursor_shift; }
constexpr std::uint64_t  objects_in(std::uint64_t cursor) noexcept { return cursor & most_objects; }

/// One thread's place to make objects in one batch: a bump pointer into runs of its own.
///
/// `cursor` holds the next address and, in its lowest bits, the number of objects made since the window began. It
/// is one word, so that one relaxed store for each make keeps both exact for a snapshot on another thread. The
/// address is above, so that cursors compare as their addresses do. Only the lane's own thread writes it.
/// `window_end` is the greatest cursor that the window allows. A thread that asks the batch to stop writes 0 there,
/// so that the next make calls refill().
struct alignas(64) lane {
    std::atomic<std::uint64_t>   cursor{0};
    std::atomic<std::uint64_t>   window_end{0};
    word_t                       word    = 0;        ///< of handles into the current run
    entry*                       entries = nullptr;  ///< objects that have an end to run, newest first
    batch_record*                batch   = nullptr;
    std::uint64_t                run_end = 0;      ///< 0: nothing was made here yet
    std::atomic<thread_context*> thread{nullptr};  ///< the thread that makes here now, or null
    std::atomic<std::uint64_t>   serial{0};        ///< a new one for each use of this lane

    std::atomic<std::uint32_t> moving{0};      ///< odd while the four below change
    std::uint32_t              hole_line = 0;  ///< of `holes`: where the last hole ended
    std::atomic<std::uint64_t> window_begin{0};
    std::atomic<std::uint64_t> bytes_before{0};  ///< made in windows before this one
    std::atomic<std::uint64_t> objects_before{0};
    std::atomic<std::uint64_t> units{0};        ///< in `runs`
    std::uint64_t              window_top = 0;  ///< the address that window_end was set to
    unit*                      runs       = nullptr;
    std::atomic<entry*>        remote{nullptr};  ///< ended by other threads, still on `entries`

    hole_list                  queue;               ///< its units with holes to fill
    std::uintptr_t             holes   = 0;         ///< the unit whose holes are being filled
    bool                       claimed = false;     ///< idle, but a call uses it just now; under the batch's lock
    bool                       in_hole = false;     ///< the current run is a hole
    std::atomic<bool>          lists_moved{false};  ///< `entries` may have some of objects that were transferred
    std::atomic<std::uint32_t> users{0};            ///< entries through it; changed under the batch's lock, or
                                                    ///< by the thread that made a primary lane `taken`
    lane*                                   next = nullptr;
    std::atomic<std::pmr::memory_resource*> resource{nullptr};       ///< a lane_resource, made when first asked for
    std::atomic<kept_log*>                  kept_out{nullptr};       ///< what keep() gave away here, newest first
    entry*                                  oldest_entry = nullptr;  ///< of `entries`, if there are any
};
static_assert(sizeof(lane) == 192);

/// Flags of batch_record::state. They lie above the count of holds and below the low bits of the generation.
///
/// A hold stands for something that must be over before the batch's memory can go: a child elsewhere, a lane, a
/// thread inside. The record is free for another batch when it is both `done` and `released` by its guard or
/// registry.
inline constexpr unsigned      state_tag_shift = 34;
inline constexpr unsigned      no_common_bit   = 33;  ///< of batch_record::members, never of the state
inline constexpr std::uint64_t no_common       = std::uint64_t{1} << no_common_bit;
namespace batch_flags {
inline constexpr std::uint64_t holds    = (1u << 24) - 1;
inline constexpr std::uint64_t crowded  = 1u << 23;  ///< of these: half of those that fit
inline constexpr std::uint64_t ended    = 1u << 24;  ///< the end was asked for
inline constexpr std::uint64_t done     = 1u << 25;  ///< memory is freed
inline constexpr std::uint64_t released = 1u << 26;  ///< no guard refers to the record
inline constexpr std::uint64_t retained = 1u << 27;  ///< ended, cleanup::manual: waits for destroy
inline constexpr std::uint64_t stopping = 1u << 28;  ///< another thread asked the guard to stop
inline constexpr std::uint64_t taken    = 1u << 29;  ///< a thread uses its own lane without having its guard
inline constexpr std::uint64_t undoing  = 1u << 30;  ///< a thread takes or ends a checkpoint, or moves
                                                     ///< a retained batch: no other may enter
inline constexpr std::uint64_t used = 1u << 31;      ///< one of the holds stands for all uses of it, see use_graph
inline constexpr std::uint64_t checkpointed = std::uint64_t{1} << 32;  ///< batch_record::undo is not null
inline constexpr std::uint64_t refusing     = std::uint64_t{1} << 33;  ///< a root in which nothing may be made
inline constexpr std::uint64_t moving       = refusing;  ///< any other: it gets another parent; see descendants.hpp
inline constexpr std::uint64_t closed = ended | done | retained | stopping | undoing;  ///< nothing is made now
inline constexpr std::uint64_t over   = closed & ~undoing;                             ///< nor will be
}  // namespace batch_flags

/// What a batch_record begins with: all that code which makes objects, or follows a pin, knows of it.
struct batch_front {
    lane primary;

    std::atomic<std::uint64_t> id{0};          ///< 0 while the record is between two batches
    std::atomic<std::uint64_t> generation{0};  ///< of the last id
    std::atomic<std::uint64_t> state{batch_flags::ended | batch_flags::done | batch_flags::released};
};

/// What was current on a thread before something else became current, to be restored later.
struct former_current {
    lane*         where   = nullptr;
    std::uint64_t serial  = 0;      ///< the lane's at that time, to tell whether it is still the same
    bool          visited = false;  ///< by set_current_batch: it is held until it is left
};

}  // namespace tenure::detail
