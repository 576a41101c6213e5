// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>

#include <tenure/detail/batch/paging.hpp>
#include <tenure/detail/batch/release.hpp>
#include <tenure/detail/paging/bringing_in.hpp>
#include <tenure/detail/paging/paging.hpp>

namespace tenure::detail {

/// Tracks whether a batch's memory is in or out, and who may move it: one thread at a time, while nobody is
/// inside. A thread that enters meanwhile waits; no lock is held.

/// Returns whether no thread has entered the batch and its guard is not open. Call it under the batch's lock.
inline bool is_empty(batch_record const& b) noexcept {
    if (b.in_chain.load(std::memory_order_relaxed) || b.primary.users.load(std::memory_order_relaxed)) return false;
    for (lane const* l = b.lanes; l; l = l->next)
        if (l->users.load(std::memory_order_relaxed)) return false;
    return true;
}

/// Ends a claim, and tells the registry how much memory is out.
inline void set_paging(batch_record& b, paging_state now) noexcept {
    registry_core&    r     = *b.registry.load(std::memory_order_relaxed);
    page_space&       space = space_of(r);
    std::size_t const bytes = b.paged && now == paging_state::out ? b.paged->bytes : 0;
    std::size_t const more  = bytes - b.out_bytes.exchange(bytes, std::memory_order_relaxed);
    space.out.fetch_add(more, std::memory_order_relaxed);
    if (b.slabs == &r.own) space.relieved.fetch_add(more, std::memory_order_relaxed);
    end_claim_of_paging(b, now);
}

/// Makes the memory of a batch accessible; pages come in as they are touched. `entered`: a thread will use and may
/// change it, so all comes in at once if most had changed when it last went out. The caller holds the batch.
TENURE_COLD inline void come_back(batch_record& b, bool entered) noexcept {
    paging_state const before = claim_paging(b);
    bool const         faults =
        space_of(*b.registry.load(std::memory_order_relaxed)).options.access == paged_access::faults;
    if (before == paging_state::out && faults)
        for (paged_range const& r : b.paged->ranges) unprotect(to_pointer(r.begin), r.bytes);
    if (before == paging_state::out && entered && b.paged->changes)
        bring_in(*b.paged, b.id.load(std::memory_order_relaxed));
    set_paging(b, paging_state::in);
}

/// Returns whether a page-out that nobody asked for is worth a try: after a failure, only once something has
/// changed. Less than 1 MiB more room on the disk does not count.
inline bool worth_trying(page_space& pages, batch_record const& b) noexcept {
    constexpr std::uint64_t little = std::uint64_t{1} << 20;
    return !b.page_error.load(std::memory_order_relaxed) ||
           b.paged->failed_at != pages.changes.load(std::memory_order_relaxed) ||
           b.paged->free_then + little <= pages.bytes_free();
}

/// Does the work of page_out_batch(), which has claimed the paging and holds the batch.
inline std::error_code page_out_claimed(batch_record& b, bool asked) noexcept {
    page_space& pages = space_of(*b.registry.load(std::memory_order_relaxed));
    if (!is_pageable(b)) return make_error_code(errc::not_pageable);
    if (b.state.load(std::memory_order_acquire) & batch_flags::checkpointed)
        return make_error_code(errc::batch_in_use);
    {
        std::scoped_lock const guard(b.lock);
        // Reads by a read-modify-write, so that the read comes before or after any hold.
        if (!is_empty(b) || (b.state.fetch_add(0, std::memory_order_acq_rel) & batch_flags::holds) != 1)
            return make_error_code(errc::batch_in_use);
    }
    if (!b.paged) b.paged = new (std::nothrow) paged_batch;
    if (!b.paged) return make_error_code(errc::memory_full);
    if (!asked && !worth_trying(pages, b)) return b.page_error.load(std::memory_order_relaxed).code();
    std::error_code const why = page_out_of(pages, b, *b.paged, asked).run();
    if (why) {
        pages.failures.fetch_add(1, std::memory_order_relaxed);
        b.paged->failed_at = pages.changes.load(std::memory_order_relaxed);
        b.paged->free_then = pages.bytes_free();
    }
    b.page_error.store(why, std::memory_order_relaxed);
    b.books.touch();
    return why;
}

/// Pages out the batch with that id. `asked`: by the user, so it is tried in any case. Errors: batch_in_use if a
/// thread is inside or something holds it; batch_ended; not_pageable; store_full, memory_full, mappings_full, and
/// what else the system says. The batch then stays in memory, whole.
TENURE_COLD inline std::error_code page_out_batch(batch_record& b, std::uint64_t id, bool asked) noexcept {
    paging_state const before = claim_paging(b);
    // A thread that takes or ends a checkpoint had this claim before, so its flag is visible here. Do not wait for
    // that thread: it may need the claim once more.
    bool const undoing = b.state.load(std::memory_order_acquire) & batch_flags::undoing;
    if (undoing || !hold(b, id, unless_over)) {
        end_claim_of_paging(b, before);
        return make_error_code(undoing ? errc::batch_in_use : errc::batch_ended);
    }
    std::error_code why;
    if (asked || before == paging_state::in) {
        why = page_out_claimed(b, asked);
        set_paging(b, !why ? paging_state::out : why == errc::batch_in_use ? before : paging_state::in);
    } else {
        end_claim_of_paging(b, before);
    }
    release_hold_in_place(&b);
    return why;
}

/// Reads in all pages now, not when they are touched. The caller holds the batch. Returns false if a page cannot
/// be read.
TENURE_COLD inline bool page_in_batch(batch_record& b) noexcept {
    note_entry(b);
    claim_paging(b);
    bool all = true;
    if (b.paged)
        for (paged_range const& r : b.paged->ranges) all = populate(to_pointer(r.begin), r.bytes) && all;
    set_paging(b, paging_state::in);
    return all;
}

/// Pages out a paged_when_left batch if nothing holds it after a thread has let go of it.
TENURE_COLD inline void note_leaving(batch_record& b, std::uint64_t id) noexcept {
    constexpr std::uint64_t busy = batch_flags::holds | unless_over;
    if (b.in_chain.load(std::memory_order_relaxed) || b.state.load(std::memory_order_acquire) & busy) return;
    [[maybe_unused]] auto const why = page_out_batch(b, id, false);  // the batch keeps the error
}

}  // namespace tenure::detail
