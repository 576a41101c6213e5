// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include <fcntl.h>
#include <unistd.h>

#include <tenure/detail/base/file.hpp>
#include <tenure/detail/base/os.hpp>
#include <tenure/detail/space/extent_pool.hpp>
#include <tenure/error.hpp>
#include <tenure/result.hpp>

namespace tenure::detail {

struct file_space_options {
    std::uint64_t end       = std::uint64_t{1} << 43;   ///< no extent lies beyond; ext4's files end at 2^44
    std::uint64_t keep_warm = std::uint64_t{64} << 20;  ///< freed bytes that stay on the disk for later extents
};

/// Allocates the bytes of a file. Blocks of the disk are reserved for an extent before it is handed out, so that a
/// full disk is an error there and not a SIGBUS at a write to the mapping. (A file system that copies on write, as
/// btrfs and ZFS do, may need new blocks when old ones are overwritten, and may then fail all the same.)
///
/// The file's blocks follow what is reserved. A freed extent is punched out of the file, except for some bytes
/// that are kept for later extents, because a reserve() from them makes no system call. For the same reason a hole
/// gets its blocks in larger steps.
///
/// Thread-safe: one mutex, never held across a system call. The file is the caller's, and must outlive this.
class file_space {
public:
    file_space(int fd, file_space_options o) noexcept : fd_(fd), options_(o), pool_(o.end), owner_(::getpid()) {}

    /// Reserves `bytes` bytes, rounded up to whole pages, at a multiple of `alignment` (a power of two), with
    /// blocks on the disk. Their contents are unspecified. Errors: store_full (the disk, a quota, RLIMIT_FSIZE or
    /// options.end), memory_full, and the system's own.
    result<extent_in_file> reserve(std::uint64_t bytes, std::uint64_t alignment = 1) noexcept {
        std::uint64_t const page = page_bytes();
        if (bytes > options_.end) return make_error_code(errc::store_full);
        bytes     = (std::max(bytes, std::uint64_t{1}) + page - 1) / page * page;
        alignment = std::max(alignment, page);

        std::error_code failed;
        for (int attempt = 0; attempt < 3; ++attempt) {
            if (attempt == 2) trim(0);  // the disk may lack what is kept warm
            std::unique_lock guard(mutex_);
            if (!pool_.prepare()) return make_error_code(errc::memory_full);
            extent_in_file e = pool_.take(free_kind::warm, bytes, alignment);
            if (e.bytes) {
                reserved_ += bytes;
                return e;
            }
            std::uint64_t const step = attempt == 0 ? std::max(bytes, this->step()) : bytes;
            e                        = pool_.take(free_kind::cold, step, alignment);
            if (!e.bytes && step > bytes) e = pool_.take(free_kind::cold, bytes, alignment);
            if (!e.bytes) return make_error_code(errc::store_full);
            guard.unlock();

            failed = back(e);
            if (failed) punch(e);  // part of it may have got its blocks

            guard.lock();
            if (!failed) {
                reserved_ += bytes;
                if (e.bytes > bytes) {
                    pool_.split();
                    pool_.put({e.offset + bytes, e.bytes - bytes}, free_kind::warm);
                    e.bytes = bytes;
                }
                return e;
            }
            pool_.put(e, free_kind::cold);
            if (failed != errc::store_full) break;
        }
        return failed;
    }

    /// Records that reserved extents became `n` more, each of which is released by itself. Returns false if there
    /// is no memory for records.
    bool split(std::size_t n) noexcept {
        std::scoped_lock const guard(mutex_);
        for (; n > 0; --n) {
            if (!pool_.prepare()) return false;
            pool_.split();
        }
        return true;
    }

    /// Releases reserved extents, in any order; neighbours join. Allocates nothing. O(log n) for each, and a
    /// system call for each joined range that is punched out.
    void release(std::span<extent_in_file const> many) noexcept {
        {
            std::scoped_lock const guard(mutex_);
            for (extent_in_file const& e : many) {
                reserved_ -= e.bytes;
                pool_.put(e, free_kind::warm);
            }
        }
        trim(options_.keep_warm);
    }
    void release(extent_in_file e) noexcept { release({&e, 1}); }

    /// Releases an extent as release() does, but punches nothing. For a caller that frees many, one by one, and
    /// then calls settle().
    void release_later(extent_in_file e) noexcept {
        std::scoped_lock const guard(mutex_);
        reserved_ -= e.bytes;
        pool_.put(e, free_kind::warm);
    }
    /// Punches out what release_later() left beyond the bytes that are kept.
    void settle() noexcept { trim(options_.keep_warm); }

