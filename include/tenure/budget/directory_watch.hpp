// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/detail/base/file.hpp>

namespace tenure::detail {

/// What the system tells of changes to the files of a directory: inotify(7). fs.inotify limits how many of these a
/// user has; one more is empty, and so is one without a directory. Not thread-safe.
class directory_watch {
public:
    directory_watch() = default;

    /// Watches an open directory, which `path` names.
    directory_watch(int directory, char const* path) noexcept : events_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
        constexpr auto what = IN_CREATE | IN_DELETE | IN_MOVE | IN_MODIFY | IN_CLOSE_WRITE;
        struct ::stat  here{}, there{};
        bool const     watched =
            events_ && ::inotify_add_watch(events_.get(), path, what | IN_EXCL_UNLINK | IN_ONLYDIR) >= 0;
        bool const same = ::fstat(directory, &here) == 0 && ::stat(path, &there) == 0 &&
                          here.st_dev == there.st_dev && here.st_ino == there.st_ino;
        if (!watched || !same) events_.reset();
    }

    explicit operator bool() const noexcept { return static_cast<bool>(events_); }

    /// What poll(2) waits with for changes; -1 if this is empty.
    int fd() const noexcept { return events_.get(); }

    /// Calls f(event, name) for each change since the last time, `event` being inotify's bits. Returns false if
    /// there may have been others: the system lost some, or there are so many that the rest is for the next time.
    /// Cost: a system call for some hundred, and one more.
    template <class F>
    bool take(F f) {
        alignas(::inotify_event) std::array<char, 4096> events;
        bool                                            all = true, over = false;
        for (int reads = 0; events_ && reads < most_reads; ++reads) {
            ::ssize_t const n = ::read(events_.get(), events.data(), events.size());
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return all && n < 0 && errno == EAGAIN;
            for (char const* at = events.data(); at < events.data() + n;) {
                ::inotify_event e;
                std::memcpy(&e, at, sizeof e);
                all  = all && (e.mask & IN_Q_OVERFLOW) == 0;
                over = over || (e.mask & (IN_IGNORED | IN_UNMOUNT)) != 0;
                if (e.len > 0) f(e.mask, std::string_view(at + sizeof e));
                at += sizeof e + e.len;
            }
            if (over) events_.reset();
        }
        return false;
    }

private:
    static constexpr int most_reads = 1024;

    unique_fd events_{};
};

}  // namespace tenure::detail
