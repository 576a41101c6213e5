// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/detail/base/file.hpp>
#include <tenure/detail/base/secret.hpp>
#include <tenure/error.hpp>
#include <tenure/remote/protocol.hpp>

namespace tenure {

namespace detail {

/// What users other than its owner may do with a file.
enum class others_may { write, read, nothing };

/// Returns the contents of the file at `path`, which a user named as a file of tokens, a key or a certificate.
/// `what` begins the message of an error. The file is read through the descriptor that was checked, so that no
/// other file can take its place in between. Links are followed, because secrets that a system mounts are links.
/// No copy of the contents is left in memory.
/// O_NONBLOCK: opening a pipe would otherwise wait for its other end.
///
/// Throws not_a_file for a pipe, a device or a directory; access_denied if users other than the owner may do more
/// with the file than `most`; limit_exceeded beyond 16 MiB; else what the system says.
inline secret_text read_named_file(std::string_view what, std::string const& path, others_may most) {
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
    secret_text text(std::min(static_cast<std::size_t>(about.st_size), most_bytes) + 1);
    for (std::size_t size = 0;;) {
        if (size == text.size()) text.resize(2 * size);  // it grows while it is read, or has no size
        ::ssize_t const n = ::read(fd.get(), text.data() + size, text.size() - size);
        if (n > 0) size += static_cast<std::size_t>(n);
        else if (n < 0 && errno != EINTR) throw error(system_code(errno), name);
        if (size > most_bytes) throw error(errc::limit_exceeded, name + " is too long");
        if (n != 0) continue;
        text.resize(size);
        return text;
    }
}

/// Compares two secrets in a time that depends on their lengths only.
inline bool same_secret(std::span<std::byte const> a, std::span<std::byte const> b) noexcept {
    if (a.size() != b.size()) return false;
    unsigned char volatile different = 0;  // volatile: no step is optimized away
    for (std::size_t i = 0; i < a.size(); ++i)
        different = static_cast<unsigned char>(different | std::to_integer<unsigned char>(a[i] ^ b[i]));
    return different == 0;
}

/// Returns random bytes from the system. Throws what the system says.
template <protocol::wire_type T>
T random_bytes() {
    T out;
    if (::getrandom(&out, sizeof out, 0) != static_cast<::ssize_t>(sizeof out))
        throw error(std::error_code(errno, std::system_category()), "getrandom");
    return out;
}

}  // namespace detail

/// Tokens and the names of their holders: those that a server accepts, or those that a client has. They are in no
/// message and no log, and are overwritten in memory when they go. As thread-safe as a std::vector.
class tokens {
public:
    tokens() = default;

    /// Reads a file of tokens, one a line: `name:token` or `token`. Skips empty lines and lines that begin with #.
    /// Throws access_denied if users other than the owner may read or write the file, or if it has no token;
    /// not_a_file for a pipe, a device or a directory; limit_exceeded beyond 16 MiB; std::errc::invalid_argument
    /// as add() does; what the system says if the file cannot be read.
    static tokens from_file(std::string const& path) {
        auto const text = detail::read_named_file("token file", path, detail::others_may::nothing);
        try {
            tokens out = from_text(detail::view_of(text));
            if (out.empty()) throw error(errc::access_denied, "it has no token");
            return out;
        } catch (error const& e) {
            throw error(e.code(), "token file " + path + ": " + e.what());
        }
    }

    /// Reads tokens from the text of such a file: see from_file(). Throws std::errc::invalid_argument as add()
    /// does.
    static tokens from_text(std::string_view rest) {
        tokens out;
        while (!rest.empty()) {
            auto line = rest.substr(0, rest.find('\n'));
            rest.remove_prefix(std::min(rest.size(), line.size() + 1));
            while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
            if (line.empty() || line.front() == '#') continue;
            std::size_t const colon = line.find(':');
            if (colon == line.npos) out.add("", line);
            else out.add(line.substr(0, colon), line.substr(colon + 1));
        }
        return out;
    }

    /// Adds a token and the name of its holder. Throws std::errc::invalid_argument if the token is empty or has
    /// more than 1024 bytes.
    void add(std::string_view name, std::string_view token) {
        if (token.empty() || token.size() > protocol::most_token)
            throw error(make_error_code(std::errc::invalid_argument), "a token has 1 to 1024 bytes");
        all_.push_back({std::string(name), {token.begin(), token.end()}});
    }

    bool empty() const noexcept { return all_.empty(); }

    /// Returns the index of a token, or nothing if it is none of these. Compares it with all of them, each in
    /// constant time.
    std::optional<std::size_t> index_of(std::span<std::byte const> token) const noexcept {
        std::optional<std::size_t> which;
        for (std::size_t i = 0; i < all_.size(); ++i)
            if (detail::same_secret(std::as_bytes(std::span(all_[i].token)), token)) which = i;
        return which;
    }
    std::string const& name(std::size_t index) const noexcept { return all_[index].name; }

    /// Returns the name of a token's holder, or null if the token is none of these.
    std::string const* find(std::span<std::byte const> token) const noexcept {
        auto const which = index_of(token);
        return which ? &all_[*which].name : nullptr;
    }

    /// Returns the first token, which is what a client shows; empty if there is none.
    std::string_view first() const noexcept {
        return all_.empty() ? std::string_view() : detail::view_of(all_.front().token);
    }

private:
    struct entry {
        std::string         name;
        detail::secret_text token;
    };
    std::vector<entry> all_;
};

}  // namespace tenure
