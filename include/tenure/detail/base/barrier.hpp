// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <tenure/detail/base/config.hpp>

namespace tenure::detail {

/// Two threads each store one thing and then look at the other's: one of them must see. With a pair of full
/// barriers both would pay for it; here the one that does it all the time pays nothing, and the other makes every
/// running thread of the process pass a barrier (membarrier(2), from Linux 4.14; where it is refused, both pay).
inline bool const others_can_be_made_to =
    ::syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;

/// A full barrier. ThreadSanitizer knows no fences, and g++ says so; it knows this: of two threads that change one
/// variable, the later one sees what the earlier one did before.
inline void full_barrier() noexcept {
#if TENURE_TSAN
    static constinit std::atomic<int> passed{0};
    passed.fetch_add(1, std::memory_order_seq_cst);
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// For the frequent side.
inline void light_barrier() noexcept {
    if (others_can_be_made_to) [[likely]]
        std::atomic_signal_fence(std::memory_order_seq_cst);
    else full_barrier();
}

/// For the rare side: a microsecond or two.
inline void heavy_barrier() noexcept {
    if (!others_can_be_made_to || ::syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
        full_barrier();
}

}  // namespace tenure::detail
