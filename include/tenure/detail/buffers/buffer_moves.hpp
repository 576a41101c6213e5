// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <optional>

#include <tenure/detail/batch/waiting.hpp>
#include <tenure/detail/blocks/copying.hpp>
#include <tenure/detail/blocks/store_errors.hpp>
#include <tenure/detail/buffers/buffers.hpp>

namespace tenure::detail {

/// Moves buffers from store to store.

/// Returns the buffer; null if it is not alive or another batch's by now. Called under the object's lock.
inline buffer_record* buffer_of(raw_handle h, extent const& x, batch_record const& owner) noexcept {
    return still_owned(h, x, owner) ? as_buffer(x) : nullptr;
}

/// Returns the record as it is now; nothing if it is not alive or another batch's by now.
inline std::optional<buffer_record> look_at_buffer(raw_handle h, extent const& x,
                                                   batch_record const& owner) noexcept {
    object_lock const          guard(x);
    buffer_record const* const b = buffer_of(h, x, owner);
    return b ? std::optional(*b) : std::nullopt;
}

/// Keeps a buffer's block its own while this lives, whatever becomes of the batch.
class block_hold {
public:
    block_hold(raw_handle h, extent const& x) noexcept : what_(h), at_(x) { held_ = count(1); }
    ~block_hold() {
        if (held_) count(-1);
    }
    block_hold(block_hold const&)            = delete;
    block_hold& operator=(block_hold const&) = delete;

    /// Returns false if the buffer has no block, or is gone.
    explicit operator bool() const noexcept { return held_; }

private:
    bool count(int n) const noexcept {
        object_lock const    guard(at_);
        buffer_record* const b = is_alive(what_, true) ? as_buffer(at_) : nullptr;
        if (!b || (n > 0 && b->evicted())) return false;
        b->add_readers(n);
        return true;
    }

    raw_handle what_;
    extent     at_;
    bool       held_;
};

/// Returns why a buffer of this batch has no bytes.
inline failure without_bytes(batch_record const& owner) noexcept {
    errc const over = owner.cause.load(std::memory_order_acquire);
    return {over == errc{} ? errc::evicted : over, &owner};
}

/// Moves the buffer to another store, or leaves everything as it was. Throws stale_handle, batch_ended, not_owner,
/// not_restorable, object_pinned, evicted, limit_exceeded, memory_full, and what the stores say.
inline void move_buffer_to(registry_core& r, raw_handle h, any_store const& named, std::size_t alignment) {
    failure const why = with_owner(r, h, nullptr, [&](batch_record& owner, extent const& x) -> failure {
        if (has_checkpoint(owner) && is_under_checkpoint(owner, x.begin)) return {errc::not_restorable, &owner};
        std::optional<buffer_record> const seen = look_at_buffer(h, x, owner);
        if (!seen) return {errc::stale_handle};
        block_hold const held(h, x);
        if (seen->evicted() || (!held && is_alive(h))) return without_bytes(owner);
        if (is_pinned(r, h)) return {errc::object_pinned, &owner};
        buffer_record const& before = *seen;
        supply_guard const   to(owner, named);
        if (!to) return {errc::memory_full, &owner, sizeof(supply)};
        if (&*to == before.from && !named.is_place()) return {};
        charge_guard charged(owner);
        if (before.lent() && owner.limited)  // the new block is the batch's own
            if (failure const refused = charged.add(before.where.bytes)) return refused;
        promise_guard room(owner, *to);
        if (!room) return {errc::memory_full, &owner, sizeof(block)};
        std::uint64_t const id = owner.id.load(std::memory_order_relaxed);
        any_store           place;
        any_store&          in    = named.is_place() ? place = named : to->store;
        result<block> const fresh = in.try_allocate_in(id, before.where.bytes, alignment);
        if (!fresh) throw_store_error(fresh.error(), "move a buffer to", in);
        fresh_block target(owner, *to, *fresh, room);
        auto const  copied = [&] {
            waiting_here const timed = waiting_for(is_near(to->store) ? before.from->store : to->store);
            return copy_block({before.from->store, before.where}, {to->store, *fresh}, before.where.bytes);
        }();
        if (!copied) {
            if (!is_alive(h)) return {errc::stale_handle};
            throw_copy_error(copied.error(), "move", before.from->store, to->store);
        }
        {
            use_lock const       guard(owner, x);
            buffer_record* const b = buffer_of(h, x, owner);
            if (guard.pinned()) return {errc::object_pinned, &owner};
            if (!b || b->where != before.where)
                return {errc::stale_handle};  // another thread was faster: with_owner() tries again
            if (b->readers() > 1) return {errc::object_pinned, &owner};  // not by this call alone
            target.keep(&stored::came);
            charged.keep();
            b->from  = &*to;
            b->where = *fresh;
            b->set_lent(false);
            if (before.lent()) return {};
        }
        free_stored(owner, *before.from, before.where);
        return {};
    });
    if (why) throw_failure(why, "move a buffer ");
}

}  // namespace tenure::detail
