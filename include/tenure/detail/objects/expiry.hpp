// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/batch/failure.hpp>
#include <tenure/detail/batch/records.hpp>
#include <tenure/detail/batch/timing_front.hpp>
#include <tenure/detail/objects/liveness.hpp>
#include <tenure/error.hpp>

namespace tenure::detail {

/// Why a batch is over, or a handle stale. Each unit and each record remembers the last batch there that went
/// before its end; timing/expiry.hpp has a log besides. Looked at only where an error is made.

/// Packs what a unit or a record remembers: the last generation of it that the batch had, how many before that, at
/// most 255, and why the batch went. 0: nothing.
constexpr std::uint64_t expiry_of(std::uint64_t generation, std::uint64_t passes, errc cause) noexcept {
    return generation << 16 | (passes < 255 ? passes : 255) << 8 | static_cast<std::uint64_t>(cause);
}

/// Returns the cause in `expiry` if that is of `generation`; else errc{}.
constexpr errc cause_in(std::uint64_t expiry, std::uint64_t generation) noexcept {
    return (expiry >> 16) - generation <= (expiry >> 8 & 255) ? static_cast<errc>(expiry & 255) : errc{};
}

/// Returns why the batch with that id went before its end; errc{}: it did not, as far as is known.
TENURE_COLD inline errc expiry_of_batch(std::uint64_t id) noexcept {
    batch_record const* const b = record_of(id);
    errc const cause = b ? cause_in(b->expiry.load(std::memory_order_acquire), id >> record_bits) : errc{};
    if (cause != errc{}) return cause;
    expiry_front* const log = expiry_logged.load(std::memory_order_acquire);
    return log ? log->of_batch(id) : errc{};
}

/// Returns why a handle is stale; stale_handle if no other reason is known.
TENURE_COLD inline errc stale_because(raw_handle h) noexcept {
    if (!h.word) return errc::stale_handle;
    read_section const   here;
    std::uintptr_t const at = to_address(h.pointer);
    region* const        r  = find_region(at);
    errc                 cause =
        r ? cause_in(r->rest_at(at).expiry.load(std::memory_order_acquire), generation_of(h.word)) : errc{};
    if (expiry_front* const log = expiry_logged.load(std::memory_order_acquire); log && cause == errc{})
        cause = log->of_object(h);
    return cause == errc{} ? errc::stale_handle : cause;
}

/// Returns why nothing can be made in the batch with that id, which is over or was not to be held; batch_ended if
/// no other reason is known. `b`: its record, or null.
TENURE_COLD inline errc over_because(batch_record const* b, std::uint64_t id) noexcept {
    errc why = errc::batch_ended;
    if (b && b->id.load(std::memory_order_acquire) == id) why = b->why_closed();
    if (why == errc::batch_ended)
        if (errc const cause = expiry_of_batch(id); cause != errc{}) why = cause;
    return why;
}

TENURE_COLD inline failure over_failure(std::uint64_t id) noexcept {
    return {.code = over_because(record_of(id), id), .id = id};
}

}  // namespace tenure::detail
