// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/detail/objects/ownership_transfer.hpp>
#include <tenure/handle.hpp>

namespace tenure::detail {

TENURE_DECL batch_id owner_id(raw_handle h) {
    raw_handle const   r = resolve(h);
    read_section const here;
    owner_seen const   o = find_owner(r);
    if (!o.record) throw_stale(h);
    return {o.id};
}

}  // namespace tenure::detail
