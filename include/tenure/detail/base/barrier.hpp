// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <tenure/detail/base/config.hpp>

namespace tenure::detail {

/// Whether membarrier(2) works (Linux 4.14 and later). The barriers below serve two threads that each store one
/// value and then load the other's: at least one of them must see the other's store. With a pair of full barriers
/// both threads would pay. Here the frequent side pays nothing, and the rare side makes every running thread of
/// the process pass a barrier. Where the system refuses membarrier(2), both sides pay.
inline bool const others_can_be_made_to =
    ::syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;

/// Acts as a full barrier. ThreadSanitizer does not understand fences, and g++ warns of that. It does understand
/// two changes of one variable: the thread of the later change sees what the thread of the earlier one did before
/// it.
inline void full_barrier() noexcept {
#if TENURE_TSAN
    static constinit std::atomic<int> passed{0};
    passed.fetch_add(1, std::memory_order_seq_cst);
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// The barrier of the frequent side. Costs nothing where membarrier(2) works.
[[gnu::always_inline]] inline void light_barrier() noexcept {
    if (others_can_be_made_to) [[likely]]
        std::atomic_signal_fence(std::memory_order_seq_cst);
    else full_barrier();
}

/// The barrier of the rare side. Costs a microsecond or two.
inline void heavy_barrier() noexcept {
    if (!others_can_be_made_to || ::syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
        full_barrier();
}

}  // namespace tenure::detail
