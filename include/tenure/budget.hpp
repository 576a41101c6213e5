// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string_view>
#include <utility>
#include <vector>

#include <tenure/batch_scope.hpp>
#include <tenure/budget/budget_core.hpp>
#include <tenure/budget/running.hpp>
#include <tenure/error.hpp>
#include <tenure/raise.hpp>
#include <tenure/registry.hpp>
#include <tenure/reservation.hpp>
#include <tenure/result.hpp>

namespace tenure {

namespace detail {

struct asio_reservations;

template <class Feature>
constexpr void require_asio_reservations() {
    static_assert(
        requires { sizeof(Feature); }, "async_reserve() needs #include <tenure/asio/budget.hpp>, and Boost");
}

}  // namespace detail

/// Memory, and cores, that jobs wait for instead of running out of it.
///
///     tenure::memory_budget budget{{.capacity = std::size_t{20} << 30}};
///     auto                room = budget.reserve({.kind = "query", .bytes = 300 << 20});  // waits
///     tenure::batch_scope job{{.name = "query 17", .reservation = std::move(room)}};
///
/// A job starts when max(baseline + reserved, in use) + what it needs is within the capacity. `in use` is what the
/// system says that the process uses, `baseline` what that was when nothing was reserved. What a job needs is what
/// it declares at first, and then what jobs of its kind turned out to use at their highest, with all batches below
/// (estimate_options). budget/admission.hpp says who comes first.
///
/// A job that grows past its room gets more if there is some, at the make that needs it, or waits there up to its
/// request's timeout. Of jobs that wait for each other, one is refused with would_deadlock.
///
/// Thread-safe. Reservations may outlive it. To reserve and to release without waiting costs some 60 ns;
/// every `sample_age` one of these calls asks the system, for some 30 us.
class memory_budget {
public:
    /// Throws std::errc::invalid_argument for a negative capacity, std::bad_alloc.
    explicit memory_budget(budget_options options = {}) : memory_budget(std::move(options), false) {}

    /// Its capacity is a share of what a machine_arbiter divides; `options.capacity` and `options.cores` bound it.
    /// Throws what the system says, std::errc::invalid_argument for a weight that is none, std::bad_alloc.
    memory_budget(detail::shared_machine const& machine, share_options const& mine, budget_options options = {})
        : memory_budget(std::move(options), true) {
        core_->take_share(machine.share_for(*core_, mine));
    }

    /// Waits for a call of `relieve`, if one is under way. Who waits goes on to wait.
    ~memory_budget() { core_->retire(); }
    memory_budget(memory_budget const&)            = delete;
    memory_budget& operator=(memory_budget const&) = delete;

    /// Waits until the job can start, for `timeout` at most, and reserves what it needs. Throws limit_exceeded at
    /// once if it needs more than there is in all, with by how much; timed_out, with who has what; would_deadlock
    /// if the calling thread's batch, or one above it, has room in this budget, and it waits in a cycle of such;
    /// std::bad_alloc.
    reservation reserve(reservation_request const& request) { return or_throw(request, std::stop_token()); }

    /// As above. Throws cancelled once stop is requested.
    reservation reserve(reservation_request const& request, std::stop_token const& stop) {
        return or_throw(request, stop);
    }

    /// Reserves what a job needs if it can start now. Errors: timed_out if it would have to wait; limit_exceeded if
    /// it needs more than there is in all. Throws std::bad_alloc.
    result<reservation> try_reserve(reservation_request const& request) {
        auto       room = std::make_shared<detail::lent_room>(core_);
        errc const code = core_->begin(*room, request, nullptr).value_or(errc::timed_out);
        if (code != errc{}) return make_error_code(code);
        return detail::reservation_access::make(std::move(room));
    }

