// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

// Stands in for the system calls that change files, for all of a program that is linked with it, and so for LMDB,
// too. For one directory it keeps a model of what its disk has: what was synced, and what may be there besides. Of
// that it makes the states that a crash could leave. It can make the nth call fail. One translation unit; one
// thread.

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace recorded {

using bytes = std::vector<std::byte>;

constexpr std::size_t sector = 512;  ///< what a disk writes whole or not at all

/// What a system call gave, or -1 with errno; not what stands in for it below.
template <class... Args>
long raw(long number, Args... args) noexcept {
    return ::syscall(number, args...);
}

inline std::string path_of(int fd) {
    char          text[4096];
    std::string   link = "/proc/self/fd/" + std::to_string(fd);
    ssize_t const n    = ::readlink(link.c_str(), text, sizeof text);
    return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : std::string();
}

/// A file as the disk may have it.
struct file {
    int                own_fd = -1;  ///< to look at what is in the page cache
    bytes              durable;
    std::vector<bytes> between;  ///< some of what it was since
    std::vector<bool>  lost;     ///< sectors that could not be written: the page cache takes them for written
    bytes              lost_as;  ///< as what: one that has changed since will be written again

    bytes current() const {
        struct ::stat about{};
        ::fstat(own_fd, &about);
        bytes all(static_cast<std::size_t>(about.st_size));
        for (std::size_t at = 0; at < all.size();) {
            ssize_t const n = ::pread(own_fd, all.data() + at, all.size() - at, static_cast<off_t>(at));
            if (n <= 0) break;
            at += static_cast<std::size_t>(n);
        }
        return all;
    }
};

inline std::span<std::byte const> sector_of(bytes const& b, std::size_t i) {
    std::size_t const from = std::min(i * sector, b.size()), to = std::min(from + sector, b.size());
    return std::span(b).subspan(from, to - from);
}
inline bool same_sector(bytes const& a, bytes const& b, std::size_t i) {
    auto const        x = sector_of(a, i), y = sector_of(b, i);
    auto const        zero = [](std::byte c) { return c == std::byte{0}; };
    std::size_t const n    = std::min(x.size(), y.size());
    return std::equal(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n), y.begin()) &&
           std::all_of(x.begin() + static_cast<std::ptrdiff_t>(n), x.end(), zero) &&
           std::all_of(y.begin() + static_cast<std::ptrdiff_t>(n), y.end(), zero);
}

/// The directory `root` and its files. `root` does not exist yet; its parent does.
class disk {
public:
    explicit disk(std::filesystem::path const& root) : root_(root.string()) {}
    disk(disk const&)            = delete;
    disk& operator=(disk const&) = delete;
    ~disk() {
        for (auto& [number, f] : files_) raw(SYS_close, f.own_fd);
    }

    std::string const& root() const { return root_; }

    std::function<void()> before_change;  ///< called before each call that changes anything; none is recorded in it

    long                                    fail_at  = 0;  ///< the nth call from now on fails; 0: none
    int                                     fail_why = EIO;
    bool                                    failed   = false;
    std::string                             failed_call{};
    long                                    calls = 0;
    std::map<std::string, int, std::less<>> counts;  ///< of the calls, by name

    enum class kind { durable, current, torn };

    /// Makes what a crash now could leave, in `where`, which is empty. Nothing at all, if even the directory's own
    /// name is not certain.
    void crash(std::filesystem::path const& where, kind k, std::mt19937_64& dice) const {
        auto const coin = [&] { return k == kind::torn ? dice() % 2 == 0 : k == kind::current; };
        if (!root_durable_ && !(root_there_ && coin())) return;
        std::filesystem::create_directories(where);
        std::map<std::string, ino_t> names;
        for (auto const& [name, number] : names_durable_)
            if (!(moved_or_gone(name) && coin())) names[name] = number;
        for (auto const& [name, number] : names_now_) {
            auto const old = names_durable_.find(name);
            if ((old == names_durable_.end() || old->second != number) && coin()) names[name] = number;
        }
        for (auto const& [name, number] : names) write_out(where / name, state_of(files_.at(number), k, dice));
    }

