// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <tenure/detail/base/sizes.hpp>
#include <tenure/detail/batch/deadlines.hpp>
#include <tenure/detail/batch/loans.hpp>
#include <tenure/detail/batch/paging.hpp>
#include <tenure/detail/batch/release.hpp>
#include <tenure/detail/batch/window.hpp>
#include <tenure/detail/objects/runs.hpp>

namespace tenure::detail {

[[gnu::always_inline]] inline void own_run(unit* u, batch_record& b, lane& l) noexcept {
    u->home.store(&b, std::memory_order_release);
    u->maker.store(&l, std::memory_order_release);
    u->taken_for(b.id.load(std::memory_order_relaxed));
    bool const cached = this_thread.cache_uid == b.slabs->uid;
    u->origin         = cached ? this_thread.cache : nullptr;
    run_taken(to_pointer(u->address), std::size_t{u->length} << unit_shift);
}

/// Charges a batch's limits, and refunds the charge unless keep() is called.
class charge_guard {
public:
    explicit charge_guard(batch_record& b) noexcept : batch_(b) {}
    ~charge_guard() {
        if (bytes_) refund_batch(batch_, bytes_);
    }
    charge_guard(charge_guard const&)            = delete;
    charge_guard& operator=(charge_guard const&) = delete;

    failure add(std::size_t bytes) {
        failure const why = charge_or_borrow(batch_, [&] { return charge_exactly(batch_, nullptr, bytes); });
        if (why) return why;
        bytes_ = bytes;
        batch_.own_charge.fetch_add(bytes, std::memory_order_relaxed);
        tell_soft_limits(batch_.limited);
        std::uint64_t const s = batch_.state.load(std::memory_order_acquire);
        if (s & batch_flags::closed) [[unlikely]] {  // a callback closed it
            if (s & batch_flags::done) bytes_ = 0;   // its end refunded all
            return {batch_.why_closed(), &batch_};
        }
        return {};
    }
    void keep() noexcept { bytes_ = 0; }

private:
    batch_record& batch_;
    std::size_t   bytes_ = 0;
};

inline void link_large(batch_record& b, unit* u) noexcept {
    b.rest.books.large_units.fetch_add(u->length, std::memory_order_relaxed);
    std::scoped_lock const guard(b.lock);
    u->prev = nullptr;
    u->next = b.large;
    if (u->next) u->next->prev = u;
    b.large = u;
}

/// Takes a run of its own for one large object, or for a large piece of resource(). Returns null if refused, with
/// the reason in `why`.
TENURE_COLD inline unit* take_large(batch_record& b, lane& l, std::size_t before, std::size_t bytes,
                                    std::size_t alignment, std::uint64_t objects, failure& why) {
    std::size_t const slack = alignment > 8 ? alignment + before : 0;
    if (bytes > largest_object) {
        why = {errc::memory_full, &b, bytes};
        return nullptr;
    }
    if (b.refuses() || (b.limited && notice_deadline(b))) {
        why = {b.why_closed(), &b};
        return nullptr;
    }
    if (!may_make_in(l)) {
        why = {errc::wrong_thread, &b};
        return nullptr;
    }
    charge_guard charged(b);
    if (b.limited && (why = charged.add(bytes))) return nullptr;
    std::size_t const n = (bytes + slack + unit_bytes - 1) >> unit_shift;
    unit* const       u = has_room(b, n << unit_shift) ? take_run(*b.slabs, n, n) : nullptr;
    if (!u) {
        why = {b.slabs->slabs.refusal(), &b, bytes};
        return nullptr;
    }
    charged.keep();
    l.thread.store(&this_thread, std::memory_order_relaxed);
    own_run(u, b, l);
    std::uintptr_t const at = u->address + before;
    auto const skip = static_cast<std::uint32_t>(alignment <= 8 ? 0 : (alignment - at % alignment) % alignment);
    u->large_offset.store(skip, std::memory_order_relaxed);
    u->large_bytes.store(bytes, std::memory_order_relaxed);
    b.add(&ledger::large_made, objects, bytes, false);
    b.rest.books.noted.store(0, std::memory_order_relaxed);
    link_large(b, u);
    return u;
}

inline void unlink_large(batch_record& b, unit* u) noexcept {
    {
        std::scoped_lock const guard(b.lock);
        if (u->next) u->next->prev = u->prev;
        (u->prev ? u->prev->next : b.large) = u->next;
    }
    b.rest.books.large_units.fetch_sub(u->length, std::memory_order_relaxed);
}

/// Gives a large object's run to another batch. Its entry, if it has one, belongs in the list of that one's own
/// lane then. Called under the object's lock.
inline void move_large(unit* u, batch_record& from, batch_record& to) noexcept {
    unlink_large(from, u);
    u->home.store(&to, std::memory_order_release);
    u->maker.store(&to.primary, std::memory_order_release);
    link_large(to, u);
}

inline void give_large(unit* u) noexcept {
    word_t const fresh = generation_of(table_word(u->address).load(std::memory_order_relaxed)) + 1;
    u->large_bytes.store(0, std::memory_order_relaxed);
    u->home.store(nullptr, std::memory_order_relaxed);
    give_run(*region_of(u->address)->from, u, u->length, fresh);
}

}  // namespace tenure::detail
