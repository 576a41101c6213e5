// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <sched.h>
#include <signal.h>

#include <tenure/detail/region.hpp>

namespace tenure::detail {

struct transit_slot {
    std::atomic<std::uintptr_t> begin{~std::uintptr_t{0}}, end{0};  ///< end 0: free
};

/// Memory that is just being replaced by a copy of itself elsewhere, and read-only meanwhile, lest a write be lost.
/// Who writes there is made to wait, in a handler of SIGSEGV, until that is over, and then writes; all other faults
/// go where they went before. (A write by the system on the program's behalf, as read(2) into such memory, has no
/// such luck and fails with EFAULT.)
class transit {
public:
    transit(std::uintptr_t begin, std::uintptr_t end) noexcept {
        static bool const installed = install();
        static_cast<void>(installed);
        mine() = this;
        while (!slot_) {
            for (transit_slot& s : slots) {
                std::uintptr_t none = 0;
                if (!s.end.compare_exchange_strong(none, end, std::memory_order_acq_rel)) continue;
                s.begin.store(begin, std::memory_order_release);
                slot_ = &s;
                break;
            }
            if (!slot_) ::sched_yield();
        }
    }
    ~transit() {
        completed.fetch_add(1, std::memory_order_acq_rel);
        slot_->begin.store(~std::uintptr_t{0}, std::memory_order_release);
        slot_->end.store(0, std::memory_order_release);
        mine() = nullptr;
    }
    transit(transit const&)            = delete;
    transit& operator=(transit const&) = delete;

private:
    inline static constinit transit_slot               slots[16];
    inline static constinit std::atomic<std::uint64_t> completed{0};
    inline static struct ::sigaction                   before{};

    /// Of this thread, which must not wait for itself.
    static transit*& mine() noexcept {
        static thread_local constinit transit* t = nullptr;
        return t;
    }

    static bool is_moving(std::uintptr_t a) noexcept {
        for (transit_slot const& s : slots)
            if (a >= s.begin.load(std::memory_order_acquire) && a < s.end.load(std::memory_order_acquire))
                return true;
        return false;
    }

    static bool install() noexcept {
        struct ::sigaction mine{};
        mine.sa_sigaction = &on_fault;
        mine.sa_flags     = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        ::sigemptyset(&mine.sa_mask);
        return ::sigaction(SIGSEGV, &mine, &before) == 0;
    }

    /// Only what a signal handler may do: loads, stores, sched_yield and sigaction.
    static void on_fault(int number, ::siginfo_t* info, void* context) noexcept {
        static thread_local constinit std::uintptr_t last_address   = 0;
        static thread_local constinit std::uint64_t  last_completed = 0;

        auto const a = reinterpret_cast<std::uintptr_t>(info->si_addr);
        if (info->si_code == SEGV_ACCERR && a < std::uintptr_t{1} << address_bits && region_of(a) && !mine()) {
            // One that was just over when the handler came to look is tried again, too, but once only.
            std::uint64_t const now = completed.load(std::memory_order_acquire);
            if (is_moving(a) || a != last_address || now != last_completed) {
                last_address   = a;
                last_completed = now;
                while (is_moving(a)) ::sched_yield();
                return;
            }
        }
        if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(number, info, context);
        if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(number);
        ::sigaction(SIGSEGV, &before, nullptr);  // and the instruction faults again
    }

    transit_slot* slot_ = nullptr;
};

}  // namespace tenure::detail
