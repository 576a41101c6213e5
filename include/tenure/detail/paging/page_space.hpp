// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <tenure/detail/space/scratch_file.hpp>
#include <tenure/eviction.hpp>

namespace tenure::detail {

struct paging_options {
    std::string         directory;
    memory_limits       limit{};
    any_eviction_policy eviction = least_recently_entered{};
    paged_access        access   = paged_access::brings_back;
};

/// Slab memory of a batch that is mapped from the page file, be its pages there or not.
struct paged_range {
    std::uintptr_t begin;
    std::size_t    bytes;
    extent_in_file where;
    bool           copied = false;  ///< all its pages are the process's own, whether they changed or not

    std::uintptr_t end() const noexcept { return begin + bytes; }
};

/// What paging a batch came to: made by its first page-out, and gone with the batch.
struct paged_batch {
    std::vector<paged_range> ranges;             ///< by address
    std::size_t              bytes     = 0;      ///< in them
    bool                     changes   = false;  ///< when it last went out, most of it was not as it had come
    std::uint64_t            failed_at = 0;      ///< page_space::changes when the last try failed
    std::uint64_t            free_then = 0;      ///< bytes free on the disk then
};

/// One registry's page file, opened by the first page-out, and how much memory it has relieved.
class page_space {
public:
    explicit page_space(paging_options o) : options(std::move(o)) {
        if (options.directory.empty()) {
            char const* const set = std::getenv("TMPDIR");
            options.directory     = set && *set ? set : "/var/tmp";  // not /tmp, which is memory on many systems
        }
        if (options.limit.low > options.limit.high) options.limit.low = options.limit.high / 8 * 7;
    }

    paging_options options;

    std::atomic<std::uint64_t> out{0};       ///< bytes that are out now
    std::atomic<std::uint64_t> relieved{0};  ///< of these, of the registry's own store
    std::atomic<std::uint64_t> written{0};   ///< bytes, ever
    std::atomic<std::uint64_t> failures{0};  ///< page-outs that failed
    std::atomic<std::uint64_t> changes{1};   ///< how often a page-out that failed may fare better since
    std::atomic<std::uint64_t> entries{0};   ///< how often a batch was entered: the clock of evictions

    bool limited() const noexcept { return options.limit.high != no_limit; }

    /// The file. Throws what its opening throws, for as long as that fails; not_pageable in a forked child, whose
    /// parent goes on writing to the file.
    scratch_file& file() {
        if (scratch_file* const f = file_.load(std::memory_order_acquire)) {
            if (opener_ != ::getpid()) raise(error(errc::not_pageable, "the page file is the parent process's"));
            return *f;
        }
        std::scoped_lock const guard(mutex_);
        if (!owner_) {
            pagemap_ = unique_fd(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
            owner_   = std::make_unique<scratch_file>(options.directory);
            opener_  = ::getpid();
            file_.store(owner_.get(), std::memory_order_release);
        }
        return *owner_;
    }

    /// Null before anything went out.
    scratch_file* opened() const noexcept { return file_.load(std::memory_order_acquire); }

    /// Which pages are where; -1 where the system does not tell. Of this process only: see proc(5).
    int pagemap() const noexcept { return pagemap_.get(); }

    /// Of what went out; settle() when all that goes at one time is named.
    void release(extent_in_file e) noexcept { opened()->release_later(e); }
    void settle() noexcept {
        opened()->settle();
        changes.fetch_add(1, std::memory_order_relaxed);
    }

    /// Bytes that the disk has for others.
    std::uint64_t bytes_free() const noexcept {
        struct ::statvfs about{};
        return ::statvfs(options.directory.c_str(), &about) == 0 ? std::uint64_t{about.f_bavail} * about.f_frsize
                                                                 : 0;
    }

    /// See fork_list.hpp.
    void lock_for_fork() noexcept {
        mutex_.lock();
        if (owner_) owner_->lock_for_fork();
    }
    void unlock_after_fork() noexcept {
        if (owner_) owner_->unlock_after_fork();
        mutex_.unlock();
    }

private:
    std::mutex                    mutex_;
    std::unique_ptr<scratch_file> owner_;
    std::atomic<scratch_file*>    file_{nullptr};
    unique_fd                     pagemap_;
    ::pid_t                       opener_ = 0;
};

}  // namespace tenure::detail
