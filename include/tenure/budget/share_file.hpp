// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/budget/share_directory.hpp>
#include <tenure/budget/share_status.hpp>
#include <tenure/detail/base/file.hpp>
#include <tenure/detail/base/printed.hpp>

namespace tenure::detail {

/// This process's own file. Not thread-safe. Goes with its process, however that ends.
class share_file {
public:
    /// Throws what the system says, store_full among it.
    share_file(share_directory const& in, share_status const& first) : in_(&in) {
        std::uint64_t random[2];
        if (::getrandom(random, sizeof random, 0) != sizeof random) in.fail(errno, "name a file in");
        name_   = std::string(share_directory::prefix) + printed("%016llx%016llx",
                                                                 static_cast<unsigned long long>(random[0]),
                                                                 static_cast<unsigned long long>(random[1]));
        int why = EBUSY;
        // Alone, or it would be swept as a dead one's.
        bool const done = in.alone([&] { why = create(first) ? 0 : errno; }, std::chrono::seconds(2));
        if (done && why == 0) return;
        if (file_) ::unlinkat(in.directory_.get(), name_.c_str(), 0);
        in.fail(why, done ? "write a file in" : "wait for the lock of");
    }
    ~share_file() {
        if (file_) ::unlinkat(in_->directory_.get(), name_.c_str(), 0);
    }
    share_file(share_file const&)            = delete;
    share_file& operator=(share_file const&) = delete;

    std::string const& name() const noexcept { return name_; }

    share_status const& status() const noexcept { return now_.status[now_.head.serial % 2]; }

    /// Tells the others. Returns false if the system does not let it.
    bool tell(share_status const& s) noexcept {
        std::uint64_t& serial = now_.head.serial;
        share_status&  next   = now_.status[(serial + 1) % 2];
        next                  = s;
        if (!write(next)) return false;
        ++serial;
        if (write(serial)) return true;
        --serial;
        return false;
    }

    /// In a forked child: it is the parent's.
    void abandon() noexcept { file_.reset(); }

private:
    bool create(share_status const& first) noexcept {
        file_ = unique_fd(::openat(in_->directory_.get(), name_.c_str(),
                                   O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
        if (!file_ || ::fchmod(file_.get(), 0644) != 0) return false;  // others read it, whatever the umask
        struct ::flock whole{};
        whole.l_type   = F_WRLCK;
        whole.l_whence = SEEK_SET;
        if (::fcntl(file_.get(), F_OFD_SETLK, &whole) != 0) return false;
        name_.copy(now_.head.name.data(), now_.head.name.size() - 1);
        now_.status[0] = first;
        return write(now_);
    }

    template <class T>
    bool write(T const& part) noexcept {
        auto const at = reinterpret_cast<char const*>(&part) - reinterpret_cast<char const*>(&now_);
        return write_whole(file_.get(), static_cast<std::uint64_t>(at), std::as_bytes(std::span(&part, 1)));
    }

    share_directory const* in_;
    std::string            name_;
    unique_fd              file_;
    share_file_layout      now_{};
};

}  // namespace tenure::detail
