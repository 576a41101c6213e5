// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>

#include <tenure/detail/whole/all_but.hpp>
#include <tenure/detail/whole/clearing.hpp>
#include <tenure/detail/whole/giving_all.hpp>
#include <tenure/impl/batch_scope.ipp>
#include <tenure/impl/registry.ipp>
#include <tenure/whole_batch.hpp>

namespace tenure::detail {

/// Calls f(record) for a batch that calls on all it owns are for: not the root, and not what several batches share.
/// Errors: no_such_batch, not_owner, over_failure(), those of f.
template <class F>
failure with_whole_batch(registry_core& in, std::uint64_t id, F f) {
    found const found = find_batch(in, id);
    if (!found.known) return {.code = errc::no_such_batch, .id = id};
    if (!found.record) return over_failure(id);
    if (found.record == in.root || is_common(*found.record)) return {errc::not_owner, found.record};
    look_at_the_clock(*found.record, id);
    return f(*found.record);
}

TENURE_DECL failure whole_batch_calls::clear(lane& of, std::uint64_t id) {
    batch_record& b = owner_of_primary(of);
    if (b.guard.load(std::memory_order_relaxed) != &this_thread)
        return {b.closed() ? b.why_closed() : errc::wrong_thread, &b};
    if (clear_at_once(b)) return {};
    look_at_the_clock(b, id);
    return clear_batch(b, id);
}

TENURE_DECL failure whole_batch_calls::clear(registry_core& in, std::uint64_t id) {
    return with_whole_batch(in, id, [&](batch_record& b) { return clear_batch(b, id); });
}

/// Errors of a call on the batch of a guard: why_closed(), wrong_thread.
inline failure refusal_here(batch_record& b, std::uint64_t id) {
    look_at_the_clock(b, id);
    if (b.closed()) return {b.why_closed(), &b};
    if (b.guard.load(std::memory_order_relaxed) != &this_thread) return {errc::wrong_thread, &b};
    return {};
}

TENURE_DECL failure whole_batch_calls::clear_but(lane& of, std::uint64_t id, all_handles staying) {
    batch_record& b = owner_of_primary(of);
    if (failure const why = refusal_here(b, id)) return why;
    return all_but(b, id, staying, nullptr);
}

TENURE_DECL failure whole_batch_calls::give_all(lane& of, std::uint64_t id) {
    batch_record& b = owner_of_primary(of);
    if (failure const why = refusal_here(b, id)) return why;
    return detail::give_all(b, id, parent_of(b));
}

TENURE_DECL failure whole_batch_calls::give_all_but(lane& of, std::uint64_t id, all_handles staying) {
    batch_record& b = owner_of_primary(of);
    if (failure const why = refusal_here(b, id)) return why;
    std::uint64_t const to_id = parent_of(b);
    batch_record* const to    = record_of(to_id);
    held_batch const    target(*to, to_id, batch_flags::closed);
    if (!target) return over_failure(to_id);
    return all_but(b, id, staying, to);
}

TENURE_DECL failure whole_batch_calls::give_all(registry_core& in, std::uint64_t from, std::uint64_t to) {
    return with_whole_batch(in, from, [&](batch_record& b) { return detail::give_all(b, from, to); });
}

}  // namespace tenure::detail
