// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include <tenure/budget.hpp>
#include <tenure/budget/fair_shares.hpp>
#include <tenure/budget/share_directory.hpp>
#include <tenure/budget/share_keeper.hpp>
#include <tenure/detail/base/printed.hpp>
#include <tenure/error.hpp>
#include <tenure/raise.hpp>

namespace tenure {

/// What the processes of a machine have, at one moment.
struct machine_figures {
    struct member {
        std::uint64_t user = 0;  ///< the number of the user whose process it is
        std::string   job{};
        std::size_t   has = 0, desired = 0, fair = 0;  ///< bytes
        std::size_t   cores = 0, cores_desired = 0, cores_fair = 0;
    };
    struct refused {
        std::string file{};
        std::string why{};
    };

    std::size_t          bytes = 0, cores = 0;  ///< of the machine
    std::vector<member>  members{};
    std::vector<refused> ignored{};  ///< files of the directory that do not count
};

/// A machine whose memory and cores several processes share, without a daemon: each has a budget which gets a fair
/// share of them.
///
///     tenure::machine_arbiter arbiter;
///     tenure::memory_budget   budget{arbiter, {.job = "train", .floor = std::size_t{1} << 30}};
///
/// Shares are max-min fair by user, and then by job; detail::fair_shares and detail::due_shares say how. Who wants
/// more than its share gets what the others do not want. Once they do, it gives it back: what is not reserved at
/// once; for the rest its budget's `relieve` is called, and no further job starts. Where shares are too small for
/// the jobs that wait, they start one after the other. The sum of what all have is never above what there is.
///
/// The processes tell each other what they have and want by files in a directory, each its own, and act on what
/// they read there. A process that dies, in whatever way, gives back its share at once. A child of a fork() has
/// none: make a budget there. Thread-safe.
class machine_arbiter final : public detail::shared_machine {
public:
    /// Makes the default directory if it is not there. Throws what the system says; insecure if others could
    /// remove files of this process; std::errc::invalid_argument for a negative amount.
    explicit machine_arbiter(arbiter_options options = {}) : options_(with_defaults(std::move(options))) {
        static_cast<void>(detail::share_directory(options_.directory));
    }

    /// Returns what all have. Throws std::bad_alloc, and what the constructor throws. Cost: some seven system
    /// calls for each.
    machine_figures figures() const {
        detail::share_directory             in(options_.directory);
        detail::share_directory::view const v = in.read();
        detail::share_claims const          c(v, {options_.bytes, options_.cores}, in.owner());
        auto const                          fair = detail::fair_shares::of(c.all, c.capacity);
        machine_figures                     f{.bytes = c.capacity.bytes, .cores = c.capacity.cores};
        for (std::size_t i = 0; i < fair.size(); ++i) {
            detail::share_status const& s = v.members[i].status;
            f.members.push_back({.user          = v.members[i].user,
                                 .job           = std::string(s.name()),
                                 .has           = s.has.bytes,
                                 .desired       = s.desired.bytes,
                                 .fair          = fair[i].bytes,
                                 .cores         = s.has.cores,
                                 .cores_desired = s.desired.cores,
                                 .cores_fair    = fair[i].cores});
        }
        for (auto const& r : v.others) f.ignored.push_back({r.file, r.why});
        return f;
    }

private:
    std::unique_ptr<detail::capacity_source> share_for(detail::budget_core& of,
                                                       share_options const& mine) const override {
        return std::make_unique<detail::share_keeper>(of, options_, mine);
    }

    static arbiter_options with_defaults(arbiter_options o) {
        detail::check_amount(o.bytes, "bytes");
        detail::check_amount(o.cores, "cores");
        if (o.bytes == no_limit)
            o.bytes = std::min(detail::physical_memory(), detail::process_memory()().limit) / 8 * 7;
        if (o.cores == any_number_of_cores) o.cores = std::max(1u, std::thread::hardware_concurrency());
        if (o.bytes == 0 || o.cores == 0)
            raise(error(errc::limit_exceeded, "share a machine without memory or cores"));
        if (o.period <= o.period.zero()) o.period = std::chrono::milliseconds(1);
        o.directory = o.directory.empty() ? own_directory() : std::filesystem::absolute(o.directory);
        return o;
    }

    /// Returns a directory of the user's own, which it makes if need be.
    static std::filesystem::path own_directory() {
        char const* const           run = std::getenv("XDG_RUNTIME_DIR");
        std::filesystem::path const in =
            run && *run ? std::filesystem::path(run) / "tenure"
                        : std::filesystem::path("/tmp") / detail::printed("tenure-%u", unsigned{::geteuid()});
        struct ::stat is{};
        if (::mkdir(in.c_str(), 0700) != 0 && errno != EEXIST)
            raise(error(detail::system_code(errno), "share a machine: make " + in.string()));
        if (::lstat(in.c_str(), &is) != 0 || !S_ISDIR(is.st_mode) || is.st_uid != ::geteuid())
            raise(error(errc::insecure, "share a machine: " + in.string() + " is not a directory of this user's"));
        return in;
    }

    arbiter_options options_;
};

}  // namespace tenure
