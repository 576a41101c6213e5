// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include <tenure/detail/file.hpp>
#include <tenure/error.hpp>

namespace tenure::detail {

/// One writer at a time, and any number of readers beside it, by locks on bytes of a file: byte 0 is the writer's,
/// byte 1 the readers'. They belong to the open file (F_OFD_SETLK), so they go with the process, and a second
/// opener in this process is refused like any other. The file's text is the writer's process id.
class owner_lock {
public:
    owner_lock() noexcept = default;

    /// Throws tenure::error: store_in_use names the process; else what the system said of the file.
    static owner_lock for_writing(std::filesystem::path const& file) {
        owner_lock l;
        l.fd_ = unique_fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
        if (!l.fd_) throw error(system_code(errno), "cannot open " + file.string());
        if (!l.set(F_WRLCK, 0)) {
            if (errno != EAGAIN && errno != EACCES) throw error(system_code(errno), "cannot lock " + file.string());
            throw error(errc::store_in_use, file.parent_path().string() + ": held by process " + l.holder());
        }
        std::string const pid = std::to_string(::getpid()) + "\n";
        if (::ftruncate(l.fd_.get(), 0) != 0 || !write_whole(l.fd_.get(), 0, std::as_bytes(std::span(pid))))
            throw error(io_code(errno), "cannot write " + file.string());
        return l;
    }

    /// Without a lock where there is no file, or none that may be opened: then nobody is writing there either.
    static owner_lock for_reading(std::filesystem::path const& file) {
        owner_lock l;
        l.fd_ = unique_fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
        if (l.fd_ && !l.set(F_RDLCK, 1, true)) throw error(system_code(errno), "cannot lock " + file.string());
        return l;
    }

    /// For the writer: calls f() if there are no readers, and none comes before it returns.
    template <class F>
    bool without_readers(F f) noexcept {
        if (!set(F_WRLCK, 1)) return false;
        f();
        set(F_UNLCK, 1);
        return true;
    }

    void release() noexcept { fd_.reset(); }

private:
    bool set(short type, ::off_t byte, bool wait = false) const noexcept {
        struct ::flock l{};
        l.l_type   = type;
        l.l_whence = SEEK_SET;
        l.l_start  = byte;
        l.l_len    = 1;
        int r      = 0;
        do r = ::fcntl(fd_.get(), wait ? F_OFD_SETLKW : F_OFD_SETLK, &l);
        while (r != 0 && errno == EINTR);
        return r == 0;
    }

    std::string holder() const {
        char          text[24];
        ssize_t const n     = ::pread(fd_.get(), text, sizeof text, 0);
        int           pid   = 0;
        auto const    ended = std::from_chars(text, text + (n > 0 ? n : 0), pid);
        return ended.ec == std::errc() ? std::to_string(pid) : "(unknown)";
    }

    unique_fd fd_;
};

}  // namespace tenure::detail
