// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include <tenure/detail/batch/paging.hpp>
#include <tenure/detail/batch/release.hpp>
#include <tenure/detail/batch/waiting.hpp>
#include <tenure/detail/life/ending.hpp>
#include <tenure/detail/paging/paging.hpp>
#include <tenure/raise.hpp>
#include <tenure/snapshot.hpp>

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
    std::size_t const more  = bytes - b.rest.out_bytes.exchange(bytes, std::memory_order_relaxed);
    space.out.fetch_add(more, std::memory_order_relaxed);
    if (b.slabs == &r.own) space.relieved.fetch_add(more, std::memory_order_relaxed);
    end_claim_of_paging(b, now);
}

/// Lets pages come in as they are touched; all at once if a thread has entered, and most had changed when the batch
/// last went out.
TENURE_COLD inline void registry_paging::come_back(batch_record& b, bool entered) noexcept {
    paging_state const before = claim_paging(b);
    waiting_here const timed(wait_for::store, before == paging_state::out);
    if (before == paging_state::out) begin_to_move(b);
    if (before == paging_state::out && space.options.access == paged_access::faults)
        for (paged_range const& r : b.paged->ranges) unprotect(to_pointer(r.begin), r.bytes);
    if (before == paging_state::out && entered && b.paged->changes)
        bring_in(*b.paged, b.id.load(std::memory_order_relaxed));
    set_paging(b, paging_state::in);
}

