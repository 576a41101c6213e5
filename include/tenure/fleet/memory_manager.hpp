// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/base/minder.hpp>
#include <tenure/error.hpp>
#include <tenure/fleet/planner.hpp>
#include <tenure/fleet/policies.hpp>
#include <tenure/fleet/store_group.hpp>
#include <tenure/raise.hpp>

namespace tenure {

struct manager_options {
    std::chrono::nanoseconds interval = std::chrono::seconds(2);  ///< between cycles, once it was started
    std::vector<any_policy>  policies;                            ///< in the order in which they are asked
};

struct retire_options {
    static constexpr std::chrono::nanoseconds no_limit = std::chrono::nanoseconds::max();

    std::chrono::nanoseconds timeout       = no_limit;
    bool                     remove        = false;  ///< take the store out of the group when it is empty
    bool                     keep_retiring = false;  ///< if it cannot be emptied; else it runs again
};

/// What became of a store that was to be emptied.
struct retire_report {
    bool        empty      = false;
    std::size_t copied     = 0;              ///< bytes
    std::size_t left       = 0;              ///< buffers that are there still
    refusal     why        = refusal::none;  ///< for which reason most of these are
    std::size_t bytes_left = 0;

    explicit operator bool() const noexcept { return empty; }

    /// Returns a sentence, with what to do.
    std::string to_text() const {
        if (empty) return "the store is empty";
        return std::to_string(left) + " buffers (" + std::to_string(bytes_left) +
               " bytes) are there still: " + std::string(text_of(why)) + "; add a store, free some, or try again";
    }
};

/// Makes, moves and drops copies of a group's buffers, as its policies propose: in cycles on a thread of its own,
/// or whenever run_once() is called. The group must not be changed by two managers. Nothing is dropped that is not
/// verified elsewhere.
///
/// Thread-safe. Copying is done by the thread that runs the cycle, one copy after the other; calls of users wait
/// for none of it. Cost of a cycle beyond copying: what changed, and what the policies look at.
class memory_manager {
public:
    /// Errors: std::errc::invalid_argument for an interval that is not above 0, and for two policies of a type.
    explicit memory_manager(store_group group, manager_options options = {})
        : group_(std::move(group)), interval_(options.interval) {
        if (interval_ <= std::chrono::nanoseconds::zero())
            raise(error(std::make_error_code(std::errc::invalid_argument),
                        "a manager's interval is to be above 0; 2 s is usual"));
        for (any_policy& p : options.policies) planner_.add(std::move(p));
    }
    ~memory_manager() {
        stop();
        take_back();
    }
    memory_manager(memory_manager const&)            = delete;
    memory_manager& operator=(memory_manager const&) = delete;

    /// Has a thread run a cycle in each interval from now on. Errors: std::errc::resource_unavailable_try_again if
    /// the system gives none.
    void start() {
        not_forked();
        if (running()) return;
        // Its mutex is newer than `starting_`, so that it cannot be taken under that: see fork_mutex.
        auto made = std::make_unique<detail::minder>("tenure-manager", [this] { return next_round(); });
        made->ring();
        if (made->has_stopped())
            raise(
                error(std::make_error_code(std::errc::resource_unavailable_try_again), "start a manager's thread"));
        std::scoped_lock const guard(starting_);
        if (!thread_) thread_ = std::move(made);
    }
    /// Waits for the copy that is being made; further ones are made when it is started again.
    void stop() {
        std::unique_ptr<detail::minder> old;
        {
            std::scoped_lock const guard(starting_);
            stopping_ = thread_ != nullptr;
            old       = std::move(thread_);
        }
        old.reset();
        stopping_ = false;
    }
    bool running() const {
        std::scoped_lock const guard(starting_);
        return thread_ != nullptr;
    }

    /// Runs a cycle now, and carries out what it comes to. Throws std::bad_alloc.
    cycle_report run_once(cycle_options const& options = {}) {
        return run_until(options, clock::time_point::max());
    }

