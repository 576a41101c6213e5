// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tenure/detail/base/os.hpp>
#include <tenure/detail/batch/batch_record.hpp>
#include <tenure/detail/batch/progress.hpp>
#include <tenure/detail/batch/thread_context.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure::detail {

inline void note_wait(batch_record& b, wait_for what, std::uint64_t ns) noexcept {
    b.touch();
    b.rest.waited[static_cast<std::size_t>(what)].fetch_add(ns, std::memory_order_relaxed);
}

/// This thread waits, as long as this lives: which counts for its current batch. That stays meanwhile, as the
/// thread is inside. Cost: two readings of the clock.
class waiting_here {
public:
    /// `waits`: false if this turns out to be no wait.
    explicit waiting_here(wait_for what, bool waits = true) noexcept
        : batch_(waits && this_thread.current ? this_thread.current->batch : nullptr),
          what_(what),
          begin_(batch_ ? exact_now() : 0),
          told_(batch_ ? batch_->rest.waiting_now.begin(what, begin_) : nullptr) {}
    ~waiting_here() {
        waits_under_way::end(told_);
        if (batch_) note_wait(*batch_, what_, exact_now() - begin_);
    }
    waiting_here(waiting_here const&)            = delete;
    waiting_here& operator=(waiting_here const&) = delete;

private:
    batch_record*               batch_;
    wait_for                    what_;
    std::uint64_t               begin_;
    std::atomic<std::uint64_t>* told_;  ///< while it goes on
};

/// Whether a store's bytes are in this process's memory, so that nobody waits for them.
inline bool is_near(any_store const& store) noexcept { return store.capabilities().addressable; }

/// This thread calls a store, as long as that lives.
inline waiting_here waiting_for(any_store const& store) noexcept {
    return waiting_here(wait_for::store, !is_near(store));
}

/// Returns the nanoseconds that threads have waited in a batch, those that still do included.
inline std::uint64_t waited_so_far(batch_record const& b, std::size_t what, std::uint64_t now) noexcept {
    return b.rest.waited[what].load(std::memory_order_relaxed) + b.rest.waiting_now.so_far(what, now);
}

/// Adds what a batch that is over has waited to what its parent has.
inline void pass_on_waits(batch_record& b) noexcept {
    batch_record* const up = b.parent.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < waits_known; ++i)
        if (std::uint64_t const ns = b.rest.waited[i].load(std::memory_order_relaxed); ns && up)
            note_wait(*up, static_cast<wait_for>(i), ns);
}

}  // namespace tenure::detail