    /// As if the process was killed: its files are closed and not locked, and what it wrote is in the page cache.
    void close_all() const {
        std::vector<int> open;
        for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
            int const fd = std::stoi(entry.path().filename().string());
            if (is_ours(path_of(fd)) && !is_own(fd)) open.push_back(fd);
        }
        for (int const fd : open) {
            ::flock all{};  // which a mapping of the file would keep locked
            all.l_type   = F_UNLCK;
            all.l_whence = SEEK_SET;
            ::fcntl(fd, F_OFD_SETLK, &all);
            raw(SYS_close, fd);
        }
    }
    std::size_t open_files() const {
        std::size_t n = 0;
        for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
            int const fd = std::stoi(entry.path().filename().string());
            n += is_ours(path_of(fd)) && !is_own(fd);
        }
        return n;
    }

    // What the calls below tell.

    bool is_ours(std::string_view path) const {
        return path.starts_with(root_) && (path.size() == root_.size() || path[root_.size()] == '/');
    }
    bool is_parent(std::string_view path) const {
        return path == std::string_view(root_).substr(0, root_.rfind('/'));
    }

    /// True: it is to fail, with errno.
    bool begin(std::string_view name, bool changes) {
        ++calls;
        ++counts[std::string(name)];
        if (changes && before_change) before_change();
        if (fail_at == 0 || --fail_at != 0) return false;
        failed      = true;
        failed_call = name;
        errno       = fail_why;
        return true;
    }

    void made_root() { root_there_ = true; }
    void opened(int fd) {
        struct ::stat about{};
        if (::fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) return;
        file_of(fd);
        std::string const path = path_of(fd);
        if (is_ours(path)) names_now_[path.substr(root_.size() + 1)] = about.st_ino;
    }
    void renamed(std::string const& from, std::string const& to) {
        names_now_[to] = names_now_.at(from);
        names_now_.erase(from);
    }
    void synced_directory() { names_durable_ = names_now_; }
    void synced_parent() { root_durable_ = root_there_; }

    file& file_of(int fd) {
        struct ::stat about{};
        ::fstat(fd, &about);
        file& f = files_[about.st_ino];
        if (f.own_fd < 0) {
            std::string const link = "/proc/self/fd/" + std::to_string(fd);
            f.own_fd = static_cast<int>(raw(SYS_openat, AT_FDCWD, link.c_str(), O_RDONLY | O_CLOEXEC, 0));
        }
        return f;
    }
    void about_to_change(int fd) {
        file& f = file_of(fd);
        if (f.between.size() < 3) f.between.push_back(f.current());
        else f.between[static_cast<std::size_t>(calls) % 3] = f.current();
    }
    void wrote(int fd, std::size_t from, std::size_t to) {
        file& f = file_of(fd);
        for (std::size_t i = from / sector; i < f.lost.size() && i * sector < to; ++i) f.lost[i] = false;
    }

    /// `was`: what it was when the call began. All of it, or of what O_DSYNC was for.
    void synced(int fd, bytes const& was, std::size_t from = 0, std::size_t to = ~std::size_t{0}) {
        file& f    = file_of(fd);
        bytes next = was;
        for (std::size_t i = 0; i * sector < next.size(); ++i) {
            bool const in = i * sector < to && (i + 1) * sector > from;
            if (in && !(i < f.lost.size() && f.lost[i] && same_sector(was, f.lost_as, i))) continue;
            auto const  part = std::span(next).subspan(i * sector, sector_of(next, i).size());
            auto const  old  = sector_of(f.durable, i);
            std::size_t n    = std::min(old.size(), part.size());
            std::fill(std::copy_n(old.begin(), n, part.begin()), part.end(), std::byte{0});
        }
        f.durable = std::move(next);
        if (to == ~std::size_t{0}) return f.between.clear();
        for (bytes& b : f.between) {  // there nothing older can be
            b.resize(std::max(b.size(), std::min(f.durable.size(), (to + sector - 1) / sector * sector)));
            for (std::size_t i = from / sector; i * sector < std::min(to, b.size()); ++i) {
                auto const part = sector_of(f.durable, i);
                std::copy(part.begin(), part.end(), b.begin() + static_cast<std::ptrdiff_t>(i * sector));
            }
        }
    }
    void failed_to_sync(int fd) {
        file&       f   = file_of(fd);
        bytes const now = f.current();
        f.lost.resize(std::max(f.lost.size(), (now.size() + sector - 1) / sector), false);
        for (std::size_t i = 0; i < f.lost.size(); ++i)
            if (!same_sector(now, f.durable, i)) f.lost[i] = true;
        f.lost_as = now;
    }

