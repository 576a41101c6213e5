// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <string_view>

#include <tenure/budget/admission.hpp>
#include <tenure/budget/job_watch.hpp>
#include <tenure/budget/options.hpp>
#include <tenure/budget/process_memory.hpp>
#include <tenure/detail/base/os.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// What a process uses, with what its jobs use outside of it, as of a moment ago. Thread-safe: one thread looks,
/// the others go by what it last saw.
class use_meter {
public:
    /// `shares`: other processes count what is theirs, even if all are in one cgroup.
    use_meter(budget_options const& o, bool shares)
        : in_use_(o.in_use), age_(o.sample_age), watches_(o.watch_every.count() > 0), shares_(shares) {
        if (!in_use_) own_.emplace(shares);
    }

    /// Whether it looks outside.
    bool watches() const noexcept { return watches_; }

    bool is_old() const noexcept {
        return std::chrono::nanoseconds(coarse_now() - looked_at_.load(std::memory_order_relaxed)) > age_;
    }

    /// Looks, and calls `apply(memory_use, outside_use*)`. `named()`: what jobs named; may throw
    /// std::bad_alloc. Returns false if another thread just looks. Where there is no memory for it, the last look
    /// counts.
    template <class Named, class Apply>
    bool look(Named named, Apply apply) noexcept {
        if (looking_.exchange(true, std::memory_order_acquire)) return false;
        memory_use   now;
        outside_use* outside = nullptr;
        auto const   read    = [&] {
            now = own_ ? (*own_)() : in_use_();
            if (watches_) outside = &watch_.look(named(), own_ ? own_->group() : std::string_view());
        };
        if (memory_lasts(read)) {
            looked_at_.store(coarse_now(), std::memory_order_relaxed);
            if (outside && own_) now.in_use = saturated_sum(now.in_use, outside->besides());
            apply(now, outside);
        }
        looking_.store(false, std::memory_order_release);
        return true;
    }

    /// In a forked child, which does not have the thread that looked, and may have half of what it was writing.
    void be_alone() noexcept {
        if (looking_.exchange(false, std::memory_order_relaxed)) {
            new (&watch_) job_watch;
            if (own_) new (&*own_) process_memory(shares_);
        } else {
            watch_ = job_watch();
        }
    }

private:
    std::function<memory_use()> const in_use_;
    std::optional<process_memory>     own_{};  ///< unless the user says what is in use
    std::chrono::nanoseconds const    age_;
    bool const                        watches_, shares_;
    job_watch                         watch_{};  ///< of the thread that looks
    std::atomic<std::uint64_t>        looked_at_{0};
    std::atomic<bool>                 looking_{false};
};

}  // namespace tenure::detail
