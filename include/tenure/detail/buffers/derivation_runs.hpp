// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/batch/process.hpp>

namespace tenure::detail {

/// One run of a derivation. Only one thread at a time runs a derivation; others that want the buffer wait for the
/// run, and get the same answer.
struct derivation_run {
    explicit derivation_run(std::shared_ptr<derivation_run>& in) noexcept : slot(in) {}

    std::atomic<int>                 done{0};
    std::exception_ptr               failure;  ///< to be read once `done` is set
    thread_context const* const      by = &this_thread;
    std::shared_ptr<derivation_run>& slot;  ///< the derivation's pointer to this run, while that lasts
    derivation_run*                  older = nullptr;
    derivation_run*                  newer = nullptr;
};

/// All current runs of the process, so that the child of a fork() finds those of threads that it lacks.
class derivation_runs {
public:
    std::mutex mutex;  ///< of this list, and of every derivation::running

    void begin(std::shared_ptr<derivation_run>& slot) {
        slot              = std::make_shared<derivation_run>(slot);
        derivation_run* r = slot.get();
        r->older          = newest_;
        if (newest_) newest_->newer = r;
        newest_ = r;
    }

    void end(derivation_run& r) noexcept {
        (r.newer ? r.newer->older : newest_) = r.older;
        if (r.older) r.older->newer = r.newer;
        r.slot.reset();  // the thread that runs it has a reference, too
    }

    /// Ends the runs of threads that a forked child lacks, so that a thread that wants such a buffer computes it
    /// anew.
    void forget_others() noexcept {
        for (derivation_run *r = newest_, *older; r; r = older) {
            older = r->older;
            if (r->by != &this_thread) end(*r);
        }
    }

private:
    derivation_run* newest_ = nullptr;
};
TENURE_SHARED inline constinit derivation_runs running_derivations{};

}  // namespace tenure::detail