private:
    bool is_own(int fd) const {
        return std::ranges::any_of(files_, [&](auto const& f) { return f.second.own_fd == fd; });
    }
    bool moved_or_gone(std::string const& name) const {
        auto const now = names_now_.find(name);
        return now == names_now_.end() || now->second != names_durable_.at(name);
    }

    static bytes state_of(file const& f, kind k, std::mt19937_64& dice) {
        if (k == kind::durable) return f.durable;
        bytes const now = f.current();
        if (k == kind::current) return now;
        std::vector<bytes const*> all{&f.durable, &now};
        for (bytes const& b : f.between) all.push_back(&b);
        bytes out(all[dice() % all.size()]->size());
        if (out.size() < f.durable.size() && now.size() >= f.durable.size()) out.resize(f.durable.size());
        for (std::size_t i = 0; i * sector < out.size(); ++i) {
            auto const part = sector_of(*all[dice() % all.size()], i);
            std::copy_n(part.begin(), std::min(part.size(), out.size() - i * sector),
                        out.begin() + static_cast<std::ptrdiff_t>(i * sector));
        }
        return out;
    }

    static void write_out(std::filesystem::path const& to, bytes const& what) {
        int const fd =
            static_cast<int>(raw(SYS_openat, AT_FDCWD, to.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
        raw(SYS_ftruncate, fd, what.size());
        auto const zero = [](std::byte c) { return c == std::byte{0}; };
        for (std::size_t at = 0; at < what.size(); at += 4096) {
            auto const part = std::span(what).subspan(at, std::min<std::size_t>(4096, what.size() - at));
            if (!std::ranges::all_of(part, zero)) raw(SYS_pwrite64, fd, part.data(), part.size(), at);
        }
        raw(SYS_close, fd);
    }

    std::string                  root_;
    bool                         root_there_ = false, root_durable_ = false;
    std::map<ino_t, file>        files_;
    std::map<std::string, ino_t> names_durable_, names_now_;
};

/// What is recorded now; null: nothing.
inline constinit disk* now = nullptr;

/// Nothing is recorded while it lives.
class pause {
public:
    pause() : was_(std::exchange(now, nullptr)) {}
    pause(pause const&)            = delete;
    pause& operator=(pause const&) = delete;
    ~pause() { now = was_; }

private:
    disk* was_;
};

/// Calls f on the disk, if there is one and it has that file.
template <class F>
long with(int fd, F f, auto otherwise) {
    disk* const d = now;
    if (d && d->is_ours(path_of(fd))) {
        pause const here;
        return f(*d);
    }
    return otherwise();
}

/// A call that drops what the page cache has of [from, to).
template <class F>
long change(char const* name, int fd, std::size_t from, std::size_t to, F call) {
    return with(
        fd,
        [&](disk& d) -> long {
            d.about_to_change(fd);
            if (d.begin(name, true)) return -1;
            long const done = call();
            if (done == 0) d.wrote(fd, from, to);
            return done;
        },
        call);
}

inline long write_at(char const* name, int fd, ::iovec const* parts, int n, off_t at) {
    std::size_t bytes_in_all = 0;
    for (int i = 0; i < n; ++i) bytes_in_all += parts[i].iov_len;
    auto const from = static_cast<std::size_t>(at), to = from + bytes_in_all;
    auto const call = [&] { return raw(SYS_pwritev, fd, parts, n, at, 0); };
    return with(
        fd,
        [&](disk& d) -> long {
            d.about_to_change(fd);
            bool const synchronous = (::fcntl(fd, F_GETFL) & O_DSYNC) != 0;
            bool const fails       = d.begin(name, true);
            if (fails && !(synchronous && d.fail_why == EIO)) return -1;
            long const done = call();
            d.wrote(fd, from, to);
            if (fails) {  // written, and not to the disk
                d.failed_to_sync(fd);
                errno = d.fail_why;
                return -1;
            }
            if (synchronous) d.synced(fd, d.file_of(fd).current(), from, to);
            return done;
        },
        call);
}

inline long sync(char const* name, long number, int fd) {
    auto const call = [&] { return raw(number, fd); };
    if (disk* const d = now) {
        std::string const path = path_of(fd);
        pause const       here;
        if (d->is_parent(path) || path == d->root()) {
            if (d->begin(path == d->root() ? "fsync of the directory" : "fsync of its parent", true)) return -1;
            if (path == d->root()) d->synced_directory();
            else d->synced_parent();
            return 0;
        }
        if (d->is_ours(path)) {
            if (d->begin(name, true)) {
                int const why = errno;
                d->failed_to_sync(fd);
                errno = why;
                return -1;
            }
            d->synced(fd, d->file_of(fd).current());
            return 0;  // the model knows: why wait for a disk?
        }
    }
    return call();
}

inline std::function<void()> before_opening;  ///< called before a file is opened while no disk is recorded

inline int open_at(int directory, char const* path, int flags, mode_t mode) {
    disk* const d = now;
    if (!d && before_opening) before_opening();
    if (!d) return static_cast<int>(raw(SYS_openat, directory, path, flags, mode));
    pause const       here;
    std::string const whole = path[0] == '/'          ? std::string(path)
                              : directory == AT_FDCWD ? std::string()
                                                      : path_of(directory) + "/" + path;
    bool const        link  = whole.starts_with("/proc/self/fd/");
    std::string const means = link ? path_of(std::stoi(whole.substr(14))) : whole;
    if (!d->is_ours(means)) return static_cast<int>(raw(SYS_openat, directory, path, flags, mode));
    if (d->begin((flags & O_DIRECTORY) != 0 ? "open a directory" : "open", (flags & O_CREAT) != 0)) return -1;
    int const fd = static_cast<int>(raw(SYS_openat, directory, path, flags, mode));
    if (fd >= 0) d->opened(fd);
    return fd;
}

}  // namespace recorded

