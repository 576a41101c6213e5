// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <iterator>
#include <new>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/batch/batch_record.hpp>
#include <tenure/error.hpp>

namespace tenure::detail {

/// Stands in for a batch that a guard has detached, or that has ended while a flow of control goes on in it.
/// Refuses everything, for the reason in `cause`.
struct over_record : batch_record {
    explicit over_record(errc why) noexcept : batch_record(none) { cause.store(why, std::memory_order_relaxed); }

    batch_rest none;
};

inline constexpr errc over_causes[]{errc::batch_ended, errc::expired, errc::cancelled, errc::batch_in_use};

/// Bytes in which over_record_of() makes the records when one is first needed; they are never destroyed. As
/// objects they would be made in every program, and each file that includes this header would compile all that a
/// batch can do, which a record's virtual functions lead to.
alignas(over_record) TENURE_SHARED
    inline constinit std::byte over_records[std::size(over_causes)][sizeof(over_record)]{};

TENURE_SHARED inline over_record& over_record_of(errc why = errc::batch_ended) noexcept {
    static bool const made = [] {
        for (std::size_t i = 0; i < std::size(over_causes); ++i)
            ::new (over_records[i]) over_record(over_causes[i]);
        return true;
    }();
    static_cast<void>(made);
    std::size_t i = std::size(over_causes) - 1;
    while (i > 0 && over_causes[i] != why) --i;
    return *std::launder(reinterpret_cast<over_record*>(over_records[i]));
}

inline bool is_over_record(batch_record const* b) noexcept {
    return detail::to_address(b) - detail::to_address(over_records) < sizeof over_records;
}

}  // namespace tenure::detail
