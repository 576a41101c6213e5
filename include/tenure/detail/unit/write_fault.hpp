// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/base/signals_blocked.hpp>
#include <tenure/detail/unit/region.hpp>

namespace tenure::detail {

struct write_fault_slot {
    std::atomic<std::uintptr_t> begin{~std::uintptr_t{0}}, end{0};  ///< end 0: free
    std::atomic<void const*>    mover{nullptr};                     ///< the thread that moves the memory
};

/// The handler that a signal had before ours, in one word because our handler reads it.
class signal_action {
public:
    constexpr signal_action() noexcept = default;
    explicit signal_action(struct ::sigaction const& a) noexcept
        : word_(a.sa_flags & SA_SIGINFO ? reinterpret_cast<std::uintptr_t>(a.sa_sigaction) | with_info
                                        : reinterpret_cast<std::uintptr_t>(a.sa_handler)) {}

    bool is_default() const noexcept { return word_ == reinterpret_cast<std::uintptr_t>(SIG_DFL); }
    bool is_ignore() const noexcept { return word_ == reinterpret_cast<std::uintptr_t>(SIG_IGN); }

    void operator()(int number, ::siginfo_t* info, void* context) const noexcept {
        using long_form  = void (*)(int, ::siginfo_t*, void*);
        using short_form = void (*)(int);
        if (word_ & with_info) reinterpret_cast<long_form>(word_ & ~with_info)(number, info, context);
        else reinterpret_cast<short_form>(word_)(number);
    }

private:
    static constexpr std::uintptr_t with_info = std::uintptr_t{1} << 63;  // no code address has this bit

    std::uintptr_t word_ = 0;
};

/// Holds up threads that write to memory while this thread replaces it by a copy elsewhere. The memory is
/// read-only meanwhile, so that no write is lost. A thread that writes there waits in a handler of SIGSEGV, and
/// writes when the move is over. All other faults go where they went before. A write by the system for the
/// program, as by read(2) into it, fails with EFAULT. One handler serves all that makes slabs read-only.
///
/// A thread that has a write_fault must take no lock and write to no slab, because threads that wait for it may
/// hold locks. So no signal from outside interrupts it: the program's handlers may write to objects, and run once
/// the move is over. If the thread itself writes there, the handler says so, and the fault goes where all others
/// go.
class write_fault {
public:
    write_fault(std::uintptr_t begin, std::uintptr_t end) noexcept {
        install();
        while (!slot_) {
            for (write_fault_slot& s : slots) {
                std::uintptr_t none = 0;
                if (!s.end.compare_exchange_strong(none, end, std::memory_order_acq_rel)) continue;
                s.mover.store(&this_one, std::memory_order_relaxed);
                s.begin.store(begin, std::memory_order_release);
                slot_ = &s;
                break;
            }
            if (!slot_) ::sched_yield();
        }
    }
    ~write_fault() {
        completed.fetch_add(1, std::memory_order_acq_rel);
        slot_->begin.store(~std::uintptr_t{0}, std::memory_order_release);
        slot_->end.store(0, std::memory_order_release);
    }
    write_fault(write_fault const&)            = delete;
    write_fault& operator=(write_fault const&) = delete;

    /// Registers a function that the handler asks first, for code that makes slabs read-only for another reason.
    /// If it returns true, the write is tried again.
    static void ask_first(bool (*f)(std::uintptr_t) noexcept) noexcept {
        asked.store(f, std::memory_order_release);
        install();
    }

    /// Notes that some memory is no longer read-only. A thread that faulted there and finds nothing to wait for
    /// tries once more.
    static void note_end() noexcept { completed.fetch_add(1, std::memory_order_acq_rel); }

    /// Forgets, in forked children, the moves of threads that are gone. Called before the first move, with no lock
    /// held.
    static void be_ready_for_forks() noexcept { add_for_ever(at_fork); }

private:
    friend struct write_fault_copies;

    using fault_handler = void (*)(int, ::siginfo_t*, void*);

    TENURE_SHARED inline static constinit std::atomic<bool (*)(std::uintptr_t) noexcept> asked{nullptr};

    /// The on_fault() that was installed first. Libraries may have other copies.
    TENURE_SHARED inline static constinit std::atomic<fault_handler> handler{nullptr};

    TENURE_SHARED inline static constinit write_fault_slot           slots[16];
    TENURE_SHARED inline static constinit std::atomic<std::uint64_t> completed{0};
    TENURE_SHARED inline static constinit std::atomic<signal_action> before{}, first{};
    TENURE_SHARED inline static constinit std::atomic<bool>          installed{false};

    TENURE_SHARED inline static constinit thread_local char this_one = 0;  ///< its address identifies a thread

    TENURE_SHARED inline static constinit fork_node at_fork{.mend = [](void*) noexcept {
        for (write_fault_slot& s : slots) {
            if (s.mover.load(std::memory_order_relaxed) == &this_one) continue;
            s.begin.store(~std::uintptr_t{0}, std::memory_order_relaxed);
            s.end.store(0, std::memory_order_relaxed);
        }
    }};