    /// Reserves as reserve() does, without a thread that waits. Completes with (std::exception_ptr, reservation),
    /// on the token's executor: so `co_await budget.async_reserve(request, boost::asio::use_awaitable)` throws what
    /// reserve() does. Cancelling the operation throws cancelled. A make that needs more than
    /// this reserved never waits for it, but fails with timed_out if there is none: the jobs for which it would
    /// wait may need its thread. Needs <tenure/asio/budget.hpp>.
    template <class Token, class Feature = detail::asio_reservations>
    auto async_reserve(reservation_request const& request, Token&& token) {
        return async_reserve<Token, Feature>(request, std::stop_token(), std::forward<Token>(token));
    }

    /// As above. Completes with cancelled once stop is requested, too.
    template <class Token, class Feature = detail::asio_reservations>
    auto async_reserve(reservation_request const& request, std::stop_token stop, Token&& token) {
        detail::require_asio_reservations<Feature>();
        return Feature::begin(core_, request, std::move(stop), std::forward<Token>(token));
    }

    /// Runs a job: waits for its room, opens a batch with that below the current one, and calls `f(batch)` or
    /// `f(batch, attempt)`. Returns what it returns, once the batch is over.
    ///
    /// If the job throws, so does this; with on_failure::requeue it goes to the end of the line first, and is
    /// called again in a new batch, so often in all. What it had saved it finds by restore(). It is not called
    /// again if it was cancelled, or stop is requested. failures() keeps the reasons. Throws what reserve() throws,
    /// and what the last attempt threw.
    template <class F>
    detail::job_result<F> run(job_options const& job, F f, std::stop_token const& stop = {}) {
        return detail::run_job(
            job, [&] { return reserve(job.needs, stop); }, [&] { return !stop.stop_requested(); },
            [&](job_failure const& why) { core_->note_failure(why); }, f);
    }

    /// Returns why jobs of run() failed: the last 64 times, the latest last. Throws std::bad_alloc.
    std::vector<job_failure> failures() const { return core_->failures(); }

    /// Changes what there is. If that is less than what is reserved, nobody starts until it is not. Throws
    /// std::errc::invalid_argument for a negative amount.
    void set_capacity(std::size_t bytes, std::size_t cores = any_number_of_cores) {
        detail::check_amount(bytes, "bytes");
        detail::check_amount(cores, "cores");
        core_->set_capacity({bytes, cores});
    }

    /// Records the most bytes that a job of that kind used, as measured elsewhere or in an earlier run. Throws
    /// std::bad_alloc.
    void observe(std::string_view kind, std::size_t bytes) { core_->observe(kind, bytes); }

    /// Returns the bytes that a job of that kind which declares `bytes` is taken to need.
    std::size_t estimate(std::string_view kind, std::size_t bytes = 0) const {
        return core_->estimate(kind, bytes);
    }

    /// Returns what there is and who has it. Throws std::bad_alloc. Cost: a step for each reservation.
    budget_figures figures() const { return core_->figures(); }

private:
    memory_budget(budget_options options, bool shares)
        : core_(std::make_shared<detail::budget_core>(checked(std::move(options)), shares)) {}

    static budget_options checked(budget_options options) {
        detail::check_amount(options.capacity, "bytes");
        detail::check_amount(options.cores, "cores");
        if (!options.registry) options.registry = &registry::global();
        if (!options.relieve)
            options.relieve = [r = options.registry](std::size_t bytes) { detail::make_room(*r, bytes); };
        return options;
    }

    reservation or_throw(reservation_request const& request, std::stop_token const& stop) {
        auto                room = std::make_shared<detail::lent_room>(core_);
        detail::sleeper     w;
        std::optional<errc> code = core_->begin(*room, request, &w);
        if (!code) {
            std::stop_callback const wake(stop, [&] { core_->wake(w); });
            code = core_->sleep(w, detail::budget_core::deadline(request.timeout),
                                [&] { return stop.stop_requested(); });
        }
        if (*code != errc{}) raise(error(*code, core_->asked(*room, request) + core_->holders()));
        return detail::reservation_access::make(std::move(room));
    }

    std::shared_ptr<detail::budget_core> core_;
};

}  // namespace tenure
