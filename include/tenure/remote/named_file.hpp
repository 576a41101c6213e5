// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/detail/base/file.hpp>
#include <tenure/error.hpp>

namespace tenure::detail {

/// What users other than its owner may do with a file.
enum class others_may { write, read, nothing };

/// Returns the contents of the file at `path`, which a user named as a file of tokens, a key or a certificate.
/// `what` begins the message of an error. The file is read through the descriptor that was checked, so that no
/// other file can take its place in between. Links are followed, because secrets that a system mounts are links.
/// O_NONBLOCK: opening a pipe would otherwise wait for its other end.
///
/// Throws not_a_file for a pipe, a device or a directory; access_denied if users other than the owner may do more
/// with the file than `most`; limit_exceeded beyond 16 MiB; else what the system says.
inline std::string read_named_file(std::string_view what, std::string const& path, others_may most) {
    constexpr std::size_t most_bytes = std::size_t{16} << 20;
    auto const            name       = std::string(what) + ' ' + path;
    unique_fd const       fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!fd) throw error(errno == ENXIO ? make_error_code(errc::not_a_file) : system_code(errno), name);
    struct ::stat about{};
    if (::fstat(fd.get(), &about) != 0) throw error(system_code(errno), name);
    if (!S_ISREG(about.st_mode)) throw error(errc::not_a_file, name);
    if (most == others_may::nothing && (about.st_mode & 077) != 0)
        throw error(errc::access_denied, name + " can be read by others; chmod 600 it");
    if (most == others_may::read && (about.st_mode & 022) != 0)
        throw error(errc::access_denied, name + " can be written by others; chmod go-w it");
    std::string text;
    text.reserve(std::min(static_cast<std::size_t>(about.st_size), most_bytes));  // no copies of a secret are left
    std::array<char, 4096> part;
    for (;;) {
        ::ssize_t const n = ::read(fd.get(), part.data(), part.size());
        if (n == 0) return text;
        if (n > 0 && static_cast<std::size_t>(n) > most_bytes - text.size())
            throw error(errc::limit_exceeded, name + " is too long");
        if (n > 0) text.append(part.data(), static_cast<std::size_t>(n));
        else if (errno != EINTR) throw error(system_code(errno), name);
    }
}

}  // namespace tenure::detail
