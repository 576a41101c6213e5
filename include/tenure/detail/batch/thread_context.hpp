// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/batch/lane.hpp>

namespace tenure::detail {

class ancestor_is_current;
struct hazard_slot;
struct registry_core;
struct resource_chunk;
struct run_cache;

/// What a thread knows of itself. Trivial, so that the compiler reads it without an initialisation check.
struct thread_context {
    lane*         current      = nullptr;
    batch_record* newest       = nullptr;  ///< of the open guards of this thread
    run_cache*    cache        = nullptr;  ///< of the registry used last
    std::uint64_t cache_uid    = 0;
    batch_record* records      = nullptr;  ///< free ones
    std::uint32_t record_count = 0;
    lane*         root_lane    = nullptr;  ///< of the global registry's root, if this thread made something there
    bool          visiting     = false;    ///< `current` is held: it is there by set_current_batch
    bool          exiting      = false;
    bool          counted      = false;    ///< among process.threads
    std::uint32_t listed_ends  = 0;        ///< ends that a rollback may wait for: freeing.hpp, end_descendants()
    std::uint32_t undoing      = 0;        ///< checkpoints that it takes or ends
    std::uint64_t over         = 0;        ///< the batch that a current over_record_of() stands for
    hazard_slot*  slots        = nullptr;  ///< free ones
    hazard_slot*  reader       = nullptr;  ///< counts its read_sections, if it has one
    std::size_t   unannounced  = 0;        ///< read_sections that no slot counts
    batch_record* reclaiming   = nullptr;  ///< the batch that this thread is freeing in the background

    ancestor_is_current* ending = nullptr;  ///< which batch is current if `current` is null;
                                            ///< null: the root of the global registry

    registry_core* release    = nullptr;  ///< the registry whose unused batches this thread is releasing
    bool           more_to_go = false;    ///< that release has come upon more

    void (*leave_visited)() noexcept = nullptr;  ///< set when the thread has used set_current_batch

    resource_chunk* resources          = nullptr;  ///< where its lane_resources come from
    std::uint32_t   resources_taken    = 0;        ///< how many of these it has taken
    void (*leave_resources)() noexcept = nullptr;
};

TENURE_SHARED inline constinit thread_local thread_context this_thread{};

/// Returns whether this thread may make objects in a lane: not if it is that of another thread's guard. A caller
/// that asked for a lane, or entered, must see to it that one thread at a time uses it.
[[gnu::always_inline]] inline bool may_make_in(lane const& l) noexcept {
    thread_context const* const maker = l.thread.load(std::memory_order_relaxed);
    return maker == &this_thread || !maker || l.users.load(std::memory_order_relaxed) > 0;
}

}  // namespace tenure::detail