extern "C" {

// Not inline: these are what the linker finds in place of the C library's.
int open(char const* path, int flags, ...) {
    std::va_list more;
    va_start(more, flags);
    mode_t const mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
    va_end(more);
    return recorded::open_at(AT_FDCWD, path, flags, mode);
}
int openat(int directory, char const* path, int flags, ...) {
    std::va_list more;
    va_start(more, flags);
    mode_t const mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
    va_end(more);
    return recorded::open_at(directory, path, flags, mode);
}
ssize_t pwrite(int fd, void const* what, size_t n, off_t at) {
    ::iovec const part{const_cast<void*>(what), n};
    return recorded::write_at("pwrite", fd, &part, 1, at);
}
ssize_t write(int fd, void const* what, size_t n) {
    if (!recorded::now) return recorded::raw(SYS_write, fd, what, n);
    off_t const   at = ::lseek(fd, 0, SEEK_CUR);
    ::iovec const part{const_cast<void*>(what), n};
    if (at < 0) return recorded::raw(SYS_write, fd, what, n);
    ssize_t const done = recorded::write_at("write", fd, &part, 1, at);
    if (done > 0) ::lseek(fd, at + done, SEEK_SET);
    return done;
}
ssize_t writev(int fd, ::iovec const* parts, int n) {
    if (!recorded::now) return recorded::raw(SYS_writev, fd, parts, n);
    off_t const at = ::lseek(fd, 0, SEEK_CUR);
    if (at < 0) return recorded::raw(SYS_writev, fd, parts, n);
    ssize_t const done = recorded::write_at("writev", fd, parts, n, at);
    if (done > 0) ::lseek(fd, at + done, SEEK_SET);
    return done;
}
int fdatasync(int fd) { return static_cast<int>(recorded::sync("fdatasync", SYS_fdatasync, fd)); }
int fsync(int fd) { return static_cast<int>(recorded::sync("fsync", SYS_fsync, fd)); }
int ftruncate(int fd, off_t n) noexcept {
    return static_cast<int>(recorded::change("ftruncate", fd, static_cast<std::size_t>(n), ~std::size_t{0},
                                             [&] { return recorded::raw(SYS_ftruncate, fd, n); }));
}
int fallocate(int fd, int mode, off_t at, off_t n) {
    bool const punch = (mode & FALLOC_FL_PUNCH_HOLE) != 0;
    return static_cast<int>(recorded::change(punch ? "punch" : "fallocate", fd, static_cast<std::size_t>(at),
                                             static_cast<std::size_t>(punch ? at + n : at),
                                             [&] { return recorded::raw(SYS_fallocate, fd, mode, at, n); }));
}
int renameat2(int a, char const* from, int b, char const* to, unsigned flags) noexcept {
    return static_cast<int>(recorded::with(
        a,
        [&](recorded::disk& d) -> long {
            if (d.begin("rename", true)) return -1;
            long const r = recorded::raw(SYS_renameat2, a, from, b, to, flags);
            if (r == 0) d.renamed(from, to);
            return r;
        },
        [&] { return recorded::raw(SYS_renameat2, a, from, b, to, flags); }));
}
int mkdir(char const* path, mode_t mode) noexcept {
    recorded::disk* const d = recorded::now;
    if (!d || path != d->root()) return static_cast<int>(recorded::raw(SYS_mkdirat, AT_FDCWD, path, mode));
    recorded::pause const here;
    if (d->begin("mkdir", true)) return -1;
    int const r = static_cast<int>(recorded::raw(SYS_mkdirat, AT_FDCWD, path, mode));
    if (r == 0) d->made_root();
    return r;
}
void* mmap(void* at, size_t n, int protection, int flags, int fd, off_t offset) noexcept {
    auto const call = [&] { return recorded::raw(SYS_mmap, at, n, protection, flags, fd, offset); };
    if (!recorded::now || fd < 0) return reinterpret_cast<void*>(call());
    return reinterpret_cast<void*>(
        recorded::with(fd, [&](recorded::disk& d) { return d.begin("mmap", false) ? -1 : call(); }, call));
}
// The names that they have where off_t was once shorter.
int open64(char const* path, int flags, ...) {
    std::va_list more;
    va_start(more, flags);
    mode_t const mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
    va_end(more);
    return recorded::open_at(AT_FDCWD, path, flags, mode);
}
ssize_t pwrite64(int fd, void const* what, size_t n, off64_t at) { return pwrite(fd, what, n, at); }
int     ftruncate64(int fd, off64_t n) noexcept { return ftruncate(fd, n); }
int     fallocate64(int fd, int mode, off64_t at, off64_t n) { return fallocate(fd, mode, at, n); }
}
