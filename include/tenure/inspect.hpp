// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <vector>

#include <tenure/batch.hpp>
#include <tenure/detail/inspect/gdb.hpp>
#include <tenure/registry.hpp>
#include <tenure/snapshot.hpp>

// Opt-in: snapshot(), usage() and waits_for() of registry, and usage(id, recursive). <tenure/tenure.hpp> has it.

namespace tenure::detail {

struct inspection {
    TENURE_DECL static std::vector<batch_id> waits_for(registry_core& in, batch_id id);
    TENURE_DECL static registry_usage        usage_of(registry_core& r) noexcept;
    TENURE_DECL static batch_usage           usage_of(registry_core& r, batch_id top);
    TENURE_DECL static tenure::snapshot      snapshot_of(registry_core& r);
    TENURE_DECL static tenure::snapshot      snapshot_of(registry_core& r, batch_id top);
};

}  // namespace tenure::detail

#ifndef TENURE_SEPARATE
#include <tenure/impl/inspect.ipp>
#endif