    enum class motion { none, by_another, by_this_thread };
    static motion motion_of(std::uintptr_t a) noexcept {
        for (write_fault_slot const& s : slots)
            if (a >= s.begin.load(std::memory_order_acquire) && a < s.end.load(std::memory_order_acquire))
                return s.mover.load(std::memory_order_relaxed) == &this_one ? motion::by_this_thread
                                                                            : motion::by_another;
        return motion::none;
    }

    /// Installs the handler unless it is in place. Called each time, because the program may have put a handler
    /// over ours, and test frameworks remove handlers after each test.
    static void install() noexcept {
        fault_handler mine = nullptr;
        if (handler.compare_exchange_strong(mine, &on_fault, std::memory_order_acq_rel)) mine = &on_fault;
        struct ::sigaction now{};
        if (::sigaction(SIGSEGV, nullptr, &now) == 0 && now.sa_flags & SA_SIGINFO && now.sa_sigaction == mine)
            return;
        if (!installed.exchange(true)) first = signal_action(now);
        before = signal_action(now);
        struct ::sigaction ours{};
        ours.sa_sigaction = mine;
        ours.sa_flags     = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        // No other handler may interrupt the function that ask_first() registered, fault, and call it again.
        ours.sa_mask = signals_from_outside();
        ::sigaction(SIGSEGV, &ours, nullptr);
    }

    /// Handles SIGSEGV, with nothing but what a signal handler may do: loads, stores, sched_yield, poll,
    /// sigaction, pthread_sigmask, write and raise.
    static void on_fault(int number, ::siginfo_t* info, void* context) noexcept {
        static thread_local constinit std::uintptr_t last_address   = 0;
        static thread_local constinit std::uint64_t  last_completed = 0;

        auto const a = reinterpret_cast<std::uintptr_t>(info->si_addr);
        if (info->si_code == SEGV_ACCERR && a < std::uintptr_t{1} << address_bits && region_of(a)) {
            if (auto* const f = asked.load(std::memory_order_acquire); f && f(a)) return;
            unblock(context);
            motion const how = motion_of(a);
            if (how == motion::by_this_thread) {
                complain();
                return pass_on(number, info, context);
            }
            // A write whose move has just ended when the handler looks is tried again too, but only once.
            std::uint64_t const now = completed.load(std::memory_order_acquire);
            if (how != motion::none || a != last_address || now != last_completed) {
                last_address   = a;
                last_completed = now;
                wait_for(a);
                return;
            }
        }
        unblock(context);
        pass_on(number, info, context);
    }

    /// Restores the signal mask of the code that faulted.
    static void unblock(void* context) noexcept {
        ::pthread_sigmask(SIG_SETMASK, &static_cast<::ucontext_t*>(context)->uc_sigmask, nullptr);
    }

    static void complain() noexcept {
        static constexpr char what[] =
            "tenure: a thread writes to a batch that it is just moving to the page file or back, and would wait "
            "for "
            "itself\n";
        [[maybe_unused]] ::ssize_t const n = ::write(STDERR_FILENO, what, sizeof what - 1);
    }

    static void wait_for(std::uintptr_t a) noexcept {
        int const saved = errno;
        for (int i = 0; motion_of(a) == motion::by_another; ++i) {
            if (i < 100) ::sched_yield();
            else ::poll(nullptr, 0, 1);
        }
        errno = saved;
    }

    /// Passes a fault to the previous handler. If a handler that was put over ours passes a fault on to us, it
    /// goes to the first handler.
    static void pass_on(int number, ::siginfo_t* info, void* context) noexcept {
        static thread_local constinit void* passing = nullptr;
        static thread_local constinit char* frame   = nullptr;

        auto* const here  = static_cast<char*>(__builtin_frame_address(0));
        bool const  again = passing == context && here < frame;  // and the earlier call did not leave by longjmp
        auto const  next  = (again ? first : before).load(std::memory_order_relaxed);
        if (!next.is_default() && !next.is_ignore()) {
            passing = context;
            frame   = here;
            next(number, info, context);
            passing = nullptr;
            return;
        }
        bool const sent = info->si_code <= 0;  // sent by kill(2) and the like: no instruction faults again
        if (sent && next.is_ignore()) return;
        struct ::sigaction usual{};
        usual.sa_handler = SIG_DFL;
        ::sigemptyset(&usual.sa_mask);
        ::sigaction(SIGSEGV, &usual, nullptr);
        if (sent) ::raise(number);
        // else the instruction faults again
    }

    signals_blocked const quiet_;
    write_fault_slot*     slot_ = nullptr;
};

struct write_fault_copies {
    static constexpr void const *slots = &write_fault::slots, *completed = &write_fault::completed;
};

}  // namespace tenure::detail
