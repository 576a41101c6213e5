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

/// Owns a file descriptor, and closes it. -1 means none.
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

/// Translates an errno into a store's error: store_full for a full disk, quota or file, memory_full for ENOMEM,
/// and the system's own code for the rest.
inline std::error_code io_code(int e) noexcept {
    switch (e) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return make_error_code(errc::store_full);
    case ENOMEM: return make_error_code(errc::memory_full);
    default: return system_code(e);
    }
}

/// Reads all of `out` from offset `at` of the file. Returns false, with errno set, on failure; errno 0 means that
/// the file ends too early.
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

/// Returns whether this process may have a file of `end` bytes. If RLIMIT_FSIZE forbids it, writing there raises
/// SIGXFSZ, which ends the process unless it is handled.
inline bool within_size_limit(std::uint64_t end) noexcept {
    ::rlimit limit{};
    return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || end <= limit.rlim_cur;
}

/// Writes all of `in` to offset `at` of the file. Returns false, with errno set, on failure; EFBIG, without a
/// signal, if RLIMIT_FSIZE forbids the write.
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
