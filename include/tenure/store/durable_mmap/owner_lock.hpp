// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <tenure/detail/base/file.hpp>
#include <tenure/error.hpp>
#include <tenure/store/durable_mmap/file_directory.hpp>

namespace tenure::detail {

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
