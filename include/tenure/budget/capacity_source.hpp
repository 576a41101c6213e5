// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <tenure/budget/admission.hpp>
#include <tenure/budget/options.hpp>

namespace tenure::detail {

class budget_core;

/// What is asked of a source of capacity.
struct capacity_demand {
    budget_amount taken{};          ///< cannot be given back at once
    budget_amount held{};           ///< of that, what those have who wait, and the process besides jobs
    budget_amount next{};           ///< with what has to be there for somebody to go on
    budget_amount wanted{};         ///< by all that wait, or just tried without waiting
    std::uint64_t changes = 0;      ///< those that this counts
    std::uint64_t begun   = 0;      ///< jobs, so far
    bool          started = false;  ///< the first that waits has room
    std::uint64_t stuck   = 0;      ///< CLOCK_MONOTONIC when the job began that is refused next, if one is; or 0
};

/// What a source gives.
struct capacity_share {
    budget_amount has{}, most{};  ///< now; what it could ever give
    budget_amount reach{};        ///< when all jobs have ended that do not wait, here and elsewhere
    budget_amount stays{};        ///< when a job ends while others lack some
    std::uint64_t settled = 0;    ///< the changes after which it gives no more unless somebody gives something back
};

/// Says what a budget's capacity is, where that changes.
class capacity_source {
public:
    capacity_source()                                  = default;
    capacity_source(capacity_source const&)            = delete;
    capacity_source& operator=(capacity_source const&) = delete;
    virtual ~capacity_source()                         = default;

    /// Has it look at what the budget wants. Takes no lock.
    virtual void wake() noexcept = 0;

    /// Whether others want what this budget has.
    bool others_lack() const noexcept { return others_lack_.load(std::memory_order_relaxed); }

protected:
    void set_others_lack(bool yes) noexcept { others_lack_.store(yes, std::memory_order_relaxed); }

private:
    std::atomic<bool> others_lack_{false};
};

/// What several processes share: a machine_arbiter.
class shared_machine {
public:
    virtual std::unique_ptr<capacity_source> share_for(budget_core& of, share_options const& mine) const = 0;

protected:
    ~shared_machine() = default;
};

}  // namespace tenure::detail
