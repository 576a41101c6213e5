// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <tenure/batch.hpp>
#include <tenure/detail/base/available_memory.hpp>
#include <tenure/detail/base/file.hpp>

namespace tenure {

/// What a process uses, and how much it may, as the system knows it.
struct memory_use {
    std::size_t in_use = 0;         ///< bytes
    std::size_t limit  = no_limit;  ///< bytes, of which all that count together may use that many
};

namespace detail {

/// Reads a small file of the kernel's. Returns nothing if it cannot be read.
inline std::optional<std::string> read_small_file(std::string const& path) {
    int const fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return {};
    std::string            text;
    std::array<char, 4096> part{};
    ssize_t                n = 0;
    while (text.size() < 64 * part.size() && (n = ::read(fd, part.data(), part.size())) > 0)
        text.append(part.data(), static_cast<std::size_t>(n));
    ::close(fd);
    if (n < 0) return {};
    return text;
}

/// Whether a file cannot be read now because the system has no descriptor or memory for it, and not because it is
/// not there.
inline bool is_out_of_files(std::string const& path) noexcept {
    unique_fd const fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    return !fd && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);
}

/// Returns the sum of some lines of a file of the system's that count in KiB, in bytes. What is not there is 0.
inline std::size_t kibibytes_in(std::string const& file, std::initializer_list<char const*> names) {
    std::size_t sum = 0;
    for (char const* const name : names)
        if (std::size_t const n = number_in(file.c_str(), name); n != any_amount) sum += n;
    return sum * 1024;
}

/// Returns the bytes that a process has in memory and in swap, by its /proc/PID/status.
inline std::size_t memory_in(std::string const& status) {
    return kibibytes_in(status, {"RssAnon:", "RssShmem:", "VmSwap:"});
}

/// Returns the bytes that a cgroup, of version 1 or 2, uses, without the pages of files that the kernel can drop.
/// Returns nothing if that cannot be read.
inline std::optional<std::size_t> use_of_cgroup(std::string const& directory, cgroup_files const& files) {
    std::size_t const use     = number_in((directory + "/" + files.used).c_str(), "");
    std::size_t const dropped = number_in((directory + "/memory.stat").c_str(), files.reclaimable);
    if (use == any_amount) return {};
    return use - (dropped < use ? dropped : 0);
}
inline std::optional<std::size_t> use_of_cgroup(std::string const& directory) {
    auto const use = use_of_cgroup(directory, cgroup_v2);
    return use ? use : use_of_cgroup(directory, cgroup_v1);
}

/// The memory of this process. If it is in a cgroup with a limit, of version 1 or 2, what counts is what that
/// cgroup uses, without the pages of files that the kernel can drop; else what the process has in memory and in
/// swap. (From /proc/self/status: smaps_rollup divides what is shared more fairly, but goes over all pages, some
/// milliseconds a GiB.)
///
/// Not thread-safe. Cost: 20 to 50 us.
class process_memory {
public:
    /// `shared`: the cgroup's limit counts, but what others in it use is theirs to count. `proc`, `cgroups`: where
    /// /proc/self and /sys/fs/cgroup are.
    explicit process_memory(bool shared = false, std::string proc = "/proc/self",
                            std::string cgroups = "/sys/fs/cgroup")
        : proc_(std::move(proc)), cgroups_(std::move(cgroups)), shared_(shared) {
        look();
    }

    /// Returns what was seen last if there is no descriptor to look again.
    memory_use operator()() {
        look();
        return last_;
    }

    /// Returns the cgroup of which all counts; empty if it is only this process that does.
    std::string_view group() const noexcept { return shared_ ? std::string_view() : group_; }

private:
    void look() {
        bool const anew = !found_;
        if (anew) {
            auto const groups = read_small_file(proc_ + "/cgroup");
            if (!groups && is_out_of_files(proc_ + "/cgroup")) return;
            found_ = find_limit(groups.value_or(""), cgroups_);
            if (!found_) return;
        }
        memory_use now;
        if (!group_.empty()) {
            auto const use = use_of_cgroup(group_, *files_);
            if (!use && !anew) return void(found_ = false);  // it is in another one by now
            std::string const limit = group_ + "/" + files_->limit;
            if (use) now = {*use, number_in(limit.c_str(), "")};
            if (now.limit == no_limit && is_out_of_files(limit)) return;
        }
        if (shared_ || now.in_use == 0) now.in_use = memory_in(proc_ + "/status");
        if (now.in_use == 0 && is_out_of_files(proc_ + "/status")) return;
        last_ = now;
    }

    /// Finds the lowest limit of the process's cgroup and those above it. In a container, the path that the kernel
    /// tells may not be there: then the cgroup is what is mounted.
    /// Returns false if no file can be opened now.
    bool find_limit(std::string_view groups, std::string const& mount) {
        std::size_t lowest = no_limit;
        group_.clear();
        for (bool const old : {false, true}) {
            cgroup_files const&    files = old ? cgroup_v1 : cgroup_v2;
            std::string_view const mark  = old ? ":memory:" : "0::";
            std::size_t            at    = groups.find(mark);
            if (at == groups.npos || (!old && at != 0 && groups[at - 1] != '\n')) continue;
            std::string_view path = groups.substr(at + mark.size());
            path                  = path.substr(0, path.find('\n'));
            for (std::string const top = mount + (old ? "/memory" : "");; path = path.substr(0, path.rfind('/'))) {
                std::string const group = top + std::string(path == "/" ? "" : path);
                std::size_t const limit = number_in((group + "/" + files.limit).c_str(), "");
                if (limit == any_amount && is_out_of_files(group + "/" + files.limit)) return false;
                // Version 1 writes no limit as the greatest number of pages.
                if (limit < lowest && limit < no_limit / 4) {
                    lowest = limit;
                    group_ = group;
                    files_ = &files;
                }
                if (path.empty() || path.find('/') == path.npos) break;
            }
        }
        return true;
    }

    std::string         proc_, cgroups_;
    bool                shared_;
    bool                found_ = false;  ///< its cgroup, or that it is in none
    memory_use          last_{};
    std::string         group_{};  ///< the cgroup whose limit counts, or empty
    cgroup_files const* files_ = nullptr;
};

/// Returns the memory of the machine, in bytes.
inline std::size_t physical_memory() noexcept {
    long const pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(size) : no_limit;
}

}  // namespace detail
}  // namespace tenure
