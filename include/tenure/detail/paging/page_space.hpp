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

#include <tenure/detail/batch/process.hpp>
#include <tenure/detail/space/scratch_file.hpp>
#include <tenure/eviction.hpp>

namespace tenure::detail {

/// A range of a batch's slab memory that is mapped from the page file, whether its pages are in memory or not.
struct paged_range {
    std::uintptr_t begin;
    std::size_t    bytes;
    extent_in_file where;
    bool           copied = false;  ///< all its pages are the process's own, changed or not

    std::uintptr_t end() const noexcept { return begin + bytes; }
};

/// The paging data of a batch. The first page-out makes it; it goes with the batch.
struct paged_batch {
    std::vector<paged_range> ranges;             ///< ordered by address
    std::size_t              bytes     = 0;      ///< in all ranges
    bool                     changes   = false;  ///< most of it had changed when it last went out
    std::uint64_t            failed_at = 0;      ///< page_space::changes at the last failure
    std::uint64_t            free_then = 0;      ///< bytes free on the disk at the last failure
};

/// The page file of one registry, opened by the first page-out, and the counters of paging.
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
    std::atomic<std::uint64_t> relieved{0};  ///< the part of `out` in the registry's own store
    std::atomic<std::uint64_t> written{0};   ///< bytes written, ever
    std::atomic<std::uint64_t> failures{0};  ///< page-outs that failed
    std::atomic<std::uint64_t> changes{1};   ///< events after which a page-out that failed may succeed

    /// Returns the page file; the first call opens it. Throws what opening it throws, until that succeeds;
    /// not_pageable in a forked child, because its parent goes on writing to the file.
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

    /// Returns the page file, null before anything went out.
    scratch_file* opened() const noexcept { return file_.load(std::memory_order_acquire); }

    /// Returns a descriptor of this process's page map (see proc(5)), -1 if the system provides none.
    int pagemap() const noexcept { return pagemap_.get(); }

    /// Frees an extent of memory that went out. Call settle() after the last of a group.
    void release(extent_in_file e) noexcept { opened()->release_later(e); }
    /// Punches freed extents out of the file, and counts a change.
    void settle() noexcept {
        opened()->settle();
        changes.fetch_add(1, std::memory_order_relaxed);
    }

    /// Returns the bytes free on the disk for unprivileged users, 0 if the system does not tell.
    std::uint64_t bytes_free() const noexcept {
        struct ::statvfs about{};
        return ::statvfs(options.directory.c_str(), &about) == 0 ? std::uint64_t{about.f_bavail} * about.f_frsize
                                                                 : 0;
    }

    /// Takes the locks before a fork(), see fork_list.hpp.
    void lock_for_fork() noexcept {
        mutex_.lock();
        if (owner_) owner_->lock_for_fork();
    }
    /// Gives back the locks that lock_for_fork() took.
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

/// The paging of one registry. Its calls are in paging.hpp and residency.hpp.
class registry_paging final : public paging_front {
public:
    registry_paging(registry_core& r, paging_options o)
        : paging_front(o.limit.high != no_limit), space(std::move(o)), registry_(r) {}

    bool        make_room(std::size_t bytes) noexcept override;
    std::size_t page_out_idle(std::size_t bytes) override;
    void        come_back(batch_record& b, bool entered) noexcept override;
    void        note_leaving(batch_record& b, std::uint64_t id) noexcept override;
    void        drop_pages(batch_record& b) noexcept override;
    void        settle(batch_record& b) noexcept override;
    std::string largest_holders() const override;
    paging_info describe() const override;
    void        lock_for_fork() noexcept override { space.lock_for_fork(); }
    void        unlock_after_fork() noexcept override { space.unlock_after_fork(); }

    page_space space;

private:
    registry_core& registry_;
};

inline page_space& space_of(registry_core& r) noexcept { return static_cast<registry_paging&>(*r.pages).space; }

}  // namespace tenure::detail
