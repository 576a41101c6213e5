// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <vector>

#include <tenure/detail/inspect/census.hpp>
#include <tenure/impl/registry.ipp>
#include <tenure/inspect.hpp>

namespace tenure::detail {

TENURE_DECL std::vector<batch_id> inspection::waits_for(registry_core& in, batch_id id) {
    found const b = find_known(in, id.value, "whom to wait for: batch ");
    return b.record ? detail::waits_for(in, *b.record, id.value) : std::vector<batch_id>{};
}

TENURE_DECL registry_usage inspection::usage_of(registry_core& r) noexcept { return detail::usage_of(r); }

TENURE_DECL batch_usage inspection::usage_of(registry_core& r, batch_id top) {
    find_known(r, top.value, "usage of batch ");
    return usage_below(r, top.value);
}

TENURE_DECL tenure::snapshot inspection::snapshot_of(registry_core& r) { return census(r, nodes_of(r)); }

TENURE_DECL tenure::snapshot inspection::snapshot_of(registry_core& r, batch_id top) {
    find_known(r, top.value, "snapshot of batch ");
    return census(r, nodes_below(r, top.value));
}

}  // namespace tenure::detail
