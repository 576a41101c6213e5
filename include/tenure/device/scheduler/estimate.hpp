// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <string>

namespace tenure {

/// Options of the estimate of what a kind of job needs, once some jobs of that kind have been seen.
struct estimate_options {
    /// Takes the mean plus `deviations` standard deviations, or the most that a job used.
    enum class rule { mean_and_deviations, maximum };

    rule        by         = rule::mean_and_deviations;
    double      deviations = 2;  ///< standard deviations above the mean, at least 0
    std::size_t unknown    = 0;  ///< bytes for a kind of which nothing is declared and nothing was seen
};

namespace detail {

/// Learns what jobs of one kind really use. With n jobs seen, L by the rule and `declared` bytes declared, a job
/// is taken to need
///
///     (declared + n * L) / (n + 1)
///
/// So the declared figure counts as much as one job: it stands alone at first, and counts less with each job. If
/// nothing is declared, the need is L. A job that used more than its estimate always raises the estimate, by
/// either rule: with n + 1 jobs, n * L has grown by at least what that job used.
class need_estimate {
public:
    void observe(std::size_t bytes) noexcept {
        auto const   x    = static_cast<double>(bytes);
        double const away = x - mean_;
        mean_ += away / static_cast<double>(++count_);
        squares_ += away * (x - mean_);
        most_ = std::max(most_, x);
    }

    std::size_t count() const noexcept { return count_; }

    std::size_t bytes(std::size_t declared, estimate_options const& o) const {
        auto const n = static_cast<double>(count());
        if (n == 0) return declared ? declared : o.unknown;
        double const learned = o.by == estimate_options::rule::maximum ? most_ : mean_ + o.deviations * deviation();
        return whole(declared ? (static_cast<double>(declared) + n * learned) / (n + 1) : learned);
    }

private:
    /// Returns the standard deviation of the jobs seen, not of all that may come.
    double deviation() const noexcept { return std::sqrt(squares_ / static_cast<double>(count_)); }

    static std::size_t whole(double bytes) noexcept {
        constexpr auto most = std::numeric_limits<std::size_t>::max();
        return bytes >= static_cast<double>(most) ? most : static_cast<std::size_t>(std::ceil(bytes));
    }

    // Welford's recurrence (1962): no sum of squares that cancels.
    std::size_t count_   = 0;
    double      mean_    = 0;
    double      squares_ = 0;  ///< sum of the squared distances from the mean
    double      most_    = 0;
};

/// The knowledge of one kind of job.
struct job_kind {
    need_estimate seen{};
    std::size_t   declared = 0;  ///< by the last job that declared something
};
using job_kinds = std::map<std::string, job_kind, std::less<>>;

}  // namespace detail
}  // namespace tenure
