// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/batch/hazard.hpp>

namespace tenure::detail {

/// Keeps memory that a handle may lead to from being unmapped while a thread follows the handle without holding
/// its batch: a read-side critical section, as in RCU (McKenney and Slingwine, PDCS 1998).
/// docs/internals/reading.md tells who may look at which memory, and why the order below is enough.
///
/// A reader enters a section, and only then looks at the handle's word or at the table of regions (find_region()).
/// What it finds stays mapped until the section ends. A thread that unmaps regions marks them as leaving, puts
/// them on the list `departing`, and unmaps them if no section is open that may have begun before; otherwise the
/// last reader unmaps them.
///
/// Sections nest, may be long, and run user code. They must not end under a lock, because departing memory then
/// goes back to its store. A thread counts its sections in a slot of its own. That costs two plain stores, which a
/// signal handler may interrupt, because it leaves the count as it found it.

/// Sections of threads that have no slot, because there was no memory for one, or because they are ending.
TENURE_SHARED inline constinit std::atomic<std::size_t> unannounced{0};

/// The memory of stores that no batch uses any more, not unmapped yet.
TENURE_SHARED inline constinit std::atomic<supply*> departing{nullptr};

/// Unmaps what is departing, unless a thread may be looking at it.
void end_departing() noexcept;

/// Returns a slot for this thread's sections, or null if there is none; the section is then among the unannounced.
TENURE_COLD inline hazard_slot* begin_first_section() noexcept {
    thread_context& me = this_thread;
    if (!me.exiting) me.reader = more_hazard_slots();
    if (!me.reader) {
        ++me.unannounced;
        unannounced.fetch_add(1, std::memory_order_seq_cst);
        return nullptr;
    }
    me.reader->next_free = nullptr;
    return me.reader;
}

TENURE_COLD inline void end_unannounced_section() noexcept {
    --this_thread.unannounced;
    unannounced.fetch_sub(1, std::memory_order_seq_cst);
}

class read_section {
public:
    [[gnu::always_inline]] read_section() noexcept : slot_(this_thread.reader) {
        if (!slot_ && !(slot_ = begin_first_section())) [[unlikely]]
            return;
        slot_->sections.store(slot_->sections.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        light_barrier();
    }
    [[gnu::always_inline]] ~read_section() {
        if (slot_) [[likely]]
            slot_->sections.store(slot_->sections.load(std::memory_order_relaxed) - 1, std::memory_order_release);
        else end_unannounced_section();
        light_barrier();
        if (departing.load(std::memory_order_relaxed)) [[unlikely]]
            end_departing();
    }
    read_section(read_section const&)            = delete;
    read_section& operator=(read_section const&) = delete;

private:
    hazard_slot* slot_;
};

/// Returns whether a section may be open that began before the caller's last change. Costs a microsecond or two.
inline bool is_read() noexcept {
    heavy_barrier();
    if (unannounced.load(std::memory_order_seq_cst)) return true;
    hazard_slot const* s = hazard_slots.load(std::memory_order_acquire);
    while (s && s->sections.load(std::memory_order_acquire) == 0) s = s->next_made;
    return s;
}

/// Forgets the sections of other threads, in the child of a fork(), where those threads do not exist.
inline void forget_readers_of_others() noexcept {
    for (hazard_slot* s = hazard_slots.load(std::memory_order_relaxed); s; s = s->next_made)
        if (s->owner != &this_thread) s->sections.store(0, std::memory_order_relaxed);
    unannounced.store(this_thread.unannounced, std::memory_order_relaxed);
}

}  // namespace tenure::detail
