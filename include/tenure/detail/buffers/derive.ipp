// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <source_location>
#include <span>
#include <utility>

#include <tenure/detail/buffers/buffers.hpp>
#include <tenure/detail/buffers/derivation.hpp>
#include <tenure/detail/buffers/derive.hpp>
#include <tenure/detail/buffers/evicting.hpp>
#include <tenure/detail/life/entering.hpp>
#include <tenure/detail/objects/throwing.hpp>

namespace tenure::detail {

TENURE_DECL lent_buffer::lent_buffer(derivation_target const& to) {
    registry_core&     r      = to.from.registry;
    opened_batch const opened = open_batch(r, r.root, nullptr, false, std::source_location::current());
    batch_                    = opened.record;
    id_                       = opened.id;
    struct guard {
        lent_buffer* self;
        ~guard() {
            if (self) end_record(*self->batch_, self->id_, true);
        }
    } undo{this};
    hold(*batch_, id_);
    lane* const l = enter_held(*batch_);
    struct inside {
        lane* l;
        ~inside() { leave_lane(l); }
    } const here{l};
    buffer_   = make_buffer_record(*l, {to.from, to.into, true});
    undo.self = nullptr;
}

TENURE_DECL lent_buffer::~lent_buffer() { end_record(*batch_, id_, true); }

/// Makes a buffer without a block. Its first access has its bytes made. Throws what make() throws.
inline raw_handle make_evicted_buffer(lane& l, std::size_t bytes, any_store const& named, derivation_hold how) {
    constexpr char const* call = "make a derived buffer in batch ";
    batch_record&         b    = *l.batch;
    if (b.refuses()) throw_failure({b.why_closed(), &b}, call);
    supply_guard const s(b, named);
    if (!s) throw_failure({errc::memory_full, &b, sizeof(supply)}, call);
    if (bytes == absurd_bytes)
        throw_store_error(make_error_code(errc::store_full), "make a derived buffer in", s->store);
    promise_guard const room(b, *s);  // keeps the supply while the batch lives
    if (!room) throw_failure({errc::memory_full, &b, sizeof(block)}, call);
    buffer_record without{*s, {0, bytes}, true};
    without.set_evicted(true);
    without.set_made_by(*how);
    raw_handle const             h    = make_buffer_record(l, without);
    [[maybe_unused]] auto* const kept = how.release();
    return h;
}

TENURE_DECL raw_handle make_derived_buffer(lane& l, std::size_t bytes, std::size_t alignment,
                                           any_store const& named, std::unique_ptr<derivation_maker> maker,
                                           std::span<raw_handle const> inputs) {
    registry_core&  r = *l.batch->registry.load(std::memory_order_relaxed);
    derivation_hold how(*new derivation(alignment, std::move(maker)));
    for (raw_handle const h : inputs) add_input(r, *how, h);
    return make_evicted_buffer(l, bytes, named, std::move(how));
}

TENURE_DECL failure evict_buffer(raw_handle h, bool with_inputs) {
    if (!is_alive(h)) throw_stale(h);
    registry_core& r = static_cast<buffer_record const*>(h.pointer)->from->registry;
    return with_inputs ? evict_with_inputs(r, h) : evict_one(r, h);
}

[[noreturn, gnu::cold]] TENURE_DECL void throw_not_written(std::error_code why, any_store const& store) {
    throw_store_error(why, "write what a derivation made to", store);
}

}  // namespace tenure::detail
