// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>

namespace tenure::detail {

/// Tells the least value in a sliding window of time. Each sample counts until the next one. Only samples that may
/// still be the least are kept: none after them is lower. A sample costs O(1), amortized.
class low_water {
public:
    using time = std::chrono::steady_clock::time_point;

    explicit low_water(std::chrono::nanoseconds within) noexcept : within_(within) {}

    /// Adds a sample. Times must not go back. Throws std::bad_alloc; nothing has changed then.
    void sample(time now, std::size_t value) {
        kept_.push_back({value, std::nullopt});
        if (!first_) first_ = now;
        auto const last = kept_.end() - 1;
        auto       from = last;  // values from here on are no lower than the new one, which replaces them
        while (from != kept_.begin() && (from - 1)->value >= value) --from;
        if (from == last && from != kept_.begin()) (from - 1)->until = now;
        kept_.erase(from, last);
        while (is_over(kept_.front(), now)) kept_.pop_front();
    }

    /// Returns the least value in the window; nullopt if the value has not been watched for that long.
    std::optional<std::size_t> least(time now) const noexcept {
        if (!first_ || now - *first_ < within_) return std::nullopt;
        auto at = kept_.begin();
        while (is_over(*at, now)) ++at;
        return at->value;
    }

private:
    struct entry {
        std::size_t         value;
        std::optional<time> until;  ///< when the value changed; nullopt: it is the present one
    };
    bool is_over(entry const& e, time now) const noexcept { return e.until && now - *e.until >= within_; }

    std::chrono::nanoseconds within_;
    std::optional<time>      first_{};
    std::deque<entry>        kept_{};  ///< lowest first
};

}  // namespace tenure::detail
