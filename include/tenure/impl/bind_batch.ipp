// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include <tenure/bind_batch.hpp>
#include <tenure/detail/life/visit.ipp>
#include <tenure/impl/core.ipp>
#include <tenure/raise.hpp>
#include <tenure/registry.hpp>

namespace tenure::detail {

/// Puts the records that stand in for over batches into a registry, so that opening a batch below one of them is
/// refused as below any ended batch.
inline void place_over_records() {
    if (over_record_of().registry.load(std::memory_order_acquire)) return;
    batch_record const* const root = find_anywhere(registry::global().root().value);
    for (errc const why : {errc::expired, errc::cancelled, errc::batch_ended})  // the check above reads the last
        over_record_of(why).registry.store(root->registry, std::memory_order_release);
}

TENURE_DECL std::uint64_t current_to_bind() {
    place_over_records();
    return current_id();
}

TENURE_DECL std::uint64_t bindable(std::uint64_t id) {
    if (!is_known(id)) raise(error(errc::no_such_batch, "bind " + id_text(id)));
    place_over_records();
    return id;
}

}  // namespace tenure::detail
