// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include <tenure/detail/base/fork_list.hpp>

namespace tenure {

struct chunk_options {
    /// How much of the time that the work takes may go into handing it out, whatever the size of a chunk: 0.05 is
    /// a twentieth.
    double overhead = 0.05;

    std::size_t least = 1;
    std::size_t most  = std::size_t{1} << 24;
};

/// How much work to hand out at once, found by measuring: to threads, to a device, to a server. Small chunks spend
/// the time on handing out, large ones leave others idle at the end; so a chunk is as small as the overhead allows.
///
///     static tenure::chunk_size rows{"scan rows", 100};
///     std::size_t const n = rows.items();
///     ...                                              // hand n rows out, wait for what they give
///     rows.note(n, time_to_hand_out, time_of_the_work);
///
/// Handing out is taken to cost some time for each chunk, and some for each item in it; the first is what larger
/// chunks save. Both are found from the last 15 chunks, the time for an item by the slopes between chunks of
/// the largest size and small ones (Theil and Sen's estimator, which a few odd ones among them do not move). The
/// size changes only if another is twice as large or half as large, and then at once, by 16 times at most: two or
/// three steps from anywhere near, and then it stays.
///
/// Thread-safe. Cost: items() a load, note() about a microsecond.
class chunk_size {
public:
    /// `first`: the size as long as nothing is known. Throws std::bad_alloc.
    chunk_size(std::string site, std::size_t first, chunk_options options = {})
        : site_(std::move(site)), options_(options), items_(bounded(static_cast<double>(first))) {}

    std::string const& site() const noexcept { return site_; }

    /// Returns how many items to hand out next.
    std::size_t items() const noexcept { return items_.load(std::memory_order_relaxed); }

    /// Notes what a chunk of so many items took: to hand it out and to bring back what it gave, and to do it.
    /// A chunk of no items is ignored.
    void note(std::size_t items, std::chrono::nanoseconds handing_out, std::chrono::nanoseconds working) noexcept {
        if (items == 0) return;
        std::scoped_lock const guard(mutex_);
        seen_[count_++ % seen_.size()] = {static_cast<double>(items), std::max(0., seconds(handing_out)),
                                          std::max(0., seconds(working))};
        double const n                 = static_cast<double>(this->items());
        double const better            = best();
        if (better < 2 * n && n < 2 * better) return;
        items_.store(bounded(std::clamp(better, n / 16, n * 16)), std::memory_order_relaxed);
    }

private:
    struct chunk {
        double items, handing_out, working;
    };

    static double seconds(std::chrono::nanoseconds t) noexcept { return std::chrono::duration<double>(t).count(); }

    std::size_t bounded(double n) const noexcept {
        auto const least = static_cast<double>(std::max<std::size_t>(1, options_.least));
        return static_cast<std::size_t>(std::clamp(n, least, std::max(least, static_cast<double>(options_.most))));
    }

    /// The median; of none, 0.
    static double middle(std::span<double> of) noexcept {
        if (of.empty()) return 0;
        auto const at = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
        std::nth_element(of.begin(), at, of.end());
        return *at;
    }

    /// Returns the size at which what each chunk costs is the overhead that is allowed.
    double best() noexcept {
        std::span<chunk const> const                seen(seen_.data(), std::min(count_, seen_.size()));
        std::array<double, window*(window - 1) / 2> slopes;
        std::array<double, window>                  each, work;
        std::size_t                                 pairs   = 0;
        double const                                largest = std::ranges::max(seen, {}, &chunk::items).items;
        for (chunk const& large : seen)
            for (chunk const& small : seen)
                if (2 * large.items >= largest && 4 * small.items <= large.items)
                    slopes[pairs++] = (large.handing_out - small.handing_out) / (large.items - small.items);
        // As long as all are of one size, what was known of an item stays.
        if (pairs) an_item_ = std::max(0., middle({slopes.data(), pairs}));
        for (std::size_t i = 0; i < seen.size(); ++i) {
            each[i] = seen[i].handing_out - an_item_ * seen[i].items;
            work[i] = seen[i].working / seen[i].items;
        }
        double const a_chunk = std::max(0., middle({each.data(), seen.size()}));
        double const allowed = middle({work.data(), seen.size()}) * options_.overhead;
        if (a_chunk <= 0) return static_cast<double>(items());  // any size will do
        return allowed > 0 ? a_chunk / allowed : static_cast<double>(options_.most);
    }

    static constexpr std::size_t window = 15;

    std::string const        site_;
    chunk_options const      options_;
    std::atomic<std::size_t> items_;

    detail::fork_mutex        mutex_;
    std::array<chunk, window> seen_{};
    std::size_t               count_   = 0;
    double                    an_item_ = 0;  ///< seconds to hand out one item more
};

}  // namespace tenure
