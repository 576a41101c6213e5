// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstdint>

#include <tenure/batch_scope.hpp>
#include <tenure/registry.hpp>

// Opt-in: the calls for all that a batch owns at once: keep_all(), clear(), and these with _but, of batch_scope;
// transfer_all() and clear() of registry. <tenure/tenure.hpp> has it.

namespace tenure::detail {

struct whole_batch_calls {
    TENURE_DECL static failure clear(lane& of, std::uint64_t id);
    TENURE_DECL static failure clear(registry_core& in, std::uint64_t id);
    TENURE_DECL static failure clear_but(lane& of, std::uint64_t id, all_handles staying);
    TENURE_DECL static failure give_all(lane& of, std::uint64_t id);
    TENURE_DECL static failure give_all_but(lane& of, std::uint64_t id, all_handles staying);
    TENURE_DECL static failure give_all(registry_core& in, std::uint64_t from, std::uint64_t to);
};

}  // namespace tenure::detail

#ifndef TENURE_SEPARATE
#include <tenure/impl/whole_batch.ipp>
#endif
