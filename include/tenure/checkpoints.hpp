// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstdint>

#include <tenure/batch.hpp>
#include <tenure/batch_scope.hpp>
#include <tenure/registry.hpp>

// Opt-in: checkpoint(), rollback() and commit() of batch_scope and registry. <tenure/tenure.hpp> has it.

namespace tenure::detail {

struct checkpoint_calls {
    TENURE_DECL static void take(lane& of, std::uint64_t id);
    TENURE_DECL static void take(registry& in, batch_id id);

    /// `back`: rolls back, else commits.
    TENURE_DECL static void end(lane& of, std::uint64_t id, bool back);
    TENURE_DECL static void end(registry& in, batch_id id, bool back);
};

}  // namespace tenure::detail

#ifndef TENURE_SEPARATE
#include <tenure/impl/checkpoints.ipp>
#endif
