// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>

#include <tenure/detail/batch/window.hpp>
#include <tenure/detail/life/closing.hpp>
#include <tenure/detail/life/exclusive_claim.hpp>

namespace tenure::detail {

/// Frees all that a batch owns, as its end would. The batch goes on, as if it had just been opened.

/// Ends what a batch owns, newest first, while the nearest active ancestor is current. Nobody else is in the batch.
inline void end_objects(batch_record& b, exclusive_claim const& claim) noexcept {
    bool ends = any_in_locked_lists(b) || b.memberships;
    for_lanes(b, [&](lane& l) {
        close_window(l);
        ends = ends || l.entries;
    });
    if (!ends) return;
    claim.will_call_out();
    guard_all(b);
    ancestor_is_current const above(b);
    run_all(b);
    if (b.memberships) front_of_sharing().leave_all(b);
}

/// Gives a batch's memory back, but for blocks that a store cannot free: the batch's end tries these again.
inline void give_memory(batch_record& b) noexcept {
    if (b.stores.load(std::memory_order_relaxed)) front_of_buffers().free_gathered_so_far(b);
    if (b.paged) {
        paging_state const before = claim_paging(b);
        pages_of(b)->drop_pages(b);
        end_claim_of_paging(b, before);
    }
    close_shares(b);
    while (unit* const u = b.large) {
        unlink_large(b, u);
        give_large(u);
    }
    for_lanes(b, [&](lane& l) {
        release_runs(*b.slabs, l);
        forget_memory(l);
        forget_kept(l);
        if (l.resource.load(std::memory_order_relaxed)) end_resource(l);
    });
}

/// Clears a batch other than the root. Errors: batch_in_use (see exclusive_claim; or this thread has a guard open
/// below it), what over_because() says, not_restorable.
inline failure clear_batch(batch_record& b, std::uint64_t id) noexcept {
    close_those_elsewhere();
    exclusive_claim const claim(b, id, batch_flags::closed);
    if (claim.why() != errc{}) return {.code = claim.why(), .id = id};
    if (has_open_children(b)) return {errc::batch_in_use, &b};
    if (has_checkpoint(b)) return {errc::not_restorable, &b};
    end_objects(b, claim);
    claim.await_others();
    give_memory(b);
    claim.has_called_out();
    std::uint64_t const held = stored_in(b).bytes;
    if (b.limited) refund_use(b, b.own_charge.load(std::memory_order_relaxed) - held);
    b.rest.books.reset();
    return {};
}

/// Clears the usual batch: this thread's newest, with one lane of objects without destructors at most, in one
/// unit. False, and nothing is done: it is another one.
inline bool clear_at_once(batch_record& b) noexcept {
    constexpr std::uint64_t unusual = ends_specially | batch_flags::closed;

    std::uint64_t s = b.state.load(std::memory_order_relaxed);
    if (this_thread.newest != &b || b.unusual || s & unusual) return false;
    if (!b.state.compare_exchange_strong(s, s | batch_flags::undoing, std::memory_order_acq_rel)) return false;
    bool const done = release_at_once(b);
    b.primary.thread.store(&this_thread, std::memory_order_relaxed);
    b.state.fetch_and(~batch_flags::undoing,
                      std::memory_order_release);  // it may have been asked to stop meanwhile
    return done;
}

}  // namespace tenure::detail
