// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
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
    /// Notes what each job uses: `jobs(f)` calls f(job_outside&) for all, the newest first. Of several that one
    /// thread has opened, the newest gets what that started.
    template <class Jobs>
    void divide(Jobs jobs) noexcept {
        for (child& c : children_) c.is_given = false;
        jobs([this](job_outside& job) {
            job.now = 0;
            for (child& c : children_) {
                if (c.is_given || c.thread != job.thread || c.started_by < job.since) continue;
                c.is_given = true;
                job.now += c.bytes;
            }
            for (auto const& [what, bytes] : named_)
                if (std::ranges::find(job.named, what) != job.named.end()) job.now += bytes;
            job.peak = std::max(job.peak, job.now);
        });
    }

    /// Bytes that the process's own figure does not have.
    std::size_t besides() const noexcept { return besides_; }

private:
    friend class job_watch;
    struct child {
        pid_t         thread;      ///< that started it
        std::uint64_t started_by;  ///< monotonic nanoseconds, at the latest
        std::size_t   bytes;       ///< with all below it that nobody has named
        bool          is_given = false;
    };
    std::vector<child>                             children_{};
    std::vector<std::pair<named_use, std::size_t>> named_{};
    std::size_t                                    besides_ = 0;
};

/// Looks at processes that jobs have started or named. One thread at a time.
class job_watch {
public:
    explicit job_watch(std::string proc = "/proc") : all_(std::move(proc)) {}

    /// Looks again, unless that would take more than a twentieth of the time. `group`: the cgroup that is the
    /// process's own figure; empty if there is none. Each process counts once: for who names it, or its cgroup,
    /// else for who has started it. Throws std::bad_alloc.
    outside_use& look(std::vector<named_use> const& named, std::string_view group) {
        std::uint64_t const begin = exact_now();
        bool const          none  = named.empty() && !has_children();
        if (none) return last_ = {};
        if (begin < next_) return last_;
        pid_t const     self = ::getpid();
        std::set<pid_t> seen{self};
        outside_use     now;
        auto const      in_named = [&](pid_t pid) {
            return std::ranges::any_of(
                named, [&](named_use const& n) { return !n.cgroup.empty() && all_.is_in(pid, n.cgroup); });
        };
        auto const tree = [&](pid_t top) {
            std::size_t sum = 0;
            all_.for_tree(top, seen, [&](pid_t pid) {
                if (in_named(pid)) return;
                std::size_t const bytes = all_.memory_of(pid);
                sum += bytes;
                if (group.empty() || !all_.is_in(pid, group)) now.besides_ += bytes;
            });
            return sum;
        };
        for (named_use const& what : named) {
            auto const known = [&](auto const& n) { return n.first == what; };
            if (std::ranges::any_of(now.named_, known)) continue;
            std::size_t bytes = 0;
            if (!what.cgroup.empty()) {
                bytes = use_of_cgroup(what.cgroup).value_or(0);
                if (group.empty() || !is_below(what.cgroup, group)) now.besides_ += bytes;
            } else if (auto const state = all_.state_of(what.pid); state && state->started == what.started) {
                bytes = tree(what.pid);
            }
            now.named_.emplace_back(what, bytes);
        }
        all_.for_children(self, [&](pid_t thread, pid_t pid) {
            if (auto const state = all_.state_of(pid))
                now.children_.push_back({thread, latest_start(*state), tree(pid)});
        });
        last_                   = std::move(now);
        std::uint64_t const end = exact_now();
        next_                   = end + 19 * (end - begin);
        return last_;
    }

private:
    other_processes all_;
    outside_use     last_{};
    std::uint64_t   next_ = 0;  ///< not before that
};

}  // namespace tenure::detail
