// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include <tenure/detail/calls.hpp>
#include <tenure/detail/objects.hpp>

namespace tenure::detail {

/// What buffer<T> is made of, in bytes.

/// Says which store it was, for a code alone does not.
[[noreturn]] TENURE_COLD inline void throw_store_error(std::error_code why, char const* call,
                                                       any_store const& store) {
    throw error(why, call + (" store " + store.describe()));
}

/// A promise that is released unless it is redeemed.
class promise_guard {
public:
    promise_guard(batch_record& b, supply& s) noexcept : batch_(b), supply_(promise(b, s) ? &s : nullptr) {}
    ~promise_guard() {
        if (supply_) release_promise(batch_, *supply_);
    }
    promise_guard(promise_guard const&)            = delete;
    promise_guard& operator=(promise_guard const&) = delete;

    explicit operator bool() const noexcept { return supply_; }
    void     redeem(std::size_t bytes, flow stored::* how) noexcept {
        detail::redeem(batch_, *std::exchange(supply_, nullptr), bytes, how);
    }

private:
    batch_record& batch_;
    supply*       supply_;
};

/// The supply for a store that a buffer names, while it is looked for.
class supply_guard {
public:
    supply_guard(batch_record& b, any_store const& named)
        : supply_(named ? join_supply(*b.registry.load(std::memory_order_relaxed), named) : b.buffers),
          joined_(named && supply_ != &supply_->registry.own) {}
    ~supply_guard() {
        if (joined_) leave_supply(*supply_);
    }
    supply_guard(supply_guard const&)            = delete;
    supply_guard& operator=(supply_guard const&) = delete;

    supply& operator*() const noexcept { return *supply_; }
    supply* operator->() const noexcept { return supply_; }

private:
    supply* supply_;
    bool    joined_;
};

/// Registers a block as a buffer of the lane's batch. Throws what make throws.
inline raw_handle make_buffer_record(lane& l, supply& s, block where, bool lent) {
    constexpr std::size_t bytes = round_extent(sizeof(entry) + sizeof(buffer_record));
    space const           at    = allocate_small(l, sizeof(entry), bytes, 8, throw_it{});
    ::new (at.pointer) buffer_record{&s, where, lent};
    register_entry(l, at, buffer_finalizer);
    return {at.pointer, at.word};
}

inline raw_handle make_buffer_in(lane& l, std::size_t bytes, std::size_t alignment, any_store const& named) {
    batch_record& b = *l.batch;
    if (b.closed()) throw_failure({errc::batch_ended, &b}, "make a buffer in batch ");
    supply_guard const s(b, named);
    charge_guard       charged(b);
    if (b.limited)
        if (failure const why = charged.add(bytes)) throw_failure(why, "make a buffer in batch ");
    promise_guard room(b, *s);
    if (!room) throw_failure({errc::memory_full, &b, sizeof(block)}, "make a buffer in batch ");
    result<block> const made = s->store.allocate(bytes, alignment);
    if (!made) throw_store_error(made.error(), "make a buffer in", s->store);
    struct guard {
        any_store&   store;
        block const* b;
        ~guard() {
            if (b) [[maybe_unused]]
                auto const undone = store.deallocate({b, 1});
        }
    } undo{s->store, &*made};
    raw_handle const h = make_buffer_record(l, *s, *made, false);
    undo.b             = nullptr;
    room.redeem(made->bytes, &stored::made);
    charged.keep();
    return h;
}

}  // namespace tenure::detail
