// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tenure::detail {

/// How much memory the system has left for this process: what a caller asks that is about to touch a lot of it, for
/// the system does not refuse memory, but kills whoever touches too much.

inline constexpr std::size_t any_amount = ~std::size_t{0};

/// Returns the number behind `key` at the begin of a line of a file of the system's; any_amount if there is none.
inline std::size_t number_in(char const* file, char const* key) noexcept {
    std::FILE* const f = std::fopen(file, "re");
    if (!f) return any_amount;
    std::size_t const skip = std::strlen(key);
    std::size_t       n    = any_amount;
    char              line[256];
    while (std::fgets(line, sizeof line, f)) {
        if (std::strncmp(line, key, skip) != 0) continue;
        char*             end   = nullptr;
        std::size_t const value = std::strtoull(line + skip, &end, 10);
        if (end != line + skip && !std::strchr(line + skip, '-')) n = value;  // which strtoull would negate
        break;
    }
    std::fclose(f);
    return n;
}

/// What one version of control groups calls its files.
struct cgroup_files {
    char const* root;
    char const* limit;
    char const* used;
    char const* reclaimable;  ///< a key of memory.stat: pages of files that nobody has used of late
};
inline constexpr cgroup_files cgroup_v1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                        "total_inactive_file "};
inline constexpr cgroup_files cgroup_v2{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "};

/// Returns what a control group and those above it leave. `path` is changed.
inline std::size_t left_in_cgroup(cgroup_files const& names, char* path) noexcept {
    std::size_t left = any_amount;
    char        file[4352];
    for (auto const in_file =
             [&](char const* name, char const* key) {
                 int const n = std::snprintf(file, sizeof file, "%s%s/%s", names.root, path, name);
                 return n > 0 && static_cast<std::size_t>(n) < sizeof file ? number_in(file, key) : any_amount;
             };
         ;) {
        if (std::size_t const limit = in_file(names.limit, ""); limit != any_amount) {
            std::size_t const used        = in_file(names.used, "");
            std::size_t const reclaimable = in_file("memory.stat", names.reclaimable);
            std::size_t const needed      = used == any_amount ? 0 : used - (reclaimable < used ? reclaimable : 0);
            left                          = std::min(left, limit - std::min(limit, needed));
        }
        char* const last = std::strrchr(path, '/');
        if (!last) return left;
        *last = 0;
    }
}

/// Returns how many bytes this process can touch before the system has to kill something, as the system and the
/// process's control groups estimate it. Cost: some ten small files, 0.1 ms.
inline std::size_t available_memory() noexcept {
    std::size_t left = number_in("/proc/meminfo", "MemAvailable:");
    if (left != any_amount) left *= 1024;
    std::FILE* const groups = std::fopen("/proc/self/cgroup", "re");
    if (!groups) return left;
    char line[4224];  // number:controllers:path
    while (std::fgets(line, sizeof line, groups)) {
        line[std::strcspn(line, "\n")] = 0;
        char* const controllers        = std::strchr(line, ':');
        char* const path               = controllers ? std::strchr(controllers + 1, ':') : nullptr;
        if (!path) continue;
        *path = 0;
        if (!controllers[1]) left = std::min(left, left_in_cgroup(cgroup_v2, path + 1));
        else if (std::strstr(controllers, "memory")) left = std::min(left, left_in_cgroup(cgroup_v1, path + 1));
    }
    std::fclose(groups);
    return left;
}

}  // namespace tenure::detail
