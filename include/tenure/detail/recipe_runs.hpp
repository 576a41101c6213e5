// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include <tenure/detail/config.hpp>
#include <tenure/detail/process.hpp>

namespace tenure::detail {

/// A recipe is run by one thread at a time; whoever else wants the buffer waits for that, and gets the same answer.
struct recipe_run {
    explicit recipe_run(std::shared_ptr<recipe_run>& in) noexcept : slot(in) {}

    std::atomic<int>             done{0};
    std::exception_ptr           failure;  ///< to be read when done
    thread_context const* const  by = &this_thread;
    std::shared_ptr<recipe_run>& slot;  ///< where its recipe has it, for as long as it lasts
    recipe_run*                  older = nullptr;
    recipe_run*                  newer = nullptr;
};

/// All that just run, in the process: so that the child of a fork() finds those of threads that it has not.
class recipe_runs {
public:
    std::mutex mutex;  ///< of this list, and of which run a recipe has

    void begin(std::shared_ptr<recipe_run>& slot) {
        slot          = std::make_shared<recipe_run>(slot);
        recipe_run* r = slot.get();
        r->older      = newest_;
        if (newest_) newest_->newer = r;
        newest_ = r;
    }

    void end(recipe_run& r) noexcept {
        (r.newer ? r.newer->older : newest_) = r.older;
        if (r.older) r.older->newer = r.newer;
        r.slot.reset();  // whose thread has it, too
    }

    /// In a forked child: they will not end, so whoever wants such a buffer has it made anew.
    void forget_others() noexcept {
        for (recipe_run *r = newest_, *older; r; r = older) {
            older = r->older;
            if (r->by != &this_thread) end(*r);
        }
    }

private:
    recipe_run* newest_ = nullptr;
};
TENURE_SHARED inline constinit recipe_runs running_recipes{};

}  // namespace tenure::detail
