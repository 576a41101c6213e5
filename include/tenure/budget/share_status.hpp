// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <tenure/budget/admission.hpp>

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

}  // namespace tenure::detail
