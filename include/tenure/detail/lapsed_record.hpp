// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <iterator>
#include <new>

#include <tenure/detail/batch_record.hpp>
#include <tenure/detail/config.hpp>
#include <tenure/error.hpp>

namespace tenure::detail {

/// They stand where a guard has let go of its batch, or for the batch of a flow of control that went on after its
/// end, and say how that came: everything is refused there.
struct lapsed_record : batch_record {
    explicit lapsed_record(errc why) noexcept { cause.store(why, std::memory_order_relaxed); }
};

inline constexpr errc lapse_causes[]{errc::batch_ended, errc::expired, errc::cancelled};

/// Bytes, made records by who first needs one, and never destroyed. As objects they would be made in every program,
/// and whoever included this would compile all that a batch can do, which a record's virtual functions lead to.
alignas(lapsed_record) TENURE_SHARED
    inline constinit std::byte lapsed_records[std::size(lapse_causes)][sizeof(lapsed_record)]{};

TENURE_SHARED inline lapsed_record& lapsed(errc why = errc::batch_ended) noexcept {
    static bool const made = [] {
        for (std::size_t i = 0; i < std::size(lapse_causes); ++i)
            ::new (lapsed_records[i]) lapsed_record(lapse_causes[i]);
        return true;
    }();
    static_cast<void>(made);
    std::size_t i = std::size(lapse_causes) - 1;
    while (i > 0 && lapse_causes[i] != why) --i;
    return *std::launder(reinterpret_cast<lapsed_record*>(lapsed_records[i]));
}

inline bool is_lapsed(batch_record const* b) noexcept {
    return detail::to_address(b) - detail::to_address(lapsed_records) < sizeof lapsed_records;
}

}  // namespace tenure::detail
