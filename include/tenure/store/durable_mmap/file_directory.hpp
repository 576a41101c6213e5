// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

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

/// Admits one writer and any number of readers, by locks on two bytes of each file that is written: byte 0 for the
/// writer, byte 1 for readers. So two stores never write to one file, whatever is removed, moved or replaced. The
/// locks belong to the open file (F_OFD_SETLK): they go with the process, and a second opener in this process is
/// refused like any other.
///
/// The file `lock` names the writer, and is locked in the same way: older builds of tenure look there alone.
class owner_lock {
public:
    /// Opens and locks `lock`. A reader does without it if it is missing or cannot be opened. Throws
    /// tenure::error: store_in_use, naming the process; not_a_file; or the system's.
    owner_lock(file_directory const& where, bool writes) : where_(where), writes_(writes) {
        auto const e = where.open(note_, "lock", writes ? O_RDWR | O_CREAT : O_RDONLY);
        if (e && (writes || e == errc::not_a_file)) raise(error(e, "cannot open " + where.file("lock").string()));
        if (note_) add(note_.get(), "lock");
    }
    owner_lock(owner_lock const&)            = delete;
    owner_lock& operator=(owner_lock const&) = delete;

    /// Locks a file, to write or to read, until release() or until `fd` is closed. Throws tenure::error:
    /// store_in_use, naming the process, or the system's.
    void add(int fd, char const* name) {
        if (!(writes_ ? set(fd, F_WRLCK, writer) : await(fd))) {
            if (errno != EAGAIN && errno != EACCES)
                raise(error(system_code(errno), "cannot lock " + where_.file(name).string()));
            raise(error(errc::store_in_use, where_.path().string() + ": held by process " + holder()));
        }
        files_.push_back(fd);
    }

    /// Writes this process's id to `lock`, once all files to be written are locked. On a full disk `lock` names
    /// nobody. Throws tenure::error.
    void sign() const {
        std::string const pid = std::to_string(::getpid()) + "\n";
        if (::ftruncate(note_.get(), 0) == 0 && write_whole(note_.get(), 0, std::as_bytes(std::span(pid)))) return;
        auto const why = io_code(errno);
        if (why != errc::store_full) raise(error(why, "cannot write " + where_.file("lock").string()));
    }

    /// Calls f() if there are no readers, and admits none before it returns. For the writer.
    template <class F>
    bool without_readers(F f) noexcept {
        std::size_t n = 0;
        while (n < files_.size() && set(files_[n], F_WRLCK, readers)) ++n;
        bool const none = n == files_.size();
        if (none) f();
        while (n > 0) set(files_[--n], F_UNLCK, readers);
        return none;
    }

    void release() noexcept {
        for (int const fd : files_) set(fd, F_UNLCK, writer), set(fd, F_UNLCK, readers);
        files_.clear();
        note_.reset();
    }

private:
    static constexpr ::off_t  writer = 0, readers = 1;
    static constexpr unsigned patience = 5'000;  ///< milliseconds

    static bool set(int fd, short type, ::off_t byte) noexcept {
        struct ::flock l{};
        l.l_type   = type;
        l.l_whence = SEEK_SET;
        l.l_start  = byte;
        l.l_len    = 1;
        int r      = 0;
        do r = ::fcntl(fd, F_OFD_SETLK, &l);
        while (r != 0 && errno == EINTR);
        return r == 0;
    }

    /// Waits for a writer that gives up what readers might use: some milliseconds, unless it is stopped there.
    static bool await(int fd) noexcept {
        for (unsigned i = 0;; ++i) {
            if (set(fd, F_RDLCK, readers)) return true;
            if ((errno != EAGAIN && errno != EACCES) || i == patience) return false;
            ::usleep(1000);
        }
    }

    std::string holder() const {
        char          text[24];
        ssize_t const n     = note_ ? ::pread(note_.get(), text, sizeof text, 0) : 0;
        int           pid   = 0;
        auto const    ended = std::from_chars(text, text + (n > 0 ? n : 0), pid);
        return ended.ec == std::errc() ? std::to_string(pid) : "(unknown)";
    }

    file_directory const& where_;
    bool const            writes_;
    unique_fd             note_;
    std::vector<int>      files_;
};

}  // namespace tenure::detail
