// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/budget/directory_watch.hpp>
#include <tenure/budget/share_status.hpp>
#include <tenure/detail/base/file.hpp>
#include <tenure/detail/base/printed.hpp>
#include <tenure/error.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// The directory in which the processes of a machine tell each other what they have and want. Who uses it owns the
/// directory, or it is one in which each can remove only what is his (mode 1777). Not thread-safe.
class share_directory {
public:
    struct member {
        std::string   file;
        std::uint64_t user = 0;  ///< who owns the file, as the kernel says
        share_status  status{};
    };
    struct refused {
        std::string file;
        std::string why;
    };
    struct view {
        std::vector<member>      members{};         ///< those that live, by the name of their file
        std::vector<refused>     others{};          ///< files that say nothing sensible
        std::vector<std::string> dead{};            ///< whose process is gone
        bool                     doubtful = false;  ///< one that still lives may be about to go
    };

    /// Throws what the system says, insecure, std::bad_alloc.
    explicit share_directory(std::filesystem::path where) : path_(std::move(where)) {
        directory_ = unique_fd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        struct ::stat is{};
        if (!directory_ || ::fstat(directory_.get(), &is) != 0) fail(errno, "open");
        bool const open_to_others = (is.st_mode & (S_IWGRP | S_IWOTH)) != 0;
        if (open_to_others && (is.st_mode & S_ISVTX) == 0)
            raise(error(errc::insecure, "share a machine through " + path_.string() +
                                            ": others could remove this process's file there; chmod +t it"));
        owner_ = is.st_uid;
    }

    std::uint64_t owner() const noexcept { return owner_; }

    /// Returns what all tell; of files of others that could be anything, only what was checked. Throws
    /// what the system says where it gives no more files or memory, and std::bad_alloc. Cost: four system calls for
    /// each, and three more the first time, or each time for those beyond `most_open`.
    view read() {
        auto const close = [](DIR* d) { ::closedir(d); };
        int const  again = ::openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        std::unique_ptr<DIR, decltype(close)> const all(again < 0 ? nullptr : ::fdopendir(again), close);
        if (!all) {
            int const why = errno;
            if (again >= 0) ::close(again);
            fail(why, "read");
        }
        last_whole_ = {};  // if not all of it can be read, the next time does
        if (std::set<std::string> names; watch_) take_events(names);  // which are read below
        ++reads_;
        for (std::size_t n = 0; ::dirent const* const e = ::readdir(all.get());) {
            std::string_view const name = e->d_name;
            if (!name.starts_with(prefix)) continue;
            if (++n <= most_files) {
                read_one(std::string(name));
                continue;
            }
            files_.clear();
            opened_ = 0;
            raise(error(errc::limit_exceeded,  // those that are not read may have something
                        printed("share a machine: more than %zu files in ", most_files) + path_.string() +
                            ": remove what is not its processes'"));
        }
        for (auto f = files_.begin(); f != files_.end();) f = f->second.read == reads_ ? std::next(f) : forget(f);
        last_whole_ = clock::now();
        return told();
    }

    /// Has read_changed() read only what the system tells it has changed. Where it does not, that reads all.
    void watch() noexcept { watch_ = directory_watch(directory_.get(), path_.c_str()); }

    /// What poll(2) waits with for changes; -1 without watch().
    int events() const noexcept { return watch_.fd(); }

    /// Returns what read() does, but that it may be a second old where a file changed unnoticed, as through a
    /// mapping or another name. Throws what read() does. Cost: two system calls, and four for each file that
    /// changed.
    view read_changed() {
        std::set<std::string> names;
        auto const            last  = std::exchange(last_whole_, {});
        bool const            known = take_events(names) && last != clock::time_point{};
        if (!known || clock::now() - last > std::chrono::seconds(1)) return read();
        for (auto const& [name, f] : files_)
            if (f.is_doubtful()) names.insert(name);
        for (std::string const& name : names) read_one(name);
        last_whole_ = last;
        return told();
    }

