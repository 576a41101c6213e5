// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <tenure/error.hpp>
#include <tenure/fleet/policies/keep_declared.hpp>
#include <tenure/fleet/policy.hpp>
#include <tenure/fleet/report.hpp>
#include <tenure/raise.hpp>

namespace tenure {

struct cycle_options {
    bool        dry            = false;  ///< take all orders back: the report says what would have been done
    std::size_t most_decisions = 1000;   ///< how many of them the report lists
};

namespace detail {

/// Asks policies in their order, cycle by cycle. Before all of them comes what was declared of buffers. Holds the
/// group's lock for 256 replicas at most, and not while a policy runs. Not thread-safe: one thread runs cycles.
class planner {
public:
    planner() { add(keep_declared{}); }

    /// Errors: std::errc::invalid_argument for a second policy of a type.
    void add(any_policy p) {
        for (entry const& e : policies_)
            if (e.policy.name() == p.name())
                raise(error(std::make_error_code(std::errc::invalid_argument),
                            "there is a policy '" + p.name() + "'; remove() it first"));
        policies_.push_back({std::move(p), {}});
    }
    /// Errors: no_such_name, with the names that there are.
    void remove(std::string_view name) {
        auto const it = std::ranges::find_if(policies_.begin() + 1, policies_.end(),
                                             [&](entry const& e) { return e.policy.name() == name; });
        if (it != policies_.end()) {
            policies_.erase(it);
            return;
        }
        std::string all;
        for (std::string const& other : names()) all += (all.empty() ? "" : ", ") + other;
        raise(error(make_error_code(errc::no_such_name),
                    "there is no policy '" + std::string(name) + "'; there are: " + (all.empty() ? "none" : all)));
    }
    std::vector<std::string> names() const {
        std::vector<std::string> out;
        for (auto it = policies_.begin() + 1; it != policies_.end(); ++it) out.push_back(it->policy.name());
        return out;
    }

    /// Runs a cycle. What is accepted waits in the group as orders. Calls freed(replica), with the group's lock,
    /// for what lost stores had. Cost: what changed, and what the policies look at beyond.
    template <class F>
    cycle_report run(fleet_core& core, cycle_options const& options, F&& freed) {
        auto const                     begun = std::chrono::steady_clock::now();
        cycle_report                   report;
        std::deque<fleet_buffer>       changed;
        std::deque<fleet_view::demand> demands;
        fleet_view const               view(core, changed, demands, options.dry);
        plan                           proposals(core, report, options.most_decisions);
        report.policies.resize(policies_.size());
        for (std::size_t i = 0; i < policies_.size(); ++i) report.policies[i].name = policies_[i].policy.name();

        // From here on nothing is thrown: what there is no memory for is looked at again in the next cycle.
        begin(core, freed);
        take_changed(core, changed);
        take_demands(core, demands);
        report.cycle   = view.cycle();
        report.changed = changed.size();
        for (std::size_t i = 0; i < policies_.size(); ++i) {
            proposals.next_policy(static_cast<std::uint32_t>(i));
            if (policies_[i].error.empty()) ask(core, policies_[i], view, proposals);
            memory_lasts([&] { report.policies[i].error = policies_[i].error; });
        }
        if (options.dry) {
            for (fleet_buffer const& b : changed) b.mark();
            for (fleet_view::demand const& d : demands) memory_lasts([&] { d.buffer.note_demand(d.at); });
        }
        hand_over(core, proposals.accepted(), options.dry, freed);
        report.time = std::chrono::steady_clock::now() - begun;
        return report;
    }

private:
    struct entry {
        any_policy  policy;
        std::string error;
    };

    static constexpr std::size_t slice = 256;  // replicas, of about 0.1 us each

    template <class F>
    static void begin(fleet_core& core, F& freed) {
        {
            std::scoped_lock const guard(core.planning);
            core.state.begin_cycle();
        }
        for (bool done = false; !done;) {
            std::scoped_lock const guard(core.planning);
            done = core.state.prepare(slice, freed);
        }
        settle(core);
    }

    static void settle(fleet_core& core) {
        std::unique_lock guard(core.planning);
        for (std::size_t moves = core.proposals.moves(); moves > 0; moves -= std::min(moves, slice)) {
            core.proposals.settle(core.orders, slice);
            guard.unlock();
            guard.lock();
        }
    }

    static void take_changed(fleet_core& core, std::deque<fleet_buffer>& out) {
        std::deque<std::uint32_t> numbers;
        {
            std::scoped_lock const guard(core.planning);
            core.state.take_changed(numbers);
        }
        for (std::size_t i = 0; i < numbers.size();) {
            std::scoped_lock const guard(core.planning);
            for (std::size_t const end = std::min(i + slice, numbers.size()); i < end; ++i) {
                auto const& table = core.state.table();
                core.state.look(numbers[i]);
                if (!table.has_buffer(numbers[i])) continue;
                if (!memory_lasts([&] { out.emplace_back(core, numbers[i], table.buffer(numbers[i]).generation); }))
                    core.state.miss();
            }
        }
    }
    static void take_demands(fleet_core& core, std::deque<fleet_view::demand>& out) {
        std::deque<fleet_state::demand> noted;
        {
            std::scoped_lock const guard(core.planning);
            core.state.take_demands(noted);
        }
        memory_lasts([&] {
            for (auto const& d : noted)
                out.push_back({fleet_buffer(core, d.buffer, d.generation), store_id{d.store}});
        });
    }

    static void ask(fleet_core& core, entry& e, fleet_view const& view, plan& proposals) {
        bool       lasted = true;
        auto const run    = [&] { lasted = memory_lasts([&] { e.policy.propose(view, proposals); }); };
        if (std::exception_ptr const thrown = thrown_by(run)) e.error = message_of(thrown);
        std::scoped_lock const guard(core.planning);
        if (!lasted) core.state.miss();
    }

    /// Gives what was accepted to who carries it out or, in a dry run, takes it back.
    template <class F>
    static void hand_over(fleet_core& core, judge::orders& accepted, bool dry, F& freed) {
        while (!accepted.empty()) {
            std::scoped_lock const guard(core.planning);
            for (std::size_t n = slice; n > 0 && !accepted.empty(); --n) {
                if (dry || !memory_lasts([&] { core.orders.push_back(accepted.front()); }))
                    core.proposals.take_back(accepted.front(), freed);
                accepted.pop_front();
            }
        }
        if (dry) settle(core);  // of a move that was taken back, the giver stays
    }

    static std::string message_of(std::exception_ptr const& thrown) {
        std::string out  = "an exception that is no std::exception";
        auto const  tell = [&] { std::rethrow_exception(thrown); };
        thrown_by([&] { run_or<std::exception>(tell, [&](std::exception const& e) { out = e.what(); }); });
        return out.empty() ? "an exception without a message" : out;
    }

    std::vector<entry> policies_;
};

}  // namespace detail
}  // namespace tenure
