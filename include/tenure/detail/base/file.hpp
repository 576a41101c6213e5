// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <tenure/error.hpp>

namespace tenure::detail {

/// Closes what it holds. -1: nothing.
class unique_fd {
public:
    unique_fd() noexcept = default;
    explicit unique_fd(int fd) noexcept : fd_(fd) {}
    unique_fd(unique_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    unique_fd& operator=(unique_fd&& other) noexcept {
        if (this != &other) {
            reset();
            fd_ = std::exchange(other.fd_, -1);
        }
        return *this;
    }
    ~unique_fd() { reset(); }

    int      get() const noexcept { return fd_; }
    explicit operator bool() const noexcept { return fd_ >= 0; }
    void     reset() noexcept {
        if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    }

private:
    int fd_ = -1;
};

inline std::error_code system_code(int e) noexcept { return {e, std::system_category()}; }

/// What an errno means to a store: a full disk, quota or file is store_full, and the rest is the system's own.
inline std::error_code io_code(int e) noexcept {
    switch (e) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return make_error_code(errc::store_full);
    case ENOMEM: return make_error_code(errc::memory_full);
    default: return system_code(e);
    }
}

/// All of `out` from that place of the file. False: errno says why, or is 0 where the file ends before.
inline bool read_whole(int fd, std::uint64_t at, std::span<std::byte> out) noexcept {
    while (!out.empty()) {
        ssize_t const n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(at));
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = 0;
        if (n <= 0) return false;
        out = out.subspan(static_cast<std::size_t>(n));
        at += static_cast<std::uint64_t>(n);
    }
    return true;
}

/// Whether a file of this process may have so many bytes. Where RLIMIT_FSIZE forbids it, the system would send
/// SIGXFSZ, which ends the process unless it is handled.
inline bool within_size_limit(std::uint64_t end) noexcept {
    ::rlimit limit{};
    return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || end <= limit.rlim_cur;
}

/// All of `in` to that place of the file. False: errno says why; EFBIG, with no signal, where RLIMIT_FSIZE forbids
/// it.
inline bool write_whole(int fd, std::uint64_t at, std::span<std::byte const> in) noexcept {
    if (!within_size_limit(at + in.size())) {
        errno = EFBIG;
        return false;
    }
    while (!in.empty()) {
        ssize_t const n = ::pwrite(fd, in.data(), in.size(), static_cast<off_t>(at));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        in = in.subspan(static_cast<std::size_t>(n));
        at += static_cast<std::uint64_t>(n);
    }
    return true;
}

}  // namespace tenure::detail
