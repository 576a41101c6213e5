// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tenure/budget/process_memory.hpp>
#include <tenure/detail/base/available_memory.hpp>
#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/base/os.hpp>

namespace tenure::detail {

/// What the kernel tells of a process.
struct kernel_view {
    pid_t         parent  = 0;
    std::uint64_t started = 0;      ///< ticks since the system's start: with the pid, that is one process for ever
    bool          forked  = false;  ///< it executes what its parent did, and shares memory with it
    bool          ended   = false;
};

/// Returns when a process was started, at the latest: in nanoseconds of the monotonic clock.
inline std::uint64_t latest_start(kernel_view const& of) noexcept {
    std::uint64_t const now  = time_of(CLOCK_BOOTTIME);  // which goes on while the machine sleeps
    std::uint64_t const mono = exact_now();
    auto const          tick = 1'000'000'000u / static_cast<std::uint64_t>(std::max(1L, ::sysconf(_SC_CLK_TCK)));
    std::uint64_t const ago  = now - std::min(now, (of.started + 1) * tick);
    return mono - std::min(mono, ago);
}

/// Returns the kernel's number of this thread, which is another one in a forked child: for callers that have a
/// fork_mutex, which counts forks. Cost: a system call the first time.
inline pid_t thread_number() noexcept {
    struct known {
        pid_t         number = 0;
        std::uint32_t forks  = 0;
    };
    static constinit thread_local known last;
    std::uint32_t const                 now = forks.forks.load(std::memory_order_relaxed);
    if (last.number == 0 || last.forks != now) last = {static_cast<pid_t>(::syscall(SYS_gettid)), now};
    return last.number;
}

/// Whether this process has children that it has not waited for.
inline bool has_children() noexcept {
    ::siginfo_t nobody{};
    return ::waitid(P_ALL, 0, &nobody, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/// Whether a directory is another one, or below it.
inline bool is_below(std::string_view directory, std::string_view top) noexcept {
    while (top.ends_with('/')) top.remove_suffix(1);
    return directory.starts_with(top) && (directory.size() == top.size() || directory[top.size()] == '/');
}

/// Reads what other processes use: from /proc, or what a test has in its place. Thread-safe. Cost: some 20 us a
/// process; of one that has only forked, milliseconds a GiB.
class other_processes {
public:
    explicit other_processes(std::string proc = "/proc") : proc_(std::move(proc)) {}

    /// Returns nothing if there is no such process.
    std::optional<kernel_view> state_of(pid_t pid) const {
        std::string const text = read_small_file(of(pid) + "/stat").value_or("");
        std::size_t const name = text.rfind(')');  // of its own choice: it may look like what follows
        if (name == text.npos) return {};
        constexpr std::size_t parent = 1, flags = 6, started = 19, wanted = 20;  // behind the name: state is 0
        std::uint64_t         number[wanted]{};
        std::string_view      rest(std::string_view(text).substr(name + 1));
        kernel_view           out;
        for (std::size_t i = 0; i < wanted; ++i) {
            rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
            if (rest.empty()) return {};
            if (i == 0) out.ended = rest[0] == 'Z' || rest[0] == 'X';
            std::from_chars(rest.data(), rest.data() + rest.size(), number[i]);
            rest.remove_prefix(std::min(rest.find(' '), rest.size()));
        }
        constexpr std::uint64_t fork_without_exec = 0x40;  // PF_FORKNOEXEC of the kernel
        out.parent                                = static_cast<pid_t>(number[parent]);
        out.started                               = number[started];
        out.forked                                = number[flags] & fork_without_exec;
        return out;
    }

    /// Calls f(thread, child) for the children of a process, each with the thread that started it; or another one,
    /// if that thread is gone.
    template <class F>
    void for_children(pid_t pid, F f) const {
        std::error_code failed;
        for (std::filesystem::directory_iterator i(of(pid) + "/task", failed), end; !failed && i != end;
             i.increment(failed)) {
            pid_t const       thread = number_of(i->path().filename().string());
            std::string const text   = read_small_file(i->path().string() + "/children").value_or("");
            for (std::size_t at = 0; at < text.size(); at = std::min(text.find(' ', at), text.size() - 1) + 1)
                if (pid_t const child = number_of(std::string_view(text).substr(at)); child > 0) f(thread, child);
        }
    }

    /// Calls f(pid) for a process and all below it, but for those that are `seen`, and what is only below these;
    /// which they are afterwards.
    template <class F>
    void for_tree(pid_t top, std::set<pid_t>& seen, F f) const {
        std::vector<pid_t> left;
        auto const         add = [&](pid_t, pid_t pid) {
            if (seen.insert(pid).second) left.push_back(pid);
        };
        for (add(0, top); !left.empty();) {
            pid_t const pid = left.back();
            left.pop_back();
            f(pid);
            for_children(pid, add);
        }
    }

    /// Returns the bytes of a process: what would be free if it ended. What a fork shares with its parent is the
    /// parent's.
    std::size_t memory_of(pid_t pid) const {
        auto const state = state_of(pid);
        if (!state || state->ended) return 0;
        std::string const own = of(pid) + "/smaps_rollup";
        if (state->forked && ::access(own.c_str(), R_OK) == 0)
            return shares_all(pid, *state) ? 0 : kibibytes_in(own, {"Private_Dirty:", "Swap:"});
        return memory_in(of(pid) + "/status");
    }

    /// Whether a process is in a cgroup of memory with that directory, or below it.
    bool is_in(pid_t pid, std::string_view directory) const {
        std::string const text = read_small_file(of(pid) + "/cgroup").value_or("");
        std::string_view  rest = text;
        while (!rest.empty()) {
            std::string_view const line = rest.substr(0, rest.find('\n'));
            rest.remove_prefix(std::min(line.size() + 1, rest.size()));
            bool const        old = line.find(":memory:") != line.npos;
            std::size_t const at  = old ? line.find(":memory:") + 8 : line.starts_with("0::") ? 3 : line.npos;
            if (at == line.npos) continue;
            if (is_below(std::string(old ? cgroup_v1.root : cgroup_v2.root).append(line.substr(at)), directory))
                return true;
        }
        return false;
    }

private:
    std::string of(pid_t pid) const { return proc_ + "/" + std::to_string(pid); }

    static pid_t number_of(std::string_view text) noexcept {
        pid_t out = 0;
        std::from_chars(text.data(), text.data() + text.size(), out);
        return out;
    }

    /// Whether a process that has not executed anything yet runs in the very memory of its parent, as one does
    /// that vfork() or posix_spawn() has just made. Where the kernel does not tell, that is over after 100 ms.
    bool shares_all(pid_t pid, kernel_view const& state) const noexcept {
        if (proc_ != "/proc") return false;
        constexpr long same_memory = 1;  // KCMP_VM of linux/kcmp.h, which not all have
        long const     differs     = ::syscall(SYS_kcmp, state.parent, pid, same_memory, 0L, 0L);
        return differs < 0 ? exact_now() - latest_start(state) < 100'000'000 : differs == 0;
    }

    std::string proc_;
};

}  // namespace tenure::detail
