// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/budget/admission.hpp>
#include <tenure/detail/base/file.hpp>
#include <tenure/detail/base/printed.hpp>
#include <tenure/error.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// What a process tells the others of a machine, in a file that it alone writes.
struct share_status {
    budget_amount capacity{};  ///< of the machine, as this process was told
    budget_amount has{};
    budget_amount taken{};  ///< of that, what cannot be given back at once
    budget_amount held{};   ///< of that, what would stay if all its jobs ended but those that wait
    budget_amount next{};   ///< what it has to have for its next job to start
    budget_amount desired{};
    std::uint64_t started = 0;  ///< 1: `next` is for a job that has begun, and cannot end without
    std::uint64_t floor   = 0;
    double        weight  = 1;
    std::uint64_t since =
        0;  ///< CLOCK_BOOTTIME when it began to lack something, or started a job since; in nanoseconds, or 0
    std::uint64_t stuck =
        0;  ///< CLOCK_MONOTONIC when the job began that it will refuse if nobody gives anything back; or 0
    std::array<char, 48> job{};  ///< a name, ended by 0

    friend bool operator==(share_status const&, share_status const&) = default;

    std::string_view name() const noexcept { return job.data(); }
    bool             lacks() const noexcept { return desired.bytes > has.bytes || desired.cores > has.cores; }

    /// Returns what is wrong with a status that somebody else wrote, or null.
    char const* fault() const noexcept {
        if (std::ranges::find(job, '\0') == job.end()) return "its job's name has no end";
        if (!std::isfinite(weight) || weight < 1e-3 || weight > 1e3) return "its weight is not from 0.001 to 1000";
        if (capacity.bytes == 0) return "its machine has no memory";
        if (has.bytes > capacity.bytes || has.cores > capacity.cores) return "it has more than there is";
        return nullptr;
    }
};
static_assert(std::is_trivially_copyable_v<share_status>);

/// The file. The status that counts is that of `serial`'s parity; the next is written to the other place, and
/// counts once `serial` is. So there is a whole one at any moment, and a reader that finds `serial` as it was
/// before has read it.
struct share_file_layout {
    static constexpr std::array<char, 8> right_magic{'t', 'e', 'n', 's', 'h', 'r', '2', '\n'};

    struct header {
        std::array<char, 8>  magic = right_magic;
        std::array<char, 40> name{};  ///< the file's own, ended by 0: a link to it counts for nothing
        std::uint64_t        serial = 0;
    };

    header                      head{};
    std::array<share_status, 2> status{};
};

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
        std::vector<member>      members{};  ///< those that live, by the name of their file
        std::vector<refused>     others{};   ///< files that say nothing sensible
        std::vector<std::string> dead{};     ///< whose process is gone
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

    std::filesystem::path const& path() const noexcept { return path_; }
    std::uint64_t                owner() const noexcept { return owner_; }

    /// Returns what all tell; of files of others that could be anything, only what was checked. Throws
    /// what the system says where it gives no more files or memory, and std::bad_alloc. Cost: four system calls for
    /// each, and three more the first time, or each time for those beyond `most_open`.
    view read() {
        view       out;
        auto const close = [](DIR* d) { ::closedir(d); };
        int const  again = ::openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        std::unique_ptr<DIR, decltype(close)> const all(again < 0 ? nullptr : ::fdopendir(again), close);
        if (!all) {
            int const why = errno;
            if (again >= 0) ::close(again);
            fail(why, "read");
        }
        ++reads_;
        for (std::size_t n = 0; ::dirent const* const e = ::readdir(all.get());) {
            std::string_view const name = e->d_name;
            if (!name.starts_with(prefix)) continue;
            if (++n > most_files)  // those that are not read may have something
                raise(error(errc::limit_exceeded, printed("share a machine: more than %zu files in ", most_files) +
                                                      path_.string() + ": remove what is not its processes'"));
            read_one(std::string(name), out);
        }
        std::ranges::sort(out.members, {}, &member::file);
        std::erase_if(open_, [&](auto const& f) { return f.second.read != reads_; });
        return out;
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

    struct opened {
        unique_fd     fd;
        std::uint64_t user = 0;
        std::uint64_t read = 0;  ///< last, by read()
    };

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

    void read_one(std::string name, view& out) {
        auto const known = open_.find(name);
        opened     anew;
        if (known == open_.end()) {
            anew.fd = open_of(name);
            struct ::stat is{};
            if (!anew.fd || ::fstat(anew.fd.get(), &is) != 0) {
                if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
                    fail(errno, "read");  // it may have something
                if (errno != ENOENT) out.others.push_back({std::move(name), system_code(errno).message()});
                return;
            }
            if (!S_ISREG(is.st_mode))
                return void(out.others.push_back({std::move(name), "it is not a regular file"}));
            anew.user = is.st_uid;
        }
        opened&   file = known == open_.end() ? anew : known->second;
        int const fd   = file.fd.get();
        file.read      = reads_;
        if (!is_locked(fd)) return void(out.dead.push_back(std::move(name)));
        share_status status;
        if (char const* const why = read_status(fd, name, status))
            return void(out.others.push_back({std::move(name), why}));
        out.members.push_back({name, file.user, status});
        if (&file == &anew && open_.size() < most_open) open_.emplace(std::move(name), std::move(anew));
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

    std::map<std::string, opened> open_{};  ///< files, by their names, which are never used again
    std::uint64_t                 reads_ = 0;
};

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
