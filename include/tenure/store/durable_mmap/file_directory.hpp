// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/detail/base/file.hpp>
#include <tenure/error.hpp>

namespace tenure::detail {

/// An open directory, whose files are found there wherever it is moved. Throws tenure::error, which names the
/// file.
class file_directory {
public:
    /// Opens the directory. For writing, makes it if it is missing, but not the one above.
    file_directory(std::filesystem::path const& where, bool writes) : path_(where) {
        if (writes && ::mkdir(where.c_str(), 0755) != 0 && errno != EEXIST)
            raise(error(system_code(errno), "cannot make the directory " + where.string()));
        fd_ = unique_fd(::open(where.c_str(), (writes ? O_RDONLY : O_PATH) | O_DIRECTORY | O_CLOEXEC));
        if (!fd_) raise(error(system_code(errno), "cannot open the directory " + where.string()));
    }

    std::filesystem::path const& path() const noexcept { return path_; }
    std::filesystem::path        file(char const* name) const { return path_ / name; }

    /// Opens a file to which others may have had access, without waiting or following links. It must be a regular
    /// file, and to be written have no other name. Errors: not_a_file for a symbolic link, hard link, pipe, device
    /// or directory; or the system's.
    ///
    /// O_NONBLOCK: the opening of a pipe would wait for its other end. It means nothing to a regular file.
    std::error_code open(unique_fd& out, char const* name, int flags) const noexcept {
        unique_fd fd(::openat(fd_.get(), name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644));
        if (!fd) {
            bool const other = errno == ELOOP || errno == ENXIO || errno == EISDIR;
            return other ? make_error_code(errc::not_a_file) : system_code(errno);
        }
        struct ::stat about{};
        if (::fstat(fd.get(), &about) != 0) return system_code(errno);
        bool const written = (flags & O_ACCMODE) != O_RDONLY;
        if (!S_ISREG(about.st_mode) || (written && about.st_nlink > 1)) return make_error_code(errc::not_a_file);
        out = std::move(fd);
        return {};
    }

    /// Opens a file likewise. Returns none if there is no such file; throws other errors.
    unique_fd open(char const* name, int flags) const {
        unique_fd  out;
        auto const e = open(out, name, flags);
        if (e && e != std::errc::no_such_file_or_directory) raise(error(e, "cannot open " + file(name).string()));
        return out;
    }

    bool has(char const* name) const noexcept {
        struct ::stat about{};
        return ::fstatat(fd_.get(), name, &about, AT_SYMLINK_NOFOLLOW) == 0;
    }

    /// Returns whether `name` is that of the open file.
    bool names(char const* name, int fd) const noexcept {
        struct ::stat there{}, open{};
        return ::fstatat(fd_.get(), name, &there, AT_SYMLINK_NOFOLLOW) == 0 && ::fstat(fd, &open) == 0 &&
               there.st_dev == open.st_dev && there.st_ino == open.st_ino;
    }

    /// Renames a file that is whole. Throws store_in_use if another process was first.
    void rename(char const* from, char const* to) const {
        int r = ::renameat2(fd_.get(), from, fd_.get(), to, RENAME_NOREPLACE);
        if (r != 0 && (errno == EINVAL || errno == ENOSYS))  // the file system cannot; the caller's locks must do
            r = ::renameat(fd_.get(), from, fd_.get(), to);
        if (r != 0 && errno == EEXIST) raise(error(errc::store_in_use, file(to).string()));
        if (r != 0) raise(error(io_code(errno), "cannot make " + file(to).string()));
    }

    /// Puts the names in the directory, and its own, on stable storage. Skips its own if this user may not read
    /// the directory above or the file system has no such call; then its maker has seen to that.
    void sync() const {
        auto const fail = [&] { raise(error(system_code(errno), "cannot sync the directory " + path_.string())); };
        if (::fsync(fd_.get()) != 0) fail();
        unique_fd const above(::openat(fd_.get(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!above && errno != EACCES) fail();
        if (above && ::fsync(above.get()) != 0 && errno != EINVAL && errno != EROFS) fail();
    }

private:
    std::filesystem::path path_;
    unique_fd             fd_;
};

}  // namespace tenure::detail
