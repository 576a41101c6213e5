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

#include <tenure/detail/base/function_ref.hpp>
#include <tenure/detail/base/sizes.hpp>
#include <tenure/detail/batch/waiting.hpp>
#include <tenure/detail/blocks/store_errors.hpp>
#include <tenure/detail/buffers/buffering.hpp>
#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/objects/make_object.hpp>

namespace tenure::detail {

/// What buffer<T> is made of, in bytes instead of elements.

/// Makes a promise, and releases it unless it is redeemed. False if memory is full.
class promise_guard {
public:
    promise_guard(batch_record& b, supply& s) noexcept : batch_(b) {
        begin_buffers();
        in_ = promise(b, s);
    }
    ~promise_guard() {
        if (in_) release_promise(batch_, *in_->from);
    }
    promise_guard(promise_guard const&)            = delete;
    promise_guard& operator=(promise_guard const&) = delete;

    explicit operator bool() const noexcept { return in_; }
    void     redeem(std::size_t bytes, flow stored::* how) noexcept {
        detail::redeem(batch_, *std::exchange(in_, nullptr), bytes, how);
    }

private:
    batch_record& batch_;
    stored*       in_ = nullptr;
};

/// Keeps the supply of the store that a buffer names, or is a place in, else its batch's, during a call: it stays
/// in any case if the batch has had something there. Null if memory is full.
class supply_guard {
public:
    supply_guard(batch_record& b, any_store const& place) noexcept {
        if (!place) {
            supply_ = &buffers_of(b);
            return;
        }
        any_store        whole;
        any_store const& named = place.is_place() ? whole = place.whole() : place;
        {
            std::scoped_lock const guard(b.lock);
            if (stored const* const in = find_stored(b, named)) supply_ = in->from;
        }
        if (supply_) return;
        supply_ = join_supply(*b.registry.load(std::memory_order_relaxed), named);
        joined_ = supply_ && supply_ != &supply_->registry.own;
    }
    ~supply_guard() {
        if (joined_) leave_supply(*supply_);
    }
    supply_guard(supply_guard const&)            = delete;
    supply_guard& operator=(supply_guard const&) = delete;

    explicit operator bool() const noexcept { return supply_; }
    supply&  operator*() const noexcept { return *supply_; }
    supply*  operator->() const noexcept { return supply_; }

private:
    supply* supply_ = nullptr;
    bool    joined_ = false;
};

/// Registers a buffer of the lane's batch. Throws what make throws.
inline raw_handle make_buffer_record(lane& l, buffer_record const& b) {
    constexpr std::size_t bytes = round_extent(sizeof(entry) + sizeof(buffer_record));
    space const           at    = allocate_small(l, sizeof(entry), bytes, 8, &buffer_finalizer, throw_it{});
    ::new (at.pointer) buffer_record(b);
    put_in_list(*l.batch, at.header(), reinterpret_cast<std::uintptr_t>(&buffer_finalizer));
    return {at.pointer, at.word};
}

/// Holds a batch with limits for the time of a call in which on_soft may end it. Throws batch_ended.
class limited_hold {
public:
    limited_hold(batch_record& b, char const* call) : held_(b.limited && !is_root(b) ? &b : nullptr) {
        if (held_ && !hold(b, b.id.load(std::memory_order_relaxed))) throw_failure({b.why_closed(), &b}, call);
    }
    ~limited_hold() {
        if (held_) release_hold(held_);
    }
    limited_hold(limited_hold const&)            = delete;
    limited_hold& operator=(limited_hold const&) = delete;

private:
    batch_record* held_;
};

/// A new block, with a batch's promise, that no buffer has yet. It is freed unless it is kept; if the store
/// cannot, the end of the batch tries again.
class fresh_block {
public:
    fresh_block(batch_record& b, supply& s, block where, promise_guard& room) noexcept
        : batch_(b), supply_(s), where_(where), room_(&room) {}
    ~fresh_block() {
        if (!room_) return;
        room_->redeem(where_.bytes, &stored::came);
        free_stored(batch_, supply_, where_);
    }
    fresh_block(fresh_block const&)            = delete;
    fresh_block& operator=(fresh_block const&) = delete;

    void keep(flow stored::* how) noexcept { std::exchange(room_, nullptr)->redeem(where_.bytes, how); }

private:
    batch_record&  batch_;
    supply&        supply_;
    block          where_;
    promise_guard* room_;  ///< null: kept
};

/// Makes a buffer. `fill`, if not null, writes the block before anybody knows of it: if it throws, nothing was
/// made. `take`, if not null, gets the block in place of allocate().
inline raw_handle make_buffer_in(lane& l, std::size_t bytes, std::size_t alignment, any_store const& named,
                                 function_ref<void(any_store&, block)> const*   fill = nullptr,
                                 function_ref<result<block>(any_store&)> const* take = nullptr) {
    constexpr char const* call = "make a buffer in batch ";
    batch_record&         b    = *l.batch;
    if (b.refuses() || (b.limited && notice_deadline(b))) throw_failure({b.why_closed(), &b}, call);
    limited_hold const held(b, call);
    supply_guard const s(b, named);
    if (!s) throw_failure({errc::memory_full, &b, sizeof(supply)}, call);
    charge_guard charged(b);
    if (b.limited)
        if (failure const why = charged.add(bytes)) throw_failure(why, call);
    promise_guard room(b, *s);
    if (!room) throw_failure({errc::memory_full, &b, sizeof(block)}, call);
    std::uint64_t const id = b.id.load(std::memory_order_relaxed);
    any_store           place;
    any_store&          in   = named.is_place() ? place = named : s->store;
    result<block> const made = [&] {
        waiting_here const timed = waiting_for(s->store);
        return take ? (*take)(in) : in.try_allocate_in(id, bytes, alignment);
    }();
    char const* const what =
        bytes == absurd_bytes ? "make a buffer of more elements than there can be, a negative number of them?, in"
                              : "make a buffer in";
    if (!made) throw_store_error(made.error(), what, in);
    fresh_block fresh(b, *s, *made, room);
    if (bytes == absurd_bytes) throw_store_error(make_error_code(errc::store_full), what, s->store);
    if (fill) (*fill)(s->store, *made);
    raw_handle const h = make_buffer_record(l, {*s, *made, false});
    fresh.keep(&stored::came);
    charged.keep();
    return h;
}

}  // namespace tenure::detail