    /// Calls f() while nobody else does in a process that shares the directory. Returns false if others hold the
    /// lock for too long. A process that dies gives it back.
    template <class F>
    bool alone(F f, std::chrono::nanoseconds patience = std::chrono::milliseconds(10)) const {
        auto const until = std::chrono::steady_clock::now() + patience;
        while (::flock(directory_.get(), LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK && errno != EINTR) return false;
            if (std::chrono::steady_clock::now() > until) return false;
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        struct unlock {
            int fd;
            ~unlock() { ::flock(fd, LOCK_UN); }
        } const at_end{directory_.get()};
        f();
        return true;
    }

    /// Removes files of processes that are gone. Called alone. Others' own may stay, and count for nothing.
    void sweep(std::span<std::string const> dead) const noexcept {
        for (std::string const& name : dead)
            if (!lives(name)) ::unlinkat(directory_.get(), name.c_str(), 0);
    }

private:
    friend class share_file;

    static constexpr std::string_view prefix     = "share-";
    static constexpr std::size_t      most_files = 65'536;
    static constexpr std::size_t      most_open  = 128;

    static constexpr std::chrono::milliseconds doubt{50};

    using clock = std::chrono::steady_clock;

    struct file {
        enum class kind : std::uint8_t { member, refused, dead };

        unique_fd         fd{};  ///< of few it is kept open
        std::uint64_t     user = 0;
        std::uint64_t     read = 0;  ///< last, by read()
        kind              is   = kind::dead;
        clock::time_point doubted{};  ///< when its process seemed to go; or none
        share_status      status{};
        std::string       why{};

        bool is_doubtful() const noexcept { return doubted != clock::time_point{}; }
    };
    using file_map = std::map<std::string, file>;  // by their names, which are never used again

    [[noreturn]] void fail(int e, char const* what) const {
        raise(error(io_code(e), printed("share a machine: %s ", what) + path_.string()));
    }

    /// The process of a file has a lock on it, on the open file and not on the process: so another namespace of
    /// pids makes no difference, and the kernel takes it away at the process's end, however that comes. A lock that
    /// only reads is a stranger's: those who may not write the file can have one.
    static bool is_locked(int fd) noexcept {
        struct ::flock l{};
        l.l_type   = F_WRLCK;
        l.l_whence = SEEK_SET;
        return ::fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type == F_WRLCK;
    }
    unique_fd open_of(std::string const& name) const noexcept {
        return unique_fd(
            ::openat(directory_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    }
    bool lives(std::string const& name) const noexcept {
        unique_fd const fd = open_of(name);
        return fd && is_locked(fd.get());
    }

    /// Opens a file, or notes why it is refused. Returns false if there is none.
    bool open_one(std::string const& name, unique_fd& fd, file& f) const {
        fd = open_of(name);
        struct ::stat is{};
        if (!fd || ::fstat(fd.get(), &is) != 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
                fail(errno, "read");  // it may have something
            if (errno == ENOENT) return false;
            f.why = system_code(errno).message();
        } else if (!S_ISREG(is.st_mode)) f.why = "it is not a regular file";
        f.user = is.st_uid;
        return true;
    }

    void read_one(std::string const& name) {
        auto const at = files_.try_emplace(name).first;
        file&      f  = at->second;
        if (f.fd) --opened_;
        unique_fd fd = std::move(f.fd);
        f.read       = reads_;
        f.why.clear();
        if (!fd && !open_one(name, fd, f)) return void(files_.erase(at));
        if (f.why.empty()) {
            f.is = is_locked(fd.get()) ? file::kind::member : file::kind::dead;
            if (f.is == file::kind::member)
                if (char const* const why = read_status(fd.get(), name, f.status)) f.why = why;
        }
        if (!f.why.empty()) f.is = file::kind::refused;
        if (f.is != file::kind::member || clock::now() - f.doubted > doubt) f.doubted = {};
        if (f.is != file::kind::member || opened_ == most_open) return;
        f.fd = std::move(fd);
        ++opened_;
    }

    file_map::iterator forget(file_map::iterator f) noexcept {
        if (f->second.fd) --opened_;
        return files_.erase(f);
    }

    view told() const {
        view out;
        out.members.reserve(files_.size());
        for (auto const& [name, f] : files_) {
            if (f.is == file::kind::member) out.members.push_back({name, f.user, f.status});
            else if (f.is == file::kind::dead) out.dead.push_back(name);
            else out.others.push_back({name, f.why});
            out.doubtful = out.doubtful || f.is_doubtful();
        }
        return out;
    }

    /// Takes the names of what has changed, forgets what was removed, and notes whose process may be about to go:
    /// its end is told just before its lock goes. Returns false if not all is known.
    bool take_events(std::set<std::string>& names) {
        return watch_.take([&](std::uint32_t event, std::string_view given) {
            if (!given.starts_with(prefix)) return;
            std::string const& name = *names.emplace(given).first;
            if ((event & IN_CLOSE_WRITE) != 0) files_[name].doubted = clock::now();
            else if (auto const f = files_.find(name); f != files_.end() && (event & (IN_DELETE | IN_MOVE)) != 0)
                forget(f);
        });
    }

    /// Returns what is wrong, or null. Files are read, and never mapped: one that is cut short meanwhile would
    /// raise SIGBUS.
    static char const* read_status(int fd, std::string_view name, share_status& to) noexcept {
        for (int tries = 0; tries < 100; ++tries) {
            share_file_layout f;
            auto const        part = [&](auto& x) {
                auto const at = reinterpret_cast<char*>(&x) - reinterpret_cast<char*>(&f);
                bool const read =
                    read_whole(fd, static_cast<std::uint64_t>(at), std::as_writable_bytes(std::span(&x, 1)));
                std::atomic_thread_fence(std::memory_order_seq_cst);
                return read;
            };
            if (!part(f.head)) return "it is too short";
            std::uint64_t const serial = f.head.serial;
            if (!part(f.status[serial % 2]) || !part(f.head.serial)) return "it is too short";
            if (f.head.magic != share_file_layout::right_magic) return "it is of another kind or version";
            if (f.head.name.back() != 0 || name != f.head.name.data()) return "it is another file's other name";
            to = f.status[serial % 2];
            if (f.head.serial == serial) return to.fault();
        }
        return "it changes all the time";
    }

    std::filesystem::path path_;
    unique_fd             directory_;
    std::uint64_t         owner_ = 0;

    file_map          files_{};
    std::size_t       opened_ = 0;  ///< how many of them are kept open
    std::uint64_t     reads_  = 0;
    directory_watch   watch_{};
    clock::time_point last_whole_{};  ///< when all was read
};

}  // namespace tenure::detail