/// Returns whether a page-out that nobody asked for is worth a try: after a failure, only once something has
/// changed. Less than 1 MiB more room on the disk does not count.
inline bool worth_trying(page_space& pages, batch_record const& b) noexcept {
    constexpr std::uint64_t little = std::uint64_t{1} << 20;
    return !b.rest.page_error.load(std::memory_order_relaxed) ||
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
    if (!asked && !worth_trying(pages, b)) return b.rest.page_error.load(std::memory_order_relaxed).code();
    begin_to_move(b);
    std::error_code const why = page_out_of(pages, b, *b.paged, asked).run();
    if (why) {
        pages.failures.fetch_add(1, std::memory_order_relaxed);
        b.paged->failed_at = pages.changes.load(std::memory_order_relaxed);
        b.paged->free_then = pages.bytes_free();
    }
    b.rest.page_error.store(why, std::memory_order_relaxed);
    b.touch();
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

TENURE_COLD inline void registry_paging::note_leaving(batch_record& b, std::uint64_t id) noexcept {
    constexpr std::uint64_t busy = batch_flags::holds | unless_over;
    if (b.in_chain.load(std::memory_order_relaxed) || b.state.load(std::memory_order_acquire) & busy) return;
    [[maybe_unused]] auto const why = page_out_batch(b, id, false);  // the batch keeps the error
}

/// Returns how many bytes of slab memory batches have, without what is out.
inline std::size_t memory_in_use(registry_core& r) noexcept {
    std::size_t const held = r.own.slabs.usage().held;
    std::size_t const out  = space_of(r).relieved.load(std::memory_order_relaxed);
    return held - std::min(out, held);
}

struct eviction {
    batch_record*      batch;
    eviction_candidate what;
};

/// Returns the batches that may go out, or just do, in the order of the policy. They are not held, because threads
/// that hold one batch keep each other from moving it.
inline std::vector<eviction> evictions(registry_core& r) {
    std::vector<eviction> out;
    for_records([&](batch_record& b) {
        std::uint64_t const id = b.id.load(std::memory_order_acquire);
        if (id == 0 || b.registry.load(std::memory_order_relaxed) != &r) return;
        if (!b.evictable.load(std::memory_order_relaxed)) return;
        paging_state const  paging = b.paging.load(std::memory_order_acquire);
        std::uint64_t const held   = b.state.load(std::memory_order_acquire) &
                                   (batch_flags::holds | unless_over | batch_flags::checkpointed);
        if (paging == paging_state::out || held > is_claimed(paging)) return;
        {
            std::scoped_lock const guard(b.lock);
            if (!is_empty(b)) return;
        }
        std::size_t const        bytes = static_cast<std::size_t>(figures_of(b).units) << unit_shift;
        eviction_candidate const what{{id},
                                      bytes,
                                      b.rest.entered_at.load(std::memory_order_relaxed),
                                      b.rest.priority.load(std::memory_order_relaxed)};
        if (bytes > 0 && b.id.load(std::memory_order_acquire) == id) out.push_back({&b, what});
    });
    std::sort(out.begin(), out.end(),
              [&](eviction const& x, eviction const& y) { return space_of(r).options.eviction(x.what, y.what); });
    return out;
}

inline std::size_t registry_paging::page_out_idle(std::size_t bytes) {
    std::size_t gone = 0;
    for (eviction const& e : evictions(registry_)) {
        if (gone >= bytes) break;
        if (!page_out_batch(*e.batch, e.what.id.value, false)) gone += e.what.bytes;
    }
    return gone;
}

inline bool make_room_or_throw(registry_core& r, std::size_t bytes) {
    memory_limits const& limit = space_of(r).options.limit;
    auto const           fits = [&](std::size_t most) { return bytes <= most && memory_in_use(r) <= most - bytes; };
    if (fits(limit.high)) return true;
    if (bytes > limit.high) return false;  // too much, whatever goes out
    if (run_cache* const c = cache_of(r.own)) give_back_runs(r.own.slabs, *c);
    for (run_cache* c = r.own.caches.load(std::memory_order_acquire); c; c = c->next)
        give_back_returned(r.own.slabs, *c);
    if (fits(limit.high)) return true;
    std::size_t const enough = bytes <= limit.low ? limit.low : limit.high;
    // Batches come in, end and go out while this thread works through its list. A list that was overtaken says
    // nothing about what there is by now, so a new one is made.
    bool overtaken = true;
    for (int list = 0; list < 16 && overtaken && !fits(limit.high); ++list) {
        overtaken = false;
        for (eviction const& e : evictions(r)) {
            std::error_code const why = page_out_batch(*e.batch, e.what.id.value, false);
            // After any other error the batch stays in memory.
            overtaken |= !why || why == errc::batch_ended || why == errc::batch_in_use;
            if (fits(enough)) break;
        }
    }
    return fits(limit.high);
}

/// Keeps the registry within registry_options::memory_limit.
inline bool registry_paging::make_room(std::size_t bytes) noexcept {
    return run_or<std::bad_alloc>([&] { return make_room_or_throw(registry_, bytes); },
                                  [](auto const&) { return false; });
}

inline std::string registry_paging::largest_holders() const {
    registry_core& r = registry_;
    struct holder {
        std::size_t bytes = 0;
        std::string name;
    };
    std::array<holder, 3> most;
    for_records([&](batch_record& b) {
        if (b.id.load(std::memory_order_acquire) == 0 || b.registry.load(std::memory_order_relaxed) != &r) return;
        batch_usage const u    = usage_of(b);
        std::size_t const here = u.retained - std::min(u.paged_out, u.retained);
        if (here <= most.back().bytes) return;
        most.back() = {here, label_of(b)};
        std::sort(most.begin(), most.end(), [](auto const& x, auto const& y) { return x.bytes > y.bytes; });
    });
    std::string out = "; " + human_bytes(memory_in_use(r)) + " of slab memory in use, limit " +
                      human_bytes(space_of(r).options.limit.high);
    for (holder const& h : most)
        if (h.bytes) out += (&h == most.data() ? "; most of it: " : ", ") + h.name + " " + human_bytes(h.bytes);
    return out;
}

inline void registry_paging::settle(batch_record& b) noexcept {
    if (b.paging.load(std::memory_order_acquire) == paging_state::in) return;
    claim_paging(b);
    set_paging(b, paging_state::in);
}

inline paging_info registry_paging::describe() const {
    scratch_file const* const file = space.opened();
    return {space.options.directory, space.out.load(std::memory_order_relaxed),
            file ? static_cast<std::size_t>(file->bytes_reserved()) : 0,
            space.written.load(std::memory_order_relaxed), space.failures.load(std::memory_order_relaxed)};
}

}  // namespace tenure::detail
