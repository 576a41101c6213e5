// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include <tenure/detail/base/barrier.hpp>
#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/memory_tools.hpp>
#include <tenure/detail/batch/process.hpp>

namespace tenure::detail {

/// Announces what a thread is about to use, so that another thread can tell whether it may take that away (hazard
/// pointers: Michael, IEEE TPDS 2004). The user announces the thing, and then looks whether it is still there. The
/// taker marks it as gone, and then looks at what is announced. So one of the two sees the other. The barrier
/// between the two steps costs the user nothing and the taker a microsecond or two: barrier.hpp.
struct hazard_slot {
    std::atomic<void const*>   at{nullptr};
    std::atomic<std::uint32_t> sections{0};          ///< that the thread is in: read_section.hpp
    hazard_slot*               next_made = nullptr;  ///< of all slots, which are never given back
    hazard_slot*               next_free = nullptr;
    thread_context*            owner     = nullptr;  ///< changes under the process's lock
};
TENURE_SHARED inline constinit std::atomic<hazard_slot*> hazard_slots{nullptr};

/// Gives slots of a thread that ends to other threads. The caller holds the process's lock.
inline void give_hazard_slots(hazard_slot* first) noexcept {
    while (hazard_slot* const s = first) {
        first              = s->next_free;
        s->owner           = nullptr;
        s->next_free       = process.free_slots;
        process.free_slots = s;
    }
}

/// Returns a slot for this thread, or null if memory is full.
TENURE_COLD inline hazard_slot* more_hazard_slots() noexcept {
    return_at_exit();
    {
        std::scoped_lock const guard(process.mutex);
        if (hazard_slot* const s = process.free_slots) {
            process.free_slots = s->next_free;
            s->owner           = &this_thread;
            return s;
        }
    }
    auto* const s = new (std::nothrow) hazard_slot;
    if (!s) return nullptr;
    never_given_back(s);
    s->owner     = &this_thread;
    s->next_made = hazard_slots.load(std::memory_order_relaxed);
    while (!hazard_slots.compare_exchange_weak(s->next_made, s, std::memory_order_release)) {}
    return s;
}

/// Announces one thing while it lives. Guards of one thread nest. Costs a few plain stores.
class hazard_guard {
public:
    explicit hazard_guard(void const* what) noexcept {
        thread_context& me = this_thread;
        slot_              = me.slots ? std::exchange(me.slots, me.slots->next_free) : more_hazard_slots();
        if (!slot_) [[unlikely]]
            return;
        slot_->at.store(what, std::memory_order_relaxed);
        light_barrier();
    }
    ~hazard_guard() {
        if (!slot_) [[unlikely]]
            return;
        slot_->at.store(nullptr, std::memory_order_release);
        slot_->next_free = std::exchange(this_thread.slots, slot_);
        if (this_thread.exiting) [[unlikely]]
            give_at_exit();
    }
    hazard_guard(hazard_guard const&)            = delete;
    hazard_guard& operator=(hazard_guard const&) = delete;

    /// Returns false if memory is full: then nothing is announced.
    explicit operator bool() const noexcept { return slot_; }

private:
    TENURE_COLD static void give_at_exit() noexcept {
        std::scoped_lock const guard(process.mutex);
        give_hazard_slots(std::exchange(this_thread.slots, nullptr));
    }

    hazard_slot* slot_;
};

/// Frees the slots of the other threads of the parent, in the child of a fork(), so that what they announced holds
/// nothing up. A new thread may have the address of one of them.
inline void forget_hazards_of_others() noexcept {
    for (hazard_slot* s = hazard_slots.load(std::memory_order_relaxed); s; s = s->next_made) {
        if (!s->owner || s->owner == &this_thread) continue;
        s->at.store(nullptr, std::memory_order_relaxed);
        s->next_free = nullptr;
        give_hazard_slots(s);
    }
}

/// Returns whether some thread has announced `what`. To be called after a heavy_barrier().
inline bool is_announced(void const* what) noexcept {
    hazard_slot const* s = hazard_slots.load(std::memory_order_acquire);
    while (s && s->at.load(std::memory_order_acquire) != what) s = s->next_made;
    return s;
}

}  // namespace tenure::detail
