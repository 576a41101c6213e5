// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <source_location>

#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/life/ending.hpp>
#include <tenure/impl/current.ipp>
#include <tenure/raise.hpp>
#include <tenure/unique_owner.hpp>

namespace tenure::detail {

TENURE_DECL detach_calls::taken detach_calls::take_out(registry_core& r, raw_handle h) {
    std::uint64_t const home = r.root->id.load(std::memory_order_relaxed);
    return {transfer_to(r, h, home), home};
}

TENURE_DECL detach_calls::taken detach_calls::take_out(lane const& from, raw_handle h) {
    batch_record&           b    = *from.batch;
    registry_core* const    r    = b.registry.load(std::memory_order_relaxed);
    constexpr std::uint64_t over = batch_flags::ended | batch_flags::done;
    if (!r || is_over_record(&b) || b.state.load(std::memory_order_acquire) & over)
        return {{b.why_closed(), &b}, 0};
    std::uint64_t const home = r->root->id.load(std::memory_order_relaxed);
    return {transfer_to(*r, h, home, &b), home};
}

/// Gives an object of the root that is pinned to a batch of its own, which ends now, and so goes with the last pin.
/// Without memory for a batch, the object stays until the end of the registry.
TENURE_COLD inline void free_when_unused(batch_record& root, raw_handle h) noexcept {
    registry_core& r = *root.registry.load(std::memory_order_relaxed);
    static_cast<void>(thrown_by([&] {
        batch_options const options{.name = "detached"};
        opened_batch const  b = open_batch(r, &root, &options, false, std::source_location::current());
        static_cast<void>(transfer_to(r, h, b.id, &root));
        end_record(*b.record, b.id, true);
    }));
}

TENURE_DECL void free_detached(raw_handle h, std::uint64_t home) noexcept {
    batch_record* const root = find_anywhere(home);
    if (!root) return;
    failure const why = free_one(*root->registry.load(std::memory_order_relaxed), h, root);
    if (why.code == errc::object_pinned) free_when_unused(*root, h);
}

}  // namespace tenure::detail
