// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>

namespace tenure::detail {

/// The least that something was in a time that slides on. Each sample counts until the next one.
///
/// Of the samples only those are kept that may still be the least: none after them is lower. O(1) for each, over
/// time.
class low_water {
public:
    using time = std::chrono::steady_clock::time_point;

    explicit low_water(std::chrono::nanoseconds within) noexcept : within_(within) {}

    /// In the order of time. Throws std::bad_alloc; then nothing has changed.
    void sample(time now, std::size_t value) {
        kept_.push_back({value, std::nullopt});
        if (!first_) first_ = now;
        auto const last = kept_.end() - 1;
        auto       from = last;  // on: no lower than this one, which is here from now on
        while (from != kept_.begin() && (from - 1)->value >= value) --from;
        if (from == last && from != kept_.begin()) (from - 1)->until = now;
        kept_.erase(from, last);
        while (is_over(kept_.front(), now)) kept_.pop_front();
    }

    /// nullopt: it has not been watched for that long.
    std::optional<std::size_t> least(time now) const noexcept {
        if (!first_ || now - *first_ < within_) return std::nullopt;
        auto at = kept_.begin();
        while (is_over(*at, now)) ++at;
        return at->value;
    }

private:
    struct entry {
        std::size_t         value;
        std::optional<time> until;  ///< nullopt: now
    };
    bool is_over(entry const& e, time now) const noexcept { return e.until && now - *e.until >= within_; }

    std::chrono::nanoseconds within_;
    std::optional<time>      first_{};
    std::deque<entry>        kept_{};  ///< the lower ones first
};

}  // namespace tenure::detail
