// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <tenure/batch.hpp>
#include <tenure/budget/process_memory.hpp>
#include <tenure/detail/base/printed.hpp>
#include <tenure/device/scheduler/estimate.hpp>
#include <tenure/error.hpp>
#include <tenure/raise.hpp>

namespace tenure {

class registry;

inline constexpr std::size_t any_number_of_cores = static_cast<std::size_t>(-1);

struct budget_options {
    /// Bytes for all jobs together, and for what the process uses besides. A limit of the process's cgroup counts
    /// if it is lower; if there is none either, it is the memory of the machine.
    std::size_t capacity = no_limit;

    std::size_t cores = any_number_of_cores;

    /// How much a job is taken to need, by what was seen of its kind.
    estimate_options estimate{};

    /// How long a job may be passed by others that need less. After that, what is freed is kept for it.
    std::chrono::nanoseconds aging = std::chrono::seconds(1);

    /// How old the figure of what the process uses may be when a job is admitted.
    std::chrono::nanoseconds sample_age = std::chrono::milliseconds(20);

    /// How often to look at processes that jobs have started or named, while there are jobs. 0: never; they do not
    /// count then.
    std::chrono::nanoseconds watch_every = std::chrono::milliseconds(100);

    /// Returns what the process uses. Empty: asks the system, and counts child processes, and what jobs named. Any
    /// thread may call it, one at a time; it must not throw.
    std::function<memory_use()> in_use{};

    /// Whose memory makes room for those who wait: what it has free, and then idle batches whose residency allows
    /// it, in the order of its eviction policy. It must outlive the budget and its reservations. Null: the global
    /// one.
    tenure::registry* registry = nullptr;

    /// Gives memory back to the system of which nobody makes use: `bytes` are missing. Called by a thread of the
    /// budget when somebody begins to wait, and then as long as the process uses more than was reserved. It must
    /// not throw. Empty: asks `registry`.
    std::function<void(std::size_t bytes)> relieve{};
};

/// A machine that several processes share.
struct arbiter_options {
    /// Where they tell each other what they have. Empty: in the user's runtime directory. Processes of several
    /// users share one that the administrator made, with mode 1777. On a local file system.
    std::filesystem::path directory{};

    /// What there is for all of them together; without, seven eighths of the machine's memory, or of what the
    /// cgroup of this process may have, and the machine's cores. Where processes differ, the least counts.
    std::size_t bytes = no_limit;
    std::size_t cores = any_number_of_cores;

    /// How often they look at each other, besides when something changes, as long as one of them lacks something.
    std::chrono::nanoseconds period = std::chrono::milliseconds(50);

    /// How long others may take to give something back before jobs that have room and wait for more are told
    /// would_deadlock.
    std::chrono::nanoseconds grace = std::chrono::seconds(1);
};

/// How a process takes part in a machine that is shared.
struct share_options {
    std::string_view job{};       ///< a name, for people; 47 bytes of it count
    double           weight = 1;  ///< against other jobs of the same user: from 0.001 to 1000
    std::size_t      floor  = 0;  ///< bytes that it has at least, as far as its user's share goes
};

struct reservation_request {
    std::string_view kind{};        ///< few: each is kept. Jobs of one kind need about the same
    std::size_t      bytes    = 0;  ///< what the job is thought to need; 0: as its kind
    std::size_t      cores    = 0;
    int              priority = 0;  ///< higher ones are served first

    /// How long to wait for room, and each time that the job needs more than it has.
    std::chrono::nanoseconds timeout = no_timeout;
};

/// What becomes of a job that memory_budget::run() runs and that throws.
enum class on_failure : std::uint8_t {
    pass_on,  ///< run() throws what it threw
    requeue,  ///< it goes to the end of the line, and runs again from its last save: so many times
};

struct job_options {
    reservation_request needs{};
    batch_options       batch{};  ///< run() sets its `reservation`
    tenure::on_failure  on_failure = tenure::on_failure::pass_on;
    std::size_t         attempts   = 3;  ///< in all, with on_failure::requeue
};

/// A run of a job that failed, and why.
struct job_failure {
    std::string     kind{};
    std::size_t     attempt = 1;
    std::string     what{};            ///< what the exception says
    std::error_code code{};            ///< if it is a std::system_error, as all of tenure's are
    bool            requeued = false;  ///< else it was the last
};

/// What a job is told.
struct job_attempt {
    std::size_t                  number = 1;
    std::span<job_failure const> failures{};  ///< of the attempts before
};

/// What a budget has and who has it, at one moment.
struct budget_figures {
    struct holder {
        std::string kind;
        std::size_t bytes = 0, cores = 0;
        std::size_t outside = 0;  ///< bytes that it uses in other processes, when last looked at
    };

    std::size_t         capacity = 0;
    std::size_t         reserved = 0;
    std::size_t         in_use   = 0;  ///< by the process, when last looked at
    std::size_t         baseline = 0;  ///< the part of it that was there when nothing was reserved
    std::size_t         cores = 0, cores_reserved = 0;
    std::size_t         waiting = 0;  ///< jobs and extensions
    std::vector<holder> holders{};    ///< the newest first
};

namespace detail {

/// Throws std::errc::invalid_argument for a number that was negative before it was given as an amount. `none`: says
/// that there is no limit.
inline void check_amount(std::size_t n, char const* of, std::size_t none = no_limit) {
    if (n == none || n <= no_limit / 2) return;
    raise(error(std::make_error_code(std::errc::invalid_argument),
                printed("budget: %zd %s", static_cast<std::ptrdiff_t>(n), of)));
}

}  // namespace detail
}  // namespace tenure