    /// Punches out free ranges until no more than `keep` bytes of them have blocks.
    void trim(std::uint64_t keep) noexcept {
        while (punches_.load(std::memory_order_relaxed)) {
            extent_in_file e;
            {
                std::scoped_lock const guard(mutex_);
                if (pool_.bytes(free_kind::warm) <= keep) return;
                e = pool_.take_largest(free_kind::warm);
            }
            bool const             gone = punch(e);
            std::scoped_lock const guard(mutex_);
            pool_.put(e, gone ? free_kind::cold : free_kind::warm);
            if (!gone) return;
        }
    }

    /// Reserves exactly that range, which was reserved at an earlier time. Returns false if part of it is in use,
    /// or if there is no memory for records.
    bool claim(extent_in_file e) noexcept {
        std::scoped_lock const guard(mutex_);
        if (!pool_.prepare() || !pool_.take(e)) return false;
        reserved_ += e.bytes;
        return true;
    }

    /// Releases an extent as release() does, but it is not reserved again before reclaim(). O(log n).
    void retire(extent_in_file e) noexcept {
        std::scoped_lock const guard(mutex_);
        reserved_ -= e.bytes;
        pool_.put(e, free_kind::retired);
    }

    /// Punches out the retired ranges, each joined range after a call of f(extent). Stops when f returns false;
    /// that range stays retired.
    template <class F>
    void reclaim(F f) noexcept {
        for (;;) {
            extent_in_file e;
            {
                std::scoped_lock const guard(mutex_);
                e = pool_.take_largest(free_kind::retired);
            }
            if (!e.bytes) return;
            bool const             ready = f(e);
            bool const             gone  = ready && punch(e);
            std::scoped_lock const guard(mutex_);
            pool_.put(e, gone ? free_kind::cold : ready ? free_kind::warm : free_kind::retired);
            if (!ready) return;
        }
    }

    /// Give the blocks of a range that stays reserved back to the disk, and reserve them again.
    void            punch_out(extent_in_file e) noexcept { punch(e); }
    std::error_code back_again(extent_in_file e) noexcept { return back(e); }

    /// Returns the bytes in extents that were reserved and not released.
    std::uint64_t bytes_reserved() const noexcept {
        std::scoped_lock const guard(mutex_);
        return reserved_;
    }
    /// Returns the bytes that are free and yet have blocks on the disk.
    std::uint64_t bytes_warm() const noexcept {
        std::scoped_lock const guard(mutex_);
        return pool_.bytes(free_kind::warm);
    }

    int fd() const noexcept { return fd_; }

    /// Locks for fork(). See fork_list.hpp.
    void lock_for_fork() noexcept { mutex_.lock(); }
    void unlock_after_fork() noexcept { mutex_.unlock(); }

private:
    /// Gets blocks for a range by fallocate(), or by writing zeros where the file system cannot do that. Zeros
    /// take their blocks at once. posix_fallocate()'s one byte for each block would, too, but costs a read and a
    /// write for each.
    std::error_code back(extent_in_file e) const noexcept {
        if (!within_size_limit(e.end())) return make_error_code(errc::store_full);
        int r = 0;
        do r = ::fallocate(fd_, 0, static_cast<off_t>(e.offset), static_cast<off_t>(e.bytes));
        while (r != 0 && errno == EINTR);
        if (r == 0) return {};
        if (errno != EOPNOTSUPP && errno != ENOSYS) return io_code(errno);
        static constexpr std::byte zeros[65'536]{};
        for (std::uint64_t at = e.offset; at < e.end(); at += sizeof zeros) {
            auto const n = static_cast<std::size_t>(std::min<std::uint64_t>(sizeof zeros, e.end() - at));
            if (!write_whole(fd_, at, {zeros, n})) return io_code(errno);
        }
        return {};
    }

    bool punch(extent_in_file e) noexcept {
        if (::getpid() != owner_) return false;  // a forked child's copy: the file is the parent's
        int r = 0;
        do
            r = ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(e.offset),
                            static_cast<off_t>(e.bytes));
        while (r != 0 && errno == EINTR);
        if (r == 0) return true;
        if (errno == EOPNOTSUPP || errno == ENOSYS) punches_.store(false, std::memory_order_relaxed);
        return false;
    }

    /// Returns how many bytes of a hole get their blocks at once. It grows with what is reserved, but never
    /// exceeds what may be kept warm.
    std::uint64_t step() const noexcept {
        constexpr std::uint64_t least = std::uint64_t{256} << 10, most = std::uint64_t{16} << 20;
        return std::min(std::clamp(reserved_ / 8 / least * least, least, most), options_.keep_warm);
    }

    int                fd_;
    file_space_options options_;
    mutable std::mutex mutex_;
    extent_pool        pool_;
    std::uint64_t      reserved_ = 0;
    std::atomic<bool>  punches_{true};  ///< whether the file system can punch
    ::pid_t            owner_;
};

}  // namespace tenure::detail
