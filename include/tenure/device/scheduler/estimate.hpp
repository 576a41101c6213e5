// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include <boost/accumulators/accumulators.hpp>
#include <boost/accumulators/statistics/count.hpp>
#include <boost/accumulators/statistics/max.hpp>
#include <boost/accumulators/statistics/mean.hpp>
#include <boost/accumulators/statistics/stats.hpp>
#include <boost/accumulators/statistics/variance.hpp>

namespace tenure {

/// What a kind of job is taken to need, once some have been seen.
struct estimate_options {
    enum class rule { mean_and_deviations, maximum };

    rule        by         = rule::mean_and_deviations;
    double      deviations = 2;  ///< standard deviations above the mean, at least 0
    std::size_t unknown    = 0;  ///< for a kind of which nothing is declared and nothing was seen
};

namespace detail {

/// What jobs of one kind really used. With n of them seen, L by the rule and `declared` bytes declared, a job is
/// taken to need
///
///     (declared + n * L) / (n + 1)
///
/// so the declared figure counts as much as one job does, alone at first and less with each; where nothing is
/// declared, L. A job that used more than this always raises it: with n + 1 jobs n * L has grown by at least what
/// that job used, by either rule.
class need_estimate {
public:
    void observe(std::size_t bytes) { seen_(static_cast<double>(bytes)); }

    std::size_t count() const { return boost::accumulators::count(seen_); }

    std::size_t bytes(std::size_t declared, estimate_options const& o) const {
        auto const n = static_cast<double>(count());
        if (n == 0) return declared ? declared : o.unknown;
        double const learned = o.by == estimate_options::rule::maximum
                                   ? boost::accumulators::max(seen_)
                                   : boost::accumulators::mean(seen_) + o.deviations * deviation();
        return whole(declared ? (static_cast<double>(declared) + n * learned) / (n + 1) : learned);
    }

private:
    /// Of those seen, not of all that may come. Rounding makes it less than zero where all are equal.
    double deviation() const { return std::sqrt(std::fmax(boost::accumulators::variance(seen_), 0)); }

    static std::size_t whole(double bytes) noexcept {
        constexpr auto most = std::numeric_limits<std::size_t>::max();
        return bytes >= static_cast<double>(most) ? most : static_cast<std::size_t>(std::ceil(bytes));
    }

    boost::accumulators::accumulator_set<
        double, boost::accumulators::stats<boost::accumulators::tag::count, boost::accumulators::tag::mean,
                                           boost::accumulators::tag::variance, boost::accumulators::tag::max>>
        seen_;
};

}  // namespace detail
}  // namespace tenure
