// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <sys/stat.h>
#include <unistd.h>

/// A cgroup below this process's own, of version 1 or 2, in which so many bytes of memory may be used and no swap.
/// Converts to false where none can be made: without the right to, or where version 2 has no memory controller
/// here.
class small_cgroup {
public:
    explicit small_cgroup(std::size_t bytes) {
        for (bool const old : {true, false}) {
            std::string const own = own_path(old ? ":memory:" : "0::");
            if (own.empty()) continue;
            path_ =
                (old ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup") + own + "/tenure-" + std::to_string(::getpid());
            if (::mkdir(path_.c_str(), 0755) != 0) continue;
            made_ = put(old ? "memory.limit_in_bytes" : "memory.max", bytes);
            if (made_) {
                put(old ? "memory.memsw.limit_in_bytes" : "memory.swap.max", old ? bytes : 0);
                return;
            }
            ::rmdir(path_.c_str());
        }
    }
    ~small_cgroup() {
        if (made_) ::rmdir(path_.c_str());  // once all in it are gone
    }
    small_cgroup(small_cgroup const&)            = delete;
    small_cgroup& operator=(small_cgroup const&) = delete;

    explicit operator bool() const noexcept { return made_; }

    /// Has the calling process be in it.
    bool join() const { return put("cgroup.procs", 0); }

private:
    /// The process's path in the hierarchy of that mark in /proc/self/cgroup.
    static std::string own_path(std::string_view mark) {
        std::ifstream groups("/proc/self/cgroup");
        for (std::string line; std::getline(groups, line);) {
            std::size_t const at = line.find(mark);
            if (at == line.npos || (mark == "0::" && at != 0)) continue;
            std::string const path = line.substr(at + mark.size());
            return path == "/" ? "/." : path;
        }
        return {};
    }
    bool put(char const* file, std::size_t number) const {
        std::ofstream out(path_ + "/" + file);
        out << number << std::flush;
        return out.good();
    }

    std::string path_{};
    bool        made_ = false;
};
