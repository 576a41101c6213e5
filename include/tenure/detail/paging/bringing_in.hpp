// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tenure/detail/paging/page_moves.hpp>
#include <tenure/detail/unit/write_fault.hpp>

namespace tenure::detail {

/// Brings in, at once and in huge pages where they fit, the memory of batches of which most changes each time.
/// Page by page, each write to a page would cost a fault and a copy, more than all the rest. A comparison with the
/// file (for_changed_pages) then tells what changed.

/// Copies memory as memcpy does, even if checking tools regard it as inaccessible.
TENURE_OPTIMISTIC inline void copy_unchecked(void* to, void const* from, std::size_t bytes) noexcept {
    auto*       out = static_cast<std::uint64_t volatile*>(to);
    auto const* in  = static_cast<std::uint64_t const volatile*>(from);
    for (std::size_t i = 0; i < bytes / sizeof *in; ++i) out[i] = in[i];
}

/// Replaces the range by a copy of itself in huge pages. Returns false, and changes nothing, if the system
/// refuses.
inline bool move_to_huge_pages(paged_range const& r) noexcept {
    // Keeps the range's offset in a huge page, so that huge pages move whole.
    std::size_t const skip = r.begin % region_grain;
    auto* const       base = static_cast<std::byte*>(reserve_aligned(skip + r.bytes, region_grain));
    if (!base) return false;
    if (skip) give_back(base, skip);
    void* const copy = base + skip;
    ask_huge_pages(copy, r.bytes);

    quiet_tools const quiet;
    write_fault const moving(r.begin, r.end());
    void* const       at   = to_pointer(r.begin);
    bool              done = protect(at, r.bytes, PROT_READ) && populate(at, r.bytes);
    if (done) {
        copy_unchecked(copy, at, r.bytes);
        done = move_pages(copy, r.bytes, at);
    }
    if (!done) {
        give_back(copy, r.bytes);
        unprotect(at, r.bytes);
        return false;
    }
    set_filed(r, 0);
    for (std::uintptr_t a = r.begin; a < r.end(); a += unit_bytes) place_at(a).u->huge = true;
    return true;
}

/// Moves the range to huge pages in parts, so that never all of it exists twice. Returns false if a part fails.
inline bool move_in_parts(paged_range const& r) noexcept {
    constexpr std::size_t most = 16 * region_grain;
    for (std::uintptr_t from = r.begin, to = from; from < r.end(); from = to) {
        to = std::min((from / most + 1) * most, r.end());
        if (!move_to_huge_pages({from, to - from, {}})) return false;
    }
    return true;
}

/// Brings in each range whose units are all still as the batch left them. Where the system refuses, pages come in
/// as they are touched.
inline void bring_in(paged_batch& p, std::uint64_t id) noexcept {
    for (paged_range& r : p.ranges) {
        bool here = !r.copied;
        for (std::uintptr_t a = r.begin; a < r.end() && here; a += unit_bytes) here = is_filed_by(id, place_at(a));
        if (!here) continue;
        if (r.bytes >= region_grain) r.copied = move_in_parts(r);
        else r.copied = populate_private(to_pointer(r.begin), r.bytes) == populated::yes;
    }
}

}  // namespace tenure::detail