    /// Evens out now how full the stores are, however full that is; see tenure::rebalance. What is moved is dropped
    /// where it was in later cycles at the latest.
    cycle_report rebalance() {
        not_forked();
        detail::planner once;
        once.add(tenure::rebalance({.above = 0, .below = 1}));
        std::scoped_lock const guard(running_);
        return run(once, {}, clock::time_point::max());
    }

    /// Empties a store while all goes on: what it has is copied to others, verified, and dropped. Returns when it
    /// is empty, or says why it is not: because what is left has nowhere to go, or the time is up. Then it runs
    /// again, unless that was not wanted; calling again goes on where this call ended. Several stores may retire at
    /// once, each in a thread. Errors: no_such_name; std::errc::invalid_argument for the last store that runs.
    retire_report retire(std::string_view name, retire_options const& options = {}) {
        not_forked();
        auto const          until = clock::now() + timeout_of(options);
        std::uint16_t const s     = begin_retiring(name);
        retire_report       report;
        for (int idle = 0; idle < 20 && clock::now() < until;) {
            cycle_report const c = run_until({.most_decisions = 0}, until);
            report.copied += c.bytes_copied;
            if (look(s, report)) break;
            if (c.copied + c.dropped > 0) {
                idle = 0;
            } else {
                if (c.failed > 0) report.why = refusal::failing;
                if (!passes(report.why)) ++idle;
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        }
        std::scoped_lock const guard(fleet().mutex);
        if (report.empty && options.remove) fleet().state.set_state(s, store_state::removed);
        if (!report.empty && !options.keep_retiring) fleet().state.set_state(s, store_state::running);
        return report;
    }

    /// Adds a policy, to be asked last. Errors: std::errc::invalid_argument for a second one of its type.
    void add(any_policy p) {
        not_forked();
        std::scoped_lock const guard(running_);
        planner_.add(std::move(p));
    }
    /// Removes a policy by the name of its type. Errors: no_such_name, with the names that there are.
    void remove(std::string_view name) {
        not_forked();
        std::scoped_lock const guard(running_);
        planner_.remove(name);
    }
    /// Returns the policies' names, in the order in which they are asked.
    std::vector<std::string> policies() const {
        not_forked();
        std::scoped_lock const guard(running_);
        return planner_.names();
    }

private:
    detail::group_core& core() const noexcept { return group_.group_->core(); }
    detail::fleet_core& fleet() const noexcept { return core().fleet(); }

    using clock = std::chrono::steady_clock;

    cycle_report run_until(cycle_options const& options, clock::time_point until) {
        not_forked();
        std::scoped_lock const guard(running_);
        return run(planner_, options, until);
    }

    cycle_report run(detail::planner& by, cycle_options const& options, clock::time_point until) {
        core().free_refused();
        cycle_report report = by.run(fleet(), options, [&](std::uint32_t r) { core().forget(r); });
        if (options.dry) report.copying = time_for(report.bytes_to_copy());
        else carry_out(report, until);
        return report;
    }

    /// In the child of a fork(), what the parent's threads did is not done.
    void not_forked() const {
        if (made_in_.in_child()) raise(error(make_error_code(errc::forked), "a memory_manager"));
    }

    /// Takes back what was ordered and nobody carries out.
    void take_back() {
        if (made_in_.in_child()) return;
        std::scoped_lock const guard(fleet().mutex);
        detail::judge::orders& orders = fleet().orders;
        for (; !orders.empty(); orders.pop_front())
            fleet().proposals.take_back(orders.front(), [&](std::uint32_t r) { core().forget(r); });
    }

    /// Carries out all orders, until it is stopped or the time is up: the rest stays for later.
    void carry_out(cycle_report& report, clock::time_point until) {
        while (clock::now() < until) {
            std::optional<detail::judge::order> const o = next_order();
            if (!o) break;
            if (o->what == detail::judge::order::kind::drop) {
                report.dropped += core().carry_out_drop(o->replica);
                continue;
            }
            auto const                       begun = clock::now();
            std::optional<std::size_t> const bytes = core().carry_out_copy(o->replica);
            report.copying += clock::now() - begun;
            report.bytes_copied += bytes.value_or(0);
            ++(bytes ? report.copied : report.failed);
        }
        bytes_ += report.bytes_copied;
        time_ += report.copying;
    }

    std::optional<detail::judge::order> next_order() {
        std::scoped_lock const guard(fleet().planning);
        if (fleet().orders.empty()) fleet().proposals.settle(fleet().orders, 256);
        if (stopping_ || fleet().orders.empty()) return {};
        detail::judge::order const o = fleet().orders.front();
        fleet().orders.pop_front();
        return o;
    }

    std::chrono::nanoseconds time_for(std::size_t bytes) const noexcept {
        double const each = bytes_ ? static_cast<double>(time_.count()) / static_cast<double>(bytes_) : 0;
        return std::chrono::nanoseconds(static_cast<std::int64_t>(each * static_cast<double>(bytes)));
    }

    std::optional<detail::minder::time> next_round() {
        if (!stopping_) detail::memory_lasts([&] { run_once({.most_decisions = 0}); });  // else in the next one
        return clock::now() + interval_;
    }

    std::uint16_t begin_retiring(std::string_view name) {
        any_policy const drains{retire_store{}};
        {
            std::scoped_lock const         guard(running_);
            std::vector<std::string> const all = planner_.names();
            if (std::ranges::find(all, drains.name()) == all.end()) planner_.add(drains);
        }
        std::scoped_lock const guard(fleet().mutex);
        std::uint16_t const    s       = fleet().state.find_store(name);
        auto const&            running = fleet().state.stores().emptiest();
        if (running.empty() || (running.size() == 1 && running.begin()->second == s))
            raise(error(std::make_error_code(std::errc::invalid_argument),
                        "retire store '" + std::string(name) + "': no other one runs; add one first"));
        fleet().state.set_state(s, store_state::retiring);
        return s;
    }

    static std::chrono::nanoseconds timeout_of(retire_options const& o) noexcept {
        return std::min<std::chrono::nanoseconds>(o.timeout, std::chrono::hours(24 * 365));  // no overflow
    }

    /// Whether what keeps a buffer passes by itself.
    static bool passes(refusal why) noexcept {
        return why == refusal::none || why == refusal::in_use || why == refusal::just_acquired;
    }

    /// Notes what a store that retires has still, and why. Returns whether that is nothing, or the store is lost.
    bool look(std::uint16_t s, retire_report& report) {
        std::scoped_lock const guard(fleet().mutex);
        auto&                  state = fleet().state;
        auto const&            it    = state.stores()[s];
        report.left                  = it.replicas.count;
        report.bytes_left            = it.used;
        report.empty                 = report.left == 0 && it.arriving == 0 && it.state == store_state::retiring;
        std::array<std::size_t, refusals> reasons{};
        state.go_round(s, 256, [&](std::uint32_t b) {
            ++reasons[static_cast<std::size_t>(fleet().proposals.why_it_stays(b, s))];
        });
        report.why = static_cast<refusal>(std::ranges::max_element(reasons) - reasons.begin());
        for (refusal const passing : {refusal::none, refusal::in_use, refusal::just_acquired})
            if (reasons[static_cast<std::size_t>(passing)] > 0) report.why = passing;
        return report.empty || it.state != store_state::retiring;
    }

    store_group const              group_;
    std::chrono::nanoseconds const interval_;
    detail::fork_mark const        made_in_;

    mutable detail::fork_mutex      starting_;
    std::unique_ptr<detail::minder> thread_;
    std::atomic<bool>               stopping_{false};

    mutable std::mutex       running_;  ///< held for whole cycles: a fork does not wait for it
    detail::planner          planner_;
    std::size_t              bytes_ = 0;  ///< that were copied, in `time_`
    std::chrono::nanoseconds time_{};
};

}  // namespace tenure
