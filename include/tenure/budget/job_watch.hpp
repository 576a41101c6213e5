// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

#include <tenure/budget/other_processes.hpp>
#include <tenure/budget/process_memory.hpp>
#include <tenure/detail/base/os.hpp>

namespace tenure::detail {

/// What a job uses outside of this process: a process that it names, with all below it, or a cgroup.
struct named_use {
    pid_t         pid     = 0;
    std::uint64_t started = 0;  ///< which tells it from another one with that pid
    std::string   cgroup{};     ///< its directory, if it is one

    friend bool operator==(named_use const&, named_use const&) = default;
};

/// Returns nothing if there is no such process.
inline std::optional<named_use> find_process(pid_t pid) {
    auto const state = pid > 0 ? other_processes().state_of(pid) : std::nullopt;
    if (!state || state->ended) return {};
    return named_use{.pid = pid, .started = state->started};
}

/// What one job uses outside. Children that the thread has started since are the job's.
struct job_outside {
    pid_t                  thread = 0;
    std::uint64_t          since  = 0;  ///< monotonic nanoseconds
    std::vector<named_use> named{};
    std::size_t            now  = 0;  ///< bytes, of all that, when last looked at
    std::size_t            peak = 0;  ///< of that
};

/// What this process's children, and what jobs named, used when last looked at.
class outside_use {
public:
    /// Notes what a job uses.
    void note(job_outside& job) const noexcept {
        auto const is_own = [&](child const& c) { return c.thread == job.thread && c.started_by >= job.since; };
        job.now           = 0;
        for (child const& c : children_)
            if (is_own(c)) job.now += c.bytes;
        for (name const& n : named_) {
            auto const has_it = [&](child const& c) { return c.pid == n.below && is_own(c); };
            if (std::ranges::find(job.named, n.what) != job.named.end() && std::ranges::none_of(children_, has_it))
                job.now += n.bytes;
        }
        job.peak = std::max(job.peak, job.now);
    }

    /// Bytes that the process's own figure does not have.
    std::size_t besides() const noexcept { return besides_; }

private:
    friend class job_watch;
    struct child {
        pid_t         pid;
        pid_t         thread;      ///< that started it
        std::uint64_t started_by;  ///< monotonic nanoseconds, at the latest
        std::size_t   bytes;       ///< with all below it
    };
    struct name {
        named_use   what;
        pid_t       below;  ///< the child that it is, or is below; or 0
        std::size_t bytes;
    };
    std::vector<child> children_{};
    std::vector<name>  named_{};
    std::size_t        besides_ = 0;
};

/// Looks at processes that jobs have started or named. One thread at a time.
class job_watch {
public:
    explicit job_watch(std::string proc = "/proc") : all_(std::move(proc)) {}

    /// Looks again, unless that would take more than a twentieth of the time. `by_cgroup`: the process's own figure
    /// is that of its cgroup, where its children are. Throws std::bad_alloc.
    outside_use const& look(std::vector<named_use> const& named, bool by_cgroup) {
        std::uint64_t const begin = exact_now();
        bool const          none  = named.empty() && !has_children();
        if (none) return last_ = {};
        if (begin < next_) return last_;
        pid_t const self = ::getpid();
        outside_use seen;
        all_.for_children(self, [&](pid_t thread, pid_t pid) {
            auto const state = all_.state_of(pid);
            if (state) seen.children_.push_back({pid, thread, latest_start(*state), all_.memory_of_tree(pid)});
        });
        if (!by_cgroup)
            for (outside_use::child const& c : seen.children_) seen.besides_ += c.bytes;
        for (named_use const& what : named) {
            auto const known = [&](outside_use::name const& n) { return n.what == what; };
            if (std::ranges::any_of(seen.named_, known)) continue;
            pid_t const       below = what.pid ? all_.child_above(what.pid, self) : 0;
            std::size_t const bytes = use_of(what);
            seen.named_.push_back({what, below, bytes});
            if (!below && !(what.pid && by_cgroup && all_.same_cgroup(what.pid, self))) seen.besides_ += bytes;
        }
        last_                   = std::move(seen);
        std::uint64_t const end = exact_now();
        next_                   = end + 19 * (end - begin);
        return last_;
    }

private:
    std::size_t use_of(named_use const& what) const {
        if (!what.cgroup.empty()) return use_of_cgroup(what.cgroup).value_or(0);
        auto const state = all_.state_of(what.pid);
        return state && state->started == what.started ? all_.memory_of_tree(what.pid) : 0;
    }

    other_processes all_;
    outside_use     last_{};
    std::uint64_t   next_ = 0;  ///< not before that
};

}  // namespace tenure::detail
