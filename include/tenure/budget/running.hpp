// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <tenure/batch_scope.hpp>
#include <tenure/budget/options.hpp>
#include <tenure/detail/base/function_ref.hpp>
#include <tenure/error.hpp>
#include <tenure/raise.hpp>
#include <tenure/reservation.hpp>

namespace tenure::detail {

/// Calls a job, which may leave out what it is told.
template <class F>
auto call_job(F& f, batch_scope& in, job_attempt const& as) {
    if constexpr (std::invocable<F&, batch_scope&, job_attempt const&>) return f(in, as);
    else return f(in);
}
template <class F>
using job_result = decltype(call_job(std::declval<F&>(), std::declval<batch_scope&>(), job_attempt{}));

/// Fills in why a job failed.
inline void describe_failure(std::exception_ptr const& e, job_failure& f) {
    f.what               = "an exception that is no std::exception";
    auto const rethrow   = [&] { std::rethrow_exception(e); };
    auto const of_system = [&](std::system_error const& x) {
        f.what = x.what();
        f.code = x.code();
    };
    auto const of_other = [&](std::exception const& x) { f.what = x.what(); };
    static_cast<void>(thrown_by(
        [&] { run_or<std::exception>([&] { run_or<std::system_error>(rethrow, of_system); }, of_other); }));
}

/// Runs a job until it succeeds, has failed as often as it may, or must not begin again. `reserve()` waits for its
/// room; `may_go_on()`: nobody has asked it to stop; `note(failure)` keeps why it failed. Throws what reserve()
/// throws, and what the job threw last.
template <class F>
job_result<F> run_job(job_options const& job, function_ref<reservation()> reserve, function_ref<bool()> may_go_on,
                      function_ref<void(job_failure const&)> note, F& f) {
    std::vector<job_failure> failures;
    for (std::size_t attempt = 1;; ++attempt) {
        batch_options options = job.batch;
        options.reservation   = reserve();
        using kept            = std::conditional_t<std::is_void_v<job_result<F>>, bool, job_result<F>>;
        std::optional<kept>      out;
        bool                     cancelled = false;
        std::exception_ptr const failed    = thrown_by([&] {
            batch_scope b(options);
            options.reservation.release();
            struct at_exit {
                batch_scope& b;
                bool&        cancelled;
                ~at_exit() { cancelled = b.status() == batch_status::cancelled; }
            } const look{b, cancelled};
            job_attempt const now{attempt, failures};
            if constexpr (std::is_void_v<job_result<F>>) call_job(f, b, now);
            else out.emplace(call_job(f, b, now));
        });
        if constexpr (std::is_void_v<job_result<F>>) {
            if (!failed) return;
        } else {
            if (out) return *std::move(out);
        }
        bool const again =
            job.on_failure == on_failure::requeue && attempt < job.attempts && !cancelled && may_go_on();
        bool const noted = memory_lasts([&] {
            job_failure why{.kind = std::string(job.needs.kind), .attempt = attempt, .requeued = again};
            describe_failure(failed, why);
            note(why);
            failures.push_back(std::move(why));
        });
        if (!again || !noted) std::rethrow_exception(failed);
    }
}

}  // namespace tenure::detail
