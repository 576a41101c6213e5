// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <tenure/detail/base/file.hpp>
#include <tenure/detail/space/file_space.hpp>
#include <tenure/error.hpp>
#include <tenure/result.hpp>

namespace tenure::detail {

/// Opens a file without a name in `directory`. It is gone when the last process has closed it or ended, however it
/// ended. Throws tenure::error, which names the directory and the reason.
inline unique_fd open_unnamed(std::filesystem::path const& directory) {
    auto const fail = [&](int e, char const* what) -> unique_fd {
        raise(error(system_code(e), "no scratch file in " + directory.string() + ": " + what));
    };
    struct ::stat about{};
    if (::stat(directory.c_str(), &about) != 0)
        return fail(errno, errno == ENOENT ? "there is no such directory" : "it cannot be looked at");
    if (!S_ISDIR(about.st_mode)) return fail(ENOTDIR, "it is not a directory");

    unique_fd fd(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (fd) return fd;
    // EISDIR: a kernel before 3.11; EOPNOTSUPP: NFS, FUSE, overlays on some of them.
    if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL) {
        std::string name = (directory / ".tenure-scratch-XXXXXX").string();
        fd               = unique_fd(::mkostemp(name.data(), O_CLOEXEC));
        if (fd) {
            ::unlink(name.c_str());
            return fd;
        }
    }
    switch (errno) {
    case EROFS: return fail(errno, "the file system is read-only");
    case EACCES:
    case EPERM: return fail(errno, "this user may not make files there");
    case ENOSPC:
    case EDQUOT: raise(error(errc::store_full, "no scratch file in " + directory.string()));
    default: return fail(errno, "the system refused");
    }
}

inline std::uint64_t bytes_on_disk(int fd) noexcept {
    struct ::stat about{};
    return ::fstat(fd, &about) == 0 ? static_cast<std::uint64_t>(about.st_blocks) * 512 : 0;
}

inline bool on_tmpfs(int fd) noexcept {
    struct ::statfs about{};
    return ::fstatfs(fd, &about) == 0 &&
           (about.f_type == TMPFS_MAGIC || about.f_type == static_cast<decltype(about.f_type)>(RAMFS_MAGIC));
}

/// A temporary file as a pool of extents (see file_space). It has no name, so nothing is left of it if the process
/// is killed. Thread-safe. After fork() it is the parent's: a child may read it, and may destroy its copy of this
/// object.
class scratch_file {
public:
    /// Opens the file. Throws tenure::error, which names `directory`, if that is missing, no directory, read-only,
    /// or another user's.
    explicit scratch_file(std::filesystem::path directory, file_space_options options = {})
        : directory_(std::move(directory)), fd_(open_unnamed(directory_)), space_(fd_.get(), options) {}

    /// Forwards to file_space, as the functions below do.
    result<extent_in_file> reserve(std::uint64_t bytes, std::uint64_t alignment = 1) noexcept {
        return space_.reserve(bytes, alignment);
    }
    bool split(std::size_t n) noexcept { return space_.split(n); }
    void release(extent_in_file e) noexcept { space_.release(e); }
    void release(std::span<extent_in_file const> many) noexcept { space_.release(many); }
    void release_later(extent_in_file e) noexcept { space_.release_later(e); }
    void settle() noexcept { space_.settle(); }
    void trim(std::uint64_t keep) noexcept { space_.trim(keep); }

    std::uint64_t bytes_reserved() const noexcept { return space_.bytes_reserved(); }
    std::uint64_t bytes_warm() const noexcept { return space_.bytes_warm(); }

    /// Locks for fork(). See fork_list.hpp.
    void lock_for_fork() noexcept { space_.lock_for_fork(); }
    void unlock_after_fork() noexcept { space_.unlock_after_fork(); }

    /// Returns the bytes that the file takes on the disk, as the file system counts them, or 0 if it does not say.
    std::uint64_t bytes_on_disk() const noexcept { return detail::bytes_on_disk(fd_.get()); }

    int                          fd() const noexcept { return fd_.get(); }
    std::filesystem::path const& directory() const noexcept { return directory_; }

    /// Returns whether the "disk" is in fact memory, so that moving data there frees none.
    bool on_tmpfs() const noexcept { return detail::on_tmpfs(fd_.get()); }

private:
    std::filesystem::path directory_;
    unique_fd             fd_;
    file_space            space_;
};

}  // namespace tenure::detail
