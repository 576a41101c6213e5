// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <tenure/detail/base/function_ref.hpp>
#include <tenure/error.hpp>
#include <tenure/raise.hpp>

namespace tenure {

namespace detail {

/// Who lends a batch the bytes that it, and all below it, use. Thread-safe. No lock is held when it is called.
class lender {
public:
    lender()                         = default;
    lender(lender const&)            = delete;
    lender& operator=(lender const&) = delete;
    virtual ~lender()                = default;

    /// Returns the bytes lent, which only grow.
    virtual std::size_t bytes() const noexcept = 0;

    /// Lends more, so that `in_use + wanted` fit, which may mean to wait. Asks `over()` now and then, with a lock
    /// held, and gives up if it says so. Errors: limit_exceeded, timed_out, would_deadlock, cancelled for `over()`,
    /// memory_full.
    virtual errc extend(std::size_t in_use, std::size_t wanted, function_ref<bool()> over) noexcept = 0;

    /// Returns who has what, for a message: ": ...".
    virtual std::string holders() const = 0;

    /// Returns the address of the budget, by which it knows its own.
    virtual void const* budget() const noexcept = 0;

    /// The batch is over, and its memory is free. It used `peak` bytes at most.
    virtual void ended(std::size_t peak) noexcept = 0;

    /// What that process and those below it use is the job's, too; or what a cgroup with that directory does.
    /// Errors: what the system says.
    virtual std::error_code add_process(int pid)                     = 0;
    virtual std::error_code add_cgroup(std::string const& directory) = 0;

    /// A batch is charged to it from now on, opened by this thread.
    virtual void begun() noexcept = 0;

    /// Claims the loan for the one batch that may use it. Returns false if it was claimed before.
    bool claim() noexcept { return !claimed_.exchange(true, std::memory_order_acq_rel); }
    void disclaim() noexcept { claimed_.store(false, std::memory_order_release); }

private:
    std::atomic<bool> claimed_{false};
};

struct reservation_access;

}  // namespace detail

/// A guard of room in a memory_budget. Open a batch with it (batch_options::reservation): what that batch and those
/// below it use is charged to the room, and the room is free again when the memory of the batch is. Without a batch
/// it is free when the guard goes. Copies stand for the same room, so options that have one can be copied. One
/// batch can be opened with it.
///
/// Thread-safe as a shared_ptr is.
class reservation {
public:
    reservation() noexcept = default;

    explicit operator bool() const noexcept { return from_ != nullptr; }

    /// Returns the bytes reserved by now: those that were granted, and those by which the batch's use has extended
    /// it.
    std::size_t bytes() const noexcept { return from_ ? from_->bytes() : 0; }

    /// Says that the job uses a process, and those below it, or a cgroup, `/sys/fs/cgroup/...`: until it ends, what
    /// they use counts as the job's. Child processes that the thread starts which has opened the job's batch count
    /// without that. Throws what the system says, if there is none; std::errc::invalid_argument without a room.
    void add_process(int pid) const {
        require_added(from_ ? from_->add_process(pid) : nobody(), "process " + std::to_string(pid));
    }
    void add_cgroup(std::string const& directory) const {
        require_added(from_ ? from_->add_cgroup(directory) : nobody(), "cgroup " + directory);
    }

    /// Gives the guard up. The room is free, unless there are copies or a batch.
    void release() noexcept { from_.reset(); }

private:
    friend detail::reservation_access;
    explicit reservation(std::shared_ptr<detail::lender> from) noexcept : from_(std::move(from)) {}

    static std::error_code nobody() noexcept { return std::make_error_code(std::errc::invalid_argument); }
    static void            require_added(std::error_code why, std::string const& what) {
        if (why) raise(error(why, "add " + what + " to a job"));
    }

    std::shared_ptr<detail::lender> from_;
};

namespace detail {

struct reservation_access {
    static reservation make(std::shared_ptr<lender> from) noexcept { return reservation(std::move(from)); }
    static std::shared_ptr<lender> const& lender_of(reservation const& r) noexcept { return r.from_; }
};

}  // namespace detail
}  // namespace tenure
