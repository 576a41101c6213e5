// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>

#include <tenure/detail/batch/batch_record.hpp>
#include <tenure/detail/batch/process.hpp>
#include <tenure/detail/batch/waiting.hpp>

namespace tenure::detail {

/// What all others do for batches whose memory may be out, which is nothing if it is in.

inline paging_front* pages_of(batch_record const& b) noexcept {
    return b.registry.load(std::memory_order_relaxed)->pages.get();
}

inline bool is_pageable(batch_record const& b) noexcept { return b.slabs->store.capabilities().anonymous; }

/// Pages out what is over the memory limit, as far as it can. Called after a batch was left that can go out now.
inline void relieve(registry_core& r) noexcept {
    if (r.pages && r.pages->limited) r.pages->make_room(0);
}

/// Makes room below the memory limit for a batch. Only what is in the registry's own store counts.
inline bool has_room(batch_record const& b, std::size_t bytes) noexcept {
    paging_front* const pages = pages_of(b);
    if (!pages || !pages->limited) return true;
    return b.slabs != &b.registry.load(std::memory_order_relaxed)->own || pages->make_room(bytes);
}

inline bool is_claimed(paging_state s) noexcept { return s != paging_state::in && s != paging_state::out; }

/// Claims the batch's paging, so that no other thread moves its memory, and returns the state before: in or out.
/// Waits for a thread that has the claim. If the caller does not hold the batch, or it may be gone, the state must
/// be restored at once.
inline paging_state claim_paging(batch_record& b) noexcept {
    for (;;) {
        paging_state now = b.paging.load(std::memory_order_acquire);
        if (is_claimed(now)) {
            waiting_here const timed(wait_for::batch);
            b.paging.wait(now, std::memory_order_acquire);
            continue;
        }
        paging_state const claimed = now == paging_state::in ? paging_state::claimed_in : paging_state::claimed_out;
        if (b.paging.compare_exchange_weak(now, claimed, std::memory_order_acq_rel)) return now;
    }
}

/// Notes that the thread which has the claim is about to change the memory, or what is known of it in the file. In
/// a child that another thread forks from here on, the batch is over.
inline void begin_to_move(batch_record& b) noexcept {
    b.paging.store(paging_state::moving, std::memory_order_seq_cst);
}

inline void end_claim_of_paging(batch_record& b, paging_state now) noexcept {
    b.paging.store(now, std::memory_order_release);
    b.paging.notify_all();
}

/// Brings the batch in for a call that changes what it owns. The caller holds the batch, so it does not move
/// meanwhile.
inline void be_in(batch_record& b) noexcept {
    if (b.paging.load(std::memory_order_acquire) != paging_state::in) [[unlikely]]
        pages_of(b)->come_back(b, false);
}

inline void note_use(batch_record& b) noexcept {
    if (!b.evictable.load(std::memory_order_relaxed)) return;
    b.rest.entered_at.store(pages_of(b)->entries.fetch_add(1, std::memory_order_relaxed),
                            std::memory_order_relaxed);
}

/// Records that a thread has entered. If memory is limited, other batches go out for what comes in. If they
/// cannot, it comes in all the same, and makes are refused.
inline void note_entry(batch_record& b) noexcept {
    note_use(b);
    if (b.paging.load(std::memory_order_acquire) == paging_state::in) [[likely]]
        return;
    [[maybe_unused]] bool const enough = has_room(b, b.rest.out_bytes.load(std::memory_order_relaxed));
    pages_of(b)->come_back(b, true);
}

}  // namespace tenure::detail
