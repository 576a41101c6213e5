// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <mutex>
#include <new>
#include <utility>

#include <tenure/detail/barrier.hpp>
#include <tenure/detail/buffer_record.hpp>
#include <tenure/detail/poison.hpp>
#include <tenure/detail/process.hpp>

namespace tenure::detail {

/// Which buffers are just being read or written: so that another thread can tell whether it may take a block away
/// whose user did not ask for that (hazard pointers: Michael, IEEE TPDS 2004). Who comes announces the buffer, and
/// then asks whether its bytes are there; who takes them says that they are not, and then looks at what is
/// announced. So one of them sees the other.
struct access_slot {
    std::atomic<buffer_record const*> at{nullptr};
    access_slot*                      next_made = nullptr;  ///< of all there are, which are never given back
    access_slot*                      next_free = nullptr;
};
inline constinit std::atomic<access_slot*> access_slots{nullptr};

/// From a thread that ends, to others. Under the process's lock.
inline void give_access_slots(access_slot* first) noexcept {
    while (access_slot* const s = first) {
        first              = s->next_free;
        s->next_free       = process.free_slots;
        process.free_slots = s;
    }
}

/// One for this thread; null: memory is full.
TENURE_COLD inline access_slot* more_access_slots() noexcept {
    [[maybe_unused]] auto const* touched = &on_thread_exit;
    {
        std::scoped_lock const guard(process.mutex);
        if (access_slot* const s = process.free_slots) {
            process.free_slots = s->next_free;
            return s;
        }
    }
    auto* const s = new (std::nothrow) access_slot;
    if (!s) return nullptr;
    never_given_back(s);
    s->next_made = access_slots.load(std::memory_order_relaxed);
    while (!access_slots.compare_exchange_weak(s->next_made, s, std::memory_order_release)) {}
    return s;
}

/// Announces the use of a buffer by this thread. They may nest. Costs two stores.
class buffer_access {
public:
    explicit buffer_access(buffer_record const* b) noexcept {
        thread_context& me = this_thread;
        slot_              = me.slots ? std::exchange(me.slots, me.slots->next_free) : more_access_slots();
        if (!slot_) [[unlikely]]
            return;
        slot_->at.store(b, std::memory_order_relaxed);
        light_barrier();
    }
    ~buffer_access() {
        if (!slot_) [[unlikely]]
            return;
        slot_->at.store(nullptr, std::memory_order_release);
        slot_->next_free = std::exchange(this_thread.slots, slot_);
        if (this_thread.exiting) [[unlikely]]
            give_at_exit();
    }
    buffer_access(buffer_access const&)            = delete;
    buffer_access& operator=(buffer_access const&) = delete;

    /// False: memory is full.
    explicit operator bool() const noexcept { return slot_; }

private:
    TENURE_COLD static void give_at_exit() noexcept {
        std::scoped_lock const guard(process.mutex);
        give_access_slots(std::exchange(this_thread.slots, nullptr));
    }

    access_slot* slot_;
};

/// After a heavy_barrier().
inline bool is_accessed(buffer_record const* b) noexcept {
    access_slot const* s = access_slots.load(std::memory_order_acquire);
    while (s && s->at.load(std::memory_order_acquire) != b) s = s->next_made;
    return s;
}

}  // namespace tenure::detail
