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

/// A derivation is run by one thread at a time; whoever else wants the buffer waits for that, and gets the same
/// answer.
struct derivation_run {
    explicit derivation_run(std::shared_ptr<derivation_run>& in) noexcept : slot(in) {}

    std::atomic<int>                 done{0};
    std::exception_ptr               failure;  ///< to be read when done
    thread_context const* const      by = &this_thread;
    std::shared_ptr<derivation_run>& slot;  ///< where its derivation has it, for as long as it lasts
    derivation_run*                  older = nullptr;
    derivation_run*                  newer = nullptr;
};

/// All that just run, in the process: so that the child of a fork() finds those of threads that it has not.
class derivation_runs {
public:
    std::mutex mutex;  ///< of this list, and of which run a derivation has

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
        r.slot.reset();  // whose thread has it, too
    }

    /// In a forked child: they will not end, so whoever wants such a buffer has it made anew.
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
