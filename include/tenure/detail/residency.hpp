// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>

#include <tenure/detail/holding.hpp>
#include <tenure/detail/paging.hpp>
#include <tenure/detail/supplies.hpp>

namespace tenure::detail {

/// Whether a batch's memory is in or out, and who may move it: one thread at a time, while nobody is inside. Who
/// enters meanwhile waits; no lock is held.

inline bool is_pageable(batch_record const& b) noexcept { return b.slabs->store.capabilities().anonymous; }

/// Nobody has entered it, its guard is not open, and nothing holds it but the caller. Under the batch's lock.
inline bool is_idle(batch_record const& b) noexcept {
    if (b.in_chain.load(std::memory_order_relaxed) || b.primary.users.load(std::memory_order_relaxed)) return false;
    for (lane const* l = b.lanes; l; l = l->next)
        if (l->users.load(std::memory_order_relaxed)) return false;
    return (b.state.load(std::memory_order_acquire) & batch_flags::holds) == 1;
}

inline void set_paging(batch_record& b, paging_state now) noexcept {
    registry_core&    r     = *b.registry.load(std::memory_order_relaxed);
    std::size_t const bytes = b.paged && now == paging_state::out ? b.paged->bytes : 0;
    r.pages.out.fetch_add(bytes - b.out_bytes.exchange(bytes, std::memory_order_relaxed),
                          std::memory_order_relaxed);
    b.paging.store(now, std::memory_order_release);
    b.paging.notify_all();
}

/// From `out`, in fault mode: then its memory may be touched again.
inline void open_pages(batch_record& b) noexcept {
    if (b.registry.load(std::memory_order_relaxed)->pages.options.access != paged_access::faults) return;
    for (paged_range const& r : b.paged->ranges) protect(to_pointer(r.begin), r.bytes, PROT_READ | PROT_WRITE);
}

TENURE_COLD inline void come_back(batch_record& b) noexcept {
    for (;;) {
        paging_state now = b.paging.load(std::memory_order_acquire);
        if (now == paging_state::in) return;
        if (now == paging_state::moving) b.paging.wait(now, std::memory_order_acquire);
        else if (b.paging.compare_exchange_strong(now, paging_state::moving, std::memory_order_acquire)) {
            open_pages(b);
            set_paging(b, paging_state::in);
        }
    }
}

/// What is over the registry's limit goes out, as far as it can. Nobody is refused anything here: who comes back or
/// leaves asks for no memory that it did not have.
inline void relieve(registry_core& r) noexcept {
    if (r.pages.limited()) make_room(r, 0);
}

/// A thread has entered: its batch is in, as far as it is asked; pages come as they are touched. Others may have to
/// go for it.
inline void note_entry(batch_record& b) noexcept {
    registry_core& r = *b.registry.load(std::memory_order_relaxed);
    b.entered_at.store(r.pages.entries.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
    if (b.paging.load(std::memory_order_acquire) == paging_state::in) [[likely]]
        return;
    come_back(b);
    relieve(r);
}

/// Whether a try makes sense that nobody asked for: after one that failed, only when something has changed.
inline bool worth_trying(page_space& pages, paged_batch const& p) noexcept {
    return !p.error || p.failed_at != pages.changes.load(std::memory_order_relaxed) ||
           p.free_then < pages.bytes_free();
}

/// The batch is held by the caller. in_use: somebody is inside; not_pageable; store_full and what else the system
/// says: then it stays in memory, whole. `asked`: by the user, so it is tried in any case.
TENURE_COLD inline std::error_code page_out_batch(batch_record& b, bool asked) noexcept {
    page_space& pages = b.registry.load(std::memory_order_relaxed)->pages;
    if (is_root(b) || !is_pageable(b)) return make_error_code(errc::not_pageable);
    std::unique_ptr<paged_batch> fresh(new (std::nothrow) paged_batch);
    if (!fresh) return make_error_code(errc::memory_full);
    paging_state before = paging_state::in;
    {
        std::scoped_lock const guard(b.lock);
        before = b.paging.load(std::memory_order_relaxed);
        if (before == paging_state::moving || !is_idle(b)) return make_error_code(errc::batch_in_use);
        b.paging.store(paging_state::moving, std::memory_order_relaxed);
        if (!b.paged) b.paged = fresh.release();
    }
    paged_batch&    p = *b.paged;
    std::error_code why;
    if (!asked && !worth_trying(pages, p)) why = p.error;
    else if ((why = page_out_of(pages, b, p).run())) {
        pages.failures.fetch_add(1, std::memory_order_relaxed);
        p.failed_at = pages.changes.load(std::memory_order_relaxed);
        p.free_then = pages.bytes_free();
    }
    p.error = why;
    b.books.touch();
    b.page_failed.store(static_cast<bool>(why), std::memory_order_relaxed);
    set_paging(b, why ? paging_state::in : paging_state::out);
    return why;
}

/// Reads in what is out, now rather than when it is touched. The batch is held by the caller.
TENURE_COLD inline bool page_in_batch(batch_record& b) noexcept {
    for (;;) {
        paging_state now = b.paging.load(std::memory_order_acquire);
        if (now == paging_state::moving) b.paging.wait(now, std::memory_order_acquire);
        else if (b.paging.compare_exchange_strong(now, paging_state::moving, std::memory_order_acquire)) break;
    }
    bool all = true;
    if (b.paged) {
        open_pages(b);
        for (paged_range const& r : b.paged->ranges) all = populate(to_pointer(r.begin), r.bytes) && all;
    }
    registry_core& r = *b.registry.load(std::memory_order_relaxed);
    b.entered_at.store(r.pages.entries.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
    set_paging(b, paging_state::in);
    relieve(r);
    return all;
}

/// The last thread has left, or the guard has let go; the batch is held by the caller.
inline void note_leaving(batch_record& b) noexcept {
    if (b.residency != tenure::residency::paged_when_left) [[likely]]
        return;
    [[maybe_unused]] auto const why = page_out_batch(b, false);  // kept in the batch, for report and snapshot
}

/// The end of a batch, in release_memory(): before destructors run, and when they have.
inline void end_paging(batch_record& b) noexcept {
    if (b.paging.load(std::memory_order_acquire) == paging_state::in) return;
    open_pages(b);
    set_paging(b, paging_state::in);
}

inline void drop_pages_of(batch_record& b) noexcept {
    end_paging(b);
    forget_pages(b.registry.load(std::memory_order_relaxed)->pages, b);
}

}  // namespace tenure::detail
