// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <mutex>
#include <optional>
#include <string_view>

#include <tenure/detail/buffers/buffer_moves.hpp>

namespace tenure::detail {

/// Buffers that outlive their batch, because a durable store keeps them by name.

/// Makes the block the store's own, under `name`; the buffer goes on naming it until its batch ends. Throws
/// stale_handle, batch_ended, evicted, not_restorable, not_durable, and what the store says.
inline void persist_buffer(raw_handle h, std::string_view name) {
    if (!is_alive(h)) throw_failure({errc::stale_handle}, "persist a buffer ");
    registry_core& r   = static_cast<buffer_record const*>(h.pointer)->from->registry;
    failure const  why = with_owner(r, h, nullptr, [&](batch_record& owner, extent const& x) -> failure {
        if (has_checkpoint(owner) && is_under_checkpoint(owner, x.begin)) return {errc::not_restorable, &owner};
        std::optional<buffer_record> const seen = look_at_buffer(h, x, owner);
        if (!seen) return {errc::stale_handle};
        block_hold const held(h, x);
        if (!held) return is_alive(h) ? without_bytes(owner) : failure{errc::stale_handle};
        buffer_record const& before = *seen;
        auto const           kept   = before.from->store.try_keep(before.where, name);
        if (!kept) throw_store_error(kept.error(), "persist a buffer in", before.from->store);
        object_lock const    guard(x);
        buffer_record* const b = buffer_of(h, x, owner);
        if (!b || b->where != before.where) return {errc::stale_handle};
        if (b->lent()) return {};
        remove_stored(owner, *b->from, b->where.bytes, &stored::went);
        refund_batch(owner, b->where.bytes);
        b->set_lent(true);
        return {};
    });
    if (why) throw_failure(why, "persist a buffer ");
}

/// Opens what persist_buffer() kept as a buffer of the lane's batch, with `grain` bytes an element, and sets
/// `bytes` to its size. Throws what make throws, no_such_block, not_durable; out_of_range if the size is no
/// multiple of `grain`.
inline raw_handle open_buffer_in(lane& l, std::string_view name, any_store const& named, std::size_t grain,
                                 std::size_t& bytes) {
    batch_record& b = *l.batch;
    if (b.refuses()) throw_failure({b.why_closed(), &b}, "open a buffer in batch ");
    supply_guard const s(b, named);
    if (!s) throw_failure({errc::memory_full, &b, sizeof(supply)}, "open a buffer in batch ");
    result<block> const found = s->store.try_find(name);
    if (!found) throw_store_error(found.error(), "open a buffer of", s->store);
    if (found->bytes % grain) throw_store_error(make_error_code(errc::out_of_range), "open a buffer of", s->store);
    promise_guard room(b, *s);  // keeps the supply while the batch lives
    if (!room) throw_failure({errc::memory_full, &b, sizeof(block)}, "open a buffer in batch ");
    bytes = found->bytes;
    return make_buffer_record(l, {*s, *found, true});
}

}  // namespace tenure::detail
