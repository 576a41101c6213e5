// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <new>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "demo/table.hpp"
#include "jobs.hpp"

namespace crowd {

/// Memory that only this process has, in bytes; of `pid`, or of this one.
inline std::size_t own_memory(::pid_t pid = 0) {
    std::ifstream statm("/proc/" + (pid ? std::to_string(pid) : std::string("self")) + "/statm");
    std::size_t   size = 0, resident = 0, shared = 0;  // pages
    if (!(statm >> size >> resident >> shared)) return 0;
    return (resident - std::min(resident, shared)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// What a process has over what it had when it began, at moments of a run.
struct moment {
    double                   at = 0;  ///< seconds
    std::vector<std::size_t> bytes{};
};

/// How a run went.
struct course {
    double              seconds = 0;
    std::size_t         peak    = 0;  ///< bytes, of all together
    std::size_t         done    = 0;  ///< pieces of work, of jobs that ended well
    std::size_t         again   = 0;  ///< pieces that were begun once more
    std::size_t         killed = 0, failed = 0;
    std::vector<moment> moments{};
};

/// A machine of the demo's own: jobs in processes of theirs, and so much memory for them together. As the kernel
/// does where memory runs out, it kills the largest; nobody else's processes are in danger.
class machine {
public:
    using task = std::function<void(job const&, account&)>;

    machine(std::vector<job> jobs, std::size_t memory) : jobs_(std::move(jobs)), memory_(memory) {
        std::size_t const bytes = jobs_.size() * sizeof(account);
        void* const       p     = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
        told_ = static_cast<account*>(p);
        for (std::size_t i = 0; i < jobs_.size(); ++i) new (told_ + i) account;
    }
    ~machine() { ::munmap(told_, jobs_.size() * sizeof(account)); }
    machine(machine const&)            = delete;
    machine& operator=(machine const&) = delete;

    /// Runs all jobs, `together` of them at a time, and waits for them. `title`: of the table that is shown
    /// meanwhile where stderr is a terminal.
    course run(std::string const& title, std::size_t together, task const& work) {
        using clock      = std::chrono::steady_clock;
        auto const begin = clock::now();
        auto const since = [&] { return std::chrono::duration<double>(clock::now() - begin).count(); };
        course     c;
        running_.assign(jobs_.size(), {});
        for (std::size_t i = 0; i < jobs_.size(); ++i) told_[i].done = told_[i].again = 0;
        double shown = 0;
        for (std::size_t next = 0, alive = 0; next < jobs_.size() || alive > 0;) {
            for (; next < jobs_.size() && alive < together; ++next, ++alive) start(next, work);
            ::usleep(2000);
            look(c, since());
            alive -= reap(c);
            if (::isatty(STDERR_FILENO) == 1 && since() - shown > 0.1) {
                shown = since();
                show(title, c);
            }
        }
        if (shown > 0) std::fputs("\033[J", stderr);
        c.seconds = since();
        for (std::size_t i = 0; i < jobs_.size(); ++i) {
            if (running_[i].state == how::done) c.done += told_[i].done;
            c.again += told_[i].again;
        }
        return c;
    }

private:
    enum class how { waits, runs, done, killed, failed };

    struct process {
        ::pid_t     pid   = 0;
        how         state = how::waits;
        std::size_t began = 0, bytes = 0;
    };

    void start(std::size_t i, task const& work) {
        std::cout.flush();
        ::pid_t const pid = ::fork();
        if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
        if (pid == 0) {
            int code = EXIT_FAILURE;
            try {
                work(jobs_[i], told_[i]);
                code = EXIT_SUCCESS;
            } catch (std::exception const& e) {
                std::cerr << jobs_[i].name() << ": " << e.what() << '\n';
            }
            ::_exit(code);
        }
        running_[i] = {pid, how::runs, own_memory(pid), 0};
    }

    /// Measures each process, and kills some if all have more than there is. What one gives back and another takes
    /// meanwhile may count twice: so then it measures again, while all stand still.
    void look(course& c, double at) {
        std::size_t sum = measure(c, at);
        if (sum > memory_) {
            tell_running(SIGSTOP);
            ::usleep(1000);
            sum = measure(c, at);
            kill_if_short(c);
            tell_running(SIGCONT);
        }
        c.peak = std::max(c.peak, sum);
    }

    void tell_running(int signal) const noexcept {
        for (process const& p : running_)
            if (p.state == how::runs) ::kill(p.pid, signal);
    }

    /// Returns what all have.
    std::size_t measure(course& c, double at) {
        std::size_t sum = 0;
        moment      m{at, std::vector<std::size_t>(jobs_.size())};
        for (std::size_t i = 0; i < jobs_.size(); ++i) {
            process& p = running_[i];
            if (p.state != how::runs) continue;
            std::size_t const now = own_memory(p.pid);
            p.bytes               = now - std::min(now, p.began);
            m.bytes[i]            = p.bytes;
            sum += p.bytes;
        }
        if (c.moments.empty() || at - c.moments.back().at >= 0.02) c.moments.push_back(std::move(m));
        return sum;
    }

    void kill_if_short(course& c) {
        std::size_t sum = 0;
        for (process const& p : running_) sum += p.bytes;
        while (sum > memory_) {
            process& largest = *std::ranges::max_element(running_, {}, &process::bytes);
            ::kill(largest.pid, SIGKILL);
            ::waitpid(largest.pid, nullptr, 0);
            sum -= largest.bytes;
            largest = {-1, how::killed, 0, 0};
            ++c.killed;
        }
    }

    /// Returns how many are over.
    std::size_t reap(course& c) {
        std::size_t over = 0;
        for (process& p : running_) {
            if (p.state == how::killed && std::exchange(p.pid, 0) != 0) ++over;
            int status = 0;
            if (p.state != how::runs || ::waitpid(p.pid, &status, WNOHANG) != p.pid) continue;
            bool const well = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
            p               = {0, well ? how::done : how::failed, 0, 0};
            c.failed += well ? 0 : 1;
            ++over;
        }
        return over;
    }

    void show(std::string const& title, course const& c) const {
        static constexpr std::array<char const*, 5> words{"waits", "runs", "done", "killed", "failed"};
        demo::table                                 t("llrr");
        std::size_t                                 sum = 0;
        for (std::size_t i = 0; i < jobs_.size(); ++i) {
            process const& p = running_[i];
            sum += p.bytes;
            t.row({jobs_[i].name(), words[static_cast<std::size_t>(p.state)],
                   std::to_string(told_[i].done) + " of " + std::to_string(jobs_[i].pieces),
                   demo::mebibytes(p.bytes)});
        }
        std::ostringstream out;
        out << title << ": " << demo::mebibytes(sum) << " of " << demo::mebibytes(memory_) << " now, "
            << demo::mebibytes(c.peak) << " at most\n"
            << t << "\033[" << jobs_.size() + 1 << "A";
        std::fputs(out.str().c_str(), stderr);
    }

    std::vector<job>     jobs_;
    std::size_t          memory_;
    account*             told_ = nullptr;  ///< shared with the processes
    std::vector<process> running_{};
};

}  // namespace crowd
